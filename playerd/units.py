"""The files that make engine, player, HTTP endpoint and Wyoming server services of the user. Core.

systemd's user units on Linux, launchd's agents on macOS. User services, because only a user who is
logged in has a sound server. Each begins with a line by which we know our own.
"""

from __future__ import annotations

import plistlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from engine.config import Settings
from engine.errors import TAINTED, SetupError

Name: TypeAlias = Literal["engine", "player", "http", "wyoming"]

#: in the order in which they start
MODULES: Mapping[Name, str] = {
    "engine": "wsproto_api",
    "player": "playerd",
    "http": "http_compat",
    "wyoming": "http_compat.wyoming",
}
_ABOUT: Mapping[Name, str] = {
    "engine": "kokoro-live: engine, text to speech",
    "player": "kokoro-live: player, speech to the sound device",
    "http": "kokoro-live: speech for OpenAI clients",
    "wyoming": "kokoro-live: speech for Home Assistant",
}

MARKER = "Written by kokoro-live, which removes this file when its services are uninstalled."


@dataclass(frozen=True, slots=True)
class Installation:
    """What the services run.

    Attributes:
        python: the environment's interpreter; absolute, and not what its link leads to.
        folder: where the packages are; absolute.
    """

    python: Path
    folder: Path


def wanted(settings: Settings) -> tuple[Name, ...]:
    """The services that the settings ask for, in the order in which they start."""
    return tuple(name for name in MODULES if name != "wyoming" or settings.wyoming)


def is_ours(data: bytes) -> bool:
    """Whether a file was written by us: it says so in its first lines."""
    return any(MARKER.encode() in line for line in data.split(b"\n", 3)[:3])


# --- systemd ----------------------------------------------------------------------------------


def unit(name: Name) -> str:
    """What systemd calls a service."""
    return f"kokoro-live-{name}.service"


def systemd(settings: Settings, installed: Installation, folder: Path) -> dict[Path, bytes]:
    """The units: path -> contents.

    Raises:
        SetupError: a path has a character that a unit cannot hold.
    """
    return {folder / unit(name): _unit(name, settings, installed) for name in wanted(settings)}


def _unit(name: Name, settings: Settings, installed: Installation) -> bytes:
    python, folder = _escaped(installed.python), _escaped(installed.folder)
    after = "\nAfter=pipewire.service pulseaudio.service" if name == "player" else ""
    text = f"""\
# {MARKER}
[Unit]
Description={_ABOUT[name]}{after}

[Service]
{_manner(name, settings)}
# the colon: nothing is a variable
ExecStart=":{python}" -m {MODULES[name]}
WorkingDirectory={folder}
Restart=on-failure
RestartSec=1
TimeoutStopSec=10
UMask=0077

# What would give it a file system of its own (PrivateTmp, Protect…) is left out: it may keep it
# from the sound server, whose socket and shared memory are elsewhere on every system.
PrivateTmp=no
NoNewPrivileges=yes
LockPersonality=yes
RestrictNamespaces=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=default.target
"""
    return text.encode()


def _manner(name: Name, settings: Settings) -> str:
    """How a service starts, and who goes first."""
    match name:
        case "engine":
            nice = f"\nNice={settings.nice}" if settings.nice else ""
            return f"Type=exec{nice}\nRestrictRealtime=yes"
        case "player":
            # No Nice: a negative one that is not allowed keeps the unit from starting. Between
            # units the weight counts anyway.
            return (
                "Type=notify\nNotifyAccess=main\nWatchdogSec=10\n"
                f"RestartForceExitStatus={TAINTED}\nCPUWeight=1000"
            )
        case "http" | "wyoming":
            return "Type=exec\nRestrictRealtime=yes"


def _escaped(path: Path) -> str:
    text = _possible(path)
    # systemd starts no program whose name has one of these.
    if bad := [character for character in text if character in "\"'\\"]:
        raise SetupError(
            f"A service cannot be in {text}: systemd takes no path with the character {bad[0]}; "
            "move the folder to another place."
        )
    return text.replace("%", "%%")


def _possible(path: Path) -> str:
    text = str(path)
    if not path.is_absolute() or any(
        ord(c) < 32 or c == "\x7f" or "\ud800" <= c <= "\udfff" for c in text
    ):
        raise SetupError(
            f"A service cannot be in {text!r}; move the folder to a path of ordinary characters."
        )
    return text


# --- launchd ----------------------------------------------------------------------------------


def label(name: Name) -> str:
    """What launchd calls a service."""
    return f"kokoro-live.{name}"


def agent(name: Name) -> str:
    """The name of its file."""
    return f"{label(name)}.plist"


def launchd(
    settings: Settings, installed: Installation, folder: Path, logs: Path
) -> dict[Path, bytes]:
    """The agents: path -> contents. The folder `logs` must be there when they start.

    Raises:
        SetupError: a path has a character that an agent cannot hold.
    """
    return {
        folder / agent(name): _agent(name, settings, installed, logs) for name in wanted(settings)
    }


def _agent(name: Name, settings: Settings, installed: Installation, logs: Path) -> bytes:
    log = _possible(logs / f"{name}.log")
    entries: dict[str, Any] = {
        "Label": label(name),
        "ProgramArguments": [_possible(installed.python), "-m", MODULES[name]],
        "WorkingDirectory": _possible(installed.folder),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 5,
        "LimitLoadToSessionType": "Aqua",
        # Somebody waits for what the engine makes. As a Background process it would be kept on
        # the slow cores of Apple silicon; that it gives way to sound is what Nice is for.
        "ProcessType": "Interactive" if name in ("engine", "player") else "Standard",
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    }
    if name == "engine" and settings.nice:
        entries["Nice"] = settings.nice
    declaration, _, rest = plistlib.dumps(entries, sort_keys=False).partition(b"\n")
    return b"\n".join([declaration, f"<!-- {MARKER} -->".encode(), rest])
