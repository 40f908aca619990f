"""The OpenAPI document is true: requests of all kinds that are made from it, and the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import schemathesis
import trio
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode, Response
from schemathesis.specs.openapi.checks import positive_data_acceptance
from trio.testing import MockClock

from engine.request import Event, Opened, SpeechRequest
from engine.service import KokoroService
from http_compat.schema import Body, Format
from tests.support.tone import ToneVoice

from .serving import Engine, defaults, get, serving

#: Longer than the tests take on a machine that does nothing else.
PATIENCE_S = 120

#: No schema can say all that makes a request valid: which voices there are, for instance.
NOT_CHECKED: list[Any] = [positive_data_acceptance]

OPERATIONS = [
    ("/v1/audio/speech", "POST"),
    ("/v1/audio/voices", "GET"),
    ("/v1/audio/models", "GET"),
    ("/v1/models", "GET"),
    ("/v1/models/{id}", "GET"),
    ("/health", "GET"),
    ("/ready", "GET"),
    ("/status", "GET"),
    ("/metrics", "GET"),
    ("/session-status", "GET"),
    ("/session-reset", "POST"),
    ("/openapi.json", "GET"),
]


def try_out(url: str, path: str, method: str, mode: GenerationMode) -> dict[int, int]:
    """Sends requests that the document allows, or does not; gives how often came which status."""
    statuses: dict[int, int] = {}
    operation = schemathesis.openapi.from_url(f"{url}/openapi.json")[path][method]

    @settings(suppress_health_check=list(HealthCheck), database=None)
    @given(operation.as_strategy(generation_mode=mode))
    def check(case: Case[Any]) -> None:
        response: Response = case.call()
        assert response.status_code < 500
        case.validate_response(response, excluded_checks=NOT_CHECKED)
        statuses[response.status_code] = statuses.get(response.status_code, 0) + 1

    check()
    return statuses


async def tried_out(engine: Engine, *arguments: Any) -> dict[int, int]:
    async with serving(engine, patience_s=PATIENCE_S) as server:
        return await trio.to_thread.run_sync(partial(try_out, server.url, *arguments))


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
async def test_what_is_allowed_is_answered_as_it_says(path: str, method: str) -> None:
    voice = ToneVoice()
    statuses = await tried_out(Engine(voice), path, method, GenerationMode.POSITIVE)
    assert set(statuses) <= (
        {200, 404} if "{" in path else {200, 400} if method == "POST" else {200}
    )
    assert 200 in statuses or "{" in path
    assert voice.active == 0


async def test_what_is_not_allowed_is_refused() -> None:
    voice = ToneVoice()
    path, method = OPERATIONS[0]
    statuses = await tried_out(Engine(voice), path, method, GenerationMode.NEGATIVE)
    assert set(statuses) <= {400, 413, 415}
    assert (voice.active, voice.segments_made) == (0, 0)


async def test_what_is_allowed_does_no_harm_to_the_real_engine(
    real_service: KokoroService,
) -> None:
    """It looks at each request as it would, and the fake voice speaks."""
    voice = ToneVoice()

    @asynccontextmanager
    async def speak(request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        async with real_service(request) as stream:
            assert isinstance(await anext(stream), Opened)
        async with voice(SpeechRequest(text=request.text)) as events:
            yield events

    path, method = OPERATIONS[0]
    statuses = await tried_out(Engine(speak), path, method, GenerationMode.POSITIVE)
    assert set(statuses) <= {200, 400}


async def test_the_document_says_what_there_is(autojump_clock: MockClock) -> None:
    app = Engine().app(settings=defaults(http_text_chars=123))
    document = (await get(app, "/openapi.json")).json
    assert [(path, method.upper()) for path, item in document["paths"].items() for method in item] \
        == OPERATIONS  # fmt: skip
    served = {
        (rule.rule.replace("<path:name>", "{id}"), method)
        for rule in app.url_map.iter_rules()
        for method in rule.methods or ()
        if method in {"GET", "POST"} and rule.rule != "/" and not rule.rule.startswith("/page/")
    }
    # What is there without /v1 too is an alias, and not told.
    assert {(path, method) for path, method in served if ("/v1" + path, method) not in served} == {
        *OPERATIONS
    }
    body = document["components"]["schemas"]["Body"]
    assert set(body["properties"]) == set(Body.__struct_fields__)
    assert body["properties"]["input"]["maxLength"] == 123
    assert document["components"]["schemas"]["Format"]["enum"] == sorted(Format)
