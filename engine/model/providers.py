"""Where a part of the model may run, which place is best, and how long that is believed. Core.

ONNX Runtime calls what runs a graph an execution provider. The processor is one, always there, and
the reference: a place is only taken if it gave the same sound in a fixed test and took clearly less
time (`choice`). `trial` runs that test; what came out is a `Decision`, which `placement` keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from engine.config import Retest, Wanted
from engine.model.distance import FRAME, lsd_db

Floats = NDArray[np.float32]

#: the two halves, which may run in different places
Part = Literal["acoustic", "vocoder"]
PARTS: tuple[Part, ...] = get_args(Part)

_DAY_S = 86_400.0
#: how many seconds the words of the settings are
PERIOD_S: Mapping[str, float] = {
    "daily": _DAY_S,
    "weekly": 7 * _DAY_S,
    "monthly": 30 * _DAY_S,
    "on_demand": float("inf"),
}

#: largest log-spectral distance to the processor's sound, dB; streaming itself costs 1.3
GATE_DB = 2.0
#: A place must take at most this much of the processor's time: what is not clearly quicker is not
#: worth that it may fail.
WORTH = 0.9
#: quieter than this is silence: root of the mean square; speech has 0.03 to 0.1
_SILENCE = 0.003

_SUFFIX = "ExecutionProvider"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A place where a part may run.

    Attributes:
        name: ours, such as `coreml-all`.
        provider: ONNX Runtime's, such as `CoreMLExecutionProvider`.
        options: of the provider.
        keeps: name of the option that takes a folder for what the provider compiles, if it has one.
    """

    name: str
    provider: str
    options: tuple[tuple[str, str], ...] = ()
    keeps: str = ""

    @property
    def shown(self) -> str:
        """ONNX Runtime's name without what all names end with."""
        return self.provider.removesuffix(_SUFFIX)


CPU = Candidate("cpu", f"CPU{_SUFFIX}")


def _coreml(units: str) -> Candidate:
    options = (("ModelFormat", "MLProgram"), ("MLComputeUnits", units))
    name = f"coreml-{units.lower()}"
    return Candidate(name, f"CoreML{_SUFFIX}", options, keeps="ModelCacheDirectory")


def _openvino(device: str) -> Candidate:
    name = "openvino" if device == "CPU" else f"openvino-{device.lower()}"
    return Candidate(name, f"OpenVINO{_SUFFIX}", (("device_type", device),), keeps="cache_dir")


#: by what the setting calls it; the options are those of ONNX Runtime's documentation
_KNOWN: Mapping[str, tuple[Candidate, ...]] = {
    "coreml": tuple(_coreml(units) for units in ("ALL", "CPUAndGPU", "CPUOnly")),
    # The exhaustive search for an algorithm would come again for every length of a segment.
    "cuda": (Candidate("cuda", f"CUDA{_SUFFIX}", (("cudnn_conv_algo_search", "HEURISTIC"),)),),
    "tensorrt": (
        Candidate(
            "tensorrt",
            f"Tensorrt{_SUFFIX}",
            (("trt_engine_cache_enable", "1"),),
            keeps="trt_engine_cache_path",
        ),
    ),
    "openvino": (_openvino("CPU"), _openvino("GPU")),
    "directml": (Candidate("directml", f"Dml{_SUFFIX}"),),
}


def candidates(offered: Sequence[str], wanted: Wanted = "auto") -> tuple[Candidate, ...]:
    """What could be tried besides the processor.

    Args:
        offered: by `ort.get_available_providers()`; that a library has one does not say that this
            machine has what it needs.
        wanted: the setting.
    """
    families = _KNOWN.values() if wanted == "auto" else [_KNOWN.get(wanted, ())]
    return tuple(one for family in families for one in family if one.provider in offered)


def named(name: str) -> Candidate:
    """The candidate of this name; the processor, if a version before this one had more of them."""
    known = (one for family in _KNOWN.values() for one in family)
    return next((one for one in known if one.name == name), CPU)


# --- the test -----------------------------------------------------------------------------------


class Finding(msgspec.Struct, frozen=True):
    """What came out of trying a candidate.

    Attributes:
        candidate: its name.
        part: what it ran.
        ratio: its time by the processor's of the same turn, which it kept to in all turns but one;
            None: it has none.
        seconds: median of its turns; None: it had none.
        lsd_db: largest log-spectral distance to the processor's sound; None: there is none.
        fault: why it cannot be taken, half a sentence; empty if it can.
    """

    candidate: str
    part: Part
    ratio: float | None = None
    seconds: float | None = None
    lsd_db: float | None = None
    fault: str = ""


def sound_fault(reference: Floats, other: Floats) -> tuple[str, float | None]:
    """What is wrong with a candidate's sound, half a sentence, and the distance in dB.

    Args:
        reference: the processor's, float32 [samples].
        other: the candidate's.
    """
    if len(other) != len(reference):
        return f"its sound has {len(other)} samples instead of {len(reference)}", None
    if not np.isfinite(other).all():
        return "its sound is not made of numbers", None
    if float(np.sqrt(np.mean(np.square(other, dtype=np.float64)))) < _SILENCE:
        return "it is silent", None
    if len(reference) < FRAME:
        raise ValueError(f"{len(reference)} samples are too few to be compared")
    distance = round(lsd_db(reference, other), 3)
    if distance > GATE_DB:
        return f"its sound is {distance:.1f} dB off, more than {GATE_DB:g}", distance
    return "", distance


def kept_to(ratios: Sequence[float]) -> float:
    """The ratio that was kept to in all turns but one.

    On a machine that has other work a median of a few turns is a matter of luck (0.9, and 1.6 at
    another time, for the same provider).
    """
    return round(sorted(ratios)[-2:][0], 3)


def choice(findings: Sequence[Finding], part: Part, *, forced: bool = False) -> str:
    """Name of the best place for a part: the quickest whose sound is right, if that is worth it.

    Args:
        findings: of all candidates.
        part: acoustic or vocoder.
        forced: somebody asked for just these, so also if the processor is quicker.
    """
    right = [
        (one.ratio, one.candidate)
        for one in findings
        if one.part == part and not one.fault and one.ratio is not None
    ]
    if not right:
        return CPU.name
    ratio, name = min(right)
    return name if forced or ratio <= WORTH else CPU.name


def best_threads(ratios: Mapping[int, float]) -> int:
    """Of a sweep, by number of threads the time by that of one per core; 0 is one per core."""
    if not ratios:
        return 0
    threads = min(ratios, key=lambda number: ratios[number])
    return threads if ratios[threads] <= WORTH else 0


# --- what is kept -------------------------------------------------------------------------------


class Key(msgspec.Struct, frozen=True):
    """What a decision depends on.

    Attributes:
        runtime: version of ONNX Runtime.
        build: id of the model's build.
        system: operating system and its version.
        hardware: processor, cores, and the devices that ONNX Runtime sees.
        candidates: names of those that there were.
    """

    runtime: str
    build: str
    system: str
    hardware: str
    candidates: tuple[str, ...]


class Decision(msgspec.Struct, frozen=True):
    """Where the parts run, and why.

    Attributes:
        key: what it depends on.
        decided_s: when, seconds since 1970.
        findings: of the test.
        acoustic: name of the candidate.
        vocoder: the same.
        threads: of the processor; 0: one per core.
        sweep: that was found so, by number of threads the time by that of one per core, which it
            kept to in all turns but one.
        asleep: the same of threads that wait asleep instead of spinning; None: it was not tried.
    """

    key: Key
    decided_s: float
    findings: tuple[Finding, ...] = ()
    acoustic: str = CPU.name
    vocoder: str = CPU.name
    threads: int = 0
    sweep: dict[int, float] = {}
    asleep: float | None = None

    @property
    def spinning(self) -> bool:
        """Whether threads are to wait for each other awake: unless sleep was clearly quicker."""
        return self.asleep is None or self.asleep > WORTH


def decided(
    key: Key,
    findings: Sequence[Finding],
    now_s: float,
    *,
    forced: bool = False,
    sweep: Mapping[int, float] | None = None,
    asleep: float | None = None,
) -> Decision:
    """What follows from a test; see `choice` and `best_threads`.

    `forced` is a setting, which may change while the findings are still believed.
    """
    return Decision(
        key=key,
        decided_s=now_s,
        findings=tuple(findings),
        acoustic=choice(findings, "acoustic", forced=forced),
        vocoder=choice(findings, "vocoder", forced=forced),
        threads=best_threads(sweep or {}),
        sweep=dict(sweep or {}),
        asleep=asleep,
    )


_CHANGED: Mapping[str, str] = {
    "runtime": "ONNX Runtime is another version",
    "build": "the model was built anew",
    "system": "the system is another version",
    "hardware": "the hardware is another",
    "candidates": "there are other providers",
}


def stale(decision: Decision, key: Key, retest: Retest, now_s: float) -> str:
    """Why a decision is not believed any more, half a sentence; empty if it is.

    A clock that was set back, so that the decision is of the future, counts as too old.
    """
    for field, what in _CHANGED.items():
        if getattr(decision.key, field) != getattr(key, field):
            return what
    age_s = now_s - decision.decided_s
    if retest != "on_demand" and not 0 <= age_s < PERIOD_S[retest]:
        return "it is too old"
    return ""


# --- what is told -------------------------------------------------------------------------------


def why(decision: Decision | None, offered: Sequence[str], wanted: Wanted) -> str:
    """Why the model runs where it does, in a sentence.

    Args:
        decision: None if nothing was tried.
        offered: by ONNX Runtime.
        wanted: the setting.
    """
    if decision is None or not decision.findings:
        if wanted == "cpu":
            return "The setting provider says that the processor is used alone."
        known = {one.provider for family in _KNOWN.values() for one in family}
        others = [name.removesuffix(_SUFFIX) for name in offered if name not in {CPU.provider}]
        also = f"; of {', '.join(others)} no use is made" if others else ""
        if known & set(offered):
            return "The processor is used; nothing else has been tried yet."
        return f"The processor is all that this ONNX Runtime can use here{also}."
    told = [_told(decision, part) for part in PARTS]
    return f"Of the providers that were tried, {'; '.join(told)}."


def _told(decision: Decision, part: Part) -> str:
    name = decision.acoustic if part == "acoustic" else decision.vocoder
    tried = [one for one in decision.findings if one.part == part]
    if name != CPU.name:
        ratio = next(one.ratio for one in tried if one.candidate == name)
        return f"{name} runs the {part} part in {ratio:.2f} of the processor's time"
    reasons = [
        f"{one.candidate}: {one.fault}"
        if one.fault
        else f"{one.candidate} takes {one.ratio:.2f} of its time"
        for one in tried
    ]
    return f"the processor runs the {part} part ({', '.join(reasons)})"
