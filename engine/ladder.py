"""How a segment is decoded: what is next, as exact as there is time for. Core.

Three rungs, best first:

1. the whole segment at once, with its own statistics: exact;
2. stage one over the whole segment, which is exact, then windows of stage two with statistics
   predicted from what stage one gave;
3. windows of both stages, with statistics predicted from the acoustic part alone.

The first window decides how soon there is sound. So a segment starts on the best rung that fits
the time there is, and when windows of rung 3 have brought a lead that pays for stage one of the
whole, it goes on with rung 2. Windows are small while the lead is, because the listener waits for
a whole one; they grow with it, because each also decodes its context. A machine that is too slow
for any lead gains nothing by small windows of rung 3, so they also grow with their number; and it
stays on rung 3, because silence in a sentence is worse than what is predicted there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from engine.audio import ms_to_samples
from engine.costs import Rate
from engine.model.geometry import COLUMN_SAMPLES, CONTEXT_ONE, CONTEXT_TWO

#: columns of 12.5 ms: the first window, and the largest, which costs about 0.25 s on two cores
FIRST_WINDOW, LAST_WINDOW = 16, 96
#: part of the lead that a window may take
WINDOW_SHARE = 0.6
#: a rest that is smaller than this goes into the window before it
_REST = 8

#: Part of the lead that stage one of the whole, and a window behind it, may take: nothing is heard of
#: a long segment meanwhile, and what is reckoned is a mean. Simulated at a RTF of 0.38 with steps that
#: differ by a quarter: 0.8, and all at a segment's beginning, had six times the silence of this.
_EXACT_SHARE = 0.7

#: The maps know short segments least (5-6 dB up to 2.5 s on rung 3, against 2.5 above it) and
#: exactness costs least there. Up to 1 s a segment is decoded whole, up to 2.5 s it starts on
#: rung 2, whatever the budget.
_WHOLE_COLUMNS, _EXACT_COLUMNS = 80, 200

#: longest turn for a longer segment as a whole in s, because other streams wait for it
_WHOLE_LIMIT_S = 0.4


class Kind(Enum):
    """What a step does."""

    WHOLE = "whole"  # rung 1
    STAGE_ONE = "stage one"  # of the whole segment: the way to rung 2
    EXACT = "exact window"  # rung 2
    PREDICTED = "predicted window"  # rung 3


@dataclass(frozen=True, slots=True)
class Step:
    """The next thing to do: columns `start`…`stop`; stage one gives no audio."""

    kind: Kind
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Windows:
    """How large windows are.

    Attributes:
        first: columns of the first one, at most `LAST_WINDOW`.
        share: part of the lead that one may take, so how fast they grow.
    """

    first: int = FIRST_WINDOW
    share: float = WINDOW_SHARE

    @classmethod
    def of(cls, first_ms: float, share: float) -> Windows:
        """Of settings: the first in ms, to the nearest column."""
        return cls(round(ms_to_samples(first_ms) / COLUMN_SAMPLES), share)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Those that there are, from the first to the largest; ends of segments are others."""
        doubled = (self.first << n for n in range(LAST_WINDOW.bit_length()))
        return (*(size for size in doubled if size < LAST_WINDOW), LAST_WINDOW)


def exact_steps(columns: int) -> Iterator[Step]:
    """The whole segment on rung 2, in windows as for somebody who listens; whatever the machine."""
    yield Step(Kind.STAGE_ONE, 0, columns)
    at, size = 0, FIRST_WINDOW
    while at < columns:
        yield Step(Kind.EXACT, at, min(columns, at + size))
        at, size = at + size, min(LAST_WINDOW, 2 * size)


class Costs:
    """What the stages cost on this machine, as it is now.

    Args:
        one_s: seconds of stage one for a column, at the warm-up.
        two_s: the same of stage two.

    Attributes:
        rate: how much more it is by now.
    """

    def __init__(self, one_s: float, two_s: float) -> None:
        self._one_s, self._two_s = one_s, two_s
        self.rate = Rate()

    @property
    def column_s(self) -> float:
        """Seconds of both stages for a column, at the warm-up."""
        return self._one_s + self._two_s

    def of(self, step: Step) -> float:
        """Seconds that the step is going to take."""
        return self.rate.load * self._plain(step)

    def _plain(self, step: Step) -> float:
        columns = step.stop - step.start
        one, two = columns * self._one_s, columns * self._two_s
        match step.kind:
            case Kind.WHOLE:
                return one + two
            case Kind.STAGE_ONE:
                return one
            case Kind.EXACT:
                return two + 2 * CONTEXT_TWO * self._two_s
            case Kind.PREDICTED:
                more = 2 * (CONTEXT_ONE + CONTEXT_TWO) * self._one_s
                return one + two + more + 2 * CONTEXT_TWO * self._two_s

    def exact_s(self, columns: int) -> float:
        """Seconds that all steps of a segment are going to take, about."""
        return self.of(Step(Kind.WHOLE, 0, columns))

    def took(self, step: Step, seconds: float) -> None:
        """Learns from a step; other programs take and leave the processor."""
        self.rate.took(self._plain(step), seconds)


class Ladder:
    """The steps of one segment: `next`, do it, `next`, until it gives None.

    Args:
        columns: length of the segment.
        start: first column that is kept.
        stop: one past the last.
        costs: of this machine.
        budget_s: the latency budget; a whole segment may take as long.
        windows: how large they are.
    """

    def __init__(
        self,
        columns: int,
        start: int,
        stop: int,
        costs: Costs,
        budget_s: float,
        windows: Windows | None = None,
    ) -> None:
        self._columns, self._start, self._stop = columns, start, stop
        self._at = start
        self._costs = costs
        self._whole_s = max(_WHOLE_LIMIT_S, budget_s)
        self._sizes = windows or Windows()
        self._exact = False
        self._size = 0
        self._windows = 0
        self._begun = False

    @property
    def done(self) -> bool:
        """Whether `next` has nothing more to give."""
        return self._at >= self._stop

    def next(self, spare_s: float) -> Step | None:
        """The next step, which counts as done then; None if there is none.

        Args:
            spare_s: seconds until the listener notices: the lead, or what is left of the latency
                budget while there was no sound yet.
        """
        if self.done:
            return None
        if not self._begun:
            self._begun = True
            whole = Step(Kind.WHOLE, 0, self._columns)
            short = self._columns <= _WHOLE_COLUMNS
            if short or self._costs.of(whole) <= min(spare_s, self._whole_s):
                self._at = self._stop
                return whole
        if not self._exact:
            one = Step(Kind.STAGE_ONE, 0, self._columns)
            first = Step(Kind.EXACT, self._at, min(self._stop, self._at + self._sizes.first))
            due = self._columns <= _EXACT_COLUMNS
            if due or self._costs.of(one) + self._costs.of(first) <= _EXACT_SHARE * spare_s:
                self._exact = True
                return one
        return self._window(spare_s)

    def _window(self, spare_s: float) -> Step:
        kind = Kind.EXACT if self._exact else Kind.PREDICTED
        size = min(LAST_WINDOW, self._sizes.first << self._windows // 2)
        self._windows += 1
        # It doubles at most: a lead that was misjudged should not cost twice.
        while size < min(LAST_WINDOW, 2 * self._size):
            larger = min(2 * size, LAST_WINDOW)
            step = Step(kind, self._at, self._at + larger)
            if self._costs.of(step) > self._sizes.share * spare_s:
                break
            size = larger
        self._size = size
        stop = self._at + size
        if self._stop - stop < _REST:
            stop = self._stop
        step = Step(kind, self._at, stop)
        self._at = stop
        return step
