"""The engine's `SpeakLive` port over a WebSocket. Shell.

One connection per utterance: it costs about two milliseconds on loopback and gives every utterance
the flow control of its own TCP connection, so a slow listener holds up nobody else.

A connection that breaks off, without a goodbye, is opened again, and the stream goes on behind the
last frame that came, for as long as the engine waits for us (`orphan_grace_ms`). The listener hears
nothing of it. What was said to the stream and not acknowledged is said again; the engine knows by
its place which text it has.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgspec
import trio
from msgspec.structs import replace

from engine.errors import EngineError, NotReady, StreamCancelled, TextTooLong, UnknownStream
from engine.request import Event, Flushed, Frame, LiveRequest, SpeechRequest, Stream

from . import messages
from .client import CONNECT_TIMEOUT_S, Connection, connect, error_of
from .messages import StreamFrame
from .rate import TokenBucket
from .sockets import CLOSE_TIMEOUT_S

#: seconds before the first attempt to connect again; each later one waits twice as long …
FIRST_PAUSE_S = 0.05
#: … but no longer than this
LONGEST_PAUSE_S = 0.5

#: a connection that lasted so long was taken up for good, though nothing may have come
STANDS_S = 1.0

#: seconds between two reports of how far the listener is
REPORT_S = 0.25


class WebSocketSpeak:
    """`engine.request.SpeakLive` in another process.

    Args:
        url: of the engine.
        token: what it wants to be shown.
        connect_s: how long a connection to it may take before it counts as absent.
    """

    def __init__(self, url: str, token: str, *, connect_s: float = CONNECT_TIMEOUT_S) -> None:
        self._connect = partial(connect, url, token=token, limit_s=connect_s)

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `SpeakLive`. Leaving before the end cancels the stream in the engine."""
        raised: Exception | None = None
        async with trio.open_nursery() as nursery:
            stream = _RemoteStream(self._connect, request)
            raised = await nursery.start(stream.run)
            if raised is None:
                try:
                    yield stream
                except Exception as error:  # not through the nursery, which would wrap it
                    raised = error
            nursery.cancel_scope.cancel()
        if raised is not None:
            raise raised


_Connecting: TypeAlias = AbstractAsyncContextManager[tuple[Connection, msgspec.Struct]]

_ToStream = messages.Append | messages.Flush | messages.End | messages.Configure


@dataclass(slots=True, eq=False)
class _Saying:
    """Something to be said to the stream, until it is answered."""

    message: _ToStream
    answered: trio.Event = field(default_factory=trio.Event)
    error: EngineError | None = None


class _RemoteStream:
    """A `Stream`; `run` talks to the engine in a task of its own."""

    def __init__(
        self, connect: Callable[[], _Connecting], request: SpeechRequest | LiveRequest
    ) -> None:
        self._connect = connect
        self._request = request
        # Without a limit, because an answer may be behind events that nobody takes; see `_tell`.
        self._events, self._coming = trio.open_memory_channel[Event | EngineError](math.inf)
        self._moved = trio.lowlevel.ParkingLot()  # the listener took an event, or says something
        # once the engine has accepted it
        self._stream = 0
        self._instance = ""
        self._grace_s = 0.0
        # why the connection ended, or could not be opened again
        self._broken: EngineError = NotReady("")
        self._lives_until_s: float | None = None  # how long to try; None: frames come
        self._pauses = _pauses()
        # where the listener is: the next frame, and what was told behind the last one
        self._opened = False
        self._owns = True  # not what was over when it was taken up again
        self._next_seq = 0
        self._told: list[Event] = []
        self._told_again: deque[Event] = deque()
        # what is to be said, the first of it on its way
        self._over = False
        self._to_say: deque[_Saying] = deque()
        self._more = trio.Event()
        self._said = 0
        self._chars = 0  # of text that the engine has
        self._nameless: set[str] = set()  # names that we gave to flushes
        # how far the listener is, until it was said; what he told before is of no interest then
        self._report: messages.Heard | None = None
        self._reported = trio.Event()
        self._sending: set[trio.CancelScope] = set()

    # --- what the user of the stream sees -------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        try:
            event = await self._coming.receive()
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        self._moved.unpark_all()
        if isinstance(event, EngineError):
            raise event
        return event

    async def append(self, text: str, /) -> None:
        """See `Stream`."""
        await self._say(messages.Append(stream=self._stream, text=text))

    async def flush(self, flush_id: str | None = None, /) -> None:
        """See `Stream`."""
        if flush_id is None:  # the engine knows by its name one that is said again
            flush_id = f"nameless-{len(self._nameless)}"
            self._nameless.add(flush_id)
        await self._say(messages.Flush(stream=self._stream, flush_id=flush_id))

    async def end(self) -> None:
        """See `Stream`."""
        if not self._over:
            await self._say(messages.End(stream=self._stream))

    async def configure(self, *, voice: str | None = None, speed: float | None = None) -> None:
        """See `Stream`."""
        await self._say(messages.Configure(stream=self._stream, voice=voice, speed=speed))

    def heard(self, sample: int, /, *, playing: bool) -> None:
        """See `Stream`. Of what is told meanwhile the last is said every `REPORT_S`."""
        self._report = messages.Heard(stream=self._stream, sample=sample, playing=playing)
        self._reported.set()

    async def _say(self, message: _ToStream) -> None:
        if self._over:
            raise _over()
        saying = _Saying(message)
        self._to_say.append(saying)
        self._more.set()
        self._moved.unpark_all()
        await saying.answered.wait()
        if saying.error is not None:
            raise saying.error

    # --- the task ---------------------------------------------------------------------------------

    async def run(self, *, task_status: trio.TaskStatus[EngineError | None]) -> None:
        """Talks to the engine until the stream is over; started when it has an answer."""
        accepted = False

        def note_accepted() -> None:
            nonlocal accepted
            accepted = True
            task_status.started(None)

        failure: EngineError | None = None
        with self._events:
            try:
                while not self._over:
                    if accepted:
                        await self._go_on()
                    else:
                        await self._begin(note_accepted)
            except EngineError as error:
                failure = error
            finally:
                self._over = True
                while self._to_say:
                    ends = isinstance(self._to_say[0].message, messages.End)
                    self._answer(None if ends else _over())
            if failure is not None and not accepted:
                task_status.started(failure)
            elif failure is not None:
                await self._events.send(failure)

    async def _begin(self, accepted: Callable[[], None]) -> None:
        async with self._connect() as (connection, ready):
            assert isinstance(ready, messages.Ready)  # by the vocabulary
            self._instance = ready.server.instance
            self._grace_s = ready.limits.orphan_grace_ms / 1000
            self._stream = await _answer(connection, _opening(self._request))
            accepted()
            await self._talk(connection, ready)

    async def _go_on(self) -> None:
        """Takes the stream up again, on a new connection, and talks until that breaks too.

        Raises:
            EngineError: it has been tried for as long as the engine keeps the stream, or trying
                again does not help.
        """
        if self._lives_until_s is None:
            self._lives_until_s = trio.current_time() + self._grace_s
            self._pauses = _pauses()
        async with AsyncExitStack() as stack:
            try:
                connection, ready = await stack.enter_async_context(self._connect())
                assert isinstance(ready, messages.Ready)  # by the vocabulary
                lost = await self._take_up(connection, ready)
            except EngineError as error:
                if not error.retryable:
                    raise
                self._broken = error
            else:
                if lost is not None:
                    raise lost
                stands_since_s = trio.current_time()
                await self._talk(connection, ready)
                if trio.current_time() - stands_since_s >= STANDS_S:
                    self._lives_until_s = None  # no more than silence
        if self._lives_until_s is not None and not self._over:  # nothing came
            pause_s = next(self._pauses)
            if trio.current_time() + pause_s > self._lives_until_s:
                raise self._broken
            await trio.sleep(pause_s)

    async def _take_up(self, connection: Connection, ready: messages.Ready) -> NotReady | None:
        """Subscribes behind the last frame; gives the error if the stream is gone."""
        if ready.server.instance != self._instance:
            return NotReady("The engine was started anew; what it was speaking is lost.")
        self._told_again = deque(self._told)
        try:
            await _answer(
                connection, messages.Subscribe(stream=self._stream, from_seq=self._next_seq)
            )
        except UnknownStream:
            return NotReady("The connection to the engine was lost for too long.")
        return None

    async def _talk(self, connection: Connection, ready: messages.Ready) -> None:
        """Until the stream is over, or the connection breaks."""
        # Half of what the engine lets a connection say in a burst: some was said already.
        per_s = ready.limits.messages_per_s
        bucket = TokenBucket(per_s, per_s, trio.current_time())
        failure: EngineError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._write, connection, bucket)
            nursery.start_soon(self._write_reports, connection, bucket)
            try:
                await self._read(connection)
            except EngineError as error:  # not through the nursery, which would wrap it
                if isinstance(error, NotReady) and connection.broken:
                    self._broken = error
                else:
                    self._over = True  # as far as we can tell anybody
                    failure = error
            except trio.Cancelled:
                self._limit_sending()
                # NotReady: gone already, and the engine cancels what nobody hears
                with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True), suppress(NotReady):
                    await connection.send(messages.Cancel(stream=self._stream))
                raise
            self._limit_sending()
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _read(self, connection: Connection) -> None:
        while not self._over:
            received = await connection.receive()
            if getattr(received, "stream", None) not in (self._stream, None):
                continue
            if isinstance(received, StreamFrame) and received.frame.seq < self._next_seq:
                continue  # known from before the connection broke
            if isinstance(received, StreamFrame | messages.StreamDone):
                self._lives_until_s = None
            match received:
                case StreamFrame(frame=frame):
                    await self._tell(self._heard(frame))
                case messages.Ack(reply_to=str()):
                    self._answer(None)
                case messages.Error(reply_to=str()):
                    self._answer(error_of(received))
                case messages.Error():
                    raise error_of(received)
                case messages.StreamCancelled():
                    if not self._owns:
                        raise NotReady("The connection to the engine was lost for too long.")
                    raise StreamCancelled("The stream was cancelled.")
                case messages.StreamOpened() if self._opened:
                    self._owns = received.owner
                case messages.StreamDone():
                    self._over = True
                    await self._tell(received)
                case Event():  # opened, segment, marks, segment.done, flushed, warning
                    self._opened = self._opened or isinstance(received, messages.StreamOpened)
                    if not self._was_told(received):
                        await self._tell(self._as_named(received))
                case _:
                    pass

    async def _tell(self, event: Event) -> None:
        """Waits until the listener has it, so that the engine makes no more than is heard.

        Not while something is to be said: its answer is behind the event, and who waits for that
        may be the one who is to listen.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self._events.send_nowait(event)
        while self._coming.statistics().current_buffer_used and not self._to_say:
            await self._moved.park()
        await trio.lowlevel.cancel_shielded_checkpoint()  # who has it may be leaving already

    def _as_named(self, event: Event) -> Event:
        if isinstance(event, Flushed) and event.flush_id in self._nameless:
            return replace(event, flush_id=None)
        return event

    def _heard(self, frame: Frame) -> Frame:
        self._next_seq = frame.seq + 1
        self._told.clear()
        self._told_again.clear()
        return frame

    def _was_told(self, event: Event) -> bool:
        """Whether the listener knows it from before the connection broke."""
        if self._told_again and self._told_again[0] == event:
            self._told_again.popleft()
            return True
        self._told_again.clear()
        # What is about the connection, and not the stream, does not come again.
        if not isinstance(event, messages.StreamOpened) and getattr(event, "stream", None):
            self._told.append(event)
        return False

    async def _write(self, connection: Connection, bucket: TokenBucket) -> None:
        """Says one thing after the other; the next when the one before is answered."""
        while True:
            while not self._to_say:
                self._more = trio.Event()
                await self._more.wait()
            await _taken(bucket)
            saying = self._to_say[0]
            self._said += 1
            message = replace(saying.message, id=f"say-{self._said}")
            if isinstance(message, messages.Append):
                message = replace(message, at=self._chars)
            try:
                await self._send(connection, message)
            except TextTooLong as error:
                self._answer(error)
            except NotReady:
                return  # whoever reads will see why
            await saying.answered.wait()

    async def _write_reports(self, connection: Connection, bucket: TokenBucket) -> None:
        """Says how far the listener is, when he has told."""
        with suppress(NotReady):  # whoever reads will see why
            while True:
                while self._report is None:
                    self._reported = trio.Event()
                    await self._reported.wait()
                await _taken(bucket)
                report, self._report = self._report, None
                if self._owns:
                    await self._send(connection, report)
                await trio.sleep(REPORT_S)

    async def _send(self, connection: Connection, message: _ToStream | messages.Heard) -> None:
        # A message that is cut in half would be the end of the connection.
        with trio.CancelScope(shield=True) as scope:
            self._sending.add(scope)
            try:
                await connection.send(message)
            finally:
                self._sending.discard(scope)

    def _limit_sending(self) -> None:
        for scope in self._sending:
            scope.deadline = trio.current_time() + CLOSE_TIMEOUT_S

    def _answer(self, error: EngineError | None) -> None:
        """What was said first has its answer."""
        saying = self._to_say.popleft()
        saying.error = error
        if error is None and isinstance(saying.message, messages.Append):
            self._chars += len(saying.message.text)
        saying.answered.set()


async def _taken(bucket: TokenBucket) -> None:
    """Waits until one more message may be said."""
    while wait_s := bucket.take(trio.current_time()):  # noqa: ASYNC110 - waits for a time
        await trio.sleep(wait_s)


def _over() -> UnknownStream:
    return UnknownStream("The stream is over.", param="stream")


def _pauses() -> Iterator[float]:
    pause_s = FIRST_PAUSE_S
    while True:
        yield pause_s
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _opening(request: SpeechRequest | LiveRequest) -> messages.Speak | messages.Open:
    fields = {name: getattr(request, name) for name in _fields_of(request)}
    if isinstance(request, SpeechRequest):
        return messages.Speak(**fields)
    return messages.Open(**fields)


def _fields_of(request: SpeechRequest | LiveRequest) -> tuple[str, ...]:
    # By the port's own: what came from another wire has more of them.
    port = SpeechRequest if isinstance(request, SpeechRequest) else LiveRequest
    return port.__struct_fields__


async def _answer(
    connection: Connection, question: messages.Speak | messages.Open | messages.Subscribe
) -> int:
    """The stream's number, from the answer to a request.

    Raises:
        EngineError: it was refused.
    """
    await connection.send(replace(question, id="speak"))
    while True:
        match await connection.receive():
            case messages.Ack(reply_to="speak", stream=int(stream)):
                return stream
            case messages.Error() as error:
                raise error_of(error)
            case _:
                pass
