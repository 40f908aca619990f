"""Installing and removing services, with managers that only pretend."""

from __future__ import annotations

import os
import plistlib
import stat
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from engine.errors import SetupError
from playerd import services, units
from playerd.services import Host
from playerd.units import MODULES, Installation

#: all but what a setting asks for
NAMES = [name for name in MODULES if name != "wyoming"]
UNITS = [units.unit(name) for name in NAMES]
LABELS = [units.label(name) for name in NAMES]

#: complains of what begins as the file `complaint` says; `enable` makes the links that systemd would
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"$FAKES/log"
if [ -e "$FAKES/complaint" ]; then
    . "$FAKES/complaint"
    case "$*" in "--user $on"*) [ -z "$says" ] || echo "$says" >&2; exit 1 ;; esac
fi
"""

#: has a file for every loaded service; one that is let go is loaded for a moment more
LAUNCHCTL = """#!/bin/sh
echo "launchctl $*" >>"$FAKES/log"
case "$*" in
"print gui/"*/*) [ -e "$FAKES/${2##*/}" ] || { [ -e "$FAKES/${2##*/}.going" ] && rm "$FAKES/${2##*/}.going"; } ;;
"print gui/"*) [ ! -e "$FAKES/no-session" ] || { echo "Could not find domain" >&2; exit 113; } ;;
"bootout "*) mv "$FAKES/${2##*/}" "$FAKES/${2##*/}.going" ;;
"bootstrap "*)
    label=$(basename "$3" .plist)
    [ ! -e "$FAKES/$label" ] || { echo "Bootstrap failed: 5: Input/output error" >&2; exit 5; }
    [ ! -e "$FAKES/$label.going" ] || { echo "Bootstrap failed: 37" >&2; exit 37; }
    [ ! -e "$FAKES/broken" ] || { echo "Bootstrap failed: 5" >&2; exit 5; }
    touch "$FAKES/$label"
    ;;
esac
"""


@dataclass
class Machine:
    """A user's home, and managers that write down what they are asked."""

    root: Path
    system: str
    environ: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.root / "bin").mkdir()
        (self.root / "fakes").mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("launchctl", LAUNCHCTL)):
            path = self.root / "bin" / name
            path.write_text(text)
            path.chmod(0o755)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def folder(self) -> Path:
        """Where the files of the services are."""
        parts = ("Library", "LaunchAgents") if self.system == "darwin" else (".config", "systemd")
        return self.home.joinpath(*parts, *([] if self.system == "darwin" else ["user"]))

    @property
    def fakes(self) -> Path:
        return self.root / "fakes"

    def host(self) -> Host:
        path = f"{self.root / 'bin'}:/usr/bin:/bin"
        environ = {"PATH": path, "FAKES": str(self.fakes), **self.environ}
        installed = Installation(Path(sys.executable), self.root)
        return Host(self.system, self.home, environ, installed)

    def install(self) -> list[str]:
        """Gives the commands that the manager was given."""
        self.said.clear()
        services.install(self.host(), self.said.append)
        return self.asked()

    def uninstall(self) -> list[str]:
        self.said.clear()
        services.uninstall(self.host(), self.said.append)
        return self.asked()

    def asked(self) -> list[str]:
        log = self.fakes / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    def complain(self, on: str, says: str = "No such thing.") -> None:
        (self.fakes / "complaint").write_text(f"on='{on}' says='{says}'\n")

    def files(self) -> dict[str, bytes]:
        """Everything in the folder."""
        paths = self.folder.iterdir() if self.folder.is_dir() else ()
        return {path.name: path.read_bytes() for path in paths if path.is_file()}


@pytest.fixture(autouse=True)
def no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The services' settings are those of the file; this machine's own is not looked at."""
    file = tmp_path / "config.toml"
    monkeypatch.setattr("engine.config.config_file", lambda: file)
    return file


@pytest.fixture
def linux(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "linux")


@pytest.fixture
def mac(tmp_path: Path) -> Machine:
    return Machine(tmp_path, "darwin")


ALL = " ".join(UNITS)
BACK = " ".join(reversed(UNITS))


# --- systemd ----------------------------------------------------------------------------------


def test_units_are_written_enabled_and_started(linux: Machine) -> None:
    assert linux.install() == [
        "systemctl --user daemon-reload",
        f"systemctl --user enable {ALL}",
        f"systemctl --user restart {ALL}",
        f"systemctl --user start {ALL}",
    ]
    assert set(linux.files()) == set(UNITS)
    assert all(map(units.is_ours, linux.files().values()))
    for path in linux.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [line for line in linux.said if line.startswith("Wrote")] == [
        f"Wrote {linux.folder / name}" for name in UNITS
    ]


def test_twice_is_as_once_and_interrupts_nobody(linux: Machine) -> None:
    linux.install()
    before = linux.files()
    assert not [line for line in linux.install() if "restart" in line]
    assert linux.files() == before
    assert not [line for line in linux.said if line.startswith("Wrote")]


def test_only_what_changed_starts_anew(linux: Machine, no_settings: Path) -> None:
    linux.install()
    no_settings.write_text("nice = 3\n")
    assert f"systemctl --user restart {UNITS[0]}" in linux.install()
    assert b"Nice=3\n" in linux.files()[UNITS[0]]


def test_home_assistant_has_a_service_while_a_setting_asks_for_it(
    linux: Machine, no_settings: Path
) -> None:
    linux.install()
    wyoming = units.unit("wyoming")
    no_settings.write_text("wyoming = true\n")
    asked = linux.install()
    assert f"systemctl --user restart {wyoming}" in asked
    assert asked[-1].endswith(f" {wyoming}")
    assert set(linux.files()) == {*UNITS, wyoming}
    no_settings.write_text("wyoming = false\n")
    asked = linux.install()
    assert asked[0] == f"systemctl --user disable --now {wyoming}"
    assert not [line for line in asked[1:] if wyoming in line]
    assert set(linux.files()) == set(UNITS)
    assert f"Removed {linux.folder / wyoming}" in linux.said
    no_settings.write_text("wyoming = true\n")
    linux.install()
    assert wyoming in linux.uninstall()[0], "whatever the settings say now"
    assert linux.files() == {}


def test_the_shell_that_installs_has_no_say(
    linux: Machine, no_settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KOKORO_LIVE_NICE", "3")
    linux.environ["KOKORO_LIVE_NICE"] = "3"
    linux.environ["KOKORO_LIVE_TOKEN"] = "a-secret-of-many-letters"
    linux.install()
    assert b"Nice=10\n" in linux.files()[UNITS[0]]
    assert (
        f"They read their settings from {no_settings}; of this shell's KOKORO_LIVE_NICE, "
        "KOKORO_LIVE_TOKEN they know nothing."
    ) in linux.said
    assert "a-secret" not in "".join(linux.said) + "".join(map(str, linux.files().values()))


def test_a_folder_of_the_users_own(linux: Machine, tmp_path: Path) -> None:
    linux.environ["XDG_CONFIG_HOME"] = "not/absolute"
    linux.install()
    assert set(linux.files()) == set(UNITS)
    linux.environ["XDG_CONFIG_HOME"] = str(tmp_path / "config")
    linux.install()
    assert {p.name for p in (tmp_path / "config/systemd/user").iterdir()} == set(UNITS)


@pytest.mark.parametrize("how", ["missing", "no bus"])
def test_without_a_running_systemd_one_is_told_what_to_run(linux: Machine, how: str) -> None:
    if how == "missing":
        (linux.root / "bin" / "systemctl").unlink()
        linux.environ["PATH"] = str(linux.root / "bin")
    else:
        linux.complain("", "Failed to connect to bus: No medium found")
    linux.install()
    assert set(linux.files()) == set(UNITS)
    why = "there is no systemctl" if how == "missing" else "Failed to connect to bus"
    assert why in linux.said[-1]
    assert linux.said[-1].endswith(
        f"run: systemctl --user daemon-reload && systemctl --user enable --now {ALL}"
    )
    linux.uninstall()
    assert linux.files() == {}
    assert why in linux.said[0]


@pytest.mark.parametrize("on", ["enable", "restart", "start"])
def test_services_that_do_not_start_are_a_failure(linux: Machine, on: str) -> None:
    linux.complain(on, "Job for it failed.")
    with pytest.raises(SetupError, match="do not all run: Job for it failed; "):
        linux.install()
    linux.complain(on, "")
    with pytest.raises(SetupError, match="do not all run: exit status 1; "):
        (linux.folder / UNITS[1]).unlink()
        linux.install()


def test_uninstall_ends_disables_and_removes(linux: Machine) -> None:
    linux.install()
    wants = linux.folder / "default.target.wants"
    wants.mkdir()
    for name in UNITS:
        (wants / name).symlink_to(linux.folder / name)
    (wants / "other.service").symlink_to("/nowhere")
    (linux.folder / "other.service").write_text("[Service]\n")
    assert linux.uninstall() == [
        f"systemctl --user disable --now {BACK}",
        "systemctl --user daemon-reload",
    ]
    assert set(linux.files()) == {"other.service"}
    assert [path.name for path in wants.iterdir()] == ["other.service"]
    assert linux.said == [f"Removed {linux.folder / name}" for name in reversed(UNITS)]
    assert linux.uninstall() == []
    assert linux.said == ["No services of kokoro-live are installed."]


@pytest.mark.parametrize("how", ["file", "link", "masked"])
def test_what_is_not_ours_is_left_alone(linux: Machine, tmp_path: Path, how: str) -> None:
    """Even a link to a file of ours is somebody else's."""
    linux.install()
    theirs = linux.folder / UNITS[1]
    ours = theirs.read_bytes()
    theirs.unlink()
    if how == "file":
        theirs.write_text("[Service]\nExecStart=/bin/true\n")
    elif how == "link":
        (tmp_path / "elsewhere").write_bytes(ours)
        theirs.symlink_to(tmp_path / "elsewhere")
    else:
        theirs.symlink_to("/dev/null")
    before = theirs.lstat()
    linux.asked()
    with pytest.raises(SetupError, match="was not written by kokoro-live; move it away"):
        linux.install()
    assert linux.asked() == []
    assert f"systemctl --user disable --now {UNITS[2]} {UNITS[0]}" in linux.uninstall()
    assert theirs.lstat() == before
    assert f"Left {theirs}, which was not written by kokoro-live." in linux.said
    assert [path.name for path in linux.folder.iterdir()] == [UNITS[1]]


def test_a_folder_that_cannot_be_written(linux: Machine) -> None:
    linux.home.mkdir()
    (linux.home / ".config").write_text("a file")
    with pytest.raises(SetupError, match="cannot be written to"):
        linux.install()


def test_an_interrupted_write_leaves_nothing(
    linux: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    linux.install()
    before = linux.files()
    (linux.folder / UNITS[0]).write_bytes(before[UNITS[0]] + b"# older\n")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SetupError, match="No space left on device"):
        linux.install()
    assert linux.files() == {**before, UNITS[0]: before[UNITS[0]] + b"# older\n"}


def test_sudo_is_refused(linux: Machine) -> None:
    linux.environ["SUDO_USER"] = "anna"
    with pytest.raises(SetupError, match="without sudo"):
        linux.install()
    assert linux.files() == {}


def test_other_systems_are_told_so(tmp_path: Path) -> None:
    machine = Machine(tmp_path, "freebsd14")
    with pytest.raises(SetupError, match="make up"):
        machine.install()
    with pytest.raises(SetupError, match="make up"):
        machine.uninstall()


# --- launchd ----------------------------------------------------------------------------------

GUI = f"gui/{os.getuid()}"


def loads(mac: Machine) -> list[str]:
    """What was loaded, in order."""
    lines = [line.split() for line in mac.asked()]
    return [Path(words[3]).stem for words in lines if words[1] == "bootstrap"]


def test_agents_are_written_and_loaded(mac: Machine) -> None:
    services.install(mac.host(), mac.said.append)
    assert loads(mac) == LABELS
    assert set(mac.files()) == {f"{label}.plist" for label in LABELS}
    for name, data in mac.files().items():
        agent = plistlib.loads(data)
        assert f"{agent['Label']}.plist" == name
        assert Path(agent["StandardErrorPath"]).parent.is_dir(), "launchd makes no folders"
    assert {label for label in LABELS if (mac.fakes / label).exists()} == set(LABELS)


def test_a_loaded_agent_is_left_alone_and_a_changed_one_loaded_anew(
    mac: Machine, no_settings: Path
) -> None:
    mac.install()
    services.install(mac.host(), mac.said.append)
    assert loads(mac) == []
    no_settings.write_text("nice = 0\n")
    asked = mac.install()
    engine = f"{GUI}/{LABELS[0]}"
    # Only one that is gone can be loaded again, and it takes its time to go.
    assert [line for line in asked if LABELS[0] in line] == [
        f"launchctl print {engine}",
        f"launchctl bootout {engine}",
        f"launchctl print {engine}",
        f"launchctl print {engine}",
        f"launchctl enable {engine}",
        f"launchctl bootstrap {GUI} {mac.folder / LABELS[0]}.plist",
    ]
    assert not [line for line in asked if "bootout" in line and LABELS[0] not in line]


def test_agents_that_are_not_loaded_are(mac: Machine) -> None:
    mac.install()
    (mac.fakes / LABELS[2]).unlink()
    services.install(mac.host(), mac.said.append)
    assert loads(mac) == [LABELS[2]]


def test_an_agent_that_does_not_load_is_a_failure(mac: Machine) -> None:
    (mac.fakes / "broken").touch()
    with pytest.raises(SetupError, match="does not start: Bootstrap failed: 5; "):
        mac.install()


def test_without_a_screen_they_start_at_the_next_login(mac: Machine) -> None:
    (mac.fakes / "no-session").touch()
    assert mac.install() == [f"launchctl print {GUI}"]
    assert len(mac.files()) == 3
    assert "Could not find domain" in mac.said[-1]


def test_uninstall_unloads_and_removes(mac: Machine) -> None:
    mac.install()
    (mac.folder / "other.plist").write_text("theirs")
    asked = mac.uninstall()
    assert [line.rpartition("/")[2] for line in asked if "bootout" in line] == LABELS[::-1]
    assert set(mac.files()) == {"other.plist"}
    assert mac.uninstall() == []


def test_an_agent_that_does_not_go_is_told(mac: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    mac.install()
    monkeypatch.setattr(services, "GONE_LIMIT_S", 0.0)
    launchctl = mac.root / "bin" / "launchctl"
    launchctl.write_text(
        "#!/bin/sh\ncase $1 in bootout) echo 'Not permitted.' >&2; exit 1;; esac\n"
    )
    mac.uninstall()
    assert [line for line in mac.said if "could not end" in line] == [
        f"launchctl could not end {label} (Not permitted); it ends when you log out."
        for label in reversed(LABELS)
    ]
    assert mac.files() == {}


# --- the program ------------------------------------------------------------------------------


def test_this_machine_runs_what_the_tests_run() -> None:
    host = Host.this()
    assert host.installed.python == Path(sys.executable)  # and not what that leads to
    assert (host.installed.folder / "playerd" / "__main__.py").is_file()
    done = subprocess.run(
        [host.installed.python, "-c", "import wsproto_api, http_compat"],
        cwd=host.installed.folder,
        env={},
        check=False,
    )
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--install-service", "--uninstall-service"], "Give one of"),
        (["--install-service", "--port", "1"], "Services take no flags"),
        (["--uninstall-service"], "No services of kokoro-live are installed."),
    ],
)
def test_the_flags(tmp_path: Path, flags: list[str], says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "playerd", *flags],
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = done.stdout + done.stderr
    assert told.count("\n") == 1
    assert told.startswith(says)
    assert done.returncode == (0 if len(flags) == 1 else 1)
