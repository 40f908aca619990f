"""The token's file and the file by which clients find what runs, on a real disk."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from engine.access import token_fault
from engine.config import Settings
from engine.errors import ConfigError
from wsproto_api import discovery

URL = "ws://127.0.0.1:8881/"
GOOD = "abcdefghijklmnopqrstuvwxyz"

#: what a process that starts does, once all of them are there
START = """
import sys
from pathlib import Path
from engine import config
from wsproto_api import discovery
folder = Path(sys.argv[1])
settings = config.load({"data_dir": folder}, environ={}, file=folder / "none").settings
print("here", flush=True)
sys.stdin.readline()
print(discovery.token(settings), flush=True)
with discovery.announced(settings, sys.argv[2], f"ws://{sys.argv[2]}/"):
    print("announced", flush=True)
    sys.stdin.readline()
"""


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def token_file(settings: Settings) -> Path:
    return settings.data_dir / discovery.TOKEN_FILE


def put(settings: Settings, text: str, permissions: int = 0o600) -> Path:
    """A token's file with this in it."""
    settings.data_dir.mkdir(parents=True)
    path = token_file(settings)
    path.write_text(text)
    path.chmod(permissions)
    return path


def told(settings: Settings) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((settings.data_dir / discovery.DISCOVERY_FILE).read_text())
    return found


def gone_process() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


# --- the token ------------------------------------------------------------------------------


def test_a_token_is_made_once_for_its_owner_alone(settings: Settings) -> None:
    before = os.umask(0)
    try:
        made = discovery.token(settings)
    finally:
        os.umask(before)
    assert token_fault(made) is None
    assert len(made) >= 43  # 256 bit
    assert discovery.token(settings) == made
    assert mode(settings.data_dir) == 0o700
    assert mode(token_file(settings)) == 0o600
    assert [path.name for path in settings.data_dir.iterdir()] == [discovery.TOKEN_FILE]


def test_the_setting_goes_first_and_makes_no_file(settings: Settings) -> None:
    settings = settings.model_copy(update={"token": SecretStr(GOOD)})
    assert discovery.token(settings) == GOOD
    assert not settings.data_dir.exists()


def test_of_many_that_start_at_once_one_makes_it(settings: Settings) -> None:
    with ThreadPoolExecutor(16) as pool:
        found = set(pool.map(lambda _: discovery.token(settings), range(64)))
    assert found == {discovery.token(settings)}
    assert [path.name for path in settings.data_dir.iterdir()] == [discovery.TOKEN_FILE]


def test_a_file_that_others_can_read_is_mended(settings: Settings) -> None:
    path = put(settings, GOOD + "\n", 0o644)
    with capture_logs() as logs:
        assert discovery.token(settings) == GOOD
    assert mode(path) == 0o600
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert GOOD not in str(logs)


@pytest.mark.parametrize("text", ["", "\n", "short", "two words " * 4, "ü" * 30, "a" * 600])
def test_a_file_without_a_token_is_refused(settings: Settings, text: str) -> None:
    path = put(settings, text)
    with pytest.raises(ConfigError) as caught:
        discovery.token(settings)
    assert str(path) in caught.value.message
    assert caught.value.message.endswith(".")
    assert path.read_text() == text  # somebody may want it back


def test_a_link_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(GOOD)
    settings.data_dir.mkdir()
    token_file(settings).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="link"):
        discovery.token(settings)


def test_a_link_that_leads_nowhere_makes_no_file_there(settings: Settings, tmp_path: Path) -> None:
    settings.data_dir.mkdir()
    token_file(settings).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="link"):
        discovery.token(settings)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_refused(settings: Settings, kind: str) -> None:
    settings.data_dir.mkdir()
    if kind == "pipe":
        os.mkfifo(token_file(settings))  # reading it would wait for ever
    else:
        token_file(settings).mkdir()
    with pytest.raises(ConfigError, match="is not a file"):
        discovery.token(settings)


def test_somebody_elses_file_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(settings, GOOD)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(ConfigError, match="another user"):
        discovery.token(settings)


def test_a_folder_that_cannot_be_made_is_one_sentence(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = settings.model_copy(update={"data_dir": tmp_path / "file" / "data"})
    with pytest.raises(ConfigError) as caught:
        discovery.token(settings)
    assert "data_dir" in caught.value.message
    assert caught.value.message.endswith(".")


# --- what runs ------------------------------------------------------------------------------


def test_a_process_is_found_while_it_runs(settings: Settings) -> None:
    with discovery.announced(settings, "engine", URL):
        found = told(settings)
        assert found["protocol"] == "kokoro.v1"
        assert found["token_file"] == str(token_file(settings))
        assert found["engine"] == URL
        assert found["pid"] == {"engine": os.getpid()}
        assert datetime.fromisoformat(found["started_at"]["engine"]).tzinfo is not None
        assert mode(settings.data_dir / discovery.DISCOVERY_FILE) == 0o600
    after = told(settings)
    assert after.get("engine") is None
    assert after["pid"] == after["started_at"] == {}


def test_it_is_taken_out_after_a_crash_in_the_context(settings: Settings) -> None:
    with pytest.raises(ZeroDivisionError), discovery.announced(settings, "engine", URL):
        1 / 0  # noqa: B018 - it is to fail
    assert told(settings)["pid"] == {}


def test_the_roles_come_and_go_by_themselves(settings: Settings) -> None:
    with discovery.announced(settings, "engine", URL):
        with discovery.announced(settings, "player", "ws://127.0.0.1:8882/"):
            assert set(told(settings)["pid"]) == {"engine", "player"}
        assert set(told(settings)["pid"]) == {"engine"}
        assert told(settings)["engine"] == URL


def test_the_token_of_the_settings_has_no_file(settings: Settings) -> None:
    settings = settings.model_copy(update={"token": SecretStr(GOOD)})
    with discovery.announced(settings, "engine", URL):
        assert told(settings).get("token_file") is None
        assert GOOD not in json.dumps(told(settings))


def test_an_entry_that_is_no_longer_ours_stays(settings: Settings) -> None:
    with discovery.announced(settings, "engine", URL):
        found = told(settings)
        found["pid"]["engine"] = os.getppid()  # another one has started in our place
        (settings.data_dir / discovery.DISCOVERY_FILE).write_text(json.dumps(found))
    assert told(settings)["pid"] == {"engine": os.getppid()}


@pytest.mark.parametrize("pid", [0, -1, -(2**40), 2**40])
def test_a_process_that_cannot_be_is_dropped(settings: Settings, pid: int) -> None:
    left_over(settings, pid)
    with discovery.announced(settings, "player", URL):
        assert set(told(settings)["pid"]) == {"player"}


def test_a_process_that_is_gone_is_dropped(settings: Settings) -> None:
    left_over(settings, gone_process())
    with discovery.announced(settings, "player", URL):
        assert set(told(settings)["pid"]) == {"player"}
        assert told(settings).get("engine") is None


def left_over(settings: Settings, pid: int) -> None:
    settings.data_dir.mkdir()
    (settings.data_dir / discovery.DISCOVERY_FILE).write_text(
        json.dumps({
            "protocol": "kokoro.v1", "engine": URL, "pid": {"engine": pid},
            "started_at": {"engine": "2026-01-01T00:00:00+00:00"},
        })
    )  # fmt: skip


@pytest.mark.parametrize(
    "junk",
    [b"", b"{", b"[]", b"null", b'{"pid": 1}', b'{"pid": {"engine": "x"}}', b"\xff", b"[" * 9000],
)
def test_a_damaged_file_is_replaced(settings: Settings, junk: bytes) -> None:
    settings.data_dir.mkdir()
    (settings.data_dir / discovery.DISCOVERY_FILE).write_bytes(junk)
    with discovery.announced(settings, "engine", URL):
        assert told(settings)["engine"] == URL


def test_a_link_is_replaced_and_not_written_through(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    settings.data_dir.mkdir()
    (settings.data_dir / discovery.DISCOVERY_FILE).symlink_to(tmp_path / "elsewhere")
    with discovery.announced(settings, "engine", URL):
        assert told(settings)["engine"] == URL
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_a_warning(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = settings.model_copy(update={"data_dir": tmp_path / "file" / "data"})
    with capture_logs() as logs, discovery.announced(settings, "engine", URL):
        pass  # it runs all the same
    assert [entry["log_level"] for entry in logs] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("host", "url", "found"),
    [
        ("0.0.0.0", "ws://0.0.0.0:8881/", URL),
        ("::", "ws://[::]:8881/", "ws://[::1]:8881/"),
        ("192.168.1.5", "ws://192.168.1.5:8881/", "ws://192.168.1.5:8881/"),
    ],
)
def test_an_open_port_is_said_aloud(settings: Settings, host: str, url: str, found: str) -> None:
    settings = settings.model_copy(update={"host": host, "token": SecretStr(GOOD)})
    with capture_logs() as logs, discovery.announced(settings, "engine", url):
        assert told(settings)["engine"] == found
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_three_processes_at_once(settings: Settings) -> None:
    """One token, one file with all of them in it, and nothing left of those that ended."""
    roles = ("engine", "player", "http")
    running = [
        subprocess.Popen(
            [sys.executable, "-c", START, str(settings.data_dir), role],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for role in roles
    ]  # fmt: skip

    def heard(process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        return process.stdout.readline().strip()

    def go(process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    try:
        assert [heard(process) for process in running] == ["here"] * 3
        for process in running:
            go(process)
        tokens = {heard(process) for process in running}
        assert tokens == {discovery.token(settings)}
        assert [heard(process) for process in running] == ["announced"] * 3
        found = told(settings)
        assert found["pid"] == {r: p.pid for r, p in zip(roles, running, strict=True)}
        assert [found[role] for role in roles] == [f"ws://{role}/" for role in roles]
        running[0].kill()  # which takes nothing out
        running[0].wait()
        go(running[1])
        assert running[1].wait() == 0
        assert set(told(settings)["pid"]) == {"http"}
        go(running[2])
        assert running[2].wait() == 0
        assert told(settings)["pid"] == {}
    finally:
        for process in running:
            process.kill()
            process.communicate()


# --- without the settings ---------------------------------------------------------------------


def hurried(settings: Settings, **environ: str) -> discovery.Found | None:
    """What a command finds that does not read the settings."""
    return discovery.at_hand("player", {"KOKORO_LIVE_DATA_DIR": str(settings.data_dir), **environ})


def test_what_runs_is_found_without_the_settings(settings: Settings) -> None:
    secret = discovery.token(settings)
    assert hurried(settings) is None
    with discovery.announced(settings, "player", "ws://127.0.0.1:9999/"):
        assert hurried(settings) == discovery.Found("ws://127.0.0.1:9999/", secret)
        assert hurried(settings, kokoro_live_voice="af_sky", TOKEN="other") is not None
    assert hurried(settings) is None


@pytest.mark.parametrize(
    "name",
    [
        "KOKORO_LIVE_PLAYER_PORT",
        "KOKORO_LIVE_HOST",
        "KOKORO_LIVE_TOKEN",
        "KOKORO_LIVE_CONFIG",
        "kokoro_live_player_port",
    ],
)
def test_what_the_environment_says_counts_more(settings: Settings, name: str) -> None:
    discovery.token(settings)
    with discovery.announced(settings, "player", URL):
        assert hurried(settings) is not None
        assert hurried(settings, **{name: "1"}) is None


def test_another_role_is_not_meant(settings: Settings) -> None:
    discovery.token(settings)
    with discovery.announced(settings, "engine", URL):
        assert hurried(settings) is None


def test_a_token_that_is_a_setting_is_not_at_hand(settings: Settings) -> None:
    discovery.token(settings)
    set_ = settings.model_copy(update={"token": SecretStr(GOOD)})
    with discovery.announced(set_, "player", URL):
        assert hurried(settings) is None


@pytest.mark.parametrize("text", ["", "short", "what is no token at all\n"])
def test_a_token_that_is_none_is_left_to_the_settings(settings: Settings, text: str) -> None:
    put(settings, text)
    with discovery.announced(settings, "player", URL):
        assert hurried(settings) is None


def test_what_is_to_be_told_is_left_to_the_settings(settings: Settings) -> None:
    path = put(settings, GOOD, 0o644)
    with discovery.announced(settings, "player", URL), capture_logs() as logs:
        assert hurried(settings) is None
        assert mode(path) == 0o644
        (settings.data_dir / discovery.DISCOVERY_FILE).write_text("{")
        assert hurried(settings) is None
        path.unlink()
        assert hurried(settings) is None
        assert logs == []
