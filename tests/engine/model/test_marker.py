"""The mark of an engine that uses another provider: when it is there, and whose end it tells."""

from __future__ import annotations

import faulthandler
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import onnxruntime as ort
import pytest

from engine.errors import AssetError
from engine.model import ends, marker
from engine.model.ends import BUSY, IDLE, End, Mark
from engine.model.marker import FOLDER, InUse
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Runs
from tests.engine.model import aborting
from tests.engine.model.marking import MARK
from tests.engine.model.places import FAKE
from tests.support.processes import ROOT


def run(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", f"tests.engine.model.{program}", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )


def test_a_provider_that_aborts_in_use_costs_one_engine_and_not_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = run("aborting", tmp_path)
    assert ended.returncode == -signal.SIGABRT, ended.stderr
    loaded = aborting.started(tmp_path, monkeypatch)
    assert loaded.fault in loaded.model.why
    assert "by a fault (aborted) while it used coreml-all, so the processor is used" in loaded.fault
    assert loaded.info.provider == "CPU"
    assert np.abs(aborting.spoken(loaded)).max() > 0.05
    assert len(marks(tmp_path)) == 1  # so it goes with every start until the next test


def test_an_engine_that_is_killed_in_a_call_leaves_its_mark(tmp_path: Path) -> None:
    assert run("marking", tmp_path, "killed").returncode == -signal.SIGKILL
    assert marker.ended(tmp_path, MARK.decided_s) == [End(MARK, busy=True, fault="")]


def test_an_engine_that_ends_well_leaves_none(tmp_path: Path) -> None:
    ended = run("marking", tmp_path, "well")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert marks(tmp_path) == []


# --- in this process ----------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def faults(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What became of the faulthandler, which the tests need themselves."""
    told: list[str] = []
    monkeypatch.setattr(faulthandler, "enable", lambda file: told.append("on"))
    monkeypatch.setattr(faulthandler, "disable", lambda: told.append("off"))
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: False)
    return told


def marks(cache: Path) -> list[bytes]:
    return [file.read_bytes() for file in (cache / FOLDER).glob("*")]


def states(cache: Path) -> list[bytes]:
    return [content[:1] for content in marks(cache)]


class Looking:
    """A session that does nothing but look at the marks meanwhile."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.saw: list[list[bytes]] = [states(cache)]

    def run(self, *_: object) -> list[object]:
        self.saw.append(states(self.cache))
        return []


def opening(cache: Path, in_use: InUse) -> tuple[Callable[[Candidate], Runs], list[Looking]]:
    """Opens a session in a place; and all that were opened."""
    made: list[Looking] = []

    def opens(graph: Path, threads: int, place: Candidate) -> Runs:
        made.append(Looking(cache))
        return cast(Runs, made[-1])

    marked = in_use.opens(MARK, opens)
    return lambda place: marked(Path("graph"), 1, place), made


def called(runs: Runs) -> None:
    runs.run([], {}, ort.RunOptions())


def test_a_mark_is_there_before_a_session_is_and_as_long(tmp_path: Path, faults: list[str]) -> None:
    opens, made = opening(tmp_path, InUse(tmp_path))
    one, two = opens(FAKE), opens(FAKE)
    (content,) = marks(tmp_path)
    assert ends.decoded(content) == End(MARK, busy=False, fault="")
    called(one)
    assert states(tmp_path) == [IDLE]
    assert made[0].saw == [[BUSY], [BUSY]]
    del one
    assert (states(tmp_path), faults) == ([IDLE], ["on"])
    del two
    assert (states(tmp_path), faults) == ([], ["on", "off"])
    again = opens(FAKE)
    called(again)
    assert made[-1].saw == [[BUSY], [BUSY]]


def test_the_processor_needs_no_mark(tmp_path: Path, faults: list[str]) -> None:
    opens, _ = opening(tmp_path, InUse(tmp_path))
    called(opens(CPU))
    assert not (tmp_path / FOLDER).exists()
    assert faults == []


def test_a_session_that_cannot_be_opened_leaves_no_mark(tmp_path: Path) -> None:
    def fails(*_: object) -> Runs:
        raise AssetError("No such device.")

    opens = InUse(tmp_path).opens(MARK, fails)
    with pytest.raises(AssetError):
        opens(Path("graph"), 1, FAKE)
    assert marks(tmp_path) == []


def test_engines_that_live_are_left_alone(tmp_path: Path) -> None:
    opens, _ = opening(tmp_path, InUse(tmp_path))
    others, _ = opening(tmp_path, InUse(tmp_path))
    one, other = opens(FAKE), others(FAKE)
    for decided_s in (MARK.decided_s, 99.0):
        assert marker.ended(tmp_path, decided_s) == []
    assert len(marks(tmp_path)) == 2
    del one
    assert len(marks(tmp_path)) == 1
    called(other)


def test_a_mark_that_counts_stays_and_all_others_go(tmp_path: Path) -> None:
    busy = BUSY + ends.encoded(MARK)[1:]
    others = [
        ends.encoded(MARK),
        BUSY + ends.encoded(Mark(0.5, 2.0, 3, ("fake",)))[1:],
        b"",
        b"junk",
    ]
    (tmp_path / FOLDER).mkdir()
    for at, content in enumerate([busy, *others]):
        (tmp_path / FOLDER / str(at)).write_bytes(content)
    for _ in range(2):
        assert marker.ended(tmp_path, MARK.decided_s) == [End(MARK, busy=True, fault="")]
        assert marks(tmp_path) == [busy]


def test_where_nothing_can_be_written_an_engine_speaks_without_a_mark(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.touch()  # a file; rights do not hold for everybody
    opens, _ = opening(cache, InUse(cache))
    called(opens(FAKE))
    assert marker.ended(cache, MARK.decided_s) == []
