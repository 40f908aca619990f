"""Tells what is heard, at the moment it is: where the item is, and which word. Shell.

By the clock of the device: the sink says which sample leaves it. The engine is told too, so that it
knows how much time it has (`Stream.heard`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import msgspec
import trio

from engine.audio import SAMPLE_RATE, samples_to_ms
from wsproto_api.messages import ItemStarted, Position, Sentence, Word

from .items import Item, Items
from .sinks.base import Sink

Told: TypeAlias = ItemStarted | Position | Word

#: ten positions a second are enough for any pointer that follows
POSITION_S = 0.1
#: how often the engine is told
REPORT_S = 0.5
#: No word is told so exactly that more would be of use; nobody is to be woken for less.
LEAST_S = 0.002


class Narration:
    """Follows the items that sound; `run` it.

    Args:
        items: of the player.
        sink: they are heard by.
        on_told: told of beginnings, positions and words.
    """

    def __init__(self, items: Items, sink: Sink, on_told: Callable[[Told], None]) -> None:
        self._items = items
        self._sink = sink
        self._on_told = on_told
        self._moved = trio.Event()
        self._position: Position | None = None
        self._position_due_s = 0.0
        self._report_due_s = 0.0

    def moved(self, item: Item) -> None:
        """The item begins to sound, or is to go on elsewhere, or is silent."""
        item.narrated = item.heard_samples(self._sink.heard_samples)
        if item.started:
            self._tell_position(item, item.narrated)
        self._report_due_s = 0.0
        self._moved.set()

    def opened(self) -> None:
        """A stream was opened."""
        self._report_due_s = 0.0
        self._moved.set()

    async def run(self) -> None:
        """Tells, until cancelled."""
        while True:
            self._moved = trio.Event()
            wait_s = min(self._narrate(), self._report())
            with trio.move_on_after(max(wait_s, LEAST_S)):
                await self._moved.wait()

    def _narrate(self) -> float:
        """Tells what is due; gives in how many seconds more will be."""
        heard, now_s = self._sink.heard_samples, trio.current_time()
        next_s = math.inf
        for item in self._items.sounding:
            assert item.first_sample is not None  # by `sounding`
            if heard <= item.first_sample:
                return min(next_s, (item.first_sample + 1 - heard) / SAMPLE_RATE)
            at = item.heard_samples(heard)
            if not item.started:
                item.started = True
                self._on_told(ItemStarted(item=item.number, key=item.request.key))
            for word in item.playout.script.words(item.narrated, at):
                fields = {name: getattr(word, name) for name in word.__struct_fields__}
                self._on_told(Word(**fields, item=item.number))
            item.narrated = max(item.narrated, at)
            if now_s >= self._position_due_s:
                self._tell_position(item, at)
            next_s = min(next_s, self._position_due_s - now_s)
            coming = item.playout.script.next_word(item.narrated)
            if coming is not None:
                next_s = min(next_s, (coming.sample + 1 - at) / SAMPLE_RATE)
        return next_s

    def _tell_position(self, item: Item, sample: int) -> None:
        self._position_due_s = trio.current_time() + POSITION_S
        line, length = item.playout.script.line(sample), item.playout.length
        position = Position(
            item=item.number,
            sample=sample,
            ms=samples_to_ms(sample),
            of_ms=samples_to_ms(length) if length is not None else None,
            sentence=Sentence(
                index=line.index,
                char_start=line.char_start,
                char_end=line.char_end,
                sample=line.sample,
            )
            if line is not None
            else None,
        )
        if msgspec.structs.replace(position, of_ms=None) != self._position:
            self._position = msgspec.structs.replace(position, of_ms=None)
            self._on_told(position)

    def _report(self) -> float:
        """Tells the engine what is due; gives in how many seconds it will be told again."""
        streams = [item for item in self._items if item.stream is not None]
        now_s = trio.current_time()
        if not streams:
            return math.inf
        if now_s >= self._report_due_s:
            self._report_due_s = now_s + REPORT_S
            heard = self._sink.heard_samples
            for item in streams:
                at = item.heard_samples(heard) - item.stream_start
                plays = item.first_sample is not None and heard < self._sink.written_samples
                assert item.stream is not None  # by the list
                item.stream.heard(max(at, 0), playing=plays and at >= 0)
        return self._report_due_s - now_s
