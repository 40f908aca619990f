"""The audio thread's side, called as PortAudio would call it."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, faded_out, ms_to_samples
from playerd.sinks import feed as module
from playerd.sinks.feed import SOFT, Feed
from tests.playerd.sink_contract import noise

BLOCK = 480
FADE_SAMPLES = ms_to_samples(5)


class Clock:
    """Stands for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@dataclass
class Times:
    currentTime: float = 100.0
    outputBufferDacTime: float = 100.08


@dataclass
class Status:
    output_underflow: bool = False


def block(feed: Feed, times: object = None, *, late: bool = False) -> bytes:
    out = bytearray(b"\x55" * (2 * BLOCK))
    feed.callback(out, BLOCK, times or Times(), Status(late))
    return bytes(out)


def ending_softly(pcm: bytes) -> bytes:
    """So that nothing leads from it to silence."""
    return pcm[:-2] + b"\x01\x00"


def near(handed: int, leaves_s: float) -> object:
    """A mark, however its time was rounded."""
    return (handed, pytest.approx(leaves_s))


def test_blocks_come_out_as_they_went_in_and_then_silence() -> None:
    feed = Feed(ms_to_samples(200))
    pcm = noise(50)  # two blocks and a half
    feed.ring.write(pcm)
    assert block(feed) + block(feed) == pcm[: 4 * BLOCK]
    assert not feed.silent
    assert block(feed) == pcm[4 * BLOCK :] + bytes(BLOCK)
    assert feed.silent
    assert block(feed) == bytes(2 * BLOCK)


# --- silence first ----------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("frames", [1, 479, BLOCK, BLOCK + 200, 7200])
def test_a_lead_in_comes_first_and_is_nobodys_sample(
    clock: Clock, frames: int, channels: int
) -> None:
    feed = Feed(ms_to_samples(400), channels=channels)
    pcm = noise(100)
    feed.ring.write(pcm)
    feed.begin()
    feed.lead_in_frames = frames
    heard = b""
    while feed.waiting_frames:
        assert not feed.silent
        out = bytearray(2 * channels * BLOCK)
        feed.callback(out, BLOCK, Times(), Status())
        heard += np.frombuffer(out, PCM_DTYPE)[::channels].tobytes()
        handed = max(len(heard) // 2 - frames, 0)
        if 0 < handed < len(pcm) // 2:
            assert feed.mark == near(handed, clock.now_s + 0.1)
        clock.now_s += 0.02
    assert heard.rstrip(bytes(1)) == (bytes(2 * frames) + pcm).rstrip(bytes(1))
    assert feed.mark[0] == len(pcm) // 2


def test_a_stop_within_a_lead_in_is_heard_by_nobody() -> None:
    feed = Feed(ms_to_samples(400))
    feed.ring.write(noise(100))
    feed.lead_in_frames = 2 * BLOCK
    assert block(feed) == bytes(2 * BLOCK)
    feed.fade_by_s = math.inf
    assert block(feed) + block(feed) == bytes(4 * BLOCK)
    assert feed.fade_by_s is None
    assert (feed.faded, feed.mark[0], feed.waiting_frames) == (0, 0, 0)


# --- speech that breaks off -------------------------------------------------------------------

LOUD = st.integers(-32768, 32767)


def softly(rest: NDArray[np.int64], last: int, frames: int = FADE_SAMPLES) -> None:
    """Checks that these samples lead from the last one to silence, and that silence follows."""
    way, after = rest[:frames], rest[frames:]
    steps = np.diff(np.abs(way), prepend=abs(last))
    assert not after.any()
    if abs(last) > SOFT:
        assert (steps <= 0).all()
        assert (steps >= -abs(last) * 1.6 / frames - 1).all(), "that would click"
        assert (way * np.sign(last) >= 0).all()
    else:
        assert not way.any()


def samples_of(pcm: bytes) -> NDArray[np.int64]:
    return np.frombuffer(pcm, PCM_DTYPE).astype(np.int64)


@given(
    pieces=st.lists(st.lists(LOUD, max_size=1200), max_size=6),
    frames=st.sampled_from([64, 100, BLOCK, 960]),
    channels=st.sampled_from([1, 2]),
)
def test_speech_that_breaks_off_falls_to_silence_and_no_sample_changes(
    pieces: list[list[int]], frames: int, channels: int
) -> None:
    """However it comes in pieces, between which the device is left to play what there is."""
    feed = Feed(2000, channels=channels)

    def heard() -> NDArray[np.int64]:
        out = bytearray(b"\x55" * (2 * channels * frames))
        feed.callback(out, frames, Times(), Status())
        both = samples_of(bytes(out)).reshape(-1, channels)
        assert (both[:, 0] == both[:, -1]).all()
        return both[:, 0]

    written = 0
    for piece in pieces:
        feed.ring.write(np.array(piece, PCM_DTYPE).tobytes())
        written += len(piece)
        blocks = -(-len(piece) // frames) + 3
        captured = np.concatenate([heard() for _ in range(blocks)])
        assert captured[: len(piece)].tolist() == piece
        softly(captured[len(piece) :], piece[-1] if piece else 0)
        assert feed.mark[0] == written, "what is made up is nobody's sample"
    assert feed.failures == 0


def test_what_comes_back_while_it_falls_silent_is_heard_as_it_is() -> None:
    feed = Feed(ms_to_samples(200))
    first, second = np.full(BLOCK - 20, 8000, PCM_DTYPE).tobytes(), noise(20)
    feed.ring.write(first)
    softly_begun = block(feed)
    assert softly_begun.startswith(first)
    assert samples_of(softly_begun)[-1] > 7000
    feed.ring.write(second)
    assert block(feed) == second
    assert block(feed) == bytes(2 * BLOCK)


def test_it_falls_from_where_the_volume_has_it_and_not_after_a_fade_or_a_start() -> None:
    feed = Feed(ms_to_samples(200), volume=0.5)
    loud = np.full(BLOCK, 8000, PCM_DTYPE).tobytes()
    feed.ring.write(loud)
    block(feed)
    softly(samples_of(block(feed)), 4000)
    feed.ring.write(loud)
    feed.fade_by_s = math.inf
    assert not samples_of(block(feed))[FADE_SAMPLES:].any()
    feed.ring.write(loud)
    block(feed)
    feed.fade_by_s = math.inf
    softly(samples_of(block(feed)), 4000)  # there is nothing left that could fade
    feed.ring.write(loud)
    block(feed)
    feed.begin()  # it was aborted: nothing of it is to be heard any more
    assert block(feed) == bytes(2 * BLOCK)


def test_the_mark_says_when_the_last_sample_leaves(clock: Clock) -> None:
    feed = Feed(ms_to_samples(200))
    feed.ring.write(noise(30))
    block(feed)
    assert feed.mark == near(480, 1000.1)
    clock.now_s += 0.02
    block(feed)
    mark = feed.mark
    assert mark == near(720, 1000.02 + 0.08 + 0.01)
    clock.now_s += 0.02
    block(feed)
    assert feed.mark == mark, "silence is nobody's sample"


def test_after_the_device_stood_still_the_last_sample_leaves_later(clock: Clock) -> None:
    feed = Feed(ms_to_samples(200))
    feed.depth_s = 0.06
    feed.ring.write(noise(30))
    for _ in range(3):
        block(feed)
        clock.now_s += 0.02
    clock.now_s += 2.0
    block(feed)
    # Since the last sample the device was given ten milliseconds of silence and a block more.
    handed, leaves_s = feed.mark
    assert handed == 720
    assert leaves_s == pytest.approx(clock.now_s + 0.08 - 0.03)


def test_a_device_that_stood_still_is_not_believed_that_it_holds_nothing(clock: Clock) -> None:
    feed = Feed(ms_to_samples(400))
    feed.depth_s = 0.06
    feed.ring.write(noise(200))
    wrong = Times(outputBufferDacTime=100.0)
    feed.begin()
    block(feed, wrong)
    assert feed.mark[1] == pytest.approx(clock.now_s + 0.02)  # the device may be empty at a start
    clock.now_s += 2.0
    for _ in range(5):
        block(feed, wrong)
        assert feed.mark[1] == pytest.approx(clock.now_s + 0.06 + 0.02 + 0.02)
        clock.now_s += 0.02
    feed.begin()
    block(feed, wrong)
    assert feed.mark[1] == pytest.approx(clock.now_s + 0.02)


def test_a_new_start_owes_nothing_of_the_one_before(clock: Clock) -> None:
    feed = Feed(ms_to_samples(200))
    feed.depth_s = 0.06
    feed.ring.write(noise(30))
    block(feed)
    feed.finished()
    feed.begin()
    assert (feed.mark, feed.called_s) == ((480, 0.0), 0.0)
    assert not feed.ended
    clock.now_s += 100
    block(feed)
    assert feed.waits == 0
    assert feed.called_s == clock.now_s


@pytest.mark.parametrize("channels", [2, 6])
def test_all_channels_get_the_same(channels: int) -> None:
    feed = Feed(ms_to_samples(200), channels=channels)
    pcm = noise(30)
    feed.ring.write(pcm)
    out = bytearray(b"\x55" * (2 * channels * BLOCK))
    for expected in (pcm[: 2 * BLOCK], pcm[2 * BLOCK :] + bytes(BLOCK)):
        feed.callback(out, BLOCK, Times(), Status())
        frames = np.frombuffer(out, PCM_DTYPE).reshape(BLOCK, channels)
        for channel in range(channels):
            assert frames[:, channel].tobytes() == expected
    assert feed.mark[0] == 720


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_another_rate(rate: int, clock: Clock) -> None:
    feed = Feed(rate // 5, rate=rate)
    feed.ring.write(bytes(np.full(rate // 10, 8000, PCM_DTYPE).tobytes()))
    frames = rate // 50
    out = bytearray(2 * frames)
    feed.callback(out, frames, Times(), Status())
    assert feed.mark == near(frames, 1000.1)
    feed.fade_by_s = math.inf
    feed.callback(out, frames, Times(), Status())
    assert np.count_nonzero(np.frombuffer(out, PCM_DTYPE)) == pytest.approx(rate * 0.005, abs=2)


def test_the_volume_is_heard_at_the_next_block() -> None:
    feed = Feed(ms_to_samples(200), volume=0.5)
    pcm = noise(80)
    half = np.rint(np.frombuffer(pcm, PCM_DTYPE) * 0.5).astype(PCM_DTYPE).tobytes()
    feed.ring.write(pcm)
    assert block(feed) == half[: 2 * BLOCK]
    feed.gain.volume = 1.0
    block(feed)
    assert block(feed) == pcm[4 * BLOCK : 6 * BLOCK]


@pytest.mark.parametrize("dac_s", [0.0, 1e9])
def test_a_device_that_does_not_know_the_time(dac_s: float) -> None:
    feed = Feed(ms_to_samples(200))
    feed.ring.write(noise(30))
    block(feed, Times(outputBufferDacTime=dac_s))
    assert feed.mark[1] - time.monotonic() < 1.1


def test_a_fade_takes_5_ms_and_forgets_the_rest() -> None:
    feed = Feed(ms_to_samples(200))
    pcm = noise(100)
    feed.ring.write(pcm)
    block(feed)
    feed.fade_by_s = math.inf
    out = block(feed)
    expected = faded_out(pcm[2 * BLOCK : 2 * (BLOCK + FADE_SAMPLES)])
    assert out == expected + bytes(2 * (BLOCK - FADE_SAMPLES))
    assert feed.fade_by_s is None
    assert feed.waiting_frames == 0
    assert feed.mark[0] == BLOCK + FADE_SAMPLES
    assert block(feed) == bytes(2 * BLOCK)


@pytest.mark.parametrize(
    ("left_ms", "takes_ms"), [(20.0, 5.0), (4.0, 4.0), (2.5, 2.5), (1.0, 2.0), (-30.0, 2.0)]
)
def test_a_fade_that_would_be_late_is_shorter(
    clock: Clock, left_ms: float, takes_ms: float
) -> None:
    feed = Feed(ms_to_samples(200))
    pcm = noise(100)
    feed.ring.write(pcm)
    feed.fade_by_s = clock.now_s + 0.08 + left_ms / 1000  # the block leaves the device in 80 ms
    out = block(feed)
    samples = ms_to_samples(takes_ms)
    assert out == faded_out(pcm[: 2 * samples]) + bytes(2 * (BLOCK - samples))
    assert feed.mark == near(samples, 1000.08 + takes_ms / 1000)


@pytest.mark.parametrize("samples", [0, 1, 7, FADE_SAMPLES])
def test_a_fade_falls_to_silence_without_a_step(samples: int) -> None:
    level = np.frombuffer(faded_out(np.full(samples, 8000, PCM_DTYPE).tobytes()), PCM_DTYPE)
    assert len(level) == samples
    steps = np.diff(level.astype(int), prepend=8000, append=0)
    assert (steps <= 0).all()
    assert samples < FADE_SAMPLES or steps.min() > -110


def test_a_fade_with_nothing_left_is_done_at_once() -> None:
    feed = Feed(ms_to_samples(200))
    feed.fade_by_s = math.inf
    assert block(feed) == bytes(2 * BLOCK)
    assert feed.fade_by_s is None


def test_whatever_happens_the_callback_gives_silence() -> None:
    feed = Feed(ms_to_samples(200))
    feed.ring.write(noise(30))
    assert block(feed, object()) == bytes(2 * BLOCK)
    assert feed.failures == 1
    assert block(feed) == noise(30)[: 2 * BLOCK]


@pytest.mark.parametrize(
    ("late_s", "flag", "waits"),
    [
        (0.02, False, 0),
        (0.02, True, 1),
        (0.06, False, 0),
        (0.07, False, 1),
        (0.07, True, 1),  # one trouble that is told twice
        (0.49, False, 1),
        (0.6, True, 0),  # it stood still for a reason that is not ours
    ],
)
def test_the_device_says_when_it_had_to_wait(
    clock: Clock, late_s: float, flag: bool, waits: int
) -> None:
    feed = Feed(ms_to_samples(200))
    feed.depth_s = 0.065
    block(feed)
    clock.now_s += late_s
    block(feed, late=flag)
    assert feed.waits == waits


def test_one_trouble_that_is_told_of_after_the_block_that_was_late_counts_once(
    clock: Clock,
) -> None:
    feed = Feed(ms_to_samples(200))
    feed.depth_s = 0.06
    block(feed)
    clock.now_s += 0.12
    block(feed, Times(100.0, 100.0))
    clock.now_s += 0.004
    block(feed, late=True)
    assert feed.waits == 1


# --- what the device drops --------------------------------------------------------------------


class Device:
    """Plays blocks, as PortAudio on ALSA was seen to do it when it has run dry.

    Args:
        feed: it asks.
        clock: passes with it.
    """

    def __init__(self, feed: Feed, clock: Clock) -> None:
        self.feed = feed
        self.clock = clock
        self.heard = b""
        self._holds: list[bytes] = []
        feed.begin()
        for _ in range(4):
            self._ask()

    def play(self) -> None:
        """A block leaves it, and it asks for another one in time."""
        self.clock.now_s += 0.02
        self.heard += self._holds.pop(0)
        self._ask()

    def starve(self, blocks: int, *, pause_s: float = 0.0) -> None:
        """It is not answered until it is dry; it takes some blocks, and drops them.

        Args:
            blocks: how many.
            pause_s: how long it is not answered then.
        """
        self.heard += b"".join(self._holds)
        self.clock.now_s += 0.02 * len(self._holds) + 0.03
        self._holds.clear()
        for _ in range(blocks):
            self._ask()
            self.clock.now_s += 0.001
        self._holds.clear()
        self.clock.now_s += pause_s
        self._ask(dry=True)
        while len(self._holds) < 4:
            self._ask()

    def _ask(self, *, dry: bool = False) -> None:
        out = bytearray(2 * BLOCK)
        times = Times(100.0, 100.0 + 0.02 * len(self._holds))
        self.feed.callback(out, BLOCK, times, Status(dry))
        self._holds.append(bytes(out))


@given(
    pcm_ms=st.integers(30, 900),
    events=st.lists(st.sampled_from(["play", "play", "play", 0, 1, 2, 3, 3.045]), max_size=25),
)
def test_every_sample_is_heard_once_and_in_order_whatever_the_device_drops(
    pcm_ms: int, events: list[str | float]
) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "time", clock)
        feed = Feed(ms_to_samples(1000))
        feed.depth_s = 0.06
        pcm = ending_softly(noise(pcm_ms))
        feed.ring.write(pcm)
        device = Device(feed, clock)
        for event in events:
            if isinstance(event, str):
                device.play()
            else:
                device.starve(int(event), pause_s=event % 1)
            assert feed.mark[0] <= len(pcm) // 2
        while feed.waiting_frames or not feed.silent:
            device.play()
        for _ in range(6):
            device.play()
    assert device.heard.rstrip(bytes(1)) == pcm.rstrip(bytes(1))
    assert feed.mark[0] == len(pcm) // 2
    assert feed.waits == sum(not isinstance(event, str) for event in events)


def test_what_was_dropped_before_a_stop_is_not_heard_after_it(clock: Clock) -> None:
    feed = Feed(ms_to_samples(1000))
    feed.depth_s = 0.06
    feed.ring.write(noise(500))
    device = Device(feed, clock)
    device.play()
    device.starve(2)
    feed.fade_by_s = math.inf
    device.play()
    assert not feed.waiting_frames
    assert feed.fade_by_s is None
    feed.begin()
    assert block(feed) == bytes(2 * BLOCK)


def test_what_fades_out_while_it_may_be_dropped_is_not_heard_again(clock: Clock) -> None:
    feed = Feed(ms_to_samples(1000))
    feed.depth_s = 0.06
    feed.ring.write(noise(500))
    block(feed)
    clock.now_s += 0.1
    block(feed, Times(100.0, 100.0))
    feed.fade_by_s = math.inf
    block(feed, Times(100.0, 100.0))
    assert feed.fade_by_s is None
    clock.now_s += 0.004
    assert block(feed, late=True) == bytes(2 * BLOCK)
    assert block(feed) == bytes(2 * BLOCK)


@pytest.mark.parametrize("late_s", [0.042, 0.05, 0.059, 0.07])
def test_a_hole_counts_also_if_the_block_before_it_was_hardly_late(
    clock: Clock, late_s: float
) -> None:
    feed = Feed(ms_to_samples(1000))
    feed.depth_s = 0.06
    feed.ring.write(noise(500))
    block(feed)
    clock.now_s += late_s
    block(feed, Times(100.0, 100.0))
    clock.now_s += 0.004
    block(feed, late=True)
    assert feed.waits == 1
    clock.now_s += 0.004
    block(feed, late=True)
    assert feed.waits == 2, "another one, of which nothing was said before"


def test_a_late_block_that_was_not_dropped_is_not_repeated(clock: Clock) -> None:
    """The flag has to come soon: later it is another trouble."""
    feed = Feed(ms_to_samples(1000))
    feed.depth_s = 0.06
    pcm = noise(500)
    feed.ring.write(pcm)
    heard = block(feed)
    clock.now_s += 0.07
    heard += block(feed)
    for _ in range(6):
        clock.now_s += 0.02
        heard += block(feed)
    heard += block(feed, late=True)
    assert heard == pcm[: len(heard)]


def test_every_new_audio_thread_is_told_of_once() -> None:
    told: list[int] = []
    feed = Feed(
        ms_to_samples(200), on_first_callback=lambda: told.append(threading.get_native_id())
    )
    feed.ring.write(noise(100))

    def two_blocks() -> None:
        block(feed)
        block(feed)

    for _ in range(2):  # PortAudio makes a thread at every start
        thread = threading.Thread(target=two_blocks)
        thread.start()
        thread.join()
    assert len(told) == len(set(told)) == 2


def test_a_priority_that_fails_costs_no_more_than_a_block() -> None:
    def fail() -> None:
        raise OSError

    feed = Feed(ms_to_samples(200), on_first_callback=fail)
    pcm = noise(40)
    feed.ring.write(pcm)
    assert block(feed) == bytes(2 * BLOCK)
    assert block(feed) == pcm[: 2 * BLOCK]
    assert feed.failures == 1
