"""PCM arithmetic: float to 16-bit and back, fades; and all of `samples`. Core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .samples import (
    SAMPLE_BYTES,
    SAMPLE_RATE,
    PcmCutter,
    cut,
    ms_to_samples,
    pcm_samples,
    samples_to_ms,
    silence,
)

__all__ = [
    "PCM_DTYPE", "SAMPLE_BYTES", "SAMPLE_RATE", "PcmCutter", "cut", "faded_out", "from_pcm",
    "is_audible", "ms_to_samples", "pcm_samples", "samples_to_ms", "silence", "to_pcm",
]  # fmt: skip

#: dtype of PCM in bytes, whatever the machine's byte order
PCM_DTYPE = np.dtype("<i2")


def to_pcm(audio: NDArray[np.float32]) -> bytes:
    """Float samples, nominally -1…1, to PCM.

    Values outside are clipped, never wrapped: loud speech of this model overshoots now and then.
    Values that are not numbers become silence.
    """
    clean = np.nan_to_num(audio, nan=0.0, posinf=1.0, neginf=-1.0)
    scaled = np.rint(np.clip(clean, -1.0, 1.0) * 32767.0)
    return bytes(scaled.astype(PCM_DTYPE).tobytes())


def from_pcm(pcm: bytes) -> NDArray[np.float32]:
    """PCM to float samples in -1…1."""
    return np.frombuffer(pcm, dtype=PCM_DTYPE).astype(np.float32) / 32767.0


def faded_out(pcm: bytes | memoryview) -> bytes:
    """PCM that falls to silence in a raised cosine over its whole length."""
    samples = np.frombuffer(pcm, dtype=PCM_DTYPE)
    turn = np.arange(1, len(samples) + 1) / (len(samples) + 1)
    return bytes((samples * (0.5 + 0.5 * np.cos(np.pi * turn))).astype(PCM_DTYPE).tobytes())


#: quieter than this is not yet sound: -50 dB of full scale
_AUDIBLE = 0.003


def is_audible(pcm: bytes) -> bool:
    """Whether any sample is louder than -50 dB of full scale."""
    samples = from_pcm(pcm)
    return bool(samples.size) and float(np.abs(samples).max()) > _AUDIBLE
