"""Turns in the one inference lane, and blocking model calls that take them. Shell.

The lane is handed on some passes of the event loop later, not in the same step: whoever has just
had a turn hands on what it made, from task to task, and then asks for the next one. It has to be in
the queue when the choice is made, because what it asks for is usually the most urgent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol, TypeVar

import trio

from engine.errors import SynthesisFailed
from engine.lane import Lane, Ticket
from engine.stall import Work

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

#: Passes of the event loop until the lane is handed on. From one step of a stream to the next there
#: are two: with one, each of three simulated streams at a RTF of 0.45 had a hole of half a second,
#: with two none had. The others are to spare, and take some tenths of a millisecond.
_PASSES = 5

#: what somebody is told whose call `Turns.restart` has stopped
STOOD_STILL = "The engine stood still at a part of the text and was set going again; have it spoken once more."


class Stoppable(Protocol[T_co]):
    """A blocking call that can be stopped; it is run once at most."""

    def run(self) -> T_co:
        """Does the work, in a worker thread."""
        ...

    def stop(self) -> None:
        """Makes `run` return or raise soon, also if it has yet to begin. From any thread."""
        ...


class Turns:
    """A lane that tasks wait for.

    Args:
        lane: decides whose turn is next; one with the default patience if None.

    Attributes:
        work: turns that are held or waited for, and calls that came to their end.
    """

    def __init__(self, lane: Lane | None = None) -> None:
        self.work = Work("model")
        self._running: Stoppable[object] | None = None
        self._given_up: Stoppable[object] | None = None
        self._lane = Lane() if lane is None else lane
        self._given: dict[Ticket, trio.Event] = {}
        self._passes_left = 0
        # trio's default limiter is everybody's: 40 threads elsewhere would hold up the lane.
        self._threads = trio.CapacityLimiter(1)

    @asynccontextmanager
    async def turn(self, *, deadline_s: float, batch: bool = False) -> AsyncIterator[None]:
        """Waits for a turn and holds the lane inside the context, for one call of `run` or more.

        Cancelled while it waits, it leaves the queue.

        Args:
            deadline_s: when the result is due at the listener, on trio's clock; `Pace.due_s`.
            batch: nobody listens; `deadline_s` does not count.

        Raises:
            ValueError: the deadline is not a number.
        """
        ticket = self._lane.arrive(deadline_s, batch=batch)
        given = self._given[ticket] = trio.Event()
        with self.work.asked():
            try:
                self._hand_on_soon()
                await given.wait()
                yield
            finally:
                del self._given[ticket]
                if given.is_set():  # also if the turn came in the moment of cancellation
                    self._lane.finish(ticket)
                    self._hand_on_soon()
                else:
                    self._lane.withdraw(ticket)

    def restart(self) -> None:
        """Sets the lane going when it stands still: stops the call that runs, whose stream fails.

        A call that does not end by that cannot be ended by anything but the end of the process.
        """
        if self._running is not None:
            self._given_up = self._running
            self._running.stop()
        self._hand_on_soon()

    def _hand_on_soon(self) -> None:
        if not self._passes_left:  # else those who come meanwhile would put it off, again and again
            self._passes_left = _PASSES
            trio.lowlevel.current_trio_token().run_sync_soon(self._hand_on)

    def _hand_on(self) -> None:
        self._passes_left -= 1
        if self._passes_left:
            with suppress(trio.RunFinishedError):  # then nobody waits any more
                trio.lowlevel.current_trio_token().run_sync_soon(self._hand_on)
            return
        ticket = self._lane.start(trio.current_time())
        if ticket is not None:
            self._given[ticket].set()

    async def run(self, call: Stoppable[T]) -> T:
        """Runs the call in a worker thread, inside a `turn`.

        When cancelled, it stops the call and is back when the thread has ended, whatever the call
        then returned or raised.

        trio does not abandon a thread unless told to, and here it must not: one that is still in
        the model when the interpreter ends would abort the process.

        Raises:
            SynthesisFailed: `restart` has stopped it.
            Exception: what the call raises.
        """
        running = True
        failure: Exception | None = None

        async def stop_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                if running:
                    call.stop()

        self._running = call
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop_when_cancelled)
            try:
                made = await trio.to_thread.run_sync(call.run, limiter=self._threads)
            except Exception as error:  # not through the nursery, which would wrap it
                failure = SynthesisFailed(STOOD_STILL) if call is self._given_up else error
            finally:
                self._running = self._given_up = None
            running = False
            self.work.progressed()
            nursery.cancel_scope.cancel()
        # Had this been cancelled, the nursery would have said so.
        if failure is not None:
            raise failure
        return made
