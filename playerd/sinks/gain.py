"""How loud: a factor that changes without a click. Core."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, SAMPLE_RATE, ms_to_samples

#: from silence to full volume, or back
RAMP_MS = 20.0


class Gain:
    """Scales PCM in place. At full volume it leaves every sample as it is, and costs nothing.

    Args:
        volume: from 0.0 to 1.0; no sample can become louder than it was.
        rate: samples a second.

    Attributes:
        volume: what it goes to; may be set by another thread.
    """

    def __init__(self, volume: float = 1.0, rate: int = SAMPLE_RATE) -> None:
        self.volume = volume
        self._now = volume
        self._step = SAMPLE_RATE / rate / ms_to_samples(RAMP_MS)

    def apply(self, pcm: memoryview) -> None:
        """Scales the next piece. It does not matter into what pieces PCM is divided."""
        volume, now = self.volume, self._now
        if now == volume == 1.0 or not len(pcm):
            return
        samples = np.frombuffer(pcm, PCM_DTYPE)
        factor: float | NDArray[np.float64] = now
        if now != volume:
            way = np.arange(1, len(samples) + 1) * self._step
            ramp = np.minimum(now + way, volume) if volume > now else np.maximum(now - way, volume)
            self._now = float(ramp[-1])
            factor = ramp
        samples[:] = np.rint(samples * factor)


def checked(volume: float) -> float:
    """The volume, if it is one.

    Raises:
        ValueError: it is not from 0.0 to 1.0.
    """
    if not 0.0 <= volume <= 1.0:
        raise ValueError(f"A volume is from 0.0 to 1.0, not {volume}.")
    return float(volume)
