"""A sink whose device comes and goes. Shell.

Wraps a `Sink` for the player: says once that there is no device, looks for one every now and
then, knows what is to be done with a sink that failed, and leaves the device to others for a while.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import structlog
import trio

from engine.errors import InvalidRequest

from .sinks.base import DeviceUnavailable, Sink
from .sinks.watch import LONG_SLEEP_S

log = structlog.get_logger("player")

#: How long to wait before looking for a sound device again: twice as long each time, up to the most.
#: One that was there for longer than the most is looked for at once when it is lost.
LOOK_AGAIN_S = 0.25
LOOK_AGAIN_MOST_S = 2.0
#: what stands for the system's default where a device is named
DEFAULT = "default"
#: how long the sink may take to fall silent when the player ends
GOODBYE_S = 0.5


class Device:
    """What the player plays on.

    Args:
        sink: opened and closed here.
        on_change: called when the device has come or gone, stands still or goes on.
        on_long_sleep: called when the machine slept so long while something played that nobody
            expects that to go on by itself.

    Attributes:
        sink: to write to while the device is `present`.
        left: what the device is called that others may have now, until it is looked for again.
    """

    def __init__(
        self,
        sink: Sink,
        on_change: Callable[[], None],
        on_long_sleep: Callable[[], None] = lambda: None,
    ) -> None:
        self.sink = sink
        self.left: str | None = None
        sink.on_change = on_change
        self._on_change = on_change
        self._on_long_sleep = on_long_sleep
        self._looked_s = -math.inf
        self._wait_s = LOOK_AGAIN_S
        self._missed = False

    @property
    def present(self) -> bool:
        """Whether there is one, as far as is known."""
        return self.sink.device is not None

    @property
    def name(self) -> str | None:
        """What people call the device that is there, or was and is left to others; else None."""
        return self.sink.device or self.left

    @property
    def stalled(self) -> bool:
        """Whether it stands still though it should play; it may go on by itself."""
        return self.sink.stalled

    async def look(self) -> None:
        """Looks for a device, unless it was looked for a moment ago: then it waits first."""
        if trio.current_time() > self._looked_s + LOOK_AGAIN_MOST_S:
            self._wait_s = LOOK_AGAIN_S
        else:
            await trio.sleep_until(self._looked_s + self._wait_s)
            self._wait_s = min(2 * self._wait_s, LOOK_AGAIN_MOST_S)
        try:
            await self.sink.open()
        except DeviceUnavailable as error:
            self._miss(error)
            return
        finally:
            self._looked_s = trio.current_time()
            self.left = None
        if self._missed:
            log.info("sound device found", device=self.sink.device)
        self._missed = False
        self._on_change()

    @property
    def may_be_left(self) -> bool:
        """Whether `leave` makes a difference, and costs nothing of what was played."""
        return self.present and self.sink.reopens

    async def leave(self) -> None:
        """Nothing is to be played for some time: other programs may have the device.

        It is there as before, as far as is known. Some take it for themselves as long as it is open.
        """
        self.left, self._looked_s = self.sink.device, -math.inf
        log.info("the sound device is left to others", device=self.left)
        with trio.CancelScope(shield=True):
            await self.sink.aclose()
        self._on_change()

    async def lose(self, error: DeviceUnavailable) -> None:
        """The sink says that it cannot go on. It is closed, and can be looked for again."""
        if self.present:  # it could not itself let go of what there is
            await self.sink.aclose()
        self._miss(error)
        if error.slept_s > LONG_SLEEP_S:
            self._on_long_sleep()

    def _miss(self, error: DeviceUnavailable) -> None:
        if not self._missed:
            log.warning(error.message)
        self._missed = True
        self._on_change()

    async def named(self, name: str) -> str | None:
        """The whole name of a device that can be chosen; None is the system's default.

        Args:
            name: of it, or part of that; "default" is the system's.

        Raises:
            InvalidRequest: there is none of that name.
        """
        if name == DEFAULT:
            return None
        there = await self.sink.devices()
        found = [each for each in there if each == name] or [
            each for each in there if name.casefold() in each.casefold()
        ]
        if not found or not name.strip():
            known = ", ".join(there) or "none"
            raise InvalidRequest(
                f"There is no sound device {name!r}; there are: {known}.", param="device"
            )
        return found[0]

    async def choose(self, name: str | None) -> None:
        """Plays on another device from now on; the sink must be silent.

        Args:
            name: as `named` gave it.
        """
        self.sink.wanted = name
        self._looked_s, self.left = -math.inf, None
        await self.sink.aclose()
        self._on_change()

    async def silence(self) -> int:
        """Silences the sink; gives the position up to which it was heard."""
        return await self.sink.stop()

    async def aclose(self) -> None:
        """Silences and closes the sink, in a limited time even if it hangs or we are cancelled."""
        with trio.move_on_after(GOODBYE_S, shield=True):
            await self.sink.aclose()
