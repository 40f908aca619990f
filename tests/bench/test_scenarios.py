"""What scenarios make of numbers, and what they measure with, where it needs no model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import plot
from bench.report import Options
from bench.scenarios import concurrency, containers, first_byte, memory, playout, stability, threads
from bench.scenarios.concurrency import Heard, Round
from bench.scenarios.containers import encoded, speech_like
from bench.scenarios.threads import Found
from bench.workers.pieces import Answer, Ask, Kind
from bench.workers.troubles import NO_MISAKI
from engine.audio import SAMPLE_RATE, from_pcm
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
    monkeypatch.setattr(containers, "QUICK_SECONDS", 1)
    report = await containers.run(Options(rounds=1, quick=True))
    assert [row["container"] for row in report.rows] == [str(container) for container in Format]
    size = {row["container"]: row["bytes of PCM's"] for row in report.rows}
    assert size["pcm"] == 1 < size["wav"]
    assert max(size["mp3"], size["opus"], size["aac"]) < 0.3 < 1
    pcm = speech_like(1, seed=1)
    assert encoded(Format.WAV, pcm)[44:] == pcm
    assert {len(report.ratios[f"{c}, time / zlib"]) for c in Format} == {containers.TIMES}


# --- concurrency --------------------------------------------------------------------------------


def a_round(slower: float = 1.0) -> Round:
    heard = {
        1: [Heard(first_ms=200, end_ms=1000)],
        8: [Heard(first_ms=100 * n, end_ms=900 * n * slower, misses=n) for n in range(1, 9)],
    }
    return Round(pass_ms=200, window_ms=75, heard=heard, cancel_ms=3)


def test_streams_are_compared_with_their_work_alone() -> None:
    one = a_round()
    assert one.bound(8) == pytest.approx(800 / (8 * 75 + 200))
    row = concurrency._row([one, a_round()], 8)
    assert row["first frame, last ms"] == 800
    assert (row["last of bound"], row["misses a stream"], row["sharing"]) == (1.0, 4.5, 0.9)
    assert concurrency._bounds([row]) == [
        "PASS: first frame / (k windows + pass), last of 8 streams, 1 (target: at most 1.5)"
    ]
    assert concurrency._ratios([one, a_round(1.2)], (1, 8)) == {
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
    assert any(turn.kind.nice for turn in plan)
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
    assert threads.ratios(found) == {"2 lanes of 1 thread, 2 streams / usual": [0.75] * 3}


# --- first byte ---------------------------------------------------------------------------------


def test_containers_are_compared_with_pcm_of_the_same_round() -> None:
    pcm = [2.0] * first_byte.REQUESTS + [4.0] * first_byte.REQUESTS
    found = {
        (Format.PCM, "audio"): pcm,
        (Format.PCM, "sse"): [ms + 1 for ms in pcm],
        (Format.MP3, "audio"): [3 * ms for ms in pcm],
        (Format.MP3, "sse"): pcm,
    }
    assert first_byte.ratios(found) == {
        "first byte, pcm as sse / pcm": [1.5, 1.25],
        "first byte, mp3 as audio / pcm": [3.0, 3.0],
    }


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
    assert stability._targets(rows) == [
        "short of target: no misaki: first sound by that of none 1.6 (target: at most 1.5)",
        "PASS: a damaged graph: s to the start 5 (target: at most 120)",
        "short of target: troubles in which nothing is spoken 1 (target: at most 0)",
        "short of target: troubles in which nothing is said 1 (target: at most 0)",
    ]


def test_silence_is_compared_though_there_may_be_none() -> None:
    rows = [
        {"trace": "fast", "policy": playout.OURS, "mid_ms": 0},
        {"trace": "fast", "policy": playout.BASELINE, "mid_ms": 300},
    ]
    (values,) = playout._ratios(rows).values()
    assert values == [0.25]


def test_plots_of_scenarios_are_drawn(tmp_path: Path) -> None:
    streams = [concurrency._row([a_round()], count) for count in (1, 8)]
    plot.concurrency(streams, tmp_path / "a.svg")
    stages = [
        {"stage": s, "chars": n, "warm ms": n, "cached ms": n / 2} for s in "ab" for n in (9, 99)
    ]
    plot.g2p(stages, tmp_path / "b.svg")
    plot.memory([700.0, 710.0], tmp_path / "c.svg")
    for name in "abc":
        assert "<svg" in (tmp_path / f"{name}.svg").read_text()
