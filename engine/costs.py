"""What the model's work costs by now, against what it cost at first. Core.

Whoever works counts (`Rate`); nothing is timed there. Somebody with a clock looks again and again
(`Drift`), and finds out when work has been dearer for so long that it is no accident: the machine
has become hot, or other programs have come to stay. Plans do not wait for that: they follow `load`.
"""

from __future__ import annotations

import math

from engine.stall import LOOK_S

#: How much dearer work is for how long, in seconds, before it is told.
DRIFT, DRIFT_S = 0.25, 600.0

#: Seconds of work, as the warm-up reckons it, that are averaged: about a minute of speech. It makes
#: the first of them the reference: speech costs a sixth more than the warm-up's best calls
#: (measured), because text is read beside it.
_MEMORY_S = 5.0

#: Where nothing was done for longer, the time behind that counts neither way: nothing is known of it.
_KNOWN_S = 60.0

#: What one piece can count at most and at least: a machine that slept is not that slow.
_LEAST, _MOST = 0.25, 8.0


class Rate:
    """How long one kind of work takes, by how long it took at the warm-up.

    Attributes:
        load: that ratio, of the last few pieces.
        expected_s: what all pieces would have taken.
        seconds: what they took.
    """

    def __init__(self) -> None:
        self.load = 1.0
        self.expected_s = 0.0
        self.seconds = 0.0

    def took(self, expected_s: float, seconds: float) -> None:
        """A piece is done.

        Args:
            expected_s: what it would have taken at the warm-up.
            seconds: what it took.
        """
        expected_s = max(expected_s, 1e-6)
        ratio = min(max(seconds / expected_s, _LEAST), _MOST)
        self.load += 0.2 * (ratio - self.load)
        self.expected_s += expected_s
        self.seconds += ratio * expected_s


class Drift:
    """Whether one kind of work has become dearer for good.

    Work that has become cheaper for as long shows that the reference was taken on a busy machine;
    then what it costs now is the reference.

    Args:
        part: what works.
        rate: of it.
        unit_s: seconds of one unit of work at the warm-up.

    Attributes:
        drifts: whether it has.
    """

    def __init__(self, part: str, rate: Rate, unit_s: float) -> None:
        self.part = part
        self.drifts = False
        self._rate = rate
        self._unit_s = unit_s
        self._reference = self._ratio = 1.0
        self._seen = rate.expected_s, rate.seconds
        self._seen_s: float | None = None
        self._worked_s = -math.inf  # when there was work last
        self._run_in_s = 0.0  # work that the reference is made of
        self._for_s = 0.0  # beyond what is usual, below 0 if cheaper

    @property
    def reference_s(self) -> float:
        """Seconds of one unit at first."""
        return self._unit_s * self._reference

    @property
    def now_s(self) -> float:
        """Seconds of one unit by now, in the last minute of speech."""
        return self._unit_s * self._ratio

    def look(self, now_s: float) -> None:
        """Looks at what was done since the last look.

        A look that comes much later than it should (`LOOK_S`) tells that the machine slept.
        """
        since_s = 0.0 if self._seen_s is None else min(now_s - self._seen_s, 2 * LOOK_S)
        self._seen_s = now_s
        expected_s = self._rate.expected_s - self._seen[0]
        seconds = self._rate.seconds - self._seen[1]
        self._seen = self._rate.expected_s, self._rate.seconds
        if expected_s > 0:
            self._worked_s = now_s
            self._add(expected_s, seconds / expected_s)
        if now_s - self._worked_s <= _KNOWN_S:
            self._count(since_s)

    def _add(self, expected_s: float, ratio: float) -> None:
        if self._run_in_s < _MEMORY_S:  # a plain mean so far
            self._run_in_s += expected_s
            self._ratio += expected_s / self._run_in_s * (ratio - self._ratio)
            self._reference = self._ratio
        else:
            self._ratio += -math.expm1(-expected_s / _MEMORY_S) * (ratio - self._ratio)

    def _count(self, since_s: float) -> None:
        against = self._ratio / self._reference
        if against > 1 + DRIFT:
            self._for_s = max(0.0, self._for_s) + since_s
        elif against < 1 / (1 + DRIFT):
            self._for_s = min(0.0, self._for_s) - since_s
        else:
            self._for_s = 0.0
        if self._for_s <= -DRIFT_S:
            self._reference, self._for_s = self._ratio, 0.0
        self.drifts = self._for_s >= DRIFT_S
