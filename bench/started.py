"""The engine as a process of its own, as users start it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from engine.process import open_listeners


@dataclass(frozen=True, slots=True)
class Started:
    """An engine that is ready.

    Attributes:
        url: of its WebSocket.
        token: what it wants to be shown.
        ready_s: from its start to its ready line.
    """

    url: str
    token: str
    ready_s: float


@asynccontextmanager
async def engine(
    threads: int = 0, settings: Mapping[str, object] | None = None
) -> AsyncIterator[Started]:
    """Starts the engine on a free port, waits until it is ready, and ends it at last.

    Args:
        threads: of inference; 0: one per core.
        settings: others, by name.
    """
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    for listener in listeners:
        await listener.aclose()
    token = secrets.token_urlsafe(32)
    began_s = trio.current_time()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "wsproto_api", "--port", str(port)],
        stderr=subprocess.PIPE,
        env={
            **os.environ,
            "KOKORO_LIVE_LOG_FORMAT": "json",
            "KOKORO_LIVE_THREADS": str(threads),
            "KOKORO_LIVE_TOKEN": token,
            **{f"KOKORO_LIVE_{k.upper()}": str(v) for k, v in (settings or {}).items()},
        },
    )
    assert process.stderr is not None
    try:
        told = b""
        while b'"ready"' not in told:
            more = await process.stderr.receive_some()
            if not more:
                raise RuntimeError(f"the engine ended: {told.decode()}")
            told += more
        yield Started(f"ws://127.0.0.1:{port}/", token, trio.current_time() - began_s)
    finally:
        process.terminate()
        await process.wait()
