"""Frames as bytes: the round trip, every way to be wrong, and vectors that never change."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.request import Frame
from wsproto_api import frames
from wsproto_api.errors import RemoteProtocolError

U16, U32, U64 = 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF_FFFF_FFFF

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "frames.json").read_text()
)

some_frames = st.builds(
    Frame,
    seq=st.integers(0, U32),
    sample=st.integers(0, U64),
    pcm=st.binary(max_size=64).map(lambda raw: raw[: len(raw) // 2 * 2]),
    first=st.booleans(),
    last=st.booleans(),
    discontinuity=st.booleans(),
    segment_first=st.booleans(),
)


def refusal(data: bytes) -> str:
    """The sentence with which `data` is refused."""
    with pytest.raises(RemoteProtocolError) as caught:
        frames.decode(data)
    assert caught.value.code == "bad_message"
    assert caught.value.message.endswith(".")
    return caught.value.message


# --- frozen ---------------------------------------------------------------------------------


def frame_of(vector: dict[str, Any]) -> Frame:
    return Frame(pcm=bytes.fromhex(vector["pcm"]), **vector["frame"])


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_frozen_vector_both_ways(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    assert frames.encode(vector["stream"], frame_of(vector)) == data
    assert frames.decode(data) == (vector["stream"], frame_of(vector))


def test_vectors_set_every_flag_alone_and_all_together() -> None:
    words = {struct.unpack_from("<H", bytes.fromhex(vector["hex"]), 2)[0] for vector in VECTORS}
    assert {0, 1, 2, 4, 8, 15} <= words


# --- the round trip -------------------------------------------------------------------------


@given(stream=st.integers(0, U32), frame=some_frames)
def test_what_is_encoded_is_decoded(stream: int, frame: Frame) -> None:
    data = frames.encode(stream, frame)
    assert len(data) == 20 + len(frame.pcm)
    assert frames.decode(data) == (stream, frame)


@given(
    flags=st.integers(0, U16), stream=st.integers(0, U32), seq=st.integers(0, U32),
    sample=st.integers(0, U64),
)  # fmt: skip
def test_unknown_flags_are_ignored(flags: int, stream: int, seq: int, sample: int) -> None:
    data = struct.pack("<BBHIIQ", 1, 0, flags, stream, seq, sample) + b"\x01\x02"
    got, frame = frames.decode(data)
    assert (got, frame.seq, frame.sample, frame.pcm) == (stream, seq, sample, b"\x01\x02")
    assert frames.encode(got, frame) == data[:2] + struct.pack("<H", flags & 15) + data[4:]


# --- what cannot be a frame -----------------------------------------------------------------

GOOD = frames.encode(7, Frame(seq=1, sample=1200, pcm=b"\x01\x02\x03\x04"))


@given(st.binary(max_size=80))
@example(b"")
@example(GOOD)
@example(GOOD + b"\x00")
def test_any_bytes_are_a_frame_or_refused(data: bytes) -> None:
    try:
        stream, frame = frames.decode(data)
    except RemoteProtocolError as error:
        assert error.code == "bad_message"
    else:
        assert 0 <= stream <= U32
        assert data[20:] == frame.pcm


@given(header=st.binary(min_size=18, max_size=18), pcm=st.binary(max_size=8))
def test_any_bytes_after_version_and_kind_are_a_frame_or_end_in_half_a_sample(
    header: bytes, pcm: bytes
) -> None:
    data = b"\x01\x00" + header + pcm
    if len(pcm) % 2:
        assert "middle of a sample" in refusal(data)
    else:
        assert frames.decode(data)[1].pcm == pcm


@pytest.mark.parametrize("length", range(20))
def test_a_frame_cut_in_its_header_is_refused(length: int) -> None:
    assert f"this one has {length}" in refusal(GOOD[:length])


@pytest.mark.parametrize("length", range(20, len(GOOD) + 1))
def test_a_frame_cut_in_its_samples_is_shorter_or_refused(length: int) -> None:
    if length % 2:
        assert "middle of a sample" in refusal(GOOD[:length])
    else:
        assert frames.decode(GOOD[:length])[1].samples == (length - 20) // 2


def test_a_trailing_odd_byte_is_refused() -> None:
    assert "middle of a sample" in refusal(GOOD + b"\x00")


@pytest.mark.parametrize("version", [0, 2, 255])
def test_another_version_is_refused(version: int) -> None:
    assert f"version {version}" in refusal(bytes([version]) + GOOD[1:])


@pytest.mark.parametrize("kind", [1, 2, 255])
def test_another_kind_is_refused(kind: int) -> None:
    assert f"kind {kind}" in refusal(GOOD[:1] + bytes([kind]) + GOOD[2:])
