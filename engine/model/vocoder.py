"""The vocoder: features to audio, whole or any part of a segment. Blocking.

Stage one makes rows of features, stage two makes samples of rows (`geometry`). What lies outside a
window matters within its context, and beyond that only through the statistics of the AdaIN sites.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.model import build, rewrite
from engine.model.acoustic import Acoustics
from engine.model.adain import Statistics
from engine.model.geometry import (
    COLUMN_ROWS,
    COLUMN_SAMPLES,
    COLUMN_STEPS,
    CONTEXT_ONE,
    CONTEXT_TWO,
)
from engine.model.providers import CPU, Candidate
from engine.model.runtime import Open, Session, session

Floats = NDArray[np.float32]

_MEASURED = (rewrite.MEASURED_MEAN, rewrite.MEASURED_DEVIATION)

#: smallest part of a window that is worth a thread of its own, in columns
_PART = 8


class Vocoder:
    """The loaded vocoder.

    Stage two runs in parts, each on a thread of its own: half of its time is in operators that
    ONNX Runtime runs on one thread (Sin above all), so two halves side by side are a quarter
    quicker than one after the other with two threads each.

    Args:
        stage_one: of `build`.
        stage_two: of `build`.
        threads: inference threads; 0 is one per core.
        place: where both stages run; another than the processor has a window in one part.
        opens: makes its sessions.

    Raises:
        AssetError: a file cannot be loaded.
    """

    def __init__(
        self,
        stage_one: Path,
        stage_two: Path,
        threads: int = 0,
        place: Candidate = CPU,
        opens: Open = session,
    ) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._one = Session(stage_one, threads, "vocoder", place, opens)
        self._two = Session(stage_two, 1, "vocoder", place, opens, others=threads)
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="vocoder")
        self.channels_one = int(self._one.inputs[2].shape[0])
        self.channels_two = int(self._two.inputs[2].shape[0])

    @property
    def provider(self) -> str:
        """Where stage two, most of the work, runs by now."""
        return self._two.place.shown

    @property
    def fault(self) -> str:
        """Why not where it was to run; see `Session`."""
        return self._one.fault or self._two.fault

    @property
    def unsound(self) -> str:
        """What was wrong with what it gave there; see `Session`."""
        return self._one.unsound or self._two.unsound

    def upsample(
        self,
        sound: Acoustics,
        start: int,
        stop: int,
        statistics: Statistics | None,
        options: ort.RunOptions,
    ) -> Floats:
        """Stage one.

        Args:
            sound: the segment.
            start: first column.
            stop: one past the last.
            statistics: of the sites in stage one; None measures them, which is exact if the
                columns are the whole segment.
            options: of the run.

        Returns:
            float32 [256, 10 (stop - start)].
        """
        first, last = max(0, start - CONTEXT_ONE), min(sound.columns, stop + CONTEXT_ONE)
        feeds = {
            build.FEATURES: _columns(sound.features, first, last),
            build.SOURCE: _steps(sound.source, first, last),
            **self._norms(sound, slice(0, self.channels_one), statistics),
        }
        (rows,) = self._one.run([build.UPSAMPLED], feeds, options)
        upsampled: Floats = rows[0, :, (start - first) * COLUMN_ROWS :]
        return upsampled[:, : (stop - start) * COLUMN_ROWS]

    def decode(
        self,
        sound: Acoustics,
        upsampled: Floats,
        origin: int,
        start: int,
        stop: int,
        statistics: Statistics,
        options: ort.RunOptions,
    ) -> Floats:
        """Stage two, in parts side by side.

        Args:
            sound: the segment.
            upsampled: of stage one, with `CONTEXT_TWO` columns around the window as far as the
                segment goes.
            origin: the column that `upsampled` begins with.
            start: first column of the window.
            stop: one past the last.
            statistics: of the sites in stage two.
            options: of the run; shared by all parts.

        Returns:
            float32 [300 (stop - start)].
        """
        threads = self._threads if self._two.place == CPU else 1
        count = max(1, min(threads, (stop - start) // _PART))
        edges = [start + (stop - start) * n // count for n in range(count + 1)]
        norms = self._norms(sound, slice(self.channels_one, None), statistics)

        def part(first: int, last: int) -> Floats:
            a, b = max(0, first - CONTEXT_TWO), min(sound.columns, last + CONTEXT_TWO)
            feeds = {
                build.UPSAMPLED: _rows(upsampled, a - origin, b - origin),
                build.SOURCE: _steps(sound.source, a, b),
                **norms,
            }
            (audio,) = self._two.run([build.AUDIO], feeds, options)
            kept: Floats = audio[(first - a) * COLUMN_SAMPLES : (last - a) * COLUMN_SAMPLES]
            return kept

        parts = list(self._pool.map(part, edges[:-1], edges[1:]))
        return parts[0] if count == 1 else np.concatenate(parts)

    def whole(self, sound: Acoustics, options: ort.RunOptions) -> tuple[Floats, Floats, Statistics]:
        """The whole segment with its own statistics, as the published graph does it.

        Returns:
            Audio, float32 [300 columns]; stage one's output; the statistics of all sites.
        """
        rows, one = self.whole_stage_one(sound, options)
        feeds = {
            build.UPSAMPLED: rows[None],
            build.SOURCE: sound.source[None],
            **self._norms(sound, slice(self.channels_one, None), None),
        }
        audio, *two = self._two.run([build.AUDIO, *_MEASURED], feeds, options)
        return audio, rows, Statistics(*map(np.concatenate, zip(one, two, strict=True)))

    def whole_stage_one(
        self, sound: Acoustics, options: ort.RunOptions
    ) -> tuple[Floats, tuple[Floats, Floats]]:
        """Stage one of the whole segment.

        Returns:
            Its output, float32 [256, 10 columns]; means and deviations of its sites.
        """
        feeds = {
            build.FEATURES: sound.features[None],
            build.SOURCE: sound.source[None],
            **self._norms(sound, slice(0, self.channels_one), None),
        }
        rows, mean, deviation = self._one.run([build.UPSAMPLED, *_MEASURED], feeds, options)
        return rows[0], (mean, deviation)

    def _norms(
        self, sound: Acoustics, sites: slice, statistics: Statistics | None
    ) -> dict[str, NDArray[np.generic]]:
        gain, bias = sound.gain[sites], sound.bias[sites]
        given = statistics or Statistics(np.zeros_like(gain), np.ones_like(gain))
        return {
            rewrite.GAIN: gain,
            rewrite.BIAS: bias,
            rewrite.MEAN: given.mean,
            rewrite.DEVIATION: given.deviation,
            rewrite.OWN: np.array(statistics is None),
        }


def _columns(features: Floats, start: int, stop: int) -> Floats:
    return np.ascontiguousarray(features[None, :, start:stop])


def _steps(source: Floats, start: int, stop: int) -> Floats:
    return np.ascontiguousarray(source[None, :, start * COLUMN_STEPS : stop * COLUMN_STEPS + 1])


def _rows(upsampled: Floats, start: int, stop: int) -> Floats:
    return np.ascontiguousarray(upsampled[None, :, start * COLUMN_ROWS : stop * COLUMN_ROWS])
