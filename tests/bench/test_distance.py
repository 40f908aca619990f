"""Properties of the measures of distance, and clicks that must and must not be found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.distance import clicks, snr_db
from engine.model.distance import FRAME, lsd_db

Audio = NDArray[np.float32]
RATE = 24_000


def speechlike(seed: int, samples: int = RATE) -> Audio:
    """Harmonics with a wandering pitch, in syllables, with breath over them."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / RATE
    phase = 2 * np.pi * np.cumsum(120 + 20 * np.sin(2 * np.pi * 1.5 * time)) / RATE
    voiced = sum(np.sin(k * phase + rng.uniform(0, 6)) / k for k in range(1, 30))
    syllables = 0.55 + 0.45 * np.sin(2 * np.pi * 4 * time + rng.uniform(0, 6))
    noise = 0.02 * rng.standard_normal(samples)
    return (0.15 * syllables * voiced + noise * syllables).astype(np.float32)


seeds = st.integers(0, 1000)


@given(seeds)
def test_a_recording_is_at_no_distance_from_itself(seed: int) -> None:
    audio = speechlike(seed)
    assert lsd_db(audio, audio) == 0.0
    assert snr_db(audio, audio) == math.inf


@given(seeds, st.floats(-12, 12))
def test_a_gain_is_its_own_distance(seed: int, gain_db: float) -> None:
    audio = speechlike(seed)
    louder = (audio * 10 ** (gain_db / 20)).astype(np.float32)
    assert lsd_db(audio, louder) == pytest.approx(abs(gain_db), abs=0.05)


@given(seeds, st.floats(10, 60))
def test_noise_of_a_known_level_is_that_snr(seed: int, level_db: float) -> None:
    audio = speechlike(seed)
    noise = np.random.default_rng(seed + 1).standard_normal(len(audio))
    noise *= np.sqrt((audio.astype(float) ** 2).sum() / (noise**2).sum()) * 10 ** (-level_db / 20)
    assert snr_db(audio, (audio + noise).astype(np.float32)) == pytest.approx(level_db, abs=0.1)


@given(seeds)
def test_more_noise_is_further_away(seed: int) -> None:
    audio = speechlike(seed)
    noise = np.random.default_rng(seed + 1).standard_normal(len(audio))
    near, far = ((audio + level * noise).astype(np.float32) for level in (1e-4, 1e-2))
    assert 0 < lsd_db(audio, near) < lsd_db(audio, far)


def test_frames_that_are_quiet_in_the_reference_do_not_count() -> None:
    audio = speechlike(1, 2 * RATE)
    audio[RATE:] = 0
    other = audio.copy()
    other[RATE + FRAME :] = 1e-4  # would be tens of dB there
    assert lsd_db(audio, other) == 0.0


@pytest.mark.parametrize("measure", [lsd_db, snr_db])
def test_lengths_must_agree(measure: object) -> None:
    audio = speechlike(1)
    with pytest.raises(ValueError, match="24000 and 23999"):
        measure(audio, audio[:-1])  # type: ignore[operator]


def test_less_than_a_frame_has_no_spectrum() -> None:
    with pytest.raises(ValueError, match="shorter than one frame"):
        lsd_db(np.zeros(FRAME - 1, np.float32), np.zeros(FRAME - 1, np.float32))


def test_silence_has_no_snr_and_no_distance() -> None:
    nothing = np.zeros(2048, np.float32)
    assert lsd_db(nothing, nothing) == 0.0
    assert snr_db(nothing, nothing + np.float32(0.1)) == -math.inf


JOINTS = (4_801, 9_600, 14_399, 19_200)


@given(seeds)
def test_what_was_never_cut_does_not_click(seed: int) -> None:
    assert clicks(speechlike(seed), JOINTS) == []


@given(seeds, st.sampled_from(JOINTS), st.sampled_from((-1, 1)))
def test_a_step_clicks_where_it_is(seed: int, joint: int, sign: int) -> None:
    audio = speechlike(seed)
    around = np.abs(np.diff(audio[joint - 600 : joint + 600])).max()
    audio[joint:] += sign * 3 * around
    assert clicks(audio, JOINTS) == [joint]


@given(st.integers(20, 200), st.sampled_from(JOINTS), st.integers(0, 100))
def test_a_tone_that_turns_round_clicks_though_there_is_no_step(
    period: int, joint: int, seed: int
) -> None:
    breath = 0.001 * np.random.default_rng(seed).standard_normal(RATE)
    tone = 0.3 * np.sin(2 * np.pi * (np.arange(RATE) - joint) / period)
    audio = (tone + breath).astype(np.float32)
    assert clicks(audio, JOINTS) == []
    turned = np.concatenate([(tone + breath)[:joint], (breath - tone)[joint:]]).astype(np.float32)
    assert clicks(turned, JOINTS) == [joint]


def test_a_step_in_silence_clicks_if_it_can_be_heard() -> None:
    audio = np.zeros(RATE, np.float32)
    audio[9_600:] = 0.01
    audio[14_399:] += np.float32(1 / 32767)
    assert clicks(audio, JOINTS) == [9_600]


def test_a_joint_outside_the_recording_is_none() -> None:
    assert clicks(speechlike(1, 2_000), [0, 1, 1_999, 2_000, 9_999]) == []
