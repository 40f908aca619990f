"""How long the next segment may be, for machines of every pace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.ladder import Costs, Ladder, Step
from engine.reach import Passes, Reach

#: what the steps take on the machine of docs/tuning.md, by its `factor`
ONE_S, TWO_S, PASS_S = 0.00134, 0.0021, 0.0017

FACTORS = st.floats(0.05, 20.0)
LEADS = st.floats(0.0, 30.0)
SPEEDS = st.floats(0.25, 4.0)


def machine(factor: float) -> Reach:
    """A machine that takes so many times as long."""
    return Reach(Costs(factor * ONE_S, factor * TWO_S), Passes(factor * PASS_S), 0.3)


@given(FACTORS, LEADS, SPEEDS, st.integers(1, 260))
def test_it_is_some_of_them_or_all(factor: float, lead_s: float, speed: float, most: int) -> None:
    assert 0 <= machine(factor).phonemes(most, speed, lead_s) <= most


@given(FACTORS, st.integers(1, 260))
def test_who_has_much_in_hand_hears_whole_segments(factor: float, most: int) -> None:
    whole_s = factor * (PASS_S * (40 + most) + 4.6 * (13 + most) * (ONE_S + TWO_S))
    assert machine(factor).phonemes(most, 1.0, 4 * whole_s + 10) == most


def test_the_slower_the_machine_the_shorter_is_what_is_in_time() -> None:
    reached = [machine(factor).phonemes(200, 1.0, 1.0) for factor in (0.3, 1.0, 1.5, 2.0, 2.8)]
    assert reached[0] == 200
    assert reached == sorted(reached, reverse=True)
    assert 25 <= reached[-1] < 60


@pytest.mark.parametrize(
    ("factor", "leads_s"),
    [(1.0, (0.4, 0.5, 0.6, 0.8)), (2.0, (0.8, 1.0, 1.5, 2.0)), (2.5, (1.5, 2.0, 4.0, 8.0))],
)
def test_the_more_is_in_hand_the_longer_it_may_be(
    factor: float, leads_s: tuple[float, ...]
) -> None:
    reached = [machine(factor).phonemes(200, 1.0, lead_s) for lead_s in leads_s]
    assert reached == sorted(reached)
    assert reached[0] < reached[-1] == 200


@given(FACTORS, st.floats(0.0, 0.2), st.integers(25, 260))
def test_a_segment_is_never_too_short_to_be_worth_its_pass(
    factor: float, lead_s: float, most: int
) -> None:
    phonemes = machine(factor).phonemes(most, 1.0, lead_s) or most
    assert phonemes >= 25
    takes_s = factor * (PASS_S * (40 + phonemes) + 4.6 * (13 + phonemes) * (ONE_S + TWO_S))
    length_s = 4.6 * (13 + phonemes) / 80
    assert takes_s < length_s or phonemes >= min(most, 90)


@given(FACTORS, LEADS, st.integers(1, 260))
def test_what_may_not_be_late_is_in_time_or_nothing(
    factor: float, lead_s: float, most: int
) -> None:
    found, late = (machine(factor).phonemes(most, 1.0, lead_s, late=late) for late in (False, True))
    assert found in (0, late)


def test_a_short_segment_that_may_not_be_late_waits_for_its_lead() -> None:
    reached = [machine(1.0).phonemes(80, 1.0, lead_s, late=False) for lead_s in (0.0, 0.1, 1.0)]
    assert reached == [0, 0, 80]


def test_what_cannot_be_in_time_is_short_and_not_shortest() -> None:
    """Where all is late, a longer segment is worth a tenth of a second."""
    assert 35 < machine(1.0).phonemes(200, 1.0, 0.0) <= 90


def test_a_machine_that_is_slower_than_speech_gains_nothing_by_parts() -> None:
    assert machine(3.5).phonemes(200, 1.0, 0.0) == 0
    assert machine(3.5).phonemes(60, 1.0, 0.0) == 0


def test_it_learns_how_long_passes_take_and_how_much_they_give() -> None:
    passes = Passes(PASS_S)
    before = passes.seconds(100), passes.columns(100, 1.0)
    for _ in range(30):
        passes.took(60, 1.0)
        passes.gave(60, 1.0, 730)
    assert passes.seconds(60) == pytest.approx(1.0, rel=0.01)
    assert passes.columns(60, 1.0) == pytest.approx(730, rel=0.01)
    assert passes.seconds(100) > before[0]
    assert passes.columns(100, 1.0) > before[1]
    assert passes.columns(100, 2.0) == pytest.approx(passes.columns(100, 1.0) / 2, abs=1)
    passes.took(60, 1e6)  # a machine that slept
    assert passes.seconds(60) < 3.0


def test_the_faster_it_is_spoken_the_less_there_is_to_decode() -> None:
    slow, quick = (machine(2.0).phonemes(250, speed, 0.3) for speed in (0.7, 1.4))
    assert slow < quick


@pytest.mark.parametrize("most", [510, 2040])
def test_what_it_takes_grows_with_the_length_and_no_faster(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """It is asked for on the event loop, with every window: some steps, not each of each length."""
    steps = 0
    really = Ladder.next

    def counted(ladder: Ladder, spare_s: float) -> Step | None:
        nonlocal steps
        steps += 1
        return really(ladder, spare_s)

    monkeypatch.setattr(Ladder, "next", counted)
    for factor in (0.3, 1.0, 2.0, 2.6, 2.8, 3.5, 4.4, 4.6):
        for lead_s in (0.0, 0.2, 0.5, 1.0, 1.5, 3.0, 6.0, 8.0, 12.0, 16.0):
            steps = 0
            machine(factor).phonemes(most, 1.0, lead_s)
            assert steps <= most / 2, (factor, lead_s)
