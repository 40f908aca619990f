"""The audio thread's side, called as PortAudio would call it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest

from engine.audio import PCM_DTYPE, faded_out, ms_to_samples
from playerd.sinks.feed import FADE_SAMPLES, Feed
from tests.playerd.sink_contract import noise

BLOCK = 480


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


def test_blocks_come_out_as_they_went_in_and_then_silence() -> None:
    feed = Feed(ms_to_samples(200), 0)
    pcm = noise(50)  # two blocks and a half
    feed.ring.write(pcm)
    assert block(feed) + block(feed) == pcm[: 4 * BLOCK]
    assert not feed.silent
    assert block(feed) == pcm[4 * BLOCK :] + bytes(BLOCK)
    assert feed.silent
    assert block(feed) == bytes(2 * BLOCK)


def test_the_mark_says_when_the_last_sample_leaves() -> None:
    feed = Feed(ms_to_samples(200), 1000)
    feed.ring.write(noise(30))
    before_s = time.monotonic()
    block(feed)
    handed, leaves_s = feed.mark
    assert handed == 1480
    assert 0.1 <= leaves_s - before_s <= 0.1 + (time.monotonic() - before_s)
    block(feed)
    mark = feed.mark
    assert mark[0] == 1000 + 720
    block(feed)
    assert feed.mark == mark, "silence is nobody's sample"


@pytest.mark.parametrize("dac_s", [0.0, 1e9])
def test_a_device_that_does_not_know_the_time(dac_s: float) -> None:
    feed = Feed(ms_to_samples(200), 0)
    feed.ring.write(noise(30))
    block(feed, Times(outputBufferDacTime=dac_s))
    assert feed.mark[1] - time.monotonic() < 1.1


def test_a_fade_takes_5_ms_and_forgets_the_rest() -> None:
    feed = Feed(ms_to_samples(200), 0)
    pcm = noise(100)
    feed.ring.write(pcm)
    block(feed)
    feed.fade = True
    out = block(feed)
    expected = faded_out(pcm[2 * BLOCK : 2 * (BLOCK + FADE_SAMPLES)])
    assert out == expected + bytes(2 * (BLOCK - FADE_SAMPLES))
    assert not feed.fade
    assert feed.waiting_samples == 0
    assert feed.mark[0] == BLOCK + FADE_SAMPLES
    assert block(feed) == bytes(2 * BLOCK)


@pytest.mark.parametrize("samples", [0, 1, 7, FADE_SAMPLES])
def test_a_fade_falls_to_silence_without_a_step(samples: int) -> None:
    level = np.frombuffer(faded_out(np.full(samples, 8000, PCM_DTYPE).tobytes()), PCM_DTYPE)
    assert len(level) == samples
    steps = np.diff(level.astype(int), prepend=8000, append=0)
    assert (steps <= 0).all()
    assert samples < FADE_SAMPLES or steps.min() > -110


def test_a_fade_with_nothing_left_is_done_at_once() -> None:
    feed = Feed(ms_to_samples(200), 0)
    feed.fade = True
    assert block(feed) == bytes(2 * BLOCK)
    assert not feed.fade


def test_whatever_happens_the_callback_gives_silence() -> None:
    feed = Feed(ms_to_samples(200), 0)
    feed.ring.write(noise(30))
    assert block(feed, object()) == bytes(2 * BLOCK)
    assert feed.failures == 1
    assert block(feed) == noise(30)[: 2 * BLOCK]


def test_the_device_says_when_it_had_to_wait() -> None:
    feed = Feed(ms_to_samples(200), 0)
    block(feed)
    block(feed, late=True)
    assert feed.waits == 1


def test_every_new_audio_thread_is_told_of_once() -> None:
    told: list[int] = []
    feed = Feed(ms_to_samples(200), 0, lambda: told.append(threading.get_native_id()))
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

    feed = Feed(ms_to_samples(200), 0, fail)
    pcm = noise(40)
    feed.ring.write(pcm)
    assert block(feed) == bytes(2 * BLOCK)
    assert block(feed) == pcm[: 2 * BLOCK]
    assert feed.failures == 1
