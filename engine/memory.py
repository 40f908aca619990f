"""When memory is given back: after work, and when the process takes too much of it. Core.

ONNX Runtime keeps what its largest call so far has needed, and the C library what was freed.
`upkeep` has both given back when nobody speaks, and when the process is larger than its limit; if
that does not make it small enough, it empties the caches too.
"""

from __future__ import annotations

import math
from enum import Enum
from functools import _lru_cache_wrapper
from typing import Any

from engine.report import CacheSize

#: seconds without work before memory is given back: somebody who goes on need not wait for it
IDLE_S = 60.0
#: seconds between two attempts to get below the limit
AGAIN_S = 60.0
#: bytes above what the process has when it is loaded, if no limit was set
ROOM_BYTES = 1_000_000_000


class Relief(Enum):
    """Why and how memory is given back."""

    IDLE = "idle"
    LIMIT = "limit"
    FORGET = "forget"  # above the limit; the caches are emptied too


class Watchdog:
    """Decides when memory is given back. `look` every second; `relieved` when it was.

    Args:
        limit_bytes: of the whole process; 0: `ROOM_BYTES` more than at the first look.

    Attributes:
        limit_bytes: None while it is not known, because the system does not tell of memory.
        too_large: the process is above the limit, and nothing has helped.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes or None
        self.too_large = False
        self._done: int | None = None
        self._worked = True  # since memory was given back; loading works too
        self._busy_s = -math.inf  # when there was work last
        self._tried_s = -math.inf  # when it was last tried to get below the limit …
        self._tried = 0  # … and how often, since it was exceeded

    def look(
        self, now_s: float, rss_bytes: int | None, done: int, *, active: bool
    ) -> Relief | None:
        """Looks at how things are; what is to be done, if anything.

        Args:
            now_s: the time, on any one clock.
            rss_bytes: of the process; None if the system does not tell.
            done: counts pieces of the model's work.
            active: whether anything is spoken.
        """
        if self.limit_bytes is None and rss_bytes is not None:
            self.limit_bytes = rss_bytes + ROOM_BYTES
        if self._done is None:
            self._done, self._busy_s = done, now_s
        if active or done != self._done:
            self._busy_s = now_s
            self._worked |= done != self._done
            self._done = done
        if self.limit_bytes is not None and rss_bytes is not None:
            if rss_bytes > self.limit_bytes:
                return self._exceeded(now_s)
            self._tried, self.too_large = 0, False
        if self._worked and now_s - self._busy_s >= IDLE_S:
            return Relief.IDLE
        return None

    def _exceeded(self, now_s: float) -> Relief | None:
        if self._tried == 1:  # what a shrink did is seen at once
            self._tried = 2
            return Relief.FORGET
        self.too_large = self._tried > 1
        if now_s - self._tried_s < AGAIN_S or (self.too_large and not self._worked):
            return None
        self._tried = max(self._tried, 1)
        self._tried_s = now_s
        return Relief.LIMIT

    def relieved(self, done: int) -> None:
        """Memory was given back, which is no work to be counted.

        Args:
            done: as in `look`, behind it.
        """
        self._done, self._worked = done, False


def remembered(name: str, function: _lru_cache_wrapper[Any]) -> CacheSize:
    """What a function remembers of its calls; it must have a bound."""
    found = function.cache_info()
    assert found.maxsize is not None
    return CacheSize(name, found.currsize, found.maxsize)
