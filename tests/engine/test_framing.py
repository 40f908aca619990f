"""Segments of PCM to numbered frames."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.audio import silence
from engine.framing import Framer
from engine.request import Frame


@given(
    st.lists(st.lists(st.integers(0, 40), min_size=1, max_size=4), max_size=5), st.integers(1, 12)
)
def test_frames_number_every_sample_once(segments: list[list[int]], size: int) -> None:
    framer = Framer(size)
    frames: list[Frame] = []
    starts = []
    for pieces in segments:
        starts.append(framer.sample)
        for samples in pieces:
            frames += framer.push(silence(samples))
        frames += framer.end_segment()
    frames.append(framer.last())

    assert [frame.seq for frame in frames] == list(range(len(frames)))
    position = 0
    for frame in frames:
        assert frame.sample == position
        position += frame.samples
    assert position == sum(map(sum, segments))
    assert [frame.first for frame in frames] == [True] + [False] * (len(frames) - 1)
    assert [frame.last for frame in frames] == [False] * (len(frames) - 1) + [True]

    filled = [start for start, pieces in zip(starts, segments, strict=True) if sum(pieces)]
    assert [frame.sample for frame in frames if frame.segment_first] == filled
    edges = {*filled, position}
    for frame in frames[:-1]:  # short only where a segment ends
        assert frame.samples == size or frame.sample + frame.samples in edges
        assert 0 < frame.samples <= size
