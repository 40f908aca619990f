"""One thread for calls that may hang. Shell.

All calls come from the same thread, one after the other. A call that does not come back cannot be
ended; its thread may be left behind with it, and another one takes its place.
"""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Generic, TypeVar, cast

import trio

T = TypeVar("T")

#: so many calls may be left behind at once; each holds a thread until it returns, if ever
LEFT_LIMIT = 16


class Hangs(Exception):
    """A call did not come back in time.

    Args:
        left: its thread is left behind, and the next call does not wait for it.
    """

    def __init__(self, *, left: bool) -> None:
        super().__init__()
        self.left = left


class _Job(Generic[T]):
    """A call on its way through the thread."""

    def __init__(self, action: Callable[[], T]) -> None:
        self.action = action
        self.over = trio.Event()
        self.token = trio.lowlevel.current_trio_token()
        self.began_s = math.inf
        self.given_up = False
        self.left = False
        self.value: T | None = None
        self.error: BaseException | None = None

    def run(self, done: Callable[[_Job[T]], object]) -> None:
        """In the thread."""
        if self.given_up:
            return
        self.began_s = time.monotonic()
        try:
            self.value = self.action()
        except BaseException as error:
            self.error = error
        with suppress(trio.RunFinishedError):
            self.token.run_sync_soon(done, self)


_Jobs = SimpleQueue["_Job[object] | None"]


class Worker:
    """Makes calls in its thread.

    Attributes:
        left: calls that hang, and that nobody waits for.
    """

    def __init__(self) -> None:
        self.left = 0
        self._jobs: _Jobs | None = None
        self._job: _Job[object] | None = None  # the newest that nobody waited to the end for

    @property
    def busy_s(self) -> float:
        """For how long the call has been running that the next one would have to wait for."""
        if self._job is None:
            return 0.0
        return max(time.monotonic() - self._job.began_s, 0.0)

    async def call(self, action: Callable[[], T], limit_s: float, *, leave: bool = False) -> T:
        """Has `action` done in the thread. If cancelled before its turn, it is not done at all.

        Args:
            action: what to do; its result and its exceptions are given to the caller.
            limit_s: how long to wait, for its turn too.
            leave: a call that hangs is left behind with its thread, if it has begun; only for
                what may run at the same time as the next call.

        Raises:
            Hangs: it takes longer.
        """
        job = _Job(action)
        if self._jobs is None:
            self._jobs = self._thread()
        self._jobs.put(cast("_Job[object]", job))
        patience = trio.move_on_after(limit_s)
        try:
            with patience:
                await job.over.wait()
        finally:
            if not job.over.is_set():
                hangs = patience.cancelled_caught  # else nobody knows: the caller was cancelled
                self._wait_no_more(cast("_Job[object]", job), leave=leave and hangs)
        if not job.over.is_set():
            raise Hangs(left=job.left)
        if job.error is not None:
            raise job.error
        return cast("T", job.value)

    def _wait_no_more(self, job: _Job[object], *, leave: bool) -> None:
        job.given_up = True
        if job.began_s == math.inf:
            return  # it waits for another one, and will not be done
        self._job = job
        if leave and self.left < LEFT_LIMIT and self._jobs is not None:
            self.left += 1
            job.left = True
            self._jobs.put(None)
            self._job = self._jobs = None

    def _done(self, job: _Job[object]) -> None:
        if job is self._job:
            self._job = None
        self.left -= job.left
        job.over.set()

    def _thread(self) -> _Jobs:
        jobs: _Jobs = SimpleQueue()
        # The thread holds its queue and nothing of us, and so ends when we are forgotten.
        done = weakref.WeakMethod(self._done)

        def tell(job: _Job[object]) -> None:
            if (method := done()) is not None:
                method(job)

        def work() -> None:
            while (job := jobs.get()) is not None:
                job.run(tell)

        threading.Thread(target=work, name="sound system", daemon=True).start()
        weakref.finalize(self, jobs.put, None)
        return jobs
