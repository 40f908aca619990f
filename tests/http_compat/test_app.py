"""The endpoints, without sockets and in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine.errors import (
    EngineError,
    InternalError,
    NotReady,
    Overloaded,
    StreamCancelled,
    SynthesisFailed,
)
from http_compat.app import MAX_BODY_BYTES
from http_compat.connection import LINGER_S
from tests.support.access import TOKEN
from tests.support.tone import WORD_MS, ToneVoice

from .serving import (
    HOST,
    JSON,
    PORT,
    SPEECH,
    Engine,
    ask,
    calling,
    defaults,
    get,
    length_ms,
    post,
    told,
)

TWO = b'{"input": "One. Two."}'


@pytest.mark.parametrize("path", [SPEECH, "/audio/speech", "/v1//audio/speech", "//audio/speech"])
async def test_speech(autojump_clock: MockClock, path: str) -> None:
    body = {"input": "One two.", "voice": "af_heart", "response_format": "pcm"}
    response = await post(Engine().app(), body, path)
    assert response.status == 200
    assert response.headers["content-type"] == "audio/pcm;rate=24000;channels=1"
    assert response.headers["x-request-id"].startswith("req_")
    assert "x-kokoro-live-ignored" not in response.headers
    assert length_ms(response.body) == 2 * WORD_MS


@pytest.mark.parametrize(
    ("container", "content_type"),
    [
        ("mp3", "audio/mpeg"),
        ("opus", "audio/ogg;codecs=opus"),
        ("aac", "audio/aac"),
        ("flac", "audio/flac"),
        ("wav", "audio/wav"),
        ("pcm", "audio/pcm;rate=24000;channels=1"),
    ],
)
async def test_formats(autojump_clock: MockClock, container: str, content_type: str) -> None:
    response = await post(Engine().app(), {"input": "One.", "response_format": container})
    assert response.headers["content-type"] == content_type
    assert response.body


async def test_speed_and_voice_reach_the_engine(autojump_clock: MockClock) -> None:
    body = {
        "input": "One two three four.",
        "voice": {"id": "bm_fable"},
        "response_format": "pcm",
        "speed": 2,
    }
    response = await post(Engine().app(), body)
    assert length_ms(response.body) == 2 * WORD_MS


async def test_ignored_keys_are_named(autojump_clock: MockClock) -> None:
    response = await post(Engine().app(), {"input": "One.", "instructions": "", "x\r\ny": 1})
    assert response.status == 200
    assert response.headers["x-kokoro-live-ignored"] == "instructions, x_y"


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"input": "a", "voice": "af_nobody"}, "voice", "voice_not_found"),
        ({"input": "a" * 4097}, "input", "string_above_max_length"),
        ({"input": ""}, "input", "invalid_value"),
        ({"input": "  ", "voice": "af_nobody"}, "voice", "voice_not_found"),
        ({"voice": "af_heart"}, "input", "invalid_value"),
        ({"input": ["a"]}, "input", "invalid_value"),
        ({"input": "a", "speed": 5}, "speed", "invalid_value"),
        ({"input": "a", "speed": float("nan")}, "speed", "invalid_value"),
        ({"input": "a", "response_format": "ogg"}, "response_format", "invalid_value"),
        ({"input": "a", "stream_format": "ws"}, "stream_format", "invalid_value"),
        ({"input": "a", "marks": True}, "marks", "invalid_value"),
        ([], None, "invalid_value"),
    ],
)
async def test_bad_requests(
    autojump_clock: MockClock, body: object, param: str | None, code: str
) -> None:
    voice = ToneVoice()
    response = await post(Engine(voice).app(), body)
    assert response.status == 400
    assert response.headers["x-should-retry"] == "false"
    detail = told(response)
    assert (detail["type"], detail["param"], detail["code"]) == (
        "invalid_request_error",
        param,
        code,
    )
    assert voice.active == 0


async def test_the_limit_is_a_setting(autojump_clock: MockClock) -> None:
    app = Engine().app(settings=defaults(http_text_chars=3))
    assert (await post(app, {"input": "One."})).status == 400
    assert (await post(app, {"input": "One"})).status == 200


async def test_bad_json(autojump_clock: MockClock) -> None:
    headers = {**HOST, "Content-Type": "application/json; charset=utf-8"}
    response = await ask(Engine().app(), "POST", SPEECH, headers, b"{")
    assert response.status == 400
    assert told(response)["message"] == "The body is not valid JSON."


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_the_body_must_say_that_it_is_json(
    autojump_clock: MockClock, kind: str | None
) -> None:
    headers = {**HOST, "Content-Type": kind} if kind else HOST
    response = await ask(Engine().app(), "POST", SPEECH, headers, b'{"input": "a"}')
    assert response.status == 415
    assert "Content-Type: application/json" in told(response)["message"]


async def test_a_body_too_large(autojump_clock: MockClock) -> None:
    response = await post(Engine().app(), {"input": "a" * MAX_BODY_BYTES})
    assert response.status == 413
    assert told(response)["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("error", "status", "headers"),
    [
        (Overloaded("Later.", retry_after_ms=1500), 429, {"Retry-After": "2"}),
        (NotReady("Not there."), 503, {"Retry-After": "1"}),
        (SynthesisFailed("It failed."), 500, {"x-should-retry": "false"}),
        (StreamCancelled("It was cancelled."), 409, {"x-should-retry": "false"}),
        (InternalError("Oh."), 500, {"x-should-retry": "false"}),
    ],
)
async def test_errors_before_the_first_sound_have_a_status(
    autojump_clock: MockClock, error: EngineError, status: int, headers: dict[str, str]
) -> None:
    voice = ToneVoice(fail_at=0, failure=error)
    response = await post(Engine(voice).app(), {"input": "One."})
    assert response.status == status
    assert told(response)["message"] == error.message
    for name, value in headers.items():
        assert response.headers[name] == value
    assert voice.active == 0


async def test_a_bug_is_an_error_body_and_a_log_entry(autojump_clock: MockClock) -> None:
    class Broken(ToneVoice):
        def __call__(self, request: object, /) -> Any:
            raise ZeroDivisionError("details")

    with capture_logs() as logs:
        response = await post(Engine(Broken()).app(), {"input": "One."})
    assert response.status == 500
    assert told(response)["code"] == "internal_error"
    assert "details" not in response.body.decode()
    assert logs[0]["error"].startswith("ZeroDivisionError at ")
    assert "details" not in str(logs)


async def test_unknown_addresses_and_methods(autojump_clock: MockClock) -> None:
    app = Engine().app()
    for path in ("/nothing", "/v1", "/v2/audio/speech", "/v1/audio/speech/"):
        response = await get(app, path)
        assert response.status == 404
        assert told(response)["code"] == "unknown_url"
    response = await get(app, SPEECH)
    assert response.status == 405
    assert response.headers["Allow"] == "OPTIONS, POST"
    assert told(response)["code"] == "method_not_allowed"


async def test_models(autojump_clock: MockClock) -> None:
    app = Engine().app()
    listed = (await get(app, "/v1/models")).json
    assert listed["object"] == "list"
    assert listed["data"][0]["id"] == "kokoro"
    assert all(sorted(m) == ["created", "id", "object", "owned_by"] for m in listed["data"])
    one = await get(app, "/v1/models/tts-1")
    assert one.json["id"] == "tts-1"
    none = await get(app, "/v1/models/some/thing")
    assert none.status == 404
    assert told(none)["code"] == "model_not_found"
    audio = (await get(app, "/v1/audio/models")).json
    assert audio["models"][0] == {"id": "kokoro"}


@pytest.mark.parametrize("path", ["/models", "/models/tts-1", "/audio/models", "/audio/voices"])
async def test_every_address_is_there_without_its_version(
    autojump_clock: MockClock, path: str
) -> None:
    app = Engine().app()
    assert (await get(app, path)).body == (await get(app, f"/v1{path}")).body


async def test_voices_by_name_alone(autojump_clock: MockClock) -> None:
    app = Engine().app()
    for query in ("legacy=true", "legacy=1", "legacy=True"):
        response = await get(app, f"/v1/audio/voices?{query}")
        assert response.json == {"voices": ["af_heart", "bm_fable"]}
    assert (await get(app, "/v1/audio/voices?legacy=false")).json["voices"][0]["name"] == "Heart"


async def test_voices(autojump_clock: MockClock) -> None:
    response = await get(Engine().app(), "/v1/audio/voices")
    assert response.json == {
        "voices": [
            {"id": "af_heart", "name": "Heart", "lang": "en-us"},
            {"id": "bm_fable", "name": "Fable", "lang": "en-gb"},
        ]
    }


async def test_an_engine_that_does_not_answer(autojump_clock: MockClock) -> None:
    app = Engine(down=NotReady("Not there.")).app()
    voices = await get(app, "/v1/audio/voices")
    assert voices.status == 503
    assert told(voices)["code"] == "engine_unavailable"
    assert (await get(app, "/v1/models")).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": f"evil.example:{PORT}"},
        {"Host": "127.0.0.1:9999"},
        {**HOST, "Origin": "http://evil.example"},
        {**HOST, "Origin": "null"},
        {**HOST, "Origin": f"https://127.0.0.1:{PORT}"},
    ],
)
@pytest.mark.parametrize("path", [SPEECH, "/health", "/v1/audio/voices", "/nowhere"])
async def test_strangers_are_refused(
    autojump_clock: MockClock, headers: dict[str, str], path: str
) -> None:
    voice = ToneVoice()
    headers = {**headers, "Content-Type": "application/json"}
    for method in ("GET", "POST", "OPTIONS"):
        response = await ask(Engine(voice).app(), method, path, headers, b'{"input": "One."}')
        assert response.status == 403
        assert told(response)["code"] == "origin_not_allowed"
        assert "Access-Control-Allow-Origin" not in response.headers
    assert voice.segments_made == 0


PAGE = "https://page.example"


async def test_pages_that_the_settings_name_may_read_the_answers(
    autojump_clock: MockClock,
) -> None:
    app = Engine().app(settings=defaults(origins=[PAGE], host="192.168.1.5", token=TOKEN))
    asked = {
        **HOST,
        "Origin": PAGE,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,x-stainless-os",
    }
    preflight = await ask(app, "OPTIONS", SPEECH, asked)
    assert preflight.status == 200
    assert preflight.headers["Access-Control-Allow-Origin"] == PAGE
    assert preflight.headers["Access-Control-Allow-Headers"] == "authorization,x-stainless-os"
    assert "POST" in preflight.headers["Access-Control-Allow-Methods"]
    body = {"input": "One."}
    spoken = await post(app, body, Origin=PAGE, Authorization=f"Bearer {TOKEN}")
    assert spoken.status == 200
    refused = await post(app, body, Origin=PAGE)
    assert refused.status == 401
    for reply in (spoken, refused):  # a page may read an error too
        assert reply.headers["Access-Control-Allow-Origin"] == PAGE
        assert reply.headers["Vary"] == "Origin"


async def test_other_pages_read_nothing(autojump_clock: MockClock) -> None:
    app = Engine().app()
    own = await post(app, {"input": "One."}, Origin=f"http://localhost:{PORT}")
    assert own.status == 200
    assert "Access-Control-Allow-Origin" not in own.headers
    strange = await ask(app, "OPTIONS", SPEECH, {**HOST, "Origin": PAGE})
    assert strange.status == 403
    assert "Access-Control-Allow-Origin" not in strange.headers


async def test_an_early_answer_waits_for_the_rest_of_the_body(autojump_clock: MockClock) -> None:
    """But not for ever: a client may never send it."""
    headers = {**JSON, "Origin": "http://evil.example"}
    began = trio.current_time()
    async with calling(Engine().app(), "POST", SPEECH, headers, b"{", sends_all=False) as call:
        assert await call.read()
    assert call.status == 403
    assert call.complete
    assert trio.current_time() - began == LINGER_S


async def test_a_body_that_never_comes(autojump_clock: MockClock) -> None:
    async with calling(Engine().app(), "POST", SPEECH, JSON, b"{", sends_all=False) as call:
        assert await call.read()
    assert call.status == 408


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": f"localhost:{PORT}"},
        {"Host": f"[::1]:{PORT}"},
        {"Host": f"host.docker.internal:{PORT}"},
        {**HOST, "Origin": f"http://localhost:{PORT}"},
        {**HOST, "Authorization": "Bearer "},
        {**HOST, "Authorization": "undefined", "Accept": "application/octet-stream"},
    ],
)
async def test_friends_are_let_in(autojump_clock: MockClock, headers: dict[str, str]) -> None:
    headers = {**headers, "Content-Type": "application/json"}
    response = await ask(Engine().app(), "POST", SPEECH, headers, b'{"input": "One."}')
    assert response.status == 200


@pytest.mark.parametrize(
    ("key", "status"), [(None, 401), ("Bearer wrong", 401), ("Bearer ", 401), (TOKEN, 401),
                        (f"Bearer {TOKEN}", 200)],
)  # fmt: skip
@pytest.mark.parametrize("path", [SPEECH, "/audio/speech"])
async def test_speech_needs_the_token_where_other_machines_reach_it(
    autojump_clock: MockClock, path: str, key: str | None, status: int
) -> None:
    app = Engine().app(settings=defaults(host="192.168.1.5", token=TOKEN))
    headers = {**JSON, **({"Authorization": key} if key is not None else {})}
    response = await ask(app, "POST", path, headers, b'{"input": "One."}')
    assert response.status == status
    if status == 401:
        error = told(response)
        assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.headers["x-should-retry"] == "false"


@pytest.mark.parametrize(
    "path", ["/health", "/ready", "/v1/models", "/v1/audio/models", "/v1/audio/voices"]
)
async def test_lists_and_health_are_open_to_other_machines(
    autojump_clock: MockClock, path: str
) -> None:
    app = Engine().app(settings=defaults(host="192.168.1.5", token=TOKEN))
    assert (await get(app, path)).status == 200
    assert (await get(app, path, Host="evil.example")).status == 403


async def test_the_log_has_facts_and_no_text(autojump_clock: MockClock) -> None:
    secret = "Swordfish"
    with capture_logs() as logs:
        response = await post(Engine().app(), {"input": secret, "voice": "bm_fable"})
        await post(Engine().app(), {"input": secret, "speed": 9})
    spoken, refused = logs
    assert spoken["id"] == response.headers["x-request-id"]
    facts = {name: spoken[name] for name in ("voice", "chars", "format", "status", "outcome")}
    assert facts == {
        "voice": "bm_fable", "chars": 9, "format": "mp3", "status": 200, "outcome": "sent"
    }  # fmt: skip
    assert spoken["ms"] >= 0
    assert (refused["status"], refused["code"]) == (400, "invalid_value")
    assert secret not in str(logs)
