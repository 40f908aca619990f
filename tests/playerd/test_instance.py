"""One player at a time: the lock, with real processes."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from engine.config import Settings
from playerd.instance import LOCK_FILE, Other, alone
from tests.playerd.program import running
from wsproto_api import discovery

NO_ENGINE = 1  # a port where nobody listens

#: what a player does, without the playing; it is announced when it is told to
HOLD = """
import sys
from pathlib import Path
from engine import config
from playerd.instance import alone
from wsproto_api.discovery import announced
folder = Path(sys.argv[1])
settings = config.load({"data_dir": folder}, environ={}, file=folder / "none").settings
with alone(settings) as other:
    print(other, flush=True)
    sys.stdin.readline()
    with announced(settings, "player", "ws://127.0.0.1:4711/"):
        print("announced", flush=True)
        sys.stdin.readline()
"""


@contextmanager
def holding(settings: Settings) -> Iterator[subprocess.Popen[str]]:
    """A process that has asked for the lock; killed at the end."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(settings.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def announce(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert line(process) == "announced"


def test_the_first_is_alone_and_its_file_is_its_own(settings: Settings) -> None:
    before = os.umask(0)
    try:
        with alone(settings) as other:
            assert other is None
            path = settings.data_dir / LOCK_FILE
            assert path.read_text() == f"{os.getpid()}\n"
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
    finally:
        os.umask(before)


def test_the_second_is_told_who_runs(settings: Settings) -> None:
    with holding(settings) as first:
        assert line(first) == "None"
        with alone(settings) as other:
            assert other == Other(first.pid, None)
        announce(first)
        with alone(settings) as other:
            assert other == Other(first.pid, "ws://127.0.0.1:4711/")
        with holding(settings) as third:  # in words, and asking takes nothing from the first
            assert line(third) == (
                f"The player already runs as process {first.pid} at ws://127.0.0.1:4711/; use it, "
                "or end that process first."
            )


def test_a_player_of_another_folder_is_no_matter(settings: Settings, tmp_path: Path) -> None:
    elsewhere = settings.model_copy(update={"data_dir": tmp_path / "elsewhere"})
    with holding(settings) as first:
        assert line(first) == "None"
        with alone(elsewhere) as other:
            assert other is None


def test_a_killed_player_leaves_no_lock(settings: Settings) -> None:
    with holding(settings) as first:
        assert line(first) == "None"
        announce(first)
        first.send_signal(signal.SIGKILL)
        first.wait()
    for _ in range(2):  # nor does one that ends
        with alone(settings) as other:
            assert other is None


def test_an_address_that_is_not_the_holders_is_not_told(settings: Settings) -> None:
    """One that could not be locked out may have been announced after it."""
    with holding(settings) as first:
        assert line(first) == "None"
        with discovery.announced(settings, "player", "ws://127.0.0.1:9/"):
            with alone(settings) as other:
                assert other == Other(first.pid, None)
                assert str(other) == (
                    f"The player already runs as process {first.pid}; end that one first."
                )


def test_a_holder_that_has_not_said_who_it_is(settings: Settings) -> None:
    with holding(settings) as first:
        assert line(first) == "None"
        (settings.data_dir / LOCK_FILE).write_text("")
        with alone(settings) as other:
            assert other == Other(None, None)
            assert "just starting" in str(other)


@pytest.mark.parametrize("trap", ["link", "file"])
def test_a_folder_without_a_lock_is_a_warning(
    settings: Settings, tmp_path: Path, trap: str
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    if trap == "link":
        settings.data_dir.mkdir()
        (settings.data_dir / LOCK_FILE).symlink_to(victim)
    else:
        settings.data_dir.symlink_to(victim)
    with capture_logs() as logs, alone(settings) as other:
        assert other is None
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert victim.read_text() == "precious"


def test_a_file_system_without_locks_is_a_warning(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with capture_logs() as logs, alone(settings) as other:
        assert other is None
    assert [entry["error"] for entry in logs] == ["No locks available"]


# --- the program ------------------------------------------------------------------------------


def second(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "playerd", "--port", "0", "--sink", "null", *flags],
        env={
            **os.environ,
            "KOKORO_LIVE_CONFIG": str(folder / "none.toml"),
            "KOKORO_LIVE_DATA_DIR": str(folder / "data"),
        },
        capture_output=True,
        text=True,
        check=False,
    )


async def test_a_second_player_says_so_in_one_sentence(tmp_path: Path) -> None:
    async with running(
        "--sink", "null", environment=os.environ, folder=tmp_path, engine_port=NO_ENGINE
    ) as program:
        refused = second(tmp_path)
        assert refused.returncode == 1
        pid, address = program.process.pid, program.ready["address"]
        assert refused.stderr.count("\n") == 1
        assert f"process {pid} at {address}/;" in refused.stderr
        ensured = second(tmp_path, "--ensure")
        assert ensured.returncode == 0
        assert f"pid={pid}" in ensured.stderr
        async with program.client() as client:  # and the first has noticed nothing
            await client.status()
        await program.end(signal.SIGKILL)
    async with running(
        "--sink", "null", environment=os.environ, folder=tmp_path, engine_port=NO_ENGINE
    ) as program:
        assert await program.end() == 0
