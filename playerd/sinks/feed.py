"""The audio thread's side of a sound device: where PortAudio fetches its blocks. Shell.

Only `Feed.callback` and `Feed.finished` run in the audio thread. They must never wait and never
raise; the Trio side talks to them through a ring and a few attributes, each written by one side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from engine.audio import (
    SAMPLE_BYTES,
    SAMPLE_RATE,
    faded_out,
    ms_to_samples,
    pcm_samples,
    silence,
)

from ..ring import Ring

FADE_SAMPLES = ms_to_samples(5)


class Feed:
    """What the audio thread touches.

    Args:
        ring_samples: how much the ring holds.
        handed_samples: how much was handed to devices before.
        on_first_callback: called once in every new audio thread; it must not wait.

    Attributes:
        ring: samples on their way; the Trio side writes, the audio thread reads.
        mark: (samples handed to the device so far, when the last of them leaves it in seconds of
            `time.monotonic`). One object, so that the two always belong together.
        silent: the newest block had silence in it, because the ring was empty.
        fade: set by the Trio side to fade out and forget the rest; reset when that is done.
        ended: the stream stopped by itself.
        waits: how often the device had played all it had before we gave it the next block.
        failures: exceptions in the callback; each one is a block of silence.
    """

    def __init__(
        self,
        ring_samples: int,
        handed_samples: int,
        on_first_callback: Callable[[], object] = lambda: None,
    ) -> None:
        self.ring = Ring(ring_samples * SAMPLE_BYTES)
        self.mark = (handed_samples, 0.0)
        self.silent = False
        self.fade = False
        self.ended = False
        self.waits = 0
        self.failures = 0
        self._on_first_callback = on_first_callback
        self._thread = 0

    @property
    def waiting_samples(self) -> int:
        """Samples that the device has not asked for yet."""
        return self.ring.readable_bytes // SAMPLE_BYTES

    def callback(self, out: Any, frames: int, times: Any, status: Any) -> None:
        """Called by PortAudio whenever the device wants a block. Never raises."""
        block = memoryview(out)
        try:
            if self._thread != (thread := threading.get_native_id()):  # a new one at every start
                self._thread = thread
                self._on_first_callback()
            self.waits += bool(status.output_underflow)
            self._fill(block, times.outputBufferDacTime - times.currentTime)
        except Exception:
            self.failures += 1
            block[:] = bytes(len(block))

    def _fill(self, block: memoryview, delay_s: float) -> None:
        fading = self.fade
        given = self.ring.read_into(block[: FADE_SAMPLES * SAMPLE_BYTES] if fading else block)
        if fading:
            block[:given] = faded_out(block[:given])
            self.ring.discard()
        block[given:] = silence(pcm_samples(block[given:]))
        if given:
            # The first block after a start may carry no time at all: then the delay is nonsense.
            leaves_s = time.monotonic() + min(max(delay_s, 0.0), 1.0)
            handed = pcm_samples(block[:given])
            self.mark = (self.mark[0] + handed, leaves_s + handed / SAMPLE_RATE)
        self.silent = given < len(block)
        if fading:
            self.fade = False

    def finished(self) -> None:
        """Called by PortAudio when the stream has stopped, for whatever reason."""
        self.ended = True
