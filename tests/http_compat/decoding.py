"""Containers back to sound, by FFmpeg (PyAV) and by libsndfile."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass

import av
import av.logging
import numpy as np
import soundfile
from numpy.typing import NDArray

from engine.audio import SAMPLE_RATE
from http_compat.schema import Format

#: what FFmpeg calls the containers
_NAMES = {Format.OPUS: "ogg", Format.PCM: "s16le"}

#: what a decoder gives before the sound: the delays of encoder and decoder
DELAY = {Format.MP3: 1105, Format.AAC: 1024}

#: frames that come out of a bare codec beyond those that the sound fills: what it looks ahead
AHEAD = {Format.MP3: 2, Format.AAC: 1}

#: samples of a codec's frame, 24 kHz
FRAME = {Format.MP3: 576, Format.AAC: 1024, Format.OPUS: 480, Format.FLAC: 1152}

#: what libsndfile reads
SNDFILE = {Format.MP3, Format.OPUS, Format.FLAC, Format.WAV}

#: as much as is read of a file
LONGEST_S = 60


@dataclass(frozen=True)
class Decoded:
    """Sound, float32 [n], at `rate`; and what the decoder had to say."""

    samples: NDArray[np.float32]
    rate: int = SAMPLE_RATE
    warnings: tuple[str, ...] = ()

    @property
    def length(self) -> float:
        """Samples at 24 kHz."""
        return len(self.samples) * SAMPLE_RATE / self.rate


def decoded_samples(container: Format, samples: int) -> int:
    """As what so many samples come back: to the sample, but bare frames are whole ones."""
    if container not in AHEAD:
        return samples
    return (math.ceil(samples / FRAME[container]) + AHEAD[container]) * FRAME[container]


def by_ffmpeg(data: bytes, container: Format) -> Decoded:
    """What FFmpeg makes of it."""
    before = av.logging.get_level()
    av.logging.set_level(av.logging.WARNING)
    av.logging.set_skip_repeated(False)
    options = {"sample_rate": str(SAMPLE_RATE)} if container is Format.PCM else {}
    name = _NAMES.get(container, str(container))
    try:
        with (
            av.logging.Capture() as told,
            av.open(io.BytesIO(data), "r", format=name, options=options) as opened,
        ):
            assert len(opened.streams) == 1
            stream = opened.streams.audio[0]
            assert stream.channels == 1
            frames = [frame.to_ndarray()[0] for frame in opened.decode(stream)]
            rate = stream.rate
    finally:
        av.logging.set_level(before)
    samples = np.concatenate(frames)
    scale = 32768 if samples.dtype == np.int16 else 1
    warnings = tuple(message.strip() for _, _, message in told)
    return Decoded(samples.astype(np.float32) / np.float32(scale), rate, warnings)


def by_sndfile(data: bytes, most: int | None = None) -> Decoded:
    """What libsndfile makes of it, or of its first samples."""
    with soundfile.SoundFile(io.BytesIO(data)) as file:
        assert file.channels == 1
        # With a limit: a WAV whose length is open claims to be very long.
        samples = file.read(most or LONGEST_S * file.samplerate, dtype="float32")
        return Decoded(samples, file.samplerate)
