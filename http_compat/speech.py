"""Speech requests: from the bytes of one to the answer with the sound. Shell.

The audio of an answer is encoded and sent while the engine is still working on the rest, and the
client's pace is the engine's pace: nothing is collected here, unless the client wants the whole in
one piece. Headers go out only when there is audio, so that what goes wrong before has a status of
its own; what goes wrong later breaks the body off.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import assert_never

import trio
from msgspec.structs import replace
from quart import Response

from engine.audio import ms_to_samples, silence
from engine.config import Settings
from engine.errors import EngineError, NotReady, UnknownVoice
from engine.request import Event, Frame, Marks, Speak, VoiceInfo

from . import errors, schema, sse
from .connection import exchange
from .containers import encoder_for
from .line import Line, Place
from .schema import Order, Way

#: what is played for a text with nothing to speak in it: clients take an empty body for a failure
NOTHING_MS = 100

#: what the engine is asked in place of blanks, which it refuses: all else of the request counts
NOTHING = "..."

#: streams of the engine that are left to others, such as the player
LEFT_TO_OTHERS = 2


class Speech:
    """Answers speech requests.

    Args:
        speak: who speaks.
        voices: asks the engine for its voices; raises `EngineError`.
        settings: limits, and the names of voices.
    """

    def __init__(
        self,
        speak: Speak,
        voices: Callable[[], Awaitable[Sequence[VoiceInfo]]],
        settings: Settings,
    ) -> None:
        self._speak = speak
        self._voices = voices
        self._text_chars = settings.http_text_chars
        self._names: Mapping[str, str] = settings.openai_voices
        self.line = Line(
            at_once=max(1, settings.streams - LEFT_TO_OTHERS), waiting=settings.http_waiting
        )

    async def answer(self, body: bytes) -> Response:
        """The answer to a request with this body.

        What it holds is let go by the exchange, when all is sent or the client is gone.

        Raises:
            EngineError: there is no sound to send.
        """
        order = schema.parse(body, text_chars=self._text_chars, voices=self._names)
        current = exchange()
        current.facts |= {
            "voice": order.speech.voice,
            "chars": len(order.speech.text),
            "format": str(order.format),
        }
        came_s = trio.current_time()
        place = await current.resources.enter_async_context(
            self.line.place(batch=order.speech.priority == "batch")
        )
        if waited_ms := round((trio.current_time() - came_s) * 1000):
            current.facts["waited_ms"] = waited_ms
        request = order.speech if order.speech.text.strip() else replace(order.speech, text=NOTHING)
        try:
            spoken = await current.resources.enter_async_context(self._speak(request))
        except UnknownVoice as error:
            raise await self._with_names(error) from None
        except NotReady as error:
            self.line.dismiss(error)
            raise
        sound = await current.resources.enter_async_context(aclosing(_sound(spoken, place)))
        encoding = _Encoding(order, sound, current.resources)
        await encoding.begin()
        match order.way:
            case Way.STREAM:
                response = Response(_stream(encoding), content_type=encoding.encoder.content_type)
            case Way.WHOLE:
                whole = await _whole(encoding)
                response = Response(whole, content_type=encoding.encoder.content_type)
            case Way.EVENTS:
                events = _events(encoding, len(order.speech.text))
                response = Response(events, content_type=sse.CONTENT_TYPE)
                response.headers["Cache-Control"] = "no-cache"
            case _ as never:
                assert_never(never)
        if order.ignored:
            response.headers["x-kokoro-live-ignored"] = schema.ignored_header(order.ignored)
        return response

    async def _with_names(self, error: UnknownVoice) -> UnknownVoice:
        """The error with the names that would have done, if the engine still tells them."""
        try:
            known = [voice.id for voice in await self._voices()]
        except EngineError:
            return error
        message = (
            f"{error.message.removesuffix('.')}. The voices are {', '.join(known)}; OpenAI's names "
            f"{', '.join(self._names)}; and blends such as af_heart:60,am_michael:40."
        )
        return UnknownVoice(message, param=error.param)


async def _sound(events: AsyncIterator[Event], place: Place) -> AsyncGenerator[Frame | Marks]:
    """Sound and marks of a stream: frames that are not empty, and at least one."""
    silent = True
    async for event in events:
        match event:
            case Frame() if event.pcm:
                silent = False
                place.made(event.samples)
                yield event
            case Marks():
                yield event
            case _:
                pass
    if silent:
        yield Frame(seq=0, sample=0, pcm=silence(ms_to_samples(NOTHING_MS)))


class _Encoding:
    """The sound of an answer on its way into its container.

    Iterate over it for marks and bytes; `begin` first. The header is not among the bytes.

    Attributes:
        encoder: of the container.
        samples: how much sound went in, 24 kHz.
    """

    def __init__(
        self, order: Order, sound: AsyncIterator[Frame | Marks], resources: AsyncExitStack
    ) -> None:
        self.encoder = encoder_for(order.format)
        self.samples = 0
        self._sound = sound
        self._resources = resources
        self._begun: list[Frame | Marks] = []

    async def begin(self) -> None:
        """Waits for the first sound.

        Raises:
            EngineError: there will be none.
        """
        async for item in self._sound:
            self._begun.append(item)
            if isinstance(item, Frame):
                return

    async def __aiter__(self) -> AsyncGenerator[bytes | Marks]:
        for item in self._begun:
            yield self._put(item)
        async for item in self._sound:
            yield self._put(item)
        # The engine is let go before the client is told that this is all.
        await self._resources.aclose()
        yield self.encoder.finish()

    def _put(self, item: Frame | Marks) -> bytes | Marks:
        if isinstance(item, Marks):
            return item
        self.samples += item.samples
        return self.encoder.encode(item.pcm)


async def _stream(encoding: _Encoding) -> AsyncGenerator[bytes]:
    # One write for the header and the first frame: there are clients that parse the header from
    # the first piece they get, and others that want sound at once.
    held = encoding.encoder.header()
    async with aclosing(aiter(encoding)) as pieces:
        async for piece in pieces:
            assert isinstance(piece, bytes)  # marks are told as events only
            if held or piece:
                yield held + piece
            held = b""


async def _whole(encoding: _Encoding) -> bytes:
    async with aclosing(aiter(encoding)) as pieces:
        made = [piece async for piece in pieces if isinstance(piece, bytes)]
    return encoding.encoder.header() + b"".join(made)


async def _events(encoding: _Encoding, chars: int) -> AsyncGenerator[bytes]:
    held = encoding.encoder.header()
    try:
        async with aclosing(aiter(encoding)) as pieces:
            async for piece in pieces:
                if isinstance(piece, Marks):
                    yield sse.marks(piece)
                elif held or piece:
                    yield sse.delta(held + piece)
                    held = b""
        yield sse.done(chars=chars, samples=encoding.samples)
    except EngineError as error:
        yield sse.failed(errors.answer(error).detail)
        raise
