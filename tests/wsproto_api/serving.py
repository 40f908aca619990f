"""A server on a real port of loopback, and clients that write their messages by hand."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import trio
import trio.testing
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection
from websockets.trio.client import connect as open_websocket
from websockets.typing import Origin, Subprotocol

from engine.config import Settings
from engine.process import open_listeners
from engine.request import Frame, ModelInfo, SpeakLive
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages
from wsproto_api.messages import StreamFrame
from wsproto_api.server import EngineServer
from wsproto_api.session import Role, Session

#: only a test that would hang for ever notices it
PATIENCE_S = 10.0

#: real seconds without anything to do until virtual time goes on
IDLE_S = 0.002

Json: TypeAlias = dict[str, Any]


class Wire:
    """A client without rules of its own; what the server says is held to the rules.

    Attributes:
        seen: everything that was read so far, messages as JSON and frames as `StreamFrame`.
    """

    def __init__(self, websocket: ClientConnection) -> None:
        self.websocket = websocket
        self.seen: list[Json | StreamFrame] = []
        self._rules = Session(
            Role.CLIENT, client=messages.ENGINE_CLIENT, server=messages.ENGINE_SERVER
        )

    async def send(self, type_: str, **fields: Any) -> None:
        """Sends a message, which need not make sense."""
        await self.send_raw(json.dumps({"type": type_, **fields}))

    async def send_raw(self, data: str | bytes) -> None:
        """Sends anything."""
        with suppress(ValueError, AttributeError, RecursionError):
            name = json.loads(data).get("id")
            if isinstance(name, str):
                self._rules.send(messages.Ping(id=name))  # so that the answer is expected
        await self.websocket.send(data)

    async def next(self) -> Json | StreamFrame:
        """The next message or frame."""
        data = await self.websocket.recv()
        heard = self._rules.receive(data)
        found = heard if isinstance(heard, StreamFrame) else json.loads(data)
        self.seen.append(found)
        return found

    async def until(self, type_: str, **fields: Any) -> Json:
        """Reads up to the message of this type and with these fields."""
        while True:
            found = await self.next()
            if isinstance(found, dict) and found["type"] == type_ and has(found, fields):
                return found

    async def ask(self, type_: str, **fields: Any) -> Json:
        """Sends a message with an id, and reads up to its answer."""
        await self.send(type_, id="ask", **fields)
        while True:
            found = await self.next()
            if not isinstance(found, dict) or found["type"] == "warning":
                continue
            if found.get("reply_to") == "ask":
                return found

    async def speak(self, text: str, **fields: Any) -> int:
        """Speaks, and gives the stream's number."""
        answer = await self.ask("speak", text=text, **fields)
        assert answer["type"] == "ack"
        return int(answer["stream"])

    async def closed(self) -> int | None:
        """Reads to the end; gives the close code."""
        with suppress(ConnectionClosed):
            while True:
                await self.next()
        return self.websocket.close_code

    async def drop(self) -> None:
        """The TCP connection ends without a word."""
        await trio.aclose_forcefully(self.websocket.stream)

    def messages(self, type_: str, **fields: Any) -> list[Json]:
        """Those that were seen."""
        return [
            m for m in self.seen if isinstance(m, dict) and m["type"] == type_ and has(m, fields)
        ]

    def frames(self, stream: int) -> list[Frame]:
        """Those that were seen."""
        return [f.frame for f in self.seen if isinstance(f, StreamFrame) and f.stream == stream]

    def order(self, stream: int) -> list[str]:
        """Types of what was seen of a stream; of frames in a row only the first."""
        found: list[str] = []
        for one in self.seen:
            if isinstance(one, StreamFrame):
                if one.stream == stream and found[-1:] != ["frame"]:
                    found.append("frame")
            elif one.get("stream") == stream and one["type"] != "ack":
                found.append(one["type"])
        return found


def has(message: Json, fields: Json) -> bool:
    return fields.items() <= message.items()


@dataclass
class Served:
    """A running server."""

    server: EngineServer
    voice: ToneVoice
    port: int
    scope: trio.CancelScope
    nursery: trio.Nursery
    stopped: trio.Event = field(default_factory=trio.Event)

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    @asynccontextmanager
    async def client(
        self,
        *,
        ready: bool = True,
        origin: str | None = None,
        headers: dict[str, str] | None = None,
        token: str | None = TOKEN,
        subprotocols: Sequence[str] = (messages.PROTOCOL,),
        queue: int | None = None,
    ) -> AsyncIterator[Wire]:
        """Connects; reads the `ready` message too, unless told not to.

        Args:
            ready: whether to read the `ready` message.
            origin: the page that pretends to connect.
            headers: more headers.
            token: sent as programs do; None to send none.
            subprotocols: those that are offered.
            queue: messages that the library reads ahead; all by default.
        """
        headers = dict(headers or {})
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token}")
        async with trio.open_nursery() as nursery:
            websocket = await open_websocket(
                self.url,
                subprotocols=[Subprotocol(name) for name in subprotocols],
                origin=Origin(origin) if origin is not None else None,
                additional_headers=headers,
                compression=None,
                proxy=None,
                max_queue=queue,
                ping_interval=None,
            ).connect(nursery)
            wire = Wire(websocket)
            if queue is not None:  # a slow reader, whose socket takes little by itself
                assert isinstance(websocket.stream, trio.SocketStream)
                websocket.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            try:
                if ready:
                    found = await wire.next()
                    assert isinstance(found, dict)
                    assert found["type"] == "ready"
                yield wire
            finally:
                await wire.drop()
                nursery.cancel_scope.cancel()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until something is so; for what nobody is told of."""
        while not condition():
            await trio.testing.wait_all_tasks_blocked(0.005)

    async def stop(self) -> None:
        """Ends the server as a signal does."""
        self.scope.cancel()
        await self.stopped.wait()


@asynccontextmanager
async def serving(
    settings: Settings,
    voice: ToneVoice | None = None,
    speak: SpeakLive | None = None,
    *,
    loaded: trio.Event | None = None,
    patience_s: float = PATIENCE_S,
    **changes: Any,
) -> AsyncIterator[Served]:
    """Runs a server.

    Args:
        settings: of which `changes` are other.
        voice: what the server says it has, and what speaks.
        speak: what speaks instead.
        loaded: as of the server.
        patience_s: how long the test may take, by its clock.
        changes: settings.
    """
    voice = voice or ToneVoice()
    changed = settings.model_copy(update=changes)
    server = EngineServer(speak or voice, voice, changed, TOKEN, loaded)
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    with trio.fail_after(patience_s):
        async with trio.open_nursery() as nursery:
            served = Served(server, voice, port, trio.CancelScope(), nursery)

            async def run(*, task_status: trio.TaskStatus[None]) -> None:
                with served.scope:
                    await server.serve(listeners, task_status=task_status)
                served.stopped.set()

            await nursery.start(run)
            yield served
            server.streams.cancel_all()  # nobody waits for these to come to their own end
            nursery.cancel_scope.cancel()


async def http(port: int, request: str, *, closes: bool = True) -> bytes:
    """Sends a request as it stands; gives the answer's head, or all of it if the server closes."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        await stream.send_all(request.replace("\n", "\r\n").encode("latin-1"))
        answer = b""
        while closes or b"\r\n\r\n" not in answer:
            data = await stream.receive_some()
            if not data:
                break
            answer += data
        return answer


def ready_of(model: ModelInfo, **limits: int) -> messages.Ready:
    """The first message of an engine that is only made up; limits are as tight as can be."""
    none = dict.fromkeys(messages.Limits.__struct_fields__, 1)
    return messages.Ready(
        protocol=messages.PROTOCOL,
        server=messages.ServerInfo(name="scripted", version="0", instance="a"),
        model=model,
        sample_rate=24_000,
        frame_ms=50,
        voices_hash="0",
        limits=messages.Limits(**none | {"messages_per_s": 200, "max_lead_ms": 1000} | limits),
    )
