"""The player that runs, as its commands see it: a connection, requests and their answers. Shell."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec
import trio

from engine.errors import InvalidRequest, NotReady, Overloaded
from wsproto_api import messages
from wsproto_api.client import Connection, connect, error_of
from wsproto_api.discovery import Found
from wsproto_api.messages import StreamFrame

M = TypeVar("M", bound=msgspec.Struct)

Request = messages.Request | messages.PlayerSpeak | messages.PlayerOpen

#: a person waits, and it is this machine
CONNECT_S = 0.5
#: longer than the player itself waits for the engine
ANSWER_S = 15.0
#: Requests are asked one after the other, so they need no other name.
_NAME = "command"


class RemotePlayer:
    """The player at the other end; use `player`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._done: set[int] = set()

    def __aiter__(self) -> AsyncIterator[msgspec.Struct]:
        return self

    async def __anext__(self) -> msgspec.Struct:
        """What the player says next; warnings are shown.

        Raises:
            EngineError: the connection is lost.
        """
        received = await self._connection.receive()
        assert not isinstance(received, StreamFrame)  # players send none
        match received:
            case messages.Warning(message=text):
                sys.stderr.write(f"{text}\n")
            case messages.ItemDone():
                self._done.add(received.item)
            case _:
                pass
        return received

    async def send(self, request: Request) -> None:
        """Says something; waits for no answer.

        Raises:
            EngineError: it cannot be said.
        """
        try:
            await self._connection.send(request)
        except UnicodeEncodeError:  # of bytes that a shell passed on
            raise InvalidRequest("What was typed is not UTF-8.") from None

    async def ask(self, request: Request, answer: type[M]) -> M:
        """The answer to a request; what else comes meanwhile is looked at.

        Raises:
            EngineError: it is refused, or not answered.
        """
        with trio.move_on_after(ANSWER_S):
            await self.send(msgspec.structs.replace(request, id=_NAME))
            async for received in self:
                if getattr(received, "reply_to", None) != _NAME:
                    continue
                if isinstance(received, messages.Error):
                    raise error_of(received)
                if isinstance(received, answer):
                    return received
        raise NotReady("The player does not answer; its log may say why.", retry_after_ms=1000)

    async def do(self, request: Request) -> int | None:
        """Has something done; gives the number of what will be spoken for it, if anything will.

        Raises:
            EngineError: it is not done.
        """
        return (await self.ask(request, messages.PlayerAck)).item

    async def state(self) -> messages.PlayerState:
        """What it is doing."""
        state = await self.ask(messages.AskStatus(), messages.PlayerState)
        return msgspec.structs.replace(state, reply_to=None)

    async def append(self, item: int, text: str) -> None:
        """More text of an item; waits while the player has too much of it."""
        while text:
            try:
                await self.do(messages.PlayerAppend(item=item, text=text))
                return
            except Overloaded as error:
                await trio.sleep((error.retry_after_ms or 1000) / 1000)

    async def heard(self, item: int) -> None:
        """Waits until an item is over.

        Raises:
            EngineError: its stream failed.
        """
        while item not in self._done:
            received = await anext(self)
            if isinstance(received, messages.PlayerError) and received.item == item:
                raise error_of(received)


@asynccontextmanager
async def player(found: Found) -> AsyncIterator[RemotePlayer]:
    """The player that runs.

    Raises:
        EngineError: there is none, or it lets nobody in; a sentence says what to do.
    """
    async with connect(
        found.url,
        token=found.token,
        client=messages.PLAYER_CLIENT,
        server=messages.PLAYER_SERVER,
        limit_s=CONNECT_S,
    ) as (connection, _):
        yield RemotePlayer(connection)
