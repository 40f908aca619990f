"""How things are, as the HTTP endpoints tell it: alive, ready, everything, and the session. Core.

    GET  /health           this process answers; the engine is not asked
    GET  /ready            200 ready, busy; 503 loading, warming, stalled, unreachable
    GET  /status           all that engine, player and this process tell of themselves
    GET  /metrics          the same kind of thing for Prometheus
    GET  /session-status   the few numbers that show whether speech gets on
    POST /session-reset    ends all speech; sets the engine going anew if it stands still

Nothing here holds text that was or will be spoken.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from engine.errors import EngineError, NotReady
from engine.report import SPEAKS, Reset, State
from wsproto_api.messages import PlayerState, SessionReset, Status

from . import errors, metrics
from .errors import Detail

#: what `/metrics` is
METRICS_TYPE = CONTENT_TYPE_LATEST

#: what somebody is told who waits for his turn when everything is reset
WAS_RESET = "All speech was ended by a reset; ask once more."
#: and how soon
RESET_MS = 1000

#: why no request is taken, and after how many milliseconds another try is worth it
_NOT_YET: dict[State, tuple[str, int]] = {
    "loading": ("The engine is loading its model; try again in a few seconds.", 2000),
    "warming": ("The engine is warming up; try again in a few seconds.", 1000),
    "stalled": ("The engine stands still and is set going again; try again soon.", 5000),
}


class Asks(Protocol):
    """What can be asked of engine and player; each raises `EngineError` if nobody answers."""

    async def status(self) -> Status:
        """How the engine is."""
        ...

    async def metrics(self) -> str:
        """Its numbers, in Prometheus' text format."""
        ...

    async def reset(self) -> SessionReset:
        """Ends all streams, and sets it going anew."""
        ...

    async def player(self) -> PlayerState:
        """How the player is."""
        ...


class Health(msgspec.Struct, kw_only=True, frozen=True):
    """This process answers."""

    version: str
    status: Literal["ok"] = "ok"


class Readiness(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Whether speech can be had now; `error` says why not."""

    state: State | Literal["unreachable"]
    error: Detail | None = None


class PlayerSummary(msgspec.Struct, kw_only=True, frozen=True):
    """The player; see `state` in the protocol.

    Attributes:
        underruns: how often sound had to stop since its start, for lack of it.
        stalled: its device stands still.
    """

    state: str
    underruns: int
    stalled: bool
    device: str | None


class Requests(msgspec.Struct, kw_only=True, frozen=True):
    """Requests for speech over HTTP: those in line, and those being answered."""

    waiting: int
    speaking: int


class Overview(msgspec.Struct, kw_only=True, frozen=True):
    """All there is to tell.

    Attributes:
        state: of the engine.
        version: of this process.
        uptime_s: of this process.
        requests: of this process.
        engine: what it tells, as `status` does in the protocol; None if it does not answer …
        error: … and why.
        player: None: it is not up, or does not answer.
    """

    state: State | Literal["unreachable"]
    version: str
    uptime_s: float
    requests: Requests
    engine: Status | None
    error: Detail | None
    player: PlayerSummary | None


class SessionState(msgspec.Struct, kw_only=True, frozen=True):
    """Whether speech gets on; the fields are those of `status` in the protocol."""

    state: State
    streams: int
    queue: int
    quiet_s: float
    stalls: int
    uptime_s: float
    instance: str


class SessionAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """What a reset did; the fields are those of `session_reset` in the protocol."""

    cancelled: int
    result: Reset


def refused(state: State) -> NotReady | None:
    """Why a request is not taken in this state; None if it is."""
    if state in SPEAKS:
        return None
    message, retry_after_ms = _NOT_YET[state]
    return NotReady(message, retry_after_ms=retry_after_ms)


def overview(
    engine: Status | EngineError,
    player: PlayerState | None,
    *,
    version: str,
    uptime_s: float,
    requests: Requests,
) -> Overview:
    """All there is to tell."""
    summary = player and PlayerSummary(
        state=player.state,
        underruns=player.underruns,
        stalled=player.stalled,
        device=player.device,
    )
    answer, error = (
        (engine, None) if isinstance(engine, Status) else (None, errors.answer(engine).detail)
    )
    return Overview(
        state=answer.state if answer else "unreachable",
        version=version,
        uptime_s=round(uptime_s, 3),
        requests=requests,
        engine=answer,
        error=error,
        player=summary or None,
    )


def session(engine: Status) -> SessionState:
    """Whether speech gets on."""
    names = SessionState.__struct_fields__
    return SessionState(**{name: getattr(engine, name) for name in names})


def exposition(engine: str | None, requests: Requests) -> str:
    """Numbers of this process and then the engine's, in Prometheus' text format.

    Args:
        engine: its own exposition; None if it does not answer.
        requests: of this process.
    """
    registry = CollectorRegistry()  # of what is looked at, not counted
    for name, about, value in (
        ("kokoro_live_engine_up", "Whether the engine answers", engine is not None),
        ("kokoro_live_http_waiting", "Requests for speech in line", requests.waiting),
        ("kokoro_live_http_speaking", "Requests for speech being answered", requests.speaking),
    ):
        Gauge(name, about, registry=registry).set(value)
    own = generate_latest(registry) + generate_latest(metrics.REGISTRY)
    return own.decode() + (engine or "")
