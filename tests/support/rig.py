"""A loudspeaker for tests: a private PulseAudio whose sinks are silent and can be listened to.

The server, its configuration and its socket live in one folder; only child processes that are
given `Rig.environment` see it. What a program plays on the sinks `s24` and `other` is captured
sample for sample: they take 24 kHz mono s16, so nothing is resampled on the way. `s44` and `s48`
are stereo at these rates, as sound cards are.
"""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from engine.audio import PCM_DTYPE, SAMPLE_BYTES, SAMPLE_RATE

#: what a wait for another process may take on a busy machine before the test fails
PATIENCE_S = 20.0

_DAEMON = """\
exit-idle-time = -1
flat-volumes = no
realtime-scheduling = no
high-priority = yes
nice-level = -11
avoid-resampling = no
default-sample-format = s16le
default-sample-rate = 24000
alternate-sample-rate = 24000
enable-shm = no
enable-memfd = no
enable-deferred-volume = no
"""

# Without norewinds the sink would take back its first samples when a stream joins. The default
# source is one that nobody plays to: a recorder follows the default when it changes.
_SCRIPT = """\
.fail
load-module module-native-protocol-unix auth-anonymous=1 socket={folder}/native
load-module module-null-sink sink_name=s24 format=s16le rate=24000 channels=1 channel_map=mono \
norewinds=1
load-module module-null-sink sink_name=other format=s16le rate=24000 channels=1 channel_map=mono \
norewinds=1
load-module module-null-sink sink_name=s44 format=s16le rate=44100 channels=2 norewinds=1
load-module module-null-sink sink_name=s48 format=s16le rate=48000 channels=2 norewinds=1
load-module module-null-sink sink_name=unheard format=s16le rate=24000 channels=1 norewinds=1
set-default-sink s24
set-default-source unheard.monitor
"""

_ALSA = """\
</usr/share/alsa/alsa.conf>
pcm.!default {{ type pulse server "unix:{folder}/native" hint {{ show on description "rig" }} }}
ctl.!default {{ type pulse server "unix:{folder}/native" }}
"""

_ALSA_DEVICE = """\
pcm.{sink} {{ type pulse server "unix:{folder}/native" device "{sink}" \
hint {{ show on description "rig" }} }}
"""

#: rate and channels of the sinks that can be listened to
FORMS = {"s24": (24_000, 1), "other": (24_000, 1), "s44": (44_100, 2), "s48": (48_000, 2)}

#: What the recorder asks for: the sink makes blocks of this length, and none longer.
BLOCK_S = 0.02


class Capture:
    """What is played on a sink, as it is recorded.

    The sink makes a block at the moment at which the one before has left it, and the recorder has
    it at once. So the time at which a block came says when its frames leave the sink, by the clock
    that the sink itself tells to whoever plays; the quickest one says it best, to a millisecond.

    Args:
        rate: frames a second.
        channels: samples in each.
    """

    def __init__(self, rate: int, channels: int) -> None:
        self._rate = rate
        self._frame_bytes = SAMPLE_BYTES * channels
        self._bytes = bytearray()
        self._began_s = math.inf

    def read(self, pipe: IO[bytes]) -> None:
        """In a thread: takes what is recorded, until that ends."""
        while data := os.read(pipe.fileno(), 1 << 16):
            now_s = time.monotonic()
            self._bytes += data
            self._began_s = min(self._began_s, now_s - self.frames / self._rate + BLOCK_S)

    @property
    def frames(self) -> int:
        """How many there are by now."""
        return len(self._bytes) // self._frame_bytes

    def read_bytes(self) -> bytes:
        """All there is by now, s16le."""
        return bytes(self._bytes)

    def left_s(self, frame: int) -> float:
        """When a frame began to leave the sink, in seconds of `time.monotonic`."""
        return self._began_s + frame / self._rate


class Rig:
    """A PulseAudio server of its own.

    Args:
        folder: private, short (a socket's path has a limit), and made by the caller.

    Attributes:
        environment: for child processes that are to play on it, whether it is up or not.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server: subprocess.Popen[bytes] | None = None
        (folder / "daemon.conf").write_text(_DAEMON)
        (folder / "script.pa").write_text(_SCRIPT.format(folder=folder))
        alsa = [_ALSA, *(_ALSA_DEVICE.replace("{sink}", sink) for sink in FORMS)]
        (folder / "asound.conf").write_text("".join(alsa).format(folder=folder))
        self.environment = {
            **os.environ,
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "PULSE_CONFIG": str(folder / "daemon.conf"),
            "PULSE_SERVER": f"unix:{folder}/native",
            "PULSE_COOKIE": str(folder / "cookie"),
            "ALSA_CONFIG_PATH": str(folder / "asound.conf"),
        }

    def up(self) -> None:
        """Starts the server and waits until it answers."""
        for program in ("pulseaudio", "pactl", "parec"):
            if shutil.which(program) is None:
                pytest.fail(f"{program} is not installed; scripts/system.sh test installs it.")
        with (self._folder / "output").open("wb") as output:
            self._server = subprocess.Popen(
                [
                    "pulseaudio", "-n", f"--file={self._folder}/script.pa", "--daemonize=no",
                    "--system=false", "--disallow-exit", "--use-pid-file=no", "--disable-shm=yes",
                ],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )  # fmt: skip
        self._wait(lambda: self.control("info").returncode == 0, "PulseAudio does not answer")

    def down(self) -> None:
        """Ends the server, and no other process."""
        server, self._server = self._server, None
        if server is None:
            return
        server.send_signal(signal.SIGCONT)  # a test may have stopped it
        server.terminate()
        try:
            server.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()

    def die(self) -> None:
        """Ends the server at once, as a crash does."""
        server, self._server = self._server, None
        assert server is not None
        server.kill()
        server.wait()

    def freeze(self) -> None:
        """The server stops answering, as a sound system that hangs. `down` still ends it."""
        assert self._server is not None
        self._server.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """The server goes on."""
        assert self._server is not None
        self._server.send_signal(signal.SIGCONT)

    def control(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Runs `pactl`."""
        return subprocess.run(
            ["pactl", *words], env=self.environment, capture_output=True, timeout=PATIENCE_S
        )

    def rate(self, sink: str) -> int:
        """Frames a second of a sink, now: one that nobody uses takes the rate of what comes."""
        (line,) = (
            line
            for line in self.control("list", "short", "sinks").stdout.decode().splitlines()
            if line.split("\t")[1] == sink
        )
        return int(line.split()[-2].removesuffix("Hz"))

    def unload(self, sink: str) -> None:
        """Takes a sink away, as if it were pulled out."""
        modules = self.control("list", "short", "modules").stdout.decode().splitlines()
        (index,) = (line.split("\t")[0] for line in modules if f"sink_name={sink} " in line)
        assert self.control("unload-module", index).returncode == 0

    def load(self, sink: str) -> None:
        """Plugs a sink in again."""
        (line,) = (
            line
            for line in _SCRIPT.replace("\\\n", "").splitlines()
            if f"sink_name={sink} " in line
        )
        assert self.control(*line.split()).returncode == 0

    @contextmanager
    def capture(self, sink: str = "s24") -> Iterator[Capture]:
        """Records what is played on a sink; what it yields is complete after the block.

        It has as many channels as the sink.
        """
        rate, channels = FORMS[sink]
        recorder = subprocess.Popen(
            [
                "parec", f"--device={sink}.monitor", "--raw", "--format=s16le",
                f"--rate={rate}", f"--channels={channels}", f"--latency-msec={BLOCK_S * 1000:.0f}",
                *(["--channel-map=mono"] if channels == 1 else []),
            ],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        capture = Capture(rate, channels)
        assert recorder.stdout is not None
        reader = threading.Thread(target=capture.read, args=(recorder.stdout,), daemon=True)
        reader.start()
        try:
            self._wait(lambda: capture.frames > 0, "the recorder does not record")
            yield capture
            if recorder.poll() is None:  # else the sink, or the server, went away
                # What was played is recorded when as much again as lies between the two is.
                enough = capture.frames + rate * 3 // 10
                self._wait(lambda: capture.frames >= enough, "the recorder has stopped")
        finally:
            recorder.send_signal(signal.SIGINT)
            recorder.wait(timeout=PATIENCE_S)
            reader.join(timeout=PATIENCE_S)
            recorder.stdout.close()

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        limit_s = time.monotonic() + PATIENCE_S
        while not condition():
            if self._server is None or self._server.poll() is not None:
                pytest.fail(f"{complaint}: it ended. {self._said()}")
            if time.monotonic() > limit_s:
                pytest.fail(f"{complaint}. {self._said()}")
            time.sleep(0.02)

    def _said(self) -> str:
        return (self._folder / "output").read_text(errors="replace")[-2000:]


def code(seconds: float, seed: int = 1) -> bytes:
    """PCM in which every place can be told from every other one, and without a zero.

    It ends softly: speech that breaks off is led to silence, which would be captured too.
    """
    generator = np.random.default_rng(seed)
    samples = generator.integers(1, 8000, round(seconds * SAMPLE_RATE))
    signed = samples * generator.choice([-1, 1], len(samples))
    signed[-1:] = 1
    return bytes(signed.astype(PCM_DTYPE).tobytes())


def parts(capture: bytes, whole: bytes) -> list[range]:
    """Which samples of a `code` were captured, in the order in which they were.

    Silence between them is left out; a part that is not of the code is `range(-n, 0)`.
    """
    found: list[range] = []
    captured, wanted = np.frombuffer(capture, PCM_DTYPE), np.frombuffer(whole, PCM_DTYPE)
    loud = np.flatnonzero(captured)
    at = 0
    while (next_loud := np.searchsorted(loud, at)) < len(loud):
        at = int(loud[next_loud])
        start = whole.find(captured[at : at + 8].tobytes())
        if start < 0 or start % 2:
            strange = found.pop() if found and found[-1].stop == 0 else range(0)
            found.append(range(strange.start - 1, 0))
            at += 1
            continue
        n = min(len(captured) - at, len(wanted) - start // 2)
        same = captured[at : at + n] == wanted[start // 2 : start // 2 + n]
        n = n if same.all() else int(np.argmin(same))
        found.append(range(start // 2, start // 2 + n))
        at += n
    return found


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A running rig, one for the whole session. Two tests must not play on it at once."""
    rig = Rig(tmp_path_factory.mktemp("rig"))
    rig.up()
    yield rig
    rig.down()


@pytest.fixture
def silent_rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A rig of the test's own that is not up yet: a machine without a sound device."""
    rig = Rig(tmp_path_factory.mktemp("silent"))
    yield rig
    rig.down()
