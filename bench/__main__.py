"""`python -m bench [NAME …]`: runs scenarios, prints tables, keeps the raw numbers as JSON.

A scenario is a module in `bench/scenarios/` with `async def run(Options) -> Report`; its name is
the module's.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import trio
import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from bench import scenarios
from bench.report import Options, Report, Row
from engine.errors import EngineError, InvalidRequest, SetupError

RESULTS = Path(__file__).parent / "results"
NAMES = sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__))


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(NAMES)}")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="repeats; the median is shown")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="two rounds")] = False,
    engines: Annotated[str, typer.Option(help="engines to compare, with commas; all")] = "",
    threads: Annotated[int, typer.Option(min=0, help="inference threads; 0: all cores")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the numbers")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="draw the numbers")] = None,
) -> None:
    """Measures; every table names the machine and what was running beside it."""
    console = Console()
    chosen = tuple(filter(None, (name.strip() for name in engines.split(","))))
    try:
        for name in _checked(names or NAMES, json_file, plot_file):
            scenario = importlib.import_module(f"bench.scenarios.{name}")
            with console.status(name) as status:
                options = Options(
                    rounds=2 if quick else rounds,
                    engines=chosen,
                    threads=threads,
                    tell=partial(_tell, status, name),
                )
                report = trio.run(partial(scenario.run, options))
            _show(console, name, scenario, report)
            _keep(console, name, report)
            if json_file is not None:
                _write(json_file, report.document)
            if plot_file is not None and report.plot is not None:
                report.plot(plot_file)
    except EngineError as error:
        print(error.message, file=sys.stderr)
        sys.exit(1)


def _checked(names: list[str], json_file: Path | None, plot_file: Path | None) -> list[str]:
    if unknown := sorted(set(names) - set(NAMES)):
        raise InvalidRequest(f"There is no scenario {unknown[0]!r}; there are {', '.join(NAMES)}.")
    if len(names) > 1 and (json_file or plot_file):
        raise InvalidRequest("A file takes the numbers of one scenario; name just one.")
    for file in (json_file, plot_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise SetupError(f"There is no folder for {file}.")
    return names


def _tell(status: Status, name: str, doing: str) -> None:
    status.update(f"{name}: {doing}")


def _show(console: Console, name: str, scenario: ModuleType, report: Report) -> None:
    console.rule(name)
    for paragraph in (scenario.__doc__ or "").split("\n\n"):
        console.print(" ".join(paragraph.split()), highlight=False)
    if report.rows:
        console.print(_table(report.rows))
    for note in report.notes:
        console.print(note, highlight=False)
    about = report.document.get("machine", {})
    shown = ", ".join(f"{key} {value}" for key, value in about.items() if key != "engines")
    console.print(shown, style="dim", markup=False, highlight=False)


def _keep(console: Console, name: str, report: Report) -> None:
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}.json"
    _write(file, {**report.document, "notes": list(report.notes), **report.raw})
    console.print(f"raw numbers: {file.relative_to(RESULTS.parent.parent)}", style="dim")


def _write(file: Path, document: object) -> None:
    try:
        file.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise SetupError(f"{file} cannot be written: {error.strerror}.") from None


def _table(rows: Sequence[Row]) -> Table:
    table = Table()
    for number, key in enumerate(rows[0]):
        table.add_column(key.replace("_", "\n"), no_wrap=number == 0)
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    return table


def _cell(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    typer.run(main)
