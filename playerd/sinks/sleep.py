"""For how long this machine has been asleep. Shell."""

from __future__ import annotations

import sys
import time


def asleep_s() -> float:
    """Seconds of sleep so far, plus a constant; for ever the same where no clock counts them.

    The system's time of day is of no use for this: people and time servers set it.
    """
    if sys.platform == "linux":
        counting = time.CLOCK_BOOTTIME
    elif sys.platform == "darwin":
        # Python's monotonic clock stands still in sleep there, and is otherwise the same.
        counting = time.CLOCK_MONOTONIC_RAW
    else:
        return 0.0
    return time.clock_gettime(counting) - time.monotonic()
