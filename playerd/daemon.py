"""The player's WebSocket server: kokoro.v1's player vocabulary in front of a `Player`. Shell.

Every client has an outbox of its own, so that one that does not read holds up nobody. A client
that vanishes leaves its speech playing: whoever started a text by a hotkey is gone at once.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog
import trio

from engine import __version__
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.errors import EngineError
from engine.request import Speak
from wsproto_api import messages, security
from wsproto_api.peer import Peer, error_message, serve_peers

from .player import Player
from .sinks.base import Sink

log = structlog.get_logger("player")

#: messages that a client may leave unread before it is let go
OUTBOX_MESSAGES = 256


class Daemon:
    """Serves a player.

    Args:
        speak: who speaks.
        sink: where to.
        settings: limits and ports.
    """

    def __init__(self, speak: Speak, sink: Sink, settings: Settings) -> None:
        self._settings = settings
        self._sink = sink
        self._clients: set[_Client] = set()
        self._player = Player(speak, sink, on_state=self._tell_all, on_done=self._tell_all)

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves on the listeners until cancelled; then sound fades and sockets close."""
        async with trio.open_nursery() as nursery:
            await nursery.start(self._player.run)
            await serve_peers(
                self._connected,
                listeners,
                client=messages.PLAYER_CLIENT,
                server=messages.PLAYER_SERVER,
                origins=security.page_origins(self._settings.http_port),
                connections=self._settings.connections,
                task_status=task_status,
            )

    def _tell_all(self, message: msgspec.Struct) -> None:
        for client in self._clients:
            client.say(message)

    async def _connected(self, peer: Peer) -> None:
        client = _Client(peer)
        client.say(self._ready())
        self._clients.add(client)
        try:
            await client.serve(self._handle)
        finally:
            self._clients.discard(client)

    def _ready(self) -> messages.PlayerReady:
        return messages.PlayerReady(
            protocol=messages.PROTOCOL,
            server=messages.ServerInfo(name="kokoro-live player", version=__version__),
            sink=self._sink.name,
            sample_rate=SAMPLE_RATE,
        )

    def _handle(self, client: _Client, message: msgspec.Struct) -> None:
        match message:
            case messages.PlayerSpeak():
                self._player.speak(message, message.mode, _Asker(client, message.id))
            case messages.PlayerStop():
                self._player.stop()
                if message.id is not None:
                    client.say(messages.PlayerAck(reply_to=message.id))
            case messages.AskStatus():
                client.say(self._player.state(message.id))
            case messages.Ping():
                client.say(messages.Pong(reply_to=message.id))
            case _:  # the vocabulary has no other
                raise AssertionError(message)


class _Client:
    """One connection, and what is still to be said on it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._too_slow = trio.Event()
        self._outbox, self._unsaid = trio.open_memory_channel[msgspec.Struct](OUTBOX_MESSAGES)

    def say(self, message: msgspec.Struct) -> None:
        """Puts a message in the outbox. Nothing happens if the client is gone."""
        try:
            self._outbox.send_nowait(message)
        except trio.WouldBlock:
            self._too_slow.set()
        except trio.BrokenResourceError:
            pass

    async def serve(self, handle: Callable[[_Client, msgspec.Struct], None]) -> None:
        """Handles what the client says until it is gone, or until it does not listen."""
        async with trio.open_nursery() as nursery:

            async def write() -> None:
                async with self._unsaid:
                    async for message in self._unsaid:
                        await self._peer.send(message)

            async def read() -> None:
                async for message in self._peer:
                    handle(self, message)
                nursery.cancel_scope.cancel()

            nursery.start_soon(write)
            nursery.start_soon(read)
            await self._too_slow.wait()
            log.warning("a client does not read its messages; it is let go")
            nursery.cancel_scope.cancel()


class _Asker:
    """The client that asked for an item, and the name it gave the request."""

    def __init__(self, client: _Client, name: str | None) -> None:
        self._client = client
        self._name = name

    def accepted(self, item: int | None, /) -> None:
        """See `player.Asker`."""
        if self._name is not None:
            self._client.say(messages.PlayerAck(reply_to=self._name, item=item))

    def refused(self, error: EngineError, /) -> None:
        """See `player.Asker`."""
        self._client.say(error_message(error, reply_to=self._name))

    def failed(self, item: int, error: EngineError, /) -> None:
        """See `player.Asker`."""
        body = error_message(error)
        fields = {name: getattr(body, name) for name in body.__struct_fields__}
        self._client.say(messages.PlayerError(**fields, item=item))

    def warned(self, code: str, message: str, /) -> None:
        """See `player.Asker`."""
        self._client.say(messages.Warning(reply_to=self._name, code=code, message=message))
