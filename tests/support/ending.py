"""A program that ends with the next status of a file: `python -m tests.support.ending FILE`.

A status below zero is that of a signal, by which it ends. With none left it waits for one, which
ends it with status 9.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from pathlib import Path


def main(path: Path) -> int:
    """Takes a status from the file."""
    first, *rest = path.read_text().split() or ["wait"]
    path.write_text(" ".join(rest))
    if first.startswith("-"):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -int(first))
    if first != "wait":
        return int(first)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
    path.with_suffix(".waits").touch()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
