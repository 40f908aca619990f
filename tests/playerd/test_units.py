"""The files of the services: judged by systemd itself, and by what launchd knows."""

from __future__ import annotations

import configparser
import os
import plistlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.config import Settings
from engine.errors import SetupError
from playerd import units
from playerd.units import MODULES, Installation, Name

#: a path with all that has a meaning for systemd or for a shell, and may have none
STRANGE = "a b %h ${HOME} $HOME; & ünï"

#: launchd.plist(5): those keys that we use, and their types
LAUNCHD: dict[str, type] = {
    "Label": str,
    "ProgramArguments": list,
    "WorkingDirectory": str,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "LimitLoadToSessionType": str,
    "ProcessType": str,
    "Nice": int,
    "StandardOutPath": str,
    "StandardErrorPath": str,
    "Umask": int,
}


def installation(folder: Path) -> Installation:
    """One that systemd finds an interpreter in."""
    python = folder / STRANGE / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    return Installation(python, python.parent.parent)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Those that want all services."""
    return settings.model_copy(update={"wyoming": True})


@pytest.fixture
def installed(tmp_path: Path) -> Installation:
    return installation(tmp_path)


def of(files: dict[Path, bytes], name: Name) -> bytes:
    """The one file about this service."""
    (data,) = [data for path, data in files.items() if name in path.name]
    return data


# --- systemd ----------------------------------------------------------------------------------


def section(data: bytes, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(delimiters=["="], comment_prefixes=["#"])
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(data.decode())
    return dict(parser[name])


def verified(folder: Path, files: dict[Path, bytes]) -> str:
    """What systemd says of units; nothing if all is well."""
    if shutil.which("systemd-analyze") is None:
        reason = "systemd-analyze is not installed; on Debian, scripts/system.sh test installs it."
        if Path("/etc/debian_version").exists() and os.geteuid() == 0:
            pytest.fail(reason)
        pytest.skip(reason)
    for path, data in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", *map(str, files)],
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr + (f"exit status {done.returncode}" if done.returncode else "")


@pytest.mark.parametrize(("nice", "wyoming"), [(0, False), (10, True)])
def test_systemd_has_nothing_to_say(
    settings: Settings, installed: Installation, tmp_path: Path, nice: int, wyoming: bool
) -> None:
    settings = settings.model_copy(update={"nice": nice, "wyoming": wyoming})
    files = units.systemd(settings, installed, tmp_path / "units")
    assert len(files) == 3 + wyoming
    assert verified(tmp_path, files) == ""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b"Restart=on-failure", b"Restart=on-failures", "Failed to parse"),
        (b"NotifyAccess", b"NotifyAcces", "Unknown key"),
        (b"/bin/python", b"/bin/pythoness", "is not executable"),
        (b"%%h", b"%h", "is not executable"),
    ],
)
def test_systemd_would_say_what_is_wrong(
    settings: Settings, installed: Installation, tmp_path: Path, old: bytes, new: bytes, says: str
) -> None:
    files = units.systemd(settings, installed, tmp_path / "units")
    path = tmp_path / "units" / units.unit("player")
    assert old in files[path]
    assert says in verified(tmp_path, {path: files[path].replace(old, new)})


def test_the_player_is_watched_and_not_niced(settings: Settings, installed: Installation) -> None:
    player = section(of(units.systemd(settings, installed, Path("/x")), "player"), "Service")
    wanted = {
        "Type": "notify",
        "NotifyAccess": "main",
        "WatchdogSec": "10",
        "Restart": "on-failure",
        "RestartSec": "1",
        "RestartForceExitStatus": "75",
        "PrivateTmp": "no",
        "NoNewPrivileges": "yes",
    }
    assert wanted.items() <= player.items()
    # A negative one that the user may not have keeps the unit from starting; and it wants to be
    # real-time where it may.
    assert not {"Nice", "RestrictRealtime", "Environment", "EnvironmentFile"} & set(player)
    # These keep it from a sound server, or from the C code that calls back into Python.
    assert not {"PrivateDevices", "ProtectHome", "PrivateUsers", "MemoryDenyWriteExecute"} & set(
        player
    )
    assert "AF_UNIX" in player["RestrictAddressFamilies"]
    unit = section(of(units.systemd(settings, installed, Path("/x")), "player"), "Unit")
    assert unit["After"] == "pipewire.service pulseaudio.service"


@pytest.mark.parametrize(("nice", "told"), [(10, "10"), (19, "19"), (0, None)])
def test_the_engine_is_as_nice_as_the_settings_say(
    settings: Settings, installed: Installation, nice: int, told: str | None
) -> None:
    settings = settings.model_copy(update={"nice": nice})
    files = units.systemd(settings, installed, Path("/x"))
    assert section(of(files, "engine"), "Service").get("Nice") == told
    agents = units.launchd(settings, installed, Path("/x"), Path("/logs"))
    assert plistlib.loads(of(agents, "engine")).get("Nice") == (nice or None)


@pytest.mark.parametrize("name", MODULES)
def test_a_unit_runs_this_environment_without_a_shell(settings: Settings, name: Name) -> None:
    installed = Installation(Path("/opt/a b/python"), Path("/opt/50%"))
    data = of(units.systemd(settings, installed, Path("/x")), name)
    service = section(data, "Service")
    assert service["ExecStart"] == f'":/opt/a b/python" -m {MODULES[name]}'
    assert service["WorkingDirectory"] == "/opt/50%%"
    assert section(data, "Install") == {"WantedBy": "default.target"}
    assert units.is_ours(data)


@pytest.mark.parametrize("character", ["'", '"', "\\", "\n", "\x7f", "\udcff"])
@pytest.mark.parametrize("where", ["python", "folder"])
def test_what_a_unit_cannot_hold_is_refused(settings: Settings, character: str, where: str) -> None:
    paths = {"python": Path("/usr/bin/python"), "folder": Path("/opt")}
    paths[where] = paths[where] / f"a{character}b"
    with pytest.raises(SetupError, match="A service cannot be in") as caught:
        units.systemd(settings, Installation(**paths), Path("/x"))
    assert "\n" not in caught.value.message


def test_a_path_that_depends_on_where_one_is_is_refused(settings: Settings) -> None:
    installed = Installation(Path("bin/python"), Path("/opt"))
    with pytest.raises(SetupError):
        units.systemd(settings, installed, Path("/x"))
    with pytest.raises(SetupError):
        units.launchd(settings, installed, Path("/x"), Path("/logs"))


# --- launchd ----------------------------------------------------------------------------------


def lint(agent: dict[str, Any]) -> None:
    """As much of `plutil -lint` and launchd.plist(5) as these files need."""
    assert set(agent) <= set(LAUNCHD), "a key that launchd does not know is left unread"
    for key, value in agent.items():
        assert type(value) is LAUNCHD[key], key
    missing = set(LAUNCHD) - set(agent) - {"Nice"}
    assert not missing
    assert all(type(word) is str for word in agent["ProgramArguments"])
    assert set(agent["KeepAlive"].items()) == {("SuccessfulExit", False)}
    assert agent["ProcessType"] in {"Background", "Standard", "Adaptive", "Interactive"}
    assert agent["LimitLoadToSessionType"] in {"Aqua", "Background", "LoginWindow", "StandardIO"}
    for key in ("WorkingDirectory", "StandardOutPath", "StandardErrorPath"):
        assert Path(agent[key]).is_absolute()
    assert Path(agent["ProgramArguments"][0]).is_absolute()


@pytest.mark.parametrize("name", MODULES)
def test_an_agent_is_what_launchd_knows(
    settings: Settings, installed: Installation, name: Name
) -> None:
    files = units.launchd(settings, installed, Path("/agents"), Path("/logs"))
    assert len(files) == len(MODULES)
    path = Path("/agents") / units.agent(name)
    agent = plistlib.loads(files[path])
    lint(agent)
    assert agent["Label"] == path.stem
    assert agent["ProgramArguments"] == [str(installed.python), "-m", MODULES[name]]
    assert agent["WorkingDirectory"] == str(installed.folder)
    assert agent["StandardErrorPath"] == f"/logs/{name}.log"
    assert agent["ThrottleInterval"] == 5
    assert agent["Umask"] == 0o077
    # Background would keep the engine on the slow cores of Apple silicon.
    assert agent["ProcessType"] == ("Interactive" if name in ("engine", "player") else "Standard")
    assert ("Nice" in agent) == (name == "engine")


@pytest.mark.parametrize("name", MODULES)
def test_the_line_by_which_we_know_our_own_changes_nothing(
    settings: Settings, installed: Installation, name: Name
) -> None:
    data = of(units.launchd(settings, installed, Path("/a"), Path("/l")), name)
    assert units.is_ours(data)
    without = b"\n".join(line for line in data.split(b"\n") if units.MARKER.encode() not in line)
    assert not units.is_ours(without)
    assert plistlib.loads(without) == plistlib.loads(data)
    assert data.startswith(b"<?xml ")


def test_a_file_that_only_speaks_of_us_is_not_ours() -> None:
    assert not units.is_ours(b"")
    assert not units.is_ours(b"[Unit]\nDescription=kokoro-live\n")
    assert not units.is_ours(b"\n\n\n\n# " + units.MARKER.encode())
