"""The acoustic part: phonemes and a style to features and durations. Blocking.

One pass over a whole segment, a tenth of the work; the vocoder then makes audio of any part of it.
kokoro-onnx supplies what belongs to the model: its vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnxruntime as ort
from kokoro_onnx.config import DEFAULT_VOCAB
from numpy.typing import NDArray

from engine.model import build, rewrite
from engine.model.geometry import COLUMN_STEPS
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Call, Open, Session, session

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Acoustics:
    """What the vocoder needs to know of a segment.

    Attributes:
        features: float32 [512, columns]; a column is 300 samples.
        source: float32 [22, 60 columns + 1], spectrum of the harmonic source; 5 samples a step.
        durations: int64 [phonemes + 2], frames of 600 samples; the ends are padding.
        gain: float32 [sites' channels], the style's factor at each AdaIN site.
        bias: the same, what it adds.
        style: float32 [256].
        speed: 1 is natural.
    """

    features: Floats
    source: Floats
    durations: NDArray[np.int64]
    gain: Floats
    bias: Floats
    style: Floats
    speed: float

    @property
    def columns(self) -> int:
        """Length in columns of 300 samples."""
        return int(self.features.shape[1])

    def part(self, columns: int) -> Acoustics:
        """The first columns, as if the segment ended there."""
        return replace(
            self,
            features=self.features[:, :columns],
            source=self.source[:, : columns * COLUMN_STEPS + 1],
        )


class Acoustic:
    """The loaded acoustic part.

    Args:
        path: of the graph that `build` made.
        threads: inference threads; 0 is one per core.
        place: where it runs.
        opens: makes its session.

    Raises:
        AssetError: the file cannot be loaded.
    """

    def __init__(
        self, path: Path, threads: int = 0, place: Candidate = CPU, opens: Open = session
    ) -> None:
        self._session = Session(path, threads, "acoustic", place, opens)

    @property
    def provider(self) -> str:
        """Where it runs by now."""
        return self._session.place.shown

    @property
    def fault(self) -> str:
        """Why not where it was to run; see `Session`."""
        return self._session.fault

    @property
    def unsound(self) -> str:
        """What was wrong with what it gave there; see `Session`."""
        return self._session.unsound

    def call(self, phonemes: str, style: Floats, speed: float) -> Call[Acoustics]:
        """The pass over one segment, not yet run.

        Args:
            phonemes: 1…510 known ones.
            style: float32 [1, 256], the voice's row for this many phonemes.
            speed: 1 is natural.
        """
        tokens = np.array([[0, *(DEFAULT_VOCAB[p] for p in phonemes), 0]], np.int64)
        feeds: dict[str, NDArray[np.generic]] = {
            build.TOKENS: tokens,
            build.STYLE: style,
            build.SPEED: np.array([speed], np.float32),
        }

        def work(options: ort.RunOptions) -> Acoustics:
            outputs = [build.FEATURES, build.SOURCE, build.DURATIONS, rewrite.GAIN, rewrite.BIAS]
            features, source, durations, gain, bias = self._session.run(outputs, feeds, options)
            return Acoustics(
                features=features[0],
                source=source[0],
                durations=durations.ravel().astype(np.int64),
                gain=gain,
                bias=bias,
                style=style[0],
                speed=speed,
            )

        return Call(work)
