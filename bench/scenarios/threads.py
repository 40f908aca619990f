"""Threads, spinning, priorities and lanes: what a stream's first sound takes with each.

An acoustic pass over 90 phonemes and a first window, by processes that take turns, each with
another number of threads, with threads that wait for each other awake or asleep, with another nice
value, or with two lanes. All of it on a quiet machine and, unless it has to be quick, beside
neighbours that keep every core busy; what these keep of what they do alone is told too. Then
streams that come at once: one lane does a piece after the other on all cores, two lanes two at a
time on half of them. Then how much all cores are worth for short and for long windows and passes.
Ratios are by the usual kind of the same round: one lane on all cores, awake, at nice 0.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

import trio

from bench import machine
from bench.ratios import by_round, lows, median_by_round
from bench.report import Options, Report, Row
from bench.workers import pieces
from bench.workers.pieces import Answer, Ask, Kind
from engine import config
from engine.errors import SetupError

STREAMS, QUICK_STREAMS = (1, 2, 4, 8), (4,)
#: turns in a round if it has to be quick: they take less than half a second
QUICK_TURNS = 2
#: of the engine, unless somebody sets another
NICE = config.Settings.model_fields["nice"].default
#: phonemes and columns of pieces that are short and long
LENGTHS = ((10, 8), (20, 16), (40, 48), (90, 96))
#: one stream, a long pass, a first window
ALONE = Ask()
#: how long neighbours run alone to see what they can, s
_ALONE_S = 0.5

_SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True)
class Turn:
    """What is measured: who works, for what, and whether neighbours are busy."""

    kind: Kind
    ask: Ask = ALONE
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """One turn's answer, and what neighbours did meanwhile by what they do alone."""

    answer: Answer
    kept: float | None = None

    @property
    def last_s(self) -> float:
        """Until the last stream had its window."""
        return max(self.answer.heard)


async def run(options: Options) -> Report:
    """Medians over the rounds."""
    return await trio.to_thread.run_sync(_run, options)


def turns(cores: int, *, quick: bool) -> list[Turn]:
    """All that is measured on a machine with so many cores.

    What is beside busy neighbours has no ratio, because it scatters, so it is left out if it has to be
    quick.
    """
    usual = Kind()
    counts = sorted({1, *(cores >> halved for halved in range(cores.bit_length()))} - {0, cores})
    kinds = [usual, *(Kind(threads=number) for number in counts[-3:]), Kind(spinning=False)]
    made = [Turn(kind) for kind in kinds]
    if not quick:
        niced = [Kind(spinning=spinning, nice=NICE) for spinning in (True, False)]
        made += [Turn(kind, busy=True) for kind in (*kinds, *niced)]
    if cores > 1:
        lanes = (usual, two_lanes(cores))
        streams = QUICK_STREAMS if quick else STREAMS
        made += [Turn(kind, Ask(streams=number)) for number in streams for kind in lanes]
        lengths = () if quick else LENGTHS
        made += [
            Turn(kind, Ask(phonemes=phonemes, columns=columns))
            for phonemes, columns in lengths
            for kind in (usual, Kind(threads=1))
        ]
    return list(dict.fromkeys(made))


def two_lanes(cores: int) -> Kind:
    """Two pieces at once, each on half of the cores."""
    return Kind(threads=max(1, cores // 2), lanes=2)


def usual_of(turn: Turn) -> Turn:
    """What a turn is compared with."""
    return replace(turn, kind=Kind())


def _run(options: Options) -> Report:
    plan = turns(os.cpu_count() or 1, quick=options.quick)
    found: dict[Turn, list[Found]] = {turn: [] for turn in plan}
    chance = random.Random(options.seed)
    with ExitStack() as stack:
        workers = {}
        for kind in dict.fromkeys(turn.kind for turn in plan):
            options.tell(f"loading {shown(kind)}")
            workers[kind] = stack.enter_context(_started(kind))
        neighbours = stack.enter_context(_neighbours())
        for turn in plan:  # warm
            _taken(workers[turn.kind], turn, neighbours)
        for number in range(options.rounds):
            options.tell(f"round {number + 1} of {options.rounds}")
            for _ in range(QUICK_TURNS if options.quick else 1):
                for turn in chance.sample(plan, len(plan)):
                    found[turn].append(_taken(workers[turn.kind], turn, neighbours))
    rows = [row(turn, found) for turn in plan]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        raw={"s": {name(turn): [one.last_s for one in each] for turn, each in found.items()}},
        ratios=ratios(found, options.rounds),
    )


def shown(kind: Kind) -> str:
    """A kind in words."""
    if kind.lanes > 1:
        return f"{kind.lanes} lanes of {kind.threads} thread{'s' * (kind.threads > 1)}"
    words = [
        f"{kind.threads} thread{'s' * (kind.threads > 1)}" if kind.threads else "all cores",
        "" if kind.spinning else "asleep",
        f"nice {kind.nice}" if kind.nice else "",
    ]
    return ", ".join(filter(None, words))


def name(turn: Turn) -> str:
    """A turn in words."""
    ask = turn.ask
    length = f", {ask.phonemes} phonemes, {ask.columns} columns" if _is_length(ask) else ""
    streams = f", {ask.streams} streams" if ask.streams > 1 else ""
    return f"{shown(turn.kind)}{streams}{length}{', busy' * turn.busy}"


def _is_length(ask: Ask) -> bool:
    return ask != replace(ALONE, streams=ask.streams)


def row(turn: Turn, found: Mapping[Turn, Sequence[Found]]) -> Row:
    """Medians of a turn."""
    own, usual = found[turn], found[usual_of(turn)]
    kept = [one.kept for one in own if one.kept is not None]
    return {
        "kind": shown(turn.kind),
        "streams": turn.ask.streams,
        "phonemes": turn.ask.phonemes,
        "columns": turn.ask.columns,
        "neighbours": "busy" if turn.busy else "none",
        "ms to the last": round(statistics.median(one.last_s for one in own) * 1000),
        "by usual": _median_of(own, usual, lambda one: one.last_s),
        "mean by usual": _median_of(own, usual, lambda one: statistics.fmean(one.answer.heard)),
        "pass by usual": _median_of(own, usual, lambda one: one.answer.pass_s),
        "neighbours keep": f"{statistics.median(kept):.0%}" if kept else None,
    }


def _median_of(own: Sequence[Found], usual: Sequence[Found], value: Any) -> float:
    return median_by_round(map(value, own), map(value, usual))


def ratios(found: Mapping[Turn, Sequence[Found]], rounds: int) -> dict[str, list[float]]:
    """Of the lowest in each round, by the usual kind; what is beside busy neighbours scatters too much."""
    return {
        f"{name(turn)} / usual": by_round(
            *(lows([one.last_s for one in each], rounds) for each in (own, found[usual_of(turn)]))
        )
        for turn, own in found.items()
        if turn.kind != Kind() and not turn.busy
    }


# --- processes ----------------------------------------------------------------------------------


@contextmanager
def _started(kind: Kind) -> Iterator[Connection]:
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=pieces.work, args=(theirs, kind), daemon=True)
    process.start()
    theirs.close()
    try:
        _answer(ours)
        yield ours
    finally:
        process.kill()
        process.join()


def _answer(pipe: Connection) -> Any:
    try:
        return pipe.recv()
    except EOFError:
        raise SetupError("A process that was to be measured has ended.") from None


class _Neighbours:
    """Processes that keep all cores busy while they are let.

    Args:
        processes: that stand still.
        counts: of how far each has come.
    """

    def __init__(self, processes: Sequence[BaseProcess], counts: Sequence[Any]) -> None:
        self._processes, self._counts = processes, counts
        with self.running():
            time.sleep(_ALONE_S)  # warm
            before = self.done()
            time.sleep(_ALONE_S)
            self._alone = (self.done() - before) / _ALONE_S

    def done(self) -> int:
        """How far all have come."""
        return sum(count.value for count in self._counts)

    def kept(self, done: int, seconds: float) -> float:
        """What they did in some time by what they do alone."""
        return done / seconds / self._alone

    @contextmanager
    def running(self) -> Iterator[None]:
        """Lets them run."""
        self._signal(signal.SIGCONT)
        try:
            yield
        finally:
            self._signal(signal.SIGSTOP)

    def _signal(self, number: int) -> None:
        for process in self._processes:
            assert process.pid is not None
            os.kill(process.pid, number)


@contextmanager
def _neighbours() -> Iterator[_Neighbours]:
    counts = [_SPAWN.Value("q", 0, lock=False) for _ in range(os.cpu_count() or 1)]
    processes = [_SPAWN.Process(target=pieces.disturb, args=(one,), daemon=True) for one in counts]
    try:
        for process in processes:
            process.start()
        while not all(count.value for count in counts):
            time.sleep(0.01)
        yield _Neighbours(processes, counts)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _taken(pipe: Connection, turn: Turn, neighbours: _Neighbours) -> Found:
    if not turn.busy:
        pipe.send(turn.ask)
        return Found(_answer(pipe))
    with neighbours.running():
        time.sleep(0.05)
        before, began = neighbours.done(), time.perf_counter()
        pipe.send(turn.ask)
        answer = _answer(pipe)
        done, seconds = neighbours.done() - before, time.perf_counter() - began
    return Found(answer, neighbours.kept(done, seconds))
