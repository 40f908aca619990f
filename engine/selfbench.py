"""The scheduled benchmark: how long the model takes for a fixed text, when nobody speaks. Shell.

Off unless it is asked for (`selfbench`). It gives way at once to whoever wants to speak, and comes
again when it has been quiet for long enough.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from engine import history, metrics
from engine.errors import SynthesisFailed, blame
from engine.history import Run, Series
from engine.ladder import exact_steps
from engine.model.decoder import Decoder
from engine.model.providers import PARTS
from engine.model.runtime import Call
from engine.model.store import write_atomically
from engine.report import SelfBench
from engine.synthesis import Model
from engine.turns import Stoppable

log = structlog.get_logger("engine")

T = TypeVar("T")

#: in the user's folder for what programs remember
FILE = "selfbench.jsonl"
#: seconds without a stream before a run, and between two looks whether it is time for one
QUIET_S = 600.0
#: a run that has failed is tried again after so long
_FAILED_S = 3600.0
#: rounds of a run, after one that does not count
ROUNDS = 5

#: three seconds of speech
PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ."


class Lane(Protocol):
    """What is measured: `engine.synthesis.Synthesis`, or what a test has in its place."""

    @property
    def model(self) -> Model:
        """The parts by now."""
        ...

    async def in_batch(self, call: Stoppable[T]) -> T:
        """Runs a call that nobody waits for."""
        ...


class Bench:
    """Runs the benchmark now and then; `run` it.

    Args:
        lane: whose model is measured.
        style: of the voice that speaks, float32 [1, 256], for a number of phonemes.
        series: what its runs are compared with.
        every: how often it is run, and how many seconds that is.
        file: where its runs are kept.
        active: how many streams there are.
        now_s: seconds since 1970.
    """

    def __init__(
        self,
        lane: Lane,
        style: Callable[[int], NDArray[np.float32]],
        series: Callable[[], Series],
        every: tuple[str, float],
        file: Path,
        active: Callable[[], int],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._lane = lane
        self._style = style
        self._series = series
        self._every, self._period_s = every
        self._file = file
        self._active = active
        self._now_s = now_s
        self._runs: list[Run] = []
        self._quiet_from_s = 0.0
        self._scope = trio.CancelScope()

    @property
    def told(self) -> SelfBench:
        """What it has found."""
        return history.told(self._every, history.of(self._runs, self._series()))

    def make_way(self) -> None:
        """Somebody wants to speak: what is running is given up."""
        self._quiet_from_s = trio.current_time()
        self._scope.cancel()

    async def run(self) -> None:
        """Runs it whenever it is time and quiet, until cancelled."""
        self._runs = await trio.to_thread.run_sync(self._read)
        self._tell()
        self._quiet_from_s = trio.current_time()
        while True:
            now_s = trio.current_time()
            if self._active():
                self._quiet_from_s = now_s
            left_s = self._quiet_from_s + QUIET_S - now_s
            if left_s <= 0 and self._is_due():
                await self._attempt()
            await trio.sleep(left_s if left_s > 0 else QUIET_S)

    def _is_due(self) -> bool:
        before = history.of(self._runs, self._series())
        last_s = before[-1].at_s if before else None
        return history.is_due(last_s, self._period_s, self._now_s())

    async def _attempt(self) -> None:
        with trio.CancelScope() as self._scope:
            series = self._series()
            try:
                run = await self._measured(series)
            except SynthesisFailed as error:
                log.warning("the scheduled benchmark has failed", reason=error.message)
                self._quiet_from_s = trio.current_time() + _FAILED_S - QUIET_S
                return
            # Loaded anew, or a provider gave way: some of it may have run elsewhere.
            if self._series() != series:
                return
            self._runs = [*self._runs, run][-history.KEPT :]
            self._tell(new=True)
            await trio.to_thread.run_sync(self._keep)

    async def _measured(self, series: Series) -> Run:
        model, style = self._lane.model, self._style(len(PHONEMES))
        rounds: list[tuple[float, float, float]] = []
        for _ in range(ROUNDS + 1):
            yardstick_s = await self._lane.in_batch(Call(lambda _: arithmetic_s()))
            acoustic = model.acoustic.call(PHONEMES, style, 1.0)
            sound = await self._lane.in_batch(acoustic)
            decoder = Decoder(model.vocoder, model.predictor, sound)
            vocoder_s = 0.0
            for step in exact_steps(sound.columns):
                call = decoder.call(step)
                await self._lane.in_batch(call)
                vocoder_s += call.seconds
            rounds.append((acoustic.seconds, vocoder_s, yardstick_s))
        medians = (
            round(1000 * statistics.median(each), 3) for each in zip(*rounds[1:], strict=True)
        )
        return Run(self._now_s(), series, *medians)

    def _tell(self, *, new: bool = False) -> None:
        """In the metrics; and in the log, if a part was not slow before the newest run."""
        runs = history.of(self._runs, self._series())
        if not runs:
            return
        metrics.SELFBENCH.labels("yardstick").set(runs[-1].yardstick_ms / 1000)
        for part in PARTS:
            trend = history.trend(runs, part)
            metrics.SELFBENCH.labels(part).set(runs[-1].ms(part) / 1000)
            metrics.SLOWER.labels(part).set(trend.slower)
            if new and trend.slower and not history.trend(runs[:-1], part).slower:
                log.warning("speech has become slower over weeks", part=part, times=trend.times)

    def _read(self) -> list[Run]:
        try:
            return history.read(self._file.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            log.warning("the history of the benchmark cannot be read", error=blame(error))
            return []

    def _keep(self) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self._file, history.written(self._runs))
        except OSError as error:
            log.warning("the history of the benchmark cannot be kept", error=blame(error))


def arithmetic_s() -> float:
    """Seconds that a fixed piece of arithmetic takes now, about 30 ms: how fast this machine is."""
    matrix: NDArray[np.float32] = np.ones((400, 400), np.float32)
    began_s = time.perf_counter()
    for _ in range(20):
        matrix = matrix @ matrix / np.float32(400)
    return time.perf_counter() - began_s
