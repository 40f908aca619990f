"""AdaIN statistics of the vocoder's 48 sites, predicted from what is known of a segment. Core.

The vocoder normalises every channel over the whole utterance. A window can only be decoded before
the rest if somebody tells it those means and deviations: `Predictor` does, by regression
on pooled features. Its weights are trained by `bench/train_statistics.py`; how near it comes is
in `docs/tuning.md` and in the file itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from engine.model.acoustic import Acoustics

Floats = NDArray[np.float32]

#: the shipped weights
FILE = Path(__file__).with_name("statistics.npz")


def pooled(signal: Floats) -> Floats:
    """What a linear map can use of a signal [channels, time]: six numbers a channel, [6 channels].

    Mean, deviation, mean and deviation of the positive part, cube root of the third central
    moment, deviation of the difference from one column to the next.
    """
    mean = signal.mean(1)
    centred = signal - mean[:, None]
    positive = np.maximum(signal, 0)
    squares = centred * centred
    return np.concatenate(
        [
            mean,
            np.sqrt(squares.mean(1)),
            positive.mean(1),
            positive.std(1),
            np.cbrt((squares * centred).mean(1)),
            np.diff(signal, axis=1, append=signal[:, -1:]).std(1),
        ]
    ).astype(np.float32)


def source_features(source: Floats) -> Floats:
    """Mean and deviation of the source spectrum [22, steps], [44]."""
    return np.concatenate([source.mean(1), source.std(1)]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of some sites, one after another: float32 [channels] each.

    Attributes:
        mean: over time.
        deviation: square root of variance plus epsilon.
    """

    mean: Floats
    deviation: Floats

    def part(self, sites: slice) -> Statistics:
        """Those of some of the channels."""
        return Statistics(self.mean[sites], self.deviation[sites])


def acoustic_context(source: Floats, style: Floats, columns: int, speed: float) -> Floats:
    """What both maps read beside the pooled features: source, style, length and speed."""
    rest = np.array([np.log(columns), speed], np.float32)
    return np.concatenate([source_features(source), style, rest])


#: where `acoustic_context` has the style, in features that end with it
_STYLE = slice(-258, -2)
#: the arrays of `Regression` that are kept in 8 bits, each with a scale a column
EIGHT_BITS = ("look", "voice", "project", "expand")
#: features further from the training mean, in deviations, say no more than this
_CLIP = 8.0


def standardised(features: Floats, mean: Floats, scale: Floats) -> Floats:
    """Features [..., features] in deviations from the mean of training, bounded."""
    bounded: Floats = np.clip((features - mean) / scale, -_CLIP, _CLIP)
    return bounded


def pairs(standard: Floats, look: Floats, voice: Floats) -> Floats:
    """Products of what the signal is like with what the voice is like.

    Another voice is not only an offset: what a feature says about the statistics is another thing
    for another voice. A plain linear map knows one slope for all of them.

    Args:
        standard: standardised features [..., features] that end with `acoustic_context`.
        look: [features, signal directions].
        voice: [256, style directions].

    Returns:
        [..., signal directions * style directions].
    """
    signal, style = standard @ look, standard[..., _STYLE] @ voice
    products = signal[..., :, None] * style[..., None, :]
    return products.reshape(*products.shape[:-2], -1)


class Regression:
    """Features to statistics: standardise, add `pairs`, project, expand. Weights are 8-bit.

    Args:
        arrays: `mean`, `scale` [features]; `look` [features, signal directions]; `voice` [256, style
            directions]; `project` [features + pairs, rank]; `expand` [rank, 2 channels]; the last
            four int8, each with its `_scale` a column; `offset`, `spread` [2 channels] of the
            targets, which are means and logarithms of deviations.
    """

    def __init__(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self._mean, self._scale, offset, spread = (
            np.asarray(arrays[name], np.float32) for name in ("mean", "scale", "offset", "spread")
        )
        # As floats, though they are four times as large: else it takes four times as long.
        self._look, self._voice, self._project, self._expand = (
            np.asarray(arrays[name], np.float32) * np.asarray(arrays[f"{name}_scale"], np.float32)
            for name in EIGHT_BITS
        )
        self._offset, self._spread = offset, spread

    def __call__(self, features: Floats) -> Statistics:
        """Statistics from the features, float32 [features]."""
        standard = standardised(features, self._mean, self._scale)
        wide = np.concatenate([standard, pairs(standard, self._look, self._voice)])
        raw = wide @ self._project @ self._expand * self._spread + self._offset
        mean, log_deviation = np.split(raw, 2)
        return Statistics(mean, np.exp(log_deviation))


class Predictor:
    """The regressions of the shipped file.

    `first` predicts all sites before anything is decoded; `second` those of stage two, much better,
    once stage one has run over the whole segment.
    """

    def __init__(self, path: Path = FILE) -> None:
        with np.load(path) as stored:
            self._first_one, self._first_two, self._second_two = (
                Regression(
                    {
                        name.removeprefix(f"{which}_"): stored[name]
                        for name in stored.files
                        if name.startswith(which)
                    }
                )
                for which in ("first_one", "first_two", "second_two")
            )

    def first(self, sound: Acoustics) -> Statistics:
        """All sites, from the acoustic part."""
        features = _features(sound.features, sound)
        one, two = self._first_one(features), self._first_two(features)
        return Statistics(
            np.concatenate([one.mean, two.mean]), np.concatenate([one.deviation, two.deviation])
        )

    def second(self, sound: Acoustics, upsampled: Floats) -> Statistics:
        """Stage two's sites, from stage one over the whole segment, float32 [256, rows]."""
        return self._second_two(_features(upsampled, sound))


def _features(signal: Floats, sound: Acoustics) -> Floats:
    context = acoustic_context(sound.source, sound.style, sound.columns, sound.speed)
    return np.concatenate([pooled(signal), context])
