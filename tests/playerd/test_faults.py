"""A real sound server, and what can happen to it: speech goes on, and what is told is so."""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import pairwise

import pytest
import trio

from engine.audio import ms_to_samples
from playerd.device import LOOK_AGAIN_S
from playerd.sinks.portaudio import QUICK_LIMIT_S, STOP_LIMIT_S
from playerd.sinks.watch import SILENT_S
from tests.playerd.sounding import BLOCK, CODE, SECONDS, TOTAL, Task, joined, lost, sounding
from tests.support.rig import FORMS, Rig, code, parts
from tests.support.undisturbed import undisturbed

# How long it takes at most, by what PortAudio and PulseAudio were measured to take, in seconds:
#: to say that the device went away
LOST_S = 0.15
#: to close, to look for devices afresh, to open, and to be asked for a block: 0.07 and less
OPEN_S = 0.12
#: until a device that asks for nothing is said to stand still, which it may not for `SILENT_S`
STALLED_S = SILENT_S + 0.1
#: until sound goes on when a device that stood still does
GOES_ON_S = 0.15


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
