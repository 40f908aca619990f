"""One thread that does everything, and is replaced only when a call hangs."""

from __future__ import annotations

import gc
import threading
from collections.abc import AsyncIterator

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from playerd.sinks.worker import LEFT_LIMIT, Hangs, Worker


class Hanging:
    """A call that hangs until `released`, and lets the clock jump when it does.

    It is the test's clock only if the test itself asks for it.
    """

    def __init__(self, clock: MockClock) -> None:
        self.released = threading.Event()
        self.threads: list[int] = []
        self._clock = clock
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self) -> str:
        self.threads.append(threading.get_ident())
        self._token.run_sync_soon(self._clock.jump, 1.0)
        self.released.wait()
        return "returned"


@pytest.fixture
async def hanging(mock_clock: MockClock) -> AsyncIterator[Hanging]:
    hanging = Hanging(mock_clock)
    yield hanging
    hanging.released.set()


async def test_all_calls_come_from_one_thread_and_it_is_not_ours() -> None:
    worker = Worker()
    threads = {await worker.call(threading.get_ident, 10) for _ in range(20)}
    assert len(threads) == 1
    assert threading.get_ident() not in threads


async def test_what_a_call_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await Worker().call(lambda: 1 // 0, 10)


async def test_calls_come_in_order() -> None:
    worker, order = Worker(), list[int]()
    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(worker.call, lambda n=n: order.append(n), 10)
            await wait_all_tasks_blocked()
    assert order == list(range(10))


async def test_the_next_call_waits_for_one_that_hangs(
    hanging: Hanging, mock_clock: MockClock
) -> None:
    worker, done = Worker(), list[str]()
    with pytest.raises(Hangs) as error:
        await worker.call(hanging, 0.5)
    assert not error.value.left
    assert worker.busy_s > 0
    mock_clock.rate = 100.0
    with pytest.raises(Hangs):
        await worker.call(lambda: done.append("too late"), 0.5)
    hanging.released.set()
    assert await worker.call(threading.get_ident, 100) == hanging.threads[0]
    assert done == []  # it had been given up before its turn
    assert (worker.busy_s, worker.left) == (0.0, 0)


async def test_a_call_that_is_left_holds_up_nobody(hanging: Hanging, mock_clock: MockClock) -> None:
    worker = Worker()
    with pytest.raises(Hangs) as error:
        await worker.call(hanging, 0.5, leave=True)
    assert error.value.left
    assert (worker.left, worker.busy_s) == (1, 0.0)
    assert await worker.call(threading.get_ident, 10) != hanging.threads[0]
    hanging.released.set()
    while worker.left:
        await trio.lowlevel.checkpoint()


async def test_no_more_are_left_than_so_many(hanging: Hanging, mock_clock: MockClock) -> None:
    worker = Worker()
    for _ in range(LEFT_LIMIT):
        with pytest.raises(Hangs):
            await worker.call(hanging, 0.5, leave=True)
    with pytest.raises(Hangs) as error:
        await worker.call(hanging, 0.5, leave=True)
    assert not error.value.left
    assert worker.left == LEFT_LIMIT
    assert worker.busy_s > 0
    hanging.released.set()
    await worker.call(lambda: None, 100)
    while worker.left:
        await trio.lowlevel.checkpoint()
    assert worker.busy_s == 0


async def test_who_is_cancelled_leaves_nothing_behind(
    hanging: Hanging, mock_clock: MockClock
) -> None:
    """The next call does not run beside the one that nobody waits for any more."""
    worker = Worker()
    with trio.move_on_after(0.5):
        await worker.call(hanging, 10, leave=True)
    assert worker.left == 0
    hanging.released.set()
    assert await worker.call(threading.get_ident, 100, leave=True) == hanging.threads[0]


async def test_the_thread_ends_with_the_worker() -> None:
    worker = Worker()
    thread = await worker.call(threading.current_thread, 10)
    del worker
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
