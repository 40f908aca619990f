"""Whether wide layers may be two thinner ones after another. Files, ONNX Runtime."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import onnx
import onnxruntime as ort
import typer
from numpy.typing import NDArray
from onnx import NodeProto, helper

from bench.interleave import interleaved
from bench.ratios import median_by_round
from bench.report import Row
from bench.roads.shared import Feeds, Floats, console, loaded, run, tell
from bench.train_statistics import Maker, held_out
from engine.model import build, rewrite
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.distance import lsd_db
from engine.model.graph import Graph, attributes
from engine.model.precision import as_float
from engine.model.providers import Candidate
from engine.model.runtime import Call, Runs, session
from engine.model.vocoder import Vocoder

#: convolutions and products with fewer channels on either side stay as they are
WIDE = 128
#: parts of the full rank
SHARES = (0.5, 0.25)
#: utterances whose inputs say which directions matter, and those that are compared; none is in both
_CALIBRATED, _COMPARED = 3, 8
#: longer ones are left out, columns: every tensor of a stage is kept for a moment
_LONGEST = 240
#: positions of an utterance that are looked at for a layer
_POSITIONS = 4000

#: by the name of a layer's weights, the sum over positions of its input's outer products
Moments = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Layer:
    """A convolution or a product whose weights may be split in two.

    Attributes:
        node: of the graph.
        weights: [outputs, inputs], an input being a channel at a tap of the kernel.
        full: the largest rank that is of use.
    """

    node: NodeProto
    weights: NDArray[np.float64]
    full: int


def layers(graph: Graph) -> Iterator[Layer]:
    """Wide convolutions with a kernel of more than one tap, and wide products with constants."""
    for node in graph.all("Conv", "MatMul"):
        content = graph.value(node.input[1])
        if content is None or min(content.shape[:2]) < WIDE:
            continue
        weights = as_float(content).astype(np.float64)
        if node.op_type == "MatMul" and weights.ndim == 2:
            yield Layer(node, weights.T, min(weights.shape))
        elif weights.ndim == 4 and weights.shape[3] > 1:
            yield Layer(node, weights.reshape(len(weights), -1), len(weights))


def low_rank(model: onnx.ModelProto, share: float, moments: Moments | None = None) -> int:
    """Wide layers as two, of `share` of the full rank between; gives how many were split.

    Args:
        model: to be changed; layers that would not become smaller stay.
        share: of the rank.
        moments: of the inputs; then the rank is used for what the layer's inputs really are, and
            not for all inputs alike.
    """
    graph = Graph(model)
    made: dict[str, tuple[str, str]] = {}
    replaced: dict[int, list[NodeProto]] = {}
    for layer in layers(graph):
        node, name = layer.node, layer.node.input[1]
        rank = max(1, round(share * layer.full))
        outputs, inputs = layer.weights.shape
        if rank * (outputs + inputs) >= outputs * inputs:
            continue
        if name not in made:  # products of twelve layers share theirs
            second, first = factors(layer.weights, rank, None if moments is None else moments[name])
            if node.op_type == "MatMul":
                shaped = first.T, second.T
            else:
                shape = graph.constant(name).shape
                shaped = first.reshape(rank, *shape[1:]), second[:, :, None, None]
            thin, wide = (part.astype(np.float32) for part in shaped)
            made[name] = graph.add(f"{name}_thin", thin), graph.add(f"{name}_wide", wide)
        replaced[id(node)] = _in_two(node, *made[name])
    graph.replace(lambda item: replaced.get(id(item)))
    graph.commit()
    return len(replaced)


def factors(
    weights: NDArray[np.float64], rank: int, moments: NDArray[np.float64] | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two matrices, [outputs, rank] and [rank, inputs], whose product is nearest to the weights.

    Nearest by what comes out for inputs with these moments; without them, by the weights' own
    squares.
    """
    if moments is None:
        u, s, vt = np.linalg.svd(weights, full_matrices=False)
        return u[:, :rank] * s[:rank], vt[:rank]
    ridge = 1e-6 * np.trace(moments) / len(moments)
    root = np.linalg.cholesky(moments + ridge * np.eye(len(moments)))
    u, _, _ = np.linalg.svd(weights @ root, full_matrices=False)
    # Of the outputs only what lies in their strongest directions.
    return u[:, :rank], u[:, :rank].T @ weights


def _in_two(node: NodeProto, thin: str, wide: str) -> list[NodeProto]:
    between = f"{node.output[0]}_thin"
    if node.op_type == "MatMul":
        return [
            helper.make_node("MatMul", [node.input[0], thin], [between]),
            helper.make_node("MatMul", [between, wide], node.output),
        ]
    first = NodeProto()
    first.CopyFrom(node)
    del first.input[1:]
    first.input.append(thin)
    first.output[0] = between
    return [
        first,
        helper.make_node(
            "Conv", [between, wide, *node.input[2:]], node.output, kernel_shape=[1, 1]
        ),
    ]


def watched(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Layer]]:
    """A copy that also gives the inputs of its wide layers, and these."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    found = list(layers(Graph(copy)))
    for name in dict.fromkeys(layer.node.input[0] for layer in found):
        copy.graph.output.append(helper.make_empty_tensor_value_info(name))
    return copy, found


def moments_of(
    layer: Layer, x: Floats, kernel: tuple[int, ...], chance: np.random.Generator
) -> NDArray[np.float64]:
    """The sum of outer products of a layer's inputs, over some of the positions of `x`.

    Args:
        layer: of `watched`.
        x: what it was given, [1, channels, 1, length] or [1, length, channels].
        kernel: shape of a convolution's weights.
        chance: chooses positions.
    """
    if layer.node.op_type == "MatMul":
        rows = x.reshape(-1, x.shape[-1])
    else:
        told: dict[str, Any] = attributes(layer.node)
        pads, taps, step = told.get("pads", [0] * 4), kernel[3], told.get("dilations", [1, 1])[1]
        padded = np.pad(x[0, :, 0], ((0, 0), (pads[1], pads[3])))
        length = padded.shape[1] - (taps - 1) * step
        at = np.arange(0, length, told.get("strides", [1, 1])[1])
        at = np.sort(chance.permutation(at)[:_POSITIONS])
        parts = [padded[:, at + tap * step] for tap in range(taps)]
        rows = np.stack(parts, axis=1).reshape(-1, len(at)).T
    wide = rows.astype(np.float64)
    product: NDArray[np.float64] = wide.T @ wide
    return product


def main(
    rounds: Annotated[int, typer.Option(min=3, help="turns of each way")] = 15,
    seed: Annotated[int, typer.Option(help="of the order of turns, and of positions")] = 1,
) -> None:
    """Time and distance of the parts with half and a quarter of the rank; on one thread."""
    maker = Maker(0)
    console.print("taking the model apart")
    parts = build.split(onnx.load(maker.assets.model))
    graphs = {name: getattr(parts, name) for name in ("acoustic", "stage_one", "stage_two")}
    spoken = _spoken(maker)
    rows: list[Row] = []
    for part, graph in graphs.items():
        console.print(f"{part}: inputs of its layers")
        moments, feeds = _moments(maker, part, graph, spoken[:_CALIBRATED], seed)
        variants: dict[str, bytes] = {}
        split: dict[str, int] = {}
        for share in SHARES:
            for how, known in (("by weights", None), ("by inputs", moments)):
                changed = onnx.ModelProto()
                changed.CopyFrom(graph)
                name = f"rank {share:g}, {how}"
                split[name] = low_rank(changed, share, known)
                variants[name] = changed.SerializeToString()
        console.print(f"{part}: times")
        ways = {
            name: partial(run, loaded(made, 1), feeds)
            for name, made in {"full": graph.SerializeToString(), **variants}.items()
        }
        took = interleaved(ways, rounds, seed=seed, clock=time.process_time)
        for name, changed_graph in variants.items():
            console.print(f"{part}: {name}")
            distances, same = _distances(maker, part, changed_graph, spoken[_CALIBRATED:])
            rows.append(
                {
                    "part": part,
                    "variant": name,
                    "layers": split[name],
                    "time by full": median_by_round(took[name], took["full"]),
                    "LSD dB, median": round(statistics.median(distances), 2) if distances else None,
                    "LSD dB, most": round(max(distances), 2) if distances else None,
                    "as long as before": f"{same} of {len(spoken) - _CALIBRATED}",
                }
            )
    tell("roads_lowrank", rows)


@dataclass(frozen=True, slots=True)
class Spoken:
    """An utterance as it is with the whole model: what was asked, and all that came."""

    phonemes: str
    style: Floats
    speed: float
    sound: Acoustics
    audio: Floats


def _spoken(maker: Maker) -> list[Spoken]:
    found: list[Spoken] = []
    for job in held_out(maker, 200):
        if len(found) == _CALIBRATED + _COMPARED:
            break
        style = maker.voices.style(job.voice, len(job.phonemes))
        sound = maker.acoustic.call(job.phonemes, style, job.speed).run()
        if _LONGEST / 3 < sound.columns <= _LONGEST:
            audio = _decoded(maker.vocoder, sound)
            found.append(Spoken(job.phonemes, style, job.speed, sound, audio))
    return found


def _decoded(vocoder: Vocoder, sound: Acoustics) -> Floats:
    return Call(lambda told: vocoder.whole(sound, told)[0]).run()


def _with(maker: Maker, part: str, changed: Runs) -> tuple[Acoustic, Vocoder]:
    """The model with another session for one of its parts."""

    def opens(graph: Path, threads: int, place: Candidate) -> Runs:
        return changed if graph.stem == part else session(graph, threads, place)

    if part == "acoustic":
        return Acoustic(maker.built.part(part), 0, opens=opens), maker.vocoder
    one, two = (maker.built.part(name) for name in ("stage_one", "stage_two"))
    return maker.acoustic, Vocoder(one, two, 0, opens=opens)


def _distances(
    maker: Maker, part: str, changed: bytes, spoken: Sequence[Spoken]
) -> tuple[list[float], int]:
    """Of each utterance that is as long as it was, dB; and how many are."""
    acoustic, vocoder = _with(maker, part, loaded(changed, os.cpu_count() or 1))
    found = []
    for one in spoken:
        sound = one.sound
        if part == "acoustic":
            sound = acoustic.call(one.phonemes, one.style, one.speed).run()
        if sound.columns == one.sound.columns:
            found.append(lsd_db(one.audio, _decoded(vocoder, sound)))
    return found, len(found)


def _moments(
    maker: Maker, part: str, graph: onnx.ModelProto, spoken: Sequence[Spoken], seed: int
) -> tuple[dict[str, NDArray[np.float64]], Feeds]:
    """Of the inputs of all wide layers, by the names of their weights; and what the part was given.

    That is the last utterance's, as if its statistics were known.
    """
    changed, found = watched(graph)
    inner = Inner(loaded(changed.SerializeToString(), os.cpu_count() or 1))
    acoustic, vocoder = _with(maker, part, inner)
    shapes = {t.name: tuple(t.dims) for t in graph.graph.initializer}
    chance = np.random.default_rng(seed)
    moments: dict[str, NDArray[np.float64]] = {}
    for one in spoken:
        inner.wanted = list(dict.fromkeys(layer.node.input[0] for layer in found))
        if part == "acoustic":
            acoustic.call(one.phonemes, one.style, one.speed).run()
        else:
            _decoded(vocoder, one.sound)
        for layer in found:
            name = layer.node.input[1]
            new = moments_of(layer, inner.seen[layer.node.input[0]], shapes[name], chance)
            moments[name] = moments[name] + new if name in moments else new
        inner.seen = {}
    if rewrite.OWN in inner.fed:
        inner.fed[rewrite.OWN] = np.array(False)
    return moments, inner.fed


class Inner:
    """A session that keeps what passes inside of it.

    Attributes:
        wanted: names of tensors.
        seen: what they were in the last run.
        fed: what that was given.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self.wanted: list[str] = []
        self.seen: dict[str, Floats] = {}
        self.fed: dict[str, NDArray[np.generic]] = {}

    def get_inputs(self) -> Sequence[Any]:
        """See `Runs`."""
        return self._runs.get_inputs()

    def run(self, output_names: Sequence[str], input_feed: Feeds, run: ort.RunOptions) -> list[Any]:
        """See `Runs`."""
        self.fed = dict(input_feed)
        made = self._runs.run([*output_names, *self.wanted], input_feed, run)
        asked = len(output_names)
        self.seen = dict(zip(self.wanted, made[asked:], strict=True))
        return made[:asked]
