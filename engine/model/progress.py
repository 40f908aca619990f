"""Shows on the terminal what `assets` fetches. Shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TaskID, TaskProgressColumn, TextColumn
from rich.progress import Progress as Bars

from . import assets


@contextmanager
def shown_progress() -> Iterator[assets.Progress]:
    """A `Progress` that draws bars on a terminal, and writes a line for each file elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        told: set[str] = set()

        def line(what: str, done: int, total: int | None) -> None:
            if what not in told:
                told.add(what)
                print(f"{what} …", file=sys.stderr, flush=True)

        yield line
        return

    with Bars(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), console=console
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(what: str, done: int, total: int | None) -> None:
            if total is None and what not in tasks and not done:
                bars.console.print(what, highlight=False)  # news, not a measure
                return
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield draw
