"""The comparison with fake workers: the protocol, what is made of the answers, and failures."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from rich.console import Console

from bench import engines, plot, race, shown
from bench.engines import FLOAT32, INT8, NAMES, OURS, PI, Field, Spec
from bench.race import Entry
from bench.report import Options
from bench.scenarios import first_audio, throughput
from bench.workers.protocol import Meter, Ready, Run
from engine import config
from engine.errors import InvalidRequest, SetupError

TEXTS = ("one two", "one two three four")
KEYS = [
    "engine", "chars", "cached", "first_byte_ms", "first_audible_ms", "holes_ms", "rtf", "rss_mb",
    "lsd_db",
]  # fmt: skip


def fake(
    name: str, *, reference: str | Spec | None = None, asked_again: bool = False, **given: Any
) -> Spec:
    told = json.dumps({"amplitude": 0.5, **given})
    command = (sys.executable, "-m", "tests.bench.fake_worker", told)
    return Spec(name, command, cached=asked_again, reference=reference)


def a_run(audible_ms: float | None) -> Run:
    """A second of audio, in as much time as until it is audible."""
    return Run(5, audible_ms, 0, 0, audible_ms or 1, 5, 1, 600, cached=False)


def clock(*times: float) -> Meter:
    left = iter(times)
    return Meter(lambda: next(left))


# --- what a worker measures ---------------------------------------------------------------------


def test_the_meter_tells_silence_from_sound() -> None:
    meter = clock(10.0, 10.1, 10.2, 10.3, 10.5)
    meter.hear(np.full(240, 0.003, np.float32))
    meter.hear(np.concatenate([np.zeros(120), np.full(120, 0.004)]).astype(np.float32))
    meter.hear(np.ones(24, np.float32))
    run = meter.done()
    assert run.first_byte_ms == pytest.approx(100)
    assert run.first_audible_ms == pytest.approx(200)
    assert run.silence_ms == pytest.approx(15)
    assert run.total_ms == pytest.approx(500)
    assert run.audio_s == pytest.approx(504 / 24_000)
    assert run.rss_mb > 1


def test_holes_are_what_a_listener_waits_for_after_the_first_sound() -> None:
    # Half a second each: the second comes in time, the third 0.2 s late, the last 0.1 s late again.
    meter = clock(0.0, 1.0, 1.4, 2.2, 2.8, 3.0)
    for _ in range(4):
        meter.hear(np.ones(12_000, np.float32))
    assert meter.done().holes_ms == pytest.approx(300)


def test_pcm_and_floats_are_heard_alike() -> None:
    meter = clock(0.0, 0.0, 1.0, 2.0, 3.0)
    meter.hear(b"")
    meter.hear(np.array([1000, -1000], "<i2").tobytes())
    meter.hear(np.array([0.5, 2.0], np.float32))
    assert meter.pcm() == np.array([1000, -1000, 16384, 32767], "<i2").tobytes()
    assert meter.done().first_byte_ms == 1000


def test_all_silence_is_never_audible_and_nothing_is_an_error() -> None:
    meter = clock(0.0, 1.0, 2.0)
    meter.hear(np.zeros(24, np.float32))
    assert meter.done().first_audible_ms is None
    with pytest.raises(ValueError, match="no audio"):
        clock(0.0, 1.0).done()


# --- the race -----------------------------------------------------------------------------------


async def test_rows_are_exactly_what_the_issue_asks_for() -> None:
    whole = fake("whole", amplitude=0.25)
    specs = [
        fake(OURS, reference=whole),
        fake(OURS, asked_again=True, cached=True),
        fake(INT8, reference=FLOAT32, cut=100),
        fake(FLOAT32, reference=FLOAT32),
        fake(PI, reference="nobody"),
    ]
    found = await race.run(specs, TEXTS, Options(rounds=3), settle_s=0)
    rows = race.rows(found, TEXTS)
    assert [list(row) for row in rows] == [KEYS] * 10
    assert [row["engine"] for row in rows[:5]] == [OURS, OURS, INT8, FLOAT32, PI]
    assert [row["cached"] for row in rows[:5]] == [False, True, False, False, False]
    assert [row["chars"] for row in rows] == [7] * 5 + [18] * 5
    # ours is compared with another process, at half the level; trimming does not matter
    assert [row["lsd_db"] for row in rows[:5]] == [pytest.approx(6.02, abs=0.05), None, 0, 0, None]
    assert all(row["first_byte_ms"] <= row["first_audible_ms"] for row in rows)
    for entry in found.entries:
        turns = 3 * (race.CACHED_TIMES if entry.spec.cached else 1)
        assert [len(runs) for runs in entry.runs.values()] == [turns] * len(TEXTS)

    about = race.about(found, Field(tuple(specs), (), 2))
    assert about["threads"] == 2
    assert isinstance(about["engines"], Mapping)
    assert set(about["engines"][OURS]) == {"python", "numpy"}
    document = json.loads(json.dumps({"machine": about, "rows": rows, "runs": race.raw(found)}))
    assert set(document["runs"]) == {OURS, f"{OURS}, cached", INT8, FLOAT32, PI}
    assert [line.split(":")[0] for line in race.remarks(found, TEXTS)] == list(document["runs"])

    ratios = race.ratios(found, TEXTS[:1], lambda run: run.audio_s)
    assert {name: len(values) for name, values in ratios.items()} == {
        "7 characters, cached / not": 3,
        "7 characters, ours / kokoro-onnx-int8": 3,
        "7 characters, ours / kokoro-onnx-float32": 3,
        "7 characters, ours / kokoro-pi-float": 3,
    }
    # by length of audio, because only the trimmed one differs in it, and by how much
    assert ratios["7 characters, ours / kokoro-onnx-int8"] == [pytest.approx(5040 / 4940)] * 3
    assert ratios["7 characters, cached / not"] == [1, 1, 1]


def test_tables_also_have_the_worst_or_what_is_worse_than_most() -> None:
    entry = Entry(Spec(OURS, ()), Ready({}, 1.0), a_run(9000))
    for rounds, name, upper_ms in ((19, "worst", 190), (20, "p95", 190), (40, "p95", 380)):
        entry.runs = {"text": [a_run(10 * n) for n in range(rounds, 0, -1)]}
        found = race.Race(rounds, {}, [entry])
        (row,), (longer,) = race.rows(found, ["text"]), race.spread(found, ["text"])
        assert row["first_audible_ms"] == 5 * (rounds + 1)
        added = {f"{name}_first_ms": upper_ms, f"{name}_rtf": upper_ms / 1000}
        assert dict(longer) == {**row, **added}
    entry.runs = {"text": [a_run(None)]}
    (longer,) = race.spread(race.Race(1, {}, [entry]), ["text"])
    assert (longer["first_audible_ms"], longer["worst_first_ms"]) == (None, None)


def test_a_table_of_a_race_has_room_in_a_terminal() -> None:
    entry = Entry(Spec(INT8, ()), Ready({}, 1.0), a_run(9000))
    entry.runs = {"text": [a_run(1234.56), a_run(99.94), a_run(1234.56)]}
    console = Console(width=80, file=io.StringIO())
    console.print(shown.table(race.spread(race.Race(3, {}, [entry]), ["text"])))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    assert text.split()[-11:] == [
        INT8,
        "4",
        "no",
        "5",
        "1235",
        "0",
        "1.235",
        "600",
        "–",
        "1235",
        "1.235",
    ]


async def test_a_cache_that_was_not_hit_is_no_cached_row() -> None:
    specs = [fake(OURS), fake(OURS, asked_again=True, cached=False)]
    found = await race.run(specs, TEXTS[:1], Options(rounds=1), settle_s=0)
    assert [row["cached"] for row in race.rows(found, TEXTS[:1])] == [False]
    assert race.ratios(found, TEXTS[:1], lambda run: run.total_ms) == {}
    last = race.remarks(found, TEXTS[:1])[-1]
    assert last == "ours, cached: did not answer from a cache, so no row for [7] characters"


async def test_other_lengths_have_no_distance() -> None:
    found = await race.run(
        [fake(OURS, reference=FLOAT32), fake(FLOAT32)], TEXTS, Options(rounds=1), settle_s=0
    )
    found.entries[0].audio[TEXTS[0]] = np.zeros(2000, np.float32)
    assert [row["lsd_db"] for row in race.rows(found, TEXTS)][::2] == [None, 0]


async def test_an_engine_that_may_end_is_left_out_and_the_others_go_on() -> None:
    specs = [fake(OURS), fake(PI, fails="out of luck."), fake(INT8, answers=2), fake(FLOAT32)]
    found = await race.run(specs, TEXTS[:1], Options(rounds=2), settle_s=0, may_end=True)
    assert [entry.spec.name for entry in found.entries] == [OURS, FLOAT32]
    assert [len(entry.runs[TEXTS[0]]) for entry in found.entries] == [2, 2]
    assert found.ended == {
        PI: f"The engine {PI} ended: out of luck.",
        INT8: f"The engine {INT8} ended: it has answered enough.",
    }


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (fake(OURS, fails="out of luck."), "The engine ours ended: out of luck."),
        (Spec(PI, (sys.executable, "-c", "")), "kokoro-pi-float ended: it did not say why."),
    ],
)
async def test_an_engine_that_ends_is_one_sentence(spec: Spec, says: str) -> None:
    with pytest.raises(SetupError) as caught:
        await race.run([spec], TEXTS, Options(rounds=1), settle_s=0)
    assert caught.value.message.endswith(says)


async def test_a_worker_is_gone_when_its_context_is_left() -> None:
    async with race.started(fake(OURS)) as worker:
        await worker.ready()
        process = worker._process
        assert process.poll() is None
    assert process.returncode is not None


async def test_leaving_in_the_middle_leaves_no_worker() -> None:
    with trio.CancelScope() as scope:
        async with race.started(fake(OURS)) as worker:
            await worker.ready()
            process = worker._process
            scope.cancel()
            await worker.ask("one")
    assert scope.cancelled_caught
    assert process.returncode is not None


# --- who takes part -----------------------------------------------------------------------------


def test_engines_are_named_in_any_order() -> None:
    assert engines.check(()) == NAMES
    assert engines.check((PI, OURS)) == (OURS, PI)
    with pytest.raises(InvalidRequest, match="no engine 'theirs'; there are ours, kokoro-onnx"):
        engines.check(("theirs",))


def test_ours_is_measured_without_a_cache_and_with_one() -> None:
    plain, cached = engines.ours(2)
    assert (plain.cached, cached.cached) == (False, True)
    assert isinstance(plain.reference, Spec)
    for spec, keeps in ((plain, False), (plain.reference, False), (cached, True)):
        settings = config.load(json.loads(spec.command[-1])["flags"], environ={}).settings
        assert settings.threads == 2
        assert bool(settings.cache_mb) == keeps


# --- what is made of the rows -------------------------------------------------------------------


def row(
    engine: str, chars: int, ms: float, *, cached: bool = False, rtf: float = 0.5, holes: float = 9
) -> Any:
    values = (engine, chars, cached, ms, ms, holes, rtf, 600, None)
    return dict(zip(KEYS, values, strict=True))


def test_targets_of_first_audio() -> None:
    rows = [
        row(OURS, 25, 100), row(INT8, 25, 200), row(FLOAT32, 25, 300),
        row(OURS, 80, 100), row(INT8, 80, 599),
        row(OURS, 400, 151, holes=101), row(OURS, 400, 9, cached=True),
    ]  # fmt: skip
    assert list(first_audio.targets(rows)) == [
        "PASS: 25 characters, times sooner than kokoro-onnx-int8 2 (target: at least 2)",
        "25 characters, times sooner than kokoro-onnx-float32: 3",
        "short of target: 80 characters, times sooner than kokoro-onnx-int8 5.99 (target: at least 6)",
        "short of target: ours, 400 characters against 80, 1.51 (target: at most 1.5)",
        "short of target: ours, holes in a sentence, ms 101 (target: at most 100)",
        "PASS: ours, 400 characters from the cache, ms 9 (target: at most 10)",
    ]
    assert list(first_audio.targets([row(INT8, 25, 200)])) == []


def test_targets_of_throughput() -> None:
    rows = [row(OURS, 541, 9, rtf=0.25), row(FLOAT32, 541, 9, rtf=0.4), row(PI, 541, 9, rtf=0.32)]
    assert list(throughput.targets(rows)) == [
        "PASS: RTF against kokoro-onnx-float32 0.625 (target: at most 0.7)",
        "RTF of kokoro-pi-float against kokoro-onnx-float32: 0.8",
        "RTF against kokoro-pi-float: 0.781",
        "PASS: most memory, MB 600 (target: at most 700)",
    ]
    assert list(throughput.targets(rows[1:])) == []


def test_the_sentences_have_the_lengths_that_are_claimed() -> None:
    assert sorted(map(len, first_audio.TEXTS)) == sorted(first_audio.SOONER)
    for text in first_audio.TEXTS:
        assert text.endswith(".")
        assert not set(text[:-1]) & set(".,;:!?—-")


def test_plots_are_drawn(tmp_path: Path) -> None:
    rows = [row(OURS, 25, 100), row(OURS, 25, 5, cached=True), row(INT8, 25, 200)]
    for name, draw in (("a.png", plot.first_audio), ("b.svg", plot.throughput)):
        draw(rows, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 1000
    with pytest.raises(SetupError, match="cannot be written"):
        plot.first_audio(rows, tmp_path / "none" / "a.png")
