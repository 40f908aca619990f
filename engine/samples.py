"""PCM as bytes: samples, milliseconds, pieces. Core.

Everything that leaves the engine is signed 16-bit little-endian mono at 24 kHz, the rate
Kokoro-82M was trained at. This and `audio`, which has the rest and all of this too, are the only
modules that multiply by a sample width. What needs no arrays is here, because a command that is
over in a moment has no time to load numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SAMPLE_RATE = 24_000
SAMPLE_BYTES = 2


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


def cut(pcm: bytes, start: int, stop: int) -> bytes:
    """Samples `start`…`stop` of a piece of PCM."""
    return pcm[start * SAMPLE_BYTES : stop * SAMPLE_BYTES]


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
