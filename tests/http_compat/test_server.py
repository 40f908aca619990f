"""The application over hypercorn, on real sockets. Nothing here waits for a clock."""

from __future__ import annotations

import json
import socket
from contextlib import AsyncExitStack
from typing import Any

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.errors import SynthesisFailed
from http_compat.connection import REASON, REASON_CHARS, reason
from http_compat.speech import LEFT_TO_OTHERS
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api.sockets import STALL_S

from .serving import Engine, Gate, Served, defaults, read_all, served, serving

TWO = {"input": "One. Two.", "response_format": "pcm"}
END_MARK = b"\r\n0\r\n\r\n"
CLOSE = "Connection: close"


def body_of(answer: bytes) -> bytes:
    """The body of an answer, its chunks put together as far as they go."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"chunked" not in head.lower():
        return rest
    data = b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        data, rest = data + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return data


def error_of(answer: bytes) -> dict[str, Any]:
    detail: dict[str, Any] = json.loads(body_of(answer))["error"]
    return detail


async def test_speech_is_chunked_and_ends_with_the_end_mark() -> None:
    async with served() as server, await server.connect() as client:
        await client.send_all(server.post(TWO, CLOSE))
        answer = await read_all(client)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding: chunked" in answer.lower()
    assert answer.endswith(END_MARK)
    assert len(body_of(answer)) == 2 * WORD_MS * 48


@pytest.mark.parametrize("container", ["pcm", "wav", "flac", "mp3", "opus", "aac"])
async def test_the_first_sound_arrives_before_the_second_segment_is_made(container: str) -> None:
    gate = Gate(ToneVoice())
    async with served(gate) as server, await server.connect() as client:
        await client.send_all(server.post({**TWO, "response_format": container}, CLOSE))
        answer = b""
        while b"\r\n\r\n" not in answer or not body_of(answer):
            answer += await client.receive_some()
        if container == "wav":
            assert len(body_of(answer)) > 44
        await gate.reached.wait()
        gate.opened.set()  # only now can there be a second segment
        answer += await read_all(client)
    assert answer.endswith(END_MARK)


async def test_an_error_is_in_the_status_line() -> None:
    """OpenWebUI shows nothing else of it. (`test_clients.py` has what it sends.)"""
    async with served() as server, await server.connect() as client:
        await client.send_all(server.post({"input": "One.", "voice": "af_n\u00f6body"}, CLOSE))
        answer = await read_all(client)
    status, *headers = answer.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert status.startswith(b"HTTP/1.1 400 There is no voice 'af_n?body'. The voices are af_heart")
    assert not [header for header in headers if REASON in header.lower()]
    assert "af_n\u00f6body" in error_of(answer)["message"]


@given(st.text())
def test_whatever_an_error_says_is_a_status_line(sentence: str) -> None:
    server, client = h11.Connection(h11.SERVER), h11.Connection(h11.CLIENT)
    ask = client.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    server.receive_data(ask)
    server.next_event()
    words = reason(sentence)
    assert len(words) <= REASON_CHARS
    client.receive_data(server.send(h11.Response(status_code=400, headers=[], reason=words)) or b"")
    told = client.next_event()
    assert isinstance(told, h11.Response)
    assert told.reason == words


async def test_connections_are_kept() -> None:
    async with served() as server, await server.connect() as client:
        for _ in range(3):
            await client.send_all(server.post(TWO))
            answer = b""
            while not answer.endswith(END_MARK):
                answer += await client.receive_some()


async def test_a_failure_after_the_first_sound_cuts_the_transfer() -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("It failed."))
    with capture_logs() as logs:
        async with served(voice) as server, await server.connect() as client:
            await client.send_all(server.post(TWO))
            answer = await read_all(client)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(body_of(answer)) == WORD_MS * 48
    assert not answer.endswith(END_MARK)
    assert voice.active == 0
    assert [(entry["outcome"], entry["code"]) for entry in logs] == [("broken", "synthesis_failed")]


@pytest.mark.parametrize("before", [0, 1])
async def test_a_client_that_hangs_up_ends_the_stream(before: int) -> None:
    voice = ToneVoice()
    gate = Gate(voice, before=before)
    async with served(gate) as server:
        async with await server.connect() as client:
            await client.send_all(server.post(TWO))
            await gate.reached.wait()
            assert voice.active == 1
        await gate.left.wait()
        assert voice.active == 0
        await still_serves(server)


async def test_a_client_that_resets_ends_the_stream() -> None:
    voice = ToneVoice()
    gate = Gate(voice)
    async with served(gate) as server:
        client = await server.connect()
        await client.send_all(server.post(TWO))
        await gate.reached.wait()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.socket.close()
        await gate.left.wait()
        assert voice.active == 0
        await still_serves(server)


async def still_serves(server: Served) -> None:
    async with await server.connect() as client:
        await client.send_all(f"GET /health HTTP/1.0\r\nHost: :{server.port}\r\n\r\n".encode())
        assert await read_all(client)


async def test_health_answers_while_somebody_speaks() -> None:
    gate = Gate(ToneVoice())
    async with served(gate) as server, await server.connect() as speaking:
        await speaking.send_all(server.post(TWO))
        await gate.reached.wait()
        async with await server.connect() as asking:
            head = f"GET /health HTTP/1.1\r\nHost: localhost:{server.port}\r\n{CLOSE}\r\n\r\n"
            await asking.send_all(head.encode())
            answer = await read_all(asking)
        assert answer.startswith(b"HTTP/1.1 200")
        assert json.loads(body_of(answer))["status"] == "ok"


async def test_the_end_does_not_wait_for_a_client_that_has_stopped_reading() -> None:
    voice = ToneVoice()
    text = "a b c d e f g h. " * 200
    async with AsyncExitStack() as stack:
        async with served(voice) as server:
            client = await stack.enter_async_context(await server.connect())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await client.send_all(server.post({"input": text, "response_format": "wav"}))
            await wait_all_tasks_blocked(0.05)
            assert voice.active == 1
            assert voice.segments_made < 200  # the client's pace is the engine's pace
            server.scope.cancel()
        # It came to this line: `served` fails when the server does not end.
        assert voice.active == 0


async def test_a_client_that_never_reads_again_is_let_go(mock_clock: MockClock) -> None:
    """And with it its stream in the engine, and its place, which is another's after a minute."""
    voice = ToneVoice()
    one_place = defaults(streams=LEFT_TO_OTHERS + 1)
    async with (
        serving(Engine(voice), one_place, patience_s=120) as server,  # the clock is the test's
        await server.connect() as client,
        await server.connect() as another,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        text = "a b c d e f g h. " * 200
        await client.send_all(server.post({"input": text, "response_format": "wav"}))
        await wait_all_tasks_blocked(0.05)
        assert voice.active == 1
        made = voice.segments_made
        await another.send_all(server.post(TWO, CLOSE))
        await wait_all_tasks_blocked(0.05)
        assert (voice.active, voice.segments_made) == (1, made)
        mock_clock.jump(60)
        await wait_all_tasks_blocked(0.05)
        assert (voice.active, voice.segments_made) == (0, made + 2)
        assert len(body_of(await read_all(another))) == 2 * WORD_MS * 48


async def test_a_client_that_reads_slowly_gets_all_of_an_answer(mock_clock: MockClock) -> None:
    """One in one piece too, though taking it needs more time than there is for taking nothing."""
    text = "a b c d e f g h. " * 240
    body = {"input": text, "response_format": "pcm", "stream": False}
    async with (
        serving(Engine(), patience_s=3 * STALL_S) as server,  # the clock is the test's
        await server.connect() as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 128 * 1024)
        await client.send_all(server.post(body, CLOSE))
        answer = bytearray()
        for megabytes in (5, 10):  # of 25; the system holds less than what is left
            while len(answer) < megabytes * 1_000_000:
                answer += await client.receive_some()
            await wait_all_tasks_blocked(0.05)
            mock_clock.jump(0.9 * STALL_S)
        answer += await read_all(client)
    assert len(body_of(bytes(answer))) == len(text.split()) * WORD_MS * 48


async def test_the_end_with_an_answer_on_its_way() -> None:
    voice = ToneVoice()
    gate = Gate(voice)
    async with AsyncExitStack() as stack:
        async with served(gate) as server:
            client = await stack.enter_async_context(await server.connect())
            await client.send_all(server.post(TWO))
            await gate.reached.wait()
            server.scope.cancel()
        answer = await read_all(client)
    assert not answer.endswith(END_MARK)
    assert voice.active == 0
    with pytest.raises(OSError, match=r"refused|connect"):
        await server.connect()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_too_large_is_answered_and_not_reset(chunked: bool) -> None:
    data = b" " * 3_000_000
    async with served() as server, await server.connect() as client:
        if chunked:
            head = server.post(b"", CLOSE).replace(
                b"Content-Length: 0", b"Transfer-Encoding: chunked"
            )
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data)
        else:
            head = server.post(data, CLOSE).removesuffix(data)
        await client.send_all(head + data)
        answer = await read_all(client)
    assert answer.startswith(b"HTTP/1.1 413")
    assert error_of(answer)["code"] == "request_too_large"


async def test_a_websocket_handshake_is_refused() -> None:
    async with served() as server, await server.connect() as client:
        lines = (
            "GET / HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Connection: Upgrade",
            "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        )  # fmt: skip
        await client.send_all("\r\n".join(lines).encode() + b"\r\n\r\n")
        answer = await read_all(client)
    assert answer.startswith(b"HTTP/1.1 404")
    assert b"x-request-id: req_" in answer
    assert error_of(answer)["code"] == "unknown_url"


@pytest.mark.parametrize(
    "request_line",
    [
        b"GET http://127.0.0.1/v1/models HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"GET /%2e%2e/%00%ff HTTP/1.1",
        b"GET /v1/models/%f0%9f%98%80?x=%zz HTTP/1.1",
        b"BREW /v1/audio/speech HTTP/1.1",
        b"GET /" + b"a" * 5000 + b" HTTP/1.1",
    ],
)
async def test_odd_requests_are_answered(request_line: bytes) -> None:
    async with served() as server, await server.connect() as client:
        host = f"Host: 127.0.0.1:{server.port}".encode()
        await client.send_all(b"\r\n".join([request_line, host, CLOSE.encode(), b"", b""]))
        answer = await read_all(client)
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 404", b"HTTP/1.1 405"))
    if b"HTTP/1.1 200" not in answer:
        assert error_of(answer)["message"]


async def test_rubbish_does_not_stop_the_server() -> None:
    async with serving(Engine()) as server:
        for rubbish in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"hello\r\n\r\n", b"GET / HTTP/9\r\n\r\n"):
            async with await server.connect() as client:
                await client.send_all(rubbish)
                await read_all(client)
        await still_serves(server)
