"""The player's WebSocket server: kokoro.v1's player vocabulary in front of a `Player`. Shell.

Whatever is said to a client waits in its `Peer`, so that one that does not read holds up nobody,
and is let go. A client that vanishes leaves its speech playing, unless it has said otherwise: whoever
started a text by a hotkey is gone at once. Only a text that comes in pieces stops, if its end has not
come: it would break off anywhere. What plays is everybody's to control; to the text of an item only
the client that opened it adds.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import assert_never

import msgspec
import structlog
import trio

from engine import __version__
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.errors import EngineError, InternalError, InvalidRequest, UnknownStream, blame
from engine.live import TextFeed
from engine.request import SpeakLive
from wsproto_api import messages, security
from wsproto_api.peer import Peer, error_message, serve_peers

from .delay import Slack
from .narration import Told
from .player import Player
from .sinks.base import Sink

log = structlog.get_logger("player")

#: items in an answer, so that it fits a message whatever their names are
MOST_LISTED = 35


@dataclass(slots=True, eq=False)
class _Client:
    """A connection.

    Attributes:
        peer: it.
        events: what it is told of.
        items: that it asked for, and are not over.
        bound: of these, those that end with the connection.
        saying: of these, those that do so only as long as more of their text is to come.
        texts: of those that come in pieces.
        gone: it is closed.
    """

    peer: Peer
    events: frozenset[messages.PlayerEvents] = frozenset({"state"})
    items: set[int] = field(default_factory=set)
    bound: set[int] = field(default_factory=set)
    saying: set[int] = field(default_factory=set)
    texts: list[TextFeed] = field(default_factory=list)
    gone: bool = False


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
        self._clients: set[_Client] = set()
        self._player = Player(
            speak,
            sink,
            on_state=self._tell_state,
            on_done=self._tell_done,
            on_told=self._tell,
            policy=Slack(start_s=settings.start_wait_ms / 1000),
        )
        self._nursery: trio.Nursery

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
        async with trio.open_nursery() as self._nursery:
            await self._nursery.start(self._player.run)
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

    # --- what all are told ----------------------------------------------------------------------

    def _tell_state(self, state: messages.PlayerState) -> None:
        self._tell_those(lambda client: "state" in client.events, state)

    def _tell_done(self, done: messages.ItemDone) -> None:
        self._tell_those(lambda client: "state" in client.events or done.item in client.items, done)
        for client in self._clients:
            client.items.discard(done.item)
            client.bound.discard(done.item)
            client.saying.discard(done.item)

    def _tell(self, told: Told) -> None:
        match told:
            case messages.ItemStarted():
                self._tell_those(
                    lambda client: "state" in client.events or told.item in client.items, told
                )
            case messages.Position():
                self._tell_those(lambda client: "position" in client.events, told)
            case messages.Word():
                self._tell_those(lambda client: "marks" in client.events, told)
            case _ as never:
                assert_never(never)

    def _tell_those(self, chosen: Callable[[_Client], bool], message: msgspec.Struct) -> None:
        for client in self._clients:
            if chosen(client):
                client.peer.reply(message)

    # --- what one says --------------------------------------------------------------------------

    async def _connected(self, peer: Peer) -> None:
        peer.reply(self._ready())
        client = _Client(peer)
        self._clients.add(client)
        try:
            async for message in peer:
                try:
                    self._handle(client, message)
                except EngineError as error:
                    peer.reply(error_message(error, reply_to=getattr(message, "id", None)))
        finally:
            self._clients.discard(client)
            client.gone = True
            for text in client.texts:  # of what is not there any more it would wait for ever
                text.end()
            for item in client.bound | client.saying:
                self._player.stop(item)

    def _ready(self) -> messages.PlayerReady:
        return messages.PlayerReady(
            protocol=messages.PROTOCOL,
            server=messages.ServerInfo(
                name="kokoro-live player", version=__version__, instance=self._instance
            ),
            sink=self._sink.name,
            sample_rate=SAMPLE_RATE,
        )

    def _handle(self, client: _Client, message: msgspec.Struct) -> None:
        player = self._player
        match message:
            case messages.PlayerSpeak():
                player.speak(message, message.mode, self._asker(client, message))
            case messages.PlayerOpen():
                text = TextFeed(
                    waiting_chars=self._settings.text_chars, total_chars=self._settings.live_chars
                )
                client.texts[:] = [*(other for other in client.texts if not other.ended), text]
                player.speak(message, message.mode, self._asker(client, message), text)
            case messages.PlayerAppend():
                _must_own(client, message.item)
                player.append(message.item, message.text)
                _acknowledge(client, message, message.item)
            case messages.PlayerEnd():
                _must_own(client, message.item)
                player.end(message.item)
                client.saying.discard(message.item)
                _acknowledge(client, message, message.item)
            case messages.PlayerRepeat():
                player.repeat(self._asker(client, message))
            case messages.PlayerConfigure():
                self._nursery.start_soon(self._configure, client, message)
            case messages.AskDevices():
                self._nursery.start_soon(self._devices, client, message)
            case messages.PlayerQueue():
                self._queue(client, message)
            case messages.AskStatus():
                client.peer.reply(player.state(message.id))
            case messages.Ping():
                client.peer.reply(messages.Pong(reply_to=message.id))
            case messages.Request():
                self._control(client, message)
                _acknowledge(client, message)
            case _:  # the vocabulary has no other
                raise AssertionError(message)

    def _control(self, client: _Client, message: messages.Request) -> None:
        """Commands that take no time and cannot fail, but for what makes no sense."""
        player = self._player
        match message:
            case messages.PlayerStop():
                player.stop(message.item)
            case messages.PlayerPause():
                player.pause()
            case messages.PlayerResume():
                player.resume()
            case messages.PlayerToggle():
                player.toggle()
            case messages.PlayerSkip(unit="sentence"):
                player.skip_sentences(message.n)
            case messages.PlayerSkip():
                if message.n < 0:
                    raise InvalidRequest(
                        "Only sentences can be gone back by; `repeat` speaks an item again.",
                        param="n",
                    )
                player.skip_items(message.n)
            case messages.PlayerSeek():
                player.seek(sample=message.sample, fraction=message.fraction, by_ms=message.by_ms)
            case messages.PlayerVolume():
                player.volume = message.value
            case messages.PlayerSubscribe():
                client.events = frozenset(message.events)
            case _:  # the vocabulary has no other
                raise AssertionError(message)

    def _queue(self, client: _Client, message: messages.PlayerQueue) -> None:
        match message.op:
            case "list":
                pass
            case "clear":
                self._player.clear_queue()
            case "remove":
                if message.item is None:
                    raise InvalidRequest("Name the item to be removed.", param="item")
                self._player.stop(message.item)
            case _ as never:
                assert_never(never)
        queue = self._player.queue()
        items = tuple(
            msgspec.structs.replace(item, own=item.item in client.items)
            for item in queue[:MOST_LISTED]
        )
        client.peer.reply(
            messages.Queue(reply_to=message.id, items=items, more=len(queue) - len(items))
        )

    async def _configure(self, client: _Client, message: messages.PlayerConfigure) -> None:
        with _answered(client, message):
            await self._player.configure(
                voice=message.voice, speed=message.speed, device=message.device
            )
            _acknowledge(client, message)

    async def _devices(self, client: _Client, message: messages.AskDevices) -> None:
        with _answered(client, message):
            devices = await self._player.devices()
            client.peer.reply(
                messages.Devices(reply_to=message.id, devices=devices, chosen=self._sink.wanted)
            )

    def _asker(
        self,
        client: _Client,
        message: messages.PlayerSpeak | messages.PlayerOpen | messages.PlayerRepeat,
    ) -> _Asker:
        match getattr(message, "on_disconnect", "finish"):
            case "stop":
                bound: set[int] | None = client.bound
            case None:
                bound = client.saying
            case _:
                bound = None
        return _Asker(client, message.id, self._player.stop, bound)


@contextmanager
def _answered(client: _Client, request: messages.Request) -> Iterator[None]:
    """Answers with the error, if one is raised: what takes time runs in a task of its own."""
    try:
        yield
    except EngineError as error:
        client.peer.reply(error_message(error, reply_to=request.id))
    except Exception as error:
        log.error("a command crashed", error=blame(error))
        internal = InternalError("The player failed; its log says how.")
        client.peer.reply(error_message(internal, reply_to=request.id))


def _must_own(client: _Client, item: int) -> None:
    if item not in client.items:
        raise UnknownStream(
            f"Item {item} takes no text from here: it is over, or another client's.", param="item"
        )


def _acknowledge(client: _Client, request: messages.Request, item: int | None = None) -> None:
    if request.id is not None:
        client.peer.reply(messages.PlayerAck(reply_to=request.id, item=item))


class _Asker:
    """The client that asked for an item, and the name it gave the request.

    Args:
        client: it.
        name: of the request.
        stop: ends an item, because it is to end with the connection.
        bound: of the client, where such items are; None: it is not to end.
    """

    def __init__(
        self,
        client: _Client,
        name: str | None,
        stop: Callable[[int], None],
        bound: set[int] | None,
    ) -> None:
        self._client = client
        self._name = name
        self._stop = stop
        self._bound = bound

    def accepted(self, item: int | None, /) -> None:
        """See `player.Asker`."""
        if item is not None:
            self._client.items.add(item)
            if self._bound is not None:
                self._bound.add(item)
                if self._client.gone:
                    self._stop(item)
        if self._name is not None:
            self._client.peer.reply(messages.PlayerAck(reply_to=self._name, item=item))

    def refused(self, error: EngineError, /) -> None:
        """See `player.Asker`."""
        self._client.peer.reply(error_message(error, reply_to=self._name))

    def failed(self, item: int, error: EngineError, /) -> None:
        """See `player.Asker`."""
        body = error_message(error)
        fields = {name: getattr(body, name) for name in body.__struct_fields__}
        self._client.peer.reply(messages.PlayerError(**fields, item=item))

    def warned(self, code: str, message: str, /) -> None:
        """See `player.Asker`."""
        self._client.peer.reply(messages.Warning(reply_to=self._name, code=code, message=message))
