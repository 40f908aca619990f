"""`python -m engine.again MODULE ...`: runs a program, and starts it anew when only that helps. Shell.

For `make up`: honcho ends everything when one process ends. Here is what service managers do
otherwise: a program that ends with status `TAINTED`, or by a fault, is started once more, and its
end is ours whenever it is another one, or when that has come too often.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from types import FrameType

from engine.errors import TAINTED

#: Signals that a process brings upon itself. Others are sent by somebody who wants its end.
_FAULTS = {
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGTRAP,
}

#: so often is it started …
MOST = 5
#: … in so many seconds
WITHIN_S = 60.0
#: between an end and the next start: a sound server or a disk may need a moment
PAUSE_S = 1.0


def run(arguments: Sequence[str]) -> int:
    """Runs a module with its arguments; gives the status with which it ended for good.

    SIGTERM is passed on, and nothing is started any more then; so it is with SIGINT, which the
    terminal gives to the program itself.
    """
    ended = False
    child: subprocess.Popen[bytes] | None = None

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal ended
        ended = True
        if child is not None and number == signal.SIGTERM:
            child.terminate()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        starts_s: deque[float] = deque(maxlen=MOST)
        while True:
            starts_s.append(time.monotonic())
            child = subprocess.Popen([sys.executable, "-m", *arguments])
            if ended:  # just before there was a child to be told
                child.terminate()
            status = child.wait()
            often = len(starts_s) == MOST and time.monotonic() < starts_s[0] + WITHIN_S
            if not (status == TAINTED or -status in _FAULTS) or ended or often:
                return _told(status)
            sys.stderr.write(f"Starting {arguments[0]} anew.\n")
            time.sleep(PAUSE_S)
            if ended:
                return _told(status)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _told(status: int) -> int:
    """As a shell tells it."""
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
