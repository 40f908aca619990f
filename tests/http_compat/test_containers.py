"""What the encoders write can be read back, whole, however it was cut."""

from __future__ import annotations

import io
import itertools
import wave

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import SAMPLE_RATE, from_pcm, ms_to_samples, silence, to_pcm
from http_compat.containers import encoder_for
from http_compat.schema import Format

#: of an MP3: the encoder's and the decoder's delay
DELAY = 1105
MP3_FRAME = 576


def tone(ms: float, hz: float = 440) -> bytes:
    time = np.arange(ms_to_samples(ms)) / SAMPLE_RATE
    return to_pcm((0.5 * np.sin(2 * np.pi * hz * time)).astype(np.float32))


def encoded(container: Format, *pieces: bytes) -> bytes:
    encoder = encoder_for(container)
    return encoder.start() + b"".join(map(encoder.encode, pieces)) + encoder.finish()


def decoded(data: bytes, container: Format) -> NDArray[np.float32]:
    with av.open(io.BytesIO(data), "r", format=str(container)) as opened:
        stream = opened.streams.audio[0]
        assert (stream.rate, stream.channels) == (SAMPLE_RATE, 1)
        frames = [frame.to_ndarray()[0] for frame in opened.decode(stream)]
    samples = np.concatenate(frames)
    scale = 32768 if samples.dtype == np.int16 else 1
    return samples.astype(np.float32) / np.float32(scale)


def power(samples: NDArray[np.float32], hz: float) -> float:
    """How much of the samples' power is at this frequency, from 0 to 1."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) ** 2
    at = round(hz * len(samples) / SAMPLE_RATE)
    return float(spectrum[at - 2 : at + 3].sum() / max(spectrum.sum(), 1e-12))


def test_pcm_is_pcm() -> None:
    pcm = tone(110)
    assert encoded(Format.PCM, pcm[:100], pcm[100:]) == pcm
    assert encoder_for(Format.PCM).content_type == "audio/pcm;rate=24000;channels=1"


def test_wav_has_one_header_of_44_bytes_with_open_lengths() -> None:
    header = encoder_for(Format.WAV).start()
    assert len(header) == 44
    assert header[4:8] == header[40:44] == b"\xff\xff\xff\xff"
    pcm = tone(100)
    assert encoded(Format.WAV, pcm, pcm) == header + pcm + pcm


def test_wav_is_read_by_the_standard_library() -> None:
    pcm = tone(130)
    with wave.open(io.BytesIO(encoded(Format.WAV, pcm))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        assert file.readframes(1_000_000) == pcm


def test_wav_is_read_by_ffmpeg() -> None:
    pcm = tone(130)
    samples = decoded(encoded(Format.WAV, pcm), Format.WAV)
    np.testing.assert_allclose(samples, from_pcm(pcm), atol=1e-4)


def test_mp3_starts_with_a_frame_and_not_with_a_header() -> None:
    data = encoded(Format.MP3, tone(500))
    assert data[0] == 0xFF
    assert data[1] & 0xF6 == 0xF2  # MPEG-2, layer III
    for header in (b"ID3", b"Xing", b"Info", b"TAG"):
        assert header not in data


@pytest.mark.parametrize("samples", [1, 575, 576, 577, 1200, 24_000, 48_300])
def test_mp3_is_as_long_as_the_pcm(samples: int) -> None:
    pcm = (tone(2100))[: 2 * samples]
    length = len(decoded(encoded(Format.MP3, pcm), Format.MP3))
    assert samples + DELAY <= length <= samples + DELAY + 2 * MP3_FRAME


def test_mp3_keeps_the_last_word() -> None:
    pcm = silence(20_011) + tone(100)
    samples = decoded(encoded(Format.MP3, pcm), Format.MP3)
    end = len(pcm) // 2 + DELAY
    assert power(samples[end - 2400 : end], 440) > 0.9
    assert np.abs(samples[end - 240 : end]).max() > 0.4
    assert np.abs(samples[:18_000]).max() < 0.01


def test_the_first_50_ms_of_mp3_give_bytes() -> None:
    assert encoder_for(Format.MP3).encode(tone(50))


def test_mp3_responses_can_be_concatenated() -> None:
    first = encoded(Format.MP3, tone(700, 440))
    second = encoded(Format.MP3, tone(900, 1000))
    lengths = [len(decoded(data, Format.MP3)) for data in (first, second)]
    both = decoded(first + second, Format.MP3)
    assert len(both) == sum(lengths)
    assert power(both[4800:14_400], 440) > 0.9
    assert power(both[lengths[0] + 4800 : lengths[0] + 14_400], 1000) > 0.9


@pytest.mark.parametrize("container", Format)
def test_nothing_encoded_is_still_valid(container: Format) -> None:
    encoder = encoder_for(container)
    assert isinstance(encoder.start() + encoder.finish(), bytes)


@given(
    st.sampled_from(Format),
    st.integers(0, 4000),
    st.lists(st.integers(0, 4000), max_size=6),
)
def test_the_cutting_does_not_matter(container: Format, samples: int, cuts: list[int]) -> None:
    noise = np.random.default_rng(7).integers(-9000, 9000, samples, dtype=np.int16)
    pcm = noise.astype("<i2").tobytes()
    at = sorted({0, samples, *(cut for cut in cuts if cut < samples)})
    pieces = [pcm[2 * a : 2 * b] for a, b in itertools.pairwise(at)]
    assert encoded(container, *pieces) == encoded(container, pcm)
