"""Request to first byte and to first audible sample, by length of the sentence, against others.

Every engine is a process of its own with the same voice and threads, warm, and measures in its own
clock. A sentence has no mark inside at which it could be cut. First audible: when the chunk with
the first sample above -50 dBFS was there. Holes: silence after that, to whoever plays each chunk
when it comes. RTF: time to the end of the stream / audio. LSD:
against the engine's own float32 decode of the whole text, where the lengths agree; none if it has to
be quick.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import trio

from bench import engines, plot, race
from bench.engines import INT8, OURS
from bench.report import Options, Report, Row, at_least, at_most

#: 80, 25, 165 and 400 characters; the first is also the cold request
TEXTS = (
    "An old gardener carried two buckets of water up the hill before breakfast today.",
    "The quick fox ran uphill.",
    "It was already dark when the last train of the evening finally left the little station "
    "behind the market square and moved slowly out towards the villages by the sea.",
    "The young woman who had bought the house at the end of the lane told everyone in the village "
    "that she would never forget the summer evening when her grandfather opened the heavy wooden "
    "door of the workshop behind the orchard and showed her the small sailing boat that he had "
    "been building there in secret for more than seven years so that one day the two of them "
    "could sail it to the island together.",
)

#: characters -> how many times sooner than the published stream we want to be heard
SOONER = {25: 2, 80: 6, 165: 8, 400: 12}
#: 400 characters against 80; ms of a cached text
FLAT, CACHED_MS = 1.5, 10
#: the longest text when it has to be quick
QUICK_CHARS = 80
#: a hole of a tenth of a second is heard; a player that holds back as much hides a shorter one
HOLES_MS = 100


async def run(options: Options) -> Report:
    """Medians by length of the sentence and engine."""
    field = await trio.to_thread.run_sync(engines.prepare, options)
    texts = [text for text in TEXTS if not options.quick or len(text) <= QUICK_CHARS]
    found = await race.run(field.specs, texts, options)
    by_length = sorted(texts, key=len)
    rows = race.rows(found, by_length)
    return Report(
        rows=race.spread(found, by_length),
        notes=[*field.left_out, *race.remarks(found, texts), *targets(rows)],
        document={"machine": race.about(found, field), "rows": rows},
        raw={"runs": race.raw(found)},
        ratios=race.ratios(found, texts, lambda run: run.first_audible_ms),
        plot=partial(plot.first_audio, rows),
    )


def targets(rows: Sequence[Row]) -> Iterator[str]:
    """Lines about what we want to reach, as far as the rows have it."""
    audible = {
        (row["engine"], row["chars"], row["cached"]): float(row["first_audible_ms"])
        for row in rows
        if row["first_audible_ms"]
    }
    lengths = sorted({row["chars"] for row in rows})
    for chars in lengths:
        own = audible.get((OURS, chars, False))
        for other in engines.NAMES:
            theirs = audible.get((other, chars, False))
            if own is None or theirs is None or other == OURS:
                continue
            what = f"{chars} characters, times sooner than {other}"
            if other == INT8 and chars in SOONER:
                yield at_least(what, theirs / own, SOONER[chars])
            else:
                yield f"{what}: {theirs / own:.3g}"
    shorter, longer = (audible.get((OURS, chars, False)) for chars in (80, 400))
    if shorter and longer:
        yield at_most("ours, 400 characters against 80,", longer / shorter, FLAT)
    holes = [row["holes_ms"] for row in rows if row["engine"] == OURS and not row["cached"]]
    if holes:
        yield at_most("ours, holes in a sentence, ms", max(holes), HOLES_MS)
    for chars in lengths:
        if (cached := audible.get((OURS, chars, True))) is not None:
            yield at_most(f"ours, {chars} characters from the cache, ms", cached, CACHED_MS)
