"""The server's end of one connection, for the engine and for the player. Shell.

`serve_peers` accepts connections and checks who comes; `Peer` speaks the protocol on one of them:
it answers malformed messages, so that its user sees only messages that make sense.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus

import msgspec
import structlog
import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.trio.server import ServerConnection, serve
from websockets.typing import Subprotocol

from engine.errors import EngineError

from . import messages, security
from .errors import RemoteProtocolError
from .messages import Error, StreamFrame, Unknown, Vocabulary, Warning
from .session import Role, Session

log = structlog.get_logger("wire")

#: how long a socket may take to say goodbye when the server stops
CLOSE_TIMEOUT_S = 1.0


class Peer:
    """One client of a server. Iterate over it for the client's messages; send from any task."""

    def __init__(self, websocket: ServerConnection, session: Session) -> None:
        self._websocket = websocket
        self._session = session
        # No capacity: whoever sends waits until the socket takes it. That is the flow control.
        self._outbox, self._unsent = trio.open_memory_channel[msgspec.Struct | StreamFrame](0)

    async def send(self, message: msgspec.Struct | StreamFrame) -> None:
        """Puts a message on the socket; safe to cancel, because one task writes for all."""
        await self._outbox.send(message)

    async def write(self) -> None:
        """Writes what `send` is given, until cancelled or the client is gone."""
        with suppress(ConnectionClosed):
            async for message in self._unsent:
                await self._websocket.send(self._session.send(message))

    async def __aiter__(self) -> AsyncIterator[msgspec.Struct]:
        """The client's messages, until it is gone."""
        with suppress(ConnectionClosed):
            async for data in self._websocket:
                try:
                    decoded = self._session.receive(data)
                except RemoteProtocolError as error:
                    await self.send(
                        Error(
                            reply_to=error.reply_to, code=error.code, message=error.message,
                            param=error.param, retryable=False, fatal=False,
                        )
                    )  # fmt: skip
                    continue
                assert not isinstance(decoded, StreamFrame)  # clients do not send frames
                if isinstance(decoded.message, Unknown):
                    await self._not_understood(decoded.message)
                    continue
                if decoded.unknown_fields:
                    await self.send(
                        Warning(
                            reply_to=getattr(decoded.message, "id", None),
                            code="unknown_field",
                            message=f"Ignored what is not a field: {', '.join(decoded.unknown_fields)}.",
                        )
                    )
                yield decoded.message

    async def _not_understood(self, unknown: Unknown) -> None:
        text = f"Messages of type {unknown.type!r} are not understood."
        await self.send(Warning(reply_to=unknown.id, code="unknown_type", message=text))
        if unknown.id is not None:
            await self.send(
                Error(reply_to=unknown.id, code="bad_message", message=text, param="type",
                      retryable=False, fatal=False)
            )  # fmt: skip


def error_message(
    error: EngineError, *, reply_to: str | None = None, stream: int | None = None
) -> Error:
    """The `error` message for an exception."""
    return Error(
        reply_to=reply_to,
        stream=stream,
        code=error.code,
        message=error.message,
        param=error.param,
        retryable=error.retryable,
        retry_after_ms=error.retry_after_ms,
        fatal=False,
    )


async def serve_peers(
    handle: Callable[[Peer], Awaitable[None]],
    listeners: list[trio.SocketListener],
    *,
    client: Vocabulary,
    server: Vocabulary,
    origins: Collection[str] = (),
    connections: int,
    pages: Mapping[str, Callable[[], str]] | None = None,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accepts connections until cancelled, then closes them with 1001.

    Args:
        handle: runs for each connection; the connection closes when it returns.
        listeners: opened by the caller; closed here.
        client: what clients may say.
        server: what we say.
        origins: pages that may connect.
        connections: how many at once; more get 503.
        pages: plain-text pages served to GET requests, such as `/metrics`.
    """
    port = listeners[0].socket.getsockname()[1]
    pages = pages or {}
    open_now = 0

    def admit(_: ServerConnection, request: Request) -> Response | None:
        headers = request.headers
        refused = security.refusal(
            headers.get("Host"), headers.get_all("Origin"), port=port, allowed=origins
        )
        if refused:
            return _plain(HTTPStatus.FORBIDDEN, refused)
        if request.path in pages:
            return _plain(HTTPStatus.OK, pages[request.path]())
        if open_now >= connections:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections; close one first.")
        return None

    async def connection(websocket: ServerConnection) -> None:
        nonlocal open_now
        open_now += 1
        peer = Peer(websocket, Session(Role.SERVER, client=client, server=server))
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.write)
                await handle(peer)
                nursery.cancel_scope.cancel()
        finally:
            open_now -= 1

    async with trio.open_nursery() as nursery:
        websocket_server = await nursery.start(
            partial(
                serve,
                connection,
                listeners=listeners,
                backlog=None,
                subprotocols=[Subprotocol(messages.PROTOCOL)],
                select_subprotocol=_offered_or_none,
                compression=None,
                process_request=admit,
                max_size=messages.MAX_MESSAGE_BYTES,
                close_timeout=CLOSE_TIMEOUT_S,
            )
        )
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                await websocket_server.aclose()
            nursery.cancel_scope.cancel()


def _offered_or_none(_: ServerConnection, offered: list[Subprotocol]) -> Subprotocol | None:
    # A client that names no subprotocol is welcome (wscat, a first try by hand).
    return Subprotocol(messages.PROTOCOL) if messages.PROTOCOL in offered else None


def _plain(status: HTTPStatus, text: str) -> Response:
    body = text.encode()
    headers = Headers({
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
    })  # fmt: skip
    return Response(status.value, status.phrase, headers, body)
