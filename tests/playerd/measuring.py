"""What an engine streams, told by a follower, and what of it is found in a capture."""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import trio
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, SAMPLE_BYTES, SAMPLE_RATE, ms_to_samples
from engine.errors import NotReady
from engine.model.assets import Assets
from engine.request import Event, Frame
from tests.playerd.program import NotAsExpected
from tests.support.access import TOKEN
from tests.support.processes import PATIENCE_S, free_ports, started
from tests.support.reading import Heard
from wsproto_api import messages
from wsproto_api.client import connect

#: the longest that is heard fading
FADE = ms_to_samples(5)
#: what is long enough to be found in one place of speech only
_ANCHOR = ms_to_samples(20)
#: … if it has so many different samples
_VALUES = 16
#: what is nearby
_NEAR = SAMPLE_RATE // 2

Samples = NDArray[np.int16]

#: everyday sentences of five to twelve words
SENTENCES = [
    line.split("\t")[1]
    for line in (Path(__file__).parent.parent / "data" / "spoken.tsv").read_text().splitlines()
    if not line.startswith("#") and "\\" not in line
]


def samples(pcm: bytes) -> Samples:
    """PCM as an array."""
    return np.frombuffer(pcm, PCM_DTYPE)


def now_s(trio_s: float | None = None) -> float:
    """A time of Trio's clock, or now, in seconds of `time.monotonic`."""
    now = trio.current_time()
    return time.monotonic() + (now if trio_s is None else trio_s) - now


@contextmanager
def judging() -> Iterator[None]:
    """What is found wrong may be the machine's fault; see `undisturbed`.

    So may be that there are more parts of sound to be judged than there should be, or none.
    """
    try:
        yield
    except (AssertionError, ValueError, IndexError) as error:
        raise NotAsExpected(str(error)) from error


#: The time at which a sample leaves a null sink is known to so much: the player plans by what the device
#: says, less 4 ms (`portaudio.EARLY_S`), and the recorder goes by the blocks of the sink.
CLOCK_MS = 5.0


def in_time(what: str, values_ms: Sequence[float], most_ms: float) -> bool:
    """Whether it never took longer, and prints how long it took."""
    least, half, most = np.quantile(values_ms, [0, 0.5, 1])
    print(
        f"{what}: {least:.1f} / {half:.1f} / {most:.1f} ms (least, median, most of "
        f"{len(values_ms)})"
    )
    return bool(most <= most_ms + CLOCK_MS)


# --- the engine ---------------------------------------------------------------------------------


class Engine:
    """The real engine, as `make up` starts it, on a port that stays the same."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.url = f"ws://127.0.0.1:{self.port}"
        self._stack = ExitStack()
        self.start()

    def start(self) -> None:
        """Starts it, anew too, and waits until it is ready."""
        # All cores, as nothing runs beside it.
        engine = started("wsproto_api", engine_port=self.port, threads=0)
        self._running = self._stack.enter_context(engine)
        self._running.until(self.url)

    def end(self, number: signal.Signals) -> None:
        """Ends it, and waits until it has."""
        self._running.process.send_signal(number)
        self._running.process.wait(timeout=PATIENCE_S)
        self._stack.close()


@pytest.fixture(scope="module")
def real_engine(real_assets: Assets) -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.end(signal.SIGTERM)


# --- what is streamed ---------------------------------------------------------------------------


@dataclass
class Followed:
    """A stream of the engine.

    Attributes:
        opened: how it began; `key` is the item's.
        heard: what came.
        first_s: when the first frame came, in seconds of `time.monotonic`.
        over: whether it is complete, or was cancelled.
    """

    opened: messages.StreamOpened
    heard: Heard = field(default_factory=Heard)
    first_s: float | None = None
    over: trio.Event = field(default_factory=trio.Event)

    @property
    def pcm(self) -> Samples:
        """What came, all of it."""
        return samples(self.heard.pcm)

    @property
    def starts(self) -> list[int]:
        """The first sample of every segment."""
        return [start.sample for start in self.heard.of(messages.Segment)]


class Follower:
    """Follows all streams of an engine.

    Args:
        reads_to: how far into a stream it reads. The engine runs ahead of whoever reads most.

    Attributes:
        streams: in the order in which they were opened.
        gone: set when the engine went away.
    """

    def __init__(self, reads_to: Callable[[], float] = lambda: np.inf) -> None:
        self.streams: dict[int, Followed] = {}
        self.gone = trio.Event()
        self._reads_to = reads_to
        self._changed = trio.Condition()

    async def run(
        self, url: str, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Until the engine goes away."""
        try:
            async with connect(url, token=TOKEN) as (connection, _):
                await connection.send(messages.Subscribe(stream="*", id="all"))
                while True:
                    match await connection.receive():
                        case messages.Ack():
                            task_status.started()
                        case messages.StreamFrame(stream=number, frame=frame):
                            await self._take(number, frame)
                        case messages.StreamOpened() as opened:
                            self.streams[opened.stream] = Followed(opened)
                            await self._tell()
                        case messages.StreamCancelled(stream=number):
                            self.streams[number].over.set()
                        case messages.Warning(code="frames_skipped") as warning:
                            raise AssertionError(warning.message)  # it is an event too
                        case Event() as event:
                            await self._take(getattr(event, "stream"), event)  # noqa: B009
                        case _:
                            pass
        except NotReady:
            self.gone.set()

    async def _take(self, number: int, event: Event) -> None:
        stream = self.streams[number]
        stream.heard.events.append(event)
        if isinstance(event, Frame):
            stream.first_s = stream.first_s or time.monotonic()
            while event.sample > self._reads_to():  # noqa: ASYNC110 - a bound that moves
                await trio.sleep(0.05)
        if isinstance(event, messages.StreamDone):
            stream.over.set()
        await self._tell()

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something came that makes it true."""
        async with self._changed:
            while not condition():
                await self._changed.wait()

    async def stream(self, key: str) -> Followed:
        """A stream that an item named, once it is over."""

        def found() -> list[Followed]:
            return [each for each in self.streams.values() if each.opened.key == key]

        await self.until(lambda: bool(found()))
        await found()[-1].over.wait()
        return found()[-1]


@asynccontextmanager
async def following(
    url: str, reads_to: Callable[[], float] = lambda: np.inf
) -> AsyncIterator[Follower]:
    """Follows an engine; see `Follower`."""
    follower = Follower(reads_to)
    async with trio.open_nursery() as nursery:
        await nursery.start(follower.run, url)
        yield follower
        nursery.cancel_scope.cancel()


# --- what is heard ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """A part of what was streamed that is found in a capture.

    Attributes:
        at: the frame of the capture with which it begins.
        start: the first sample that was heard as it was streamed.
        stop: the first one behind those.
        rise: how many before `start` were heard fading in.
        fall: how many behind `stop` were heard fading out.
    """

    at: int
    start: int
    stop: int
    rise: int
    fall: int

    @property
    def ends(self) -> int:
        """The frame of the capture behind its last one, fading or not."""
        return self.at + self.stop - self.start + self.fall


def runs(captured: Samples, streamed: Samples) -> list[Run]:
    """All that is not silence in a capture: which parts of what was streamed it is.

    Raises:
        AssertionError: something else was heard.
    """
    found: list[Run] = []
    loud = np.flatnonzero(captured)
    at = 0
    while (n := np.searchsorted(loud, at)) < len(loud):
        run = _run(captured, streamed, int(loud[n]), found[-1].stop if found else 0)
        found.append(run)
        at = run.ends
    return found


def _run(captured: Samples, streamed: Samples, first: int, expected: int) -> Run:
    anchor, place = _anchored(captured, streamed, first, expected)
    back = min(anchor - first, place)
    start = place - _same(
        captured[anchor - back : anchor][::-1], streamed[place - back : place][::-1]
    )
    at = anchor - (place - start)
    stop = place + _same(captured[anchor:], streamed[place:])
    end = at + stop - start
    fall = np.flatnonzero(captured[end : end + 2 * FADE])
    if not len(fall) or fall[0] > 0:
        fall = fall[:0]
    run = Run(at, start, stop, at - first, int(fall[-1]) + 1 if len(fall) else 0)
    assert run.rise <= FADE, f"{run}: it does not begin as it was streamed"
    assert run.fall <= FADE, f"{run}: it does not end as it was streamed"
    return run


def _anchored(captured: Samples, streamed: Samples, first: int, expected: int) -> tuple[int, int]:
    """A place in the capture, from `first` on, and the same place in what was streamed."""
    loud = np.flatnonzero(streamed[expected:])
    if len(loud):  # it goes on where it was, which may be too quiet to be found
        place = expected + int(loud[0])
        if _same(captured[first:], streamed[place:]) >= _ANCHOR:
            return first, place
    near = max(expected - FADE, 0)
    for anchor in range(first + FADE, first + FADE + SAMPLE_RATE // 5, FADE // 2):
        # Nearby little is enough; elsewhere the same words may have been spoken once more.
        for since, until, length in (
            (near, near + _NEAR, _ANCHOR // 8),
            (expected, None, _ANCHOR),
            (0, None, _ANCHOR),
        ):
            part = captured[anchor : anchor + length]
            if len(np.unique(part)) >= _VALUES:
                found = _find(streamed[since:until], part)
                if found is not None:
                    return anchor, since + found
    raise AssertionError(
        f"What is heard {first / SAMPLE_RATE:.3f} s after the beginning was not streamed."
    )


def _find(streamed: Samples, part: Samples) -> int | None:
    """Where a part begins; None if it is not there."""
    whole, wanted = streamed.tobytes(), part.tobytes()
    found = whole.find(wanted)
    while found > 0 and found % SAMPLE_BYTES:
        found = whole.find(wanted, found + 1)
    return found // SAMPLE_BYTES if found >= 0 else None


def _same(a: Samples, b: Samples) -> int:
    """How many samples are the same, from the beginning."""
    n = min(len(a), len(b))
    other = np.flatnonzero(a[:n] != b[:n])
    return int(other[0]) if len(other) else n


def place(found: list[Run], sample: int) -> int:
    """The frame of the capture with which a sample of the stream was heard."""
    run = [run for run in found if run.start <= max(sample - 1, found[0].start)][-1]
    return run.at + sample - run.start


def is_silent_between(streamed: Samples, a: int, b: int) -> bool:
    """Whether two places are the same but for silence."""
    return not np.any(streamed[min(a, b) : max(a, b)])


def goes_on(streamed: Samples, before: Run, after: Run) -> bool:
    """Whether nothing is lost between two parts, and nothing repeated but what was fading."""
    if is_silent_between(streamed, before.stop, after.start):
        return True
    # Of a fade the first samples may be too soft to be seen.
    begun = after.start - FADE
    return after.rise > 0 and before.stop - FADE <= begun <= before.stop + before.fall


def holes(found: list[Run], streamed: Samples, edges: Sequence[int]) -> int:
    """How often there was silence elsewhere than at some edge of what was streamed.

    Raises:
        AssertionError: not all of it was heard, or not in order, or some of it twice.
    """
    assert is_silent_between(streamed, 0, found[0].start), found[0]
    assert is_silent_between(streamed, found[-1].stop, len(streamed)), found[-1]
    count = 0
    for before, after in pairwise(found):
        assert goes_on(streamed, before, after), (before, after)
        at_edge = any(is_silent_between(streamed, after.start, edge) for edge in edges)
        assert not (at_edge and after.rise), (before, after)
        count += not at_edge
    return count


# --- what it costs ------------------------------------------------------------------------------


def resident_mb(pid: int | str) -> float:
    """How much memory a process has (Linux)."""
    (line,) = (
        line
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmRSS")
    )
    return int(line.split()[1]) / 1024
