"""A daemon on a free port, clients for it, and sinks and speakers that a test can hold."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
import trio

from engine.config import Settings
from engine.process import address, open_listeners
from engine.request import Event, LiveRequest, SegmentStart, SpeakLive, SpeechRequest, Stream
from playerd.daemon import Daemon
from playerd.sinks.base import DeviceUnavailable, Sink
from playerd.sinks.null import NullSink
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice, told
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
        request = self.ask()
        await self.say(messages.PlayerStop(id=request))
        await self.hear(messages.PlayerAck, reply_to=request)

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
    settings: Settings, speak: SpeakLive | None = None, sink: Sink | None = None
) -> AsyncIterator[Playing]:
    """Runs a daemon while the context lasts. A hang is a failure, not a wait."""
    sink = sink or NullSink()
    daemon = Daemon(speak or ToneVoice(), sink, settings, TOKEN)
    listeners = await open_listeners("127.0.0.1", 0)
    scope = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            await daemon.serve(listeners, task_status=task_status)

    with trio.fail_after(600):
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
        assert isinstance(request, SpeechRequest)
        if request.text == self._text and self._before < 0:
            await self.opened.wait()
        async with self.voice(request) as events, aclosing(self._gated(request, events)) as gated:
            yield told(gated)

    async def _gated(self, request: SpeechRequest, events: Stream) -> AsyncGenerator[Event, None]:
        async for event in events:
            if (
                isinstance(event, SegmentStart)
                and event.index == self._before
                and request.text == self._text
            ):
                await self.opened.wait()
            yield event
