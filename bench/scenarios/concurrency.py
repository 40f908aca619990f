"""One to sixteen streams at once on one engine.

When each is first heard, whether all go on, how soon a cancelled one gives way. A miss: what comes
next is not there when a listener, who plays everything as soon as it comes, has played what was
before it. The bound for the last of k streams is (k first windows + one acoustic pass) times 1.5,
both as they take alone in the same turn. Sharing: until all have ended, by k times what one alone
takes. P95 or worst: of what all streams of all turns had; of fewer than 20 it is the worst. If it
has to be quick there are one and four streams: eight are only in a full run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import numpy as np
import trio

from bench import plot
from bench.machine import record
from bench.ratios import by_round, lows, median_by_round
from bench.report import Options, Report, Row, at_most, upper
from bench.train_statistics import Maker
from engine import config, service
from engine.audio import SAMPLE_RATE
from engine.ladder import FIRST_WINDOW, Kind, Step
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.request import Frame, SpeechRequest, TextOptions
from engine.service import KokoroService
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.lexicon import Lexicon

STREAMS, QUICK_STREAMS = (1, 2, 4, 8, 16), (1, 4)
#: where the bound is looked at, and how often what its steps take alone is measured for it
BOUND_AT, TIMES = 4, 2
#: turns in a round if it has to be quick
QUICK_TURNS = 2
VOICE = "af_heart"
#: the latest first frame against its bound, and a cancelled stream's lane, ms
BOUND, CANCEL_MS = 1.5, 150

QUICK_TEXT = "The ferry leaves at seven, number {}."
TEXT = (
    "The ferry leaves at seven in the morning and again at four, unless the wind comes from the "
    "north, and then nobody can say when it leaves. Number {}."
)


@dataclass(slots=True)
class Heard:
    """What a listener of one stream had.

    Attributes:
        first_ms: from the request to the first frame.
        end_ms: to the end of the stream.
        misses: holes in what is played.
        missed_ms: silence in them.
    """

    first_ms: float = 0.0
    end_ms: float = 0.0
    misses: int = 0
    missed_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: what steps take alone, the streams by their number, and the time of a cancel."""

    pass_ms: float
    window_ms: float
    heard: Mapping[int, Sequence[Heard]]
    cancel_ms: float

    def bound_ms(self, count: int) -> float:
        """What the work for the last first frame of so many streams takes alone."""
        return count * self.window_ms + self.pass_ms

    def last_ms(self, count: int) -> float:
        """The last first frame of so many streams."""
        return max(one.first_ms for one in self.heard[count])

    def end_ms(self, count: int) -> float:
        """When all of so many streams have ended."""
        return max(one.end_ms for one in self.heard[count])


async def run(options: Options) -> Report:
    """Medians over all turns."""
    settings = config.load({"cache_mb": 0, "threads": options.threads}).settings
    engine = await service.load(settings)
    counts = QUICK_STREAMS if options.quick else STREAMS
    text = QUICK_TEXT if options.quick else TEXT
    measure = await trio.to_thread.run_sync(_Alone, options.threads, text)
    turns = []
    all_turns = options.rounds * (QUICK_TURNS if options.quick else 1)
    for number in range(all_turns):
        alone = [await trio.to_thread.run_sync(measure.once) for _ in range(TIMES)]
        heard = {}
        for count in counts:
            options.tell(f"turn {number + 1} of {all_turns}, {count} at once")
            heard[count] = await _streams(engine, count, text)
        pass_ms, window_ms = map(min, zip(*alone, strict=True))
        turns.append(Turn(pass_ms, window_ms, heard, await _cancelled(engine, text)))
    rows = [_row(turns, count) for count in counts]
    pass_ms = float(np.median([one.pass_ms for one in turns]))
    window_ms = float(np.median([one.window_ms for one in turns]))
    cancel_ms = float(np.median([one.cancel_ms for one in turns]))
    costs = {"pass_ms": pass_ms, "window_ms": window_ms, "cancel_ms": cancel_ms}
    return Report(
        rows=rows,
        document={"machine": record(), "rows": rows, **costs},
        notes=[
            f"Alone, an acoustic pass takes {pass_ms:.0f} ms and a first window {window_ms:.0f} ms.",
            *_bounds(rows),
            at_most("ms from cancel to a free lane", cancel_ms, CANCEL_MS),
        ],
        raw={"turns": [asdict(turn) for turn in turns]},
        ratios=_ratios(turns, options.rounds, counts),
        plot=partial(plot.concurrency, rows),
    )


def _row(turns: Sequence[Turn], count: int) -> Row:
    heard = [one for turn in turns for one in turn.heard[count]]
    firsts_ms = [one.first_ms for one in heard]
    return {
        "streams": count,
        "first frame, median ms": round(float(np.median(firsts_ms))),
        "first frame, p95 or worst ms": round(upper(firsts_ms)),
        "first frame, last ms": round(float(np.median([turn.last_ms(count) for turn in turns]))),
        "last of bound": median_by_round(
            (turn.last_ms(count) for turn in turns), (turn.bound_ms(count) for turn in turns)
        ),
        "misses a stream": round(float(np.mean([one.misses for one in heard])), 1),
        "missed ms a stream": round(float(np.mean([one.missed_ms for one in heard]))),
        "sharing": median_by_round(
            (turn.end_ms(count) for turn in turns), (count * turn.end_ms(1) for turn in turns)
        ),
    }


def _bounds(rows: Sequence[Row]) -> list[str]:
    what = "first frame / (k windows + pass), last of"
    return [
        at_most(f"{what} {row['streams']} streams,", row["last of bound"], BOUND)
        for row in rows
        if row["streams"] >= BOUND_AT
    ]


def _ratios(turns: Sequence[Turn], rounds: int, counts: Sequence[int]) -> dict[str, list[float]]:
    """Of the lowest turns in each round."""

    def low(ms: Callable[[Turn, int], float], count: int) -> list[float]:
        return lows([ms(turn, count) for turn in turns], rounds)

    found = {}
    for count in counts:
        if count == 1:
            continue
        found[f"{count} streams, last first frame / work alone"] = by_round(
            low(Turn.last_ms, count), low(Turn.bound_ms, count)
        )
        found[f"{count} streams, end / {count} alone"] = by_round(
            low(Turn.end_ms, count), (count * ms for ms in low(Turn.end_ms, 1))
        )
    return found


class _Alone:
    """The first segment's acoustic pass and first window, with nobody else in the lane."""

    def __init__(self, threads: int, text: str) -> None:
        self._maker = Maker(threads)
        self._predictor = Predictor()
        g2p = G2P()
        g2p.load()
        language = languages.resolve("en-us", VOICE)
        first, *_ = TextFrontend(g2p).segments(text, language, TextOptions(), Lexicon())
        self._phonemes = first.phonemes

    def once(self) -> tuple[float, float]:
        """Both, ms. Blocks."""
        style = self._maker.voices.style(VOICE, len(self._phonemes))
        spoken = self._maker.acoustic.call(self._phonemes, style, 1.0)
        sound = spoken.run()
        decoder = Decoder(self._maker.vocoder, self._predictor, sound)
        window = decoder.call(Step(Kind.PREDICTED, 8, 8 + FIRST_WINDOW))
        window.run()
        return spoken.seconds * 1000, window.seconds * 1000


async def _streams(engine: KokoroService, count: int, text: str) -> list[Heard]:
    """What each listener had."""
    results: list[Heard] = []
    began_s = trio.current_time()

    async def listen(number: int) -> None:
        heard, played_s = Heard(), 0.0
        async with engine(SpeechRequest(text=text.format(number), voice=VOICE)) as events:
            async for event in events:
                if isinstance(event, Frame) and event.samples:
                    now_s = trio.current_time()
                    if not played_s:
                        heard.first_ms = (now_s - began_s) * 1000
                    elif now_s > played_s:
                        heard.misses += 1
                        heard.missed_ms += (now_s - played_s) * 1000
                    played_s = max(now_s, played_s) + event.samples / SAMPLE_RATE
        heard.end_ms = (trio.current_time() - began_s) * 1000
        results.append(heard)

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(listen, number)
    return results


async def _cancelled(engine: KokoroService, text: str) -> float:
    """From leaving a stream in the middle of its work to the lane being free, ms."""
    async with engine(SpeechRequest(text=f"{text.format('cancelled')} " * 3)) as events:
        async for event in events:
            if isinstance(event, Frame) and event.sample > SAMPLE_RATE:
                break
        began_s = trio.current_time()
    return (trio.current_time() - began_s) * 1000
