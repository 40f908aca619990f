"""What HTTP and the containers cost on loopback, with a voice that costs nothing.

From the moment the voice hands its first frame over, through the WebSocket, to when a client has
the first byte of sound: of every container, as audio and as events, in turn. Client and HTTP server
share one process here. And how soon `/health` is answered while the real engine, in a process of
its own, is at work for a request.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager

import httpx
import numpy as np
import trio

from bench import machine, started
from bench.ratios import by_round, lows
from bench.report import Options, Report, at_most
from bench.scenarios import transport
from bench.workers.wire import time_in
from engine import config
from engine.process import open_listeners, set_up_logging
from engine.request import Event, Frame, Speak, SpeechRequest
from http_compat import server
from http_compat.app import create_app
from http_compat.remote import RemoteEngine
from http_compat.schema import Format
from wsproto_api import security
from wsproto_api.speak import WebSocketSpeak

#: ms after the engine's first frame, 95th percentile
TARGETS = {Format.PCM: 15, Format.WAV: 15, Format.MP3: 80, Format.OPUS: 80}

#: ms until `/health` is answered during inference, 95th percentile
HEALTH_MS = 50

#: what is said: more than any container must have before its first byte, and little more, because
#: many requests are wanted of what takes milliseconds
TEXT = "The ferry leaves."
#: requests of each kind in a round
REQUESTS = 35
#: questions for `/health` in a round, and the pause between them; all fit into the speech
ASKED, QUICK_ASKED, PAUSE_S = 100, 40, 0.01
#: no sentence twice, which would come out of the cache
BUSY_TEXT = " ".join(f"The river had taken {n} gardens and the lower path." for n in range(2, 60))


#: a container, and the way it is asked for
Kind = tuple[Format, str]


class Watched:
    """A `Speak` that keeps when the engine handed its last first frame over."""

    def __init__(self, speak: Speak) -> None:
        self.first_s = 0.0
        self._speak = speak

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        """See `Speak`."""
        async with self._speak(request) as events, aclosing(self._noting(events)) as noted:
            yield noted

    async def _noting(self, events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
        async for event in events:
            if isinstance(event, Frame) and event.first:
                self.first_s = time_in(event)
            yield event


async def run(options: Options) -> Report:
    """All rounds together."""
    kinds = [(container, way) for container in Format for way in ("audio", "sse")]
    if options.quick:
        kinds = [kind for kind in kinds if _is_compared(kind)]
    found: dict[Kind, list[float]] = {kind: [] for kind in kinds}
    async with transport.server() as (url, token), trio.open_nursery() as nursery:
        watched = Watched(WebSocketSpeak(url, token))
        base = await _served(nursery, watched, RemoteEngine(url, token), token)
        async with httpx.AsyncClient(base_url=base, trust_env=False) as client:
            for kind in kinds:  # warm
                await _first_ms(client, watched, *kind)
            for number in range(options.rounds):
                options.tell(f"round {number + 1} of {options.rounds}")
                for _ in range(REQUESTS):
                    for kind in kinds:
                        found[kind].append(await _first_ms(client, watched, *kind))
        nursery.cancel_scope.cancel()
    options.tell("while the engine works")
    health_ms = await _health_ms(options)
    told = {(str(container), way): ms for (container, way), ms in found.items()}
    told["/health", "while it speaks"] = health_ms
    rows = [
        {
            "what": what,
            "as": way,
            **{
                f"ms_{name}": round(float(np.percentile(ms, at)), 2)
                for name, at in (("median", 50), ("95 %", 95), ("most", 100))
            },
        }
        for (what, way), ms in told.items()
    ]
    notes = [
        at_most(
            f"ms to the first byte of {container}, 95 %,",
            float(np.percentile(found[container, "audio"], 95)),
            target,
        )
        for container, target in TARGETS.items()
    ]
    notes.append(
        at_most(
            "ms to an answer of /health during inference, 95 %,",
            float(np.percentile(health_ms, 95)),
            HEALTH_MS,
        )
    )
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=[f"{options.rounds * REQUESTS} requests of each kind.", *notes],
        raw={"ms": {f"{what} {way}": ms for (what, way), ms in told.items()}},
        ratios=ratios(found, options.rounds),
    )


def ratios(found: Mapping[Kind, Sequence[float]], rounds: int) -> dict[str, list[float]]:
    """Of the lowest in each round; names are those of the kinds."""
    low = {kind: lows(ms, rounds) for kind, ms in found.items()}
    plain = Format.PCM, "audio"
    return {
        f"first byte, {kind[0]} as {kind[1]} / pcm": by_round(own, low[plain])
        for kind, own in low.items()
        if kind != plain and _is_compared(kind)
    }


def _is_compared(kind: Kind) -> bool:
    container, way = kind
    return way == "audio" or container == Format.PCM


async def _health_ms(options: Options) -> list[float]:
    """What `/health` takes while the engine makes speech for another request."""
    found: list[float] = []
    async with started.engine(options.threads) as real, trio.open_nursery() as nursery:
        engine = RemoteEngine(real.url, real.token)
        base = await _served(nursery, engine.speak, engine, real.token)
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=120) as client:
            for number in range(options.rounds):
                speed = 1 + number / 100  # nor in another round
                body = {"input": BUSY_TEXT, "response_format": "pcm", "speed": speed}
                async with client.stream("POST", "v1/audio/speech", json=body) as response:
                    response.raise_for_status()
                    pieces = response.aiter_raw()
                    for _ in range(QUICK_ASKED if options.quick else ASKED):
                        await anext(pieces)  # it still speaks
                        began_s = time.perf_counter()
                        (await client.get("health")).raise_for_status()
                        found.append((time.perf_counter() - began_s) * 1000)
                        await trio.sleep(PAUSE_S)
        nursery.cancel_scope.cancel()
    return found


async def _served(nursery: trio.Nursery, speak: Speak, engine: RemoteEngine, token: str) -> str:
    """Starts the HTTP server in this process; gives its address."""
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    settings = config.load({"http_port": port, "log_level": "error"}, environ={}).settings
    set_up_logging(settings)
    policy = security.policy(settings, port=port, token=token)
    app = create_app(speak, engine.voices, engine, settings=settings, policy=policy)
    await nursery.start(server.serve, app, listeners)
    return f"http://127.0.0.1:{port}/"


async def _first_ms(
    client: httpx.AsyncClient, watched: Watched, container: Format, way: str
) -> float:
    body = {"input": TEXT, "response_format": str(container), "stream_format": way}
    first_s = 0.0
    async with client.stream("POST", "v1/audio/speech", json=body) as response:
        response.raise_for_status()
        async for _ in response.aiter_raw():
            first_s = first_s or time.perf_counter()
    return (first_s - watched.first_s) * 1000
