"""What the programs of docs/clients.md send, byte for byte, and what they make of the answers.

Each test writes the requests of one program as its source has them, in its order. OpenAI's own
packages are not here: `test_sdk.py` and `test_sdk_node.py` run them.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import h11
import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock
from werkzeug.datastructures import Headers

from engine.config import Settings
from engine.errors import SynthesisFailed
from http_compat.lists import MODEL_NAMES
from http_compat.schema import Format
from http_compat.speech import NOTHING_MS
from tests.support.tone import WORD_MS, ToneVoice

from .decoding import DELAY, FRAME, by_ffmpeg
from .serving import (
    JSON,
    SPEECH,
    Asked,
    Engine,
    Reply,
    Served,
    ask,
    defaults,
    say_nothing,
    served,
    serving,
)

Values = Mapping[str, str]

#: OpenWebUI's HTTP client
AIOHTTP = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "Python/3.11 aiohttp/3.14.5",
}
#: LibreChat's
AXIOS = {
    "Accept": "application/json, text/plain, */*",
    "User-Agent": "axios/1.12.1",
    "Accept-Encoding": "gzip, compress, deflate, br",
    "Connection": "keep-alive",
}
#: Node's own, which SillyTavern and AnythingLLM use
FETCH = {
    "connection": "keep-alive",
    "accept": "*/*",
    "accept-language": "*",
    "sec-fetch-mode": "cors",
    "user-agent": "node",
    "accept-encoding": "gzip, deflate",
}
#: OpenAI's package for Node, over that
NODE_SDK = {
    **FETCH,
    "accept": "application/octet-stream",
    "User-Agent": "OpenAI/JS 4.95.1",
    "X-Stainless-Retry-Count": "0",
    "X-Stainless-Lang": "js",
    "X-Stainless-Package-Version": "4.95.1",
    "X-Stainless-OS": "Linux",
    "X-Stainless-Arch": "x64",
    "X-Stainless-Runtime": "node",
    "X-Stainless-Runtime-Version": "v20.20.2",
}

MESSAGE = """\
It depends on what you want to hear. Dr. Smith says that a pause is a sign too, and so is silence!
Is that so? Yes.
Here is how it is done in a few lines, of which none is spoken:

A second paragraph follows, which is long enough to be asked for by itself. And so is this one, I think.
Bye."""


class Wire:
    """A connection of a client that keeps it, written to byte by byte.

    Libraries mend what is sent, such as the blank at the end of an empty key.
    """

    def __init__(self, stream: trio.SocketStream, port: int) -> None:
        self._stream = stream
        self._port = port

    async def get(self, path: str, headers: Values) -> Reply:
        return await self._ask("GET", path, headers, b"")

    async def post(self, path: str, headers: Values, body: Mapping[str, object]) -> Reply:
        data = json.dumps(body).encode()
        length = {"Content-Length": str(len(data)), "Content-Type": "application/json"}
        return await self._ask("POST", path, {**headers, **length}, data)

    async def _ask(self, method: str, path: str, headers: Values, body: bytes) -> Reply:
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self._port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self._stream.send_all("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        parser = h11.Connection(h11.CLIENT)
        # It must believe that it wrote the request.
        parser.send(h11.Request(method=method, target=path, headers=[("Host", "x")]))
        parser.send(h11.EndOfMessage())
        status, found, data = 0, Headers(), bytearray()
        while not isinstance(event := parser.next_event(), h11.EndOfMessage):
            match event:
                case h11.Response():
                    status = event.status_code
                    found = Headers([(k.decode(), v.decode()) for k, v in event.headers])
                case h11.Data():
                    data += event.data
                case _:
                    assert event is h11.NEED_DATA
                    parser.receive_data(await self._stream.receive_some())
        return Reply(status, found, bytes(data))


@asynccontextmanager
async def wired(server: Served) -> AsyncIterator[Wire]:
    async with await server.connect() as stream:
        yield Wire(stream, server.port)


def mp3_ms(body: bytes, *, pieces: int = 1) -> float:
    """How much sound is in an MP3, without what its encoder adds to each piece."""
    return (by_ffmpeg(body, Format.MP3).length - pieces * DELAY[Format.MP3]) / 24


def is_ms(found: float, words: int, *, pieces: int = 1) -> bool:
    """Whether it is the length of so many words, as nearly as MP3 says it."""
    frame_ms = FRAME[Format.MP3] / 24
    return 0 <= found - words * WORD_MS < 4 * frame_ms * pieces


def is_plain_mp3(body: bytes) -> bool:
    """Whether it begins with sound, and can stand behind another one."""
    return body[0] == 0xFF and body[1] & 0xE0 == 0xE0 and b"Xing" not in body and b"ID3" not in body


# --- OpenWebUI 0.12.4 ------------------------------------------------------------------------


def parts(message: str) -> Sequence[str]:
    """A message as OpenWebUI splits it at punctuation; short parts take the next one in."""
    found: list[str] = []
    for sentence in re.split(r"(?<=[.!?])\s+|\n+", message):
        if not sentence.strip():
            continue
        if found and (len(found[-1].split()) < 4 or len(found[-1]) < 50):
            found[-1] += f" {sentence}"
        else:
            found.append(sentence)
    return found


#: an empty key leaves the blank
KEYLESS = {**AIOHTTP, "Authorization": "Bearer "}
USER = {
    "X-OpenWebUI-User-Name": "Erika%20Mustermann",
    "X-OpenWebUI-User-Id": "0f6f9c1e-0000-4000-8000-000000000001",
    "X-OpenWebUI-User-Email": "erika@example.com",
    "X-OpenWebUI-User-Role": "admin",
    "X-OpenWebUI-Auth-Type": "jwt",
}


async def test_openwebui_finds_models_and_voices() -> None:
    """It asks for them without the key."""
    async with served() as server, wired(server) as wire:
        models = await wire.get("/v1/audio/models", AIOHTTP)
        voices = await wire.get("/v1/audio/voices", AIOHTTP)
        fallback = await wire.get("/v1/models", AIOHTTP)
    assert [model["id"] for model in models.json["models"]] == list(MODEL_NAMES)
    assert [model["id"] for model in fallback.json["data"]] == list(MODEL_NAMES)
    assert {voice["id"]: voice["name"] for voice in voices.json["voices"]} == {
        "af_heart": "Heart", "bm_fable": "Fable"
    }  # fmt: skip


async def test_openwebui_reads_a_message_aloud() -> None:
    """One part after the other, on a connection that is kept; here the base URL ends in a slash."""
    split = parts(MESSAGE)
    assert len(split) > 3
    async with served(Asked()) as server, wired(server) as wire:
        for part in split:
            body = {"input": part, "voice": "alloy", "model": "tts-1"}
            reply = await wire.post("/v1//audio/speech", KEYLESS, body)
            assert reply.status == 200
            # what it keeps as it is; all else it would encode once more
            assert reply.headers["Content-Type"] == "audio/mpeg"
            assert is_ms(mp3_ms(reply.body), len(part.split()))


@pytest.mark.parametrize(
    ("params", "type_"),
    [
        ({"speed": 2.0, "lang": "en-gb"}, "audio/mpeg"),
        ({"response_format": "opus"}, "audio/ogg"),
        ({"response_format": "wav"}, "audio/wav"),
        ({"response_format": "flac"}, "audio/flac"),
        ({"response_format": "aac"}, "audio/aac"),
    ],
)
async def test_openwebui_with_additional_parameters(
    params: Mapping[str, object], type_: str
) -> None:
    """The types are those that its slim build takes, too."""
    asked = Asked()
    async with served(asked) as server, wired(server) as wire:
        body = {"input": "One two.", "voice": "af_heart", "model": "kokoro", **params}
        reply = await wire.post(SPEECH, KEYLESS, body)
    assert reply.status == 200
    assert reply.headers["Content-Type"].split(";")[0] == type_
    assert asked.requests[0].speed == params.get("speed")
    assert asked.requests[0].lang == params.get("lang")


async def test_openwebui_forwards_its_user_and_nobody_writes_it_down() -> None:
    with capture_logs() as logs:
        async with served() as server, wired(server) as wire:
            for headers in (USER, {"X-OpenWebUI-User-Jwt": "eyJhbGciOiJIUzI1NiJ9.e30.c2ln"}):
                body = {"input": "Swordfish.", "voice": "af_heart", "model": "kokoro"}
                assert (await wire.post(SPEECH, {**KEYLESS, **headers}, body)).status == 200
    assert len(logs) == 2
    for secret in ("Erika", "erika", "0f6f9c1e", "admin", "eyJ", "Swordfish"):
        assert secret not in str(logs)


@pytest.mark.parametrize("part", ["---", '"', "🙂", "|", "* * *"])
async def test_openwebui_sends_a_part_with_nothing_to_speak(part: str) -> None:
    """An error would end all that is read."""
    async with served(say_nothing) as server, wired(server) as wire:
        body = {"input": part, "voice": "af_heart", "model": "kokoro"}
        reply = await wire.post(SPEECH, KEYLESS, body)
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "audio/mpeg"
    assert mp3_ms(reply.body) >= NOTHING_MS


async def test_openwebui_without_splitting() -> None:
    """A whole message is one request, which may be longer than OpenAI's limit."""
    body = {"input": "word " * 1_000, "voice": "af_heart", "model": "kokoro", "speed": 4}
    for settings, status in ((defaults(), 400), (defaults(http_text_chars=16_000), 200)):
        async with serving(Engine(), settings) as server, wired(server) as wire:
            reply = await wire.post(SPEECH, KEYLESS, body)
            assert reply.status == status
            if status == 400:
                assert reply.json["error"]["code"] == "string_above_max_length"


async def test_openwebui_in_a_call() -> None:
    """Sentences at once, each on a connection of its own."""
    asked = Asked()
    split = [f"This is number {n}, and it has a few words more than the others." for n in range(20)]
    replies: dict[int, Reply] = {}

    async def sentence(server: Served, number: int) -> None:
        async with wired(server) as wire:
            body = {"input": split[number], "voice": "af_heart", "model": "kokoro"}
            replies[number] = await wire.post(SPEECH, KEYLESS, body)

    async with served(asked) as server, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(sentence, server, number)
    assert sorted(request.text for request in asked.requests) == sorted(split)
    for number, reply in replies.items():
        assert reply.status == 200
        assert is_ms(mp3_ms(reply.body), len(split[number].split()))


async def test_openwebui_in_a_call_is_never_kept_waiting(autojump_clock: MockClock) -> None:
    """Sentences as a language model writes them, at a realistic speed of ours: each is there
    before the one before it has been played, so there is silence only at the beginning."""
    app = Engine(ToneVoice(rtf=0.45)).app()
    split = [*parts(MESSAGE)] * 4
    there_s: dict[int, float] = {}

    async def sentence(number: int) -> None:
        body = {"input": split[number], "voice": "af_heart", "model": "kokoro"}
        reply = await ask(app, "POST", SPEECH, {**JSON, **KEYLESS}, json.dumps(body).encode())
        assert reply.status == 200
        there_s[number] = trio.current_time()

    async with trio.open_nursery() as nursery:
        for number, part in enumerate(split):
            await trio.sleep(len(part.split()) / 20)  # words that a model writes in a second
            nursery.start_soon(sentence, number)
    assert list(there_s) == list(range(len(split)))
    ends_s = there_s[0]
    for number, part in enumerate(split):
        assert there_s[number] <= ends_s
        ends_s += len(part.split()) * WORD_MS / 1000 + 0.3  # its pause between two parts


async def test_openwebui_sees_a_failure_as_one() -> None:
    """It asks for the status before it reads; half of a sentence must not get into its cache."""
    early = ToneVoice(fail_at=0, failure=SynthesisFailed("It failed."))
    late = ToneVoice(fail_at=1, failure=SynthesisFailed("It failed."))
    body = {"input": "One two. Three.", "voice": "af_heart", "model": "kokoro"}
    async with served(early) as server, wired(server) as wire:
        assert (await wire.post(SPEECH, KEYLESS, body)).status == 500
    async with served(late) as server, wired(server) as wire:
        with pytest.raises(h11.RemoteProtocolError):
            await wire.post(SPEECH, KEYLESS, body)


# --- LibreChat -------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["Bearer undefined", "Bearer anything", "Bearer ", "undefined"])
async def test_librechat_pipes_one_answer(key: str) -> None:
    asked = Asked()
    async with served(asked) as server, wired(server) as wire:
        body = {"input": "One two.", "model": "kokoro", "voice": "bf_emma", "backend": "cuda"}
        reply = await wire.post(SPEECH, {**AXIOS, "Authorization": key}, body)
    assert reply.status == 200
    assert asked.requests[0].voice == "bf_emma"
    assert is_ms(mp3_ms(reply.body), 2)


async def test_librechat_joins_the_answers_of_a_long_text() -> None:
    """It cuts at 1,000 characters and says `audio/mpeg` of all of them together."""
    piece = "word " * 199 + "end. "
    assert len(piece) == 1_000
    made = b""
    async with served() as server, wired(server) as wire:
        for _ in range(5):
            body = {"input": piece, "model": "kokoro", "voice": "af_heart"}
            reply = await wire.post(SPEECH, {**AXIOS, "Authorization": "Bearer x"}, body)
            assert is_plain_mp3(reply.body)
            made += reply.body
    assert is_ms(mp3_ms(made, pieces=5), 5 * 200, pieces=5)


# --- SillyTavern -----------------------------------------------------------------------------


@pytest.mark.parametrize("voice", ["alloy", "af_heart", "af_heart(2)+am_michael(1)"])
async def test_sillytavern_asks_for_a_message(settings: Settings, voice: str) -> None:
    """Without a key, and with a speed always."""
    asked = Asked()
    async with served(asked) as server, wired(server) as wire:
        body: dict[str, Any] = {
            "input": "She waits. One two.", "response_format": "mp3", "voice": voice, "speed": 1,
            "model": "tts-1",
        }  # fmt: skip
        reply = await wire.post(SPEECH, {**FETCH, "Authorization": "Bearer "}, body)
    assert reply.status == 200
    assert asked.requests[0].speed == 1
    assert asked.requests[0].voice == settings.openai_voices.get(voice, voice)
    assert is_ms(mp3_ms(reply.body), 4)


# --- AnythingLLM -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["Bearer not-needed", "Bearer null", "Bearer Missing Key", "Bearer anything"]
)
async def test_anythingllm_speaks_an_answer(key: str) -> None:
    """By OpenAI's package, with or without a key; what it plays it knows by the first bytes."""
    async with served(Asked()) as server, wired(server) as wire:
        body = {"model": "kokoro", "voice": "af_bella", "input": "One two."}
        reply = await wire.post(SPEECH, {**NODE_SDK, "authorization": key}, body)
    assert reply.status == 200
    assert is_plain_mp3(reply.body)


async def test_anythingllm_lists_the_voices() -> None:
    async with served() as server, wired(server) as wire:
        headers = {**FETCH, "Content-Type": "application/json"}
        reply = await wire.get("/v1/audio/voices", headers)
    assert all(voice["id"] and voice["name"] for voice in reply.json["voices"])
