"""The scheduled benchmark, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import history, metrics, selfbench
from engine.history import SPAN, Run, Series
from engine.ladder import exact_steps
from engine.model.runtime import Call
from engine.report import Trend
from engine.selfbench import PHONEMES, QUIET_S, ROUNDS, Bench
from engine.synthesis import Model
from engine.turns import Stoppable
from tests.engine.machine import FRAMES, Machine

T = TypeVar("T")

DAY_S = 86_400.0
#: calls of a round: arithmetic, a pass, and the steps of the vocoder
CALLS = 2 + len(list(exact_steps(2 * FRAMES * (len(PHONEMES) + 2))))
RUN_S = (ROUNDS + 1) * CALLS * 0.1


class Engine:
    """A model, each call of which takes a tenth of a second.

    Attributes:
        slower: by what the vocoder's times are multiplied.
        active: how many streams there are.
        hardware: of the series.
        calls: how many there were.
        began_s: when the first was.
    """

    def __init__(self, file: Path, start_s: float = 0.0) -> None:
        self.machine = Machine()
        self.model: Model = self.machine.model
        self.slower = 1.0
        self.active = 0
        self.hardware = "here"
        self.calls = 0
        self.began_s = 0.0
        self.bench = Bench(
            self, self.style, self.series, ("daily", DAY_S), file,
            lambda: self.active, lambda: start_s + trio.current_time(),
        )  # fmt: skip

    def style(self, phonemes: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        assert phonemes == len(PHONEMES)
        return np.array([[1.0, 0.0]], np.float32)

    def series(self) -> Series:
        return Series(self.hardware, "1", "2", "abc", "CPU", "CPU", 0)

    async def in_batch(self, call: Stoppable[T]) -> T:
        before = len(self.machine.log)
        self.began_s = self.began_s or trio.current_time()
        await trio.sleep(0.1)
        self.calls += 1
        made = call.run()
        assert isinstance(call, Call)
        vocoder = self.machine.log[before:] and not self.machine.log[-1].startswith("acoustic")
        call.seconds = 0.1 * (self.slower if vocoder else 1.0)
        return made


@pytest.fixture(autouse=True)
def virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time waits for no real thread, and for no arithmetic."""

    async def run_sync(work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    monkeypatch.setattr(selfbench, "arithmetic_s", lambda: 0.02)


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / "state" / "runs.jsonl")


@asynccontextmanager
async def kept(engine: Engine) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.bench.run)
        yield
        nursery.cancel_scope.cancel()


def runs(file: Path) -> list[Run]:
    return history.read(file.read_bytes()) if file.exists() else []


async def test_it_runs_when_it_is_time_and_quiet(
    engine: Engine, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with kept(engine):
        await trio.sleep(QUIET_S - 1)
        assert engine.calls == 0
        await trio.sleep(20 + RUN_S)
        assert engine.calls == (ROUNDS + 1) * CALLS
        await trio.sleep(DAY_S - 2 * QUIET_S)
        assert engine.calls == (ROUNDS + 1) * CALLS
        await trio.sleep(3 * QUIET_S)
        assert engine.calls == 2 * (ROUNDS + 1) * CALLS
    (file,) = (tmp_path / "state").iterdir()
    first, second = runs(file)
    assert second.at_s - first.at_s == pytest.approx(DAY_S, abs=QUIET_S)
    assert first.acoustic_ms == pytest.approx(100)
    assert first.vocoder_ms == pytest.approx(100 * (CALLS - 2))
    assert first.yardstick_ms == pytest.approx(20)
    assert engine.bench.told.runs == 2
    assert engine.bench.told.acoustic == Trend(100.0)


async def test_it_goes_on_where_the_last_process_was(
    engine: Engine, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with kept(engine):
        await trio.sleep(QUIET_S + 60)
    again = Engine(tmp_path / "state" / "runs.jsonl")
    async with kept(again):
        await trio.sleep(DAY_S / 2)
        assert again.calls == 0
        assert again.bench.told == engine.bench.told


async def test_a_stream_ends_it_at_once_and_it_comes_again(
    engine: Engine, tmp_path: Path, autojump_clock: MockClock
) -> None:
    async with kept(engine):
        await trio.sleep(QUIET_S + 2)
        assert 0 < engine.calls < ROUNDS * CALLS
        engine.bench.make_way()
        calls = engine.calls
        await trio.sleep(QUIET_S - 1)
        assert engine.calls == calls
        assert not (tmp_path / "state").exists()
        await trio.sleep(20 + RUN_S)
        assert engine.bench.told.runs == 1


async def test_it_waits_until_a_long_stream_is_over(
    engine: Engine, autojump_clock: MockClock
) -> None:
    async with kept(engine):
        engine.bench.make_way()
        engine.active = 1
        await trio.sleep(DAY_S)
        engine.active = 0
        ended_s = trio.current_time()
        await trio.sleep(2 * QUIET_S + RUN_S)
    assert engine.bench.told.runs == 1
    assert engine.began_s >= ended_s


async def test_what_has_become_slower_is_told_once(
    engine: Engine, autojump_clock: MockClock
) -> None:
    def measured(name: str, part: str) -> float | None:
        return metrics.REGISTRY.get_sample_value(f"kokoro_live_selfbench_{name}", {"part": part})

    with capture_logs() as logs:
        async with kept(engine):
            await trio.sleep(SPAN * DAY_S)
            engine.slower = 1.5
            await trio.sleep(2 * DAY_S)
            assert (measured("slower", "vocoder"), logs) == (0, [])
            await trio.sleep(4 * DAY_S)
            assert measured("slower", "vocoder") == 1
            assert measured("slower", "acoustic") == 0
            assert measured("seconds", "yardstick") == pytest.approx(0.02)
            told = engine.bench.told
    assert [(entry["log_level"], entry["part"], entry["times"]) for entry in logs] == [
        ("warning", "vocoder", 1.5)
    ]
    assert told.vocoder is not None
    assert (told.vocoder.times, told.vocoder.slower) == (1.5, True)
    assert told.acoustic is not None
    assert not told.acoustic.slower


async def test_another_machine_is_another_series(engine: Engine, autojump_clock: MockClock) -> None:
    """A folder that several machines share, or a new processor."""
    async with kept(engine):
        await trio.sleep(3 * DAY_S)
        engine.hardware = "there"
        assert engine.bench.told.runs == 0
        await trio.sleep(DAY_S / 2)
        assert engine.bench.told.runs == 1
        engine.hardware = "here"
        assert engine.bench.told.runs == 3


async def test_a_run_during_which_the_model_is_loaded_anew_is_made_again(
    engine: Engine, autojump_clock: MockClock
) -> None:
    """It is partly of the one and partly of the other."""
    async with kept(engine):
        await trio.sleep(QUIET_S + RUN_S / 2)
        assert 0 < engine.calls < (ROUNDS + 1) * CALLS
        engine.hardware = "there"
        await trio.sleep(RUN_S)
        assert (engine.calls, engine.bench.told.runs) == ((ROUNDS + 1) * CALLS, 0)
        engine.hardware = "here"
        assert engine.bench.told.runs == 0
        engine.hardware = "there"
        await trio.sleep(QUIET_S + RUN_S)
        assert engine.bench.told.runs == 1


async def test_a_run_that_fails_is_told_and_tried_again_in_an_hour(
    engine: Engine, autojump_clock: MockClock
) -> None:
    engine.machine.fails = {"one a"}
    with capture_logs() as logs:
        async with kept(engine):
            await trio.sleep(QUIET_S + 3500)
            engine.machine.fails = set()
            assert engine.bench.told.runs == 0
            await trio.sleep(200)
            assert engine.bench.told.runs == 1
    assert [entry["event"] for entry in logs] == ["the scheduled benchmark has failed"]


@pytest.mark.parametrize("spoil", [Path.mkdir, lambda path: path.write_bytes(b"\xff\n{}\n")])
async def test_a_file_that_is_of_no_use_is_no_trouble(
    spoil: Callable[[Path], object], tmp_path: Path, autojump_clock: MockClock
) -> None:
    spoil(tmp_path / "runs.jsonl")
    engine = Engine(tmp_path / "runs.jsonl")
    async with kept(engine):
        await trio.sleep(QUIET_S + 60)
    assert engine.bench.told.runs == 1
