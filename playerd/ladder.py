"""How much a sound device is given ahead: more after trouble, less again when all is well. Core.

A deeper device forgives longer pauses of this machine, and costs time only when speech is to stop
or to change; it starts as fast. So it is kept shallow until it turns out to be too shallow.
"""

from __future__ import annotations

#: what PortAudio is asked for, in milliseconds; measured: 60 is exact beside a busy machine whose
#: busy programs give way, 120 beside one whose do not
RUNGS_MS = (60, 120, 200)
#: so many troubles ...
ENOUGH = 2
#: ... within so much playing raise the depth
WITHIN_S = 60.0
#: and so much playing without any lowers it
CLEAN_S = 600.0


class Ladder:
    """Which depth the device is to be opened with next.

    `now_s` is how much was played so far, in seconds, and never falls: a device that rests proves
    nothing.

    Attributes:
        depth_ms: one of `RUNGS_MS`.
    """

    def __init__(self) -> None:
        self._rung = 0
        self._troubles: list[float] = []
        self._clean_since_s = 0.0

    @property
    def depth_ms(self) -> int:
        """What the device is to hold."""
        return RUNGS_MS[self._rung]

    def trouble(self, now_s: float) -> bool:
        """The device had to wait for us; returns whether the depth is another one now."""
        self._clean_since_s = now_s
        self._troubles = [t for t in self._troubles if now_s - t <= WITHIN_S] + [now_s]
        if len(self._troubles) < ENOUGH or self._rung == len(RUNGS_MS) - 1:
            return False
        self._rung += 1
        self._troubles.clear()  # they were the lower depth's
        return True

    def well(self, now_s: float) -> bool:
        """Nothing happened up to now; returns whether the depth is another one now."""
        if self._rung == 0 or now_s - self._clean_since_s < CLEAN_S:
            return False
        self._rung -= 1
        self._clean_since_s = now_s
        return True
