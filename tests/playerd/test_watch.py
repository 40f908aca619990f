"""What PortAudio does not report: a device that stands still, and a machine that was asleep."""

from __future__ import annotations

import time

import pytest

from playerd.sinks.sleep import asleep_s
from playerd.sinks.watch import REOPEN_MOST_S, REOPEN_S, Patience, Sleep, Watch

DEPTH_S = 0.06


def looked(
    watch: Watch, start_s: float, end_s: float, called_s: float | None = None
) -> list[float]:
    """Looks every 5 ms; gives the times when it was stalled. The device is called at each of them
    if not said otherwise."""
    stalled = []
    now_s = start_s
    while now_s < end_s:
        if watch.look(now_s, now_s if called_s is None else called_s):
            stalled.append(now_s)
        now_s += 0.005
    return stalled


@pytest.mark.parametrize(("depth_s", "limit_s"), [(0.06, 0.5), (0.12, 0.5), (0.2, 0.8)])
def test_a_device_that_does_not_ask_any_more(depth_s: float, limit_s: float) -> None:
    watch = Watch(depth_s)
    watch.begin(100.0)
    assert looked(watch, 100, 102) == []
    stalled = looked(watch, 102, 104, called_s=102)
    assert stalled[0] == pytest.approx(102 + limit_s, abs=0.01)
    assert watch.stalled
    assert looked(watch, 104, 105) == []
    assert not watch.stalled


def test_a_device_that_never_asked() -> None:
    watch = Watch(DEPTH_S)
    watch.begin(100.0)
    assert looked(watch, 100, 101, called_s=0.0)[0] == pytest.approx(100.5, abs=0.01)


def test_a_new_start_shows_no_life_yet() -> None:
    """It asks for all it can hold, suspended as it may be."""
    watch = Watch(DEPTH_S, stalled=True)
    watch.begin(100.0)
    assert len(looked(watch, 100, 101, called_s=100.001)) >= 200
    watch = Watch(DEPTH_S, stalled=True)
    watch.begin(100.0)
    assert looked(watch, 100, 101, called_s=100.08) != []
    assert not watch.look(101.0, 100.99)


def test_who_was_away_does_not_blame_the_device() -> None:
    """A process that was stopped, or kept from running, for three seconds."""
    watch = Watch(DEPTH_S)
    watch.begin(100.0)
    assert looked(watch, 100, 101) == []
    assert looked(watch, 104, 104.4, called_s=101) == []
    assert looked(watch, 104.4, 105, called_s=101)[0] == pytest.approx(104.5, abs=0.01)


def test_a_device_that_rests_is_not_stalled() -> None:
    watch = Watch(DEPTH_S)
    watch.begin(100.0)
    looked(watch, 100, 101, called_s=100)
    watch.rest()
    assert not watch.stalled


def test_patience_doubles_and_has_an_end() -> None:
    patience, due_s = Patience(), []
    for tick in range(1200):
        if patience.is_over(tick / 10):
            due_s.append(tick / 10)
    waits_s = [b - a for a, b in zip([0.0, *due_s], due_s, strict=False)]
    assert waits_s == pytest.approx([REOPEN_S, 10, 20, REOPEN_MOST_S, REOPEN_MOST_S])
    patience.reset()
    assert not patience.is_over(200.0)
    assert patience.is_over(200.0 + REOPEN_S)


@pytest.mark.parametrize(
    ("clock_s", "slept_s"),
    [
        ([5.0, 5.0, 5.0], [0, 0]),
        ([5.0, 6.9, 8.8], [0, 0]),  # two clocks read one after the other on a busy machine
        ([5.0, 7.1, 7.1], [pytest.approx(2.1), 0]),
        ([5.0, 605.0, 605.0, 640.0], [600, 0, 35]),
        ([5.0, 3.0], [0]),
    ],
)
def test_sleep(clock_s: list[float], slept_s: list[float]) -> None:
    sleep = Sleep(clock_s[0])
    assert [sleep.slept_s(now_s) for now_s in clock_s[1:]] == slept_s


@pytest.mark.parametrize(
    ("platform", "clock"), [("linux", "CLOCK_BOOTTIME"), ("darwin", "CLOCK_MONOTONIC_RAW")]
)
def test_the_clock_that_counts_sleep(
    monkeypatch: pytest.MonkeyPatch, platform: str, clock: str
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setattr(time, clock, 4711, raising=False)
    monkeypatch.setattr(time, "clock_gettime", {4711: 1000.0}.__getitem__)
    monkeypatch.setattr(time, "monotonic", lambda: 400.0)
    assert asleep_s() == 600.0


def test_where_no_clock_counts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    assert asleep_s() == 0.0


def test_this_machine_does_not_sleep_between_two_lines() -> None:
    assert asleep_s() == pytest.approx(asleep_s(), abs=1.0)
