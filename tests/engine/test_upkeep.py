"""What is done beside speaking; in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import numpy as np
import onnxruntime as ort
import pytest
import trio
from numpy.typing import NDArray
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import metrics, upkeep
from engine.costs import DRIFT_S, Drift, Rate
from engine.history import Series
from engine.memory import IDLE_S, ROOM_BYTES
from engine.report import CacheSize, Cost, SelfBench
from engine.selfbench import QUIET_S, Bench
from engine.stall import LOOK_S, Work
from engine.synthesis import Model
from engine.turns import Stoppable
from engine.upkeep import Upkeep
from tests.engine.machine import Machine

T = TypeVar("T")

MB = 1_000_000
_GIVES_BACK = "memory.enable_memory_arena_shrinkage"


class Frugal(Machine):
    """A model that says which calls give back what they needed."""

    def work(self, name: str, options: ort.RunOptions) -> None:
        super().work(name, options)
        assert options.get_run_config_entry(_GIVES_BACK) == "cpu:0"


class Engine:
    """Two parts of a model that work all the time, the vocoder so many times as long as it should.

    Attributes:
        rss: memory of the process; `arenas` and `cached` of it are given back when asked for.
        active: how many streams there are.
    """

    def __init__(self, *, limit: int = 0, file: Path | None = None) -> None:
        self.machine = Frugal()
        self.model: Model = self.machine.model
        self.acoustic, self.vocoder = Rate(), Rate()
        self.drifts = (
            Drift("acoustic", self.acoustic, 0.002), Drift("vocoder", self.vocoder, 0.004)
        )  # fmt: skip
        self.works = (Work("model"), Work("text"))
        self.times = 1.0
        self.active = 0
        self.loaded, self.arenas, self.cached = 700 * MB, 0, 0
        bench = None
        if file is not None:
            bench = Bench(self, style, self.series, ("weekly", 7e5), file, lambda: self.active)
        self.upkeep = Upkeep(
            self, style, lambda: self.active, limit_bytes=limit, bench=bench,
            rss_bytes=lambda: self.loaded + self.arenas + self.cached,
        )  # fmt: skip

    @property
    def caches(self) -> tuple[CacheSize, ...]:
        return (CacheSize("audio", self.cached, 64 * MB, "bytes"), CacheSize("voices", 2, 64))

    def forget(self) -> None:
        self.cached = 0

    def series(self) -> Series:
        return Series("here", "1", "2", "abc", "CPU", "CPU", 0)

    async def in_batch(self, call: Stoppable[T]) -> T:
        with self.works[0].asked():
            await trio.sleep(0.1)
            return call.run()

    async def work(self) -> None:
        while True:
            self.acoustic.took(0.1, 0.1)
            self.vocoder.took(0.3, 0.3 * self.times)
            self.works[0].progressed()
            await trio.sleep(LOOK_S)


def style(phonemes: int) -> NDArray[np.float32]:
    return np.array([[1.0, 0.0]], np.float32)


@pytest.fixture
def trims(monkeypatch: pytest.MonkeyPatch) -> list[Engine]:
    """Engines whose arenas the C library gives back; virtual time waits for no real thread."""
    engines: list[Engine] = []

    async def run_sync(work: Callable[[], T]) -> T:
        await trio.lowlevel.checkpoint()
        return work()

    def trim() -> None:
        for engine in engines:
            engine.arenas = 0

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    monkeypatch.setattr(upkeep, "trim", trim)
    return engines


@asynccontextmanager
async def kept(engine: Engine) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.upkeep.run)
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def at_work(engine: Engine) -> AsyncIterator[None]:
    async with kept(engine), trio.open_nursery() as nursery:
        nursery.start_soon(engine.work)
        yield
        nursery.cancel_scope.cancel()


def measured(name: str, **labels: str) -> float | None:
    return metrics.REGISTRY.get_sample_value(f"kokoro_live_{name}", labels)


async def test_what_has_become_dear_is_told_once_and_when_it_is_over(
    autojump_clock: MockClock,
) -> None:
    engine = Engine()
    with capture_logs() as logs:
        async with at_work(engine):
            await trio.sleep(60)
            assert engine.upkeep.costs.vocoder == Cost(4.0, 4.0)
            engine.times = 1.5
            await trio.sleep(DRIFT_S / 2)
            assert not engine.upkeep.costs.vocoder.drifts
            assert not logs
            await trio.sleep(DRIFT_S)
            assert engine.upkeep.costs.vocoder == Cost(6.0, 4.0, drifts=True)
            assert engine.upkeep.costs.acoustic == Cost(2.0, 2.0)
            now_s = measured("cost_seconds", part="vocoder", when="now")
            assert now_s == pytest.approx(engine.times * 0.004)
            assert measured("cost_seconds", part="vocoder", when="first") == 0.004
            assert measured("drifts", part="vocoder") == 1
            assert measured("drifts", part="acoustic") == 0
            engine.times = 1.0
            await trio.sleep(120)
            assert not engine.upkeep.costs.vocoder.drifts
            assert measured("drifts", part="vocoder") == 0
    assert [(entry["log_level"], entry["part"]) for entry in logs] == [
        ("warning", "vocoder"), ("info", "vocoder")
    ]  # fmt: skip
    assert logs[0]["times"] == 1.5


# --- memory ------------------------------------------------------------------------------------


async def test_every_session_gives_back_what_it_keeps_when_work_is_over(
    trims: list[Engine], autojump_clock: MockClock
) -> None:
    engine, before = Engine(), measured("shrinks_total", why="idle") or 0
    trims.append(engine)
    async with kept(engine):
        async with trio.open_nursery() as working:
            working.start_soon(engine.work)
            await trio.sleep(1)
            engine.arenas, engine.cached = 180 * MB, 20 * MB
            await trio.sleep(200)
            assert engine.machine.log == []
            working.cancel_scope.cancel()
        await trio.sleep(IDLE_S + 10)
        told = engine.upkeep.memory
        await trio.sleep(1000)
    assert engine.machine.log == ["acoustic a", "whole a"], "once, and that is all sessions"
    assert (told.shrunk, told.freed_bytes, told.limit_bytes) == (1, 180 * MB, 700 * MB + ROOM_BYTES)
    assert told.shrunk_ago_s is not None
    assert 0 < told.shrunk_ago_s < 20
    assert told.caches == engine.caches
    assert engine.cached == 20 * MB
    assert measured("shrinks_total", why="idle") == before + 1
    assert measured("memory_limit_bytes") == told.limit_bytes
    assert measured("cache_used", cache="audio", unit="bytes") == 20 * MB
    assert measured("cache_bound", cache="audio", unit="bytes") == 64 * MB


async def test_above_the_limit_caches_are_emptied_and_what_remains_is_told(
    trims: list[Engine], autojump_clock: MockClock
) -> None:
    engine = Engine(limit=750 * MB)
    trims.append(engine)
    with capture_logs() as logs:
        async with at_work(engine):
            await trio.sleep(10)
            assert (engine.upkeep.memory.shrunk, logs) == (0, [])
            engine.arenas, engine.cached = 100 * MB, 64 * MB
            await trio.sleep(10)
            assert engine.upkeep.memory.shrunk == 2
            assert (engine.arenas, engine.cached, engine.upkeep.faults) == (0, 0, ())
            await trio.sleep(100)
            engine.loaded = 800 * MB  # a leak
            await trio.sleep(10)
            (fault,) = engine.upkeep.faults
            assert "limit of 750 MB" in fault
            engine.loaded = 700 * MB
            await trio.sleep(2)
            assert engine.upkeep.faults == ()
    events = [(entry["log_level"], entry.get("why")) for entry in logs]
    assert events == [("info", "limit"), ("info", "forget")] * 2 + [("warning", None)]
    assert logs[-1]["mb"] == 800


async def test_a_model_that_fails_then_is_no_trouble(
    trims: list[Engine], autojump_clock: MockClock
) -> None:
    engine = Engine()
    trims.append(engine)
    engine.machine.fails = {"acoustic a"}
    with capture_logs() as logs:
        async with kept(engine):
            await trio.sleep(2)
            engine.works[0].progressed()
            engine.arenas = 10 * MB
            await trio.sleep(IDLE_S + 10)
    assert engine.upkeep.memory.freed_bytes == 10 * MB, "the C library's"
    assert [entry["log_level"] for entry in logs] == ["warning", "debug"]


# --- the scheduled benchmark -------------------------------------------------------------------


async def test_there_is_a_benchmark_only_if_it_is_asked_for(
    trims: list[Engine], tmp_path: Path, autojump_clock: MockClock
) -> None:
    without, engine = Engine(), Engine(file=tmp_path / "runs.jsonl")
    without.upkeep.make_way()
    assert without.upkeep.selfbench is None
    assert engine.upkeep.selfbench == SelfBench(every="weekly", runs=0)
    async with kept(engine):
        await trio.sleep(QUIET_S + 0.05)
        assert engine.works[0].waiting
        engine.upkeep.make_way()
        await trio.sleep(0.01)
        assert not engine.works[0].waiting
