"""How loud, to the sample."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE
from playerd.sinks.gain import Gain
from tests.playerd.sink_contract import noise

RAMP = 480


def applied(gain: Gain, pcm: bytes) -> NDArray[np.int16]:
    out = bytearray(pcm)
    gain.apply(memoryview(out))
    return np.frombuffer(out, PCM_DTYPE)


LOUDEST = np.tile(np.array([32767, -32768], PCM_DTYPE), 2 * RAMP).tobytes()


def test_full_volume_changes_nothing() -> None:
    assert applied(Gain(), LOUDEST).tobytes() == LOUDEST


def test_a_change_takes_20_ms_and_no_step_is_large() -> None:
    gain = Gain()
    gain.volume = 0.0
    level = applied(gain, np.full(2 * RAMP, 24_000, PCM_DTYPE).tobytes()).astype(int)
    assert np.abs(np.diff(level, prepend=24_000)).max() <= 24_000 / RAMP + 1
    assert level[RAMP - 2] > 0
    assert not level[RAMP - 1 :].any()
    gain.volume = 1.0
    level = applied(gain, np.full(2 * RAMP, 24_000, PCM_DTYPE).tobytes()).astype(int)
    assert level[0] == 50
    assert level[RAMP - 2] < 24_000
    assert (level[RAMP - 1 :] == 24_000).all()


def test_back_at_full_volume_it_is_exact_again() -> None:
    gain = Gain(0.3)
    gain.volume = 1.0
    applied(gain, LOUDEST)
    assert applied(gain, noise(20)).tobytes() == noise(20)


@pytest.mark.parametrize("rate", [24_000, 44_100, 48_000])
def test_the_ramp_is_as_long_at_any_rate(rate: int) -> None:
    gain = Gain(0.0, rate)
    gain.volume = 1.0
    level = applied(gain, np.full(rate // 10, 10_000, PCM_DTYPE).tobytes())
    assert np.argmax(level == 10_000) == pytest.approx(0.02 * rate, abs=1)


@given(
    st.floats(0, 1), st.floats(0, 1), st.lists(st.integers(0, 700), max_size=6), st.integers(0, 9)
)
def test_it_does_not_matter_how_it_is_cut(
    start: float, volume: float, cuts: list[int], seed: int
) -> None:
    pcm = np.random.default_rng(seed).integers(-32768, 32768, 1200).astype(PCM_DTYPE).tobytes()
    whole, pieces = Gain(start), Gain(start)
    whole.volume = pieces.volume = volume
    expected = applied(whole, pcm).astype(int)
    edges = sorted({0, 1200, *cuts})
    parts = [applied(pieces, pcm[2 * a : 2 * b]) for a, b in pairwise(edges)]
    # one apart where a half is rounded
    assert np.abs(np.concatenate(parts) - expected).max() <= 1
    loud = np.abs(np.frombuffer(pcm, PCM_DTYPE).astype(int))
    assert (np.abs(expected) <= loud).all(), "louder than it was, or wrapped"
    assert not np.any(expected * np.frombuffer(pcm, PCM_DTYPE).astype(int) < 0)
