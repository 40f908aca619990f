"""Another rate: as true as 16 bits, and every position found again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import PCM_DTYPE, SAMPLE_RATE
from playerd.sinks.convert import Converter
from tests.playerd.sink_contract import noise

RATES = [44_100, 48_000, 96_000, 16_000, 22_050]


def tones(n: int, rate: int) -> NDArray[np.float64]:
    """What speech can hold: three tones below 7 kHz, as loud as they may be together."""
    t = np.arange(n) / rate
    sines = [np.sin(2 * np.pi * f * t + f) for f in (220.0, 1730.0, 6900.0)]
    return np.asarray(9000 * np.sum(sines, axis=0), np.float64)


def snr_db(wanted: NDArray[np.float64], got: NDArray[np.float64]) -> float:
    return float(10 * np.log10((wanted**2).mean() / ((wanted - got) ** 2).mean()))


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("piece", [1, 77, 480, 2400])
def test_one_stream_however_it_is_cut(rate: int, piece: int) -> None:
    pcm = tones(SAMPLE_RATE, SAMPLE_RATE).round().astype(PCM_DTYPE).tobytes()
    converter = Converter(rate)
    out = b"".join(converter.put(pcm[at : at + 2 * piece]) for at in range(0, len(pcm), 2 * piece))
    out += converter.end()
    got = np.frombuffer(out, PCM_DTYPE).astype(float)
    assert len(got) == rate
    inner = slice(rate // 50, -rate // 50)  # a tone that begins and ends at once is no tone there
    assert snr_db(tones(rate, rate)[inner], got[inner]) > 80


def test_our_own_rate_is_left_alone() -> None:
    converter = Converter(SAMPLE_RATE)
    assert converter.put(noise(33)) == noise(33)
    assert converter.end() == b""
    assert converter.position(500) == converter.frames(500) == 500


def test_the_last_sample_is_whole() -> None:
    """Speech that ends loud keeps its end, and what follows later begins afresh."""
    converter = Converter(48_000)
    pcm = np.full(2400, 8000, PCM_DTYPE).tobytes()
    for _ in range(3):
        out = np.frombuffer(converter.put(pcm) + converter.end(), PCM_DTYPE)
        assert len(out) == 4800
        assert (np.abs(out[100:-100].astype(int) - 8000) < 40).all()
        assert out[-1] > 3000


def test_what_overshoots_is_clipped() -> None:
    converter = Converter(48_000)
    square = np.repeat(np.array([32767, -32768] * 40, PCM_DTYPE), 30).tobytes()
    out = np.frombuffer(converter.put(square) + converter.end(), PCM_DTYPE)
    wanted = np.repeat(np.array([1, -1] * 40), 60)
    inner = np.abs(np.arange(len(out)) % 60 - 30) < 20  # not at the steps
    assert (np.sign(out) == wanted)[inner].all()
    assert out.max() == 32767
    assert out.min() == -32768


@given(
    st.sampled_from([SAMPLE_RATE, *RATES]),
    st.lists(st.tuples(st.integers(0, 900), st.booleans()), max_size=12),
    st.integers(0, 10**9),
    st.integers(0, 10**6),
)
def test_positions_are_true_to_a_millisecond(
    rate: int, pieces: list[tuple[int, bool]], position: int, frames: int
) -> None:
    """Through any number of ends, and however long it has run before."""
    converter = Converter(rate, position, frames)
    first, given = position, frames
    joins = [(position, frames)]  # where sample and frame are known to be one
    for samples, ends in pieces:
        given += len(converter.put(bytes(2 * samples))) // 2
        position += samples
        if ends:
            given += len(converter.end()) // 2
            joins.append((position, given))
    given += len(converter.end()) // 2
    joins.append((position, given))
    assert given - frames == pytest.approx((position - first) * rate / SAMPLE_RATE, abs=13)
    for at, frame in joins:
        assert abs(converter.position(frame) - at) <= 1
        assert converter.frames(at) <= given
    before = converter.frames(first)
    for at in range(first, position + 1, 97):
        frame = converter.frames(at)
        assert before <= frame <= given
        assert 0 <= at - converter.position(frame) + 24 <= 48
        before = frame
    assert converter.position(10**12) == position
    assert converter.frames(position) == given, "or the end is waited for for ever"
