"""The player's commands, for shells and hotkeys: each talks to the player that runs. Shell.

`say -` hands a pipe on while it is written, such as the output of a language model, and is heard
from its first sentence on.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, TypeVar

import msgspec
import trio
import typer

from engine import process
from engine.config import Settings
from engine.errors import Overloaded, UnknownStream
from wsproto_api import discovery, messages
from wsproto_api.client import Connection, connect, error_of
from wsproto_api.messages import StreamFrame

from .items import Mode

M = TypeVar("M", bound=msgspec.Struct)

Request = (
    messages.PlayerSpeak
    | messages.PlayerOpen
    | messages.PlayerAppend
    | messages.PlayerEnd
    | messages.PlayerStop
    | messages.AskStatus
)

app = typer.Typer(add_completion=False, no_args_is_help=False)

#: bytes of a pipe that are taken at once
_PIPE_BYTES = 4096
#: how long stopping may take when somebody pressed Ctrl-C
_STOP_S = 1.0


@dataclass(frozen=True, slots=True)
class Manner:
    """How something is said; None is the player's own choice."""

    voice: str | None = None
    speed: float | None = None
    mode: Mode = "replace"


async def say(settings: Settings, text: str, manner: Manner, *, wait: bool) -> None:
    """Has a text spoken.

    Args:
        settings: where the player is.
        text: what is said.
        manner: and how.
        wait: until it was heard, or stopped.

    Raises:
        EngineError: it is not spoken; a sentence says why.
    """
    async with _player(settings) as player:
        ack = await player.ask(
            messages.PlayerSpeak(
                text=text, id="say", voice=manner.voice, speed=manner.speed, mode=manner.mode
            ),
            messages.PlayerAck,
        )
        if wait and ack.item is not None:
            await player.heard(ack.item)


async def say_pipe(settings: Settings, manner: Manner, pipe: int = 0) -> None:
    """Has what comes out of a pipe spoken, while it comes; returns when it was heard, or stopped.

    Args:
        settings: where the player is.
        manner: how it is said.
        pipe: its file descriptor; UTF-8.

    Raises:
        EngineError: it is not spoken; a sentence says why.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with _player(settings) as player:
        ack = await player.ask(
            messages.PlayerOpen(
                id="open", voice=manner.voice, speed=manner.speed, mode=manner.mode
            ),
            messages.PlayerAck,
        )
        if ack.item is None:
            return  # `toggle` has stopped what was there
        try:
            while data := await trio.to_thread.run_sync(
                os.read, pipe, _PIPE_BYTES, abandon_on_cancel=True
            ):
                await player.append(ack.item, decoder.decode(data))
            await player.append(ack.item, decoder.decode(b"", final=True))
            await player.ask(messages.PlayerEnd(id="end", item=ack.item), messages.PlayerAck)
            await player.heard(ack.item)
        except UnknownStream:
            pass  # somebody stopped it
        except trio.Cancelled:
            with trio.move_on_after(_STOP_S, shield=True):
                await player.ask(messages.PlayerStop(id="stop"), messages.PlayerAck)
            raise


async def stop(settings: Settings) -> None:
    """Silence, and an empty queue; succeeds when nothing plays."""
    async with _player(settings) as player:
        await player.ask(messages.PlayerStop(id="stop"), messages.PlayerAck)


async def status(settings: Settings, form: Literal["text", "json"]) -> None:
    """Prints what the player is doing, as a line or as its message."""
    async with _player(settings) as player:
        state = await player.ask(messages.AskStatus(id="status"), messages.PlayerState)
    if form == "json":
        typer.echo(messages.encode(msgspec.structs.replace(state, reply_to=None)))
        return
    parts: list[str] = [state.state]
    if state.item is not None:
        parts.append(f"item {state.item}")
    if state.queue_len:
        parts.append(f"{state.queue_len} waiting")
    if state.underruns:
        parts.append(f"{state.underruns} underruns")
    parts.append(f"on {state.device}" if state.device else "no sound device")
    typer.echo(", ".join(parts))


class _Player:
    """The player at the other end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._done: dict[int, messages.ItemDone] = {}

    async def ask(self, request: Request, answer: type[M]) -> M:
        """The answer to a request; what else comes meanwhile is looked at."""
        await self._connection.send(request)
        while True:
            received = await self._next()
            if getattr(received, "reply_to", None) != request.id:
                continue
            if isinstance(received, messages.Error):
                raise error_of(received)
            if isinstance(received, answer):
                return received

    async def append(self, item: int, text: str) -> None:
        """More text of an item; waits while the player has too much of it."""
        while text:
            try:
                await self.ask(
                    messages.PlayerAppend(id="append", item=item, text=text), messages.PlayerAck
                )
                return
            except Overloaded as error:
                await trio.sleep((error.retry_after_ms or 1000) / 1000)

    async def heard(self, item: int) -> None:
        """Waits until an item is over.

        Raises:
            EngineError: its stream failed.
        """
        while item not in self._done:
            received = await self._next()
            if isinstance(received, messages.PlayerError) and received.item == item:
                raise error_of(received)

    async def _next(self) -> msgspec.Struct:
        received = await self._connection.receive()
        assert not isinstance(received, StreamFrame)  # players send none
        match received:
            case messages.Warning(message=text):
                typer.echo(text, err=True)
            case messages.ItemDone():
                self._done[received.item] = received
            case _:
                pass
        return received


@asynccontextmanager
async def _player(settings: Settings) -> AsyncIterator[_Player]:
    async with connect(
        settings.player_url,
        token=discovery.token(settings),
        client=messages.PLAYER_CLIENT,
        server=messages.PLAYER_SERVER,
    ) as (connection, _):
        yield _Player(connection)


@app.command("say")
def say_command(
    text: Annotated[list[str], typer.Argument(help="what to say; - reads a pipe as it comes")],
    voice: Annotated[str | None, typer.Option(help="voice or blend")] = None,
    speed: Annotated[float | None, typer.Option(help="0.25 to 4")] = None,
    queue: Annotated[bool, typer.Option("--queue", help="after what is spoken now")] = False,
    toggle: Annotated[
        bool, typer.Option("--toggle", help="stop if something is spoken, else say it")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="until it was heard")] = False,
) -> None:
    """Speak a text, instead of what is spoken now."""
    mode: Mode = "toggle" if toggle else "queue" if queue else "replace"
    manner = Manner(voice, speed, mode)
    if text == ["-"]:
        sys.exit(process.run(partial(say_pipe, manner=manner), {}))
    sys.exit(process.run(partial(say, text=" ".join(text), manner=manner, wait=wait), {}))


@app.command("stop")
def stop_command() -> None:
    """Silence, and forget what waits."""
    sys.exit(process.run(stop, {}))


@app.command("status")
def status_command(
    json: Annotated[bool, typer.Option("--json", help="as the player's message")] = False,
) -> None:
    """Say what the player is doing."""
    sys.exit(process.run(partial(status, form="json" if json else "text"), {}))
