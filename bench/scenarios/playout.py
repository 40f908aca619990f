"""When sound starts and where it stops, by how much the player holds back.

The player's own buffer and policies in simulated time, over streams recorded from the engine, which
sends a segment while it makes it, and over made-up streams of an engine that sends each segment as
one burst when it is made; the same ones for every policy. What a player learns of an engine it
keeps from one stream to the next. Start: request to first sound, ms. Soft: silence at the end of a
phrase that is not longer than natural there; hard: longer; mid: inside a phrase. Counts, and ms of
silence, per 10 minutes of audio; hard_ms is what is beyond natural.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import trio

from bench import traces
from bench.machine import record
from bench.report import Options, Report, Row, at_least, at_most
from bench.traces import Utterance
from engine.audio import SAMPLE_RATE, ms_to_samples, pcm_samples, silence
from engine.request import Frame, SegmentDone, SegmentStart
from playerd.delay import DelayPolicy, FixedDelay, Immediate, Slack
from playerd.forecast import Supply
from playerd.mover import LOOK_S, PIECE_SAMPLES
from playerd.playout import Phase, Playout

BASELINE, OURS = "fixed 250", "slack"
POLICIES: dict[str, DelayPolicy] = {
    "immediate": Immediate(),
    "fixed 100": FixedDelay(ms_to_samples(100)),
    BASELINE: FixedDelay(ms_to_samples(250)),
    "slack eager": Slack(start_s=0.0, resume_s=0.0),
    OURS: Slack(),
    "slack smooth": Slack(start_s=1.5),
}

#: utterances of each made-up trace a round
_COUNT = 12
#: silence more or less that nobody hears in 10 minutes: a device that just plays on with silence has
#: a gulp of it to play first, one that has come to rest a moment later has none
UNHEARD_MS = 100
#: how much later the first sound may come where the engine is fast, ms, and what fast is
LATER_MS, FAST_RTF = 20, 0.3
#: what is to be gained on the trace of RTF 0.45: part of the silence inside phrases
GAIN_TRACE, GAIN = "mid", 0.6


async def run(options: Options) -> Report:
    """Everything with a seed; only the recorded traces came from a machine."""
    return await trio.to_thread.run_sync(_run, options)


def _run(options: Options) -> Report:
    found: dict[str, list[Utterance]] = {}
    for utterance in traces.read():
        found.setdefault(utterance.trace, []).append(utterance)
    for trace in traces.MAKERS:
        found[trace] = list(traces.made_up(trace, _COUNT * options.rounds))
    rows: list[Row] = []
    for trace, utterances in found.items():
        for name, policy in POLICIES.items():
            options.tell(f"{trace}, {name}")
            rows.append(row(trace, name, utterances, policy))
    return Report(
        rows=rows,
        notes=list(targets(rows)),
        document={"machine": record(), "rows": rows},
        ratios=_ratios(rows),
    )


def _ratios(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Silence inside phrases by that of the baseline; the same in every run with as many rounds.

    `UNHEARD_MS` more for both: there may be none.
    """
    by_name = {(row["trace"], row["policy"]): row["mid_ms"] + UNHEARD_MS for row in rows}
    return {
        f"{trace}, mid-phrase silence, {OURS} / {BASELINE}": [
            by_name[trace, OURS] / by_name[trace, BASELINE]
        ]
        for trace in dict.fromkeys(row["trace"] for row in rows)
    }


def row(trace: str, name: str, utterances: Sequence[Utterance], policy: DelayPolicy) -> Row:
    """What a listener hears of these streams."""
    supply = Supply()
    heard = [play(utterance, policy, supply) for utterance in utterances]
    audio_s = sum(utterance.samples for utterance in utterances) / SAMPLE_RATE

    def per_10_min(of: Callable[[Playout], float]) -> float:
        return sum(of(one.playout) for one in heard) * 600 / audio_s

    starts_ms = [one.start_s * 1000 for one in heard]
    return {
        "trace": trace,
        "rtf": round(float(np.median([utterance.rtf for utterance in utterances])), 2),
        "policy": name,
        "start_p50": round(float(np.median(starts_ms))),
        "start_p95": round(float(np.quantile(starts_ms, 0.95))),
        "underruns": round(per_10_min(lambda playout: playout.underruns), 1),
        "soft": round(per_10_min(lambda playout: playout.gaps.soft), 1),
        "hard": round(per_10_min(lambda playout: playout.gaps.hard), 1),
        "mid": round(per_10_min(lambda playout: playout.gaps.mid), 1),
        "mid_ms": round(per_10_min(lambda playout: playout.gaps.mid_s * 1000)),
        "hard_ms": round(per_10_min(lambda playout: playout.gaps.hard_s * 1000)),
        "silence_ms": round(per_10_min(lambda playout: playout.gaps.silent_s * 1000)),
    }


@dataclass(slots=True)
class Heard:
    """One stream as it was heard.

    Attributes:
        playout: all of it was given out.
        start_s: from the request to the first sound.
        end_s: to the last.
    """

    playout: Playout
    start_s: float = math.inf
    end_s: float = 0.0


def play(utterance: Utterance, policy: DelayPolicy, supply: Supply) -> Heard:
    """Plays a stream in simulated time, on a device that takes a gulp when sound begins."""
    live = bool(utterance.pieces)
    playout = Playout(policy, supply, "" if live else utterance.text, complete=not live)
    heard = Heard(playout)
    events = sorted(_events(utterance, playout), key=lambda event: event[0])  # in order as they are
    now_s, upto = 0.0, 0  # now: when the device needs more
    gulp, silent_since_s = 0, -math.inf
    while playout.phase is not Phase.DONE:
        while upto < len(events) and events[upto][0] <= now_s + 1e-9:
            events[upto][1](now_s)
            upto += 1
        given = pcm_samples(playout.pull(PIECE_SAMPLES, now_s))
        if given:
            heard.start_s = min(heard.start_s, now_s)
            if now_s - silent_since_s >= playout.gulp_samples / SAMPLE_RATE:
                gulp = playout.gulp_samples  # it has played all it had
            now_s += max(given - gulp, 0) / SAMPLE_RATE
            gulp = max(gulp - given, 0)
            silent_since_s = math.inf
            heard.end_s = now_s + playout.gulp_samples / SAMPLE_RATE
        else:
            playout.ran_dry(now_s)  # it is no underrun before the start or at the end
            silent_since_s = min(silent_since_s, now_s)
            next_s = events[upto][0] if upto < len(events) else math.inf
            now_s = min(next_s, now_s + LOOK_S) if playout.waits else next_s
            if now_s == math.inf:
                break
    return heard


def _events(
    utterance: Utterance, playout: Playout
) -> Iterator[tuple[float, Callable[[float], None]]]:
    """(when, what is done with the playout then); in order where the time is the same."""
    known = 0
    for at_s, chars in utterance.pieces:
        text = utterance.text[known:chars]
        complete = chars == len(utterance.text)
        yield at_s, partial(_more_text, playout, text, complete)
        known = chars
    sample = seq = 0
    for index, segment in enumerate(utterance.segments):
        start = segment.started(index, sample, utterance.text)
        yield segment.start_s, partial(_begin, playout, start)
        for number, arrival in enumerate(segment.arrivals):
            frame = Frame(
                seq=seq, sample=sample, pcm=silence(arrival.samples), segment_first=not number
            )
            yield arrival.at_s, partial(playout.put, frame)
            sample, seq = sample + arrival.samples, seq + 1
        done = SegmentDone(index=index, samples=segment.actual, compute_ms=0.0)
        yield segment.end_s, partial(playout.segment_done, done)
    yield utterance.segments[-1].end_s, partial(_end, playout, sample)


def _more_text(playout: Playout, text: str, complete: bool, now_s: float) -> None:
    playout.more_text(text, now_s, complete=complete)


def _begin(playout: Playout, start: SegmentStart, _: float) -> None:
    playout.begin(start)


def _end(playout: Playout, samples: int, _: float) -> None:
    playout.end(samples)


def targets(rows: Sequence[Row]) -> Iterator[str]:
    """Lines about what we want to reach."""
    by_name = {(row["trace"], row["policy"]): row for row in rows}
    for trace in dict.fromkeys(row["trace"] for row in rows):
        ours, fixed = by_name[trace, OURS], by_name[trace, BASELINE]
        what = f"{trace}: mid-phrase gaps per 10 min, against {fixed['mid']} of {BASELINE}"
        yield at_most(what, ours["mid"], fixed["mid"])
        what = f"{trace}: mid-phrase silence, ms, against {fixed['mid_ms']} of {BASELINE}"
        yield at_most(what, ours["mid_ms"], fixed["mid_ms"] + UNHEARD_MS)
        if ours["rtf"] <= FAST_RTF or traces_rtf(trace) <= FAST_RTF:
            later_ms = ours["start_p50"] - fixed["start_p50"]
            yield at_most(f"{trace}: start p50, ms after {BASELINE}", later_ms, LATER_MS)
        if trace == GAIN_TRACE and fixed["mid_ms"]:
            gain = 1 - ours["mid_ms"] / fixed["mid_ms"]
            yield at_least(f"{trace}: part of mid-phrase silence that is gone", gain, GAIN)


def traces_rtf(trace: str) -> float:
    """RTF that a made-up trace was made with; infinite for a recorded one."""
    maker = traces.MAKERS.get(trace)
    return maker.rtf if maker else math.inf
