"""Plays the server's side of a transcript to whoever connects. Shell.

`script` knows what comes next; here it is waited for and sent. The n-th client gets the n-th
connection of the transcript, and after the last one the first again.
"""

from __future__ import annotations

from contextlib import suppress

import structlog
import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.server import ServerConnection

from engine.errors import EngineError, SetupError, Unauthorized

from . import door, messages, security, sockets
from .errors import RemoteProtocolError
from .peer import AUTH_TIMEOUT_S, error_message
from .script import End, Listen, Say, Script
from .security import AuthFirst, Decision, Ended, Policy
from .transcript import MAX_BINARY_BYTES, Transcript

log = structlog.get_logger("replay")


class Replay:
    """Serves a transcript.

    Args:
        transcript: with at least one connection.
        policy: who may connect.
        fast: whether to say everything as soon as it is its turn.

    Raises:
        SetupError: the transcript has no connections.
    """

    def __init__(self, transcript: Transcript, policy: Policy, *, fast: bool = False) -> None:
        if not transcript.connections:
            raise SetupError("Nobody connected while this transcript was recorded.")
        self._transcript = transcript
        self._policy = policy
        self._fast = fast
        self._came = 0

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled."""
        await door.let_in(
            self._connected,
            listeners,
            self._policy,
            message_bytes=MAX_BINARY_BYTES,
            task_status=task_status,
        )

    async def _connected(self, websocket: ServerConnection, decision: Decision) -> None:
        auth: messages.Auth | None = None
        data: str | bytes = ""
        try:
            match decision:
                case Ended():
                    await _end(websocket, decision.close_code, decision.error)
                    return
                case AuthFirst():
                    found = await self._authenticated(websocket)
                    if found is None:
                        return
                    auth, data = found
                case _:
                    pass
            numbers = self._transcript.connections
            number = numbers[self._came % len(numbers)]
            self._came += 1
            log.info("plays", connection=number)
            now_s = trio.current_time()
            entries, socket = self._transcript.of(number), self._transcript.header.socket
            script = Script(entries, socket, now_s, shown=auth is None)
            if auth is not None and script.wants_auth:
                script.hear(data, now_s)
            elif auth is not None and auth.id is not None:
                script.acknowledge(auth.id)
            await self._play(websocket, script)
        except ConnectionClosed:
            pass  # the client is gone

    async def _play(self, websocket: ServerConnection, script: Script) -> None:
        heard = trio.lowlevel.ParkingLot()
        told = trio.lowlevel.ParkingLot()

        async def listen() -> None:
            try:
                while True:
                    script.hear(await websocket.recv(), trio.current_time())
                    heard.unpark_all()
                    while script.full:
                        await told.park()
            except ConnectionClosed:
                nursery.cancel_scope.cancel()

        async def speak() -> End:
            while True:
                # Others get their turn, however fast this goes.
                await trio.lowlevel.checkpoint()
                match script.step(trio.current_time()):
                    case Say(data, at_s):
                        await self._until(at_s)
                        await websocket.send(data)
                        told.unpark_all()
                    case End() as end:
                        await self._until(end.at_s)
                        return end
                    case Listen():
                        await heard.park()

        end: End | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            with suppress(ConnectionClosed):  # the client is gone
                end = await speak()
            nursery.cancel_scope.cancel()
        if end is not None:  # only now, when nobody else reads
            await sockets.close(websocket, end.code, end.reason)

    async def _until(self, at_s: float) -> None:
        if not self._fast:
            await trio.sleep_until(at_s)

    async def _authenticated(
        self, websocket: ServerConnection
    ) -> tuple[messages.Auth, str | bytes] | None:
        """The first message, which must be `auth`; None if it is not, and the connection over."""
        data: str | bytes | None = None
        with trio.move_on_after(AUTH_TIMEOUT_S):
            data = await websocket.recv()
        if data is None:
            late = Unauthorized(security.AUTH_LATE)
            await _end(websocket, security.AUTH_TIMEOUT_CLOSE, late)
            return None
        message: object = None
        if isinstance(data, str):
            with suppress(RemoteProtocolError):
                message = messages.decode(data, messages.ENGINE_CLIENT).message
        if isinstance(message, messages.Auth) and self._policy.accepts(message.token):
            return message, data
        wrong = isinstance(message, messages.Auth)
        sentence = security.TOKEN_WRONG if wrong else security.AUTH_NEEDED
        await _end(websocket, security.UNAUTHORIZED_CLOSE, Unauthorized(sentence))
        return None


async def _end(websocket: ServerConnection, code: int, error: EngineError) -> None:
    await websocket.send(messages.encode(error_message(error, fatal=True)))
    await sockets.close(websocket, code, error.code)
