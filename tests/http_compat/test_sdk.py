"""The official SDK against a real server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import openai
import pytest
import trio
from openai import DefaultHttpxClient, OpenAI

from engine.errors import EngineError, NotReady, Overloaded, SynthesisFailed
from tests.support.tone import WORD_MS, ToneVoice

from .serving import Gate, Served, served

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
        ({"response_format": "opus"}, "invalid_value", "response_format"),
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
