"""The HTTP endpoints, on quart-trio. Shell.

Takes ports and never asks who is behind them: a `Speak`, and questions to engine and player. Every
address of the OpenAI API is there without its `/v1` too, for users who leave it out of the URL.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

import msgspec
import structlog
import trio
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from engine import __version__
from engine.config import Settings
from engine.errors import EngineError, InternalError, StreamCancelled, blame
from engine.report import State
from engine.request import Speak, VoiceInfo
from wsproto_api import security
from wsproto_api.messages import PlayerState, Status
from wsproto_api.security import Policy

from . import errors, lists, openapi, state
from .connection import Connection, NoWebSocket, exchange
from .line import Line
from .page.site import add_page
from .speech import Speech

log = structlog.get_logger("http")

Handler = TypeVar("Handler", bound=Callable[..., Awaitable[Response]])

MAX_BODY_BYTES = 1024 * 1024
BODY_TIMEOUT_S = 30

JSON = "application/json"


def create_app(
    speak: Speak,
    voices: Callable[[], Awaitable[Sequence[VoiceInfo]]],
    asks: state.Asks,
    *,
    settings: Settings,
    policy: Policy,
) -> QuartTrio:
    """The application.

    Args:
        speak: who speaks.
        voices: asks the engine for its voices; raises `EngineError`.
        asks: asks engine and player how they are.
        settings: limits.
        policy: who may connect.
    """
    app = QuartTrio(__name__, static_folder=None)
    app.asgi_http_class = Connection
    app.asgi_websocket_class = NoWebSocket
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.config["BODY_TIMEOUT"] = BODY_TIMEOUT_S
    _guard(app, policy)
    _allow_pages(app, settings.origins)
    _tell_errors(app)
    speech = Speech(speak, voices, settings)
    _add_speech(app, speech)
    _add_lists(app, voices)
    _add_document(app, settings.http_text_chars)
    _add_state(app, asks, speech.line)
    add_page(app, settings)
    return app


#: what makes or ends speech, or tells of the machine; the lists and whether it is up are no secret
_NEEDS_KEY = frozenset({
    "/v1/audio/speech", "/audio/speech", "/status", "/metrics", "/session-status", "/session-reset",
})  # fmt: skip


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
        asks = request.method != "OPTIONS"  # a browser's own question, without the page's key
        if refused is None and policy.exposed and asks and request.path in _NEEDS_KEY:
            refused = security.unauthorized(policy, offer)
        return _error(errors.answer(refused.error)) if refused else None

    @app.after_request
    async def name_request(response: Response) -> Response:
        response.headers["x-request-id"] = exchange().id
        return response


#: for how long a browser need not ask again whether a page may
ALLOWED_S = 600


def _allow_pages(app: QuartTrio, origins: Collection[str]) -> None:
    """Lets the pages that the settings name read the answers; strangers were refused before."""

    @app.after_request
    async def allow(response: Response) -> Response:
        origin = request.headers.get("Origin", "")
        if origin not in origins:
            return response
        response.headers["Access-Control-Allow-Origin"] = origin
        response.headers["Vary"] = "Origin"
        if request.method == "OPTIONS":
            wanted = request.headers.get("Access-Control-Request-Headers", "Content-Type")
            response.headers["Access-Control-Allow-Headers"] = wanted
            response.headers["Access-Control-Allow-Methods"] = "GET, POST"
            response.headers["Access-Control-Max-Age"] = str(ALLOWED_S)
        else:
            response.headers["Access-Control-Expose-Headers"] = "*"
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
    return Response(answer.body, answer.status, headers=dict(answer.headers), content_type=JSON)


def _json(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(body), status, headers=dict(headers or {}), content_type=JSON
    )


def _at(app: QuartTrio, method: str, path: str) -> Callable[[Handler], Handler]:
    """Serves at a path of the OpenAI API, with and without its /v1."""

    def serve(handler: Handler) -> Handler:
        for prefix in ("/v1", ""):
            app.add_url_rule(prefix + path, view_func=handler, methods=[method])
        return handler

    return serve


def _add_speech(app: QuartTrio, speech: Speech) -> None:
    @_at(app, "POST", "/audio/speech")
    async def speak() -> Response:
        if not request.is_json:
            return _error(errors.refusal(415))
        return await speech.answer(
            await request.get_data(cache=False, as_text=False, parse_form_data=False)
        )


def _add_lists(app: QuartTrio, voices: Callable[[], Awaitable[Sequence[VoiceInfo]]]) -> None:
    @_at(app, "GET", "/models")
    async def list_models() -> Response:
        return _json(lists.MODELS)

    @_at(app, "GET", "/models/<path:name>")
    async def one_model(name: str) -> Response:
        found = lists.model(name)
        return _json(found) if found else _error(errors.unknown_model(name))

    @_at(app, "GET", "/audio/models")
    async def list_audio_models() -> Response:
        return _json(lists.AUDIO_MODELS)

    @_at(app, "GET", "/audio/voices")
    async def list_voices() -> Response:
        legacy = request.args.get("legacy", "").lower() in {"true", "1"}
        return _json(lists.voices(await voices(), legacy=legacy))


def _add_document(app: QuartTrio, text_chars: int) -> None:
    document = openapi.document(version=__version__, text_chars=text_chars)

    @app.get("/openapi.json")
    async def describe() -> Response:
        return _json(document)


def _add_state(app: QuartTrio, asks: state.Asks, line: Line) -> None:
    began_s = time.monotonic()

    def requests() -> state.Requests:
        return state.Requests(waiting=line.waiting, speaking=line.inside)

    @app.get("/health")
    async def health() -> Response:
        return _json(state.Health(version=__version__))

    @app.get("/ready")
    async def ready() -> Response:
        now: State | Literal["unreachable"] = "unreachable"
        error: EngineError | None
        try:
            now = (await asks.status()).state
            error = state.refused(now)
        except EngineError as unreachable:
            error = unreachable
        if error is None:
            return _json(state.Readiness(state=now))
        answer = errors.answer(error)
        return _json(state.Readiness(state=now, error=answer.detail), 503, answer.headers)

    @app.get("/status")
    async def status() -> Response:
        player: PlayerState | None = None

        async def ask_player() -> None:
            nonlocal player
            with suppress(EngineError):
                player = await asks.player()

        engine: Status | EngineError
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_player)
            try:
                engine = await asks.status()
            except EngineError as error:
                engine = error
        uptime_s = time.monotonic() - began_s
        told = state.overview(
            engine, player, version=__version__, uptime_s=uptime_s, requests=requests()
        )
        return _json(told)

    @app.get("/metrics")
    async def metrics() -> Response:
        engine: str | None = None
        with suppress(EngineError):
            engine = await asks.metrics()
        told = state.exposition(engine, requests())
        return Response(told, content_type=state.METRICS_TYPE)

    @app.get("/session-status")
    async def session_status() -> Response:
        return _json(state.session(await asks.status()))

    @app.post("/session-reset")
    async def session_reset() -> Response:
        line.dismiss(StreamCancelled(state.WAS_RESET, retry_after_ms=state.RESET_MS))
        done = await asks.reset()
        return _json(state.SessionAnswer(cancelled=done.cancelled, result=done.result))
