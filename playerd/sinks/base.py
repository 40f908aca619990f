"""What a sink is. Core.

A sink is given PCM (s16le, mono, 24 kHz) and plays it without a break as long as it is given
enough. All positions are in samples, counted from the first one the sink was ever given.

One task calls `open`, `write`, `dry`, `drain`, `stop` and `aclose`; others may await `played` and
`devices`, and set `volume` and `wanted` at any time. `tests/playerd/test_sink_contract.py` holds all sinks to the rules
written here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

#: What a device is given at a time, and once more than its depth when it begins. Measured: the longest
#: block that leaves a stop below 100 ms, and the shortest without holes.
BLOCK_S = 0.02


class DeviceUnavailable(Exception):
    """There is no device, or it went away.

    Args:
        message: one clear sentence for a person: what is wrong and what helps.
        slept_s: for how long the machine was asleep, if that is the reason.
    """

    def __init__(self, message: str, *, slept_s: float = 0.0) -> None:
        super().__init__(message)
        self.message = message
        self.slept_s = slept_s


class Sink(Protocol):
    """Plays what it is given.

    A device may go away at any time. What it has not played is kept then, and follows as soon as
    the sink is open again: from where it was heard.

    Attributes:
        name: which sink this is: `portaudio`, `wav`, `null`.
        reopens: it may be closed while it rests, and goes on when it is open again.
        device: what people call the device; None while it is not open.
        wanted: which device is to be opened, from the next `open` after `aclose` on: its name, part
            of it, or its number; None is the system's default. A sink that has only one has no
            choice.
        fade_samples: so many before the position that the last `stop` gave were heard fading.
        volume: from 0.0 to 1.0, which leaves all samples as they are. What was written and not
            played may be scaled too. Anything else is a ValueError.
        on_change: called when `device`, `stalled`, `depth_ms` or `underruns` have changed.
    """

    name: str
    reopens: bool
    device: str | None
    wanted: str | None
    fade_samples: int
    volume: float
    on_change: Callable[[], object]

    @property
    def written_samples(self) -> int:
        """Samples given to it so far."""

    @property
    def heard_samples(self) -> int:
        """Samples that have left the device by now, as far as it tells; good to some 20 ms.

        Those that `stop` gave up count. It never falls, and stands still while the device does.
        """

    @property
    def stalled(self) -> bool:
        """The device is there and should play, but stands still; it may go on by itself."""

    @property
    def underruns(self) -> int:
        """How often so far the device had played all it held because this machine came too late."""

    @property
    def depth_ms(self) -> float:
        """How much the device is given ahead; 0 while it is not open, or has no pace."""

    async def open(self) -> None:
        """Opens the device, looking afresh for it. Nothing happens if it is open.

        Raises:
            DeviceUnavailable: there is none; try again later.
        """

    async def write(self, pcm: bytes) -> None:
        """Takes PCM; waits while enough is in hand. Do not cancel it but to `stop`.

        Raises:
            DeviceUnavailable: it is not open, and nothing was taken; or it went away meanwhile,
                and all was taken.
        """

    async def dry(self) -> None:
        """Waits until the device must play silence because it was given nothing more.

        To be cancelled when there is more. A sink that has no pace of its own waits for ever.

        Raises:
            DeviceUnavailable: it is no longer there.
        """

    async def drain(self) -> None:
        """Waits until all samples have left the device, and then lets it rest.

        May be cancelled at any time; samples written then follow without a break, if there was none.

        Raises:
            DeviceUnavailable: it is no longer there.
        """

    async def played(self, position: int) -> None:
        """Waits until the samples before `position` have left the device; never returns early.

        Returns too when they were given up by `stop`. Waits on while there is no device.
        """

    async def stop(self, *, cut: bool = False) -> int:
        """Silence within 100 ms, without a click; gives up what was not heard.

        Does so too if there is no device, or it goes away meanwhile. If it is to `cut`, there is
        silence at once, with a click.

        Returns the position up to which samples were heard; all later ones count as played.
        """

    async def devices(self) -> tuple[str, ...]:
        """Names of the devices there are now, each of which can be `wanted`.

        Does not disturb what plays. Empty too if that cannot be told.
        """

    async def aclose(self) -> None:
        """Closes the device, as after `stop`. Never raises; may be called twice."""
