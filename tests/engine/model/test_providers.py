"""Where the model may run: candidates, test, decision, and a provider that fails while it runs."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine import metrics
from engine.config import Retest, Settings, Wanted
from engine.errors import AssetError, SynthesisFailed
from engine.ladder import Kind, Step
from engine.model import build, placement, providers, trial
from engine.model.acoustic import Acoustic
from engine.model.assets import Assets
from engine.model.decoder import Decoder
from engine.model.providers import CPU, WORTH, Candidate, Decision, Finding, Key, Part
from engine.model.runtime import Call, Runs, Session, session
from engine.model.trial import ROUNDS, Examiner, Speak, Subject, Trial
from engine.model.vocoder import Vocoder
from engine.request import SpeechRequest
from engine.service import KokoroService
from engine.synthesis import Model
from tests.engine.model import crashing
from tests.engine.model.conftest import RealParts
from tests.support.reading import hear

Floats = NDArray[np.float32]

MAC = ["CoreMLExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]
LINUX = ["AzureExecutionProvider", "CPUExecutionProvider"]
FAKE = Candidate("fake", "FakeExecutionProvider")
#: a place that `providers.named` knows
COREML, *_ = providers.candidates(MAC)

KEY = Key("1.32.0", "abc", "Darwin 25", "arm64, 8 cores", ("coreml-all",))
DAY_S = 86_400.0


# --- candidates ---------------------------------------------------------------------------------


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


# --- the sound ----------------------------------------------------------------------------------


def noise(seconds: float = 0.5, seed: int = 1) -> Floats:
    samples = np.random.default_rng(seed).normal(0, 0.05, round(24_000 * seconds))
    return samples.astype(np.float32)


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


# --- the test -----------------------------------------------------------------------------------


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


@given(st.lists(st.floats(0.1, 9), min_size=2), st.floats(0.1, 9))
def test_one_turn_alone_does_not_spoil_a_ratio(ratios: list[float], odd: float) -> None:
    kept = providers.kept_to([*ratios, odd])
    assert kept <= round(max(ratios), 3)
    assert sum(ratio > kept + 0.001 for ratio in [*ratios, odd]) <= 1


FINDINGS = st.builds(
    Finding,
    candidate=st.sampled_from("abcde"),
    part=st.sampled_from(providers.PARTS),
    ratio=st.none() | st.floats(0.01, 10),
    lsd_db=st.none() | st.floats(0, 5),
    fault=st.sampled_from(["", "it is silent"]),
)


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


# --- the decision -------------------------------------------------------------------------------


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


@given(st.lists(FINDINGS, max_size=5), st.dictionaries(st.integers(1, 64), st.floats(0.1, 9)))
def test_a_decision_is_read_as_it_was_kept(
    tmp_path_factory: pytest.TempPathFactory, findings: list[Finding], sweep: dict[int, float]
) -> None:
    file = tmp_path_factory.mktemp("kept") / "deep" / placement.FILE
    decision = providers.decided(KEY, findings, 1e9, sweep=sweep)
    assert placement.keep(file, decision)
    assert placement.read(file) == decision
    assert list(file.parent.iterdir()) == [file]


@given(st.binary(max_size=200) | st.just(b'{"decided_s": 1}'))
def test_a_damaged_file_is_no_decision(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    file = tmp_path_factory.mktemp("damaged") / placement.FILE
    file.write_bytes(content)
    assert placement.read(file) is None


class Machine:
    """A machine with other providers, on which starts are counted by what was tried at them."""

    def __init__(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = settings
        self.offered = MAC
        self.now_s = 1e9
        self.tried: list[list[str]] = []
        self.ratio, self.fault = 0.5, ""
        self.built: list[bool] = []

        def ensure(*_: object, anywhere: bool) -> build.Build:
            self.built.append(anywhere)
            return build.Build("key", settings.cache_dir)

        monkeypatch.setattr(build, "ensure", ensure)

    def start(self, **changes: object) -> placement.Settled:
        assets = Assets(Path("model"), "model", "int8", "a" * 64, Path("voices"))
        settings = self.settings.model_copy(update=changes)
        return placement.settle(
            assets,
            settings,
            lambda *_: None,
            offered=self.offered,
            examines=self._examine,
            now_s=lambda: self.now_s,
        )

    def _examine(self, _: Subject, trials: Sequence[Trial]) -> list[Finding]:
        self.tried.append(list(dict.fromkeys(place.name for _, place in trials)))
        return [
            Finding(place.name, part, self.ratio + at / 10, 1.0, 0.1, self.fault)
            for at, (part, place) in enumerate(trials)
        ]


@pytest.fixture
def machine(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(settings.model_copy(update={"cache_dir": tmp_path / "cache"}), monkeypatch)


def test_with_the_processor_alone_nothing_is_tried_kept_or_built_twice(machine: Machine) -> None:
    machine.offered = LINUX
    settled = machine.start()
    assert (settled.acoustic, settled.vocoder, settled.threads) == (CPU, CPU, 0)
    assert "processor is all" in settled.why
    assert not settled.fault
    assert (machine.tried, machine.built) == ([], [False])
    assert not machine.settings.cache_dir.exists()


def test_a_test_is_done_once_and_then_believed(machine: Machine) -> None:
    first, again = machine.start(), machine.start()
    assert machine.tried == [["coreml-all", "coreml-cpuandgpu", "coreml-cpuonly"]]
    assert first == again
    assert first.acoustic.name == first.vocoder.name == "coreml-all"
    assert "coreml-all runs the acoustic part in 0.50 of the processor's time" in first.why
    machine.now_s += 8 * DAY_S
    machine.start(provider_retest="on_demand")
    assert len(machine.tried) == 1
    machine.start()
    assert len(machine.tried) == 2


def test_parts_may_run_in_different_places(machine: Machine) -> None:
    machine.ratio = WORTH
    settled = machine.start()
    assert (settled.acoustic, settled.vocoder) == (COREML, CPU)
    assert "processor runs the vocoder part (coreml-all takes 1.00 of its time" in settled.why


def test_what_changes_is_tried_again(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.start()
    monkeypatch.setattr("onnxruntime.__version__", "9.9")
    machine.start()
    machine.start(provider="coreml")  # the same candidates
    monkeypatch.setattr("os.cpu_count", lambda: 99)
    machine.start()
    machine.offered = [*MAC, "DmlExecutionProvider"]
    machine.start()
    assert len(machine.tried) == 4


def test_what_was_forced_is_not_taken_for_what_is_best(machine: Machine) -> None:
    """Both have the same candidates, so the findings still hold; what follows from them does not."""
    machine.ratio = 1.5
    assert machine.start(provider="coreml").acoustic == COREML
    assert machine.start().acoustic == CPU
    assert len(machine.tried) == 1


def test_a_test_that_is_done_again_keeps_what_was_found_about_threads(machine: Machine) -> None:
    machine.start()
    file = machine.settings.cache_dir / placement.FILE
    kept = placement.read(file)
    assert kept is not None
    placement.keep(file, msgspec.structs.replace(kept, sweep={3: 0.7, 4: 1.0}))
    machine.now_s += 8 * DAY_S
    assert machine.start().threads == machine.start().threads == 3
    assert len(machine.tried) == 2


def test_a_damaged_decision_is_made_again(machine: Machine) -> None:
    machine.start()
    (machine.settings.cache_dir / placement.FILE).write_text("{")
    assert machine.start().acoustic == COREML
    assert machine.start().acoustic == COREML
    assert len(machine.tried) == 2


def test_a_folder_that_cannot_be_written_costs_a_test_each_time(machine: Machine) -> None:
    machine.settings.cache_dir.touch()  # a file; rights do not hold for everybody
    assert machine.start().acoustic == machine.start().acoustic == COREML
    assert len(machine.tried) == 2


def test_what_was_asked_for_and_cannot_be_is_told(machine: Machine) -> None:
    settled = machine.start(provider="cuda")
    assert settled.acoustic == CPU
    assert "is cuda, which this ONNX Runtime does not have" in settled.fault
    assert machine.tried == []
    machine.fault = "it is silent"
    settled = machine.start(provider="coreml")
    assert settled.acoustic == CPU
    assert "coreml-all: it is silent" in settled.fault
    assert not machine.start(provider="cpu").fault
    assert "setting provider says" in machine.start(provider="cpu").why


def test_threads_that_were_measured_are_used_unless_somebody_names_some(machine: Machine) -> None:
    machine.offered = LINUX
    planned = build.planned("a" * 64, machine.settings.cache_dir)
    key = placement.key_of(planned, ())
    file = machine.settings.cache_dir / placement.FILE
    placement.keep(file, providers.decided(key, [], 1.0, sweep={1: 1.5, 3: 0.7, 4: 1.0}))
    assert machine.start().threads == 3
    assert machine.start(threads=2).threads == 2
    placement.keep(file, Decision(msgspec.structs.replace(key, hardware="another"), 1e9, threads=3))
    assert machine.start().threads == 0


# --- a provider that fails while it runs --------------------------------------------------------


@dataclass
class Broken:
    """Sessions of the processor; other places fail after so many calls, or are silent.

    Attributes:
        works: calls that work.
        silent: whether what they give is nothing but zeros.
        at_load: whether they cannot even be loaded.
        calls: by place, what was run.
    """

    works: int = 10**6
    silent: bool = False
    at_load: bool = False
    calls: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, graph: Path, threads: int, place: Candidate) -> Runs:
        if place != CPU and self.at_load:
            raise AssetError("no such device")
        return cast(Runs, _Broken(self, session(graph, threads), place))


@dataclass
class _Broken:
    machine: Broken
    own: Runs
    place: Candidate

    def get_inputs(self) -> Sequence[Any]:
        return self.own.get_inputs()

    def run(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[np.generic]], run: ort.RunOptions
    ) -> list[Any]:
        if self.place == CPU:
            self.machine.calls.append(("cpu", True))
            return self.own.run(names, feeds, run)
        self.machine.works -= 1
        works = self.machine.works >= 0
        self.machine.calls.append((self.place.name, works))
        if not works:
            raise RuntimeError("the device was lost")
        made = self.own.run(names, feeds, run)
        return [np.zeros_like(one) for one in made] if self.machine.silent else made


def falls() -> float:
    labels = {"provider": FAKE.name, "part": "vocoder"}
    return metrics.REGISTRY.get_sample_value("kokoro_live_provider_falls_total", labels) or 0.0


def stages(parts: RealParts) -> tuple[Path, Path]:
    return parts.build.part("stage_one"), parts.build.part("stage_two")


PHONEMES = "jˈɛs, ɪt ɪz."


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
    synthesis.renew(Model(parts.acoustic, broken, parts.predictor, "It was tried."))
    failing = KokoroService(
        synthesis, real_service._voices, real_service.model, real_service._settings
    )
    assert (failing.fallbacks, failing.provider_why) == ((), "It was tried.")
    request = SpeechRequest(text="Yes.")
    heard, own = await hear(failing, request), await hear(real_service, request)
    assert heard.pcm == own.pcm
    assert len(failing.fallbacks) == 1
    assert failing.provider_why == failing.fallbacks[0]
    assert (await hear(failing, request)).pcm == own.pcm


def test_a_provider_that_cannot_be_loaded_is_replaced_at_the_start(real_parts: RealParts) -> None:
    acoustic = Acoustic(real_parts.build.part("acoustic"), 1, FAKE, Broken(at_load=True))
    assert acoustic.provider == "CPU"
    assert "processor runs the acoustic part" in acoustic.fault


def test_a_silent_provider_is_refused_by_the_test_with_the_real_model(
    real_parts: RealParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trial, "_PHONEMES", PHONEMES)
    subject = Subject(real_parts.build, real_parts.assets.voices, "af_heart", 0)
    finding = Examiner(subject, Broken(silent=True)).examine(("vocoder", FAKE))
    assert finding.fault == "it is silent"


class Fake:
    """A session without a graph; gives the threads' names, or fails."""

    def __init__(self, works: bool = True) -> None:
        self.works = works

    def get_inputs(self) -> Sequence[Any]:
        return []

    def run(self, names: object, feeds: object, run: ort.RunOptions) -> list[Any]:
        if not self.works or run.terminate:
            raise RuntimeError("it failed")
        return ["done"]


def fake_session(place: Candidate, *works: bool) -> tuple[Session, list[str]]:
    """One whose sessions work or not, in the order in which they are opened."""
    opened: list[str] = []
    left = itertools.chain(works)

    def opens(_: Path, threads: int, where: Candidate) -> Runs:
        opened.append(f"{where.name} {threads}")
        return Fake(next(left))

    return Session(Path("graph"), 1, "vocoder", place, opens, others=4), opened


def test_a_failing_provider_is_asked_once() -> None:
    made, opened = fake_session(FAKE, False, True)
    options = ort.RunOptions()
    assert [made.run([], {}, options) for _ in range(3)] == [["done"]] * 3
    assert opened == ["fake 4", "cpu 1"]


def test_a_call_that_is_stopped_is_no_failure_of_the_provider() -> None:
    made, opened = fake_session(FAKE, True)
    call = Call(lambda options: made.run([], {}, options))
    call.stop()
    with pytest.raises(SynthesisFailed):
        call.run()
    assert (opened, made.fault, made.place) == (["fake 4"], "", FAKE)


def test_nothing_stands_behind_the_processor() -> None:
    for place, works in ((CPU, [False]), (FAKE, [False, False])):
        made, opened = fake_session(place, *works)
        for _ in range(2):
            with pytest.raises(RuntimeError):
                made.run([], {}, ort.RunOptions())
        assert len(opened) == len(works)
