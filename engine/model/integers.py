"""Convolutions in integers of 8 bits, inputs and outputs in single precision. Core.

A convolution over time is one product of matrices once its input lies there `kernel` times, each
time a step later. Of such products ONNX Runtime has an operator for integers whose result is in
single precision (`MatMulIntegerToFloat`); its QLinearConv rounds the result to 8 bits as well,
which is most of what is then heard, and its ConvInteger is slower than floats are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto
from onnx.helper import make_node as node

from engine.model.graph import Array, Graph, GraphError, attributes
from engine.model.precision import as_float

Floats = NDArray[np.float32]

_SITE = re.compile(r"(?:noise_res|resblocks)\.\d/convs\d\.\d|conv_post")
#: what stands for zero in unsigned bytes, and the steps to either side
_ZERO, _STEPS = 128, 127
#: a channel that is quieter than the loudest by more than this is taken to be as loud as this
_QUIET = 1e-3


def site(item: NodeProto) -> str | None:
    """What a convolution of the vocoder is called in all exports; None if it stays as it is."""
    found = _SITE.search(item.name)
    return found[0] if found and item.op_type == "Conv" else None


def is_site(name: str) -> bool:
    """Whether a convolution can be called this."""
    return _SITE.fullmatch(name) is not None


def convolutions(
    model: onnx.ModelProto,
    ranges: Mapping[str, Floats],
    means: Mapping[str, Floats] | None = None,
    balance: float = 1.0,
) -> int:
    """The convolutions that are named in integers, the others as they are. Not exact.

    Weights have a step for each channel that goes out, the input one for all. Before that every
    channel that comes in is divided by a factor, and its weights are multiplied by it, so that
    neither loud channels nor large weights use up the range of the others.

    Args:
        model: a stage of `build.split`, changed in place.
        ranges: by `site`, the largest absolute value of each channel that comes in.
        means: by `site`, the mean of each channel that comes in, if what rounding the weights
            adds to the output in the mean is to be taken off its bias.
        balance: 0 makes weights alike, 1 the input.

    Returns:
        How many were changed.

    Raises:
        GraphError: a convolution is not of the form that stages have.
    """
    graph = Graph(model)
    graph.add("integer_zero", np.array(_ZERO, np.uint8))
    graph.add("integer_height", [2])
    graph.add("integer_time", [1])
    graph.add("integer_one", [1])
    replaced = {}
    for item in graph.all("Conv"):
        name = site(item)
        if name is not None and name in ranges:
            mean = (means or {}).get(name)
            replaced[id(item)] = _product(graph, item, name, ranges[name], mean, balance)
    graph.replace(lambda item: replaced.get(id(item)))
    graph.commit()
    return len(replaced)


def four_bits(model: onnx.ModelProto, block: int = 32) -> int:
    """Weights of products of matrices in four bits, with a step for every `block` of them.

    The input stays as it is. Gives the number of products that were changed. (The library's own
    quantizer does the same, but needs another package.)
    """
    graph = Graph(model)

    def change(item: NodeProto) -> list[NodeProto] | None:
        weights = graph.value(item.input[1]) if item.op_type == "MatMul" else None
        if weights is None or weights.ndim != 2 or len(weights) % block:
            return None
        rows, columns = weights.shape
        blocks = as_float(weights).T.reshape(columns, rows // block, block)
        steps = np.abs(blocks).max(axis=2) / 7 + np.float32(1e-12)
        whole = np.clip(np.rint(blocks / steps[:, :, None]) + 8, 0, 15).astype(np.uint8)
        names = [
            graph.add(f"{item.output[0]}/whole", whole[:, :, ::2] | whole[:, :, 1::2] << 4),
            graph.add(f"{item.output[0]}/steps", steps.astype(np.float32).ravel()),
        ]
        told = {"K": rows, "N": columns, "bits": 4, "block_size": block}
        inputs = [item.input[0], *names]
        return [node("MatMulNBits", inputs, item.output, domain="com.microsoft", **told)]

    count = graph.replace(change)
    graph.commit()
    return count


def _product(
    graph: Graph, item: NodeProto, name: str, loudest: Floats, mean: Floats | None, balance: float
) -> list[NodeProto]:
    weights = as_float(graph.constant(item.input[1]))
    kernel, dilation, pads = _geometry(item, weights)
    step, factor = _scales(weights, loudest, balance)
    weights = weights * factor[:, None, None]
    steps = (np.abs(weights).max(axis=(1, 2, 3)) / _STEPS + 1e-12).astype(np.float32)
    whole = np.rint(weights / steps[:, None, None, None]).astype(np.int8)
    bias = as_float(graph.constant(item.input[2]))
    if mean is not None:
        missed = whole * steps[:, None, None, None] - weights
        bias = bias - missed.sum((2, 3)) @ (mean / factor)
    t = f"{name}/integer_"
    # [out, in, 1, kernel] to [kernel · in, out]: time after time, as the input is put together
    rows = whole[:, :, 0].transpose(2, 1, 0).reshape(-1, len(whole))
    graph.add(t + "weights", rows)
    graph.add(t + "steps", steps)
    graph.add(t + "bias", bias.astype(np.float32))
    graph.add(t + "step", np.array(step, np.float32))
    graph.add(t + "factor", (step * factor).astype(np.float32))
    graph.add(t + "zeros", np.full(len(factor), _ZERO, np.uint8))
    graph.add(t + "pads", [0, pads[0], 0, 0, pads[1], 0])
    nodes = [
        node("Squeeze", [item.input[0], "integer_height"], [t + "x"]),
        node("QuantizeLinear", [t + "x", t + "factor", t + "zeros"], [t + "whole"], axis=1),
        node("Transpose", [t + "whole"], [t + "across"], perm=[0, 2, 1]),
        node("Pad", [t + "across", t + "pads", "integer_zero"], [t + "padded"]),
    ]
    for at in range(kernel):
        begin, end = at * dilation, (at + 1 - kernel) * dilation
        graph.add(f"{t}begin_{at}", [begin])
        graph.add(f"{t}end_{at}", [end or 2**62])
        cut = [t + "padded", f"{t}begin_{at}", f"{t}end_{at}", "integer_time"]
        nodes.append(node("Slice", cut, [f"{t}part_{at}"]))
    parts = [f"{t}part_{at}" for at in range(kernel)]
    product = [
        t + "columns",
        t + "weights",
        t + "step",
        t + "steps",
        "integer_zero",
        "",
        t + "bias",
    ]
    return [
        *nodes,
        node("Concat", parts, [t + "columns"], axis=2),
        node("MatMulIntegerToFloat", product, [t + "rows"], domain="com.microsoft"),
        node("Transpose", [t + "rows"], [t + "y"], perm=[0, 2, 1]),
        node("Unsqueeze", [t + "y", "integer_height"], item.output),
    ]


def _geometry(item: NodeProto, weights: Array) -> tuple[int, int, tuple[int, int]]:
    told = attributes(item)
    (strides, dilations, pads) = (
        list(told.get(key, usual))  # type: ignore[call-overload]
        for key, usual in (("strides", [1, 1]), ("dilations", [1, 1]), ("pads", [0] * 4))
    )
    if (
        weights.ndim != 4
        or weights.shape[2] != 1
        or strides != [1, 1]
        or told.get("group", 1) != 1
        or len(item.input) != 3
    ):
        raise GraphError(f"{item.name} is not a plain convolution over time.")
    return weights.shape[3], int(dilations[1]), (int(pads[1]), int(pads[3]))


def _scales(weights: Floats, loudest: Floats, balance: float) -> tuple[np.float32, Floats]:
    """The input's step, and the factor of each channel."""
    if len(loudest) != weights.shape[1]:
        raise GraphError(f"there are {len(loudest)} ranges for {weights.shape[1]} channels.")
    reach = np.maximum(loudest, _QUIET * loudest.max() + 1e-12)
    largest = np.abs(weights).max(axis=(0, 2, 3))
    largest = np.maximum(largest, _QUIET * largest.max() + 1e-12)
    factor = (reach**balance / largest ** (1 - balance)).astype(np.float32)
    return np.float32((reach / factor).max() / _STEPS), factor
