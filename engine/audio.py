"""PCM arithmetic: samples, bytes, milliseconds, and float to 16-bit. Core.

Everything that leaves the engine is signed 16-bit little-endian mono at 24 kHz, the rate
Kokoro-82M was trained at. No other module multiplies by a sample width.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 24_000
SAMPLE_BYTES = 2

#: dtype of PCM in bytes, whatever the machine's byte order
PCM_DTYPE = np.dtype("<i2")


def samples_to_ms(samples: int) -> float:
    """Duration of `samples` in milliseconds."""
    return samples * 1000.0 / SAMPLE_RATE


def ms_to_samples(ms: float) -> int:
    """Number of whole samples in `ms` milliseconds."""
    return round(ms * SAMPLE_RATE / 1000.0)


def pcm_samples(pcm: bytes | memoryview) -> int:
    """Number of samples in a piece of PCM."""
    return len(pcm) // SAMPLE_BYTES


def silence(samples: int) -> bytes:
    """PCM of `samples` zeros."""
    return bytes(samples * SAMPLE_BYTES)


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


def cut(pcm: bytes, start: int, stop: int) -> bytes:
    """Samples `start`…`stop` of a piece of PCM."""
    return pcm[start * SAMPLE_BYTES : stop * SAMPLE_BYTES]


def faded_out(pcm: bytes | memoryview) -> bytes:
    """PCM that falls to silence in a raised cosine over its whole length."""
    samples = np.frombuffer(pcm, dtype=PCM_DTYPE)
    turn = np.arange(1, len(samples) + 1) / (len(samples) + 1)
    return bytes((samples * (0.5 + 0.5 * np.cos(np.pi * turn))).astype(PCM_DTYPE).tobytes())


@dataclass(slots=True)
class PcmCutter:
    """Cuts a stream of PCM into pieces of `samples` samples.

    `push` gives every piece that is complete; `rest` gives what is left over, which may be
    nothing. Cutting gives the same pieces however the input was divided.
    """

    samples: int
    _held: bytearray = field(default_factory=bytearray)

    def push(self, pcm: bytes) -> Iterator[bytes]:
        """Complete pieces, oldest first."""
        self._held += pcm
        size = self.samples * SAMPLE_BYTES
        whole = len(self._held) // size * size
        view = bytes(self._held[:whole])
        del self._held[:whole]
        for at in range(0, whole, size):
            yield view[at : at + size]

    def rest(self) -> bytes:
        """What no piece has carried yet; the cutter is empty afterwards."""
        left = bytes(self._held)
        self._held.clear()
        return left


#: quieter than this is not yet sound: -50 dB of full scale
_AUDIBLE = 0.003


def is_audible(pcm: bytes) -> bool:
    """Whether any sample is louder than -50 dB of full scale."""
    samples = from_pcm(pcm)
    return bool(samples.size) and float(np.abs(samples).max()) > _AUDIBLE
