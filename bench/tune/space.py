"""What is searched, what is simulated of it, and which settings are best. Core.

Three things could be bought with a first sound that is sooner, and must not be: holes inside of
phrases, phrases that are cut, and sound that is predicted instead of exact. So settings are only
possible if they have none of the first, and of the others not more than the defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TypeAlias

from engine.config import Settings

Value: TypeAlias = int | float | bool
#: by name of a setting
Chosen: TypeAlias = Mapping[str, Value]

#: predicted columns may be so much more of all, a percentage point: single windows change sides
_PREDICTED_MORE = 0.01
#: a setting that gains less than this part of the time stays as it was
WORTH = 0.005


@dataclass(frozen=True, slots=True)
class Range:
    """Values of a setting: from `low` to `high`, by `step`."""

    low: float
    high: float
    step: float


#: Simulated: what the pipeline and the player do with them is their own code, in virtual time. The
#: bounds are those of the settings, but where nothing is to be gained.
SIMULATED: Mapping[str, Range] = {
    "frame_ms": Range(20, 100, 10),
    "first_audio_ms": Range(0, 1000, 50),
    "first_segment": Range(60, 150, 10),
    "first_window_ms": Range(100, 600, 25),
    "window_share": Range(0.2, 0.9, 0.05),
    "start_wait_ms": Range(0, 1500, 100),
}
#: Measured: what the model takes with each of them, before the search.
MEASURED = ("threads", "spinning")
NAMES = (*SIMULATED, *MEASURED)


def defaults() -> dict[str, Value]:
    """All of them as they are if nobody says otherwise."""
    return {name: Settings.model_fields[name].default for name in NAMES}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What settings gave, over all texts.

    Attributes:
        first_ms: from the request to the first sound, mean.
        margin_ms: what was in hand at least, inside of phrases.
        mid: holes inside of phrases …
        mid_ms: … and silence in them.
        cuts: segments that begin inside of a phrase.
        predicted: part of the sound whose statistics were predicted before stage one.
    """

    first_ms: float
    margin_ms: float
    mid: int
    mid_ms: float
    cuts: int
    predicted: float

    def beyond(self, usual: Outcome) -> dict[str, float]:
        """By how much each constraint is not kept; none is above 0 if all are."""
        return {
            "holes": self.mid_ms,
            "cuts": float(self.cuts - usual.cuts),
            "predicted": self.predicted - usual.predicted - _PREDICTED_MORE,
        }

    def possible(self, usual: Outcome) -> bool:
        """Whether all constraints are kept."""
        return max(self.beyond(usual).values()) <= 0

    def as_row(self) -> dict[str, float]:
        """Rounded."""
        return {name: round(value, 3) for name, value in asdict(self).items()}


#: gives what settings give
Try: TypeAlias = Callable[[Chosen], Outcome]


def wanted(outcome: Outcome, usual: Outcome) -> bool:
    """Whether it is no worse than the defaults in anything.

    On a machine that is too slow for speech without holes, these may not be longer than usual.
    """
    beyond = outcome.beyond(usual)
    beyond["holes"] -= usual.mid_ms
    return (
        max(beyond.values()) <= 0
        and outcome.first_ms <= usual.first_ms
        and outcome.margin_ms >= usual.margin_ms
    )


def best(found: Sequence[tuple[Chosen, Outcome]], usual: Outcome) -> Iterator[Chosen]:
    """Those that are no worse than the defaults, the soonest first."""
    good = [(chosen, outcome) for chosen, outcome in found if wanted(outcome, usual)]
    good.sort(key=lambda one: (one[1].mid_ms, one[1].first_ms, -one[1].margin_ms))
    return (chosen for chosen, _ in good)


def pruned(chosen: Chosen, base: Chosen, usual: Outcome, tries: Try) -> dict[str, Value]:
    """The same without the changes that gain nothing: each goes back to its default if it may."""
    kept = dict(chosen)
    before = tries(kept)
    for name in base:
        if kept[name] == base[name]:
            continue
        without = tries(kept | {name: base[name]})
        soon = without.first_ms <= before.first_ms + WORTH * usual.first_ms
        if soon and without.mid_ms <= before.mid_ms and wanted(without, usual):
            kept[name] = base[name]
    return kept


def front(found: Sequence[tuple[Chosen, Outcome]], usual: Outcome) -> list[tuple[Chosen, Outcome]]:
    """Of those that keep the constraints, all that none is better than in both; soonest first."""
    ordered = sorted(
        (one for one in found if one[1].possible(usual)),
        key=lambda one: (one[1].first_ms, -one[1].margin_ms),
    )
    kept: list[tuple[Chosen, Outcome]] = []
    for one in ordered:
        if not kept or one[1].margin_ms > kept[-1][1].margin_ms:
            kept.append(one)
    return kept
