"""The silent sink: takes samples at the pace of the clock and drops them. Shell.

It behaves like a device that has a buffer of 100 ms: for machines without sound, and for tests,
where the clock is virtual.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from engine.audio import SAMPLE_RATE, pcm_samples

from .base import DeviceUnavailable
from .gain import checked

#: how much it takes ahead of what it "plays"
DEPTH_S = 0.1


class NullSink:
    """See `base.Sink`."""

    name = "null"
    reopens = True
    stalled = False
    underruns = 0
    fade_samples = 0

    def __init__(self) -> None:
        self.device: str | None = None
        self.wanted: str | None = None
        self.written_samples = 0
        self.on_change: Callable[[], object] = lambda: None
        self._volume = 1.0
        self._silent_at_s = 0.0  # when all that was written will have been played

    @property
    def heard_samples(self) -> int:
        """See `Sink`."""
        left_s = max(self._silent_at_s - trio.current_time(), 0.0)
        return self.written_samples - round(left_s * SAMPLE_RATE)

    @property
    def volume(self) -> float:
        """See `Sink`. Nobody hears it."""
        return self._volume

    @volume.setter
    def volume(self, volume: float) -> None:
        self._volume = checked(volume)

    @property
    def depth_ms(self) -> float:
        """See `Sink`."""
        return 0.0 if self.device is None else DEPTH_S * 1000

    async def open(self) -> None:
        """See `Sink`. Always succeeds."""
        self.device = "null"
        await trio.lowlevel.checkpoint()

    async def write(self, pcm: bytes) -> None:
        """See `Sink`."""
        self._check()
        self.written_samples += pcm_samples(pcm)
        self._silent_at_s = max(self._silent_at_s, trio.current_time())
        self._silent_at_s += pcm_samples(pcm) / SAMPLE_RATE
        await trio.sleep_until(self._silent_at_s - DEPTH_S)

    async def dry(self) -> None:
        """See `Sink`."""
        await self.drain()

    async def drain(self) -> None:
        """See `Sink`."""
        self._check()
        await trio.sleep_until(self._silent_at_s)
        self._check()

    async def played(self, position: int) -> None:
        """See `Sink`."""
        while (left_s := self._left_s(position)) > 0:  # noqa: ASYNC110 - time is all it takes
            await trio.sleep(left_s)
        await trio.lowlevel.checkpoint()

    async def stop(self, *, cut: bool = False) -> int:
        """See `Sink`."""
        heard = self.heard_samples
        self._silent_at_s = trio.current_time()
        await trio.lowlevel.checkpoint()
        return heard

    async def devices(self) -> tuple[str, ...]:
        """See `Sink`. This one."""
        await trio.lowlevel.checkpoint()
        return (self.name,)

    async def aclose(self) -> None:
        """See `Sink`."""
        self.device = None
        self._silent_at_s = 0.0
        await trio.lowlevel.checkpoint()

    def _left_s(self, position: int) -> float:
        after_s = (self.written_samples - position) / SAMPLE_RATE
        return self._silent_at_s - after_s - trio.current_time()

    def _check(self) -> None:
        if self.device is None:
            raise DeviceUnavailable("The null sink is closed.")
