"""The rules of `engine.request.Speak`, held against all three implementations.

The engine in this process, the WebSocket client in front of a server, and the fake voice of the
tests must be the same to whoever uses them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import pairwise

import pytest
import trio

from engine.config import Settings
from engine.errors import InvalidRequest, UnknownVoice
from engine.process import address, open_listeners
from engine.request import (
    Done,
    Event,
    Frame,
    Opened,
    SegmentDone,
    SegmentStart,
    Speak,
    SpeechRequest,
)
from engine.service import KokoroService
from tests.support.reading import Heard, hear
from tests.support.tone import ToneVoice
from wsproto_api.client import WebSocketSpeak
from wsproto_api.server import EngineServer

TEXT = "  One two.  Three four five! Is it six? "


@asynccontextmanager
async def over_websocket(
    voice: ToneVoice | KokoroService, settings: Settings
) -> AsyncIterator[Speak]:
    server = EngineServer(voice, voice, settings)
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(server.serve, listeners)
        yield WebSocketSpeak(address("ws", listeners) + "/")
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
        heard = await hear(speak, SpeechRequest(text=TEXT, speed=1.5, key="mine"))
    check_stream(heard, TEXT)
    first = heard.events[0]
    assert isinstance(first, Opened)
    assert (first.voice, first.lang, first.speed, first.key) == ("af_heart", "en-us", 1.5, "mine")
    assert heard.of(Done)[0].segments == 3


def check_stream(heard: Heard, text: str) -> None:
    """Rules 1 to 4 of the port."""
    events = heard.events
    assert isinstance(events[0], Opened)
    assert isinstance(events[-1], Done)
    assert len(heard.of(Opened)) == len(heard.of(Done)) == 1

    frames = heard.of(Frame)
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    assert all(a.sample + a.samples == b.sample for a, b in pairwise(frames))
    assert [frame.first for frame in frames] == [n == 0 for n in range(len(frames))]
    assert [frame.last for frame in frames] == [n == len(frames) - 1 for n in range(len(frames))]
    assert not any(frame.discontinuity for frame in frames)

    starts, dones, done = heard.of(SegmentStart), heard.of(SegmentDone), heard.of(Done)[0]
    assert [s.index for s in starts] == [d.index for d in dones] == list(range(done.segments))
    check_segments(events)
    assert sum(d.samples for d in dones) == done.samples == frames[-1].sample
    assert done.audio_ms == pytest.approx(done.samples / 24)
    assert done.chars == len(text)

    for start in starts:
        assert start.text == text[start.char_start : start.char_end]
    assert all(a.char_end <= b.char_start for a, b in pairwise(starts))
    boundaries = {start.sample for start in starts} | {done.samples}
    for frame in frames:
        inside = {b for b in boundaries if frame.sample < b < frame.sample + frame.samples}
        assert not inside, "a frame holds samples of two segments"
        assert frame.samples == 1200 or frame.sample + frame.samples in boundaries


def check_segments(events: list[Event]) -> None:
    """A start, its frames, its end; then the next. Only the empty last frame stands outside."""
    inside: SegmentStart | None = None
    for event in events:
        match event:
            case SegmentStart():
                assert inside is None
                inside = event
                expected_first = True
            case Frame() if event.samples:
                assert inside is not None
                assert event.segment_first is expected_first
                assert not expected_first or event.sample == inside.sample
                expected_first = False
            case SegmentDone():
                assert inside is not None
                assert event.index == inside.index
                inside = None
            case _:
                pass
    assert inside is None


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
        assert heard.of(Done)[0].samples > 0


async def test_leaving_early_leaves_the_port_free_for_the_next(
    opened: AbstractAsyncContextManager[Speak],
) -> None:
    async with opened as speak:
        for _ in range(3):
            async with speak(SpeechRequest(text=TEXT)) as events:
                async for event in events:
                    if isinstance(event, Frame):
                        break
        check_stream(await hear(speak, SpeechRequest(text="Fine.")), "Fine.")


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
        check_stream(heard[text], text)
