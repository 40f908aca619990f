"""Keeps an engine: loads it, tells how it is, and sets it going again when it stands still. Shell.

    loading ──▶ warming ──▶ ready ◀──▶ busy
                   ▲                    │ nothing done for `stall_s`
                   │ a reset            ▼
                   └──────────────── stalled ──▶ goes on by itself, or by the lane's restart: busy
                                        │ nothing done for `GRACE_S` more
                                        ▼
                                     `Hangs`: only a new process helps

A call into the model runs in a thread, and no thread can be ended from outside. The lane's restart
sets the call's terminate flag, which ONNX Runtime looks at between two operators; the stream whose
call that is fails, all others go on. What does not end by that, or hangs in G2P, which has no such
flag, takes the process with it: whoever runs the keeper says goodbye and lets a supervisor start
another.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from typing import Protocol, get_args

import structlog
import trio

from engine import __version__, metrics
from engine.config import Settings
from engine.errors import NotReady, SetupError
from engine.report import CacheUse, Costs, Memory, Report, Reset, SelfBench, State
from engine.request import LiveRequest, ModelInfo, SpeechRequest, Stream, VoiceInfo
from engine.stall import LOOK_S, StallWatch, Work, quietest
from engine.tally import Tally

log = structlog.get_logger("engine")

#: how long what stood still may take to end when it is stopped; 20 ms is usual
GRACE_S = 10.0
#: the same at a reset, for which somebody waits
RESET_S = 5.0
#: how often that is looked at
_POLL_S = 0.05
#: A call that has done nothing for so long when a reset comes is worth a model that is loaded anew.
#: One that is in order takes 2 s on slow machines.
STUCK_S = 10.0

_LOADING = "The engine is loading its model; try again in a few seconds."
_STALLED = "The engine stands still and is set going again; try again in a few seconds."

_LIBRARIES = ("kokoro-onnx", "misaki", "numpy", "onnxruntime", "spacy")


class Hangs(Exception):
    """A call does not end; only a new process helps."""


class Upkeep(Protocol):
    """What is done beside speaking: `engine.upkeep.Upkeep`, or what a test has in its place."""

    @property
    def costs(self) -> Costs | None:
        """Of the model's work."""
        ...

    @property
    def memory(self) -> Memory | None:
        """What is done about it."""
        ...

    @property
    def selfbench(self) -> SelfBench | None:
        """What the scheduled benchmark has found."""
        ...

    async def run(self) -> None:
        """Does it, until cancelled."""
        ...


class Service(Protocol):
    """What is kept: `engine.service.KokoroService`, or what a test has in its place."""

    model: ModelInfo
    voices: tuple[VoiceInfo, ...]
    voices_hash: str
    tally: Tally
    active: int

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """What is not as it should be by now, a sentence each."""
        ...

    @property
    def provider_why(self) -> str:
        """Why the model runs where it does by now."""
        ...

    @property
    def upkeep(self) -> Upkeep:
        """What is to be done beside speaking."""
        ...

    @property
    def works(self) -> tuple[Work, ...]:
        """What there is to do; that of the lane first."""
        ...

    def __call__(
        self, request: SpeechRequest | LiveRequest, /
    ) -> AbstractAsyncContextManager[Stream]:
        """See `SpeakLive`."""
        ...

    def restart(self) -> None:
        """Stops the call that runs, and sets the lane going."""
        ...

    async def reload(self) -> None:
        """Loads the model anew, for streams that begin from now on."""
        ...


class Keeper:
    """An engine; `run` it. Implements `SpeakLive` and `engine.report.Manage`.

    Args:
        settings: all of them.
        load: loads what is kept; given what to call when it is warmed up.

    Attributes:
        loaded: set when it speaks; before that it refuses, and has neither voices nor model.
    """

    def __init__(
        self, settings: Settings, load: Callable[[Callable[[], None]], Awaitable[Service]]
    ) -> None:
        self.loaded = trio.Event()
        self._limit_s = settings.stall_s
        self._load = load
        self._service: Service | None = None
        self._starting: State | None = "loading"
        self._stalled = False
        self._stalls = 0
        self._quiet_s = 0.0
        self._resetting = trio.Lock()
        self._renewal = Work("reload")
        self._renew = trio.Event()
        self._given_up = False
        for state in get_args(State):
            metrics.STATE.labels(state).set_function(partial(self._is, state))

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Loads the engine, and keeps it going until cancelled.

        Raises:
            SetupError: it cannot be loaded.
            Hangs: it does not go on any more; in a group.
        """
        self._service = await self._load(self._warming)
        self._starting = None
        self.loaded.set()
        task_status.started()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reload, self._service)
            nursery.start_soon(self._service.upkeep.run)
            await self._watch(self._service)

    def _warming(self) -> None:
        self._starting = "warming"

    # --- what servers ask for -------------------------------------------------------------------

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `engine.request.SpeakLive`.

        Raises:
            NotReady: it is loading, stands still or is being reset.
        """
        if self._stalled or self._resetting.locked():
            raise NotReady(_STALLED, retry_after_ms=2000)
        if self._starting is not None:
            raise NotReady(_LOADING, retry_after_ms=1000)
        async with self._kept(request) as stream:
            yield stream

    @property
    def voices(self) -> tuple[VoiceInfo, ...]:
        """See `engine.request.Describe`."""
        return self._kept.voices

    @property
    def voices_hash(self) -> str:
        """See `engine.request.Describe`."""
        return self._kept.voices_hash

    @property
    def model(self) -> ModelInfo:
        """See `engine.request.Describe`."""
        return self._kept.model

    @property
    def _kept(self) -> Service:
        if self._service is None:
            raise NotReady(_LOADING, retry_after_ms=1000)
        return self._service

    @property
    def state(self) -> State:
        """How it is."""
        if self._stalled:
            return "stalled"
        if self._starting is not None:
            return self._starting
        return "busy" if self._kept.active else "ready"

    def _is(self, state: State) -> bool:
        return self.state == state

    def report(self) -> Report:
        """What it tells of itself. At any time."""
        service, tally = self._service, self._service.tally if self._service else Tally()
        return Report(
            state=self.state,
            versions=_versions(),
            fallbacks=service.fallbacks if service else (),
            queue=max(0, service.works[0].waiting - 1) if service else 0,
            quiet_s=round(self._quiet_s, 1),
            stalls=self._stalls,
            cache=CacheUse(hits=_cached("hit"), misses=_cached("miss")),
            first_byte=tally.first_byte.latencies,
            first_audible=tally.first_audible.latencies,
            model=service.model if service else None,
            provider_why=service.provider_why if service else None,
            rtf=tally.rtf,
            rss_bytes=metrics.rss_bytes(),
            costs=service.upkeep.costs if service else None,
            memory=service.upkeep.memory if service else None,
            selfbench=service.upkeep.selfbench if service else None,
        )

    async def reset(self) -> Reset:
        """Sets it going anew; the caller has cancelled all streams.

        Takes `RESET_S` at most. With "restarting", `run` raises `Hangs` within a second.

        Raises:
            NotReady: it is loading; there is nothing to reset.
        """
        service = self._kept
        async with self._resetting:
            result: Reset = "cancelled"
            stuck = self._stalled or self._quiet_s >= STUCK_S
            service.restart()
            if self._starting is not None:
                result = "reloading"  # since the reset before
            elif not await _gets_on(service.works):
                result, self._given_up = "restarting", True
            elif stuck:
                result, self._starting = "reloading", "warming"
                self._renew.set()
        log.warning("the engine was reset", result=result)
        metrics.RESETS.labels(result).inc()
        return result

    # --- what goes on by itself -----------------------------------------------------------------

    async def _reload(self, service: Service) -> None:
        while True:
            await self._renew.wait()
            self._renew = trio.Event()
            try:
                with self._renewal.asked():
                    await service.reload()
                log.info("the model was loaded anew")
            except SetupError as error:  # the one that is there has ended its call, and may do
                log.error("the model cannot be loaded anew", reason=error.message)
            finally:
                self._starting = None

    async def _watch(self, service: Service) -> None:
        watches = [StallWatch(work) for work in (*service.works, self._renewal)]
        while not self._given_up:
            for watch in watches:
                watch.look(trio.current_time())
            worst = quietest(watches)
            self._quiet_s = worst.quiet_s
            facts = {"work": worst.work.name, "seconds": round(worst.quiet_s)}
            if worst.quiet_s < self._limit_s:
                if self._stalled:
                    log.warning("the engine gets on again")
                self._stalled = False
            elif not self._stalled:
                log.error("the engine stands still; it is set going again", **facts)
                self._stalled = True
                self._stalls += 1
                metrics.STALLS.labels(worst.work.name).inc()
                service.restart()
            elif worst.quiet_s >= self._limit_s + GRACE_S:
                log.error("the engine still stands still", **facts)
                break
            await trio.sleep(LOOK_S)
        raise Hangs


async def _gets_on(works: tuple[Work, ...]) -> bool:
    """Whether all of what is asked for by now gets on within `RESET_S`."""
    before = [(work, work.done) for work in works]
    with trio.move_on_after(RESET_S):
        # A thread that hangs tells nobody.
        while any(work.waiting and work.done == done for work, done in before):  # noqa: ASYNC110
            await trio.sleep(_POLL_S)
        return True
    return False


def _cached(result: str) -> int:
    found = metrics.REGISTRY.get_sample_value(
        "kokoro_live_cache_segments_total", {"result": result}
    )
    return int(found or 0)


@cache
def _versions() -> dict[str, str]:
    """Of what speech depends on."""
    own = {"kokoro-live": __version__, "python": platform.python_version()}
    return own | {name: importlib.metadata.version(name) for name in _LIBRARIES}
