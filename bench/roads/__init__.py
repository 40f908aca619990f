"""Two roads that were not taken, tried as cheaply as they can be (`docs/tuning.md`, "Roads not taken").

    python -m bench.roads batching     two windows of a segment in one call of stage two
    python -m bench.roads lowrank      convolutions and products as two thinner ones after another

Both take the model that is installed, and leave nothing behind but a file of numbers.
"""

from __future__ import annotations

import typer

from bench.roads import batching, lowrank

app = typer.Typer(add_completion=False, help=__doc__)
app.command("batching")(batching.main)
app.command("lowrank")(lowrank.main)
