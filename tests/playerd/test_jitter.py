"""What the way here needs: the quantile of lateness, and what an underrun does to it."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from playerd.jitter import BUCKET_MS, LEAST_MS, MOST_MS, Jitter

LATENESS = st.lists(st.integers(0, 2500), min_size=1, max_size=200)


def told(jitter: Jitter, late_ms: list[int], start_s: float = 100.0) -> float:
    """One frame a half second, so late; the last one is in the histogram too. Gives the time."""
    now_s = start_s
    for late in late_ms:
        jitter.arrived(now_s, late / 1000 + 0.0001)  # not on an edge between two buckets
        now_s += 0.5
    jitter.arrived(now_s, 0.0)
    return now_s


def bucket_end(ms: float) -> float:
    return min((ms // BUCKET_MS + 1) * BUCKET_MS, 100 * BUCKET_MS)


@given(late_ms=LATENESS)
def test_with_equal_weights_it_is_the_quantile_of_all(late_ms: list[int]) -> None:
    jitter = Jitter(forget=1.0, start_weight=1.0)
    told(jitter, late_ms)
    expected = np.quantile(late_ms, 0.95, method="inverted_cdf")
    assert jitter.quantile_ms == bucket_end(float(expected))


@given(late_ms=LATENESS, forget=st.floats(0.5, 0.99))
def test_with_forgetting_it_is_the_quantile_with_these_weights(
    late_ms: list[int], forget: float
) -> None:
    jitter = Jitter(forget=forget, start_weight=0.0)
    told(jitter, late_ms)
    weights = forget ** np.arange(len(late_ms))[::-1]
    # What was there before the first one: nothing, in no bucket, so it counts as the latest.
    nothing = forget ** len(late_ms) / (1 - forget)
    values, weights = np.append(late_ms, 10**6), np.append(weights, nothing)
    order = np.argsort(values, kind="stable")
    share = np.cumsum(weights[order]) / weights.sum()
    at = int(np.searchsorted(share, 0.95 - 1e-9))
    found = float(values[order][at])
    assert jitter.quantile_ms == (0.0 if found == 10**6 else bucket_end(found))


@given(late_ms=LATENESS)
def test_what_is_held_back_keeps_its_bounds(late_ms: list[int]) -> None:
    jitter = Jitter()
    told(jitter, late_ms)
    assert LEAST_MS <= jitter.hold_ms <= MOST_MS
    assert jitter.hold_samples == round(jitter.hold_ms * 24)


def test_before_anything_is_known_it_is_what_a_device_takes_at_once() -> None:
    assert Jitter().hold_ms == LEAST_MS


def test_only_the_latest_frame_of_half_a_second_counts() -> None:
    jitter = Jitter(forget=1.0, start_weight=1.0)
    for n in range(400):
        jitter.arrived(n * 0.01, 0.19 if n % 50 == 7 else 0.0)
    assert jitter.quantile_ms == 200


def test_a_frame_that_comes_early_is_not_late() -> None:
    jitter = Jitter()
    jitter.arrived(0.0, -3.0)
    jitter.arrived(1.0, -3.0)
    assert jitter.quantile_ms == BUCKET_MS


def test_it_forgets_a_bad_time() -> None:
    jitter = Jitter()
    now_s = told(jitter, [280] * 20)
    assert jitter.hold_ms == MOST_MS
    told(jitter, [5] * 600, now_s + 0.5)
    assert jitter.hold_ms == LEAST_MS


def test_the_first_few_half_seconds_count_alike() -> None:
    jitter = Jitter()
    told(jitter, [250, 5, 5])
    assert jitter.hold_ms > 250  # a third of all that was seen is late


def test_every_underrun_asks_for_half_as_much_again_until_there_is_enough() -> None:
    jitter = Jitter()
    held = []
    for _ in range(4):
        jitter.underrun()
        held.append(jitter.hold_ms)
    assert held == [140, 230, 300, 300]


def test_what_an_underrun_asked_for_is_forgotten_slowly() -> None:
    jitter = Jitter()
    jitter.underrun()
    now_s = told(jitter, [5] * 10)
    assert 110 < jitter.hold_ms < 130
    told(jitter, [5] * 100, now_s + 0.5)
    assert jitter.hold_ms == LEAST_MS


@pytest.mark.parametrize("late_s", [2.0, 50.0])
def test_lateness_beyond_the_histogram_is_in_its_last_bucket(late_s: float) -> None:
    jitter = Jitter()
    jitter.arrived(0.0, late_s)
    jitter.arrived(1.0, 0.0)
    assert (jitter.quantile_ms, jitter.hold_ms) == (2000, MOST_MS)
