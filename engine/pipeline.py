"""The tasks of one utterance: segments -> phonemes -> audio -> events. Shell.

Each stage is an async generator over the stage before it and runs in a task of its own, with a
bounded channel between: while a segment is inferred, the next one becomes phonemes, and nothing
runs further ahead than that. An error travels down the channels like an item, so that what was
made before it is still delivered, and is raised at the far end. Leaving the context cancels all
stages and stops the model's current call.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from engine import metrics
from engine.audio import SAMPLE_RATE, is_audible, samples_to_ms, to_pcm
from engine.errors import EngineError, SynthesisFailed, blame
from engine.framing import Framer
from engine.metrics import Timeline
from engine.request import (
    Done,
    Event,
    Frame,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
)
from engine.text.languages import Language
from engine.text.segment import Segment, segments

log = structlog.get_logger("engine")

T = TypeVar("T")


class Voicing(Protocol):
    """What the stages need from the engine; each call may wait for its turn."""

    async def phonemes(self, text: str, language: Language) -> str:
        """Phonemes that the model knows; empty if there is nothing to speak."""
        ...

    def units(self, phonemes: str) -> list[str]:
        """Pieces that the model can take, in order."""
        ...

    async def infer(
        self, phonemes: str, voice: str, speed: float
    ) -> tuple[NDArray[np.float32], float]:
        """Audio of one unit, and the seconds that the model took without waiting for its turn."""
        ...


@dataclass(frozen=True, slots=True)
class Utterance:
    """A request with everything resolved."""

    request: SpeechRequest
    voice: str
    language: Language
    frame_samples: int


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A segment and its phonemes, which may be none."""

    segment: Segment
    phonemes: str


@dataclass(frozen=True, slots=True)
class _Audio:
    """PCM of one unit of a segment."""

    spoken: _Spoken
    pcm: bytes
    compute_ms: float
    first: bool
    final: bool


@dataclass(frozen=True, slots=True)
class _Failure:
    error: EngineError


@asynccontextmanager
async def run(utterance: Utterance, voicing: Voicing) -> AsyncIterator[AsyncIterator[Event]]:
    """Runs the stages; yields the events of the stream, to be read to their end or left.

    Raises (from the iterator):
        EngineError: what a stage failed with.
    """
    timeline = Timeline(trio.current_time())
    raised: Exception | None = None
    async with trio.open_nursery() as nursery:

        def stage(work: AsyncGenerator[T], ahead: int) -> AsyncGenerator[T]:
            send, receive = trio.open_memory_channel[T | _Failure](ahead)
            nursery.start_soon(_work, work, send)
            return _items(receive)

        cut = stage(_segments(utterance), 0)
        spoken = stage(_phonemes(cut, utterance, voicing, timeline), 1)
        audio = stage(_infer(spoken, utterance, voicing, timeline), 1)
        async with aclosing(stage(_events(audio, utterance, timeline), 0)) as events:
            try:
                yield events
            except Exception as error:
                # The stages never raise, so this is the only one: out of the nursery it must come
                # as itself and not in a group.
                raised = error
        nursery.cancel_scope.cancel()
    if raised is not None:
        raise raised


async def _work(work: AsyncGenerator[T], send: trio.MemorySendChannel[T | _Failure]) -> None:
    async with send, aclosing(work) as items:
        try:
            async for item in items:
                await send.send(item)
        except EngineError as error:
            await send.send(_Failure(error))
        except trio.BrokenResourceError:
            pass  # the next stage has failed and says so itself
        except Exception as error:
            log.error("stage crashed", error=blame(error))
            await send.send(_Failure(SynthesisFailed("The engine failed on a part of the text.")))


async def _items(receive: trio.MemoryReceiveChannel[T | _Failure]) -> AsyncGenerator[T]:
    async with receive:
        async for item in receive:
            if isinstance(item, _Failure):
                raise item.error
            yield item


async def _segments(utterance: Utterance) -> AsyncGenerator[Segment]:
    for segment in segments(utterance.request.text, utterance.language.sentences):
        yield segment


async def _phonemes(
    cut: AsyncGenerator[Segment], utterance: Utterance, voicing: Voicing, timeline: Timeline
) -> AsyncGenerator[_Spoken]:
    async with aclosing(cut):
        async for segment in cut:
            phonemes = await voicing.phonemes(segment.text, utterance.language)
            timeline.phonemes(trio.current_time())
            yield _Spoken(segment, phonemes)


async def _infer(
    spoken: AsyncGenerator[_Spoken], utterance: Utterance, voicing: Voicing, timeline: Timeline
) -> AsyncGenerator[_Audio | _Spoken]:
    """Audio, unit by unit; a segment with nothing to speak is passed on as it is."""
    async with aclosing(spoken):
        async for item in spoken:
            units = voicing.units(item.phonemes)
            if not units:
                yield item
            for number, unit in enumerate(units, 1):
                audio, compute_s = await voicing.infer(
                    unit, utterance.voice, utterance.request.speed
                )
                timeline.inferred(trio.current_time())
                yield _Audio(
                    spoken=item,
                    pcm=to_pcm(audio),
                    compute_ms=compute_s * 1000,
                    first=number == 1,
                    final=number == len(units),
                )


async def _events(
    audio: AsyncGenerator[_Audio | _Spoken], utterance: Utterance, timeline: Timeline
) -> AsyncGenerator[Event]:
    request = utterance.request
    yield Opened(
        voice=utterance.voice, lang=utterance.language.tag, speed=request.speed, key=request.key
    )
    framer = Framer(utterance.frame_samples)
    index, began, compute_ms = 0, 0, 0.0
    async with aclosing(audio):
        async for item in audio:
            if isinstance(item, _Spoken):
                yield _skipped(item.segment)
                continue
            if item.first:
                began, compute_ms = framer.sample, 0.0
                yield _start(item.spoken, index, began)
            compute_ms += item.compute_ms
            frames = [*framer.push(item.pcm), *(framer.end_segment() if item.final else ())]
            for frame in frames:
                _note_sound(frame, timeline)
                yield frame
            if item.final:
                samples = framer.sample - began
                metrics.AUDIO_SECONDS.inc(samples / SAMPLE_RATE)
                metrics.COMPUTE_SECONDS.inc(compute_ms / 1000)
                yield SegmentDone(index=index, samples=samples, compute_ms=round(compute_ms, 1))
                index += 1
    if not index:
        yield Notice(code="nothing_to_speak", message="The text holds nothing that can be spoken.")
    yield framer.last()
    log.debug("spoken", chars=len(request.text), segments=index, **timeline.as_ms())
    yield Done(
        samples=framer.sample,
        audio_ms=samples_to_ms(framer.sample),
        chars=len(request.text),
        segments=index,
        ttfa_ms=timeline.ttfa_ms,
    )


def _start(spoken: _Spoken, index: int, sample: int) -> SegmentStart:
    return SegmentStart(
        index=index,
        text=spoken.segment.text,
        char_start=spoken.segment.start,
        char_end=spoken.segment.end,
        sample=sample,
        phonemes=spoken.phonemes,
    )


def _skipped(segment: Segment) -> Notice:
    return Notice(
        code="segment_skipped",
        message=f"Characters {segment.start} to {segment.end} hold nothing that can be spoken.",
    )


def _note_sound(frame: Frame, timeline: Timeline) -> None:
    if timeline.first_audio_s is None and is_audible(frame.pcm):
        now = trio.current_time()
        timeline.first_audio(now)
        metrics.FIRST_AUDIO.observe(now - timeline.text_in_s)
