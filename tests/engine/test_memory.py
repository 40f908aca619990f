"""When memory is given back."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.memory import AGAIN_S, IDLE_S, ROOM_BYTES, Relief, Watchdog, remembered
from engine.report import CacheSize

LIMIT = 1000


class Process:
    """What is looked at every second, and does what it is told to.

    Attributes:
        frees: what each relief makes of its size; those that are not named change nothing.
        reliefs: what was done, by second.
    """

    def __init__(self, limit: int = LIMIT, rss: int | None = 500) -> None:
        self.watchdog = Watchdog(limit)
        self.rss = rss
        self.done = 7
        self.now_s = 0
        self.frees: dict[Relief, int] = {}
        self.reliefs: list[tuple[int, Relief]] = []

    def live(self, seconds: int, *, works: bool = False, active: bool = False) -> list[Relief]:
        """So many seconds, in each of which there is work or not; what was done in them."""
        before = len(self.reliefs)
        for _ in range(seconds):
            self.done += works
            relief = self.watchdog.look(self.now_s, self.rss, self.done, active=active)
            if relief is not None:
                self.reliefs.append((self.now_s, relief))
                self.rss = self.frees.get(relief, self.rss or 0) if self.rss is not None else None
                self.done += 2
                self.watchdog.relieved(self.done)
            self.now_s += 1
        return [relief for _, relief in self.reliefs[before:]]


def test_memory_is_given_back_once_when_there_was_work_and_is_none() -> None:
    process = Process()
    assert process.live(1000) == [Relief.IDLE], "what loading has left"
    assert process.live(200, works=True) == []
    assert process.live(int(IDLE_S) - 2) == []
    assert process.live(1000) == [Relief.IDLE]


def test_a_stream_that_waits_for_its_text_is_no_rest() -> None:
    process = Process()
    process.live(10, works=True)
    assert process.live(500, active=True) == []
    assert process.live(100) == [Relief.IDLE]


def test_above_the_limit_it_is_given_back_also_while_somebody_speaks() -> None:
    process = Process()
    process.frees = {Relief.LIMIT: 900}
    process.live(10, works=True, active=True)
    process.rss = LIMIT + 1
    assert process.live(100, works=True, active=True) == [Relief.LIMIT]
    assert not process.watchdog.too_large


def test_the_caches_are_forgotten_if_that_does_not_suffice() -> None:
    process = Process(rss=2000)
    process.frees = {Relief.FORGET: 900}
    assert process.live(100, works=True) == [Relief.LIMIT, Relief.FORGET]
    assert not process.watchdog.too_large
    process.rss = 2000  # again
    assert process.live(100, works=True) == [Relief.LIMIT, Relief.FORGET]


def test_what_does_not_help_is_not_done_all_the_time() -> None:
    process = Process(rss=2000)
    assert process.live(10) == [Relief.LIMIT, Relief.FORGET]
    assert process.watchdog.too_large
    assert process.live(10_000) == [], "nothing was done that could be given back"
    assert process.live(600, works=True) == [Relief.LIMIT] * 10
    assert process.watchdog.too_large
    process.rss = 900
    process.live(1)
    assert not process.watchdog.too_large


@pytest.mark.parametrize("limit", [0, LIMIT])
def test_where_the_system_does_not_tell_it_is_still_given_back_after_work(limit: int) -> None:
    process = Process(limit, rss=None)
    process.live(10, works=True)
    assert process.live(100) == [Relief.IDLE]
    assert process.watchdog.limit_bytes == (limit or None)


def test_without_a_limit_there_is_room_above_what_is_loaded() -> None:
    process = Process(0, rss=700)
    process.live(1)
    process.rss = 700 + ROOM_BYTES
    assert process.live(5, works=True) == []
    process.rss += 1
    assert process.live(5, works=True) == [Relief.LIMIT, Relief.FORGET]
    assert process.watchdog.limit_bytes == 700 + ROOM_BYTES


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.integers(0, 2 * LIMIT) | st.none()), max_size=400
    )
)
def test_whatever_happens_it_is_seldom(seconds: list[tuple[bool, bool, int | None]]) -> None:
    process = Process()
    for works, active, rss in seconds:
        process.rss = rss
        process.live(1, works=works, active=active)
    for kind, apart_s in ((Relief.LIMIT, AGAIN_S), (Relief.FORGET, AGAIN_S), (Relief.IDLE, IDLE_S)):
        times = [at for at, relief in process.reliefs if relief is kind]
        assert all(b - a >= apart_s for a, b in pairwise(times))


def test_what_a_function_remembers_is_counted() -> None:
    @lru_cache(3)
    def double(number: int) -> int:
        return 2 * number

    assert remembered("doubles", double) == CacheSize("doubles", 0, 3)
    for number in range(10):
        double(number)
    assert remembered("doubles", double) == CacheSize("doubles", 3, 3)
