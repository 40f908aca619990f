"""One contract, three sinks: in a file, in silence, and on a real sound server."""

from __future__ import annotations

import json
import subprocess
import sys
import wave
from pathlib import Path

import pytest
from trio.testing import MockClock

from engine.audio import SAMPLE_RATE
from playerd.sinks.base import DeviceUnavailable
from playerd.sinks.null import NullSink
from playerd.sinks.portaudio import PortAudioSink
from playerd.sinks.wav import WavSink
from tests.playerd import sink_contract
from tests.playerd.sink_contract import CHECKS, noise
from tests.support.rig import PATIENCE_S, Rig


@pytest.mark.parametrize("name", CHECKS)
async def test_null(name: str, autojump_clock: MockClock) -> None:
    await sink_contract.run(CHECKS[name], NullSink())


@pytest.mark.parametrize("name", CHECKS)
async def test_wav(name: str, tmp_path: Path, mock_clock: MockClock) -> None:
    # The clock jumps only after a while: a thread that writes is not idleness.
    mock_clock.autojump_threshold = 0.02
    await sink_contract.run(CHECKS[name], WavSink(tmp_path / "out.wav"))


@pytest.fixture(scope="module")
def portaudio(rig: Rig) -> dict[str, str]:
    """Failures of the real sink, by check."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.playerd.sink_contract"],
        env=rig.environment,
        capture_output=True,
        timeout=6 * PATIENCE_S,
        text=True,
        check=False,
    )
    assert child.returncode == 0, child.stderr
    report = json.loads(child.stdout)
    assert report["ran"] == list(CHECKS)
    return dict(report["failures"])


@pytest.mark.parametrize("name", CHECKS)
def test_portaudio(name: str, portaudio: dict[str, str]) -> None:
    assert name not in portaudio, portaudio[name]


# --- what is special about a file -------------------------------------------------------------


def contents(path: Path) -> bytes:
    with wave.open(str(path)) as file:
        form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
        assert form == (1, 2, SAMPLE_RATE)
        pcm = bytes(file.readframes(file.getnframes()))
        assert len(pcm) == 2 * file.getnframes()
        return pcm


async def test_a_wav_file_is_whole_at_every_moment(tmp_path: Path) -> None:
    path = tmp_path / "out.wav"
    sink = WavSink(path)
    await sink.open()
    assert contents(path) == b""
    await sink.write(noise(100))
    assert contents(path) == noise(100)
    await sink.write(noise(33, seed=2))
    await sink.stop()
    assert contents(path) == noise(100) + noise(33, seed=2)
    await sink.aclose()
    assert contents(path) == noise(100) + noise(33, seed=2)


@pytest.mark.parametrize("place", ["no/such/folder/out.wav", "."])
async def test_a_file_that_cannot_be_made(tmp_path: Path, place: str) -> None:
    sink = WavSink(tmp_path / place)
    with pytest.raises(DeviceUnavailable, match=r"^The file .* cannot be written: .*\.$"):
        await sink.open()
    assert sink.device is None
    await sink.aclose()


async def test_a_full_disk(tmp_path: Path) -> None:
    sink = WavSink(Path("/dev/full"))
    with pytest.raises(DeviceUnavailable, match="No space left on device"):
        await sink.open()
    assert sink.device is None


# --- what is special about PortAudio ----------------------------------------------------------


async def test_without_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    sink = PortAudioSink()
    with pytest.raises(DeviceUnavailable, match=r"PortAudio is not installed.*libportaudio2"):
        await sink.open()
    assert sink.device is None
    await sink.aclose()


def test_a_device_that_is_not_there(rig: Rig) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.playerd.sink_contract", "gramophone"],
        env=rig.environment,
        capture_output=True,
        timeout=PATIENCE_S,
        text=True,
        check=False,
    )
    assert child.returncode == 1
    assert child.stdout == (
        "The sound device 'gramophone' cannot be used (No output device matching 'gramophone'); "
        "python -m playerd.sinks.listing lists those there are.\n"
    )
