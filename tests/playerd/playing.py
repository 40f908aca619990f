"""A daemon on a free port, clients for it, and sinks and speakers that a test can hold."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import trio

from engine.audio import SAMPLE_BYTES
from engine.config import Settings
from engine.errors import EngineError, NotReady, UnknownStream
from engine.process import address, open_listeners
from engine.request import (
    Event,
    Frame,
    LiveRequest,
    Opened,
    SegmentDone,
    SpeakLive,
    SpeechRequest,
    Stream,
)
from playerd.daemon import Daemon
from playerd.sinks.base import DeviceUnavailable, Sink
from playerd.sinks.null import NullSink
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages
from wsproto_api.client import Connection, connect
from wsproto_api.messages import StreamFrame

M = TypeVar("M", bound=msgspec.Struct)


@dataclass
class Client:
    """One client of a player; reads messages in order, and remembers them with their times."""

    connection: Connection
    heard: list[tuple[float, msgspec.Struct]] = field(default_factory=list)
    _asked: int = 0

    async def say(self, message: msgspec.Struct) -> None:
        await self.connection.send(message)

    async def hear(self, kind: type[M], **fields: object) -> M:
        """The next message of this kind that has these fields; others before it are remembered."""
        while True:
            message = await self.connection.receive()
            assert not isinstance(message, StreamFrame)
            self.heard.append((trio.current_time(), message))
            if isinstance(message, kind) and all(
                getattr(message, name) == value for name, value in fields.items()
            ):
                return message

    def ask(self) -> str:
        """A fresh id."""
        self._asked += 1
        return f"request-{self._asked}"

    async def speak(self, text: str, **fields: object) -> int:
        """Has a text spoken; gives the number of its item."""
        request = self.ask()
        await self.say(messages.PlayerSpeak(text=text, id=request, **fields))  # type: ignore[arg-type]
        ack = await self.hear(messages.PlayerAck, reply_to=request)
        assert ack.item is not None
        return ack.item

    async def refused(self, text: str, **fields: object) -> messages.PlayerError:
        """Has a text refused."""
        request = self.ask()
        await self.say(messages.PlayerSpeak(text=text, id=request, **fields))  # type: ignore[arg-type]
        return await self.hear(messages.PlayerError, reply_to=request)

    async def stop(self) -> None:
        await self.do(messages.PlayerStop())

    async def do(self, command: msgspec.Struct) -> None:
        """Says a command and hears that it is accepted."""
        request = self.ask()
        await self.say(msgspec.structs.replace(command, id=request))
        await self.hear(messages.PlayerAck, reply_to=request)

    async def fail(self, command: msgspec.Struct) -> messages.PlayerError:
        """Says a command and hears that it is refused."""
        request = self.ask()
        await self.say(msgspec.structs.replace(command, id=request))
        return await self.hear(messages.PlayerError, reply_to=request)

    async def status(self) -> messages.PlayerState:
        request = self.ask()
        await self.say(messages.AskStatus(id=request))
        return await self.hear(messages.PlayerState, reply_to=request)

    async def done(self, item: int) -> messages.ItemDone:
        return await self.hear(messages.ItemDone, item=item)

    def told(self, kind: type[M]) -> list[M]:
        """What was heard of this kind so far."""
        return [message for _, message in self.heard if isinstance(message, kind)]

    def states(self) -> list[str]:
        """The states told so far, without repetition."""
        states = [message.state for message in self.told(messages.PlayerState)]
        return [s for n, s in enumerate(states) if n == 0 or states[n - 1] != s]


@dataclass
class Playing:
    """A running daemon; `scope` ends it."""

    url: str
    sink: Sink
    scope: trio.CancelScope

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A new client, which has heard `ready`."""
        async with connect(
            self.url, token=TOKEN, client=messages.PLAYER_CLIENT, server=messages.PLAYER_SERVER
        ) as (connection, ready):
            assert isinstance(ready, messages.PlayerReady)
            yield Client(connection)


@asynccontextmanager
async def playing(
    settings: Settings,
    speak: SpeakLive | None = None,
    sink: Sink | None = None,
    *,
    limit_s: float = 600,
) -> AsyncIterator[Playing]:
    """Runs a daemon while the context lasts. A hang is a failure, not a wait."""
    sink = sink or NullSink()
    daemon = Daemon(speak or ToneVoice(), sink, settings, TOKEN)
    listeners = await open_listeners("127.0.0.1", 0)
    scope = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await daemon.serve(listeners, task_status=task_status)

    with trio.fail_after(limit_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(run)
            yield Playing(address("ws", listeners) + "/", sink, scope)
            scope.cancel()


class Unplugged(NullSink):
    """A null sink whose device can be taken away, and whose samples are kept."""

    def __init__(self, *, plugged: bool = False) -> None:
        super().__init__()
        self.plugged = plugged
        self.looked = 0
        self.pcm = bytearray()

    async def open(self) -> None:
        self.looked += 1
        if not self.plugged:
            await trio.lowlevel.checkpoint()
            raise DeviceUnavailable("There is no sound device.")
        await super().open()

    async def write(self, pcm: bytes) -> None:
        self._still_there()
        self.pcm += pcm
        await super().write(pcm)
        self._still_there()

    async def stop(self, *, cut: bool = False) -> int:
        if not self.plugged:
            self.device = None
        return await super().stop(cut=cut)

    def _still_there(self) -> None:
        if not self.plugged:
            raise DeviceUnavailable("The sound device went away.")


class Gate:
    """A `SpeakLive` that waits before entering and before a segment until the test opens it.

    Args:
        before: index of the segment; -1 waits before the stream is opened.
        text: only requests for this text wait.
    """

    def __init__(self, *, before: int, text: str, voice: ToneVoice | None = None) -> None:
        self.opened = trio.Event()
        self.voice = voice or ToneVoice()
        self._before = before
        self._text = text

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        waits = getattr(request, "text", None) == self._text
        if waits and self._before < 0:
            await self.opened.wait()
        async with self.voice(request) as stream:
            yield _Gated(stream, self._before, self.opened) if waits else stream


class _Through:
    """A stream as another one gives it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._stream)

    async def append(self, text: str, /) -> None:
        await self._stream.append(text)

    async def flush(self, flush_id: str | None = None, /) -> None:
        await self._stream.flush(flush_id)

    async def end(self) -> None:
        await self._stream.end()

    async def configure(self, *, voice: str | None = None, speed: float | None = None) -> None:
        await self._stream.configure(voice=voice, speed=speed)

    def heard(self, sample: int, /, *, playing: bool) -> None:
        self._stream.heard(sample, playing=playing)


class _Gated(_Through):
    """A stream that waits before a segment."""

    def __init__(self, stream: Stream, before: int, opened: trio.Event) -> None:
        super().__init__(stream)
        self._before = before
        self._opened = opened
        self._next: int | None = None  # the segment that is to come

    async def __anext__(self) -> Event:
        if self._next == self._before:
            await self._opened.wait()
        event = await super().__anext__()
        if isinstance(event, Opened):
            self._next = 0
        elif isinstance(event, SegmentDone):
            self._next = event.index + 1
        return event


class Listening(Unplugged):
    """A null sink that keeps what was heard: not what a stop gave up."""

    def __init__(self) -> None:
        super().__init__(plugged=True)
        self.silenced = 0
        self._slept_s = 0.0

    def sleep(self, slept_s: float) -> None:
        """The machine was asleep for so long."""
        self._slept_s = slept_s

    async def write(self, pcm: bytes) -> None:
        if self._slept_s:
            self.device = None
            slept_s, self._slept_s = self._slept_s, 0.0
            self.pcm += pcm  # it is kept, and follows
            self.written_samples += len(pcm) // SAMPLE_BYTES
            raise DeviceUnavailable("The machine was asleep.", slept_s=slept_s)
        await super().write(pcm)

    async def stop(self, *, cut: bool = False) -> int:
        written = self.written_samples
        self.silenced += 1
        heard = await super().stop(cut=cut)
        del self.pcm[len(self.pcm) - SAMPLE_BYTES * (written - heard) :]
        return heard


class Crashing:
    """A `SpeakLive` that breaks off after some frames, and is away for some time then.

    Args:
        after: frames of each stream; one that has no more is not broken off.
        times: how often it breaks off.
        away_s: for how long it does not answer then.
        error: what it raises.
    """

    def __init__(
        self,
        *,
        after: int,
        times: int = 1,
        away_s: float = 0.0,
        error: EngineError | None = None,
        voice: ToneVoice | None = None,
    ) -> None:
        self.voice = voice or ToneVoice()
        self.requests: list[SpeechRequest | LiveRequest] = []
        self._after = after
        self._times = times
        self._away_s = away_s
        self._back_s = 0.0
        self._error = error or NotReady("The engine was started anew.")

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        if trio.current_time() < self._back_s:
            raise NotReady("Nothing answers.")
        self.requests.append(request)
        async with self.voice(request) as stream:
            yield _Broken(stream, self)

    def breaks(self, frames: int) -> bool:
        """Whether a stream breaks off that has given so many frames."""
        if frames < self._after or not self._times:
            return False
        self._times -= 1
        self._back_s = trio.current_time() + self._away_s
        return True

    @property
    def error(self) -> EngineError:
        return self._error


class _Broken(_Through):
    """A stream that breaks off when `Crashing` says so."""

    def __init__(self, stream: Stream, crashing: Crashing) -> None:
        super().__init__(stream)
        self._crashing = crashing
        self._frames = 0
        self._over = False

    async def __anext__(self) -> Event:
        if self._over or self._crashing.breaks(self._frames):
            self._over = True
            raise self._crashing.error
        event = await super().__anext__()
        self._frames += isinstance(event, Frame)
        return event

    async def append(self, text: str, /) -> None:
        if self._over:
            raise UnknownStream("The stream is over.", param="stream")
        await super().append(text)
