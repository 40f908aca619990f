"""The engine's WebSocket server. Shell.

Takes a `SpeakLive` and never asks which one. `streams` makes the streams; here is what clients may
say, and one task per follower that reads a stream's log at the pace of its socket.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing

import msgspec
import trio
from websockets.frames import CloseCode

from engine import __version__, metrics
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.errors import EngineError, InvalidRequest, Overloaded, TooManyStreams, UnknownStream
from engine.report import Manage
from engine.request import Event, Frame, Marks, SpeakLive

from . import door, messages, security
from .peer import Peer, error_message, serve_peers
from .stream import Cursor, Ending
from .streams import LiveStream, Streams

#: seconds between two `progress` messages of a stream to a follower
PROGRESS_S = 0.25

#: streams that are over and that a follower may leave unread before it is let go: their logs are
#: kept for it, so a follower of all that stands still would cost more and more
UNREAD = 16


class EngineServer:
    """Serves kokoro.v1.

    Args:
        speak: who speaks.
        describe: what it says of itself, and what may be done with it.
        settings: limits and ports.
        token: what clients must show.
        loaded: set when the first can be done; clients wait for it, but those who only ask how
            things are. None: at once.
    """

    def __init__(
        self,
        speak: SpeakLive,
        describe: Manage,
        settings: Settings,
        token: str,
        loaded: trio.Event | None = None,
    ) -> None:
        self._loaded = loaded
        self.settings = settings
        self._token = token
        self.describe = describe
        self.clients: set[_Client] = set()
        self.streams = Streams(speak, settings)
        self.instance = secrets.token_hex(8)
        self._started_s = 0.0

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves on the listeners until cancelled; then streams end and sockets close."""
        self._started_s = trio.current_time()
        port = listeners[0].socket.getsockname()[1]
        making = trio.CancelScope(shield=True)  # streams outlive the order to stop, for a moment

        async def make(*, task_status: trio.TaskStatus[None]) -> None:
            with making:
                await self.streams.run(task_status=task_status)

        async with trio.open_nursery() as nursery:
            await nursery.start(make)
            try:
                await serve_peers(
                    self._connected,
                    listeners,
                    client=messages.ENGINE_CLIENT,
                    server=messages.ENGINE_SERVER,
                    policy=security.policy(self.settings, port=port, token=self._token),
                    connections=self.settings.connections,
                    messages_per_s=self.settings.messages_per_s,
                    pages={
                        "/metrics": lambda: metrics.exposition().decode(),
                        "/status": lambda: door.Json(messages.encode(self.status())),
                    },
                    loaded=self._loaded,
                    drain=self.streams.stop,
                    task_status=task_status,
                )
            finally:
                making.cancel()

    async def _connected(self, peer: Peer) -> None:
        client: _Client | None = None
        try:
            async with trio.open_nursery() as nursery:
                client = _Client(self, peer, nursery)
                self.clients.add(client)
                try:
                    await client.run()
                finally:  # before the nursery closes: `announce` would start tasks in it
                    self.clients.discard(client)
                    nursery.cancel_scope.cancel()
        finally:  # behind it: what it followed itself would count as followed
            if client is not None:
                self.streams.disown(client, grace=not peer.said_goodbye)

    def announce(self, live: LiveStream, *, owner: _Client | None = None) -> None:
        """Tells everybody but the owner who follows all streams of a new one."""
        for client in self.clients - {owner}:
            client.stream_appeared(live)

    def ready(self) -> messages.Ready:
        """The first message to a client."""
        settings = self.settings
        return messages.Ready(
            protocol=messages.PROTOCOL,
            server=messages.ServerInfo(
                name="kokoro-live", version=__version__, instance=self.instance
            ),
            model=self.describe.model,
            sample_rate=SAMPLE_RATE,
            frame_ms=settings.frame_ms,
            voices_hash=self.describe.voices_hash,
            limits=messages.Limits(
                text_chars=settings.text_chars,
                live_chars=settings.live_chars,
                streams=settings.streams,
                connection_streams=settings.connection_streams,
                subscribers=settings.connections,
                message_bytes=messages.MAX_MESSAGE_BYTES,
                messages_per_s=settings.messages_per_s,
                max_lead_ms=settings.max_lead_ms,
                orphan_grace_ms=settings.orphan_grace_ms,
            ),
        )

    def status(self, reply_to: str | None = None) -> messages.Status:
        """The answer to `status`."""
        return messages.status(
            self.describe.report(),
            streams=len(self.streams.live),
            connections=len(self.clients),
            uptime_s=round(trio.current_time() - self._started_s, 3),
            instance=self.instance,
            reply_to=reply_to,
        )

    async def reset(self, reply_to: str | None) -> messages.SessionReset:
        """Ends all streams and sets the engine going anew; the answer to `session_reset`.

        Raises:
            NotReady: it is loading.
        """
        cancelled = self.streams.cancel_all()
        result = await self.describe.reset()
        return messages.SessionReset(reply_to=reply_to, cancelled=cancelled, result=result)


class _Client:
    """One client, and what it follows."""

    def __init__(self, server: EngineServer, peer: Peer, nursery: trio.Nursery) -> None:
        self._server = server
        self._peer = peer
        self._nursery = nursery
        self._follows_all = False
        self._following: dict[int, trio.CancelScope] = {}
        self._by_all: set[int] = set()  # of these, those that came with all

    async def run(self) -> None:
        """Talks until the client is gone."""
        await self._peer.send(self._server.ready())
        async for message in self._peer:
            try:
                await self._handle(message)
            except EngineError as error:
                name = getattr(message, "id", None)
                self._peer.reply(error_message(error, reply_to=name))

    async def _handle(self, message: msgspec.Struct) -> None:
        match message:
            case messages.Speak() | messages.Open():
                await self._open(message)
            case messages.Append():
                await self._found(message.stream).append(message.text, message.at)
                self._acknowledge(message.id, message.stream)
            case messages.Flush():
                await self._found(message.stream).flush(message.flush_id)
                self._acknowledge(message.id, message.stream)
            case messages.End():
                await self._found(message.stream).end()
                self._acknowledge(message.id, message.stream)
            case messages.Configure():
                live = self._found(message.stream)
                await live.configure(voice=message.voice, speed=message.speed)
                self._acknowledge(message.id, message.stream)
            case messages.Heard():
                self._heard(message)
            case messages.Cancel():
                self._cancel(message)
            case messages.Subscribe():
                self._subscribe(message)
            case messages.Unsubscribe():
                self._unsubscribe(message)
            case messages.AskVoices():
                voices = self._server.describe.voices
                self._peer.reply(messages.Voices(reply_to=message.id, voices=voices))
            case messages.AskStatus():
                self._peer.reply(self._server.status(message.id))
            case messages.AskReset():
                self._peer.reply(await self._server.reset(message.id))
            case messages.Ping():
                self._peer.reply(messages.Pong(reply_to=message.id))
            case _:  # the vocabulary has no other
                raise AssertionError(type(message))

    def _found(self, number: int) -> LiveStream:
        live = self._server.streams.find(number)
        if live is None:
            raise UnknownStream(f"There is no stream {number}.", param="stream")
        return live

    async def _open(self, message: messages.Speak | messages.Open) -> None:
        # A stream that is made but not yet read counts: it is kept for this client.
        streams = self._server.streams
        owned = sum(
            not live.log.over or live.log.number in self._following
            for live in streams.owned_by(self)
        )
        limit = self._server.settings.connection_streams
        if owned >= limit:
            raise TooManyStreams(
                f"The limit of {limit} texts at once on one connection is reached; wait until one "
                "is over and read.",
                retry_after_ms=1000,
            )
        live = await streams.open(message, self)
        self._server.announce(live, owner=self)
        self._acknowledge(message.id, live.log.number)
        self._follow(live)

    def _heard(self, message: messages.Heard) -> None:
        number = message.stream
        live = self._server.streams.find(number)
        if live is None:
            self._warn(message, "unknown_stream", f"There is no stream {number}.")
        elif live.owner is not self:
            self._warn(message, "not_owner", f"Only its owner tells how far stream {number} is.")
        elif not live.heard(message.sample, playing=message.playing):
            text = f"Stream {number} has {live.log.samples} samples, not {message.sample}."
            self._warn(message, "not_made_yet", text)
        self._acknowledge(message.id, number)

    def _cancel(self, message: messages.Cancel) -> None:
        live = self._server.streams.find(message.stream)
        if live is None or not live.cancel(message.played_samples):
            text = f"Stream {message.stream} is over or never was; nothing to cancel."
            self._warn(message, "unknown_stream", text)
        self._acknowledge(message.id, message.stream)

    def _subscribe(self, message: messages.Subscribe) -> None:
        if message.stream == "*":
            self._follows_all = True
            self._acknowledge(message.id)
            for live in self._server.streams.live:
                self._follow(live, by_all=True)
            return
        live = self._found(message.stream)
        if message.from_seq > live.log.next_seq:
            raise InvalidRequest(
                f"Frame {message.from_seq} is not made yet; {live.log.next_seq} is the next.",
                param="from_seq",
            )
        if live.owner is None and not live.log.over:
            live.owner = self
        self._acknowledge(message.id, message.stream)
        following = self._following.pop(live.log.number, None)
        if following is not None:  # it begins anew
            following.cancel()
            self._by_all.discard(live.log.number)
        self._follow(live, from_seq=message.from_seq)

    def _unsubscribe(self, message: messages.Unsubscribe) -> None:
        if message.stream == "*":
            self._follows_all = False
        # Who wants no more of all streams still wants its own, and those it named.
        numbers = [message.stream] if message.stream != "*" else list(self._by_all)
        for number in numbers:
            self._by_all.discard(number)
            scope = self._following.pop(number, None)
            if scope is not None:
                scope.cancel()
        self._acknowledge(message.id)

    def _warn(self, about: messages.Heard | messages.Cancel, code: str, text: str) -> None:
        self._peer.reply(
            messages.Warning(stream=about.stream, reply_to=about.id, code=code, message=text)
        )

    def _acknowledge(self, name: str | None, stream: int | None = None) -> None:
        # A client that gave no id still learns its stream's number from stream.opened.
        if name is not None:
            self._peer.reply(messages.Ack(reply_to=name, stream=stream))

    def stream_appeared(self, live: LiveStream) -> None:
        """Somebody opened a stream."""
        if not self._follows_all:
            return
        following = map(self._server.streams.find, self._following)
        if sum(other is not None and other.log.over for other in following) >= UNREAD:
            self._peer.end(
                CloseCode.POLICY_VIOLATION,
                Overloaded("Too many streams were not read; read what you subscribe to."),
            )
        else:
            self._follow(live, by_all=True)

    def _follow(self, live: LiveStream, *, from_seq: int = 0, by_all: bool = False) -> None:
        number = live.log.number
        if number not in self._following:
            if by_all:
                self._by_all.add(number)
            scope = self._following[number] = trio.CancelScope()
            cursor = live.log.follow(from_seq)  # a follower from now on, however slow its socket
            self._nursery.start_soon(self._forward, live, cursor, scope)

    async def _forward(self, live: LiveStream, cursor: Cursor, scope: trio.CancelScope) -> None:
        number = live.log.number
        try:
            with scope:
                opened = messages.stream_opened(live.log.opened, number, owner=live.owner is self)
                await self._peer.send(opened)
                progress_due_s = trio.current_time() + PROGRESS_S
                async with aclosing(live.read(cursor)) as entries:
                    async for entry in entries:
                        await self._tell(live, entry)
                        if trio.current_time() >= progress_due_s and not live.log.over:
                            progress_due_s = trio.current_time() + PROGRESS_S
                            await self._peer.send(self._progress(live))
        finally:
            if self._following.get(number) is scope:
                del self._following[number]
                self._by_all.discard(number)
            self._server.streams.left(live, cursor)

    async def _tell(self, live: LiveStream, entry: Event | Ending) -> None:
        number = live.log.number
        if isinstance(entry, Marks) and not live.request.marks:
            return
        if isinstance(entry, Frame) and entry.discontinuity:
            await self._peer.send(
                messages.Warning(
                    stream=number,
                    code="frames_skipped",
                    message="Frames before the next one are no longer kept.",
                )
            )
        await self._peer.send(messages.of_stream(entry, number))

    def _progress(self, live: LiveStream) -> messages.Progress:
        return messages.Progress(
            stream=live.log.number,
            samples_ready=live.log.samples,
            queue=sum(other is not live for other in self._server.streams.live),
            rtf=live.rtf,
        )
