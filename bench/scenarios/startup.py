"""Start of the engine's process to its ready line, and first request after it.

The files are in the disk's cache and the model in the user's: this is the second start and all
later ones, not the first, which downloads. The first request must find everything warm.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import trio

from bench import machine
from bench.report import Options, Report
from engine.process import open_listeners
from engine.request import Frame, SpeechRequest
from wsproto_api.client import WebSocketSpeak


async def run(options: Options) -> Report:
    """One row: medians over half the rounds."""
    starts = [await _start() for _ in range(max(2, options.rounds // 2))]
    rows = [{key: round(statistics.median(s[key] for s in starts), 3) for key in starts[0]}]
    return Report(rows=rows, document={"machine": machine.record(), "rows": rows})


async def _start() -> dict[str, float]:
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    for listener in listeners:
        await listener.aclose()
    began_s = trio.current_time()
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "wsproto_api", "--port", str(port)],
        stderr=subprocess.PIPE,
        env={**os.environ, "KOKORO_LIVE_LOG_FORMAT": "json"},
    )
    assert process.stderr is not None
    try:
        told = b""
        while b'"ready"' not in told:
            more = await process.stderr.receive_some()
            if not more:
                raise RuntimeError(f"the engine ended: {told.decode()}")
            told += more
        ready_s = trio.current_time() - began_s
        first_ms = await _first_frame_ms(WebSocketSpeak(f"ws://127.0.0.1:{port}/"))
    finally:
        process.terminate()
        await process.wait()
    return {"ready_s": ready_s, "first_request_first_frame_ms": first_ms}


async def _first_frame_ms(speak: WebSocketSpeak) -> float:
    began_s = trio.current_time()
    async with speak(SpeechRequest(text="Good morning.")) as events:
        async for event in events:
            if isinstance(event, Frame):
                return (trio.current_time() - began_s) * 1000
    raise RuntimeError("the engine gave no audio")
