"""The fake voice: a tone a word, made in no time or at a chosen pace. For protocol and load tests.

It implements `engine.request.SpeakLive` and `engine.report.Manage` and passes the same contract test as the real
ones (`tests/test_speak_contract.py`), so a test that uses it tests real behaviour of the rest.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import numpy as np
import trio

from engine.audio import SAMPLE_RATE, ms_to_samples, to_pcm
from engine.errors import EngineError, InvalidRequest, UnknownVoice
from engine.framing import Framer
from engine.live import FedStream, Flush, TextFeed
from engine.report import CacheUse, Latencies, Report, Reset
from engine.request import (
    Done,
    Event,
    Flushed,
    LiveRequest,
    Marks,
    ModelInfo,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
    Stream,
    VoiceInfo,
    WordMark,
)

WORD_MS = 275  # not a multiple of 50 ms, so that the last frame of a segment is short


class ToneVoice:
    """Speaks each sentence as a segment, each word as 275 ms of 440 Hz.

    Args:
        rtf: computing takes this part of the audio's length, in the clock of the test.
        fail_at: index of the segment at which `failure` is raised.
        failure: what is raised there.

    Attributes:
        heard: what listeners told: (sample, whether it plays).
        resets: how often it was reset.
    """

    voices = (
        VoiceInfo(id="af_heart", name="Heart", lang="en-us"),
        VoiceInfo(id="bm_fable", name="Fable", lang="en-gb"),
    )
    voices_hash = "0" * 64
    model = ModelInfo(name="tone", build="0", precision="int16", provider="none")

    def __init__(
        self, *, rtf: float = 0.0, fail_at: int | None = None, failure: EngineError | None = None
    ) -> None:
        self.rtf = rtf
        self.fail_at = fail_at
        self.failure = failure
        self.text_chars = 16_000
        self.live_chars = 1_000_000
        self.active = 0
        self.segments_made = 0
        self.heard: list[tuple[int, bool]] = []
        self.resets = 0

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `SpeakLive`."""
        manner = _Manner(
            self._known(request.voice or "af_heart"),
            1.0 if request.speed is None else request.speed,
        )
        if isinstance(request, LiveRequest):
            feed = TextFeed(waiting_chars=self.text_chars, total_chars=self.live_chars)
        elif not request.text.strip():
            raise InvalidRequest("There is no text to speak.", param="text")
        else:
            feed = TextFeed.of(request.text)
        self.active += 1

        def configure(voice: str | None, speed: float | None) -> None:
            manner.voice = manner.voice if voice is None else self._known(voice)
            manner.speed = manner.speed if speed is None else speed

        try:
            async with aclosing(self._events(request, feed, manner)) as events:
                yield FedStream(events, feed, configure, lambda *told: self.heard.append(told))
        finally:
            self.active -= 1

    def report(self) -> Report:
        """See `Manage`."""
        return Report(
            state="busy" if self.active else "ready",
            versions={"tone": "1"},
            fallbacks=(),
            queue=0,
            quiet_s=0.0,
            stalls=0,
            cache=CacheUse(hits=0, misses=self.segments_made),
            first_byte=Latencies(),
            first_audible=Latencies(),
            model=self.model,
        )

    async def reset(self) -> Reset:
        """See `Manage`."""
        self.resets += 1
        return "cancelled"

    def _known(self, voice: str) -> str:
        if voice not in {info.id for info in self.voices}:
            raise UnknownVoice(f"There is no voice {voice!r}.", param="voice")
        return voice

    async def _events(
        self, request: SpeechRequest | LiveRequest, feed: TextFeed, manner: _Manner
    ) -> AsyncGenerator[Event]:
        lang = next(info.lang for info in self.voices if info.id == manner.voice)
        yield Opened(voice=manner.voice, lang=lang, speed=manner.speed, key=request.key)
        framer = Framer(ms_to_samples(50))
        index = 0
        ttfa_ms: float | None = None
        began = trio.current_time()
        async with aclosing(_sentences(request, feed)) as sentences:
            async for item in sentences:
                if isinstance(item, Flush):
                    yield Flushed(flush_id=item.flush_id)
                    continue
                start, text = item
                if index == self.fail_at and self.failure is not None:
                    raise self.failure
                length = ms_to_samples(len(text.split()) * WORD_MS / manner.speed)
                sample, end = framer.sample, start + len(text)
                yield SegmentStart(
                    index=index, text=text, char_start=start, char_end=end, sample=sample
                )
                if request.marks:
                    yield Marks(index=index, words=_marks(text, start, sample, length))
                await trio.sleep(self.rtf * length / SAMPLE_RATE)
                self.segments_made += 1
                time = np.arange(sample, sample + length) / SAMPLE_RATE
                pcm = to_pcm((0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32))
                for frame in (*framer.push(pcm), *framer.end_segment()):
                    if ttfa_ms is None:
                        ttfa_ms = (trio.current_time() - began) * 1000
                    yield frame
                yield SegmentDone(index=index, samples=length, compute_ms=self.rtf * length / 24)
                index += 1
        yield framer.last()
        yield Done(
            samples=framer.sample,
            audio_ms=framer.sample / 24,
            chars=feed.chars,
            segments=index,
            ttfa_ms=ttfa_ms,
        )


@dataclass(slots=True)
class _Manner:
    voice: str
    speed: float


async def _sentences(
    request: SpeechRequest | LiveRequest, feed: TextFeed
) -> AsyncGenerator[tuple[int, str] | Flush]:
    """Sentences with their places: each when the next one begins, or it is to be spoken now."""
    delay_s = request.max_buffer_delay_ms / 1000 if isinstance(request, LiveRequest) else math.inf
    start, held, tried = 0, "", False
    while True:
        item: str | Flush | None = None
        # Once: what is left then is half a word.
        with trio.move_on_after(delay_s if held.strip() and not tried else math.inf) as waited:
            item = await feed.receive()
        tried = waited.cancelled_caught
        held += item if isinstance(item, str) else ""
        complete = len(held)
        if waited.cancelled_caught:
            complete = held.rfind(" ") + 1
        elif isinstance(item, str):
            ends = [match.end() for match in re.finditer(r"[.!?]+(?=[^.!?])", held)]
            complete = ends[-1] if ends else 0
        for match in re.finditer(r"[^\s.!?][^.!?]*[.!?]*", held[:complete]):
            yield start + match.start(), match[0].rstrip()
        start, held = start + complete, held[complete:]
        if isinstance(item, Flush):
            yield item
        if item is None and not waited.cancelled_caught:
            return


def _marks(text: str, start: int, sample: int, length: int) -> tuple[WordMark, ...]:
    """Words of a segment of `length` samples; all are equally long, and have no phonemes."""
    words = list(re.finditer(r"\S+", text))
    edges = [sample + length * n // len(words) for n in range(len(words) + 1)]
    return tuple(
        WordMark(
            char_start=start + word.start(),
            char_end=start + word.end(),
            sample=first,
            samples=stop - first,
        )
        for word, first, stop in zip(words, edges, edges[1:], strict=False)
    )


def told(events: AsyncIterator[Event]) -> Stream:
    """A stream of these events, which takes no text."""
    return FedStream(events, TextFeed.of(""), lambda voice, speed: None, lambda *heard: None)
