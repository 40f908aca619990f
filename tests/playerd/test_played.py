"""What is heard on a real sound server when all is well: stops, words, beside work, other rates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soxr
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, SAMPLE_RATE, faded_out, ms_to_samples
from tests.playerd.sounding import BLOCK, CODE, SECONDS, TOTAL, Task, joined, lost, sounding, word
from tests.support.rig import FORMS, Rig, code, parts
from tests.support.undisturbed import undisturbed

# --- stop -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "most_s"), [("stop", 0.15), ("cut", 0.03)])
async def test_what_is_heard_of_a_stop(rig: Rig, how: str, most_s: float) -> None:
    """Silence within 100 ms; the last sample heard is the one that is told of."""

    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(500)
                await child.say(how)
                stopped = await child.hear("stopped")
                await child.hear("done")
        after_s = stopped["after"] / SAMPLE_RATE
        print(f"{how} took {stopped['took_s']:.3f} s, silence after {after_s:.3f} s")
        assert stopped["took_s"] < most_s
        heard, faded = stopped["heard"], stopped["faded"]
        captured = capture.read_bytes().lstrip(bytes(1))
        if how == "stop":
            assert after_s <= 0.105  # the device's word is some milliseconds late
            assert ms_to_samples(2) <= faded <= ms_to_samples(5)
            whole, end = CODE[: 2 * (heard - faded)], CODE[2 * (heard - faded) : 2 * heard]
            assert captured.startswith(whole + faded_out(end) + bytes(1000))
            rest = captured[2 * heard :]
        else:
            assert faded == 0
            first, *_ = parts(captured, CODE)
            assert first.start == 0
            assert abs(first.stop - heard) <= BLOCK
            rest = captured[2 * first.stop :]
        assert joined(parts(rest, code(0.5, 2))) == range(ms_to_samples(500))

    await undisturbed(attempt)


# --- speech after speech, and beside work -----------------------------------------------------


def ends_loudly(pcm: bytes) -> bytes:
    """PCM with what follows it when it breaks off."""
    return pcm + faded_out(np.full(ms_to_samples(5), sample(pcm, -1), PCM_DTYPE).tobytes())


def sample(pcm: bytes, n: int) -> int:
    return int(np.frombuffer(pcm, PCM_DTYPE)[n])


async def test_twenty_words_are_heard_whole_and_end_when_they_are_said_to(rig: Rig) -> None:
    """From the first sample to the last, however short and loud; each is a start of the device."""
    words = (30.0, 90.0, 250.0, 30.0, 130.0) * 4

    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(words=words)) as child:
                await child.hear("done")
        expected = [word(ms, n) for n, ms in enumerate(words)]
        with_ends = b"".join(pcm if n % 2 else ends_loudly(pcm) for n, pcm in enumerate(expected))
        assert without_silence(capture.read_bytes()) == without_silence(with_ends)
        said = [fact for fact in child.told if fact["kind"] == "said"]
        late_ms = [
            1000 * fact["took_s"] - len(pcm) / 2 / SAMPLE_RATE * 1000
            for fact, pcm in zip(said, expected, strict=True)
        ]
        print(f"the end is told {np.median(late_ms):.0f} ms late, {max(late_ms):.0f} at most")
        assert min(late_ms) >= 0
        assert np.median(late_ms) <= 40
        assert not lost(child)

    await undisturbed(attempt)


def without_silence(pcm: bytes) -> bytes:
    samples = np.frombuffer(pcm, PCM_DTYPE)
    return bytes(samples[samples != 0].tobytes())


@pytest.mark.alone  # with what runs beside it there are more busy threads than this one
async def test_a_busy_thread_beside_it_costs_no_sample(rig: Rig) -> None:
    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS, spins=True)) as child:
                await child.hear("done")
        assert parts(capture.read_bytes(), CODE) == [range(TOTAL)]
        assert not lost(child)

    await undisturbed(attempt)


# --- another rate -----------------------------------------------------------------------------


def speech_like(seconds: float) -> NDArray[np.float64]:
    """Noise that is as narrow as speech, and quiet at both ends."""
    white = np.random.default_rng(3).standard_normal(round(seconds * SAMPLE_RATE))
    spectrum = np.fft.rfft(white)
    spectrum[np.fft.rfftfreq(len(white), 1 / SAMPLE_RATE) > 8000] = 0
    narrow = np.fft.irfft(spectrum, len(white))
    window = np.minimum(1, np.minimum(np.arange(len(white)), np.arange(len(white))[::-1]) / 2400)
    return np.asarray(narrow * window * 9000 / np.abs(narrow).max() * 2, np.float64)


def lag(wanted: NDArray[np.float64], heard: NDArray[np.float64]) -> int:
    """By how many frames `wanted` is later in `heard`."""
    n = len(wanted) + len(heard)
    product = np.fft.rfft(heard, n) * np.conj(np.fft.rfft(wanted, n))
    return int(np.argmax(np.fft.irfft(product, n)[: len(heard)]))


@pytest.mark.parametrize(("sink", "channels"), [("s44", 1), ("s48", 2)])
async def test_a_device_with_a_rate_of_its_own(
    rig: Rig, tmp_path: Path, sink: str, channels: int
) -> None:
    rate = FORMS[sink][0]
    pcm = speech_like(1.5).round().astype(PCM_DTYPE)
    (tmp_path / "speech.raw").write_bytes(pcm.tobytes())
    wanted = soxr.resample(pcm.astype(np.float64), SAMPLE_RATE, rate, quality="VHQ")

    async def attempt() -> None:
        task = Task(device=sink, file=str(tmp_path / "speech.raw"), only=(rate, channels))
        with rig.capture(sink) as capture:
            async with sounding(rig, task) as child:
                await child.played(300)
                # A sink that nobody uses takes any rate; then nothing would be tested.
                assert rig.rate(sink) == rate
                done = await child.hear("done")
        frames = np.frombuffer(capture.read_bytes(), PCM_DTYPE).reshape(-1, 2)
        assert (frames[:, 0] == frames[:, 1]).all()
        heard = frames[:, 0].astype(np.float64)
        at = lag(wanted, heard)
        third = len(wanted) // 3
        assert lag(wanted[:third], heard) == at
        assert lag(wanted[-third:], heard) == at + len(wanted) - third
        error = heard[at : at + len(wanted)] - wanted
        snr_db = 10 * np.log10((wanted**2).mean() / (error**2).mean())
        print(f"{snr_db:.1f} dB at {rate} Hz")
        assert snr_db > 70
        assert child.position(done["at_s"]) == len(pcm)

    await undisturbed(attempt)
