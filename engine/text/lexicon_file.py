"""The user's lexicon file, read again when it changes. Shell."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import structlog

from engine.text.lexicon import Lexicon
from engine.text.lexicon_toml import Fault, Parsed, parsed

log = structlog.get_logger("lexicon")

#: seconds between two looks at the file
LOOK_S = 1.0
#: four times 10,000 entries; more would stop the process for seconds
MAX_BYTES = 2_000_000


def read(path: Path) -> Parsed:
    """What is in a file. Blocking: 0.05 ms an entry (measured).

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return Parsed((), (Fault(1, f"The file has more than {MAX_BYTES} bytes."),))
    try:
        return parsed(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return Parsed((), (Fault(line, "This is not UTF-8; save the file in that encoding."),))


class LexiconFile:
    """Entries of a file that may change, or come and go, at any time.

    Args:
        path: the file.
        clock: seconds that never go back.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path.expanduser()
        self._clock = clock
        self._look_at_s = clock()
        self._seen: tuple[int, ...] | None = None
        self._lexicon = Lexicon()

    def current(self) -> Lexicon:
        """What the file says now, a second late at most; without a file, nothing.

        Blocking, for one thread at a time. A file with a fault changes nothing: the fault is
        logged, once, and what the file said before it stays.
        """
        now_s = self._clock()
        if now_s >= self._look_at_s:
            self._look_at_s = now_s + LOOK_S
            seen = _version(self._path)
            if seen != self._seen:
                self._seen = seen
                self._lexicon = self._read() if seen else Lexicon()
        return self._lexicon

    def _read(self) -> Lexicon:
        try:
            entries, faults = read(self._path)
        except OSError as error:
            log.warning("lexicon cannot be read", file=str(self._path), reason=error.strerror)
            return self._lexicon
        if faults:
            log.warning(
                "lexicon has faults; what it said before stays",
                file=str(self._path),
                line=faults[0].line,
                reason=faults[0].message,
                faults=len(faults),
            )
            return self._lexicon
        log.info("lexicon read", file=str(self._path), entries=len(entries))
        return Lexicon(entry for _, entry in entries)


def _version(path: Path) -> tuple[int, ...] | None:
    """Changes with the file's content; None if there is no file."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
