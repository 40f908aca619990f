"""Whether work stands still. Core.

A worker counts what it is asked for and what it has done (`Work`); nothing is timed there. Somebody
with a clock looks again and again (`StallWatch`), and adds up how long nothing was done though there
was something to do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

#: how often to look, in seconds
LOOK_S = 1.0


class Work:
    """What one worker has to do.

    Args:
        name: for the log.

    Attributes:
        waiting: how much is asked for and not done.
        done: counts what was done, whether or not it went well.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting = 0
        self.done = 0

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Inside, something is asked for; behind it, it is done."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self.done += 1

    def progressed(self) -> None:
        """A part of what is asked for is done."""
        self.done += 1


class StallWatch:
    """Adds up for how long a worker has had work and done nothing.

    Args:
        work: of the worker.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.quiet_s = 0.0
        self._seen_s: float | None = None
        self._done: int | None = None  # then; None if there was nothing to do

    def look(self, now_s: float) -> None:
        """Looks at the work.

        A look that comes much later than it should (`LOOK_S`) tells that the whole process, or the
        machine, stood still, which is nobody's fault: it counts as if it had come a little late.
        """
        work, since_s = self.work, now_s - (now_s if self._seen_s is None else self._seen_s)
        if not work.waiting or work.done != self._done:
            self.quiet_s = 0.0
        else:
            self.quiet_s += min(since_s, 2 * LOOK_S)
        self._seen_s = now_s
        self._done = work.done if work.waiting else None


def quietest(watches: Sequence[StallWatch]) -> StallWatch:
    """The one that has stood still for longest."""
    return max(watches, key=lambda watch: watch.quiet_s)
