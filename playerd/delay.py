"""How much to hold back before sound starts, and where to pause. Core.

A policy looks at what is here and at what is to come, and says whether that is enough to begin, or
to go on after a hole in the supply; and how long a pause before a segment may be so that a worse
hole comes later, smaller or not at all. It keeps nothing and has no clock. `playout` asks.

Waiting does not make silence less: what comes too late by a second costs a second of it, before the
first word or later. It only moves it. Before a sentence a pause is hardly noticed, inside a phrase
it is a fault. So `Slack` waits only as long as a hole inside a phrase threatens, and turns what is
left into pauses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.request import Boundary

from .forecast import Expected
from .jitter import LEAST_MS

#: A device takes 80 ms in one gulp when it starts (60 ms of depth and a block); two frames of
#: 50 ms cover that, and the rest is for a frame that is a little late.
HOLD_MS = 120

#: seconds by which a pause can be longer and still sounds natural
ALLOWED_S: dict[Boundary, float] = {
    "paragraph": 0.7,
    "sentence": 0.35,
    "clause": 0.12,
    "comma": 0.12,
    "none": 0.0,
}
#: seconds of silence that are rather accepted there, beyond that, than a later start
_ACCEPTED_S: dict[Boundary, float] = {"paragraph": 0.9, "sentence": 0.9}

#: how sure to be: standard deviations that what comes may be later than expected
_DOUBTS = 0.5


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a policy may know.

    Attributes:
        buffered_samples: what can be played without a hole.
        segment_complete: the segment that is played next is here to its end.
        ended: nothing more will come.
        starved: sound has begun and ran out; if False, it has not begun.
        inside: what is played next goes on inside a segment.
        waited_s: how long there has been something to play.
        hold_samples: what the way here needs (`Jitter`).
        gulp_samples: what the device takes at once when sound begins; by so much sooner than it is
            heard all that follows has to be here. 0 while it plays.
        coming: what is to come, as far as that can be known, in order.
    """

    buffered_samples: int
    segment_complete: bool
    ended: bool
    starved: bool
    inside: bool = False
    waited_s: float = 0.0
    hold_samples: int = ms_to_samples(LEAST_MS)
    gulp_samples: int = 0
    coming: tuple[Expected, ...] = ()


class DelayPolicy(Protocol):
    """Decides when there is enough."""

    def enough(self, outlook: Outlook, /) -> bool:
        """Whether to start, or to go on. True for good once `ended`."""

    def pause_s(self, outlook: Outlook, boundary: Boundary | None, /) -> float:
        """Seconds of silence to put before a segment that is here and plays next."""


@dataclass(frozen=True, slots=True)
class Immediate:
    """Plays whatever there is."""

    def enough(self, outlook: Outlook, /) -> bool:
        """See `DelayPolicy`."""
        return outlook.ended or outlook.buffered_samples > 0

    def pause_s(self, outlook: Outlook, boundary: Boundary | None, /) -> float:
        """See `DelayPolicy`. None."""
        return 0.0


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

    def pause_s(self, outlook: Outlook, boundary: Boundary | None, /) -> float:
        """See `DelayPolicy`. None."""
        return 0.0


@dataclass(frozen=True, slots=True)
class Slack:
    """Waits while a hole inside a phrase threatens, within limits, and pauses between phrases.

    Attributes:
        start_s: how long the first sound may be held back, once there is what the way here needs;
            0 is eager, 1.5 smooth.
        resume_s: the same for sound that ran out.
    """

    start_s: float = 0.8
    resume_s: float = 0.3

    def enough(self, outlook: Outlook, /) -> bool:
        """See `DelayPolicy`."""
        if outlook.ended:
            return True
        if not outlook.buffered_samples:
            return False
        hold = max(outlook.hold_samples, outlook.gulp_samples)
        if outlook.starved and outlook.inside:
            hold = max(hold, ms_to_samples(HOLD_MS))
        if outlook.buffered_samples < hold and not outlook.segment_complete:
            return False
        most_s = self.resume_s if outlook.starved else self.start_s
        return outlook.waited_s >= most_s or not _faults(outlook)

    def pause_s(self, outlook: Outlook, boundary: Boundary | None, /) -> float:
        """See `DelayPolicy`. As much as is missing later, shared with the sentences before that."""
        if boundary is None or outlook.ended:
            return 0.0
        sentences, most_s = 1, 0.0
        for before, missing_s in _missing(outlook):
            most_s = max(most_s, missing_s / sentences)
            sentences += before in _ACCEPTED_S
        return min(most_s, ALLOWED_S[boundary])


def _missing(outlook: Outlook) -> Iterator[tuple[Boundary | None, float]]:
    """(what is before it, by how much it comes too late) of what comes, if we play on from now.

    Of each part its beginning, and then what is inside of it: None.
    """
    due_s = (outlook.buffered_samples - outlook.gulp_samples) / SAMPLE_RATE
    for part in outlook.coming:
        doubt_s = _DOUBTS * part.doubt_s
        if part.boundary is not None:
            yield part.boundary, part.first_s + doubt_s - due_s
        elif part.sag_s is not None:
            yield None, part.sag_s - due_s
        due_s += part.length_s
        yield None, part.last_s + doubt_s - due_s


def slack_s(outlook: Outlook) -> float:
    """How much later all that is to come may come without silence anywhere.

    Less than 0: by so much some of it will be too late.
    """
    return -max((missing_s for _, missing_s in _missing(outlook)), default=-math.inf)


def _faults(outlook: Outlook) -> bool:
    """Whether silence threatens where it is a fault, or more of it than is accepted.

    Silence at a boundary gives what is behind it the more time; so do pauses before that.
    """
    given_s = 0.0
    for boundary, missing_s in _missing(outlook):
        if boundary is not None:
            allowed_s = ALLOWED_S[boundary]
            if missing_s - given_s > allowed_s + _ACCEPTED_S.get(boundary, 0.0):
                return True
            given_s = max(given_s + allowed_s, missing_s)
        elif missing_s > given_s:
            return True
    return False
