"""Errors as HTTP answers in OpenAI's shape. Core.

    error                  status  type                    code
    UnknownVoice             400   invalid_request_error   voice_not_found
    UnsupportedLanguage      400   invalid_request_error   unsupported_language
    TextTooLong              400   invalid_request_error   string_above_max_length
    other InvalidRequest     400   invalid_request_error   invalid_value
    Unauthorized             401   authentication_error    invalid_api_key
    OriginNotAllowed         403   permission_error        origin_not_allowed
    Overloaded               429   rate_limit_error        server_busy
    NotReady                 503   server_error            engine_unavailable
    StreamCancelled          409   server_error            cancelled
    SynthesisFailed          500   server_error            synthesis_failed
    SetupError               500   server_error            setup
    any other                500   server_error            internal_error

    what HTTP itself refuses: 403 404 405 408 413 415, see `REFUSED`

Clients retry 408, 409, 429 and 5xx by themselves, each time with a whole synthesis, unless
`x-should-retry` says that it cannot help. It is `true` where it can, or an error has a time for it;
`Retry-After` is that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from engine.errors import (
    EngineError,
    InvalidRequest,
    NotReady,
    OriginNotAllowed,
    Overloaded,
    SetupError,
    StreamCancelled,
    SynthesisFailed,
    TextTooLong,
    Unauthorized,
    UnknownVoice,
    UnsupportedLanguage,
)

INVALID = "invalid_request_error"
SERVER = "server_error"


@dataclass(frozen=True, slots=True)
class Rule:
    """How a kind of error is told: the status, and `type` and `code` of the body."""

    status: int
    type: str
    code: str


#: the table above; the first that fits counts
RULES: tuple[tuple[type[EngineError], Rule], ...] = (
    (UnknownVoice, Rule(400, INVALID, "voice_not_found")),
    (UnsupportedLanguage, Rule(400, INVALID, "unsupported_language")),
    (TextTooLong, Rule(400, INVALID, "string_above_max_length")),
    (InvalidRequest, Rule(400, INVALID, "invalid_value")),
    (Unauthorized, Rule(401, "authentication_error", "invalid_api_key")),
    (OriginNotAllowed, Rule(403, "permission_error", "origin_not_allowed")),
    (Overloaded, Rule(429, "rate_limit_error", "server_busy")),
    (NotReady, Rule(503, SERVER, "engine_unavailable")),
    (StreamCancelled, Rule(409, SERVER, "cancelled")),
    (SynthesisFailed, Rule(500, SERVER, "synthesis_failed")),
    (SetupError, Rule(500, SERVER, "setup")),
    (EngineError, Rule(500, SERVER, "internal_error")),
)

#: what HTTP itself refuses: how, and the sentence if the refusing side has no better one
REFUSED: Mapping[int, tuple[Rule, str]] = {
    403: (
        Rule(403, "permission_error", "origin_not_allowed"),
        "This Host or Origin is not served.",
    ),
    404: (
        Rule(404, INVALID, "unknown_url"),
        "There is nothing at this address; speech is made by POST /v1/audio/speech.",
    ),
    405: (
        Rule(405, INVALID, "method_not_allowed"),
        "This address does not take requests of this method; the Allow header has those it takes.",
    ),
    408: (Rule(408, INVALID, "request_timeout"), "The request's body did not arrive in time."),
    413: (Rule(413, INVALID, "request_too_large"), "The request's body is too large."),
    415: (
        Rule(415, INVALID, "unsupported_media_type"),
        "The body must be JSON, sent with the header Content-Type: application/json.",
    ),
}

#: fields of the engine's request that have another name in OpenAI's
PARAMS = {"text": "input"}

#: how long a client waits before it tries again when the error does not say, in seconds
RETRY_AFTER_S = 1


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """The inner object of an error body; all four keys are always there."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(msgspec.Struct, frozen=True):
    """`{"error": {...}}`."""

    error: Detail


@dataclass(frozen=True, slots=True)
class Answer:
    """An error as it goes out: JSON follows from `detail`."""

    status: int
    detail: Detail
    headers: Mapping[str, str]

    @property
    def body(self) -> bytes:
        """The JSON of the answer."""
        return msgspec.json.encode(ErrorBody(self.detail))


def answer(error: EngineError) -> Answer:
    """The answer that tells `error`."""
    rule = next(rule for kind, rule in RULES if isinstance(error, kind))
    param = PARAMS.get(error.param, error.param) if error.param else None
    detail = Detail(message=error.message, type=rule.type, param=param, code=rule.code)
    headers = dict(_retry_headers(error))
    if rule.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Answer(rule.status, detail, headers)


def refusal(status: int, message: str | None = None) -> Answer:
    """The answer to a request that HTTP itself refuses.

    Args:
        status: one of 400–599; those not in the table get the standard's own phrase.
        message: one sentence, if it can be more exact than the table's.
    """
    rule, usual = REFUSED.get(status) or (
        Rule(status, INVALID if status < 500 else SERVER, "http_error"),
        f"{HTTPStatus(status).phrase}.",
    )
    detail = Detail(message=message or usual, type=rule.type, param=None, code=rule.code)
    # A body that came too slowly may come in time at the next try.
    return Answer(status, detail, _RETRY if status == 408 else _NO_RETRY)


def unknown_model(name: str) -> Answer:
    """The answer for a model that is not in the list."""
    message = f"There is no model {name[:64]!r}; GET /v1/models has the names."
    detail = Detail(message=message, type=INVALID, param="model", code="model_not_found")
    return Answer(404, detail, _NO_RETRY)


_RETRY = {"x-should-retry": "true"}
_NO_RETRY = {"x-should-retry": "false"}


def _retry_headers(error: EngineError) -> Mapping[str, str]:
    if error.retry_after_ms is None:
        return {**_RETRY, "Retry-After": str(RETRY_AFTER_S)} if error.retryable else _NO_RETRY
    return {
        **_RETRY,
        "Retry-After": str(max(1, math.ceil(error.retry_after_ms / 1000))),
        "retry-after-ms": str(error.retry_after_ms),
    }
