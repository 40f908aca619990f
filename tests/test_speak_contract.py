"""The rules of `engine.request.SpeakLive`, held against all three implementations.

The engine in this process, the WebSocket client in front of a server, and the fake voice of the
tests must be the same to whoever uses them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise

import pytest
import trio
from msgspec.structs import replace

from engine.config import Settings
from engine.errors import InvalidRequest, UnknownVoice
from engine.process import address, open_listeners
from engine.request import (
    Done,
    Event,
    Flushed,
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
from engine.service import KokoroService
from tests.support.access import TOKEN
from tests.support.reading import Heard, check_stream, hear
from tests.support.tone import ToneVoice
from wsproto_api.server import EngineServer
from wsproto_api.speak import WebSocketSpeak

#: three segments, whatever the implementation puts together
TEXT = "  One two.\n\nThree four five! \n\n Is it six? "
#: … in half the time, which is half the work
FAST = 2.0
WORDS = ["One", "two", "Three", "four", "five", "Is", "it", "six"]


@asynccontextmanager
async def over_websocket(
    voice: ToneVoice | KokoroService, settings: Settings
) -> AsyncIterator[SpeakLive]:
    # What it says of itself is no part of the contract.
    server = EngineServer(voice, ToneVoice(), settings, TOKEN)
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(server.serve, listeners)
        yield WebSocketSpeak(address("ws", listeners) + "/", TOKEN)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def itself(speak: SpeakLive) -> AsyncIterator[SpeakLive]:
    yield speak


@pytest.fixture(params=["fake", "fake over WebSocket", "engine", "engine over WebSocket"])
def opened(
    request: pytest.FixtureRequest, settings: Settings
) -> AbstractAsyncContextManager[SpeakLive]:
    """The implementation, to be entered by the test (it may run tasks)."""
    voice: ToneVoice | KokoroService = (
        ToneVoice() if request.param.startswith("fake") else request.getfixturevalue("real_service")
    )
    if request.param.endswith("WebSocket"):
        return over_websocket(voice, settings)
    return itself(voice)


async def test_a_stream_from_opened_to_done(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        request = SpeechRequest(text=TEXT, speed=FAST, key="mine")
        heard = await hear(speak, request)
    check_stream(heard, request)
    first = heard.events[0]
    assert isinstance(first, Opened)
    assert (first.voice, first.lang, first.speed, first.key) == ("af_heart", "en-us", FAST, "mine")
    assert heard.done.segments == 3


async def test_marks_tell_where_the_words_are(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    request = SpeechRequest(text=TEXT, speed=FAST, marks=True)
    async with opened as speak:
        heard = await hear(speak, request)
    check_stream(heard, request)
    marks = heard.of(Marks)
    assert [mark.index for mark in marks] == [0, 1, 2]
    words = [TEXT[word.char_start : word.char_end] for mark in marks for word in mark.words]
    assert [word.strip("!?.") for word in words] == WORDS
    assert all(word.samples > 0 for mark in marks for word in mark.words)


async def test_what_nobody_listens_to_while_it_is_made_is_the_same_stream(
    opened: AbstractAsyncContextManager[SpeakLive],
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
    opened: AbstractAsyncContextManager[SpeakLive],
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
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        for _ in range(3):
            async with speak(SpeechRequest(text=TEXT, speed=FAST)) as events:
                async for event in events:
                    if isinstance(event, Frame):
                        break
        request = SpeechRequest(text="Fine.")
        check_stream(await hear(speak, request), request)


async def test_two_at_once_get_what_each_asked_for(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    texts = ["One two three. Four.", "Five."]
    heard: dict[str, Heard] = {}

    async with opened as speak:

        async def listen(text: str) -> None:
            heard[text] = await hear(speak, SpeechRequest(text=text, speed=FAST))

        async with trio.open_nursery() as nursery:
            for text in texts:
                nursery.start_soon(listen, text)
    for text in texts:
        check_stream(heard[text], SpeechRequest(text=text, speed=FAST))


# --- text in pieces -------------------------------------------------------------------------

#: of a text that nobody listens to while it is made, the sound does not depend on the time it takes
WHOLE = SpeechRequest(text=TEXT, speed=FAST, marks=True, priority="batch", key="mine")
PIECES = LiveRequest(
    speed=FAST, marks=True, priority="batch", key="mine", max_buffer_delay_ms=60_000
)


async def say(stream: Stream, pieces: Sequence[str]) -> None:
    """Says all of the text."""
    for piece in pieces:
        await stream.append(piece)
    await stream.end()


def comparable(events: Sequence[Event]) -> list[Event]:
    """Without the stream's number, and what depends on when things were said and done."""
    found: list[Event] = []
    for event in events:
        match event:
            case SegmentDone():
                event = replace(event, compute_ms=0.0, predicted_ms_left=None)
            case Done():
                event = replace(event, ttfa_ms=None)
            case _:
                pass
        found.append(replace(event, stream=0) if hasattr(event, "stream") else event)
    return found


async def test_text_in_pieces_is_the_same_stream(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    edges = [*range(0, len(TEXT), 3), len(TEXT)]
    pieces = [TEXT[a:b] for a, b in pairwise(edges)]
    async with opened as speak:
        whole = await hear(speak, WHOLE)
        heard = Heard()
        async with speak(PIECES) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(say, stream, pieces)
            async for event in stream:
                heard.events.append(event)
    check_stream(heard, WHOLE)
    assert comparable(heard.events) == comparable(whole.events)
    assert heard.pcm == whole.pcm != b""


async def test_text_may_be_said_before_anybody_listens(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        async with speak(PIECES) as stream:
            await say(stream, [TEXT[:10], "", TEXT[10:]])
            heard = Heard([event async for event in stream])
    check_stream(heard, WHOLE)
    assert heard.done.segments == 3


async def test_a_flush_ends_a_sentence_and_is_told_behind_it(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        async with speak(PIECES) as stream:
            await stream.append("One two")
            await stream.flush("first")
            early: list[Event] = []
            while not (early and isinstance(early[-1], Flushed)):
                early.append(await anext(stream))
            await stream.append(" three.")
            await stream.flush()
            await stream.end()
            late = [event async for event in stream]
    heard = Heard(early + late)
    check_stream(heard, SpeechRequest(text="One two three.", marks=True))
    assert [start.text for start in heard.of(SegmentStart)] == ["One two", "three."]
    assert [flushed.flush_id for flushed in heard.of(Flushed)] == ["first", None]
    assert isinstance(early[-2], SegmentDone)
    assert late.index(heard.of(SegmentDone)[1]) < late.index(heard.of(Flushed)[1])


async def test_another_speed_from_the_next_segment_on(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    sentence = "One two three four five."
    async with opened as speak:
        async with speak(replace(PIECES, speed=1.0)) as stream:
            await stream.append(sentence)
            await stream.flush()
            heard = Heard()
            while not heard.of(Flushed):
                heard.events.append(await anext(stream))
            with pytest.raises(UnknownVoice):
                await stream.configure(voice="nobody", speed=0.5)
            await stream.configure(speed=2.0)
            await stream.append("\n\n" + sentence)
            await stream.end()
            heard.events += [event async for event in stream]
    first, second = (done.samples for done in heard.of(SegmentDone))
    assert second < 0.8 * first
    assert heard.of(Opened)[0].speed == 1.0


async def test_a_listener_may_tell_how_far_he_is_at_any_time(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    request = replace(WHOLE, priority="live")
    async with opened as speak:
        whole = await hear(speak, request)
        heard = Heard()
        async with speak(request) as stream:
            stream.heard(0, playing=False)
            async for event in stream:
                heard.events.append(event)
                stream.heard(10**9, playing=True)  # which cannot be
                if isinstance(event, Frame):
                    stream.heard(event.sample, playing=event.seq % 3 == 0)
            stream.heard(heard.done.samples, playing=False)
    spoken = Heard([event for event in heard.events if not isinstance(event, Notice)])
    check_stream(spoken, request)
    assert [s.text for s in spoken.of(SegmentStart)] == [s.text for s in whole.of(SegmentStart)]


async def test_after_the_end_nothing_more_can_be_said(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        async with speak(PIECES) as stream:
            await stream.append("Fine.")
            await stream.end()
            await stream.end()
            with pytest.raises(InvalidRequest):
                await stream.append("More.")
            with pytest.raises(InvalidRequest):
                await stream.flush()
            heard = Heard([event async for event in stream])
            with pytest.raises(InvalidRequest):
                await stream.append("More.")
            await stream.end()
        check_stream(heard, SpeechRequest(text="Fine.", marks=True))
        async with speak(SpeechRequest(text="Fine.")) as stream:
            with pytest.raises(InvalidRequest):
                await stream.append("More.")
            await stream.end()


async def test_leaving_a_text_that_is_not_complete(
    opened: AbstractAsyncContextManager[SpeakLive],
) -> None:
    async with opened as speak:
        for said in ((), ("One tw",), ("One two. Thr",)):
            async with speak(PIECES) as stream:
                for piece in said:
                    await stream.append(piece)
                assert isinstance(await anext(stream), Opened)
        with pytest.raises(UnknownVoice):
            async with speak(LiveRequest(voice="nobody")):
                pytest.fail("it was accepted")
        request = SpeechRequest(text="Fine.")
        check_stream(await hear(speak, request), request)
