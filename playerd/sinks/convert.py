"""From 24 kHz to the rate of a device, and back from its frames to our positions. Core.

One resampler runs for as long as samples follow each other: one for each piece would click at
every join. It is told only before silence that nothing follows, for what it gives then ends there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Any

import numpy as np
import soxr

from engine.audio import PCM_DTYPE, SAMPLE_RATE, pcm_samples

#: So many pieces of speech with silence between are told apart; older ones have left the device.
ENDS_KEPT = 64


class Converter:
    """Converts PCM, and knows which sample is where.

    Args:
        rate: of the device.
        position: of the first sample that it will be given.
        frames: how many frames the device was given before.
    """

    def __init__(self, rate: int, position: int = 0, frames: int = 0) -> None:
        self.rate = rate
        self._taken = position
        self._resampler: Any = None
        if rate != SAMPLE_RATE:
            self._resampler = soxr.ResampleStream(SAMPLE_RATE, rate, 1, "float32", "VHQ")
        self._given = frames
        # Where the resampler began: (position, frame).
        self._begins = deque([(position, frames)], ENDS_KEPT)

    def put(self, pcm: bytes) -> bytes:
        """The next samples; returns what can be told of them, at the device's rate."""
        self._taken += pcm_samples(pcm)
        if self._resampler is None:
            self._given += pcm_samples(pcm)
            return pcm
        return self._resampled(pcm, last=False)

    def end(self) -> bytes:
        """The rest of what it was given; what comes after it does not follow without a break."""
        if self._resampler is None or self._taken == self._begins[-1][0]:
            return b""
        rest = self._resampled(b"", last=True)
        self._resampler.clear()
        self._begins.append((self._taken, self._given))
        return rest

    def _resampled(self, pcm: bytes, *, last: bool) -> bytes:
        samples = np.frombuffer(pcm, PCM_DTYPE).astype(np.float32)
        out = self._resampler.resample_chunk(samples, last=last)
        self._given += len(out)
        # A filter overshoots at steps; that is clipped, never wrapped.
        clipped = np.clip(np.rint(out), -32768, 32767)
        return bytes(clipped.astype(PCM_DTYPE).tobytes())

    def position(self, frames: int) -> int:
        """Before which sample the device is when it has been given, or has played, so many."""
        at = bisect_right(self._begins, frames, key=lambda begin: begin[1])
        position, frame = self._begins[max(at - 1, 0)]
        most = self._begins[at][0] if at < len(self._begins) else self._taken
        return min(position + max(frames - frame, 0) * SAMPLE_RATE // self.rate, most)

    def frames(self, position: int) -> int:
        """After how many frames all samples before `position` have been played."""
        at = bisect_right(self._begins, position - 1, key=lambda begin: begin[0])
        first, frame = self._begins[max(at - 1, 0)]
        most = self._begins[at][1] if at < len(self._begins) else None
        frames = frame + -(-max(position - first, 0) * self.rate // SAMPLE_RATE)
        return frames if most is None else min(frames, most)
