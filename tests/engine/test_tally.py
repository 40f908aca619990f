"""What streams took: the last of them, cold and warm."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.report import Latencies, Latency
from engine.request import Done, Frame, SegmentDone
from engine.tally import KEPT, Durations, StreamTally, Tally

SILENT = bytes(2400)
LOUD = np.full(1200, 8000, "<i2").tobytes()


def frame(pcm: bytes) -> Frame:
    return Frame(seq=0, sample=0, pcm=pcm)


def segment(compute_ms: float) -> SegmentDone:
    return SegmentDone(index=0, samples=24_000, compute_ms=compute_ms)


def done(ttfa_ms: float | None) -> Done:
    return Done(samples=0, audio_ms=0, chars=1, segments=1, ttfa_ms=ttfa_ms, cached=True)


def test_quantiles_are_those_of_the_last_ones() -> None:
    durations, rng = Durations(), random.Random(3)
    assert durations.latency is None
    values = [rng.expovariate(0.01) for _ in range(3 * KEPT)]
    for value in values:
        durations.add(value)
    last = sorted(values[-KEPT:])
    latency = durations.latency
    assert latency is not None
    assert latency.count == KEPT
    assert last[KEPT // 2 - 1] - 0.1 <= latency.p50_ms <= last[KEPT // 2] + 0.1
    above = sum(value > latency.p95_ms for value in last)
    assert KEPT // 20 - 1 <= above <= KEPT // 20 + 1


def test_one_time_is_all_quantiles() -> None:
    durations = Durations()
    durations.add(12.34)
    assert durations.latency == Latency(count=1, p50_ms=12.3, p95_ms=12.3)


def test_first_byte_and_first_sound_of_a_stream() -> None:
    tally = Tally()
    stream = StreamTally(tally)
    for now_s, event in (
        (10.0, frame(b"")),
        (10.2, frame(SILENT)),
        (10.25, frame(SILENT)),
        (10.3, frame(LOUD)),
        (10.4, frame(SILENT)),
        (10.4, segment(100.0)),
        (10.5, done(250.0)),
    ):
        stream.saw(event, now_s)
    assert tally.first_audible.latencies.cold == Latency(count=1, p50_ms=250.0, p95_ms=250.0)
    assert tally.first_byte.latencies.cold == Latency(count=1, p50_ms=150.0, p95_ms=150.0)
    assert tally.first_byte.latencies.warm is None


def test_who_waited_for_the_cache_is_counted_apart() -> None:
    tally = Tally()
    for ttfa_ms, compute_ms in ((300.0, 100.0), (4.0, 0.0), (6.0, 0.0)):
        stream = StreamTally(tally)
        stream.saw(segment(0.0), 0.0)  # a pause
        stream.saw(frame(LOUD), 0.0)
        stream.saw(segment(compute_ms), 0.5)
        stream.saw(segment(100.0 - compute_ms), 0.6)  # which nobody waited for
        stream.saw(done(ttfa_ms), 1.0)
    found = tally.first_audible.latencies
    assert (found.cold and found.cold.count, found.warm and found.warm.p50_ms) == (1, 5.0)


def test_who_hears_nothing_waited_for_nothing() -> None:
    tally = Tally()
    for events in ([frame(SILENT), done(None)], [frame(LOUD)], []):
        stream = StreamTally(tally)
        for event in events:
            stream.saw(event, 0.0)
    assert tally.first_audible.latencies == tally.first_byte.latencies == Latencies()


@pytest.mark.parametrize("kept", [0, 5])
def test_rtf_is_of_what_was_made(kept: int) -> None:
    tally = Tally()
    stream = StreamTally(tally)
    assert tally.rtf is None
    for compute_ms in (500.0, 100.0, *[0.0] * kept):
        stream.saw(segment(compute_ms), 0.0)
    assert tally.rtf == 0.3
