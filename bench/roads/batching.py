"""Whether two windows of a segment are quicker in one call of stage two. Files, ONNX Runtime."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Annotated

import numpy as np
import onnx
import typer
from numpy.typing import NDArray

from bench.interleave import interleaved
from bench.ratios import median_by_round
from bench.report import Row
from bench.roads.shared import Feeds, Floats, loaded, run, tell
from bench.train_statistics import Maker
from engine.model import build, rewrite
from engine.model.geometry import COLUMN_ROWS, COLUMN_STEPS
from engine.model.graph import Graph, values
from engine.model.runtime import Runs

#: columns of the windows that are batched: the first of a stream, a usual one, the largest
WINDOWS = (16, 48, 96)


def batchable(model: onnx.ModelProto) -> int:
    """Frees the first dimension of a vocoder stage's tensors; statistics are still shared by all.

    What is behind the last transposed convolution, which adds the frames of the inverse transform
    up, is taken away: the published graph indexes the sum of windows for a batch of one there, and
    takes the first of the batch at the end. It is no work to speak of. Gives the number of inputs
    that were freed.
    """
    graph = Graph(model)
    (end,) = graph.all("ConvTranspose")[-1].output
    freed = 0
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if len(dims) == 3:
            dims[0].Clear()
            dims[0].dim_param = "batch"
            freed += 1
    del model.graph.output[:]
    model.graph.output.append(values(end, "batch", 1, "samples"))
    graph.commit()
    return freed


def main(
    rounds: Annotated[int, typer.Option(min=3, help="turns of each way")] = 30,
    seed: Annotated[int, typer.Option(help="of the order of turns")] = 1,
) -> None:
    """Two windows of equal size: in one call, after another, and side by side."""
    maker = Maker(1)
    stage = onnx.load(maker.built.part("stage_two"))
    batchable(stage)
    graph = stage.SerializeToString()
    threads = os.cpu_count() or 1
    one, all_cores = (loaded(graph, number, optimised=True) for number in (1, threads))
    rows: list[Row] = []
    for columns in WINDOWS:
        pair = _windows(columns, maker.vocoder.channels_two, seed)
        both = _stacked(pair)
        apart = np.concatenate([run(one, window) for window in pair])
        difference = float(np.abs(run(one, both) - apart).max() / np.abs(apart).max())
        with ThreadPoolExecutor(2) as pool:
            ways: dict[str, Callable[[], object]] = {
                "side by side, a thread each": lambda pair=pair: list(  # type: ignore[misc]
                    pool.map(partial(run, one), pair)
                ),
                "one after another, all threads": partial(_each, all_cores, pair),
                "one call, all threads": partial(run, all_cores, both),
                "one after another, a thread": partial(_each, one, pair),
                "one call, a thread": partial(run, one, both),
            }
            wall = interleaved(ways, rounds, seed=seed)
            work = interleaved(ways, rounds, seed=seed + 1, clock=time.process_time)
        usual = "side by side, a thread each"
        rows += [
            {
                "columns": columns,
                "two windows": way,
                "ms": round(statistics.median(wall[way]) * 1000, 1),
                "time": median_by_round(wall[way], wall[usual]),
                "processor": median_by_round(work[way], work[usual]),
                "difference": float(f"{difference:.1g}") if "call" in way else None,
            }
            for way in ways
        ]
    tell("roads_batching", rows)


def _windows(columns: int, channels: int, seed: int) -> list[dict[str, NDArray[np.generic]]]:
    """Two windows with the same statistics, of noise: the time does not depend on what it is."""
    chance = np.random.default_rng(seed)
    ones = np.ones(channels, np.float32)
    norms: dict[str, NDArray[np.generic]] = {
        rewrite.GAIN: ones,
        rewrite.BIAS: 0 * ones,
        rewrite.MEAN: 0 * ones,
        rewrite.DEVIATION: ones,
        rewrite.OWN: np.array(False),
    }
    return [
        {
            build.UPSAMPLED: _noise(chance, 256, columns * COLUMN_ROWS),
            build.SOURCE: _noise(chance, 22, columns * COLUMN_STEPS + 1),
            **norms,
        }
        for _ in range(2)
    ]


def _noise(chance: np.random.Generator, channels: int, length: int) -> Floats:
    return 0.1 * chance.standard_normal((1, channels, length), np.float32)


def _stacked(windows: Sequence[Feeds]) -> dict[str, NDArray[np.generic]]:
    first = windows[0]
    return {
        name: np.concatenate([window[name] for window in windows]) if first[name].ndim == 3 else one
        for name, one in first.items()
    }


def _each(session: Runs, windows: Sequence[Feeds]) -> None:
    for window in windows:
        run(session, window)
