"""Makes variants of the model, and measures them against single precision. Files, ONNX Runtime."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from bench.corpus import Job
from bench.interleave import interleaved
from bench.train_statistics import Maker, jobs_of
from bench.transcribe import transcribe, word_errors
from engine.audio import SAMPLE_RATE
from engine.ladder import Kind, Step
from engine.model import build, hybrid, integers, rewrite
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.distance import lsd_db
from engine.model.geometry import COLUMN_SAMPLES
from engine.model.graph import values
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Call, Runs, options
from engine.model.vocoder import Vocoder

Floats = NDArray[np.float32]
Feeds = dict[str, NDArray[np.generic]]

STAGES = ("stage_one", "stage_two")
#: utterances that ranges come from, and that distances are measured on; each by another voice
CALIBRATED, TESTED = 10, 6
#: their length in phonemes: one to five seconds, so that many can be measured
_LENGTHS = range(25, 71)
#: the window that is timed, in columns
_WINDOW = (16, 64)
_SEED = 4
#: One, and processor time: ratios are then of the work, whatever else runs on the machine.
_THREADS = 1
_COLUMN_S = COLUMN_SAMPLES / SAMPLE_RATE


class Result(msgspec.Struct, frozen=True):
    """What was measured of a variant.

    Attributes:
        name: of the variant.
        lsd_db: log-spectral distance of each utterance whose durations stayed the same.
        mel_db: the same by 40 mel bands, mean absolute difference.
        other_durations: utterances whose durations did not stay the same.
        whole: processor time by single precision's, a whole decode (or pass), round by round.
        window: the same of a window; empty in the acoustic part.
        size_mb: of the parts' files.
        errors: words that pocketsphinx heard otherwise.
        words: words that were said.
        rtf: seconds of one thread for a second of sound, whole decode, median.
    """

    name: str
    lsd_db: list[float]
    mel_db: list[float]
    other_durations: int
    whole: list[float]
    window: list[float]
    size_mb: float
    errors: int
    words: int
    rtf: float


class Lab:
    """The model in single precision, the texts, and ranges of what its convolutions see.

    Args:
        clip: part of the values of a channel, in the utterance where it is loudest, that its range
            holds.
        balance: see `integers.convolutions`.
        quick: half of the rounds.
        tell: shows what is being done.
    """

    def __init__(
        self, *, clip: float, balance: float, quick: bool, tell: Callable[[str], None]
    ) -> None:
        self._balance, self._rounds, self._tell = balance, 3 if quick else 6, tell
        self._maker = Maker(_THREADS)
        self._predictor = Predictor()
        settings_cache = self._maker.cache.parent
        self.folder = settings_cache / "quantise"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._split()
        every = jobs_of(self._maker)
        train = list(_of_each_voice(job for job in every if not job.held_out))
        self._trained = _spread(train, CALIBRATED)
        self.jobs = list(_of_each_voice(job for job in every if job.held_out and _english(job)))
        self.jobs = _spread(self.jobs, TESTED)
        tell("calibrating")
        self.ranges, self.means = self._calibrated(self._trained, clip)
        tell("speaking in single precision")
        self.sounds = [self._pass(self._maker.acoustic, job) for job in self.jobs]
        self.references = [self._whole(self._maker.vocoder, sound) for sound in self.sounds]

    def graph(self, part: str) -> Path:
        """A part as `build.split` makes it, not optimised."""
        return self.folder / f"{part}-{self._maker.assets.sha256[:12]}-{build.VERSION}.onnx"

    def vocoder(self, sites: Collection[str], corrected: bool = False) -> dict[str, Path]:
        """Makes the stages with these convolutions in integers."""
        ranges = {site: self.ranges[site] for site in sites}
        made = {}
        for stage in STAGES:
            model = onnx.load(self.graph(stage))
            means = self.means if corrected else None
            integers.convolutions(model, ranges, means, self._balance)
            made[stage] = self.folder / f"variant-{stage}.onnx"
            onnx.save(model, made[stage])
        return made

    def write_recipe(self, sites: Collection[str]) -> None:
        """Puts the ranges of these convolutions where the engine finds them."""
        hybrid.write({site: self.ranges[site] for site in sites})

    def qdq(self) -> dict[str, Path]:
        """Makes the stages with all convolutions between QuantizeLinear and DequantizeLinear."""
        made, own = {}, self._maker.acoustic
        for stage in STAGES:
            made[stage] = self.folder / f"variant-{stage}.onnx"
            model = onnx.load(self.graph(stage))
            sites = [item.name for item in model.graph.node if integers.site(item)]
            feeds = (self._feeds(self._pass(own, job))[stage] for job in self._trained[:3])
            quantize_static(
                self.graph(stage),
                made[stage],
                _Reader(feeds),
                quant_format=QuantFormat.QDQ,
                per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8,
                nodes_to_quantize=sites,
                extra_options={"ForceQuantizeNoInputCheck": False},
            )
        return made

    def dynamic(self) -> dict[str, Path]:
        """Makes the acoustic part with its products of matrices in integers."""
        made = self.folder / "variant-acoustic.onnx"
        quantize_dynamic(
            self.graph("acoustic"),
            made,
            ["MatMul"],
            weight_type=QuantType.QInt8,
            # Its inference of types does not see through operators of other domains.
            extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
        )
        return {"acoustic": made}

    def four_bits(self) -> dict[str, Path]:
        """Makes the acoustic part with the weights of its products of matrices in four bits."""
        made = self.folder / "variant-acoustic.onnx"
        model = onnx.load(self.graph("acoustic"))
        integers.four_bits(model)
        onnx.save(model, made)
        return {"acoustic": made}

    def halves(self) -> dict[str, Path]:
        """Makes all parts with weights that were rounded to half precision."""
        made = {}
        for part in ("acoustic", *STAGES):
            model = onnx.load(self.graph(part))
            for tensor in model.graph.initializer:
                if tensor.data_type == onnx.TensorProto.FLOAT and np.prod(tensor.dims) > 1024:
                    half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
                    cast = f"{tensor.name}_half"
                    model.graph.node.insert(
                        0,
                        onnx.helper.make_node(
                            "Cast", [cast], [tensor.name], to=onnx.TensorProto.FLOAT
                        ),
                    )
                    tensor.CopyFrom(onnx.numpy_helper.from_array(half, cast))
            made[part] = self.folder / f"variant-{part}.onnx"
            onnx.save(model, made[part])
        return made

    def distances(self, made: Mapping[str, Path]) -> list[float]:
        """LSD of whole decodes with the features of single precision."""
        vocoder = self._vocoder(made)
        return [
            lsd_db(reference, self._whole(vocoder, sound))
            for reference, sound in zip(self.references, self.sounds, strict=True)
        ]

    def measured(self, name: str, made: Mapping[str, Path]) -> Result:
        """Everything about a variant; blocks, a minute."""
        self._tell(name)
        own = self._maker
        vocoder = self._vocoder(made)
        acoustic = own.acoustic
        if "acoustic" in made:
            acoustic = Acoustic(made["acoustic"], _THREADS, opens=_opens)
        lsd, mel, other, errors, words = [], [], 0, 0, 0
        for job, before, reference in zip(self.jobs, self.sounds, self.references, strict=True):
            sound = self._pass(acoustic, job) if "acoustic" in made else before
            audio = self._whole(vocoder, sound)
            wrong, said = word_errors(job.text, transcribe(audio))
            errors, words = errors + wrong, words + said
            if len(audio) == len(reference):
                lsd.append(lsd_db(reference, audio))
                mel.append(mel_db(reference, audio))
            else:
                other += 1
        whole, window, rtf = self._timed(made, acoustic, vocoder)
        size = sum(path.stat().st_size for path in made.values())
        size += sum(self.graph(p).stat().st_size for p in ("acoustic", *STAGES) if p not in made)
        return Result(
            name, lsd, mel, other, whole, window, round(size / 1e6, 1), errors, words, rtf
        )

    def _timed(
        self, made: Mapping[str, Path], acoustic: Acoustic, vocoder: Vocoder
    ) -> tuple[list[float], list[float], float]:
        own, sound, job = self._maker, self.sounds[0], self.jobs[0]
        if set(made) == {"acoustic"}:
            times = interleaved(
                {
                    "float": lambda: self._pass(own.acoustic, job),
                    "variant": lambda: self._pass(acoustic, job),
                },
                self._rounds,
                seed=_SEED,
                clock=time.process_time,
            )
            return _ratios(times), [], _rtf(times, sound)
        whole = interleaved(
            {
                "float": lambda: self._whole(own.vocoder, sound),
                "variant": lambda: self._whole(vocoder, sound),
            },
            self._rounds,
            seed=_SEED,
            clock=time.process_time,
        )
        first, last = _WINDOW
        step = Step(Kind.PREDICTED, first, min(last, sound.columns))
        decoders = {
            name: Decoder(one, self._predictor, sound)
            for name, one in (("float", own.vocoder), ("variant", vocoder))
        }
        window = interleaved(
            {name: one.call(step).run for name, one in decoders.items()},
            2 * self._rounds,
            seed=_SEED,
            clock=time.process_time,
        )
        return _ratios(whole), _ratios(window), _rtf(whole, sound)

    def _vocoder(self, made: Mapping[str, Path]) -> Vocoder:
        if not set(STAGES) & set(made):
            return self._maker.vocoder
        return Vocoder(made["stage_one"], made["stage_two"], _THREADS, opens=_opens)

    def _split(self) -> None:
        if all(self.graph(part).is_file() for part in ("acoustic", *STAGES)):
            return
        self._tell("taking the model apart")
        for old in self.folder.glob("*.onnx"):
            old.unlink()
        parts = build.split(onnx.load(self._maker.assets.model))
        for part in ("acoustic", *STAGES):
            onnx.save(getattr(parts, part), self.graph(part))

    def _pass(self, acoustic: Acoustic, job: Job) -> Acoustics:
        style = self._maker.voices.style(job.voice, len(job.phonemes))
        return acoustic.call(job.phonemes, style, job.speed).run()

    def _whole(self, vocoder: Vocoder, sound: Acoustics) -> Floats:
        return Call(lambda run: vocoder.whole(sound, run)[0]).run()

    def _feeds(self, sound: Acoustics) -> dict[str, Feeds]:
        """What both stages are given for a whole segment with its own statistics."""
        vocoder = self._maker.vocoder
        rows, _ = Call(lambda run: vocoder.whole_stage_one(sound, run)).run()
        inputs = {
            "stage_one": {build.FEATURES: sound.features[None]},
            "stage_two": {build.UPSAMPLED: rows[None]},
        }
        sites = slice(0, vocoder.channels_one), slice(vocoder.channels_one, None)
        return {
            stage: {**inputs[stage], build.SOURCE: sound.source[None], **_norms(sound, part)}
            for stage, part in zip(STAGES, sites, strict=True)
        }

    def _calibrated(
        self, jobs: list[Job], clip: float
    ) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Of each convolution's channels that come in: range, and mean."""
        sessions = {}
        for stage in STAGES:
            model = onnx.load(self.graph(stage))
            seen = {
                name: item.input[0]
                for item in model.graph.node
                if (name := integers.site(item)) is not None
            }
            for tensor in dict.fromkeys(seen.values()):
                model.graph.output.append(values(tensor, "a", "b", "c", "d"))
            runs = ort.InferenceSession(
                model.SerializeToString(),
                options(_THREADS, optimised=False),
                providers=[CPU.provider],
            )
            sessions[stage] = runs, seen
        ranges: dict[str, Floats] = {}
        sums: dict[str, Floats] = {}
        for job in jobs:
            feeds = self._feeds(self._pass(self._maker.acoustic, job))
            for stage, (runs, seen) in sessions.items():
                tensors = list(dict.fromkeys(seen.values()))
                found = dict(zip(tensors, runs.run(tensors, feeds[stage]), strict=True))
                for name, tensor in seen.items():
                    channels = found[tensor].reshape(found[tensor].shape[1], -1)
                    reach = np.quantile(np.abs(channels), clip, axis=1).astype(np.float32)
                    ranges[name] = np.maximum(ranges.get(name, reach), reach)
                    sums[name] = sums.get(name, np.float32(0)) + channels.mean(1) / len(jobs)
        return ranges, sums


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    def __init__(self, feeds: Iterable[Feeds]) -> None:
        self._feeds = iter(feeds)

    def get_next(self) -> Any:
        return next(self._feeds, None)


def mel_db(reference: Floats, other: Floats) -> float:
    """Mean absolute difference in dB over 40 mel bands, frames of 1024 samples, 50 dB of range."""
    left, right = _mel(reference), _mel(other)
    loud = left.max(axis=1) > left.max() - 50
    return float(np.abs(left - right)[loud].mean())


def _mel(audio: Floats) -> NDArray[np.float64]:
    frames = np.lib.stride_tricks.sliding_window_view(audio, 1024)[::256] * np.hanning(1024)
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 12_000 / 700), 42) / 2595) - 1)
    bins = np.fft.rfftfreq(1024, 1 / 24_000)
    low, mid, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    bands = np.clip(np.minimum((bins - low) / (mid - low), (high - bins) / (high - mid)), 0, None)
    found: NDArray[np.float64] = 10 * np.log10(power @ bands.T + 1e-6)
    return found


def _opens(path: Path, threads: int, place: Candidate) -> Runs:
    """A session that optimises the graph, which those of `build` have behind them."""
    made: Runs = ort.InferenceSession(
        str(path), options(threads, optimised=False), providers=[place.provider]
    )
    return made


def _norms(sound: Acoustics, sites: slice) -> Feeds:
    gain, bias = sound.gain[sites], sound.bias[sites]
    return {
        rewrite.GAIN: gain,
        rewrite.BIAS: bias,
        rewrite.MEAN: np.zeros_like(gain),
        rewrite.DEVIATION: np.ones_like(gain),
        rewrite.OWN: np.array(True),
    }


def _of_each_voice(jobs: Iterable[Job]) -> Iterator[Job]:
    """The first utterance of middling length of each voice."""
    seen: set[str] = set()
    for job in jobs:
        if job.voice not in seen and len(job.phonemes) in _LENGTHS:
            seen.add(job.voice)
            yield job


def _english(job: Job) -> bool:
    """Spoken by an American, whom pocketsphinx understands, without numbers in figures."""
    return job.voice[0] == "a" and not any(letter.isdigit() for letter in job.text)


def _spread(jobs: list[Job], count: int) -> list[Job]:
    return jobs[:: max(1, len(jobs) // count)][:count]


def _ratios(times: Mapping[str, list[float]]) -> list[float]:
    return [b / a for a, b in zip(times["float"], times["variant"], strict=True)]


def _rtf(times: Mapping[str, list[float]], sound: Acoustics) -> float:
    return round(float(np.median(times["variant"])) / (sound.columns * _COLUMN_S), 3)
