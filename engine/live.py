"""Text that comes in pieces, on its way from whoever appends it to the pipeline. Shell."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

import trio

from engine.errors import InvalidRequest, Overloaded, TextTooLong
from engine.request import Event, Stream

#: characters that are taken at once: more would let the first sentence wait for the tenth
PIECE_CHARS = 256
#: flushes that may wait, with nothing or little text between them
_MARKS = 1_000


class Flush(NamedTuple):
    """Stands between two pieces of text: what is before it is to be spoken."""

    flush_id: str | None


class TextFeed:
    """Pieces of text, in the order in which they came; taken by one task.

    Args:
        waiting_chars: so many may wait to be taken.
        total_chars: so many may come in all.
    """

    def __init__(self, *, waiting_chars: int, total_chars: int) -> None:
        self.chars = 0  # that came
        self.ended = False
        self._waiting_chars = waiting_chars
        self._total_chars = total_chars
        self._items: deque[str | Flush] = deque()
        self._held = 0  # characters in them
        self._more = trio.Event()

    @classmethod
    def of(cls, text: str) -> TextFeed:
        """A text that is complete."""
        feed = cls(waiting_chars=len(text), total_chars=len(text))
        feed.append(text)
        feed.end()
        return feed

    def append(self, text: str) -> None:
        """More text; see `Stream.append` for what may be raised."""
        self._refuse_if_ended()
        if self.chars + len(text) > self._total_chars:
            raise TextTooLong(
                f"The stream would have {self.chars + len(text)} characters; the limit is "
                f"{self._total_chars}. End it, and open another.",
                param="text",
            )
        if len(text) > self._waiting_chars:
            raise TextTooLong(
                f"The text has {len(text)} characters; the limit is {self._waiting_chars}.",
                param="text",
            )
        if self._held + len(text) > self._waiting_chars:
            raise Overloaded(
                f"{self._held} characters wait to be spoken, and {self._waiting_chars} may; "
                "append this piece again later.",
                retry_after_ms=1000,
            )
        self.chars += len(text)
        self._held += len(text)
        for at in range(0, len(text), PIECE_CHARS):
            self._add(text[at : at + PIECE_CHARS])

    def _add(self, piece: str) -> None:
        last = self._items[-1] if self._items else None
        if isinstance(last, str) and len(last) + len(piece) <= PIECE_CHARS:
            self._items[-1] = last + piece
        else:
            self._items.append(piece)
        self._more.set()

    def flush(self, flush_id: str | None) -> None:
        """A flush; see `Stream.flush`."""
        self._refuse_if_ended()
        if len(self._items) >= _MARKS + self._held:
            raise Overloaded(f"{_MARKS} flushes wait already.", retry_after_ms=1000)
        self._items.append(Flush(flush_id))
        self._more.set()

    def end(self) -> None:
        """No more text."""
        self.ended = True
        self._more.set()

    @property
    def ready(self) -> bool:
        """Whether there is something to receive at once."""
        return self.ended or bool(self._items)

    async def receive(self) -> str | Flush | None:
        """What comes next, text in pieces of at most `PIECE_CHARS`; None is the end.

        Cancelled, it has taken nothing.
        """
        await trio.lowlevel.checkpoint()
        while not self._items:
            if self.ended:
                return None
            self._more = trio.Event()
            await self._more.wait()
        item = self._items.popleft()
        if isinstance(item, str):
            self._held -= len(item)
        return item

    def _refuse_if_ended(self) -> None:
        if self.ended:
            raise InvalidRequest("The text of this stream is complete already.", param="stream")


async def append_all(stream: Stream, text: str) -> None:
    """Appends a text of any length, no faster than it is taken.

    Raises:
        InvalidRequest: as `Stream.append`.
        TextTooLong: the stream has had all the text that a stream may have.
    """
    for at in range(0, len(text), PIECE_CHARS):
        piece = text[at : at + PIECE_CHARS]
        while True:
            try:
                await stream.append(piece)
                break
            except Overloaded as error:
                await trio.sleep((error.retry_after_ms or 1000) / 1000)


class FedStream:
    """A `Stream` of this process.

    Args:
        events: of it.
        feed: where its text goes.
        configure: given voice and speed; raises `InvalidRequest`.
        heard: given the sample, and whether it plays.
    """

    def __init__(
        self,
        events: AsyncIterator[Event],
        feed: TextFeed,
        configure: Callable[[str | None, float | None], None],
        heard: Callable[[int, bool], None],
    ) -> None:
        self._events = events
        self._feed = feed
        self._configure = configure
        self._heard = heard

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        return await anext(self._events)

    async def append(self, text: str, /) -> None:
        """See `Stream`."""
        self._feed.append(text)

    async def flush(self, flush_id: str | None = None, /) -> None:
        """See `Stream`."""
        self._feed.flush(flush_id)

    async def end(self) -> None:
        """See `Stream`."""
        self._feed.end()

    async def configure(self, *, voice: str | None = None, speed: float | None = None) -> None:
        """See `Stream`."""
        self._configure(voice, speed)

    def heard(self, sample: int, /, *, playing: bool) -> None:
        """See `Stream`."""
        self._heard(sample, playing)
