"""The token, and the file by which clients find what runs. Shell.

Both are in the folder `data_dir`, which only its owner can read:

* `token`: one line. Who can read it may connect. It is made once, and survives restarts.
* `kokoro-live.json`: `{protocol, token_file, engine, player, http, pid, started_at}`. `engine`,
  `player` and `http` are the URLs of those that run. They are three processes, which come and go
  by themselves and share the file under a lock, so `pid` and `started_at` have an entry for each:
  `"pid": {"engine": 4711}`. `token_file` is null if the token is a setting, which is in no file.

A file is never half written: it is written under another name, which then becomes its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from engine import access
from engine.errors import ConfigError

from .messages import PROTOCOL

if TYPE_CHECKING:
    from engine.config import Settings

Role: TypeAlias = Literal["engine", "player", "http"]

TOKEN_FILE = "token"  # noqa: S105 - a name, not a password
DISCOVERY_FILE = "kokoro-live.json"
LOCK_FILE = "kokoro-live.lock"

#: 256 bit, as 43 characters
TOKEN_BYTES = 32

#: more than either file ever has
_MAX_BYTES = 64 * 1024


class Announcement(msgspec.Struct, kw_only=True):
    """The contents of the discovery file; what is None does not run.

    Attributes:
        protocol: that is spoken at `engine` and `player`.
        token_file: path of the file with the token; None if the token is a setting.
        engine: URL of the engine's WebSocket.
        player: URL of the player's.
        http: URL of the OpenAI endpoint, without its `/v1`.
        pid: their processes.
        started_at: when they started; ISO 8601, UTC.
    """

    protocol: str = PROTOCOL
    token_file: str | None = None
    engine: str | None = None
    player: str | None = None
    http: str | None = None
    pid: dict[Role, int] = {}
    started_at: dict[Role, str] = {}


@dataclass(frozen=True, slots=True)
class Found:
    """Something that runs: its URL, and the token it wants to be shown."""

    url: str
    token: str


def at_hand(role: Role, environ: Mapping[str, str] = os.environ) -> Found | None:
    """What runs, found without the settings, which a command in a hurry has no time to load.

    None if that does not do: the environment says where to look, or what the token is; nothing is
    found; or something about the files is to be told. Then the settings are to be asked.
    """
    told = {name.upper(): value for name, value in environ.items()}
    prefix, own = access.ENV_PREFIX, access.ENV_PREFIX + "DATA_DIR"
    if any(prefix + name in told for name in ("CONFIG", "HOST", f"{role.upper()}_PORT", "TOKEN")):
        return None
    folder = Path(told[own]) if own in told else access.data_dir()
    found = _found(folder / DISCOVERY_FILE, lambda event: None)
    url, path = getattr(found, role), folder / TOKEN_FILE
    if url is None or found.token_file != str(path):
        return None
    try:
        secret = None if path.lstat().st_mode & 0o077 else _kept_token(path)
    except (OSError, ConfigError):
        return None
    return Found(url, secret) if secret is not None else None


def token(settings: Settings) -> str:
    """The token: of the settings, else of the file, else a new one, which is then in the file.

    Raises:
        ConfigError: the file cannot be read or written, or must not be trusted.
    """
    if settings.token is not None:
        return settings.token.get_secret_value()
    path = settings.data_dir / TOKEN_FILE
    try:
        _own_folder(settings.data_dir)
        return _kept_token(path) or _new_token(path)
    except OSError as error:
        raise ConfigError(
            f"The token file {path} cannot be used: {_why(error)}; mend that, or name another "
            "folder in the setting data_dir."
        ) from None


def _kept_token(path: Path) -> str | None:
    """The token of the file; None if there is no file.

    Raises:
        ConfigError: the file is not a token file of this user.
        OSError: it cannot be read.
    """
    try:
        # Not through a link, which somebody else may have put there; and a pipe does not hold us.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):
            raise ConfigError(
                f"The token file {path} is a link, which is not followed; remove it, and a new "
                "token is made."
            ) from None
        raise
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(
                f"The token file {path} is not a file; remove it, and a new token is made."
            )
        if found.st_uid != os.geteuid():
            raise ConfigError(
                f"The token file {path} belongs to another user, who knows the token; remove it, "
                "and a new one is made."
            )
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(file, 0o600)
            _warn(
                "others could read the token until now; remove the file and start again, if they "
                "are not to connect",
                file=str(path),
            )
        text = os.read(file, _MAX_BYTES).decode("ascii", "replace").removesuffix("\n")
    finally:
        os.close(file)
    if access.token_fault(text):
        raise ConfigError(
            f"The token file {path} does not hold a token; remove it, and a new one is made."
        )
    return text


def _new_token(path: Path) -> str:
    """Makes a token and keeps it, unless somebody else was faster: then theirs."""
    made = secrets.token_urlsafe(TOKEN_BYTES)
    temporary = _written(path, made.encode() + b"\n")
    try:
        os.link(temporary, path)  # fails if there is one by now, unlike a rename
    except FileExistsError:
        kept = _kept_token(path)
        if kept is None:  # and taken away again: somebody plays with us
            raise
        return kept
    finally:
        temporary.unlink()
    _sync_folder(path.parent)
    return made


@contextmanager
def announced(settings: Settings, role: Role, url: str) -> Iterator[None]:
    """While the context lasts, clients find this process in the file.

    It is a convenience: what keeps us from it is a warning. If two processes have the same role,
    the one that came last is found.
    """
    if settings.exposed:
        _warn("other machines can connect, if they have the token", address=url)
    entry = _Entry(settings, role)
    entry.enter(_reachable(url))
    try:
        yield
    finally:
        entry.leave()


def running(settings: Settings) -> Announcement:
    """What runs, as far as the file knows; what has ended is not in it."""
    return _found(settings.data_dir / DISCOVERY_FILE)


def _reachable(url: str) -> str:
    """Who listens on all addresses is reached by any of them."""
    return url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


class _Entry:
    """This process's entry in the file."""

    def __init__(self, settings: Settings, role: Role) -> None:
        self._folder = settings.data_dir
        self._role: Role = role
        self._token_file = None if settings.token else str(settings.data_dir / TOKEN_FILE)
        self._pid = os.getpid()

    def enter(self, url: str) -> None:
        """Puts it in, in place of one that there may be."""

        def change(found: Announcement) -> None:
            found.protocol = PROTOCOL
            found.token_file = self._token_file
            setattr(found, self._role, url)
            found.pid[self._role] = self._pid
            found.started_at[self._role] = datetime.now(UTC).isoformat(timespec="seconds")

        self._change(change)

    def leave(self) -> None:
        """Takes it out, if it is still this process's."""

        def change(found: Announcement) -> None:
            if found.pid.get(self._role) == self._pid:
                _remove(found, self._role)

        self._change(change)

    def _change(self, change: Callable[[Announcement], None]) -> None:
        path = self._folder / DISCOVERY_FILE
        try:
            _own_folder(self._folder)
            with _locked(self._folder / LOCK_FILE):
                found = _found(path)
                change(found)
                _replace(path, msgspec.json.format(msgspec.json.encode(found)) + b"\n")
        except OSError as error:
            _warn(
                "the file by which clients find this process cannot be written; it runs all the "
                "same",
                file=str(path),
                error=_why(error),
            )


def _found(path: Path, warn: Callable[[str], None] | None = None) -> Announcement:
    warn = warn or _warn
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # it will be replaced, not written through
        return Announcement()
    try:
        if os.fstat(file).st_uid != os.getuid():  # clients would show our token to whom it names
            warn("the file by which clients find us is another user's; it is written anew")
            return Announcement()
        found = msgspec.json.decode(os.read(file, _MAX_BYTES), type=Announcement)
    except (OSError, msgspec.DecodeError):
        warn("the file by which clients find us was damaged; it is written anew")
        return Announcement()
    finally:
        os.close(file)
    roles: tuple[Role, ...] = ("engine", "player", "http")
    for role in roles:
        if not _runs(found.pid.get(role, 0)):
            _remove(found, role)
    return found


def _remove(found: Announcement, role: Role) -> None:
    setattr(found, role, None)
    found.pid.pop(role, None)
    found.started_at.pop(role, None)


def _runs(pid: int) -> bool:
    if pid <= 0:  # which would mean a group of processes
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's, and there
        return True
    return True


# --- files ----------------------------------------------------------------------------------


def _own_folder(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.stat()
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        _warn("others can write into the folder of the token; make it yours alone (chmod 700)")


def _written(path: Path, data: bytes) -> Path:
    """A new file beside `path` that only this user can read; it is on the disk."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(temporary, flags, 0o600)
    try:
        try:
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
        finally:
            os.close(file)
    except OSError:
        temporary.unlink()
        raise
    return temporary


def _replace(path: Path, data: bytes) -> None:
    temporary = _written(path, data)
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # there are file systems that cannot, and need not
            os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one process at a time is in here; one that dies leaves no lock behind."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # for as long as another one writes a few hundred bytes
        yield
    finally:
        os.close(file)


def _warn(event: str, **fields: str) -> None:
    import structlog  # which takes longer to load than a client has, and is seldom needed

    structlog.get_logger("discovery").warning(event, **fields)


def _why(error: OSError) -> str:
    return error.strerror or str(error)
