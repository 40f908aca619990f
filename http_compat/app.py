"""The HTTP endpoints, on quart-trio. Shell.

Takes ports and never asks who is behind them: a `Speak`, and two questions to the engine. The
audio of a response is encoded and sent while the engine is still working on the rest, and the
client's pace is the engine's pace: nothing is collected here. Headers go out only when there is
audio, so that what goes wrong before has a status of its own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
import structlog
import trio
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from engine.audio import ms_to_samples, silence
from engine.config import Settings
from engine.errors import EngineError, InternalError, NotReady, blame
from engine.request import Event, Frame, Speak, VoiceInfo
from wsproto_api import security
from wsproto_api.messages import Status
from wsproto_api.security import Policy

from . import errors, schema
from .connection import Connection, NoWebSocket, exchange
from .containers import encoder_for

log = structlog.get_logger("http")

T = TypeVar("T")

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_S = 30

#: how long the engine may take to answer a question; it needs a few milliseconds
ANSWER_TIMEOUT_S = 2.0

#: what is played for a text with nothing to speak in it: clients take an empty body for a failure
NOTHING_MS = 100

#: Every model name is accepted; these are shown to clients that want to choose one.
MODELS = ("kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
MODEL_CREATED_S = 1_735_689_600  # 2025-01-01, around when Kokoro-82M was published
OWNER = "kokoro-live"


def create_app(
    speak: Speak,
    voices: Callable[[], Awaitable[Sequence[VoiceInfo]]],
    status: Callable[[], Awaitable[Status]],
    *,
    settings: Settings,
    policy: Policy,
) -> QuartTrio:
    """The application.

    Args:
        speak: who speaks.
        voices: asks the engine for its voices; raises `EngineError`.
        status: asks the engine how it is; raises `EngineError`.
        settings: limits.
        policy: who may connect.
    """
    app = QuartTrio(__name__, static_folder=None)
    app.asgi_http_class = Connection
    app.asgi_websocket_class = NoWebSocket
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["BODY_TIMEOUT"] = BODY_TIMEOUT_S
    _guard(app, policy)
    _tell_errors(app)
    _add_speech(app, speak, settings.http_text_chars)
    _add_lists(app, voices)
    _add_health(app, status)
    return app


#: what makes speech; the lists and the health are no secret
_SPEECH = frozenset({"/v1/audio/speech", "/audio/speech"})


def _guard(app: QuartTrio, policy: Policy) -> None:
    @app.before_request
    async def admit() -> Response | None:
        offer = security.Offer(
            hosts=request.headers.getlist("Host"),
            origins=request.headers.getlist("Origin"),
            authorizations=request.headers.getlist("Authorization"),
        )
        refused = security.foreigner(policy, offer)
        # On loopback any key does, also none: clients of OpenAI send what their user made up.
        if refused is None and policy.exposed and request.path in _SPEECH:
            refused = security.unauthorized(policy, offer)
        return _error(errors.answer(refused.error)) if refused else None

    @app.after_request
    async def name_request(response: Response) -> Response:
        response.headers["x-request-id"] = exchange().id
        return response


def _tell_errors(app: QuartTrio) -> None:
    @app.errorhandler(EngineError)
    async def told(error: EngineError) -> Response:
        return _error(errors.answer(error))

    @app.errorhandler(HTTPException)
    async def refused(error: HTTPException) -> Response:
        response = _error(errors.refusal(error.code or 500))
        if isinstance(error, MethodNotAllowed) and error.valid_methods:
            response.headers["Allow"] = ", ".join(sorted(error.valid_methods))
        return response

    @app.errorhandler(Exception)
    async def crashed(error: Exception) -> Response:
        log.error("request crashed", id=exchange().id, error=blame(error))
        return _error(errors.answer(InternalError("The server failed; its log says how.")))


def _error(answer: errors.Answer) -> Response:
    exchange().facts |= {"code": answer.detail.code, "error": answer.detail.message}
    return _json(errors.ErrorBody(answer.detail), answer.status, answer.headers)


def _json(body: object, status: int = 200, headers: Any = None) -> Response:
    return Response(
        msgspec.json.encode(body), status, headers=headers, content_type="application/json"
    )


def _add_speech(app: QuartTrio, speak: Speak, text_chars: int) -> None:
    @app.post("/v1/audio/speech")
    @app.post("/audio/speech")
    async def speech() -> Response:
        if not request.is_json:
            return _error(errors.refusal(415))
        sent = await request.get_data(cache=False, as_text=False, parse_form_data=False)
        order = schema.parse(sent, text_chars=text_chars)
        current = exchange()
        current.facts |= {
            "voice": order.speech.voice,
            "chars": len(order.speech.text),
            "format": str(order.format),
        }
        encoder = encoder_for(order.format)
        events = await current.resources.enter_async_context(speak(order.speech))
        sound = await current.resources.enter_async_context(aclosing(_sound(events)))
        first = await anext(sound, silence(ms_to_samples(NOTHING_MS)))

        async def body() -> AsyncIterator[bytes]:
            # One write for the header and the first frame: there are clients that parse the
            # header from the first piece they get, and others that want sound at once.
            yield encoder.start() + encoder.encode(first)
            async for pcm in sound:
                yield encoder.encode(pcm)
            # The engine is let go before the client is told that this is all.
            await current.resources.aclose()
            yield encoder.finish()

        response = Response(body(), content_type=encoder.content_type)
        if order.ignored:
            response.headers["x-kokoro-live-ignored"] = schema.ignored_header(order.ignored)
        return response


async def _sound(events: AsyncIterator[Event]) -> AsyncGenerator[bytes, None]:
    """The PCM of a stream, without the empty frames."""
    async for event in events:
        if isinstance(event, Frame) and event.pcm:
            yield event.pcm


def _add_lists(app: QuartTrio, voices: Callable[[], Awaitable[Sequence[VoiceInfo]]]) -> None:
    models = [
        {"id": name, "object": "model", "created": MODEL_CREATED_S, "owned_by": OWNER}
        for name in MODELS
    ]

    @app.get("/v1/models")
    async def list_models() -> Response:
        return _json({"object": "list", "data": models})

    @app.get("/v1/models/<path:name>")
    async def one_model(name: str) -> Response:
        found = next((model for model in models if model["id"] == name), None)
        return _json(found) if found else _error(errors.unknown_model(name))

    @app.get("/v1/audio/models")
    async def list_audio_models() -> Response:
        return _json({"models": [{"id": name} for name in MODELS]})

    @app.get("/v1/audio/voices")
    async def list_voices() -> Response:
        known = await _answered(voices)
        return _json({"voices": known})


def _add_health(app: QuartTrio, status: Callable[[], Awaitable[Status]]) -> None:
    @app.get("/health")
    async def health() -> Response:
        try:
            engine = await _answered(status)
        except EngineError as error:
            answer = errors.answer(error)
            body = {"status": "unavailable", "error": answer.detail}
            return _json(body, 503, answer.headers)
        details = {
            "model": engine.model,
            "streams": engine.streams,
            "connections": engine.connections,
            "uptime_s": engine.uptime_s,
        }
        return _json({"status": "ok", "engine": details})


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    with trio.move_on_after(ANSWER_TIMEOUT_S):
        return await ask()
    raise NotReady(f"The engine did not answer within {ANSWER_TIMEOUT_S:g} s.")
