"""`python -m wsproto_api.record`: records a session, plays it again, or shows it. Shell.

To record, it stands between the clients and the engine (or the player) and writes down what passes.
It says nothing by itself and changes nothing: credentials of the clients go on to the engine, which
judges them; ends are passed on with their code. What it has read is on its way before it reads the
next, so a side that reads slowly slows the other one down.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from io import RawIOBase
from pathlib import Path
from typing import Annotated, NoReturn

import structlog
import trio
import typer
from rich.console import Console
from rich.text import Text
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import CloseCode
from websockets.trio.client import connect
from websockets.trio.connection import Connection
from websockets.trio.server import ServerConnection
from websockets.uri import parse_uri

from engine import process
from engine.config import Settings
from engine.errors import ConfigError, SetupError

from . import discovery, door, review, security, sockets, transcript
from .client import CONNECT_TIMEOUT_S
from .replay import Replay
from .security import Decision, Policy
from .sockets import CLOSE_TIMEOUT_S, close
from .transcript import MAX_BINARY_BYTES, Recorder, Side, Socket

log = structlog.get_logger("record")

#: how far from the port of the recorded server ours is, unless it is told
PORT_DISTANCE = 10

MAX_PORT = 65535

_OTHER: dict[Side, Side] = {"client": "server", "server": "client"}


class Tape:
    """A transcript that is being written; a line is in the file before its message goes on.

    Args:
        file: empty, and without a buffer.
        recorder: how to record.
    """

    def __init__(self, file: RawIOBase, recorder: Recorder) -> None:
        self.recorder = recorder
        self._file = file
        self._failure: SetupError | None = None
        self._failed = trio.Event()
        self._write(recorder.first_line())

    def opened(self) -> int:
        """A client came; the number of its connection."""
        number, line = self.recorder.opened(trio.current_time())
        self._write(line)
        return number

    def passed(self, connection: int, sender: Side, data: str | bytes) -> None:
        """A message passed."""
        self._write(self.recorder.passed(connection, sender, data, trio.current_time()))

    def closed(self, connection: int, sender: Side, code: int, reason: str) -> None:
        """A connection ended."""
        self._write(self.recorder.closed(connection, sender, code, reason, trio.current_time()))

    async def watch(self) -> NoReturn:
        """Waits until something cannot be written.

        Raises:
            SetupError: it says why.
        """
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure

    def _write(self, line: str) -> None:
        if self._failure is not None:
            return
        # Not in a thread: the system takes a line in microseconds and writes it when it likes.
        data = memoryview(line.encode())
        try:
            while data:
                data = data[self._file.write(data) or 0 :]
        except OSError as error:
            self._failure = SetupError(
                f"The transcript cannot be written any further: {error.strerror}."
            )
            self._failed.set()


class Proxy:
    """Stands before a server.

    Args:
        tape: what passes is written there.
        url: of the server.
        policy: who may connect.
    """

    def __init__(self, tape: Tape, url: str, policy: Policy) -> None:
        self._tape = tape
        self._url = url
        self._policy = policy

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled.

        Raises:
            SetupError: the transcript cannot be written any further.
        """
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._tape.watch)
            await door.let_in(
                self._connected,
                listeners,
                self._policy,
                message_bytes=MAX_BINARY_BYTES,
                goodbye_s=2 * CLOSE_TIMEOUT_S,  # of both ends
                task_status=task_status,
            )

    async def _connected(self, client: ServerConnection, _: Decision) -> None:
        # Whoever must show a token yet, or showed a wrong one, is the server's to judge.
        number = self._tape.opened()
        assert client.request is not None  # the handshake is over
        async with AsyncExitStack() as stack:
            opening = _opening(self._url, client.request.headers)
            try:
                server = await stack.enter_async_context(opening)
            except (OSError, InvalidHandshake, ConnectionClosed) as error:
                code, reason = _absence(self._url, error)
                log.warning("no server", reason=reason)
                self._tape.closed(number, "server", code, reason)
                await close(client, code, reason)
                return
            try:
                await self._carry(client, server, number)
            finally:
                await close(server, CloseCode.GOING_AWAY)

    async def _carry(self, client: Connection, server: Connection, number: int) -> None:
        """Both ways until one side ends; then ends the other in the same way."""
        ends: list[tuple[Side, ConnectionClosed]] = []

        async def one_way(source: Connection, target: Connection, sender: Side) -> None:
            try:
                await self._pass_on(source, target, sender, number)
            except ConnectionClosed as error:
                ends.append((sender, error))
                nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one_way, client, server, "client")
            nursery.start_soon(one_way, server, client, "server")
        sender, error = ends[0]
        ended_by, code, reason = _end(sender, error)
        if ended_by is not None:
            self._tape.closed(number, ended_by, code, reason)
        for connection in (server, client):
            await close(connection, code, reason)

    async def _pass_on(
        self, source: Connection, target: Connection, sender: Side, number: int
    ) -> NoReturn:
        """One way, until the source ends.

        When the target is gone, what still comes is dropped. The end of the target comes from its
        own side, behind what it said before.
        """
        gone = False
        while True:
            data = await source.recv()
            if gone:
                continue
            # Before it is sent: else the answer could come first.
            self._tape.passed(number, sender, data)
            try:
                await target.send(data)
            except ConnectionClosed:
                gone = True


def _opening(url: str, headers: Headers) -> connect:
    """The connection to the server, with what the client said of itself."""
    said = door.offer(headers)
    names = [part.strip() for value in said.subprotocols for part in value.split(",")]
    passed_on = Headers()
    for name, values in (("Authorization", said.authorizations), ("Origin", said.origins)):
        for value in values:
            passed_on[name] = value
    return sockets.opening(
        url,
        subprotocols=names,
        headers=passed_on,
        message_bytes=MAX_BINARY_BYTES,
        limit_s=CONNECT_TIMEOUT_S,
    )


def _absence(url: str, error: Exception) -> tuple[int, str]:
    """Close code and reason for a client whose server is not there, or does not want it."""
    if not isinstance(error, InvalidStatus):
        return CloseCode.TRY_AGAIN_LATER, f"Nothing answers at {url}."
    status, body = error.response.status_code, error.response.body or b""
    busy = status >= HTTPStatus.INTERNAL_SERVER_ERROR
    told = body.decode(errors="replace") or f"{url} refused the connection."
    return CloseCode.TRY_AGAIN_LATER if busy else CloseCode.POLICY_VIOLATION, told


def _end(sender: Side, error: ConnectionClosed) -> tuple[Side | None, int, str]:
    """Who ended a connection on which `sender` sent, and how; None if we did, to stop."""
    if error.rcvd is not None and error.rcvd_then_sent is not False:
        return sender, error.rcvd.code, error.rcvd.reason
    if error.sent is None:
        return sender, CloseCode.ABNORMAL_CLOSURE, ""
    if error.sent.code == CloseCode.GOING_AWAY:
        return None, error.sent.code, error.sent.reason
    # What came was no WebSocket, or far too long, and was answered as the other side would have.
    return _OTHER[sender], error.sent.code, error.sent.reason


# --- the commands -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recording:
    """What is to be recorded, and how.

    Attributes:
        url: of the server; None is the one that the settings name.
        port: where to listen; None is `PORT_DISTANCE` above the server's.
        socket: who the server is.
        text: whether to keep what is spoken.
        audio: whether to keep samples.
        force: whether to replace a file that is there.
    """

    url: str | None = None
    port: int | None = None
    socket: Socket = "engine"
    text: bool = False
    audio: bool = True
    force: bool = False


async def record(settings: Settings, path: Path, how: Recording) -> None:
    """Records until cancelled, and then says how much."""
    url = _url(settings, how)
    listeners, policy = await _listen(settings, how.port, how.socket)
    recorder = Recorder(transcript.header(how.socket, text=how.text, audio=how.audio))
    began_s: float | None = None
    try:
        with _new_file(path, force=how.force) as file:
            proxy = Proxy(Tape(file, recorder), url, policy)
            async with trio.open_nursery() as nursery:
                await nursery.start(proxy.serve, listeners)
                log.info("ready", address=process.address("ws", listeners), server=url)
                began_s = trio.current_time()
    finally:
        for listener in listeners:
            listener.socket.close()
        if began_s is not None:
            seconds = trio.current_time() - began_s
            _say(f"{recorder.count} messages in {seconds:.1f} s were recorded in {path}.")


async def replay(settings: Settings, path: Path, *, port: int | None, fast: bool) -> None:
    """Serves a transcript until cancelled."""
    found = _read(path)
    listeners, policy = await _listen(settings, port, found.header.socket)
    try:
        server = Replay(found, policy, fast=fast)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, listeners)
            log.info(
                "ready",
                address=process.address("ws", listeners),
                connections=len(found.connections),
            )
    finally:
        for listener in listeners:
            listener.socket.close()


async def show(settings: Settings, path: Path) -> None:
    """Prints a transcript, and what is wrong in it.

    Raises:
        SetupError: something is.
    """
    found = _read(path)
    console = Console()
    for line in review.shown(found):
        console.print(Text(line), soft_wrap=True)
    faults = review.faults(found)
    for fault in faults:
        _say(f"{path}, {fault}")
    if faults:
        number = "one place" if len(faults) == 1 else f"{len(faults)} places"
        raise SetupError(f"The protocol was broken in {number}.")


def _url(settings: Settings, how: Recording) -> str:
    if how.url is None:
        engine = settings.engine_url
        if how.socket == "engine":
            return engine
        return engine.replace(f":{settings.engine_port}/", f":{settings.player_port}/")
    try:
        parse_uri(how.url)
    except InvalidURI:
        raise ConfigError(
            f"{how.url!r} is not the address of a WebSocket, which looks like "
            f"{settings.engine_url}."
        ) from None
    return how.url


async def _listen(
    settings: Settings, port: int | None, socket: Socket
) -> tuple[list[trio.SocketListener], Policy]:
    """Listens on loopback, whoever else the server itself may listen to."""
    local = settings.model_copy(update={"host": "127.0.0.1"})
    if port is None:
        port = PORT_DISTANCE + (
            settings.engine_port if socket == "engine" else settings.player_port
        )
        if port > MAX_PORT:
            raise ConfigError(f"There is no port {port}; choose one with --port.")
    token = discovery.token(settings)
    listeners = await process.open_listeners(local.host, port)
    policy = security.policy(
        local,
        port=listeners[0].socket.getsockname()[1],
        token=token,
        pages_need_token=socket == "player",
    )
    return listeners, policy


@contextmanager
def _new_file(path: Path, *, force: bool) -> Iterator[RawIOBase]:
    """A file that only its owner can read: what is spoken is nobody else's business."""
    # What stood there is removed, not emptied: others may have been allowed to read it.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        if force:
            path.unlink(missing_ok=True)
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise ConfigError(f"{path} exists; --force replaces it.") from None
    except OSError as error:
        raise SetupError(f"{path} cannot be written: {error.strerror}.") from None
    with open(descriptor, "wb", buffering=0) as file:
        yield file


def _read(path: Path) -> transcript.Transcript:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error.strerror}.") from None
    return transcript.read(data, str(path))


def _say(sentence: str) -> None:
    typer.echo(sentence, err=True)


def main(
    file: Annotated[Path, typer.Argument(help="the transcript")],
    play: Annotated[bool, typer.Option("--replay", help="play the server's side of FILE")] = False,
    look: Annotated[
        bool, typer.Option("--show", help="print FILE, and what is wrong in it")
    ] = False,
    port: Annotated[
        int | None,
        typer.Option(min=0, max=MAX_PORT, help="where to listen; default: 10 above the server's"),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--engine", help="the server to record; default: the engine")
    ] = None,
    player: Annotated[bool, typer.Option("--player", help="record the player instead")] = False,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="write down what is spoken, too")
    ] = False,
    audio: Annotated[bool, typer.Option(help="write down samples, or only their hash")] = True,
    force: Annotated[bool, typer.Option("--force", help="replace FILE")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="replay without waiting")] = False,
) -> None:
    """Records what passes between clients and the engine; clients connect here instead of there."""
    run: Callable[[Settings], Awaitable[None]]
    if look:
        run = partial(show, path=file)
    elif play:
        run = partial(replay, path=file, port=port, fast=fast)
    else:
        how = Recording(
            url=url,
            port=port,
            socket="player" if player else "engine",
            text=keep_text,
            audio=audio,
            force=force,
        )
        run = partial(record, path=file, how=how)
    sys.exit(process.run(run))


if __name__ == "__main__":
    typer.run(main)
