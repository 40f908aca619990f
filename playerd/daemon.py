"""The player's WebSocket server: kokoro.v1's player vocabulary in front of a `Player`. Shell.

Whatever is said to a client waits in its `Peer`, so that one that does not read holds up nobody,
and is let go. A client that vanishes leaves its speech playing: whoever started a text by a hotkey
is gone at once.
"""

from __future__ import annotations

import secrets

import msgspec
import trio

from engine import __version__
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.errors import EngineError
from engine.live import TextFeed
from engine.request import SpeakLive
from wsproto_api import messages, security
from wsproto_api.peer import Peer, error_message, serve_peers

from .player import Player
from .sinks.base import Sink


class Daemon:
    """Serves a player.

    Args:
        speak: who speaks.
        sink: where to.
        settings: limits and ports.
        token: what everybody must show to be let in, pages too.
    """

    def __init__(self, speak: SpeakLive, sink: Sink, settings: Settings, token: str) -> None:
        self._settings = settings
        self._token = token
        self._instance = secrets.token_hex(8)
        self._sink = sink
        self._clients: set[Peer] = set()
        self._player = Player(speak, sink, on_state=self._tell_all, on_done=self._tell_all)

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves on the listeners until cancelled; then sound fades and sockets close."""
        policy = security.policy(
            self._settings,
            port=listeners[0].socket.getsockname()[1],
            token=self._token,
            pages_need_token=True,  # it speaks aloud, and tells what it speaks
        )
        async with trio.open_nursery() as nursery:
            await nursery.start(self._player.run)
            await serve_peers(
                self._connected,
                listeners,
                client=messages.PLAYER_CLIENT,
                server=messages.PLAYER_SERVER,
                policy=policy,
                connections=self._settings.connections,
                messages_per_s=self._settings.messages_per_s,
                task_status=task_status,
            )

    def _tell_all(self, message: msgspec.Struct) -> None:
        for client in self._clients:
            client.reply(message)

    async def _connected(self, client: Peer) -> None:
        client.reply(self._ready())
        self._clients.add(client)
        texts: list[TextFeed] = []
        try:
            async for message in client:
                try:
                    self._handle(client, message, texts)
                except EngineError as error:
                    client.reply(error_message(error, reply_to=getattr(message, "id", None)))
        finally:
            self._clients.discard(client)
            for text in texts:  # of what is not there any more it would wait for ever
                text.end()

    def _ready(self) -> messages.PlayerReady:
        return messages.PlayerReady(
            protocol=messages.PROTOCOL,
            server=messages.ServerInfo(
                name="kokoro-live player", version=__version__, instance=self._instance
            ),
            sink=self._sink.name,
            sample_rate=SAMPLE_RATE,
        )

    def _handle(self, client: Peer, message: msgspec.Struct, texts: list[TextFeed]) -> None:
        match message:
            case messages.PlayerSpeak():
                self._player.speak(message, message.mode, _Asker(client, message.id))
            case messages.PlayerOpen():
                text = TextFeed(
                    waiting_chars=self._settings.text_chars, total_chars=self._settings.live_chars
                )
                texts[:] = [*(other for other in texts if not other.ended), text]
                self._player.speak(message, message.mode, _Asker(client, message.id), text)
            case messages.PlayerAppend():
                self._player.append(message.item, message.text)
                _acknowledge(client, message, message.item)
            case messages.PlayerEnd():
                self._player.end(message.item)
                _acknowledge(client, message, message.item)
            case messages.PlayerStop():
                self._player.stop()
                _acknowledge(client, message)
            case messages.AskStatus():
                client.reply(self._player.state(message.id))
            case messages.Ping():
                client.reply(messages.Pong(reply_to=message.id))
            case _:  # the vocabulary has no other
                raise AssertionError(message)


def _acknowledge(client: Peer, request: messages.Request, item: int | None = None) -> None:
    if request.id is not None:
        client.reply(messages.PlayerAck(reply_to=request.id, item=item))


class _Asker:
    """The client that asked for an item, and the name it gave the request."""

    def __init__(self, client: Peer, name: str | None) -> None:
        self._client = client
        self._name = name

    def accepted(self, item: int | None, /) -> None:
        """See `player.Asker`."""
        if self._name is not None:
            self._client.reply(messages.PlayerAck(reply_to=self._name, item=item))

    def refused(self, error: EngineError, /) -> None:
        """See `player.Asker`."""
        self._client.reply(error_message(error, reply_to=self._name))

    def failed(self, item: int, error: EngineError, /) -> None:
        """See `player.Asker`."""
        body = error_message(error)
        fields = {name: getattr(body, name) for name in body.__struct_fields__}
        self._client.reply(messages.PlayerError(**fields, item=item))

    def warned(self, code: str, message: str, /) -> None:
        """See `player.Asker`."""
        self._client.reply(messages.Warning(reply_to=self._name, code=code, message=message))
