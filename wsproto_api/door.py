"""Lets WebSocket clients in, and hands over the bare connections. Shell.

`peer` speaks the protocol on them. `record` and `replay` stand in a server's place, and must be able
to say what it says, whether or not that keeps to the protocol.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

import structlog
import trio
from websockets.datastructures import Headers
from websockets.frames import CloseCode
from websockets.http11 import Request, Response
from websockets.trio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from engine.errors import blame

from . import messages, security
from .security import Decision, Offer, Policy
from .sockets import CLOSE_TIMEOUT_S, ServerSocket, close, keep_alive

log = structlog.get_logger("wire")

Handler = Callable[[ServerConnection, Decision], Awaitable[None]]

#: how long what is being done may take to come to its end when the server stops
DRAIN_TIMEOUT_S = 2.0

#: Bytes that the system takes for a client that does not read: 5 s of sound. By itself Linux takes
#: 4 MB on loopback, so more than a minute of speech would count as heard that nobody has read. Trio
#: asks it to take less (TCP_NOTSENT_LOWAT); this holds where there is no such thing.
SEND_BUFFER_BYTES = 256 * 1024

#: How long a client may wait for a server that is loading. Clients of ours wait for less; and the
#: library gives up a handshake after 10 s, without a word.
LOADING_S = 8.0

_STOPPING = "This server is stopping; try again in a few seconds."
_LOADING = "This server is loading; try again in a few seconds."


class Json(str):
    """The text of a page that is JSON."""

    __slots__ = ()


async def let_in(
    handle: Handler,
    listeners: list[trio.SocketListener],
    policy: Policy,
    *,
    message_bytes: int = messages.MAX_MESSAGE_BYTES,
    full: Callable[[], str | None] = lambda: None,
    pages: Mapping[str, Callable[[], str]] | None = None,
    loaded: trio.Event | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
    goodbye_s: float = CLOSE_TIMEOUT_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accepts connections until cancelled, then closes them with 1001.

    Args:
        handle: runs for each connection, with what `security.admission` decided; refused clients
            do not come so far.
        listeners: opened by the caller; closed here.
        policy: who may connect.
        message_bytes: longest message.
        full: why nobody else may connect at the moment, as a sentence, which gets 503.
        pages: plain-text pages (or `Json`) served to GET requests, such as `/metrics`.
        loaded: clients, but those of pages, wait for it, for `LOADING_S` at most. None: they need
            not wait.
        drain: runs when cancelled, before connections are closed, for `DRAIN_TIMEOUT_S` at most;
            nobody else is let in meanwhile.
        goodbye_s: how long it may then take to close all of them.
        task_status: told when connections are accepted.
    """
    pages = pages or {}
    stopping = False
    for listener in listeners:  # the sockets of connections inherit it
        listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        keep_alive(listener.socket)

    async def admit(_: ServerConnection, request: Request) -> Response | None:
        sender = offer(request.headers)
        if request.path in pages:
            refused = security.foreigner(policy, sender)
            if refused is None and policy.exposed:
                refused = security.unauthorized(policy, sender)
            return _refusal(refused) if refused else _plain(HTTPStatus.OK, pages[request.path]())
        decision = security.admission(policy, sender)
        if isinstance(decision, security.Refused):
            return _refusal(decision)
        if loaded is not None and not loaded.is_set():
            with trio.move_on_after(LOADING_S):
                await loaded.wait()
        loading = loaded is not None and not loaded.is_set()
        busy = _STOPPING if stopping else _LOADING if loading else full()
        if busy is not None:
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, busy, {"Retry-After": "1"})
        return None

    async def connection(websocket: ServerConnection) -> None:
        assert websocket.request is not None  # the handshake is over
        try:
            await handle(websocket, security.admission(policy, offer(websocket.request.headers)))
        except Exception as error:  # the library would log its message
            log.error("connection crashed", error=blame(_single(error)))
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
                max_size=message_bytes,
                # A client may stop reading for as long as it likes (it plays what it has), and
                # then answers no pings. Whether it is gone, its system tells us.
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
            stopping = True
            try:
                if drain is not None:
                    with trio.move_on_after(DRAIN_TIMEOUT_S, shield=True):
                        await drain()
            finally:
                with trio.move_on_after(goodbye_s, shield=True):
                    await server.aclose()
                running.cancel()


def offer(headers: Headers) -> Offer:
    """What a request says of who sends it."""
    return Offer(
        hosts=headers.get_all("Host"),
        origins=headers.get_all("Origin"),
        authorizations=headers.get_all("Authorization"),
        subprotocols=headers.get_all("Sec-WebSocket-Protocol"),
    )


def _offered_or_none(_: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    # A client that names no subprotocol is welcome (wscat, a first try by hand).
    return Subprotocol(messages.PROTOCOL) if messages.PROTOCOL in offered else None


def _refusal(refused: security.Refused) -> Response:
    # Not the Origin or the Host: whoever is refused would write into the log.
    log.info("refused", status=refused.status, code=refused.error.code)
    more = {"WWW-Authenticate": "Bearer"} if refused.status == HTTPStatus.UNAUTHORIZED else {}
    return _plain(HTTPStatus(refused.status), refused.error.message, more)


def _plain(status: HTTPStatus, text: str, more: Mapping[str, str] | None = None) -> Response:
    body = text.encode()
    kind = "application/json" if isinstance(text, Json) else "text/plain; charset=utf-8"
    headers = Headers({
        "Content-Type": kind,
        "Content-Length": str(len(body)),
        "Connection": "close",
        **(more or {}),
    })  # fmt: skip
    return Response(status.value, status.phrase, headers, body)


def _single(error: Exception) -> Exception:
    """The exception that a group is about, if it is about one."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
