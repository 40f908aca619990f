"""Real-time factor and memory for one stream, a paragraph, against others.

Every engine is a process of its own with the same voice and threads, warm, read as fast as it
speaks. RTF: request to the end of the stream / audio, text front end included. LSD as in
first_audio; engines that cut a paragraph, or cut silence, have other lengths and so none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import trio

from bench import engines, plot, race
from bench.engines import FLOAT32, OURS, PI
from bench.report import Options, Report, Row, at_most

PARAGRAPH = (
    "The ferry leaves at seven in the morning, and again at four. If the wind comes from the north, "
    "it may not leave at all; the captain decides that, usually late, and nobody argues with her. "
    "Last winter we waited three days. There is a small hotel above the harbour, where the rooms "
    "are cold but the soup is good, and where every guest has to tell one story before he may go "
    "to bed. My sister told them about the bear. She had never seen a bear in her life, of course, "
    "but by the time she had finished, two of the fishermen had locked the door."
)

#: its first sentence and a half
QUICK_CHARS = PARAGRAPH.index(" the captain")

#: RTF against float32 on the published package, and MB of the engine
RTF, RSS_MB = 0.70, 700


async def run(options: Options) -> Report:
    """Medians by engine."""
    field = await trio.to_thread.run_sync(engines.prepare, options)
    texts = (PARAGRAPH[:QUICK_CHARS] if options.quick else PARAGRAPH,)
    found = await race.run(field.specs, texts, options)
    rows = race.rows(found, texts)
    return Report(
        rows=race.spread(found, texts),
        notes=[*field.left_out, *race.remarks(found, texts), *targets(rows)],
        document={"machine": race.about(found, field), "rows": rows},
        raw={"runs": race.raw(found)},
        ratios=race.ratios(found, texts, lambda run: run.total_ms / run.audio_s),
        plot=partial(plot.throughput, rows),
    )


def targets(rows: Sequence[Row]) -> Iterator[str]:
    """Lines about what we want to reach, as far as the rows have it."""
    plain = {row["engine"]: row for row in rows if not row["cached"]}
    own = plain.get(OURS)
    if own is None:
        return
    if FLOAT32 in plain:
        yield at_most(f"RTF against {FLOAT32}", own["rtf"] / plain[FLOAT32]["rtf"], RTF)
    if FLOAT32 in plain and PI in plain:
        ratio = plain[PI]["rtf"] / plain[FLOAT32]["rtf"]
        yield f"RTF of {PI} against {FLOAT32}: {ratio:.3g}"
    if PI in plain:
        yield f"RTF against {PI}: {own['rtf'] / plain[PI]['rtf']:.3g}"
    yield at_most("most memory, MB", own["rss_mb"], RSS_MB)
