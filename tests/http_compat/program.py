"""`python -m http_compat` as a process, and an engine with a fake voice for it to ask."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import trio

from engine.config import Settings
from engine.process import open_listeners
from engine.request import LiveRequest, Speak, SpeakLive, SpeechRequest, Stream
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice, told
from wsproto_api.server import EngineServer

from .serving import defaults

READY = re.compile(r"ready .*address=(http://127\.0\.0\.1:(\d+)/v1)")


class Server:
    """A running `python -m http_compat`."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.printed = ""
        self.url = ""
        self.port = 0

    async def until_ready(self) -> None:
        assert self.process.stderr is not None
        while not (found := READY.search(self.printed)):
            piece = await self.process.stderr.receive_some()
            assert piece, self.printed
            self.printed += piece.decode()
        self.url, self.port = found[1], int(found[2])

    async def drain(self) -> None:
        """Reads what it logs, so that it can log on."""
        assert self.process.stderr is not None
        async for piece in self.process.stderr:
            self.printed += piece.decode()

    async def end(self, number: signal.Signals) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        await self.drain()
        return await self.process.wait()


@asynccontextmanager
async def started(*arguments: str, patience_s: float = 60) -> AsyncIterator[Server]:
    """Starts it, and kills it if the test has not ended it."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KOKORO_LIVE_")}
    command = [sys.executable, "-m", "http_compat", *arguments]
    with tempfile.TemporaryDirectory() as folder, trio.fail_after(patience_s):
        clean |= {"KOKORO_LIVE_TOKEN": TOKEN, "KOKORO_LIVE_DATA_DIR": folder}
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stderr=subprocess.PIPE, check=False, env=clean)
            yield Server(await nursery.start(run))
            nursery.cancel_scope.cancel()


def live(speak: Speak) -> SpeakLive:
    """As what an engine's server takes; nobody here sends text in pieces."""

    @asynccontextmanager
    async def entered(request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        assert isinstance(request, SpeechRequest)
        async with speak(request) as events:
            yield told(events)

    return entered


@asynccontextmanager
async def engine(
    speak: Speak, voice: ToneVoice, settings: Settings | None = None
) -> AsyncIterator[int]:
    """The engine's own server on a free port, with a fake voice."""
    settings = settings or defaults()
    listeners = await open_listeners("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(EngineServer(live(speak), voice, settings, TOKEN).serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def http() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=30)
