"""The OpenAPI document: what the endpoints take and give, made from what reads and writes it. Core.

`tests/http_compat/test_openapi.py` has requests of all kinds made from it and holds the answers
against it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from . import containers, lists, sse, state
from .errors import RULES, ErrorBody
from .schema import Body, Format

REFERENCE = "#/components/schemas/{name}"

_JSON = "application/json"

#: what any request may get: a foreign Host or Origin, and a fault of ours
_ALWAYS = (403, 500)

_HEADERS = {
    "x-request-id": {"description": "Names the request in the log.", "schema": {"type": "string"}}
}


def document(*, version: str, text_chars: int) -> dict[str, Any]:
    """The document.

    Args:
        version: of kokoro-live.
        text_chars: the longest input, in code points.
    """
    structs = (
        Body,
        ErrorBody,
        lists.Model,
        lists.ModelList,
        lists.AudioModels,
        lists.VoiceList,
        lists.VoiceNames,
        *sse.EVENTS,
        state.Health,
        state.Readiness,
        state.Overview,
        state.SessionState,
        state.SessionAnswer,
    )
    _, schemas = msgspec.json.schema_components(structs, ref_template=REFERENCE)
    schemas["Body"]["properties"]["input"] |= {"minLength": 1, "maxLength": text_chars}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "kokoro-live",
            "version": version,
            "description": "Speech from text on this machine, for clients of the OpenAI API.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        # A key is asked for only where other machines can reach the server.
        "security": [{}, {"key": []}],
        "paths": {
            "/v1/audio/speech": {"post": _speech()},
            "/v1/audio/voices": {"get": _voices()},
            "/v1/audio/models": {
                "get": _question("listAudioModels", "The models, in another shape.", "AudioModels")
            },
            "/v1/models": {"get": _question("listModels", "The models.", "ModelList")},
            "/v1/models/{id}": {"get": _model()},
            "/health": {"get": _question("health", "Whether this server answers.", "Health")},
            "/ready": {"get": _ready()},
            "/status": {"get": _keyed("status", "How everything is.", "Overview")},
            "/metrics": {"get": _metrics()},
            "/session-status": {
                "get": _keyed("sessionStatus", "Whether speech gets on.", "SessionState", 503)
            },
            "/session-reset": {
                "post": _keyed(
                    "sessionReset",
                    "Ends all speech, and sets the engine going anew if it stands still.",
                    "SessionAnswer",
                    503,
                )
            },
            "/openapi.json": {"get": _itself()},
        },
        "components": {
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "Why there is no sound, or no list, in one sentence.",
                    "headers": _HEADERS,
                    "content": {_JSON: {"schema": _reference("ErrorBody")}},
                }
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _speech() -> dict[str, Any]:
    types = [containers.encoder_for(container).content_type for container in Format]
    binary = {"schema": {"type": "string", "format": "binary"}}
    sound: dict[str, Any] = {kind.partition(";")[0]: binary for kind in types}
    sound[sse.CONTENT_TYPE] = {"schema": _events()}
    statuses = {rule.status for _, rule in RULES} | {408, 413, 415}
    ignored = {
        "description": "Names of keys of the body that had no effect.",
        "schema": {"type": "string"},
    }
    return {
        "operationId": "createSpeech",
        "summary": "Speaks a text.",
        "requestBody": {
            "required": True,
            "content": {_JSON: {"schema": _reference("Body")}},
        },
        "responses": {
            "200": {
                "description": "The sound, while it is made.",
                "headers": _HEADERS | {"x-kokoro-live-ignored": ignored},
                "content": sound,
            },
            **_errors(*statuses),
        },
    }


def _events() -> dict[str, Any]:
    """What each event of a stream is."""
    told = [_reference(event.__name__) for event in sse.EVENTS]
    data = {
        "type": "string",
        "contentMediaType": _JSON,
        "contentSchema": {"anyOf": told},
    }
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _voices() -> dict[str, Any]:
    operation = _question("listVoices", "The voices.", "VoiceList", "VoiceNames", errors=(503,))
    operation["parameters"] = [
        {
            "name": "legacy",
            "in": "query",
            "description": "true: names alone.",
            "schema": {"type": "string"},
        }
    ]
    return operation


def _model() -> dict[str, Any]:
    operation = _question("getModel", "One model.", "Model", errors=(404,))
    operation["parameters"] = [
        {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    ]
    return operation


def _ready() -> dict[str, Any]:
    operation = _question("ready", "Whether speech can be had now.", "Readiness")
    operation["responses"]["503"] = operation["responses"]["200"] | {"description": "Not now."}
    return operation


def _keyed(name: str, summary: str, answer: str, *errors: int) -> dict[str, Any]:
    """A question that needs the key where other machines can ask it."""
    return _question(name, summary, answer, errors=(401, *errors))


def _metrics() -> dict[str, Any]:
    operation = _keyed("metrics", "Counters of engine and server for Prometheus.", "Health")
    kind = state.METRICS_TYPE.partition(";")[0]
    operation["responses"]["200"]["content"] = {kind: {"schema": {"type": "string"}}}
    return operation


def _itself() -> dict[str, Any]:
    return {
        "operationId": "document",
        "summary": "This document.",
        "responses": {
            "200": {
                "description": "This document.",
                "headers": _HEADERS,
                "content": {_JSON: {"schema": {"type": "object"}}},
            },
            **_errors(*_ALWAYS),
        },
    }


def _question(
    name: str, summary: str, *answers: str, errors: tuple[int, ...] = ()
) -> dict[str, Any]:
    schemas = [_reference(answer) for answer in answers]
    return {
        "operationId": name,
        "summary": summary,
        "responses": {
            "200": {
                "description": summary,
                "headers": _HEADERS,
                "content": {
                    _JSON: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": schemas}}
                },
            },
            **_errors(*_ALWAYS, *errors),
        },
    }


def _errors(*statuses: int) -> dict[str, Any]:
    return {str(status): {"$ref": "#/components/responses/Error"} for status in sorted({*statuses})}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": REFERENCE.format(name=name)}
