"""What the experiments have in common: graphs that are only in memory, and telling what came out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray
from rich.console import Console

from bench import kept, machine
from bench.report import Row
from bench.shown import table
from engine.model.providers import CPU
from engine.model.runtime import Runs, options

Floats = NDArray[np.float32]
Feeds = Mapping[str, NDArray[np.generic]]

console = Console()


def loaded(graph: bytes, threads: int, *, optimised: bool = False) -> Runs:
    """A session on a graph that is in no file; `optimised` if it is so already."""
    chosen = options(threads, optimised=optimised)
    runs: Runs = ort.InferenceSession(graph, chosen, providers=[CPU.provider])
    return runs


def run(session: Runs, feeds: Feeds) -> Floats:
    """The first output."""
    audio: Floats = session.run([], feeds, ort.RunOptions())[0]
    return audio


def tell(name: str, rows: Sequence[Row]) -> None:
    """Prints the table and keeps it, with what it was measured on."""
    console.print(table(rows))
    file = kept.keep(name, kept.new_run(), {"machine": machine.record(), "rows": list(rows)})
    console.print(f"numbers: {kept.shown(file)}")
