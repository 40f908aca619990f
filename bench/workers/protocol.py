"""How a worker is asked and what it measures: JSON lines on standard input and output. Shell.

A worker gets one argument, a JSON object of what it needs. It loads its engine, writes a `Ready`,
and then answers every `Ask`, one line each, with a `Run`. It ends when its input does. Between
two requests it waits for a line and uses no processor.

The clock is the worker's own: it starts when the request has been read and knows nothing of the
pipe. Only the standard library and numpy are used here, because one engine lives in an
environment of its own.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 24_000

#: a sample louder than this is sound: -50 dB of full scale
AUDIBLE = 10 ** (-50 / 20)


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is loaded: versions of what it is made of, and how long loading took."""

    versions: dict[str, str]
    load_s: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A request.

    Attributes:
        text: what to say.
        trim: whether silence may be cut off, which is what these engines do by themselves;
            recordings are only compared untrimmed.
        pcm: a file for the audio, signed 16-bit little-endian; written when the clock has stopped.
    """

    text: str
    trim: bool = True
    pcm: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What one request took.

    Attributes:
        first_byte_ms: request to first audio of any kind.
        first_audible_ms: request to the chunk with the first sample above -50 dB of full scale;
            None if there was none.
        silence_ms: audio before that sample.
        holes_ms: silence after the first chunk to whoever plays each when it comes.
        total_ms: request to the end of the stream.
        cpu_ms: processor time of all threads in between.
        audio_s: length of the audio.
        rss_mb: most memory that the process ever had.
        cached: whether the engine says that any of it came from a cache.
        says: sentences of the engine about what is not as it should be.
    """

    first_byte_ms: float
    first_audible_ms: float | None
    silence_ms: float
    holes_ms: float
    total_ms: float
    cpu_ms: float
    audio_s: float
    rss_mb: float
    cached: bool
    says: list[str] = field(default_factory=list)


class Meter:
    """Hears the chunks of one request; its clock starts when it is made."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.cached = False
        self.says: list[str] = []
        self._clock = clock
        self._chunks: list[NDArray[np.float32]] = []
        self._first_s: float | None = None
        self._audible_s: float | None = None
        self._played_s = 0.0  # when all that was heard has been played
        self._holes_s = 0.0
        self._silent = 0
        self._cpu_s = time.process_time()
        self._began_s = clock()

    def hear(self, chunk: bytes | NDArray[np.float32]) -> None:
        """Notes when a chunk came: 16-bit PCM, or float samples."""
        now = self._clock()
        audio = _samples(chunk) if isinstance(chunk, bytes) else chunk
        if not audio.size:
            return
        if self._first_s is None:
            self._first_s = self._played_s = now
        self._holes_s += max(0.0, now - self._played_s)
        self._played_s = max(now, self._played_s) + audio.size / RATE
        if self._audible_s is None:
            loud = np.abs(audio) > AUDIBLE
            if loud.any():
                self._audible_s = now
                self._silent += int(loud.argmax())
            else:
                self._silent += audio.size
        self._chunks.append(audio)

    def done(self) -> Run:
        """Stops the clock.

        Raises:
            ValueError: nothing was heard.
        """
        ended_s = self._clock()
        cpu_s = time.process_time() - self._cpu_s
        if self._first_s is None:
            raise ValueError("the engine gave no audio")
        samples = sum(chunk.size for chunk in self._chunks)
        return Run(
            first_byte_ms=self._since(self._first_s),
            first_audible_ms=None if self._audible_s is None else self._since(self._audible_s),
            silence_ms=self._silent * 1000 / RATE,
            holes_ms=self._holes_s * 1000,
            total_ms=self._since(ended_s),
            cpu_ms=cpu_s * 1000,
            audio_s=samples / RATE,
            rss_mb=peak_rss_mb(),
            cached=self.cached,
            says=self.says,
        )

    def pcm(self) -> bytes:
        """All that was heard, as 16-bit PCM."""
        audio = np.concatenate(self._chunks)
        return np.rint(np.clip(audio, -1, 1) * 32767).astype("<i2").tobytes()

    def _since(self, then_s: float) -> float:
        return (then_s - self._began_s) * 1000


class Channel:
    """The pipe to whoever measures. Made before anything is loaded.

    What libraries print would break the protocol: it goes to standard error from now on.
    """

    def __init__(self) -> None:
        self._began_s = time.perf_counter()
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)

    def ready(self, *packages: str) -> None:
        """Says that the engine is loaded, and made of these packages."""
        versions = {"python": platform.python_version()}
        versions |= {name: version(name) for name in packages}
        self._write(Ready(versions, time.perf_counter() - self._began_s))

    def serve(self, speak: Callable[[Ask, Meter], None]) -> None:
        """Answers requests until there are no more; blocks."""
        for ask in self._asks():
            meter = Meter()
            speak(ask, meter)
            run = meter.done()
            if ask.pcm is not None:
                Path(ask.pcm).write_bytes(meter.pcm())
            self._write(run)

    def _asks(self) -> Iterator[Ask]:
        for line in sys.stdin:
            yield Ask(**json.loads(line))

    def _write(self, message: Ready | Run) -> None:
        print(json.dumps(asdict(message)), file=self._out, flush=True)


def _samples(pcm: bytes) -> NDArray[np.float32]:
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32767)


def given() -> dict[str, Any]:
    """What the worker was started with."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    return told


def peak_rss_mb() -> float:
    """The most memory that this process ever had, in MB."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:  # macOS, which counts in bytes
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    # Not ru_maxrss, which on Linux begins with the memory of the process that started this one.
    kb = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(kb) * 1024 / 1e6
