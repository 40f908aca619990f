"""A real sound server, and what can happen to it: speech goes on, and what is told is so."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import soxr
import trio
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, SAMPLE_RATE, faded_out, ms_to_samples
from playerd.device import LOOK_AGAIN_S
from playerd.sinks.portaudio import QUICK_LIMIT_S, STOP_LIMIT_S
from playerd.sinks.watch import SILENT_S
from tests.playerd.sounding import Child, Task, sounding, word
from tests.support.rig import FORMS, Rig, code, parts
from tests.support.undisturbed import undisturbed

BLOCK = 480
SECONDS = 1.8
CODE = code(SECONDS)
TOTAL = len(CODE) // 2

# How long it takes at most, by what PortAudio and PulseAudio were measured to take, in seconds:
#: to say that the device went away
LOST_S = 0.15
#: to close, to look for devices afresh, to open, and to be asked for a block: 0.07 and less
OPEN_S = 0.12
#: until a device that asks for nothing is said to stand still, which it may not for `SILENT_S`
STALLED_S = SILENT_S + 0.1
#: until sound goes on when a device that stood still does
GOES_ON_S = 0.15


def one(found: list[range]) -> range:
    """The only part that was captured."""
    assert len(found) == 1, found
    return found[0]


def joined(found: list[range]) -> range:
    """The only part that was captured, perhaps with silence in it."""
    assert all(before.stop == after.start for before, after in pairwise(found)), found
    assert found
    return range(found[0].start, found[-1].stop)


def lost(child: Child) -> bool:
    """Whether the device was lost or stood still, after it had been opened."""
    done = next(n for n, fact in enumerate(child.told) if fact["kind"] == "done")
    devices = [fact for fact in child.told[:done] if fact["kind"] == "device"]
    return any(fact["name"] is None or fact["stalled"] for fact in devices)


# --- the server moves the stream --------------------------------------------------------------


@pytest.mark.parametrize("way", ["default", "move"])
async def test_another_sink_on_the_same_server(rig: Rig, way: str) -> None:
    async def attempt() -> None:
        try:
            with rig.capture("s24") as first, rig.capture("other") as second:
                async with sounding(rig, Task(SECONDS)) as child:
                    await child.played(600)
                    if way == "default":
                        rig.control("set-default-sink", "other")
                    else:
                        inputs = rig.control("list", "short", "sink-inputs").stdout.decode()
                        rig.control("move-sink-input", inputs.split("\t")[0], "other")
                    await child.hear("done")
        finally:
            rig.control("set-default-sink", "s24")
        before = joined(parts(first.read_bytes(), CODE))
        after = joined(parts(second.read_bytes(), CODE))
        assert (before.start, after.stop) == (0, TOTAL)
        print(f"{after.start - before.stop} samples lost")
        assert abs(before.stop - after.start) <= BLOCK
        assert not lost(child)

    await undisturbed(attempt)


async def test_the_sink_goes_and_there_is_another_one(silent_rig: Rig) -> None:
    async def attempt() -> None:
        silent_rig.down()
        silent_rig.up()
        with silent_rig.capture("other") as capture:
            async with sounding(silent_rig, Task(SECONDS)) as child:
                await child.played(500)
                silent_rig.control("set-default-sink", "other")
                silent_rig.control("set-default-sink", "s24")
                silent_rig.unload("s24")
                await child.hear("done")
        found = parts(capture.read_bytes(), CODE)
        assert found[-1].stop == TOTAL
        # What the server had handed to the sink is gone with it.
        print(f"{TOTAL - found[0].start - sum(map(len, found))} samples lost")
        assert TOTAL - found[0].start - sum(map(len, found)) in range(BLOCK + 1), found
        assert not lost(child)

    await undisturbed(attempt)


# --- another device is chosen -----------------------------------------------------------------


async def test_another_device_is_chosen(rig: Rig) -> None:
    async def attempt() -> None:
        with rig.capture("s24") as first, rig.capture("other") as second:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(300)
                await child.say("stop other")
                stopped = await child.hear("stopped")
                there = await child.hear("device", name="other")
                await child.hear("done")
        print(f"open after {there['at_s'] - stopped['at_s']:.3f} s")
        assert there["at_s"] - stopped["at_s"] < OPEN_S
        before = parts(first.read_bytes(), CODE)
        assert before[0].start == 0
        assert abs(before[0].stop + 120 - stopped["heard"]) <= BLOCK
        assert joined(parts(second.read_bytes(), code(0.5, 2))) == range(ms_to_samples(500))

    await undisturbed(attempt)


async def test_which_devices_there_are(rig: Rig, silent_rig: Rig) -> None:
    async def listed(rig: Rig) -> list[str]:
        child = await trio.run_process(
            [sys.executable, "-m", "playerd.sinks.listing"],
            env=rig.environment,
            capture_stdout=True,
            stderr=subprocess.DEVNULL,
        )
        return child.stdout.decode().splitlines()

    assert {*FORMS, "default"} <= set(await listed(rig))
    assert await listed(silent_rig) == []


# --- there is none any more, and then there is ------------------------------------------------


@pytest.mark.parametrize("fault", ["unplugged", "died"])
async def test_no_device_and_back(silent_rig: Rig, fault: str) -> None:
    rig = silent_rig

    async def attempt() -> None:
        rig.down()
        rig.up()
        with rig.capture("s24") as first:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(600)
                began_s = time.monotonic()
                if fault == "unplugged":
                    rig.control("unload-module", "module-null-sink")
                else:
                    rig.die()
                gone = await child.hear("device", name=None)
                child.sleep()  # until the recorder records
                if fault == "unplugged":
                    rig.load("s24")
                else:
                    rig.up()
                with rig.capture("s24") as second:
                    child.wake()
                    back_s = time.monotonic()
                    there = await child.hear("device", name="default")
                    await child.hear("done")
        before = joined(parts(first.read_bytes(), CODE))
        after = joined(parts(second.read_bytes(), CODE))
        print(
            f"lost after {gone['at_s'] - began_s:.3f} s, back after {there['at_s'] - back_s:.3f} s, "
            f"{before.stop - after.start} samples twice"
        )
        assert gone["at_s"] - began_s < LOST_S
        # It was looked for when it was lost, and perhaps in vain: then the next look waits.
        assert there["at_s"] - back_s < 2 * LOOK_AGAIN_S + OPEN_S
        assert (before.start, after.stop) == (0, TOTAL)
        # What the server has played since it asked last is not known to have been heard; and when
        # that was is known to some milliseconds.
        assert before.stop - 2 * BLOCK <= after.start <= before.stop + ms_to_samples(5)
        assert child.position(gone["at_s"]) <= before.stop + 2 * BLOCK

    await undisturbed(attempt)


# --- it stands still --------------------------------------------------------------------------


async def test_a_sink_that_is_suspended(rig: Rig) -> None:
    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(500)
                rig.control("suspend-sink", "s24", "1")
                began_s = time.monotonic()
                stalled = await child.hear("device", stalled=True)
                await trio.sleep(1.0)
                rig.control("suspend-sink", "s24", "0")
                over_s = time.monotonic()
                goes_on = await child.hear("device", stalled=False)
                await child.hear("done")
        print(f"stalled {stalled['at_s'] - began_s:.3f} s, over {goes_on['at_s'] - over_s:.3f} s")
        print(f"{TOTAL - sum(map(len, parts(capture.read_bytes(), CODE)))} samples lost")
        assert 0.4 < stalled["at_s"] - began_s < STALLED_S
        assert goes_on["at_s"] - over_s < GOES_ON_S
        found = parts(capture.read_bytes(), CODE)
        assert (found[0].start, found[-1].stop) == (0, TOTAL)
        assert TOTAL - sum(map(len, found)) in range(BLOCK + 1), found
        assert child.position(over_s) <= found[0].stop + BLOCK, "nothing is played by a frozen sink"

    await undisturbed(attempt)


async def test_a_server_that_does_not_answer_can_be_stopped(silent_rig: Rig) -> None:
    rig = silent_rig

    async def attempt() -> None:
        rig.down()
        rig.up()
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(500)
                rig.freeze()
                try:
                    await trio.sleep(0.3)
                    await child.say("stop")
                    stopped = await child.hear("stopped")
                    await trio.sleep(1.0)
                finally:
                    rig.thaw()
                thawed_s = time.monotonic()
                done = await child.hear("done")
        print(f"stopped in {stopped['took_s']:.3f} s, done {done['at_s'] - thawed_s:.3f} s later")
        assert stopped["took_s"] < STOP_LIMIT_S + QUICK_LIMIT_S + 0.1
        assert done["at_s"] - thawed_s - 0.5 < GOES_ON_S  # half a second is spoken
        assert done["lag_s"] < 0.1
        captured = capture.read_bytes()
        again = [p for p in parts(captured, code(0.5, 2)) if p.stop > 0]
        assert joined(again) == range(ms_to_samples(500))
        first = [p for p in parts(captured, CODE) if p.stop > 0]
        # What the server held when it was stopped it plays when it goes on.
        assert stopped["heard"] <= sum(map(len, first)) + BLOCK < stopped["heard"] + 6000

    await undisturbed(attempt)


async def test_a_server_that_does_not_answer_for_a_while_goes_on(silent_rig: Rig) -> None:
    rig = silent_rig

    async def attempt() -> None:
        rig.down()
        rig.up()
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS)) as child:
                await child.played(500)
                rig.freeze()
                try:
                    await child.hear("device", stalled=True)
                    await trio.sleep(1.0)
                finally:
                    rig.thaw()
                thawed_s = time.monotonic()
                goes_on = await child.hear("device", stalled=False)
                done = await child.hear("done")
        print(f"goes on after {goes_on['at_s'] - thawed_s:.3f} s")
        print(f"{TOTAL - sum(map(len, parts(capture.read_bytes(), CODE)))} samples lost")
        assert goes_on["at_s"] - thawed_s < GOES_ON_S
        assert done["lag_s"] < 0.1
        found = parts(capture.read_bytes(), CODE)
        assert (found[0].start, found[-1].stop) == (0, TOTAL)
        assert TOTAL - sum(map(len, found)) in range(BLOCK + 1), found

    await undisturbed(attempt)


async def test_a_sink_that_is_muted_plays_on(rig: Rig) -> None:
    """Nobody tells us; speech goes on in silence, and is not held back."""

    async def attempt() -> None:
        try:
            with rig.capture() as capture:
                async with sounding(rig, Task(SECONDS)) as child:
                    await child.played(400)
                    rig.control("set-sink-mute", "s24", "1")
                    await child.played(900)
                    rig.control("set-sink-mute", "s24", "0")
                    await child.hear("done")
        finally:
            rig.control("set-sink-mute", "s24", "0")
        first, *others = [part for part in parts(capture.read_bytes(), CODE) if part.stop > 0]
        assert (first.start, others[-1].stop) == (0, TOTAL)
        assert first.stop < ms_to_samples(900) < others[-1].start + ms_to_samples(100)
        assert not lost(child)

    await undisturbed(attempt)


@pytest.mark.parametrize("pauses_s", [(1.2,), (0.09, 0.12, 0.2, 0.4)])
async def test_a_process_that_was_stopped_goes_on(rig: Rig, pauses_s: tuple[float, ...]) -> None:
    """The device drops blocks then, and they are handed over again; see `Feed._doubt`.

    Once in some ten of pauses without a rest between them it drops others than it says: as much of
    a block is lost then, and as much heard twice.
    """

    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS)) as child:
                for n, pause_s in enumerate(pauses_s, 1):
                    await child.played(300 * n)
                    child.sleep()
                    await trio.sleep(pause_s)
                    child.wake()
                await child.hear("done")
        found = parts(capture.read_bytes(), CODE)
        assert (found[0].start, found[-1].stop) == (0, TOTAL)
        odd = [abs(after.start - before.stop) for before, after in pairwise(found)]
        assert max(odd, default=0) <= BLOCK, found
        assert sum(map(bool, odd)) <= len(pauses_s) // 2, found
        assert not lost(child)

    await undisturbed(attempt)


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


async def test_a_busy_thread_beside_it_costs_no_sample(rig: Rig) -> None:
    async def attempt() -> None:
        with rig.capture() as capture:
            async with sounding(rig, Task(SECONDS, spins=True)) as child:
                await child.hear("done")
        assert one(parts(capture.read_bytes(), CODE)) == range(TOTAL)
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
