"""`python -m playerd`: the player as a WebSocket server; with a command, what talks to it."""

from __future__ import annotations

import sys
from functools import partial

from . import commands


def main() -> None:
    """Runs what the command line says."""
    words = sys.argv[1:]
    if len(words) == 1 and words[0] in commands.WORDS:
        # A key that was pressed is to be obeyed at once; there is nothing to be parsed.
        sys.exit(commands.run(partial(commands.do, request=commands.WORDS[words[0]])))
    from .cli import app

    app(prog_name="python -m playerd")


if __name__ == "__main__":
    main()
