"""A session with everything in it, an engine for it, and programs that record and replay.

`python -m tests.wsproto_api.recording` records `tests/data/session.jsonl` anew, which is needed only
when messages of the protocol change; its text is ours and is kept.
"""

from __future__ import annotations

import io
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import trio
from typing_extensions import Buffer
from websockets.trio.client import connect as open_websocket
from websockets.typing import Subprotocol

from engine import config
from engine.config import Settings
from engine.process import address, open_listeners
from tests.support.access import TOKEN
from tests.wsproto_api.serving import PATIENCE_S, Wire, serving
from wsproto_api import messages, security, transcript
from wsproto_api.record import Proxy, Tape
from wsproto_api.replay import Replay
from wsproto_api.transcript import Entry, Recorder, Socket, Transcript

FILE = Path(__file__).parent.parent / "data" / "session.jsonl"

TEXT = "One two. Three!"
#: so that words are short: this is kept in the repository
SPEED = 4.0


@asynccontextmanager
async def joined(
    url: str, *, token: str | None = TOKEN, origin: str | None = None, queue: int | None = None
) -> AsyncIterator[Wire]:
    """A client that says goodbye at the end."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    if origin is not None:
        headers["Origin"] = origin
    async with open_websocket(
        url,
        subprotocols=[Subprotocol(messages.PROTOCOL)],
        additional_headers=headers,
        compression=None,
        proxy=None,
        max_queue=queue,
        ping_interval=None,
    ) as websocket:
        yield Wire(websocket)


async def perform(url: str) -> None:
    """Speaks with marks, speaks in pieces and cancels; a second client listens to it all.

    It is always known what comes next: nothing is said while the other side may be about to speak.
    """
    async with joined(url) as speaker:
        await speaker.until("ready")
        async with joined(url) as listener:
            await listener.until("ready")
            assert (await listener.ask("subscribe", stream="*"))["type"] == "ack"

            await speaker.send("speak", id="a", text=TEXT, marks=True, speed=SPEED, key="first")
            await speaker.until("stream.done", stream=1)
            assert speaker.messages("ack", reply_to="a", stream=1)
            await listener.until("stream.done", stream=1)

            await speaker.send("open", id="b", speed=SPEED, unheard_of=[1, {"more": "of it"}])
            await speaker.until("stream.opened", stream=2)
            assert speaker.messages("ack", reply_to="b", stream=2)
            await speaker.send("append", id="c", stream=2, text="Four, fi")
            await speaker.until("ack", reply_to="c")
            await speaker.send("append", id="d", stream=2, text="ve.")
            await speaker.until("ack", reply_to="d")
            await speaker.send("flush", id="e", stream=2, flush_id="here")
            await speaker.until("flushed", stream=2)
            assert speaker.messages("ack", reply_to="e")
            await listener.until("flushed", stream=2)
            await speaker.send("cancel", id="f", stream=2, played_samples=2400)
            await speaker.until("stream.cancelled", stream=2)
            if not speaker.messages("ack", reply_to="f"):
                await speaker.until("ack", reply_to="f")
            await listener.until("stream.cancelled", stream=2)
        await speaker.send_raw('{"type": "dance", "id": "g"}')
        await speaker.until("error", reply_to="g")


class Memory(io.RawIOBase):
    """A file that takes little at a time, as a system may."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: Buffer, /) -> int:
        piece = memoryview(data)[:1000]
        self.data += piece
        return len(piece)


class Recorded:
    """What a proxy wrote so far.

    Attributes:
        url: where the proxy is.
    """

    def __init__(self, url: str, file: Memory) -> None:
        self.url = url
        self._file = file

    @property
    def text(self) -> str:
        return bytes(self._file.data).decode()

    def read(self) -> Transcript:
        return transcript.read(self.text.encode())


@asynccontextmanager
async def recording(
    server: str,
    settings: Settings,
    *,
    socket: Socket = "engine",
    text: bool = True,
    audio: bool = True,
) -> AsyncIterator[Recorded]:
    """A proxy before a server."""
    listeners = await open_listeners("127.0.0.1", 0)
    file = Memory()
    tape = Tape(file, Recorder(transcript.header(socket, text=text, audio=audio)))
    proxy = Proxy(tape, server, _policy(settings, listeners, socket))
    async with trio.open_nursery() as nursery:
        await nursery.start(proxy.serve, listeners)
        with trio.fail_after(PATIENCE_S):
            yield Recorded(address("ws", listeners) + "/", file)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def replaying(
    what: Transcript, settings: Settings, *, fast: bool = True, patience_s: float = PATIENCE_S
) -> AsyncIterator[str]:
    """A server that plays a transcript; gives the URL."""
    listeners = await open_listeners("127.0.0.1", 0)
    server = Replay(what, _policy(settings, listeners, what.header.socket), fast=fast)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        with trio.fail_after(patience_s):
            yield address("ws", listeners) + "/"
        nursery.cancel_scope.cancel()


def _policy(
    settings: Settings, listeners: list[trio.SocketListener], socket: Socket
) -> security.Policy:
    port = listeners[0].socket.getsockname()[1]
    return security.policy(settings, port=port, token=TOKEN, pages_need_token=socket == "player")


def timeless(what: Transcript) -> dict[int, list[Entry]]:
    """What passed on each connection, in order, without when."""
    return {
        number: [msgspec.structs.replace(entry, ms=0.0) for entry in what.of(number)]
        for number in what.connections
    }


async def _record_anew(settings: Settings) -> None:
    with trio.fail_after(PATIENCE_S):
        async with serving(settings) as served:
            async with recording(served.url, settings) as recorded:
                await perform(recorded.url)
            FILE.write_text(recorded.text)  # only now are the ends in it


if __name__ == "__main__":
    trio.run(partial(_record_anew, config.load(environ={}).settings))
    print(f"{FILE.stat().st_size} bytes", file=sys.stderr)
