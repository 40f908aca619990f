"""The Wyoming server. Shell.

Takes ports and never asks who is behind them: a `SpeakLive`, and a question for the voices. A
connection has two tasks. One reads: it answers what can be answered at once, and notices that the
client has gone, which ends whatever is spoken for it. The other one speaks, one text after the
other. The client's pace is the engine's pace: nothing is collected here.

All sound of a text, also of one in pieces, stands between one `audio-start` and one `audio-stop`:
there are clients that stop reading at the first `audio-stop`, and none that needs a second one.

After an error the connection is closed. Home Assistant does not know `error` events; it would wait
for the rest of the sound for ever.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog
import trio

from engine.audio import ms_to_samples, silence
from engine.config import Settings
from engine.errors import (
    EngineError,
    InternalError,
    InvalidRequest,
    Overloaded,
    TextTooLong,
    UnknownStream,
    blame,
)
from engine.live import append_all
from engine.request import Event as Spoken
from engine.request import Frame, LiveRequest, SpeakLive, SpeechRequest, Stream, VoiceInfo
from wsproto_api.sockets import STALL_S, keep_alive

from . import schema
from .events import Decoder, Event, encode

log = structlog.get_logger("wyoming")

#: how long a client may take to read why it is cut off
LINGER_S = 2.0
#: texts, or pieces of one, that may wait; behind them nothing is read
WAITING = 8
#: what is played for a text with nothing to speak in it; an empty sound is taken for a failure
NOTHING_MS = 100

#: what the reading task hands to the speaking one; an error is the last of them
_Asked = schema.Request | EngineError


class WyomingServer:
    """Serves Wyoming to whoever can connect: the protocol has no password.

    Args:
        speak: who speaks.
        voices: asks the engine for its voices; raises `EngineError`.
        settings: limits, and the usual voice.
    """

    def __init__(
        self,
        speak: SpeakLive,
        voices: Callable[[], Awaitable[Sequence[VoiceInfo]]],
        settings: Settings,
    ) -> None:
        self._speak = speak
        self._voices = voices
        self._settings = settings
        self._connections = 0

    async def serve(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves until cancelled; `listeners` are closed then."""

        async def connected(stream: trio.SocketStream) -> None:
            with suppress(OSError):  # it may be closed again
                keep_alive(stream.socket)
            await self.converse(stream)

        await trio.serve_listeners(connected, listeners, task_status=task_status)

    async def converse(self, stream: trio.abc.HalfCloseableStream) -> None:
        """Serves one connection until one side is through with it; the caller closes it."""
        client = _Client(stream, self._speak, self._voices, self._settings)
        try:
            if self._connections >= self._settings.connections:
                full = Overloaded("Too many connections are open; try again when one is closed.")
                await client.run(refused=full)
                return
            self._connections += 1
            try:
                await client.run()
            finally:
                self._connections -= 1
        except Exception as error:
            log.error("connection crashed", error=blame(error))


@dataclass(slots=True)
class _Facts:
    """What the log says of a text; never the text."""

    chars: int = 0
    outcome: str = "left"
    first_audio_ms: float | None = None


class _Client:
    """One connection."""

    def __init__(
        self,
        stream: trio.abc.HalfCloseableStream,
        speak: SpeakLive,
        voices: Callable[[], Awaitable[Sequence[VoiceInfo]]],
        settings: Settings,
    ) -> None:
        self._stream = stream
        self._speak = speak
        self._voices = voices
        self._settings = settings
        self._sending = trio.Lock()
        self._talk = trio.CancelScope()
        self._ask, self._asked = trio.open_memory_channel[_Asked](WAITING)

    async def run(self, *, refused: EngineError | None = None) -> None:
        """Until the client goes, or has been told why nothing more follows.

        Args:
            refused: that is why, before anything was asked.
        """
        with self._talk:
            failure = refused or await self._converse()
            log.info("closed", code=failure.code)
            await self._send(schema.failure(failure))
            # A socket that is closed with something unread takes back what was sent.
            with trio.move_on_after(LINGER_S), suppress(trio.BrokenResourceError):
                await self._stream.send_eof()
                async for _ in self._stream:
                    pass

    async def _converse(self) -> EngineError:
        """Does what is asked, until something goes wrong."""
        failure: EngineError
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read)
            try:
                while True:
                    await self._do(await self._asked.receive())
            except EngineError as error:  # not through the nursery, which would wrap it
                failure = error
            except Exception as error:
                log.error("request crashed", error=blame(error))
                failure = InternalError("The server failed; its log says how.")
            await self._stop(nursery.cancel_scope)
        return failure

    # --- the task that reads -------------------------------------------------------------------

    async def _read(self) -> None:
        decoder = Decoder()
        try:
            with suppress(trio.BrokenResourceError):
                async for data in self._stream:
                    decoder.push(data)
                    while (event := decoder.next()) is not None:
                        await self._received(event)
        except EngineError as error:
            await self._ask.send(error)  # told when it is its turn
        else:
            self._talk.cancel()

    async def _received(self, event: Event) -> None:
        match schema.request_of(event):
            case None:
                pass
            case schema.Ping() as ping:
                await self._send(schema.pong(ping))
            case schema.Describe():
                await self._send(schema.info(await self._voices()))
            case request:
                await self._ask.send(request)

    # --- the task that speaks ------------------------------------------------------------------

    async def _do(self, asked: _Asked) -> None:
        match asked:
            case EngineError():
                raise asked
            case schema.Synthesize(text=text, voice=voice):
                with _logged(len(text), "whole") as facts:
                    await self._say(text, await self._name(voice), facts)
                    await self._send(schema.audio_stop())
            case schema.SynthesizeStart(voice=voice):
                with _logged(0, "pieces") as facts:
                    await self._say_pieces(await self._name(voice), facts)
                    await self._send(schema.audio_stop(), schema.stopped())
            case _:
                raise InvalidRequest(f"{asked.type} came without a synthesize-start before it.")

    async def _name(self, voice: schema.Voice | None) -> str | None:
        """The name of the voice that is wanted; the engine says whether there is one."""
        if voice is None:
            return None
        if voice.speaker or voice.name:
            return voice.speaker or voice.name
        if not voice.language:
            return None
        voices = await self._voices()
        return schema.voice_of_language(voice.language, voices, self._settings.voice)

    async def _say(self, text: str, voice: str | None, facts: _Facts) -> None:
        limit = self._settings.text_chars
        if len(text) > limit:
            raise TextTooLong(f"The text has {len(text)} characters; the limit is {limit}.")
        if not text.strip():
            await self._pause()
            return
        async with self._speak(SpeechRequest(text=text, voice=voice)) as stream:
            await self._sound(stream, facts)

    async def _say_pieces(self, voice: str | None, facts: _Facts) -> None:
        failure: EngineError | None = None
        async with self._speak(LiveRequest(voice=voice)) as stream:
            async with trio.open_nursery() as nursery:

                async def hand_on() -> None:
                    nonlocal failure
                    try:
                        await self._hand_on(stream, facts)
                    except UnknownStream:
                        pass  # it is over, and whoever listens to it is told why
                    except EngineError as error:
                        failure = error
                        await self._stop(nursery.cancel_scope)

                nursery.start_soon(hand_on)
                try:
                    await self._sound(stream, facts)
                except EngineError as error:
                    failure = error
                nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _hand_on(self, stream: Stream, facts: _Facts) -> None:
        """Text as it comes, and no faster than it is taken."""
        async for asked in self._asked:
            match asked:
                case EngineError():
                    raise asked
                case schema.SynthesizeChunk(text=text):
                    facts.chars += len(text)
                    await append_all(stream, text)
                case schema.SynthesizeStop():
                    await stream.end()
                    return
                case schema.SynthesizeStart():
                    raise InvalidRequest("synthesize-start came twice without a synthesize-stop.")
                case _:
                    pass  # the whole text once more, for servers that take no pieces

    async def _sound(self, events: AsyncIterator[Spoken], facts: _Facts) -> None:
        """Sends what is heard, all but the end of it."""
        began_s = trio.current_time()
        begun = False
        async for event in events:
            if isinstance(event, Frame) and event.pcm:
                if not begun:
                    facts.first_audio_ms = round((trio.current_time() - began_s) * 1000, 1)
                begin = [] if begun else [schema.audio_start()]
                begun = True
                await self._send(*begin, schema.audio_chunk(event.pcm))
        if not begun:
            await self._pause()

    async def _pause(self) -> None:
        pause = silence(ms_to_samples(NOTHING_MS))
        await self._send(schema.audio_start(), schema.audio_chunk(pause))

    # --- both ----------------------------------------------------------------------------------

    async def _send(self, *events: Event) -> None:
        """Whole events, one task at a time. Does not return if the client has gone."""
        async with self._sending:
            with trio.move_on_after(STALL_S) as stall, suppress(trio.BrokenResourceError):
                await self._stream.send_all(b"".join(map(encode, events)))
                return
            if stall.cancelled_caught:
                log.info("client takes nothing", seconds=STALL_S)
            # Before others may send: they would go on in the middle of an event.
            self._talk.cancel()
            await trio.sleep_forever()

    async def _stop(self, scope: trio.CancelScope) -> None:
        """Cancels what may be sending, but not in the middle of an event: another one follows."""
        async with self._sending:
            scope.cancel()


@contextmanager
def _logged(chars: int, kind: str) -> Iterator[_Facts]:
    """Writes a line when a text is spoken, or is not."""
    began_s = trio.current_time()
    facts = _Facts(chars=chars)
    try:
        yield facts
        facts.outcome = "spoken"
    except EngineError as error:
        facts.outcome = error.code
        raise
    finally:
        log.info(
            "text",
            kind=kind,
            chars=facts.chars,
            outcome=facts.outcome,
            first_audio_ms=facts.first_audio_ms,
            ms=round((trio.current_time() - began_s) * 1000, 1),
        )
