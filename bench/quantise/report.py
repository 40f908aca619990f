"""Runs the laboratory, keeps what was measured by variant, and shows it. Shell."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console

from bench import kept, machine, plot
from bench.quantise import GATE_DB, groups, search
from bench.quantise.lab import Lab, Result
from bench.report import Row, cell
from engine.errors import EngineError, SetupError
from engine.model import build

FOLDER = kept.FOLDER / "quantise"

Made = Mapping[str, Path]


def run(*, quick: bool, fresh: bool, clip: float, balance: float, part: str, recipe: bool) -> None:
    """See `bench.quantise.main`."""
    console = Console()
    # The library asks for its pre-processing, which `build` has done already.
    logging.getLogger().setLevel(logging.ERROR)
    try:
        with console.status("quantise") as status:
            lab = Lab(clip=clip, balance=balance, quick=quick, tell=status.update)
            results = _measured(lab, part, _Kept(quick, fresh, f"{clip:g}-{balance:g}"), recipe)
    except EngineError as error:
        print(error.message, file=sys.stderr)
        sys.exit(1)
    _written(console, results, f"ranges hold {clip:g} of the values, balance {balance:g}")


class _Kept:
    """Results of earlier runs, one file for each variant."""

    def __init__(self, quick: bool, fresh: bool, options: str) -> None:
        # Another processor has other ratios, so its results are no use here.
        about = machine.record()
        told = f"{about['cpu']} {about['cpu_features']} {about['onnxruntime']} {build.VERSION}"
        digest = hashlib.sha256(told.encode()).hexdigest()[:8]
        self._stem = f"{digest}-{options}-{'quick' if quick else 'full'}"
        self._fresh = fresh
        FOLDER.mkdir(parents=True, exist_ok=True)

    def get(self, name: str, make: Callable[[], Result]) -> Result:
        """What is kept of a variant, or else what `make` measures, from then on."""
        file = FOLDER / f"{self._stem}-{name.replace(' ', '_')}.json"
        if not self._fresh:
            with suppress(OSError, msgspec.DecodeError):
                return msgspec.json.decode(file.read_bytes(), type=Result)
        found = make()
        kept.write(file, msgspec.to_builtins(found))
        return found


def _measured(lab: Lab, part: str, known: _Kept, recipe: bool) -> list[Result]:
    results: list[Result] = []

    def add(name: str, make: Callable[[], Made]) -> Result:
        results.append(known.get(name, lambda: lab.measured(name, make())))
        return results[-1]

    add("float32", dict)
    if part != "acoustic":
        every = groups(tuple(lab.ranges))
        worth = {}
        for name, own in every.items():
            found = add(name, lambda own=own: lab.vocoder(own))  # type: ignore[misc]
            worth[name] = 1 - float(np.median(found.whole)), float(np.median(found.lsd_db))

        def sites(taken: tuple[str, ...]) -> list[str]:
            return [site for name in taken for site in every[name]]

        def distance_db(taken: tuple[str, ...]) -> float:
            return float(np.median(lab.distances(lab.vocoder(sites(taken)))))

        taken = search(worth, distance_db)
        if recipe:
            lab.write_recipe(sites(taken))
        names = ", ".join(taken)
        add(f"hybrid: {names}", lambda: lab.vocoder(sites(taken)))
        title = f"hybrid, bias corrected: {names}"
        add(title, lambda: lab.vocoder(sites(taken), corrected=True))
        add("all, products", lambda: lab.vocoder(lab.ranges))
        add("all, products, bias corrected", lambda: lab.vocoder(lab.ranges, corrected=True))
        add("all, QDQ", lab.qdq)
    if part != "vocoder":
        add("acoustic, dynamic int8", lab.dynamic)
        add("acoustic, 4 bits", lab.four_bits)
        add("weights in halves", lab.halves)
    return results


def row(result: Result) -> Row:
    """A line of the table."""

    def median(values: list[float], digits: int) -> float | None:
        return round(float(np.median(values)), digits) if values else None

    return {
        "variant": result.name,
        "MB": result.size_mb,
        "RTF": result.rtf,
        "whole": median(result.whole, 2),
        "window": median(result.window, 2),
        "LSD dB": median(result.lsd_db, 2),
        "worst": round(max(result.lsd_db), 2) if result.lsd_db else None,
        "mel dB": median(result.mel_db, 2),
        "other durations": result.other_durations,
        "WER": round(result.errors / max(1, result.words), 3),
    }


def markdown(rows: list[Row]) -> str:
    """The table in Markdown."""
    lines = [list(map(str, rows[0])), ["---"] * len(rows[0])]
    lines += [[cell(value) for value in own.values()] for own in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _written(console: Console, results: list[Result], how: str) -> None:
    rows = [row(result) for result in results]
    run = kept.new_run()
    about = ", ".join(f"{key} {value}" for key, value in machine.record().items())
    text = f"# Fewer bits\n\n{about}\n\n{how}; limit {GATE_DB:g} dB\n\n{markdown(rows)}\n"
    with suppress(SetupError):  # without matplotlib there is still a table
        for suffix in (".png", ".svg"):
            plot.quantise(rows, kept.FOLDER / f"quantise-{run}{suffix}")
        text += f"\n![time and distance](quantise-{run}.svg)\n"
    file = kept.FOLDER / f"quantise-{run}.md"
    file.write_text(text)
    console.print(markdown(rows), markup=False, highlight=False)
    console.print(f"report: {kept.shown(file)}")
