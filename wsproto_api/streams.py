"""The streams of an engine: who may open one, who follows, and when it ends. Shell.

One task per stream pulls events out of a `SpeakLive` into a `StreamLog`, and waits when it is
`max_lead_ms` ahead of the fastest follower. A stream belongs to the connection that opened it. When
that breaks off, the stream lives on for `orphan_grace_ms`, and for as long as others follow it; who
subscribes to it by its number meanwhile, takes it over.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress

import structlog
import trio
from msgspec.structs import replace

from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.config import Settings
from engine.errors import (
    EngineError,
    InternalError,
    InvalidRequest,
    NotReady,
    Overloaded,
    UnknownStream,
    blame,
)
from engine.request import (
    Delivery,
    Done,
    Event,
    LiveRequest,
    Opened,
    SegmentDone,
    SpeakLive,
    SpeechRequest,
    Stream,
)

from . import messages
from .peer import error_message
from .spoken import Spoken
from .stream import Cursor, Ending, StreamLog

log = structlog.get_logger("engine")

#: finished streams that can still be subscribed to, so that a late follower hears a short one
FINISHED_KEPT = 8

#: for how long nobody need say anything to a stream before its text counts as complete
IDLE_S = 600.0

#: how long streams may take to come to their own end when the engine stops …
FINISH_S = 1.5
#: … and how long their followers may take to hear that they are cancelled
FAREWELL_S = 0.5


class LiveStream:
    """A stream: its log, its text, and the means to wait for it to be written or read.

    Attributes:
        request: how it is spoken.
        owner: the connection it belongs to; None while it has none.
        log: what happened on it.
        awaits_text: whether more may come.
        said_s: when it last got some.
        lives_until_s: when it ends if nobody comes; it counts while the stream is `abandoned`.
    """

    def __init__(
        self,
        stream: StreamLog,
        request: SpeechRequest | LiveRequest,
        source: Stream,
        owner: object | None = None,
    ) -> None:
        self.log = stream
        self.request: Delivery = request
        self.owner = owner
        self.production = trio.CancelScope()
        self.lives_until_s = 0.0
        self._source = source
        self._text = [request.text] if isinstance(request, SpeechRequest) else []
        self._chars = sum(map(len, self._text))
        self._spoken = Spoken()
        self.awaits_text = isinstance(request, LiveRequest)
        self.said_s = trio.current_time()
        self._flushed: tuple[str, int] | None = None  # the last flush, and where it stands
        self._compute_ms = 0.0
        self._audio_samples = 0
        self._written = trio.lowlevel.ParkingLot()
        self._read = trio.lowlevel.ParkingLot()

    # --- what may be said to it ---------------------------------------------------------------

    async def append(self, text: str, at: int | None = None) -> None:
        """More text.

        Args:
            text: verbatim.
            at: where in the text it begins; what is there already is not added again.

        Raises:
            EngineError: it was not taken.
        """
        self._refuse_if_over()
        if at is not None:
            if at > self._chars:
                raise InvalidRequest(
                    f"The text begins at character {at}, but only {self._chars} came before it.",
                    param="at",
                )
            known = self._chars - at
            if known and "".join(self._text)[at : at + len(text)] != text[:known]:
                raise InvalidRequest(f"Another text stands at character {at} already.", param="at")
            text = text[known:]
        if text or at is None:
            await self._source.append(text)
        self.said_s = trio.current_time()
        if text:
            self._text.append(text)
            self._chars += len(text)
            self._flushed = None

    async def flush(self, flush_id: str | None) -> None:
        """Speak what there is."""
        self._refuse_if_over()
        flushed = flush_id and (flush_id, self._chars)
        if flushed and flushed == self._flushed:
            return  # said once more, behind a connection that broke
        await self._source.flush(flush_id)
        self._flushed = flushed or None

    async def end(self) -> None:
        """No more text; nothing happens if it has ended."""
        if not self.log.over:
            self.awaits_text = False
            await self._source.end()

    async def configure(self, *, voice: str | None, speed: float | None) -> None:
        """Another voice or speed."""
        if voice is None and speed is None:
            raise InvalidRequest("There is nothing to configure; give a voice or a speed.")
        self._refuse_if_over()
        await self._source.configure(voice=voice, speed=speed)

    def heard(self, sample: int, *, playing: bool) -> bool:
        """How far its owner is; False if that cannot be. Nothing happens if all is made."""
        if sample > self.log.samples:
            return False
        if not self.log.over:
            self._source.heard(sample, playing=playing)
        return True

    def _refuse_if_over(self) -> None:
        if self.log.over:
            raise UnknownStream(f"Stream {self.log.number} is over.", param="stream")

    # --- what happens on it -------------------------------------------------------------------

    def write(self, event: Event) -> None:
        """Appends to the log and wakes the followers."""
        self.log.append(event)
        self._spoken.note(event)
        if isinstance(event, SegmentDone):
            self._compute_ms += event.compute_ms
            self._audio_samples += event.samples
        if isinstance(event, Done):
            self.log.finish()
        self._written.unpark_all()

    def fail(self, error: EngineError) -> None:
        """Ends the stream with an error, after what was written."""
        self.log.fail(error_message(error, stream=self.log.number))
        self._written.unpark_all()

    def cancel(self, played_samples: int | None = None) -> bool:
        """Ends the stream at once, for everybody; False if there was nothing left to end.

        Args:
            played_samples: how much of it was heard; followers are told what that was.
        """
        ended = self.log.cancel(self._cancelled(played_samples))
        if ended:
            self.production.cancel()
            self._written.unpark_all()
        return ended

    def _cancelled(self, played_samples: int | None) -> messages.StreamCancelled:
        number = self.log.number
        if played_samples is None:
            return messages.StreamCancelled(stream=number)
        text, chars = "".join(self._text), self._spoken.chars(played_samples)
        return messages.fitting(
            messages.StreamCancelled(
                stream=number,
                played_samples=played_samples,
                chars_spoken=chars,
                text_spoken=text[:chars],
                text_remaining=text[chars:],
            ),
            "text_spoken",
            "text_remaining",
        )

    async def room(self, max_lead_samples: int) -> None:
        """Waits until the fastest follower is less than this behind; not, if the stream is over."""
        # Others get their turn in any case, and `cancel` its effect, however fast the voice is.
        await trio.lowlevel.checkpoint()
        # Behind the end there is nothing to wait for, and whoever heard it is gone already.
        while not self.log.over and self.log.lead_samples >= max_lead_samples:
            await self._read.park()

    async def read(self, cursor: Cursor) -> AsyncGenerator[Event | Ending]:
        """What was and will be written; ends when the stream is over and read."""
        while True:
            before = cursor.sample
            entry = cursor.read()
            if entry is not None:
                yield entry
            if cursor.sample != before:  # also by passing over frames
                self._read.unpark_all()
            if entry is None and self.log.over:
                return
            if entry is None:
                await self._written.park()

    def left(self, cursor: Cursor) -> None:
        """A follower (of `log.follow`) is gone."""
        self.log.leave(cursor)
        self._read.unpark_all()

    @property
    def rtf(self) -> float | None:
        """Computing per audio in the segments that are done."""
        if not self._audio_samples:
            return None
        return round(self._compute_ms / 1000 / (self._audio_samples / SAMPLE_RATE), 3)

    @property
    def abandoned(self) -> bool:
        """Whether it goes on though nobody owns or follows it."""
        return self.owner is None and not self.log.cursors and not self.log.over


class Streams:
    """All streams, those that are made and the last that were; `run` it.

    Args:
        speak: who speaks.
        settings: limits.
    """

    def __init__(self, speak: SpeakLive, settings: Settings) -> None:
        self._speak = speak
        self._settings = settings
        self._max_lead = ms_to_samples(settings.max_lead_ms)
        self._streams: dict[int, LiveStream] = {}
        self._last_number = 0
        self._opening = 0
        self._stopping = False
        self._over = trio.lowlevel.ParkingLot()
        self._nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Makes streams until cancelled. Call `stop` before, else they end in the middle."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            while True:
                await trio.sleep(IDLE_S / 10)
                await self._end_idle()

    def find(self, number: int) -> LiveStream | None:
        """The stream with this number, live or among the last finished."""
        return self._streams.get(number)

    @property
    def live(self) -> list[LiveStream]:
        """Those that are not over."""
        return [live for live in self._streams.values() if not live.log.over]

    async def open(self, request: SpeechRequest | LiveRequest, owner: object) -> LiveStream:
        """Starts a stream.

        Raises:
            EngineError: the request was not accepted.
        """
        if self._stopping:
            raise NotReady("The engine is stopping; try again when it is back.")
        limit = self._settings.streams
        if len(self.live) + self._opening >= limit:
            raise Overloaded(
                f"The limit of {limit} texts at once is reached; try again in a moment.",
                retry_after_ms=1000,
            )
        self._opening += 1
        try:
            opened = await self._nursery.start(self._produce, request, owner)
        finally:
            self._opening -= 1
        if isinstance(opened, EngineError):
            raise opened
        assert isinstance(opened, LiveStream)
        return opened

    async def _produce(
        self,
        request: SpeechRequest | LiveRequest,
        owner: object,
        *,
        task_status: trio.TaskStatus[LiveStream | EngineError],
    ) -> None:
        live: LiveStream | None = None
        failure: EngineError | None = None
        try:
            # Marks are always wanted here, to know how far a listener is in the text.
            async with self._speak(replace(request, marks=True)) as events:
                opened = await anext(events)
                assert isinstance(opened, Opened)
                live = self._register(opened, request, events, owner)
                task_status.started(live)
                with live.production:
                    async for event in events:
                        live.write(event)
                        await live.room(self._max_lead)
                    if not live.log.over:
                        raise RuntimeError("a stream without an end")
        except EngineError as error:
            failure = error
        except Exception as error:
            log.error("stream crashed", stream=live and live.log.number, error=blame(error))
            failure = InternalError("The engine failed; its log says how.")
        finally:
            if live is not None and failure is None and not live.log.over:
                live.cancel()  # the server stops, or the client left as it was accepted
            if live is not None and failure is not None:
                log.warning("stream failed", stream=live.log.number, code=failure.code)
                live.fail(failure)
            self._forget()
            self._over.unpark_all()
        if live is None and failure is not None:
            task_status.started(failure)

    def _register(
        self, opened: Opened, request: SpeechRequest | LiveRequest, source: Stream, owner: object
    ) -> LiveStream:
        self._last_number = self._last_number % 0xFFFF_FFFF + 1
        stream = StreamLog(self._last_number, opened, 2 * self._max_lead)
        live = self._streams[stream.number] = LiveStream(stream, request, source, owner)
        return live

    def _forget(self) -> None:
        """Keeps only the last of those that are over; and those that somebody still reads."""
        over = [n for n, live in self._streams.items() if live.log.over and not live.log.cursors]
        for number in over[:-FINISHED_KEPT]:
            del self._streams[number]

    def left(self, live: LiveStream, cursor: Cursor) -> None:
        """A follower is gone."""
        live.left(cursor)
        self._forget()
        self._over.unpark_all()
        self._end_if_alone(live, self._settings.orphan_grace_ms / 1000)

    def cancel_all(self) -> int:
        """Cancels what is live; gives how many that were."""
        return sum(live.cancel() for live in self.live)

    async def fail_all(self, error: EngineError) -> None:
        """Ends what is live with an error, and opens no more.

        For when a stream may not come to its end any more; followers have `FAREWELL_S` to hear it.
        """
        self._stopping = True
        for live in self.live:
            live.fail(error)
            live.production.cancel()
        await self._all_heard(FAREWELL_S)

    def owned_by(self, owner: object) -> list[LiveStream]:
        """Its streams that are live or kept."""
        return [live for live in self._streams.values() if live.owner is owner]

    def disown(self, owner: object, *, grace: bool) -> None:
        """An owner is gone.

        Args:
            owner: of any number of streams.
            grace: whether it may come back: its connection broke, and it did not say goodbye.
        """
        for live in self.owned_by(owner):
            live.owner = None
            self._end_if_alone(live, self._settings.orphan_grace_ms / 1000 if grace else 0.0)

    def _end_if_alone(self, live: LiveStream, after_s: float) -> None:
        """Ends a stream that nobody owns, if nobody owns it after this time either."""
        if live.owner is not None or live.log.over:
            return
        if live.abandoned and (after_s == 0 or self._stopping):
            live.cancel()
            return
        live.lives_until_s = trio.current_time() + after_s
        self._nursery.start_soon(self._wait_for_owner, live.log.number, live.lives_until_s)

    async def _wait_for_owner(self, number: int, until_s: float) -> None:
        await trio.sleep_until(until_s)
        live = self._streams.get(number)  # not held meanwhile: it may be over and forgotten
        # Somebody may have come, and gone again, which began another wait.
        if live is None or live.owner is not None or live.lives_until_s != until_s:
            return
        if live.abandoned:
            live.cancel()
        else:  # who follows hears the rest; but nobody is there to say more
            with suppress(EngineError):
                await live.end()

    async def _end_idle(self) -> None:
        """Ends streams to which nobody says anything any more: they take others' places."""
        for live in self.live:
            if live.awaits_text and trio.current_time() - live.said_s > IDLE_S:
                with suppress(EngineError):
                    await live.end()

    async def stop(self) -> None:
        """Lets streams end by themselves for a moment, then cancels them; opens no more."""
        self._stopping = True
        await self._all_heard(FINISH_S)
        for live in self._streams.values():
            live.cancel()
        await self._all_heard(FAREWELL_S)

    async def _all_heard(self, limit_s: float) -> None:
        with trio.move_on_after(limit_s):
            while any(live.log.cursors or not live.log.over for live in self._streams.values()):
                await self._over.park()
