"""What `PortAudioSink` does when PortAudio hangs, refuses, stands still or sleeps. A stand-in for
the library: the real one does so by races that no test can win on demand. Time is the test's."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine.audio import PCM_DTYPE, ms_to_samples
from playerd.ladder import RUNGS_MS
from playerd.sinks import output
from playerd.sinks.base import DeviceUnavailable
from playerd.sinks.portaudio import PortAudioSink
from playerd.sinks.worker import LEFT_LIMIT
from tests.playerd.sink_contract import noise

BLOCK_S = 0.02

T = TypeVar("T")


class Time:
    """Stands for the module `time` in the sink: its clock is Trio's, whoever asks."""

    def __init__(self, clock: MockClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return 1000.0 + self._clock.current_time()


class Refused(RuntimeError):
    """As sounddevice's: a text and PortAudio's number."""


class Library:
    """As much of the module `sounddevice` as the sink uses.

    Attributes:
        hangs: starts hang until `released`.
        aborts_hang: aborts do.
        takes: says whether the device takes a rate and a number of channels.
    """

    PortAudioError = Refused

    def __init__(self, clock: MockClock) -> None:
        self.clock = clock
        self.time = Time(clock)
        self._initialized = 1
        self.initialized = 0
        self.terminated = 0
        self.hangs = False
        self.aborts_hang = False
        self.takes: Callable[[int, int], bool] = lambda rate, channels: True
        self.preferred = 44100.0
        self.released = threading.Event()
        self.streams: list[Stream] = []
        self.asked: list[tuple[int, int]] = []
        self.threads: set[int] = set()

    def _initialize(self) -> None:
        self.called()
        self._initialized += 1
        self.initialized += 1

    def _terminate(self) -> None:
        self.called()
        assert not any(stream.hanging for stream in self.streams), "that would hang"
        self._initialized -= 1
        self.terminated += 1

    def RawOutputStream(self, **options: Any) -> Stream:
        self.called()
        form = (options["samplerate"], options["channels"])
        self.asked.append(form)
        if not self.takes(*form):
            raise Refused("It cannot", -9997 if not self.takes(form[0], 2) else -9998)
        self.streams.append(Stream(self, **options))
        return self.streams[-1]

    def query_devices(self, device: object, kind: str | None = None) -> dict[str, Any]:
        self.called()
        return {"name": "loudspeaker", "default_samplerate": self.preferred}

    def called(self) -> None:
        self.threads.add(threading.get_ident())

    @property
    def hanging(self) -> int:
        """How many calls hang."""
        return sum(stream.hanging for stream in self.streams)

    def hang(self, stream: Stream) -> None:
        """No time passes but here: the sink loses patience when this hangs, and not before."""
        stream.hanging = True
        with suppress(trio.RunFinishedError):
            trio.from_thread.run_sync(self.clock.jump, 1.0, trio_token=self.token)
        self.released.wait()
        stream.hanging = False

    token: trio.lowlevel.TrioToken

    @property
    def stream(self) -> Stream:
        """The newest."""
        return self.streams[-1]

    @property
    def sounding(self) -> Stream:
        """The one that plays; there is never another one."""
        (stream,) = (stream for stream in self.streams if stream.started)
        return stream


class Stream:
    """A stream, which asks for a block whenever it has played one."""

    device = 0

    def __init__(self, library: Library, **options: Any) -> None:
        self._library = library
        self._options = options
        self.latency: float = options["latency"]
        self.started = self.closed = self.hanging = False
        self.starts = 0
        self.suspended = False  # asks for what it can hold, and then for nothing
        self.heard = bytearray()  # what has left it
        self.holds: list[bytes] = []

    def start(self) -> None:
        self._library.called()
        if self._library.hangs:
            self._library.hang(self)
        assert not self.started
        self.started = True
        self.starts += 1
        for _ in range(round(self.latency / BLOCK_S) + 1):
            self._ask()

    def abort(self) -> None:
        self._library.called()
        if self._library.aborts_hang:
            self._library.hang(self)
        if self.started:
            self.started = False
            self.holds.clear()
            self._options["finished_callback"]()

    def close(self) -> None:
        self._library.called()
        self.started = False
        self.closed = True

    def tick(self) -> None:
        """A block has left it, and it wants another one."""
        if self.started and not self.suspended:
            self.heard += self.holds.pop(0)
            self._ask()

    def vanish(self) -> None:
        """The device is pulled out."""
        self.started = False
        self._options["finished_callback"]()

    def _ask(self, *, late: bool = False) -> None:
        frames = self._options["blocksize"]
        out = bytearray(2 * self._options["channels"] * frames)
        self._options["callback"](out, frames, Times(len(self.holds) * BLOCK_S), Status(late))
        self.holds.append(bytes(out))

    def starve(self) -> None:
        """It wanted a block, and did not get it in time."""
        self.holds.pop(0)
        self._ask(late=True)


class Times:
    currentTime = 5000.0

    def __init__(self, delay_s: float) -> None:
        self.outputBufferDacTime = self.currentTime + delay_s


class Status:
    def __init__(self, output_underflow: bool) -> None:
        self.output_underflow = output_underflow


#: more than a start needs, less than the ring holds
WORD = noise(100)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, mock_clock: MockClock) -> Iterator[Library]:
    library = Library(mock_clock)
    monkeypatch.setattr(output, "_load", lambda: library)
    for module in ("feed", "portaudio", "worker"):
        monkeypatch.setattr(f"playerd.sinks.{module}.time", library.time)
    yield library
    library.released.set()


class Machine:
    """Lets time pass: five milliseconds at a time, in each of which every task does what it can."""

    def __init__(self, library: Library, sink: PortAudioSink) -> None:
        self.library = library
        self.sink = sink
        self._ticks = 0
        library.token = trio.lowlevel.current_trio_token()

    async def finish(self, action: Callable[[], Awaitable[T]], most_s: float = 20.0) -> T:
        """Lets time pass until a call of the sink returns, and gives what it does."""
        results: list[T] = []
        error: DeviceUnavailable | None = None

        async def act() -> None:
            nonlocal error
            try:
                results.append(await action())
            except DeviceUnavailable as caught:
                error = caught

        async with trio.open_nursery() as nursery:
            nursery.start_soon(act)
            limit_s = trio.current_time() + most_s
            await self.idle()
            while not results and error is None:
                assert trio.current_time() < limit_s, "it hangs"
                await self.run(0.005)
        if error is not None:
            raise error
        return results[0]

    async def write(self, pcm: bytes) -> None:
        """Writes as the player does."""
        for at in range(0, len(pcm), len(WORD)):
            await self.finish(partial(self.sink.write, pcm[at : at + len(WORD)]))

    async def drain(self) -> None:
        await self.finish(self.sink.drain)

    async def idle(self) -> None:
        """Until nobody has anything to do, the worker's thread neither, unless it hangs."""
        for _ in range(2):
            await trio.testing.wait_all_tasks_blocked()
            jobs = self.sink._worker._jobs
            if jobs is not None:
                probe = Probe()
                jobs.put(probe)  # type: ignore[arg-type]
                while not probe.was_there() and self.library.hanging <= self.sink._worker.left:
                    await trio.lowlevel.checkpoint()

    async def run(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.005)):
            await self.idle()
            self.library.clock.jump(0.005)
            self._ticks += 1
            if self._ticks % 4 == 0:
                for stream in self.library.streams:
                    stream.tick()
        await self.idle()


class Probe:
    """Goes through the worker's thread after all that is in it."""

    def __init__(self) -> None:
        self._was_there = threading.Event()

    def run(self, _: object) -> None:
        self._was_there.set()

    def was_there(self) -> bool:
        """Whether it was, by now or in a moment: the worker gets the interpreter meanwhile."""
        return self._was_there.wait(0.0005)


def sound(*streams: Stream) -> bytes:
    """What was heard of them, one after the other, without silence."""
    heard = np.frombuffer(b"".join(stream.heard for stream in streams), PCM_DTYPE)
    return bytes(heard[heard != 0].tobytes())


def repeated(before: bytes, after: bytes, whole: bytes) -> int:
    """How many samples are in both; all of the whole must be in one of them, in order."""
    assert whole.startswith(before)
    assert whole.endswith(after)
    both = len(before) + len(after) - len(whole)
    assert both >= 0, f"{-both // 2} samples were lost"
    return both // 2


# --- it hangs ---------------------------------------------------------------------------------


async def _hang(machine: Machine) -> None:
    """Opens the sink, has its start hang, and closes it as the player does."""
    machine.library.hangs = True
    await machine.finish(machine.sink.open)
    with pytest.raises(DeviceUnavailable, match="does not answer"):
        await machine.finish(partial(machine.sink.write, WORD))
    await machine.finish(machine.sink.aclose)
    machine.library.hangs = False


async def test_a_start_that_hangs_costs_its_stream_only(
    library: Library, mock_clock: MockClock
) -> None:
    machine = Machine(library, PortAudioSink())
    await _hang(machine)
    terminated = library.terminated
    await machine.finish(machine.sink.open)
    await machine.write(WORD)
    hung, fresh = library.streams
    assert library.sounding is fresh
    assert not hung.closed  # its lock is held by a thread that has ended: to close it would hang
    assert library.terminated == terminated  # the same


async def test_what_hung_and_returns_starts_nothing_and_is_cleared_away(
    library: Library, mock_clock: MockClock
) -> None:
    machine = Machine(library, PortAudioSink())
    await _hang(machine)
    await machine.finish(machine.sink.open)
    pcm = noise(400)
    await machine.write(pcm[: len(pcm) // 2])
    hung, fresh = library.streams
    library.released.set()
    while hung.hanging or machine.sink._worker.left:
        await trio.lowlevel.checkpoint()
    await machine.write(pcm[len(pcm) // 2 :])
    await machine.drain()
    assert not hung.started
    assert sound(fresh) == pcm
    terminated = library.terminated
    await machine.finish(machine.sink.aclose)
    assert library.terminated == terminated + 1


async def test_so_many_may_hang_and_it_is_known_for_how_long(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    assert sink.hangs_s == 0
    for _ in range(LEFT_LIMIT):
        await _hang(machine)
        assert sink.hangs_s == 0  # the next call does not wait for it
    await _hang(machine)
    since_s = sink.hangs_s
    assert since_s > 0
    mock_clock.jump(5)
    assert sink.hangs_s == pytest.approx(since_s + 5)
    library.released.set()
    while sink.hangs_s or sink._worker.left:
        await trio.lowlevel.checkpoint()
    await machine.finish(sink.open)
    await machine.write(WORD)
    assert library.sounding is library.stream


async def test_a_stop_does_not_wait_for_an_abort_that_hangs(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await machine.finish(sink.open)
    await machine.write(noise(500))
    frozen = library.stream
    frozen.suspended = library.aborts_hang = True
    await machine.run(0.6)
    began_s = trio.current_time()
    heard = await machine.finish(sink.stop)
    assert trio.current_time() - began_s < 2.0  # one of them is the jump of `Library.hang`
    assert heard == pytest.approx(len(sound(frozen)) // 2, abs=480)
    assert heard <= len(sound(frozen)) // 2
    assert sink.device is None
    library.aborts_hang = False
    await machine.finish(sink.open)
    await machine.write(WORD)
    await machine.drain()
    assert sound(library.stream) == WORD, "what was stopped is not to be heard any more"


async def test_one_thread_owns_the_library(library: Library, mock_clock: MockClock) -> None:
    machine = Machine(library, PortAudioSink())
    for _ in range(3):
        await machine.finish(machine.sink.open)
        await machine.write(WORD)
        await machine.finish(machine.sink.stop)
        await machine.write(WORD)
        await machine.drain()
        await machine.finish(machine.sink.aclose)
    assert len(library.threads) == 1
    assert threading.get_ident() not in library.threads


# --- it stands still --------------------------------------------------------------------------


async def _playing(machine: Machine, pcm: bytes) -> None:
    """Opens the sink and has it in the middle of playing."""
    await machine.finish(machine.sink.open)
    await machine.write(pcm)


async def test_a_device_that_stands_still_says_nothing_was_played_and_goes_on(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    changes: list[bool] = []
    sink.on_change = lambda: changes.append(sink.stalled)
    pcm, passed = noise(600), list[int]()

    async def follow() -> None:
        for position in range(0, ms_to_samples(600) + 1, 240):
            await sink.played(position)
            passed.append(position)

    await _playing(machine, pcm)
    changes.clear()
    stream = library.sounding
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow)
        nursery.start_soon(sink.drain)
        await machine.run(0.1)
        stream.suspended = True
        heard = len(sound(stream)) // 2
        await machine.run(0.45)
        assert not sink.stalled
        await machine.run(0.1)
        assert sink.stalled
        assert changes == [True]
        await machine.run(3.0)
        assert passed[-1] <= heard, "what is in a frozen device was not heard"
        stream.suspended = False
        await machine.run(0.1)
        assert changes == [True, False]
        await machine.run(0.5)
    assert passed[-1] == ms_to_samples(600)
    assert sound(stream) == pcm
    assert library.streams == [stream]
    assert sink.depth_ms == RUNGS_MS[0], "a stall is no reason for more depth"


async def test_the_end_of_speech_in_a_frozen_device_was_not_heard_either(
    library: Library, mock_clock: MockClock
) -> None:
    """All is handed over, and silence follows it, when the device stands still."""
    sink = PortAudioSink()
    machine = Machine(library, sink)
    pcm = noise(200)
    await _playing(machine, pcm)
    stream = library.sounding
    done = list[float]()

    async def drain() -> None:
        await sink.drain()
        done.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drain)
        while not sink._feed.silent:
            await machine.run(0.005)
        assert sound(stream) != pcm
        stream.suspended = True
        await machine.run(3.0)
        assert not done
        stream.suspended = False
        while sound(stream) != pcm:
            assert not done
            await machine.run(0.005)
        heard_s = trio.current_time()
        await machine.run(0.1)
    # It stood still, and is believed to hold a block more than it says: the end is told later.
    assert 0 <= done[0] - heard_s <= 0.06


async def test_one_that_stays_so_is_opened_afresh_and_nothing_is_lost(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    pcm = noise(600)
    await _playing(machine, pcm)
    frozen = library.sounding
    frozen.suspended = True
    before = sound(frozen)
    await machine.finish(sink.drain)
    assert 5.5 < trio.current_time() < 8
    assert not sink.stalled
    fresh = library.stream
    assert fresh is not frozen
    assert frozen.closed
    assert repeated(before, sound(fresh), pcm) <= ms_to_samples(20)
    assert library.initialized > 0


async def test_a_stop_is_heard_at_once_in_a_device_that_stands_still(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(600))
    stream = library.sounding
    stream.suspended = True
    with trio.move_on_after(0.7):
        await machine.finish(sink.drain)
    assert sink.stalled
    began_s = trio.current_time()
    heard = await machine.finish(sink.stop)
    assert trio.current_time() - began_s < 0.05
    assert heard <= len(sound(stream)) // 2 <= heard + 480
    assert not sink.stalled


# --- it goes away, and comes back -------------------------------------------------------------


@pytest.mark.parametrize("device", [None, "loud", "3"])
async def test_what_a_lost_device_did_not_play_follows_on_the_next(
    library: Library, mock_clock: MockClock, device: str | None
) -> None:
    sink = PortAudioSink(device)
    machine = Machine(library, sink)
    pcm = noise(900)
    await _playing(machine, pcm[: len(pcm) // 3])
    first = library.sounding
    first.vanish()
    before = len(sound(first)) // 2
    with pytest.raises(DeviceUnavailable, match=r"^The sound device 'loudspeaker' went away\.$"):
        await machine.finish(partial(sink.write, pcm[len(pcm) // 3 : 2 * len(pcm) // 3]))
    assert sink.device is None
    assert sink.written_samples == ms_to_samples(600), "it was taken"
    with trio.move_on_after(0) as patience:
        await sink.played(before + 480)
    assert patience.cancelled_caught
    await machine.finish(sink.open)
    await machine.write(pcm[2 * len(pcm) // 3 :])
    await machine.drain()
    await machine.finish(partial(sink.played, ms_to_samples(900)))
    assert repeated(sound(first), sound(library.stream), pcm) <= ms_to_samples(20)


async def test_what_a_lost_device_did_not_play_can_be_stopped(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(600))
    library.sounding.vanish()
    with pytest.raises(DeviceUnavailable):
        await machine.drain()
    heard = await machine.finish(sink.stop)
    assert 0 < heard < ms_to_samples(600)
    await sink.played(ms_to_samples(600))
    await machine.finish(sink.open)
    await machine.write(WORD)
    await machine.drain()
    assert sound(library.stream) == WORD


async def test_a_machine_that_was_asleep(library: Library, mock_clock: MockClock) -> None:
    slept_s = 0.0
    sink = PortAudioSink(asleep_s=lambda: slept_s)
    machine = Machine(library, sink)
    pcm = noise(1600)
    await _playing(machine, pcm[: len(pcm) // 2])
    first = library.sounding
    slept_s = 40.0
    with pytest.raises(DeviceUnavailable, match="asleep for 40 s") as error:
        await machine.write(pcm[len(pcm) // 2 :])
    assert error.value.slept_s == 40
    assert first.started  # nobody has told PortAudio yet
    initialized = library.initialized
    await machine.finish(sink.open)
    assert first.closed
    assert library.initialized == initialized + 1
    await machine.write(pcm[2 * sink.written_samples :])
    await machine.drain()
    assert repeated(sound(first), sound(library.stream), pcm) <= ms_to_samples(20)


async def test_a_machine_that_slept_while_nothing_played(
    library: Library, mock_clock: MockClock
) -> None:
    slept_s = 0.0
    sink = PortAudioSink(asleep_s=lambda: slept_s)
    machine = Machine(library, sink)
    await _playing(machine, WORD)
    await machine.drain()
    slept_s = 4000.0
    initialized = library.initialized
    await machine.write(WORD)
    await machine.drain()
    assert library.initialized == initialized + 1
    assert sound(library.stream) == WORD
    await machine.write(WORD)
    await machine.drain()
    assert library.initialized == initialized + 1


# --- another device, another depth ------------------------------------------------------------


async def test_another_default_is_taken_at_a_pause_of_speech(
    library: Library, mock_clock: MockClock
) -> None:
    default = 1
    sink = PortAudioSink(default_output=lambda: default)
    machine = Machine(library, sink)
    await _playing(machine, noise(800))
    first = library.sounding
    default = 2
    pcm = noise(1500, seed=2)
    await machine.write(pcm)
    assert library.streams == [first]
    await machine.write(bytes(len(WORD)))  # nobody says anything
    assert library.stream is not first
    await machine.write(WORD)
    await machine.drain()
    assert sound(first) == noise(800) + pcm
    assert sound(library.stream) == WORD
    await machine.run(2)
    await machine.write(WORD)
    await machine.drain()
    assert len(library.streams) == 2


async def test_another_default_is_taken_at_once_if_the_old_one_stands_still(
    library: Library, mock_clock: MockClock
) -> None:
    default = 1
    sink = PortAudioSink(default_output=lambda: default)
    machine = Machine(library, sink)
    pcm = noise(800)
    await _playing(machine, pcm)
    first = library.sounding
    default, first.suspended = 2, True
    await machine.drain()
    assert trio.current_time() < 3
    assert repeated(sound(first), sound(library.stream), pcm) <= ms_to_samples(20)


@pytest.mark.parametrize("device", ["loud", None])
async def test_a_device_with_a_name_and_a_default_that_is_gone_are_kept(
    library: Library, mock_clock: MockClock, device: str | None
) -> None:
    default: int | None = 1
    sink = PortAudioSink(device, default_output=lambda: default)
    machine = Machine(library, sink)
    await _playing(machine, WORD)
    await machine.drain()
    default = None if device is None else 2
    await machine.write(WORD)
    await machine.drain()
    assert len(library.streams) == 1


async def test_two_troubles_make_it_deeper_at_the_next_start(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(300))
    first = library.sounding
    assert sink.depth_ms == 60
    with capture_logs() as logs:
        first.starve()
        await machine.run(0.04)
        first.starve()
        await machine.write(noise(300))
        assert library.streams == [first]
        await machine.drain()
    assert sink.underruns == 2
    assert "the sound device is to hold" in [entry["event"] for entry in logs]
    initialized = library.initialized
    await machine.write(noise(300))
    assert sink.depth_ms == 120
    assert library.initialized == initialized, "it is the same device"
    assert sink.underruns == 2
    await machine.drain()
    assert sound(library.stream) == noise(300)
    await machine.write(noise(300))
    library.sounding.starve()
    await machine.drain()
    assert sink.underruns == 3, "they are counted over all that was open"


@pytest.mark.parametrize("starved", [0, 1])
async def test_a_device_that_ran_dry_is_started_anew_in_the_next_silence(
    library: Library, mock_clock: MockClock, starved: int
) -> None:
    """The next time it would drop something else than it says."""
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(300))
    (stream,) = library.streams
    for _ in range(starved):
        stream.starve()
    await machine.run(0.1)
    assert stream.starts == 1
    for _ in range(2):
        await machine.write(bytes(2 * ms_to_samples(300)))
        await machine.write(noise(300))
        assert stream.starts == 1 + starved
    await machine.drain()
    assert library.streams == [stream]
    assert sound(stream).endswith(2 * noise(300))
    assert sink.depth_ms == 60


# --- what the device does not take ------------------------------------------------------------


@pytest.mark.parametrize(
    ("takes", "form"),
    [
        (lambda rate, channels: True, (24_000, 1)),
        (lambda rate, channels: channels == 2, (24_000, 2)),
        (lambda rate, channels: rate == 44_100, (44_100, 1)),
        (lambda rate, channels: rate == 48_000 and channels == 2, (48_000, 2)),
        (lambda rate, channels: rate == 96_000, (96_000, 1)),
    ],
)
async def test_what_the_device_takes(
    library: Library,
    mock_clock: MockClock,
    takes: Callable[[int, int], bool],
    form: tuple[int, int],
) -> None:
    library.takes = takes
    library.preferred = 96_000.0 if form[0] == 96_000 else 44_100.0
    sink = PortAudioSink()
    machine = Machine(library, sink)
    at = np.arange(ms_to_samples(500))
    softly = np.minimum((len(at) - 1 - at) / 240, 1)
    tone = (8000 * np.sin(at / 9) * softly).round().astype(PCM_DTYPE).tobytes()
    for n in range(1, 4):
        await _playing(machine, tone)
        await machine.drain()
        assert library.asked[-1] == form
        heard = np.frombuffer(bytes(library.stream.heard), PCM_DTYPE).reshape(-1, form[1])
        assert (heard[:, 0] == heard[:, -1]).all()
        # a few samples of the tone are zero
        assert np.count_nonzero(heard[:, 0]) == pytest.approx(n * form[0] / 2, rel=0.002)
        assert sink.written_samples == n * ms_to_samples(500)


async def test_positions_are_ours_at_any_rate(library: Library, mock_clock: MockClock) -> None:
    library.takes = lambda rate, channels: rate == 44_100
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(600))
    stream = library.sounding
    heard = await machine.finish(partial(sink.stop, cut=True))
    assert heard == pytest.approx(
        np.count_nonzero(np.frombuffer(bytes(stream.heard), PCM_DTYPE)) * 24 / 44.1, abs=500
    )
    await sink.played(ms_to_samples(600))
    await machine.write(noise(300))
    stream.vanish()
    with pytest.raises(DeviceUnavailable):
        await machine.drain()
    await machine.finish(sink.open)
    await machine.drain()
    assert await machine.finish(sink.stop) == ms_to_samples(900)


async def test_a_device_that_takes_nothing(library: Library, mock_clock: MockClock) -> None:
    library.takes = lambda rate, channels: False
    machine = Machine(library, PortAudioSink())
    with pytest.raises(DeviceUnavailable, match=r"^There is no sound device .*It cannot.*\.$"):
        await machine.finish(machine.sink.open)
    assert len(library.asked) == len(set(library.asked)) == 6


# --- silence first ----------------------------------------------------------------------------


async def test_silence_comes_first_whenever_the_device_has_rested(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink(lead_in_ms=200)
    machine = Machine(library, sink)

    async def silence_before_a_word() -> int:
        before = len(library.stream.heard)
        await machine.write(WORD)
        assert sink.written_samples - sink.heard_samples <= ms_to_samples(100)
        await machine.drain()
        heard = bytes(library.stream.heard[before:])
        at = heard.index(WORD)
        assert not any(heard[:at])
        return at // 2

    await machine.finish(sink.open)
    assert await silence_before_a_word() == ms_to_samples(200)
    await machine.run(4.0)
    await machine.drain()  # nothing to do; it goes on resting
    assert await silence_before_a_word() == 0
    await machine.run(6.0)
    await machine.drain()
    assert await silence_before_a_word() == ms_to_samples(200)
    assert sink.heard_samples == sink.written_samples == 3 * ms_to_samples(100)
    await machine.run(6.0)
    await machine.write(WORD)
    assert await machine.finish(sink.stop) == 3 * ms_to_samples(100)
    await machine.finish(sink.aclose)
    await machine.finish(sink.open)
    assert await silence_before_a_word() == ms_to_samples(200)


async def test_without_being_asked_for_no_silence_comes_first(
    library: Library, mock_clock: MockClock
) -> None:
    machine = Machine(library, PortAudioSink())
    await _playing(machine, WORD)
    await machine.drain()
    assert bytes(library.stream.heard).startswith(WORD)


# --- what was heard so far --------------------------------------------------------------------


@pytest.mark.parametrize("rate", [24_000, 44_100])
async def test_what_was_heard_is_known_between_blocks_too(
    library: Library, mock_clock: MockClock, rate: int
) -> None:
    """Also after silence, long and short, and where nobody has asked for a while."""
    library.takes = lambda asked, channels: asked == rate
    sink = PortAudioSink()
    machine = Machine(library, sink)
    told: list[int] = []
    soft = np.ones(ms_to_samples(30), PCM_DTYPE).tobytes()  # at any rate

    async def check(seconds: float) -> None:
        for _ in range(round(seconds / 0.005)):
            await machine.run(0.005)
            left = len(sound(library.stream)) // 2 * 24_000 / rate
            told.append(sink.heard_samples)
            # The stand-in tells of blocks that have left it whole, 20 ms of sound.
            assert -99 <= told[-1] - left <= ms_to_samples(20) + 99

    await machine.finish(sink.open)
    for pause_s in (0.0, 0.02, 0.3, 1.0):
        await machine.write(noise(300) + soft)
        await check(0.1)
        await machine.finish(sink.dry)
        await machine.run(pause_s)
        await machine.write(noise(250) + soft)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sink.drain)
            await check(0.5)
    assert told == sorted(told)
    assert sink.heard_samples == sink.written_samples


# --- stop and volume --------------------------------------------------------------------------


def assert_heard(heard: int, stream: Stream, pcm: bytes) -> None:
    """What the sink says was heard is what was, to a block; none of it is softened."""
    assert pcm.startswith(sound(stream))
    assert heard == pytest.approx(len(sound(stream)) // 2, abs=ms_to_samples(20))


@pytest.mark.parametrize("later_s", [0.0, 0.005, 0.01, 0.015])
async def test_a_stop_fades(library: Library, mock_clock: MockClock, later_s: float) -> None:
    """Wherever in a block it comes: what it says was heard is what was, the fade too."""
    sink = PortAudioSink()
    machine = Machine(library, sink)
    pcm = noise(600)
    await _playing(machine, pcm)
    await machine.run(later_s)
    stream, began_s = library.sounding, trio.current_time()
    heard = await machine.finish(sink.stop)
    assert not stream.started
    fade = sink.fade_samples
    assert ms_to_samples(2) <= fade <= ms_to_samples(5)
    assert bytes(stream.heard[: 2 * (heard - fade)]) == pcm[: 2 * (heard - fade)]
    assert sound(stream)[-2 * fade :] != pcm[2 * (heard - fade) : 2 * heard]
    assert len(sound(stream)) // 2 in range(heard - 5, heard + 1)  # a fade ends in a few zeros
    silent_s = len(stream.heard) / 2 / 24000 - heard / 24000
    took_s = trio.current_time() - began_s
    assert took_s - silent_s <= 0.1
    assert took_s <= 0.125


async def test_a_stop_cuts_at_once(library: Library, mock_clock: MockClock) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(600))
    stream, began_s, written = library.sounding, trio.current_time(), sink.written_samples
    heard = await machine.finish(partial(sink.stop, cut=True))
    assert trio.current_time() - began_s <= 0.011
    assert heard < written
    assert not stream.started
    assert_heard(heard, stream, noise(600))


async def test_a_fade_that_would_come_too_late_is_cut_off(
    library: Library, mock_clock: MockClock
) -> None:
    """A deep device holds more than may be heard of a stop."""
    sink = PortAudioSink()
    machine = Machine(library, sink)
    sink._ladder._rung = 1
    await _playing(machine, noise(900))
    assert sink.depth_ms == 120
    stream, began_s = library.sounding, trio.current_time()
    heard = await machine.finish(sink.stop)
    assert trio.current_time() - began_s <= 0.11  # 5 ms are the pace of `Machine`
    assert_heard(heard, stream, noise(900))


async def test_a_device_that_freezes_during_a_fade_was_not_heard(
    library: Library, mock_clock: MockClock
) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    await _playing(machine, noise(600))
    stream = library.sounding
    heard: list[int] = []

    async def stop() -> None:
        heard.append(await sink.stop())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stop)
        await machine.run(0.02)  # the fade is handed to it
        assert sink._feed.fade_by_s is None
        stream.suspended = True
        await machine.run(0.2)
    assert_heard(heard[0], stream, noise(600))
    assert sink.fade_samples == 0


async def test_the_volume_outlasts_the_device(library: Library, mock_clock: MockClock) -> None:
    sink = PortAudioSink()
    machine = Machine(library, sink)
    sink.volume = 0.5
    for _ in range(2):
        await _playing(machine, noise(300))
        await machine.drain()
        half = np.rint(np.frombuffer(noise(300), PCM_DTYPE) * 0.5)
        heard = np.frombuffer(bytes(library.stream.heard), PCM_DTYPE)[: len(half)]
        assert (heard == half).all()
        await machine.finish(sink.aclose)
