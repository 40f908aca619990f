"""What an engine does beside speaking, as long as it is kept: looks at its own costs. Shell."""

from __future__ import annotations

from functools import partial

import structlog
import trio

from engine import metrics
from engine.costs import Drift
from engine.report import Cost, Costs
from engine.stall import LOOK_S

log = structlog.get_logger("engine")


class Upkeep:
    """Looks after an engine; `run` it.

    Args:
        drifts: of the acoustic part and of the vocoder.
    """

    def __init__(self, drifts: tuple[Drift, Drift]) -> None:
        self._drifts = drifts
        for drift in drifts:
            metrics.COST.labels(drift.part, "now").set_function(partial(getattr, drift, "now_s"))
            metrics.COST.labels(drift.part, "first").set_function(
                partial(getattr, drift, "reference_s")
            )
            metrics.DRIFTS.labels(drift.part).set_function(partial(getattr, drift, "drifts"))

    async def run(self) -> None:
        """Looks every second, until cancelled."""
        while True:
            for drift in self._drifts:
                self._look_at(drift)
            await trio.sleep(LOOK_S)

    @property
    def costs(self) -> Costs:
        """What the model's work costs."""
        return Costs(*map(_told, self._drifts))

    def _look_at(self, drift: Drift) -> None:
        before = drift.drifts
        drift.look(trio.current_time())
        if drift.drifts == before:
            return
        facts = {"part": drift.part, "times": round(drift.now_s / drift.reference_s, 2)}
        if drift.drifts:
            log.warning("speech has cost more than at first for ten minutes", **facts)
        else:
            log.info("speech costs what it did at first", **facts)


def _told(drift: Drift) -> Cost:
    return Cost(
        now_ms=round(drift.now_s * 1000, 3),
        first_ms=round(drift.reference_s * 1000, 3),
        drifts=drift.drifts,
    )
