"""Ratios: what is caught, what stays quiet."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import ratios
from bench.__main__ import QUICK
from bench.interleave import interleaved
from bench.ratios import Known, by_chance, compared, interval, is_worse, regressions, scatter

values = st.lists(st.floats(0.01, 100), min_size=1, max_size=30)
factors = st.floats(0.1, 10)


# --- statistics ---------------------------------------------------------------------------------


@given(values)
def test_the_median_is_in_its_interval(found: list[float]) -> None:
    low, high = interval(found)
    assert min(found) <= low <= statistics.median(found) <= high <= max(found)


def test_the_interval_has_the_median_95_times_in_100() -> None:
    chance = random.Random(1)
    hits = 0
    for _ in range(2000):
        low, high = interval([chance.lognormvariate(0, 1) for _ in range(15)])
        hits += low <= 1 <= high
    assert 0.94 <= hits / 2000 <= 0.99


@given(values, factors)
def test_scatter_knows_no_unit(found: list[float], factor: float) -> None:
    assert scatter([value * factor for value in found]) == pytest.approx(scatter(found), abs=1e-6)
    assert scatter(found[:1] * 5) == 0


@given(st.integers(0, 40), st.integers(0, 40))
def test_heads_and_tails_are_as_likely(heads: int, tails: int) -> None:
    tosses = heads + tails
    assert by_chance(0, tosses) == 1
    assert by_chance(heads, tosses) + by_chance(tails + 1, tosses) == pytest.approx(1)


@given(values, factors, st.floats(1, 5))
def test_what_is_worse_is_worse_if_it_grows(found: list[float], ratio: float, more: float) -> None:
    known = Known(ratio, 0.1)
    if is_worse(found, known):
        assert statistics.median(found) > ratio * 1.1
        assert sum(value > ratio * 1.05 for value in found) > len(found) / 2
        assert is_worse([value * more for value in found], known)
    assert not is_worse([ratio] * len(found), known)


def test_a_few_wild_rounds_are_no_regression() -> None:
    known = Known(1.0, 0.05)
    wild = [0.9, 0.95, 0.98, 0.99, 1.6, 1.7, 1.8, 1.9, 2.0]
    assert statistics.median(wild) > 1.05
    assert not is_worse(wild, known)
    assert is_worse([1.1, *wild[4:]], known)
    assert not is_worse([1.02, 1.6, 1.7], known)  # the first is within half of the tolerance
    assert is_worse([1.03, 1.6, 1.7], known)


@given(st.lists(st.lists(st.floats(0.9, 1.1), min_size=3, max_size=9), min_size=2, max_size=8))
def test_no_run_of_the_baseline_is_worse_than_the_baseline(runs: list[list[float]]) -> None:
    made = ratios.baseline([{"a": run} for run in runs])
    assert set(made.known) | set(made.unfit) == {"a"}
    if len(runs) < ratios.FEW:  # with more, one of them may be wild
        assert not [run for run in runs if list(regressions([{"a": run}], made.known))]


def test_a_baseline_leaves_out_what_scatters_or_is_not_always_there() -> None:
    runs = [
        {"calm": [1.0, 1.02], "exact": [0.5], "wild": [1.0], "rare": [1.0], "nothing": [0.0]},
        {"calm": [1.01, 1.0], "exact": [0.5], "wild": [2.0], "nothing": [1.0]},
        {"calm": [1.02, 1.0], "exact": [0.5], "wild": [1.5], "rare": [1.0], "nothing": [1.0]},
    ]
    made = ratios.baseline(runs)
    assert made.known == {"calm": Known(1.01, 0.1), "exact": Known(0.5, 0.05)}
    assert list(made.unfit) == ["wild"]


def test_runs_are_compared_by_what_both_have() -> None:
    one = {"a": [1.0, 1.1, 0.9, 1.0, 1.0, 1.0], "b": [2.0, 2.2], "only": [1.0]}
    other = {"a": [1.5, 1.6, 1.4, 1.5, 1.5, 1.5], "b": [2.1, 2.1], "new": [1.0]}
    assert compared(one, other) == [
        {"ratio": "a", "a": 1.0, "b": 1.5, "change": 1.5, "b is": "worse"},
        {"ratio": "b", "a": 2.1, "b": 2.1, "change": 1.0, "b is": "same"},
    ]
    assert compared(other, one)[0]["b is"] == "better"
    assert compared({"a": [0.0]}, {"a": [1.0]})[0]["change"] is None
    found = [compared({"a": [1.0]}, {"a": [value]})[0]["b is"] for value in (0.9, 0.92, 1.09, 1.11)]
    assert found == ["better", "same", "same", "worse"]


def test_ratios_belong_to_rounds() -> None:
    assert ratios.by_round([2.0, None, 3.0, 4.0], [1.0, 1.0, None, 8.0]) == [2.0, 0.5]
    assert ratios.median_by_round([2.0, None, 1.0], [1.0, 1.0, 3.0], digits=1) == 1.2


@given(values, st.integers(0, 12))
def test_the_lowest_third_of_a_part_is_what_counts(found: list[float], parts: int) -> None:
    made = ratios.lows(found, parts)
    assert len(made) == len(ratios.medians(found, parts))
    assert all(
        low <= middle for low, middle in zip(made, ratios.medians(found, parts), strict=True)
    )
    assert ratios.lows([5, 1, 9, 2, 7, 8, 3], 2) == [1.5, 3.0]


@given(values, st.integers(0, 12))
def test_medians_of_parts_leave_nothing_out(found: list[float], parts: int) -> None:
    made = ratios.medians(found, parts)
    assert 1 <= len(made) <= max(1, parts)
    assert min(found) <= min(made) <= max(made) <= max(found)
    assert ratios.medians(found, len(found)) == found


# --- a slow-down that was planted ---------------------------------------------------------------


def synthetic(chance: random.Random, slower: float = 1.0, rounds: int = 7) -> list[float]:
    """Rounds on a machine that drifts by a factor of two and has a hiccup now and then."""
    made = []
    for _ in range(rounds):
        drift = chance.uniform(1, 2)
        ours, theirs = (drift * chance.lognormvariate(0, 0.03) for _ in range(2))
        if chance.random() < 0.1:
            ours *= 3
        made.append(0.6 * slower * ours / theirs)
    return made


def test_a_planted_slow_down_is_caught_and_honest_repeats_are_quiet() -> None:
    chance = random.Random(9)
    made = ratios.baseline([{"a": synthetic(chance)} for _ in range(5)])
    assert set(made.known) == {"a"}
    for _ in range(10):
        assert not list(regressions([{"a": synthetic(chance)}], made.known))
        (says,) = regressions([{"a": synthetic(chance, slower=1.2)}], made.known)
        assert says.startswith("a is 0.7")


def many(chance: random.Random, slower: float = 1.0, rounds: int = QUICK) -> dict[str, list[float]]:
    """A run of 40 ratios."""
    return {str(number): synthetic(chance, slower, rounds) for number in range(40)}


def told(rounds: int, runs: int) -> tuple[float, float]:
    """What part of the watched ratios is told as worse: of honest runs, and of those 20 % slower.

    Over 20 baselines of three runs each, and for each of them ten repeats of so many runs.
    """
    watched, false, caught = 0, 0, 0
    for seed in range(20):
        chance = random.Random(seed)
        made = ratios.baseline([many(chance, rounds=rounds) for _ in range(3)])
        for _ in range(10):
            watched += len(made.known)
            honest = [many(chance, rounds=rounds) for _ in range(runs)]
            false += len(list(regressions(honest, made.known)))
            slow = [many(chance, 1.2, rounds) for _ in range(runs)]
            caught += len(list(regressions(slow, made.known)))
    assert watched > 20 * 10 * 30
    return false / watched, caught / watched


@pytest.mark.parametrize(
    ("rounds", "runs", "at_most", "at_least"),
    [(QUICK, 1, 0.008, 0.97), (QUICK, 2, 0.0003, 0.94), (3 * QUICK, 1, 0.0003, 0.99)],
)
def test_how_often_a_check_is_wrong(
    rounds: int, runs: int, at_most: float, at_least: float
) -> None:
    """One run of three rounds cannot be quieter: now and then there is a hiccup in two or three."""
    false, caught = told(rounds, runs)
    assert false < at_most
    assert caught > at_least


def test_what_is_worse_is_worse_in_every_run_that_has_it() -> None:
    watched = {"a": Known(1.0, 0.1), "b": Known(1.0, 0.1), "c": Known(1.0, 0.1)}
    runs = [{"a": [1.3], "b": [1.3]}, {"a": [1.0]}, {"a": [1.3], "b": [1.5]}]
    (says,) = regressions(runs, watched)
    assert says == "b is 1.4 and was 1: 40% more, and 10% is usual."


def test_a_function_that_is_a_fifth_slower_is_caught() -> None:
    def spin(steps: int) -> int:
        return sum(n & 7 for n in range(steps))

    def measured(steps: int) -> Sequence[float]:
        contenders = {"ours": lambda: spin(steps), "theirs": lambda: spin(10_000)}
        took = interleaved(contenders, 25, seed=1, clock=time.thread_time)
        return ratios.by_round(took["ours"], took["theirs"])

    made = ratios.baseline([{"spin": measured(10_000)} for _ in range(4)])
    assert set(made.known) == {"spin"}
    honest = [list(regressions([{"spin": measured(10_000)}], made.known)) for _ in range(10)]
    assert honest == [[]] * 10
    assert list(regressions([{"spin": measured(12_000)}], made.known))


def test_contenders_take_turns_by_the_seed() -> None:
    def turns(seed: int) -> list[str]:
        ran: list[str] = []
        contenders = {name: (lambda name=name: ran.append(name)) for name in "abc"}
        ticks = iter(range(100))
        took = interleaved(contenders, 3, seed=seed, clock=lambda: next(ticks))
        assert took == {name: [1, 1, 1] for name in "abc"}
        return ran

    ran = turns(1)
    assert ran[:3] == ["a", "b", "c"]
    assert [sorted(ran[at : at + 3]) for at in (3, 6, 9)] == [["a", "b", "c"]] * 3
    assert ran == turns(1)
    assert ran != turns(2)
