"""Turns in the lane: simulated streams in virtual time, then real threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import inf
from typing import TypeVar

import pytest
import trio
import trio.testing

from engine.audio import SAMPLE_RATE
from engine.errors import SynthesisFailed
from engine.lane import BATCH_PATIENCE_S, Pace
from engine.turns import STOOD_STILL, Stoppable, Turns

T = TypeVar("T")

#: seconds that an acoustic pass and a window take, and the audio of a window
ACOUSTIC, WINDOW, AUDIO = 0.15, 0.08, 0.3
MAX_LEAD = 5.0


async def run(turns: Turns, call: Stoppable[T], *, deadline_s: float, batch: bool = False) -> T:
    """One call in a turn of its own."""
    async with turns.turn(deadline_s=deadline_s, batch=batch):
        return await turns.run(call)


@dataclass
class Simulated:
    """A stream whose model sleeps; everything is in virtual seconds."""

    turns: Turns
    name: str = ""
    batch: bool = False
    acoustic_s: float = ACOUSTIC
    window_s: float = WINDOW
    windows: int = 1000
    made_at: list[float] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    pace: Pace = field(init=False)

    async def run(self, after_s: float = 0.0) -> None:
        await trio.sleep(after_s)
        self.pace = Pace(trio.current_time())
        first_s = self.acoustic_s
        if self.batch:
            await self.piece(first_s)
            first_s = 0.0
        for number in range(self.windows):
            # Where somebody listens, the pass and the first window are one turn.
            await self.piece(self.window_s + (0 if number else first_s))
            self.late_s.append(self.pace.made(trio.current_time(), round(AUDIO * SAMPLE_RATE)))
            self.made_at.append(trio.current_time())
            if not self.batch:
                await trio.sleep(max(0.0, self.pace.lead_s(trio.current_time()) - MAX_LEAD))

    async def piece(self, takes_s: float) -> None:
        due_s = self.pace.due_s(trio.current_time())
        async with self.turns.turn(deadline_s=due_s, batch=self.batch):
            await trio.sleep(takes_s)


async def simulate(until_s: float, *streams: tuple[Simulated, float]) -> None:
    """Runs streams, each from its time on, and ends at `until_s`."""
    with trio.move_on_at(until_s):
        async with trio.open_nursery() as nursery:
            for stream, after_s in streams:
                nursery.start_soon(stream.run, after_s)


def apart(streams: list[Simulated]) -> Iterator[tuple[Simulated, float]]:
    """All at once, yet in order."""
    return ((stream, n * 1e-6) for n, stream in enumerate(streams))


async def test_a_new_stream_overtakes_those_with_audio_in_hand(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waits = []
    for n in range(40):
        turns = Turns()
        old = [Simulated(turns, window_s=0.07) for _ in range(3)]
        batch = Simulated(turns, batch=True, acoustic_s=0.05, window_s=0.1)
        new = Simulated(turns)
        arrival = trio.current_time() + 3 + 0.0937 * n
        await simulate(arrival + 1, *apart(old), (batch, 0.0), (new, 3 + 0.0937 * n))
        assert all(stream.pace.lead_s(arrival) > 0.3 for stream in old)
        waits.append(new.made_at[0] - arrival - ACOUSTIC - WINDOW)
    assert min(waits) >= -1e-9
    assert max(waits) <= 0.1  # the window that is running, at most
    assert sorted(waits)[len(waits) // 2] > 0.02


async def test_in_overload_everybody_makes_progress(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    live = [Simulated(turns) for _ in range(8)]  # load 8 * 0.08 / 0.3 = 2.1
    batch = [Simulated(turns, batch=True) for _ in range(2)]
    until = 120.0
    await simulate(until, *apart(live), *apart(batch))
    counts = [len(stream.made_at) for stream in live]
    assert max(counts) - min(counts) <= 1
    done = sum(counts) + sum(len(stream.made_at) for stream in batch)
    assert done == pytest.approx((until - 10 * ACOUSTIC) / WINDOW, abs=2)  # never idle
    shares = [len(stream.made_at) for stream in batch]
    # each has had one turn, the acoustic pass, that made no window
    assert min(shares) >= until / (BATCH_PATIENCE_S + 2 * WINDOW) / 2 - 2
    assert max(shares) - min(shares) <= 1
    round_s = 9 * WINDOW
    gaps = [b - a for stream in live for a, b in pairwise(stream.made_at[1:])]
    assert max(gaps[20:]) <= round_s + ACOUSTIC


async def test_streams_in_underrun_do_not_starve_a_new_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    old = [Simulated(turns) for _ in range(8)]
    new = Simulated(turns)
    await simulate(70.0, *apart(old), (new, 60.0))
    assert sum(old[0].late_s[1:]) > 20  # seconds behind, had it kept its first deadlines
    assert new.made_at[0] - 60 <= 8 * WINDOW + ACOUSTIC + WINDOW + 1e-6
    assert len(new.made_at) >= 10  # its share


@pytest.mark.parametrize("window_s", [0.03, 0.08])  # load 0.8 and 2.1
async def test_streams_that_arrive_together_are_served_in_order_and_alike(
    window_s: float,
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    streams = [Simulated(turns, window_s=window_s) for _ in range(8)]
    await simulate(8 * (ACOUSTIC + window_s) + 1, *apart(streams))
    firsts = [stream.made_at[0] for stream in streams]
    assert firsts == pytest.approx([k * (ACOUSTIC + window_s) for k in range(1, 9)], abs=1e-4)

    turns = Turns()
    streams = [Simulated(turns, window_s=window_s) for _ in range(8)]
    spreads = []
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for stream, after_s in apart(streams):
            nursery.start_soon(stream.run, after_s)
        await trio.sleep(8 * (ACOUSTIC + window_s) + AUDIO)
        while (now := trio.current_time()) < start + 30:
            leads = [stream.pace.lead_s(now) for stream in streams]
            spreads.append(max(leads) - min(leads))
            await trio.sleep(0.0371)
        nursery.cancel_scope.cancel()
    assert max(spreads) <= AUDIO + window_s
    assert len(spreads) > 500


async def test_nobody_underruns_when_there_is_time_for_all(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    live = [Simulated(turns, window_s=0.06) for _ in range(4)]  # load 0.8
    batch = [Simulated(turns, batch=True, window_s=0.06) for _ in range(2)]
    arrivals = [(stream, 1.7 * n) for n, stream in enumerate(live)]
    await simulate(90.0, *arrivals, *((stream, 0.5) for stream in batch))
    for stream in live:
        assert len(stream.made_at) > 250
        assert max(stream.late_s[1:]) == 0.0
        assert stream.late_s[0] <= ACOUSTIC + 0.06 + ACOUSTIC  # what ran when it came
    # what is left is theirs
    assert sum(len(stream.made_at) for stream in batch) > 90 * 0.15 / 0.06
    assert abs(len(batch[0].made_at) - len(batch[1].made_at)) <= 1


async def test_a_cancelled_stream_frees_the_lane_within_one_window(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    got: list[float] = []

    async def deaf() -> None:
        """A stream that can only be stopped between windows."""
        while True:
            async with turns.turn(deadline_s=0.0):
                with trio.CancelScope(shield=True):
                    await trio.sleep(WINDOW)

    for n in range(40):
        cancelled_at = trio.current_time() + 1 + 0.0137 * n
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(deaf)
            await trio.sleep_until(cancelled_at)
            nursery.cancel_scope.cancel()
        async with turns.turn(deadline_s=1e9):
            got.append(trio.current_time() - cancelled_at)
    assert max(got) <= WINDOW + 1e-9
    assert max(got) > WINDOW / 2


async def test_cancelling_at_any_moment_loses_no_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    turns = Turns()
    for n in range(60):
        streams = [Simulated(turns, batch=n % 3 == 0, windows=3) for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for stream in streams:
                nursery.start_soon(within, inf if stream is streams[2] else 0.01 * n, stream)
        assert len(streams[2].made_at) == 3


async def within(seconds: float, stream: Simulated) -> None:
    with trio.move_on_after(seconds):
        await stream.run()


# --- threads ------------------------------------------------------------------------------------


class Busy:
    """How many calls are running; never more than one."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.most = 0
        self._now: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        with self._lock:
            self._now[name] += 1
            self.most = max(self.most, self._now.total())
            self.log.append(f"{name} began")
        try:
            yield
        finally:
            with self._lock:
                self._now[name] -= 1
                self.log.append(f"{name} ended")


class Call:
    """Runs until it may go on, and fails if it was stopped or is told to."""

    def __init__(self, busy: Busy, name: str, *, waits: bool = False, deaf: bool = False) -> None:
        self.name = name
        self.failure: Exception | None = None
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.stops = 0
        self._busy = busy
        self._deaf = deaf
        if not waits:
            self.may_end.set()

    def run(self) -> str:
        with self._busy.call(self.name):
            self.began.set()
            self.may_end.wait()
        if self.stops:
            raise SynthesisFailed("It was stopped.")
        if self.failure is not None:
            raise self.failure
        return self.name

    def stop(self) -> None:
        self.stops += 1
        if not self._deaf:
            self.may_end.set()


@asynccontextmanager
async def held(turns: Turns, call: Call) -> AsyncIterator[trio.CancelScope]:
    """Inside, the call runs; it is awaited at the end. Yields what cancels it."""
    async with trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def hold() -> None:
            with scope:
                await run(turns, call, deadline_s=0.0)

        nursery.start_soon(hold)
        await trio.to_thread.run_sync(call.began.wait, abandon_on_cancel=True)
        try:
            yield scope
        finally:
            call.may_end.set()


async def test_contending_calls_run_one_at_a_time_in_order() -> None:
    turns, busy = Turns(), Busy()
    results: list[str] = []

    async def ask(name: str, deadline_s: float, batch: bool) -> None:
        call = Call(busy, name)
        results.append(await run(turns, call, deadline_s=deadline_s, batch=batch))
        assert not call.stops

    async with trio.open_nursery() as nursery, held(turns, Call(busy, "first", waits=True)):
        for name, deadline_s, batch in [
            ("batch", 0.0, True),
            ("late", 9.0, False),
            ("soon", 1.0, False),
            ("soon too", 1.0, False),
            ("past", -5.0, False),
        ]:
            nursery.start_soon(ask, name, deadline_s, batch)
            await trio.testing.wait_all_tasks_blocked()
        assert busy.log == ["first began"]
    expected = ["past", "soon", "soon too", "late", "batch"]
    assert results == expected
    assert busy.log[::2] == [f"{name} began" for name in ["first", *expected]]
    assert busy.most == 1


async def test_who_hands_on_what_it_made_is_not_overtaken_by_what_is_less_urgent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """From one turn to the next a stream hands a piece down its channels, which takes some passes."""
    turns, order = Turns(), list[str]()
    taken, told = (trio.open_memory_channel[int](0) for _ in range(2))

    async def windows() -> None:
        for number in range(3):
            async with turns.turn(deadline_s=number):
                await trio.sleep(1)
                order.append("window")
            for part in range(2):
                await taken[0].send(part)

    async def hand_on() -> None:
        async for number in taken[1]:
            await told[0].send(number)
            await trio.lowlevel.checkpoint()  # whoever sends the next one waits for that

    async def listen() -> None:
        async for _ in told[1]:
            pass

    async def acoustic_pass() -> None:
        await trio.sleep(0.5)
        async with turns.turn(deadline_s=9.0):
            order.append("pass")

    with trio.move_on_after(10):
        async with trio.open_nursery() as nursery:
            for task in (windows, hand_on, listen, acoustic_pass):
                nursery.start_soon(task)
    assert order == ["window", "window", "window", "pass"]


async def test_who_asks_and_goes_again_and_again_holds_nobody_up() -> None:
    """Each of them might have been the most urgent."""
    turns, passes = Turns(), 0
    async with trio.open_nursery() as nursery:

        async def ask_and_go() -> None:
            nonlocal passes
            while True:
                with trio.CancelScope() as scope:
                    scope.cancel()
                    async with turns.turn(deadline_s=9.0):
                        pass
                passes += 1

        nursery.start_soon(ask_and_go)
        async with turns.turn(deadline_s=0.0):
            assert passes < 50
        nursery.cancel_scope.cancel()


async def test_cancelled_while_waiting_is_never_run() -> None:
    turns, busy = Turns(), Busy()
    gone, stays = Call(busy, "gone"), Call(busy, "stays")
    async with trio.open_nursery() as nursery, held(turns, Call(busy, "first", waits=True)):
        scope = trio.CancelScope()

        async def ask() -> None:
            with scope:
                await run(turns, gone, deadline_s=0.0)

        nursery.start_soon(ask)
        nursery.start_soon(partial(run, turns, stays, deadline_s=1.0))
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        assert busy.log == ["first began"]
    assert busy.log[2:] == ["stays began", "stays ended"]
    assert (gone.stops, stays.stops) == (0, 0)


async def test_cancelled_while_running_is_stopped_and_joined() -> None:
    turns, busy = Turns(), Busy()
    deaf = Call(busy, "deaf", waits=True, deaf=True)
    async with trio.open_nursery() as nursery:
        async with held(turns, deaf) as scope:
            nursery.start_soon(partial(run, turns, Call(busy, "next"), deadline_s=0.0))
            scope.cancel()
            await trio.testing.wait_all_tasks_blocked()
            assert deaf.stops == 1
            assert not scope.cancelled_caught
            assert busy.log == ["deaf began"]  # the lane is not free before the thread has ended
        assert scope.cancelled_caught  # and what the call raises when stopped is not told
    assert busy.log[1:] == ["deaf ended", "next began", "next ended"]


async def test_a_restart_ends_the_call_that_runs_and_no_other() -> None:
    turns, busy = Turns(), Busy()
    results: list[str] = []

    async def ask() -> None:
        results.append(await run(turns, Call(busy, "next"), deadline_s=0.0))

    call = Call(busy, "call", waits=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(run_until_stopped, turns, call, results))
        await trio.to_thread.run_sync(call.began.wait, abandon_on_cancel=True)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert turns.work.waiting == 2
        turns.restart()
    assert results == [STOOD_STILL, "next"]
    assert call.stops == 1
    assert turns.work.waiting == 0
    turns.restart()  # there is nothing to stop
    assert await run(turns, Call(busy, "after"), deadline_s=0.0) == "after"


async def run_until_stopped(turns: Turns, call: Call, results: list[str]) -> None:
    with pytest.raises(SynthesisFailed) as caught:
        await run(turns, call, deadline_s=0.0)
    results.append(caught.value.message)


async def test_stopping_ends_a_call_without_help() -> None:
    turns, busy = Turns(), Busy()
    call = Call(busy, "call", waits=True)
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(run, turns, call, deadline_s=0.0))
            await trio.to_thread.run_sync(call.began.wait, abandon_on_cancel=True)
            scope.cancel()
    assert call.stops == 1
    assert busy.log == ["call began", "call ended"]


async def test_cancelled_before_it_asks_runs_nothing() -> None:
    turns, busy = Turns(), Busy()
    with trio.CancelScope() as scope:
        scope.cancel()
        await run(turns, Call(busy, "never"), deadline_s=0.0)
    assert scope.cancelled_caught
    assert not busy.log
    assert await run(turns, Call(busy, "after"), deadline_s=0.0) == "after"


@pytest.mark.parametrize("failure", [SynthesisFailed("It failed."), ZeroDivisionError("foreign")])
async def test_what_a_call_raises_comes_plain_and_frees_the_lane(failure: Exception) -> None:
    turns, busy = Turns(), Busy()
    call = Call(busy, "bad")
    call.failure = failure
    with pytest.raises(type(failure)) as caught:
        await run(turns, call, deadline_s=0.0)
    assert caught.value is failure
    assert not call.stops
    assert await run(turns, Call(busy, "after"), deadline_s=0.0) == "after"


async def test_a_deadline_that_is_no_number_is_refused() -> None:
    turns, busy = Turns(), Busy()
    with pytest.raises(ValueError, match="number"):
        await run(turns, Call(busy, "never"), deadline_s=float("nan"))
    assert await run(turns, Call(busy, "after"), deadline_s=0.0) == "after"


async def test_threads_elsewhere_do_not_hold_up_the_lane() -> None:
    turns, busy = Turns(), Busy()
    everybody = trio.to_thread.current_default_thread_limiter()
    borrowed = [object() for _ in range(int(everybody.total_tokens))]
    for borrower in borrowed:
        await everybody.acquire_on_behalf_of(borrower)
    try:
        assert await run(turns, Call(busy, "call"), deadline_s=0.0) == "call"
    finally:
        for borrower in borrowed:
            everybody.release_on_behalf_of(borrower)
