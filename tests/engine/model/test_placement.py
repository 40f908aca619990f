"""Where the model is to run: decided once, kept, and tried again when something changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config import Settings
from engine.errors import AssetError
from engine.model import build, ends, marker, placement, providers
from engine.model.assets import Assets
from engine.model.ends import BUSY, Mark
from engine.model.providers import CPU, WORTH, Decision, Finding
from engine.model.trial import Subject, Trial
from tests.engine.model.places import (
    COREML,
    DAY_S,
    FINDINGS,
    KEY,
    LINUX,
    MAC,
)


@given(
    st.lists(FINDINGS, max_size=5),
    st.dictionaries(st.integers(1, 64), st.floats(0.1, 9)),
    st.none() | st.floats(0.1, 9),
)
def test_a_decision_is_read_as_it_was_kept(
    tmp_path_factory: pytest.TempPathFactory,
    findings: list[Finding],
    sweep: dict[int, float],
    asleep: float | None,
) -> None:
    file = tmp_path_factory.mktemp("kept") / "deep" / placement.FILE
    decision = providers.decided(KEY, findings, 1e9, sweep=sweep, asleep=asleep)
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

        def ensure(*_: object, anywhere: bool, integers: bool, force: bool) -> build.Build:
            if integers:
                raise AssetError("The precision hybrid does not fit this model.")
            self.built.append(anywhere)
            return build.Build("key", settings.cache_dir)

        monkeypatch.setattr(build, "ensure", ensure)
        monkeypatch.setattr(build, "processor", lambda: "")  # so, single precision

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

    def crash(self, mark: Mark | None, *, fault: str = "") -> None:
        """An engine that left this mark has ended in a call, or by a fault."""
        assert mark is not None
        folder = self.settings.cache_dir / marker.FOLDER
        folder.mkdir(exist_ok=True)
        content = BUSY + ends.encoded(mark)[1:]
        content += f"Fatal Python error: {fault}\n".encode() if fault else b""
        (folder / str(len(self.marks()))).write_bytes(content)

    def marks(self) -> list[Path]:
        return list((self.settings.cache_dir / marker.FOLDER).glob("*"))


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


def test_a_form_that_nobody_asked_for_and_that_is_not_to_be_had_is_done_without(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.offered = LINUX
    monkeypatch.setattr(build, "processor", lambda: "avx512_vnni")
    form = machine.start(precision="auto").form
    assert not form.hybrid
    assert form.why == "Precision is float32, because hybrid does not fit this model."
    with pytest.raises(AssetError, match="hybrid"):
        machine.start(precision="hybrid")


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
    placement.keep(file, msgspec.structs.replace(kept, sweep={3: 0.7, 4: 1.0}, asleep=0.8))
    machine.now_s += 8 * DAY_S
    assert machine.start().threads == machine.start().threads == 3
    assert not machine.start().spinning
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


@pytest.mark.parametrize(
    ("asleep", "setting", "spins"),
    [(None, True, True), (None, False, False), (0.95, True, True), (0.8, True, False)],
)
def test_threads_sleep_if_that_was_clearly_quicker_or_somebody_says_so(
    machine: Machine, asleep: float | None, setting: bool, spins: bool
) -> None:
    machine.offered = LINUX
    key = placement.key_of(build.planned("a" * 64, machine.settings.cache_dir), ())
    file = machine.settings.cache_dir / placement.FILE
    placement.keep(file, providers.decided(key, [], 1.0, asleep=asleep))
    assert machine.start(spinning=setting).spinning is spins


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


def test_a_provider_that_ended_the_engine_waits_for_the_next_test(machine: Machine) -> None:
    first = machine.start()
    assert first.mark is not None
    assert first.mark.places == (COREML.name,)
    machine.crash(first.mark, fault="Aborted")
    machine.now_s += 6 * DAY_S
    for _ in range(2):
        settled = machine.start()
        assert (settled.acoustic, settled.vocoder, settled.mark) == (CPU, CPU, None)
        assert "python -m bench providers" in settled.fault
        assert settled.why == settled.fault
    assert machine.built[-1] is False
    assert len(machine.tried) == 1
    machine.now_s += DAY_S
    settled = machine.start()
    assert (settled.acoustic, settled.fault, machine.marks()) == (COREML, "", [])
    assert len(machine.tried) == 2


def test_what_somebody_asked_for_is_not_used_either_if_it_ends_the_engine(machine: Machine) -> None:
    machine.crash(machine.start(provider="coreml").mark, fault="Aborted")
    settled = machine.start(provider="coreml")
    assert settled.acoustic == CPU
    assert settled.fault.startswith("The engine was ended by a fault")


def test_bench_providers_gives_it_another_chance(machine: Machine) -> None:
    machine.crash(machine.start().mark, fault="Aborted")
    assert machine.start().acoustic == CPU
    file = machine.settings.cache_dir / placement.FILE
    kept = placement.read(file)
    assert kept is not None
    machine.now_s += 60
    placement.keep(file, msgspec.structs.replace(kept, decided_s=machine.now_s))
    assert machine.start().acoustic == COREML
    assert len(machine.tried) == 1


def test_an_engine_that_was_killed_in_a_call_has_one_more_chance(machine: Machine) -> None:
    machine.crash(machine.start().mark)
    again = machine.start()
    assert (again.acoustic, again.fault) == (COREML, "")
    machine.crash(again.mark)
    settled = machine.start()
    assert settled.acoustic == CPU
    assert settled.fault.startswith("The engine ended twice within a day")


def test_with_the_processor_there_is_nothing_to_blame(machine: Machine) -> None:
    machine.crash(machine.start().mark, fault="Aborted")
    settled = machine.start(provider="cpu")
    assert (settled.mark, settled.fault) == (None, "")
