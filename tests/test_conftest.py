"""Which tests run beside which."""

from __future__ import annotations

import fcntl
from itertools import product
from pathlib import Path
from typing import IO

import pytest

from tests.conftest import Manner, turn

BESIDE = {(Manner.BUSY, Manner.BUSY), (Manner.IN_TIME, Manner.IN_TIME)}


@pytest.mark.parametrize(("first", "second"), list(product(Manner, Manner)))
def test_who_runs_beside_whom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: Manner, second: Manner
) -> None:
    lock = fcntl.flock

    def without_waiting(file: IO[str], operation: int) -> None:
        lock(file, operation | fcntl.LOCK_NB)

    monkeypatch.setattr(fcntl, "flock", without_waiting)
    with turn(tmp_path, first):
        try:
            with turn(tmp_path, second):
                found = True
        except BlockingIOError:
            found = False
    assert found is ((first, second) in BESIDE)
    with turn(tmp_path, second):
        pass  # all is free again
