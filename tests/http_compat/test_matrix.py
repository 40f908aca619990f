"""Every container, in every way, by two decoders: real speech is all there, to the last word."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial

import numpy as np
import pytest
import soundfile
import soxr
import trio
from numpy.typing import NDArray

from bench.transcribe import ends_heard
from engine.audio import SAMPLE_RATE, from_pcm
from engine.request import Event, Frame, SpeechRequest
from engine.service import KokoroService
from http_compat.schema import Format, Way

from .decoding import (
    DELAY,
    FRAME,
    SNDFILE,
    Decoded,
    by_ffmpeg,
    by_sndfile,
    decoded_samples,
)
from .serving import Engine, post, sound_of

SAID = "the train to the coast leaves in the morning"

FIELDS: dict[Way, dict[str, object]] = {
    Way.STREAM: {},
    Way.WHOLE: {"stream": False},
    Way.EVENTS: {"stream_format": "sse"},
}

#: what a stream cannot help: its length is not known, and FFmpeg says so
_GUESSED = {"Estimating duration from bitrate, this may be inaccurate"}
_OPEN = {
    "Ignoring maximum wav data size, file may be invalid",
    "Packet corrupt (stream = 0, dts = NOPTS).",
}
EXPECTED = {
    (Format.MP3, Way.STREAM): _GUESSED,
    (Format.MP3, Way.WHOLE): _GUESSED,
    (Format.AAC, Way.STREAM): _GUESSED,
    (Format.AAC, Way.WHOLE): _GUESSED,
    (Format.PCM, Way.STREAM): _GUESSED,
    (Format.PCM, Way.WHOLE): _GUESSED,
    (Format.WAV, Way.STREAM): _GUESSED | _OPEN,
}


@pytest.fixture(scope="module")
def spoken(real_service: KokoroService) -> list[Event]:
    """What the engine says of the sentence; said once for all tests."""

    async def speak() -> list[Event]:
        async with real_service(SpeechRequest(text=f"{SAID.capitalize()}.")) as events:
            return [event async for event in events]

    return trio.run(speak)


@pytest.fixture(scope="module")
def pcm(spoken: list[Event]) -> bytes:
    return b"".join(event.pcm for event in spoken if isinstance(event, Frame))


@asynccontextmanager
async def replay(
    spoken: list[Event], request: SpeechRequest, /
) -> AsyncIterator[AsyncIterator[Event]]:
    async def events() -> AsyncGenerator[Event]:
        for event in spoken:
            yield event

    async with aclosing(events()) as own:
        yield own


async def sent(spoken: list[Event], container: Format, way: Way) -> bytes:
    body = {"input": SAID, "response_format": str(container), **FIELDS[way]}
    response = await post(Engine(partial(replay, spoken)).app(), body)
    assert response.status == 200
    return sound_of(response.body) if way is Way.EVENTS else response.body


@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("container", Format)
async def test_all_of_it_is_there(
    spoken: list[Event], pcm: bytes, container: Format, way: Way
) -> None:
    data = await sent(spoken, container, way)
    made = by_ffmpeg(data, container)
    likely = EXPECTED.get((container, Way.STREAM if way is Way.EVENTS else way), set())
    assert set(made.warnings) <= likely
    check_length(made, pcm, container)
    check_samples(made, pcm, container)
    if container is Format.FLAC and way is not Way.WHOLE:
        # Its header cannot say how long it is. soundfile seeks to where it has read to, and
        # libsndfile refuses to go to an end that the header does not name.
        known = len(pcm) // 2 - FRAME[container]
        check_samples(by_sndfile(data, known), pcm[: 2 * known], container)
        with pytest.raises(soundfile.LibsndfileError):
            by_sndfile(data)
    elif container in SNDFILE:
        other = by_sndfile(data)
        check_length(other, pcm, container)
        check_samples(other, pcm, container)


@pytest.mark.parametrize("container", [Format.MP3, Format.OPUS, Format.AAC])
async def test_the_last_word_is_heard(spoken: list[Event], container: Format) -> None:
    """In what loses something; the others are equal to what the engine said, sample by sample."""
    data = await sent(spoken, container, Way.STREAM)
    assert await sent(spoken, container, Way.WHOLE) == data
    assert await sent(spoken, container, Way.EVENTS) == data
    assert ends_heard(at_24_khz(by_ffmpeg(data, container)), SAID)
    if container in SNDFILE:
        assert ends_heard(at_24_khz(by_sndfile(data)), SAID)


async def test_a_missing_last_word_would_be_noticed(pcm: bytes) -> None:
    audio = from_pcm(pcm)
    assert ends_heard(audio, SAID)
    assert not ends_heard(audio[: -round(0.6 * SAMPLE_RATE)], SAID)


def check_length(made: Decoded, pcm: bytes, container: Format) -> None:
    """As long as the PCM, or as the whole frames that it takes."""
    assert made.length == decoded_samples(container, len(pcm) // 2)


def check_samples(made: Decoded, pcm: bytes, container: Format) -> None:
    """The same sound: to the sample, or nearly."""
    audio = at_24_khz(made)[DELAY.get(container, 0) :][: len(pcm) // 2]
    expected = np.frombuffer(pcm, "<i2") / np.float32(32768)
    if container in {Format.WAV, Format.FLAC, Format.PCM}:
        np.testing.assert_array_equal(audio, expected)
        return
    noise = np.mean((audio - expected) ** 2) / np.mean(expected**2)
    assert 10 * np.log10(noise) < -10  # it is in place: a shift by a few samples would be above 0


def at_24_khz(made: Decoded) -> NDArray[np.float32]:
    if made.rate == SAMPLE_RATE:
        return made.samples
    resampled: NDArray[np.float32] = soxr.resample(made.samples, made.rate, SAMPLE_RATE)
    return resampled
