"""Pulls the stream of one item into its playout, and its text out to the engine. Shell.

When the engine goes away while it speaks (it crashed, or was started anew), what came of the
sentence is played, and a new stream takes up the text behind it as soon as the engine is back. The
playout sees one stream.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog
import trio
from msgspec.structs import replace

from engine.errors import EngineError, NotReady, StreamCancelled, UnknownStream
from engine.live import append_all
from engine.request import (
    Done,
    Event,
    Frame,
    LiveRequest,
    Marks,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeakLive,
    SpeechRequest,
    Stream,
)

from .items import Item

log = structlog.get_logger("player")

#: how long the engine may take to accept a text
ANSWER_LIMIT_S = 10.0
#: How long it may be away in the middle of one: it is started anew in some seconds, and loads its
#: model in ten or so on a slow machine.
AWAY_LIMIT_S = 60.0
#: how long to wait before asking again: twice as long each time, up to the most
ASK_AGAIN_S, ASK_AGAIN_MOST_S = 0.25, 2.0


class Listener(Protocol):
    """Told of what comes."""

    def manner(self) -> tuple[str | None, float | None]:
        """Voice and speed for a text that names none."""

    def opened(self, item: Item, /) -> None:
        """The engine speaks the item."""

    async def came(self, item: Item, /) -> None:
        """Something came; waits while enough is here."""

    def warned(self, item: Item, code: str, message: str, /) -> None:
        """Something to know about the item."""


@dataclass(slots=True)
class _Place:
    """Where in the item a stream begins, and how far it is."""

    samples: int = 0
    chars: int = 0
    segments: int = 0
    next_char: int = 0  # of the item, behind what came at least in part
    next_segment: int = 0
    coming: tuple[int, int] = (0, 0)  # both, when something of the newest segment has come

    def of(self, event: Event) -> Event:
        """The event of the stream as one of the item."""
        match event:
            case SegmentStart():
                event = replace(
                    event,
                    index=event.index + self.segments,
                    sample=event.sample + self.samples,
                    char_start=event.char_start + self.chars,
                    char_end=event.char_end + self.chars,
                )
                self.next_char, self.next_segment = event.char_start, event.index
                self.coming = (event.char_end, event.index + 1)
            case Frame():
                if event.samples:
                    self.next_char, self.next_segment = self.coming
                event = replace(event, sample=event.sample + self.samples)
            case Marks():
                words = tuple(
                    replace(
                        word,
                        sample=word.sample + self.samples,
                        char_start=word.char_start + self.chars,
                        char_end=word.char_end + self.chars,
                    )
                    for word in event.words
                )
                event = replace(event, index=event.index + self.segments, words=words)
            case Done():
                event = replace(event, samples=event.samples + self.samples)
            case _:
                pass
        return event


class Feeding:
    """Feeds one item; `run` it once.

    Args:
        speak: who speaks.
        item: what.
        listener: who is told.
        promised: the item was accepted before the engine was asked, because it had to wait; if the
            engine is away then, it is asked again as for what it has begun.
    """

    def __init__(
        self, speak: SpeakLive, item: Item, listener: Listener, *, promised: bool = False
    ) -> None:
        self._speak = speak
        self._item = item
        self._listener = listener
        self._place = _Place()
        self._accepted = False
        self._promised = promised
        self._answering = trio.CancelScope()

    async def run(self) -> None:
        """Until all of the item is in its playout.

        Raises:
            EngineError: the engine does not speak it, or not to its end.
        """
        pauses = _pauses()
        away_until_s = math.inf
        while True:
            came = self._item.playout.here
            try:
                await self._stream_in_time()
                return
            except EngineError as error:
                # An engine that is told to stop cancels what it speaks.
                passing = error.retryable or isinstance(error, StreamCancelled)
                if not (passing and (self._accepted or self._promised)):
                    raise
                fresh = self._item.playout.here != came or away_until_s == math.inf
                if fresh:
                    away_until_s = trio.current_time() + AWAY_LIMIT_S
                    pauses = _pauses()
                self._break_off(error, told=not fresh)
                pause_s = next(pauses)
                if trio.current_time() + pause_s > away_until_s:
                    raise
                await trio.sleep(pause_s)
            if not self._left():
                return  # it went away behind the last sentence

    def _break_off(self, error: EngineError, *, told: bool) -> None:
        place = self._place
        place.samples = self._item.playout.broke(trio.current_time())
        place.chars, place.segments = place.next_char, place.next_segment
        if told:
            return
        log.warning("the engine went away", item=self._item.number, code=error.code)
        if not self._accepted:
            message = "The engine is away; the text is spoken when it is back."
        elif self._left():
            message = (
                "The engine went away in the middle of the speech, which goes on with the next "
                "sentence when it is back."
            )
        else:
            return
        self._listener.warned(self._item, "interrupted", message)

    def _left(self) -> bool:
        """Whether there is text behind what was begun, or may be."""
        item = self._item
        text = item.text
        if text is not None and not (text.ended and text.chars == len(item.said)):
            return True
        return bool(item.said[self._place.next_char :].strip())

    async def _stream_in_time(self) -> None:
        with trio.CancelScope(deadline=trio.current_time() + ANSWER_LIMIT_S) as self._answering:
            await self._stream()
        if self._answering.cancelled_caught:
            raise NotReady(
                f"The engine did not answer within {ANSWER_LIMIT_S:.0f} s.", retry_after_ms=1000
            )

    async def _stream(self) -> None:
        failure: EngineError | None = None
        async with self._speak(self._request()) as stream:
            async with trio.open_nursery() as nursery:
                if self._item.text is not None:
                    nursery.start_soon(self._pour, stream)
                try:
                    self._item.stream = stream
                    self._item.stream_start = self._place.samples
                    await self._take(stream)
                except EngineError as error:  # not through the nursery, which would wrap it
                    failure = error
                finally:
                    self._item.stream = None
                nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _request(self) -> SpeechRequest | LiveRequest:
        request = self._item.request
        voice, speed = self._listener.manner()
        # Marks are few bytes, and somebody may want to see the words while it plays.
        request = replace(
            request,
            voice=voice if request.voice is None else request.voice,
            speed=speed if request.speed is None else request.speed,
            marks=True,
        )
        if isinstance(request, SpeechRequest) and self._place.chars:
            return replace(request, text=request.text[self._place.chars :])
        return request

    async def _take(self, stream: Stream) -> None:
        item, playout = self._item, self._item.playout
        async for told in stream:
            event = self._place.of(told)
            match event:
                case Opened():
                    self._answering.deadline = math.inf
                    if not self._accepted:
                        self._accepted = True
                        self._listener.opened(item)
                case SegmentStart():
                    playout.begin(event)
                case Marks():
                    playout.marks(event)
                case Frame():
                    playout.put(event, trio.current_time())
                case SegmentDone():
                    playout.segment_done(event, trio.current_time())
                case Done():
                    playout.end(event.samples)
                case Notice():
                    self._listener.warned(item, event.code, event.message)
                case _:
                    continue
            await self._listener.came(item)

    # --- text in pieces -------------------------------------------------------------------------

    async def _pour(self, stream: Stream) -> None:
        """Hands text on as it comes, and no faster than it is taken."""
        item, text = self._item, self._item.text
        assert text is not None  # else nobody pours
        try:
            await append_all(stream, item.said[self._place.chars :])
            while (piece := await text.receive()) is not None:
                if isinstance(piece, str):
                    item.say(piece)
                    item.playout.more_text(piece, trio.current_time(), complete=False)
                    await append_all(stream, piece)
                else:
                    await stream.flush(piece.flush_id)
            item.playout.more_text("", trio.current_time(), complete=True)
            await stream.end()
        except UnknownStream:
            pass  # it is over; whoever reads it is told why
        except EngineError as error:
            # It takes no more, and what it has is spoken.
            log.info("text was not taken", item=item.number, code=error.code)
            text.end()
            with suppress(EngineError):
                await stream.end()


def _pauses() -> Iterator[float]:
    pause_s = ASK_AGAIN_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, ASK_AGAIN_MOST_S)
