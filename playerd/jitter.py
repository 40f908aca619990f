"""How late frames come on their way, and so how much to hold back for that. Core.

As NetEq does it: the latest frame of every half second goes into a histogram that forgets; what
95 % of these were not later than, and one bucket more, is held back. In the beginning the histogram
forgets faster, so that the first few half seconds count alike.
"""

from __future__ import annotations

import math

from engine.audio import ms_to_samples

BUCKET_MS = 20
_BUCKETS = 100
_INTERVAL_S = 0.5
_FORGET = 0.983
#: weight of a new half second while there are few: this much more than its equal share
_START_WEIGHT = 2.0
_QUANTILE = 0.95

#: A device takes 80 ms in one gulp when it starts (60 ms of depth and a block of 20 ms).
LEAST_MS = 80
MOST_MS = 300


class Jitter:
    """Told how late frames are; says how much of a segment to wait for before playing it.

    Args:
        forget: what a half second counts when the next one has come; 1 forgets nothing.
        start_weight: see `_START_WEIGHT`; 1 gives all half seconds the same weight.
    """

    def __init__(self, forget: float = _FORGET, start_weight: float = _START_WEIGHT) -> None:
        self._forget = forget
        self._start_weight = start_weight
        self._shares = [0.0] * _BUCKETS  # they add up to 1 once there is anything
        self._intervals = 0
        self._since_s = -math.inf  # of the half second that is not over
        self._latest_s = -math.inf  # in it
        self._raised_ms = 0.0

    def arrived(self, now_s: float, late_s: float) -> None:
        """A frame came.

        Args:
            now_s: when; never less than before.
            late_s: how much later after the first frame of its segment than it is played after
                it; less than 0 if it came sooner.
        """
        if now_s >= self._since_s + _INTERVAL_S:
            self._close()
            self._since_s = now_s
        self._latest_s = max(self._latest_s, late_s, 0.0)

    def _close(self) -> None:
        if self._latest_s < 0:
            return
        self._intervals += 1
        keep = self._forget
        if self._start_weight:
            keep = min(keep, 1 - self._start_weight / (self._intervals + self._start_weight - 1))
        self._shares = [share * keep for share in self._shares]
        bucket = min(int(self._latest_s * 1000 / BUCKET_MS), _BUCKETS - 1)
        self._shares[bucket] += 1 - keep
        self._raised_ms *= self._forget
        self._latest_s = -math.inf

    def underrun(self) -> None:
        """Sound ran out inside a segment: what was held back was too little."""
        self._raised_ms = min(1.5 * self.hold_ms + 20, MOST_MS)

    @property
    def quantile_ms(self) -> float:
        """Upper end of the bucket that 95 % of the half seconds do not exceed; 0 without any."""
        total = 0.0
        for bucket, share in enumerate(self._shares):
            total += share
            if total >= _QUANTILE - 1e-9:
                return float((bucket + 1) * BUCKET_MS)
        return 0.0

    @property
    def hold_ms(self) -> float:
        """What to hold back."""
        return min(max(self.quantile_ms, self._raised_ms, LEAST_MS), MOST_MS)

    @property
    def hold_samples(self) -> int:
        """The same in samples."""
        return ms_to_samples(self.hold_ms)
