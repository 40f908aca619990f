"""A child process that plays through the real sink, as the player does, and tells what happens.

The parent's side is `sounding`. What is told are lines of JSON; `at_s` is `time.monotonic`, which
all processes of a machine share:

* `device`: another device, or another state of it; `name`, `stalled`, `depth_ms`
* `played`: the samples before `position` have left the device
* `said`: one of the `words` was played; `took_s` is how long that took from the first sample given
* `stopped`: after the line `stop`, `cut`, or `stop NAME`, which goes on with the device of that
  name; `heard`, how many of these were `faded`, how many were heard `after` the line came, and how
  long it `took_s`
* `done`: all was played; `lag_s` is how long the event loop was held up at most
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import structlog
import trio

from engine.audio import SAMPLE_BYTES, ms_to_samples
from playerd import priority
from playerd.device import Device
from playerd.sinks.base import DeviceUnavailable
from playerd.sinks.portaudio import PortAudioSink
from tests.support.rig import PATIENCE_S, Rig, code

#: what tests have it play: so long, as bytes and in samples
SECONDS = 1.8
CODE = code(SECONDS)
TOTAL = len(CODE) // SAMPLE_BYTES
#: what the device asks for at once, in samples
BLOCK = 480

PIECE_BYTES = ms_to_samples(100) * SAMPLE_BYTES
TICK_S = 0.005


def word(ms: float, n: int) -> bytes:
    """The n-th of the `words`; every other one ends loudly."""
    return code(ms / 1000, 10 + n)[: None if n % 2 else -SAMPLE_BYTES]


@dataclass(frozen=True)
class Task:
    """What is to be played.

    Attributes:
        seconds: so much of `code(seconds, 1)`; after a stop, half a second of `code(0.5, 2)`.
        device: where; None for the default.
        file: PCM to play instead.
        words: these pieces of so many milliseconds instead, each when the one before has ended.
        spins: meanwhile a thread wants the interpreter all the time.
        only: rate and channels that the device takes; it is made to refuse all others.
    """

    seconds: float = 2.0
    device: str | None = None
    file: str | None = None
    words: tuple[float, ...] = ()
    spins: bool = False
    only: tuple[int, int] | None = None


class Sounding:
    """The child."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._sink = PortAudioSink(task.device)
        self._device = Device(self._sink, self._tell_device)
        self._playing = trio.CancelScope()
        self._stop: str | None = None
        self._lag_s = 0.0

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tick)
            nursery.start_soon(self._obey)
            nursery.start_soon(self._follow)
            pcm = code(self._task.seconds)
            if self._task.file:
                pcm = await trio.Path(self._task.file).read_bytes()
            if self._task.spins:
                threading.Thread(target=spin, daemon=True).start()
            with self._playing:
                if self._task.words:
                    await self._say_words(self._task.words)
                else:
                    await self._play(pcm)
            if self._stop:
                began_s, before = time.monotonic(), self._sink.heard_samples
                how, _, name = self._stop.partition(" ")
                heard = await self._sink.stop(cut=how == "cut")
                tell(
                    "stopped",
                    heard=heard,
                    faded=self._sink.fade_samples,
                    after=heard - before,
                    took_s=time.monotonic() - began_s,
                )
                if name:
                    self._sink.wanted = name
                    await self._sink.aclose()
                await self._play(code(0.5, 2))
            tell("done", lag_s=self._lag_s)
            await self._device.aclose()
            nursery.cancel_scope.cancel()

    async def _play(self, pcm: bytes) -> None:
        for at in range(0, len(pcm), PIECE_BYTES):
            while not self._device.present:
                await self._device.look()
            try:
                await self._sink.write(pcm[at : at + PIECE_BYTES])
            except DeviceUnavailable as error:
                await self._device.lose(error)
        while True:
            try:
                while not self._device.present:
                    await self._device.look()
                await self._sink.drain()
                break
            except DeviceUnavailable as error:
                await self._device.lose(error)

    async def _say_words(self, words: tuple[float, ...]) -> None:
        await self._sink.open()
        for n, ms in enumerate(words):
            began_s = time.monotonic()
            await self._play(word(ms, n))
            tell("said", took_s=time.monotonic() - began_s)

    async def _follow(self) -> None:
        position = 0
        while True:
            position += ms_to_samples(20)
            while self._sink.written_samples < position:  # noqa: ASYNC110 - it is told to nobody
                await trio.sleep(TICK_S)
            await self._sink.played(position)
            tell("played", position=position)

    async def _obey(self) -> None:
        async for command in trio.lowlevel.FdStream(0):
            self._stop = command.decode().strip()
            self._playing.cancel()

    async def _tick(self) -> None:
        while True:
            began_s = time.monotonic()
            await trio.sleep(TICK_S)
            self._lag_s = max(self._lag_s, time.monotonic() - began_s - TICK_S)

    def _tell_device(self) -> None:
        tell(
            "device",
            name=self._sink.device,
            stalled=self._sink.stalled,
            depth_ms=self._sink.depth_ms,
        )


def spin() -> None:
    """Holds the interpreter as often as it gets it."""
    while True:
        pass


def tell(kind: str, **facts: object) -> None:
    print(json.dumps({"kind": kind, "at_s": time.monotonic(), **facts}), flush=True)


def refuse_all_but(rate: int, channels: int) -> None:
    """Makes the library refuse what a device with these alone would refuse."""
    import sounddevice as sd

    really = sd.RawOutputStream

    def open_stream(**options: Any) -> Any:
        if options["samplerate"] != rate:
            raise sd.PortAudioError("Invalid sample rate", -9997)
        if options["channels"] != channels:
            raise sd.PortAudioError("Invalid number of channels", -9998)
        return really(**options)

    sd.RawOutputStream = open_stream


def begin() -> None:
    """Sets up a child as the player's program is: its log goes elsewhere, and it goes first."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    priority.raise_process()


def main() -> None:
    begin()
    task = Task(**json.loads(sys.argv[1]))
    if task.only:
        refuse_all_but(*task.only)
    trio.run(Sounding(task).run)


# --- the parent's side ------------------------------------------------------------------------


class Child:
    """A running child.

    Attributes:
        told: all that it has told so far.
    """

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._heard = 0
        self._news = trio.Event()
        self.told: list[dict[str, Any]] = []

    async def read(self) -> None:
        rest = b""
        assert self._process.stdout is not None
        async for data in self._process.stdout:
            *whole, rest = (rest + data).split(b"\n")
            self.told += [json.loads(line) for line in whole]
            self._news.set()
            self._news = trio.Event()

    async def hear(
        self, kind: str, *, within_s: float = PATIENCE_S, **facts: object
    ) -> dict[str, Any]:
        """The next thing of this kind that is told and has these facts."""
        with trio.fail_after(within_s):
            while True:
                while self._heard < len(self.told):
                    self._heard += 1
                    fact = self.told[self._heard - 1]
                    if fact["kind"] == kind and all(fact[k] == v for k, v in facts.items()):
                        return fact
                await self._news.wait()

    async def played(self, ms: float) -> None:
        """Waits until so much was played."""
        while (await self.hear("played"))["position"] < ms_to_samples(ms):
            pass

    def position(self, until_s: float) -> int:
        """How much it had said was played by then."""
        played = [f for f in self.told if f["kind"] == "played" and f["at_s"] <= until_s]
        return int(played[-1]["position"]) if played else 0

    async def say(self, command: str) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send_all(command.encode() + b"\n")

    def sleep(self) -> None:
        """It stands still until `wake`."""
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)


def sounding(rig: Rig, task: Task) -> AbstractAsyncContextManager[Child]:
    """Runs a child that does a task."""
    return running(rig, "tests.playerd.sounding", json.dumps(asdict(task)))


@asynccontextmanager
async def running(rig: Rig, module: str, argument: str) -> AsyncIterator[Child]:
    """Runs a child, and sees that it ends by itself."""
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, "-m", module, argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                check=False,
                env=rig.environment,
            )
        )
        child = Child(process)
        nursery.start_soon(child.read)
        try:
            yield child
            with trio.fail_after(PATIENCE_S):
                assert await process.wait() == 0
        except BaseException:
            print(*child.told[-50:], sep="\n")  # pytest shows it with the failure
            child.wake()
            raise
        finally:
            nursery.cancel_scope.cancel()


# --- what is found ------------------------------------------------------------------------------


def joined(found: list[range]) -> range:
    """The only part that was captured, perhaps with silence in it."""
    assert all(before.stop == after.start for before, after in pairwise(found)), found
    assert found
    return range(found[0].start, found[-1].stop)


def lost(child: Child) -> bool:
    """Whether the device was lost or stood still, after it had been opened."""
    done = next(n for n, fact in enumerate(child.told) if fact["kind"] == "done")
    devices = [fact for fact in child.told[:done] if fact["kind"] == "device"]
    return any(fact["name"] is None or fact["stalled"] for fact in devices)


if __name__ == "__main__":
    main()
