"""The engine's WebSocket server. Shell.

Takes a `Speak` and never asks which one. One task per stream pulls events out of it into a
`StreamLog` and waits when it is `max_lead_ms` ahead of the fastest follower; one task per follower
reads the log at the pace of its socket.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec
import structlog
import trio

from engine import __version__, metrics
from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.config import Settings
from engine.errors import (
    EngineError,
    InternalError,
    InvalidRequest,
    Overloaded,
    UnknownStream,
    blame,
)
from engine.request import (
    Describe,
    Done,
    Event,
    Frame,
    Opened,
    Speak,
    SpeechRequest,
)

from . import messages, security
from .peer import Peer, error_message, serve_peers
from .stream import Ending, StreamLog

log = structlog.get_logger("engine")

#: finished streams that can still be subscribed to, so that a late follower hears a short one
FINISHED_KEPT = 8


class LiveStream:
    """A stream's log, and the means to wait for it to be written or read."""

    def __init__(self, stream: StreamLog) -> None:
        self.log = stream
        self.production = trio.CancelScope()
        self._written = trio.lowlevel.ParkingLot()
        self._read = trio.lowlevel.ParkingLot()

    def write(self, event: Event) -> None:
        """Appends to the log and wakes the followers."""
        self.log.append(event)
        if isinstance(event, Done):
            self.log.finish()
        self._written.unpark_all()

    def fail(self, error: EngineError) -> None:
        """Ends the stream with an error, after what was written."""
        self.log.fail(error_message(error, stream=self.log.number))
        self._written.unpark_all()

    def cancel(self) -> None:
        """Ends the stream at once, for everybody."""
        self.log.cancel()
        self.production.cancel()
        self._written.unpark_all()

    async def room(self, max_lead_samples: int) -> None:
        """Waits until the fastest follower is less than this behind."""
        while self.log.lead_samples >= max_lead_samples:
            await self._read.park()

    async def follow(self, from_seq: int) -> AsyncGenerator[Event | Ending]:
        """What was and will be written; ends when the stream is over and read."""
        cursor = self.log.follow(from_seq)
        try:
            while True:
                entry = cursor.read()
                if entry is not None:
                    yield entry
                    self._read.unpark_all()
                elif self.log.over:
                    return
                else:
                    await self._written.park()
        finally:
            self.log.leave(cursor)
            self._read.unpark_all()


class EngineServer:
    """Serves kokoro.v1.

    Args:
        speak: who speaks.
        describe: what it says of itself.
        settings: limits and ports.
    """

    def __init__(self, speak: Speak, describe: Describe, settings: Settings) -> None:
        self.settings = settings
        self.describe = describe
        self.clients: set[_Client] = set()
        self._speak = speak
        self._streams: dict[int, LiveStream] = {}
        self._last_number = 0
        self._started_s = 0.0
        self._max_lead = ms_to_samples(settings.max_lead_ms)
        self._nursery: trio.Nursery

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves on the listeners until cancelled; then streams end and sockets close."""
        self._started_s = trio.current_time()
        async with trio.open_nursery() as self._nursery:
            await serve_peers(
                self._connected,
                listeners,
                client=messages.ENGINE_CLIENT,
                server=messages.ENGINE_SERVER,
                origins=security.page_origins(self.settings.http_port),
                connections=self.settings.connections,
                pages={"/metrics": lambda: metrics.exposition().decode()},
                task_status=task_status,
            )

    async def _connected(self, peer: Peer) -> None:
        client: _Client | None = None
        try:
            async with trio.open_nursery() as nursery:
                client = _Client(self, peer, nursery)
                self.clients.add(client)
                await client.run()
                nursery.cancel_scope.cancel()
        finally:
            assert client is not None
            self.clients.discard(client)
            for live in client.owned:
                if not live.log.over and not live.log.cursors:
                    live.cancel()  # nobody listens any more

    def find(self, number: int) -> LiveStream | None:
        """The stream with this number, live or among the last finished."""
        return self._streams.get(number)

    @property
    def live_streams(self) -> list[LiveStream]:
        """Streams that are not over."""
        return [live for live in self._streams.values() if not live.log.over]

    async def open_stream(self, request: SpeechRequest) -> LiveStream:
        """Starts a stream.

        Raises:
            EngineError: the request was not accepted.
        """
        limit = self.settings.streams
        if len(self.live_streams) >= limit:
            raise Overloaded(
                f"The limit of {limit} texts at once is reached; try again in a moment.",
                retry_after_ms=1000,
            )
        opened: LiveStream | EngineError = await self._nursery.start(self._produce, request)
        if isinstance(opened, EngineError):
            raise opened
        return opened

    async def _produce(
        self,
        request: SpeechRequest,
        *,
        task_status: trio.TaskStatus[LiveStream | EngineError],
    ) -> None:
        live: LiveStream | None = None
        try:
            async with self._speak(request) as events:
                opened = await anext(events)
                assert isinstance(opened, Opened)
                live = self._register(opened)
                task_status.started(live)
                with live.production:
                    async for event in events:
                        live.write(event)
                        await live.room(self._max_lead)
        except EngineError as error:
            failure: EngineError = error
        except Exception as error:
            log.error("stream crashed", stream=live and live.log.number, error=blame(error))
            failure = InternalError("The engine failed; its log says how.")
        else:
            return
        if live is None:
            task_status.started(failure)
        else:
            log.warning("stream failed", stream=live.log.number, code=failure.code)
            live.fail(failure)

    def _register(self, opened: Opened) -> LiveStream:
        self._last_number = self._last_number % 0xFFFF_FFFF + 1
        live = LiveStream(StreamLog(self._last_number, opened, 2 * self._max_lead))
        self._streams[live.log.number] = live
        over = [number for number, other in self._streams.items() if other.log.over]
        for number in over[:-FINISHED_KEPT]:
            del self._streams[number]
        return live

    def announce(self, live: LiveStream) -> None:
        """Tells everybody who follows all streams of a new one."""
        for client in self.clients:
            client.stream_appeared(live)

    def ready(self) -> messages.Ready:
        """The first message to a client."""
        settings = self.settings
        return messages.Ready(
            protocol=messages.PROTOCOL,
            server=messages.ServerInfo(name="kokoro-live", version=__version__),
            model=self.describe.model,
            sample_rate=SAMPLE_RATE,
            frame_ms=settings.frame_ms,
            voices_hash=self.describe.voices_hash,
            limits=messages.Limits(
                text_chars=settings.text_chars,
                streams=settings.streams,
                subscribers=settings.connections,
                message_bytes=messages.MAX_MESSAGE_BYTES,
                max_lead_ms=settings.max_lead_ms,
            ),
        )

    def status(self, reply_to: str | None) -> messages.Status:
        """The answer to `status`."""
        return messages.Status(
            reply_to=reply_to,
            streams=len(self.live_streams),
            connections=len(self.clients),
            model=self.describe.model,
            uptime_s=round(trio.current_time() - self._started_s, 3),
        )


class _Client:
    """One client: what it owns and what it follows."""

    def __init__(self, server: EngineServer, peer: Peer, nursery: trio.Nursery) -> None:
        self.owned: list[LiveStream] = []
        self._server = server
        self._peer = peer
        self._nursery = nursery
        self._follows_all = False
        self._following: dict[int, trio.CancelScope] = {}

    async def run(self) -> None:
        """Talks until the client is gone."""
        await self._peer.send(self._server.ready())
        async for message in self._peer:
            try:
                await self._handle(message)
            except EngineError as error:
                name = getattr(message, "id", None)
                await self._peer.send(error_message(error, reply_to=name))

    async def _handle(self, message: msgspec.Struct) -> None:
        match message:
            case messages.Speak():
                await self._speak(message)
            case messages.Cancel():
                await self._cancel(message)
            case messages.Subscribe():
                await self._subscribe(message)
            case messages.Unsubscribe():
                await self._unsubscribe(message)
            case messages.AskVoices():
                voices = self._server.describe.voices
                await self._peer.send(messages.Voices(reply_to=message.id, voices=voices))
            case messages.AskStatus():
                await self._peer.send(self._server.status(message.id))
            case messages.Ping():
                await self._peer.send(messages.Pong(reply_to=message.id))
            case _:  # the vocabulary has no other
                raise AssertionError(message)

    async def _speak(self, message: messages.Speak) -> None:
        live = await self._server.open_stream(message)
        self.owned = [other for other in self.owned if not other.log.over] + [live]
        await self._acknowledge(message.id, live.log.number)
        self._follow(live, owner=True)
        self._server.announce(live)

    async def _cancel(self, message: messages.Cancel) -> None:
        live = self._server.find(message.stream)
        if live is None or live.log.over:
            await self._peer.send(
                messages.Warning(
                    stream=message.stream,
                    code="unknown_stream",
                    message=f"Stream {message.stream} is over or never was; nothing to cancel.",
                )
            )
        else:
            live.cancel()
        await self._acknowledge(message.id, message.stream)

    async def _subscribe(self, message: messages.Subscribe) -> None:
        if message.from_seq < 0:
            raise InvalidRequest("from_seq is 0 or more.", param="from_seq")
        if message.stream == "*":
            self._follows_all = True
            await self._acknowledge(message.id)
            for live in self._server.live_streams:
                self._follow(live)
            return
        found = self._server.find(message.stream)
        if found is None:
            raise UnknownStream(f"There is no stream {message.stream}.", param="stream")
        await self._acknowledge(message.id, message.stream)
        self._follow(found, from_seq=message.from_seq)

    async def _unsubscribe(self, message: messages.Unsubscribe) -> None:
        if message.stream == "*":
            self._follows_all = False
        for number in [message.stream] if message.stream != "*" else list(self._following):
            scope = self._following.pop(number, None)
            if scope is not None:
                scope.cancel()
        await self._acknowledge(message.id)

    async def _acknowledge(self, name: str | None, stream: int | None = None) -> None:
        # A client that gave no id still learns its stream's number from stream.opened.
        if name is not None:
            await self._peer.send(messages.Ack(reply_to=name, stream=stream))

    def stream_appeared(self, live: LiveStream) -> None:
        """Somebody opened a stream."""
        if self._follows_all:
            self._follow(live)

    def _follow(self, live: LiveStream, *, from_seq: int = 0, owner: bool = False) -> None:
        number = live.log.number
        if number not in self._following:
            scope = self._following[number] = trio.CancelScope()
            self._nursery.start_soon(self._forward, live, from_seq, owner, scope)

    async def _forward(
        self, live: LiveStream, from_seq: int, owner: bool, scope: trio.CancelScope
    ) -> None:
        number, opened = live.log.number, live.log.opened
        with scope:
            await self._peer.send(messages.stream_opened(opened, number, owner=owner))
            async with aclosing(live.follow(from_seq)) as entries:
                async for entry in entries:
                    if isinstance(entry, Frame) and entry.discontinuity:
                        await self._peer.send(
                            messages.Warning(
                                stream=number,
                                code="frames_skipped",
                                message="Frames before the next one are no longer kept.",
                            )
                        )
                    await self._peer.send(messages.of_stream(entry, number))
        if self._following.get(number) is scope:
            del self._following[number]
