"""What work costs, and whether it has become dearer for good."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.costs import DRIFT, DRIFT_S, Drift, Rate

UNIT_S = 0.002


class Worked:
    """A machine that is looked at every second.

    Attributes:
        seen: whether it drifted, by second.
    """

    def __init__(self) -> None:
        self.rate = Rate()
        self.drift = Drift("vocoder", self.rate, UNIT_S)
        self.seen: list[bool] = []

    def work(self, seconds: int, times: float, *, each_s: float = 0.3) -> Worked:
        """So many seconds, in each of which there is so much work, and it takes so many times as long."""
        for _ in range(seconds):
            if each_s:
                self.rate.took(each_s, times * each_s)
            self.drift.look(float(len(self.seen)))
            self.seen.append(self.drift.drifts)
        return self

    def idle(self, seconds: int) -> Worked:
        """Nothing is done."""
        return self.work(seconds, 1.0, each_s=0.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 100)), max_size=40))
def test_a_rate_follows_the_machine_but_stays_sane(pieces: list[tuple[float, float]]) -> None:
    rate = Rate()
    for expected_s, seconds in pieces:
        rate.took(expected_s, seconds)
        assert 0.25 - 1e-9 <= rate.load <= 8 + 1e-9
        assert 0.2499 * rate.expected_s <= rate.seconds <= 8.001 * rate.expected_s


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 700), st.floats(1, 1 + DRIFT - 0.01), st.just(0.0) | st.floats(0.01, 1)
        ),
        max_size=4,
    )
)
def test_what_stays_within_the_band_is_no_drift(turns: list[tuple[int, float, float]]) -> None:
    """The reference is somewhere in the band then, and all of it is in reach of the reference."""
    worked = Worked()
    for seconds, times, each_s in turns:
        worked.work(seconds, times, each_s=each_s)
        assert 1 - 1e-6 <= worked.drift.now_s / UNIT_S <= 1 + DRIFT + 1e-6
    assert not any(worked.seen)


@settings(max_examples=25)
@given(st.floats(1.3, 4.0), st.floats(0.5, 2.0), st.floats(0.05, 1.0))
def test_what_becomes_dearer_is_told_after_ten_minutes_and_not_before(
    more: float, first: float, each_s: float
) -> None:
    worked = Worked().work(200, first, each_s=each_s)
    dearer = worked.work(900, first * more, each_s=each_s)
    began = dearer.seen.index(True) - 200
    assert DRIFT_S - 2 <= began <= DRIFT_S + 200
    assert all(dearer.seen[200 + began :])
    assert dearer.drift.reference_s == pytest.approx(first * UNIT_S)
    assert dearer.drift.now_s == pytest.approx(first * more * UNIT_S, rel=0.01)


def test_it_is_over_when_it_is_over() -> None:
    worked = Worked().work(100, 1.0).work(800, 2.0)
    assert worked.seen[-1]
    worked.work(100, 1.0)
    assert not worked.seen[-1]
    # and the next one takes as long to be told as the first
    assert True not in worked.work(500, 2.0).seen[1000:]
    assert worked.work(200, 2.0).seen[-1]


def test_a_short_time_is_no_drift() -> None:
    worked = Worked().work(100, 1.0)
    for _ in range(5):
        worked.work(500, 3.0).work(120, 1.0)
    assert not any(worked.seen)


def test_one_slow_sentence_before_hours_of_silence_is_no_drift() -> None:
    worked = Worked().work(100, 1.0).work(30, 4.0).idle(4 * 3600)
    assert not any(worked.seen)


def test_slow_sentences_with_rests_between_them_are_one() -> None:
    worked = Worked().work(100, 1.0)
    for _ in range(30):
        worked.work(10, 2.0).idle(40)
    assert worked.seen[-1]


def test_a_reference_of_a_busy_machine_is_mended() -> None:
    """It was loaded while something else ran: what is usual is seen later."""
    worked = Worked().work(100, 3.0).work(700, 1.0)
    assert worked.drift.reference_s == pytest.approx(UNIT_S, rel=0.01)
    assert not any(worked.seen)
    assert worked.work(700, 1.6).seen[-1]


def test_a_machine_that_slept_has_not_worked() -> None:
    worked = Worked().work(100, 1.0)
    worked.rate.took(0.3, 8 * 3600.0)
    worked.drift.look(8 * 3600.0)
    assert worked.drift.now_s < 1.5 * UNIT_S
    worked.drift.look(8 * 3600.0 + 1)
    assert not worked.drift.drifts
