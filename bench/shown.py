"""How a report is shown: tables on the terminal, and plots in the results folder. Files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rich import box
from rich.console import Console
from rich.table import Table

from bench import kept
from bench.report import Report, Row, cell
from engine.errors import SetupError

#: columns of a table that is drawn without lines between them
WIDE = 10


def drawn(report: Report, stem: str) -> str | None:
    """Draws the plot beside the report; gives the name of the one that it shows."""
    if report.plot is None:
        return None
    kept.FOLDER.mkdir(exist_ok=True)
    with suppress(SetupError):  # without matplotlib there are still tables
        for suffix in (".png", ".svg"):
            report.plot(kept.FOLDER / f"{stem}{suffix}")
        return f"{stem}.svg"
    return None


def show(console: Console, name: str, about: str, report: Report) -> None:
    """Prints a report."""
    console.rule(name)
    console.print(about, highlight=False)
    if report.rows:
        console.print(table(report.rows))
    for note in report.notes:
        console.print(note, highlight=False)
    shown = report.document.get("machine", {})
    told = ", ".join(f"{key} {value}" for key, value in shown.items() if key != "engines")
    console.print(told, style="dim", markup=False, highlight=False)


def table(rows: Sequence[Row], *, long_names: bool = False) -> Table:
    """The rows; if names are long they are what is broken, and nothing else."""
    # What has no room in the usual 80 columns is cut off, and that would be numbers.
    table = Table(box=box.SIMPLE_HEAD, padding=0) if len(rows[0]) >= WIDE else Table()
    for number, key in enumerate(rows[0]):
        table.add_column(key.replace("_", "\n"), no_wrap=(number == 0) != long_names)
    for row in rows:
        table.add_row(*(cell(value) for value in row.values()))
    return table
