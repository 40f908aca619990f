"""`python -m bench quantise`: how much quicker integers make the model, and how much they cost.

Variants of the model are compared with single precision: each group of convolutions of the vocoder
alone, all of them, and those that a search puts together without going over the limit of
distance; integers, four bits and halves in the acoustic part. What was measured is kept by variant
under `bench/results/quantise`, so that a run goes on where another one ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal

import typer

#: dB over single precision that the median of the texts may be away
GATE_DB = 2.0


def groups(sites: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The convolutions of each block by its name, in order."""
    found: dict[str, list[str]] = {}
    for site in sites:
        found.setdefault(site.partition("/")[0], []).append(site)
    return {name: tuple(own) for name, own in found.items()}


def search(
    worth: Mapping[str, tuple[float, float]],
    distance_db: Callable[[tuple[str, ...]], float],
    gate_db: float = GATE_DB,
) -> tuple[str, ...]:
    """The groups that save most for their distance and together stay under the gate.

    One after the other is added, the one first that saves most per dB; one that goes over the gate
    is left out, and the next one is tried.

    Args:
        worth: by group, the part of the time that it saves alone, and its distance alone in dB.
        distance_db: measures the distance of groups together.
        gate_db: what that may be.
    """
    taken: tuple[str, ...] = ()
    order = sorted(worth, key=lambda name: -worth[name][0] / max(worth[name][1], 1e-3))
    for name in order:
        saved, alone_db = worth[name]
        if saved > 0 and alone_db <= gate_db and distance_db((*taken, name)) <= gate_db:
            taken = (*taken, name)
    return taken


def main(
    quick: Annotated[bool, typer.Option("--quick", help="half of the rounds")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="measure all of it anew")] = False,
    clip: Annotated[
        float, typer.Option(min=0.9, max=1, help="part of the values inside of a range; 1: all")
    ] = 0.999,
    balance: Annotated[
        float, typer.Option(min=0, max=1, help="1: channels made alike; 0: their weights")
    ] = 1.0,
    part: Annotated[
        Literal["all", "vocoder", "acoustic"], typer.Option(help="what is looked at")
    ] = "all",
    recipe: Annotated[
        bool, typer.Option("--recipe", help="give the engine the hybrid that is found")
    ] = False,
) -> None:
    """Compares variants of the model with fewer bits: time, distance, words understood."""
    from bench.quantise.report import run  # takes seconds, and is only needed here

    run(quick=quick, fresh=fresh, clip=clip, balance=balance, part=part, recipe=recipe)
