"""`python -m bench tune`: finds the settings with which this machine is heard soonest without a hole."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from engine.errors import EngineError

#: trials in all, and rounds of what is measured
TRIALS, ROUNDS = 150, 7
QUICK_TRIALS, QUICK_ROUNDS = 40, 3


def main(
    trials: Annotated[int | None, typer.Option(min=1, help="trials in all; 150, quick 40")] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, help="repeats of what is measured; 7, quick 3")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="less of everything")] = False,
    resume: Annotated[
        bool, typer.Option("--resume/--fresh", help="go on with this machine's study")
    ] = True,
    verify: Annotated[
        bool, typer.Option(help="let engines speak with both, and keep what is no worse")
    ] = True,
    write: Annotated[
        bool | None, typer.Option(help="write the settings' file; otherwise you are asked")
    ] = None,
    seed: Annotated[int, typer.Option(help="of the search, and of orders")] = 1,
) -> None:
    """Searches for settings, lets real engines speak with them, and writes them if you agree."""
    # Optuna takes a while to be imported, and is there only where things are developed.
    try:
        from bench.tune.running import Wishes, run
    except ImportError as error:
        print(f"A search needs {error.name}: run make lint or make test once.", file=sys.stderr)
        sys.exit(1)
    wishes = Wishes(
        trials=trials or (QUICK_TRIALS if quick else TRIALS),
        rounds=rounds or (QUICK_ROUNDS if quick else ROUNDS),
        quick=quick,
        resume=resume,
        verify=verify,
        write=write,
        seed=seed,
    )
    try:
        run(wishes)
    except EngineError as error:
        print(error.message, file=sys.stderr)
        sys.exit(1)
