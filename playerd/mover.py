"""Moves samples from the items to the sink, one item after the other. Shell.

It alone commands the sink: one task moves, another waits for what was moved to leave the device.

Whoever wants something else silences it. What was in the sink and was not heard goes back to where
it came from, so that a pause, a skip or another device loses nothing; then the items that were ended
are told so, and what is to happen in silence happens.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import structlog
import trio

from engine.audio import ms_to_samples

from .device import Device
from .items import Item, Items, Outcome, Stage
from .playout import Phase
from .sinks.base import BLOCK_S, DeviceUnavailable

log = structlog.get_logger("player")

#: what is moved at a time
PIECE_SAMPLES = ms_to_samples(100)
#: after a pause of so long other programs may have the device
LEAVE_S = 60.0
#: how often to ask again whether there is enough to begin with, when nothing new comes
LOOK_S = 0.02


class Over(Protocol):
    """Told when an item is silent for good."""

    def __call__(self, item: Item, outcome: Outcome, samples: int, /) -> None:
        """`samples`: how far it was heard."""


class Mover:
    """See the module; `run` it.

    Args:
        items: what is to be heard.
        device: on what.
        on_change: told when it goes on, stops or has done something else.
        on_over: told of every item when it is silent for good, stopped or not.
        on_move: told when an item begins to sound, or goes on elsewhere.

    Attributes:
        paused: nothing is moved.
        underruns: how often the listener had to wait inside an item.
        moved: what waits for room here is woken whenever there is more.
    """

    def __init__(
        self,
        items: Items,
        device: Device,
        *,
        on_change: Callable[[], None],
        on_over: Over,
        on_move: Callable[[Item], None],
    ) -> None:
        self.paused = False
        self._paused_s = 0.0
        self.underruns = 0
        self.moved = trio.lowlevel.ParkingLot()
        self._items = items
        self._device = device
        self._sink = device.sink
        self._on_change = on_change
        self._on_over = on_over
        self._on_move = on_move
        self._leaving, self._left = trio.open_memory_channel[tuple[Item, int]](math.inf)
        self._moving = trio.CancelScope()
        self._nap = trio.CancelScope()  # around waiting for something to change
        # to be done when there is silence
        self._hushed = False
        self._ending: list[tuple[Item, Outcome]] = []
        self._then: list[Callable[[], Awaitable[None]]] = []

    async def run(self) -> None:
        """Moves until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._move)
            nursery.start_soon(self._leave)

    # --- what is wanted -----------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to be moved."""
        self._nap.cancel()

    def pause(self) -> None:
        """Silence, until `paused` is no more and somebody wakes it."""
        self.paused = True
        self._paused_s = trio.current_time()
        self._hush()

    def end(self, items: Sequence[Item], outcome: Outcome) -> None:
        """Items were taken out of `Items` and are to be silent; `on_over` tells when they are."""
        if self._ending or any(item.first_sample is not None for item in items):
            self._ending += [(item, outcome) for item in items]
            self._hush()
            return
        # Nothing of them is in the sink: what is heard goes on. It is told when whoever asked for this
        # has got his answer, as it is otherwise.
        soon = trio.lowlevel.current_trio_token().run_sync_soon
        for item in items:
            soon(self._on_over, item, outcome, item.playout.position)

    def after_silence(self, action: Callable[[], Awaitable[None]]) -> None:
        """Silence; then `action`, which sees how far everything was heard; then it goes on."""
        self._then.append(action)
        self._hush()

    def _hush(self) -> None:
        self._hushed = True
        self._moving.cancel()

    # --- moving -------------------------------------------------------------------------------

    async def _move(self) -> None:
        while True:
            # While there is being silenced, more may be to do.
            while self._hushed:
                self._hushed = False
                await self._fall_silent()
            self._on_change()
            with trio.CancelScope() as self._moving:
                while True:
                    await self._step()

    async def _step(self) -> None:
        """Does the next thing that is to be done; waits if there is none."""
        # What is written after an interruption would be silenced with what it was to silence.
        await trio.lowlevel.checkpoint_if_cancelled()
        try:
            if self.paused and self._device.name is not None:
                await self._pause()
            elif not self._device.present:
                await self._device.look()
            else:
                await self._move_piece()
        except DeviceUnavailable as error:
            await self._device.lose(error)

    async def _move_piece(self) -> None:
        """Moves a piece from the first item to the sink, or waits for one."""
        item = self._items.to_write
        if item:
            item.playout.gulp_samples = ms_to_samples(self._sink.depth_ms + 1000 * BLOCK_S)
        pcm = item.playout.pull(PIECE_SAMPLES, trio.current_time()) if item else b""
        self._on_change()
        if item is None:
            await self._rest()
        elif pcm:
            if item.first_sample is None:
                item.first_sample = self._sink.written_samples
                self._on_move(item)
            self.moved.unpark_all()
            await self._sink.write(pcm)
        elif item.playout.phase is Phase.DONE:
            self._items.written(item)
            item.leaves_at = self._sink.written_samples
            self._leaving.send_nowait((item, item.leaves_at))
        elif item.playout.phase is not Phase.PLAYING:
            await self._rest(LOOK_S if item.playout.waits else math.inf)
        elif await self._ran_dry():
            item.playout.ran_dry(trio.current_time())
            self.underruns += 1
            log.info("ran dry", item=item.number)

    async def _pause(self) -> None:
        """Waits until something changes; if that takes long, others may have the device."""
        left_s = math.inf
        if self._device.may_be_left:
            left_s = self._paused_s + LEAVE_S - trio.current_time()
        if left_s > 0:
            await self._rest(left_s)
        else:
            await self._device.leave()

    async def _rest(self, most_s: float = math.inf) -> None:
        """Waits until something changes; the device may rest when it has played all it has."""
        with trio.CancelScope(deadline=trio.current_time() + most_s) as self._nap:
            if self._device.present:
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
            failed = item.failed
            try:
                await self._sink.played(end)
            except DeviceUnavailable:
                failed = True
            if item in self._items and item.leaves_at == end:
                self._finish(item, failed=failed)
                self._on_change()

    def _finish(self, item: Item, *, failed: bool) -> None:
        self._items.remove(item)
        self._on_over(item, "failed" if failed else "finished", item.playout.position)

    # --- silence ------------------------------------------------------------------------------

    async def _fall_silent(self) -> None:
        ending, self._ending = self._ending, []
        then, self._then = self._then, []
        sounding = self._items.sounding
        written = self._sink.written_samples
        for item in sounding:
            item.leaves_at = None  # silence is not its end
        heard = await self._device.silence()
        for item, outcome in ending:
            self._on_over(item, outcome, item.heard_samples(heard))
        # What was faded is to be heard again.
        faded = self._sink.fade_samples if heard < written else 0
        for item in sounding:
            self._take_back(item, heard, faded)
        for action in then:
            await action()

    def _take_back(self, item: Item, heard: int, faded: int) -> None:
        position = item.heard_samples(heard)
        if position < item.playout.position:
            position = max(position - faded, 0)
        elif item.stage is Stage.LEAVING and item in self._items:
            self._finish(item, failed=item.failed)
            return
        # Of what was ended meanwhile too: it is to be told how far that was heard.
        self._items.take_back(item, position, trio.current_time())
        self._on_move(item)
