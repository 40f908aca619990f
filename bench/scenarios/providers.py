"""Where the model may run on this machine, what each place takes, and whether its sound is right.

Every place and the processor take turns at both parts of the model; the text has another length in
every round, because some providers compile for each. A place is right if its sound is as long as the
processor's, not silent and at most 2 dB off, and it is chosen if it takes at most 0.9 of the time in
all turns but one, which is the ratio that is shown. Then, unless it has to be quick, numbers of threads
take turns, and those that sleep where others spin; what follows is kept, and the engine goes by it
from its next start.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from functools import partial

import onnxruntime as ort
import trio

from bench import machine
from bench.interleave import interleaved
from bench.report import Options, Report, Row
from engine import config
from engine.config import Settings
from engine.model import assets, build, placement, providers
from engine.model.assets import Assets
from engine.model.providers import CPU, Decision, Finding
from engine.model.trial import Examiner

#: in a sweep, by number of threads: all cores, and threads that wait asleep
_ASLEEP = 0


async def run(options: Options) -> Report:
    """A row for each place and part, and for each number of threads."""
    settings = config.load({"threads": options.threads or None}).settings
    return await trio.to_thread.run_sync(_measured, options, settings)


def _measured(options: Options, settings: Settings) -> Report:
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    candidates = providers.candidates(ort.get_available_providers(), settings.provider)
    options.tell("trying providers")
    findings = placement.findings_of(found, settings, candidates, lambda *_: None)
    times = {} if settings.threads or options.quick else _sweep(found, settings, options)
    usual = times.get(os.cpu_count() or 1, [])
    slept = [one / other for one, other in zip(times.pop(_ASLEEP, []), usual, strict=False)]
    by_usual = {
        threads: [one / other for one, other in zip(took, usual, strict=True)]
        for threads, took in times.items()
    }
    decision = providers.decided(
        placement.key_of(placement.planned(found, settings), candidates),
        findings,
        time.time(),
        forced=settings.provider != "auto",
        sweep={threads: providers.kept_to(ratios) for threads, ratios in by_usual.items()},
        asleep=providers.kept_to(slept) if slept else None,
    )
    kept = not options.quick and placement.keep(
        settings.cache_dir.expanduser() / placement.FILE, decision
    )
    rows = [_row(finding, decision) for finding in findings]
    rows += [_threads_row(threads, times[threads], decision) for threads in sorted(times)]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=[
            providers.why(decision, ort.get_available_providers(), settings.provider),
            f"Threads: {decision.threads or 'one per core'}.",
            *_told_of_sleep(decision),
            "The engine goes by this from its next start." if kept else "Nothing was kept.",
        ],
        raw={"threads": {str(threads): took for threads, took in times.items()}},
        ratios={
            f"{threads} thread{'s' * (threads > 1)} / one per core": ratios
            for threads, ratios in by_usual.items()
            if threads != os.cpu_count()
        }
        | ({"asleep / awake": slept} if slept else {}),
    )


def _row(finding: Finding, decision: Decision) -> Row:
    chosen = {"acoustic": decision.acoustic, "vocoder": decision.vocoder}[finding.part]
    return {
        "part": finding.part,
        "where": finding.candidate,
        "s": finding.seconds,
        "by the processor's": finding.ratio,
        "LSD dB": finding.lsd_db,
        "verdict": finding.fault or ("chosen" if finding.candidate == chosen else "not chosen"),
    }


def _threads_row(threads: int, took: list[float], decision: Decision) -> Row:
    chosen = threads == (decision.threads or os.cpu_count())
    return {
        "part": "both",
        "where": f"{CPU.name}, {threads} thread{'s' * (threads > 1)}",
        "s": round(statistics.median(took), 3),
        "by the processor's": decision.sweep[threads],
        "LSD dB": None,
        "verdict": "chosen" if chosen else "not chosen",
    }


def _told_of_sleep(decision: Decision) -> Iterator[str]:
    if decision.asleep is not None:
        does = "spin" if decision.spinning else "sleep"
        yield f"Threads that sleep take {decision.asleep:.2f} of the time; they are to {does}."


def _sweep(found: Assets, settings: Settings, options: Options) -> dict[int, list[float]]:
    """Seconds of each round, by number of threads: one, halves of all, all, and all that sleep."""
    options.tell("trying numbers of threads")
    built = build.ensure(found.model, found.sha256, settings.cache_dir, lambda *_: None)
    cores = os.cpu_count() or 1
    counts = {1, *(cores >> halved for halved in range(cores.bit_length()))} - {0}
    contenders = {}
    for threads in sorted(counts)[-4:]:
        chosen = settings.model_copy(update={"threads": threads})
        examiner = Examiner(placement.subject_of(built, found, chosen))
        contenders[threads] = partial(examiner.speak_s, 0)
    if settings.spinning and cores > 1:
        chosen = settings.model_copy(update={"spinning": False})
        examiner = Examiner(placement.subject_of(built, found, chosen))
        contenders[_ASLEEP] = partial(examiner.speak_s, 0)
    return interleaved(contenders, options.rounds, seed=options.seed)
