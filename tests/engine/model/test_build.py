"""The cache of builds: made once, found again, never half there."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from engine.errors import AssetError
from engine.model import build
from engine.model.build import Build
from engine.model.runtime import portable
from tests.engine.model.conftest import RealParts

Told = list[tuple[str, int, int | None]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Builds are empty files, made at once; gives the models that were built."""
    models: list[Path] = []

    def make(model: Path, to: Build, anywhere: bool, integers: bool, progress: object) -> None:
        models.append(model)
        for form in (Path, portable)[: 1 + anywhere]:
            for name in ("acoustic", "stage_one", "stage_two"):
                path = form(to.part(name))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
                path.with_suffix(".bin").touch()

    monkeypatch.setattr(build, "_make", make)
    return models


def test_a_build_is_made_once(tmp_path: Path, made: list[Path], told: Told) -> None:
    model = tmp_path / "model.onnx"
    first = build.ensure(model, "a" * 64, tmp_path, lambda *step: told.append(step))
    again = build.ensure(model, "a" * 64, tmp_path, lambda *step: told.append(step))
    assert first == again
    assert made == [model]
    build.ensure(model, "a" * 64, tmp_path, lambda *_: None, force=True)
    assert made == [model] * 2


def test_graphs_for_other_providers_are_made_when_they_are_needed(
    tmp_path: Path, made: list[Path]
) -> None:
    def ensure(anywhere: bool) -> bool:
        found = build.ensure(tmp_path, "a" * 64, tmp_path, lambda *_: None, anywhere=anywhere)
        assert found == build.planned("a" * 64, tmp_path)
        return found.is_portable

    assert [ensure(wanted) for wanted in (False, True, True, False)] == [False, True, True, True]
    assert len(made) == 2
    portable(build.planned("a" * 64, tmp_path).part("acoustic")).unlink()
    assert not ensure(False)
    assert ensure(True)


def test_the_form_is_part_of_the_key_and_the_recipe_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(integers: bool) -> str:
        return build.planned("a" * 64, tmp_path, integers=integers).key

    before = key(False), key(True)
    assert before[0] != before[1]
    other = tmp_path / "other.npz"
    other.write_bytes(b"another")
    monkeypatch.setattr("engine.model.hybrid.FILE", other)
    assert key(False) == before[0]
    assert key(True) not in before


def test_another_model_version_runtime_or_processor_is_another_build(
    tmp_path: Path, made: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def key(sha256: str = "a" * 64) -> str:
        return build.ensure(tmp_path, sha256, tmp_path, lambda *_: None).key

    keys = {key(), key("b" * 64)}
    monkeypatch.setattr(build, "VERSION", build.VERSION + 1)
    keys.add(key())
    monkeypatch.setattr("onnxruntime.__version__", "9.9")
    keys.add(key())
    monkeypatch.setattr(build, "processor", lambda: "another")
    keys.add(key())
    assert len(keys) == 5


@pytest.mark.parametrize("kind", [".onnx", ".bin"])
def test_a_build_that_lacks_a_file_is_made_again(
    kind: str, tmp_path: Path, made: list[Path]
) -> None:
    found = build.ensure(tmp_path, "a" * 64, tmp_path, lambda *_: None)
    found.part("stage_two").with_suffix(kind).unlink()
    build.ensure(tmp_path, "a" * 64, tmp_path, lambda *_: None)
    assert len(made) == 2


def test_a_cache_that_is_a_file_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "builds").touch()
    with pytest.raises(AssetError, match=r"cannot be written to .*builds"):
        build.ensure(tmp_path / "model.onnx", "a" * 64, tmp_path, lambda *_: None)


def small(inputs: dict[str, int]) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", ["style"], ["audio"])]
    given = [helper.make_tensor_value_info(name, kind, None) for name, kind in inputs.items()]
    result = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "small", given, result)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.parametrize("content", [b"not a model", b""])
def test_what_is_no_model_is_a_sentence_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    """In the real process: its sentence comes back, and nothing of it stays."""
    model = tmp_path / "model.onnx"
    model.write_bytes(content)
    with pytest.raises(AssetError) as caught:
        build.ensure(model, "a" * 64, tmp_path, lambda *_: None)
    assert "\n" not in caught.value.message
    assert [path for path in (tmp_path / "builds").iterdir() if path.is_dir()] == []


def test_another_model_is_refused() -> None:
    with pytest.raises(AssetError, match="not built like Kokoro"):
        build.split(small({"style": TensorProto.FLOAT}))


def test_speed_in_whole_numbers_is_refused(
    real_parts: RealParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = onnx.ModelProto()
    model.CopyFrom(real_parts.published)
    (speed,) = (value for value in model.graph.input if value.name == "speed")
    speed.type.tensor_type.elem_type = TensorProto.INT32
    with pytest.raises(AssetError, match="whole numbers"):
        build.split(model)


def test_the_parts_are_where_they_are_said_to_be(real_parts: RealParts) -> None:
    sizes = {
        name: real_parts.build.part(name).with_suffix(".bin").stat().st_size
        for name in ("acoustic", "stage_one", "stage_two")
    }
    assert sizes["acoustic"] > sizes["stage_one"] > sizes["stage_two"] > 10e6
