"""A provider that fails while it runs, and what stands in for it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from structlog.testing import capture_logs

from engine import metrics
from engine.errors import SynthesisFailed
from engine.ladder import Kind, Step
from engine.model.acoustic import Acoustic
from engine.model.decoder import Decoder
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Call, Runs, Session
from engine.model.vocoder import Vocoder
from engine.request import SpeechRequest
from engine.service import KokoroService
from engine.synthesis import Model
from tests.engine.model.conftest import RealParts
from tests.engine.model.places import (
    FAKE,
    PHONEMES,
    Broken,
    Floats,
    stages,
)
from tests.support.reading import hear


def falls() -> float:
    labels = {"provider": FAKE.name, "part": "vocoder"}
    return metrics.REGISTRY.get_sample_value("kokoro_live_provider_falls_total", labels) or 0.0


@pytest.mark.parametrize("works", [0, 3])
def test_a_provider_that_fails_in_the_middle_is_replaced_within_the_step(
    real_parts: RealParts, works: int
) -> None:
    sound = real_parts.sound(PHONEMES)
    steps = [Step(Kind.PREDICTED, 0, 8), Step(Kind.STAGE_ONE, 0, sound.columns)]
    steps += [Step(Kind.EXACT, at, at + 8) for at in (8, 16, 24)]

    def spoken(vocoder: Vocoder) -> list[Floats]:
        decoder = Decoder(vocoder, real_parts.predictor, sound)
        return [decoder.call(step).run() for step in steps]

    broken, before = Broken(works), falls()
    failing = Vocoder(*stages(real_parts), 1, FAKE, broken)
    assert not failing.fault
    heard = spoken(failing)
    own = spoken(Vocoder(*stages(real_parts), 1))
    assert all(map(np.array_equal, heard, own))
    # Each stage fails once and is done again at once.
    assert [works for name, works in broken.calls if name == "fake"].count(False) in (1, 2)
    for at, (name, worked) in enumerate(broken.calls):
        assert worked or broken.calls[at + 1][0] == "cpu", name
    assert failing.fault.startswith("fake failed, so the processor runs the vocoder part")
    assert failing.provider == "CPU"
    assert falls() > before


async def test_a_stream_goes_on_when_the_provider_fails(
    real_service: KokoroService, real_parts: RealParts
) -> None:
    """A text so short that it is decoded whole, whatever the machine's load: it can be compared."""
    parts = real_service._synthesis.model
    threads = real_service._settings.threads
    broken = Vocoder(*stages(real_parts), threads, FAKE, Broken(works=1))
    synthesis = copy.copy(real_service._synthesis)
    renewed = Model(parts.acoustic, broken, parts.predictor, "It was tried.")
    synthesis.renew(renewed, real_service.model.build)
    failing = KokoroService(
        synthesis,
        real_service._voices,
        real_service.model,
        real_service._settled,
        real_service._settings,
    )
    assert (failing.fallbacks, failing.provider_why) == ((), "It was tried.")
    request = SpeechRequest(text="Yes.")
    heard, own = await hear(failing, request), await hear(real_service, request)
    assert heard.pcm == own.pcm
    assert len(failing.fallbacks) == 1
    assert failing.provider_why == failing.fallbacks[0]
    assert (await hear(failing, request)).pcm == own.pcm


def test_a_provider_that_gives_silence_is_replaced_within_the_step(real_parts: RealParts) -> None:
    sound = real_parts.sound("jˈɛs.")
    step = Step(Kind.PREDICTED, 0, 8)
    silent, before = Broken(silent=True), falls()
    failing = Vocoder(*stages(real_parts), 1, FAKE, silent)
    heard = Decoder(failing, real_parts.predictor, sound).call(step).run()
    own = Vocoder(*stages(real_parts), 1)
    assert np.array_equal(heard, Decoder(own, real_parts.predictor, sound).call(step).run())
    assert [name for name, _ in silent.calls] == ["fake", "cpu"] * 2  # each stage
    assert failing.unsound == "it is silent"
    assert failing.provider == "CPU"
    assert falls() == before + 2


def test_a_provider_that_cannot_be_loaded_is_replaced_at_the_start(real_parts: RealParts) -> None:
    acoustic = Acoustic(real_parts.build.part("acoustic"), 1, FAKE, Broken(at_load=True))
    assert acoustic.provider == "CPU"
    assert "processor runs the acoustic part" in acoustic.fault


class Fake:
    """A session without a graph; gives what it is told to, or fails."""

    def __init__(self, gives: Floats | None) -> None:
        self.gives = gives

    def get_inputs(self) -> Sequence[Any]:
        return []

    def run(self, names: object, feeds: object, run: ort.RunOptions) -> list[Any]:
        if self.gives is None or run.terminate:
            raise RuntimeError("it failed")
        return [self.gives, np.zeros(2, np.int64)]


SOUND: Floats = np.array([0.0, 0.5], np.float32)


def fake_session(place: Candidate, *gives: Floats | None) -> tuple[Session, list[str]]:
    """One whose sessions give this or fail, in the order in which they are opened."""
    opened: list[str] = []
    left = iter(gives)

    def opens(_: Path, threads: int, where: Candidate) -> Runs:
        opened.append(f"{where.name} {threads}")
        return Fake(next(left))

    return Session(Path("graph"), 1, "vocoder", place, opens, others=4), opened


def test_a_failing_provider_is_asked_once() -> None:
    made, opened = fake_session(FAKE, None, SOUND)
    for _ in range(3):
        assert made.run([], {}, ort.RunOptions())[0] is SOUND
    assert (opened, made.unsound) == (["fake 4", "cpu 1"], "")


@pytest.mark.parametrize(
    ("gives", "unsound"),
    [
        ([0.0, 0.0], "it is silent"),
        ([0.5, np.nan], "its sound is not made of numbers"),
        ([0.5, -np.inf], "its sound is not made of numbers"),
    ],
)
def test_a_provider_whose_sound_is_none_has_failed(gives: list[float], unsound: str) -> None:
    made, opened = fake_session(FAKE, np.array(gives, np.float32), SOUND)
    with capture_logs() as logs:
        assert made.run([], {}, ort.RunOptions())[0] is SOUND
    assert opened == ["fake 4", "cpu 1"]
    assert made.unsound == unsound
    assert made.fault.startswith("fake failed, so the processor runs the vocoder part")
    assert [entry["error"] for entry in logs] == [unsound]


def test_the_processor_is_not_doubted() -> None:
    """Nothing stands behind it, and all zeros are better than an error."""
    made, _ = fake_session(CPU, silence := np.zeros(2, np.float32))
    assert made.run([], {}, ort.RunOptions())[0] is silence
    assert not made.fault


def test_a_call_that_is_stopped_is_no_failure_of_the_provider() -> None:
    made, opened = fake_session(FAKE, SOUND)
    call = Call(lambda options: made.run([], {}, options))
    call.stop()
    with pytest.raises(SynthesisFailed):
        call.run()
    assert (opened, made.fault, made.place) == (["fake 4"], "", FAKE)


def test_nothing_stands_behind_the_processor() -> None:
    for place, gives in ((CPU, [None]), (FAKE, [None, None])):
        made, opened = fake_session(place, *gives)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                made.run([], {}, ort.RunOptions())
        assert len(opened) == len(gives)
