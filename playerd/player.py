"""Plays items: feeds them from a `Speak`, writes them to a sink, one after the other. Shell.

Three kinds of tasks: one per item that pulls its stream into its `Playout` (`_feed`), one that
moves samples from the first item to the sink (`_play`, the only one that commands the sink), and
one that waits for the samples to leave the device (`_leave`). What clients may do only changes
`Items`, and wakes or interrupts the second. Knows no sockets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, assert_never

import structlog
import trio
from msgspec.structs import replace

from engine.audio import ms_to_samples, samples_to_ms
from engine.errors import (
    EngineError,
    InternalError,
    InvalidRequest,
    NotReady,
    StreamCancelled,
    blame,
)
from engine.live import TextFeed
from engine.request import (
    Done,
    Frame,
    LiveRequest,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeakLive,
    SpeechRequest,
    Stream,
)
from wsproto_api.messages import ItemDone, PlayerState

from .delay import Slack
from .device import Device
from .forecast import Supply
from .items import MAX_HELD_SAMPLES, Item, Items, Mode, Outcome, Stage
from .playout import Phase, Playout
from .pouring import pour
from .sinks.base import DeviceUnavailable, Sink

log = structlog.get_logger("player")

#: what is moved from an item to the sink at a time
PIECE_SAMPLES = ms_to_samples(100)
#: how long the engine may take to accept a text
ANSWER_LIMIT_S = 10.0
#: how often to ask again whether there is enough to begin with, when nothing new comes
LOOK_S = 0.02


class Asker(Protocol):
    """Who asked for an item. Told exactly one of `accepted` and `refused`, and first."""

    def accepted(self, item: int | None, /) -> None:
        """It will be played, under this number; None if `toggle` stopped what was there."""

    def refused(self, error: EngineError, /) -> None:
        """It will not be played."""

    def failed(self, item: int, error: EngineError, /) -> None:
        """It was accepted, and its stream broke off; what there is of it is played."""

    def warned(self, code: str, message: str, /) -> None:
        """Something to know about it."""


@dataclass(slots=True)
class _Job:
    """What the player keeps for an item: who asked for it, and how to stop its feeding."""

    asker: Asker
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    answered: bool = False


class Player:
    """Plays what it is asked to, in order. `run` it, then call `speak` and `stop` at will.

    Args:
        speak: who speaks.
        sink: where to; the player opens and closes it.
        on_state: told the state whenever it changes.
        on_done: told of every accepted item when it is over.
    """

    def __init__(
        self,
        speak: SpeakLive,
        sink: Sink,
        *,
        on_state: Callable[[PlayerState], None],
        on_done: Callable[[ItemDone], None],
    ) -> None:
        self._speak = speak
        self._sink = sink
        self._device = Device(sink, self._tell_state)
        self._on_state = on_state
        self._on_done = on_done
        self._items = Items()
        self._supply = Supply()
        self._jobs: dict[Item, _Job] = {}
        self._ending: list[tuple[Item, Outcome]] = []  # to be told when there is silence
        self._leaving, self._left = trio.open_memory_channel[tuple[Item, int]](math.inf)
        self._room = trio.lowlevel.ParkingLot()
        self._playing = trio.CancelScope()  # around what `_play` does for the current items
        self._nap = trio.CancelScope()  # around its waiting for something to change
        self._underruns = 0
        self._rev = 0
        self._told: PlayerState | None = None
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Plays until cancelled; started when it knows whether there is a sound device."""
        try:
            async with trio.open_nursery() as self._nursery:
                await self._device.look()
                self._nursery.start_soon(self._play)
                self._nursery.start_soon(self._leave)
                task_status.started()
        finally:
            await self._device.aclose()

    # --- what clients may do ------------------------------------------------------------------

    def speak(
        self,
        request: SpeechRequest | LiveRequest,
        mode: Mode,
        asker: Asker,
        text: TextFeed | None = None,
    ) -> None:
        """Plays a text; see `Items` for when. Returns at once, the asker is told the rest.

        Args:
            request: what is to be spoken, and how.
            mode: what becomes of the items that are there.
            asker: who is told.
            text: where a text that comes in pieces comes from.
        """
        try:
            if isinstance(request, SpeechRequest) and not request.text.strip():
                raise InvalidRequest("There is no text to speak.", param="text")
            added = self._items.add(request, mode, text)
        except EngineError as error:
            asker.refused(error)
            return
        self._end(added.stopped, "stopped")
        if added.item is None:
            asker.accepted(None)
        else:
            job = self._jobs[added.item] = _Job(asker)
            self._open_next()
            if added.item.stage is Stage.WAITING:
                self._accepted(added.item, job)
        self._changed()

    def append(self, item: int, text: str) -> None:
        """More text of an item.

        Raises:
            EngineError: it was not taken.
        """
        self._items.text_of(item).append(text)

    def end(self, item: int) -> None:
        """No more text of an item; nothing happens if it has ended.

        Raises:
            UnknownStream: there is no such item.
        """
        self._items.text_of(item).end()

    def stop(self) -> None:
        """Silence, and nothing waits any more. Succeeds when nothing plays."""
        self._end(self._items.clear(), "stopped")
        self._changed()

    def state(self, reply_to: str | None = None) -> PlayerState:
        """What the player is doing."""
        item = self._items.current
        return PlayerState(
            reply_to=reply_to,
            rev=self._rev,
            state=self._doing(item),
            item=item.number if item else None,
            queue_len=self._items.waiting,
            device=self._sink.device,
            underruns=self._underruns,
            buffered_ms=samples_to_ms(item.playout.buffered_samples) if item else 0.0,
        )

    # --- what follows from it -----------------------------------------------------------------

    def _open_next(self) -> None:
        """Asks the engine for the item whose turn it is."""
        item = self._items.next_to_open()
        if item is not None:
            item.stage = Stage.OPENING
            self._nursery.start_soon(self._feed, item, self._jobs[item])

    def _accepted(self, item: Item, job: _Job) -> None:
        job.answered = True
        job.asker.accepted(item.number)
        if not self._device.present:
            job.asker.warned("no_device", "No sound device; speech waits until there is one.")

    def _end(self, items: tuple[Item, ...], outcome: Outcome) -> None:
        """Ends items that are out of `Items` already; tells so when they are silent."""
        for item in items:
            job = self._jobs.pop(item)
            job.scope.cancel()
            if job.answered:
                self._ending.append((item, outcome))
            else:
                job.asker.refused(StreamCancelled(f"The speech was {outcome} before it began."))
        if self._ending:
            self._playing.cancel()

    def _finish(self, item: Item, outcome: Outcome) -> None:
        """Ends an item that came to its own end."""
        self._items.remove(item)
        del self._jobs[item]
        self._tell_done(item, outcome, item.playout.position)

    def _tell_done(self, item: Item, outcome: Outcome, samples: int) -> None:
        self._on_done(
            ItemDone(
                item=item.number,
                key=item.request.key,
                outcome=outcome,
                played_ms=samples_to_ms(samples),
            )
        )

    def _changed(self) -> None:
        """Something changed: look who is next, wake `_play`, tell the state."""
        self._open_next()
        self._nap.cancel()
        self._tell_state()

    def _tell_state(self) -> None:
        """Tells the state if it is another one; `buffered_ms` alone makes it no other."""
        now = replace(self.state(), buffered_ms=0.0)
        if now != self._told:
            self._rev += 1
            self._told = replace(now, rev=self._rev)
            self._on_state(self.state())

    def _doing(self, item: Item | None) -> Literal["idle", "buffering", "playing", "recovering"]:
        if item is None:
            return "idle"
        if not self._device.present or not item.stage.accepted:
            return "buffering"
        match item.playout.phase:
            case Phase.PREFILL:
                return "buffering"
            case Phase.STARVED:
                return "recovering"
            case Phase.PLAYING | Phase.DRAINING | Phase.DONE:
                return "playing"
            case _ as never:
                assert_never(never)

    # --- feeding ------------------------------------------------------------------------------

    async def _feed(self, item: Item, job: _Job) -> None:
        """Pulls the item's stream into its playout, and sees to how it ends."""
        failure: EngineError | None = None
        item.playout = self._playout(item.request)
        with job.scope:
            job.scope.deadline = trio.current_time() + ANSWER_LIMIT_S
            try:
                await self._read(item, job)
            except EngineError as error:
                failure = error
            except Exception as error:
                log.error("feeding crashed", item=item.number, error=blame(error))
                failure = InternalError("The player failed; its log says how.")
        if item not in self._items:
            return  # stopped or replaced, and told so
        if job.scope.cancelled_caught:
            failure = NotReady(
                f"The engine did not answer within {ANSWER_LIMIT_S:.0f} s.", retry_after_ms=1000
            )
        item.playout.end()
        self._items.fed(item)
        if failure is not None:
            log.warning("speech failed", item=item.number, code=failure.code)
            item.failed = True
            if job.answered:
                job.asker.failed(item.number, failure)
            else:
                self._items.remove(item)
                del self._jobs[item]
                job.asker.refused(failure)
        self._changed()

    def _playout(self, request: SpeechRequest | LiveRequest) -> Playout:
        text = request.text if isinstance(request, SpeechRequest) else None
        return Playout(
            Slack(),
            self._supply,
            text or "",
            complete=text is not None,
            now_s=trio.current_time(),
        )

    async def _read(self, item: Item, job: _Job) -> None:
        async with self._speak(item.request) as events:
            pouring = trio.CancelScope()
            if item.text is not None:
                self._nursery.start_soon(pour, item.text, item.playout, events, pouring)
            try:
                await self._take(item, job, events)
            finally:
                pouring.cancel()

    async def _take(self, item: Item, job: _Job, events: Stream) -> None:
        async for event in events:
            match event:
                case Opened():
                    job.scope.deadline = math.inf
                    self._opened(item, job)
                case SegmentStart():
                    item.playout.begin(event)
                case Frame():
                    item.playout.put(event, trio.current_time())
                case SegmentDone():
                    item.playout.segment_done(event, trio.current_time())
                case Done():
                    item.playout.end(event.samples)
                case Notice():
                    job.asker.warned(event.code, event.message)
                case _:
                    continue
            self._nap.cancel()
            while item.playout.held_samples >= MAX_HELD_SAMPLES:
                await self._room.park()

    def _opened(self, item: Item, job: _Job) -> None:
        replaced = self._items.accept(item)
        if not job.answered:
            self._accepted(item, job)
        self._end(replaced, "replaced")
        self._changed()

    # --- playing ------------------------------------------------------------------------------

    async def _play(self) -> None:
        while True:
            with trio.CancelScope() as self._playing:
                while True:
                    await self._step()
            # Only `_end` cancels it. While there is being silenced, more may end.
            while self._ending:
                ended, self._ending = self._ending, []
                heard_samples = await self._device.silence()
                for item, outcome in ended:
                    self._tell_done(item, outcome, item.heard_samples(heard_samples))

    async def _step(self) -> None:
        """Does the next thing that is to be done; waits if there is none."""
        # What is written after an interruption would be silenced with what it was to silence.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            if self._device.present:
                await self._move()
            else:
                await self._device.look()
        except DeviceUnavailable as error:
            await self._device.lose(error)

    async def _move(self) -> None:
        """Moves a piece from the first item to the sink, or waits for one."""
        item = self._items.to_write
        pcm = item.playout.pull(PIECE_SAMPLES, trio.current_time()) if item else b""
        self._tell_state()
        if item is None:
            await self._rest()
        elif pcm:
            if item.first_sample is None:
                item.first_sample = self._sink.written_samples
            self._room.unpark_all()
            self._open_next()
            await self._sink.write(pcm)
        elif item.playout.phase is Phase.DONE:
            self._items.written(item)
            self._leaving.send_nowait((item, self._sink.written_samples))
        elif item.playout.phase is not Phase.PLAYING:
            await self._rest(LOOK_S if item.playout.waits else math.inf)
        elif await self._ran_dry():
            item.playout.ran_dry(trio.current_time())
            self._underruns += 1
            log.info("ran dry", item=item.number)

    async def _rest(self, most_s: float = math.inf) -> None:
        """Waits until something changes; the device may rest when it has played all it has."""
        with trio.CancelScope(deadline=trio.current_time() + most_s) as self._nap:
            await self._sink.drain()
            await trio.sleep_forever()

    async def _ran_dry(self) -> bool:
        """Waits until something changes; True if the device ran out of samples before that."""
        with trio.CancelScope() as self._nap:
            await self._sink.dry()
            return True
        return False

    async def _leave(self) -> None:
        """Waits for the last samples of items to leave the device, in order."""
        async for item, end in self._left:
            outcome: Outcome = "failed" if item.failed else "finished"
            try:
                await self._sink.played(end)
            except DeviceUnavailable:
                outcome = "failed"
            if item in self._items:
                self._finish(item, outcome)
                self._changed()
