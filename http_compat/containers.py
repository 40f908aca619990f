"""PCM into the containers that clients ask for, piece by piece. Core.

    encoder = encoder_for(format)
    out = encoder.start()           # headers, if the container has any
    out += encoder.encode(pcm)      # any number of times, any number of samples
    out += encoder.finish()         # what the encoder still holds: without it the last word is cut

Whatever way the same PCM is cut, the bytes are the same. Nothing is written that has to be
patched when the length is known, so every container can be streamed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import av
import numpy as np

from engine.audio import PCM_DTYPE, SAMPLE_BYTES, SAMPLE_RATE, PcmCutter

from .schema import Format

CHANNELS = 1

#: Four bits a sample, where LAME's artefacts in speech at 24 kHz are below hearing.
MP3_BIT_RATE = 96_000

MP3_OPTIONS = {
    # Each MP3 frame stands alone: the first 50 ms of PCM give bytes at once, and one response
    # after another in the same file decodes without a glitch at the seam.
    "reservoir": "0",
    # LAME's fast mode: as close to the original as the slow one at this bit rate, at 60 % of the
    # time (0.6 ms for 50 ms of speech), so that it may run in the event loop.
    "compression_level": "7",
}

#: what a length field says when the length is not known yet
UNKNOWN_LENGTH = 0xFFFF_FFFF


class Encoder(Protocol):
    """One response's encoder; see the module docstring for the order of calls."""

    content_type: ClassVar[str]

    def start(self) -> bytes:
        """Bytes before all audio."""
        ...

    def encode(self, pcm: bytes) -> bytes:
        """Bytes that are complete after `pcm` (s16le, mono, 24 kHz); may be none."""
        ...

    def finish(self) -> bytes:
        """Bytes still held back; nothing may be encoded after it."""
        ...


def encoder_for(container: Format) -> Encoder:
    """A new encoder."""
    return _ENCODERS[container]()


class Pcm:
    """Samples and nothing else."""

    # OpenWebUI reads rate and channels from here.
    content_type: ClassVar[str] = f"audio/pcm;rate={SAMPLE_RATE};channels={CHANNELS}"

    def start(self) -> bytes:
        """See `Encoder`."""
        return b""

    def encode(self, pcm: bytes) -> bytes:
        """See `Encoder`."""
        return pcm

    def finish(self) -> bytes:
        """See `Encoder`."""
        return b""


class Wav(Pcm):
    """RIFF/WAVE with lengths left open, as OpenAI writes it: 44 bytes, then samples."""

    content_type: ClassVar[str] = "audio/wav"

    def start(self) -> bytes:
        """See `Encoder`."""
        return struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF",
            UNKNOWN_LENGTH,
            b"WAVE",
            b"fmt ",
            16,  # bytes of the format chunk that follow
            1,  # PCM
            CHANNELS,
            SAMPLE_RATE,
            SAMPLE_RATE * CHANNELS * SAMPLE_BYTES,
            CHANNELS * SAMPLE_BYTES,
            8 * SAMPLE_BYTES,
            b"data",
            UNKNOWN_LENGTH,
        )


class Mp3:
    """Bare MPEG-2 layer III frames: no ID3 and no Xing header, so that responses concatenate."""

    content_type: ClassVar[str] = "audio/mpeg"

    def __init__(self) -> None:
        codec = av.CodecContext.create("libmp3lame", "w")
        assert isinstance(codec, av.AudioCodecContext)
        codec.sample_rate = SAMPLE_RATE
        codec.layout = "mono"
        codec.format = "s16p"
        codec.bit_rate = MP3_BIT_RATE
        codec.options = MP3_OPTIONS
        codec.open()
        self._codec = codec
        # The codec takes frames of exactly its own size, except the last.
        self._cutter = PcmCutter(codec.frame_size)

    def start(self) -> bytes:
        """See `Encoder`."""
        return b""

    def encode(self, pcm: bytes) -> bytes:
        """See `Encoder`."""
        return b"".join(self._packets(piece) for piece in self._cutter.push(pcm))

    def finish(self) -> bytes:
        """See `Encoder`."""
        rest = self._cutter.rest()
        return (self._packets(rest) if rest else b"") + self._packets(None)

    def _packets(self, pcm: bytes | None) -> bytes:
        frame = None
        if pcm is not None:
            samples = np.frombuffer(pcm, PCM_DTYPE).astype(np.int16).reshape(CHANNELS, -1)
            frame = av.AudioFrame.from_ndarray(samples, format="s16p", layout="mono")
            frame.sample_rate = SAMPLE_RATE
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))


_ENCODERS: Mapping[Format, Callable[[], Encoder]] = {
    Format.MP3: Mp3,
    Format.WAV: Wav,
    Format.PCM: Pcm,
}
