"""Reads a stream to its end, and checks it against the rules of `engine.request`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.audio import from_pcm, is_audible, ms_to_samples
from engine.request import (
    Done,
    Event,
    Frame,
    Marks,
    Opened,
    SegmentDone,
    SegmentStart,
    Speak,
    SpeechRequest,
)

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Heard:
    """All events of a stream, in order."""

    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def pcm(self) -> bytes:
        """All samples, as bytes."""
        return b"".join(frame.pcm for frame in self.of(Frame))

    @property
    def audio(self) -> NDArray[np.float32]:
        """All samples, float32 [n] in -1…1."""
        return from_pcm(self.pcm)

    @property
    def done(self) -> Done:
        """The last event."""
        (done,) = self.of(Done)
        return done


async def hear(speak: Speak, request: SpeechRequest) -> Heard:
    """Speaks and listens to the end."""
    heard = Heard()
    async with speak(request) as events:
        async for event in events:
            heard.events.append(event)
    return heard


def check_stream(heard: Heard, request: SpeechRequest) -> None:
    """Rules 1 to 4 of the port, for a stream that was read to its end."""
    events, text = heard.events, request.text
    assert isinstance(events[0], Opened)
    assert isinstance(events[-1], Done)
    assert len(heard.of(Opened)) == len(heard.of(Done)) == 1

    frames = heard.of(Frame)
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    assert all(a.sample + a.samples == b.sample for a, b in pairwise(frames))
    assert [frame.first for frame in frames] == [n == 0 for n in range(len(frames))]
    assert [frame.last for frame in frames] == [n == len(frames) - 1 for n in range(len(frames))]
    assert not any(frame.discontinuity for frame in frames)

    starts, dones, done = heard.of(SegmentStart), heard.of(SegmentDone), heard.done
    assert [s.index for s in starts] == [d.index for d in dones] == list(range(done.segments))
    check_segments(events)
    assert sum(d.samples for d in dones) == done.samples == frames[-1].sample
    assert done.audio_ms == pytest.approx(done.samples / 24)
    assert done.chars == len(text)
    assert (done.ttfa_ms is None) == (not is_audible(heard.pcm))

    for start in starts:
        assert start.text == text[start.char_start : start.char_end] != ""
    assert all(a.char_end <= b.char_start for a, b in pairwise(starts))
    boundaries = {start.sample for start in starts} | {done.samples}
    for frame in frames:
        inside = {b for b in boundaries if frame.sample < b < frame.sample + frame.samples}
        assert not inside, "a frame holds samples of two segments"
        assert frame.samples == 1200 or frame.sample + frame.samples in boundaries
    check_marks(heard, request)


def check_segments(events: list[Event]) -> None:
    """A start, its frames, its end; then the next. Only the empty last frame stands outside."""
    inside: SegmentStart | None = None
    for event in events:
        match event:
            case SegmentStart():
                assert inside is None
                inside = event
                expected_first, told, sounded = True, False, False
            case Marks():
                assert inside is not None
                assert event.index == inside.index
                assert not told
                assert not sounded, "marks come before the first sound"
                told = True
            case Frame() if event.samples:
                assert inside is not None
                assert event.segment_first is expected_first
                assert not expected_first or event.sample == inside.sample
                expected_first = False
                sounded = sounded or is_audible(event.pcm)
            case SegmentDone():
                assert inside is not None
                assert event.index == inside.index
                inside = None
            case _:
                pass
    assert inside is None


def check_marks(heard: Heard, request: SpeechRequest) -> None:
    """Marks of every segment that sounds, if they were asked for; and where they may be."""
    starts = {start.index: start for start in heard.of(SegmentStart)}
    ends = {d.index: starts[d.index].sample + d.samples for d in heard.of(SegmentDone)}
    audio, marks = heard.audio, heard.of(Marks)
    # Marks are told before the first sound, so where the last word ends is foreseen and not known:
    # what `timing.spoken_span` takes for sound, less what `timing.Trimmer` keeps in any case.
    (opened,) = heard.of(Opened)
    foreseen = ms_to_samples(270 / min(opened.speed, 1.0) + 200 - 20)
    sounding = {i for i, s in starts.items() if is_loud(audio[s.sample : ends[i]])}
    told = [mark.index for mark in marks]
    assert len(told) == len(set(told))
    assert sounding <= set(told) if request.marks else not told
    for mark in marks:
        start, end = starts[mark.index], ends[mark.index]
        assert mark.words, "what sounds has a word"
        for word in mark.words:
            assert start.char_start <= word.char_start < word.char_end <= start.char_end
            assert any(c.isalnum() for c in request.text[word.char_start : word.char_end])
            assert start.sample <= word.sample < end
            assert 0 <= word.samples <= end + foreseen - word.sample
        for a, b in pairwise(mark.words):
            assert a.char_end <= b.char_start
            assert a.sample + a.samples <= b.sample
        assert len(mark.phonemes) == len(start.phonemes or "")
        assert all(a <= b for a, b in pairwise(mark.phonemes))
        for at in mark.phonemes:
            assert start.sample <= at <= end + foreseen


def is_loud(audio: NDArray[np.float32]) -> bool:
    """Whether there is sound, as the engine reckons it."""
    return bool(audio.size) and float(np.abs(audio).max()) > 0.003
