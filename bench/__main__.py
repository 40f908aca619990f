"""`python -m bench [NAME …]`: runs scenarios, prints tables, keeps the raw numbers as JSON."""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.table import Table

from bench import machine, scenarios
from engine.errors import EngineError

RESULTS = Path(__file__).parent / "results"
NAMES = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(NAMES)}")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="repeats; the median is shown")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="two rounds")] = False,
) -> None:
    """Measures; every table names the machine and what was running beside it."""
    console = Console()
    unknown = set(names or ()) - set(NAMES)
    if unknown:
        print(f"There is no scenario {sorted(unknown)[0]!r}; there are {', '.join(NAMES)}.")
        sys.exit(1)
    for name in names or NAMES:
        scenario = importlib.import_module(f"bench.scenarios.{name}")
        before = machine.record()
        try:
            rows = trio.run(partial(scenario.run, 2 if quick else rounds))
        except EngineError as error:
            print(error.message)
            sys.exit(1)
        console.rule(name)
        console.print((scenario.__doc__ or "").strip())
        console.print(_table(rows))
        console.print(", ".join(f"{key} {value}" for key, value in before.items()), style="dim")
        RESULTS.mkdir(exist_ok=True)
        file = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
        file.write_text(json.dumps({"machine": before, "rows": rows}, indent=1) + "\n")
        console.print(f"raw numbers: {file.relative_to(RESULTS.parent.parent)}", style="dim")


def _table(rows: list[dict[str, object]]) -> Table:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in row.values())
        )
    return table


if __name__ == "__main__":
    typer.run(main)
