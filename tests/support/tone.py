"""The fake voice: a tone a word, made in no time or at a chosen pace. For protocol and load tests.

It implements `engine.request.Speak` and `Describe` and passes the same contract test as the real
ones (`tests/test_speak_contract.py`), so a test that uses it tests real behaviour of the rest.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import numpy as np
import trio

from engine.audio import SAMPLE_RATE, PcmCutter, ms_to_samples, to_pcm
from engine.errors import EngineError, InvalidRequest, UnknownVoice
from engine.request import (
    Done,
    Event,
    Frame,
    Marks,
    ModelInfo,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
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
        self.active = 0
        self.segments_made = 0

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        """See `Speak`."""
        voice = request.voice or "af_heart"
        known = {info.id: info.lang for info in self.voices}
        if voice not in known:
            raise UnknownVoice(f"There is no voice {voice!r}.", param="voice")
        if not request.text.strip():
            raise InvalidRequest("There is no text to speak.", param="text")
        self.active += 1
        try:
            async with aclosing(self._events(request, voice, known[voice])) as events:
                yield events
        finally:
            self.active -= 1

    async def _events(self, request: SpeechRequest, voice: str, lang: str) -> AsyncGenerator[Event]:
        speed = 1.0 if request.speed is None else request.speed
        yield Opened(voice=voice, lang=lang, speed=speed, key=request.key)
        cutter = PcmCutter(ms_to_samples(50))
        seq = sample = index = 0
        ttfa_ms: float | None = None
        began = trio.current_time()
        for index, match in enumerate(re.finditer(r"[^\s.!?][^.!?]*[.!?]*", request.text)):
            if index == self.fail_at and self.failure is not None:
                raise self.failure
            words = len(match[0].split())
            length = ms_to_samples(words * WORD_MS / speed)
            yield SegmentStart(
                index=index,
                text=match[0],
                char_start=match.start(),
                char_end=match.end(),
                sample=sample,
            )
            if request.marks:
                yield Marks(index=index, words=_marks(match, sample, length), phonemes=())
            await trio.sleep(self.rtf * length / SAMPLE_RATE)
            self.segments_made += 1
            time = np.arange(sample, sample + length) / SAMPLE_RATE
            pcm = to_pcm((0.3 * np.sin(2 * np.pi * 440 * time)).astype(np.float32))
            first_of_segment = True
            for piece in (*cutter.push(pcm), cutter.rest()):
                if not piece:
                    continue
                if ttfa_ms is None:
                    ttfa_ms = (trio.current_time() - began) * 1000
                frame = Frame(
                    seq=seq,
                    sample=sample,
                    pcm=piece,
                    first=seq == 0,
                    segment_first=first_of_segment,
                )
                first_of_segment = False
                yield frame
                seq, sample = seq + 1, sample + frame.samples
            yield SegmentDone(index=index, samples=length, compute_ms=self.rtf * length / 24)
        yield Frame(seq=seq, sample=sample, pcm=b"", first=seq == 0, last=True)
        yield Done(
            samples=sample,
            audio_ms=sample / 24,
            chars=len(request.text),
            segments=index + 1,
            ttfa_ms=ttfa_ms,
        )


def _marks(segment: re.Match[str], sample: int, length: int) -> tuple[WordMark, ...]:
    """Words of a segment of `length` samples; all are equally long, and have no phonemes."""
    words = list(re.finditer(r"\S+", segment[0]))
    edges = [sample + length * n // len(words) for n in range(len(words) + 1)]
    return tuple(
        WordMark(
            char_start=segment.start() + word.start(),
            char_end=segment.start() + word.end(),
            sample=start,
            samples=stop - start,
        )
        for word, start, stop in zip(words, edges, edges[1:], strict=False)
    )
