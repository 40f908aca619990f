"""How much to hold back before sound starts. Core.

A policy looks at what is buffered and says whether that is enough to begin, or to go on after a
hole in the supply. It has no clock. `playout` asks; a cleverer policy only has to answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from engine.audio import ms_to_samples

#: A device takes 80 ms in one gulp when it starts (60 ms of depth and a block); two frames of
#: 50 ms cover that, and the rest is for a frame that is a little late.
HOLD_MS = 120


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a policy may know.

    Attributes:
        buffered_samples: what can be played without a hole.
        segment_complete: the segment that is played next is here to its end.
        ended: nothing more will come.
        starved: sound has begun and ran out; if False, it has not begun.
    """

    buffered_samples: int
    segment_complete: bool
    ended: bool
    starved: bool


class DelayPolicy(Protocol):
    """Decides when there is enough."""

    def enough(self, outlook: Outlook, /) -> bool:
        """Whether to start, or to go on. True for good once `ended`."""


@dataclass(frozen=True, slots=True)
class FixedDelay:
    """Holds back the same amount always, except before the end of a segment or of the stream."""

    hold_samples: int = ms_to_samples(HOLD_MS)

    def enough(self, outlook: Outlook, /) -> bool:
        """See `DelayPolicy`."""
        return (
            outlook.ended
            or outlook.segment_complete
            or outlook.buffered_samples >= self.hold_samples
        )
