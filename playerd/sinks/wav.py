"""The file sink: writes everything into one WAV file, as fast as it comes. Shell.

The header is right after every write, so the file can be read whenever the player is stopped or
killed. Silence that a listener would hear while waiting is not in it: the file has no clock.
"""

from __future__ import annotations

import errno
import wave
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

import trio

from engine.audio import SAMPLE_BYTES, SAMPLE_RATE, pcm_samples

from .base import DeviceUnavailable
from .gain import Gain, checked

T = TypeVar("T")

LARGEST_BYTES = 2**32 - 1


class _WavFile:
    """A WAV file that is complete after every `append`."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("wb")
        self._wave = wave.open(self._file, "wb")  # noqa: SIM115 - `close` closes it
        self._wave.setnchannels(1)
        self._wave.setsampwidth(SAMPLE_BYTES)
        self._wave.setframerate(SAMPLE_RATE)
        try:
            self.append(b"")
        except OSError:
            self.close()
            raise

    def append(self, pcm: bytes) -> None:
        """Adds PCM and corrects the header."""
        if self._file.tell() + len(pcm) > LARGEST_BYTES:
            raise OSError(errno.EFBIG, "it has reached 4 GiB, the most that WAV can hold")
        self._wave.writeframes(pcm)
        self._file.flush()

    def close(self) -> None:
        """Lets go of the file; what could not be written before is given up."""
        for last_attempt in (self._wave.close, self._file.close):
            with suppress(OSError):
                last_attempt()


class WavSink:
    """See `base.Sink`. Opening begins the file anew.

    Args:
        path: the file; its folder must exist.
    """

    name = "wav"
    reopens = False
    stalled = False
    depth_ms = 0.0
    underruns = 0
    fade_samples = 0

    def __init__(self, path: Path) -> None:
        self.device: str | None = None
        self.wanted: str | None = None
        self.written_samples = 0
        self.on_change: Callable[[], object] = lambda: None
        self._gain = Gain()
        self._path = path
        self._file: _WavFile | None = None

    @property
    def heard_samples(self) -> int:
        """See `Sink`. What was written is there."""
        return self.written_samples

    @property
    def volume(self) -> float:
        """See `Sink`. What is written from now on is scaled."""
        return self._gain.volume

    @volume.setter
    def volume(self, volume: float) -> None:
        self._gain.volume = checked(volume)

    async def open(self) -> None:
        """See `Sink`."""
        if self._file is None:
            self._file = await self._attempt(lambda: _WavFile(self._path))
            self.device = str(self._path)

    async def write(self, pcm: bytes) -> None:
        """See `Sink`."""
        file = self._opened()
        scaled = bytearray(pcm)
        self._gain.apply(memoryview(scaled))
        await self._attempt(lambda: file.append(bytes(scaled)))
        self.written_samples += pcm_samples(pcm)

    async def dry(self) -> None:
        """See `Sink`. A file does not mind waiting."""
        self._opened()
        await trio.sleep_forever()

    async def drain(self) -> None:
        """See `Sink`. What was written is there."""
        self._opened()
        await trio.lowlevel.checkpoint()

    async def played(self, position: int) -> None:
        """See `Sink`. What was written is there."""
        await trio.lowlevel.checkpoint()

    async def stop(self, *, cut: bool = False) -> int:
        """See `Sink`. What was written stays in the file."""
        await trio.lowlevel.checkpoint()
        return self.written_samples

    async def devices(self) -> tuple[str, ...]:
        """See `Sink`. The file."""
        await trio.lowlevel.checkpoint()
        return (str(self._path),)

    async def aclose(self) -> None:
        """See `Sink`."""
        file, self._file, self.device = self._file, None, None
        if file is not None:
            await trio.to_thread.run_sync(file.close)
        else:
            await trio.lowlevel.checkpoint()

    def _opened(self) -> _WavFile:
        if self._file is None:
            raise DeviceUnavailable("The wav sink is closed.")
        return self._file

    async def _attempt(self, action: Callable[[], T]) -> T:
        try:
            return await trio.to_thread.run_sync(action)
        except OSError as error:
            why = error.strerror or error
            raise DeviceUnavailable(f"The file {self._path} cannot be written: {why}.") from None
