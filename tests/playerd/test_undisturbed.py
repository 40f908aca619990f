"""What a busy machine excuses, and what it does not."""

from __future__ import annotations

import pytest
import trio

from tests.support.undisturbed import ATTEMPTS, LATE_S, Lateness, undisturbed


class Quiet(Lateness):
    """As on a machine with nothing else to do."""

    def _watch(self) -> None:
        self.woken(LATE_S / 2)


class Busy(Lateness):
    """As on a machine with too much to do."""

    def _watch(self) -> None:
        self.woken(LATE_S / 2)
        self.woken(LATE_S * 2)


class Attempts:
    """Fails so often, and counts."""

    def __init__(self, failures: int, error: type[Exception] = AssertionError) -> None:
        self.made = 0
        self._failures = failures
        self._error = error

    async def __call__(self) -> None:
        self.made += 1
        if self.made <= self._failures:
            raise self._error("It was late.")


@pytest.mark.parametrize("lateness", [Quiet, Busy])
async def test_what_is_right_at_once_is_not_repeated(lateness: type[Lateness]) -> None:
    attempt = Attempts(0)
    await undisturbed(attempt, lateness=lateness)
    assert attempt.made == 1


async def test_a_quiet_machine_is_no_excuse() -> None:
    attempt = Attempts(1)
    with pytest.raises(AssertionError):
        await undisturbed(attempt, lateness=Quiet)
    assert attempt.made == 1


async def test_a_busy_machine_is_an_excuse_as_long_as_one_attempt_does() -> None:
    attempt = Attempts(ATTEMPTS - 1)
    await undisturbed(attempt, lateness=Busy)
    assert attempt.made == ATTEMPTS


async def test_what_is_wrong_each_time_is_wrong() -> None:
    attempt = Attempts(ATTEMPTS)
    with pytest.raises(AssertionError):
        await undisturbed(attempt, lateness=Busy)
    assert attempt.made == ATTEMPTS


async def test_what_no_machine_explains_is_not_repeated() -> None:
    class Late(AssertionError):
        pass

    attempt = Attempts(1)
    with pytest.raises(AssertionError):
        await undisturbed(attempt, Late, lateness=Busy)
    assert attempt.made == 1
    attempt = Attempts(1, Late)
    await undisturbed(attempt, Late, lateness=Busy)
    assert attempt.made == 2


async def test_what_is_found_wrong_in_a_nursery_is_the_same() -> None:
    attempt = Attempts(1)

    async def in_a_nursery() -> None:
        async with trio.open_nursery():
            await attempt()

    await undisturbed(in_a_nursery, lateness=Busy)
    assert attempt.made == 2
    crash = Attempts(1, RuntimeError)

    async def and_a_crash() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(crash)
            await Attempts(1)()

    with pytest.RaisesGroup(RuntimeError, AssertionError):
        await undisturbed(and_a_crash, lateness=Busy)
    assert crash.made == 1


def test_how_late_it_is_woken() -> None:
    with Busy() as late:
        pass
    assert (late.times, late.worst_s) == (1, LATE_S * 2)
