"""A program that is started anew when only that helps."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from engine import again
from engine.errors import TAINTED


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "PAUSE_S", 0.0)


def ends(folder: Path, *statuses: int | str) -> tuple[int, str]:
    """With which status it ends that runs a program which ends with these; and which are left."""
    path = folder / "statuses"
    path.write_text(" ".join(map(str, statuses)))
    return again.run(["tests.support.ending", str(path)]), path.read_text()


@pytest.mark.parametrize("status", [0, 1, 130])
def test_the_end_of_the_program_is_ours(tmp_path: Path, status: int) -> None:
    assert ends(tmp_path, status, 5) == (status, "5")


def test_a_program_that_cannot_go_on_is_started_anew(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert ends(tmp_path, TAINTED, TAINTED, 3) == (3, "")
    assert capfd.readouterr().err == 2 * "Starting tests.support.ending anew.\n"


@pytest.mark.parametrize("number", [signal.SIGABRT, signal.SIGSEGV])
def test_a_program_that_a_fault_has_ended_is_started_anew(
    tmp_path: Path, number: signal.Signals
) -> None:
    assert ends(tmp_path, -number, 3) == (3, "")


def test_the_status_of_one_that_ends_so_for_ever_is_that_of_a_shell(tmp_path: Path) -> None:
    assert ends(tmp_path, *[-signal.SIGABRT] * again.MOST) == (128 + signal.SIGABRT, "")


def test_not_for_ever(tmp_path: Path) -> None:
    assert ends(tmp_path, *[TAINTED] * 7) == (TAINTED, " ".join([str(TAINTED)] * 2))


def test_seldom_as_often_as_it_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "WITHIN_S", 0.0)
    assert ends(tmp_path, *[TAINTED] * 6, 0) == (0, "")


@pytest.mark.parametrize("before", [0, 1])
def test_a_signal_ends_both(tmp_path: Path, before: int) -> None:
    def end() -> None:
        while not (tmp_path / "statuses.waits").exists():
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=end)
    thread.start()
    assert ends(tmp_path, *[TAINTED] * before, "wait") == (9, "")
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is handler


def test_whom_a_signal_ends_tells_so_by_its_status() -> None:
    """As a shell does."""
    assert again.run(["tests.support.killed"]) == 128 + signal.SIGKILL
