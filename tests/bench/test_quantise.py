"""Convolutions in integers on small graphs, the search for the best of them, and the table."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper
from onnx import numpy_helper as arrays

from bench.distance import snr_db
from bench.quantise import groups, search
from bench.quantise.lab import Result, mel_db
from bench.quantise.report import markdown, row
from engine.model import integers
from engine.model.graph import GraphError, values

Floats = NDArray[np.float32]

CHANNELS, FIRST, SECOND = 12, "resblocks.0/convs1.0", "resblocks.1/convs1.1"


def stage(kernel: int = 5, dilation: int = 2, stride: int = 1) -> onnx.ModelProto:
    """Two convolutions one after the other, named as in a stage; both results go out."""
    rng = np.random.default_rng(kernel)
    pad = (kernel - 1) * dilation // 2
    shape: dict[str, Any] = {
        "kernel_shape": [1, kernel],
        "dilations": [1, dilation],
        "pads": [0, pad, 0, pad],
        "strides": [1, stride],
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], name=f"/g/{FIRST}/Conv_quant", **shape),
        helper.make_node("Conv", ["x", "w2", "b2"], ["b"], name=f"/g/{SECOND}/Conv", **shape),
    ]
    constants: dict[str, Floats] = {}
    for n in "12":
        weights = rng.normal(size=(CHANNELS, CHANNELS, 1, kernel)).astype(np.float32)
        weights[3] = 0  # such channels there are
        constants |= {f"w{n}": weights, f"b{n}": rng.normal(size=CHANNELS).astype(np.float32)}
    graph = helper.make_graph(
        nodes,
        "small",
        [values("x", 1, CHANNELS, 1, "time")],
        [values(name, 1, CHANNELS, 1, "time") for name in "ab"],
        [arrays.from_array(content, name) for name, content in constants.items()],
    )
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=9)


def run(of: onnx.ModelProto, x: Floats) -> tuple[Floats, Floats]:
    session = ort.InferenceSession(of.SerializeToString(), providers=["CPUExecutionProvider"])
    a, b = session.run(["a", "b"], {"x": x})
    return a, b


def signal(seed: int = 0) -> Floats:
    """Channels as loud as 1 and as 30."""
    rng = np.random.default_rng(seed)
    loud = np.geomspace(1, 30, CHANNELS)[:, None, None]
    return (loud * rng.normal(size=(1, CHANNELS, 1, 80))).astype(np.float32)


def ranges(x: Floats) -> Floats:
    """The largest absolute value of each channel."""
    largest: Floats = np.abs(x).max(axis=(0, 2, 3))
    return largest


@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (7, 3), (11, 5)])
def test_a_convolution_in_integers_is_near_and_the_others_stay(kernel: int, dilation: int) -> None:
    x = signal()
    before, after = stage(kernel, dilation), stage(kernel, dilation)
    assert integers.convolutions(after, {FIRST: ranges(x)}) == 1
    (a, b), (near, same) = run(before, x), run(after, x)
    assert near.shape == a.shape
    assert 30 < snr_db(a.ravel(), near.ravel()) < 80
    np.testing.assert_array_equal(same, b)


def test_channels_made_alike_are_nearer_where_they_differ() -> None:
    x = signal()
    a, _ = run(stage(), x)
    found = []
    for balance in (0.0, 0.5):
        after = stage()
        integers.convolutions(after, {FIRST: ranges(x)}, balance=balance)
        found.append(snr_db(a.ravel(), run(after, x)[0].ravel()))
    assert found[1] > found[0] + 1


def test_the_bias_takes_up_what_rounding_weights_adds_in_the_mean() -> None:
    x = signal() + np.float32(20)
    a, _ = run(stage(), x)
    left = []
    for means in (None, {FIRST: x.mean(axis=(0, 2, 3))}):
        after = stage()
        integers.convolutions(after, {FIRST: ranges(x)}, means)
        inside = (run(after, x)[0] - a)[..., 10:-10]
        left.append(float(np.abs(inside.mean(axis=(0, 2, 3))).mean()))
    assert left[1] < left[0] / 2


def test_another_form_is_refused() -> None:
    with pytest.raises(GraphError, match="plain convolution"):
        integers.convolutions(stage(stride=2), {FIRST: np.ones(CHANNELS, np.float32)})
    with pytest.raises(GraphError, match="ranges"):
        integers.convolutions(stage(), {FIRST: np.ones(3, np.float32)})


def test_four_bits_are_near() -> None:
    rng = np.random.default_rng(2)
    weights, x = (rng.normal(size=(8, 64)).astype(np.float32) for _ in range(2))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "small",
        [values("x", 8, 64)],
        [values("y", 8, 8)],
        [arrays.from_array(np.ascontiguousarray(weights.T), "w")],
    )
    sets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=9)
    assert integers.four_bits(model) == 1
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(["y"], {"x": x})
    assert 15 < snr_db((x @ weights.T).ravel(), y.ravel()) < 30


def test_groups_are_blocks() -> None:
    found = groups([FIRST, "resblocks.0/convs2.0", SECOND, "conv_post"])
    assert list(found) == ["resblocks.0", "resblocks.1", "conv_post"]
    assert found["resblocks.0"] == (FIRST, "resblocks.0/convs2.0")


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.tuples(st.floats(-0.1, 0.3), st.floats(0, 3)), min_size=1
    ),
    st.floats(0, 4),
)
def test_the_search_stops_at_its_gate(
    worth: dict[str, tuple[float, float]], gate_db: float
) -> None:
    def together(taken: tuple[str, ...]) -> float:
        return math.hypot(*(worth[name][1] for name in taken))

    taken = search(worth, together, gate_db)
    assert together(taken) <= gate_db
    assert all(worth[name][0] > 0 for name in taken)
    for name in set(worth) - set(taken):  # nothing that fits was left out
        assert worth[name][0] <= 0 or together((*taken, name)) > gate_db


def test_the_mel_distance_of_a_gain_is_the_gain() -> None:
    loud = np.random.default_rng(1).normal(0, 0.1, 24_000).astype(np.float32)
    assert mel_db(loud, loud) == 0
    assert mel_db(loud, loud * np.float32(0.5)) == pytest.approx(6.02, abs=0.05)


def test_a_variant_whose_durations_all_changed_has_no_distance() -> None:
    result = Result("acoustic", [], [], 6, [0.5, 0.7, 0.9], [], 90.0, 1, 10, 0.2)
    shown = row(result)
    assert (shown["LSD dB"], shown["whole"], shown["WER"]) == (None, 0.7, 0.1)
    assert markdown([shown]).splitlines()[2].startswith("| acoustic | 90 | 0.2 | 0.7 | – | – |")
