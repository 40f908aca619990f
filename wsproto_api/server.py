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
from .stream import Cursor, Ending, StreamLog

log = structlog.get_logger("engine")

#: finished streams that can still be subscribed to, so that a late follower hears a short one
FINISHED_KEPT = 8


class LiveStream:
    """A stream's log, and the means to wait for it to be written or read."""

    def __init__(self, stream: StreamLog) -> None:
        self.log = stream
        self.production = trio.CancelScope()
        self._orphaned = False
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

    def cancel(self) -> bool:
        """Ends the stream at once, for everybody; False if there was nothing left to end."""
        cancelled = self.log.cancel()
        if cancelled:
            self.production.cancel()
            self._written.unpark_all()
        return cancelled

    async def room(self, max_lead_samples: int) -> None:
        """Waits until the fastest follower is less than this behind."""
        # Others get their turn in any case, and `cancel` its effect, however fast the voice is.
        await trio.lowlevel.checkpoint()
        while self.log.lead_samples >= max_lead_samples:
            await self._read.park()

    async def read(self, cursor: Cursor) -> AsyncGenerator[Event | Ending]:
        """What was and will be written; ends when the stream is over and read."""
        while True:
            entry = cursor.read()
            if entry is not None:
                yield entry
                self._read.unpark_all()
            elif self.log.over:
                return
            else:
                await self._written.park()

    def leave(self, cursor: Cursor) -> None:
        """A follower (of `log.follow`) is gone."""
        self.log.leave(cursor)
        self._read.unpark_all()
        self._end_if_alone()

    def disown(self) -> None:
        """The owner is gone; the stream lives on as long as somebody follows it."""
        self._orphaned = True
        self._end_if_alone()

    def _end_if_alone(self) -> None:
        if self._orphaned and not self.log.cursors and not self.log.over:
            self.cancel()


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
        async with trio.open_nursery() as nursery:
            client = _Client(self, peer, nursery)
            self.clients.add(client)
            try:
                await client.run()
            finally:  # before the nursery closes: `announce` would start tasks in it
                self.clients.discard(client)
                nursery.cancel_scope.cancel()
                for live in client.owned:
                    live.disown()

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
        failure: EngineError | None = None
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
                    if not live.log.over:
                        raise RuntimeError("a stream without an end")
        except EngineError as error:
            failure = error
        except Exception as error:
            log.error("stream crashed", stream=live and live.log.number, error=blame(error))
            failure = InternalError("The engine failed; its log says how.")
        finally:
            if live is not None and failure is None and not live.log.over:
                live.cancel()  # the server stops, or the client left as it was accepted
        if failure is None:
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

    def announce(self, live: LiveStream, *, owner: _Client | None = None) -> None:
        """Tells everybody but the owner who follows all streams of a new one."""
        for client in self.clients - {owner}:
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
                raise AssertionError(type(message))

    async def _speak(self, message: messages.Speak) -> None:
        live = await self._server.open_stream(message)
        self.owned = [other for other in self.owned if not other.log.over] + [live]
        self._server.announce(live, owner=self)  # first: the ack waits until this client reads
        await self._acknowledge(message.id, live.log.number)
        self._follow(live, owner=True)

    async def _cancel(self, message: messages.Cancel) -> None:
        live = self._server.find(message.stream)
        if live is None or not live.cancel():
            await self._peer.send(
                messages.Warning(
                    stream=message.stream,
                    code="unknown_stream",
                    message=f"Stream {message.stream} is over or never was; nothing to cancel.",
                )
            )
        await self._acknowledge(message.id, message.stream)

    async def _subscribe(self, message: messages.Subscribe) -> None:
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
            cursor = live.log.follow(from_seq)  # a follower from now on, however slow its socket
            self._nursery.start_soon(self._forward, live, cursor, owner, scope)

    async def _forward(
        self, live: LiveStream, cursor: Cursor, owner: bool, scope: trio.CancelScope
    ) -> None:
        number = live.log.number
        try:
            with scope:
                await self._peer.send(messages.stream_opened(live.log.opened, number, owner=owner))
                async with aclosing(live.read(cursor)) as entries:
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
        finally:
            live.leave(cursor)
            if self._following.get(number) is scope:
                del self._following[number]
