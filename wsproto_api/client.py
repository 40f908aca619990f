"""The client end of kokoro.v1: a connection, and single questions. Shell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar

import msgspec
import trio
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import CloseCode
from websockets.trio.client import ClientConnection

from engine.errors import (
    ConfigError,
    EngineError,
    InternalError,
    NotReady,
    TextTooLong,
    Unauthorized,
    from_code,
)

from . import messages, sockets
from .errors import RemoteProtocolError
from .messages import StreamFrame, Unknown, Vocabulary
from .session import Role, Session

A = TypeVar("A", bound=msgspec.Struct)

#: how long a loopback connection may take, up to `ready`, before the other side counts as absent
CONNECT_TIMEOUT_S = 5.0


class Connection:
    """An open connection; use `connect`. Messages go in and out as structs.

    Attributes:
        broken: whether it ended without a goodbye, so that the other side may still be there.
    """

    def __init__(self, websocket: ClientConnection, session: Session, url: str) -> None:
        self._websocket = websocket
        self._session = session
        self._url = url
        self.broken = False

    async def send(self, message: msgspec.Struct) -> None:
        """Sends a message of the client's vocabulary.

        Do not cancel this while other messages are to follow: a half-written message would break
        the connection.

        Raises:
            NotReady: the connection is gone.
            TextTooLong: the message is over what a message may have.
        """
        size = len(messages.encode(message).encode())
        if size > messages.MAX_MESSAGE_BYTES:
            raise TextTooLong(
                f"The text makes a message of {size} bytes; the limit is "
                f"{messages.MAX_MESSAGE_BYTES}.",
                param="text",
            )
        try:
            await self._websocket.send(self._session.send(message))
        except ConnectionClosed as error:
            raise self._lost(error) from None

    async def receive(self) -> msgspec.Struct | StreamFrame:
        """The next message that this version of the protocol knows.

        Raises:
            NotReady: the connection is gone.
            InternalError: the other side broke the protocol.
        """
        while True:
            try:
                received = self._session.receive(await self._websocket.recv())
            except ConnectionClosed as error:
                raise self._lost(error) from None
            except RemoteProtocolError as error:
                raise InternalError(
                    f"{self._url} does not keep to {messages.PROTOCOL}: {error.message}"
                ) from error
            if isinstance(received, StreamFrame):
                return received
            if not isinstance(received.message, Unknown):
                return received.message

    def _lost(self, error: ConnectionClosed) -> NotReady:
        reason = (
            error.rcvd.reason if error.rcvd and error.rcvd.reason else "the connection was lost"
        )
        self.broken = not (error.rcvd or error.sent)
        return NotReady(
            f"{self._url} closed the connection: {reason.rstrip('.')}.", retry_after_ms=1000
        )


@asynccontextmanager
async def connect(
    url: str,
    *,
    token: str,
    client: Vocabulary = messages.ENGINE_CLIENT,
    server: Vocabulary = messages.ENGINE_SERVER,
    limit_s: float = CONNECT_TIMEOUT_S,
) -> AsyncIterator[tuple[Connection, msgspec.Struct]]:
    """Opens a connection and yields it with the other side's `ready` message.

    Args:
        url: of the engine or the player.
        token: what they want to be shown; `discovery.token` has it.
        client: what we may say.
        server: what they may say.
        limit_s: how long it may take, up to `ready`.

    Raises:
        NotReady: nobody answers at `url`, or they refuse.
        Unauthorized: the token is wrong.
        ConfigError: `url` is not the address of a WebSocket.
    """
    deadline_s = trio.current_time() + limit_s
    session = Session(Role.CLIENT, client=client, server=server)
    try:
        opening = sockets.opening(
            url,
            subprotocols=[messages.PROTOCOL],
            headers=Headers({"Authorization": f"Bearer {token}"}),
            message_bytes=messages.MAX_MESSAGE_BYTES,
            limit_s=limit_s,
        )
    except InvalidURI:
        raise ConfigError(
            f"{url!r} is not the address of a WebSocket, which looks like ws://127.0.0.1:8881/."
        ) from None
    async with AsyncExitStack() as stack:
        try:
            websocket = await stack.enter_async_context(opening)
        except TimeoutError:
            raise silent(url) from None
        except OSError:
            raise absent(url) from None
        except (InvalidHandshake, ConnectionClosed) as error:
            if isinstance(error, InvalidStatus) and error.response.status_code == 401:
                raise Unauthorized(f"{url} refused the connection: {_reason(error)}") from None
            raise NotReady(f"{url} refused the connection: {_reason(error)}") from None
        if isinstance(websocket.stream, trio.SocketStream):
            with suppress(OSError):  # it may be closed again
                sockets.keep_alive(websocket.stream.socket)
        connection = Connection(websocket, session, url)
        try:
            ready: msgspec.Struct | None = None
            with trio.move_on_at(deadline_s):
                ready = await _ready(connection)
            if ready is None:
                raise silent(url)
            yield connection, ready
        finally:
            await sockets.close(websocket, CloseCode.NORMAL_CLOSURE)


def absent(url: str) -> NotReady:
    """What somebody is told when nobody listens at `url`."""
    return NotReady(
        f"Nothing answers at {url}; start it with `make up` and try again.", retry_after_ms=1000
    )


def silent(url: str) -> NotReady:
    """What somebody is told when whoever listens at `url` does not answer in time."""
    return NotReady(
        f"{url} does not answer yet; if it was started just now, try again in a few seconds.",
        retry_after_ms=1000,
    )


def _reason(error: InvalidHandshake | ConnectionClosed) -> str:
    if isinstance(error, InvalidStatus):
        response = error.response
        if response.headers.get("Content-Type", "").startswith("text/plain") and response.body:
            return response.body.decode(errors="replace")[:200]  # a sentence, if it is ours
    return f"{error}."


async def _ready(connection: Connection) -> msgspec.Struct:
    ready = await connection.receive()
    if isinstance(ready, messages.Error):
        raise error_of(ready)
    assert not isinstance(ready, StreamFrame)  # the session lets only ready come first
    return ready


def error_of(message: messages.Error) -> EngineError:
    """The exception that an `error` message stands for."""
    return from_code(
        message.code, message.message, param=message.param, retry_after_ms=message.retry_after_ms
    )


async def ask(
    url: str,
    question: messages.Request,
    answer: type[A],
    token: str,
    *,
    limit_s: float = CONNECT_TIMEOUT_S,
    client: Vocabulary = messages.ENGINE_CLIENT,
    server: Vocabulary = messages.ENGINE_SERVER,
) -> A:
    """The answer to a question such as `AskVoices(id="…")`, on a connection of its own.

    Args:
        url: of the engine or the player.
        question: what is asked.
        answer: the message that answers it.
        token: what they want to be shown.
        limit_s: how long all of it may take.
        client: what we may say.
        server: what they may say.

    Raises:
        NotReady: they cannot be reached, or do not answer in time.
        EngineError: they do not answer the question.
    """
    with trio.move_on_after(limit_s):
        opening = connect(url, token=token, client=client, server=server, limit_s=limit_s)
        async with opening as (connection, _):
            await connection.send(question)
            while True:
                match await connection.receive():
                    case answer() as found:
                        return found
                    case messages.Error() as error:
                        raise error_of(error)
                    case _:
                        pass
    raise silent(url)
