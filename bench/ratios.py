"""Ratios of what was measured in turn, and when one is worse than it was. Core.

A ratio is ours by what it is compared with, both of the same round: what slows the machine slows
both. Lower is better. None of this knows a unit of time, so a baseline of ratios made on one
machine says something on another. Single rounds go wild on a machine that others use too, so
everything here goes by medians and by signs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec

from bench.report import Row

#: name -> one ratio for each round
Ratios = Mapping[str, Sequence[float]]

#: what a ratio may grow by before it is looked at, at least and at most: what scatters more than
#: that between runs of the same code is no measure of anything
LEAST, MOST = 0.10, 0.15
#: at least, of what was the same in all runs to the last digit: no clock was asked
EXACT = 0.05
#: how many times the scatter between honest runs that is
SCATTERS = 3
#: chance that a growth is none; with fewer rounds than this, all must have grown
CHANCE, FEW = 0.05, 5
#: a median absolute deviation as a standard deviation of a normal distribution
_NORMAL = 1.4826


class Known(msgspec.Struct, frozen=True):
    """A ratio as it was.

    Attributes:
        ratio: median over honest runs.
        tolerance: what it may be more, as a part of it.
    """

    ratio: Annotated[float, msgspec.Meta(gt=0)]
    tolerance: Annotated[float, msgspec.Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Baseline:
    """What honest runs had in common.

    Attributes:
        known: ratios that are fit to be watched.
        unfit: names of those that scatter too much, and by how much.
    """

    known: Mapping[str, Known]
    unfit: Mapping[str, float]


def baseline(runs: Sequence[Ratios]) -> Baseline:
    """What may be watched from now on, by several runs of the same code.

    Args:
        runs: at least two, or nothing is known of how they scatter; a ratio that is not in all of
            them, or is nothing in one, is left out: from nothing all growth is infinite.
    """
    known, unfit = {}, {}
    for name in sorted(set.intersection(*(set(run) for run in runs))):
        medians = [statistics.median(run[name]) for run in runs]
        if min(medians) <= 0:
            continue
        least = EXACT if len(set(medians)) == 1 else LEAST
        tolerance = max(least, SCATTERS * scatter(medians))
        if tolerance > MOST:
            unfit[name] = tolerance
        else:
            known[name] = Known(round(statistics.median(medians), 4), round(tolerance, 3))
    return Baseline(known, unfit)


def scatter(values: Sequence[float]) -> float:
    """How far positive values lie around their median, as a part of it.

    By the median of the distances, or half of the whole range where that is more: of two or three
    values the middle distance says little.
    """
    logs = [math.log(value) for value in values]
    middle = statistics.median(logs)
    usual = _NORMAL * statistics.median(abs(log - middle) for log in logs)
    wide = (max(logs) - min(logs)) / 2 if len(logs) < FEW else 0.0
    return math.expm1(max(usual, wide))


def is_worse(values: Sequence[float], known: Known) -> bool:
    """Whether a ratio has grown: its median beyond the tolerance, and not by a few wild rounds.

    A round has grown if it is beyond half of the tolerance: of three honest ones all lie above what
    was usual one time in eight.
    """
    if statistics.median(values) <= known.ratio * (1 + known.tolerance):
        return False
    grown = sum(value > known.ratio * (1 + known.tolerance / 2) for value in values)
    return grown == len(values) if len(values) < FEW else by_chance(grown, len(values)) <= CHANCE


def by_chance(heads: int, tosses: int) -> float:
    """The chance that so many or more of the tosses of a fair coin show heads."""
    return sum(math.comb(tosses, k) for k in range(heads, tosses + 1)) / (1 << tosses)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median is, 95 times in 100, whatever the distribution; less often below 6 values."""
    ordered = sorted(values)
    out = 0  # so many may be left out at each end
    while 2 * out < len(ordered) - 1 and 2 * by_chance(len(ordered) - out, len(ordered)) <= CHANCE:
        out += 1
    out = max(0, out - 1)
    return ordered[out], ordered[-1 - out]


def regressions(runs: Sequence[Ratios], watched: Mapping[str, Known]) -> Iterator[str]:
    """A sentence for each ratio that has become worse, in each of the runs that have it."""
    for name, known in watched.items():
        found = [run[name] for run in runs if name in run]
        if found and all(is_worse(values, known) for values in found):
            now = statistics.median(value for values in found for value in values)
            yield (
                f"{name} is {now:.3g} and was {known.ratio:.3g}: {now / known.ratio - 1:.0%} more, "
                f"and {known.tolerance:.0%} is usual."
            )


def compared(one: Ratios, other: Ratios) -> list[Row]:
    """A row for each ratio that both runs have: `change` is the other's by the one's, if that is any."""
    rows: list[Row] = []
    for name in one:
        if name not in other:
            continue
        before, after = statistics.median(one[name]), statistics.median(other[name])
        (low, high), (low_after, high_after) = interval(one[name]), interval(other[name])
        if len(one[name]) == len(other[name]) == 1:  # no interval, so what is usual
            low, high = low / (1 + LEAST), high * (1 + LEAST)
        if low_after > high:
            verdict = "worse"
        elif high_after < low:
            verdict = "better"
        else:
            verdict = "same"
        rows.append(
            {
                "ratio": name,
                "a": float(f"{before:.3g}"),
                "b": float(f"{after:.3g}"),
                "change": float(f"{after / before:.3g}") if before else None,
                "b is": verdict,
            }
        )
    return rows


def by_round(ours: Iterable[float | None], theirs: Iterable[float | None]) -> list[float]:
    """Ratios of what belongs to the same rounds; rounds in which either has nothing are left out."""
    pairs = zip(ours, theirs, strict=True)
    return [own / other for own, other in pairs if own is not None and other]


def median_by_round(
    ours: Iterable[float | None], theirs: Iterable[float | None], digits: int = 2
) -> float:
    """The median of the ratios by round, for a table."""
    return round(statistics.median(by_round(ours, theirs)), digits)


def medians(values: Sequence[float], parts: int) -> list[float]:
    """Of so many parts of them, one after another; fewer if there are fewer values."""
    return [statistics.median(part) for part in _parts(values, parts)]


def lows(values: Sequence[float], parts: int) -> list[float]:
    """The same with the mean of the lowest third of each part.

    What always does the same is only ever made slower, by a half the next moment on a machine that
    others use too: its lowest turns are what it takes when nothing does. Between two runs of `g2p`
    such ratios differed by 1.6 % in the mean, and those of medians by 15 %; over four runs of
    `first_byte` by 9 % and 19 %. The very lowest is as wild as the median where one turn in fifty
    has luck, as a request over a socket has.
    """
    return [statistics.fmean(sorted(part)[: -(-len(part) // 3)]) for part in _parts(values, parts)]


def _parts(values: Sequence[float], parts: int) -> Iterator[Sequence[float]]:
    size = max(1, math.ceil(len(values) / max(1, parts)))
    return (values[at : at + size] for at in range(0, len(values), size))
