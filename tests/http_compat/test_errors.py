"""Every error has an answer in OpenAI's shape."""

from __future__ import annotations

import json

import pytest

from engine.errors import (
    BY_CODE,
    EngineError,
    InternalError,
    InvalidRequest,
    NotReady,
    OriginNotAllowed,
    Overloaded,
    SetupError,
    StreamCancelled,
    SynthesisFailed,
    TextTooLong,
    TooManyStreams,
    Unauthorized,
    UnknownVoice,
    UnsupportedLanguage,
)
from http_compat import errors


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (UnknownVoice("No."), 400, "invalid_request_error", "voice_not_found"),
        (UnsupportedLanguage("No."), 400, "invalid_request_error", "unsupported_language"),
        (TextTooLong("No."), 400, "invalid_request_error", "string_above_max_length"),
        (InvalidRequest("No."), 400, "invalid_request_error", "invalid_value"),
        (Unauthorized("No."), 401, "authentication_error", "invalid_api_key"),
        (OriginNotAllowed("No."), 403, "permission_error", "origin_not_allowed"),
        (TooManyStreams("No."), 429, "rate_limit_error", "server_busy"),
        (Overloaded("No."), 429, "rate_limit_error", "server_busy"),
        (NotReady("No."), 503, "server_error", "engine_unavailable"),
        (StreamCancelled("No."), 409, "server_error", "cancelled"),
        (SynthesisFailed("No."), 500, "server_error", "synthesis_failed"),
        (SetupError("No."), 500, "server_error", "setup"),
        (InternalError("No."), 500, "server_error", "internal_error"),
    ],
)
def test_the_table(error: EngineError, status: int, kind: str, code: str) -> None:
    answer = errors.answer(error)
    assert answer.status == status
    assert json.loads(answer.body) == {
        "error": {"message": "No.", "type": kind, "param": None, "code": code}
    }


@pytest.mark.parametrize("kind", BY_CODE.values())
def test_clients_are_told_whether_to_try_again(kind: type[EngineError]) -> None:
    headers = errors.answer(kind("No.")).headers
    assert ("Retry-After" in headers) == kind.retryable
    assert headers["x-should-retry"] == ("true" if kind.retryable else "false")
    assert errors.answer(kind("No.", retry_after_ms=1)).headers["x-should-retry"] == "true"


@pytest.mark.parametrize(("ms", "seconds"), [(None, "1"), (1, "1"), (1000, "1"), (1001, "2")])
def test_retry_after_is_in_whole_seconds(ms: int | None, seconds: str) -> None:
    headers = errors.answer(Overloaded("No.", retry_after_ms=ms)).headers
    assert headers["Retry-After"] == seconds
    assert headers.get("retry-after-ms") == (str(ms) if ms else None)


def test_fields_have_their_openai_name() -> None:
    assert errors.answer(TextTooLong("No.", param="text")).detail.param == "input"
    assert errors.answer(UnknownVoice("No.", param="voice")).detail.param == "voice"


@pytest.mark.parametrize("status", [403, 404, 405, 408, 413, 415, 418, 500])
def test_what_http_refuses(status: int) -> None:
    answer = errors.refusal(status)
    assert answer.status == status
    assert answer.detail.message.endswith(".")
    assert answer.headers["x-should-retry"] == ("true" if status == 408 else "false")


def test_a_refusal_can_say_more() -> None:
    assert errors.refusal(403, "Not you.").detail.message == "Not you."


def test_unknown_model() -> None:
    answer = errors.unknown_model("gpt")
    assert (answer.status, answer.detail.code) == (404, "model_not_found")
    assert "'gpt'" in answer.detail.message
