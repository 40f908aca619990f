"""What a sink was given and nobody has heard yet, on its way to the device. Core.

All of it can be sent again from any place that was not heard: to a device that is opened afresh.
"""

from __future__ import annotations

from engine.audio import SAMPLE_BYTES, SAMPLE_RATE, ms_to_samples, pcm_samples

from ..ring import Ring
from .convert import Converter

#: what is converted at a time
PIECE_BYTES = ms_to_samples(20) * SAMPLE_BYTES


class Unheard:
    """The way from samples that were written to frames in the ring of a `Feed`.

    Attributes:
        written_samples: how many samples were ever given to it.
    """

    def __init__(self) -> None:
        self.written_samples = 0
        self._kept = bytearray()  # the newest of what was written, at least all that is unheard
        self._backlog = bytearray()  # of that, what was not yet converted ...
        self._ready = bytearray()  # ... and what was, and is not yet in the ring
        self._converter = Converter(SAMPLE_RATE)

    @property
    def waits(self) -> bool:
        """Whether there is anything that is not in the ring."""
        return bool(self._backlog or self._ready)

    @property
    def _kept_from(self) -> int:
        return self.written_samples - len(self._kept) // SAMPLE_BYTES

    def add(self, pcm: bytes, heard: int) -> None:
        """More samples; those before the position `heard` will not be asked for again."""
        del self._kept[: max(heard - self._kept_from, 0) * SAMPLE_BYTES]
        self._kept += pcm
        self._backlog += pcm
        self.written_samples += pcm_samples(pcm)

    def go_to(self, position: int, rate: int, frames: int) -> None:
        """The next sample in the ring is to be the one at `position`.

        If that was said to be heard, because the device has changed its word, it is the first one
        that was not.

        Args:
            position: in samples.
            rate: of the device.
            frames: how many the device was given before.
        """
        position = max(position, self._kept_from)
        self._converter = Converter(rate, position, frames)
        self._ready.clear()
        del self._kept[: (position - self._kept_from) * SAMPLE_BYTES]
        self._backlog[:] = self._kept

    def pour(self, ring: Ring) -> None:
        """Moves into the ring what there is room for."""
        while self.waits:
            if not self._ready:
                self._ready += self._converter.put(bytes(self._backlog[:PIECE_BYTES]))
                del self._backlog[:PIECE_BYTES]
            taken = ring.write(bytes(self._ready[: ring.writable_bytes]))
            del self._ready[:taken]
            if self._ready:
                break

    def end(self, ring: Ring) -> None:
        """Nothing follows for now, so that even the last sample can be converted."""
        self._ready += self._converter.end()
        self.pour(ring)

    def position(self, frames: int) -> int:
        """Before which sample the device is when it has been given, or has played, so many."""
        return self._converter.position(frames)

    def frames(self, position: int) -> int:
        """After how many frames all samples before `position` have been played."""
        return self._converter.frames(position)
