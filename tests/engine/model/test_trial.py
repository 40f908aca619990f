"""The test of a provider: its time and its sound, and what it may break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from engine.errors import AssetError
from engine.model import providers, trial
from engine.model.providers import Candidate, Finding
from engine.model.trial import ROUNDS, Examiner, Speak, Subject, Trial
from tests.engine.model import crashing
from tests.engine.model.conftest import RealParts
from tests.engine.model.places import (
    FAKE,
    PHONEMES,
    Broken,
    Floats,
    noise,
)


@dataclass
class Voice:
    """Speaks noise, and says that it took so long."""

    seconds: float = 1.0
    spoil: Callable[[Floats], Floats] = lambda sound: sound
    fails_at: int = 1000
    rounds: list[int] = field(default_factory=list)

    def __call__(self, number: int) -> tuple[Floats, float]:
        self.rounds.append(number)
        if number == self.fails_at:
            raise RuntimeError("a message with text in it")
        return self.spoil(noise(0.2, number)), self.seconds


def found(voice: Voice) -> Finding:
    return trial.tried("vocoder", FAKE, lambda: voice, Voice())


def test_a_quick_provider_with_the_right_sound_is_chosen() -> None:
    finding = found(quick := Voice(0.5))
    assert (finding.ratio, finding.lsd_db, finding.fault) == (0.5, 0.0, "")
    assert quick.rounds == list(range(ROUNDS + 1))
    assert providers.choice([finding], "vocoder") == "fake"
    assert providers.choice([finding], "acoustic") == "cpu"


def test_a_slow_provider_is_not_chosen_and_not_tried_for_long() -> None:
    for seconds, rounds in ((1.0, ROUNDS + 1), (2.0, ROUNDS + 1), (50.0, 2)):
        finding = found(slow := Voice(seconds))
        assert len(slow.rounds) == rounds
        assert not finding.fault
        assert providers.choice([finding], "vocoder") == "cpu"
        assert providers.choice([finding], "vocoder", forced=True) == "fake"


@pytest.mark.parametrize(("slow_turns", "name"), [(0, "fake"), (1, "fake"), (2, "cpu")])
def test_a_provider_is_chosen_if_it_is_quicker_in_all_turns_but_one(
    slow_turns: int, name: str
) -> None:
    voice = Voice()

    def speak(number: int) -> tuple[Floats, float]:
        return voice(number)[0], 1.1 if 0 < number <= slow_turns else 0.5

    finding = trial.tried("vocoder", FAKE, lambda: speak, Voice())
    assert providers.choice([finding], "vocoder") == name


@pytest.mark.parametrize(
    ("voice", "fault"),
    [
        (Voice(0.1, lambda sound: sound * 0), "silent"),
        (Voice(0.1, lambda sound: sound[1:]), "samples instead of"),
        (Voice(0.1, fails_at=0), "cannot be run"),
        (Voice(0.1, fails_at=ROUNDS), "cannot be run"),
    ],
)
def test_a_broken_provider_is_refused_however_quick(voice: Voice, fault: str) -> None:
    finding = found(voice)
    assert fault in finding.fault
    assert "message" not in finding.fault
    for forced in (False, True):
        assert providers.choice([finding], "vocoder", forced=forced) == "cpu"


def test_a_provider_that_cannot_be_loaded_is_refused() -> None:
    def speaking() -> Speak:
        raise AssetError("no such library")

    finding = trial.tried("acoustic", FAKE, speaking, Voice())
    assert finding == Finding("fake", "acoustic", fault="it cannot be loaded here")


def test_a_provider_that_takes_its_process_down_costs_only_itself() -> None:
    trials: list[Trial] = [
        ("acoustic", Candidate(name, "x")) for name in ("good", "crashes", "better")
    ]
    findings = trial.examine(cast(Subject, None), trials, crashing.work)
    assert [(one.candidate, one.ratio) for one in findings] == [
        ("good", 0.5),
        ("crashes", None),
        ("better", 0.5),
    ]
    assert findings[1].fault == "it ended its process"


def test_a_provider_that_hangs_is_given_up() -> None:
    trials: list[Trial] = [("vocoder", Candidate("hangs", "x"))]
    (finding,) = trial.examine(cast(Subject, None), trials, crashing.work, limit_s=0.01)
    assert finding.fault == "it was not done after 0.01 s"


def test_a_silent_provider_is_refused_by_the_test_with_the_real_model(
    real_parts: RealParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_PHONEMES", PHONEMES)
    subject = Subject(real_parts.build, real_parts.assets.voices, "af_heart", 0)
    finding = Examiner(subject, Broken(silent=True)).examine(("vocoder", FAKE))
    assert finding.fault == "it is silent"
