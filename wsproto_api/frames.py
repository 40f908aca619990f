"""Audio frames as bytes: a 20-byte little-endian header, then PCM. Core.

    offset  type  field    meaning
    0       u8    version  1
    1       u8    kind     0 = s16le mono PCM
    2       u16   flags    bit 0 first of stream, 1 last of stream, 2 discontinuity, 3 first of a segment
    4       u32   stream   the number from `stream.opened`
    8       u32   seq      0, 1, 2 … without holes unless discontinuity is set
    12      u64   sample   offset of the first sample from the start of the stream

A receiver ignores flags it does not know and refuses versions and kinds it does not know.
"""

from __future__ import annotations

import struct

from engine.request import Frame
from engine.samples import SAMPLE_BYTES

from .errors import RemoteProtocolError

VERSION = 1
KIND_PCM_S16LE = 0
HEADER = struct.Struct("<BBHIIQ")

FIRST, LAST, DISCONTINUITY, SEGMENT_FIRST = 1, 2, 4, 8


def encode(stream: int, frame: Frame) -> bytes:
    """One binary message for `frame` of stream number `stream` (0…2³²-1)."""
    flags = (
        (FIRST if frame.first else 0)
        | (LAST if frame.last else 0)
        | (DISCONTINUITY if frame.discontinuity else 0)
        | (SEGMENT_FIRST if frame.segment_first else 0)
    )
    return HEADER.pack(VERSION, KIND_PCM_S16LE, flags, stream, frame.seq, frame.sample) + frame.pcm


def decode(data: bytes) -> tuple[int, Frame]:
    """A binary message to (stream number, frame).

    Raises:
        RemoteProtocolError: `bad_message`, whatever the bytes are.
    """
    if len(data) < HEADER.size:
        raise RemoteProtocolError(
            "bad_message", f"A frame has a header of {HEADER.size} bytes; this one has {len(data)}."
        )
    version, kind, flags, stream, seq, sample = HEADER.unpack_from(data)
    if version != VERSION:
        raise RemoteProtocolError("bad_message", f"Frames of version {version} are not understood.")
    if kind != KIND_PCM_S16LE:
        raise RemoteProtocolError("bad_message", f"Frames of kind {kind} are not understood.")
    pcm = data[HEADER.size :]
    if len(pcm) % SAMPLE_BYTES:
        raise RemoteProtocolError("bad_message", "A frame ends in the middle of a sample.")
    frame = Frame(
        seq=seq,
        sample=sample,
        pcm=pcm,
        first=bool(flags & FIRST),
        last=bool(flags & LAST),
        discontinuity=bool(flags & DISCONTINUITY),
        segment_first=bool(flags & SEGMENT_FIRST),
    )
    return stream, frame
