"""Streams without an owner, and what may be said to a stream twice."""

from __future__ import annotations

import json

import pytest
import trio.testing
from msgspec.structs import replace
from trio.testing import MockClock

from engine.config import Settings
from engine.request import Frame, SegmentStart
from wsproto_api import messages
from wsproto_api.errors import LocalProtocolError, RemoteProtocolError
from wsproto_api.messages import StreamFrame
from wsproto_api.session import Role, Session
from wsproto_api.streams import IDLE_S

from .serving import Wire, serving


async def opened(wire: Wire) -> int:
    answer = await wire.ask("open")
    assert answer["type"] == "ack"
    return int(answer["stream"])


@pytest.mark.parametrize("politely", [True, False])
async def test_live_text_whose_owner_is_gone_ends_for_those_who_follow(
    settings: Settings, politely: bool
) -> None:
    async with serving(settings, orphan_grace_ms=0) as served, served.client() as ear:
        await ear.ask("subscribe", stream="*")
        async with served.client() as owner:
            number = await opened(owner)
            await owner.ask("append", stream=number, text="One two. Three")
            await ear.until("segment.done", stream=number)
            if politely:
                await owner.websocket.aclose()
        done = await ear.until("stream.done", stream=number)
        assert (done["segments"], done["chars"]) == (2, 14)
        await served.until(lambda: served.voice.active == 0)


async def test_many_that_vanish_do_not_take_all_places(settings: Settings) -> None:
    async with serving(settings, orphan_grace_ms=0, streams=3) as served:
        async with served.client() as ear:
            await ear.ask("subscribe", stream="*")
            async with served.client() as owner:
                for _ in range(3):
                    await opened(owner)
                assert (await ear.ask("speak", text="Hi."))["code"] == "overloaded"
            await served.until(lambda: not served.server.streams.live)
            assert (await ear.ask("speak", text="Hi."))["type"] == "ack"


async def test_a_stream_that_is_kept_does_not_keep_its_owner(settings: Settings) -> None:
    async with serving(settings) as served:
        async with served.client() as owner:
            numbers = []
            for _ in range(3):
                numbers.append(await owner.speak("Hi."))
                await owner.until("stream.done")
            streams = [served.server.streams.find(number) for number in numbers]
            assert {live.owner for live in streams if live is not None} == served.server.clients
        await served.until(lambda: not served.server.clients)
        await served.until(lambda: all(live is not None and live.owner is None for live in streams))


async def test_a_stream_to_which_nobody_says_anything_ends(
    settings: Settings, mock_clock: MockClock
) -> None:
    async with serving(settings, patience_s=10 * IDLE_S) as served, served.client() as wire:
        silent, spoken_to = await opened(wire), await opened(wire)
        await wire.ask("append", stream=silent, text="One two")
        for _ in range(12):
            await wire.ask("append", stream=spoken_to, text="three ")
            mock_clock.jump(IDLE_S / 10)
            await trio.testing.wait_all_tasks_blocked(0.01)
        await wire.ask("ping")
        (done,) = wire.messages("stream.done")
        assert (done["stream"], done["chars"]) == (silent, 7)
        assert [live.log.number for live in served.server.streams.live] == [spoken_to]
        await wire.ask("cancel", stream=spoken_to)  # time stands still: nobody is to wait for it
        await wire.until("stream.cancelled")


async def test_a_piece_said_again_must_be_the_same(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as owner, served.client() as other:
        number = await opened(owner)
        said = [
            (owner, 0, "abc ", "ack"),
            (owner, 0, "abc ", "ack"),
            (other, 2, "c def", "ack"),
            (owner, 4, "DEF", "error"),
            (owner, 0, "abc def", "ack"),
            (owner, 8, "g", "error"),
            (owner, 7, " ghi.", "ack"),
        ]
        for wire, at, text, answer in said:
            found = await wire.ask("append", stream=number, text=text, at=at)
            assert (at, text, found["type"]) == (at, text, answer)
            if answer == "error":
                assert (found["code"], found["param"]) == ("invalid_value", "at")
        await owner.ask("end", stream=number)
        await owner.until("stream.done")
        texts = [m["text"] for m in owner.messages("segment")]
        assert texts == ["abc def ghi."]


async def test_a_flush_said_again_is_one_flush(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        for flush_id in ("one", "one", "two", "one"):
            await wire.ask("flush", stream=number, flush_id=flush_id)
        await wire.ask("append", stream=number, text="Hi")
        await wire.ask("flush", stream=number, flush_id="one")
        await wire.ask("end", stream=number)
        await wire.until("stream.done")
        assert [m["flush_id"] for m in wire.messages("flushed")] == ["one", "two", "one", "one"]


@pytest.mark.parametrize("field", ["id", "key", "flush_id"])
def test_names_that_would_not_fit_our_messages_are_refused(field: str) -> None:
    kinds = {"id": "ping", "key": "speak", "flush_id": "flush"}
    body = {"type": kinds[field], "text": "", "stream": 1}
    for length, fits in ((256, True), (257, False)):
        text = json.dumps(body | {field: "x" * length})
        try:
            messages.decode(text, messages.ENGINE_CLIENT)
        except RemoteProtocolError as error:
            assert not fits
            assert (error.code, error.param, error.reply_to) == ("bad_message", field, None)
        else:
            assert fits


def test_what_is_not_spoken_does_not_make_a_segment_too_long_to_tell() -> None:
    start = SegmentStart(index=0, text="🎧" * 60_000, char_start=0, char_end=60_000, sample=0)
    told = messages.of_stream(start, 1)
    assert isinstance(told, messages.Segment)
    assert (told.text, told.char_end) == ("🎧" * 4_000, 60_000)
    short = replace(start, text="Hi.")
    told = messages.of_stream(short, 1)
    assert isinstance(told, messages.Segment)
    assert told.text == "Hi."


def test_no_message_is_longer_than_the_other_end_takes() -> None:
    client = Session(Role.CLIENT, client=messages.ENGINE_CLIENT, server=messages.ENGINE_SERVER)
    with pytest.raises(LocalProtocolError):
        client.send(messages.Speak(text="x" * 65_536))
    server = Session(Role.SERVER, client=messages.ENGINE_CLIENT, server=messages.ENGINE_SERVER)
    with pytest.raises(LocalProtocolError):
        server.send(StreamFrame(1, Frame(seq=0, sample=0, pcm=bytes(65_536))))
