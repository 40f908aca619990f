"""What is done beside speaking; in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import metrics
from engine.costs import DRIFT_S, Drift, Rate
from engine.report import Cost
from engine.stall import LOOK_S
from engine.upkeep import Upkeep


class Engine:
    """Two parts of a model that work all the time, the vocoder so many times as long as it should."""

    def __init__(self) -> None:
        self.acoustic, self.vocoder = Rate(), Rate()
        self.upkeep = Upkeep(
            (Drift("acoustic", self.acoustic, 0.002), Drift("vocoder", self.vocoder, 0.004))
        )
        self.times = 1.0

    async def work(self) -> None:
        while True:
            self.acoustic.took(0.1, 0.1)
            self.vocoder.took(0.3, 0.3 * self.times)
            await trio.sleep(LOOK_S)


@asynccontextmanager
async def at_work(engine: Engine) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(engine.work)
        nursery.start_soon(engine.upkeep.run)
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
