"""One player at a time: two would speak at once. Shell.

A player holds a lock on the file `playerd.lock` in `data_dir` for as long as it lives, whatever its
port. The system takes the lock away when the process ends, however it ends, so the file means
nothing; it is left where it is, because a lock on a file that was removed guards nothing.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from engine.config import Settings
from wsproto_api import discovery

log = structlog.get_logger("player")

LOCK_FILE = "playerd.lock"


@dataclass(frozen=True, slots=True)
class Other:
    """The player that was there first.

    Attributes:
        pid: its process; None in the moment before it has said so.
        address: URL of it; None while it starts.
    """

    pid: int | None
    address: str | None

    def __str__(self) -> str:
        if self.pid is None:
            return "Another player is just starting; wait a moment, and use that one."
        if self.address is None:
            return f"The player already runs as process {self.pid}; end that one first."
        return (
            f"The player already runs as process {self.pid} at {self.address}; use it, or end that "
            "process first."
        )


@contextmanager
def alone(settings: Settings) -> Iterator[Other | None]:
    """While the context lasts, there is no other player of this user; or yields the one there is.

    A folder that cannot hold a lock is a warning: the player then runs all the same.
    """
    path = settings.data_dir / LOCK_FILE
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        _unguarded(error)
        yield None
        return
    try:
        yield _first(settings, file)
    finally:
        os.close(file)  # and with it the lock


def _first(settings: Settings, file: int) -> Other | None:
    """Takes the lock; gives who has it, if that is somebody else."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(file, 0)
        os.pwrite(file, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        return _other(settings, os.pread(file, 32, 0))
    except OSError as error:  # a file system without locks, or a full one
        _unguarded(error)
    return None


def _other(settings: Settings, told: bytes) -> Other:
    if not told.strip().isdigit():
        return Other(None, None)
    pid = int(told)
    found = discovery.running(settings)
    return Other(pid, found.player if found.pid.get("player") == pid else None)


def _unguarded(error: OSError) -> None:
    log.warning(
        "it cannot be seen to it that only one player runs; this one runs all the same",
        error=error.strerror or str(error),
    )
