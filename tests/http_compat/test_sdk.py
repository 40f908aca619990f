"""The official SDK against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import openai
import pytest
import trio
from openai import DefaultHttpxClient, OpenAI

from engine.errors import EngineError, NotReady, Overloaded, SynthesisFailed
from http_compat.schema import Format
from tests.support.tone import WORD_MS, ToneVoice

from .decoding import by_ffmpeg
from .serving import Engine, Gate, Served, defaults, served, serving

T = TypeVar("T")


async def with_sdk(server: Served, use: Callable[[OpenAI], T]) -> T:
    """Runs `use` in a thread, with a client that neither retries nor looks for a proxy."""

    def work() -> T:
        with OpenAI(
            base_url=f"{server.url}/v1",
            api_key="not-needed",
            max_retries=0,
            http_client=DefaultHttpxClient(trust_env=False),
        ) as client:
            return use(client)

    return await trio.to_thread.run_sync(work)


async def test_speech() -> None:
    async with served() as server:
        response = await with_sdk(
            server,
            lambda sdk: sdk.audio.speech.create(
                model="kokoro", voice="af_heart", input="One two.", response_format="pcm"
            ),
        )
        assert len(response.content) == 2 * WORD_MS * 48
        assert response.response.headers["x-request-id"].startswith("req_")


async def test_streaming() -> None:
    gate = Gate(ToneVoice())

    def listen(sdk: OpenAI) -> bytes:
        with sdk.audio.speech.with_streaming_response.create(
            model="tts-1", voice="af_heart", input="One. Two.", response_format="pcm"
        ) as response:
            pieces = response.iter_bytes(1024)
            first = next(pieces)  # there is one before the second segment can be made
            trio.from_thread.run_sync(gate.opened.set)
            return first + b"".join(pieces)

    async with served(gate) as server:
        assert len(await with_sdk(server, listen)) == 2 * WORD_MS * 48


@pytest.mark.parametrize("container", Format)
async def test_every_format_into_a_file(container: Format, tmp_path: Path) -> None:
    file = tmp_path / f"speech.{container}"

    def save(sdk: OpenAI) -> None:
        with sdk.audio.speech.with_streaming_response.create(
            model="gpt-4o-mini-tts",
            voice="alloy" if container is Format.MP3 else {"id": "af_heart"},
            input="One two.",
            instructions="Speak slowly.",
            response_format=container.value,
            speed=0.5,
        ) as response:
            response.stream_to_file(file)

    settings = defaults(openai_voices={"alloy": "bm_fable"})
    async with serving(Engine(), settings) as server:
        await with_sdk(server, save)
    made = by_ffmpeg(file.read_bytes(), container)
    assert made.length >= 4 * WORD_MS * 24


async def test_events() -> None:
    def listen(sdk: OpenAI) -> list[dict[str, Any]]:
        with sdk.audio.speech.with_streaming_response.create(
            model="kokoro", voice="af_heart", input="One.", stream_format="sse"
        ) as response:
            lines = [line for line in response.iter_lines() if line]
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    async with served() as server:
        *deltas, done = await with_sdk(server, listen)
    assert deltas
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert done["usage"]["input_tokens"] == 4


async def test_it_tries_again_when_there_is_room() -> None:
    """The SDK's own retries, when our headers say so: in a millisecond here."""
    voice = ToneVoice(fail_at=0, failure=Overloaded("Later.", retry_after_ms=1))

    class Recovers(ToneVoice):
        calls = 0

        def __call__(self, request: Any, /) -> Any:
            self.calls += 1
            return voice(request) if self.calls == 1 else super().__call__(request)

    recovers = Recovers()
    async with served(recovers) as server:
        await with_sdk(
            server,
            lambda sdk: sdk.with_options(max_retries=2).audio.speech.create(
                model="m", voice="af_heart", input="One."
            ),
        )
    assert recovers.calls == 2


async def test_it_does_not_try_again_what_cannot_help() -> None:
    calls = 0

    class Counting(ToneVoice):
        def __call__(self, request: Any, /) -> Any:
            nonlocal calls
            calls += 1
            return super().__call__(request)

    voice = Counting(fail_at=0, failure=SynthesisFailed("It failed."))
    async with served(voice) as server:
        with pytest.raises(openai.InternalServerError):
            await with_sdk(
                server,
                lambda sdk: sdk.with_options(max_retries=2).audio.speech.create(
                    model="m", voice="af_heart", input="One."
                ),
            )
    assert calls == 1


async def test_models() -> None:
    async with served() as server:
        models = await with_sdk(server, lambda sdk: list(sdk.models.list()))
        assert models[0].id == "kokoro"
        with pytest.raises(openai.NotFoundError) as caught:
            await with_sdk(server, lambda sdk: sdk.models.retrieve("whisper-1"))
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"voice": "af_nobody"}, "voice_not_found", "voice"),
        ({"input": "a" * 4097}, "string_above_max_length", "input"),
        ({"input": ""}, "invalid_value", "input"),
        ({"speed": 9.0}, "invalid_value", "speed"),
        ({"response_format": "ogg"}, "invalid_value", "response_format"),
    ],
)
async def test_bad_requests(fields: dict[str, str], code: str, param: str) -> None:
    body = {"model": "kokoro", "voice": "af_heart", "input": "One.", **fields}
    async with served() as server:
        with pytest.raises(openai.BadRequestError) as caught:
            await with_sdk(server, lambda sdk: sdk.audio.speech.create(**body))  # type: ignore[arg-type]
    error = caught.value
    assert (error.code, error.param, error.type) == (code, param, "invalid_request_error")
    assert error.request_id


@pytest.mark.parametrize(
    ("failure", "kind", "status"),
    [
        (NotReady("Not there."), openai.InternalServerError, 503),
        (Overloaded("Later."), openai.RateLimitError, 429),
        (SynthesisFailed("It failed."), openai.InternalServerError, 500),
    ],
)
async def test_failures(
    failure: EngineError, kind: type[openai.APIStatusError], status: int
) -> None:
    async with served(ToneVoice(fail_at=0, failure=failure)) as server:
        with pytest.raises(kind) as caught:
            await with_sdk(
                server,
                lambda sdk: sdk.audio.speech.create(model="m", voice="af_heart", input="One."),
            )
    assert caught.value.status_code == status
    assert failure.message in caught.value.message


async def test_unknown_addresses() -> None:
    async with served() as server:
        with pytest.raises(openai.NotFoundError) as caught:
            await with_sdk(server, lambda sdk: sdk.get("/nowhere", cast_to=object))
    assert caught.value.code == "unknown_url"


async def test_a_cut_transfer_is_an_error() -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("It failed."))
    async with served(voice) as server:
        with pytest.raises(
            Exception, match=r"incomplete chunked read|peer closed|Connection error"
        ):
            await with_sdk(
                server,
                lambda sdk: sdk.audio.speech.create(
                    model="m", voice="af_heart", input="One. Two."
                ).read(),
            )
