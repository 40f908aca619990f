"""The audio thread's side of a sound device: where PortAudio fetches its blocks. Shell.

Only `Feed.callback` and `Feed.finished` run in the audio thread. They must never wait and never
raise; the Trio side talks to them through a ring and a few attributes, each written by one side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from engine.audio import PCM_DTYPE, SAMPLE_BYTES, SAMPLE_RATE, faded_out, pcm_samples, silence

from ..ring import Ring
from .gain import Gain
from .watch import SILENT_S

#: for so long after a late block the device may say that it has dropped it; measured: 4 ms at most
DOUBT_S = 0.05
#: how long a fade is, and how short at least if it would be heard too late otherwise
FADE_S = 0.005
FADE_LEAST_S = 0.002
#: a last sample as small as this (-66 dB of full scale) may be followed by silence as it is
SOFT = 16


class Feed:
    """What the audio thread touches.

    Args:
        ring_frames: how much the ring holds; it is mono, at the device's rate.
        rate: frames a second of the device.
        channels: how many the device wants; all get the same.
        volume: what to begin with.
        on_first_callback: called once in every new audio thread; it must not wait.

    Attributes:
        ring: samples on their way; the Trio side writes, the audio thread reads.
        gain: how loud; its `volume` may be set at any time.
        depth_s: how much the device holds; to be set before it is started.
        mark: (frames of the ring handed to the device so far, when the last of them leaves it in
            seconds of `time.monotonic`). One object, so that the two always belong together.
        mark_before: what `mark` was when the newest silence before its samples began. To be read
            after `mark`.
        called_s: when the device asked last, in seconds of `time.monotonic`; 0 before it has.
        silent: the newest block had silence in it, because the ring was empty.
        fade_by_s: set by the Trio side to fade out and forget the rest: when the last of the fade
            is to have left the device, if possible; None again when that is done.
        faded: how many frames of the ring the last fade had.
        lead_in_frames: set by the Trio side before a start: so much silence comes before all else;
            counted down by the audio thread.
        ran_dry: the device has played all it had since it was started, or may have.
        given_up: set by the Trio side when nothing of it is to be heard any more.
        ended: the stream stopped by itself.
        waits: how often so far the device had played all it had before we gave it the next block,
            or had to ask so late that it must have.
        failures: exceptions in the callback so far; each one is a block of silence.
    """

    def __init__(
        self,
        ring_frames: int,
        *,
        rate: int = SAMPLE_RATE,
        channels: int = 1,
        volume: float = 1.0,
        on_first_callback: Callable[[], object] = lambda: None,
    ) -> None:
        self.rate = rate
        self.ring = Ring(ring_frames * SAMPLE_BYTES)
        self.gain = Gain(volume, rate)
        self.depth_s = 1.0
        self.mark = self.mark_before = (0, 0.0)
        self.called_s = 0.0
        self.silent = False
        self.fade_by_s: float | None = None
        self.faded = 0
        self.lead_in_frames = 0
        self.ran_dry = False
        self.given_up = False
        self.ended = False
        self.waits = 0
        self.failures = 0
        self._channels = channels
        self._silence = 0  # frames of silence since the last one of the ring
        self._stood_still = False  # since it was started
        self._last = 0  # the last sample of the ring, as loud as it was handed over ...
        self._decay = b""  # ... and what leads from it to silence, as far as that is still to come
        self._doubted: list[bytes] = []  # what may have been dropped; see `_doubt`
        self._doubt_until_s = 0.0
        self._counted = False  # among the waits, what the device is about to tell
        self._again = b""  # what was, and is handed over once more
        self._on_first_callback = on_first_callback
        self._thread = 0

    @property
    def waiting_frames(self) -> int:
        """What the device has not asked for yet."""
        return self.ring.readable_bytes // SAMPLE_BYTES

    def begin(self) -> None:
        """The device is about to be started; all that it was handed before has left it."""
        self.mark = self.mark_before = (self.mark[0], 0.0)
        self.called_s = 0.0
        self.silent = self.ended = self.ran_dry = False
        self._last, self._decay, self._stood_still = 0, b"", False
        self._doubt_until_s, self._again = 0.0, b""
        self._doubted.clear()

    def callback(self, out: Any, frames: int, times: Any, status: Any) -> None:
        """Called by PortAudio whenever the device wants a block. Never raises."""
        block = memoryview(out)
        if self.given_up:
            block[:] = bytes(len(block))
            return
        try:
            now_s = time.monotonic()
            late_s = now_s - self.called_s if self.called_s else 0.0
            self.called_s = now_s
            if self._thread != (thread := threading.get_native_id()):  # a new one at every start
                self._thread = thread
                self._on_first_callback()
            # What did not ask for so long was stopped from outside; no depth helps against that.
            dry, anew = status.output_underflow, late_s > self.depth_s
            counted = self._counted and now_s <= self._doubt_until_s
            if late_s < SILENT_S and (anew or (dry and not counted)):
                self.waits += 1
            self._counted = anew or (counted and not dry)
            # The first block after a start may carry no time at all: then the delay is nonsense.
            delay_s = min(max(times.outputBufferDacTime - times.currentTime, 0.0), 1.0)
            block_s = frames / self.rate
            late, empty = late_s > 2 * block_s, delay_s < block_s
            self._doubt(now_s, late=late, empty=empty, dry=dry)
            self._stood_still |= anew
            self.ran_dry |= anew or dry
            if self._stood_still:
                # Measured: a server that did not answer for a while may say 0 for seconds; and the
                # end of speech would be aborted while it is still in the device.
                delay_s = max(delay_s, self.depth_s + frames / self.rate)
            self._fill(block, now_s + delay_s, anew=anew)
        except Exception:
            self.failures += 1
            block[:] = bytes(len(block))

    def _doubt(self, now_s: float, *, late: bool, empty: bool, dry: bool) -> None:
        """Takes back what the device has dropped.

        Measured (PortAudio on ALSA): when it has run dry because we were late, it may take a block or
        some, for the first of which it says that it holds 0 to 14 ms, before it notices. It drops
        these, and says so with the one that it asks for next, usually some milliseconds later. One
        that was late and is told of at once was not dropped, nor was what it took while it still had
        something.

        So nothing is lost and nothing heard twice, if the device was started since it ran dry last. It
        may keep up to a block then, unheard; if it runs dry again (measured: after some ten times, and
        each time from then on), it drops that, and not all of what it took. Then as much is lost, and
        as much is heard twice, but never more than a block. So it is to be started anew soon.
        """
        lost = b"".join(self._doubted)
        # If it is late once more, it may have played them meanwhile and have run dry again.
        played = late and now_s > self._doubt_until_s - DOUBT_S + pcm_samples(lost) / self.rate
        if dry and not played:
            self._again = lost + self._again
            self.mark = (self.mark[0] - pcm_samples(lost), now_s)
        if dry or late or now_s > self._doubt_until_s:
            self._doubted.clear()
            self._doubt_until_s = now_s + DOUBT_S if late and empty and not dry else 0.0

    def _take(self, out: memoryview) -> int:
        """Fills the front of `out` with the next frames; gives how many bytes."""
        first, self._again = self._again[: len(out)], self._again[len(out) :]
        out[: len(first)] = first
        given = len(first) + self.ring.read_into(out[len(first) :])
        if self._doubt_until_s:
            self._doubted.append(bytes(out[:given]))
        return given

    def _fill(self, block: memoryview, dac_s: float, *, anew: bool) -> None:
        """Fills a block whose first frame leaves the device at `dac_s`.

        The device may have stood still since the last one: then the times are to be told `anew`.
        """
        mono = block
        if self._channels > 1:
            mono = memoryview(bytearray(len(block) // self._channels))
        led = min(self.lead_in_frames, pcm_samples(mono))
        mono[: led * SAMPLE_BYTES] = silence(led)
        self.lead_in_frames -= led
        self._silence += led
        self._hand(mono[led * SAMPLE_BYTES :], dac_s + led / self.rate, anew=anew)
        if self._channels > 1:
            frames = np.frombuffer(block, PCM_DTYPE).reshape(-1, self._channels)
            frames[:] = np.frombuffer(mono, PCM_DTYPE)[:, None]

    def _hand(self, mono: memoryview, dac_s: float, *, anew: bool) -> None:
        """Fills what follows a lead-in: with the ring's frames, and with silence after them."""
        fade_by_s = self.fade_by_s
        if fade_by_s is None:
            given = self._take(mono)
        else:
            given = self._take(mono[: self._fade_bytes(fade_by_s - dac_s)])
            mono[:given] = faded_out(mono[:given])
            self.ring.discard()
            self._again, self._doubt_until_s = b"", 0.0  # what it drops now is not to be heard
            self._doubted.clear()
        self.gain.apply(mono[:given])
        if given:
            faded = fade_by_s is not None
            self._last = 0 if faded else int(np.frombuffer(mono[:given], PCM_DTYPE)[-1])
            self._decay = b""
        self._fill_up(mono[given:])
        handed = pcm_samples(mono[:given])
        if anew:
            self.mark_before = (0, 0.0)
        if handed:
            if self._silence:
                self.mark_before = self.mark
            self.mark = (self.mark[0] + handed, dac_s + handed / self.rate)
            self._silence = 0
        elif anew and self.mark[1]:
            self.mark = (self.mark[0], dac_s - self._silence / self.rate)
        self._silence += pcm_samples(mono[given:])
        self.silent = given < len(mono)
        if fade_by_s is not None:
            self.faded = handed
            self.fade_by_s = None

    def _fill_up(self, rest: memoryview) -> None:
        """Fills the rest of a block, for which there are no samples, with silence.

        Speech that breaks off would click: what comes first leads from its last sample to silence.
        """
        if not len(rest):
            return
        if last := self._last:
            frames = round(FADE_S * self.rate) if abs(last) > SOFT else 0
            self._decay = faded_out(np.full(frames, last, PCM_DTYPE).tobytes())
            self._last = 0
        first, self._decay = self._decay[: len(rest)], self._decay[len(rest) :]
        rest[: len(first)] = first
        rest[len(first) :] = silence(pcm_samples(rest[len(first) :]))

    def _fade_bytes(self, left_s: float) -> int:
        """How much of a block fades out if there are `left_s` seconds for it."""
        return round(min(max(left_s, FADE_LEAST_S), FADE_S) * self.rate) * SAMPLE_BYTES

    def finished(self) -> None:
        """Called by PortAudio when the stream has stopped, for whatever reason."""
        self.ended = True
