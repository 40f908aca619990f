"""The application on hypercorn. Shell.

This is what `hypercorn.trio.serve` does for plain HTTP, less its start-up and shut-down events,
which the application has no use for, and with five differences that need the sockets in hand: an
error is also told in the status line, listeners are opened by the caller, an error in one
connection is not the end of all others, a client that has stopped reading (a paused player) is let
go after a time, and the end comes at once. hypercorn shields every write from cancellation, so it
would hold up the exit for as long as it likes.
"""

from __future__ import annotations

import logging
from typing import Any, cast

import h11
import structlog
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.protocol.h11 import H11Protocol
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ASGIFramework, ConnectionState
from quart_trio import QuartTrio

from engine.errors import blame
from wsproto_api.sockets import STALL_S

from .connection import REASON

log = structlog.get_logger("http")

#: Longer than clients keep an idle connection in their pools (15 s to 60 s), so that it is they
#: who close it: a request that meets a close on its way is a failure to its sender.
KEEP_ALIVE_S = 75

#: Who takes so much in `STALL_S` reads, if slowly: an answer in one piece may take him much longer.
PIECE_BYTES = 64 * 1024


class _Stream(trio.abc.Stream):
    """A connection whose other end must read now and then."""

    def __init__(self, inner: trio.SocketStream) -> None:
        self._inner = inner
        self.socket = inner.socket  # hypercorn looks at it
        self._given_up = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            if not self._given_up:
                with trio.move_on_after(STALL_S) as limit:
                    await self._inner.send_all(view[start : start + PIECE_BYTES])
                self._given_up = limit.cancelled_caught
            # Also the next time: before it is cancelled, the application may come with more.
            if self._given_up:
                raise trio.BrokenResourceError("the client does not read")

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See `trio.abc.ReceiveStream`."""
        return await self._inner.receive_some(max_bytes)

    async def send_eof(self) -> None:
        """See `trio.abc.HalfCloseableStream`; hypercorn ends connections so."""
        await self._inner.send_eof()

    async def aclose(self) -> None:
        """See `trio.abc.AsyncResource`."""
        await self._inner.aclose()


class _Wording(h11.Connection):
    """The server's end of HTTP, with the sentence of an error in the status line.

    There are clients that show nothing else of it, OpenWebUI among them; ASGI has no place for it.
    """

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        """See `h11.Connection`."""
        if isinstance(event, h11.Response):
            words = b"".join(value for name, value in event.headers if name == REASON)
            headers = [header for header in event.headers.raw_items() if header[0] != REASON]
            event = h11.Response(status_code=event.status_code, headers=headers, reason=words)
        return super().send(event)


class _Server(TCPServer):
    """hypercorn's end of a connection."""

    async def _read_data(self) -> None:
        protocol = self.protocol.protocol
        assert isinstance(protocol, H11Protocol)  # what every connection begins with
        protocol.connection = _Wording(
            h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size
        )
        await super()._read_data()


async def serve(
    app: QuartTrio,
    listeners: list[trio.SocketListener],
    *,
    task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serves until cancelled; then connections are closed, also those with an answer on its way.

    Args:
        app: the application.
        listeners: where; closed here.
        task_status: told when connections are accepted.
    """
    config, context = _config(), WorkerContext(None)
    wrapped = ASGIWrapper(cast(ASGIFramework, app))
    streams: set[_Stream] = set()

    async def connection(accepted: trio.SocketStream) -> None:
        stream = _Stream(accepted)
        streams.add(stream)
        try:
            # hypercorn's annotations know only its TLS case
            await _Server(wrapped, config, context, ConnectionState({}), cast(Any, stream))
        except Exception as error:
            log.error("connection crashed", error=blame(error))
        finally:
            streams.discard(stream)

    async with trio.open_nursery() as connections:
        try:
            await trio.serve_listeners(
                connection, listeners, handler_nursery=connections, task_status=task_status
            )
        finally:
            for stream in streams:
                stream.socket.close()  # wakes writes that wait for a reader


def _config() -> Config:
    config = Config()
    config.keep_alive_timeout = KEEP_ALIVE_S
    config.include_server_header = False
    config.accesslog = None
    # The process's logging decides what of it is shown: errors only.
    config.errorlog = logging.getLogger("hypercorn.error")
    return config
