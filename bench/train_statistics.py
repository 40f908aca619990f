"""Trains the regressions from pooled features to AdaIN statistics (`engine/model/statistics.npz`).

    python -m bench.train_statistics generate --hours 3 --of 2 --part 0 & ... --part 1
    python -m bench.train_statistics fit

`generate` speaks texts with the real model and keeps features and the statistics that the whole
segment had; it can be stopped and goes on where it was. `fit` makes ridge regressions of low rank
from that: penalty and weight of the pairs by a part of the training texts, then from all of them.
What it explains on texts that were held out, by voice and by length, goes into the file; `python -m
bench quality` measures what that is worth in dB.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import onnxruntime as ort
import typer
from numpy.typing import NDArray
from rich.console import Console

from bench.corpus import Job, jobs
from engine import config
from engine.audio import SAMPLE_RATE
from engine.model import assets, build
from engine.model.acoustic import Acoustic
from engine.model.adain import FILE, acoustic_context, pairs, pooled, standardised
from engine.model.geometry import COLUMN_SAMPLES
from engine.model.runtime import Call
from engine.model.vocoder import Vocoder
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.voices import Voices

Floats = NDArray[np.float32]

SEED, JOBS, SHARD = 7, 8000, 50

console = Console()
app = typer.Typer(add_completion=False, help=__doc__)


class Maker:
    """Loaded parts that make a row of data of a job."""

    def __init__(self, threads: int) -> None:
        settings = config.load().settings
        found = self.assets = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
        built = self.built = build.ensure(
            found.model, found.sha256, settings.cache_dir, lambda *_: None
        )
        self.acoustic = Acoustic(built.part("acoustic"), threads)
        self.vocoder = Vocoder(built.part("stage_one"), built.part("stage_two"), threads)
        self.voices = Voices(found.voices)
        self.names = list(found.voice_names())
        self.cache = settings.cache_dir / "bench" / "statistics"

    def row(self, job: Job, quick: bool = False) -> dict[str, Floats]:
        """Features and targets of one utterance; those of stage two are not a number if `quick`."""
        style = self.voices.style(job.voice, len(job.phonemes))
        sound = self.acoustic.call(job.phonemes, style, job.speed).run()

        def whole(options: ort.RunOptions) -> dict[str, Floats]:
            if quick:
                rows, (mean, deviation) = self.vocoder.whole_stage_one(sound, options)
                rest = np.full(self.vocoder.channels_two, np.nan, np.float32)
                mean, deviation = np.append(mean, rest), np.append(deviation, rest)
            else:
                _, rows, statistics = self.vocoder.whole(sound, options)
                mean, deviation = statistics.mean, statistics.deviation
            return {
                "features": pooled(sound.features),
                "rows": pooled(rows),
                "context": acoustic_context(sound.source, sound.style, sound.columns, sound.speed),
                "mean": mean,
                "deviation": deviation,
                "held_out": np.array(job.held_out, np.float32),
            }

        return Call(whole).run()


@app.command()
def generate(
    hours: Annotated[float, typer.Option(help="stop after so long")] = 3.0,
    threads: Annotated[int, typer.Option(help="inference threads")] = 1,
    of: Annotated[int, typer.Option(min=1, help="how many processes share the work")] = 1,
    part: Annotated[int, typer.Option(min=0, help="which of them this is, from 0")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="stage one only, twice as many")] = False,
) -> None:
    """Makes data until the time is over or all is made; best by one process a core."""
    until = time.monotonic() + hours * 3600
    maker = Maker(threads)
    maker.cache.mkdir(parents=True, exist_ok=True)
    todo = jobs_of(maker)
    for number in range(0, len(todo), SHARD):
        path = maker.cache / f"{number // SHARD:04d}.npz"
        if path.exists() or number // SHARD % of != part:
            continue
        rows = []
        for job in todo[number : number + SHARD]:
            if time.monotonic() > until:
                return
            rows.append(maker.row(job, quick))
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                **{name: np.stack([row[name] for row in rows]) for name in rows[0]},
            )
        os.replace(unfinished, path)
        console.print(f"{number + len(rows)} of {len(todo)}")


def jobs_of(maker: Maker) -> list[Job]:
    """The list, which takes minutes of G2P, is kept beside the data."""
    path = maker.cache / "jobs.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=list[Job])
    g2p = G2P()
    g2p.load()
    made = list(jobs(JOBS, maker.names, TextFrontend(g2p), SEED))
    path.write_bytes(msgspec.json.encode(made))
    return made


def held_out(maker: Maker, count: int) -> list[Job]:
    """The first `count` utterances whose texts were never trained on."""
    maker.cache.mkdir(parents=True, exist_ok=True)
    return [job for job in jobs_of(maker) if job.held_out][:count]


#: ranks of the regressions: what a number in the file is worth most; together 6 MB
_RANKS = {"first_one": 256, "first_two": 128, "second_two": 224}


@app.command()
def fit(
    data: Annotated[Path | None, typer.Option(help="folder of `generate`'s data")] = None,
    out: Annotated[Path, typer.Option(help="the weights")] = FILE,
) -> None:
    """Fits the regressions, and writes them with what is known of them."""
    spoken, d = _load(data or config.load().settings.cache_dir / "bench" / "statistics")
    # Both stages have 24 sites, of 256 and of 128 channels.
    one = d["mean"].shape[1] * 2 // 3
    arrays: dict[str, NDArray[np.generic]] = {}
    about: dict[str, object] = {}
    for which, rank in _RANKS.items():
        signal = d["features"] if which.startswith("first") else d["rows"]
        sites = slice(0, one) if which.endswith("one") else slice(one, None)
        mean, deviation = d["mean"][:, sites], d["deviation"][:, sites]
        known = np.isfinite(mean[:, 0])
        x = np.concatenate([signal, d["context"]], 1)[known]
        y = np.concatenate([mean, np.log(deviation)], 1)[known]
        held = d["held_out"][known] > 0
        stored, report, missed = _fit(x, y, held, rank)
        tested = [job for job, out in zip(spoken, known & (d["held_out"] > 0), strict=True) if out]
        seconds = np.exp(x[held, -2]) * COLUMN_SAMPLES / SAMPLE_RATE
        report["by_length"] = _by([_length(s) for s in seconds], missed)
        report["by_voice"] = _by([job.voice for job in tested], missed)
        arrays |= {f"{which}_{name}": value for name, value in stored.items()}
        about[which] = report
        console.print(which, report)
    arrays["about"] = np.array(json.dumps(about))
    np.savez_compressed(out, allow_pickle=False, **arrays)
    console.print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def _load(folder: Path) -> tuple[list[Job], dict[str, Floats]]:
    paths = sorted(folder.glob("[0-9]*.npz"))
    if not paths:
        raise typer.BadParameter(f"There is no data in {folder}; run generate first.")
    made = msgspec.json.decode((folder / "jobs.json").read_bytes(), type=list[Job])
    shards = [dict(np.load(path)) for path in paths]
    done = [job for path in paths for job in made[int(path.stem) * SHARD :][:SHARD]]
    return done, {name: np.concatenate([s[name] for s in shards]) for name in shards[0]}


def _length(seconds: float) -> str:
    """A group of utterances, by their length."""
    edges = (1.25, 2.5, 5.0, 10.0)
    return next((f"up to {edge} s" for edge in edges if seconds <= edge), f"over {edges[-1]} s")


def _by(groups: list[str], missed: NDArray[np.float64]) -> dict[str, float]:
    """Explained variance of each group, from what was missed and what there was [2, utterances]."""
    named = np.array(groups)
    return {
        name: round(1 - float(missed[0, named == name].sum() / missed[1, named == name].sum()), 4)
        for name in sorted(set(groups))
    }


#: directions of signal and of style that are multiplied, and weights of the products to try
_SIGNAL, _STYLES, _WEIGHTS = 128, 32, (0.1, 0.3, 1.0)
#: steps of the weights of a direction that is used as much as the first, which has 127
_LEVELS = 400.0
_PENALTIES = np.geomspace(3, 30000, 16)


def _fit(
    x: Floats, y: Floats, held: NDArray[np.bool_], rank: int
) -> tuple[dict[str, NDArray[np.generic]], dict[str, object], NDArray[np.float64]]:
    """A ridge regression, cut to `rank`, in 8 bits, tested on what was held out.

    Returns:
        Arrays of `adain.Regression`; what is to be said of it; squares missed and squares that
        there were, of each utterance that was held out.
    """
    mean, scale = x[~held].mean(0), x[~held].std(0) + 1e-3
    offset, spread = y[~held].mean(0), y[~held].std(0) + 1e-6
    standard = standardised(x, mean, scale)
    b = (y - offset) / spread
    arrays: dict[str, NDArray[np.generic]] = {
        "mean": mean, "scale": scale, "offset": offset, "spread": spread
    }  # fmt: skip
    look = _eight_bits("look", _directions(standard[~held], _SIGNAL), arrays)
    voice = _eight_bits("voice", _directions(standard[~held, -258:-2], _STYLES), arrays)
    products = pairs(standard, look, voice) / np.sqrt(np.float32(len(voice)))

    train = np.flatnonzero(~held)
    seen, checked = train[np.arange(len(train)) % 8 != 0], train[::8]
    best = (-np.inf, 0.0, 0.0)
    plain, paired = (
        a.astype(np.float64) @ a.T.astype(np.float64) for a in (standard[train], products[train])
    )
    at_seen, at_checked = np.searchsorted(train, seen), np.searchsorted(train, checked)
    for weight in _WEIGHTS:
        kernel = plain + weight * paired
        values, vectors = np.linalg.eigh(kernel[np.ix_(at_seen, at_seen)])
        rotated = vectors.T @ b[seen]
        across = kernel[np.ix_(at_checked, at_seen)] @ vectors
        for penalty in _PENALTIES:
            guess = across @ (rotated / (values + penalty)[:, None])
            best = max(best, (_explained(guess, b[checked]), weight, float(penalty)))
    _, weight, penalty = best
    root = np.float32(np.sqrt(weight))
    features = np.concatenate([standard, root * products], 1)
    dual = np.linalg.solve(plain + weight * paired + penalty * np.eye(len(train)), b[train])
    weights = features[train].T @ dual
    # The directions of the target that are used most, over the utterances.
    guesses = features[train] @ weights
    _, vectors = np.linalg.eigh(guesses @ guesses.T)
    expand = vectors[:, : -rank - 1 : -1].T @ guesses
    strength = np.linalg.norm(expand, axis=1)
    expand /= strength[:, None]
    # What is used little is kept with few bits: so the file holds twice as many directions.
    share = strength / strength[0]
    exact = _explained(features[held] @ weights, b[held])
    # In the directions, where it costs nothing: in the weights it would leave them a bit or two.
    factor = root / np.sqrt(np.float32(len(voice)))
    arrays["voice_scale"], voice = arrays["voice_scale"] * factor, voice * factor
    levels = np.clip(np.rint(_LEVELS * share), 7, 127)
    project = _eight_bits("project", weights @ expand.T / share, arrays, levels)
    expand = _eight_bits("expand", expand * share[:, None], arrays)
    wide = np.concatenate([standard, pairs(standard, look, voice)], 1)[held]
    missed = ((wide @ project @ expand - b[held]) ** 2).sum(1)
    there = (b[held] ** 2).sum(1)
    report: dict[str, object] = {
        "utterances": len(train),
        "held_out": int(held.sum()),
        "rank": rank,
        "penalty": round(penalty),
        "weight_of_pairs": weight,
        "explained": round(exact, 4),
        "explained_as_stored": round(1 - float(missed.sum() / there.sum()), 4),
    }
    stored = {k: v if v.dtype == np.int8 else v.astype(np.float32) for k, v in arrays.items()}
    return stored, report, np.stack([missed, there]).astype(np.float64)


def _explained(guess: Floats, right: Floats) -> float:
    return float(1 - ((guess - right) ** 2).sum() / (right**2).sum())


def _directions(standard: Floats, count: int) -> Floats:
    """The first principal directions [features, count]."""
    centred = standard - standard.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred)
    directions: Floats = vectors[:, : -count - 1 : -1]
    return directions


def _eight_bits(
    name: str,
    matrix: Floats,
    arrays: dict[str, NDArray[np.generic]],
    levels: Floats | float = 127.0,
) -> Floats:
    """Adds the matrix to the arrays, in so many steps up and down; gives what it is worth there."""
    step = (np.abs(matrix).max(0) / levels + 1e-12).astype(np.float32)
    whole = np.rint(matrix / step).astype(np.int8)
    arrays[name], arrays[f"{name}_scale"] = whole, step
    worth: Floats = whole * step
    return worth


if __name__ == "__main__":
    app()
