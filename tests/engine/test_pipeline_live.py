"""Text that comes in pieces, through the stages: virtual time, a fake voice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from trio.testing import MockClock

from engine import pipeline
from engine.audio import SAMPLE_RATE
from engine.live import TextFeed
from engine.request import (
    Done,
    Event,
    Flushed,
    Frame,
    Notice,
    SegmentDone,
    SegmentStart,
)
from tests.support.reading import Heard

from .voicing import ACOUSTIC, Voicing, events_of, live_utterance, utterance

#: two sentences that are segments of their own, and a third
FIRST = "A" * 1 + "a" * 39 + ". "
SECOND = "B" + "b" * 159 + ". "
TEXT = FIRST + SECOND + "Ccc ddd."


def new_feed() -> TextFeed:
    return TextFeed(waiting_chars=10_000, total_chars=100_000)


def comparable(events: Sequence[Event]) -> list[Event]:
    """Without what depends on how much of the text was known, and when."""
    return [
        replace(event, predicted_ms_left=None)
        if isinstance(event, SegmentDone)
        else replace(event, ttfa_ms=None)
        if isinstance(event, Done)
        else event
        for event in events
    ]


async def spoken_in_pieces(
    pieces: Sequence[str | None],
    *,
    apart_s: float = 0.0,
    max_buffer_delay_s: float = 3.0,
    voicing: Voicing | None = None,
) -> list[Event]:
    """All events; None is a flush."""
    feed = new_feed()
    spoken = live_utterance(feed, max_buffer_delay_s=max_buffer_delay_s, marks=True)
    found: list[Event] = []

    async def write() -> None:
        for n, piece in enumerate(pieces):
            await trio.sleep(apart_s)
            if piece is None:
                feed.flush(str(n))
            else:
                feed.append(piece)
        feed.end()

    async with trio.open_nursery() as nursery, pipeline.run(spoken, voicing or Voicing()) as events:
        nursery.start_soon(write)
        async for event in events:
            found.append(event)
    return found


def cut(text: str, places: Sequence[int]) -> list[str]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


async def batch(text: str) -> list[Event]:
    return await events_of(utterance(text, marks=True), Voicing())


@given(
    text=st.lists(
        st.sampled_from(
            ["Aaa bbb", ". ", "? ", "! ", ", ", " ", "\n\n", "3", ".", "14", "ccc" * 20, " - ", "*"]
        ),
        max_size=20,
    ).map("".join),
    places=st.lists(st.integers(0, 400), max_size=12),
    apart=st.booleans(),
)
def test_the_same_whatever_the_cutting(text: str, places: list[int], apart: bool) -> None:
    text += "Dd."

    async def both() -> tuple[list[Event], list[Event]]:
        live = await spoken_in_pieces(
            cut(text, places), apart_s=0.1 if apart else 0.0, max_buffer_delay_s=1e6
        )
        return live, await batch(text)

    live, whole = trio.run(both, clock=MockClock(autojump_threshold=0))
    assert comparable(live) == comparable(whole)


async def test_there_is_sound_before_the_text_is_complete(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    async with pipeline.run(live_utterance(feed), Voicing()) as events:
        feed.append(FIRST + "Bbb b")
        with trio.fail_after(1):
            while not isinstance(await anext(events), Frame):
                pass
        feed.append("bb.")
        feed.end()
        rest = Heard([event async for event in events])
    assert [start.text for start in rest.of(SegmentStart)] == ["Bbb bbb."]
    assert rest.done.chars == len(FIRST + "Bbb bbb.")


async def test_text_that_waits_too_long_is_spoken_up_to_its_last_whole_word(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    heard = Heard()
    began = trio.current_time()
    times: list[float] = []

    async def listen() -> None:
        async with pipeline.run(live_utterance(feed, max_buffer_delay_s=2.0), Voicing()) as events:
            async for event in events:
                heard.events.append(event)
                if isinstance(event, SegmentStart):
                    times.append(round(trio.current_time() - began, 3))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.sleep(1)
        feed.append("Aaa bbb cc")
        await trio.sleep(10)  # at 3 s it has waited enough; the half word has not
        feed.append("c ddd. ")
        await trio.sleep(0.5)
        feed.end()
    assert [start.text for start in heard.of(SegmentStart)] == ["Aaa bbb", "ccc ddd."]
    assert times == [3.0, 11.5]


async def test_who_still_has_enough_to_hear_waits_for_the_whole_sentence(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    times: list[float] = []
    texts: list[str] = []

    async def listen() -> None:
        async with pipeline.run(live_utterance(feed, max_buffer_delay_s=2.0), Voicing()) as events:
            async for event in events:
                if isinstance(event, SegmentStart):
                    times.append(trio.current_time())
                    texts.append(event.text)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        feed.append("A" + "a" * 79 + ".\n\nBbb bbb bb")  # 8 s of audio
        began = trio.current_time()
        await trio.sleep(30)
        feed.end()
    assert texts[1:] == ["Bbb bbb", "bb"]
    waited = times[1] - began
    assert 6 < waited < 8  # a second before there is silence


@pytest.mark.parametrize("left_s", [4.0, 1.001, 0.5])
async def test_who_stands_still_with_enough_to_hear_waits_for_the_whole_sentence(
    autojump_clock: MockClock, left_s: float
) -> None:
    feed = new_feed()
    told: list[tuple[float, str]] = []

    async def listen() -> None:
        spoken = live_utterance(feed, max_buffer_delay_s=2.0)
        async with pipeline.run(spoken, Voicing()) as events:
            async for event in events:
                if isinstance(event, SegmentStart):
                    told.append((trio.current_time(), event.text))
                if isinstance(event, SegmentDone) and not event.index:
                    events.heard(event.samples - round(left_s * SAMPLE_RATE), False)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        feed.append("A" + "a" * 79 + ".\n\nBbb bbb bb")  # 8 s of audio
        await trio.sleep(30)
        feed.append("b.")
        feed.end()
    if left_s > 1:  # then he has it all the time, and the sentence is whole
        assert [text for _, text in told[1:]] == ["Bbb bbb bbb."]
        assert told[1][0] == pytest.approx(30, abs=0.1)
    else:
        assert [text for _, text in told[1:]] == ["Bbb bbb", "bbb."]
        assert told[1][0] == pytest.approx(2, abs=0.1)


@pytest.mark.parametrize("delay_s", [0.0, 0.2])
async def test_what_is_there_already_has_not_waited(
    autojump_clock: MockClock, delay_s: float
) -> None:
    text = " ".join([FIRST, SECOND, "Ddd eee fff. " * 30])
    live = await spoken_in_pieces(
        [text], max_buffer_delay_s=delay_s, voicing=Voicing(words_s=0.5, acoustic_s=1.0)
    )
    whole = await events_of(utterance(text, marks=True), Voicing())
    assert [s.text for s in Heard(live).of(SegmentStart)] == [
        s.text for s in Heard(whole).of(SegmentStart)
    ]


async def test_a_flush_speaks_what_there_is_and_says_so(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    async with pipeline.run(live_utterance(feed), Voicing()) as events:
        feed.append("Aaa bb")
        feed.flush("one")
        feed.flush(None)
        found: list[Event] = []
        while not (isinstance(event := await anext(events), Flushed) and event.flush_id is None):
            found.append(event)
        feed.append("Ccc.")
        feed.end()
        rest = Heard([event async for event in events])
    assert [type(event) for event in found[-2:]] == [SegmentDone, Flushed]
    assert Heard(found).of(Flushed) == [Flushed(flush_id="one")]
    assert [start.text for start in Heard(found).of(SegmentStart)] == ["Aaa bb"]
    (start,) = rest.of(SegmentStart)
    assert (start.text, start.char_start) == ("Ccc.", 6)


async def test_flushes_come_in_their_places(
    autojump_clock: MockClock,
) -> None:
    events = await spoken_in_pieces([FIRST, None, SECOND, None, None, "Ccc."])
    told = [
        event.flush_id if isinstance(event, Flushed) else event.text
        for event in events
        if isinstance(event, Flushed | SegmentStart)
    ]
    assert told == [FIRST.strip(), "1", SECOND.strip(), "3", "4", "Ccc."]


async def test_nothing_to_speak(
    autojump_clock: MockClock,
) -> None:
    events = await spoken_in_pieces([" ", "\n", None])
    assert [event.code for event in Heard(events).of(Notice)] == ["nothing_to_speak"]
    assert Heard(events).of(Flushed) == [Flushed(flush_id="2")]
    assert Heard(events).done.samples == 0


async def test_another_voice_and_speed_from_the_next_segment_on(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    spoken = live_utterance(feed)
    voicing = Voicing(acoustic_s=1.0)
    async with pipeline.run(spoken, voicing) as events:
        feed.append(FIRST)
        feed.append("Bbb")
        while not isinstance(await anext(events), SegmentDone):
            pass
        spoken.manner.speed = 2.0
        spoken.manner.voice = "bf_emma"
        feed.append(" bbb.")
        feed.end()
        async for _ in events:
            pass
    assert voicing.manners == [("af_heart", 1.0), ("bf_emma", 2.0)]


async def test_the_wait_counts_from_the_piece_that_made_a_segment(
    autojump_clock: MockClock,
) -> None:
    voicing = Voicing(acoustic_s=0.2, piece_s=0.1)
    events = await spoken_in_pieces(
        [FIRST[:10], FIRST[10:], "Bbbb b"], apart_s=2.0, max_buffer_delay_s=10.0, voicing=voicing
    )
    assert Heard(events).done.ttfa_ms == pytest.approx(300)
    due_s, _ = voicing.asked[0]
    assert due_s == pytest.approx(voicing.times(ACOUSTIC)[0] - 0.2)  # due as it came


async def test_what_is_to_come_is_predicted_once_the_text_is_complete(
    autojump_clock: MockClock,
) -> None:
    events = await spoken_in_pieces([TEXT])
    left = [event.predicted_ms_left for event in Heard(events).of(SegmentDone)]
    assert None not in left
    assert left[-1] == 0
    assert sorted(left, key=lambda ms: -(ms or 0)) == left
    feed = new_feed()
    async with pipeline.run(live_utterance(feed), Voicing()) as running:
        feed.append(FIRST + "B")
        while not isinstance(event := await anext(running), SegmentDone):
            pass
        assert event.predicted_ms_left is None


async def test_who_leaves_while_text_is_awaited_leaves_at_once(
    autojump_clock: MockClock,
) -> None:
    feed = new_feed()
    with trio.fail_after(1):
        async with pipeline.run(live_utterance(feed), Voicing()) as events:
            await anext(events)
            feed.append("Aaa")
