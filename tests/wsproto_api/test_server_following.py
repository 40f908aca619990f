"""Streams and those who follow them, over real sockets: replay, slow readers, orphans."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import cast

import pytest
import trio
import trio.testing

from engine.config import Settings
from engine.errors import SynthesisFailed
from engine.request import Done, Event, Frame, LiveRequest, Opened, SpeechRequest, Stream
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice, told
from wsproto_api.messages import StreamFrame
from wsproto_api.peer import Peer
from wsproto_api.server import EngineServer
from wsproto_api.stream import StreamLog
from wsproto_api.streams import FINISHED_KEPT, LiveStream

from .serving import Served, Wire, serving

TEXT = "One two three. Four five."
#: 110 s of audio in segments of 1.1 s, 5 MB: more than sockets take by themselves
LONG = "One two three four. " * 100
SEGMENT = 26_400  # samples of one of these


async def nothing() -> AsyncIterator[Event]:
    """No events."""
    events: list[Event] = []
    for event in events:
        yield event


class Gated(ToneVoice):
    """Makes a segment whenever the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = trio.Semaphore(0)

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        async with super().__call__(request) as events:
            yield told(self._gated(events))

    async def _gated(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
        async for event in events:
            yield event
            if type(event).__name__ in {"Opened", "SegmentDone"}:
                await self.gate.acquire()

    def open(self, segments: int = 1) -> None:
        for _ in range(segments):
            self.gate.release()


# --- subscribing ----------------------------------------------------------------------------


async def test_a_follower_hears_what_the_owner_hears_from_the_start(settings: Settings) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as owner, served.client() as other:
            number = await owner.speak(TEXT)
            cast(Gated, served.voice).open()
            await owner.until("segment.done")
            answer = await other.ask("subscribe", stream=number)
            assert (answer["type"], answer["stream"]) == ("ack", number)
            cast(Gated, served.voice).open(3)
            for wire in (owner, other):
                await wire.until("stream.done")
            assert other.frames(number) == owner.frames(number) != []
            assert other.order(number) == owner.order(number)
            assert other.messages("stream.opened")[0]["owner"] is False
            assert owner.messages("stream.opened")[0]["owner"] is True


async def test_a_late_follower_of_a_finished_stream_hears_all_of_it(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as owner:
        number = await owner.speak(TEXT)
        await owner.until("stream.done")
        async with served.client() as late:
            assert (await late.ask("subscribe", stream=number))["type"] == "ack"
            await late.until("stream.done")
            assert late.frames(number) == owner.frames(number)
        # and so does the owner, once more
        await owner.ask("subscribe", stream=number)
        await owner.until("stream.done")
        half = len(owner.frames(number)) // 2
        assert owner.frames(number)[:half] == owner.frames(number)[half:]


async def test_only_the_last_finished_streams_are_kept(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        for _ in range(FINISHED_KEPT + 2):
            await wire.speak("Hi.")
            await wire.until("stream.done")
        assert (await wire.ask("subscribe", stream=1))["code"] == "unknown_stream"
        assert (await wire.ask("subscribe", stream=3))["type"] == "ack"
        await wire.until("stream.done", stream=3)


async def test_from_seq_begins_there(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as owner, served.client() as late:
        number = await owner.speak(TEXT)
        await owner.until("stream.done")
        await late.ask("subscribe", stream=number, from_seq=5)
        await late.until("stream.done")
        assert late.frames(number) == owner.frames(number)[5:]
        assert late.messages("warning") == []
        told = [m for m in owner.seen if isinstance(m, StreamFrame) or m.get("stream") == number]
        (at,) = [n for n, m in enumerate(told) if isinstance(m, StreamFrame) and m.frame.seq == 4]
        # right behind the frame before: what was told up to there is not told again
        heard = late.seen[late.seen.index(late.messages("stream.opened")[0]) + 1 :]
        assert heard == told[at + 1 :]


async def test_a_follower_of_all_hears_what_others_speak(settings: Settings) -> None:
    async with serving(settings) as served:
        async with served.client() as ear, served.client() as one, served.client() as two:
            answer = await ear.ask("subscribe", stream="*")
            assert answer == {"type": "ack", "reply_to": "ask"}
            numbers = [await one.speak(TEXT, key="k"), await two.speak(TEXT)]
            for wire in (one, two):
                await wire.until("stream.done")
            for _ in numbers:
                await ear.until("stream.done")
            for number, wire in zip(numbers, (one, two), strict=True):
                assert ear.frames(number) == wire.frames(number) != []
            opened = ear.messages("stream.opened")
            assert [m["owner"] for m in opened] == [False, False]
            assert opened[0]["key"] == "k"


async def test_a_follower_of_all_hears_streams_that_are_already_live(settings: Settings) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as owner, served.client() as ear:
            number = await owner.speak(TEXT)
            cast(Gated, served.voice).open()
            await owner.until("segment.done")
            await ear.ask("subscribe", stream="*")
            cast(Gated, served.voice).open(3)
            await owner.until("stream.done")
            await ear.until("stream.done")
            assert ear.frames(number) == owner.frames(number)


async def test_a_follower_of_all_that_speaks_hears_itself_once_and_as_owner(
    settings: Settings,
) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.ask("subscribe", stream="*")
        await wire.send("speak", id="x", text=TEXT)
        await wire.until("stream.done")
        await wire.ask("ping")
        kinds = [m["type"] for m in wire.seen if isinstance(m, dict)]
        assert kinds.count("stream.done") == 1
        assert kinds.index("ack", 2) < kinds.index("stream.opened")
        assert wire.messages("stream.opened")[0]["owner"] is True


async def test_subscribing_to_all_again_changes_nothing(settings: Settings) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as owner, served.client() as ear:
            number = await owner.speak(TEXT)
            for stream in (number, "*", "*"):
                assert (await ear.ask("subscribe", stream=stream))["type"] == "ack"
            cast(Gated, served.voice).open(3)
            await ear.until("stream.done")
            await ear.ask("ping")
            assert len(ear.messages("stream.opened")) == len(ear.messages("stream.done")) == 1


async def test_subscribing_to_what_one_follows_begins_anew(settings: Settings) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as owner, served.client() as ear:
            number = await owner.speak(TEXT)
            await ear.ask("subscribe", stream="*")
            cast(Gated, served.voice).open()
            await ear.until("segment.done")
            await ear.ask("subscribe", stream=number, from_seq=2)
            await ear.until("stream.opened")
            before = len(ear.frames(number))
            cast(Gated, served.voice).open(3)
            await ear.until("stream.done")
            await owner.until("stream.done")
            assert ear.frames(number)[before:] == owner.frames(number)[2:]
            assert len(ear.messages("stream.done")) == 1


async def test_a_frame_that_is_not_even_the_next_cannot_be_begun_with(settings: Settings) -> None:
    async with serving(settings, Gated()) as served, served.client() as owner:
        number = await owner.speak(TEXT)
        error = await owner.ask("subscribe", stream=number, from_seq=1)
        assert (error["code"], error["param"]) == ("invalid_value", "from_seq")
        assert (await owner.ask("subscribe", stream=number, from_seq=0))["type"] == "ack"


async def test_who_wants_no_more_of_all_still_hears_its_own(settings: Settings) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as ear, served.client() as other:
            await ear.ask("subscribe", stream="*")
            number = await ear.speak(TEXT)
            foreign = await other.speak(TEXT)
            await ear.until("stream.opened", stream=foreign)
            await ear.ask("unsubscribe", stream="*")
            cast(Gated, served.voice).open(6)
            await ear.until("stream.done", stream=number)
            await other.until("stream.done")
            await ear.ask("ping")
            assert ear.messages("stream.done", stream=foreign) == []


@pytest.mark.parametrize("what", ["number", "*"])
async def test_unsubscribing(settings: Settings, what: str) -> None:
    async with serving(settings, Gated()) as served:
        async with served.client() as owner, served.client() as ear:
            await ear.ask("subscribe", stream="*")
            number = await owner.speak(TEXT)
            await ear.until("stream.opened")
            answer = await ear.ask("unsubscribe", stream=number if what == "number" else "*")
            assert answer["type"] == "ack"
            heard = len(ear.seen)
            cast(Gated, served.voice).open(3)
            await owner.until("stream.done")
            again = await owner.speak("Again.")
            cast(Gated, served.voice).open(2)
            await owner.until("stream.done")
            if what == "number":
                await ear.until("stream.done", stream=again)
            await ear.ask("ping")
            assert ear.frames(number) == []
            assert (len(ear.seen) == heard + 1) is (what == "*")


async def test_unsubscribing_from_nothing_is_accepted(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        for stream in (1, 77, "*"):
            assert (await wire.ask("unsubscribe", stream=stream))["type"] == "ack"


async def test_subscribing_again_begins_again(settings: Settings) -> None:
    async with serving(settings, Gated()) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        cast(Gated, served.voice).open()
        await wire.until("segment.done")
        await wire.ask("unsubscribe", stream=number)
        await wire.ask("subscribe", stream=number)
        cast(Gated, served.voice).open(3)
        await wire.until("stream.done")
        seqs = [frame.seq for frame in wire.frames(number)]
        again = seqs.index(0, 1)
        assert seqs[:again] == list(range(again))
        assert seqs[again:] == list(range(len(seqs) - again))


async def test_followers_of_a_failed_and_of_a_cancelled_stream(settings: Settings) -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("The model failed."))
    async with serving(settings, voice) as served, served.client() as owner:
        failed = await owner.speak(TEXT)
        await owner.until("error")
        voice.fail_at, voice.rtf = None, 1000
        cancelled = await owner.speak(TEXT)
        await owner.ask("cancel", stream=cancelled)
        async with served.client() as late:
            await late.ask("subscribe", stream=failed)
            await late.until("error")
            assert late.frames(failed) == owner.frames(failed) != []
            await late.ask("subscribe", stream=cancelled)
            await late.until("stream.cancelled")
            assert late.order(cancelled) == ["stream.opened", "stream.cancelled"]


# --- slow readers ---------------------------------------------------------------------------


def lead(served: Served, number: int) -> int:
    live = served.server.streams.find(number)
    assert live is not None
    return live.log.lead_samples


async def test_production_pauses_ahead_of_a_reader_that_does_not_read(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=2000) as served, served.client(queue=1) as wire:
        number = await wire.speak(LONG)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert 48_000 <= lead(served, number) < 48_000 + 1200
        made = served.voice.segments_made
        assert made < 100
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert served.voice.segments_made == made  # it stands still
        while len(wire.messages("segment.done")) < made:
            await wire.next()
        assert served.voice.segments_made > made  # and goes on
        await wire.until("stream.done")
        assert sum(f.samples for f in wire.frames(number)) == 100 * SEGMENT
        assert not any(f.discontinuity for f in wire.frames(number))


async def test_production_pauses_when_nobody_follows(settings: Settings) -> None:
    voice = Gated()
    async with serving(settings, voice, max_lead_ms=2000) as served, served.client() as wire:
        number = await wire.speak(LONG)
        await wire.ask("unsubscribe", stream=number)
        voice.open(101)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert voice.segments_made == 2
        await wire.ask("subscribe", stream=number)
        await wire.until("stream.done")
        assert voice.segments_made == 100


async def test_a_reader_that_never_reads_does_not_hold_up_another(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=1000) as served:
        async with served.client(queue=1) as sloth, served.client() as quick:
            number = await sloth.speak(LONG)  # it even owns the stream
            await quick.ask("subscribe", stream=number)
            await quick.until("stream.done")
            assert served.voice.segments_made == 100
            assert sum(f.samples for f in quick.frames(number)) == 100 * SEGMENT
            assert not any(f.discontinuity for f in quick.frames(number))
            # What the sloth finds when it wakes: a beginning, a gap that it is told of, the end.
            await sloth.until("stream.done")
            frames = sloth.frames(number)
            jumps = [f for f in frames if f.discontinuity]
            assert len(jumps) == len(sloth.messages("warning", code="frames_skipped")) == 1
            assert sum(f.samples for f in frames) < 100 * SEGMENT
            at = sloth.seen.index(sloth.messages("warning")[0])
            assert getattr(sloth.seen[at + 1], "frame", None) == jumps[0]
            assert frames[-1].last


async def test_a_reader_that_never_reads_does_not_hold_up_news_of_its_own_streams(
    settings: Settings,
) -> None:
    voice = ToneVoice()
    async with serving(settings, voice, max_lead_ms=1000) as served:
        async with served.client(queue=1) as sloth, served.client() as ear:
            await sloth.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.02)
            await ear.ask("subscribe", stream="*")
            await sloth.send("speak", id="two", text=TEXT)  # whose ack does not get through
            await ear.until("stream.done", stream=2)
            assert ear.frames(2)


# --- owners that vanish ---------------------------------------------------------------------


@pytest.mark.parametrize("politely", [True, False])
async def test_the_stream_of_an_owner_that_vanishes_is_cancelled(
    settings: Settings, politely: bool
) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served:
        async with served.client() as owner, served.client() as watch:
            number = await owner.speak(TEXT)
            await (owner.websocket.aclose() if politely else owner.drop())
            await served.until(lambda: served.voice.active == 0)
            await watch.ask("subscribe", stream=number)
            await watch.until("stream.cancelled")


async def test_a_followed_stream_outlives_its_owner(settings: Settings) -> None:
    voice = Gated()
    async with serving(settings, voice) as served, served.client() as ear:
        async with served.client() as owner:
            number = await owner.speak(TEXT)
            await ear.ask("subscribe", stream=number)
            await owner.drop()
            await served.until(lambda: len(served.server.clients) == 1)
        voice.open(3)
        await ear.until("stream.done")
        assert ear.frames(number)[-1].last


@pytest.mark.parametrize("leaving", ["unsubscribe", "drop"])
async def test_a_stream_ends_when_its_owner_and_then_its_last_follower_are_gone(
    settings: Settings, leaving: str
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), streams=1) as served:
        async with served.client() as ear, served.client() as late:
            async with served.client() as owner:
                number = await owner.speak(TEXT)
                await ear.ask("subscribe", stream=number)
                await ear.until("stream.opened")
            await served.until(lambda: len(served.server.clients) == 2)
            assert served.voice.active == 1
            if leaving == "drop":
                await ear.drop()
            else:
                await ear.ask("unsubscribe", stream=number)
            await served.until(lambda: served.voice.active == 0)
            assert (await late.ask("status"))["streams"] == 0
            assert (await late.ask("speak", text=TEXT))["type"] == "ack"


async def test_a_follower_that_could_not_yet_be_told_is_a_follower(settings: Settings) -> None:
    voice = ToneVoice()
    async with serving(settings, voice, max_lead_ms=1000) as served:
        async with served.client(queue=1) as sloth, served.client() as owner:
            await sloth.ask("subscribe", stream="*")
            await sloth.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.02)  # its socket is full
            voice.rtf = 1000
            number = await owner.speak(TEXT)
            await owner.drop()
            await served.until(lambda: len(served.server.clients) == 1)
            live = served.server.streams.find(number)
            assert live is not None
            assert not live.log.over


# --- one scheduler tick ---------------------------------------------------------------------


async def test_a_client_that_is_just_leaving_does_not_disturb_an_announcement(
    settings: Settings,
) -> None:
    class Leaving:
        """A peer that is gone when the event is set."""

        def __init__(self) -> None:
            self.gone = trio.Event()

        async def send(self, _: object) -> None:
            await trio.lowlevel.checkpoint()

        said_goodbye = True

        def __aiter__(self) -> Leaving:
            return self

        async def __anext__(self) -> object:
            await self.gone.wait()
            raise StopAsyncIteration

    voice = ToneVoice()
    server = EngineServer(voice, voice, settings, TOKEN)
    for ticks in range(8):
        peer = Leaving()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server._connected, cast(Peer, peer))
            await trio.testing.wait_all_tasks_blocked()
            for client in server.clients:
                client._follows_all = True
            peer.gone.set()
            for _ in range(ticks):
                await trio.lowlevel.checkpoint()
            live = LiveStream(
                StreamLog(1, Opened(voice="v", lang="l", speed=1.0), 1),
                SpeechRequest(text=TEXT),
                told(nothing()),
            )
            server.announce(live)
            live.cancel()
        assert not server.clients
        assert not live.log.cursors


async def test_a_request_that_is_cancelled_as_it_is_accepted_leaves_no_stream(
    settings: Settings,
) -> None:
    # The moment between the voice's yes and the client's hearing of it.
    scope = trio.CancelScope()

    class Accepts(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            async with super().__call__(request) as events:
                scope.cancel()
                yield events

    voice = Accepts(rtf=1000)
    async with serving(settings, voice) as served:
        with scope:
            await served.server.streams.open(SpeechRequest(text=TEXT), owner=object())
        await served.until(lambda: voice.active == 0)
        assert served.server.streams.live == []


async def test_a_voice_that_never_waits_lets_others_run(settings: Settings) -> None:
    made = 500

    class Hasty(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            async with aclosing(self.hasten()) as events:
                yield told(events)

        async def hasten(self) -> AsyncGenerator[Event]:
            yield Opened(voice="v", lang="l", speed=1.0)
            for seq in range(made):
                yield Frame(seq=seq, sample=0, pcm=b"")
            yield Done(samples=0, audio_ms=0.0, chars=0, segments=0)

    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with serving(settings, Hasty()) as served:
        served.nursery.start_soon(other)
        live = await served.server.streams.open(SpeechRequest(text=TEXT), owner=object())
        while not live.log.over:
            await trio.lowlevel.checkpoint()
        assert turns >= made / 2


async def test_a_wire_may_be_left_with_much_unread(settings: Settings) -> None:
    async with serving(settings) as served:
        async with served.client(queue=1) as wire:
            assert isinstance(wire, Wire)
            await wire.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.02)
        await served.until(lambda: not served.server.clients)
        await served.until(lambda: served.voice.active == 0)
