"""Where the model is to run: as it was decided, or after a test. Shell: a file, the clock.

Where ONNX Runtime has nothing but the processor, nothing is tried and nothing is waited for.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import onnxruntime as ort
import structlog

from engine.config import Settings
from engine.errors import AssetError, blame
from engine.model import build, ends, hybrid, marker, providers
from engine.model.assets import Assets
from engine.model.ends import Mark
from engine.model.providers import CPU, Candidate, Decision, Finding, Key
from engine.model.sources import Progress
from engine.model.store import write_atomically
from engine.model.trial import Subject, Trial, examine

log = structlog.get_logger("engine")

#: in the cache
FILE = "providers.json"


@dataclass(frozen=True, slots=True)
class Settled:
    """Where the model runs.

    Attributes:
        build: that can run there.
        acoustic: where this part does.
        vocoder: the same.
        threads: of the processor; 0: one per core.
        spinning: whether they wait for each other awake.
        why: a sentence.
        form: of the processor's graphs.
        fault: why it is not what somebody asked for or a test found best, a sentence; empty if it
            is.
        mark: what an engine leaves while it goes by this; None if that needs no mark.
    """

    build: build.Build
    acoustic: Candidate
    vocoder: Candidate
    threads: int
    spinning: bool
    why: str
    form: hybrid.Form
    fault: str = ""
    mark: Mark | None = None


def settle(
    found: Assets,
    settings: Settings,
    progress: Progress,
    *,
    offered: Sequence[str] | None = None,
    examines: Callable[[Subject, Sequence[Trial]], list[Finding]] = examine,
    now_s: Callable[[], float] = time.time,
) -> Settled:
    """Where the model is to run: as it was decided, or after a test. Blocks.

    Args:
        found: model and voices.
        settings: all of them.
        progress: told of what takes long.
        offered: instead of `ort.get_available_providers()`.
        examines: the test.
        now_s: seconds since 1970.

    Raises:
        AssetError: see `build.ensure`.
    """
    offered = ort.get_available_providers() if offered is None else offered
    candidates = providers.candidates(offered, settings.provider)
    form = form_of(settings, candidates)
    key = key_of(planned(found, settings, candidates), candidates)
    file = settings.cache_dir.expanduser() / FILE
    before = read(file)
    # Without candidates there is nothing that a test could find; the threads were asked for.
    retest = settings.provider_retest if candidates else "on_demand"
    reason = "it is the first" if before is None else providers.stale(before, key, retest, now_s())
    findings = list(before.findings) if before else []
    same = before if before and before.key == key else None
    sweep, asleep = (same.sweep, same.asleep) if same else ({}, None)
    decided_s = before.decided_s if before else 0.0
    if reason and candidates:
        log.info("the providers are tried", reason=reason)
        findings = findings_of(found, settings, candidates, progress, examines)
        decided_s = now_s()
    decision: Decision | None = None
    if candidates or not reason:
        forced = settings.provider != "auto"
        decision = providers.decided(
            key, findings, decided_s, forced=forced, sweep=sweep, asleep=asleep
        )
    if reason and decision:
        keep(file, decision)
    acoustic = providers.named(decision.acoustic) if decision else CPU
    vocoder = providers.named(decision.vocoder) if decision else CPU
    why = providers.why(decision, offered, settings.provider)
    used = tuple(sorted({acoustic.name, vocoder.name} - {CPU.name}))
    fault = _unfulfilled(settings, candidates, not used, why)
    mark: Mark | None = None
    if candidates and decision:
        if blamed := _blamed(settings, decision, used):
            acoustic, vocoder, why, fault = CPU, CPU, blamed, blamed
        elif used:
            mark = Mark(decision.decided_s, now_s(), os.getpid(), used)
    built, form = prepared(found, settings, form, progress, anywhere={acoustic, vocoder} != {CPU})
    return Settled(
        build=built,
        acoustic=acoustic,
        vocoder=vocoder,
        threads=settings.threads or (decision.threads if decision else 0),
        spinning=settings.spinning and (decision is None or decision.spinning),
        why=why,
        form=form,
        fault=fault,
        mark=mark,
    )


def _blamed(settings: Settings, decision: Decision, used: Sequence[str]) -> str:
    """Why these places must not be used although they were chosen; see `ends.verdict`."""
    found = marker.ended(settings.cache_dir, decision.decided_s)
    retest = settings.provider_retest
    why = ends.verdict(found, decision.decided_s, used, retest)
    if why:
        log.warning("a provider has ended the engine; the processor takes over", reason=why)
    elif used and found:
        log.warning("an engine ended in a call to a provider; it is given one more chance")
    return why


def findings_of(
    found: Assets,
    settings: Settings,
    candidates: Sequence[Candidate],
    progress: Progress,
    examines: Callable[[Subject, Sequence[Trial]], list[Finding]] = examine,
) -> list[Finding]:
    """Tries all candidates for both parts. Blocks.

    Raises:
        AssetError: see `build.ensure`.
    """
    form = form_of(settings, candidates)
    built, _ = prepared(found, settings, form, progress, anywhere=bool(candidates))
    progress("trying where the model runs best", 0, None)
    trials = [(part, place) for place in candidates for part in providers.PARTS]
    return examines(subject_of(built, found, settings), trials)


def subject_of(built: build.Build, found: Assets, settings: Settings) -> Subject:
    """What is tried."""
    return Subject(built, found.voices, settings.voice, settings.threads, settings.spinning)


def prepared(
    found: Assets,
    settings: Settings,
    form: hybrid.Form,
    progress: Progress,
    *,
    force: bool = False,
    anywhere: bool = False,
) -> tuple[build.Build, hybrid.Form]:
    """The parts in this form; in single precision if that fails and nobody asked for the form. Blocks.

    Raises:
        AssetError: see `build.ensure`.
    """
    ensure = partial(
        build.ensure,
        found.model, found.sha256, settings.cache_dir, progress, force=force, anywhere=anywhere,
    )  # fmt: skip
    try:
        return ensure(integers=form.hybrid), form
    except AssetError as error:
        if not form.hybrid or settings.precision == "hybrid":
            raise
        log.warning("the precision hybrid is not to be had", error=error.message)
    plain = hybrid.Form(False, "Precision is float32, because hybrid does not fit this model.")
    return ensure(integers=False), plain


def planned(
    found: Assets, settings: Settings, candidates: Sequence[Candidate] | None = None
) -> build.Build:
    """The build that these settings ask for, whether it is there or not; see `form_of`."""
    form = form_of(settings, candidates)
    return build.planned(found.sha256, settings.cache_dir, integers=form.hybrid)


def form_of(settings: Settings, candidates: Sequence[Candidate] | None = None) -> hybrid.Form:
    """How the processor's graphs are made on this machine.

    Args:
        settings: all of them.
        candidates: other places that are tried; None: what this ONNX Runtime has.
    """
    if candidates is None:
        candidates = providers.candidates(ort.get_available_providers(), settings.provider)
    return hybrid.chosen(settings.precision, build.processor(), others=bool(candidates))


def _unfulfilled(
    settings: Settings, candidates: Sequence[Candidate], only_own: bool, why: str
) -> str:
    wanted = settings.provider
    if wanted in ("auto", "cpu") or not only_own:
        return ""
    if candidates:
        return f"The setting provider is {wanted}, but the processor is used. {why}"
    return (
        f"The setting provider is {wanted}, which this ONNX Runtime does not have, so the "
        "processor is used."
    )


def key_of(built: build.Build, candidates: Sequence[Candidate]) -> Key:
    """What a decision depends on, of this machine."""
    return Key(
        runtime=ort.__version__,
        build=built.key,
        system=f"{platform.system()} {platform.release()}",
        hardware=hardware(),
        candidates=tuple(one.name for one in candidates),
    )


def hardware() -> str:
    """Processor and cores of this machine."""
    return f"{platform.machine()} {_processor()}, {os.cpu_count()} cores"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def read(file: Path) -> Decision | None:
    """The decision that is kept; None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Decision)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        log.warning("the decision about providers cannot be read", error=blame(error))
        return None


def keep(file: Path, decision: Decision) -> bool:
    """Writes the decision, whole or not at all; whether that worked."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, msgspec.json.format(msgspec.json.encode(decision), indent=2))
    except OSError as error:
        log.warning("the decision about providers cannot be kept", error=blame(error))
        return False
    return True
