"""The engine, whose calls into the model hang, and do not end when told to, once a file is there.

`python -m tests.support.hanging_engine FILE`
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from engine.model.runtime import Call
from wsproto_api.__main__ import run


def main(file: Path) -> int:
    """Runs it; gives the exit code."""
    work = Call.run

    def hang(call: Call[Any]) -> Any:
        while file.exists():
            time.sleep(0.05)
        return work(call)

    Call.run = hang  # type: ignore[method-assign,assignment]  # the fault
    return run({})


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
