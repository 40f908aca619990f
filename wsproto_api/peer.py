"""The server's end of one connection, for the engine and for the player. Shell.

`serve_peers` accepts connections and checks who comes; `Peer` speaks the protocol on one of them:
it has the token shown, answers malformed messages and those that are too many, so that its user
sees only messages that make sense.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import msgspec
import structlog
import trio
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.trio.server import ServerConnection

from engine.errors import EngineError, Overloaded, Unauthorized

from . import door, messages, security
from .errors import RemoteProtocolError
from .messages import Decoded, Error, StreamFrame, Unknown, Vocabulary, Warning
from .rate import TokenBucket
from .security import Policy
from .session import Phase, Role, Session
from .sockets import CLOSE_TIMEOUT_S

log = structlog.get_logger("wire")

#: how long a client that must send `auth` may take
AUTH_TIMEOUT_S = 2.0

#: answers that a client may leave unread before it is let go
ANSWERS = 256

_FULL = "Too many connections; close one first."


class Peer:
    """One client of a server. Iterate over it for the client's messages; send from any task.

    There are two ways to the socket. `reply` never waits: an answer must not stop the reading of
    what comes next, such as a `cancel`, while the client does not read. `send` waits until the
    socket takes the message, which is the flow control of streams. Answers go first, in their
    order, and so do the messages of each sender.

    Args:
        websocket: open.
        session: the rules.
        policy: who may be here.
        messages_per_s: how many messages the client may send; twice as many in a burst.
    """

    def __init__(
        self, websocket: ServerConnection, session: Session, policy: Policy, messages_per_s: float
    ) -> None:
        self._websocket = websocket
        self._session = session
        self._policy = policy
        self._bucket = TokenBucket(messages_per_s, 2 * messages_per_s, trio.current_time())
        self._answers: deque[msgspec.Struct] = deque()
        # No capacity: whoever sends waits until the socket takes it.
        self._outbox, self._unsent = trio.open_memory_channel[msgspec.Struct | StreamFrame](0)
        self._gone = False
        self._owed: messages.Ack | None = None
        self._talk = trio.CancelScope()
        self._ending: tuple[int, str] | None = None
        self._stuck = False

    @property
    def said_goodbye(self) -> bool:
        """Whether the client closed the connection on purpose; else it may come back."""
        received = self._websocket.protocol.close_rcvd
        return received is not None and received.code in (
            CloseCode.NORMAL_CLOSURE,
            CloseCode.GOING_AWAY,
            CloseCode.NO_STATUS_RCVD,  # `close()` of a browser, without arguments
        )

    def reply(self, message: msgspec.Struct) -> None:
        """Answers, without waiting; nothing happens if the client is gone.

        A client that lets `ANSWERS` of them lie unread is let go.
        """
        if self._ending is None and not self._queue(message, limit=ANSWERS):
            log.warning("a client does not read its answers; it is let go")
            self.end(
                CloseCode.POLICY_VIOLATION,
                Overloaded("Too many answers were not read; read while you send."),
            )

    async def send(self, message: msgspec.Struct | StreamFrame) -> None:
        """Puts a message on the socket; safe to cancel, because one task writes for all."""
        await self._outbox.send(message)

    def end(self, code: int, error: EngineError, reply_to: str | None = None) -> None:
        """Says why, and closes the connection."""
        if self._ending is None:
            self._ending = (code, error.code)
            self._queue(error_message(error, reply_to=reply_to, fatal=True), limit=math.inf)
            self._talk.cancel()

    async def talk(
        self,
        handle: Callable[[Peer], Awaitable[None]],
        decision: security.Decision,
        auth_timeout_s: float,
    ) -> None:
        """Runs `handle` until it returns or is let go, and closes the connection.

        Args:
            handle: what is done with the client's messages.
            decision: of `security.admission`.
            auth_timeout_s: how long the client may take to show the token if it must.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write)
            with self._talk:
                match decision:
                    case security.Ended():
                        self.end(decision.close_code, decision.error)
                    case security.AuthFirst():
                        await self._authenticate(auth_timeout_s)
                    case _:
                        pass
                if self._ending is None:
                    await handle(self)
            self._outbox.close()
            nursery.cancel_scope.deadline = trio.current_time() + CLOSE_TIMEOUT_S
        self._stuck = nursery.cancel_scope.cancelled_caught

    async def close(self) -> None:
        """Says goodbye, if the client reads."""
        code, reason = self._ending or (CloseCode.NORMAL_CLOSURE, "")
        # Behind half a message there is no way to say it.
        with trio.move_on_after(0 if self._stuck else CLOSE_TIMEOUT_S):
            await self._websocket.aclose(code, reason)

    def _queue(self, message: msgspec.Struct, limit: float) -> bool:
        """False if there are too many already."""
        try:
            self._outbox.send_nowait(message)  # the task that writes has nothing to do
        except trio.WouldBlock:
            if len(self._answers) >= limit:
                return False
            if not self._gone:
                self._answers.append(message)
        except trio.ClosedResourceError:
            pass
        return True

    async def _write(self) -> None:
        """Writes what `reply` and `send` are given until there will be no more.

        When the client is gone it is dropped: whoever sends must not wait for a reader that will
        never come, and may still have messages of the client to act on, such as a `cancel`.
        """
        with suppress(trio.EndOfChannel):
            while True:
                while self._answers:
                    await self._put(self._answers.popleft())
                await self._put(await self._unsent.receive())

    async def _put(self, message: msgspec.Struct | StreamFrame) -> None:
        if self._gone or self._session.phase is Phase.CLOSING:
            return
        try:
            await self._websocket.send(self._session.send(message))
        except ConnectionClosed:
            self._gone = True

    async def _authenticate(self, within_s: float) -> None:
        """Waits for `auth`; ends the connection if anything else happens."""
        name, token = None, None
        with trio.move_on_after(within_s) as patience:
            try:
                decoded = self._session.receive(await self._websocket.recv())
            except ConnectionClosed:
                pass
            except RemoteProtocolError as error:
                name = error.reply_to
            else:
                assert isinstance(decoded, Decoded)  # clients do not send frames
                name = getattr(decoded.message, "id", None)
                token = (
                    decoded.message.token if isinstance(decoded.message, messages.Auth) else None
                )
        if patience.cancelled_caught:
            self.end(security.AUTH_TIMEOUT_CLOSE, Unauthorized(security.AUTH_LATE))
        elif token is None:
            self.end(security.UNAUTHORIZED_CLOSE, Unauthorized(security.AUTH_NEEDED), name)
        else:
            self._show(token, name)

    def _show(self, token: str, name: str | None) -> None:
        """Acts on an `auth`."""
        if not self._policy.accepts(token):
            self.end(security.UNAUTHORIZED_CLOSE, Unauthorized(security.TOKEN_WRONG), name)
        elif name is not None:
            self._owed = messages.Ack(reply_to=name)  # after `ready`, which `handle` sends first

    def __aiter__(self) -> Peer:
        return self

    async def __anext__(self) -> msgspec.Struct:
        """The client's next message that makes sense; the end when the client is gone."""
        while self._ending is None:
            if self._owed is not None:
                self.reply(self._owed)
                self._owed = None
            try:
                decoded = self._session.receive(await self._websocket.recv())
            except ConnectionClosed:
                break
            except RemoteProtocolError as error:
                if self._in_time(error.reply_to):
                    self.reply(
                        Error(
                            reply_to=error.reply_to, code=error.code, message=error.message,
                            param=error.param, retryable=False, fatal=False,
                        )
                    )  # fmt: skip
                continue
            assert isinstance(decoded, Decoded)  # clients do not send frames
            if not self._in_time(getattr(decoded.message, "id", None)):
                continue
            if isinstance(decoded.message, Unknown):
                self._not_understood(decoded.message)
                continue
            if decoded.unknown_fields:
                self.reply(
                    Warning(
                        reply_to=getattr(decoded.message, "id", None),
                        code="unknown_field",
                        message=f"Ignored what is not a field: {', '.join(decoded.unknown_fields)}.",
                    )
                )
            if isinstance(decoded.message, messages.Auth):
                self._show(decoded.message.token, decoded.message.id)
                continue
            return decoded.message
        raise StopAsyncIteration

    def _in_time(self, name: str | None) -> bool:
        """Whether a message is acted on; if too many come it is answered here."""
        wait_s = self._bucket.take(trio.current_time())
        if not wait_s:
            return True
        error = Overloaded(
            "Too many messages in a short time; this one was not acted on.",
            retry_after_ms=math.ceil(wait_s * 1000),
        )
        if self._bucket.hopeless:
            self.end(CloseCode.POLICY_VIOLATION, error, name)
        else:
            self.reply(error_message(error, reply_to=name))
        return False

    def _not_understood(self, unknown: Unknown) -> None:
        text = f"Messages of type {unknown.type!r} are not understood."
        self.reply(Warning(reply_to=unknown.id, code="unknown_type", message=text))
        if unknown.id is not None:
            self.reply(
                Error(reply_to=unknown.id, code="bad_message", message=text, param="type",
                      retryable=False, fatal=False)
            )  # fmt: skip


def error_message(
    error: EngineError,
    *,
    reply_to: str | None = None,
    stream: int | None = None,
    fatal: bool = False,
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
        fatal=fatal,
    )


async def serve_peers(
    handle: Callable[[Peer], Awaitable[None]],
    listeners: list[trio.SocketListener],
    *,
    client: Vocabulary,
    server: Vocabulary,
    policy: Policy,
    connections: int,
    messages_per_s: float,
    pages: Mapping[str, Callable[[], str]] | None = None,
    loaded: trio.Event | None = None,
    drain: Callable[[], Awaitable[None]] | None = None,
    auth_timeout_s: float = AUTH_TIMEOUT_S,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accepts connections until cancelled, then closes them with 1001.

    Args:
        handle: runs for each connection, and sends `ready` before it reads; the connection closes
            when it returns.
        listeners: opened by the caller; closed here.
        client: what clients may say.
        server: what we say.
        policy: who may connect.
        connections: how many at once; more get 503.
        messages_per_s: how many messages a connection may send; twice as many in a burst.
        pages: plain-text pages served to GET requests, such as `/metrics`.
        loaded: clients, but those of pages, wait for it; see `door.let_in`.
        drain: runs when cancelled, before connections are closed; see `door.let_in`.
        auth_timeout_s: how long a client that must send `auth` may take.
        task_status: told when connections are accepted.
    """
    open_now = 0

    async def connection(websocket: ServerConnection, decision: security.Decision) -> None:
        nonlocal open_now
        open_now += 1
        session = Session(Role.SERVER, client=client, server=server)
        peer = Peer(websocket, session, policy, messages_per_s)
        try:
            if open_now > connections:  # several came in while none of them was open
                peer.end(CloseCode.TRY_AGAIN_LATER, Overloaded(_FULL, retry_after_ms=1000))
            await peer.talk(handle, decision, auth_timeout_s)
            await peer.close()
        finally:
            open_now -= 1

    await door.let_in(
        connection,
        listeners,
        policy,
        full=lambda: _FULL if open_now >= connections else None,
        pages=pages,
        loaded=loaded,
        drain=drain,
        task_status=task_status,
    )
