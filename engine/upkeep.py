"""What an engine does beside speaking, as long as it is kept. Shell.

It looks at its own costs and its memory once a second, and runs the scheduled benchmark if there is
to be one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Protocol

import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from engine import metrics
from engine.costs import Drift
from engine.errors import SynthesisFailed
from engine.ladder import Kind, Step
from engine.memory import Relief, Watchdog
from engine.model.decoder import Decoder
from engine.report import CacheSize, Cost, Costs, Memory, SelfBench
from engine.selfbench import Bench, Lane
from engine.stall import LOOK_S, Work

log = structlog.get_logger("engine")


class Engine(Lane, Protocol):
    """What is looked after: `engine.synthesis.Synthesis`, or what a test has in its place."""

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """Of the parts of the model."""
        ...

    @property
    def works(self) -> tuple[Work, ...]:
        """What there is to do; that of the model first."""
        ...

    @property
    def caches(self) -> tuple[CacheSize, ...]:
        """All that is kept from one request to the next."""
        ...

    def forget(self) -> None:
        """Empties them."""
        ...


class Upkeep:
    """Looks after an engine; `run` it.

    Args:
        engine: that is looked after.
        style: of any voice, float32 [1, 256], for a number of phonemes.
        active: how many streams there are.
        limit_bytes: see `Watchdog`.
        bench: the scheduled benchmark; None: there is none.
        rss_bytes: memory of this process; None: the system does not tell.
    """

    def __init__(
        self,
        engine: Engine,
        style: Callable[[int], NDArray[np.float32]],
        active: Callable[[], int],
        *,
        limit_bytes: int = 0,
        bench: Bench | None = None,
        rss_bytes: Callable[[], int | None] = metrics.rss_bytes,
    ) -> None:
        self._engine = engine
        self._style = style
        self._active = active
        self._watchdog = Watchdog(limit_bytes)
        self._bench = bench
        self._rss_bytes = rss_bytes
        self._shrunk = 0
        self._shrunk_s = 0.0
        self._freed_bytes: int | None = None
        for drift in engine.drifts:
            metrics.COST.labels(drift.part, "now").set_function(partial(getattr, drift, "now_s"))
            metrics.COST.labels(drift.part, "first").set_function(
                partial(getattr, drift, "reference_s")
            )
            metrics.DRIFTS.labels(drift.part).set_function(partial(getattr, drift, "drifts"))

    async def run(self) -> None:
        """Does all of it, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._look_at_costs)
            nursery.start_soon(self._look_at_memory)
            if self._bench is not None:
                nursery.start_soon(self._bench.run)

    def make_way(self) -> None:
        """Somebody wants to speak."""
        if self._bench is not None:
            self._bench.make_way()

    # --- what is told ---------------------------------------------------------------------------

    @property
    def costs(self) -> Costs:
        """What the model's work costs."""
        return Costs(*map(_told, self._engine.drifts))

    @property
    def memory(self) -> Memory:
        """What is done about memory."""
        ago_s = round(trio.current_time() - self._shrunk_s, 1)
        return Memory(
            shrunk=self._shrunk,
            caches=self._engine.caches,
            limit_bytes=self._watchdog.limit_bytes,
            shrunk_ago_s=ago_s if self._shrunk else None,
            freed_bytes=self._freed_bytes,
        )

    @property
    def selfbench(self) -> SelfBench | None:
        """What the scheduled benchmark has found; None: there is none."""
        return None if self._bench is None else self._bench.told

    @property
    def faults(self) -> tuple[str, ...]:
        """What is not as it should be, a sentence each."""
        if not self._watchdog.too_large:
            return ()
        limit_mb = (self._watchdog.limit_bytes or 0) // 1_000_000
        return (
            f"The engine has more memory than its limit of {limit_mb} MB (memory_limit_mb), though "
            "it has given back what it can.",
        )

    # --- what is done ---------------------------------------------------------------------------

    async def _look_at_costs(self) -> None:
        while True:
            for drift in self._engine.drifts:
                _look_at(drift)
            await trio.sleep(LOOK_S)

    async def _look_at_memory(self) -> None:
        model, *_ = self._engine.works
        while True:
            for cache in self._engine.caches:
                metrics.CACHE_USED.labels(cache.name, cache.unit).set(cache.used)
                metrics.CACHE_BOUND.labels(cache.name, cache.unit).set(cache.bound)
            before = self._watchdog.too_large
            relief = self._watchdog.look(
                trio.current_time(), self._rss_bytes(), model.done, active=bool(self._active())
            )
            metrics.MEMORY_LIMIT.set(self._watchdog.limit_bytes or 0)
            if self._watchdog.too_large and not before:
                log.warning("the engine has more memory than its limit", **self._sizes())
            if relief is not None:
                await self._relieve(relief)
                self._watchdog.relieved(model.done)
            await trio.sleep(LOOK_S)

    async def _relieve(self, relief: Relief) -> None:
        before = self._rss_bytes()
        if relief is Relief.FORGET:
            self._engine.forget()
        try:
            await self._shrink()
        except SynthesisFailed as error:  # the C library gives back all the same
            log.warning("the model has given no memory back", reason=error.message)
        await trio.to_thread.run_sync(trim)
        after = self._rss_bytes()
        self._shrunk += 1
        self._shrunk_s = trio.current_time()
        if before is not None and after is not None:
            self._freed_bytes = before - after
        metrics.SHRINKS.labels(relief.value).inc()
        level = log.debug if relief is Relief.IDLE else log.info
        level("memory was given back", why=relief.value, **self._sizes())

    async def _shrink(self) -> None:
        """The shortest call of every session, behind which it keeps nothing that it does not need."""
        model = self._engine.model
        call = model.acoustic.call("a", self._style(1), 1.0)
        call.give_back()
        sound = await self._engine.in_batch(call)
        decoder = Decoder(model.vocoder, model.predictor, sound)
        await self._engine.in_batch(decoder.call(Step(Kind.WHOLE, 0, sound.columns)))

    def _sizes(self) -> dict[str, int]:
        found = {"mb": self._rss_bytes(), "limit_mb": self._watchdog.limit_bytes}
        found["freed_mb"] = self._freed_bytes
        return {name: round(size / 1e6) for name, size in found.items() if size is not None}


def trim() -> None:
    """Has the C library give back what was freed: 23 MB behind loading (measured). Blocking.

    Only glibc has such a call.
    """
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)


def _look_at(drift: Drift) -> None:
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
