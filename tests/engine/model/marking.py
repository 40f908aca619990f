"""Has a session that is marked, and ends: `python -m tests.engine.model.marking CACHE killed|well`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import onnxruntime as ort

from engine.model.ends import Mark
from engine.model.marker import InUse
from engine.model.providers import Candidate

MARK = Mark(1.0, 2.0, 3, ("fake",))


class Killed:
    """A session whose call does not come back."""

    def get_inputs(self) -> list[Any]:
        return []

    def run(self, *_: object) -> list[Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return []


if __name__ == "__main__":
    opens = InUse(Path(sys.argv[1])).opens(MARK, lambda *_: Killed())
    made = opens(Path("graph"), 1, Candidate("fake", "FakeExecutionProvider"))
    if sys.argv[2] == "killed":
        made.run([], {}, ort.RunOptions())
