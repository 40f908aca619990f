"""Plays items: feeds them from a `SpeakLive`, writes them to a sink, one after the other. Shell.

Tasks: one per item pulls its stream into its `Playout` (`feeding`), the `mover` takes it from there
to the sink, and `narration` tells what is heard. What clients may do changes `Items`, and wakes or
silences the mover. Knows no sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
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
    MAX_SPEED,
    MIN_SPEED,
    Delivery,
    LiveRequest,
    Opened,
    SpeakLive,
    SpeechRequest,
)
from wsproto_api.messages import ItemDone, PlayerState, QueuedItem

from .delay import DelayPolicy, Slack
from .device import Device
from .feeding import ANSWER_LIMIT_S, Feeding
from .forecast import Supply
from .items import MAX_HELD_SAMPLES, Item, Items, Mode, Outcome, Stage
from .mover import Mover
from .narration import Narration, Told
from .playout import Phase, Playout
from .sinks.base import Sink

log = structlog.get_logger("player")

#: An engine that takes longer than this for a second of sound cannot keep up for long.
SLOW_RTF = 0.95


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
    told_slow: bool = False
    resumes: bool = True  # nobody has paused since it was asked for


class Player:
    """Plays what it is asked to, in order. `run` it, then call the rest at will.

    Args:
        speak: who speaks.
        sink: where to; the player opens and closes it.
        on_state: told the state whenever it changes.
        on_done: told of every accepted item when it is over.
        on_told: told what is heard: beginnings of items, positions, words.
        policy: how much is held back.
    """

    def __init__(
        self,
        speak: SpeakLive,
        sink: Sink,
        *,
        on_state: Callable[[PlayerState], None],
        on_done: Callable[[ItemDone], None],
        on_told: Callable[[Told], None] = lambda told: None,
        policy: DelayPolicy | None = None,
    ) -> None:
        self._speak = speak
        self._policy = policy or Slack()
        self._sink = sink
        self._device = Device(sink, self._tell_state, self.pause)
        self._on_state = on_state
        self._on_done = on_done
        self._items = Items()
        self._narration = Narration(self._items, sink, on_told)
        self._mover = Mover(
            self._items,
            self._device,
            on_change=self._changed,
            on_over=self._over,
            on_move=self._narration.moved,
        )
        self._supply = Supply()
        self._jobs: dict[Item, _Job] = {}
        self._last: Item | None = None  # that was heard and is over
        self._voice: str | None = None
        self._speed: float | None = None
        self._rev = 0
        self._told: PlayerState | None = None
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Plays until cancelled; started when it knows whether there is a sound device."""
        try:
            async with trio.open_nursery() as self._nursery:
                await self._device.look()
                self._nursery.start_soon(self._mover.run)
                self._nursery.start_soon(self._narration.run)
                task_status.started()
        finally:
            await self._device.aclose()

    # --- what clients may do: speak -----------------------------------------------------------

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

    def repeat(self, asker: Asker) -> None:
        """Speaks once more what is spoken, or was last; refused if that is nothing."""
        item = self._items.current or self._last
        text = item.said if item is not None else ""
        if item is None or not text.strip():
            asker.refused(InvalidRequest("Nothing was spoken that could be repeated."))
            return
        fields = {name: getattr(item.request, name) for name in Delivery.__struct_fields__}
        if item.text is None:
            self.speak(SpeechRequest(text=text, **fields), "replace", asker)
        else:  # which may be longer than what the engine takes at once
            self.speak(LiveRequest(**fields), "replace", asker, TextFeed.of(text))

    # --- what clients may do: control ---------------------------------------------------------

    def stop(self, item: int | None = None) -> None:
        """Silence, and nothing waits any more; or only an item is over. Succeeds in any case."""
        if item is None:
            ended = self._items.clear()
        else:
            found = self._items.find(item)
            ended = (found,) if found is not None else ()
            self._items.remove(*ended)
        self._end(ended, "stopped")
        self._changed()

    def pause(self) -> None:
        """Silence; what was not heard is kept, and goes on with `resume`."""
        for job in self._jobs.values():
            job.resumes = False
        if not self._mover.paused and self._items.current is not None:
            self._mover.pause()
            self._changed()

    def resume(self) -> None:
        """Goes on after a `pause`."""
        if self._mover.paused:
            self._mover.paused = False
            self._changed()

    def toggle(self) -> None:
        """`pause`, or `resume`."""
        if self._mover.paused:
            self.resume()
        else:
            self.pause()

    def skip_sentences(self, sentences: int) -> None:
        """Goes on with another sentence of the item that plays; see `Playout.skip`."""
        self._move(lambda playout: playout.skip(sentences, trio.current_time()))

    def skip_items(self, items: int) -> None:
        """Goes on so many items later."""
        skipped = tuple(self._items)[:items]
        self._items.remove(*skipped)
        self._end(skipped, "stopped")
        self._changed()

    def seek(
        self,
        *,
        sample: int | None = None,
        fraction: float | None = None,
        by_ms: float | None = None,
    ) -> None:
        """Goes on elsewhere in the item that plays, as far as that is here or was just heard.

        Args:
            sample: of the item; or
            fraction: of all of it, as far as its length is known; or
            by_ms: from where it is.

        Raises:
            InvalidRequest: not one of the three.
        """
        if [sample, fraction, by_ms].count(None) != 2:
            raise InvalidRequest("Name one of sample, fraction and by_ms.", param="sample")

        def move(playout: Playout) -> None:
            if sample is not None:
                to = sample
            elif fraction is not None:
                to = round(fraction * (playout.length or playout.here))
            else:
                to = playout.position + round(ms_to_samples(by_ms or 0.0))
            playout.seek(max(to, 0), trio.current_time())

        self._move(move)

    @property
    def volume(self) -> float:
        """How loud, 0-1."""
        return self._sink.volume

    @volume.setter
    def volume(self, volume: float) -> None:
        self._sink.volume = volume
        self._tell_state()

    def queue(self) -> tuple[QueuedItem, ...]:
        """The items that are not over, in playing order; nobody's `own`."""
        current = self._items.current
        return tuple(
            QueuedItem(
                item=item.number,
                key=item.request.key,
                chars=item.text.chars if item.text is not None else len(item.said),
                waits=item is not current,
                own=False,
            )
            for item in self._items
        )

    def clear_queue(self) -> None:
        """Ends what waits, and not what plays."""
        waiting = tuple(self._items)[1:]
        self._items.remove(*waiting)
        self._end(waiting, "stopped")
        self._changed()

    async def configure(
        self, *, voice: str | None = None, speed: float | None = None, device: str | None = None
    ) -> None:
        """How it is spoken from now on, and where it is heard; what is None stays.

        Raises:
            EngineError: there is no such voice, speed or device, or the engine cannot be asked;
                nothing was changed.
        """
        if speed is not None and not MIN_SPEED <= speed <= MAX_SPEED:
            raise InvalidRequest(
                f"The speed must be from {MIN_SPEED:g} to {MAX_SPEED:g}.", param="speed"
            )
        chosen = await self._device.named(device) if device is not None else None
        if voice is not None:
            await self._try_voice(voice)
        if voice is not None or speed is not None:
            self._voice = self._voice if voice is None else voice
            self._speed = self._speed if speed is None else speed
            for item in self._items:
                if item.stage is Stage.FEEDING:
                    named = {"voice": voice, "speed": speed}
                    item.request = replace(
                        item.request, **{name: value for name, value in named.items() if value}
                    )
                    if item.stream is None:
                        continue  # the engine is away; what it is asked for next has it
                    with suppress(EngineError):  # it ends: then it needs no other voice
                        await item.stream.configure(voice=voice, speed=speed)
        if device is not None:
            self._mover.after_silence(partial(self._device.choose, chosen))
        self._tell_state()

    async def _try_voice(self, voice: str) -> None:
        """Asks the engine for a voice.

        Raises:
            EngineError: it has no such voice, or does not answer.
        """
        with trio.move_on_after(ANSWER_LIMIT_S):
            async with self._speak(LiveRequest(voice=voice)) as stream:
                async for event in stream:
                    if isinstance(event, Opened):
                        return
        raise NotReady("The engine does not answer; try again later.", retry_after_ms=1000)

    async def devices(self) -> tuple[str, ...]:
        """Names of the sound devices that can be chosen."""
        return await self._sink.devices()

    # --- what it says -------------------------------------------------------------------------

    def state(self, reply_to: str | None = None) -> PlayerState:
        """What the player is doing."""
        item = self._items.current
        slack_s = item.playout.slack_s(trio.current_time()) if item is not None else None
        return PlayerState(
            reply_to=reply_to,
            rev=self._rev,
            state=self._doing(item),
            item=item.number if item else None,
            queue_len=self._items.waiting,
            position_ms=samples_to_ms(item.heard_samples(self._sink.heard_samples))
            if item
            else 0.0,
            buffered_ms=samples_to_ms(item.playout.buffered_samples) if item else 0.0,
            slack_ms=round(slack_s * 1000, 1) if slack_s is not None else None,
            rtf=self._rtf,
            target_ms=self._supply.jitter.hold_ms,
            volume=self._sink.volume,
            voice=self._voice,
            speed=self._speed,
            device=self._device.name,
            stalled=self._device.stalled,
            depth_ms=self._sink.depth_ms,
            underruns=self._mover.underruns + self._sink.underruns,
        )

    @property
    def _rtf(self) -> float | None:
        rtf = self._supply.pace.rtf
        return round(rtf, 2) if rtf is not None else None

    def _tell_state(self) -> None:
        """Tells the state if it is another one; what changes all the time makes it no other."""
        now = replace(
            self.state(), buffered_ms=0.0, position_ms=0.0, slack_ms=None, rtf=None, target_ms=0.0
        )
        if now != self._told:
            self._rev += 1
            self._told = replace(now, rev=self._rev)
            self._on_state(self.state())

    def _doing(
        self, item: Item | None
    ) -> Literal["idle", "buffering", "playing", "paused", "recovering"]:
        if self._mover.paused:
            return "paused"
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

    # --- what follows from it -----------------------------------------------------------------

    def _open_next(self) -> None:
        """Asks the engine for the item whose turn it is."""
        item = self._items.next_to_open()
        if item is not None:
            item.stage = Stage.OPENING
            item.playout = self._playout(item.request)
            self._nursery.start_soon(self._feed, item, self._jobs[item])

    def _accepted(self, item: Item, job: _Job) -> None:
        job.answered = True
        job.asker.accepted(item.number)
        if self._device.name is None:
            job.asker.warned("no_device", "No sound device; speech waits until there is one.")

    def _end(self, items: tuple[Item, ...], outcome: Outcome) -> None:
        """Ends items that are out of `Items` already; tells so when they are silent."""
        ended: list[Item] = []
        for item in items:
            job = self._jobs.pop(item)
            job.scope.cancel()
            if item.text is not None:
                item.text.end()
            if job.answered:
                ended.append(item)
            else:
                job.asker.refused(StreamCancelled(f"The speech was {outcome} before it began."))
        self._mover.end(ended, outcome)

    def _over(self, item: Item, outcome: Outcome, samples: int) -> None:
        """An item is silent for good."""
        self._jobs.pop(item, None)
        if item.started:
            self._last = item
        self._on_done(
            ItemDone(
                item=item.number,
                key=item.request.key,
                outcome=outcome,
                played_ms=samples_to_ms(samples),
            )
        )

    def _changed(self) -> None:
        """Something changed: look who is next, wake the mover, tell the state."""
        self._mover.paused = self._mover.paused and self._items.current is not None
        self._open_next()
        self._mover.wake()
        self._tell_state()

    # --- feeding ------------------------------------------------------------------------------

    async def _feed(self, item: Item, job: _Job) -> None:
        """Pulls the item's stream into its playout, and sees to how it ends."""
        failure: EngineError | None = None
        with job.scope:
            try:
                await Feeding(self._speak, item, self, promised=job.answered).run()
            except EngineError as error:
                failure = error
            except Exception as error:
                log.error("feeding crashed", item=item.number, error=blame(error))
                failure = InternalError("The player failed; its log says how.")
        if item not in self._items:
            return  # stopped or replaced, and told so
        item.playout.end()
        if item.text is not None:
            item.text.end()
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
            self._policy,
            self._supply,
            text or "",
            complete=text is not None,
            now_s=trio.current_time(),
        )

    def manner(self) -> tuple[str | None, float | None]:
        """See `feeding.Listener`."""
        return self._voice, self._speed

    def opened(self, item: Item, /) -> None:
        """See `feeding.Listener`."""
        job = self._jobs.get(item)
        if job is None:
            return  # it was stopped just now
        replaced = self._items.accept(item)
        self._narration.opened()
        if item.replaces and job.resumes:
            self._mover.paused = False  # it is wanted now
        if not job.answered:
            self._accepted(item, job)
        self._end(replaced, "replaced")
        self._changed()

    async def came(self, item: Item, /) -> None:
        """See `feeding.Listener`."""
        self._mover.wake()
        self._warn_if_slow(item)
        while item.playout.held_samples >= MAX_HELD_SAMPLES:
            await self._mover.moved.park()

    def warned(self, item: Item, code: str, message: str, /) -> None:
        """See `feeding.Listener`."""
        if item in self._jobs:
            self._jobs[item].asker.warned(code, message)

    def _warn_if_slow(self, item: Item) -> None:
        job, rtf = self._jobs.get(item), self._rtf
        if job is not None and not job.told_slow and rtf is not None and rtf >= SLOW_RTF:
            job.told_slow = True
            job.asker.warned(
                "engine_slow",
                f"The engine takes {rtf:.2f} s for a second of speech, so there will be pauses.",
            )

    def _move(self, move: Callable[[Playout], None]) -> None:
        """Has the item that plays go on elsewhere, once it is silent."""
        item = self._items.current
        if item is None or not item.stage.accepted:
            return

        async def go() -> None:
            if item in self._items:
                move(item.playout)
                self._narration.moved(item)
                self._mover.moved.unpark_all()

        self._mover.after_silence(go)
