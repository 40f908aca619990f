"""Every decoder of the wire, fed with parts and with too much: a message or the right error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame as WebSocketFrame
from websockets.frames import Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from engine.config import Settings
from tests.support.access import TOKEN
from wsproto_api import frames, messages
from wsproto_api.errors import RemoteProtocolError
from wsproto_api.messages import Decoded, StreamFrame, Vocabulary
from wsproto_api.session import Role, Session

from .serving import serving

DATA = Path(__file__).parent.parent / "data"
MESSAGES: list[dict[str, Any]] = json.loads((DATA / "messages.json").read_text())
FRAMES: list[dict[str, Any]] = json.loads((DATA / "frames.json").read_text())


def on_the_wire(entry: dict[str, Any]) -> str:
    return json.dumps(entry["json"], ensure_ascii=False, separators=(",", ":"))


def decoded(text: str, vocabulary: Vocabulary) -> Decoded | RemoteProtocolError:
    """A message, or the error; anything else is raised."""
    try:
        return messages.decode(text, vocabulary)
    except RemoteProtocolError as error:
        return error


@pytest.mark.parametrize("entry", MESSAGES, ids=lambda e: f"{e['vocabulary']}.{e['struct']}")
def test_a_part_of_a_message_is_no_message(entry: dict[str, Any]) -> None:
    vocabulary = getattr(messages, entry["vocabulary"])
    text = on_the_wire(entry)
    assert isinstance(decoded(text, vocabulary), Decoded)
    for length in range(len(text)):
        found = decoded(text[:length], vocabulary)
        assert isinstance(found, RemoteProtocolError)
        assert found.code == "bad_json"


@pytest.mark.parametrize("entry", MESSAGES, ids=lambda e: f"{e['vocabulary']}.{e['struct']}")
@pytest.mark.parametrize("more", ["x", "{}", ",", "\0", "]", '{"type":"ping"}'])
def test_what_is_behind_a_message_is_not_swallowed(entry: dict[str, Any], more: str) -> None:
    found = decoded(on_the_wire(entry) + more, getattr(messages, entry["vocabulary"]))
    assert isinstance(found, RemoteProtocolError)
    assert found.code == "bad_json"


@pytest.mark.parametrize("entry", FRAMES, ids=lambda e: str(e.get("name", "frame")))
def test_a_part_of_a_frame_is_a_shorter_one_or_none(entry: dict[str, Any]) -> None:
    data = bytes.fromhex(entry["hex"])
    stream, whole = frames.decode(data)
    for length in range(len(data)):
        if length < frames.HEADER.size or (length - frames.HEADER.size) % 2:
            with pytest.raises(RemoteProtocolError) as refused:
                frames.decode(data[:length])
            assert refused.value.code == "bad_message"
        else:
            again, part = frames.decode(data[:length])
            assert (again, part.seq, part.sample) == (stream, whole.seq, whole.sample)
            assert whole.pcm.startswith(part.pcm)
            assert part.samples == (length - frames.HEADER.size) // 2


CODES = {"bad_json", "bad_message"}


@given(data=st.one_of(st.text(max_size=200), st.binary(max_size=200)))
@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("socket", ["ENGINE", "PLAYER"])
def test_any_bytes_are_a_message_or_an_error_with_the_right_code(
    role: Role, socket: str, data: str | bytes
) -> None:
    session = Session(
        role,
        client=getattr(messages, f"{socket}_CLIENT"),
        server=getattr(messages, f"{socket}_SERVER"),
    )
    try:
        found = session.receive(data)
    except RemoteProtocolError as error:
        assert error.code in CODES
        assert error.message.endswith(".")
    else:
        assert isinstance(found, Decoded | StreamFrame)


async def test_a_client_that_sends_byte_by_byte_is_understood(settings: Settings) -> None:
    async with serving(settings) as served:
        uri = parse_uri(served.url)
        client = ClientProtocol(uri)
        request = client.connect()
        request.headers["Authorization"] = f"Bearer {TOKEN}"
        client.send_request(request)
        async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
            heard: list[str] = []

            async def drip() -> None:
                for data in client.data_to_send():
                    for byte in data:
                        await stream.send_all(bytes([byte]))

            async def listen(until: str) -> None:
                while not any(until in text for text in heard):
                    client.receive_data(await stream.receive_some())
                    for event in client.events_received():
                        if isinstance(event, Response):
                            assert event.status_code == 101
                        elif isinstance(event, WebSocketFrame) and event.opcode is Opcode.TEXT:
                            heard.append(bytes(event.data).decode())

            await drip()
            await listen('"type":"ready"')
            client.send_text(b'{"type":"ping","id":"drop by drop"}')
            await drip()
            await listen("drop by drop")
            # … and two messages in one go
            for name in ("one", "two"):
                client.send_text(f'{{"type":"ping","id":"{name}"}}'.encode())
            await stream.send_all(b"".join(client.data_to_send()))
            await listen('"two"')
            assert json.loads(heard[-1]) == {"type": "pong", "reply_to": "two"}
            assert json.loads(heard[-2]) == {"type": "pong", "reply_to": "one"}
