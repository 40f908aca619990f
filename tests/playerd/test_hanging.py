"""A sound system that hangs for good: the player ends, and says that it is to be started anew.

Time is the test's; the sockets are real.
"""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import process
from engine.config import Settings
from engine.errors import TAINTED, NotReady
from playerd import priority, program
from playerd.program import HANG_LIMIT_S, HANG_POLL_S, SoundHangs, complaint
from playerd.sinks.base import DeviceUnavailable, Sink
from playerd.sinks.null import NullSink
from playerd.sinks.portaudio import PortAudioSink
from tests.support.rig import PATIENCE_S
from wsproto_api import discovery, messages
from wsproto_api.client import connect


@pytest.mark.parametrize(
    ("sink", "hangs_s", "says"),
    [
        (PortAudioSink(), 29.0, None),
        (PortAudioSink(), 31.0, "the sound system has not answered for 31 s"),
        (NullSink(), 31.0, None),
    ],
)
def test_what_only_a_new_process_mends(
    monkeypatch: pytest.MonkeyPatch, sink: Sink, hangs_s: float, says: str | None
) -> None:
    monkeypatch.setattr(PortAudioSink, "hangs_s", hangs_s)
    assert complaint(sink) == says


class Hanging(PortAudioSink):
    """A sink whose sound system hangs from a moment on."""

    since_s = 10.0

    @property
    def hangs_s(self) -> float:
        return max(trio.current_time() - self.since_s, 0.0)

    async def open(self) -> None:
        await trio.sleep(3)
        raise DeviceUnavailable("The sound system does not answer.")

    async def aclose(self) -> None:
        await trio.sleep(600)


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The process is the tests': nothing of it is changed, and it is not ended by force."""
    limits: list[float] = []
    monkeypatch.setattr(program, "end_within", limits.append)
    monkeypatch.setattr(priority, "raise_process", lambda: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    monkeypatch.setattr(program, "sink_of", lambda _: Hanging())
    return limits


async def test_it_ends_and_tells_its_clients(
    settings: Settings, within: list[float], autojump_clock: MockClock
) -> None:
    settings = settings.model_copy(update={"player_port": 0})
    ended_s: list[float] = []

    async def listen() -> None:
        await trio.sleep(5)  # it looks for a device first
        (ready,) = (entry for entry in logs if entry["event"] == "ready")
        async with connect(
            ready["address"] + "/",
            token=discovery.token(settings),
            client=messages.PLAYER_CLIENT,
            server=messages.PLAYER_SERVER,
        ) as (connection, _):
            with pytest.raises(NotReady):
                while True:
                    await connection.receive()
        ended_s.append(trio.current_time())

    async def play() -> None:
        with pytest.RaisesGroup(SoundHangs, flatten_subgroups=True):
            await program.play(settings)
        ended_s.append(trio.current_time())

    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(play)
            nursery.start_soon(listen)
    assert within, "it ends even if something hangs on its way out"
    due_s = Hanging.since_s + HANG_LIMIT_S
    for end_s in ended_s:  # though the sink is not closed in ten minutes
        assert due_s < end_s <= due_s + HANG_POLL_S + min(within)
    (entry,) = (entry for entry in logs if entry["log_level"] == "error")
    assert "starts it anew" in entry["event"]
    assert "has not answered for" in entry["reason"]


async def test_one_that_answers_again_in_time_is_kept(
    within: list[float], autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs_s = [0.0, 29.0, 30.0, 0.0, 5.0]
    at = property(lambda _: hangs_s[min(int(trio.current_time() - began_s) // 10, 4)])
    monkeypatch.setattr(PortAudioSink, "hangs_s", at)
    began_s = trio.current_time()
    with trio.move_on_after(100) as patience:
        await program.hanging(PortAudioSink())
    assert patience.cancelled_caught
    assert within == []


def test_its_exit_code_is_known_to_the_service_manager(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(settings: Settings, *, ensure: bool) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise SoundHangs

    monkeypatch.setattr(program, "serve", serve)
    monkeypatch.setattr(process, "set_up_logging", lambda _: None)
    assert program.run({"data_dir": settings.data_dir}, ensure=False) == TAINTED


def test_the_last_resort_ends_a_process_that_does_not_end() -> None:
    hangs = "import time; from playerd.program import end_within; end_within(0.0); time.sleep(600)"
    child = subprocess.run([sys.executable, "-c", hangs], check=False, timeout=PATIENCE_S)
    assert child.returncode == TAINTED
