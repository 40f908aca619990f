"""Runs engines against each other: in turns, on the same texts, each in a process of its own. Shell.

In every round every text is spoken by every engine, one after another; the order of texts, and of
engines for each text, is random but the same in every run. So a machine whose speed drifts is
unfair to none of them. Before that, every engine speaks every text once: that is not measured,
except that the very first request is reported apart, as cold; its audio is compared.
"""

from __future__ import annotations

import json
import random
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

import trio

from bench import machine
from bench.engines import OURS, ROOT, VOICE, Field, Spec
from bench.ratios import by_round, lows
from bench.report import Options, Row, upper, upper_name
from bench.workers.protocol import Ask, Ready, Run
from engine.audio import from_pcm
from engine.errors import SetupError
from engine.model.distance import Audio, lsd_db

#: threads of an engine that spin for a while after their work must not disturb the next one
SETTLE_S = 0.2
#: how often more what comes from a cache is asked, which takes milliseconds
CACHED_TIMES = 3

#: only for a worker that hangs: how long it may say nothing
_PATIENCE_S = 900


class Worker:
    """A started engine. Made by `started`."""

    def __init__(self, spec: Spec, process: trio.Process, said: IO[bytes]) -> None:
        self._spec = spec
        self._process = process
        self._said = said
        self._held = b""

    async def ready(self) -> Ready:
        """Waits until the engine is loaded; called once, first."""
        return Ready(**await self._answer())

    async def ask(self, text: str) -> Run:
        """A request as anybody would make it."""
        return await self._asked(Ask(text))

    async def record(self, text: str) -> tuple[Run, Audio]:
        """A request whose audio is wanted, untrimmed."""
        with tempfile.TemporaryDirectory() as folder:
            pcm = Path(folder) / "audio.pcm"
            run = await self._asked(Ask(text, trim=False, pcm=str(pcm)))
            return run, from_pcm(pcm.read_bytes())

    async def _asked(self, ask: Ask) -> Run:
        assert self._process.stdin is not None
        try:
            await self._process.stdin.send_all(json.dumps(asdict(ask)).encode() + b"\n")
        except trio.BrokenResourceError:
            raise self._ended() from None
        return Run(**await self._answer())

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        with trio.move_on_after(_PATIENCE_S):
            while b"\n" not in self._held:
                more = await self._process.stdout.receive_some()
                if not more:
                    raise self._ended()
                self._held += more
            line, _, self._held = self._held.partition(b"\n")
            answer: dict[str, Any] = json.loads(line)
            return answer
        raise SetupError(f"The engine {self._spec.name} did not answer in {_PATIENCE_S} s.")

    def _ended(self) -> SetupError:
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        last = lines[-1] if lines else "it did not say why"
        return SetupError(f"The engine {self._spec.name} ended: {last.rstrip('.')}.")


@asynccontextmanager
async def started(spec: Spec) -> AsyncGenerator[Worker]:
    """A worker process; it is gone when the context is left.

    Raises:
        SetupError: from the worker's methods, when the process ends or does not answer.
    """
    with tempfile.TemporaryFile() as said:
        process = await trio.lowlevel.open_process(
            spec.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for us
        )
        try:
            yield Worker(spec, process, said)
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()


@dataclass(slots=True)
class Entry:
    """What was measured of one process.

    Attributes:
        ready: its versions and how long it took to load.
        cold: its first request.
        runs: by text, as many for each round.
        audio: by text, untrimmed.
    """

    spec: Spec
    ready: Ready
    cold: Run
    runs: dict[str, list[Run]] = field(default_factory=dict)
    audio: dict[str, Audio] = field(default_factory=dict)


@dataclass(slots=True)
class Race:
    """What was measured.

    Attributes:
        machine: on what, as it was before.
        references: recordings of processes that did not compete, by name and text.
        ended: what engines said that have ended, by name; they are no entries.
    """

    rounds: int
    machine: dict[str, object]
    entries: list[Entry] = field(default_factory=list)
    references: dict[str, dict[str, Audio]] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)


async def run(
    specs: Sequence[Spec],
    texts: Sequence[str],
    options: Options,
    *,
    settle_s: float = SETTLE_S,
    may_end: bool = False,
) -> Race:
    """Measures.

    Args:
        specs: the processes that compete.
        texts: what they say; the first is also the very first request to each of them.
        options: how often, in which order, and who is told what is being done.
        settle_s: rest before every request.
        may_end: an engine that ends is left out, and the others go on.

    Raises:
        SetupError: an engine cannot be started, or ended though it must not.
    """
    race = Race(options.rounds, machine.record())

    def lost(spec: Spec, error: SetupError) -> None:
        if not may_end:
            raise error
        race.ended[spec.name] = error.message
        race.entries = [entry for entry in race.entries if entry.spec is not spec]

    for spec in specs:
        # Also first because it may have to build what its engine needs, which takes memory.
        if isinstance(spec.reference, Spec):
            options.tell(f"recording {spec.reference.name}")
            async with started(spec.reference) as worker:
                await worker.ready()
                recordings = {text: (await worker.record(text))[1] for text in texts}
            race.references[spec.reference.name] = recordings
    async with AsyncExitStack() as stack:
        pairs: list[tuple[Worker, Entry]] = []
        for spec in specs:
            options.tell(f"loading {spec.name} and speaking every text once")
            worker = await stack.enter_async_context(started(spec))
            try:
                ready = await worker.ready()
                await trio.sleep(settle_s)
                entry = Entry(spec, ready, cold=await worker.ask(texts[0]))
                for text in texts:
                    _, entry.audio[text] = await worker.record(text)
            except SetupError as error:
                lost(spec, error)
                continue
            pairs.append((worker, entry))
            race.entries.append(entry)
        order = random.Random(options.seed)
        for number in range(options.rounds):
            options.tell(f"round {number + 1} of {options.rounds}")
            for text in order.sample(texts, len(texts)):
                asked = [
                    pair
                    for pair in pairs
                    for _ in range(CACHED_TIMES if pair[1].spec.cached else 1)
                ]
                for worker, entry in order.sample(asked, len(asked)):
                    if entry.spec.name in race.ended:
                        continue
                    await trio.sleep(settle_s)
                    try:
                        entry.runs.setdefault(text, []).append(await worker.ask(text))
                    except SetupError as error:
                        lost(entry.spec, error)
    return race


def rows(race: Race, texts: Sequence[str]) -> list[Row]:
    """A row for each text and engine: medians, and None for what is undefined.

    What came from a cache though it should not, or the other way round, is no row; `remarks`
    says so.
    """
    return [_row(race, entry, text) for text, entry in _shown(race, texts)]


def spread(race: Race, texts: Sequence[str]) -> list[Row]:
    """The same rows for a table: with 95th percentiles or the worst, and no tenths above 100 ms."""
    name = upper_name(race.rounds)
    made: list[Row] = []
    for text, entry in _shown(race, texts):
        row = {
            **_row(race, entry, text),
            f"{name}_first_ms": _of(upper, entry, text, _first_audible_ms, 1),
            f"{name}_rtf": _of(upper, entry, text, _rtf, 3),
        }
        long = {k: round(v) for k, v in row.items() if k.endswith("_ms") and (v or 0) >= 100}
        made.append(row | long)
    return made


def _shown(race: Race, texts: Sequence[str]) -> list[tuple[str, Entry]]:
    return [(text, entry) for text in texts for entry in race.entries if _as_asked(entry, text)]


def _row(race: Race, entry: Entry, text: str) -> Row:
    return {
        "engine": entry.spec.name,
        "chars": len(text),
        "cached": entry.spec.cached,
        "first_byte_ms": _of(median, entry, text, lambda run: run.first_byte_ms, 1),
        "first_audible_ms": _of(median, entry, text, _first_audible_ms, 1),
        "holes_ms": _of(median, entry, text, lambda run: run.holes_ms, 1),
        "rtf": _of(median, entry, text, _rtf, 3),
        "rss_mb": round(max(run.rss_mb for runs in entry.runs.values() for run in runs)),
        "lsd_db": _lsd_db(race, entry, text),
    }


def _first_audible_ms(run: Run) -> float | None:
    return run.first_audible_ms


def _rtf(run: Run) -> float:
    return run.total_ms / 1000 / run.audio_s


def ratios(
    race: Race, texts: Sequence[str], value: Callable[[Run], float | None]
) -> dict[str, list[float]]:
    """Of the lowest in each round: ours by what others took, and from the cache by without it."""
    ours = _entry(race, OURS)
    if ours is None:
        return {}
    found = {}
    for text in texts:
        own = list(lowest(race, ours.runs[text], value))
        for other in race.entries:
            if other is ours or not _as_asked(other, text):
                continue
            theirs = list(lowest(race, other.runs[text], value))
            if other.spec.name == OURS:
                found[f"{len(text)} characters, cached / not"] = by_round(theirs, own)
            else:
                found[f"{len(text)} characters, ours / {other.spec.name}"] = by_round(own, theirs)
    return {name: values for name, values in found.items() if values}


def lowest(
    race: Race, runs: Sequence[Run], value: Callable[[Run], float | None]
) -> Iterator[float | None]:
    """What the lowest turns of each round have; None for a round in which none has anything."""
    size = len(runs) // race.rounds
    for at in range(0, len(runs), size):
        found = [one for run in runs[at : at + size] if (one := value(run)) is not None]
        yield lows(found, 1)[0] if found else None


def _entry(race: Race, name: str) -> Entry | None:
    """What is not cached, of that name."""
    return next((e for e in race.entries if e.spec.name == name and not e.spec.cached), None)


def _as_asked(entry: Entry, text: str) -> bool:
    return all(run.cached == entry.spec.cached for run in entry.runs[text])


def _of(
    middle: Callable[[Sequence[float]], float],
    entry: Entry,
    text: str,
    value: Callable[[Run], float | None],
    digits: int,
) -> float | None:
    """The median, or what `middle` is, of what the rounds have."""
    values = [found for run in entry.runs[text] if (found := value(run)) is not None]
    return round(middle(values), digits) if values else None


def _lsd_db(race: Race, entry: Entry, text: str) -> float | None:
    name = entry.spec.reference
    recordings = {other.spec.name: other.audio for other in race.entries} | race.references
    reference = recordings.get(name.name if isinstance(name, Spec) else name or "")
    if reference is None or len(reference[text]) != len(entry.audio[text]):
        return None
    return round(lsd_db(reference[text], entry.audio[text]), 2)


def about(race: Race, field: Field) -> dict[str, object]:
    """What the numbers were measured on, and how."""
    return {
        **race.machine,
        "threads": field.threads,
        "voice": VOICE,
        "rounds": race.rounds,
        "cache": "off, except in rows with cached true",
        "engines": {e.spec.name: e.ready.versions for e in race.entries if not e.spec.cached},
    }


def raw(race: Race) -> Mapping[str, Any]:
    """Every single run, by engine and length of the text."""
    return {
        _name(entry): {
            "load_s": round(entry.ready.load_s, 2),
            "cold": asdict(entry.cold),
            "runs": {len(text): [asdict(run) for run in done] for text, done in entry.runs.items()},
        }
        for entry in race.entries
    }


def remarks(race: Race, texts: Sequence[str]) -> list[str]:
    """A line for each process: what it is, its first request of all, and whether it was alone."""
    lines = []
    for entry in race.entries:
        runs = [run for done in entry.runs.values() for run in done]
        busy = median(run.cpu_ms / run.total_ms for run in runs)
        warm = _of(median, entry, texts[0], _first_audible_ms, 0)
        cold_ms = entry.cold.first_audible_ms
        versions = ", ".join(f"{name} {version}" for name, version in entry.ready.versions.items())
        lines.append(
            f"{_name(entry)}: {versions}; loaded in {entry.ready.load_s:.1f} s; "
            f"first audible {cold_ms or 0:.0f} ms at the very first request, {warm or 0:.0f} ms "
            f"for the same text later; kept {busy:.2g} processors busy"
        )
        if missed := [len(text) for text in texts if not _as_asked(entry, text)]:
            did = "did not answer" if entry.spec.cached else "answered"
            lines.append(f"{_name(entry)}: {did} from a cache, so no row for {missed} characters")
    return lines


def _name(entry: Entry) -> str:
    return f"{entry.spec.name}, cached" if entry.spec.cached else entry.spec.name
