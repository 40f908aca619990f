"""The connections of `websockets.trio`, with four of its faults mended. Shell.

They are there in websockets 17.4. Pass the classes as `create_connection`; whoever opens a
`ClientSocket` must see to it that `close_stream` is called at last, even when cancelled.
"""

from __future__ import annotations

import socket

import trio
from websockets.protocol import State
from websockets.trio.client import ClientConnection
from websockets.trio.connection import Connection
from websockets.trio.server import ServerConnection

#: seconds, and how often: so soon it is noticed that another machine was switched off
_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}


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
