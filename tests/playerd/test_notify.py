"""What the service manager hears: a real socket, and time that a test can hold."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs

from playerd.notify import Notifier
from tests.playerd.program import running
from tests.support.rig import PATIENCE_S

NO_ENGINE = 1  # a port where nobody listens


class Manager:
    """A service manager's ear."""

    def __init__(self, folder: Path, *, abstract: bool = False) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setblocking(False)
        name = f"kokoro-live-{secrets.token_hex(8)}" if abstract else str(folder / "notify")
        self.socket.bind(f"\0{name}" if abstract else name)
        self.environ = {"NOTIFY_SOCKET": f"@{name}" if abstract else name}

    def heard(self) -> list[str]:
        """Everything since the last time this was asked."""
        messages = []
        while True:
            try:
                messages.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return messages


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    manager = Manager(tmp_path, abstract=request.param == "abstract")
    yield manager
    manager.socket.close()


def test_start_and_end_are_told(manager: Manager) -> None:
    notifier = Notifier(manager.environ)
    notifier.ready("listens at\nREADY=0")
    assert manager.heard() == ["READY=1\nSTATUS=listens at READY=0"]
    notifier.stopping()
    assert manager.heard() == ["STOPPING=1\nSTATUS=ending"]


async def test_a_healthy_loop_pings_twice_in_the_time(
    manager: Manager, autojump_clock: trio.testing.MockClock
) -> None:
    notifier = Notifier({**manager.environ, "WATCHDOG_USEC": "10000000"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.watch, lambda: None)
        for elapsed_s, pings in [(1, 1), (3.9, 0), (0.2, 1), (20, 4)]:
            await trio.sleep(elapsed_s)
            assert manager.heard() == ["WATCHDOG=1"] * pings
        nursery.cancel_scope.cancel()


async def test_who_is_not_well_does_not_ping_and_says_why(
    manager: Manager, autojump_clock: trio.testing.MockClock
) -> None:
    wrong: str | None = None
    notifier = Notifier({**manager.environ, "WATCHDOG_USEC": "2000000"})
    notifier.ready("well")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.watch, lambda: wrong)
        await trio.sleep(0.5)
        assert manager.heard() == ["READY=1\nSTATUS=well", "WATCHDOG=1"]
        wrong = "the sound system hangs"
        with capture_logs() as logs:
            await trio.sleep(5)
        assert manager.heard() == ["STATUS=the sound system hangs"]
        assert [entry["reason"] for entry in logs] == ["the sound system hangs"]
        wrong = None
        await trio.sleep(1)
        assert manager.heard() == ["STATUS=well", "WATCHDOG=1"]
        nursery.cancel_scope.cancel()


async def test_a_loop_that_is_stuck_does_not_ping(
    manager: Manager, mock_clock: trio.testing.MockClock
) -> None:
    """The ping comes from the loop itself, so that none is sent for one that does not turn."""
    notifier = Notifier({**manager.environ, "WATCHDOG_USEC": "2000000"})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(notifier.watch, lambda: None)
        await trio.testing.wait_all_tasks_blocked()
        manager.heard()
        mock_clock.jump(60)  # and the loop has no turn
        assert manager.heard() == []
        await trio.testing.wait_all_tasks_blocked()
        assert manager.heard() == ["WATCHDOG=1"]
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "told",
    [
        {},
        {"WATCHDOG_USEC": ""},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "-1"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},  # meant for a parent
    ],
)
async def test_nobody_waits_for_pings(
    manager: Manager, told: dict[str, str], autojump_clock: trio.testing.MockClock
) -> None:
    notifier = Notifier({**manager.environ, **told})
    assert notifier.period_s is None
    await notifier.watch(lambda: None)  # returns
    assert manager.heard() == []


def test_pings_that_are_meant_for_this_process(manager: Manager) -> None:
    told = {"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}
    assert Notifier({**manager.environ, **told}).period_s == 5


@pytest.mark.parametrize("address", ["", "vsock:2:1234", "relative/path"])
async def test_without_a_manager_nothing_happens(
    address: str, autojump_clock: trio.testing.MockClock
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"})
    with capture_logs() as logs:
        notifier.ready("well")
        await notifier.watch(lambda: None)
        notifier.stopping()
    assert logs == []


def test_a_manager_that_is_gone_is_no_failure(tmp_path: Path) -> None:
    with capture_logs() as logs:
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("well")
        Notifier({"NOTIFY_SOCKET": "/" + "x" * 200}).ready("well")  # longer than an address
    assert [entry["log_level"] for entry in logs] == ["warning", "warning"]


async def test_the_program_tells_its_life(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    heard: list[str] = []

    async def until(message: str) -> None:
        with trio.fail_after(PATIENCE_S):
            while message not in heard:
                await trio.lowlevel.wait_readable(manager.socket)
                heard.extend(manager.heard())

    environ = {**os.environ, **manager.environ, "WATCHDOG_USEC": "100000"}
    async with running(
        "--sink", "null", environment=environ, folder=tmp_path, engine_port=NO_ENGINE
    ) as program:
        await until("WATCHDOG=1")
        heard.clear()
        await until("WATCHDOG=1")
        assert await program.end() == 0
    heard.extend(manager.heard())
    assert [message for message in heard if message != "WATCHDOG=1"] == [
        "STOPPING=1\nSTATUS=ending"
    ]
    manager.socket.close()


async def test_the_program_is_ready_when_it_can_be_reached(tmp_path: Path) -> None:
    manager = Manager(tmp_path)
    environ = {**os.environ, **manager.environ}
    async with running(
        "--sink", "null", environment=environ, folder=tmp_path, engine_port=NO_ENGINE
    ) as program:
        with trio.fail_after(PATIENCE_S):
            await trio.lowlevel.wait_readable(manager.socket)
        assert manager.heard() == [f"READY=1\nSTATUS=listens at {program.ready['address']}"]
        async with program.client() as client:
            await client.status()
    manager.socket.close()
