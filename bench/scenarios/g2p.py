"""Text to phonemes, from 10 to 5,000 characters: by misaki and by espeak-ng alone.

Cold: loading, and the first text of 100 characters, in a process of its own. Warm: a text whose
sentences are not remembered. Cached: the same text again, with memory for its sentences. These are
processor time, all in turn; ratios are of the lowest in each round. The whole front end is measured,
with normaliser and cutting into segments. Growth: a character of the longest text by one of a text
of 100.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import trio

from bench import plot
from bench.interleave import interleaved
from bench.machine import record
from bench.ratios import by_round, lows
from bench.report import Options, Report, Row, at_most
from bench.scenarios.text import made
from engine.request import TextOptions
from engine.text import languages
from engine.text.frontend import REMEMBERED, TextFrontend
from engine.text.g2p import G2P, Stage
from engine.text.lexicon import Lexicon

LENGTHS = (10, 100, 1000, 5000)
STAGES: tuple[Stage, ...] = ("misaki", "espeak")
#: processes that start cold; they have no ratio
COLD, QUICK_COLD = 3, 1
#: turns in a round, and characters that are read in one, the same text again and again if it is
#: short: what takes a millisecond is slower or faster by a half the next moment
TIMES, AT_ONCE = 6, 500

#: characters of a long text against those of one of 100; a text that comes again, against a new one
GROWTH, CACHED = 1.3, 0.5

_COLD = """
import json, sys, time
began = time.perf_counter()
from engine.request import TextOptions
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.lexicon import Lexicon
stage, text = json.loads(sys.argv[1])
g2p = G2P(stage)
g2p.load()
loaded = time.perf_counter()
english = languages.resolve("en-us", "af_heart")
TextFrontend(g2p).segments(text, english, TextOptions(), Lexicon())
print(loaded - began, time.perf_counter() - loaded)
"""

#: stage, characters, and whether the sentences are remembered
Kind = tuple[Stage, int, bool]


async def run(options: Options) -> Report:
    """Medians over the rounds."""
    return await trio.to_thread.run_sync(_run, options)


def _run(options: Options) -> Report:
    chance = random.Random(options.seed)
    texts = {chars: made(chance, chars) for chars in LENGTHS}
    cold: dict[Stage, list[tuple[float, float]]] = {stage: [] for stage in STAGES}
    for number in range(QUICK_COLD if options.quick else COLD):
        options.tell(f"cold start {number + 1}")
        for stage in STAGES:
            cold[stage].append(_cold(stage, texts[100]))
    options.tell("warm and cached in turn")
    contenders: dict[Kind, Callable[[], object]] = {}
    for stage in STAGES:
        g2p = G2P(stage)
        g2p.load()
        english = languages.resolve("en-us", "af_heart")
        for remembers in (False, True):
            frontend = TextFrontend(g2p, remembered=REMEMBERED if remembers else 0)
            for chars, text in texts.items():
                read = partial(frontend.segments, text, english, TextOptions(), Lexicon())
                contenders[stage, chars, remembers] = partial(_repeated, read, _repeats(chars))
    took = {
        kind: [seconds / _repeats(kind[1]) for seconds in turns]
        for kind, turns in interleaved(
            contenders, TIMES * options.rounds, seed=options.seed, clock=time.process_time
        ).items()
    }
    rows = [_row(stage, chars, cold, took) for stage in STAGES for chars in LENGTHS]
    ratios = _ratios(took, options.rounds)
    return Report(
        rows=rows,
        document={"machine": record(), "rows": rows},
        notes=[
            at_most(
                f"{stage}: a character of {LENGTHS[-1]} by one of 100",
                statistics.median(ratios[f"{stage}, growth"]),
                GROWTH,
            )
            for stage in STAGES
        ]
        + [
            at_most(
                "misaki: 1000 characters again, by the first time",
                statistics.median(ratios["misaki, 1000 characters, cached / warm"]),
                CACHED,
            )
        ],
        raw={
            "cold_s": cold,
            "seconds": {
                f"{s}, {c}, {'cached' if r else 'warm'}": t for (s, c, r), t in took.items()
            },
        },
        ratios=ratios,
        plot=partial(plot.g2p, rows),
    )


def _repeats(chars: int) -> int:
    return max(1, AT_ONCE // chars)


def _repeated(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def _cold(stage: Stage, text: str) -> tuple[float, float]:
    """Seconds to load, and for the first text."""
    command = [sys.executable, "-c", _COLD, json.dumps([stage, text])]
    told = subprocess.run(command, capture_output=True, check=True)
    load_s, first_s = map(float, told.stdout.split())
    return load_s, first_s


def _row(
    stage: Stage,
    chars: int,
    cold: dict[Stage, list[tuple[float, float]]],
    took: dict[Kind, list[float]],
) -> Row:
    warm_ms = statistics.median(took[stage, chars, False]) * 1000
    row: dict[str, object] = {
        "stage": stage,
        "chars": chars,
        "load s": None,
        "cold ms": None,
        "warm ms": round(warm_ms, 2),
        "cached ms": round(statistics.median(took[stage, chars, True]) * 1000, 2),
        "warm ms / 1000 chars": round(warm_ms * 1000 / chars, 1),
    }
    if chars == 100:
        row["load s"] = round(statistics.median(load for load, _ in cold[stage]), 2)
        row["cold ms"] = round(statistics.median(first for _, first in cold[stage]) * 1000, 1)
    return row


def _ratios(took: dict[Kind, list[float]], rounds: int) -> dict[str, list[float]]:
    took = {kind: lows(seconds, rounds) for kind, seconds in took.items()}
    found = {}
    for chars in LENGTHS:
        by_stage = {stage: took[stage, chars, False] for stage in STAGES}
        found[f"{chars} characters, misaki / espeak"] = by_round(*(by_stage[s] for s in STAGES))
        for stage in STAGES:
            again = took[stage, chars, True]
            found[f"{stage}, {chars} characters, cached / warm"] = by_round(again, by_stage[stage])
    for stage in STAGES:
        hundred = [seconds * LENGTHS[-1] / 100 for seconds in took[stage, 100, False]]
        found[f"{stage}, growth"] = by_round(took[stage, LENGTHS[-1], False], hundred)
    return found
