"""What `PortAudioSink` does when PortAudio itself hangs. A stand-in for the library: the real one
hangs by a race that no test can win on demand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import trio
import trio.testing

from playerd.sinks import portaudio
from playerd.sinks.base import DeviceUnavailable
from playerd.sinks.portaudio import CALL_LIMIT_S, LEFT_LIMIT, PortAudioSink


class Library:
    """As much of the module `sounddevice` as the sink uses, with starts that can hang."""

    PortAudioError = RuntimeError

    def __init__(self, clock: trio.testing.MockClock) -> None:
        self.clock = clock
        self._initialized = 1
        self.terminated = 0
        self.hangs = False
        self.released = threading.Event()
        self.streams: list[Stream] = []

    def _initialize(self) -> None:
        self._initialized += 1

    def _terminate(self) -> None:
        self._initialized -= 1
        self.terminated += 1

    def RawOutputStream(self, **_: Any) -> Stream:
        self.streams.append(Stream(self))
        return self.streams[-1]

    def query_devices(self, _: int) -> dict[str, str]:
        return {"name": "loudspeaker"}


class Stream:
    device = 0
    latency = 0.06

    def __init__(self, library: Library) -> None:
        self._library = library
        self.started = self.closed = False

    def start(self) -> None:
        if self._library.hangs:
            # No time passes but here: the sink loses patience when this hangs, and not before.
            trio.from_thread.run_sync(self._library.clock.jump, 1.0)
            self._library.released.wait()
        self.started = True

    def abort(self) -> None:
        self.started = False

    def close(self) -> None:
        self.closed = True


#: more than a start needs, less than the ring holds
WORD = bytes(4800)


@pytest.fixture
def library(
    monkeypatch: pytest.MonkeyPatch, mock_clock: trio.testing.MockClock
) -> Iterator[Library]:
    library = Library(mock_clock)
    monkeypatch.setattr(portaudio, "_load", lambda: library)
    yield library
    library.released.set()


async def _hang(sink: PortAudioSink, library: Library) -> None:
    """Opens the sink, has its start hang, and closes it as the player does."""
    library.hangs = True
    await sink.open()
    with pytest.raises(DeviceUnavailable, match="does not answer"):
        await sink.write(WORD)
    await sink.aclose()
    library.hangs = False


async def test_a_start_that_hangs_costs_its_stream_only(library: Library) -> None:
    sink = PortAudioSink()
    await _hang(sink, library)
    terminated = library.terminated
    await sink.open()
    await sink.write(WORD)
    hung, fresh = library.streams
    assert fresh.started
    assert not hung.closed  # its lock is held by a thread that has ended: to close it would hang
    assert library.terminated == terminated  # the same


async def test_so_many_may_hang_and_no_more(library: Library) -> None:
    sink = PortAudioSink()
    for _ in range(LEFT_LIMIT):
        await _hang(sink, library)
    await sink.open()
    await sink.aclose()
    await _hang(sink, library)
    assert await _answers(sink, library) is False


async def test_it_is_known_for_how_long_nothing_can_be_done(library: Library) -> None:
    sink = PortAudioSink()
    assert sink.hangs_s == 0
    for _ in range(LEFT_LIMIT):
        await _hang(sink, library)
        assert sink.hangs_s == 0  # the next call does not wait for it
    await _hang(sink, library)
    assert 0 < sink.hangs_s < sink.hangs_s
    library.released.set()
    await sink.open()  # waits its turn
    assert sink.hangs_s == 0


async def test_what_hung_and_returns_starts_nothing_and_is_cleared_away(library: Library) -> None:
    sink = PortAudioSink()
    for _ in range(LEFT_LIMIT + 1):
        await _hang(sink, library)
    terminated = library.terminated
    library.released.set()
    while library.terminated == terminated:
        await sink.open()
        await sink.aclose()
    await sink.open()
    assert not sink._running
    assert sink._stream is library.streams[-1]


async def _answers(sink: PortAudioSink, library: Library) -> bool:
    """Whether the sink can be opened; if not, it has waited for as long as it ever waits."""
    opened = trio.Event()

    async def open_it() -> None:
        with suppress(DeviceUnavailable):
            await sink.open()
            opened.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(open_it)
        await trio.testing.wait_all_tasks_blocked()
        if sink._calls.statistics().tasks_waiting:
            library.clock.jump(CALL_LIMIT_S)
    return opened.is_set()
