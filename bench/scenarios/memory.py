"""Memory of an engine that speaks two hundred different texts, one after another."""

from __future__ import annotations

import random
from pathlib import Path

import trio

from bench.machine import record
from bench.report import Options, Report, at_most
from engine import config, service
from engine.request import SpeechRequest

TITLE = "Memory over two hundred texts"

UTTERANCES, SETTLED = 200, 50
#: MB with everything loaded, and growth after the first fifty
RSS_MB, GROWTH = 700, 1.02

_WORDS = [
    "the",
    "old",
    "ferry",
    "leaves",
    "late",
    "because",
    "wind",
    "and",
    "rain",
    "come",
    "over",
    "our",
    "hill",
    "whenever",
    "somebody",
    "has",
    "washed",
    "their",
    "shirts",
    "nobody",
    "minds",
    "although",
    "every",
    "child",
    "knows",
    "which",
    "window",
    "stays",
    "open",
    "at",
    "night",
]


async def run(options: Options) -> Report:
    """One pass, whatever the rounds; texts of 1 to 40 words."""
    chance = random.Random(3)  # the same texts every time
    settings = config.load({"cache_mb": 0, "threads": options.threads}).settings
    engine = await service.load(settings)
    sizes = [_rss_mb()]
    for number in range(1, UTTERANCES + 1):
        options.tell(f"{number} of {UTTERANCES}")
        words = chance.choices(_WORDS, k=chance.choice([1, 3, 6, 12, 20, 40]))
        async with engine(SpeechRequest(text=" ".join(words) + ".")) as events:
            async for _ in events:
                pass
        sizes.append(_rss_mb())
    await trio.lowlevel.checkpoint()
    shown = [0, 1, 10, SETTLED, 100, 150, UTTERANCES]
    rows = [{"utterances": number, "RSS MB": round(sizes[number])} for number in shown]
    return Report(
        rows=rows,
        document={"machine": record(), "rss_mb": [round(size, 1) for size in sizes]},
        notes=[
            at_most("MB with the model loaded", sizes[0], RSS_MB),
            at_most("MB at the end", sizes[-1], RSS_MB),
            at_most("growth after the first fifty", sizes[-1] / sizes[SETTLED], GROWTH),
        ],
    )


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
