"""Start of the engine's process to its ready line, and the first requests after it.

The files are in the disk's cache and the model in the user's: this is the second start and all
later ones, not the first, which downloads, and builds: that takes `build`, done once, from the
published file to graphs in a folder of its own (not if it has to be quick). `graphs` is what
loading the three saved graphs takes of it. The first request must find everything warm: it is
compared with the last ones of seven, which like all between them are other texts of the same length.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from itertools import islice, permutations
from pathlib import Path

import trio

from bench import machine, started
from bench.ratios import by_round, lows
from bench.report import Options, Report, at_most
from bench.train_statistics import Maker
from engine import config
from engine.model import assets, build
from engine.request import Frame, SpeechRequest
from wsproto_api.speak import WebSocketSpeak

#: the slowest that the first request may be against later ones, and loading the graphs, s
FIRST_LATER, GRAPHS_S = 1.3, 1.5

#: of the same phonemes in another order, so that each has the same length and none is cached
_WORDS = ("seven", "garden", "summer", "winter", "letter")
REQUESTS, LATER = 7, 4
#: how often the graphs are loaded before a start
LOADS = 3


async def run(options: Options) -> Report:
    """One row: medians over the rounds."""
    starts = []
    for number in range(options.rounds):
        options.tell(f"start {number + 1} of {options.rounds}")
        graphs_s = await trio.to_thread.run_sync(_graphs_s, options.threads)
        starts.append({"graphs_s": graphs_s, **await _start(options.threads)})
    row: dict[str, float | None] = {
        key: round(statistics.median(s[key] for s in starts), 3) for key in starts[0]
    }
    row["build_s"] = None
    if not options.quick:
        options.tell("building the graphs")
        row["build_s"] = round(await trio.to_thread.run_sync(_build_s), 1)
    rows = [row]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=[
            at_most("s to load the graphs", row["graphs_s"] or 0, GRAPHS_S),
            at_most("first request / later ones", row["first_of_later"] or 0, FIRST_LATER),
        ],
        raw={"starts": starts},
        ratios={
            # There is one first request in a start, so all starts together have one ratio.
            "first request / later ones": by_round(
                *(
                    lows([start[f"{one}_request_ms"] for start in starts], 1)
                    for one in ("first", "later")
                )
            ),
            "graphs / whole start": by_round(
                (start["graphs_s"] for start in starts), (start["ready_s"] for start in starts)
            ),
        },
    )


def _graphs_s(threads: int) -> float:
    took_s = []
    for _ in range(LOADS):
        began = time.perf_counter()
        Maker(threads)
        took_s.append(time.perf_counter() - began)
    return min(took_s)


def _build_s() -> float:
    settings = config.load().settings
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    with tempfile.TemporaryDirectory(prefix="kokoro-live-") as folder:
        began = time.perf_counter()
        build.ensure(found.model, found.sha256, Path(folder), lambda *_: None)
        return time.perf_counter() - began


async def _start(threads: int) -> dict[str, float]:
    async with started.engine(threads) as engine:
        speak = WebSocketSpeak(engine.url, engine.token)
        first_ms, *more_ms = [
            await _first_frame_ms(speak, " ".join(words) + ".")
            for words in islice(permutations(_WORDS), REQUESTS)
        ]
    later_ms = statistics.median(more_ms[-LATER:])
    return {
        "ready_s": engine.ready_s,
        "first_request_ms": first_ms,
        "later_request_ms": later_ms,
        "first_of_later": first_ms / later_ms,
    }


async def _first_frame_ms(speak: WebSocketSpeak, text: str) -> float:
    began_s = trio.current_time()
    async with speak(SpeechRequest(text=text)) as events:
        async for event in events:
            if isinstance(event, Frame):
                return (trio.current_time() - began_s) * 1000
    raise RuntimeError("the engine gave no audio")
