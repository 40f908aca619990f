"""Wyoming's events as bytes, against the package that Home Assistant reads and writes them with."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wyoming import event as theirs

from engine.errors import InvalidRequest
from http_compat.wyoming.events import (
    MAX_DATA_BYTES,
    MAX_LINE_BYTES,
    MAX_PAYLOAD_BYTES,
    Decoder,
    Event,
    encode,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.lists(
    st.builds(Event, TEXT, st.dictionaries(TEXT, JSON, max_size=3), st.binary(max_size=40)),
    max_size=4,
)
CUTS = st.lists(st.integers(1, 30), min_size=1, max_size=10)

#: what is left of the bytes when an error came, as the last of what was read
Read = list[Event | str]


def read(pieces: Sequence[bytes]) -> Read:
    """Events, and the sentence of the error that ended them."""
    decoder = Decoder()
    found: Read = []
    for piece in pieces:
        decoder.push(piece)
        try:
            while (event := decoder.next()) is not None:
                found.append(event)
        except InvalidRequest as error:
            return [*found, error.message]
    return found


def cut(data: bytes, lengths: Sequence[int]) -> list[bytes]:
    """Pieces of these lengths, over and over."""
    pieces: list[bytes] = []
    at = 0
    while at < len(data):
        length = lengths[len(pieces) % len(lengths)]
        pieces.append(data[at : at + length])
        at += length
    return pieces


@given(EVENTS, CUTS)
def test_events_survive_any_cutting(events: list[Event], lengths: list[int]) -> None:
    data = b"".join(map(encode, events))
    assert read([data]) == events
    assert read(cut(data, lengths)) == events
    assert read(cut(data, [1])) == events


def test_a_cut_at_any_place_changes_nothing() -> None:
    events = [Event("synthesize", {"text": "One."}, b"\n{}\n"), Event("a"), Event("b", {"": ""})]
    data = b"".join(map(encode, events))
    for place in range(len(data) + 1):
        assert read([data[:place], data[place:]]) == events


@given(EVENTS)
def test_the_package_reads_what_we_write(events: list[Event]) -> None:
    stream = io.BytesIO(b"".join(map(encode, events)))
    for event in events:
        found = theirs.read_event(stream)
        assert found is not None
        assert (found.type, found.data, found.payload or b"") == (
            event.type, event.data, event.payload,
        )  # fmt: skip
    assert theirs.read_event(stream) is None


@given(EVENTS)
def test_we_read_what_the_package_writes(events: list[Event]) -> None:
    stream = io.BytesIO()
    for event in events:
        theirs.write_event(theirs.Event(event.type, event.data, event.payload or None), stream)
    assert read([stream.getvalue()]) == events


@given(st.binary(max_size=200), CUTS)
def test_any_bytes_are_events_or_a_sentence_however_they_are_cut(
    data: bytes, lengths: list[int]
) -> None:
    whole = read([data])
    assert read(cut(data, lengths)) == whole
    if b"\n" in data:  # nothing that hypothesis makes of bytes alone is an event
        assert isinstance(whole[-1], str)
        assert whole[-1].endswith(".")


@given(EVENTS, st.integers(0, 400), st.binary(min_size=1, max_size=4), CUTS)
def test_broken_events_too(events: list[Event], place: int, put: bytes, lengths: list[int]) -> None:
    data = bytearray(b"".join(map(encode, events)))
    data[place : place + len(put)] = put
    assert read(cut(bytes(data), lengths)) == read([bytes(data)])


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"GET / HTTP/1.1\r", "takes no other protocol"),
        (b"", "not JSON as Wyoming has it"),
        (b"[]", "not JSON as Wyoming has it"),
        (b'"describe"', "not JSON as Wyoming has it"),
        (b"{}", "not JSON as Wyoming has it"),
        (b'{"type": 1}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data": []}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data_length": -1}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data_length": "4"}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data_length": true}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data_length": 1e400}', "not JSON as Wyoming has it"),
        (b'{"type": "\xff"}', "not JSON as Wyoming has it"),
        (b'{"type": "\\ud800"}', "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data": ' + b"[" * 30_000, "not JSON as Wyoming has it"),
        (b'{"type": "ping", "data": {"a": ' + b"[" * 9_000 + b"]" * 9_000 + b"}}", "not JSON"),
        (b'{"type": "a", "data_length": %d}' % (MAX_DATA_BYTES + 1), "data of an event would"),
        (b'{"type": "a", "data_length": %d}' % 10**30, "data of an event would have more"),
        (b'{"type": "a", "payload_length": %d}' % (MAX_PAYLOAD_BYTES + 1), "payload of an event"),
    ],
)
def test_what_is_no_event_is_one_sentence_and_nothing_behind_it_counts(
    line: bytes, says: str
) -> None:
    good = encode(Event("ping"))
    found = read([good + line + b"\n" + good])
    assert found[0] == Event("ping")
    (message,) = found[1:]
    assert isinstance(message, str)
    assert says in message
    decoder = Decoder()
    decoder.push(line + b"\n")
    for _ in range(2):  # and it stays so, whatever comes
        with pytest.raises(InvalidRequest, match=says):
            decoder.next()
        decoder.push(good)


def test_a_line_may_be_so_long_and_no_longer() -> None:
    def line(length: int) -> bytes:
        start = b'{"type": "ping", "more": "'
        return start + b"x" * (length - len(start) - 2) + b'"}'

    assert read([line(MAX_LINE_BYTES) + b"\n"]) == [Event("ping")]
    (message,) = read([line(MAX_LINE_BYTES + 1) + b"\n"])
    assert "more than 65536 bytes" in str(message)
    # told before its end, which may never come
    assert read([b"x" * MAX_LINE_BYTES]) == []
    assert read([b"x" * MAX_LINE_BYTES, b"x"]) == [message]


@pytest.mark.parametrize("data", [b"[]", b"1", b"{", b'{"a": 1}}', b"\xff\xff"])
def test_data_that_is_no_object_is_refused(data: bytes) -> None:
    line = json.dumps({"type": "ping", "data_length": len(data)}).encode()
    (message,) = read([line + b"\n" + data])
    assert str(message).startswith("The data of an event is not JSON")


def test_both_parts_of_the_data_are_one() -> None:
    behind = b'{"b": 2, "c": 3}'
    line = {"type": "x", "data": {"a": 1, "b": 0}, "data_length": len(behind), "version": "9"}
    found = read([json.dumps(line).encode() + b"\n" + behind])
    assert found == [Event("x", {"a": 1, "b": 2, "c": 3})]


def test_a_sentence_does_not_quote_what_was_sent() -> None:
    for data in (
        b"my secret\n",
        b'{"type": "synthesize", "data": "my secret"}\n',
        b'{"type": "synthesize", "data_length": 11}\n{"secret": "',
    ):
        (message,) = read([data])
        assert "secret" not in str(message)
