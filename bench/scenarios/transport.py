"""What the protocol costs on loopback: a server with a voice that costs nothing, and this process.

First frame: from the moment the voice hands it over to when a client has decoded it; by the port
over a WebSocket, by a bare connection, and without a socket, in turn. Throughput: ready-made frames
through one socket, as seconds of sound in a second. Append: a piece of text and its
acknowledgement, one after the other.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np
import trio

from bench import machine
from bench.ratios import by_round
from bench.report import Options, Report, at_least, at_most
from bench.workers.wire import FLOOD, FRAME_SAMPLES, StampingVoice, time_in
from engine.audio import SAMPLE_RATE
from engine.request import Frame, Speak, SpeechRequest
from wsproto_api import messages
from wsproto_api.client import Connection, connect
from wsproto_api.messages import StreamFrame
from wsproto_api.speak import WebSocketSpeak

#: ms until the first frame is there, 95th percentile; seconds of sound in a second
FIRST_MS, TIMES_REAL = 3, 200

#: streams, minutes of sound and pieces of text in a round
STREAMS, MINUTES, PIECES = 40, 5, 500
TEXT = "The ferry leaves at seven in the morning, and again at four."


async def run(options: Options) -> Report:
    """All rounds together for the first frame, medians for the others."""
    firsts: dict[str, list[float]] = {"port": [], "connection": [], "no socket": []}
    floods, trips = [], []
    async with server() as (url, token):
        speak, alone = WebSocketSpeak(url, token), StampingVoice()
        async with connect(url, token=token) as (connection, _):
            await _first_ms(speak)
            await _first_on(connection, "warm")
            for number in range(options.rounds):
                options.tell(f"round {number + 1} of {options.rounds}")
                for n in range(STREAMS):
                    firsts["port"].append(await _first_ms(speak))
                    firsts["connection"].append(await _first_on(connection, f"{number}-{n}"))
                    firsts["no socket"].append(await _first_ms(alone))
                floods.append(await _flood(speak, MINUTES * 60 * SAMPLE_RATE // FRAME_SAMPLES))
                trips.append(await _appends(url, token))
    rows = [
        {"what": f"first frame, {name}, ms {place}", "value": float(np.percentile(ms, at))}
        for name, ms in firsts.items()
        for place, at in (("median", 50), ("95 %", 95), ("most", 100))
    ]
    speed, per_s = float(np.median(floods)), float(np.median(trips))
    rows += [
        {"what": "sound through one socket, times real time", "value": speed},
        {"what": "append and its answer, per second", "value": per_s},
    ]
    rows = [{**row, "value": round(float(str(row["value"])), 3)} for row in rows]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=[
            f"{len(firsts['port'])} streams each.",
            at_most(
                "ms to the first frame by the port, 95 %,",
                float(np.percentile(firsts["port"], 95)),
                FIRST_MS,
            ),
            at_most(
                "ms to the first frame on a connection, 95 %,",
                float(np.percentile(firsts["connection"], 95)),
                FIRST_MS,
            ),
            at_least("times real time through one socket", speed, TIMES_REAL),
        ],
        ratios={"first frame, port / connection": by_round(firsts["port"], firsts["connection"])},
        raw={"firsts_ms": firsts, "times_real": floods, "appends_per_s": trips},
    )


@asynccontextmanager
async def server() -> AsyncIterator[tuple[str, str]]:
    """URL and token of a server in a process of its own."""
    token = secrets.token_urlsafe(32)
    process = await trio.lowlevel.open_process(
        [sys.executable, "-m", "bench.workers.wire", json.dumps({"token": token})],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = b""
        while not line.endswith(b"\n"):
            more = await process.stdout.receive_some()
            if not more:
                raise RuntimeError("the server ended")
            line += more
        yield f"ws://127.0.0.1:{json.loads(line)['port']}/", token
    finally:
        with trio.CancelScope(shield=True):
            await process.stdin.aclose()
            await process.wait()


async def _first_ms(speak: Speak) -> float:
    async with speak(SpeechRequest(text=TEXT)) as events:
        async for event in events:
            if isinstance(event, Frame):
                return (time.perf_counter() - time_in(event)) * 1000
    raise RuntimeError("there was no frame")


async def _first_on(connection: Connection, name: str) -> float:
    """The same by messages; reads the stream to its end."""
    await connection.send(messages.Speak(text=TEXT, id=name))
    first_ms = 0.0
    while True:
        match await connection.receive():
            case StreamFrame(frame=Frame(first=True) as frame):
                first_ms = (time.perf_counter() - time_in(frame)) * 1000
            case messages.StreamDone():
                return first_ms
            case messages.Error() as error:
                raise RuntimeError(error.message)
            case _:
                pass


async def _flood(speak: Speak, frames: int) -> float:
    """Seconds of sound in a second, from the first frame on."""
    began_s, samples = 0.0, 0
    async with speak(SpeechRequest(text=f"{FLOOD}{frames}")) as events:
        async for event in events:
            if isinstance(event, Frame):
                began_s = began_s or time.perf_counter()
                samples += event.samples
    return samples / SAMPLE_RATE / (time.perf_counter() - began_s)


async def _appends(url: str, token: str) -> float:
    """Pieces that are appended and acknowledged in a second."""
    async with connect(url, token=token) as (connection, _):
        await connection.send(messages.Open(id="open"))
        stream = await _acknowledged(connection, "open")
        began_s = time.perf_counter()
        for n in range(PIECES):
            piece = messages.Append(stream=stream, text="word", id=f"{n}")
            await connection.send(piece)
            await _acknowledged(connection, f"{n}")
        took_s = time.perf_counter() - began_s
        await connection.send(messages.Cancel(stream=stream))
    return PIECES / took_s


async def _acknowledged(connection: Connection, name: str) -> int:
    while True:
        match await connection.receive():
            case messages.Ack(reply_to=reply_to, stream=int(stream)) if reply_to == name:
                return stream
            case messages.Error() as error:
                raise RuntimeError(error.message)
            case _:
                pass
