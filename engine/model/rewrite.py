"""The rewrites of Kokoro's graph, one function each. Core.

Each takes a model, changes it in place, keeps what it computes (its docstring says how exactly),
and gives the number of places it changed. `build` puts them together; `docs/tuning.md` has what
each one is worth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, helper

from engine.model.graph import Array, Graph, GraphError, attributes, values
from engine.model.precision import as_float

#: names of a vocoder stage's inputs and outputs beside its tensors; lengths are channels of all
#: its AdaIN sites, in the order of `sites`
GAIN, BIAS, MEAN, DEVIATION, OWN = "gain", "bias", "mean", "deviation", "own"
MEASURED_MEAN, MEASURED_DEVIATION = "measured_mean", "measured_deviation"

node = helper.make_node


# ------------------------------------------------------------------ whole model


def square_as_product(model: onnx.ModelProto) -> int:
    """Pow(x, 2) to Mul(x, x), which is the same and an order of magnitude quicker."""
    graph = Graph(model)

    def change(item: NodeProto) -> list[NodeProto] | None:
        if item.op_type != "Pow" or not _is(graph, item.input[1], 2.0):
            return None
        return [node("Mul", [item.input[0], item.input[0]], item.output, name=item.name)]

    count = graph.replace(change)
    graph.commit()
    return count


def instance_norm(model: onnx.ModelProto, spared: str = "") -> int:
    """Mean, centre, variance, root, quotient, scale, shift over time to InstanceNormalization.

    Exact but for the order of additions.

    Args:
        model: to be changed.
        spared: a tensor; what it depends on stays as it is. The harmonic source adds the pitch up
            over time, so that another order of additions is heard as another phase (40 dB).
    """
    graph = Graph(model)
    kept = {id(item) for item in graph.needed([spared])}
    axis = graph.add("norm_axes", [0, 2])

    def change(item: NodeProto) -> list[NodeProto] | None:
        found = None if id(item) in kept else _norm_chain(graph, item)
        if found is None:
            return None
        x, scale, shift, epsilon = found
        names = [f"{item.output[0]}_{what}" for what in ("scale", "shift")]
        return [
            node("Squeeze", [scale, axis], [names[0]]),
            node("Squeeze", [shift, axis], [names[1]]),
            node(
                "InstanceNormalization", [x, *names], item.output, name=item.name, epsilon=epsilon
            ),
        ]

    count = graph.replace(change)
    graph.commit()
    return count


def _norm_chain(graph: Graph, last: NodeProto) -> tuple[str, str, str, float] | None:
    """Tensors x, scale, shift and the epsilon, if `last` ends (x - m) / sqrt(v + e) * s + b."""
    if last.op_type != "Add":
        return None
    for scaled, shift in (tuple(last.input), tuple(reversed(last.input))):
        product = graph.maker(scaled, "Mul")
        if product is None:
            continue
        for quotient, scale in (tuple(product.input), tuple(reversed(product.input))):
            divided = graph.maker(quotient, "Div")
            centred = divided and graph.maker(divided.input[0], "Sub")
            root = divided and graph.maker(divided.input[1], "Sqrt")
            variance = root and graph.maker(root.input[0], "Add")
            mean = centred and graph.maker(centred.input[1], "ReduceMean")
            if centred is None or variance is None or mean is None:
                continue
            axes = graph.value(mean.input[1])
            if (
                mean.input[0] != centred.input[0]
                or axes is None
                or axes.tolist() not in ([2], [-1])
            ):
                continue
            epsilon = next((v for v in map(graph.value, variance.input) if v is not None), None)
            if epsilon is not None:
                return centred.input[0], scale, shift, float(epsilon.item())
    return None


def stft_as_convolution(
    model: onnx.ModelProto, phases: Callable[[int, int, Array, float], Array]
) -> int:
    """The spectrum of the harmonic source as a strided convolution, with its phases pinned.

    Where nothing is voiced the source is a constant, so that all bins but the lowest two are
    rounding noise, and the vocoder listens to their phase: with exact zeros the audio is 6 dB
    away (log-spectral distance). A bias far below the signal pins those phases to what the
    operator makes of the constant on this machine; 1.0-1.2 dB remain.

    Args:
        model: with one STFT over [1, samples] or [1, samples, 1].
        phases: of (frame length, hop, window, constant source), the operator's phase of each bin.
    """
    graph = Graph(model)
    found = graph.all("STFT")
    if not found:
        return 0
    (stft,) = found
    hop, window = int(graph.constant(stft.input[1])), graph.constant(stft.input[2])
    size = len(window)
    bins = size // 2 + 1
    level = float(np.tanh(_source_bias(graph, stft.input[0])))
    pinned = phases(size, hop, window, level)
    angle = 2 * np.pi * np.arange(bins)[:, None] * np.arange(size)[None, :] / size
    weights = np.concatenate([np.cos(angle), -np.sin(angle)]) * window
    # The lowest two bins have a real part of their own; only the sign of the rest is open.
    bias = np.concatenate([np.cos(pinned), np.sin(pinned)]) * _PHASE_BIAS
    bias[:2] = 0
    (transposed,) = graph.readers(stft.output[0], "Transpose")
    graph.add("stft_kernel", weights.astype(np.float32)[:, None, :])
    graph.add("stft_bias", bias.astype(np.float32))
    graph.add("stft_one", [1, 1, -1])
    graph.add("stft_sizes", [bins, bins])
    parts: dict[int, list[NodeProto]] = {
        id(transposed): [
            node("Reshape", [stft.input[0], "stft_one"], ["stft_signal"]),
            node(
                "Conv",
                ["stft_signal", "stft_kernel", "stft_bias"],
                ["stft_spectrum"],
                strides=[hop],
                kernel_shape=[size],
            ),
            node("Split", ["stft_spectrum", "stft_sizes"], ["stft_re", "stft_im"], axis=1),
        ]
    }
    for part in graph.readers(transposed.output[0], "Gather"):
        which = int(graph.constant(part.input[1]))
        parts[id(part)] = [node("Identity", [("stft_re", "stft_im")[which]], part.output)]
    graph.replace(lambda item: parts.get(id(item)))
    graph.commit()
    return 1


#: far below the quietest voiced bin (about 1e-3), far above float rounding (about 1e-9)
_PHASE_BIAS = 1e-6


def _source_bias(graph: Graph, tensor: str) -> float:
    """What is added before the source's tanh: the constant that remains where nothing is voiced."""
    maker = graph.maker(tensor)
    while maker is not None and maker.op_type != "Tanh":
        maker = graph.maker(maker.input[0])
    added = maker and graph.maker(maker.input[0], "Add")
    if added is None:
        raise GraphError("The harmonic source has another form than Kokoro's.")
    bias = next(v for v in map(graph.value, added.input) if v is not None and v.size == 1)
    return float(bias.item())


# ------------------------------------------------------------------ stages of the vocoder


def two_dimensional(model: onnx.ModelProto) -> int:
    """Every activation [1, C, L] to [1, C, 1, L], up to the last convolution. Exact.

    Two-dimensional convolutions have blocked kernels in ONNX Runtime, one-dimensional ones have
    not.
    """
    graph = Graph(model)
    graph.add("height", [2])
    tail = graph.all("Conv")[-1] if graph.all("Exp") else None
    after = _behind(graph, tail)
    names: dict[str, str] = {}
    head: list[NodeProto] = []
    for value in model.graph.input:
        if len(value.type.tensor_type.shape.dim) == 3:
            names[value.name] = f"{value.name}_2d"
            head.append(node("Unsqueeze", [value.name, "height"], [names[value.name]]))
    count = 0

    def change(item: NodeProto) -> list[NodeProto] | None:
        nonlocal count
        if id(item) in after:
            return None
        new = NodeProto()
        new.CopyFrom(item)
        for at, name in enumerate(item.input):
            if name in names:
                new.input[at] = names[name]
            elif (content := graph.value(name)) is not None and content.ndim == 3:
                wide = graph.add(f"{name}_2d", content[:, :, None, :])
                new.input[at] = wide
            elif item.op_type == "Pad" and at == 1 and content is not None:
                (b0, c0, l0), (b1, c1, l1) = content.reshape(2, 3).tolist()
                new.input[at] = graph.add(f"{name}_2d", [b0, c0, 0, l0, b1, c1, 0, l1])
        if item.op_type in ("Conv", "ConvTranspose"):
            count += 1
            for attribute in new.attribute:
                if attribute.name in ("kernel_shape", "dilations", "strides", "output_padding"):
                    fill = 0 if attribute.name == "output_padding" else 1
                    attribute.ints.insert(0, fill)
                elif attribute.name == "pads":
                    left, right = attribute.ints
                    attribute.ints[:] = [0, left, 0, right]
        if tail is not None and item.output[0] == tail.output[0]:
            new.output[0] = f"{item.output[0]}_2d"
            return [new, node("Squeeze", [new.output[0], "height"], [item.output[0]])]
        return [new]

    outputs = [o.name for o in model.graph.output]
    graph.replace(change)
    if tail is None:  # the stage's output is an activation, too
        for at, item in enumerate(graph.nodes):
            if item.output[0] in outputs:
                name = item.output[0]
                item.output[0] = f"{name}_2d"
                graph.nodes.insert(at + 1, node("Squeeze", [item.output[0], "height"], [name]))
                break
    graph.nodes[:0] = head
    graph.refresh()
    graph.commit()
    return count


def _behind(graph: Graph, tail: NodeProto | None) -> set[int]:
    """The nodes that read, at whatever distance, what `tail` makes; and those without a signal."""
    found: set[int] = set()
    todo = [] if tail is None else list(tail.output)
    while todo:
        for reader in graph.readers(todo.pop()):
            if id(reader) not in found:
                found.add(id(reader))
                todo.extend(reader.output)
    return found


def statistics_as_inputs(model: onnx.ModelProto) -> int:
    """InstanceNormalization to an affine whose statistics are given, or measured if `own` is set.

    New inputs, of all sites one after another: `gain`, `bias` (the style's), `mean` and
    `deviation` [channels], and `own` (bool): true normalises over the tensor itself, as the
    original does. New outputs `measured_mean` and `measured_deviation` [channels]: what was used.
    With the tensor's own statistics exact to 90 dB; the variance is that of the whole tensor.
    """
    graph = Graph(model)
    sites = graph.all("InstanceNormalization")
    sizes: list[int] = []
    for site in sites:
        reader = graph.readers(site.output[0], "Mul")[0]
        sizes.append(max(v.size for v in map(graph.value, reader.input) if v is not None))
    graph.add("site_sizes", sizes)
    graph.add("spatial", [2, 3])
    graph.add("site_flat", [0, 2, 3])
    graph.add("site_epsilon", np.array([attributes(sites[0])["epsilon"]], np.float32))
    for size in set(sizes):
        graph.add(f"zeros_{size}", np.zeros(size, np.float32))
        graph.add(f"ones_{size}", np.ones(size, np.float32))
    head = [
        node("Div", [GAIN, DEVIATION], ["all_scale"]),
        node("Mul", [MEAN, "all_scale"], ["all_offset"]),
        node("Sub", [BIAS, "all_offset"], ["all_shift"]),
    ]
    given = {
        "scale": "all_scale",
        "shift": "all_shift",
        "gain": GAIN,
        "bias": BIAS,
        "mean": MEAN,
        "deviation": DEVIATION,
    }
    for what, source in given.items():
        outputs = [f"{what}_{k}" for k in range(len(sites))]
        head.append(node("Split", [source, "site_sizes"], outputs, axis=0))
    numbers = {id(site): k for k, site in enumerate(sites)}

    def change(item: NodeProto) -> list[NodeProto] | None:
        k = numbers.get(id(item))
        if k is None:
            return None
        results = [f"used_{what}_{k}" for what in ("scale", "shift", "mean", "deviation")]
        used = node(
            "If",
            [OWN],
            results,
            then_branch=_measured(item.input[0], k),
            else_branch=_given(k),
        )
        affine = node(
            "BatchNormalization",
            [item.input[0], results[0], results[1], f"zeros_{sizes[k]}", f"ones_{sizes[k]}"],
            item.output,
            name=item.name,
            epsilon=0.0,
        )
        return [used, affine]

    graph.replace(change)
    graph.nodes[:0] = head
    for what, name in (("mean", MEASURED_MEAN), ("deviation", MEASURED_DEVIATION)):
        used = [f"used_{what}_{k}" for k in range(len(sites))]
        graph.nodes.append(node("Concat", used, [name], axis=0))
        model.graph.output.append(values(name, sum(sizes)))
    graph.refresh()
    new = [values(name, sum(sizes)) for name in (GAIN, BIAS, MEAN, DEVIATION)]
    new.append(values(OWN, kind=TensorProto.BOOL))
    graph.commit([*model.graph.input, *new])
    return len(sites)


def _measured(x: str, k: int) -> onnx.GraphProto:
    names = [f"own_{what}_{k}" for what in ("scale", "shift", "mean", "deviation")]
    scale, shift, mean, deviation = names
    t = f"own_{k}_"
    nodes = [
        node("ReduceMean", [x, "spatial"], [t + "mean"], keepdims=1),
        node("Squeeze", [t + "mean", "site_flat"], [mean]),
        # Centred first: the difference of two large numbers would cost 10 dB.
        node("Sub", [x, t + "mean"], [t + "centred"]),
        node("ReduceSumSquare", [t + "centred", "spatial"], [t + "squares"], keepdims=1),
        node("Squeeze", [t + "squares", "site_flat"], [t + "sum"]),
        node("Size", [x], [t + "size"]),
        node("Size", [mean], [t + "channels"]),
        node("Div", [t + "size", t + "channels"], [t + "length"]),
        node("Cast", [t + "length"], [t + "count"], to=TensorProto.FLOAT),
        node("Div", [t + "sum", t + "count"], [t + "variance"]),
        node("Add", [t + "variance", "site_epsilon"], [t + "sure"]),
        node("Sqrt", [t + "sure"], [deviation]),
        node("Div", [f"gain_{k}", deviation], [scale]),
        node("Mul", [mean, scale], [t + "offset"]),
        node("Sub", [f"bias_{k}", t + "offset"], [shift]),
    ]
    return helper.make_graph(nodes, f"own_{k}", [], [values(n, "channels") for n in names])


def _given(k: int) -> onnx.GraphProto:
    names = [f"given_{what}_{k}" for what in ("scale", "shift", "mean", "deviation")]
    sources = [f"scale_{k}", f"shift_{k}", f"mean_{k}", f"deviation_{k}"]
    nodes = [node("Identity", [s], [n]) for s, n in zip(sources, names, strict=True)]
    return helper.make_graph(nodes, f"given_{k}", [], [values(n, "channels") for n in names])


def fold_snake(model: onnx.ModelProto) -> int:
    """Snake's two factors into the affine before it and the convolution behind it. Exact.

    snake(y) = y + sin(a y)^2 / a = (w + sin(w)^2) / a with w = a y: the affine is to give w, so
    `gain` and `bias` are multiplied by a, and the weights behind are divided by it. Seven passes
    over the tensor become four.
    """
    graph = Graph(model)
    factors: list[Array] = []
    replaced: dict[int, list[NodeProto]] = {}
    for site in graph.all("BatchNormalization"):
        y = site.output[0]
        scaled = next(m for m in graph.readers(y, "Mul") if graph.readers(m.output[0], "Sin"))
        found = next(v for v in map(graph.value, scaled.input) if v is not None)
        alpha = as_float(found).ravel()
        (sine,) = graph.readers(scaled.output[0], "Sin")
        (square,) = graph.readers(sine.output[0])
        inverse = graph.only_reader(square.output[0], "Mul")
        total = inverse and graph.only_reader(inverse.output[0], "Add")
        behind = total and graph.only_reader(total.output[0], "Conv")
        if inverse is None or total is None or behind is None:
            raise GraphError(f"{site.name} is not followed by Snake and a convolution.")
        weights = graph.constant(behind.input[1])
        shape = (1, -1) + (1,) * (weights.ndim - 2)
        name = graph.add(f"{behind.input[1]}_snake", as_float(weights) / alpha.reshape(shape))
        new = NodeProto()
        new.CopyFrom(behind)
        new.input[1] = name
        replaced[id(behind)] = [new]
        replaced[id(sine)] = [node("Sin", [y], sine.output)]
        replaced[id(total)] = [node("Add", [y, square.output[0]], total.output)]
        factors.append(alpha)
    graph.replace(lambda item: replaced.get(id(item)))
    graph.add("snake_alpha", np.concatenate(factors).astype(np.float32))
    # Only where they enter: all that follows is linear in them.
    renamed = {GAIN: "gain_alpha", BIAS: "bias_alpha"}
    for item in graph.nodes:
        for at, name in enumerate(item.input):
            if name in renamed:
                item.input[at] = renamed[name]
    graph.nodes[:0] = [
        node("Mul", [GAIN, "snake_alpha"], ["gain_alpha"]),
        node("Mul", [BIAS, "snake_alpha"], ["bias_alpha"]),
    ]
    graph.refresh()
    graph.commit()
    return len(factors)


def _is(graph: Graph, tensor: str, number: float) -> bool:
    content = graph.value(tensor)
    return content is not None and content.size == 1 and float(content.ravel()[0]) == number
