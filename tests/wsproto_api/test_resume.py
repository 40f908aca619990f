"""A connection that breaks, anywhere: the listener hears everything, once. Through a real network."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trio.testing import MockClock

from engine import config
from engine.config import Settings
from engine.errors import EngineError, NotReady, StreamCancelled, Unauthorized
from engine.request import (
    Done,
    Event,
    Flushed,
    Frame,
    LiveRequest,
    Notice,
    SegmentStart,
    SpeechRequest,
    Stream,
)
from tests.support.access import TOKEN
from tests.support.cutting import Cutting, MessageEnds, Place, cutting
from tests.support.tone import ToneVoice
from wsproto_api import messages
from wsproto_api.client import CONNECT_TIMEOUT_S, connect
from wsproto_api.speak import REPORT_S, WebSocketSpeak

from .serving import IDLE_S, Served, serving
from .test_client import CancelAtStep, living, nothing_is_left, steps

TEXT = "One two three. Four five."
LONG = "One two three four. " * 40
REQUEST = SpeechRequest(text=TEXT, marks=True)
LIVE = LiveRequest(marks=True, max_buffer_delay_ms=60_000)

#: what a writer says to a stream, in order: text, a flush by its name (None: without), the end
Said = str | tuple[str | None] | None
PIECES: tuple[Said, ...] = (
    "One tw", "o thr", "ee. Fo", ("first",), "", "ur five", (None,), (None,), " six. Se", "ven.", None,
)  # fmt: skip

#: how long a network is away, as a laptop that changes it
AWAY_S = 0.3
GRACE_S = 2.0


@asynccontextmanager
async def behind(
    settings: Settings, voice: ToneVoice | None = None, **changes: Any
) -> AsyncIterator[tuple[Served, Cutting]]:
    """A server, and the network before it."""
    async with cutting() as network:
        hosts = (f"127.0.0.1:{network.port}",)  # what clients say whom they come to
        async with serving(settings, voice, patience_s=600.0, hosts=hosts, **changes) as served:
            network.to_port = served.port
            yield served, network


def comparable(events: Sequence[Event]) -> list[Event]:
    """Without the stream's number, and what depends on when things came."""
    return [_comparable(event) for event in events]


def _comparable(event: Event) -> Event:
    match event:
        case messages.StreamOpened():  # a stream that is over belongs to nobody
            return replace(event, stream=0, owner=True)
        case messages.StreamDone():
            return replace(event, stream=0, ttfa_ms=None)
        case _ if hasattr(event, "stream"):
            return replace(event, stream=0)
        case _:
            return event


async def say(stream: Stream, said: Sequence[Said]) -> None:
    """Says all this to a stream."""
    for one in said:
        match one:
            case str():
                await stream.append(one)
            case None:
                await stream.end()
            case (name,):
                await stream.flush(name)


async def heard(
    network: Cutting, request: SpeechRequest | LiveRequest, said: Sequence[Said] = ()
) -> list[Event]:
    """All events, while somebody says all this; what can be compared of them."""
    events: list[Event] = []
    async with WebSocketSpeak(network.url, TOKEN)(request) as stream:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, stream, said)
            async for event in stream:
                events.append(event)
    return comparable(events)


# --- the network itself ---------------------------------------------------------------------


def frame(payload: bytes, *, opcode: int = 1, final: bool = True, mask: bool = False) -> bytes:
    head = bytes([opcode | (0x80 if final else 0)])
    masked = 0x80 if mask else 0
    if len(payload) < 126:
        head += bytes([masked | len(payload)])
    elif len(payload) < 65_536:
        head += bytes([masked | 126]) + len(payload).to_bytes(2, "big")
    else:
        head += bytes([masked | 127]) + len(payload).to_bytes(8, "big")
    return head + b"mask" * mask + payload


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1_000, 1_000_000])
def test_the_network_sees_where_messages_end(step: int) -> None:
    parts = [
        (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", False),
        (frame(b"{}"), True),
        (frame(b"", mask=True), True),
        (frame(b"ping", opcode=9), False),
        (frame(b"a" * 126, final=False), False),
        (frame(b"b" * 300, opcode=0, mask=True), True),
        (frame(b"c" * 70_000, opcode=2), True),
    ]
    data, ends = b"", []
    for part, counts in parts:
        data += part
        ends += [len(data)] * counts
    found, handshake, parser = [], 0, MessageEnds()
    for at in range(0, len(data), step):
        before, behind_ = parser.feed(data[at : at + step])
        handshake += before
        found += [at + end for end in behind_]
    assert (handshake, found) == (len(parts[0][0]), ends)


async def test_a_network_that_is_well_is_not_noticed(settings: Settings) -> None:
    async with behind(settings) as (served, network):
        direct = Cutting(served.port, served.port)
        assert await heard(network, REQUEST) == await heard(direct, REQUEST)
        assert network.passed["up"] == 1
        assert network.passed["down"] > 10
        assert (network.came, network.cuts) == (1, 0)
        await served.until(lambda: not network.links)


# --- nothing is lost, and nothing comes twice -----------------------------------------------


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(
    ("request_", "said"),
    [(SpeechRequest(text=LONG, marks=True), ()), (LIVE, (*(LONG[:200]), None))],
    ids=["one text", "pieces"],
)
async def test_a_network_that_is_away_for_a_moment_is_not_heard(
    settings: Settings,
    idle_clock: MockClock,
    request_: SpeechRequest | LiveRequest,
    said: Sequence[Said],
    reset: bool,
) -> None:
    # It makes little ahead, and so comes to rest while nobody follows.
    async with behind(settings, ToneVoice(rtf=0.5), max_lead_ms=1_000) as (served, network):
        whole = await heard(network, request_, said)
        cuts = 0

        async def cut_now_and_then() -> None:
            nonlocal cuts
            for apart_s in (0.1, 0.7, 0.01, 2.1, 0.3):
                await trio.sleep(apart_s)
                network.cut(reset=reset)
                network.refuse()
                await trio.sleep(AWAY_S)
                network.accept()
                cuts += 1

        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_now_and_then)
            assert await heard(network, request_, said) == whole
            nursery.cancel_scope.cancel()
        assert cuts >= 2
        await served.until(lambda: not served.server.clients)


#: of what is behind the last message that arrives: nothing, some of its head, some of its body
BYTES = (0, 1, 3, 30)


@pytest.mark.parametrize("more_bytes", BYTES)
async def test_a_cut_behind_any_message_to_the_client(
    settings: Settings, idle_clock: MockClock, more_bytes: int
) -> None:
    async with behind(settings, orphan_grace_ms=2_000) as (served, network):
        whole = await heard(network, REQUEST)
        assert [e for e in whole if isinstance(e, SegmentStart)]
        messages = network.passed["down"]
        assert messages > 20
        for n in range(messages):
            network.cut_after(Place("down", n, more_bytes))
            if n < 2:  # its `ack` did not come: it is not known whether it was accepted
                with pytest.raises(NotReady):
                    await heard(network, REQUEST)
            else:
                assert await heard(network, REQUEST) == whole, n
            assert network.cuts == n + 1
        await served.until(lambda: not served.server.clients)
        await trio.sleep(GRACE_S)
        await served.until(lambda: served.voice.active == 0)


@pytest.mark.parametrize("more_bytes", [*BYTES, 2_000])
async def test_a_cut_in_the_middle_of_a_frame(
    settings: Settings, idle_clock: MockClock, more_bytes: int
) -> None:
    async with behind(settings) as (_, network):
        whole = await heard(network, REQUEST)
        for n in (6, 7, 10):
            network.cut_after(*[Place("down", n, more_bytes)] * 3)
            assert await heard(network, REQUEST) == whole
        assert network.cuts == 9


@pytest.mark.parametrize("more_bytes", [0, 1, 9])
async def test_a_cut_behind_anything_that_is_said(
    settings: Settings, idle_clock: MockClock, more_bytes: int
) -> None:
    # With 0 what was said arrives, and its answer does not come back.
    async with behind(settings) as (served, network):
        whole = await heard(network, LIVE, PIECES)
        said = network.passed["up"]
        assert said == 1 + len(PIECES)
        flushed = [e.flush_id for e in whole if isinstance(e, Flushed)]
        assert flushed == ["first", None, None]
        for n in range(1, said + (not more_bytes)):
            network.cut_after(Place("up", n, more_bytes))
            if n == 1 and not more_bytes:
                with pytest.raises(NotReady):
                    await heard(network, LIVE, PIECES)
            else:
                assert await heard(network, LIVE, PIECES) == whole, n
        assert network.cuts >= said - 1
        await trio.sleep(GRACE_S)
        await served.until(lambda: served.voice.active == 0)


places = st.builds(
    Place,
    st.sampled_from(["down", "up"]),
    st.integers(0, 12),
    st.sampled_from([0, 1, 5, 40, 1_000]),
)


@given(cuts=st.lists(places, min_size=1, max_size=5), live=st.booleans(), rtf=st.booleans())
@example(cuts=[Place("down", 2)] * 4, live=True, rtf=False)
@example(cuts=[Place("up", 2)] * 4, live=True, rtf=True)
@hypothesis_settings(max_examples=40)
def test_cuts_at_any_places(cuts: list[Place], live: bool, rtf: bool) -> None:
    settings = quiet_settings()

    async def run() -> None:
        async with behind(settings, ToneVoice(rtf=0.3 * rtf)) as (_, network):
            request, said = (LIVE, PIECES) if live else (REQUEST, ())
            whole = await heard(network, request, said)
            network.cut_after(*cuts)
            try:
                got = await heard(network, request, said)
            except NotReady:
                # Refused before it was accepted; else it is taken up again, by and by.
                assert cuts[0].messages < 2
                return
            assert got == whole

    trio.run(run, clock=MockClock(autojump_threshold=IDLE_S))


def quiet_settings() -> Settings:
    """Defaults, for tests that cannot have the fixture."""
    return config.load({}, environ={}, file=Path("there-is-none.toml")).settings


async def test_a_network_that_stands_still_loses_nothing(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (_, network):
        whole = await heard(network, LIVE, PIECES)

        async def stand_still() -> None:
            for _ in range(3):
                await trio.sleep(0.1)
                network.hold()
                await trio.sleep(100.0)
                network.go_on()
            network.hold()
            await trio.sleep(0.3)
            network.cut()  # what it held is lost
            network.go_on()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand_still)
            assert await heard(network, LIVE, PIECES) == whole
        assert network.cuts == 1


async def test_what_is_said_while_the_network_is_away_is_said_later(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings) as (_, network):
        whole = await heard(network, LIVE, PIECES)
        async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
            events = [await anext(stream)]
            network.refuse()
            network.cut()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(say, stream, PIECES)
                await trio.sleep(1.0)
                network.accept()
                events += [event async for event in stream]
        assert comparable(events) == whole


async def test_a_pause_between_two_cuts_may_be_long(
    settings: Settings, idle_clock: MockClock
) -> None:
    # Whoever writes thinks; nothing is to be heard for so long that the first cut is history.
    async with behind(settings) as (_, network):
        whole = await heard(network, LIVE, PIECES)
        async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
            events = [await anext(stream)]
            for _ in range(4):
                network.cut()
                await trio.sleep(60.0)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(say, stream, PIECES)
                events += [event async for event in stream]
        assert comparable(events) == whole
        assert network.cuts == 4


async def test_a_listener_that_does_not_listen_can_still_say_something(
    settings: Settings, idle_clock: MockClock
) -> None:
    # The answers are behind events that it takes later.
    async with behind(settings) as (_, network):
        whole = await heard(network, LIVE, PIECES)
        async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
            for n, said in enumerate(PIECES):
                await say(stream, [said])
                if n in {2, 5}:
                    network.cut()
            events = [event async for event in stream]
        assert comparable(events) == whole


async def test_of_how_far_the_listener_is_the_last_is_told_and_not_too_often(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=1.0)
    async with behind(settings, voice) as (_, network):
        async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
            while not isinstance(await anext(stream), Frame):
                pass
            for sample in range(100):
                stream.heard(sample, playing=True)
            await trio.sleep(2 * REPORT_S)
            assert voice.heard == [(99, True)]
            began = trio.current_time()
            for sample in range(100):
                stream.heard(sample, playing=sample < 99)
                await trio.sleep(REPORT_S / 10)
            passed_s = trio.current_time() - began
            await trio.sleep(2 * REPORT_S)
            assert voice.heard[-1] == (99, False)
            assert 5 < len(voice.heard) <= 2 + passed_s / REPORT_S + 1


async def test_how_far_the_listener_is_does_not_outlast_a_stream_or_break_one(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.1)
    async with behind(settings, voice) as (_, network):
        whole = await heard(network, REQUEST)
        async with WebSocketSpeak(network.url, TOKEN)(REQUEST) as stream:
            events = [await anext(stream)]
            stream.heard(10**9, playing=True)  # what was never made
            network.refuse()
            network.cut()
            stream.heard(0, playing=False)
            await trio.sleep(1.0)
            network.accept()
            events += [event async for event in stream]
            stream.heard(0, playing=True)
            await trio.sleep(2 * REPORT_S)
        assert [event for event in comparable(events) if not isinstance(event, Notice)] == whole
        assert (10**9, True) not in voice.heard


@pytest.mark.parametrize("breaks", [False, True])
async def test_an_end_that_is_on_its_way_at_the_end_is_no_error(
    settings: Settings, idle_clock: MockClock, breaks: bool
) -> None:
    async with behind(settings) as (_, network):
        ended = 0

        async def end(stream: Stream) -> None:
            nonlocal ended
            await stream.end()
            ended += 1

        async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
            await stream.append("One two.")
            await stream.flush()
            while not isinstance(await anext(stream), Flushed):
                pass
            if breaks:
                network.cut_after(Place("up", 1))  # it arrives, and nobody is told
            async with trio.open_nursery() as nursery:
                for _ in range(3):  # the stream is over when the second one arrives
                    nursery.start_soon(end, stream)
                events = [event async for event in stream]
            await stream.end()
        assert isinstance(events[-1], Done)
        assert ended == 3


async def test_a_server_that_is_full_for_a_moment_is_tried_again(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings, ToneVoice(rtf=0.5), connections=1) as (served, network):
        whole = await heard(network, REQUEST)

        async def sit_there() -> None:
            network.refuse()
            network.cut()
            await served.until(lambda: not served.server.clients)
            async with served.client():
                network.accept()
                await trio.sleep(1.0)
                assert network.came > 3

        async with WebSocketSpeak(network.url, TOKEN)(REQUEST) as stream:
            events = [await anext(stream)]
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sit_there)
                events += [event async for event in stream]
        assert comparable(events) == whole


# --- what cannot be taken up again ----------------------------------------------------------


async def first_frame(stream: Stream) -> None:
    """Listens up to it."""
    while not isinstance(await anext(stream), Frame):
        pass


async def ends_with(stream: Stream, error: type[EngineError]) -> tuple[EngineError, float]:
    """The error with which it ends, and how long that took."""
    began_s = trio.current_time()
    with pytest.raises(error) as caught:
        async for _ in stream:
            pass
    assert type(caught.value) is error
    return caught.value, trio.current_time() - began_s


async def test_an_engine_that_was_started_anew(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (served, network):
        hosts = (f"127.0.0.1:{network.port}",)
        async with serving(settings, hosts=hosts) as other:
            async with other.client() as wire:  # it has a stream of the same number
                await wire.speak(LONG)
                async with WebSocketSpeak(network.url, TOKEN)(REQUEST) as stream:
                    await first_frame(stream)
                    network.to_port = other.port
                    network.cut()
                    error, took_s = await ends_with(stream, NotReady)
                    with pytest.raises(EngineError, match="over"):
                        await stream.append("More.")
        assert error.message == "The engine was started anew; what it was speaking is lost."
        assert took_s < 0.1
        await served.until(lambda: not served.server.clients)


async def test_an_engine_that_was_started_anew_and_has_another_token(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (_, network):
        speak = WebSocketSpeak(network.url, TOKEN)
        async with speak(REQUEST) as stream:
            await first_frame(stream)
            other = partial(connect, network.url, token="x", limit_s=1.0)
            stream._connect = other  # type: ignore[attr-defined]  # of the remote stream
            network.cut()
            _, took_s = await ends_with(stream, Unauthorized)
        assert took_s < 0.1


async def test_an_engine_that_is_gone(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (served, network):
        async with WebSocketSpeak(network.url, TOKEN)(REQUEST) as stream:
            await first_frame(stream)
            network.cut()  # as a process that is killed does
            await served.stop()
            _, took_s = await ends_with(stream, NotReady)
        assert took_s <= GRACE_S


async def test_a_network_that_is_away_for_too_long(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (served, network):
        async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
            await first_frame(stream)
            network.refuse()
            network.cut()
            cut_s = trio.current_time()
            error, took_s = await ends_with(stream, NotReady)
        assert error.message.endswith(".")
        assert GRACE_S - 0.5 <= took_s <= GRACE_S
        assert await ended_s(served) - cut_s == pytest.approx(GRACE_S, abs=0.1)
        assert network.came < 12, "it does not try all the time"


async def test_a_network_that_answers_too_late(settings: Settings, idle_clock: MockClock) -> None:
    # The connection is made, and then nothing comes; when it does, the stream is over.
    async with behind(settings, ToneVoice(rtf=0.5)) as (_, network):
        async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
            await first_frame(stream)
            network.hold()
            network.cut()
            async with trio.open_nursery() as nursery:

                async def go_on_later() -> None:
                    await trio.sleep(GRACE_S + 1.0)
                    network.go_on()

                nursery.start_soon(go_on_later)
                error, took_s = await ends_with(stream, NotReady)
        assert error.message == "The connection to the engine was lost for too long."
        assert took_s == pytest.approx(GRACE_S + 1.0, abs=0.1)


async def test_a_network_that_never_answers(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (_, network):
        async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
            await first_frame(stream)
            network.hold()
            network.cut()
            _, took_s = await ends_with(stream, NotReady)
        assert took_s <= GRACE_S + CONNECT_TIMEOUT_S


async def test_a_network_that_breaks_each_time(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=1000)) as (_, network):
        async with WebSocketSpeak(network.url, TOKEN)(REQUEST) as stream:
            await anext(stream)
            network.cut_after(*[Place("down", 3)] * 100)
            network.cut()
            _, took_s = await ends_with(stream, NotReady)
        assert took_s <= GRACE_S
        assert network.came < 12


async def test_without_grace_nothing_is_taken_up(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=0.5), orphan_grace_ms=0) as (served, network):
        async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
            await first_frame(stream)
            network.cut()
            cut_s = trio.current_time()
            _, took_s = await ends_with(stream, NotReady)
        assert took_s < 0.1
        assert await ended_s(served) - cut_s < 0.1


async def test_a_stream_that_somebody_cancels_after_a_cut_is_cancelled(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (served, network):
        async with served.client() as other:
            async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
                await anext(stream)
                network.cut()
                await trio.sleep(10.0)
                await other.ask("cancel", stream=1)
                await ends_with(stream, StreamCancelled)


# --- when streams end in the engine ---------------------------------------------------------


async def ended_s(served: Served) -> float:
    """When the voice has nothing more to do; to a tick."""
    with trio.move_on_after(100.0):
        while served.voice.active:  # noqa: ASYNC110 - it has no event
            await trio.sleep(0.01)
        return trio.current_time()
    pytest.fail("it goes on")


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(
    ("leaving", "lives_s"),
    [("goodbye", 0.0), ("cut", GRACE_S), ("reset", GRACE_S), ("1001", 0.0), ("1011", GRACE_S)],
)
async def test_a_stream_outlives_a_break_and_not_a_goodbye(
    settings: Settings, idle_clock: MockClock, live: bool, leaving: str, lives_s: float
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), patience_s=1_000.0) as served:
        async with served.client() as owner:
            await (owner.ask("open") if live else owner.ask("speak", text=TEXT))
            await owner.until("stream.opened")
            left_s = trio.current_time()
            match leaving:
                case "cut" | "reset":
                    await owner.drop()
                case "goodbye":
                    await owner.websocket.aclose()
                case code:
                    await owner.websocket.aclose(int(code))
            assert await ended_s(served) - left_s == pytest.approx(lives_s, abs=0.1)


@pytest.mark.parametrize("politely", [True, False])
async def test_who_follows_hears_the_end_though_the_owner_is_gone(
    settings: Settings, idle_clock: MockClock, politely: bool
) -> None:
    async with serving(settings, ToneVoice(rtf=10), patience_s=1_000.0) as served:
        async with served.client() as owner, served.client() as ear:
            number = await owner.speak(TEXT)
            await ear.ask("subscribe", stream=number)
            await (owner.websocket.aclose() if politely else owner.drop())
            await ear.until("stream.done")
            assert trio.current_time() > 5 * GRACE_S
            assert ear.messages("stream.opened")[0]["owner"] is False


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize("goodbye", [True, False])
async def test_who_subscribes_to_an_orphan_by_its_number_owns_it(
    settings: Settings, idle_clock: MockClock, goodbye: bool, live: bool
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), patience_s=1_000.0) as served:
        async with served.client() as owner:
            answer = await (owner.ask("open") if live else owner.ask("speak", text=TEXT))
            await owner.drop()
            await served.until(lambda: not served.server.clients)
        async with served.client() as heir:
            await trio.sleep(GRACE_S / 2)
            await heir.ask("subscribe", stream=answer["stream"])
            opened = await heir.until("stream.opened")
            assert opened["owner"] is True
            await trio.sleep(10 * GRACE_S)
            assert served.voice.active == 1
            left_s = trio.current_time()
            await (heir.websocket.aclose() if goodbye else heir.drop())
            lived_s = await ended_s(served) - left_s
            assert lived_s == pytest.approx(0.0 if goodbye else GRACE_S, abs=0.1)


async def test_who_has_heard_all_that_was_made_is_waited_for_no_longer(
    settings: Settings, idle_clock: MockClock
) -> None:
    # It comes to rest while nobody follows; who comes back has nothing to read, and moves it on.
    async with serving(settings, patience_s=1_000.0, max_lead_ms=1_000) as served:
        async with served.client() as wire:
            number = await wire.speak(LONG)
            await wire.ask("unsubscribe", stream=number)
            live = served.server.streams.find(number)
            assert live is not None
            await trio.sleep(1.0)
            made = live.log.next_seq
            await trio.sleep(100.0)
            assert live.log.next_seq == made, "it is at rest"
            wire.seen.clear()
            await wire.ask("subscribe", stream=number, from_seq=made)
            await wire.until("stream.done")
            assert wire.frames(number)[0].seq == made


async def test_who_follows_all_does_not_own_an_orphan(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), patience_s=1_000.0) as served:
        async with served.client() as owner:
            await owner.speak(TEXT)
            await owner.drop()
            await served.until(lambda: not served.server.clients)
        async with served.client() as ear, served.client() as heir:
            await ear.ask("subscribe", stream="*")
            assert (await ear.until("stream.opened"))["owner"] is False
            await heir.ask("subscribe", stream=1)
            assert (await heir.until("stream.opened"))["owner"] is True
            await heir.websocket.aclose()
            await trio.sleep(10 * GRACE_S)
            assert served.voice.active == 1, "somebody still follows"
            left_s = trio.current_time()
            await ear.drop()
            assert await ended_s(served) - left_s == pytest.approx(GRACE_S, abs=0.1)


# --- leaving --------------------------------------------------------------------------------


async def test_leaving_while_the_network_is_away(settings: Settings, idle_clock: MockClock) -> None:
    async with behind(settings, ToneVoice(rtf=0.5)) as (served, network):
        for away_s in (0.0, 0.01, 0.2, 1.0):
            async with WebSocketSpeak(network.url, TOKEN)(SpeechRequest(text=LONG)) as stream:
                await first_frame(stream)
                network.refuse()
                network.cut()
                cut_s = trio.current_time()
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(anext, stream)
                    await trio.sleep(away_s)
                    nursery.cancel_scope.cancel()
                left_s = trio.current_time()
            assert trio.current_time() - left_s < 0.01
            assert await ended_s(served) - cut_s == pytest.approx(GRACE_S, abs=0.1)
            network.accept()


async def test_a_writer_is_told_that_the_stream_was_left(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with behind(settings) as (_, network):
        said: list[str] = []

        async def write(stream: Stream) -> None:
            with suppress(EngineError):
                await stream.append("One. ")
            said.append("told")
            await stream.end()

        async with trio.open_nursery() as nursery:
            async with WebSocketSpeak(network.url, TOKEN)(LIVE) as stream:
                network.refuse()
                network.cut()
                nursery.start_soon(write, stream)
                await trio.sleep(0.5)
                assert said == []
        assert said == ["told"]


@pytest.mark.parametrize("breaks", [False, True])
async def test_cancelling_at_any_moment_while_text_is_said_leaves_nothing(
    settings: Settings, idle_clock: MockClock, breaks: bool
) -> None:
    said = ("One two. ", "Thr", (None,), "ee four. Five.", None)
    async with behind(settings) as (served, network):
        before = living()
        done = False
        for step in steps():
            if breaks:
                network.cut_after(Place("up", 3), Place("down", 6))
            events: list[Event] = []
            with trio.CancelScope() as scope:
                at_step = CancelAtStep(trio.lowlevel.current_task(), scope, step)
                trio.lowlevel.add_instrument(at_step)
                try:
                    events = await heard(network, LIVE, said)
                finally:
                    trio.lowlevel.remove_instrument(at_step)
            network.cut_nowhere()
            await trio.sleep(GRACE_S + 0.1)
            assert not network.links
            await nothing_is_left(served, before)
            if events and not scope.cancelled_caught:
                done = True
                break
        assert done, "it never came to its end: more steps are needed"
        assert step > 20
        assert isinstance(events[-1], Done)
