"""The end of an engine: what it lets end, what it cancels, and that it ends. In virtual time."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from websockets.exceptions import InvalidStatus

from engine.config import Settings
from engine.errors import EngineError, NotReady
from engine.request import SpeechRequest
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api.door import DRAIN_TIMEOUT_S
from wsproto_api.sockets import CLOSE_TIMEOUT_S
from wsproto_api.speak import WebSocketSpeak
from wsproto_api.streams import FAREWELL_S, FINISH_S

from .serving import Served, Wire, serving

#: 1.1 s of audio
SENTENCE = "One two three four. "
SENTENCE_S = 1.1
#: 110 s of it, 5 MB: more than sockets take by themselves
LONG = SENTENCE * 100
#: a voice that makes it while it is heard
REAL_TIME = 1.0


class Stopping:
    """A server that was told to stop."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.began_s = trio.current_time()

    async def took_s(self) -> float:
        """How long until it had ended."""
        await self._served.stopped.wait()
        return trio.current_time() - self.began_s


async def begin_to_stop(served: Served) -> Stopping:
    """Tells a server to stop, as a signal does."""
    served.scope.cancel()
    stopping = Stopping(served)
    await wait_all_tasks_blocked(0.001)
    return stopping


async def goodbye(wire: Wire) -> float:
    """Reads to the end, which is the server's goodbye; gives the time."""
    assert await wire.closed() == 1001
    return trio.current_time()


async def test_an_engine_with_nothing_to_do_ends_at_once(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.speak(SENTENCE)
        await wire.until("stream.done")
        stopping = await begin_to_stop(served)
        await goodbye(wire)
        assert await stopping.took_s() == 0


async def test_streams_that_end_soon_come_to_their_end(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME)) as served:
        async with served.client() as one, served.client() as two, served.client() as ear:
            number = await one.speak(SENTENCE)
            await ear.ask("subscribe", stream=number)
            live = (await two.ask("open"))["stream"]
            await two.ask("append", stream=live, text="One tw")
            stopping = await begin_to_stop(served)
            # what is open can still be ended
            await two.ask("append", stream=live, text="o.")
            await two.ask("end", stream=live)
            async with trio.open_nursery() as nursery:
                for wire in (one, two, ear):
                    nursery.start_soon(goodbye, wire)
            assert await stopping.took_s() == pytest.approx(SENTENCE_S)
            for wire, stream in ((one, number), (two, live), (ear, number)):
                assert wire.order(stream)[-2:] == ["frame", "stream.done"]
                assert wire.frames(stream)[-1].last
            assert served.voice.active == 0


async def test_streams_that_do_not_are_cancelled(settings: Settings, idle_clock: MockClock) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME)) as served:
        async with served.client() as one, served.client() as two, served.client() as ear:
            number = await one.speak(LONG)
            await ear.ask("subscribe", stream="*")
            live = (await two.ask("open"))["stream"]  # nobody says anything more
            stopping = await begin_to_stop(served)
            times: list[float] = []

            async def listen(wire: Wire) -> None:
                times.append(await goodbye(wire))

            async with trio.open_nursery() as nursery:
                for wire in (one, two, ear):
                    nursery.start_soon(listen, wire)
            assert await stopping.took_s() == pytest.approx(FINISH_S)
            assert times == [pytest.approx(stopping.began_s + FINISH_S)] * 3
            for wire, stream in ((one, number), (two, live), (ear, number), (ear, live)):
                assert wire.order(stream)[-1] == "stream.cancelled"
            # what was made meanwhile was heard
            assert sum(f.samples for f in one.frames(number)) == int(SENTENCE_S * 24_000)
            assert one.frames(number) == ear.frames(number)
            assert served.voice.active == 0


async def test_nothing_new_is_begun(settings: Settings, idle_clock: MockClock) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME)) as served:
        async with served.client() as wire:
            number = await wire.speak(SENTENCE)
            await begin_to_stop(served)
            for type_, fields in (("speak", {"text": SENTENCE}), ("open", {})):
                error = await wire.ask(type_, **fields)
                assert (error["type"], error["code"]) == ("error", "not_ready")
                assert (error["retryable"], error["fatal"]) == (True, False)
                assert error["message"].endswith(".")
            assert (await wire.ask("ping"))["type"] == "pong"
            refusal: InvalidStatus | None = None
            try:
                async with served.client():
                    pytest.fail("it came in")
            except* InvalidStatus as group:
                (found,) = group.exceptions
                assert isinstance(found, InvalidStatus)
                refusal = found
            assert refusal is not None
            assert refusal.response.status_code == 503
            assert refusal.response.headers["Retry-After"]
            await goodbye(wire)
            assert wire.order(number)[-1] == "stream.done"
            assert len(wire.messages("stream.opened")) == 1


async def test_a_client_that_never_reads_is_not_waited_for_long(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.001)
    async with serving(settings, voice, max_lead_ms=600_000) as served:
        async with served.client(queue=1) as sloth, served.client() as quick:
            await sloth.speak(LONG)
            voice.rtf = REAL_TIME
            number = await quick.speak(SENTENCE)
            stopping = await begin_to_stop(served)
            await quick.until("stream.done")
            assert trio.current_time() - stopping.began_s == pytest.approx(SENTENCE_S)
            left_s = await goodbye(quick) - stopping.began_s
            assert left_s == pytest.approx(FINISH_S + FAREWELL_S)
            assert quick.order(number)[-1] == "stream.done"
            took_s = await stopping.took_s()
            assert DRAIN_TIMEOUT_S <= took_s <= DRAIN_TIMEOUT_S + CLOSE_TIMEOUT_S + 0.1
            assert served.voice.active == 0


@pytest.mark.parametrize(("after_s", "whole"), [(0.0, True), (1.0, True), (FINISH_S + 0.1, False)])
async def test_what_is_made_is_heard_by_who_reads_it_soon(
    settings: Settings, mock_clock: MockClock, after_s: float, whole: bool
) -> None:
    # A clock that does not go on by itself: the system waits now and then before it sends more.
    async with serving(settings, max_lead_ms=600_000) as served:
        async with served.client(queue=1) as reader:
            number = await reader.speak(LONG)
            await served.until(lambda: not served.server.streams.live)
            stopping = await begin_to_stop(served)
            mock_clock.jump(after_s)
            await goodbye(reader)
            assert await stopping.took_s() == pytest.approx(after_s)
            heard_s = sum(f.samples for f in reader.frames(number)) / 24_000
            assert reader.order(number)[-1] == ("stream.done" if whole else "stream.cancelled")
            assert (heard_s == pytest.approx(100 * SENTENCE_S)) is whole


async def test_an_orphan_has_no_more_time_than_others(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME), orphan_grace_ms=60_000) as served:
        async with served.client() as before, served.client() as meanwhile:
            await before.speak(LONG)
            await meanwhile.speak(LONG)
            await before.drop()
            await served.until(lambda: len(served.server.clients) == 1)
            stopping = await begin_to_stop(served)
            await meanwhile.drop()
            await trio.sleep(0.1)
            assert served.voice.active == 1, "who was left before has a moment to come back"
            assert await stopping.took_s() == pytest.approx(FINISH_S)
            assert served.voice.active == 0


async def test_who_cancels_while_the_engine_stops_is_heard(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME)) as served:
        async with served.client() as wire:
            number = await wire.speak(LONG)
            stopping = await begin_to_stop(served)
            await wire.send("cancel", stream=number, played_samples=0)
            await goodbye(wire)
            assert "text_spoken" in wire.messages("stream.cancelled")[0]
            assert await stopping.took_s() < 0.1


async def test_a_listener_over_the_wire_is_told_in_time(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=REAL_TIME)) as served:
        speak = WebSocketSpeak(served.url, TOKEN)
        async with speak(SpeechRequest(text=LONG)) as stream:
            await anext(stream)
            stopping = await begin_to_stop(served)
            ended: EngineError | None = None
            try:
                async for _ in stream:
                    pass
            except EngineError as error:
                ended = error
            assert ended is not None
            assert ended.message.endswith(".")
            assert trio.current_time() - stopping.began_s == pytest.approx(FINISH_S)
        with pytest.raises(NotReady):
            async with speak(SpeechRequest(text=SENTENCE)):
                pytest.fail("it was accepted")
        assert await stopping.took_s() <= DRAIN_TIMEOUT_S
