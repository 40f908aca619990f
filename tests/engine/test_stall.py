"""Whether work stands still: counted by the worker, timed by whoever looks."""

from __future__ import annotations

import random

import pytest

from engine.stall import LOOK_S, StallWatch, Work, quietest


def look(watch: StallWatch, *times: float) -> float:
    for now_s in times:
        watch.look(now_s)
    return watch.quiet_s


def test_work_counts_what_waits_and_what_is_done() -> None:
    work = Work("model")
    with work.asked():
        with work.asked():
            assert (work.waiting, work.done) == (2, 0)
        work.progressed()
        assert (work.waiting, work.done) == (1, 2)
    assert (work.waiting, work.done) == (0, 3)


def test_work_that_fails_is_done_too() -> None:
    work = Work("model")
    with pytest.raises(ZeroDivisionError), work.asked():
        raise ZeroDivisionError
    assert (work.waiting, work.done) == (0, 1)


def test_who_has_nothing_to_do_does_not_stand_still() -> None:
    assert look(StallWatch(Work("model")), *range(100)) == 0


def test_quiet_is_the_time_with_work_and_without_progress() -> None:
    watch = StallWatch(work := Work("model"))
    look(watch, 0, 1)
    with work.asked():
        assert look(watch, 2) == 0  # it may have come just now
        assert look(watch, 3, 4, 5) == 3
        work.progressed()
        assert look(watch, 6) == 0
        assert look(watch, 7, 8) == 2
    assert look(watch, 9) == 0


def test_one_piece_of_work_after_the_other_is_progress() -> None:
    watch = StallWatch(work := Work("model"))
    for now_s in range(100):
        with work.asked():
            assert look(watch, now_s) == 0


def test_a_process_that_was_stopped_did_not_stand_still() -> None:
    """The machine slept, or somebody held it: no look came meanwhile."""
    watch = StallWatch(work := Work("model"))
    with work.asked():
        assert look(watch, 0, 1, 2) == 2
        assert look(watch, 3600) == 2 + 2 * LOOK_S


def test_it_is_never_more_than_the_time_since_the_last_progress() -> None:
    rng = random.Random(5)
    watch, work, now_s, since_s = StallWatch(w := Work("model")), w, 0.0, 0.0
    with work.asked():
        for _ in range(500):
            now_s += rng.choice([0.1, LOOK_S, 1.5 * LOOK_S, 40.0])
            if rng.random() < 0.2:
                work.progressed()
                since_s = now_s
            assert 0 <= look(watch, now_s) <= now_s - since_s


def test_the_quietest() -> None:
    watches = [StallWatch(Work(name)) for name in ("model", "text")]
    with watches[1].work.asked():
        for watch in watches:
            look(watch, 0, 1, 2)
        assert quietest(watches).work.name == "text"
