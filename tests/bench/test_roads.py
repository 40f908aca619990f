"""The cheap experiments: what they do to a graph, on graphs of a few layers."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from typer.testing import CliRunner

from bench.roads import app
from bench.roads.batching import batchable
from bench.roads.lowrank import WIDE, factors, low_rank, moments_of, watched
from engine.model import build
from engine.model.graph import Graph, values


def run(model: onnx.ModelProto, **feeds: np.ndarray) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)  # type: ignore[no-any-return]


def model(nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], *io: str) -> onnx.ModelProto:
    shapes = {"x": (1, WIDE, 1, "steps"), "rows": (1, "rows", WIDE), "y": (), build.AUDIO: ()}
    given, made = io
    output = helper.make_tensor_value_info(made, onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(
        nodes,
        "small",
        [values(given, *shapes[given])],
        [output],
        [numpy_helper.from_array(content, name) for name, content in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def convolution(chance: np.random.Generator, rank: int) -> onnx.ModelProto:
    """One whose weights have this rank."""
    parts = chance.standard_normal((WIDE, rank)), chance.standard_normal((rank, WIDE * 3))
    weights = (parts[0] @ parts[1]).reshape(WIDE, WIDE, 1, 3).astype(np.float32)
    bias = chance.standard_normal(WIDE).astype(np.float32)
    conv = helper.make_node(
        "Conv", ["x", "w", "b"], ["y"], kernel_shape=[1, 3], dilations=[1, 2], pads=[0, 2, 0, 2]
    )
    return model([conv], {"w": weights, "b": bias}, "x", "y")


def test_what_has_the_rank_is_split_exactly_and_becomes_smaller() -> None:
    chance = np.random.default_rng(1)
    whole = convolution(chance, WIDE // 4)
    x = chance.standard_normal((1, WIDE, 1, 50), np.float32)
    (expected,) = run(whole, x=x)
    before = whole.ByteSize()
    assert low_rank(whole, 0.25) == 1
    assert whole.ByteSize() < 0.5 * before
    assert np.abs(run(whole, x=x)[0] - expected).max() < 1e-3 * np.abs(expected).max()


def test_products_share_their_factors() -> None:
    chance = np.random.default_rng(1)
    weights = chance.standard_normal((WIDE, WIDE)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["rows", "w"], ["between"]),
        helper.make_node("MatMul", ["between", "w"], ["y"]),
    ]
    twice = model(nodes, {"w": weights}, "rows", "y")
    assert low_rank(twice, 0.5) == 0  # two factors of half the rank are as large
    assert low_rank(twice, 0.25) == 2
    assert len(twice.graph.initializer) == 2


def test_rank_goes_where_the_inputs_are() -> None:
    chance = np.random.default_rng(1)
    weights = chance.standard_normal((40, 60))
    inputs = chance.standard_normal((60, 5)) @ chance.standard_normal((5, 300))
    moments = inputs @ inputs.T
    wide, thin = factors(weights, 5, moments)
    blind = factors(weights, 5, None)
    exact = weights @ inputs
    assert np.allclose(wide @ thin @ inputs, exact, atol=1e-3 * np.abs(exact).max())
    assert not np.allclose(blind[0] @ blind[1] @ inputs, exact, atol=0.1 * np.abs(exact).max())


@pytest.mark.parametrize("kind", ["Conv", "MatMul"])
def test_inputs_are_seen_as_the_layer_sees_them(kind: str) -> None:
    """Weights times moments times weights is the power of what comes out."""
    chance = np.random.default_rng(1)
    if kind == "Conv":
        whole, name = convolution(chance, WIDE), "x"
        x = chance.standard_normal((1, WIDE, 1, 50), np.float32)
        bias = numpy_helper.to_array(whole.graph.initializer[1])[:, None]
    else:
        weights = chance.standard_normal((WIDE, 2 * WIDE)).astype(np.float32)
        product = helper.make_node("MatMul", ["rows", "w"], ["y"])
        whole, name = model([product], {"w": weights}, "rows", "y"), "rows"
        x, bias = chance.standard_normal((1, 50, WIDE), np.float32), np.zeros(1)
    copy, (layer,) = watched(whole)
    made, seen = run(copy, **{name: x})
    kernel = Graph(whole).constant("w").shape
    moments = moments_of(layer, seen, kernel, chance)
    out = made[0, :, 0] - bias if kind == "Conv" else made[0].T
    power = float((out.astype(np.float64) ** 2).sum())
    assert np.trace(layer.weights @ moments @ layer.weights.T) == pytest.approx(power, rel=1e-4)


def test_a_stage_takes_a_batch_when_its_end_is_off() -> None:
    chance = np.random.default_rng(1)
    kernel = chance.standard_normal((WIDE, 1, 6)).astype(np.float32)
    nodes = [
        helper.make_node("ConvTranspose", ["x", "k"], ["added"], strides=[3]),
        helper.make_node("Gather", ["added", "zero"], [build.AUDIO]),
    ]
    small = model(nodes, {"k": kernel, "zero": np.array(0)}, "x", build.AUDIO)
    del small.graph.input[0].type.tensor_type.shape.dim[2]  # [1, channels, steps]
    assert batchable(small) == 1
    x = chance.standard_normal((2, WIDE, 9), np.float32)
    (both,) = run(small, x=x)
    apart = [run(small, x=x[at : at + 1])[0] for at in range(2)]
    assert np.allclose(both, np.concatenate(apart), atol=1e-5)


@pytest.mark.parametrize("name", ["batching", "lowrank"])
def test_both_can_be_called_by_name(name: str) -> None:
    told = CliRunner().invoke(app, [name, "--help"])
    assert told.exit_code == 0
    assert name in told.output
    assert "turns of each way" in told.output
