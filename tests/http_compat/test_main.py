"""`python -m http_compat` as users start it, with and without an engine behind it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import trio
import trio.testing
from trio.testing import MockClock

from engine.process import open_listeners
from engine.request import LiveRequest, Speak, SpeakLive, SpeechRequest, Stream
from http_compat.__main__ import RemoteEngine
from http_compat.app import create_app
from tests.support.access import TOKEN
from tests.support.tone import WORD_MS, ToneVoice, told
from wsproto_api import security
from wsproto_api.server import EngineServer

from .serving import JSON, PORT, SPEECH, Gate, ask, defaults

READY = re.compile(r"ready .*address=(http://127\.0\.0\.1:(\d+)/v1)")


class Server:
    """A running `python -m http_compat`."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.printed = ""
        self.url = ""
        self.port = 0

    async def until_ready(self) -> None:
        assert self.process.stderr is not None
        while not (found := READY.search(self.printed)):
            piece = await self.process.stderr.receive_some()
            assert piece, self.printed
            self.printed += piece.decode()
        self.url, self.port = found[1], int(found[2])

    async def end(self, number: signal.Signals) -> int:
        """The exit code after a signal."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        async for piece in self.process.stderr:
            self.printed += piece.decode()
        return await self.process.wait()


@asynccontextmanager
async def started(*arguments: str) -> AsyncIterator[Server]:
    """Starts it, and kills it if the test has not ended it."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KOKORO_LIVE_")}
    command = [sys.executable, "-m", "http_compat", *arguments]
    with tempfile.TemporaryDirectory() as folder, trio.fail_after(60):
        clean |= {"KOKORO_LIVE_TOKEN": TOKEN, "KOKORO_LIVE_DATA_DIR": folder}
        async with trio.open_nursery() as nursery:
            run = partial(trio.run_process, command, stderr=subprocess.PIPE, check=False, env=clean)
            yield Server(await nursery.start(run))
            nursery.cancel_scope.cancel()


def live(speak: Speak) -> SpeakLive:
    """As what an engine's server takes; nobody here sends text in pieces."""

    @asynccontextmanager
    async def entered(request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        assert isinstance(request, SpeechRequest)
        async with speak(request) as events:
            yield told(events)

    return entered


@asynccontextmanager
async def engine(speak: Speak, voice: ToneVoice) -> AsyncIterator[int]:
    """The engine's own server on a free port, with a fake voice."""
    listeners = await open_listeners("127.0.0.1", 0)
    async with trio.open_nursery() as nursery:
        await nursery.start(EngineServer(live(speak), voice, defaults(), TOKEN).serve, listeners)
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


def http() -> httpx.AsyncClient:
    return httpx.AsyncClient(trust_env=False, timeout=30)


async def test_without_an_engine() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # taken and not listened to
        engine_port = nobody.getsockname()[1]
        async with started("--port", "0", "--engine-port", str(engine_port)) as server:
            await server.until_ready()
            async with http() as client:
                health = await client.get(f"http://localhost:{server.port}/health")
                assert health.status_code == 503
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
        app = create_app(
            remote.speak, remote.voices, remote.status, settings=defaults(), policy=policy
        )
        statuses: list[int] = []

        async def request(method: str, path: str) -> None:
            reply = await ask(app, method, path, JSON, b'{"input": "One."}')
            assert reply.headers["Retry-After"] == "1"
            statuses.append(reply.status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(request, "POST", SPEECH)
            nursery.start_soon(request, "GET", "/v1/audio/voices")
            nursery.start_soon(request, "GET", "/health")
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert statuses == []
            mock_clock.jump(1.0)
    assert statuses == [503, 503, 503]


async def test_with_an_engine() -> None:
    voice = ToneVoice()
    async with (
        engine(voice, voice) as engine_port,
        started("--port", "0", "--engine-port", str(engine_port)) as server,
        http() as client,
    ):
        await server.until_ready()
        health = await client.get(f"http://127.0.0.1:{server.port}/health")
        assert health.json()["engine"]["model"]["name"] == "tone"
        voices = await client.get(f"{server.url}/audio/voices")
        assert [each["id"] for each in voices.json()["voices"]] == ["af_heart", "bm_fable"]
        body = {"input": "One two.", "response_format": "pcm"}
        speech = await client.post(f"{server.url}/audio/speech", json=body)
        assert len(speech.content) == 2 * WORD_MS * 48
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
