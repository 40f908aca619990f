"""`python -m http_compat` as users start it, with and without an engine behind it."""

from __future__ import annotations

import signal
import socket

import httpx
import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine.process import open_listeners
from http_compat.app import create_app
from http_compat.remote import RemoteEngine
from tests.support.access import TOKEN
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import security

from .program import engine, http, started
from .serving import JSON, PORT, SPEECH, Gate, ask, defaults


async def test_without_an_engine() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken and not listened to
        engine_port = nobody.getsockname()[1]
        async with started("--port", "0", "--engine-port", str(engine_port)) as server:
            await server.until_ready()
            async with http() as client:
                for path, status in (("health", 200), ("ready", 503)):
                    answer = await client.get(f"http://localhost:{server.port}/{path}")
                    assert answer.status_code == status
                speech = await client.post(f"{server.url}/audio/speech", json={"input": "One."})
                assert speech.status_code == 503
                assert "make up" in speech.json()["error"]["message"]
                assert (await client.get(f"{server.url}/models")).status_code == 200
            assert await server.end(signal.SIGTERM) == 0
    assert server.printed.count("ready") == 1
    assert "Traceback" not in server.printed
    for listener in await open_listeners("127.0.0.1", server.port):  # the port is free again
        await listener.aclose()


async def test_an_engine_that_is_loading(mock_clock: MockClock) -> None:
    """It listens already, and answers nobody: whoever wants speech is told so within a second."""
    (loading,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with loading:
        remote = RemoteEngine(f"ws://127.0.0.1:{loading.socket.getsockname()[1]}/", TOKEN)
        policy = security.policy(defaults(), port=PORT, token=TOKEN)
        app = create_app(remote.speak, remote.voices, remote, settings=defaults(), policy=policy)
        statuses: list[int] = []

        async def request(method: str, path: str) -> None:
            reply = await ask(app, method, path, JSON, b'{"input": "One."}')
            assert reply.headers["Retry-After"] == "1"
            statuses.append(reply.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request, "POST", SPEECH)
            nursery.start_soon(request, "GET", "/v1/audio/voices")
            nursery.start_soon(request, "GET", "/ready")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert statuses == []
            mock_clock.jump(1.0)
    assert statuses == [503, 503, 503]


async def test_an_engine_with_another_token_is_no_fault_of_the_client() -> None:
    """A 401 would be about the key in the request."""
    voice = ToneVoice()
    exposed = defaults(host="0.0.0.0", token=TOKEN)  # so that it does not tell everybody how it is
    async with engine(voice, voice, exposed) as port:
        remote = RemoteEngine(f"ws://127.0.0.1:{port}/", "another-token-than-the-engine-has")
        policy = security.policy(defaults(), port=PORT, token=TOKEN)
        app = create_app(remote.speak, remote.voices, remote, settings=defaults(), policy=policy)
        for method, path in (
            ("POST", SPEECH), ("GET", "/v1/audio/voices"), ("POST", "/session-reset"),
            ("GET", "/ready"), ("GET", "/session-status"),
        ):  # fmt: skip
            with capture_logs() as logs:
                reply = await ask(app, method, path, JSON, b'{"input": "One."}')
            assert reply.status == 503
            error = reply.json["error"]
            assert error["code"] == "engine_unavailable"
            assert "the same settings" in error["message"]
            assert int(reply.headers["Retry-After"]) >= 5
            assert "error" in {entry["log_level"] for entry in logs}
    assert voice.segments_made == 0


async def test_with_an_engine() -> None:
    voice = ToneVoice()
    async with (
        engine(voice, voice) as engine_port,
        started("--port", "0", "--engine-port", str(engine_port)) as server,
        http() as client,
    ):
        await server.until_ready()
        status = await client.get(f"http://127.0.0.1:{server.port}/status")
        assert status.json()["engine"]["model"]["name"] == "tone"
        voices = await client.get(f"{server.url}/audio/voices")
        assert [each["id"] for each in voices.json()["voices"]] == ["af_heart", "bm_fable"]
        body = {"input": "One two.", "response_format": "pcm"}
        speech = await client.post(f"{server.url}/audio/speech", json=body)
        assert len(speech.content) == 2 * WORD_MS * 48
        blank = await client.post(f"{server.url}/audio/speech", json={**body, "input": " \n"})
        assert blank.status_code == 200, blank.text
        assert not any(blank.content)
        unknown = await client.post(f"{server.url}/audio/speech", json={**body, "voice": "x"})
        assert unknown.status_code == 400
        assert unknown.json()["error"]["code"] == "voice_not_found"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_the_end_while_an_answer_is_sent(number: signal.Signals, code: int) -> None:
    voice = ToneVoice()
    gate = Gate(voice)
    async with (
        engine(gate, voice) as engine_port,
        started("--port", "0", "--engine-port", str(engine_port)) as server,
        http() as client,
    ):
        await server.until_ready()
        body = {"input": "One. Two.", "response_format": "pcm"}
        async with client.stream("POST", f"{server.url}/audio/speech", json=body) as response:
            pieces = response.aiter_raw()
            assert await anext(pieces)
            assert await server.end(number) == code
            with pytest.raises(httpx.TransportError):
                async for _ in pieces:
                    pass
        await gate.left.wait()
        assert voice.active == 0
    assert "Traceback" not in server.printed
    assert "One" not in server.printed


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_taken_port_is_one_sentence(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        taken = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip("this machine has no IPv6")
    with taken:
        port = taken.getsockname()[1]
        async with started("--port", str(port)) as server:
            assert await server.process.wait() == 1
            assert server.process.stderr is not None
            told = (await server.process.stderr.receive_some()).decode()
    assert told.count("\n") == 1
    assert f"Port {port} on {host} is already in use" in told
