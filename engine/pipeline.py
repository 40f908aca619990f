"""The tasks of one utterance: passages -> segments -> speech -> audio -> events. Shell.

Each stage is an async generator over the stage before it and runs in a task of its own, with a
bounded channel between: while a segment is decoded, the next one has its acoustic pass and the one
after that becomes phonemes, and nothing runs further ahead than that. An error travels down the
channels like an item, so that what was made before it is still delivered, and is raised at the far
end. Leaving the context cancels all stages and stops the model's current call.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import structlog
import trio
from msgspec.structs import replace

from engine import metrics, timing
from engine.audio import (
    SAMPLE_RATE,
    is_audible,
    ms_to_samples,
    pcm_samples,
    samples_to_ms,
    silence,
)
from engine.errors import EngineError, SynthesisFailed, blame
from engine.framing import Framer
from engine.lane import Pace
from engine.live import Flush, TextFeed
from engine.metrics import Timeline
from engine.request import (
    Boundary,
    Done,
    Event,
    Flushed,
    Frame,
    Marks,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    WordMark,
)
from engine.text.passage import Passage
from engine.text.reader import Reader
from engine.text.segment import Mark, Segment, Segmenter, divided
from engine.utterance import Manner, Speech, Utterance, Voicing

log = structlog.get_logger("engine")

T = TypeVar("T")

#: Seconds before the listener has heard all there is, at which text that has waited too long for
#: the rest of its sentence is spoken as it is: what a segment takes, on a slow machine.
_REACTION_S = 1.0
#: and how often it is looked at at most, where that is.
_LOOK_S = 0.05

_BOUNDARIES: dict[Mark, Boundary] = {
    Mark.NONE: "none",
    Mark.COMMA: "comma",
    Mark.CLAUSE: "clause",
    Mark.SENTENCE: "sentence",
    Mark.PARAGRAPH: "paragraph",
}


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A segment with its speech; None if there is nothing to speak."""

    segment: Segment
    speech: Speech | None
    pause: int


@dataclass(frozen=True, slots=True)
class _Audio:
    """PCM of a segment: first the pause before it, last nothing."""

    spoken: _Spoken
    pcm: bytes
    compute_ms: float
    start: int | None = None
    first: bool = False
    final: bool = False


@dataclass(frozen=True, slots=True)
class _Failure:
    error: EngineError


class Running:
    """The events of a stream, to be read to their end or left.

    Args:
        events: of it.
        supply: of its listener.
    """

    def __init__(self, events: AsyncIterator[Event], supply: _Supply) -> None:
        self._events = events
        self._supply = supply

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    def heard(self, sample: int, playing: bool) -> None:
        """See `engine.request.Stream`."""
        self._supply.heard(sample, playing=playing)


@asynccontextmanager
async def run(utterance: Utterance, voicing: Voicing) -> AsyncIterator[Running]:
    """Runs the stages; yields what the listener has of the stream.

    Raises (from the iterator):
        EngineError: what a stage failed with.
    """
    timeline = Timeline(trio.current_time())
    pace = Pace(trio.current_time(), utterance.budget_s)
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:

        def stage(work: AsyncGenerator[T], ahead: int) -> AsyncGenerator[T]:
            send, receive = trio.open_memory_channel[T | _Failure](ahead)
            nursery.start_soon(_work, work, send)
            return _items(receive)

        supply = _Supply(pace, wanted=not utterance.batch)
        cut = stage(_segments(utterance, voicing, pace, timeline), 1)
        spoken = stage(_speech(cut, utterance, voicing, supply), 1)
        audio = stage(_decode(spoken, utterance, voicing, supply, timeline), 1)
        async with aclosing(stage(_events(audio, utterance, timeline), 0)) as events:
            try:
                yield Running(events, supply)
            except Exception as error:
                # The stages never raise, so this is the only one: out of the nursery it must come
                # as itself and not in a group.
                raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised


class _Supply:
    """What the listener has in hand, and so when the next segment is prepared, and how long it is.

    A pass over a segment is the longest turn in the lane, and nobody else may ask for the lane in
    the moment between two windows: so it would come between the first two, and the listener would
    hear a tenth of a second and then wait.

    Args:
        pace: of the stream.
        wanted: whether somebody listens.
    """

    def __init__(self, pace: Pace, *, wanted: bool) -> None:
        self.pace = pace
        self._wanted = wanted
        self._begun = False
        self._decoding = 0  # segments that were prepared and are not decoded yet
        self._changed = trio.lowlevel.ParkingLot()

    async def room(self, phonemes: int, reach: Callable[[float, bool], int]) -> int:
        """How many of the phonemes that come next may be one segment.

        Waits until that is all of them, or there is nothing left to decode: then what is in hand
        only gets less. For the first segment nobody has anything in hand.

        Args:
            phonemes: how many there are.
            reach: gives for a lead in seconds how many are in time; if none are, 0, or, if they may
                be late, as many as are least so.
        """
        while self._wanted and self._begun:
            alone = not self._decoding
            reached = reach(self.pace.lead_s(trio.current_time()), alone)
            if alone or reached >= phonemes:
                return reached or phonemes
            await self._changed.park()
        return phonemes

    def prepared(self) -> None:
        """A segment is ready to be decoded."""
        self._begun = True
        self._decoding += 1

    def decoded(self) -> None:
        """A segment is decoded."""
        self._decoding -= 1
        self._changed.unpark_all()

    def made(self, samples: int) -> None:
        """More is in hand."""
        self.pace.made(trio.current_time(), samples)
        self._changed.unpark_all()

    def heard(self, sample: int, *, playing: bool) -> None:
        """The listener tells where he is."""
        if not self.pace.heard(trio.current_time(), sample, playing=playing):
            log.warning("a listener tells of what was not made", sample=sample)
        self._changed.unpark_all()


async def _work(work: AsyncGenerator[T], send: trio.MemorySendChannel[T | _Failure]) -> None:
    # Broken means: the next stage has failed and says so itself.
    async with send, aclosing(work) as items:
        with suppress(trio.BrokenResourceError):
            try:
                async for item in items:
                    await send.send(item)
            except EngineError as error:
                await send.send(_Failure(error))
            except trio.BrokenResourceError:
                raise
            except Exception as error:
                log.error("stage crashed", error=blame(error))
                failed = SynthesisFailed("The engine failed on a part of the text.")
                await send.send(_Failure(failed))


async def _items(receive: trio.MemoryReceiveChannel[T | _Failure]) -> AsyncGenerator[T]:
    async with receive:
        async for item in receive:
            if isinstance(item, _Failure):
                raise item.error
            yield item


async def _segments(
    utterance: Utterance, voicing: Voicing, pace: Pace, timeline: Timeline
) -> AsyncGenerator[Segment | Flushed]:
    feed = utterance.feed
    live = not feed.ended
    reader = Reader(utterance.language.sentences, utterance.request.options)
    segmenter = Segmenter(utterance.first_segment)
    text = ""
    waits_since_s: float | None = None  # for the rest of a sentence
    began = False
    while True:
        item = await _receive(utterance, pace, waits_since_s)
        read: Callable[[], list[Passage]]
        match item:
            case str():
                text += item
                read = partial(reader.push, item)
                if live and not began:  # so far nobody has waited for us
                    pace.restart(trio.current_time())
                    timeline.restart(trio.current_time())
            case Flush():
                read = reader.flush
            case _Waited():
                read = reader.settle
            case None:
                read = reader.end
        passages = await voicing.passages(read)
        for passage in passages:
            reading = await voicing.read(passage, utterance)
            timeline.phonemes(trio.current_time())
            for segment in segmenter.push(passage, reading.words, reading.warnings, text):
                began = True
                yield segment
        if not isinstance(item, str):
            for segment in segmenter.flush():
                began = True
                yield segment
        if isinstance(item, Flush):
            yield Flushed(flush_id=item.flush_id)
        if item is None:
            return
        if isinstance(item, _Waited) or not (reader.holds or segmenter.holds):
            waits_since_s = None  # until there is more text
        elif passages or waits_since_s is None:
            waits_since_s = trio.current_time()


class _Waited:
    """Text has waited for too long."""


async def _receive(
    utterance: Utterance, pace: Pace, waits_since_s: float | None
) -> str | Flush | _Waited | None:
    """What comes next; or that what is held should wait no longer for it."""
    while True:
        if utterance.feed.ready:  # what is here has not waited
            return await utterance.feed.receive()
        until_s = math.inf
        if waits_since_s is not None:
            until_s = waits_since_s + utterance.max_buffer_delay_s
            # Who still has something to hear loses nothing by waiting for the whole sentence.
            now_s = trio.current_time()
            until_s = max(until_s, pace.next_due_s(now_s) - _REACTION_S)
            if now_s >= until_s:
                return _Waited()
            # He may stand still just before it is time, again and again.
            until_s = max(until_s, now_s + _LOOK_S)
        with trio.move_on_at(until_s):
            return await utterance.feed.receive()


async def _speech(
    cut: AsyncGenerator[Segment | Flushed], utterance: Utterance, voicing: Voicing, supply: _Supply
) -> AsyncGenerator[_Spoken | Flushed]:
    request, pace = utterance.request, supply.pace
    async with aclosing(cut):
        async for segment in cut:
            if isinstance(segment, Flushed):
                yield segment
                continue
            rest: Segment | None = segment
            while rest is not None:
                segment, rest = await _in_time(rest, utterance.manner, voicing, supply)
                asked = ms_to_samples(segment.silence_ms)
                if not segment.phonemes:
                    yield _Spoken(segment, None, asked)
                    continue
                voice, speed = utterance.manner.voice, utterance.manner.speed
                speech = await voicing.prepare(
                    segment.phonemes, voice, speed, pace, batch=utterance.batch
                )
                scale = request.options.pause_scale
                pause = max(asked, timing.pause_samples(segment.pause, speed, scale))
                pace.planned(pause + speech.samples)
                supply.prepared()
                yield _Spoken(segment, speech, pause)


async def _in_time(
    segment: Segment, manner: Manner, voicing: Voicing, supply: _Supply
) -> tuple[Segment, Segment | None]:
    """As much of a segment as is in time, when it is time for it; and the rest of it."""
    phonemes = segment.phonemes
    if not phonemes:
        return segment, None

    def reach(lead_s: float, late: bool) -> int:
        return voicing.reach(phonemes, manner.voice, manner.speed, lead_s, late=late)

    return divided(segment, await supply.room(len(phonemes), reach))


async def _decode(
    spoken: AsyncGenerator[_Spoken | Flushed],
    utterance: Utterance,
    voicing: Voicing,
    supply: _Supply,
    timeline: Timeline,
) -> AsyncGenerator[_Audio | _Spoken | Flushed]:
    """Audio, piece by piece; what brings no audio is passed on as it is."""
    async with aclosing(spoken):
        async for item in spoken:
            if isinstance(item, Flushed):
                yield item
                continue
            if item.pause:  # else the stream's first piece would not be due at once
                supply.made(item.pause)
            if item.speech is None:
                if item.pause:
                    yield _Audio(item, silence(item.pause), 0.0, first=True)
                    yield _Audio(item, b"", 0.0, final=True)
                else:
                    yield item
                continue
            rest = item.speech.samples
            yield _Audio(item, silence(item.pause), item.speech.compute_s * 1000, first=True)
            pieces = voicing.pieces(item.speech, supply.pace, batch=utterance.batch)
            async with aclosing(pieces) as made:
                async for piece in made:
                    timeline.inferred(trio.current_time())
                    supply.made(pcm_samples(piece.pcm))
                    rest -= pcm_samples(piece.pcm)
                    yield _Audio(item, piece.pcm, piece.compute_s * 1000, piece.start)
            supply.pace.planned(-rest)  # it was trimmed
            supply.decoded()
            yield _Audio(item, b"", 0.0, final=True)


async def _events(
    audio: AsyncGenerator[_Audio | _Spoken | Flushed], utterance: Utterance, timeline: Timeline
) -> AsyncGenerator[Event]:
    request, manner, feed = utterance.request, utterance.manner, utterance.feed
    yield Opened(
        voice=manner.voice, lang=utterance.language.tag, speed=manner.speed, key=request.key
    )
    for notice in utterance.notices:
        yield notice
    framer = Framer(utterance.frame_samples)
    index, began, compute_ms, cached = 0, 0, 0.0, False
    told = False  # where the words of this segment are
    spoke = False
    async with aclosing(audio):
        async for item in audio:
            if isinstance(item, Flushed):
                yield item
                continue
            if isinstance(item, _Spoken):
                for notice in _notices(item.segment):
                    yield notice
                continue
            if item.first:
                for notice in _notices(item.spoken.segment):
                    yield notice
                spoke = spoke or item.spoken.speech is not None
                began, compute_ms, told = framer.sample, 0.0, not request.marks
                yield _start(item.spoken, index, began, phonemes=request.phonemes)
            if item.start is not None and not told:
                marks = _marks(item.spoken, index, began + item.spoken.pause, item.start)
                yield marks if request.phonemes else replace(marks, phonemes=())
                told = True
            compute_ms += item.compute_ms
            frames = [*framer.push(item.pcm), *(framer.end_segment() if item.final else ())]
            for frame in frames:
                _note_sound(frame, timeline)
                yield frame
            if item.final:
                samples = framer.sample - began
                cached = cached or _was_there(item.spoken)
                metrics.AUDIO_SECONDS.inc(samples / SAMPLE_RATE)
                metrics.COMPUTE_SECONDS.inc(compute_ms / 1000)
                yield SegmentDone(
                    index=index,
                    samples=samples,
                    compute_ms=round(compute_ms, 1),
                    predicted_ms_left=_predicted_ms(feed, item.spoken.segment.end, framer.sample),
                )
                index += 1
    if not spoke:
        yield Notice(code="nothing_to_speak", message="The text holds nothing that can be spoken.")
    yield framer.last()
    if timeline.ttfa_ms is not None:
        metrics.FIRST_AUDIO.labels("yes" if cached else "no").observe(timeline.ttfa_ms / 1000)
    log.debug("spoken", chars=feed.chars, segments=index, cached=cached, **timeline.as_ms())
    yield Done(
        samples=framer.sample,
        audio_ms=samples_to_ms(framer.sample),
        chars=feed.chars,
        segments=index,
        ttfa_ms=timeline.ttfa_ms,
        cached=cached,
    )


def _was_there(spoken: _Spoken) -> bool:
    return spoken.speech is not None and spoken.speech.pcm is not None


def _predicted_ms(feed: TextFeed, chars: int, samples: int) -> float | None:
    """How much is to come behind so many characters and samples, if all the text is known."""
    if not feed.ended or not chars:
        return None
    return round(samples_to_ms(samples) * (feed.chars - chars) / chars, 1)


def _start(spoken: _Spoken, index: int, sample: int, *, phonemes: bool) -> SegmentStart:
    return SegmentStart(
        index=index,
        text=spoken.segment.text,
        char_start=spoken.segment.start,
        char_end=spoken.segment.end,
        sample=sample,
        phonemes=spoken.segment.phonemes if phonemes else None,
        predicted_samples=spoken.pause + (spoken.speech.samples if spoken.speech else 0),
        pause=_BOUNDARIES.get(spoken.segment.pause),
        cached=_was_there(spoken),
    )


def _marks(spoken: _Spoken, index: int, sample: int, start: int) -> Marks:
    """Where the segment's words and phonemes are.

    Args:
        spoken: the segment.
        index: its number.
        sample: of the stream, at which its trimmed audio begins.
        start: sample of the uncut audio that it begins with.
    """
    speech = spoken.speech
    assert speech is not None  # only what is spoken has audio
    kept = (start, min(speech.span[1], start + speech.samples))
    words = timing.word_samples(spoken.segment.words, speech.durations, kept)
    phonemes = np.clip(timing.phoneme_samples(speech.durations)[:, 0], *kept) - start
    return Marks(
        index=index,
        words=tuple(
            WordMark(
                char_start=word.char_start,
                char_end=word.char_end,
                sample=sample + first,
                samples=stop - first,
            )
            for word, (first, stop) in zip(spoken.segment.words, words, strict=True)
        ),
        phonemes=tuple(sample + int(at) for at in phonemes),
    )


def _notices(segment: Segment) -> Iterator[Notice]:
    for code, start, end, message in segment.warnings:
        yield Notice(code=code, message=message, char_start=start, char_end=end)


def _note_sound(frame: Frame, timeline: Timeline) -> None:
    if timeline.first_audio_s is None and is_audible(frame.pcm):
        timeline.first_audio(trio.current_time())
