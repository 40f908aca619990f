"""The mark of an engine that uses another provider than the processor. Shell: files, locks, faults.

`ends` says what it is for. A mark is a file in the cache, which several engines may share: each has
one of its own, and holds a lock on it as long as it lives. The lock dies with the process, however
that ends, and no process that comes to have its number holds it.
"""

from __future__ import annotations

import atexit
import faulthandler
import fcntl
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import structlog
from numpy.typing import NDArray

from engine.errors import blame
from engine.model import ends
from engine.model.ends import BUSY, IDLE, End, Mark
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Open, Runs
from engine.model.store import install

log = structlog.get_logger("engine")

#: in the cache
FOLDER = "in-use"

#: more than a mark and the fault behind it ever have; what matters is in front
_MAX_BYTES = 64 * 1024


class InUse:
    """What this process writes down while it has sessions of other providers than the processor.

    Python's faulthandler writes into the mark meanwhile. A mark that cannot be written is none.

    Args:
        cache: where marks are kept.
    """

    def __init__(self, cache: Path) -> None:
        self._folder = cache.expanduser() / FOLDER
        self._changing = threading.RLock()  # a session may be collected in the middle of a change
        self._sessions = self._calls = 0
        self._handle: FileIO | None = None
        self._file = self._folder
        self._told_elsewhere = False

    def opens(self, mark: Mark, opens: Open) -> Open:
        """Makes sessions; those of other providers are marked before, and as long as they are there."""

        def opened(graph: Path, threads: int, place: Candidate) -> Runs:
            if place == CPU:
                return opens(graph, threads, place)
            return _Watched(self, mark, lambda: opens(graph, threads, place))

        return opened

    def began(self, mark: Mark) -> None:
        """There will be one more session."""
        with self._changing:
            self._sessions += 1
            if self._handle is None:
                self._write(mark)

    def left(self) -> None:
        """There is one session less."""
        with self._changing:
            self._sessions -= 1
            if not self._sessions:
                self.remove()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Inside, a provider may do what it likes."""
        self._count(1)
        try:
            yield
        finally:
            self._count(-1)

    def _count(self, more: int) -> None:
        with self._changing:
            before, self._calls = self._calls, self._calls + more
            if self._handle is not None and not (before and self._calls):
                # What the system has of a file outlives the process, if not the machine.
                with suppress(OSError):
                    os.pwrite(self._handle.fileno(), BUSY if self._calls else IDLE, 0)

    def _write(self, mark: Mark) -> None:
        file = self._folder / uuid.uuid4().hex
        temporary = file.with_name(f".{file.name}")
        handle: FileIO | None = None
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            handle = FileIO(temporary, "xb")
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            handle.write(ends.encoded(mark))
            install(temporary, file)
        except OSError as error:
            log.warning("that a provider is in use cannot be written down", error=blame(error))
            if handle is not None:
                handle.close()
                with suppress(OSError):
                    temporary.unlink()
            return
        self._handle, self._file = handle, file
        self._told_elsewhere = faulthandler.is_enabled()
        faulthandler.enable(handle)
        atexit.register(self.remove)

    def remove(self) -> None:
        """Takes the mark away, if there is one: nothing that happens from now on is a provider's."""
        with self._changing:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            faulthandler.disable()
            if self._told_elsewhere and sys.__stderr__ is not None:
                faulthandler.enable(sys.__stderr__)
            with suppress(OSError):
                self._file.unlink()  # before the lock is gone: it is never there without
            handle.close()
            atexit.unregister(self.remove)


class _Watched:
    """A session of another provider, as long as it is there."""

    def __init__(self, in_use: InUse, mark: Mark, opens: Callable[[], Runs]) -> None:
        self._in_use = in_use
        in_use.began(mark)
        with in_use.calling():
            self._runs = opens()

    def __del__(self) -> None:
        with self._in_use.calling():
            self.__dict__.pop("_runs", None)  # one that failed may fail at its end too
        self._in_use.left()

    def get_inputs(self) -> Sequence[Any]:
        return self._runs.get_inputs()

    def run(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[np.generic]], run: ort.RunOptions
    ) -> list[Any]:
        with self._in_use.calling():
            return self._runs.run(names, feeds, run)


def ended(cache: Path, decided_s: float) -> list[End]:
    """The ends that count against this decision. The marks of all others are taken away.

    Those of engines that live are left alone, and so is a folder that cannot be read or written.
    """
    found: list[End] = []
    with suppress(OSError):
        for file in sorted((cache.expanduser() / FOLDER).glob("[!.]*")):
            with suppress(OSError), file.open("rb") as handle:  # BlockingIOError: it is alive
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if not os.fstat(handle.fileno()).st_nlink:
                    continue  # taken away since it was opened
                end = ends.decoded(handle.read(_MAX_BYTES))
                if end and ends.counts(end, decided_s):
                    found.append(end)
                else:
                    file.unlink()
    return found
