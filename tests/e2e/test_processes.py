"""The Procfile's processes, started as `make up` starts them, on free ports, with the real model."""

from __future__ import annotations

import io
import signal
import sys
import tempfile
import wave
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import msgspec
import numpy as np
import pytest
import trio
from openai import DefaultHttpxClient, OpenAI

from bench.transcribe import transcribe, word_errors
from engine.audio import from_pcm
from engine.request import SpeechRequest
from tests.support.access import TOKEN
from tests.support.processes import Running, free_ports, listening, started
from tests.support.reading import hear
from wsproto_api import messages
from wsproto_api.client import connect
from wsproto_api.speak import WebSocketSpeak

LONG_TEXT = (
    "The weather is very nice today. The children were playing in the garden all day. "
    "Nobody knows what the future will bring."
)


@dataclass(frozen=True, slots=True)
class Up:
    """What `make up` has started, and where it answers; `ports` are its own."""

    running: Running
    ports: list[int]
    engine: str
    player: str
    http: str


def start(sink: str, engine: int | None = None) -> Iterator[Up]:
    """All three; or player and HTTP endpoint for the engine on a port."""
    player, http, *ours = ports = free_ports(2 if engine else 3)
    programs = ["player", "http", *(["engine"] if ours else [])]
    engine = engine or ours[0]
    folder = tempfile.TemporaryDirectory()  # one for each, as only one player may run in it
    settings: dict[str, object] = {
        "data_dir": folder.name,
        "log_level": "debug",
        "engine_port": engine,
        "player_port": player,
        "http_port": http,
        "sink": sink,
    }
    with folder, started("honcho", "start", *programs, **settings) as running:
        up = Up(
            running,
            ports,
            f"ws://127.0.0.1:{engine}",
            f"ws://127.0.0.1:{player}",
            f"http://127.0.0.1:{http}/v1",
        )
        running.until(up.player, up.http, *([up.engine] if ours else []))
        yield up


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    yield from start("null")


async def test_audio_arrives_over_http_before_synthesis_has_finished(up: Up) -> None:
    body = {"input": LONG_TEXT, "voice": "af_heart", "response_format": "wav"}
    async with (
        connect(up.engine, token=TOKEN) as (engine, _),
        httpx.AsyncClient(timeout=120, trust_env=False) as client,
        client.stream("POST", f"{up.http}/audio/speech", json=body) as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"] == "audio/wav"
        chunks = response.aiter_bytes()
        received = await anext(chunks)
        while len(received) <= 44:  # more than the header: sound
            received += await anext(chunks)
        await engine.send(messages.AskStatus(id="now"))
        status = await engine.receive()
        assert isinstance(status, messages.Status)
        assert status.streams == 1, "the engine had finished before the first sound came"
        async for chunk in chunks:
            received += chunk
    with wave.open(io.BytesIO(received)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
    errors, count = word_errors(LONG_TEXT, transcribe(from_pcm(received[44:])))
    assert errors / count <= 0.15


async def test_websocket_and_http_carry_the_same_samples(up: Up) -> None:
    text = "Exactly the same."
    heard = await hear(WebSocketSpeak(up.engine, TOKEN), SpeechRequest(text=text))
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        body = {"input": text, "voice": "af_heart", "response_format": "pcm"}
        response = await client.post(f"{up.http}/audio/speech", json=body)
    assert response.content == heard.pcm
    assert np.abs(heard.audio).max() > 0.05


@pytest.mark.parametrize(
    ("voice", "same_as"),
    [
        ("nova", "af_nova"),
        ("af_heart(2)+am_michael(1)", "af_heart:66.67,am_michael:33.33"),
        ("af_heart:60,am_michael:40", "am_michael*0.4+af_heart*0.6"),
    ],
)
async def test_a_voice_has_many_names(up: Up, voice: str, same_as: str) -> None:
    """By OpenAI's own SDK, which knows nothing of ours."""

    def speak(name: str) -> bytes:
        with OpenAI(
            base_url=up.http, api_key="none", http_client=DefaultHttpxClient(trust_env=False)
        ) as sdk:
            return sdk.audio.speech.create(
                model="tts-1", voice=name, input="Two names.", response_format="pcm"
            ).content

    sound, same, other = [
        await trio.to_thread.run_sync(speak, name) for name in (voice, same_as, "bf_emma")
    ]
    assert sound == same != other


async def test_a_client_that_leaves_ends_the_engines_work(up: Up) -> None:
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        server = httpx.URL(up.http)
        data = msgspec.json.encode({"input": LONG_TEXT * 9, "response_format": "pcm"})
        async with await trio.open_tcp_stream("127.0.0.1", server.port or 0) as leaving:
            await leaving.send_all(
                b"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                % (server.port or 0, len(data))
                + data
            )
            assert (await leaving.receive_some()).startswith(b"HTTP/1.1 200")
            assert await streams(client, up) == 1
        with trio.fail_after(10):  # one window on a slow machine
            while await streams(client, up):  # noqa: ASYNC110 - it is another process
                await trio.sleep(0.01)


async def streams(client: httpx.AsyncClient, up: Up) -> int:
    """How many the engine is making."""
    status = await client.get(up.http.removesuffix("/v1") + "/status")
    return int(status.json()["engine"]["streams"])


async def test_the_player_speaks_and_says_when_it_was_heard(up: Up) -> None:
    async with connect(
        up.player, token=TOKEN, client=messages.PLAYER_CLIENT, server=messages.PLAYER_SERVER
    ) as (player, ready):
        assert isinstance(ready, messages.PlayerReady)
        await player.send(messages.PlayerSpeak(text="Well done.", id="a", key="k"))
        seen: list[msgspec.Struct] = []
        while not (seen and isinstance(seen[-1], messages.ItemDone)):
            message = await player.receive()
            assert isinstance(message, msgspec.Struct)
            seen.append(message)
        assert [m.reply_to for m in seen if isinstance(m, messages.Ack)] == ["a"]
        assert "playing" in [m.state for m in seen if isinstance(m, messages.PlayerState)]
        done = seen[-1]
        assert isinstance(done, messages.ItemDone)
        assert (done.outcome, done.key) == ("finished", "k")
        assert done.played_ms > 500


async def test_lists_and_health(up: Up) -> None:
    async with httpx.AsyncClient(base_url=up.http, trust_env=False) as client:
        voices = (await client.get("/audio/voices")).json()["voices"]
        (heart,) = (voice for voice in voices if voice["id"] == "af_heart")
        assert (heart["name"], heart["grade"]) == ("Heart (American English, female)", "A")
        models = (await client.get("/models")).json()["data"]
        assert "tts-1" in [model["id"] for model in models]
        health = await client.get(up.http.removesuffix("/v1") + "/health")
        assert (health.status_code, health.json()["status"]) == (200, "ok")


@pytest.mark.parametrize("text", ["My secret diary entry, zorgblatter.", "secret/" * 9])
async def test_no_log_line_holds_the_text(up: Up, text: str) -> None:
    """At level debug, over HTTP and through the player."""
    async with httpx.AsyncClient(timeout=120, trust_env=False) as client:
        body = {"input": text, "voice": "af_heart"}
        response = await client.post(f"{up.http}/audio/speech", json=body)
    assert response.status_code == 200
    assert len(response.content) > 100
    up.running.until(f"chars={len(text)} first_audio_ms", f"chars={len(text)} format=mp3")
    assert not [line for line in up.running.told if "secret" in line]


def test_ctrl_c_without_a_sound_device_is_a_clean_end(up: Up) -> None:
    """CI has none: then the player says so and waits. The engine is that of the other tests."""
    for others in start("portaudio", port_of(up.engine)):
        assert_clean_end(others)
    assert listening(port_of(up.engine))


async def test_ctrl_c_while_the_model_works_is_a_clean_end(up: Up) -> None:
    """Of those that the other tests have used; so this comes last."""
    async with connect(up.engine, token=TOKEN) as (engine, _):
        await engine.send(messages.Speak(text=LONG_TEXT))
        while not isinstance(await engine.receive(), messages.Segment):
            pass  # the first segment is made, so the next is being inferred
        await trio.to_thread.run_sync(assert_clean_end, up)
    assert any("engine.1 stopped (rc=0)" in line for line in up.running.told), up.running.told


def assert_clean_end(up: Up) -> None:
    """Ctrl-C leaves no process and no port."""
    assert all(map(listening, up.ports))
    up.running.end(signal.SIGINT)
    assert not [port for port in up.ports if listening(port)]
    told = up.running.told
    assert not [line for line in told if "terminate called" in line or "Traceback" in line]
    if sys.platform == "linux":
        assert up.running.left_behind() == []


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])
