"""How many messages a connection may send."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wsproto_api.rate import TokenBucket


def test_a_burst_then_the_rate() -> None:
    bucket = TokenBucket(10, 20, 100.0)
    assert [bucket.take(100.0) for _ in range(20)] == [0.0] * 20
    assert bucket.take(100.0) == pytest.approx(0.1)
    assert bucket.take(100.1) == 0.0
    assert bucket.take(100.1) > 0


def test_who_waits_as_long_as_it_is_told_is_not_refused() -> None:
    bucket = TokenBucket(7, 14, 0.0)
    now_s = 0.0
    for _ in range(200):
        wait_s = bucket.take(now_s)
        if wait_s:
            now_s += wait_s
            assert bucket.take(now_s) == 0.0


def test_a_pause_fills_it_up_to_a_burst_and_no_further() -> None:
    bucket = TokenBucket(10, 20, 0.0)
    assert [bucket.take(1e6) for _ in range(21)][:20] == [0.0] * 20
    assert bucket.take(1e6) > 0


def test_hopeless_is_more_than_a_burst_of_refusals() -> None:
    bucket = TokenBucket(1, 2, 0.0)
    assert [bucket.take(0.0) for _ in range(2)] == [0.0, 0.0]
    for _ in range(2):
        assert bucket.take(0.0) > 0
        assert not bucket.hopeless
    assert bucket.take(1.0) == 0.0  # it waited, which makes good a tenth of a refusal …
    assert bucket.take(1.0) > 0
    assert bucket.hopeless
    assert bucket.take(20.0) == 0.0  # … and in a while all
    assert not bucket.hopeless


def test_a_flood_that_is_let_through_now_and_then_is_hopeless_all_the_same() -> None:
    bucket = TokenBucket(200, 400, 0.0)
    began = next(n for n in range(100_000) if bucket.take(n / 4_000) and bucket.hopeless)
    assert began / 4_000 < 0.5


def test_who_is_a_little_too_fast_is_told_so_for_ever() -> None:
    bucket = TokenBucket(200, 400, 0.0)
    refused = sum(bucket.take(n / 215) > 0 for n in range(50_000))
    assert refused > 1_000
    assert not bucket.hopeless


def test_a_clock_that_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1, 1, 10.0)
    assert bucket.take(10.0) == 0.0
    assert bucket.take(5.0) > 0


@given(
    st.integers(1, 50),
    st.lists(st.floats(0, 2, allow_nan=False), max_size=200),
)
def test_never_more_than_the_burst_and_the_rate(per_s: int, pauses_s: list[float]) -> None:
    bucket = TokenBucket(per_s, 2 * per_s, 0.0)
    now_s, taken = 0.0, 0
    for pause_s in pauses_s:
        now_s += pause_s
        taken += bucket.take(now_s) == 0.0
        assert taken <= 2 * per_s + now_s * per_s + 1e-3
