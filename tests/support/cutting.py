"""A network that breaks: a TCP proxy between a WebSocket client and its server.

It passes on what it gets, byte by byte, until it is told to `cut`, to `hold` or to `refuse`. A cut
ends the TCP connections without a word of WebSocket; `cut_after` makes it at a place: behind a
message, or in the middle of the next one.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import trio

#: to the client, or to the server
Way = Literal["down", "up"]


class Place(NamedTuple):
    """Where to cut.

    Attributes:
        way: of what is counted.
        messages: that still pass; the handshake is none, `ready` is the first one down.
        more_bytes: of the message behind them that still pass.
    """

    way: Way
    messages: int
    more_bytes: int = 0


class MessageEnds:
    """Finds where messages end in the bytes of one direction of a WebSocket. Core."""

    def __init__(self) -> None:
        self._head: bytearray = bytearray()  # of the HTTP handshake, or of a frame
        self._body = 0  # bytes that are missing to the end of the frame
        self._counts = False  # whether the frame ends a message
        self._open = False  # whether the handshake is over

    def feed(self, data: bytes) -> tuple[int, list[int]]:
        """Takes the next bytes.

        Returns:
            How many of them are handshake, and the places right behind messages.
        """
        handshake, ends = 0, []
        at = 0
        while at < len(data):
            if self._body:
                step = min(self._body, len(data) - at)
                self._body -= step
                at += step
            else:
                self._head.append(data[at])
                at += 1
                if not self._open:
                    handshake = at
                    if self._head.endswith(b"\r\n\r\n"):
                        self._open = True
                        self._head.clear()
                    continue
                length = _frame_length(self._head)
                if length is None:
                    continue
                # Control frames are none of ours, and an unfinished message is one with the next.
                self._counts = bool(self._head[0] & 0x80) and self._head[0] & 0x0F < 8
                self._body = length
                self._head.clear()
            if self._open and not self._body and not self._head and self._counts:
                ends.append(at)
                self._counts = False
        return handshake, ends


def _frame_length(head: bytearray) -> int | None:
    """Length of a frame's body, when its head is complete (RFC 6455, 5.2)."""
    if len(head) < 2:
        return None
    short, mask = head[1] & 0x7F, 4 if head[1] & 0x80 else 0
    extra = {126: 2, 127: 8}.get(short, 0)
    if len(head) < 2 + extra + mask:
        return None
    return int.from_bytes(head[2 : 2 + extra], "big") if extra else short


@dataclass(slots=True, eq=False)
class _Link:
    client: trio.SocketStream
    server: trio.SocketStream

    def close(self, *, reset: bool) -> None:
        for stream in (self.client, self.server):
            raw = stream.socket
            with suppress(OSError):
                if reset:
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:  # what was sent so far arrives, though we have not read everything
                    raw.shutdown(socket.SHUT_RDWR)
            raw.close()


@dataclass(slots=True, eq=False)
class Cutting:
    """The proxy. Made by `cutting`.

    Attributes:
        port: where it listens.
        to_port: where the server is; may be changed.
        came: connections so far, those that were refused included.
        passed: messages so far.
        cuts: how often it was cut.
    """

    port: int
    to_port: int
    came: int = 0
    passed: dict[Way, int] = field(default_factory=lambda: {"down": 0, "up": 0})
    cuts: int = 0
    _refuses: bool = False
    _links: set[_Link] = field(default_factory=set)
    _places: deque[Place] = field(default_factory=deque)
    _flows: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._flows.set()

    @property
    def url(self) -> str:
        """What a client takes for the server's address."""
        return f"ws://127.0.0.1:{self.port}/"

    @property
    def links(self) -> int:
        """Connections that are open."""
        return len(self._links)

    def cut(self, *, reset: bool = False) -> None:
        """Ends all connections, both ways, at once.

        Args:
            reset: by a TCP reset, which takes back what was not read.
        """
        self.cuts += 1
        for link in list(self._links):
            link.close(reset=reset)
        self._links.clear()

    def cut_after(self, *places: Place) -> None:
        """Cuts there; the next place is counted from the cut at the one before."""
        self._places.extend(places)

    def cut_nowhere(self) -> None:
        """Forgets the places that were not reached."""
        self._places.clear()

    def refuse(self) -> None:
        """Lets nobody else in."""
        self._refuses = True

    def accept(self) -> None:
        """Lets people in again."""
        self._refuses = False

    def hold(self) -> None:
        """Passes nothing on, until `go_on`."""
        self._flows = trio.Event()

    def go_on(self) -> None:
        """Passes on what it held."""
        self._flows.set()

    async def _connected(self, client: trio.SocketStream) -> None:
        self.came += 1
        if self._refuses:
            await trio.aclose_forcefully(client)
            return
        try:
            server = await trio.open_tcp_stream("127.0.0.1", self.to_port)
        except OSError:  # nobody is there
            await trio.aclose_forcefully(client)
            return
        link = _Link(client, server)
        self._links.add(link)
        if self._refuses:  # meanwhile
            self._links.discard(link)
            link.close(reset=False)
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._pass, link, "down", nursery.cancel_scope)
            nursery.start_soon(self._pass, link, "up", nursery.cancel_scope)
        self._links.discard(link)
        link.close(reset=False)

    async def _pass(self, link: _Link, way: Way, both: trio.CancelScope) -> None:
        source, sink = (link.server, link.client) if way == "down" else (link.client, link.server)
        ends = MessageEnds()
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while data := await source.receive_some():
                await self._flows.wait()
                allowed = self._allowed(way, ends, data)
                await sink.send_all(data[:allowed])
                if allowed < len(data) or self._is_at(way):
                    self._places.popleft()
                    self.cut()
        both.cancel()

    def _is_at(self, way: Way) -> bool:
        return bool(self._places) and self._places[0] == Place(way, 0, 0)

    def _allowed(self, way: Way, ends: MessageEnds, data: bytes) -> int:
        """How much may pass before the next cut; counts down to it."""
        handshake, behind = ends.feed(data)
        place = self._places[0] if self._places else None
        if place is None or place.way != way:
            self.passed[way] += len(behind)
            return len(data)
        passing = behind[: place.messages]
        self.passed[way] += len(passing)
        left = place.messages - len(passing)
        if left or handshake == len(data):  # in the handshake nothing is counted
            self._places[0] = place._replace(messages=left)
            return len(data)
        begins = passing[-1] if passing else handshake
        allowed = min(len(data), begins + place.more_bytes)
        self._places[0] = Place(way, 0, place.more_bytes - (allowed - begins))
        return allowed


@asynccontextmanager
async def cutting(to_port: int = 0) -> AsyncIterator[Cutting]:
    """Runs a proxy to a server on this port of loopback, which may be told later."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        proxy = Cutting(listeners[0].socket.getsockname()[1], to_port)
        nursery.start_soon(trio.serve_listeners, proxy._connected, listeners)
        yield proxy
        nursery.cancel_scope.cancel()
