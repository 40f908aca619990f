"""A program that is killed at once."""

from __future__ import annotations

import os
import signal

if __name__ == "__main__":
    os.kill(os.getpid(), signal.SIGKILL)
