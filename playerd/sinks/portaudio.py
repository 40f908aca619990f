"""The real sink: a sound device, through PortAudio. Shell.

The stream stays open and stopped while there is nothing to play, and is started with data in
hand: a stream that runs on silence would delay every start by its whole depth. PortAudio does not
play out what it holds when told to stop; so the end of speech is followed by silence until the
last sample has left the device, and then the stream is aborted.

The audio thread sees only `Feed`, and PortAudio is called in a `Worker`'s thread only. Everything
else runs on the Trio side, in the task that writes: as long as the device plays, that task looks
every few milliseconds whether the device still does.

What was written is kept until it was heard. Whenever the device is lost or opened afresh, what
was not heard is played from there on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

import structlog
import trio

from engine.audio import SAMPLE_BYTES, SAMPLE_RATE, is_audible

from ..ladder import Ladder
from . import coreaudio, listing, sleep
from .base import BLOCK_S, DeviceUnavailable
from .feed import Feed
from .gain import checked
from .output import Opened, Output
from .unheard import Unheard
from .watch import Patience, Sleep, Watch
from .worker import Hangs, T, Worker

log = structlog.get_logger("sound")

#: Stop means silence within 100 ms. A fade is out after 80 to 98; if it is not out yet, it is cut.
STOP_LIMIT_S = 0.1
#: measured: what leaves the device has left it about so long before the device says so
EARLY_S = 0.004
#: how often to look what the audio thread has done: it must not spend its time on waking us
POLL_S = 0.005
#: how often to ask whether the machine slept, and whether another device is the default now
SLEEP_POLL_S = 0.5
DEFAULT_POLL_S = 1.0
#: A call of PortAudio takes some milliseconds, opening up to a hundred; after this it hangs.
CALL_LIMIT_S = 3.0
#: the same for starting, aborting and closing a stream, which take one or two
QUICK_LIMIT_S = 0.4
#: A device that has played nothing for so long may have gone to sleep.
RESTED_S = 5.0
#: how long the list of devices may take, which takes about half a second
LIST_LIMIT_S = 5.0


class PortAudioSink:
    """See `base.Sink`.

    Args:
        device: which one is `wanted` at first.
        lead_in_ms: so much silence comes first whenever the device has rested.
        default_output: gives what is the system's default, if PortAudio does not follow it.
        asleep_s: gives for how long the machine has been asleep, as `sleep.asleep_s`.
    """

    name = "portaudio"
    reopens = True

    def __init__(
        self,
        device: str | None = None,
        *,
        lead_in_ms: int = 0,
        default_output: Callable[[], int | None] = coreaudio.default_output,
        asleep_s: Callable[[], float] = sleep.asleep_s,
    ) -> None:
        self.device: str | None = None
        self.wanted = device
        self.fade_samples = 0
        self.on_change: Callable[[], object] = lambda: None
        self._volume = 1.0
        self._worker = Worker()
        self._output = Output()
        self._feed = Feed(1)
        self._lead_in_s = lead_in_ms / 1000
        self._prime_frames = 0
        self._unheard = Unheard()
        self._heard = 0  # as was last said
        self._ladder = Ladder()
        self._depth_s = 0.0
        self._watch = Watch(0.0)
        self._patience = Patience()
        self._asleep_s = asleep_s
        self._sleep = Sleep(asleep_s())
        self._sleep_due_s = 0.0
        self._default_output = default_output
        self._default: int | None = None
        self._default_due_s = 0.0
        self._moved = False  # another device is the default than the one that is open
        self._depth_asked_ms = 0
        self._underruns = 0
        self._reported = 0  # of them
        self._waits = self._failures = 0  # of the feed's, that were looked at

    @property
    def hangs_s(self) -> float:
        """How long the next call would have had to wait by now; of no use after `CALL_LIMIT_S`."""
        return self._worker.busy_s

    # --- Sink ---------------------------------------------------------------------------------

    @property
    def written_samples(self) -> int:
        """See `Sink`."""
        return self._unheard.written_samples

    @property
    def heard_samples(self) -> int:
        """See `Sink`. Between two blocks the clock says how much of the device's word is true."""
        self._heard = max(self._heard, self._heard_position(self._alive_s()))
        return self._heard

    @property
    def volume(self) -> float:
        """See `Sink`."""
        return self._volume

    @volume.setter
    def volume(self, volume: float) -> None:
        self._volume = self._feed.gain.volume = checked(volume)

    @property
    def underruns(self) -> int:
        """See `Sink`."""
        return self._underruns

    @property
    def stalled(self) -> bool:
        """See `Sink`."""
        return self._watch.stalled

    @property
    def depth_ms(self) -> float:
        """See `Sink`."""
        return self._depth_s * 1000

    async def open(self) -> None:
        """See `Sink`."""
        if self.device is None:
            await self._open(fresh=True)

    async def write(self, pcm: bytes) -> None:
        """See `Sink`."""
        self._check()
        due = self._is_due or self._feed.ran_dry
        if self._output.running and due and not is_audible(pcm):
            try:
                # Nobody hears it: the next start is with another stream, or anew.
                await self.drain()
            except DeviceUnavailable:
                self._unheard.add(pcm, self._heard_position(self._feed.called_s))
                raise
        self._unheard.add(pcm, self._heard_position(self._feed.called_s))
        while True:
            await self._look()
            self._unheard.pour(self._feed.ring)
            if not self._output.running and self._feed.waiting_frames >= self._prime_frames:
                await self._begin()
            if not self._unheard.waits:
                break
            await trio.sleep(POLL_S)
        await trio.lowlevel.checkpoint()

    async def dry(self) -> None:
        """See `Sink`."""
        self._check()
        while True:
            await self._look()
            self._unheard.pour(self._feed.ring)
            waiting = self._feed.waiting_frames
            if not self._unheard.waits and waiting <= 2 * BLOCK_S * self._feed.rate:
                # No sooner: if more is written in time, it is to follow without a break.
                self._unheard.end(self._feed.ring)
                waiting = self._feed.waiting_frames
            if not self._output.running:
                if not waiting:
                    break
                await self._begin()  # little as it is, no more will come soon
            elif self._feed.silent and not waiting and not self._unheard.waits:
                break
            await trio.sleep(POLL_S)
        await trio.lowlevel.checkpoint()

    async def drain(self) -> None:
        """See `Sink`."""
        while True:
            await self.dry()
            left_s = self._left_s(self.written_samples)
            if left_s <= 0:
                break
            await trio.sleep(min(left_s, BLOCK_S))
        if self._output.running:
            # Not to be left half done: what is written meanwhile would be aborted with the rest.
            with trio.CancelScope(shield=True):
                await self._quick(self._output.abort)
        self._rest()

    async def played(self, position: int) -> None:
        """See `Sink`."""
        while (left_s := self._left_s(position)) > 0:  # noqa: ASYNC110 - see `POLL_S`
            await trio.sleep(min(left_s, 2 * BLOCK_S))
        await trio.lowlevel.checkpoint()

    async def stop(self, *, cut: bool = False) -> int:
        """See `Sink`."""
        heard, self.fade_samples = None, 0
        if self._output.running and not cut and not self._watch.stalled:
            heard = await self._fade()
        if heard is None:
            heard = self._heard_position(self._alive_s())
        if self._output.running:
            try:
                with trio.CancelScope(shield=True):
                    await self._quick(self._output.abort)
            except DeviceUnavailable as error:
                log.warning(error.message)
        self._rest()
        self._go_to(self.written_samples)
        await trio.lowlevel.checkpoint()
        return heard

    async def devices(self) -> tuple[str, ...]:
        """See `Sink`. Asks in another process: PortAudio looks for devices only when it begins."""
        with trio.move_on_after(LIST_LIMIT_S):
            child = await trio.run_process(
                [sys.executable, "-m", listing.__name__],
                capture_stdout=True,
                stderr=subprocess.DEVNULL,
                check=False,
            )
            return tuple(child.stdout.decode(errors="replace").splitlines())
        log.warning("the sound system does not say which devices there are")
        return ()

    async def aclose(self) -> None:
        """See `Sink`."""
        try:
            await self.stop()
            await self._quick(partial(self._output.close, fresh=True, hung=self._worker.left > 0))
        except DeviceUnavailable:
            pass  # it hangs; so it is not ours any more
        finally:
            self._lose()

    # --- positions ----------------------------------------------------------------------------

    def _go_to(self, position: int) -> None:
        """The next sample to be played is this one; the stream must not be running."""
        feed = self._feed
        feed.ring.discard()
        feed.fade_by_s = None
        feed.mark = (feed.mark[0], 0.0)
        self._unheard.go_to(position, feed.rate, feed.mark[0])

    def _left_s(self, position: int) -> float:
        """How long until the samples before `position` have left the device; 0 if they have."""
        handed, leaves_s = self._feed.mark
        frames = self._unheard.frames(position)
        if handed < frames:
            return POLL_S
        leaves_s -= (handed - frames) / self._feed.rate
        # A block later, because the device's word is good to some milliseconds only.
        left_s = leaves_s + BLOCK_S - time.monotonic()
        if left_s <= 0 and self._output.running and self._feed.called_s < leaves_s:
            return POLL_S  # It has shown no sign of life since: perhaps it stands still.
        return max(left_s, 0.0)

    def _alive_s(self) -> float:
        """Until when the device is known to have played; now, if it has asked lately."""
        now_s, called_s = time.monotonic(), self._feed.called_s
        lately = self._output.running and not self._feed.ended and now_s - called_s <= self._depth_s
        return now_s if lately else called_s

    def _heard_position(self, alive_s: float) -> int:
        """Up to where samples had left the device when it was alive last."""
        # Samples with silence before them leave later than if they followed the ones before.
        marks = (self._feed.mark, self._feed.mark_before)
        left = [
            handed - max(round((leaves_s - alive_s) * self._feed.rate), 0)
            for handed, leaves_s in marks
        ]
        return self._unheard.position(max(*left, 0))

    # --- the device ---------------------------------------------------------------------------

    def _check(self) -> None:
        if self.device is None:
            raise DeviceUnavailable("The sound device is not open.")

    @property
    def _is_due(self) -> bool:
        """Whether the stream should be another one."""
        return self._moved or self._depth_asked_ms != self._ladder.depth_ms

    async def _open(self, *, fresh: bool) -> None:
        """Opens the device, again too; what was not heard is to be played from there on."""
        self._depth_asked_ms = self._ladder.depth_ms
        stalled = self._watch.stalled
        position = self._heard_position(self._feed.called_s)

        wanted = self.wanted

        def open_and_ask() -> tuple[Opened, int | None]:
            opened = self._output.open(
                wanted,
                self._depth_asked_ms / 1000,
                self._volume,
                fresh=fresh,
                hung=self._worker.left > 0,
            )
            return opened, None if wanted is not None else self._default_output()

        try:
            opened, self._default = await self._call(open_and_ask, CALL_LIMIT_S)
        except DeviceUnavailable:
            self._lose()
            raise
        self._take_up(opened.feed)
        self._depth_s = opened.latency_s
        # It may have been set while the device was opened.
        self._feed.gain.volume = self._volume
        # A start takes a block more than the device holds, at once.
        whole = round((opened.latency_s + BLOCK_S) * self._feed.rate)
        self._prime_frames = min(whole, self._feed.ring.capacity_bytes // SAMPLE_BYTES)
        self._go_to(position)
        self._watch = Watch(opened.latency_s, stalled=stalled)
        self._moved = False
        self._sleep.slept_s(self._asleep_s())
        self.device = opened.name
        self.on_change()

    async def _begin(self) -> None:
        """Starts the stream, or opens it afresh first: then there is nothing in the ring yet."""
        slept_s = self._sleep.slept_s(self._asleep_s())
        await self._ask_default()
        if slept_s or self._is_due:
            with trio.CancelScope(shield=True):
                await self._open(fresh=bool(slept_s) or self._moved)
            return
        rested = time.monotonic() - self._feed.called_s > RESTED_S
        self._feed.lead_in_frames = round(self._lead_in_s * self._feed.rate) if rested else 0
        try:
            await self._quick(partial(self._output.start, self._feed))
        except DeviceUnavailable:
            self._lose()
            raise
        now_s = time.monotonic()
        self._watch.begin(now_s)
        self._sleep_due_s = now_s + SLEEP_POLL_S
        self._default_due_s = now_s + DEFAULT_POLL_S

    async def _fade(self) -> int | None:
        """Fades out, and waits until that was heard.

        Returns the position up to which samples were heard, those of the fade too; None if they
        do not leave the device in time, so that what is left of them is to be cut off.
        """
        feed, limit_s = self._feed, time.monotonic() + STOP_LIMIT_S
        feed.fade_by_s = limit_s
        with trio.move_on_after(STOP_LIMIT_S):
            while feed.fade_by_s is not None and not feed.ended:  # noqa: ASYNC110 - see `POLL_S`
                await trio.sleep(POLL_S)
        handed, leaves_s = feed.mark
        done = feed.fade_by_s is None and leaves_s - EARLY_S <= limit_s
        # Once it is out there is nothing but silence in the device: a little more of that does no
        # harm, but to abort before its last sample does.
        until_s = leaves_s + BLOCK_S if done else limit_s
        await trio.sleep(max(until_s - time.monotonic(), 0.0))
        alive = not feed.ended and feed.called_s >= leaves_s - BLOCK_S
        if not (done and alive):
            return None
        heard = self._unheard.position(handed)
        self.fade_samples = heard - self._unheard.position(handed - feed.faded)
        return heard

    def _rest(self) -> None:
        """The stream was stopped."""
        self._report()
        if self._watch.stalled:
            self._watch.rest()
            self.on_change()
        self._patience.reset()

    def _lose(self) -> None:
        """The device is gone; what it did not play is kept."""
        position = self._heard_position(self._feed.called_s)
        there = self.device is not None
        self.device = None
        self._output.running = False
        self._feed.given_up = True  # the audio thread may still have it
        self._take_up(Feed(1))
        self._go_to(position)
        self._depth_s = 0.0
        self._watch = Watch(0.0)
        self._patience.reset()
        if there:
            self.on_change()

    # --- looking after it while it plays ------------------------------------------------------

    async def _look(self) -> None:
        """Sees to it that the device plays.

        Raises:
            DeviceUnavailable: it does not, and is lost.
        """
        self._check()
        if not self._output.running:
            return
        if self._feed.ended:
            name = self.device
            self._lose()
            raise DeviceUnavailable(f"The sound device {name!r} went away.")
        now_s = time.monotonic()
        if now_s >= self._sleep_due_s:
            self._sleep_due_s = now_s + SLEEP_POLL_S
            self._look_for_sleep()
        if now_s >= self._default_due_s:
            self._default_due_s = now_s + DEFAULT_POLL_S
            await self._ask_default()
        self._count_waits()
        await self._look_for_stall(now_s)

    def _look_for_sleep(self) -> None:
        slept_s = self._sleep.slept_s(self._asleep_s())
        if slept_s:
            self._lose()
            raise DeviceUnavailable(
                f"The machine was asleep for {slept_s:.0f} s, so the sound device is opened anew.",
                slept_s=slept_s,
            )

    async def _ask_default(self) -> None:
        """Asks for the default device where PortAudio does not follow it."""
        if self._default is not None:
            try:
                # None now: nobody knows what is to come, so what is open is kept.
                default = await self._call(self._default_output, QUICK_LIMIT_S)
            except DeviceUnavailable:
                return
            self._moved = default not in (None, self._default)

    async def _look_for_stall(self, now_s: float) -> None:
        before = self._watch.stalled
        stalled = self._watch.look(now_s, self._feed.called_s)
        if stalled != before:
            if stalled:
                log.warning("the sound device stands still", device=self.device)
            else:
                log.info("the sound device goes on", device=self.device)
                self._patience.reset()
            self.on_change()
        if stalled and (self._moved or self._patience.is_over(now_s)):
            log.info("opening the sound device afresh", device=self.device)
            with trio.CancelScope(shield=True):
                await self._quick(self._output.abort)
                await self._open(fresh=True)

    def _take_up(self, feed: Feed) -> None:
        """Another feed, which counts from 0; what the one before it has counted is seen to."""
        self._report()
        self._feed = feed
        self._waits = self._failures = 0

    def _count_waits(self) -> None:
        """Sees to the depth of the device; another one is taken at the next start."""
        now_s = self.written_samples / SAMPLE_RATE
        waits, self._waits = self._feed.waits - self._waits, self._feed.waits
        changed = [self._ladder.trouble(now_s) for _ in range(waits)] or [self._ladder.well(now_s)]
        if any(changed):
            log.info("the sound device is to hold", ms=self._ladder.depth_ms)
        if waits:
            self._underruns += waits
            self.on_change()

    def _report(self) -> None:
        """What the audio thread could not say itself."""
        self._count_waits()
        if new := self._underruns - self._reported:
            log.warning("the sound device had to wait for this machine", times=new)
        failures, self._failures = self._feed.failures - self._failures, self._feed.failures
        if failures:
            log.error("the audio callback failed", blocks=failures)
        self._reported = self._underruns

    # --- PortAudio, in the worker's thread ----------------------------------------------------

    async def _call(self, action: Callable[[], T], limit_s: float, *, leave: bool = False) -> T:
        try:
            return await self._worker.call(action, limit_s, leave=leave)
        except Hangs as hangs:
            if hangs.left:
                self._output.leave()
            raise DeviceUnavailable(
                "The sound system does not answer; see whether it is running."
            ) from None

    async def _quick(self, action: Callable[[], None]) -> None:
        """An action on the stream; if it hangs, the stream is left with it, and lost."""
        try:
            await self._call(action, QUICK_LIMIT_S, leave=True)
        except DeviceUnavailable:
            self._lose()
            raise
