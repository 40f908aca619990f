"""PCM arithmetic."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import (
    PcmCutter,
    cut,
    faded_out,
    from_pcm,
    is_audible,
    ms_to_samples,
    pcm_samples,
    samples_to_ms,
    silence,
    to_pcm,
)


def test_loud_speech_is_clipped_and_never_wraps() -> None:
    pcm = to_pcm(np.array([0.0, 1.0, -1.0, 1.7, -1.7, np.inf, -np.inf, np.nan], dtype=np.float32))
    assert list(np.frombuffer(pcm, "<i2")) == [0, 32767, -32767, 32767, -32767, 32767, -32767, 0]


@given(st.lists(st.integers(-32767, 32767), max_size=50))
def test_pcm_survives_the_way_to_float_and_back(values: list[int]) -> None:
    pcm = np.array(values, dtype="<i2").tobytes()
    assert to_pcm(from_pcm(pcm)) == pcm


def test_milliseconds_and_samples() -> None:
    assert ms_to_samples(50) == 1200
    assert samples_to_ms(600) == 25.0
    assert pcm_samples(silence(7)) == 7


@pytest.mark.parametrize(("peak", "audible"), [(0, False), (98, False), (99, True), (-99, True)])
def test_audible_is_above_50_db_below_full_scale(peak: int, audible: bool) -> None:
    assert is_audible(np.array([0, peak, 0], dtype="<i2").tobytes()) is audible


def test_nothing_is_not_audible() -> None:
    assert not is_audible(b"")


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8), st.integers(1, 20))
def test_cutting_does_not_depend_on_how_the_input_came(
    pcm: bytes, cuts: list[int], samples: int
) -> None:
    whole = PcmCutter(samples)
    expected = [*whole.push(pcm), whole.rest()]
    parts = PcmCutter(samples)
    edges = [0, *sorted(min(c, len(pcm)) for c in cuts), len(pcm)]
    got = [piece for a, b in pairwise(edges) for piece in parts.push(pcm[a:b])] + [parts.rest()]
    assert got == expected
    assert b"".join(got) == pcm
    assert all(len(piece) == 2 * samples for piece in got[:-1])
    assert len(got[-1]) < 2 * samples


def test_a_fade_ends_in_silence_and_never_jumps() -> None:
    loud = np.full(120, 20_000, dtype="<i2")
    faded = np.frombuffer(faded_out(loud.tobytes()), "<i2").astype(int)
    assert faded[0] > 19_900
    assert faded[-1] < 100
    assert (np.diff(faded) <= 0).all()
    assert np.abs(np.diff(faded)).max() < 300


def test_cut_counts_in_samples() -> None:
    assert cut(b"aabbccdd", 1, 3) == b"bbcc"
