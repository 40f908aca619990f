"""The line of those who wait to be spoken. Shell.

An app in a call asks for one sentence after the other without waiting, and plays them in their
order. Made side by side, as the engine would, they would all be ready at the end. So a request is
let in when the one before it is made, or has so much sound in hand that it will not miss the time.

    place            taken in the order of arrival, and held until the answer is sent or given up
    the turn         passes on with `IN_HAND_S` of sound, after `PATIENCE_S`, or at the end

Requests of priority `batch` have a line of their own, and are made one after the other: somebody
wants the whole of each, and what was begun later would only make it later. The engine lets them
have the time that others leave.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from engine.audio import SAMPLE_RATE
from engine.errors import EngineError, Overloaded

#: Longer than nearly all sentences, so that these are made in their order; made in half the time.
IN_HAND_S = 10.0

#: A turn may take so long at most: the engine may stand still, or the client not read.
PATIENCE_S = 15.0
BATCH_PATIENCE_S = 120.0

#: what somebody is told who does not get in
RETRY_MS = 2_000


@dataclass(slots=True, eq=False)
class Place:
    """One request that has been let in.

    Attributes:
        until_s: when its turn is over, on trio's clock.
        in_hand_s: the sound with which its turn is over before that.
        passed: set when it is over.
    """

    until_s: float
    in_hand_s: float
    passed: trio.Event = field(default_factory=trio.Event)
    _samples: int = 0

    def made(self, samples: int) -> None:
        """There is more sound, 24 kHz."""
        self._samples += samples
        if self._samples >= self.in_hand_s * SAMPLE_RATE:
            self.passed.set()


@dataclass(slots=True, eq=False)
class _Waiter:
    """One request that has not been let in."""

    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    dismissal: EngineError | None = None


@dataclass(slots=True)
class _Queue:
    patience_s: float
    in_hand_s: float
    #: held by whoever is first among those who wait; trio's locks are given in the order of arrival
    head: trio.Lock = field(default_factory=trio.Lock)
    last: Place | None = None
    waiters: set[_Waiter] = field(default_factory=set)

    @property
    def free(self) -> bool:
        return not self.head.locked() and (
            self.last is None
            or self.last.passed.is_set()
            or trio.current_time() >= self.last.until_s
        )


class Line:
    """Lets requests in.

    Args:
        at_once: how many answers may be under way.
        waiting: how many requests may wait, and how many of priority `batch` besides.
    """

    def __init__(self, *, at_once: int, waiting: int) -> None:
        self._slots = trio.CapacityLimiter(at_once)
        self._most = waiting
        self._live = _Queue(PATIENCE_S, IN_HAND_S)
        self._batch = _Queue(BATCH_PATIENCE_S, math.inf)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._live.waiters) + len(self._batch.waiters)

    @property
    def inside(self) -> int:
        """How many have been let in."""
        return self._slots.borrowed_tokens

    @asynccontextmanager
    async def place(self, *, batch: bool = False) -> AsyncIterator[Place]:
        """Waits for a place, and holds it inside the context.

        Raises:
            Overloaded: as many wait as may.
            EngineError: those who waited were dismissed.
        """
        queue = self._batch if batch else self._live
        if queue.free and self._slots.available_tokens:
            place = await self._let_in(queue)
        elif (waiting := len(queue.waiters)) < self._most:
            place = await self._wait(queue)
        else:
            raise Overloaded(
                f"There are {waiting} requests for speech in line, and more may not wait; "
                "try again in a moment.",
                retry_after_ms=RETRY_MS,
            )
        try:
            yield place
        finally:
            place.passed.set()
            self._slots.release_on_behalf_of(place)

    def dismiss(self, error: EngineError) -> None:
        """Tells those who wait what the one before them was told: it would be the same for them."""
        for waiter in self._live.waiters | self._batch.waiters:
            waiter.dismissal = type(error)(error.message, retry_after_ms=error.retry_after_ms)
            waiter.scope.cancel()

    async def _wait(self, queue: _Queue) -> Place:
        waiter = _Waiter()
        queue.waiters.add(waiter)
        try:
            with waiter.scope:
                return await self._let_in(queue)
        finally:
            queue.waiters.discard(waiter)
        assert waiter.dismissal is not None  # nobody else cancels the scope
        raise waiter.dismissal

    async def _let_in(self, queue: _Queue) -> Place:
        async with queue.head:
            if queue.last is not None:
                with trio.move_on_at(queue.last.until_s):
                    await queue.last.passed.wait()
            place = Place(until_s=math.inf, in_hand_s=queue.in_hand_s)
            await self._slots.acquire_on_behalf_of(place)
            place.until_s = trio.current_time() + queue.patience_s
            queue.last = place
        return place
