"""Which step is next: tables, and what holds for every segment and every machine."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from engine.ladder import FIRST_WINDOW, LAST_WINDOW, Costs, Kind, Ladder, Step, Windows

#: seconds a column, as measured on two quiet cores
ONE_S, TWO_S = 0.001, 0.002


def climb(
    columns: int, *, start: int = 0, stop: int | None = None, spare_s: float, slow: float = 1.0
) -> list[Step]:
    """All steps, with the lead that a listener would have who hears them as they are made."""
    costs = Costs(ONE_S * slow, TWO_S * slow)
    ladder = Ladder(columns, start, columns if stop is None else stop, costs, spare_s)
    steps: list[Step] = []
    lead_s, sounding = 0.0, False
    while (step := ladder.next(lead_s if sounding else spare_s)) is not None:
        took_s = costs.of(step)
        lead_s = max(0.0, lead_s - took_s) if sounding else 0.0
        spare_s -= took_s
        if step.kind is not Kind.STAGE_ONE:
            lead_s, sounding = lead_s + (step.stop - step.start) * 0.0125, True
        steps.append(step)
    assert ladder.done
    return steps


def test_a_short_segment_is_decoded_whole() -> None:
    assert climb(80, spare_s=0.3) == [Step(Kind.WHOLE, 0, 80)]


def test_short_segments_are_never_predicted() -> None:
    """However slow the machine and small the budget."""
    assert climb(80, spare_s=0, slow=20)[0].kind is Kind.WHOLE
    assert climb(200, spare_s=0, slow=20)[0].kind is Kind.STAGE_ONE
    assert climb(201, spare_s=0, slow=20)[0].kind is Kind.PREDICTED


def test_stage_one_of_the_whole_comes_first_if_there_is_time() -> None:
    steps = climb(200, spare_s=0.3)
    assert steps[0] == Step(Kind.STAGE_ONE, 0, 200)
    assert {step.kind for step in steps[1:]} == {Kind.EXACT}
    assert steps[1].stop - steps[1].start == FIRST_WINDOW


def test_what_is_in_hand_is_not_all_spent_on_stage_one() -> None:
    """At a segment's beginning as little as later: what it is going to take is only known about."""
    costs = Costs(ONE_S, TWO_S)
    takes_s = costs.of(Step(Kind.STAGE_ONE, 0, 480)) + costs.of(Step(Kind.EXACT, 0, FIRST_WINDOW))
    kinds = [climb(480, spare_s=takes_s * lead)[0].kind for lead in (1.35, 1.5)]
    assert kinds == [Kind.PREDICTED, Kind.STAGE_ONE]


@given(
    first_ms=st.integers(100, 600),
    share=st.floats(0.2, 0.9),
    columns=st.integers(201, 1600),
    slow=st.floats(0.1, 10),
)
def test_windows_are_as_large_as_they_are_to_be(
    first_ms: int, share: float, columns: int, slow: float
) -> None:
    windows = Windows.of(first_ms, share)
    assert abs(windows.first * 12.5 - first_ms) <= 6.25
    costs = Costs(ONE_S * slow, TWO_S * slow)
    ladder = Ladder(columns, 0, columns, costs, 0.0, windows)
    steps = list(iter(lambda: ladder.next(0.0), None))
    sizes = [step.stop - step.start for step in steps]
    assert sizes[0] == windows.first
    assert set(sizes[:-1]) <= set(windows.sizes)
    assert sum(sizes) == columns
    # With time they grow, as far as the part of it allows that they may take.
    lead_s = 2 * costs.of(Step(Kind.PREDICTED, 0, windows.first)) / share
    quick = Ladder(columns, 0, columns, costs, 0.0, windows)
    quick.next(0.0)
    second = quick.next(lead_s)
    assert second is not None
    if second.kind is Kind.PREDICTED and second.stop < columns:
        assert costs.of(second) <= share * lead_s
        assert second.stop - second.start > windows.first


def test_a_long_segment_begins_with_predicted_windows_and_then_turns_exact() -> None:
    steps = climb(440, spare_s=0.1)
    kinds = [step.kind for step in steps]
    turn = kinds.index(Kind.STAGE_ONE)
    assert set(kinds[:turn]) == {Kind.PREDICTED}
    assert set(kinds[turn + 1 :]) == {Kind.EXACT}
    assert steps[turn].stop == 440
    assert steps[turn - 1].stop <= 130  # 1.6 s
    assert kinds.count(Kind.STAGE_ONE) == 1


def test_the_first_window_does_not_depend_on_the_length() -> None:
    assert climb(440, spare_s=0.1)[0] == climb(1600, spare_s=0.1)[0]


def test_without_a_limit_everything_is_whole() -> None:
    assert climb(1600, spare_s=float("inf"))[0].kind is Kind.WHOLE


def test_a_machine_that_is_too_slow_for_a_lead_does_not_stop_for_stage_one() -> None:
    steps = climb(1000, spare_s=0.1, slow=20)
    assert {step.kind for step in steps} == {Kind.PREDICTED}
    assert max(step.stop - step.start for step in steps) >= LAST_WINDOW


def test_what_the_lead_does_not_pay_for_is_not_done() -> None:
    """Stage one of the whole would be silence as soon as the lead is used up."""
    costs = Costs(ONE_S, TWO_S)
    ladder = Ladder(1600, 0, 1600, costs, 0.1)
    spare_s = costs.of(Step(Kind.STAGE_ONE, 0, 1600))
    steps = [ladder.next(spare_s) for _ in range(12)]
    assert all(step is not None and step.kind is Kind.PREDICTED for step in steps)
    paid = ladder.next(2 * spare_s)
    assert paid is not None
    assert paid.kind is Kind.STAGE_ONE


@given(
    columns=st.integers(1, 2000),
    cut=st.tuples(st.floats(0, 0.4), st.floats(0.6, 1)),
    spare_s=st.floats(0, 3),
    slow=st.floats(0.05, 30),
)
def test_the_steps_cover_what_is_kept_once_and_in_order(
    columns: int, cut: tuple[float, float], spare_s: float, slow: float
) -> None:
    start, stop = int(cut[0] * columns), max(int(cut[1] * columns), int(cut[0] * columns) + 1)
    steps = climb(columns, start=start, stop=stop, spare_s=spare_s, slow=slow)
    audible = [step for step in steps if step.kind is not Kind.STAGE_ONE]
    if audible[0].kind is Kind.WHOLE:
        assert audible == [Step(Kind.WHOLE, 0, columns)]
        return
    assert (audible[0].start, audible[-1].stop) == (start, stop)
    for before, after in itertools.pairwise(audible):
        assert before.stop == after.start
        assert after.stop - after.start < 2 * LAST_WINDOW
    kinds = [step.kind for step in steps]
    if Kind.EXACT in kinds:
        assert kinds.index(Kind.STAGE_ONE) < kinds.index(Kind.EXACT)


@given(st.lists(st.floats(0.001, 100), max_size=30))
def test_costs_follow_the_machine_but_stay_sane(seconds: list[float]) -> None:
    costs = Costs(ONE_S, TWO_S)
    step = Step(Kind.EXACT, 0, 96)
    plain = costs.of(step)
    for took in seconds:
        costs.took(step, took)
    assert 0.25 * plain - 1e-9 <= costs.of(step) <= 8 * plain + 1e-9


def test_costs_learn() -> None:
    costs = Costs(ONE_S, TWO_S)
    step = Step(Kind.EXACT, 0, 96)
    plain = costs.of(step)
    for _ in range(30):
        costs.took(step, 3 * plain)
    assert 2.9 * plain < costs.of(step) < 3.1 * plain
