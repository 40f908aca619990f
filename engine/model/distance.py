"""How far two recordings are apart in what is heard. Core.

Recordings are mono at 24 kHz, float, nominally -1…1, and those that are compared have the same
length: nothing is shifted, because the same durations are part of what is claimed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Audio = NDArray[np.float32]

FRAME, HOP = 1024, 256
#: frames that are quieter than the loudest by more than this are not compared
RANGE_DB = 50.0
#: power under which a bin counts as empty; 16-bit rounding is 15 dB below it
_EMPTY = 1e-6


def lsd_db(reference: Audio, other: Audio) -> float:
    """Log-spectral distance in dB: 0 for equal recordings, the gain's dB for a change of gain.

    Root of the mean squared difference of the log power spectra over the bins of a frame (1024
    samples, Hann, every 256), averaged over the reference's frames within 50 dB of its loudest
    bin. Symmetric but for the choice of frames.

    Raises:
        ValueError: the lengths differ, or they are shorter than one frame.
    """
    same_length(reference, other)
    if len(reference) < FRAME:
        raise ValueError(f"a recording of {len(reference)} samples is shorter than one frame")
    left, right = _spectrum(reference), _spectrum(other)
    loudest = left.max(axis=1)
    frames = np.sqrt(((left - right) ** 2).mean(axis=1))
    return float(frames[loudest > loudest.max() - RANGE_DB].mean())


def _spectrum(audio: Audio) -> NDArray[np.float64]:
    frames = np.lib.stride_tricks.sliding_window_view(audio, FRAME)[::HOP] * np.hanning(FRAME)
    power: NDArray[np.float64] = 10 * np.log10(np.abs(np.fft.rfft(frames, axis=1)) ** 2 + _EMPTY)
    return power


def same_length(reference: Audio, other: Audio) -> None:
    """Raises ValueError if the lengths differ."""
    if len(reference) != len(other):
        raise ValueError(f"the recordings have {len(reference)} and {len(other)} samples")
