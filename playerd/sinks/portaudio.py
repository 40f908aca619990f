"""The real sink: a sound device, through PortAudio. Shell.

The stream stays open and stopped while there is nothing to play, and is started with data in
hand: a stream that runs on silence would delay every start by its whole depth. PortAudio does not
play out what it holds when told to stop; so the end of speech is followed by silence until the
last sample has left the device, and then the stream is aborted.

The audio thread sees only `Feed`. Everything else runs on the Trio side; PortAudio is called in
a worker thread, one call at a time, and a call that does not come back is left behind. Where it
was about a stream, the stream is left with it: PortAudio's start never returns if the device
disappears under it (ALSA: its audio thread ends and keeps the lock that the start waits for).
"""

from __future__ import annotations

import atexit
import math
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import structlog
import trio

from engine.audio import PCM_DTYPE, SAMPLE_RATE, ms_to_samples, pcm_samples

from .. import priority
from .base import DeviceUnavailable
from .feed import Feed

T = TypeVar("T")
log = structlog.get_logger("sound")

#: 20 ms a block and 60 ms in the device: measured to be without holes beside a busy machine
BLOCK_SAMPLES = 480
BLOCK_S = BLOCK_SAMPLES / SAMPLE_RATE
LATENCY_S = 0.06
#: between the Trio side and the audio thread; outlasts any pause of the event loop
RING_MS = 200
#: Stop means silence within 100 ms. A fade is out after 65 to 100; if it is not out yet, it is cut.
STOP_LIMIT_S = 0.095
#: how often to look what the audio thread has done: it must not spend its time on waking us
POLL_S = 0.005
#: A call of PortAudio takes some milliseconds, opening up to a hundred; after this it hangs.
CALL_LIMIT_S = 3.0
#: the same for starting, aborting and closing a stream, which take one or two
QUICK_LIMIT_S = 0.4
#: so many calls about streams may hang at once; each holds a thread until it returns, if ever
LEFT_LIMIT = 16


class PortAudioSink:
    """See `base.Sink`.

    Args:
        device: name or part of the name, or number, of the device; None for the system's default.
    """

    name = "portaudio"

    def __init__(self, device: str | None = None) -> None:
        self.device: str | None = None
        self.written_samples = 0
        self._wanted: str | int | None = int(device) if device and device.isdigit() else device
        self._library: Any = None
        self._stream: Any = None
        self._running = False
        self._feed = Feed(BLOCK_SAMPLES, 0)
        self._prime_samples = 0
        self._lost = range(0)  # positions of samples that a device took with it when it went
        self._calls = trio.CapacityLimiter(1)
        self._left = 0  # calls that hang, and that nobody waits for
        self._called_s = math.inf  # when the call began that others wait for

    @property
    def hangs_s(self) -> float:
        """How long the next call would have had to wait by now; of no use after `CALL_LIMIT_S`."""
        return max(time.monotonic() - self._called_s, 0.0)

    # --- Sink ---------------------------------------------------------------------------------

    async def open(self) -> None:
        """See `Sink`."""
        if self.device is None:
            self.device = await self._call(self._open)

    async def write(self, pcm: bytes) -> None:
        """See `Sink`."""
        rest = memoryview(pcm)
        while True:
            self._check()
            taken = self._feed.ring.write(rest[: self._feed.ring.writable_bytes])
            self.written_samples += pcm_samples(rest[:taken])
            rest = rest[taken:]
            if not self._running and self._feed.waiting_samples >= self._prime_samples:
                await self._call_stream(self._start)
            if not rest:
                break
            await trio.sleep(POLL_S)
        await trio.lowlevel.checkpoint()

    async def dry(self) -> None:
        """See `Sink`."""
        self._check()
        if self._feed.waiting_samples and not self._running:
            # Little as it is, no more will come soon.
            await self._call_stream(self._start)
        while self._running and not (self._feed.silent and not self._feed.waiting_samples):
            await trio.sleep(POLL_S)
            self._check()
        await trio.lowlevel.checkpoint()

    async def drain(self) -> None:
        """See `Sink`."""
        await self.dry()
        await self.played(self.written_samples)
        if self._running:
            # Not to be left half done: what is written meanwhile would be aborted with the rest.
            with trio.CancelScope(shield=True):
                await self._call_stream(self._abort)
        self._report()

    async def played(self, position: int) -> None:
        """See `Sink`."""
        while (left_s := self._left_s(position)) > 0:  # noqa: ASYNC110 - see `POLL_S`
            await trio.sleep(min(left_s, 2 * BLOCK_S))
        await trio.lowlevel.checkpoint()

    async def stop(self) -> int:
        """See `Sink`."""
        self._check()
        if self._running:
            with trio.move_on_after(STOP_LIMIT_S):  # a late fade is cut off
                self._feed.fade = True
                while self._feed.fade and not self._feed.ended:  # noqa: ASYNC110 - see `POLL_S`
                    await trio.sleep(POLL_S)
                _, leaves_s = self._feed.mark
                await trio.sleep(max(leaves_s - time.monotonic(), 0.0))
        await self._call_stream(self._abort)
        heard, _ = self._feed.mark
        self._give_up()
        return heard

    async def aclose(self) -> None:
        """See `Sink`."""
        try:
            if self.device is not None:
                await self.stop()
            await self._call_stream(self._close)
        except DeviceUnavailable:
            pass  # it is gone, or hangs; so it is not ours any more
        finally:
            self._lose()

    def _report(self) -> None:
        """What the audio thread could not say itself."""
        feed = self._feed
        if feed.waits:
            log.warning("the sound device had to wait for this machine", times=feed.waits)
        if feed.failures:
            log.error("the audio callback failed", blocks=feed.failures)
        feed.waits = feed.failures = 0

    # --- positions ----------------------------------------------------------------------------

    def _left_s(self, position: int) -> float:
        """How long until the samples before `position` have left the device; 0 if they have."""
        if position - 1 in self._lost:
            raise DeviceUnavailable("The sound device went away before it had played everything.")
        handed, leaves_s = self._feed.mark
        if handed < position:
            self._check()
            return POLL_S
        # A block later, because the device's word is good to some milliseconds only.
        left_s = leaves_s + BLOCK_S - (handed - position) / SAMPLE_RATE - time.monotonic()
        return max(left_s, 0.0)

    def _give_up(self) -> None:
        """What was written and not played is forgotten; the stream must not be running."""
        self._feed.ring.discard()
        self._feed.fade = False
        self._feed.mark = (self.written_samples, 0.0)

    def _lose(self) -> None:
        """The device is gone, and with it what it held."""
        handed, leaves_s = self._feed.mark
        unheard_s = min(max(leaves_s - time.monotonic(), 0.0), 1.0)
        first = handed - round(unheard_s * SAMPLE_RATE)
        if first < self.written_samples:
            self._lost = range(max(first, self._lost.stop), self.written_samples)
        self.device = None
        self._running = False
        self._give_up()

    def _check(self) -> None:
        if self.device is not None and self._feed.ended and self._running:
            self._lose()
            raise DeviceUnavailable("The sound device went away.")
        if self.device is None:
            raise DeviceUnavailable("The sound device is not open.")

    # --- PortAudio, in a worker thread --------------------------------------------------------

    async def _call(self, action: Callable[[], T], limit_s: float = CALL_LIMIT_S) -> T:
        """Runs `action` in the worker thread; if it hangs, it is left to itself.

        The next call then waits for it, and so hangs for as long.
        """
        with trio.move_on_after(limit_s):
            return await trio.to_thread.run_sync(
                partial(self._work, action, self._calls),
                abandon_on_cancel=True,
                limiter=self._calls,
            )
        raise DeviceUnavailable("The sound system does not answer; see whether it is running.")

    async def _call_stream(self, action: Callable[[], None]) -> None:
        """The same for an action on the stream; if it hangs, the next call does not wait for it."""
        try:
            await self._call(action, QUICK_LIMIT_S)
        except DeviceUnavailable:
            if self._calls.borrowed_tokens and self._left < LEFT_LIMIT:
                self._left += 1
                self._called_s = math.inf
                self._calls = trio.CapacityLimiter(1)
                self._stream = None
                self._running = False
            raise

    def _work(self, action: Callable[[], T], calls: trio.CapacityLimiter) -> T:
        self._called_s = time.monotonic()
        try:
            return action()
        finally:
            if calls is self._calls:
                self._called_s = math.inf
            else:
                self._left -= 1

    def _open(self) -> str:
        self._close()  # PortAudio looks for devices only when it is initialised
        sd = self._library = self._library or _load()
        try:
            if not sd._initialized:
                sd._initialize()
            feed = Feed(ms_to_samples(RING_MS), self.written_samples, priority.raise_thread)
            stream = sd.RawOutputStream(
                samplerate=SAMPLE_RATE, blocksize=BLOCK_SAMPLES, latency=LATENCY_S,
                channels=1, dtype=PCM_DTYPE.name, device=self._wanted,
                callback=feed.callback, finished_callback=feed.finished,
            )  # fmt: skip
            name = str(sd.query_devices(stream.device)["name"])
        except (ValueError, sd.PortAudioError) as error:
            raise DeviceUnavailable(self._sentence(error)) from None
        # A start takes a block more than the device holds, at once.
        whole = round(stream.latency * SAMPLE_RATE) + BLOCK_SAMPLES
        self._prime_samples = min(whole, ms_to_samples(RING_MS))
        self._feed, self._stream = feed, stream
        return name

    def _sentence(self, error: Exception) -> str:
        if self._wanted is not None:
            return (
                f"The sound device {self._wanted!r} cannot be used ({error}); "
                f"python -m sounddevice lists those there are."
            )
        return f"There is no sound device ({error}); connect one or start the sound server."

    def _start(self) -> None:
        if self._running:
            return
        stream = self._stream
        self._feed.ended = self._feed.silent = False
        try:
            stream.start()
        except self._library.PortAudioError as error:
            raise DeviceUnavailable(f"The sound device does not start ({error}).") from None
        self._running = stream is self._stream  # not if it hung, and was given up

    def _abort(self) -> None:
        if self._running:
            self._running = False
            self._stream.abort()

    def _close(self) -> None:
        self._running = False
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        # It would close the streams that hang, and so hang itself.
        if self._library is not None and self._library._initialized and not self._left:
            with suppress(self._library.PortAudioError):
                self._library._terminate()


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
