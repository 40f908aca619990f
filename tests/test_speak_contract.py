"""The rules of `engine.request.Speak`, held against all three implementations.

The engine in this process, the WebSocket client in front of a server, and the fake voice of the
tests must be the same to whoever uses them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
import trio

from engine.config import Settings
from engine.errors import InvalidRequest, UnknownVoice
from engine.process import address, open_listeners
from engine.request import Frame, Marks, Opened, Speak, SpeechRequest
from engine.service import KokoroService
from tests.support.access import TOKEN
from tests.support.reading import Heard, check_stream, hear
from tests.support.tone import ToneVoice
from wsproto_api.server import EngineServer
from wsproto_api.speak import WebSocketSpeak

#: three segments, whatever the implementation puts together
TEXT = "  One two.\n\nThree four five! \n\n Is it six? "
WORDS = ["One", "two", "Three", "four", "five", "Is", "it", "six"]


@asynccontextmanager
async def over_websocket(
    voice: ToneVoice | KokoroService, settings: Settings
) -> AsyncIterator[Speak]:
    server = EngineServer(voice, voice, settings, TOKEN)
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(server.serve, listeners)
        yield WebSocketSpeak(address("ws", listeners) + "/", TOKEN)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def itself(speak: Speak) -> AsyncIterator[Speak]:
    yield speak


@pytest.fixture(params=["fake", "fake over WebSocket", "engine", "engine over WebSocket"])
def opened(
    request: pytest.FixtureRequest, settings: Settings
) -> AbstractAsyncContextManager[Speak]:
    """The implementation, to be entered by the test (it may run tasks)."""
    voice: ToneVoice | KokoroService = (
        ToneVoice() if request.param.startswith("fake") else request.getfixturevalue("real_service")
    )
    if request.param.endswith("WebSocket"):
        return over_websocket(voice, settings)
    return itself(voice)


async def test_a_stream_from_opened_to_done(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    async with opened as speak:
        request = SpeechRequest(text=TEXT, speed=1.5, key="mine")
        heard = await hear(speak, request)
    check_stream(heard, request)
    first = heard.events[0]
    assert isinstance(first, Opened)
    assert (first.voice, first.lang, first.speed, first.key) == ("af_heart", "en-us", 1.5, "mine")
    assert heard.done.segments == 3


async def test_marks_tell_where_the_words_are(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    request = SpeechRequest(text=TEXT, marks=True)
    async with opened as speak:
        heard = await hear(speak, request)
    check_stream(heard, request)
    marks = heard.of(Marks)
    assert [mark.index for mark in marks] == [0, 1, 2]
    words = [TEXT[word.char_start : word.char_end] for mark in marks for word in mark.words]
    assert [word.strip("!?.") for word in words] == WORDS
    assert all(word.samples > 0 for mark in marks for word in mark.words)


async def test_what_nobody_listens_to_while_it_is_made_is_the_same_stream(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    request = SpeechRequest(text="Fine.", priority="batch")
    async with opened as speak:
        heard = await hear(speak, request)
    check_stream(heard, request)
    assert heard.done.segments == 1


@pytest.mark.parametrize(
    ("request_", "error", "param"),
    [
        (SpeechRequest(text=" \n "), InvalidRequest, "text"),
        (SpeechRequest(text="Hello.", voice="nobody"), UnknownVoice, "voice"),
    ],
)
async def test_what_cannot_be_spoken_is_refused_on_entry(
    opened: AbstractAsyncContextManager[Speak],
    request_: SpeechRequest,
    error: type[InvalidRequest],
    param: str,
) -> None:
    async with opened as speak:
        caught: InvalidRequest | None = None
        try:
            async with speak(request_):
                pytest.fail("it was accepted")
        except InvalidRequest as refusal:
            caught = refusal
        assert type(caught) is error
        assert caught.param == param
        assert caught.message.endswith(".")
        # and the next request is as welcome as ever
        heard = await hear(speak, SpeechRequest(text="Fine."))
        assert heard.done.samples > 0


async def test_leaving_early_leaves_the_port_free_for_the_next(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    async with opened as speak:
        for _ in range(3):
            async with speak(SpeechRequest(text=TEXT)) as events:
                async for event in events:
                    if isinstance(event, Frame):
                        break
        request = SpeechRequest(text="Fine.")
        check_stream(await hear(speak, request), request)


async def test_two_at_once_get_what_each_asked_for(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    texts = ["One two three. Four.", "Five."]
    heard: dict[str, Heard] = {}

    async with opened as speak:

        async def listen(text: str) -> None:
            heard[text] = await hear(speak, SpeechRequest(text=text))

        async with trio.open_nursery() as nursery:
            for text in texts:
                nursery.start_soon(listen, text)
    for text in texts:
        check_stream(heard[text], SpeechRequest(text=text))
