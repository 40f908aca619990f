"""What the scheduled benchmark has found over weeks, and whether speech has become slower. Core.

How fast a machine is at one moment depends on what else it does. So beside each run a piece of
arithmetic was timed that never changes (`selfbench`), and what is compared is the one by the other.
Runs of another machine, model or library are other series: nothing is compared across.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from engine.model.providers import Part
from engine.report import SelfBench, Trend

#: runs that are kept, of all series together
KEPT = 200
#: so many runs are compared with as many before them …
SPAN = 5
#: … and their median may be so much more
SLOWER = 0.20


class Series(msgspec.Struct, frozen=True):
    """What runs must have in common to be compared.

    Attributes:
        hardware: processor and cores.
        runtime: version of ONNX Runtime.
        arithmetic: version of numpy, which does what the runs are measured by.
        build: id of the model's build.
        acoustic: where this part runs.
        vocoder: the same.
        threads: of the processor, as they are; 0: one per core.
        spinning: whether they wait for each other awake; None: the run is of a version that did
            not tell.
        precision: `float32` or `hybrid`; empty: the same.
    """

    hardware: str
    runtime: str
    arithmetic: str
    build: str
    acoustic: str
    vocoder: str
    threads: int
    spinning: bool | None = None
    precision: str = ""


class Run(msgspec.Struct, frozen=True):
    """One run: medians over its rounds.

    Attributes:
        at_s: when, seconds since 1970.
        series: of which it is one.
        acoustic_ms: what the acoustic part took.
        vocoder_ms: what the vocoder took.
        yardstick_ms: what the arithmetic took.
    """

    at_s: float
    series: Series
    acoustic_ms: float
    vocoder_ms: float
    yardstick_ms: float

    def ms(self, part: Part) -> float:
        """What a part took."""
        return self.acoustic_ms if part == "acoustic" else self.vocoder_ms


def read(data: bytes) -> list[Run]:
    """The runs of a file, a line of JSON each; lines that are none are left out."""
    runs = []
    for line in data.splitlines():
        try:
            run = msgspec.json.decode(line, type=Run)
        except msgspec.MsgspecError:
            continue
        if min(run.acoustic_ms, run.vocoder_ms, run.yardstick_ms) > 0:
            runs.append(run)
    return runs[-KEPT:]


def written(runs: Sequence[Run]) -> bytes:
    """The file of these runs; of the last `KEPT`, if there are more."""
    return msgspec.json.Encoder().encode_lines(runs[-KEPT:])


def of(runs: Sequence[Run], series: Series) -> list[Run]:
    """Those of a series, in the order in which they were run."""
    return [run for run in runs if run.series == series]


def is_due(last_s: float | None, period_s: float, now_s: float) -> bool:
    """Whether it is time for a run; also if the last one is of the future, as no clock should say."""
    return last_s is None or not 0 <= now_s - last_s < period_s


def trend(runs: Sequence[Run], part: Part) -> Trend:
    """How a part does in the last runs of a series, of which there must be one."""
    ms = round(runs[-1].ms(part), 1)
    if len(runs) < 2 * SPAN:
        return Trend(ms)
    now, before = (
        statistics.median(run.ms(part) / run.yardstick_ms for run in some)
        for some in (runs[-SPAN:], runs[-2 * SPAN : -SPAN])
    )
    return Trend(ms, round(now / before, 3), now / before > 1 + SLOWER)


def told(every: str, runs: Sequence[Run]) -> SelfBench:
    """What is told of a series.

    Args:
        every: how often it is run.
        runs: of the series.
    """
    if not runs:
        return SelfBench(every=every, runs=0)
    at = datetime.fromtimestamp(runs[-1].at_s, UTC)
    return SelfBench(
        every=every,
        runs=len(runs),
        at=at.isoformat(timespec="seconds"),
        acoustic=trend(runs, "acoustic"),
        vocoder=trend(runs, "vocoder"),
    )
