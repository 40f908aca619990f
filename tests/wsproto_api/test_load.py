"""Load on the engine's server, over real sockets: an hour of live text, and a crowd that is rude.

Time is virtual: it passes when nothing is left to be done, so what is measured is what the server
does and not how fast this machine is. The short forms belong to every run of the tests, the long
ones to `make soak`.
"""

from __future__ import annotations

import gc
import math
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
from trio.testing import MockClock
from websockets.exceptions import ConnectionClosed

from engine.audio import ms_to_samples
from engine.config import Settings
from engine.errors import BY_CODE, SynthesisFailed
from engine.request import Event, Frame, SegmentStart
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import messages
from wsproto_api.messages import StreamFrame
from wsproto_api.server import UNREAD
from wsproto_api.stream import Cursor, StreamLog
from wsproto_api.streams import FINISHED_KEPT, LiveStream

from .serving import Json, Served, Wire, serving

#: real seconds without anything to do until virtual time goes on
IDLE_S = 0.002

#: bytes of a millisecond of sound
BYTES_PER_MS = 48


@pytest.fixture
def idle_clock() -> MockClock:
    """Virtual time that lets the sockets of loopback come to rest."""
    return MockClock(autojump_threshold=IDLE_S)


def rss() -> int:
    """Memory of this process, bytes."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("this system does not say how much memory a process has now")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def settled_rss() -> int:
    gc.collect()
    return rss()


# --- one text, many readers ------------------------------------------------------------------

#: five words: 1,375 ms of sound
SENTENCE = "The boat came in early. "
SENTENCE_MS = 5 * WORD_MS
LEAD_MS = 5_000

#: What memory may grow by, besides what a stream keeps: buffers of five connections (their library
#: holds a message, trio 64 KiB, each way) and what Python's allocator does not give back.
SLACK_BYTES = 4 << 20


#: frames whose time is remembered: those of more than `LEAD_MS`
KEPT = 200


class NotingVoice(ToneVoice):
    """Notes when it made each frame, and how far the readers are behind then.

    Attributes:
        made_s: when, by number.
        cursors: where the readers are in the stream's log.
        furthest_samples: how far any of them was behind the newest sample.
    """

    def __init__(self, *, rtf: float) -> None:
        super().__init__(rtf=rtf)
        self.made_s: dict[int, float] = {}
        self.cursors: list[Cursor] = []
        self.furthest_samples = 0

    async def _events(self, *arguments: Any) -> AsyncGenerator[Event]:
        async with aclosing(super()._events(*arguments)) as events:
            async for event in events:
                if isinstance(event, Frame):
                    self.made_s[event.seq] = trio.current_time()
                    self.made_s.pop(event.seq - KEPT, None)  # an hour of them is much, too
                    newest = event.sample + event.samples
                    behind = (newest - cursor.sample for cursor in self.cursors)
                    self.furthest_samples = max(self.furthest_samples, *behind)
                yield event


class Reader:
    """A client that reads as fast as it can, and keeps nothing.

    Attributes:
        late_s: the longest time from when a frame was made to when it was here.
    """

    def __init__(self, wire: Wire, voice: NotingVoice) -> None:
        self.frames = 0
        self.samples = 0
        self.late_s = 0.0
        self.flushed: list[str] = []
        self._wire = wire
        self._voice = voice

    async def read(self) -> None:
        """Reads to the end of the stream; every frame must come, in order."""
        while True:
            match await self._wire.next():
                case StreamFrame(frame=frame):
                    assert (frame.seq, frame.sample) == (self.frames, self.samples)
                    assert not frame.discontinuity
                    self.frames += 1
                    self.samples += frame.samples
                    late_s = trio.current_time() - self._voice.made_s[frame.seq]
                    self.late_s = max(self.late_s, late_s)
                case {"type": "flushed", "flush_id": flush_id}:
                    self.flushed.append(flush_id)
                case {"type": "error" | "warning"} as told:
                    raise AssertionError(told)
                case {"type": "stream.done", "samples": samples}:
                    assert samples == self.samples
                    return
                case _:
                    pass
            self._wire.seen.clear()


async def follow(settings: Settings, clock: MockClock, sentences: int) -> None:
    """Live text: three who read, one who never does, and one who wakes up at the end."""
    voice = NotingVoice(rtf=0.2)
    limits: dict[str, Any] = {"max_lead_ms": LEAD_MS, "live_chars": sentences * len(SENTENCE)}
    async with (
        serving(settings, voice, patience_s=10_000.0, **limits) as served,
        served.client() as owner,
        served.client() as one,
        served.client() as two,
        served.client(queue=1) as stone,
        served.client(queue=1) as sloth,
    ):
        for ear in (one, two):
            await ear.ask("subscribe", stream="*")
        number = (await owner.ask("open"))["stream"]
        live = served.server.streams.find(number)
        assert live is not None
        log = live.log
        voice.cursors = list(log.cursors)
        assert len(voice.cursors) == 3
        readers = [Reader(wire, voice) for wire in (owner, one, two)]
        for wire in (stone, sloth):
            await wire.ask("subscribe", stream=number)
        held, grown = 0, 0
        async with trio.open_nursery() as nursery:
            for reader in readers:
                nursery.start_soon(reader.read)
            for n in range(sentences):
                if n == sentences // 5:  # all that is made once has been made
                    grown = -settled_rss()
                await owner.send("append", stream=number, text=SENTENCE, at=n * len(SENTENCE))
                if n % 100 == 99:
                    await owner.send("flush", stream=number, flush_id=str(n))
                # As a language model does: about as fast as it is read aloud.
                await trio.sleep(SENTENCE_MS / 1000)
                held = max(held, log.samples - oldest(log))
            grown += settled_rss()
            await owner.send("end", stream=number)

        samples = sentences * ms_to_samples(SENTENCE_MS)
        for reader in readers:
            assert reader.samples == samples
            # Time stands still while there is something to do: 0, if the system does not dawdle.
            assert reader.late_s < SENTENCE_MS / 1000
            assert reader.flushed == [str(n) for n in range(99, sentences, 100)]
        assert voice.furthest_samples <= ms_to_samples(LEAD_MS)

        # What the stream keeps does not grow with the text ...
        frame = ms_to_samples(50)
        assert held < ms_to_samples(2 * LEAD_MS) + frame
        bound = 2 * LEAD_MS * BYTES_PER_MS + SLACK_BYTES
        assert sentences * SENTENCE_MS * BYTES_PER_MS > 2 * bound, "else it would prove nothing"
        assert grown < bound

        # ... and who slept finds a beginning, a hole that it is told of, and the end.
        # Its window has been shut for long: the system opens it when it likes, seconds later.
        clock.autojump_threshold = math.inf
        await sloth.until("stream.done")
        frames = sloth.frames(number)
        jumps = [frame for frame in frames if frame.discontinuity]
        assert len(jumps) == len(sloth.messages("warning", code="frames_skipped")) == 1
        assert frames[0].first
        assert frames[-1].last
        assert samples - ms_to_samples(2 * LEAD_MS) - frame < jumps[0].sample < samples
        assert frames[-1].sample == samples
        assert stone.frames(number) == []


def oldest(log: StreamLog) -> int:
    """Where the oldest sample is that is kept."""
    position = 0
    while (found := log.entry(position)) is not None:
        position, entry = found
        if isinstance(entry, Frame):
            return entry.sample
        position += 1
    return log.samples


async def test_followers_of_live_text(settings: Settings, idle_clock: MockClock) -> None:
    await follow(settings, idle_clock, 240)


@pytest.mark.soak
async def test_followers_of_an_hour_of_live_text(settings: Settings, idle_clock: MockClock) -> None:
    await follow(settings, idle_clock, 3_600_000 // SENTENCE_MS)


async def test_who_follows_all_and_never_reads_is_let_go(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    voice = ToneVoice()
    async with serving(settings, voice, patience_s=60.0, max_lead_ms=1_000) as served:
        async with served.client(queue=1) as stone, served.client() as owner:
            await stone.ask("subscribe", stream="*")
            for n in range(2 * UNREAD):
                await owner.speak(SENTENCE * 2)
                await owner.until("stream.done")
                owner.seen.clear()
                if n == UNREAD // 2:
                    assert counted(LiveStream) > n / 2, "they are kept for it"
            await served.until(lambda: len(served.server.clients) == 1)
            assert counted(LiveStream) <= FINISHED_KEPT + 1
            assert await stone.closed() in {1008, 1006}  # or no word of it got through
            assert (await owner.ask("ping"))["type"] == "pong"
    assert [line for line in caplog.records if line.levelname == "ERROR"] == []


# --- a crowd -----------------------------------------------------------------------------------

SOCKETS = 50
#: streams of one connection; all of them at once are too many for the server, now and then
STREAMS_EACH, STREAMS = 20, 200
#: virtual seconds: times are multiples, so that many things happen at once
TICK_S = 0.05

#: what requests of the crowd may be answered with; others are faults of ours
REFUSALS = {
    "bad_json", "bad_message", "invalid_value", "unknown_voice", "text_too_long", "unknown_stream",
    "too_many_streams", "overloaded",
}  # fmt: skip
#: how streams of the crowd may fail
FAILURES = {"synthesis_failed"}
WARNINGS = {"unknown_stream", "unknown_field", "unknown_type", "frames_skipped"}
BREAKING = "Break"

#: What memory may be more at the end: finished streams are kept, and Python's allocator does not
#: give all back that was freed between what is still used.
KEPT_BYTES = FINISHED_KEPT * 2 * 1_000 * BYTES_PER_MS + (16 << 20)


class BreakingVoice(ToneVoice):
    """Fails at a sentence with a certain word."""

    async def _events(self, *arguments: Any) -> AsyncGenerator[Event]:
        async with aclosing(super()._events(*arguments)) as events:
            async for event in events:
                if isinstance(event, SegmentStart) and BREAKING in event.text:
                    raise SynthesisFailed("The model failed.")
                yield event


class Person:
    """One of the crowd: opens a socket, does anything, drops it, and comes again.

    Args:
        served: where.
        seed: of what it does.
        tally: counts what is done, and codes of errors that came.
    """

    def __init__(self, served: Served, seed: int, tally: Counter[str]) -> None:
        self._served = served
        self._random = random.Random(seed)
        self._tally = tally
        self._asked = 0
        self._open: set[str] = set()  # ids without an answer
        self._streams: list[int] = []
        self._let_go = False
        self._reads = trio.Event()

    async def live(self, until_s: float) -> None:
        """Comes and goes until then."""
        while trio.current_time() < until_s:
            self._let_go = False
            self._open.clear()
            self._streams.clear()
            self._reads = trio.Event()
            self._reads.set()
            queue = self._random.choice([None, None, 4])
            async with self._served.client(queue=queue) as wire, trio.open_nursery() as nursery:
                self._tally["connected"] += 1
                nursery.start_soon(self._read, wire)
                leaves = min(until_s, trio.current_time() + self._random.uniform(0.5, 8))
                with suppress(ConnectionClosed):  # let go, for reading too little
                    while trio.current_time() < leaves and not self._let_go:
                        await self._act(wire)
                        await trio.sleep(TICK_S * self._random.randint(0, 6))
                    self._reads.set()
                    # A small window opens when the system likes, which is in real time.
                    if queue is None and not self._let_go and self._random.random() < 0.5:
                        await self._leave_in_order(wire)
                nursery.cancel_scope.cancel()

    async def _leave_in_order(self, wire: Wire) -> None:
        """Hears the answer to everything first."""
        await self._ask(wire, "ping")
        await trio.sleep(60)
        assert not self._open or self._let_go, "each request has its answer"
        self._tally["left in order"] += 1
        await wire.websocket.aclose()

    async def _ask(self, wire: Wire, type_: str, **fields: Any) -> None:
        self._asked += 1
        name = f"{self._asked}"
        self._open.add(name)
        self._tally[type_] += 1
        await wire.send(type_, id=name, **fields)

    def _stream(self) -> int:
        """One of ours, mostly one of the last."""
        chance = self._random.random()
        if not self._streams or chance < 0.1:
            return self._random.randint(0, 300)
        return self._random.choice(self._streams[-6:])

    def _text(self) -> str:
        words = self._random.choices(["one", "two", "three. ", "four", "five? ", "six"], k=12)
        if self._random.random() < 0.1:
            words.append(BREAKING)
        return " ".join(words)

    async def _act(self, wire: Wire) -> None:
        chance, stream = self._random, self._stream()
        match chance.choices(
            [
                "speak", "open", "append", "flush", "end", "cancel", "configure", "subscribe",
                "unsubscribe", "all", "none", "stand still", "nonsense", "status",
            ],
            [10, 10, 12, 3, 3, 8, 2, 3, 2, 0.3, 2, 1, 1, 1],
        )[0]:  # fmt: skip
            case "speak":
                voice = chance.choice(["af_heart", "bm_fable", "nobody"] + [None] * 8)
                marks = chance.random() < 0.5
                await self._ask(wire, "speak", text=self._text(), voice=voice, marks=marks)
            case "open":
                await self._ask(wire, "open", max_buffer_delay_ms=chance.choice([0, 500, 3000]))
            case "append":
                text = self._text()[chance.randint(0, 5) :]
                await self._ask(wire, "append", stream=stream, text=text)
            case "flush":
                await self._ask(wire, "flush", stream=stream, flush_id="f")
            case "end":
                await self._ask(wire, "end", stream=stream)
            case "cancel":
                played = chance.choice([{}, {"played_samples": chance.randint(0, 90_000)}])
                await self._ask(wire, "cancel", stream=stream, **played)
            case "configure":
                speed = chance.choice([0.5, 1, 2])
                await self._ask(wire, "configure", stream=stream, speed=speed)
            case "subscribe":
                number = chance.randint(max(0, stream - 20), stream + 20)
                from_seq = chance.choice([0, 0, 7])
                await self._ask(wire, "subscribe", stream=number, from_seq=from_seq)
            case "unsubscribe":
                await self._ask(wire, "unsubscribe", stream=stream)
            case "all":
                await self._ask(wire, "subscribe", stream="*")
            case "none":
                await self._ask(wire, "unsubscribe", stream="*")
            case "status":
                await self._ask(wire, chance.choice(["status", "voices"]))
            case "nonsense":
                await self._nonsense(wire)
            case "stand still":
                if self._reads.is_set():
                    self._reads = trio.Event()
                    await trio.sleep(TICK_S * chance.randint(1, 20))
                    self._reads.set()

    async def _nonsense(self, wire: Wire) -> None:
        match self._random.randint(0, 3):
            case 0:
                await wire.send_raw("{")
            case 1:
                await self._ask(wire, "speak")  # without a text
            case 2:
                await self._ask(wire, "dance")
            case _:
                await self._ask(wire, "ping", really=True)

    async def _read(self, wire: Wire) -> None:
        """Reads to the end of the connection; what comes is held to the rules by `Wire`."""
        with suppress(ConnectionClosed, trio.ClosedResourceError):
            while True:
                await self._reads.wait()
                match await wire.next():
                    case StreamFrame():
                        self._tally["frames"] += 1
                    case found:
                        self._heard(found)
                wire.seen.clear()

    def _heard(self, found: Json) -> None:
        match found["type"]:
            case "error":
                self._check_error(found)
            case "warning":
                assert found["code"] in WARNINGS
                assert found["message"].endswith(".")
                return  # not an answer, even with a reply_to
            case "stream.opened" if found["owner"]:
                self._streams.append(found["stream"])
            case _:
                pass
        if found.get("reply_to") is not None:
            self._open.remove(found["reply_to"])  # once, or this fails

    def _check_error(self, found: Json) -> None:
        self._tally[found["code"]] += 1
        self._let_go = self._let_go or found["fatal"]
        error = msgspec.convert(found, messages.Error)
        assert set(found) <= {"type", *messages.Error.__struct_fields__}
        assert error.code in (FAILURES if error.stream is not None else REFUSALS)
        assert error.message.endswith(".")
        assert "\n" not in error.message
        assert not error.fatal or error.code == "overloaded"
        known = BY_CODE.get(error.code)
        assert error.retryable == (known is not None and known.retryable)
        assert error.retryable or error.retry_after_ms is None


async def crowd(settings: Settings, clock: MockClock, seconds: float) -> None:
    """50 sockets that do anything for so long; then nothing is left of it."""
    voice = BreakingVoice(rtf=0.2)
    limits: dict[str, Any] = {"streams": STREAMS, "connection_streams": STREAMS_EACH}
    limits["max_lead_ms"] = 1_000
    tally: Counter[str] = Counter()
    with structlog.testing.capture_logs() as logs:
        async with serving(settings, voice, patience_s=10_000.0, **limits) as served:

            async def gather(until_s: float, seed: int) -> None:
                async with trio.open_nursery() as nursery:
                    for n in range(SOCKETS):
                        person = Person(served, seed * SOCKETS + n, tally)
                        nursery.start_soon(person.live, until_s)
                # Orphans have come to their end, and the system has told that sockets are closed;
                # it takes its own time for that. If something is left, what follows fails.
                for _ in range(5_000):
                    await trio.sleep(1)
                    if tasks() == idle:
                        break

            idle = tasks()
            # All that is made once is made, and memory is as much as a crowd needs.
            await gather(trio.current_time() + seconds / 3, 1)
            before = descriptors(), settled_rss()
            await gather(trio.current_time() + seconds, 2)
            after = descriptors(), settled_rss()
            assert voice.active == 0
            assert served.server.streams.live == []
            assert not served.server.clients
            assert tasks() == idle
            assert after[0] == before[0]
            assert counted(LiveStream) <= FINISHED_KEPT
            assert counted(Cursor) == 0
            assert after[1] - before[1] < KEPT_BYTES
    assert not [line for line in logs if line["log_level"] == "error"]
    assert {"synthesis_failed", "unknown_stream", "invalid_value", "bad_message"} <= tally.keys()
    assert tally["left in order"] > SOCKETS / 4


def tasks() -> Counter[str]:
    """All tasks of this program, by name."""
    found: Counter[str] = Counter()
    root = trio.lowlevel.current_root_task()
    waiting = [root] if root is not None else []
    while waiting:
        task = waiting.pop()
        found[task.name] += 1
        for nursery in task.child_nurseries:
            waiting.extend(nursery.child_tasks)
    return found


def descriptors() -> int:
    """Open files and sockets of this process; 0 where nobody can tell."""
    with suppress(OSError):
        return len(os.listdir("/dev/fd"))
    return 0


def counted(kind: type) -> int:
    """Objects of a class that are alive."""
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


async def test_a_crowd(settings: Settings, idle_clock: MockClock) -> None:
    await crowd(settings, idle_clock, 1.5)


@pytest.mark.soak
async def test_a_crowd_for_a_minute(settings: Settings, idle_clock: MockClock) -> None:
    await crowd(settings, idle_clock, 60)
