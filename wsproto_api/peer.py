"""The server's end of one connection, for the engine and for the player. Shell.

`serve_peers` accepts connections and checks who comes; `Peer` speaks the protocol on one of them:
it answers malformed messages, so that its user sees only messages that make sense.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from http import HTTPStatus

import msgspec
import structlog
import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.trio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from engine.errors import EngineError, blame

from . import messages, security
from .errors import RemoteProtocolError
from .messages import Decoded, Error, StreamFrame, Unknown, Vocabulary, Warning
from .session import Role, Session
from .sockets import ServerSocket

log = structlog.get_logger("wire")

#: how long a socket may take to say goodbye
CLOSE_TIMEOUT_S = 1.0

_FULL = "Too many connections; close one first."


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
        """Writes what `send` is given, until cancelled.

        When the client is gone it is dropped: whoever sends must not wait for a reader that will
        never come, and may still have messages of the client to act on, such as a `cancel`.
        """
        gone = False
        async for message in self._unsent:
            if not gone:
                try:
                    await self._websocket.send(self._session.send(message))
                except ConnectionClosed:
                    gone = True

    def __aiter__(self) -> Peer:
        return self

    async def __anext__(self) -> msgspec.Struct:
        """The client's next message that makes sense; the end when the client is gone."""
        while True:
            try:
                decoded = self._session.receive(await self._websocket.recv())
            except ConnectionClosed:
                raise StopAsyncIteration from None
            except RemoteProtocolError as error:
                await self.send(
                    Error(
                        reply_to=error.reply_to, code=error.code, message=error.message,
                        param=error.param, retryable=False, fatal=False,
                    )
                )  # fmt: skip
                continue
            assert isinstance(decoded, Decoded)  # clients do not send frames
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
            return decoded.message

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
        task_status: told when connections are accepted.
    """
    port = listeners[0].socket.getsockname()[1]
    pages = pages or {}
    open_now = 0

    def admit(_: ServerConnection, request: Request) -> Response | None:
        hosts, pages_from = request.headers.get_all("Host"), request.headers.get_all("Origin")
        host = hosts[0] if len(hosts) == 1 else None
        refused = security.refusal(host, pages_from, port=port, allowed=origins)
        if refused:
            return _plain(HTTPStatus.FORBIDDEN, refused)
        if request.path in pages:
            return _plain(HTTPStatus.OK, pages[request.path]())
        if open_now >= connections:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, _FULL)
        return None

    async def connection(websocket: ServerConnection) -> None:
        nonlocal open_now
        open_now += 1
        peer = Peer(websocket, Session(Role.SERVER, client=client, server=server))
        code, reason = CloseCode.INTERNAL_ERROR, ""
        try:
            if open_now > connections:  # several came in while none of them was open
                code, reason = CloseCode.TRY_AGAIN_LATER, _FULL
                return
            async with trio.open_nursery() as nursery:
                nursery.start_soon(peer.write)
                await handle(peer)
                nursery.cancel_scope.cancel()
            code = CloseCode.NORMAL_CLOSURE
        except Exception as error:  # the library would log its message
            log.error("connection crashed", error=blame(_single(error)))
        finally:
            open_now -= 1
            with trio.move_on_after(CLOSE_TIMEOUT_S):  # whoever does not read hears no goodbye
                await websocket.aclose(code, reason)

    running = trio.CancelScope()

    async def run(*, task_status: trio.TaskStatus[Server]) -> None:
        with running:
            await serve(
                connection,
                listeners=listeners,
                subprotocols=[Subprotocol(messages.PROTOCOL)],
                select_subprotocol=_offered_or_none,
                compression=None,
                process_request=admit,
                max_size=messages.MAX_MESSAGE_BYTES,
                # A client may stop reading for as long as it likes (it plays what it has), and
                # then answers no pings. That it is gone, its system tells us on loopback.
                ping_interval=None,
                close_timeout=CLOSE_TIMEOUT_S,
                create_connection=ServerSocket,
                task_status=task_status,
            )

    async with trio.open_nursery() as nursery:
        websocket_server = await nursery.start(run)
        running.shield = True  # for when we are cancelled: connections end by our goodbye
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
                await websocket_server.aclose()
            running.cancel()


def _single(error: Exception) -> Exception:
    """The exception that a group is about, if it is about one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _offered_or_none(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
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
