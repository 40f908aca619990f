"""A sink whose device comes and goes. Shell.

Wraps a `Sink` for the player: says once that there is no device, looks for one every now and
then, and knows what is to be done with a sink that failed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import structlog
import trio

from .sinks.base import DeviceUnavailable, Sink

log = structlog.get_logger("player")

#: how often to look for a sound device while there is none
LOOK_AGAIN_S = 2.0
#: how long the sink may take to fall silent when the player ends
GOODBYE_S = 0.5


class Device:
    """What the player plays on.

    Args:
        sink: opened and closed here.
        on_change: called when the device has come or gone.

    Attributes:
        sink: to write to while the device is `present`.
    """

    def __init__(self, sink: Sink, on_change: Callable[[], None]) -> None:
        self.sink = sink
        self._on_change = on_change
        self._looked_s = -math.inf
        self._missed = False

    @property
    def present(self) -> bool:
        """Whether there is one, as far as is known."""
        return self.sink.device is not None

    async def look(self) -> None:
        """Looks for a device, unless it was looked for a moment ago: then it waits first."""
        await trio.sleep_until(self._looked_s + LOOK_AGAIN_S)
        self._looked_s = trio.current_time()
        try:
            await self.sink.open()
        except DeviceUnavailable as error:
            self._miss(error)
            return
        if self._missed:
            log.info("sound device found", device=self.sink.device)
        self._missed = False
        self._on_change()

    async def lose(self, error: DeviceUnavailable) -> None:
        """The sink says that it cannot go on. It is closed, and can be looked for again."""
        await self.sink.aclose()
        self._miss(error)

    def _miss(self, error: DeviceUnavailable) -> None:
        if not self._missed:
            log.warning(error.message)
        self._missed = True
        self._on_change()

    async def silence(self) -> int:
        """Silences the sink; gives the position up to which it was heard."""
        if self.present:
            try:
                return await self.sink.stop()
            except DeviceUnavailable as error:
                await self.lose(error)
        return self.sink.written_samples

    async def aclose(self) -> None:
        """Silences and closes the sink, in a limited time even if it hangs or we are cancelled."""
        with trio.move_on_after(GOODBYE_S, shield=True):
            await self.sink.aclose()
