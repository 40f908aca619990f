"""What speech took, of the last few hundred streams and segments. Core.

Times come in as arguments. Memory is bounded: old numbers make room for new ones.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from engine.audio import is_audible, samples_to_ms
from engine.report import Latencies, Latency
from engine.request import Done, Event, Frame, SegmentDone

#: how many streams of each kind, and how many segments, are remembered
KEPT = 512


class Durations:
    """The last `KEPT` of some times."""

    def __init__(self) -> None:
        self._ms: deque[float] = deque(maxlen=KEPT)

    def add(self, ms: float) -> None:
        """One more."""
        self._ms.append(ms)

    @property
    def latency(self) -> Latency | None:
        """What they are; None if there are none."""
        if not self._ms:
            return None
        p50, p95 = (round(float(q), 1) for q in np.percentile(self._ms, (50, 95)))
        return Latency(count=len(self._ms), p50_ms=p50, p95_ms=p95)


class Waits:
    """How long listeners waited for something, by whether it came out of the cache."""

    def __init__(self) -> None:
        self._cold, self._warm = Durations(), Durations()

    def add(self, ms: float, *, cached: bool) -> None:
        """One more."""
        (self._warm if cached else self._cold).add(ms)

    @property
    def latencies(self) -> Latencies:
        """What they are."""
        return Latencies(cold=self._cold.latency, warm=self._warm.latency)


class Tally:
    """What all streams took.

    Attributes:
        first_byte: request to first frame; if the text comes in pieces, from the one that
            completed the first segment.
        first_audible: the same, to the first frame with sound in it.
    """

    def __init__(self) -> None:
        self.first_byte = Waits()
        self.first_audible = Waits()
        self._segments: deque[tuple[float, float]] = deque(maxlen=KEPT)

    def made(self, compute_ms: float, audio_ms: float) -> None:
        """A segment was made."""
        self._segments.append((compute_ms, audio_ms))

    @property
    def rtf(self) -> float | None:
        """Computing per audio; None before anything was made."""
        audio_ms = sum(audio for _, audio in self._segments)
        if not audio_ms:
            return None
        return round(sum(compute for compute, _ in self._segments) / audio_ms, 3)


class StreamTally:
    """What one stream takes: show it each event as it leaves.

    Only streams that come to their end count: who is interrupted may not have waited at all.

    Args:
        tally: which it counts in.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._first_s: float | None = None
        self._audible_s: float | None = None
        self._cached: bool | None = None  # whether the segment was, in which sound began

    def saw(self, event: Event, now_s: float) -> None:
        """An event leaves."""
        match event:
            case Frame() if self._audible_s is None and event.pcm:
                self._first_s = now_s if self._first_s is None else self._first_s
                self._audible_s = now_s if is_audible(event.pcm) else None
            case SegmentDone():
                if self._cached is None and self._audible_s is not None:
                    self._cached = not event.compute_ms
                if event.compute_ms:  # else it was kept, or is a pause
                    self._tally.made(event.compute_ms, samples_to_ms(event.samples))
            case Done(ttfa_ms=float(ttfa_ms)):
                self._done(ttfa_ms, cached=bool(self._cached))
            case _:
                pass

    def _done(self, ttfa_ms: float, *, cached: bool) -> None:
        self._tally.first_audible.add(ttfa_ms, cached=cached)
        if self._first_s is not None and self._audible_s is not None:
            silent_ms = (self._audible_s - self._first_s) * 1000
            self._tally.first_byte.add(max(0.0, ttfa_ms - silent_ms), cached=cached)
