"""Safe files: hashes that are remembered, atomic writes, and a lock between processes. Files.

A file is either absent or whole under its final name. Everything here works on one folder, the
cache, which several processes may use at once; a read-only cache is fine as long as nothing must
be written to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEDGER = "verified.json"
LOCK = ".lock"


def sha256_of(path: Path) -> str:
    """The sha256 of a file's content, in hex. About 0.1 s for 100 MB."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(slots=True)
class Ledger:
    """Remembers the hash of files by absolute path, size and time of change.

    Hashing the model at every start would cost a good part of the time to the first word. A file
    whose size or time of change (ns) is another than remembered is hashed again. A ledger that
    is missing, unreadable or damaged only costs time.

    Attributes:
        path: the JSON file.
        hash_file: what computes a hash; tests count its calls.
    """

    path: Path
    hash_file: Callable[[Path], str] = sha256_of
    _known: dict[str, Any] = field(default_factory=dict)
    _changed: bool = False

    def __post_init__(self) -> None:
        self._known = self._read()

    def _read(self) -> dict[str, Any]:
        try:
            raw = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return raw if isinstance(raw, dict) else {}

    def digest(self, path: Path) -> str | None:
        """The sha256 of `path`, or None if there is no such file.

        Raises:
            OSError: the file is there but cannot be read.
        """
        try:
            stat = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not path.is_file():
            return None
        key = os.path.abspath(path)
        entry = self._known.get(key)
        match entry:
            case [stat.st_size, stat.st_mtime_ns, str(known)]:
                return known
        found = self.hash_file(path)
        self._known[key] = [stat.st_size, stat.st_mtime_ns, found]
        self._changed = True
        return found

    def remember(self, path: Path, sha256: str) -> None:
        """Notes the hash of a file that was verified before it got its name."""
        stat = path.stat()
        self._known[os.path.abspath(path)] = [stat.st_size, stat.st_mtime_ns, sha256]
        self._changed = True

    def save(self) -> None:
        """Writes what was learnt; a cache that cannot be written is no error."""
        if not self._changed or not self.path.parent.is_dir():
            return
        # Another process may have saved since; what it learnt is worth keeping too.
        merged = {**self._read(), **self._known}
        kept = {key: entry for key, entry in merged.items() if os.path.exists(key)}
        with contextlib.suppress(OSError):
            write_atomically(self.path, json.dumps(kept, indent=1).encode())
        self._changed = False


def write_atomically(path: Path, content: bytes) -> None:
    """Puts `content` under `path`, or leaves whatever was there.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    # A name nobody else uses, made by open() so that the person's umask holds.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
        install(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def install(temporary: Path, path: Path) -> None:
    """Moves a complete file of the same file system to its final name.

    The content is on the disk before the name is, so a power cut leaves no empty file.

    Raises:
        OSError: the disk is full or the folder cannot be written.
    """
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def locked(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Holds the folder's lock, so that one process fetches and the others wait for it.

    The lock dies with its process, however that ends. Makes the folder if needed.

    Args:
        folder: the cache.
        waiting: called once if somebody else holds the lock.

    Raises:
        OSError: the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
