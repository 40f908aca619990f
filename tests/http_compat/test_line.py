"""Who is let in, and when."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from quart_trio import QuartTrio
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine.audio import SAMPLE_RATE
from engine.errors import EngineError, NotReady, Overloaded
from engine.request import Event, SpeechRequest
from http_compat.line import BATCH_PATIENCE_S, IN_HAND_S, PATIENCE_S, RETRY_MS, Line, Place
from tests.support.tone import WORD_MS, ToneVoice

from .serving import JSON, SPEECH, Engine, ask, calling, defaults, told


class Crowd:
    """Takes places, and leaves them when it is told to."""

    def __init__(self, line: Line, nursery: trio.Nursery) -> None:
        self.line = line
        self.places: dict[str, Place] = {}
        self.order: list[str] = []
        self._nursery = nursery
        self._scopes: dict[str, trio.CancelScope] = {}

    async def come(self, *names: str, batch: bool = False) -> None:
        for name in names:
            self._nursery.start_soon(self._take, name, batch)
            await trio.testing.wait_all_tasks_blocked()

    async def go(self, *names: str) -> None:
        for name in names:
            self._scopes[name].cancel()
            await trio.testing.wait_all_tasks_blocked()

    async def _take(self, name: str, batch: bool) -> None:
        with trio.CancelScope() as self._scopes[name]:
            async with self.line.place(batch=batch) as self.places[name]:
                self.order.append(name)
                await trio.sleep_forever()


@asynccontextmanager
async def crowd(*, at_once: int = 9, waiting: int = 9) -> AsyncIterator[Crowd]:
    line = Line(at_once=at_once, waiting=waiting)
    async with trio.open_nursery() as nursery:
        yield Crowd(line, nursery)
        nursery.cancel_scope.cancel()
    assert (line.inside, line.waiting) == (0, 0)


async def test_one_after_the_other_in_the_order_of_arrival() -> None:
    async with crowd() as people:
        await people.come("a", "b", "c", "d")
        assert (people.order, people.line.waiting) == (["a"], 3)
        for first, second in (("a", "b"), ("b", "c"), ("c", "d")):
            await people.go(first)
            assert people.order[-1] == second
        assert people.line.waiting == 0


async def test_who_leaves_the_line_holds_up_nobody() -> None:
    async with crowd() as people:
        await people.come("a", "b", "c")
        await people.go("b", "a")
        assert people.order == ["a", "c"]


async def test_with_enough_in_hand_the_next_one_is_let_in() -> None:
    async with crowd() as people:
        await people.come("a", "b", "c")
        people.places["a"].made(round(IN_HAND_S * SAMPLE_RATE) - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert people.order == ["a"]
        people.places["a"].made(1)
        await trio.testing.wait_all_tasks_blocked()
        assert people.order == ["a", "b"]
        assert people.line.inside == 2


async def test_nobody_waits_longer_than_a_turn_may_take(mock_clock: MockClock) -> None:
    async with crowd() as people:
        await people.come("a", "b", "c")
        for names in (["a"], ["a", "b"], ["a", "b", "c"]):
            assert people.order == names
            mock_clock.jump(PATIENCE_S)
            await trio.testing.wait_all_tasks_blocked()


async def test_no_more_at_once_than_the_engine_takes() -> None:
    async with crowd(at_once=1) as people:
        await people.come("a", "b")
        people.places["a"].made(round(IN_HAND_S * SAMPLE_RATE))
        await trio.testing.wait_all_tasks_blocked()
        assert people.order == ["a"]
        await people.go("a")
        assert people.order == ["a", "b"]


async def test_batches_have_a_line_of_their_own(mock_clock: MockClock) -> None:
    async with crowd() as people:
        await people.come("book", "tome", batch=True)
        await people.come("sentence")
        assert people.order == ["book", "sentence"]
        people.places["book"].made(3600 * SAMPLE_RATE)  # no lead is enough: the whole is wanted
        mock_clock.jump(BATCH_PATIENCE_S - 1)
        await trio.testing.wait_all_tasks_blocked()
        assert people.order == ["book", "sentence"]
        mock_clock.jump(1)
        await trio.testing.wait_all_tasks_blocked()
        assert people.order == ["book", "sentence", "tome"]


async def test_a_full_line_is_an_error_that_says_when_to_come_back() -> None:
    async with crowd(waiting=1) as people:
        await people.come("a", "b")
        with pytest.raises(Overloaded, match="1 requests for speech in line") as caught:
            async with people.line.place():
                pass
        assert caught.value.retry_after_ms == RETRY_MS
        await people.go("a")
        await people.come("c")
        assert people.line.waiting == 1


async def test_batches_that_wait_take_no_place_from_those_who_listen() -> None:
    async with crowd(waiting=2) as people:
        await people.come("a", "b", "c", batch=True)
        with pytest.raises(Overloaded, match="2 requests for speech in line"):
            async with people.line.place(batch=True):
                pass
        await people.come("x", "y", "z")
        assert people.order == ["a", "x"]
        assert people.line.waiting == 4


async def test_who_need_not_wait_is_let_in_though_nobody_may() -> None:
    async with crowd(waiting=0) as people:
        await people.come("a")
        with pytest.raises(Overloaded):
            async with people.line.place():
                pass
        await people.go("a")
        await people.come("b")
        assert people.order == ["a", "b"]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.booleans()), max_size=25))
def test_whatever_happens_all_are_let_in_in_their_order(
    steps: list[tuple[bool, int, bool]],
) -> None:
    """Each step: somebody comes, or the nth of those inside goes or has enough."""

    async def play() -> None:
        async with crowd(at_once=3, waiting=30) as people:
            came = 0
            gone: set[str] = set()
            for comes, number, goes in steps:
                inside = [name for name in people.order if name not in gone]
                if comes or not inside:
                    await people.come(str(came))
                    came += 1
                    continue
                name = inside[number % len(inside)]
                if goes:
                    await people.go(name)
                    gone.add(name)
                else:
                    people.places[name].made(round(IN_HAND_S * SAMPLE_RATE))
                    await trio.testing.wait_all_tasks_blocked()
                assert people.line.inside <= 3
            while len(gone) < came:
                name = next(name for name in people.order if name not in gone)
                await people.go(name)
                gone.add(name)
            assert people.order == [str(number) for number in range(came)]

    trio.run(play)


async def test_those_who_wait_can_be_dismissed() -> None:
    errors: list[EngineError] = []

    async def wait(line: Line) -> None:
        try:
            async with line.place():
                pass
        except EngineError as error:
            errors.append(error)

    async with crowd() as people:
        await people.come("a")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, people.line)
            nursery.start_soon(wait, people.line)
            await trio.testing.wait_all_tasks_blocked()
            people.line.dismiss(NotReady("Not there.", retry_after_ms=5))
        assert [(error.message, error.retry_after_ms) for error in errors] == [
            ("Not there.", 5)
        ] * 2
        await people.go("a")
        await people.come("b")  # who comes later tries for himself
        assert people.order == ["a", "b"]


# --- over HTTP -------------------------------------------------------------------------------


async def test_twenty_sentences_at_once_are_finished_in_their_order(
    autojump_clock: MockClock,
) -> None:
    """A call: the app asks for each sentence as the language model writes it."""
    voice = ToneVoice(rtf=0.45)
    app = Engine(voice).app()
    finished: list[int] = []

    async def sentence(number: int) -> None:
        words = "word " * (1 + (7 * number) % 11)  # the short ones do not overtake
        body = json.dumps({"input": f"{words}.", "stream": number % 2 == 0}).encode()
        reply = await ask(app, "POST", SPEECH, JSON, body)
        assert reply.status == 200
        finished.append(number)

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(sentence, number)
            await trio.testing.wait_all_tasks_blocked()
    assert finished == list(range(20))


async def test_the_log_says_how_long_somebody_was_in_line(autojump_clock: MockClock) -> None:
    app = Engine(ToneVoice(rtf=1.0)).app()
    with capture_logs() as logs:
        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask, app, "POST", SPEECH, JSON, b'{"input": "One two."}')
    waited = [entry.get("waited_ms") for entry in logs]
    assert waited == [None, 2 * WORD_MS]


async def test_a_burst_beyond_the_line_is_told_to_come_back(autojump_clock: MockClock) -> None:
    app = Engine(ToneVoice(rtf=0.45)).app(settings=defaults(http_waiting=4))
    statuses: list[int] = []

    async def sentence() -> None:
        reply = await ask(app, "POST", SPEECH, JSON, b'{"input": "One two three."}')
        statuses.append(reply.status)
        if reply.status == 429:
            assert told(reply)["code"] == "server_busy"
            assert reply.headers["Retry-After"] == "2"

    async with trio.open_nursery() as nursery:
        for _ in range(9):
            nursery.start_soon(sentence)
    assert sorted(statuses) == [200] * 5 + [429] * 4


async def test_an_engine_that_is_not_there_is_asked_once_for_all_who_wait(
    autojump_clock: MockClock,
) -> None:
    """It takes a second to find out, and nobody waits for the seconds of the others."""

    class Absent(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:  # type: ignore[override]
            await trio.sleep(1)
            raise NotReady("Not there.")
            yield

    app = Engine(Absent()).app()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(expect_not_ready, app)
    assert trio.current_time() == 1


async def expect_not_ready(app: QuartTrio) -> None:
    reply = await ask(app, "POST", SPEECH, JSON, b'{"input": "One."}')
    assert reply.status == 503
    assert told(reply)["code"] == "engine_unavailable"
    assert reply.headers["Retry-After"] == "1"


async def test_who_leaves_while_in_line_is_never_spoken_for(autojump_clock: MockClock) -> None:
    asked: list[str] = []

    class Slow(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:  # type: ignore[override]
            asked.append(request.text)
            async with super().__call__(request) as events:
                yield events

    voice = Slow(rtf=1.0)
    app = Engine(voice).app()
    async with calling(app, "POST", SPEECH, JSON, b'{"input": "One two."}') as first:
        await trio.testing.wait_all_tasks_blocked()
        async with calling(app, "POST", SPEECH, JSON, b'{"input": "Three."}') as second:
            await trio.testing.wait_all_tasks_blocked()
            second.disconnect()
        async with calling(app, "POST", SPEECH, JSON, b'{"input": "Four."}') as third:
            assert await first.read()
            assert await third.read()
    assert asked == ["One two.", "Four."]
    assert voice.active == 0
