"""Lets WebSocket clients in by the engine's rules, and hands over the bare connection. Shell.

For programs that stand in a server's place and must say what it says, whether or not that keeps to
the protocol; others use `peer`.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from http import HTTPStatus

import structlog
import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import EXTERNAL_CLOSE_CODES, CloseCode
from websockets.http11 import Request, Response
from websockets.trio.connection import Connection
from websockets.trio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from engine.errors import blame

from . import messages, security
from .peer import CLOSE_TIMEOUT_S, SEND_BUFFER_BYTES
from .security import Decision, Offer, Policy
from .sockets import ServerSocket
from .transcript import MAX_BINARY_BYTES

log = structlog.get_logger("wire")

Handler = Callable[[ServerConnection, Decision], Awaitable[None]]

#: what a close frame has room for
_REASON_BYTES = 123


async def let_in(
    handle: Handler,
    listeners: list[trio.SocketListener],
    policy: Policy,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accepts connections until cancelled, then closes them with 1001.

    Args:
        handle: runs for each connection, with what `security.admission` decided; refused clients
            do not come so far.
        listeners: opened by the caller; closed here.
        policy: who may connect.
        task_status: told when connections are accepted.
    """
    for listener in listeners:  # as the engine's: a client that does not read is noticed as soon
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)

    def admit(_: ServerConnection, request: Request) -> Response | None:
        decision = security.admission(policy, offer(request.headers))
        return _refusal(decision) if isinstance(decision, security.Refused) else None

    async def connection(websocket: ServerConnection) -> None:
        assert websocket.request is not None  # the handshake is over
        try:
            await handle(websocket, security.admission(policy, offer(websocket.request.headers)))
        except Exception as error:  # the library would log its message
            log.error("connection crashed", error=blame(error))
            await close(websocket, CloseCode.INTERNAL_ERROR)

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
                max_size=MAX_BINARY_BYTES,
                ping_interval=None,
                close_timeout=CLOSE_TIMEOUT_S,
                create_connection=ServerSocket,
                task_status=task_status,
            )

    async with trio.open_nursery() as nursery:
        server = await nursery.start(run)
        running.shield = True  # for when we are cancelled: connections end by our goodbye
        task_status.started()
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(2 * CLOSE_TIMEOUT_S, shield=True):
                await server.aclose()
            running.cancel()


async def close(websocket: Connection, code: int, reason: str = "") -> None:
    """Ends a connection as another one ended: 1005 says nothing, 1006 and the like is cut off.

    Takes a moment at most, also when cancelled.
    """
    with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_discard, websocket)
            if code == CloseCode.NO_STATUS_RCVD:
                # It takes None as the protocol object does, and only its type does not say so.
                await websocket.aclose(None)  # type: ignore[arg-type]
            elif code in EXTERNAL_CLOSE_CODES or 3000 <= code < 5000:
                await websocket.aclose(code, _short(reason))
            nursery.cancel_scope.cancel()
    with trio.CancelScope(shield=True):
        await websocket.close_stream()  # waits for nobody


def offer(headers: Headers) -> Offer:
    """What a request says of who sends it."""
    return Offer(
        hosts=headers.get_all("Host"),
        origins=headers.get_all("Origin"),
        authorizations=headers.get_all("Authorization"),
        subprotocols=headers.get_all("Sec-WebSocket-Protocol"),
    )


async def _discard(websocket: Connection) -> None:
    # The answer to our goodbye comes behind whatever was not read.
    with suppress(ConnectionClosed):
        while True:
            await websocket.recv()


def _short(reason: str) -> str:
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")


def _offered_or_none(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return Subprotocol(messages.PROTOCOL) if messages.PROTOCOL in offered else None


def _refusal(refused: security.Refused) -> Response:
    log.info("refused", status=refused.status, code=refused.error.code)
    body = refused.error.message.encode()
    headers = Headers({
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(body)),
        "Connection": "close",
    })  # fmt: skip
    if refused.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(refused.status, HTTPStatus(refused.status).phrase, headers, body)
