"""One segment on its way to audio: does the steps of a `Ladder`. Blocking."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.ladder import Kind, Step
from engine.model.acoustic import Acoustics
from engine.model.adain import Predictor, Statistics
from engine.model.geometry import COLUMN_SAMPLES, CONTEXT_TWO
from engine.model.runtime import Call
from engine.model.vocoder import Vocoder

Floats = NDArray[np.float32]

#: how two windows with different statistics are blended: over one column, 12.5 ms
_FADE: Floats = np.float32(0.5) - np.float32(0.5) * np.cos(
    np.pi * (np.arange(COLUMN_SAMPLES, dtype=np.float32) + 0.5) / COLUMN_SAMPLES
)


class Decoder:
    """Decodes a segment step by step; the audio of the steps in a row has no joints.

    Args:
        vocoder: loaded.
        predictor: of statistics.
        sound: the segment.
    """

    def __init__(self, vocoder: Vocoder, predictor: Predictor, sound: Acoustics) -> None:
        self._vocoder = vocoder
        self._predictor = predictor
        self._sound = sound
        self._predicted: Statistics | None = None
        self._upsampled: Floats | None = None
        self._statistics: Statistics | None = None  # of stage two, on rung 2
        # What the last window heard of the column behind it; blended into the next window.
        self._overlap = np.empty(0, np.float32)

    def call(self, step: Step) -> Call[Floats]:
        """The step, not yet run; gives float32 [samples] of its columns, none for stage one."""

        def work(options: ort.RunOptions) -> Floats:
            match step.kind:
                case Kind.STAGE_ONE:
                    self._run_stage_one(options)
                    return np.empty(0, np.float32)
                case Kind.WHOLE:
                    audio = self._vocoder.whole(self._sound, options)[0]
                case Kind.EXACT:
                    audio = self._exact(step, options)
                case Kind.PREDICTED:
                    audio = self._from_prediction(step, options)
            before = self._overlap
            kept = (step.stop - step.start) * COLUMN_SAMPLES
            audio, self._overlap = audio[:kept], audio[kept:]
            return _blended(before, audio)

        call = Call(work)
        if step.kind in (Kind.STAGE_ONE, Kind.WHOLE):
            call.give_back()
        return call

    def _run_stage_one(self, options: ort.RunOptions) -> None:
        sound = self._sound
        self._upsampled = self._vocoder.upsample(sound, 0, sound.columns, None, options)
        self._statistics = self._predictor.second(sound, self._upsampled)

    def _exact(self, step: Step, options: ort.RunOptions) -> Floats:
        assert self._upsampled is not None  # the ladder puts stage one first
        assert self._statistics is not None
        return self._vocoder.decode(
            self._sound, self._upsampled, 0, step.start, step.stop, self._statistics, options
        )

    def _from_prediction(self, step: Step, options: ort.RunOptions) -> Floats:
        """The window, and one column more if there is one."""
        sound, vocoder = self._sound, self._vocoder
        if self._predicted is None:
            self._predicted = self._predictor.first(sound)
        one = self._predicted.part(slice(0, vocoder.channels_one))
        two = self._predicted.part(slice(vocoder.channels_one, None))
        stop = min(step.stop + 1, sound.columns)
        first = max(0, step.start - CONTEXT_TWO)
        last = min(sound.columns, stop + CONTEXT_TWO)
        rows = vocoder.upsample(sound, first, last, one, options)
        return vocoder.decode(sound, rows, first, step.start, stop, two, options)


def _blended(before: Floats, audio: Floats) -> Floats:
    length = len(before)
    if not length:
        return audio
    fade = _FADE[:length]
    blended = audio.copy()
    blended[:length] = before * (1 - fade) + audio[:length] * fade
    return blended
