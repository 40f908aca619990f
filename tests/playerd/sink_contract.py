"""The rules of `playerd.sinks.base.Sink`, as checks that any sink must pass.

`test_sink_contract.py` runs them. The real sink runs in a child process, because PortAudio reads
the sound configuration once: `python -m tests.playerd.sink_contract` runs all checks with it and
prints the failures as JSON.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Awaitable, Callable

import numpy as np
import structlog
import trio

from engine.audio import PCM_DTYPE, SAMPLE_RATE, ms_to_samples
from playerd import priority
from playerd.sinks.base import DeviceUnavailable, Sink
from playerd.sinks.portaudio import PortAudioSink

Check = Callable[[Sink], Awaitable[None]]


def noise(ms: float, seed: int = 1) -> bytes:
    """Noise without a zero in it: whatever is lost, doubled or inserted shows. It ends softly."""
    generator = np.random.default_rng(seed)
    samples = generator.integers(1, 8000, ms_to_samples(ms))
    signed = samples * generator.choice([-1, 1], len(samples))
    signed[-1:] = 1
    return bytes(signed.astype(PCM_DTYPE).tobytes())


async def closed_until_opened(sink: Sink) -> None:
    assert sink.device is None
    for attempt in (sink.write(noise(20)), sink.dry(), sink.drain()):
        await unavailable(attempt)
    assert await sink.stop() == await sink.stop(cut=True) == sink.written_samples == 0
    assert sink.depth_ms == 0
    assert not sink.stalled
    await sink.open()
    assert sink.device
    assert sink.name
    device = sink.device
    await sink.open()
    assert sink.device == device


async def unavailable(attempt: Awaitable[object]) -> None:
    try:
        await attempt
    except DeviceUnavailable as error:
        assert error.message.endswith(".")
    else:
        raise AssertionError("it should have been refused")


async def all_that_is_written_is_played(sink: Sink) -> None:
    await sink.open()
    for _ in range(6):
        await sink.write(noise(100))
    assert sink.written_samples == ms_to_samples(600)
    await sink.drain()
    with trio.fail_after(0.001):
        await sink.played(sink.written_samples)
    # and the device, which has rested, takes up again
    await sink.write(noise(150))
    await sink.drain()
    assert sink.written_samples == ms_to_samples(750)


async def positions_are_passed_in_order(sink: Sink) -> None:
    await sink.open()
    passed: list[int] = []

    async def wait(position: int) -> None:
        await sink.played(position)
        passed.append(position)

    async with trio.open_nursery() as nursery:
        await sink.write(noise(100))
        for position in (0, 2400, 4800, 9600):
            nursery.start_soon(wait, position)
            await sink.write(noise(100))
        await sink.drain()
    assert passed == [0, 2400, 4800, 9600]


async def little_is_played_too(sink: Sink) -> None:
    await sink.open()
    await sink.write(b"")
    await sink.drain()
    await sink.write(noise(1))
    await sink.drain()
    await sink.played(sink.written_samples)
    assert sink.written_samples == 24


async def waiting_may_be_cancelled_and_loses_nothing(sink: Sink) -> None:
    await sink.open()
    for n in range(8):
        await sink.write(noise(100))
        with trio.move_on_after(0.013 * n):
            await (sink.drain() if n % 2 else sink.dry())
    await sink.drain()
    await sink.played(ms_to_samples(800))
    assert sink.written_samples == ms_to_samples(800)


async def a_paced_sink_runs_dry(sink: Sink) -> None:
    """And one without a pace never does."""
    await sink.open()
    await sink.write(noise(300))
    with trio.move_on_after(20) as patience:
        await sink.dry()
    assert patience.cancelled_caught == (sink.name == "wav")
    with trio.fail_after(20):
        await sink.drain()


async def stopping_gives_up_what_was_not_heard(sink: Sink) -> None:
    await sink.open()
    await sink.write(noise(100))
    await sink.write(noise(200))
    await sink.write(noise(100))
    written = sink.written_samples
    heard = await sink.stop()
    assert 0 <= heard <= written
    assert sink.name == "wav" or heard < written
    with trio.fail_after(0.001):
        await sink.played(written)
    assert sink.written_samples == written
    assert await sink.stop() == written  # nothing is left to give up
    await sink.write(noise(200))
    await sink.drain()
    await sink.played(written + ms_to_samples(200))


async def stopping_before_it_began(sink: Sink) -> None:
    await sink.open()
    assert await sink.stop() == 0
    await sink.write(noise(5))
    assert await sink.stop() <= 120


async def it_keeps_no_more_in_hand_than_a_moment(sink: Sink) -> None:
    """What a stop must give up, or a lost device takes with it, is less than half a second."""
    await sink.open()
    for _ in range(15):
        await sink.write(noise(100))
    heard = await sink.stop()
    assert sink.written_samples - heard < SAMPLE_RATE / 2


async def closing_may_be_repeated_and_undone(sink: Sink) -> None:
    assert sink.reopens == (sink.name != "wav")
    await sink.aclose()
    await sink.open()
    await sink.write(noise(300))
    await sink.aclose()
    await sink.aclose()
    assert sink.device is None
    await unavailable(sink.write(noise(20)))
    written = sink.written_samples
    await sink.open()
    await sink.write(noise(200))
    await sink.drain()
    await sink.played(written + ms_to_samples(200))


async def a_cut_stop_gives_up_what_was_not_heard(sink: Sink) -> None:
    await sink.open()
    for _ in range(4):
        await sink.write(noise(100))
    heard = await sink.stop(cut=True)
    assert sink.name == "wav" or 0 < heard < sink.written_samples
    with trio.fail_after(0.001):
        await sink.played(sink.written_samples)
    await sink.write(noise(100))
    await sink.drain()
    assert await sink.stop(cut=True) == sink.written_samples == ms_to_samples(500)


async def a_volume_changes_no_position(sink: Sink) -> None:
    assert sink.volume == 1.0
    await sink.open()
    await sink.write(noise(100))
    for volume in (0.5, 0.0, 1.0, 0.25):
        sink.volume = volume
        assert sink.volume == volume
        await sink.write(noise(50))
    await sink.drain()
    await sink.played(ms_to_samples(300))
    assert sink.written_samples == ms_to_samples(300)
    await sink.aclose()
    await sink.open()
    assert sink.volume == 0.25
    for wrong in (-0.01, 1.01, float("nan")):
        try:
            sink.volume = wrong
        except ValueError as error:
            assert str(error).endswith(".")
        else:
            raise AssertionError("it should have been refused")
    assert sink.volume == 0.25


async def a_sink_that_plays_is_not_stalled(sink: Sink) -> None:
    changes = []
    await sink.open()
    sink.on_change = lambda: changes.append(sink.stalled)
    assert (sink.depth_ms > 0) == (sink.name != "wav")
    assert sink.underruns == 0
    for _ in range(8):
        await sink.write(noise(100))
        assert not sink.stalled
    await sink.drain()
    await trio.sleep(0.7)  # nor is one that rests
    assert not sink.stalled
    assert changes == []


async def what_was_heard_never_falls_and_is_all_in_the_end(sink: Sink) -> None:
    told = [0]

    async def look() -> None:
        while True:
            heard = sink.heard_samples
            assert told[-1] <= heard <= sink.written_samples
            told.append(heard)
            await trio.sleep(0.005)

    async def play(ms: float) -> None:
        for _ in range(4):
            await sink.write(noise(ms / 4))
        await sink.drain()
        assert sink.heard_samples == sink.written_samples

    assert sink.heard_samples == 0
    await sink.open()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        for _ in range(2):
            await play(400)
            await trio.sleep(0.1)
        assert sink.name == "wav" or len(set(told)) > 40, "it goes with the sound"
        await sink.write(noise(300))
        await sink.stop()
        assert sink.heard_samples == sink.written_samples == ms_to_samples(1100)
        await play(200)
        await sink.write(noise(300))
        await sink.aclose()
        await sink.open()
        await play(200)
        nursery.cancel_scope.cancel()


async def a_device_can_be_chosen(sink: Sink) -> None:
    assert sink.wanted is None
    devices = await sink.devices()
    assert len(set(devices)) == len(devices) > 0
    await sink.open()
    device = sink.device
    assert device in devices
    sink.wanted = device
    await sink.write(noise(300))
    assert await sink.devices() == devices, "it is told while it plays, too"
    assert sink.device == device
    await sink.aclose()
    await sink.open()
    assert sink.device == device
    await sink.write(noise(100))
    await sink.drain()


CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        closed_until_opened,
        all_that_is_written_is_played,
        positions_are_passed_in_order,
        little_is_played_too,
        waiting_may_be_cancelled_and_loses_nothing,
        a_paced_sink_runs_dry,
        stopping_gives_up_what_was_not_heard,
        stopping_before_it_began,
        it_keeps_no_more_in_hand_than_a_moment,
        closing_may_be_repeated_and_undone,
        a_cut_stop_gives_up_what_was_not_heard,
        a_volume_changes_no_position,
        a_sink_that_plays_is_not_stalled,
        what_was_heard_never_falls_and_is_all_in_the_end,
        a_device_can_be_chosen,
    )
}


async def run(check: Check, sink: Sink) -> None:
    """One check, with an end if it hangs."""
    with trio.fail_after(60):
        try:
            await check(sink)
        finally:
            await sink.aclose()


def main() -> None:
    """All checks with the real sink; the failures as {name: traceback}.

    With an argument only opens the device of that name, and says why it cannot.
    """
    if len(sys.argv) > 1:
        try:
            trio.run(PortAudioSink(sys.argv[1]).open)
        except DeviceUnavailable as error:
            print(error.message)
            sys.exit(1)
        return
    # What the sink has to say of this machine is not the report; and what it has to do goes first.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    priority.raise_process()
    failures = {}
    for name, check in CHECKS.items():
        try:
            trio.run(run, check, PortAudioSink())
        except Exception:
            failures[name] = traceback.format_exc()
    json.dump({"ran": list(CHECKS), "failures": failures}, sys.stdout)


if __name__ == "__main__":
    main()
