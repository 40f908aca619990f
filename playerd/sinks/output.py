"""An output stream of PortAudio: all that calls the library, but the audio thread. Shell.

Every method but `leave` runs in one worker thread. A call about a stream may hang: PortAudio's
start never returns if the device disappears under it (ALSA: its audio thread ends and keeps the
lock that the start waits for), and nothing about a stream returns while the sound server does not
answer. Then the stream is left, with the thread.
"""

from __future__ import annotations

import atexit
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from engine.audio import PCM_DTYPE, SAMPLE_RATE

from .. import priority
from .base import BLOCK_S, DeviceUnavailable
from .feed import Feed

log = structlog.get_logger("sound")

#: The ring outlasts any pause of the event loop, and holds more than a start takes at once.
RING_S = 0.2
RING_MORE_S = 0.1
#: what PortAudio says of a rate and of a number of channels that a device does not take
REFUSED = {-9997, -9998}
#: rates to try when a device refuses ours, after the one it prefers
OTHER_RATES = (48_000, 44_100)


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream that was opened.

    Attributes:
        name: what people call the device.
        feed: where it fetches its blocks; a new one.
        latency_s: how much the device holds.
    """

    name: str
    feed: Feed
    latency_s: float


class Output:
    """At most one stream.

    Attributes:
        running: it was started, and neither aborted nor left.
    """

    def __init__(self) -> None:
        self.running = False
        self._wanted: str | int | None = None
        self._library: Any = None
        self._stream: Any = None

    def open(
        self, wanted: str | None, latency_s: float, volume: float, *, fresh: bool, hung: bool
    ) -> Opened:
        """Opens a stream, and closes the one that was open.

        Args:
            wanted: name or part of the name, or number, of the device; None for the system's
                default.
            latency_s: how much the device is to hold.
            volume: what the feed begins with.
            fresh: look for devices afresh; PortAudio does so only when it is initialised.
            hung: calls hang, so that the library cannot be initialised afresh.

        Raises:
            DeviceUnavailable: there is no such device.
        """
        self.close(fresh=fresh, hung=hung)
        self._wanted = int(wanted) if wanted and wanted.isdecimal() else wanted
        sd = self._library = self._library or _load()
        try:
            if not sd._initialized:
                sd._initialize()
            stream, feed = self._first_accepted(sd, latency_s, volume)
            name = str(sd.query_devices(stream.device)["name"])
        except (ValueError, sd.PortAudioError) as error:
            raise DeviceUnavailable(self._sentence(error)) from None
        feed.depth_s = stream.latency
        self._stream = stream
        return Opened(name, feed, stream.latency)

    def _first_accepted(self, sd: Any, latency_s: float, volume: float) -> tuple[Any, Feed]:
        """What we have, if the device takes it; else something that can be made of it."""
        first: Exception | None = None
        for rate, channels in self._forms(sd):
            ring_s = max(RING_S, latency_s + RING_MORE_S)
            feed = Feed(
                round(ring_s * rate),
                rate=rate,
                channels=channels,
                volume=volume,
                on_first_callback=priority.raise_thread,
            )
            try:
                stream = sd.RawOutputStream(
                    samplerate=rate, blocksize=round(BLOCK_S * rate), latency=latency_s,
                    channels=channels, dtype=PCM_DTYPE.name, device=self._wanted,
                    callback=feed.callback, finished_callback=feed.finished,
                )  # fmt: skip
            except sd.PortAudioError as error:
                first = first or error
                if not REFUSED & set(error.args[1:2]):
                    break
            else:
                if first is not None:
                    log.info("the sound device takes another form", rate=rate, channels=channels)
                return stream, feed
        assert first is not None
        raise first

    def _forms(self, sd: Any) -> Any:
        yield from ((SAMPLE_RATE, 1), (SAMPLE_RATE, 2))
        preferred = round(sd.query_devices(self._wanted, "output")["default_samplerate"])
        for rate in dict.fromkeys((preferred, *OTHER_RATES)):
            yield from ((rate, 1), (rate, 2))

    def _sentence(self, error: Exception) -> str:
        if self._wanted is not None:
            return (
                f"The sound device {self._wanted!r} cannot be used ({error}); "
                f"python -m playerd.sinks.listing lists those there are."
            )
        return f"There is no sound device ({error}); connect one or start the sound server."

    def start(self, feed: Feed) -> None:
        """Starts the stream; what is to be played first must be in the feed.

        Raises:
            DeviceUnavailable: it does not start.
        """
        if self.running:
            return
        stream = self._stream
        feed.begin()
        try:
            stream.start()
        except self._library.PortAudioError as error:
            raise DeviceUnavailable(f"The sound device does not start ({error}).") from None
        if stream is self._stream:
            self.running = True
        else:  # it hung, and was left
            stream.abort()

    def abort(self) -> None:
        """Stops the stream at once; what the device holds is not played."""
        if self.running:
            self.running = False
            self._stream.abort()

    def close(self, *, fresh: bool, hung: bool) -> None:
        """Closes the stream; if `fresh`, the library too, but not while calls hang.

        It would close the streams that hang, and so hang itself.
        """
        self.running = False
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if fresh and not hung and self._library is not None and self._library._initialized:
            with suppress(self._library.PortAudioError):
                self._library._terminate()

    def leave(self) -> None:
        """A call hangs: the stream is left with it."""
        self.running = False
        self._stream = None


def _load() -> Any:
    """The sounddevice module.

    Raises:
        DeviceUnavailable: it does not find the PortAudio library.
    """
    try:
        import sounddevice  # not before it is needed: it looks for the library and for devices
    except OSError:
        raise DeviceUnavailable(
            "PortAudio is not installed, so nothing can be heard; on Debian and Ubuntu, "
            "`sudo apt install libportaudio2` brings it."
        ) from None
    # We close what we open. At the exit of a process whose sound system hangs this would hang too.
    atexit.unregister(sounddevice._exit_handler)
    return sounddevice
