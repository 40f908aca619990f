"""Installs and removes the services of the user: the doing to what is told in `units`. Shell.

Both may be done again and again: what is already as it should be is left alone, and only what we
have written is touched. The settings of the services are those of the TOML file, because the
environment of the shell that installs them is gone when they start.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine import config
from engine.access import ENV_PREFIX
from engine.config import Settings
from engine.errors import SetupError

from . import units
from .units import Installation

#: a service that tells when it is ready is waited for, and systemd waits 90 s itself
COMMAND_LIMIT_S = 120
#: how long launchd may take to let a service go; it kills it after 20
GONE_LIMIT_S = 30.0
LOOK_AGAIN_S = 0.2

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Host:
    """The machine and the user that get the services."""

    system: str
    home: Path
    environ: Mapping[str, str]
    installed: Installation

    @classmethod
    def this(cls) -> Host:
        """This machine, this user, this environment."""
        return cls(
            sys.platform,
            Path.home(),
            os.environ,
            # Not resolved: what the link leads to is a Python without our packages.
            Installation(Path(sys.executable).absolute(), Path(__file__).resolve().parent.parent),
        )

    def run(self, *command: str) -> str | None:
        """Runs a command to its end; gives what it complains of, None if it succeeded."""
        try:
            done = subprocess.run(
                command,
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            return f"there is no {command[0]}"
        except subprocess.TimeoutExpired:
            return f"{command[0]} did not end within {COMMAND_LIMIT_S} s"
        if done.returncode == 0:
            return None
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return lines[0].rstrip(".") if lines else f"exit status {done.returncode}"


class Manager(Protocol):
    """Who runs services on a system."""

    def files(self, settings: Settings) -> dict[Path, bytes]:
        """What is to be in its folder.

        Raises:
            SetupError: a path has a character that such a file cannot hold.
        """

    def paths(self) -> list[Path]:
        """Where files of services can be, in the order in which those start."""

    def start(self, files: Sequence[Path], changed: Sequence[Path], say: Say) -> None:
        """Has the services run, now and after every login; those that changed start anew.

        Raises:
            SetupError: they do not start.
        """

    def stop(self, files: Sequence[Path], say: Say) -> None:
        """Ends the services, and has them not started again."""

    def removed(self) -> None:
        """The files are gone."""


def install(host: Host, say: Say) -> None:
    """Writes the services and starts them; one that is not wanted any more is removed.

    Raises:
        SetupError: that cannot be done here, or not without writing over somebody else's file.
    """
    if host.environ.get("SUDO_USER"):
        raise SetupError(
            "Services are those of the user who hears them; install them without sudo."
        )
    settings = config.load(environ={}).settings
    manager = _manager(host)
    wanted = manager.files(settings)
    if foreign := [path for path in wanted if _is_there(path) and not _is_ours(path)]:
        raise SetupError(f"{foreign[0]} was not written by kokoro-live; move it away first.")
    try:
        changed = [path for path, data in wanted.items() if _written(path, data)]
    except OSError as error:
        raise SetupError(
            f"The services cannot be written to {next(iter(wanted)).parent}: "
            f"{error.strerror or error}."
        ) from None
    for path in wanted:
        say(f"{'Wrote' if path in changed else 'Unchanged:'} {path}")
    _remove(manager, [p for p in manager.paths() if p not in wanted and _is_ours(p)], say)
    say(_settings_told(host))
    manager.start(list(wanted), changed, say)


def uninstall(host: Host, say: Say) -> None:
    """Ends the services and removes what `install` wrote, and nothing else.

    Raises:
        SetupError: a file cannot be removed.
    """
    manager = _manager(host)
    # Those who use the others go first.
    there = [path for path in reversed(manager.paths()) if _is_there(path)]
    ours = [path for path in there if _is_ours(path)]
    for path in there:
        if path not in ours:
            say(f"Left {path}, which was not written by kokoro-live.")
    if not ours:
        say("No services of kokoro-live are installed.")
    _remove(manager, ours, say)


def _remove(manager: Manager, files: Sequence[Path], say: Say) -> None:
    if not files:
        return
    manager.stop(files, say)
    for path in files:
        try:
            path.unlink()
        except OSError as error:
            raise SetupError(f"{path} cannot be removed: {error.strerror or error}.") from None
        say(f"Removed {path}")
    manager.removed()


def _manager(host: Host) -> Manager:
    if host.system == "darwin":
        return Launchd(host)
    if host.system == "linux":
        return Systemd(host)
    raise SetupError("Services are for Linux with systemd and for macOS; run `make up` instead.")


def _settings_told(host: Host) -> str:
    told = f"They read their settings from {config.config_file()}"
    if ignored := sorted(n for n in host.environ if n.upper().startswith(ENV_PREFIX)):
        return f"{told}; of this shell's {', '.join(ignored)} they know nothing."
    return f"{told}, not from the environment."


# --- systemd ----------------------------------------------------------------------------------


class Systemd:
    """See `Manager`: the user's systemd, on Linux."""

    def __init__(self, host: Host) -> None:
        self._host = host
        configured = Path(host.environ.get("XDG_CONFIG_HOME", ""))
        # A path that is not absolute is to be ignored, says its specification.
        base = configured if configured.is_absolute() else host.home / ".config"
        self._folder = base / "systemd" / "user"

    def files(self, settings: Settings) -> dict[Path, bytes]:
        """See `Manager`."""
        return units.systemd(settings, self._host.installed, self._folder)

    def paths(self) -> list[Path]:
        """See `Manager`."""
        return [self._folder / units.unit(name) for name in units.MODULES]

    def start(self, files: Sequence[Path], changed: Sequence[Path], say: Say) -> None:
        """See `Manager`."""
        names = [path.name for path in files]
        if why := self._run("daemon-reload"):
            say(
                f"They are not started, for systemctl --user does not work here ({why}); once you "
                "are logged in, run: systemctl --user daemon-reload && systemctl --user enable "
                f"--now {' '.join(names)}"
            )
            return
        again = [path.name for path in changed]
        wrong = (
            self._run("enable", *names)
            or (self._run("restart", *again) if again else None)
            or self._run("start", *names)
        )
        if wrong:
            raise SetupError(
                f"The services are installed, but do not all run: {wrong}; `systemctl --user "
                "status 'kokoro-live-*'` says more."
            )
        say(
            "They run, and start whenever you log in; `journalctl --user -u 'kokoro-live-*'` shows "
            "their logs, and `loginctl enable-linger` starts them with the machine."
        )

    def stop(self, files: Sequence[Path], say: Say) -> None:
        """See `Manager`."""
        if why := self._run("disable", "--now", *(path.name for path in files)):
            say(f"systemctl --user could not end them ({why}); they end when you log out.")
        for path in files:  # also where systemctl does not work
            link = self._folder / "default.target.wants" / path.name
            if link.is_symlink():
                link.unlink()

    def removed(self) -> None:
        """See `Manager`."""
        self._run("daemon-reload")

    def _run(self, *words: str) -> str | None:
        return self._host.run("systemctl", "--user", *words)


# --- launchd ----------------------------------------------------------------------------------


class Launchd:
    """See `Manager`: the user's launchd, on macOS."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._folder = host.home / "Library" / "LaunchAgents"
        self._logs = host.home / "Library" / "Logs" / "kokoro-live"
        self._domain = f"gui/{os.getuid()}"

    def files(self, settings: Settings) -> dict[Path, bytes]:
        """See `Manager`."""
        return units.launchd(settings, self._host.installed, self._folder, self._logs)

    def paths(self) -> list[Path]:
        """See `Manager`."""
        return [self._folder / units.agent(name) for name in units.MODULES]

    def start(self, files: Sequence[Path], changed: Sequence[Path], say: Say) -> None:
        """See `Manager`."""
        self._logs.mkdir(mode=0o700, parents=True, exist_ok=True)  # launchd makes no folder
        if why := self._run("print", self._domain):
            say(
                f"They are not started, for launchctl does not reach your session ({why}); they "
                "start when you log in on its screen."
            )
            return
        for path in files:
            if self._is_loaded(path):
                if path not in changed:
                    continue
                self._let_go(path)
            self._run("enable", self._target(path))  # a user may have disabled it once
            if wrong := self._run("bootstrap", self._domain, str(path)):
                raise SetupError(
                    f"{path.stem} is installed, but does not start: {wrong}; `launchctl print "
                    f"{self._target(path)}` says more."
                )
        say(f"They run, and start whenever you log in; their logs are in {self._logs}")

    def stop(self, files: Sequence[Path], say: Say) -> None:
        """See `Manager`."""
        for path in files:
            if self._is_loaded(path) and (why := self._let_go(path)):
                say(f"launchctl could not end {path.stem} ({why}); it ends when you log out.")

    def removed(self) -> None:
        """See `Manager`."""

    def _let_go(self, path: Path) -> str | None:
        """Unloads a service, and waits until it is gone: it could not be loaded again before."""
        wrong = self._run("bootout", self._target(path))
        limit_s = time.monotonic() + GONE_LIMIT_S
        while self._is_loaded(path):
            if time.monotonic() > limit_s:
                return wrong or "it does not end"
            time.sleep(LOOK_AGAIN_S)
        return None

    def _is_loaded(self, path: Path) -> bool:
        return self._run("print", self._target(path)) is None

    def _target(self, path: Path) -> str:
        return f"{self._domain}/{path.stem}"

    def _run(self, *words: str) -> str | None:
        return self._host.run("launchctl", *words)


# --- files ------------------------------------------------------------------------------------


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def _is_ours(path: Path) -> bool:
    # A link may lead to a file of ours, but it is not us who put it there.
    return not path.is_symlink() and path.is_file() and units.is_ours(path.read_bytes())


def _written(path: Path, data: bytes) -> bool:
    """Writes a file, whole or not at all; returns whether it was another one before."""
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=".kokoro-live-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return True
