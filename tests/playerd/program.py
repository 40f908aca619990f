"""`python -m playerd` as a child process, and an engine with a fake voice for it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from engine.config import Settings
from engine.process import open_listeners
from tests.playerd.playing import Client
from tests.support.access import TOKEN
from tests.support.rig import PATIENCE_S
from tests.support.tone import ToneVoice
from wsproto_api import discovery, messages
from wsproto_api.client import connect
from wsproto_api.server import EngineServer


class NotAsExpected(AssertionError):
    """What was heard is not what was to be heard, which may be the machine's fault."""


class Program:
    """A running player.

    Attributes:
        ready: what its line `ready` said.
        lines: all it has logged so far, as it was written.
    """

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.ready: dict[str, str] = {}
        self._is_ready = trio.Event()

    async def read(self) -> None:
        """Reads the log until the program ends."""
        assert self.process.stderr is not None
        rest = b""
        async for data in self.process.stderr:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self.lines.append(line.decode())
                if b'"event": "ready"' in line:
                    self.ready = json.loads(line)
                    self._is_ready.set()
        self.lines += [rest.decode()] if rest else []
        self._is_ready.set()

    async def wait_ready(self) -> None:
        with trio.fail_after(PATIENCE_S):
            await self._is_ready.wait()
        assert self.ready, self.lines

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        """A new client of it."""
        url = self.ready["address"] + "/"
        async with connect(
            url, token=TOKEN, client=messages.PLAYER_CLIENT, server=messages.PLAYER_SERVER
        ) as (connection, _):
            yield Client(connection)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Sends a signal and waits; gives the exit code."""
        self.process.send_signal(number)
        with trio.fail_after(PATIENCE_S):
            return await self.process.wait()


def no_traceback(program: Program) -> bool:
    return not any("Traceback" in line or "exception" in line for line in program.lines)


@asynccontextmanager
async def running(
    *flags: str, environment: Mapping[str, str], folder: Path, engine_port: int
) -> AsyncIterator[Program]:
    """Starts the player on a free port; kills it at the end if it still runs."""
    (folder / "none.toml").touch()
    (folder / "data").mkdir(mode=0o700, exist_ok=True)
    token = folder / "data" / discovery.TOKEN_FILE
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, "-m", "playerd", "--port", "0", *flags],
                stderr=subprocess.PIPE,
                check=False,
                env={
                    **environment,
                    "KOKORO_LIVE_CONFIG": str(folder / "none.toml"),
                    "KOKORO_LIVE_DATA_DIR": str(folder / "data"),
                    "KOKORO_LIVE_ENGINE_PORT": str(engine_port),
                    "KOKORO_LIVE_LOG_FORMAT": "json",
                },
            )
        )
        program = Program(process)
        nursery.start_soon(program.read)
        await program.wait_ready()
        try:
            yield program
        except BaseException:
            print(*program.lines, sep="\n")  # pytest shows it with the failure
            raise
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def engine(settings: Settings, voice: ToneVoice) -> AsyncIterator[int]:
    """Serves a fake voice; gives the port."""
    listeners = await open_listeners("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(EngineServer(voice, voice, settings, TOKEN).serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()
