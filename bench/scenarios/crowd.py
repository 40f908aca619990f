"""Eight streams at once on one engine.

When each is first heard, whether all go on, how soon a cancelled one gives way. The bound for the
stream in place k is (k first windows + one acoustic pass) times 1.5, both as they take alone in
the same run.
"""

from __future__ import annotations

import numpy as np
import trio

from bench.machine import record
from bench.report import Options, Report, at_most
from bench.train_statistics import Maker
from engine import config, service
from engine.ladder import FIRST_WINDOW, Kind, Step
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.request import Frame, SpeechRequest, TextOptions
from engine.service import KokoroService
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.lexicon import Lexicon

TITLE = "Eight streams at once"

STREAMS, VOICE = 8, "af_heart"
#: the latest first frame against its bound, and a cancelled stream's lane, ms
BOUND, CANCEL_MS = 1.5, 150

TEXT = (
    "The ferry leaves at seven in the morning and again at four, unless the wind comes from the "
    "north, and then nobody can say when it leaves. Number {}."
)


async def run(options: Options) -> Report:
    """Medians over the rounds."""
    settings = config.load({"cache_mb": 0, "threads": options.threads}).settings
    engine = await service.load(settings)
    measure = await trio.to_thread.run_sync(_Alone, options.threads)
    rounds = []
    for number in range(options.rounds):
        options.tell(f"round {number + 1} of {options.rounds}")
        alone = await trio.to_thread.run_sync(measure.once)
        together = await _streams(engine, STREAMS)
        firsts = sorted(first for first, _ in together)
        cancel_ms = await _cancelled(engine)
        rounds.append((alone, firsts, [gap for _, gap in together], cancel_ms))
    pass_ms, window_ms = np.median([r[0] for r in rounds], axis=0)
    firsts_ms = np.median([r[1] for r in rounds], axis=0)
    gaps_ms = np.median([r[2] for r in rounds], axis=0)
    cancel_ms = float(np.median([r[3] for r in rounds]))
    rows = [
        {
            "place": place,
            "first frame ms": round(float(first)),
            "of (k windows + pass)": round(float(first / (place * window_ms + pass_ms)), 2),
            "longest wait for audio ms": round(float(gap)),
        }
        for place, (first, gap) in enumerate(zip(firsts_ms, gaps_ms, strict=True), 1)
    ]
    latest = max(float(row["of (k windows + pass)"]) for row in rows)
    costs = {"pass_ms": float(pass_ms), "window_ms": float(window_ms)}
    return Report(
        rows=rows,
        document={"machine": record(), "rows": rows, "cancel_ms": cancel_ms, **costs},
        notes=[
            f"Alone, an acoustic pass takes {pass_ms:.0f} ms and a first window {window_ms:.0f} ms.",
            at_most("first frame / (k windows + pass), worst place,", latest, BOUND),
            at_most("ms from cancel to a free lane", cancel_ms, CANCEL_MS),
        ],
    )


class _Alone:
    """The first segment's acoustic pass and first window, with nobody else in the lane."""

    def __init__(self, threads: int) -> None:
        self._maker = Maker(threads)
        self._predictor = Predictor()
        g2p = G2P()
        g2p.load()
        language = languages.resolve("en-us", VOICE)
        first, *_ = TextFrontend(g2p).segments(TEXT, language, TextOptions(), Lexicon())
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


async def _streams(engine: KokoroService, count: int) -> list[tuple[float, float]]:
    """For each stream: first frame, and longest wait between two, ms."""
    results: list[tuple[float, float]] = []
    began = trio.current_time()

    async def listen(number: int) -> None:
        times = []
        async with engine(SpeechRequest(text=TEXT.format(number), voice=VOICE)) as events:
            async for event in events:
                if isinstance(event, Frame) and event.samples:
                    times.append(trio.current_time())
        waits = np.diff(times).max(initial=0.0)
        results.append(((times[0] - began) * 1000, float(waits) * 1000))

    async with trio.open_nursery() as nursery:
        for number in range(count):
            nursery.start_soon(listen, number)
    return results


async def _cancelled(engine: KokoroService) -> float:
    """From leaving a stream in the middle of its work to the lane being free, ms."""
    async with engine(SpeechRequest(text=TEXT.format("cancelled") * 3)) as events:
        async for event in events:
            if isinstance(event, Frame) and event.sample > 24_000:
                break
        began = trio.current_time()
    return (trio.current_time() - began) * 1000
