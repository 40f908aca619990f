"""What scenarios make of numbers, and what they measure with, where it needs no model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import plot, race, summary
from bench.engines import Spec
from bench.race import Entry, Race
from bench.report import Options, Report
from bench.scenarios import (
    concurrency,
    containers,
    first_byte,
    g2p,
    memory,
    playout,
    stability,
    threads,
)
from bench.scenarios.concurrency import Heard, Turn
from bench.scenarios.containers import encoded, speech_like
from bench.scenarios.threads import Found
from bench.workers.pieces import Answer, Ask, Kind
from bench.workers.protocol import Ready, Run
from bench.workers.troubles import FAILING_MODEL, NO_G2P, NO_MISAKI
from engine import config
from engine.audio import SAMPLE_RATE, from_pcm
from engine.errors import SetupError
from http_compat.schema import Format

# --- containers ---------------------------------------------------------------------------------


def test_what_is_encoded_is_like_speech() -> None:
    audio = from_pcm(speech_like(3, seed=1))
    assert len(audio) == 3 * SAMPLE_RATE
    assert 0.5 < np.abs(audio).max() < 0.9
    assert not audio[int(2.5 * SAMPLE_RATE) :].any()  # the pause
    power = np.abs(np.fft.rfft(audio)) ** 2
    assert power[:3000].sum() > 100 * power[-12_000:].sum()  # 0-1 kHz against 8-12
    assert speech_like(3, seed=1) != speech_like(3, seed=2)


async def test_containers_are_measured_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "SECONDS", 1)
    report = await containers.run(Options(rounds=1, quick=True))
    assert [row["container"] for row in report.rows] == [str(container) for container in Format]
    size = {row["container"]: row["bytes of PCM's"] for row in report.rows}
    assert size["pcm"] == 1 < size["wav"]
    assert max(size["mp3"], size["opus"], size["aac"]) < 0.3 < 1
    pcm = speech_like(1, seed=1)
    assert encoded(Format.WAV, pcm)[44:] == pcm
    assert {len(report.ratios[f"{c}, time / zlib"]) for c in containers.ENCODED} == {1}


# --- concurrency --------------------------------------------------------------------------------


def a_turn(slower: float = 1.0) -> Turn:
    heard = {
        1: [Heard(first_ms=200, end_ms=1000)],
        8: [Heard(first_ms=100 * n, end_ms=900 * n * slower, misses=n) for n in range(1, 9)],
    }
    return Turn(pass_ms=200, window_ms=75, heard=heard, cancel_ms=3)


def test_streams_are_compared_with_their_work_alone() -> None:
    one = a_turn()
    assert (one.last_ms(8), one.bound_ms(8)) == (800, 8 * 75 + 200)
    row = concurrency._row([one, a_turn()], 8)
    assert row["first frame, last ms"] == 800
    assert row["first frame, median ms"] == 450
    # of 16 the worst, of 24 what all but one are better than
    assert row["first frame, p95 or worst ms"] == 800
    late = Turn(200, 75, {**one.heard, 8: [Heard(first_ms=900), *one.heard[8][1:]]}, 3)
    assert concurrency._row([one, one, late], 8)["first frame, p95 or worst ms"] == 800
    assert concurrency._row([one, late], 8)["first frame, p95 or worst ms"] == 900
    assert (row["last of bound"], row["misses a stream"], row["sharing"]) == (1.0, 4.5, 0.9)
    assert concurrency._bounds([row]) == [
        "PASS: first frame / (k windows + pass), last of 8 streams, 1 (target: at most 1.5)"
    ]
    turns = [one, a_turn(1.2), a_turn(1.5), a_turn(1.2)]  # two rounds of two
    assert concurrency._ratios(turns, 2, (1, 8)) == {
        "8 streams, last first frame / work alone": [1.0, 1.0],
        "8 streams, end / 8 alone": [pytest.approx(0.9), pytest.approx(1.08)],
    }


# --- threads ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("quick", [False, True])
def test_everything_is_compared_with_the_usual_that_is_measured_too(
    cores: int, quick: bool
) -> None:
    plan = threads.turns(cores, quick=quick)
    assert len(set(plan)) == len({threads.name(turn) for turn in plan}) == len(plan)
    assert {threads.usual_of(turn) for turn in plan} <= set(plan)
    assert {turn.kind.threads for turn in plan} <= {0, *range(1, cores)}
    assert any(turn.kind.nice for turn in plan) == (not quick)
    assert any(turn.busy for turn in plan) == (not quick)
    assert any(turn.kind.lanes == 2 for turn in plan) == (cores > 1)


def test_lanes_are_compared_by_the_last_the_mean_and_the_pass() -> None:
    usual = threads.Turn(Kind(), Ask(streams=2))
    lanes = threads.Turn(threads.two_lanes(2), Ask(streams=2))
    asleep = threads.Turn(Kind(spinning=False), Ask(streams=2), busy=True)
    found = {
        usual: [Found(Answer([1.0, 2.0], 0.5))] * 3,
        lanes: [Found(Answer([1.5, 1.5], 1.0))] * 3,
        asleep: [Found(Answer([1.0, 1.0], 1.0), kept=0.4)] * 3,
        threads.usual_of(asleep): [Found(Answer([2.0, 4.0], 1.0), kept=0.2)] * 3,
    }
    row = threads.row(lanes, found)
    assert row["kind"] == "2 lanes of 1 thread"
    told = [row[f"{what}by usual"] for what in ("", "mean ", "pass ")]
    assert told == [0.75, 1.0, 2.0]
    assert threads.row(asleep, found)["neighbours keep"] == "40%"
    assert threads.ratios(found, 3) == {"2 lanes of 1 thread, 2 streams / usual": [0.75] * 3}


# --- first byte ---------------------------------------------------------------------------------


def test_containers_are_compared_with_pcm_of_the_same_round() -> None:
    pcm = [2.0] * first_byte.REQUESTS + [4.0] * first_byte.REQUESTS
    found = {
        (Format.PCM, "audio"): pcm,
        (Format.PCM, "sse"): [ms + 1 for ms in pcm],
        (Format.MP3, "audio"): [3 * ms for ms in pcm],
        (Format.MP3, "sse"): pcm,
    }
    assert first_byte.ratios(found, 2) == {
        "first byte, pcm as sse / pcm": [1.5, 1.25],
        "first byte, mp3 as audio / pcm": [3.0, 3.0],
    }


# --- g2p ----------------------------------------------------------------------------------------


def took(growth: float = 1.0) -> dict[g2p.Kind, list[float]]:
    """Seconds of two rounds: 10 µs a character by espeak-ng, twice that by misaki, a tenth again."""
    chance = np.random.default_rng(1)
    return {
        (stage, chars, again): [
            chars * 1e-5 * (1, 2)[stage == "misaki"] * (1, 0.1)[again] * wild
            * (growth if chars == g2p.LENGTHS[-1] else 1)
            for _ in range(2)
            for wild in chance.permutation([1.0, *[1.5] * (g2p.TIMES - 2), 50.0])
        ]
        for stage in g2p.STAGES
        for chars in g2p.LENGTHS
        for again in (False, True)
    }  # fmt: skip


def test_the_front_end_is_told_by_medians_and_only_one_length_starts_cold() -> None:
    cold: Any = {"misaki": [(3.0, 0.2), (2.0, 0.1), (9.0, 0.9)], "espeak": []}
    assert list(g2p._row("misaki", 100, cold, took()).values()) == [
        "misaki", 100, 3.0, 200.0, 3.0, 0.3, 30.0,
    ]  # fmt: skip
    rows = [g2p._row("espeak", chars, cold, took()) for chars in (10, 1000, 5000)]
    assert {row["load s"] for row in rows} == {row["cold ms"] for row in rows} == {None}
    assert [row["warm ms"] for row in rows] == [0.15, 15.0, 75.0]
    assert {row["warm ms / 1000 chars"] for row in rows} == {15.0}


def test_stages_are_compared_by_the_lowest_of_a_round_and_growth_by_the_character() -> None:
    ratios = g2p._ratios(took(growth=1.2), 2)
    assert len(ratios) == 3 * len(g2p.LENGTHS) + 2
    assert ratios["10 characters, misaki / espeak"] == pytest.approx([2, 2])
    assert ratios["espeak, 1000 characters, cached / warm"] == pytest.approx([0.1] * 2)
    for stage in g2p.STAGES:
        assert ratios[f"{stage}, growth"] == pytest.approx([1.2] * 2)


# --- memory, stability, playout -----------------------------------------------------------------


def test_drift_is_that_of_the_middle() -> None:
    assert memory.by_half([1, 1, 50, 1, 1, 1.1, 1.1, 1.1, 0.1, 1.1]) == pytest.approx(1.1)


def cells(trouble: str, of_none: float | None, says: str | None, *, speaks: bool = True) -> Any:
    return stability._cells(trouble, 5.0, speaks, 100.0, of_none, says)


def test_a_trouble_must_not_be_silent() -> None:
    rows = [
        cells(stability.NONE, 1.0, None),
        cells(NO_MISAKI, 1.6, None),
        cells(stability.DAMAGED_GRAPH, None, "It is damaged.", speaks=False),
    ]
    assert stability._targets(rows, {NO_MISAKI}) == [
        "short of target: no misaki: first sound by that of none 1.6 (target: at most 1.5)",
        "PASS: a damaged graph: s to the start 5 (target: at most 120)",
        "short of target: troubles in which nothing is spoken 1 (target: at most 0)",
        "short of target: troubles in which nothing is said 1 (target: at most 0)",
    ]


def test_what_no_runtime_has_is_asked_for_and_everything_else_is_on_the_processor() -> None:
    assert config.load({"provider": stability._not_offered()}, environ={}).settings
    assert stability._not_offered() not in ("auto", "cpu")
    command = stability._spec("any", Options()).command
    assert json.loads(command[-1])["flags"]["provider"] == "cpu"


def entry(trouble: str, *first_ms: float | None, says: tuple[str, ...] = ()) -> Entry:
    """An engine that was heard after these times, in as many rounds."""
    runs = [Run(1, ms, 0, 0, 1, 1, 1, 1, False, list(says)) for ms in first_ms]
    return Entry(Spec(trouble, ()), Ready({}, 5.0), runs[0], {stability.TEXTS[0]: runs})


async def stable(monkeypatch: pytest.MonkeyPatch, found: Race, *, quick: bool = False) -> Report:
    """The scenario's report, where this was found."""

    async def begun(spec: Spec) -> Any:
        return cells(spec.name, None, "It was damaged.")

    async def ran(specs: Any, *_: Any, may_end: bool, **__: Any) -> Race:
        assert may_end
        lasting = {stability.NONE, NO_MISAKI, NO_G2P, FAILING_MODEL}
        starting = {stability.NO_PROVIDER, stability.DAMAGED_LEDGER}
        assert {spec.name for spec in specs} == (lasting if quick else lasting | starting)
        return found

    monkeypatch.setattr(stability, "_damaged_caches", lambda folder: (folder, folder))
    monkeypatch.setattr(stability, "_started", begun)
    monkeypatch.setattr(race, "run", ran)
    return await stability.run(Options(quick=quick))


async def test_troubles_that_stay_silent_or_end_are_reported_and_miss_their_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = [
        entry(stability.NONE, 100, 100, 120),
        entry(NO_MISAKI, None, None, None),
        entry(NO_G2P, 110, None, 120, says=("It spells.",)),
        entry(stability.NO_PROVIDER, 100, 100, 120, says=("There is none.",)),
    ]
    found = Race(3, {}, entries, ended={FAILING_MODEL: "It ended."})
    report = await stable(monkeypatch, found)
    told = {row["trouble"]: tuple(row.values())[1:] for row in report.rows}
    assert told == {
        stability.NONE: (5.0, True, 100, 1.0, None),
        NO_MISAKI: (5.0, False, None, None, None),
        NO_G2P: (5.0, False, 115, 1.05, "It spells."),
        stability.NO_PROVIDER: (5.0, True, 100, 1.0, "There is none."),
        FAILING_MODEL: (None, False, None, None, "It ended."),
        stability.DAMAGED_GRAPH: (5.0, True, 100, None, "It was damaged."),
    }
    missed = [note for note in report.notes if not note.startswith("PASS")]
    assert missed == [
        "short of target: no misaki: first sound by that of none not measured (target: at most 1.5)",
        "short of target: a failing model: first sound by that of none not measured "
        "(target: at most 3)",
        "short of target: troubles in which nothing is spoken 3 (target: at most 0)",
        "short of target: troubles in which nothing is said 1 (target: at most 0)",
    ]
    assert {name: len(values) for name, values in report.ratios.items()} == {
        "no G2P, first sound / without": 2,
        "no provider, first sound / without": 3,
    }
    finished = summary.Finished("stability", "About.", report)
    assert "| no misaki | 5 | no | – | – | – |" in summary.markdown("now", {}, [finished])


async def test_no_graph_is_built_if_it_has_to_be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Race(1, {}, [entry(stability.NONE, 100)])
    report = await stable(monkeypatch, found, quick=True)
    starts = [stability.NO_PROVIDER, stability.DAMAGED_LEDGER]
    assert [row["trouble"] for row in report.rows] == [stability.NONE, *starts]
    assert not any(stability.DAMAGED_GRAPH in note for note in report.notes)
    assert [note for note in report.notes if "no provider" in note] == [
        "PASS: no provider: s to the start 5 (target: at most 30)"
    ]


async def test_without_an_engine_that_has_no_trouble_there_is_nothing_to_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Race(3, {}, [entry(NO_G2P, 110)], ended={stability.NONE: "It ended."})
    with pytest.raises(SetupError, match="It ended"):
        await stable(monkeypatch, found)


def test_a_ratio_that_was_never_measured_costs_no_report() -> None:
    finished = summary.Finished("startup", "About.", Report([], {}, ratios={"a / b": []}))
    assert "| a / b | – | 0 |" in summary.markdown("now", {}, [finished])


def test_silence_is_compared_though_there_may_be_none() -> None:
    rows = [
        {"trace": "fast", "policy": playout.OURS, "mid_ms": 0},
        {"trace": "fast", "policy": playout.BASELINE, "mid_ms": 300},
    ]
    (values,) = playout._ratios(rows).values()
    assert values == [0.25]


def test_plots_of_scenarios_are_drawn(tmp_path: Path) -> None:
    streams = [concurrency._row([a_turn()], count) for count in (1, 8)]
    plot.concurrency(streams, tmp_path / "a.svg")
    stages = [
        {"stage": s, "chars": n, "warm ms": n, "cached ms": n / 2} for s in "ab" for n in (9, 99)
    ]
    plot.g2p(stages, tmp_path / "b.svg")
    plot.memory([700.0, 710.0], tmp_path / "c.svg")
    for name in "abc":
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
