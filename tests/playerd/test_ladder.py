"""How deep the device is to be."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playerd.ladder import CLEAN_S, ENOUGH, RUNGS_MS, WITHIN_S, Ladder


@pytest.mark.parametrize(
    ("troubles_s", "depth_ms"),
    [
        ([], 60),
        ([5], 60),
        ([5, 5], 120),  # two at once are two
        ([5, 65], 120),
        ([5, 66], 60),
        ([5, 66, 67], 120),
        ([5, 6, 7], 120),  # they were the lower depth's
        ([5, 6, 7, 8], 200),
        ([5, 6, 100, 170, 240], 120),
        ([5, 6, 7, 8, 9, 10, 11], 200),  # there is no deeper one
    ],
)
def test_trouble_raises_it(troubles_s: list[float], depth_ms: int) -> None:
    ladder = Ladder()
    depths = [ladder.depth_ms]
    for now_s in troubles_s:
        changed = ladder.trouble(now_s)
        depths.append(ladder.depth_ms)
        assert changed == (depths[-1] != depths[-2])
    assert depths[-1] == depth_ms


def test_it_comes_down_one_step_after_ten_clean_minutes_each() -> None:
    ladder = Ladder()
    for now_s in (1, 2, 3, 4):
        ladder.trouble(now_s)
    assert not ladder.well(4 + CLEAN_S - 1)
    assert ladder.well(4 + CLEAN_S)
    assert ladder.depth_ms == 120
    assert not ladder.well(4 + 2 * CLEAN_S - 1)
    ladder.trouble(4 + 2 * CLEAN_S - 1)  # one is not enough to go up, but it is not clean
    assert not ladder.well(4 + 2 * CLEAN_S)
    assert ladder.well(4 + 3 * CLEAN_S)
    assert ladder.depth_ms == 60
    assert not ladder.well(4 + 100 * CLEAN_S)


@given(st.lists(st.tuples(st.floats(0, 700), st.booleans())))
def test_whatever_happens_it_moves_one_step_for_a_reason(steps: list[tuple[float, bool]]) -> None:
    ladder, now_s, troubles, depths = Ladder(), 0.0, list[float](), [60]
    for after_s, trouble in steps:
        now_s += after_s
        if trouble:
            troubles.append(now_s)
            ladder.trouble(now_s)
        else:
            ladder.well(now_s)
        depths.append(ladder.depth_ms)
        before, after = (RUNGS_MS.index(d) for d in depths[-2:])
        if after > before:
            assert len([t for t in troubles if t >= now_s - WITHIN_S]) >= ENOUGH
        if after < before:
            assert not [t for t in troubles if t > now_s - CLEAN_S]
    assert all(abs(RUNGS_MS.index(a) - RUNGS_MS.index(b)) <= 1 for a, b in pairwise(depths))
