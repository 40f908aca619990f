"""Where the model may run: candidates, what is right and worth it, and how long that is believed."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Retest, Wanted
from engine.model import providers
from engine.model.providers import CPU, WORTH, Decision, Finding, Part
from tests.engine.model.places import (
    DAY_S,
    FINDINGS,
    KEY,
    LINUX,
    MAC,
    Floats,
    noise,
)


def test_candidates_are_what_onnx_runtime_offers_and_somebody_wants() -> None:
    def names(offered: list[str], wanted: Wanted = "auto") -> list[str]:
        return [one.name for one in providers.candidates(offered, wanted)]

    assert names(MAC) == ["coreml-all", "coreml-cpuandgpu", "coreml-cpuonly"]
    assert names(LINUX) == names(MAC, "cpu") == names(LINUX, "cuda") == []
    nvidia = ["TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"]
    assert names(nvidia) == ["cuda", "tensorrt"]
    assert names(nvidia, "tensorrt") == ["tensorrt"]
    assert names(["DmlExecutionProvider", "OpenVINOExecutionProvider"]) == [
        "openvino",
        "openvino-gpu",
        "directml",
    ]
    assert all(("ModelFormat", "MLProgram") in one.options for one in providers.candidates(MAC))


def test_a_name_is_found_again_and_an_unknown_one_is_the_processor() -> None:
    for one in (*providers.candidates(MAC), CPU):
        assert providers.named(one.name) == one
    assert providers.named("of a later version") == CPU


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda a: np.zeros_like(a), "silent"),
        (lambda a: a * 0.01, "silent"),
        (lambda a: a[:-300], "11700 samples instead of 12000"),
        (lambda a: np.where(np.arange(len(a)) == 5, np.nan, a), "numbers"),
        (lambda a: a * 2, "6.0 dB off"),
        (lambda a: noise(seed=2), "dB off"),
    ],
)
def test_a_wrong_sound_is_found(spoil: Callable[[Floats], Floats], fault: str) -> None:
    assert fault in providers.sound_fault(noise(), spoil(noise()).astype(np.float32))[0]


@given(st.floats(0.9, 1.1), st.integers(0, 100))
def test_a_sound_that_is_nearly_the_same_is_right(gain: float, seed: int) -> None:
    sound = noise(seed=seed)
    fault, distance_db = providers.sound_fault(sound, sound * np.float32(gain))
    assert not fault
    assert distance_db is not None
    assert distance_db <= 1.0


@given(st.lists(st.floats(0.1, 9), min_size=2), st.floats(0.1, 9))
def test_one_turn_alone_does_not_spoil_a_ratio(ratios: list[float], odd: float) -> None:
    kept = providers.kept_to([*ratios, odd])
    assert kept <= round(max(ratios), 3)
    assert sum(ratio > kept + 0.001 for ratio in [*ratios, odd]) <= 1


@given(st.lists(FINDINGS), st.sampled_from(providers.PARTS), st.booleans())
def test_what_is_chosen_is_right_worth_it_and_the_quickest(
    findings: list[Finding], part: Part, forced: bool
) -> None:
    ratios = [f.ratio for f in findings if f.part == part and not f.fault and f.ratio is not None]
    name = providers.choice(findings, part, forced=forced)
    if name == CPU.name:
        assert not ratios or (min(ratios) > WORTH and not forced)
    else:
        own = [f.ratio for f in findings if f.candidate == name and f.part == part and not f.fault]
        assert min(ratios) in own


def test_threads_are_changed_only_for_a_clear_gain() -> None:
    assert providers.best_threads({}) == 0
    assert providers.best_threads({1: 1.4, 2: 0.95, 4: 1.0}) == 0
    assert providers.best_threads({1: 1.4, 2: 0.8, 4: 1.0}) == 2


@pytest.mark.parametrize(("retest", "days"), [("daily", 1.0), ("weekly", 7.0), ("monthly", 30.0)])
def test_a_decision_is_believed_for_so_long(retest: Retest, days: float) -> None:
    decision = Decision(KEY, 1e9)
    assert not providers.stale(decision, KEY, retest, 1e9)
    assert not providers.stale(decision, KEY, retest, 1e9 + days * DAY_S - 1)
    assert providers.stale(decision, KEY, retest, 1e9 + days * DAY_S) == "it is too old"
    assert providers.stale(decision, KEY, retest, 1e9 - 1)  # the clock was set back
    assert not providers.stale(decision, KEY, "on_demand", 1e12)


@pytest.mark.parametrize("name", KEY.__struct_fields__)
def test_a_decision_holds_for_what_it_was_made_for(name: str) -> None:
    other = msgspec.structs.replace(KEY, **{name: ("x",) if name == "candidates" else "x"})
    retests: tuple[Retest, ...] = ("weekly", "on_demand")
    for retest in retests:
        reason = providers.stale(Decision(KEY, 1e9), other, retest, 1e9)
        assert reason
        assert reason != "it is too old"
