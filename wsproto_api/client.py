"""The client end of kokoro.v1: a connection, and the engine's `Speak` port over it. Shell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress

import msgspec
import trio
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage
from websockets.trio.client import ClientConnection
from websockets.trio.client import connect as open_websocket
from websockets.typing import Subprotocol

from engine.errors import (
    EngineError,
    InternalError,
    NotReady,
    StreamCancelled,
    from_code,
)
from engine.request import Event, SpeechRequest

from . import messages
from .errors import RemoteProtocolError
from .messages import StreamFrame, Unknown, Vocabulary
from .session import Role, Session

#: how long a loopback connection may take before the other side counts as absent
CONNECT_TIMEOUT_S = 5.0


class Connection:
    """An open connection; use `connect`. Messages go in and out as structs."""

    def __init__(self, websocket: ClientConnection, session: Session, url: str) -> None:
        self._websocket = websocket
        self._session = session
        self._url = url

    async def send(self, message: msgspec.Struct) -> None:
        """Sends a message of the client's vocabulary.

        Do not cancel this while other messages are to follow: a half-written message would break
        the connection.

        Raises:
            NotReady: the connection is gone.
        """
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

    def _lost(self, error: ConnectionClosed) -> EngineError:
        reason = (
            error.rcvd.reason if error.rcvd and error.rcvd.reason else "the connection was lost"
        )
        return NotReady(f"{self._url} closed the connection: {reason}.", retry_after_ms=1000)


@asynccontextmanager
async def connect(
    url: str,
    *,
    client: Vocabulary = messages.ENGINE_CLIENT,
    server: Vocabulary = messages.ENGINE_SERVER,
) -> AsyncIterator[tuple[Connection, msgspec.Struct]]:
    """Opens a connection and yields it with the other side's `ready` message.

    Raises:
        NotReady: nobody answers at `url`, or they refuse.
    """
    session = Session(Role.CLIENT, client=client, server=server)
    opening = open_websocket(
        url,
        subprotocols=[Subprotocol(messages.PROTOCOL)],
        compression=None,
        max_size=messages.MAX_MESSAGE_BYTES,
        proxy=None,  # loopback must not go through a web proxy
        open_timeout=CONNECT_TIMEOUT_S,
        close_timeout=1,
    )
    async with AsyncExitStack() as stack:
        try:
            websocket = await stack.enter_async_context(opening)
        except (OSError, TimeoutError, trio.TooSlowError):
            raise NotReady(
                f"Nothing answers at {url}; start it with `make up` and try again.",
                retry_after_ms=1000,
            ) from None
        except (InvalidHandshake, InvalidMessage) as error:
            raise NotReady(f"{url} refused the connection: {error}.") from None
        connection = Connection(websocket, session, url)
        try:
            ready = await connection.receive()
            if isinstance(ready, messages.Error):
                raise error_of(ready)
            assert not isinstance(ready, StreamFrame)  # the session lets only ready come first
            yield connection, ready
        finally:
            # Closing is a courtesy to the other side: short, and done even when cancelled.
            with trio.move_on_after(1, shield=True):
                await websocket.aclose()


def error_of(message: messages.Error) -> EngineError:
    """The exception that an `error` message stands for."""
    return from_code(
        message.code, message.message, param=message.param, retry_after_ms=message.retry_after_ms
    )


class WebSocketSpeak:
    """`engine.request.Speak` over a WebSocket: one connection per utterance.

    A connection each costs about two milliseconds on loopback and gives every utterance the flow
    control of its own TCP connection: a slow listener holds up nobody else.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest) -> AsyncIterator[AsyncIterator[Event]]:
        """See `Speak`. Leaving before the end cancels the stream in the engine."""
        async with connect(self._url) as (connection, _):
            await connection.send(messages.Speak(**_fields(request), id="speak"))
            stream = await _accepted(connection)
            over = False

            async def events() -> AsyncIterator[Event]:
                nonlocal over
                while True:
                    received = await connection.receive()
                    match received:
                        case StreamFrame(stream=number, frame=frame) if number == stream:
                            yield frame
                        case messages.Error(stream=number) if number in (stream, None):
                            over = True
                            raise error_of(received)
                        case messages.StreamCancelled():
                            over = True
                            raise StreamCancelled("The stream was cancelled.")
                        case messages.StreamDone():
                            over = True
                            yield received
                            return
                        case Event():  # opened, segment, segment.done, warning
                            yield received
                        case _:
                            pass

            try:
                async with aclosing(events()) as iterator:
                    yield iterator
            finally:
                if not over:
                    # NotReady: gone already, and the engine cancels what nobody hears
                    with trio.move_on_after(1, shield=True), suppress(NotReady):
                        await connection.send(messages.Cancel(stream=stream))


async def _accepted(connection: Connection) -> int:
    while True:
        match await connection.receive():
            case messages.Ack(reply_to="speak", stream=int(stream)):
                return stream
            case messages.Error() as error:
                raise error_of(error)
            case _:
                pass


def _fields(request: SpeechRequest) -> dict[str, object]:
    return {name: getattr(request, name) for name in SpeechRequest.__struct_fields__}


async def ask_voices(url: str) -> messages.Voices:
    """The engine's voices.

    Raises:
        NotReady: the engine cannot be reached.
    """
    async with connect(url) as (connection, _):
        await connection.send(messages.AskVoices(id="voices"))
        while True:
            match await connection.receive():
                case messages.Voices() as voices:
                    return voices
                case messages.Error() as error:
                    raise error_of(error)
                case _:
                    pass
