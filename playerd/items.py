"""Which item plays, which is next, and what ends when a new one comes. Core.

    stage      meaning                                              left when
    WAITING    nobody was asked to speak it yet                     it is `next_to_open`
    OPENING    the engine was asked and has not answered            `accept`, or `remove`
    FEEDING    its stream is open, frames come                      `fed`
    FED        its stream is over; what is buffered is all          `written`
    LEAVING    all of it is on its way out of the device            `remove`

From LEAVING an item comes back to FED, by `take_back`, when the sound is silenced before all of it
was heard.

Items play strictly in the order in which they were asked for. Only one stream is fed at a time,
so that a text in the queue never slows down the one that is heard; a text that replaces is the
exception, because it is wanted now. It replaces what was asked for before it once the engine has
accepted it: a text that cannot be spoken does not silence another.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from engine.audio import ms_to_samples
from engine.errors import Overloaded, UnknownStream
from engine.live import TextFeed
from engine.request import LiveRequest, SpeechRequest, Stream

from .playout import Playout

Mode = Literal["replace", "queue", "toggle"]
Outcome = Literal["finished", "stopped", "replaced", "failed"]

#: So that a client in a loop cannot fill the memory with texts …
MAX_ITEMS = 1000
#: … nor with sound: nobody is asked for more while this much waits to be played.
MAX_HELD_SAMPLES = ms_to_samples(30_000)


class Stage(enum.Enum):
    """How far an item is; see the table above. The order counts."""

    WAITING = 0
    OPENING = 1
    FEEDING = 2
    FED = 3
    LEAVING = 4

    @property
    def accepted(self) -> bool:
        """Whether the engine has taken it."""
        return self.value >= Stage.FEEDING.value


@dataclass(slots=True, eq=False)
class Item:
    """One text to be played.

    Attributes:
        number: 1, 2, 3 … in the order asked for.
        request: what is to be spoken, and how.
        text: where it comes from, if it comes in pieces.
        replaces: whether it ends what was asked for before it.
        stage: how far it is.
        playout: its samples.
        stream: it comes by, while it comes.
        stream_start: the sample of the item that is the first of `stream`.
        failed: whether its stream ended before its time.
        started: whether its first sample was heard.
        narrated: the sample before which all words were told.
        leaves_at: where in all the sink was given it ends, while its end is waited for.
        first_sample: where in all the sink was given lies the first sample that it got of this item
            since it was silent; None before that.
    """

    number: int
    request: SpeechRequest | LiveRequest
    replaces: bool
    text: TextFeed | None = None
    stage: Stage = Stage.WAITING
    playout: Playout = field(default_factory=Playout)
    stream: Stream | None = None
    stream_start: int = 0
    failed: bool = False
    started: bool = False
    narrated: int = 0
    leaves_at: int | None = None
    first_sample: int | None = None
    _pieces: list[str] = field(default_factory=list)

    @property
    def said(self) -> str:
        """Its text, as far as it came."""
        if isinstance(self.request, SpeechRequest):
            return self.request.text
        self._pieces[:] = ["".join(self._pieces)]
        return self._pieces[0]

    def say(self, piece: str) -> None:
        """More of a text that comes in pieces."""
        self._pieces.append(piece)

    def heard_samples(self, sink_samples: int) -> int:
        """How far this item was heard when the sink has played `sink_samples` in all."""
        if self.first_sample is None:
            return self.playout.position
        return self.playout.heard(max(sink_samples - self.first_sample, 0))


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a wish.

    Attributes:
        item: the new item; None if there is none, because `toggle` stopped what was there.
        stopped: the items that this ended.
    """

    item: Item | None
    stopped: tuple[Item, ...] = ()


class Items:
    """The items that are not over, in playing order."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._last_number = 0

    def __contains__(self, item: Item) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Item]:
        return iter(tuple(self._items))

    def __len__(self) -> int:
        return len(self._items)

    def add(
        self, request: SpeechRequest | LiveRequest, mode: Mode, text: TextFeed | None = None
    ) -> Added:
        """Takes a wish.

        Args:
            request: what is to be spoken, and how.
            mode: what becomes of those that are there.
            text: where it comes from, if it comes in pieces.

        Raises:
            Overloaded: there are too many already.
        """
        if mode == "toggle" and self._items:
            return Added(None, self.clear())
        if len(self._items) >= MAX_ITEMS:
            raise Overloaded(f"{MAX_ITEMS} texts are waiting already; stop or wait.")
        self._last_number += 1
        item = Item(self._last_number, request, replaces=mode != "queue", text=text)
        self._items.append(item)
        return Added(item)

    def find(self, number: int) -> Item | None:
        """The item with this number, unless it is over."""
        return next((item for item in self._items if item.number == number), None)

    def text_of(self, number: int) -> TextFeed:
        """Where more text of this item goes.

        Raises:
            UnknownStream: there is no such item, or its text was complete from the beginning.
        """
        found = self.find(number)
        if found is None or found.text is None:
            raise UnknownStream(
                f"Item {number} takes no text: it is over or never was.", param="item"
            )
        return found.text

    def next_to_open(self) -> Item | None:
        """The item that the engine should be asked for now, if any."""
        waiting = [item for item in self._items if item.stage is Stage.WAITING]
        urgent = next((item for item in waiting if item.replaces), None)
        busy = any(item.stage in (Stage.OPENING, Stage.FEEDING) for item in self._items)
        held_samples = sum(item.playout.held_samples for item in self._items)
        if urgent is not None or busy or held_samples >= MAX_HELD_SAMPLES:
            return urgent
        return waiting[0] if waiting else None

    def accept(self, item: Item) -> tuple[Item, ...]:
        """The engine speaks `item`; gives the items that this replaces."""
        item.stage = Stage.FEEDING
        if not item.replaces:
            return ()
        at = self._items.index(item)
        replaced = tuple(self._items[:at])
        del self._items[:at]
        return replaced

    def fed(self, item: Item) -> None:
        """The stream of `item` is over."""
        item.stage = Stage.FED

    def written(self, item: Item) -> None:
        """The sink was given all of `item`."""
        item.stage = Stage.LEAVING

    def take_back(self, item: Item, position: int, now_s: float) -> None:
        """There is silence, and `item` is to go on at `position`."""
        if item.stage is Stage.LEAVING:
            item.stage = Stage.FED
        item.first_sample = None
        item.playout.seek(position, now_s)

    def remove(self, *over: Item) -> None:
        """These are over."""
        self._items = [item for item in self._items if item not in over]

    def clear(self) -> tuple[Item, ...]:
        """Ends everything; gives what was ended."""
        ended = tuple(self._items)
        self._items.clear()
        return ended

    @property
    def to_write(self) -> Item | None:
        """The item whose samples the sink gets next; None if its turn or its stream has not come."""
        item = next((item for item in self._items if item.stage is not Stage.LEAVING), None)
        return item if item is not None and item.stage.accepted else None

    @property
    def current(self) -> Item | None:
        """The item that is heard, or will be heard next."""
        return self._items[0] if self._items else None

    @property
    def waiting(self) -> int:
        """How many items come after the current one."""
        return max(len(self._items) - 1, 0)

    @property
    def sounding(self) -> tuple[Item, ...]:
        """The items of which the sink has something, in order."""
        return tuple(item for item in self._items if item.first_sample is not None)
