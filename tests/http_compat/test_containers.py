"""What the encoders write can be read back, whole, however it was cut."""

from __future__ import annotations

import hashlib
import io
import itertools
import wave

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.audio import SAMPLE_RATE, from_pcm, ms_to_samples, silence, to_pcm
from http_compat.containers import encoder_for
from http_compat.schema import Format

from .decoding import DELAY, by_ffmpeg, decoded_samples


def tone(ms: float, hz: float = 440) -> bytes:
    time = np.arange(ms_to_samples(ms)) / SAMPLE_RATE
    return to_pcm((0.5 * np.sin(2 * np.pi * hz * time)).astype(np.float32))


def encoded(container: Format, *pieces: bytes, whole: bool = False) -> bytes:
    encoder = encoder_for(container)
    header = encoder.header()
    sound = b"".join(map(encoder.encode, pieces)) + encoder.finish()
    return (encoder.header() if whole else header) + sound


def decoded(data: bytes, container: Format) -> NDArray[np.float32]:
    return by_ffmpeg(data, container).samples


def power(samples: NDArray[np.float32], hz: float, rate: int = SAMPLE_RATE) -> float:
    """How much of the samples' power is at this frequency, from 0 to 1."""
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples)))) ** 2
    at = round(hz * len(samples) / rate)
    return float(spectrum[at - 2 : at + 3].sum() / max(spectrum.sum(), 1e-12))


def test_pcm_is_pcm() -> None:
    pcm = tone(110)
    assert encoded(Format.PCM, pcm[:100], pcm[100:]) == pcm
    assert encoder_for(Format.PCM).content_type == "audio/pcm;rate=24000;channels=1"


def test_wav_has_one_header_of_44_bytes_with_open_lengths() -> None:
    header = encoder_for(Format.WAV).header()
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


@pytest.mark.parametrize("container", Format)
@pytest.mark.parametrize("samples", [1, 479, 480, 481, 1151, 1152, 1200, 24_000, 48_300])
def test_sound_is_as_long_as_the_pcm(container: Format, samples: int) -> None:
    """Or as the frames of MP3 and AAC that it takes."""
    pcm = tone(2100)[: 2 * samples]
    made = by_ffmpeg(encoded(container, pcm), container)
    assert made.length == decoded_samples(container, samples)


@pytest.mark.parametrize("container", Format)
def test_the_last_word_is_kept(container: Format) -> None:
    pcm = silence(20_011) + tone(100)
    made = by_ffmpeg(encoded(container, pcm), container)
    end = round((len(pcm) // 2 + DELAY.get(container, 0)) * made.rate / SAMPLE_RATE)
    tenth = made.rate // 10
    assert power(made.samples[end - tenth : end], 440, made.rate) > 0.9
    assert np.abs(made.samples[end - tenth // 10 : end]).max() > 0.4
    assert np.abs(made.samples[: round(0.75 * made.rate)]).max() < 0.01


@pytest.mark.parametrize("container", [Format.WAV, Format.FLAC, Format.PCM])
@pytest.mark.parametrize("whole", [False, True])
def test_lossless_means_equal(container: Format, whole: bool) -> None:
    noise = np.random.default_rng(3).integers(-32768, 32767, 30_001, dtype=np.int16)
    data = encoded(container, noise.astype("<i2").tobytes(), whole=whole)
    samples = decoded(data, container) * 32768
    np.testing.assert_array_equal(samples.astype(np.int16), noise)


def test_the_first_50_ms_give_bytes() -> None:
    """Of all but AAC, whose encoder looks ahead."""
    for container in set(Format) - {Format.AAC}:
        assert encoder_for(container).encode(tone(50)), container
    encoder = encoder_for(Format.AAC)
    assert encoder.encode(tone(50)) + encoder.encode(tone(50))


@pytest.mark.parametrize("container", Format)
def test_a_header_is_as_long_at_the_end_and_knows_the_length(container: Format) -> None:
    encoder = encoder_for(container)
    before = encoder.header()
    encoder.encode(tone(100))
    assert encoder.header() == before
    encoder.finish()
    assert len(encoder.header()) == len(before)
    assert (encoder.header() != before) == (container in {Format.WAV, Format.FLAC})


def test_a_whole_wav_has_its_lengths() -> None:
    pcm = tone(100)
    data = encoded(Format.WAV, pcm, whole=True)
    assert int.from_bytes(data[4:8], "little") == len(data) - 8
    assert int.from_bytes(data[40:44], "little") == len(pcm) == len(data) - 44


def test_a_whole_flac_has_its_length_and_checksum() -> None:
    pcm = tone(1234)
    about = encoded(Format.FLAC, pcm, whole=True)[8:42]
    assert int.from_bytes(about[13:18], "big") & 0xF_FFFF_FFFF == len(pcm) // 2
    assert about[18:] == hashlib.md5(pcm).digest()


def test_there_is_one_header() -> None:
    marks = {Format.WAV: b"RIFF", Format.FLAC: b"fLaC", Format.OPUS: b"OpusHead"}
    for container, mark in marks.items():
        assert encoded(container, tone(700), tone(900)).count(mark) == 1


def test_the_last_page_of_opus_says_that_it_is_the_last() -> None:
    data = encoded(Format.OPUS, tone(333))
    flags = [data[at + 5] for at in range(len(data)) if data[at : at + 5] == b"OggS\0"]
    assert flags[0] & 2  # the first page
    assert [bool(flag & 4) for flag in flags] == [False] * (len(flags) - 1) + [True]


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
    assert isinstance(encoder.header() + encoder.finish(), bytes)


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
