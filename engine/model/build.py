"""Published model file to the parts that stream. Files, ONNX Runtime; no network.

`acoustic` turns phonemes into features (one cheap pass over a segment), `stage_one` and
`stage_two` turn features into audio, whole or window by window. They are built once, saved as
ONNX Runtime optimised them, and found again under a key of everything they depend on. The weights
lie beside the graphs, where ONNX Runtime maps them into memory: a start reads what it needs, half
as long as from within the graph, and 220 MB less are this process's own (measured).
"""

from __future__ import annotations

import hashlib
import multiprocessing
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from google.protobuf.message import DecodeError
from onnx import helper

from engine.errors import AssetError
from engine.model import hybrid, precision, rewrite
from engine.model.graph import Array, Graph, GraphError, cut, values
from engine.model.providers import CPU
from engine.model.runtime import options, portable
from engine.model.sources import Progress
from engine.model.store import locked

#: changes whenever the same source would give other graphs
VERSION = 3

#: inputs and outputs of the parts
TOKENS, STYLE, SPEED = "tokens", "style", "speed"
FEATURES, SOURCE, DURATIONS = "features", "source", "durations"
UPSAMPLED, AUDIO = "upsampled", "audio"

_PARTS = ("acoustic", "stage_one", "stage_two")
_WHAT = "preparing the model"
_STEPS = len(_PARTS) + 1


@dataclass(frozen=True, slots=True)
class Build:
    """Graphs on the disk.

    Attributes:
        key: of everything that they depend on, 12 hex digits; those in integers have 6 more, of the recipe.
        folder: where they are.
    """

    key: str
    folder: Path

    def part(self, name: str) -> Path:
        """`acoustic`, `stage_one` or `stage_two`."""
        return self.folder / f"{name}.onnx"

    @property
    def is_whole(self) -> bool:
        """Whether all files are there."""
        return self._has_all(Path)

    @property
    def is_portable(self) -> bool:
        """Whether those for other providers than the processor are there."""
        return self._has_all(portable)

    def _has_all(self, form: Callable[[Path], Path]) -> bool:
        parts = [form(self.part(name)) for name in _PARTS]
        return all(path.is_file() and _weights(path).is_file() for path in parts)


def planned(sha256: str, cache: Path, *, integers: bool = False) -> Build:
    """The build of a model, whether it is there or not."""
    key = _key(sha256, integers)
    return Build(key, cache.expanduser() / "builds" / key)


def ensure(
    model: Path,
    sha256: str,
    cache: Path,
    progress: Progress,
    *,
    force: bool = False,
    anywhere: bool = False,
    integers: bool = False,
) -> Build:
    """The parts of `model`, built if need be; about half a minute. Blocks.

    Safe when several processes call it at once: one builds, the others wait for it.

    Args:
        model: the published file, int8, half or single precision.
        sha256: of the file.
        cache: where builds are kept, each in a folder of its own; the newest of either form stays.
        progress: is told of every step.
        force: build although there is one.
        anywhere: for other providers too (`portable`), 0.31 GB more.
        integers: the processor's graphs after the recipe of `hybrid`.

    Raises:
        AssetError: the file is no Kokoro model, or the cache cannot be written.
    """
    build = planned(sha256, cache, integers=integers)
    folder = build.folder.parent

    def is_done() -> bool:
        return build.is_whole and (build.is_portable or not anywhere)

    if is_done() and not force:
        return build
    try:
        with locked(folder, lambda: progress("waiting for another process to prepare", 0, None)):
            if force or not is_done():
                _make(model, build, anywhere, integers, progress)
    except OSError as error:
        raise AssetError(_unwritable(folder, error)) from None
    return build


def _key(sha256: str, integers: bool) -> str:
    depends = (sha256, str(VERSION), ort.__version__, platform.machine(), processor())
    key = hashlib.sha256("\0".join(depends).encode()).hexdigest()[:12]
    if not integers:
        return key
    return f"{key}-{hashlib.sha256(hybrid.FILE.read_bytes()).hexdigest()[:6]}"


def processor() -> str:
    """What this processor can do, words with spaces between them, if that can be known."""
    # The saved graphs hold tensors in blocks of this processor's vector length.
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")


def _weights(part: Path) -> Path:
    return part.with_suffix(".bin")


def _make(model: Path, build: Build, anywhere: bool, integers: bool, progress: Progress) -> None:
    """Builds in a process of its own: it takes 3 GB, which this one would never give back."""
    progress(_WHAT, 0, _STEPS)
    context = multiprocessing.get_context("spawn")
    told, telling = context.Pipe(duplex=False)
    worker = context.Process(
        target=_work, args=(telling, model, build, anywhere, integers), daemon=True
    )
    worker.start()
    telling.close()
    try:
        while (message := told.recv()) != _STEPS:
            if isinstance(message, str):
                raise AssetError(message)
            progress(_WHAT, message, _STEPS)
        progress(_WHAT, _STEPS, _STEPS)
    except EOFError:
        raise AssetError("The model could not be prepared: 3 GB of memory are needed.") from None
    finally:
        worker.join()


def _work(telling: Connection, model: Path, build: Build, anywhere: bool, integers: bool) -> None:
    """Sends the number of every step that is done; a sentence instead if one fails."""
    folder = build.folder.parent
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".") as name:
            parts = split(_read(model))
            floats = {part: getattr(parts, part).SerializeToString() for part in _PARTS}
            if integers:
                hybrid.apply((parts.stage_one, parts.stage_two), hybrid.recipe())
            fresh = Path(name) / build.key
            fresh.mkdir()
            if anywhere:
                portable(fresh / "part").parent.mkdir()
            for number, part in enumerate(_PARTS, 1):
                telling.send(number)
                graph, path = getattr(parts, part).SerializeToString(), fresh / f"{part}.onnx"
                _optimise(graph, path, ort.GraphOptimizationLevel.ORT_ENABLE_ALL)
                if anywhere:
                    # Other providers compute in their own way, from floats.
                    graph = floats[part]
                    _optimise(graph, portable(path), ort.GraphOptimizationLevel.ORT_ENABLE_BASIC)
            for old in folder.iterdir():
                if old.is_dir() and old != Path(name) and not _is_other_form(old.name, build.key):
                    shutil.rmtree(old, ignore_errors=True)
            fresh.rename(build.folder)
        telling.send(_STEPS)
    except AssetError as error:
        telling.send(error.message)
    except OSError as error:
        telling.send(_unwritable(folder, error))


def _is_other_form(key: str, than: str) -> bool:
    # Whoever compares the two, or goes from one to the other, need not wait for either again.
    (one, _, form), (other, _, another) = key.partition("-"), than.partition("-")
    return one == other and bool(form) != bool(another)


def _unwritable(folder: Path, error: OSError) -> str:
    return f"The prepared model cannot be written to {folder}: {error.strerror or error}."


def _read(model: Path) -> onnx.ModelProto:
    try:
        return onnx.load(model)
    except (DecodeError, ValueError) as error:
        raise AssetError(f"{model} is not an ONNX model: {error}.") from None


def _optimise(graph: bytes, path: Path, level: ort.GraphOptimizationLevel) -> None:
    """Saves the graph as ONNX Runtime makes it ready: for this processor, or for any provider."""
    chosen = options(1, optimised=False)
    chosen.graph_optimization_level = level
    chosen.optimized_model_filepath = str(path)
    for key, value in {
        "external_initializers_file_name": _weights(path).name,
        "external_initializers_min_size_in_bytes": "4096",
    }.items():
        chosen.add_session_config_entry(f"session.optimized_model_{key}", value)
    ort.InferenceSession(graph, chosen, providers=[CPU.provider])


@dataclass(frozen=True, slots=True)
class Parts:
    """The three graphs, not yet optimised."""

    acoustic: onnx.ModelProto
    stage_one: onnx.ModelProto
    stage_two: onnx.ModelProto


def split(model: onnx.ModelProto) -> Parts:
    """The model in three, with statistics as inputs of the stages; it is used up.

    Raises:
        AssetError: this is not Kokoro's graph.
    """
    try:
        return _split(model)
    except GraphError as error:
        raise AssetError(f"The model cannot be prepared for streaming: {error}") from None


def _split(model: onnx.ModelProto) -> Parts:
    precision.to_float32(model)
    precision.dequantize(model)
    rewrite.square_as_product(model)
    rename(model, names(Graph(model)))
    rewrite.instance_norm(model, SOURCE)
    rewrite.stft_as_convolution(model, operator_phases)
    features, source = values(FEATURES, 1, 512, "columns"), values(SOURCE, 1, 22, "steps")
    upsampled = values(UPSAMPLED, 1, 256, "rows")
    norms = [
        values(name, "channels")
        for site in Graph(model).all("InstanceNormalization")
        for name in site.input[1:]
    ]
    one = cut(model, [features, source, *norms], [upsampled], "stage_one")
    two = cut(model, [upsampled, source, *norms], [values(AUDIO, "samples")], "stage_two")
    sites = [site for part in (one, two) for site in Graph(part).all("InstanceNormalization")]
    for at, name in ((1, rewrite.GAIN), (2, rewrite.BIAS)):
        parts = [site.input[at] for site in sites]
        model.graph.node.append(helper.make_node("Concat", parts, [name], axis=0))
    outputs = [features, source, values(DURATIONS, 1, "tokens")]
    outputs += [values(name, "channels") for name in (rewrite.GAIN, rewrite.BIAS)]
    acoustic = cut(model, list(model.graph.input), outputs, "acoustic")
    for stage in (one, two):
        rewrite.two_dimensional(stage)
        rewrite.statistics_as_inputs(stage)
        rewrite.fold_snake(stage)
    return Parts(acoustic, one, two)


def names(graph: Graph) -> dict[str, str]:
    """Names differ between exports, so the cuts are found by what is around them."""
    ups = [
        before.input[0]
        for item in graph.all("ConvTranspose")
        if (before := graph.maker(item.input[0], "LeakyRelu")) is not None
        and graph.constant(item.input[1]).shape[1] > 1
    ]
    sources = [
        item.output[0]
        for item in graph.all("Concat")
        if len(item.input) == 2
        and graph.maker(item.input[0], "Sqrt") is not None
        and graph.maker(item.input[1], "Where") is not None
    ]
    durations = [
        item.output[0]
        for item in graph.all("Clip", "Max")
        if graph.maker(item.input[0], "Round") is not None
    ]
    inputs = {value.name: value.type.tensor_type.elem_type for value in graph.model.graph.input}
    tokens = "input_ids" if "input_ids" in inputs else TOKENS
    if (len(ups), len(sources), len(durations), len(graph.model.graph.output)) != (2, 1, 1, 1):
        raise GraphError("it is not built like Kokoro-82M.")
    if not {tokens, STYLE, SPEED} <= set(inputs):
        raise GraphError("its inputs are not Kokoro-82M's.")
    if inputs[SPEED] != onnx.TensorProto.FLOAT:
        # Such exports cast 1.3 to 1 in silence.
        raise GraphError("it takes whole numbers as speed; use the v1.0 export.")
    return {
        tokens: TOKENS,
        ups[0]: FEATURES,
        ups[1]: UPSAMPLED,
        sources[0]: SOURCE,
        durations[0]: DURATIONS,
        graph.model.graph.output[0].name: AUDIO,
    }


def rename(model: onnx.ModelProto, names: dict[str, str]) -> None:
    """Gives tensors the names of the parts' inputs and outputs."""
    for item in model.graph.node:
        for field in (item.input, item.output):
            for at, name in enumerate(field):
                field[at] = names.get(name, name)
    for value in (*model.graph.input, *model.graph.output):
        value.name = names.get(value.name, value.name)


def operator_phases(size: int, hop: int, window: Array, level: float) -> Array:
    """The phase that ONNX Runtime's STFT gives each bin of a constant signal on this machine."""
    signal = helper.make_node("STFT", ["x", "hop", "window", "size"], ["y"], onesided=1)
    constants = {"hop": np.int64(hop), "window": window, "size": np.int64(size)}
    graph = helper.make_graph(
        [signal],
        "stft",
        [values("x", 1, "samples")],
        [values("y", 1, "frames", "bins", 2)],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.full((1, size + 3 * hop), level, np.float32)
    (spectrum,) = session.run(None, {"x": x})
    re, im = spectrum[0, 1, :, 0], spectrum[0, 1, :, 1]
    return np.asarray(np.arctan2(im, re))
