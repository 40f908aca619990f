"""PCM into the containers that clients ask for, piece by piece. Core.

    encoder = encoder_for(format)
    out = encoder.header()          # bytes before all audio, if the container has any
    out += encoder.encode(pcm)      # any number of times, any number of samples
    out += encoder.finish()         # what the encoder still holds: without it the last word is cut

A header that is asked for at first leaves lengths open, so every container can be streamed. Asked
for again after `finish`, it is as long and says what is known by then. Whatever way the same PCM is
cut, the bytes are the same.

    format  frame (samples)  more than the PCM, when decoded
    pcm     1                nothing
    wav     1                nothing
    flac    1152             nothing
    opus    480              nothing: the last page says where the sound ends
    mp3     576              1105 samples before it, and 47 to 622 behind it: whole frames, and two
    aac     1024             1024 samples before it, and 0 to 1023 behind it: whole frames, and one

MP3 and AAC are bare frames here, which have no place to say how long the encoder's delay is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

import av
import numpy as np

from engine.audio import (
    PCM_DTYPE,
    SAMPLE_BYTES,
    SAMPLE_RATE,
    PcmCutter,
    from_pcm,
    pcm_samples,
)

from .schema import Format

CHANNELS = 1

#: what a length field says when the length is not known yet
UNKNOWN_LENGTH = 0xFFFF_FFFF

#: Four bits a sample, where LAME's artefacts in speech at 24 kHz are below hearing.
MP3_BIT_RATE = 96_000

#: where the two newer codecs are about as good as that
AAC_BIT_RATE = 64_000
OPUS_BIT_RATE = 48_000

MP3_OPTIONS = {
    # Each MP3 frame stands alone: the first 50 ms of PCM give bytes at once, and one response
    # after another in the same file decodes without a glitch at the seam.
    "reservoir": "0",
    # LAME's fast mode: as close to the original as the slow one at this bit rate, at 60 % of the
    # time (0.6 ms for 50 ms of speech), so that it may run in the event loop.
    "compression_level": "7",
}

#: half the time of the other coder (0.6 ms for 50 ms)
AAC_OPTIONS = {"aac_coder": "fast"}

#: the shortest block that is usual, so that the first 50 ms give bytes at once
FLAC_OPTIONS = {"frame_size": "1152"}

#: one packet a page instead of a second of them, for the same reason
OGG_OPTIONS = {"page_duration": "20000"}


class Encoder(Protocol):
    """One response's encoder; see the module docstring for the order of calls."""

    content_type: ClassVar[str]

    def header(self) -> bytes:
        """Bytes before all audio; with exact lengths once it has finished."""
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

    def header(self) -> bytes:
        """See `Encoder`."""
        return b""

    def encode(self, pcm: bytes) -> bytes:
        """See `Encoder`."""
        return pcm

    def finish(self) -> bytes:
        """See `Encoder`."""
        return b""


class Wav:
    """RIFF/WAVE: 44 bytes, then samples; with lengths left open as OpenAI leaves them."""

    content_type: ClassVar[str] = "audio/wav"

    def __init__(self) -> None:
        self._bytes = 0
        self._finished = False

    def header(self) -> bytes:
        """See `Encoder`."""
        known = self._finished and 36 + self._bytes < UNKNOWN_LENGTH
        return struct.pack(
            "<4sI4s4sIHHIIHH4sI",
            b"RIFF",
            36 + self._bytes if known else UNKNOWN_LENGTH,
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
            self._bytes if known else UNKNOWN_LENGTH,
        )

    def encode(self, pcm: bytes) -> bytes:
        """See `Encoder`."""
        self._bytes += len(pcm)
        return pcm

    def finish(self) -> bytes:
        """See `Encoder`."""
        self._finished = True
        return b""


class _Coded:
    """What the codecs have in common: frames of their own size go in, packets come out."""

    def __init__(self, codec: av.AudioCodecContext) -> None:
        self._codec = codec
        # The codec takes frames of exactly its own size, except the last.
        self._cutter = PcmCutter(codec.frame_size)
        self._samples = 0

    def header(self) -> bytes:
        """See `Encoder`."""
        return b""

    def encode(self, pcm: bytes) -> bytes:
        """See `Encoder`."""
        return b"".join(self._frame(piece) for piece in self._cutter.push(pcm))

    def finish(self) -> bytes:
        """See `Encoder`."""
        rest = self._cutter.rest()
        return (self._frame(rest) if rest else b"") + self._packets(None)

    def _frame(self, pcm: bytes) -> bytes:
        planar = self._codec.format.name == "fltp"
        samples = from_pcm(pcm) if planar else np.frombuffer(pcm, PCM_DTYPE).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(
            samples.reshape(CHANNELS, -1), format=self._codec.format.name, layout="mono"
        )
        frame.sample_rate = SAMPLE_RATE
        frame.pts = self._samples
        self._samples += pcm_samples(pcm)
        return self._packets(frame)

    def _packets(self, frame: av.AudioFrame | None) -> bytes:
        """The bytes of the packets that a frame completes; of all that are left, if it is None."""
        return b"".join(bytes(packet) for packet in self._codec.encode(frame))


class Mp3(_Coded):
    """Bare MPEG-2 layer III frames: no ID3 and no Xing header, so that responses concatenate."""

    content_type: ClassVar[str] = "audio/mpeg"

    def __init__(self) -> None:
        super().__init__(_codec("libmp3lame", "s16p", MP3_OPTIONS, MP3_BIT_RATE))


class Flac(_Coded):
    """FLAC with the one block of metadata that must be there."""

    content_type: ClassVar[str] = "audio/flac"

    def __init__(self) -> None:
        super().__init__(_codec("flac", "s16", FLAC_OPTIONS))
        self._streaminfo = bytes(self._codec.extradata or b"")

    def header(self) -> bytes:
        """See `Encoder`."""
        last_block, streaminfo = 0x80, 0
        kind = bytes([last_block | streaminfo])
        return b"fLaC" + kind + len(self._streaminfo).to_bytes(3, "big") + self._streaminfo

    def _packets(self, frame: av.AudioFrame | None) -> bytes:
        packets = self._codec.encode(frame)
        for packet in packets:
            # With the last one comes what is known by now: length, checksum, sizes. The codec's
            # extradata says it too, with another checksum: that is taken twice.
            if packet.has_sidedata("new_extradata"):
                self._streaminfo = bytes(packet.get_sidedata("new_extradata"))
        return b"".join(map(bytes, packets))


class _Muxed(_Coded):
    """Packets in a container that FFmpeg writes."""

    def __init__(
        self, codec: str, sample_format: str, bit_rate: int, options: Mapping[str, str]
    ) -> None:
        self._written = _Written()
        container, container_options = self._container
        self._muxer = av.open(
            self._written,
            "w",
            format=container,
            # bitexact: no version of FFmpeg in the file, and no random number
            options={"flush_packets": "1", "fflags": "+bitexact", **container_options},
        )
        stream = self._muxer.add_stream(codec, rate=SAMPLE_RATE, options=dict(options))
        assert isinstance(stream, av.AudioStream)
        context = stream.codec_context
        context.layout = "mono"
        context.format = sample_format
        context.bit_rate = bit_rate
        self._muxer.start_encoding()
        self._header = self._written.take()
        self._stream = stream
        super().__init__(context)

    #: the muxer and its options
    _container: ClassVar[tuple[str, Mapping[str, str]]]

    def header(self) -> bytes:
        """See `Encoder`."""
        return self._header

    def finish(self) -> bytes:
        """See `Encoder`."""
        out = super().finish()
        self._muxer.close()
        return out + self._written.take()

    def _packets(self, frame: av.AudioFrame | None) -> bytes:
        for packet in self._stream.encode(frame):
            self._muxer.mux(packet)
        return self._written.take()


class Opus(_Muxed):
    """Opus in Ogg, in packets of 20 ms."""

    content_type: ClassVar[str] = "audio/ogg;codecs=opus"
    _container = ("ogg", OGG_OPTIONS)

    def __init__(self) -> None:
        super().__init__("libopus", "s16", OPUS_BIT_RATE, {})


class Aac(_Muxed):
    """AAC (low complexity) in ADTS frames."""

    content_type: ClassVar[str] = "audio/aac"
    _container = ("adts", {})

    def __init__(self) -> None:
        super().__init__("aac", "fltp", AAC_BIT_RATE, AAC_OPTIONS)


class _Written:
    """A file that can only be written; what was written is taken out of it."""

    def __init__(self) -> None:
        self._held = bytearray()

    def write(self, data: bytes) -> int:
        """As files do."""
        self._held += data
        return len(data)

    def take(self) -> bytes:
        """What was written since the last time."""
        taken = bytes(self._held)
        self._held.clear()
        return taken


def _codec(
    name: str, sample_format: str, options: Mapping[str, str], bit_rate: int | None = None
) -> av.AudioCodecContext:
    codec = av.CodecContext.create(name, "w")
    assert isinstance(codec, av.AudioCodecContext)
    codec.sample_rate = SAMPLE_RATE
    codec.layout = "mono"
    codec.format = sample_format
    if bit_rate is not None:
        codec.bit_rate = bit_rate
    codec.options = dict(options)
    codec.open()
    return codec


_ENCODERS: Mapping[Format, Callable[[], Encoder]] = {
    Format.MP3: Mp3,
    Format.OPUS: Opus,
    Format.AAC: Aac,
    Format.FLAC: Flac,
    Format.WAV: Wav,
    Format.PCM: Pcm,
}
