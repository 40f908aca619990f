"""The scenario `playout`: traces, simulated listening, and what is said about targets."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
import trio
import trio.testing

from bench import record, traces
from bench.report import Options, Row
from bench.scenarios import playout
from bench.traces import Arrival, Segment, Utterance
from engine.audio import SAMPLE_RATE
from engine.request import SpeechRequest
from playerd import forecast
from playerd.delay import Immediate, Slack
from playerd.forecast import Supply
from tests.support.tone import ToneVoice

SECOND = SAMPLE_RATE


def utterance(*segments: Segment) -> Utterance:
    return Utterance(trace="t", text="Aaa bbb. " * len(segments), segments=segments)


def segment(index: int, *arrivals: Arrival, start_s: float = 0.0) -> Segment:
    return Segment(
        char_start=index * 9,
        char_end=index * 9 + 8,
        announced=sum(arrival.samples for arrival in arrivals),
        start_s=start_s,
        end_s=arrivals[-1].at_s,
        boundary="sentence" if index else None,
        arrivals=arrivals,
    )


# --- traces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("trace", sorted(traces.MAKERS))
def test_made_up_traces_are_streams(trace: str) -> None:
    made = list(traces.made_up(trace, 5))
    assert made == list(traces.made_up(trace, 5))  # whatever was made before
    assert made[:3] == list(traces.made_up(trace, 3))
    for one in made:
        assert 15 <= one.samples / SAMPLE_RATE < 60
        assert one.segments[0].boundary is None
        end, now_s = 0, 0.0
        for number, part in enumerate(one.segments):
            assert end <= part.char_start < part.char_end <= len(one.text)
            assert part.actual <= part.announced < part.actual + SAMPLE_RATE / 5
            times = [part.start_s, *(arrival.at_s for arrival in part.arrivals), part.end_s]
            assert times == sorted(times)
            assert number == 0 or part.boundary is not None
            end, now_s = part.char_end, part.end_s
        assert one.rtf == pytest.approx(now_s * SAMPLE_RATE / one.samples)


def test_what_is_recorded_is_what_came(tmp_path: Path) -> None:
    text = "One two three. Four five."

    async def listen() -> Utterance:
        async with ToneVoice(rtf=0.5)(SpeechRequest(text=text)) as events:
            return await record.recorded("tone", text, events, trio.current_time())

    found = trio.run(listen, clock=trio.testing.MockClock(autojump_threshold=0))
    assert [text[part.char_start : part.char_end] for part in found.segments] == [
        "One two three.",
        "Four five.",
    ]
    for part in found.segments:
        assert len(part.arrivals) == 1  # a burst
        length_s = part.actual / SAMPLE_RATE
        assert part.end_s - part.start_s == pytest.approx(length_s / 2, abs=0.001)
    traces.write([found, found], tmp_path / "t.jsonl")
    assert traces.read(tmp_path / "t.jsonl") == [found, found]


def test_there_are_traces_of_the_engine() -> None:
    recorded = traces.read()
    assert {one.trace for one in recorded} == set(record.CONDITIONS)
    for one in recorded:
        assert one.text in record.TEXTS
        for part in one.segments:
            assert part.actual <= part.announced
            assert part.arrivals


# --- simulated listening -------------------------------------------------------------------------


def cold(trace: str) -> tuple[float, float, float]:
    """Holes of a recorded trace, their ms, and the start after the first frame, ms, in the median.

    Each stream is heard by a player that knows nothing of its engine.
    """
    recorded = [utterance for utterance in traces.read() if utterance.trace == trace]
    heard = [playout.play(utterance, Slack(), Supply()) for utterance in recorded]
    gaps = [one.playout.gaps for one in heard]
    starts_s = [
        one.start_s - utterance.segments[0].arrivals[0].at_s
        for one, utterance in zip(heard, recorded, strict=True)
    ]
    holes_ms = 1000 * sum(gap.mid_s for gap in gaps)
    return sum(gap.mid for gap in gaps), holes_ms, 1000 * statistics.median(starts_s)


def test_who_knows_nothing_of_the_engine_yet_does_not_begin_too_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its first windows are not even in time; how much so, is learned only at a segment's end."""
    found = {}
    for sag in (0.0, 0.08, 0.12, forecast._SAG, 0.17):
        monkeypatch.setattr(forecast, "_SAG", sag)
        found[sag] = {trace: cold(trace) for trace in ("engine", "engine, one thread")}
        for trace, (holes, ms, start_ms) in found[sag].items():
            print(f"{sag}, {trace}: {holes} holes, {ms:.0f} ms; begins after {start_ms:.0f} ms")
    monkeypatch.undo()
    assert found[forecast._SAG]["engine"][0] == 0 < found[0.0]["engine"][0]


def test_silence_is_where_nothing_came() -> None:
    late = utterance(
        segment(0, Arrival(0.5, SECOND)),
        segment(1, Arrival(1.9, SECOND), Arrival(3.5, SECOND), start_s=0.6),
    )
    heard = playout.play(late, Immediate(), Supply())
    gaps = heard.playout.gaps
    assert heard.start_s == pytest.approx(0.5)
    assert heard.end_s == pytest.approx(4.5)
    assert (gaps.soft, gaps.hard, gaps.mid) == (0, 1, 1)
    assert gaps.soft_s + gaps.hard_s == pytest.approx(0.4, abs=0.001)
    assert gaps.mid_s == pytest.approx(0.6, abs=0.001)
    assert heard.playout.underruns == 2


@pytest.mark.parametrize("name", playout.POLICIES)
@pytest.mark.parametrize("trace", ["mid", "llm", "over"])
def test_time_is_sound_or_silence(trace: str, name: str) -> None:
    supply = Supply()
    for one in traces.made_up(trace, 4):
        heard = playout.play(one, playout.POLICIES[name], supply)
        assert heard.playout.position == one.samples
        silent_s = heard.playout.gaps.silent_s
        spent_s = heard.end_s - heard.start_s
        assert spent_s == pytest.approx(one.samples / SAMPLE_RATE + silent_s, abs=0.02)


def test_waiting_moves_silence_and_never_ends_later_than_its_limit() -> None:
    for one in traces.made_up("weak", 6):
        eager = playout.play(one, Immediate(), Supply())
        waits = playout.play(one, Slack(), Supply())
        assert eager.start_s <= waits.start_s <= eager.start_s + 0.8 + 0.02


# --- what is said about it ------------------------------------------------------------------------


def rows(ours: dict[str, float], fixed: dict[str, float], rtf: float = 0.1) -> list[Row]:
    same = {"trace": playout.GAIN_TRACE, "rtf": rtf}
    return [
        {**same, "policy": playout.BASELINE, **fixed},
        {**same, "policy": playout.OURS, **ours},
    ]


def test_targets_that_are_reached() -> None:
    told = list(
        playout.targets(
            rows(
                {"mid": 1.0, "mid_ms": 400, "start_p50": 120},
                {"mid": 1.0, "mid_ms": 1000, "start_p50": 100},
            )
        )
    )
    assert [line.partition(":")[0] for line in told] == ["PASS"] * 4


def test_targets_that_are_missed() -> None:
    told = list(
        playout.targets(
            rows(
                {"mid": 1.1, "mid_ms": 1101, "start_p50": 121},
                {"mid": 1.0, "mid_ms": 1000, "start_p50": 100},
            )
        )
    )
    assert [line.partition(":")[0] for line in told] == ["short of target"] * 4


def test_where_the_engine_is_slow_sound_may_start_later() -> None:
    told = list(
        playout.targets(
            rows(
                {"mid": 0.0, "mid_ms": 0, "start_p50": 900},
                {"mid": 0.0, "mid_ms": 0, "start_p50": 100},
                rtf=0.5,
            )
        )
    )
    assert len(told) == 2


async def test_the_scenario_reaches_its_targets() -> None:
    report = await playout.run(Options(rounds=1))
    assert len(report.rows) == len(playout.POLICIES) * (len(traces.MAKERS) + len(record.CONDITIONS))
    missed = [line for line in report.notes if not line.startswith("PASS")]
    assert not missed
