"""What is left when something is taken away: whether speech still comes, how soon, and what is said.

Each trouble is in a process of its own, and all are asked in turn with one that has none. No
misaki: it cannot be loaded, so espeak-ng reads. No G2P: neither can, so words are spelled out. A
failing model: one call in the middle of every request; who is told so asks again, and first is then
until the second answer is heard. A damaged ledger, a damaged graph: files of the cache that are not
what they should be; the graph is built anew, so it is left out if it has to be quick. No provider:
the setting names one that this ONNX Runtime does not have; all others are asked for the processor.
The last three only matter at the start, so the graph, and if it has to be quick the others, are
asked but once. Of none: first sound by that of the one without trouble, in the same round.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Sequence, Set
from pathlib import Path
from typing import get_args

import onnxruntime as ort
import trio

from bench import engines, machine, race
from bench.engines import Spec
from bench.race import Entry, Race
from bench.ratios import by_round
from bench.report import Options, Report, Row, at_most
from bench.workers.troubles import FAILING_MODEL, NO_G2P, NO_MISAKI
from engine import config
from engine.config import Wanted
from engine.errors import SetupError
from engine.model import assets, build, providers
from engine.model.store import LEDGER

NONE, NO_PROVIDER = "none", "no provider"
DAMAGED_LEDGER, DAMAGED_GRAPH = "a damaged ledger", "a damaged graph"

TEXTS = ("The ferry leaves at seven.",)
#: the first sound by that of an engine without trouble: one that reads something longer, because
#: it spells, and one that has to be asked twice
SLOWER = {
    NO_MISAKI: 1.5,
    NO_G2P: 2.0,
    FAILING_MODEL: 3.0,
    NO_PROVIDER: 1.5,
    DAMAGED_LEDGER: 1.5,
}
#: s until an engine is ready, or has said why it never will be; a build takes half a minute
START_S = {NO_PROVIDER: 30, DAMAGED_LEDGER: 30, DAMAGED_GRAPH: 120}


async def run(options: Options) -> Report:
    """Medians over the rounds; every process starts once.

    Raises:
        SetupError: the engine without trouble cannot be started, or ended.
    """
    with tempfile.TemporaryDirectory(prefix="kokoro-live-") as name:
        ledger, graph = await trio.to_thread.run_sync(_damaged_caches, Path(name))
        lasting = [
            _spec(NONE, options),
            *(
                _spec(trouble, options, trouble=trouble)
                for trouble in (NO_MISAKI, NO_G2P, FAILING_MODEL)
            ),
        ]
        starting = [
            _spec(NO_PROVIDER, options, provider=_not_offered()),
            _spec(DAMAGED_LEDGER, options, cache_dir=ledger),
        ]
        specs = lasting if options.quick else [*lasting, *starting]
        found = await race.run(specs, TEXTS, options, may_end=True)
        if NONE in found.ended:
            raise SetupError(found.ended[NONE])
        if options.quick:
            only_started = starting
        else:
            only_started = [_spec(DAMAGED_GRAPH, options, cache_dir=graph)]
        started = []
        for spec in only_started:
            options.tell(spec.name)
            started.append(await _started(spec))
    ended = (_cells(name, None, False, None, None, says) for name, says in found.ended.items())
    rows = [*(_row(found, entry) for entry in found.entries), *ended, *started]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=_targets(rows, {spec.name for spec in specs}),
        raw={"runs": race.raw(found)},
        ratios={
            f"{entry.spec.name}, first sound / without": ratios
            for entry in found.entries[1:]
            if (ratios := _of_none(found, entry))
        },
    )


def _spec(name: str, options: Options, trouble: str | None = None, **flags: object) -> Spec:
    threads = options.threads or os.cpu_count() or 1
    told = {
        "threads": threads,
        "provider": "cpu",
        "precision": "float32",
        "cache_mb": 0,
        "log_level": "error",
        **flags,
    }
    return Spec(name, engines.worker(sys.executable, "ours", flags=told, trouble=trouble))


def _not_offered() -> Wanted:
    """A setting that names what this ONNX Runtime does not have; none has all of them."""
    offered, settings = ort.get_available_providers(), get_args(Wanted)
    wanted: list[Wanted] = [name for name in settings if name not in ("auto", "cpu")]
    return next(name for name in wanted if not providers.candidates(offered, name))


def _damaged_caches(folder: Path) -> tuple[Path, Path]:
    """Two caches that are like the real one, but for a damaged file each. Blocks."""
    settings = config.load().settings
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    real = build.ensure(found.model, found.sha256, settings.cache_dir, lambda *_: None)
    cache = settings.cache_dir.expanduser()
    for name in ("ledger", "graph"):
        builds = folder / name / "builds" / real.key
        builds.mkdir(parents=True)
        for file in real.folder.iterdir():
            (builds / file.name).symlink_to(file)
        for file in (*cache.glob("*.onnx"), cache / "voices"):
            (folder / name / file.name).symlink_to(file)
    (folder / "ledger" / LEDGER).write_text("{")
    damaged = folder / "graph" / "builds" / real.key / "stage_two.onnx"
    damaged.unlink()
    damaged.write_bytes(b"not a graph")
    return folder / "ledger", folder / "graph"


async def _started(spec: Spec) -> Row:
    """An engine that may not start: whether it does, when, and what it says."""
    began_s = trio.current_time()
    async with race.started(spec) as worker:
        try:
            await worker.ready()
            ready_s, run = trio.current_time() - began_s, await worker.ask(TEXTS[0])
        except SetupError as error:
            return _cells(
                spec.name, trio.current_time() - began_s, False, None, None, error.message
            )
    first_ms = run.first_audible_ms
    return _cells(spec.name, ready_s, first_ms is not None, first_ms, None, _first(run.says))


def _row(found: Race, entry: Entry) -> Row:
    runs = [run for done in entry.runs.values() for run in done]
    first_ms = [run.first_audible_ms for run in runs if run.first_audible_ms is not None]
    of_none = _of_none(found, entry)
    return _cells(
        entry.spec.name,
        entry.ready.load_s,
        len(first_ms) == len(runs),
        statistics.median(first_ms) if first_ms else None,
        statistics.median(of_none) if of_none else None,
        _first(runs[0].says),
    )


def _cells(
    trouble: str,
    start_s: float | None,
    speaks: bool,
    first_ms: float | None,
    of_none: float | None,
    says: str | None,
) -> Row:
    return {
        "trouble": trouble,
        "start s": None if start_s is None else round(start_s, 1),
        "speaks": speaks,
        "first ms": None if first_ms is None else round(first_ms),
        "of none": None if of_none is None else round(of_none, 2),
        "says": says,
    }


def _first(says: Sequence[str]) -> str | None:
    return says[0] if says else None


def _of_none(found: Race, entry: Entry) -> list[float]:
    none = found.entries[0]
    return [
        ratio
        for text in TEXTS
        for ratio in by_round(
            *(
                race.lowest(found, one.runs[text], lambda run: run.first_audible_ms)
                for one in (entry, none)
            )
        )
    ]


def _targets(rows: Sequence[Row], compared: Set[str]) -> list[str]:
    lines = []
    for row in rows:
        trouble = row["trouble"]
        if trouble in SLOWER and trouble in compared:
            lines.append(
                at_most(f"{trouble}: first sound by that of none", row["of none"], SLOWER[trouble])
            )
        if trouble in START_S:
            lines.append(at_most(f"{trouble}: s to the start", row["start s"], START_S[trouble]))
    silent = sum(not row["speaks"] for row in rows)
    lines.append(at_most("troubles in which nothing is spoken", silent, 0))
    unsaid = sum(
        row["says"] is None for row in rows if row["trouble"] not in (NONE, DAMAGED_LEDGER)
    )
    lines.append(at_most("troubles in which nothing is said", unsaid, 0))
    return lines
