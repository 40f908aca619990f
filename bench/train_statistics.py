"""Trains the map from pooled features to AdaIN statistics (`engine/model/statistics.npz`).

    python -m bench.train_statistics generate --hours 3
    python -m bench.train_statistics fit

`generate` speaks texts with the real model and keeps features and the statistics that the whole
segment had; it can be stopped and goes on where it was. `fit` makes ridge regressions of low rank
from that. `python -m bench quality` then measures what it is worth on texts that were held out.
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
from engine.model import assets, build
from engine.model.acoustic import Acoustic
from engine.model.adain import FILE, acoustic_context, pooled
from engine.model.runtime import Call
from engine.model.vocoder import Vocoder
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
        built = build.ensure(found.model, found.sha256, settings.cache_dir, lambda *_: None)
        self.acoustic = Acoustic(built.part("acoustic"), threads)
        self.vocoder = Vocoder(built.part("stage_one"), built.part("stage_two"), threads)
        self.voices = Voices(found.voices)
        self.names = list(found.voice_names())
        self.cache = settings.cache_dir / "bench" / "statistics"

    def row(self, job: Job) -> dict[str, Floats]:
        """Features and targets of one utterance."""
        style = self.voices.style(job.voice, len(job.phonemes))
        sound = self.acoustic.call(job.phonemes, style, job.speed).run()

        def whole(options: ort.RunOptions) -> dict[str, Floats]:
            _, rows, statistics = self.vocoder.whole(sound, options)
            context = acoustic_context(sound.source, sound.style, sound.columns, sound.speed)
            return {
                "features": pooled(sound.features),
                "rows": pooled(rows),
                "context": context,
                "mean": statistics.mean,
                "deviation": statistics.deviation,
                "held_out": np.array(job.held_out, np.float32),
            }

        return Call(whole).run()


@app.command()
def generate(
    hours: Annotated[float, typer.Option(help="stop after so long")] = 3.0,
    threads: Annotated[int, typer.Option(help="inference threads")] = 0,
) -> None:
    """Makes data until the time is over or all is made."""
    until = time.monotonic() + hours * 3600
    maker = Maker(threads)
    maker.cache.mkdir(parents=True, exist_ok=True)
    todo = _jobs(maker)
    for number in range(0, len(todo), SHARD):
        path = maker.cache / f"{number // SHARD:04d}.npz"
        if path.exists():
            continue
        rows = []
        for job in todo[number : number + SHARD]:
            if time.monotonic() > until:
                return
            rows.append(maker.row(job))
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.savez(
                file,
                allow_pickle=False,
                **{name: np.stack([row[name] for row in rows]) for name in rows[0]},
            )
        os.replace(unfinished, path)
        console.print(f"{number + len(rows)} of {len(todo)}")


def _jobs(maker: Maker) -> list[Job]:
    """The list, which takes minutes of G2P, is kept beside the data."""
    path = maker.cache / "jobs.json"
    if path.exists():
        return msgspec.json.decode(path.read_bytes(), type=list[Job])
    g2p = G2P()
    g2p.load()
    made = list(jobs(JOBS, maker.names, g2p, maker.acoustic, SEED))
    path.write_bytes(msgspec.json.encode(made))
    return made


def held_out(maker: Maker, count: int) -> list[Job]:
    """The first `count` utterances whose texts were never trained on."""
    maker.cache.mkdir(parents=True, exist_ok=True)
    return [job for job in _jobs(maker) if job.held_out][:count]


@app.command()
def fit(
    data: Annotated[Path | None, typer.Option(help="folder of `generate`'s data")] = None,
    out: Annotated[Path, typer.Option(help="the weights")] = FILE,
    first_rank: Annotated[int, typer.Option(help="rank of the first map")] = 160,
    second_rank: Annotated[int, typer.Option(help="rank of the second map")] = 256,
) -> None:
    """Fits both maps, and writes them with what is known of them."""
    folder = data or config.load().settings.cache_dir / "bench" / "statistics"
    d = _load(folder)
    held = d["held_out"] > 0
    targets = {"first": np.concatenate([d["mean"], np.log(d["deviation"])], 1)}
    two = slice(_stage_one_channels(d["mean"].shape[1]), None)
    targets["second"] = np.concatenate([d["mean"][:, two], np.log(d["deviation"][:, two])], 1)
    inputs = {
        "first": np.concatenate([d["features"], d["context"]], 1),
        # A row is a tenth of a column.
        "second": np.concatenate([d["rows"], d["context"]], 1),
    }
    arrays: dict[str, NDArray[np.generic]] = {}
    about: dict[str, object] = {"utterances": int((~held).sum()), "held_out": int(held.sum())}
    for which, rank in (("first", first_rank), ("second", second_rank)):
        stored, report = _ridge(inputs[which], targets[which], held, rank)
        arrays |= {f"{which}_{name}": value for name, value in stored.items()}
        about[which] = report
        console.print(which, report)
    arrays["about"] = np.array(json.dumps(about))
    np.savez_compressed(out, allow_pickle=False, **arrays)
    console.print(f"{out}: {out.stat().st_size / 1e6:.2f} MB")


def _stage_one_channels(channels: int) -> int:
    """Both stages have 24 sites, of 256 and of 128 channels."""
    return channels * 2 // 3


def _load(folder: Path) -> dict[str, Floats]:
    shards = [dict(np.load(path)) for path in sorted(folder.glob("[0-9]*.npz"))]
    if not shards:
        raise typer.BadParameter(f"There is no data in {folder}; run generate first.")
    return {name: np.concatenate([shard[name] for shard in shards]) for name in shards[0]}


def _ridge(
    x: Floats, y: Floats, held: NDArray[np.bool_], rank: int
) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
    """The ridge regression with the best penalty, cut to `rank`, in 8 bits."""
    mean, scale = x[~held].mean(0), x[~held].std(0) + 1e-3
    offset, spread = y[~held].mean(0), y[~held].std(0) + 1e-6
    a = np.clip((x - mean) / scale, -8, 8).astype(np.float64)
    b = (y - offset) / spread
    train, test = a[~held], a[held]

    def explained(guess: NDArray[np.float64]) -> float:
        return float(1 - ((guess - b[held]) ** 2).sum() / (b[held] ** 2).sum())

    values, vectors = np.linalg.eigh(train @ train.T)
    rotated = vectors.T @ b[~held]
    best: tuple[float, float] = (-np.inf, 0.0)
    for penalty in np.geomspace(10, 30000, 12):
        weights = train.T @ (vectors @ (rotated / (values + penalty)[:, None]))
        best = max(best, (explained(test @ weights), float(penalty)))
    weights = train.T @ (vectors @ (rotated / (values + best[1])[:, None]))
    # The directions of the target that the map uses most, over the utterances.
    _, _, directions = np.linalg.svd(train @ weights, full_matrices=False)
    expand = directions[:rank]
    project = weights @ expand.T
    stored: dict[str, NDArray[np.generic]] = {}
    for name, vector in (("mean", mean), ("scale", scale), ("offset", offset), ("spread", spread)):
        stored[name] = vector.astype(np.float32)
    rounded = []
    for name, matrix in (("project", project), ("expand", expand)):
        step = np.abs(matrix).max(0) / 127 + 1e-12
        whole = np.rint(matrix / step)
        rounded.append(whole * step)
        stored[name], stored[f"{name}_scale"] = whole.astype(np.int8), step.astype(np.float32)
    report: dict[str, object] = {
        "penalty": round(best[1]),
        "explained": round(best[0], 4),
        "explained_as_stored": round(explained(test @ rounded[0] @ rounded[1]), 4),
        "rank": len(expand),
    }
    return stored, report


if __name__ == "__main__":
    app()
