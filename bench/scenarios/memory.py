"""A thousand utterances: memory, and whether the last is heard as soon as the first.

Texts of 1 to 40 words, hardly one twice, and after every tenth one a probe: always the same text, and a
fixed piece of arithmetic right before it, by which its time to the first frame is divided, so that a
machine that becomes slower is not taken for an engine that does; each the less of two. If it has to be
quick there is one after every fifth. Settled: after a fifth of all.
Band: most memory by least, from then on. Drift: the probes of the last half by those of the first.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from functools import partial

import trio

from bench import plot
from bench.machine import record
from bench.report import Options, Report, at_most
from engine import config, metrics, service
from engine.request import Frame, SpeechRequest
from engine.selfbench import arithmetic_s
from engine.service import KokoroService

UTTERANCES, QUICK_UTTERANCES = 1000, 30
WORDS, QUICK_WORDS = (1, 3, 6, 12, 20, 40), (1, 3, 6)
#: utterances from one probe to the next, and how often it is taken there
PROBED, QUICK_PROBED, TIMES = 10, 5, 2
PROBE = "The ferry leaves at seven."

#: MB with everything loaded, growth from the second fifth to the last, the band, and the drift
RSS_MB, GROWTH, BAND, DRIFT = 700, 1.02, 1.15, 1.05

_WORDS = (  # noqa: SIM905 - a line each is no easier to read
    "the old ferry leaves late because wind and rain come over our hill whenever somebody has "
    "washed their shirts nobody minds although every child knows which window stays open at night"
).split()


async def run(options: Options) -> Report:
    """One pass, whatever the rounds."""
    chance = random.Random(options.seed)
    settings = config.load({"cache_mb": 0, "threads": options.threads}).settings
    engine = await service.load(settings)
    count = QUICK_UTTERANCES if options.quick else UTTERANCES
    lengths = QUICK_WORDS if options.quick else WORDS
    sizes_mb, probes = [_rss_mb()], []
    await _probed(engine)
    for number in range(1, count + 1):
        options.tell(f"{number} of {count}")
        words = chance.choices(_WORDS, k=chance.choice(lengths))
        await _first_s(engine, " ".join(words) + ".")
        if not number % (QUICK_PROBED if options.quick else PROBED):
            probes.append(await _probed(engine))
        sizes_mb.append(_rss_mb())
    fifth = count // 5
    fifths_mb = [statistics.median(sizes_mb[at : at + fifth]) for at in range(1, count, fifth)]
    settled_mb = sizes_mb[1 + fifth :]
    growth = fifths_mb[-1] / fifths_mb[1]
    band = max(settled_mb) / min(settled_mb)
    drift = by_half(probes)
    rows = [
        {"utterances": f"{at} to {at + fifth - 1}", "RSS MB, median": round(size_mb)}
        for at, size_mb in zip(range(1, count, fifth), fifths_mb, strict=True)
    ]
    return Report(
        rows=rows,
        document={"machine": record(), "rss_mb": [round(size_mb, 1) for size_mb in sizes_mb]},
        notes=[
            at_most("MB with the model loaded", sizes_mb[0], RSS_MB),
            at_most("MB at the end", sizes_mb[-1], RSS_MB),
            at_most("growth from the second fifth to the last", growth, GROWTH),
            at_most("band, once settled", band, BAND),
            at_most("drift of the time to the first frame", drift, DRIFT),
        ],
        raw={"probes": probes},
        ratios={"RSS, last fifth / second": [growth], "first frame, last half / first": [drift]},
        plot=partial(plot.memory, sizes_mb),
    )


def by_half(values: Sequence[float]) -> float:
    """The median of the last half by that of the first."""
    half = len(values) // 2
    return statistics.median(values[-half:]) / statistics.median(values[:half])


async def _first_s(engine: KokoroService, text: str) -> float:
    """Until the first frame; the rest is waited for."""
    began_s, first_s = trio.current_time(), 0.0
    async with engine(SpeechRequest(text=text)) as events:
        async for event in events:
            if isinstance(event, Frame) and not first_s:
                first_s = trio.current_time() - began_s
    return first_s


async def _probed(engine: KokoroService) -> float:
    """Time to the first frame of the probe by that of some arithmetic, the least of some times."""
    pairs = [
        (await trio.to_thread.run_sync(arithmetic_s), await _first_s(engine, PROBE))
        for _ in range(TIMES)
    ]
    return min(first_s for _, first_s in pairs) / min(yardstick_s for yardstick_s, _ in pairs)


def _rss_mb() -> float:
    return (metrics.rss_bytes() or 0) / 1e6
