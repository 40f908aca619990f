"""How near streamed speech is to the same speech decoded whole, on texts that were held out.

Every utterance is decoded as the engine would do it on this machine, step by step, in a time that
only passes by what the steps cost on it when it is quiet; so the result does not depend on what
else runs. What it is held against is decoded in single precision, so with the precision hybrid
its loss is in the result, and also shown alone, of whole decodes. Beside it, the published int8
vocoder on the same features.
"""

from __future__ import annotations

import statistics

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
import trio
from numpy.typing import NDArray

from bench import corpus
from bench.corpus import Job
from bench.distance import clicks
from bench.machine import record
from bench.ratios import by_round
from bench.report import Options, Report, at_most
from bench.train_statistics import Maker, held_out
from engine import config
from engine.ladder import Costs, Kind, Ladder, Windows
from engine.model import build, placement, rewrite
from engine.model.acoustic import Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.distance import lsd_db
from engine.model.geometry import COLUMN_SAMPLES
from engine.model.graph import Graph, cut, values
from engine.model.hybrid import Form
from engine.model.providers import CPU
from engine.model.runtime import Call, options
from engine.model.vocoder import Vocoder
from engine.synthesis import Model, warm_up

Floats = NDArray[np.float32]

#: asked before it is run
lacks = corpus.lacks

TITLE = "Streamed against whole, held-out texts"

#: utterances a round; of one round if it has to be quick
_COUNT = 8
#: warm-ups of which the one is taken in which the machine was quietest
_WARM = 4
#: what is left of the latency budget when the acoustic part is done, s
_BUDGET_S = 0.1

#: columns of 12.5 ms up to which an utterance counts as such
_LENGTHS = {"up to 1.25 s": 100, "1.25-2.5 s": 200, "2.5-5 s": 400, "longer": 10**9}


class Result(msgspec.Struct, frozen=True):
    """One utterance."""

    voice: str
    columns: int
    lsd_db: float
    whole_lsd_db: float
    int8_lsd_db: float
    clicks: int
    joints: int
    predicted: float


async def run(chosen: Options) -> Report:
    """See the module."""
    results = await trio.to_thread.run_sync(
        lambda: measure(
            _COUNT * (1 if chosen.quick else chosen.rounds), chosen.threads, chosen.tell
        )
    )
    rows = [_row("all", results)]
    low = 0
    for name, high in _LENGTHS.items():
        of_length = [r for r in results if low < r.columns <= high]
        rows += [_row(name, of_length)] if of_length else []
        low = high
    rows += [
        _row(f"voices {first}…", [r for r in results if r.voice[0] == first])
        for first in sorted({r.voice[0] for r in results})
    ]
    document = summary(results)
    streamed = document["streamed_vs_whole"]
    assert isinstance(streamed, dict)
    distances = [(r.lsd_db, r.int8_lsd_db) for r in results]
    notes = [
        at_most("LSD, median,", streamed["lsd_db_p50"], 1.4),
        at_most("LSD, 95th percentile,", streamed["lsd_db_p95"], 2.4),
        at_most("clicks", float(sum(r.clicks for r in results)), 0),
    ]
    return Report(
        rows=rows,
        document=document,
        notes=notes,
        raw={"machine": record(), "results": msgspec.to_builtins(results)},
        # By means: a little more or less of a step's cost changes what a single one is decoded by.
        ratios={
            "LSD, streamed / published int8": by_round(
                *([statistics.fmean(lsd)] for lsd in zip(*distances, strict=True))
            )
        },
    )


def summary(results: list[Result]) -> dict[str, object]:
    """The document of `--json`."""

    def spread(numbers: list[float]) -> dict[str, object]:
        p50, p95 = np.percentile(numbers, [50, 95])
        return {"lsd_db_p50": round(p50, 3), "lsd_db_p95": round(p95, 3), "n": len(numbers)}

    return {
        "streamed_vs_whole": spread([r.lsd_db for r in results]),
        "published_int8_vs_float32": spread([r.int8_lsd_db for r in results]),
        "clicks": sum(r.clicks for r in results),
    }


def _row(what: str, results: list[Result]) -> dict[str, object]:
    lsd = [r.lsd_db for r in results]
    return {
        "what": what,
        "n": len(results),
        "streamed p50 dB": round(float(np.median(lsd)), 2),
        "streamed p95 dB": round(float(np.percentile(lsd, 95)), 2),
        "whole p50 dB": round(float(np.median([r.whole_lsd_db for r in results])), 2),
        "int8 vocoder p50 dB": round(float(np.median([r.int8_lsd_db for r in results])), 2),
        "by prediction": f"{np.mean([r.predicted for r in results]):.0%}",
        "clicks": f"{sum(r.clicks for r in results)} of {sum(r.joints for r in results)}",
    }


def measure(count: int, threads: int, tell: object = None) -> list[Result]:
    """Decodes `count` held-out utterances both ways. Blocks."""
    maker = Maker(threads)
    vocoder, form = _vocoder(maker, threads)
    model = Model(maker.acoustic, vocoder, Predictor(), form.why)
    published = _published_vocoder(maker, threads)
    costs: Costs | None = None
    results = []
    for number, job in enumerate(held_out(maker, count), 1):
        if callable(tell):
            tell(f"{number} of {count}")
        style = maker.voices.style(job.voice, len(job.phonemes))
        sound = maker.acoustic.call(job.phonemes, style, job.speed).run()
        if costs is None:
            warm = [warm_up(model, sound, Windows()) for _ in range(_WARM)]
            costs = min(warm, key=lambda one: one.column_s)
        results.append(_compared(job, sound, model, maker.vocoder, costs, published))
    return results


def _vocoder(maker: Maker, threads: int) -> tuple[Vocoder, Form]:
    """The one that the engine would have with the settings of now."""
    settings = config.load().settings
    form = placement.form_of(settings)
    if not form.hybrid:
        return maker.vocoder, form
    built = build.ensure(
        maker.assets.model, maker.assets.sha256, settings.cache_dir, lambda *_: None, integers=True
    )
    return Vocoder(built.part("stage_one"), built.part("stage_two"), threads), form


def _compared(
    job: Job,
    sound: Acoustics,
    model: Model,
    exact: Vocoder,
    costs: Costs,
    published: ort.InferenceSession,
) -> Result:
    whole = Call(lambda options: exact.whole(sound, options)[0]).run()
    own = whole
    if model.vocoder is not exact:
        own = Call(lambda options: model.vocoder.whole(sound, options)[0]).run()
    audio, joints, predicted = _streamed(sound, model, costs)
    feeds = {
        build.FEATURES: sound.features[None],
        build.SOURCE: sound.source[None],
        build.STYLE: sound.style[None],
    }
    int8 = np.ravel(published.run([build.AUDIO], feeds)[0])
    new = set(clicks(audio, joints)) - set(clicks(whole, joints))
    return Result(
        voice=job.voice,
        columns=sound.columns,
        lsd_db=lsd_db(whole, audio),
        whole_lsd_db=lsd_db(whole, own),
        int8_lsd_db=lsd_db(whole, int8),
        clicks=len(new),
        joints=len(joints),
        predicted=predicted,
    )


def _streamed(sound: Acoustics, model: Model, costs: Costs) -> tuple[Floats, list[int], float]:
    """Audio, the samples where windows meet, and the part that was predicted from the features."""
    ladder = Ladder(sound.columns, 0, sound.columns, costs, _BUDGET_S)
    decoder = Decoder(model.vocoder, model.predictor, sound)
    pieces: list[Floats] = []
    spare_s, predicted = _BUDGET_S, 0
    while (step := ladder.next(spare_s)) is not None:
        pieces.append(decoder.call(step).run())
        length = len(pieces[-1])
        lead_s = spare_s - costs.of(step) if any(map(len, pieces[:-1])) else 0.0
        spare_s = max(0.0, lead_s) + length / (80 * COLUMN_SAMPLES)
        predicted += length if step.kind is Kind.PREDICTED else 0
    audio = np.concatenate(pieces)
    ends = np.cumsum([len(piece) for piece in pieces if len(piece)])
    return audio, [int(end) for end in ends[:-1]], predicted / len(audio)


def _published_vocoder(maker: Maker, threads: int) -> ort.InferenceSession:
    """What the published file does behind the cut, with its int8 convolutions."""
    model = onnx.load(maker.assets.model)
    build.rename(model, build.names(Graph(model)))
    inputs = [
        values(build.FEATURES, 1, 512, "columns"),
        values(build.SOURCE, 1, 22, "steps"),
        values(build.STYLE, 1, 256),
    ]
    rewrite.square_as_product(model)
    vocoder = cut(model, inputs, [values(build.AUDIO, "samples")], "published")
    return ort.InferenceSession(
        vocoder.SerializeToString(), options(threads, optimised=False), providers=[CPU.provider]
    )
