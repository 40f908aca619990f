"""How long the next segment may be, so that it comes in time. Core.

A listener who has much in hand gets segments as the text gives them. One who has little gets the
next segment only as long as there is time for what must be done before it sounds: the acoustic pass
over all of it, and then the first window. So on a machine that is hardly faster than speech short
segments buy the time for longer ones. On one that is slower they buy nothing: each needs a pass of
its own and has silence around it, which is computed too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from engine.audio import SAMPLE_RATE
from engine.costs import Rate
from engine.ladder import Costs, Kind, Ladder, Windows
from engine.model.geometry import COLUMN_SAMPLES

#: part of the lead that a segment may take before it sounds; the rest is for what takes longer
SHARE = 0.65

#: A segment has at least so many phonemes, somewhat less than two seconds of speech: those that are
#: shorter need stage one before their first sound, and their passes cost more than they buy …
_LEAST = 25
#: … and so many more that making it takes no more than this part of its own length …
_PAYS = 0.9
#: … but where no length is in time, no more than these, about 6 s
_SHORT = 90
#: seconds of more silence that a longer segment is worth then
_WORTH_S = 0.1

#: phonemes between two lengths that are looked at, and as a part of the longer one if that is more:
#: so all lengths together take only some times as long to look at as the longest
_STEP, _STEP_SHARE = 5, 0.05

_COLUMN_S = COLUMN_SAMPLES / SAMPLE_RATE

#: An acoustic pass takes as long as this many phonemes, and for each phoneme (measured: 91, 103, 169
#: and 271 ms for 15, 30, 60 and 100) …
_PASS_PHONEMES = 40
#: … and a segment is as long as this many, and for each: the model puts silence around it
_SILENT_PHONEMES = 13


def phoneme_s(phonemes: int, seconds: float) -> float:
    """What a phoneme takes if a pass over so many took so long."""
    return seconds / (_PASS_PHONEMES + phonemes)


class Passes:
    """What acoustic passes take on this machine, as it is now, and how much speech they give.

    Args:
        phoneme_s: seconds for a phoneme, at the warm-up; `phoneme_s` gives it.

    Attributes:
        phoneme_s: the same.
        rate: how much more it is by now.
    """

    def __init__(self, phoneme_s: float) -> None:
        self.phoneme_s = phoneme_s
        self.rate = Rate()
        self._columns = 4.6

    def seconds(self, phonemes: int) -> float:
        """About how long a pass is going to take."""
        return self.rate.load * self._plain(phonemes)

    def _plain(self, phonemes: int) -> float:
        return self.phoneme_s * (_PASS_PHONEMES + phonemes)

    def columns(self, phonemes: int, speed: float) -> int:
        """About how many columns it will give, of 12.5 ms."""
        return round(self._columns * (_SILENT_PHONEMES + phonemes) / speed)

    def took(self, phonemes: int, seconds: float) -> None:
        """Learns from a pass; other programs take and leave the processor."""
        self.rate.took(self._plain(phonemes), seconds)

    def gave(self, phonemes: int, speed: float, columns: int) -> None:
        """Learns from what it gave; voices differ."""
        columns_each = columns * speed / (_SILENT_PHONEMES + phonemes)
        self._columns += 0.2 * (columns_each - self._columns)


class Reach:
    """How long the next segment may be.

    Args:
        costs: of the vocoder.
        passes: acoustic ones.
        budget_s: the latency budget; see `Ladder`.
        windows: how large they are.
    """

    def __init__(
        self, costs: Costs, passes: Passes, budget_s: float, windows: Windows | None = None
    ) -> None:
        self._costs = costs
        self._passes = passes
        self._budget_s = budget_s
        self._windows = windows or Windows()

    def phonemes(self, most: int, speed: float, lead_s: float, *, late: bool = True) -> int:
        """How many phonemes the segment may have.

        Args:
            most: it has no more.
            speed: that it will be spoken with.
            lead_s: what the listener has in hand, and nothing else is made before it.
            late: whether it may be late, if none are in time.

        Returns:
            1…`most`: as many as are in time; if none are, as many as a segment needs to be worth
            its pass, and more if they are hardly later. 0 if it may not be late, or that is of no
            use, because a segment would need more than `_SHORT` or there are.
        """
        least = min(most, self._least(speed))
        for phonemes in _lengths(most, least):
            if not self._late_s(phonemes, speed, SHARE * lead_s, 0.0):
                return phonemes
        if not late or least >= min(most, _SHORT):
            return 0
        late_s: dict[int, float] = {}
        limit_s = math.inf
        for phonemes in _lengths(min(most, _SHORT), least):
            late_s[phonemes] = self._late_s(phonemes, speed, lead_s, limit_s)
            limit_s = min(limit_s, late_s[phonemes] + _WORTH_S)
        return next(phonemes for phonemes, each_s in late_s.items() if each_s <= limit_s)

    def _least(self, speed: float) -> int:
        """Phonemes of the shortest segment that is worth its pass; `_SHORT` if none is."""
        for phonemes in range(_LEAST, _SHORT, _STEP):
            columns = self._passes.columns(phonemes, speed)
            takes_s = self._passes.seconds(phonemes) + self._costs.exact_s(columns)
            if takes_s <= _PAYS * columns * _COLUMN_S:
                return phonemes
        return _SHORT

    def _late_s(self, phonemes: int, speed: float, lead_s: float, limit_s: float) -> float:
        """Seconds of silence before and in a segment, until all that is left of it is exact.

        If it is beyond the limit, how far beyond does not matter, and is not looked at.
        """
        columns = self._passes.columns(phonemes, speed)
        ladder = Ladder(columns, 0, columns, self._costs, self._budget_s, self._windows)
        lead_s -= self._passes.seconds(phonemes)
        late_s = 0.0
        while True:
            late_s, lead_s = late_s + max(0.0, -lead_s), max(0.0, lead_s)
            step = ladder.next(lead_s) if late_s <= limit_s else None
            if step is None:
                return late_s
            lead_s -= self._costs.of(step)
            if step.kind is Kind.PREDICTED and lead_s >= 0:
                lead_s += (step.stop - step.start) * _COLUMN_S
            elif step.kind is Kind.PREDICTED:
                late_s, lead_s = late_s - lead_s, (step.stop - step.start) * _COLUMN_S
            elif step.kind is not Kind.STAGE_ONE:
                return late_s + max(0.0, -lead_s)


def _lengths(most: int, least: int) -> Iterator[int]:
    """Numbers of phonemes to be looked at, from the largest on."""
    while most > least:
        yield most
        most -= max(_STEP, round(_STEP_SHARE * most))
    yield least
