"""Shows on the terminal what `assets` fetches. Shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn
from rich.progress import Progress as Bars

from . import assets


@contextmanager
def shown_progress() -> Iterator[assets.Progress]:
    """A `Progress` that draws bars on a terminal, and writes a line for each file elsewhere."""
    console = Console(stderr=True)
    told: set[str] = set()
    if not console.is_terminal:

        def lines(what: str, done: int, total: int | None) -> None:
            if what not in told:
                told.add(what)
                print(f"{what} …", file=sys.stderr, flush=True)

        yield lines
        return

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def draw(what: str, done: int, total: int | None) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield draw
