"""A device that comes and goes: when it is looked for, and what is said."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from playerd.device import Device
from playerd.sinks.base import DeviceUnavailable
from tests.playerd.playing import Unplugged


async def test_it_is_looked_for_ever_more_rarely(autojump_clock: MockClock) -> None:
    device, looked_s = Device(Unplugged(), lambda: None), list[float]()
    with capture_logs() as logs:
        for _ in range(8):
            await device.look()
            looked_s.append(trio.current_time())
    waits_s = [b - a for a, b in pairwise(looked_s)]
    assert waits_s == pytest.approx([0.25, 0.5, 1, 2, 2, 2, 2])
    assert [entry["event"] for entry in logs] == ["There is no sound device."]


async def test_one_that_was_there_is_looked_for_at_once(autojump_clock: MockClock) -> None:
    sink = Unplugged(plugged=True)
    device = Device(sink, lambda: None)
    for _ in range(2):
        await device.look()
        assert device.present
        await trio.sleep(60)
        lost_s = trio.current_time()
        await device.lose(DeviceUnavailable("The sound device went away."))
        assert not device.present
        await device.look()
        assert trio.current_time() == lost_s


async def test_one_that_opens_and_fails_is_not_opened_without_pause(
    autojump_clock: MockClock,
) -> None:
    device = Device(Unplugged(plugged=True), lambda: None)
    for _ in range(10):
        await device.look()
        await device.lose(DeviceUnavailable("The sound device does not start."))
    assert trio.current_time() > 10


async def test_every_change_is_told(autojump_clock: MockClock) -> None:
    sink, told = Unplugged(plugged=True), list[tuple[bool, bool]]()
    device = Device(sink, lambda: told.append((device.present, device.stalled)))
    await device.look()
    sink.stalled = True
    sink.on_change()
    await device.lose(DeviceUnavailable("The sound device went away."))
    assert told == [(True, False), (True, True), (False, True)]


@pytest.mark.parametrize(("slept_s", "told"), [(0, 0), (29, 0), (31, 1)])
async def test_a_long_sleep_is_told(autojump_clock: MockClock, slept_s: float, told: int) -> None:
    sleeps = list[None]()
    device = Device(Unplugged(plugged=True), lambda: None, lambda: sleeps.append(None))
    await device.look()
    await device.lose(DeviceUnavailable("The machine was asleep.", slept_s=slept_s))
    assert len(sleeps) == told


async def test_without_a_device_there_is_silence_already(autojump_clock: MockClock) -> None:
    device = Device(Unplugged(), lambda: None)
    await device.look()
    assert await device.silence() == 0
    await device.aclose()
