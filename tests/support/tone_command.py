"""`python -m engine`, with the fake voice: what is around speech, without waiting for the model.

`python -m tests.support.tone_command TEXT ...`
"""

from __future__ import annotations

import typer

from engine import service
from engine.__main__ import main
from tests.support.tone import ToneVoice


async def load(*_: object, **__: object) -> ToneVoice:
    """In place of `service.load`."""
    return ToneVoice()


if __name__ == "__main__":
    service.load = load  # type: ignore[assignment]
    typer.run(main)
