"""The connections of `websockets.trio`, how they are opened and closed, and four faults mended. Shell.

They are there in websockets 17.4. Pass the classes as `create_connection`; whoever opens a
`ClientSocket` must see to it that `close_stream` is called at last, even when cancelled.
"""

from __future__ import annotations

import socket
from contextlib import suppress

import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import EXTERNAL_CLOSE_CODES, CloseCode
from websockets.protocol import State
from websockets.trio.client import ClientConnection, connect
from websockets.trio.connection import Connection
from websockets.trio.server import ServerConnection
from websockets.typing import Subprotocol

#: how long a socket may take to say goodbye
CLOSE_TIMEOUT_S = 1.0

#: what a close frame has room for
_REASON_BYTES = 123

#: seconds, and how often: so soon it is noticed that another machine was switched off
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}

#: A client that takes nothing of what is sent to it for so long has gone, whatever its connection
#: looks like; what it holds in the engine is for somebody else.
STALL_S = 60.0


def keep_alive(connection: trio.socket.SocketType) -> None:
    """Has the system look whether the other end is still there; listeners hand it down."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Mended(Connection):
    async def send_data(self) -> None:
        # The task that reads calls this after each read, for pongs it may have to send, and waits
        # for the lock. While somebody else waits for the other end to read, nothing would be
        # received: neither `cancel` nor the end of the connection.
        if not self.protocol.writes:
            return
        try:
            await super().send_data()
        except trio.ClosedResourceError:
            # We closed it with something unsent, to somebody who did not read. The task that reads
            # would log that as an error of its own, and the log would keep all that it is about.
            if self.protocol.state is not State.CLOSED:
                raise

    async def close_stream(self) -> None:
        # The task that reads sleeps while more than 16 messages are unread. Nothing wakes it when
        # the connection is closed, and leaving the connection waits for it for ever.
        try:
            await super().close_stream()
        finally:
            if self.recv_flow_control is not None:
                self.recv_flow_control.set()


class ServerSocket(_Mended, ServerConnection):
    """The server's end."""


class ClientSocket(_Mended, ClientConnection):
    """The client's end."""

    async def recv_events(self) -> None:
        """Reads until the stream is closed, and not until somebody is cancelled.

        This task lives in the scope of whoever opened the connection. When they are cancelled it
        would close the stream before they can say goodbye, shielded or not.
        """
        with trio.CancelScope(shield=True):
            await super().recv_events()


def opening(
    url: str, *, subprotocols: list[str], headers: Headers, message_bytes: int, limit_s: float
) -> connect:
    """A connection to a server of kokoro.v1, to be entered; see `ClientSocket`.

    Args:
        url: of the server.
        subprotocols: that are offered; none is fine.
        headers: that are sent too.
        message_bytes: longest message that is taken.
        limit_s: how long opening it may take.

    Raises:
        InvalidURI: `url` is not the address of a WebSocket.
    """
    return connect(
        url,
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        additional_headers=headers,
        compression=None,
        max_size=message_bytes,
        proxy=None,  # loopback must not go through a web proxy
        open_timeout=limit_s,
        ping_interval=None,  # for the reason given in `door`
        close_timeout=CLOSE_TIMEOUT_S,
        create_connection=ClientSocket,
    )


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


async def _discard(websocket: Connection) -> None:
    # The answer to our goodbye comes behind whatever was not read.
    with suppress(ConnectionClosed):
        while True:
            await websocket.recv()


def _short(reason: str) -> str:
    return reason.encode()[:_REASON_BYTES].decode(errors="ignore")
