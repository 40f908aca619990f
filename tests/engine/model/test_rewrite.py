"""Each rewrite alone on a small graph, and all of them on the real one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from kokoro_onnx.config import DEFAULT_VOCAB
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx import numpy_helper as arrays

from bench.distance import snr_db
from engine.model import build, precision, rewrite
from engine.model.distance import lsd_db
from engine.model.graph import Graph, GraphError, cut, values
from engine.model.runtime import Call
from tests.engine.model.conftest import RealParts
from tests.engine.model.test_vocoder import PHONEMES

Floats = NDArray[np.float32]
node = helper.make_node


def model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    constants: Mapping[str, object],
    outputs: tuple[str, ...] = ("y",),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "small",
        inputs,
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [arrays.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def run(of: onnx.ModelProto, **feeds: object) -> Floats:
    return np.asarray(session(of).run(["y"], feeds)[0])


def copy(of: onnx.ModelProto) -> onnx.ModelProto:
    fresh = onnx.ModelProto()
    fresh.CopyFrom(of)
    return fresh


def kinds(of: onnx.ModelProto) -> set[str]:
    return {item.op_type for item in of.graph.node}


RNG = np.random.default_rng(5)
X = RNG.normal(1.0, 2.0, (1, 4, 40)).astype(np.float32)
SIGNAL = [values("x", 1, 4, "time")]


def test_squares() -> None:
    before = model([node("Pow", ["x", "two"], ["y"])], SIGNAL, {"two": np.float32(2)})
    after = copy(before)
    assert rewrite.square_as_product(after) == 1
    assert kinds(after) == {"Mul"}
    np.testing.assert_array_equal(run(after, x=X), run(before, x=X))
    cube = model([node("Pow", ["x", "three"], ["y"])], SIGNAL, {"three": np.float32(3)})
    assert rewrite.square_as_product(cube) == 0


def test_halves() -> None:
    weights = RNG.normal(size=(4, 4)).astype(np.float16)
    before = model([node("MatMul", ["w", "h"], ["y"])], [], {"w": weights, "h": weights})
    before.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    after = copy(before)
    assert precision.to_float32(after) == 3
    got = run(after)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, weights.astype(np.float32) @ weights.astype(np.float32))


def norm_chain(x: str, y: str, scale: str, shift: str) -> list[onnx.NodeProto]:
    """Kokoro's AdaIN as its exports have it."""
    return [
        node("ReduceMean", [x, "time"], [y + "m"]),
        node("Sub", [x, y + "m"], [y + "c"]),
        node("Mul", [y + "c", y + "c"], [y + "q"]),
        node("ReduceMean", [y + "q", "time"], [y + "v"]),
        node("Add", [y + "v", "epsilon"], [y + "e"]),
        node("Sqrt", [y + "e"], [y + "r"]),
        node("Div", [y + "c", y + "r"], [y + "n"]),
        node("Mul", [scale, y + "n"], [y + "s"]),
        node("Add", [y + "s", shift], [y]),
    ]


NORM: dict[str, np.generic | NDArray[np.generic]] = {
    "time": np.array([2]),
    "epsilon": np.float32(1e-5),
    "gain_": RNG.normal(1, 0.3, (1, 4, 1)).astype(np.float32),
    "bias_": RNG.normal(0, 0.3, (1, 4, 1)).astype(np.float32),
}


def test_instance_norm() -> None:
    before = model(norm_chain("x", "y", "gain_", "bias_"), SIGNAL, NORM)
    after = copy(before)
    assert rewrite.instance_norm(after) == 1
    assert "ReduceMean" not in kinds(after)
    np.testing.assert_allclose(run(after, x=X), run(before, x=X), atol=1e-5)


def test_a_norm_over_channels_is_another_thing() -> None:
    other = model(norm_chain("x", "y", "gain_", "bias_"), SIGNAL, NORM | {"time": np.array([1])})
    assert rewrite.instance_norm(other) == 0


def vocoder_like() -> onnx.ModelProto:
    """One AdaIN site, Snake, a dilated convolution; input and output are activations."""
    nodes = [
        *norm_chain("x", "n", "gain_", "bias_"),
        node("Mul", ["alpha", "n"], ["a"]),
        node("Sin", ["a"], ["s"]),
        node("Mul", ["s", "s"], ["q"]),
        node("Mul", ["inverse", "q"], ["i"]),
        node("Add", ["n", "i"], ["snake"]),
        node(
            "Conv",
            ["snake", "w", "b"],
            ["y"],
            kernel_shape=[3],
            dilations=[2],
            pads=[2, 2],
            strides=[1],
        ),
    ]
    alpha = RNG.uniform(0.5, 3, (1, 4, 1)).astype(np.float32)
    constants = NORM | {
        "alpha": alpha,
        "inverse": 1 / alpha,
        "w": RNG.normal(size=(4, 4, 3)).astype(np.float32),
        "b": RNG.normal(size=4).astype(np.float32),
    }
    return model(nodes, SIGNAL, constants)


def stage(of: onnx.ModelProto) -> onnx.ModelProto:
    """With gain and bias as inputs, as `build` makes them."""
    rewrite.instance_norm(of)
    (site,) = Graph(of).all("InstanceNormalization")
    norms = [values(name, "channels") for name in site.input[1:]]
    part = cut(of, [*of.graph.input, *norms], list(of.graph.output), "stage")
    rewrite.two_dimensional(part)
    return part


def norms(**given: object) -> dict[str, object]:
    flat = {"gain": NORM["gain_"], "bias": NORM["bias_"]}
    feeds: dict[str, object] = {name: np.ravel(np.asarray(v)) for name, v in flat.items()}
    feeds |= {"mean": np.zeros(4, np.float32), "deviation": np.ones(4, np.float32)}
    return feeds | {"own": np.array(not given)} | given


def test_two_dimensional_convolutions() -> None:
    before = vocoder_like()
    part = stage(copy(before))
    names = {name for item in part.graph.node for name in item.input}
    flat = {"gain_", "bias_"}
    feeds = {
        n.name: np.ravel(NORM["gain_" if "scale" in n.name else "bias_"])
        for n in part.graph.input
        if n.name != "x"
    }
    assert not flat & names
    np.testing.assert_allclose(run(part, x=X, **feeds), run(before, x=X), atol=1e-4)
    (conv,) = Graph(part).all("Conv")
    assert len(Graph(part).constant(conv.input[1]).shape) == 4


@pytest.mark.parametrize("fold", [False, True])
def test_statistics_as_inputs_and_the_fold_of_snake(fold: bool) -> None:
    before = vocoder_like()
    part = stage(copy(before))
    assert rewrite.statistics_as_inputs(part) == 1
    if fold:
        assert rewrite.fold_snake(part) == 1
    own = run(part, x=X, **norms())
    np.testing.assert_allclose(own, run(before, x=X), atol=1e-4)
    true = {"mean": X[0].mean(1), "deviation": np.sqrt(X[0].var(1) + 1e-5)}
    np.testing.assert_allclose(run(part, x=X, **norms(**true)), own, atol=1e-4)
    other = {"mean": true["mean"] + 1, "deviation": true["deviation"]}
    assert np.abs(run(part, x=X, **norms(**other)) - own).max() > 0.1


def test_snake_elsewhere_is_refused() -> None:
    part = stage(vocoder_like())
    rewrite.statistics_as_inputs(part)
    graph = Graph(part)
    graph.replace(
        lambda item: [node("Relu", item.input, item.output)] if item.op_type == "Conv" else None
    )
    graph.commit()
    with pytest.raises(GraphError, match="Snake"):
        rewrite.fold_snake(part)


def test_cutting_says_what_is_missing() -> None:
    of = model([node("Add", ["x", "z"], ["y"])], [*SIGNAL, values("z", 1, 4, "time")], {})
    with pytest.raises(GraphError, match="reads z"):
        cut(of, SIGNAL, list(of.graph.output), "part")


def test_nodes_are_put_in_order() -> None:
    of = model([node("Relu", ["x"], ["a"]), node("Relu", ["a"], ["y"])], SIGNAL, {})
    graph = Graph(of)
    graph.nodes.reverse()
    graph.refresh()
    assert [item.output[0] for item in graph.commit().graph.node] == ["a", "y"]


# ------------------------------------------------------------------ the real model


def feeds_of(parts: RealParts) -> dict[str, object]:
    return {
        "tokens": np.array([[0, *(DEFAULT_VOCAB[p] for p in PHONEMES), 0]], np.int64),
        "style": parts.voices.style("af_heart", len(PHONEMES)),
        "speed": np.array([1.0], np.float32),
    }


def session(of: onnx.ModelProto) -> ort.InferenceSession:
    return ort.InferenceSession(of.SerializeToString(), providers=["CPUExecutionProvider"])


def test_the_gates_on_the_real_model(
    real_parts: RealParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the published graph, unsplit, in single precision."""
    reference = copy(real_parts.published)
    assert precision.dequantize(reference) == 241
    assert not kinds(reference) & {"ConvInteger", "MatMulInteger", "DynamicQuantizeLSTM"}
    audio = np.ravel(session(reference).run(None, feeds_of(real_parts))[0])
    # Durations are the same, and with the phases pinned it is near.
    sound = real_parts.sound(PHONEMES)
    assert int(sound.durations.sum()) * 600 == len(audio)
    ours = Call(lambda options: real_parts.vocoder.whole(sound, options)[0]).run()
    assert lsd_db(audio, ours) <= 1.3
    # Everything but the convolution in the place of the STFT is exact.
    monkeypatch.setattr(rewrite, "stft_as_convolution", lambda *_: 0)
    parts = build.split(reference)
    names = ["features", "source", "durations", "gain", "bias"]
    features, source, durations, gain, bias = session(parts.acoustic).run(
        names, feeds_of(real_parts)
    )
    np.testing.assert_array_equal(durations.ravel().astype(int), sound.durations)

    def feeds(channels: slice, **more: object) -> dict[str, object]:
        zeros = np.zeros_like(gain[channels])
        given = {"gain": gain[channels], "bias": bias[channels], "mean": zeros}
        return {"source": source, "deviation": zeros + 1, "own": np.array(True), **given, **more}

    (rows,) = session(parts.stage_one).run(["upsampled"], feeds(slice(6144), features=features))
    two = feeds(slice(6144, None), upsampled=rows)
    (exact,) = session(parts.stage_two).run(["audio"], two)
    assert snr_db(audio, exact) >= 60
