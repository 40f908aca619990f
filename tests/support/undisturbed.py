"""Tests that need the processor in time, and whether this machine let them have it.

What such a test finds wrong counts, unless somebody else was seen to be kept from the processor in
the same moments: a thread that sleeps for a moment, again and again, and is woken late. Then the test
is tried once more, with the same limits; one attempt must do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from itertools import chain
from types import TracebackType

#: Whoever is woken so much later may be too late for a block of the sound device.
LATE_S = 0.02
_TICK_S = 0.005
#: so often a test is tried at most
ATTEMPTS = 3


class Lateness:
    """How late this process is woken, while the context lasts.

    Attributes:
        times: how often by `LATE_S` or more.
        at_s: when, in seconds of `time.monotonic`.
        worst_s: by how much at most.
    """

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self.worst_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Lateness:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        began_s = time.monotonic()
        while not self._over.wait(_TICK_S):
            now_s = time.monotonic()
            self.woken(now_s - began_s - _TICK_S)
            began_s = now_s

    @property
    def times(self) -> int:
        return len(self.at_s)

    def woken(self, late_s: float) -> None:
        """It was woken so late."""
        if late_s >= LATE_S:
            self.at_s.append(time.monotonic())
        self.worst_s = max(self.worst_s, late_s)


async def undisturbed(
    attempt: Callable[[], Awaitable[None]],
    wrong: type[AssertionError] = AssertionError,
    lateness: Callable[[], Lateness] = Lateness,
) -> None:
    """Makes an attempt; another one if it was disturbed and something was wrong.

    Args:
        attempt: what is to succeed once.
        wrong: what may be the machine's fault.
        lateness: how that is seen.

    Raises:
        AssertionError: the machine let it run, or it was wrong each time.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            with lateness() as late:
                await attempt()
            return
        except (wrong, ExceptionGroup) as error:
            found = _all_of(error, wrong)
            if not (found and left and late.times):
                raise
            what = "; ".join(map(str, found)) or "something"
            print(
                f"Woken {late.times} times too late, by {late.worst_s * 1000:.0f} ms at most, and "
                f"{what} was wrong; trying once more."
            )


def _all_of(error: Exception, wrong: type[Exception]) -> list[Exception]:
    """The exceptions of a group, as a nursery makes one; none if another one is among them."""
    if not isinstance(error, ExceptionGroup):
        return [error] if isinstance(error, wrong) else []
    parts = [_all_of(each, wrong) for each in error.exceptions]
    return list(chain.from_iterable(parts)) if all(parts) else []
