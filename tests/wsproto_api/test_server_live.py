"""Live text over the wire, by hand: what is said of a stream, and what the server says of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace
from trio.testing import MockClock

from engine import config
from engine.config import Settings
from engine.request import Event, LiveRequest, SegmentDone, SpeechRequest, Stream
from tests.support.tone import ToneVoice, told
from wsproto_api.messages import MAX_MESSAGE_BYTES, StreamFrame
from wsproto_api.server import PROGRESS_S

from .serving import Json, Wire, serving

TEXT = "One two three. Four five."
WORD = 6_600  # samples of one
#: 110 s of audio in segments of 1.1 s
LONG = "One two three four. " * 100
#: for the voice to wait with what is no sentence yet
PATIENT = {"max_buffer_delay_ms": 60_000}
#: for streams that would go on for long to end with the test
AT_ONCE: dict[str, Any] = {"orphan_grace_ms": 0}


async def opened(wire: Wire, **fields: Any) -> int:
    """Opens a stream for text in pieces, and gives its number."""
    answer = await wire.ask("open", **{**PATIENT, **fields})
    assert answer["type"] == "ack"
    return int(answer["stream"])


async def accepted(wire: Wire, type_: str, **fields: Any) -> None:
    """Says something that is accepted."""
    assert await wire.ask(type_, **fields) == {
        "type": "ack", "reply_to": "ask", "stream": fields["stream"],
    }  # fmt: skip


async def refused(wire: Wire, type_: str, **fields: Any) -> Json:
    """The error that something gets, which ends neither stream nor socket."""
    error = await wire.ask(type_, **fields)
    assert error["type"] == "error"
    assert error["fatal"] is False
    assert "stream" not in error
    assert error["message"].endswith(".")
    return error


def story(wire: Wire, stream: int) -> list[Any]:
    """All that was told of a stream, without its number and times."""
    found: list[Any] = []
    for one in wire.seen:
        if isinstance(one, StreamFrame):
            if one.stream == stream:
                found.append(one.frame)
        elif one.get("stream") == stream and one["type"] not in {"ack", "progress"}:
            found.append({k: v for k, v in one.items() if k not in {"stream", "ttfa_ms"}})
    return found


# --- pieces ---------------------------------------------------------------------------------


@given(
    text=st.lists(
        st.sampled_from(["One two", ". ", "? ", " three", "!", "\n\n", " ", "…", "ünï", "🎧 x"]),
        max_size=12,
    ).map("".join),
    places=st.lists(st.integers(0, 100), max_size=8),
    marks=st.booleans(),
)
@example(text=TEXT, places=list(range(len(TEXT))), marks=True)
@hypothesis_settings(max_examples=25)
def test_it_is_the_same_wherever_it_is_cut(text: str, places: list[int], marks: bool) -> None:
    text += "End."
    edges = [0, *sorted({place % len(text) for place in places}), len(text)]
    settings = config.load({}, environ={}, file=Path("there-is-none.toml")).settings

    async def run() -> None:
        async with serving(settings) as served, served.client() as wire:
            whole = await wire.speak(text, marks=marks, key="k")
            await wire.until("stream.done")
            number = await opened(wire, marks=marks, key="k")
            for a, b in pairwise(edges):
                await accepted(wire, "append", stream=number, text=text[a:b])
            await accepted(wire, "end", stream=number)
            await wire.until("stream.done", stream=number)
            assert story(wire, number) == story(wire, whole)
            assert bool(wire.messages("marks", stream=number)) is marks

    trio.run(run)


async def test_there_is_sound_before_the_text_is_complete(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        await wire.send("append", stream=number, text="One two thr")
        await wire.ask("ping")
        assert wire.order(number) == ["stream.opened"]
        await wire.send("append", stream=number, text="ee. F")
        await wire.until("segment.done")
        assert sum(frame.samples for frame in wire.frames(number)) == 3 * WORD
        await wire.send("append", stream=number, text="our five.")
        await wire.send("end", stream=number)
        done = await wire.until("stream.done")
        assert (done["segments"], done["chars"]) == (2, len(TEXT))
        assert [m["text"] for m in wire.messages("segment")] == ["One two three.", "Four five."]
        assert wire.messages("ack", stream=number) == [
            {"type": "ack", "reply_to": "ask", "stream": number}
        ]


async def test_what_waits_too_long_is_spoken_as_it_is(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire, max_buffer_delay_ms=700)
        await wire.ask("append", stream=number, text="One two thr")
        began_s = trio.current_time()
        segment = await wire.until("segment")
        assert segment["text"] == "One two"
        assert trio.current_time() - began_s == pytest.approx(0.7)


async def test_a_text_without_any_ends_at_once(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        await wire.send("end", stream=number)
        done = await wire.until("stream.done")
        assert (done["samples"], done["chars"], done["segments"]) == (0, 0, 0)
        assert wire.order(number) == ["stream.opened", "frame", "stream.done"]


async def test_anybody_may_say_something_to_a_stream(settings: Settings) -> None:
    async with serving(settings) as served:
        async with served.client() as owner, served.client() as other:
            number = await opened(owner)
            await owner.ask("append", stream=number, text="One tw")
            await accepted(other, "append", stream=number, text="o three")
            await accepted(other, "configure", stream=number, speed=2)
            await accepted(other, "flush", stream=number, flush_id="theirs")
            await owner.ask("append", stream=number, text=". Four five.")
            await accepted(other, "end", stream=number)
            await owner.until("stream.done")
            assert owner.messages("flushed")[0]["flush_id"] == "theirs"
            assert owner.messages("segment")[0]["text"] == "One two three"
            await other.ask("ping")
            assert other.order(number) == [], "it does not follow by that"


# --- what is not taken ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        ("append", {"text": "a"}),
        ("append", {"text": "a", "at": 0}),
        ("flush", {}),
        ("end", {}),
        ("configure", {"speed": 2}),
    ],
)
async def test_a_stream_that_never_was(
    settings: Settings, type_: str, fields: dict[str, Any]
) -> None:
    async with serving(settings) as served, served.client() as wire:
        for number in (0, 1, 2**32 - 1):
            error = await refused(wire, type_, stream=number, **fields)
            assert (error["code"], error["param"]) == ("unknown_stream", "stream")
            assert error["retryable"] is False


async def test_a_stream_that_is_over(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        await wire.ask("append", stream=number, text=TEXT)
        await wire.ask("end", stream=number)
        await wire.until("stream.done")
        for type_, fields in (
            ("append", {"text": "a"}),
            ("flush", {}),
            ("configure", {"speed": 2}),
        ):
            error = await refused(wire, type_, stream=number, **fields)
            assert error["code"] == "unknown_stream"
        await accepted(wire, "end", stream=number)


async def test_after_the_end_nothing_is_taken_and_ending_twice_is_ending_once(
    settings: Settings,
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), **AT_ONCE) as served, served.client() as wire:
        number = await opened(wire)
        await wire.ask("append", stream=number, text=TEXT)
        for _ in range(3):
            await accepted(wire, "end", stream=number)
        for type_, fields in (("append", {"text": "a"}), ("append", {"text": ""}), ("flush", {})):
            error = await refused(wire, type_, stream=number, **fields)
            assert error["code"] == "invalid_value"
        # but what is there already is taken once more
        await accepted(wire, "append", stream=number, text="five.", at=len(TEXT) - 5)
        await accepted(wire, "configure", stream=number, speed=2)


async def test_a_text_that_was_complete_from_the_beginning_takes_no_more(
    settings: Settings,
) -> None:
    async with serving(settings, ToneVoice(rtf=1000), **AT_ONCE) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        for type_, fields in (("append", {"text": "a"}), ("flush", {})):
            error = await refused(wire, type_, stream=number, **fields)
            assert error["code"] == "invalid_value"
        await accepted(wire, "end", stream=number)
        assert served.voice.active == 1


async def test_a_piece_says_where_it_belongs(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        whole = await wire.speak(TEXT)
        await wire.until("stream.done")
        number = await opened(wire)
        for at, piece in (
            (0, "One tw"),
            (0, "One tw"),  # again
            (0, "One"),  # a part of it
            (2, "e two th"),  # a part that is known, and more
            (0, ""),
            (10, ""),
            (10, "ree. Four five."),
            (0, TEXT),
            (len(TEXT), ""),
        ):
            await accepted(wire, "append", stream=number, text=piece, at=at)
        for at in (len(TEXT) + 1, 2**53):
            error = await refused(wire, "append", stream=number, text="x", at=at)
            assert (error["code"], error["param"]) == ("invalid_value", "at")
        await wire.ask("end", stream=number)
        await wire.until("stream.done", stream=number)
        assert story(wire, number) == story(wire, whole)


async def test_places_count_code_points(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        await accepted(wire, "append", stream=number, text="🎧ü ")
        await accepted(wire, "append", stream=number, text="🎧ü x.", at=0)
        await accepted(wire, "append", stream=number, text=".", at=4)
        await wire.ask("end", stream=number)
        assert (await wire.until("stream.done"))["chars"] == 5


async def test_a_piece_that_is_too_long(settings: Settings) -> None:
    voice = ToneVoice()
    voice.text_chars = 100
    async with serving(settings, voice) as served, served.client() as wire:
        number = await opened(wire)
        await accepted(wire, "append", stream=number, text="a" * 99)
        await accepted(wire, "append", stream=number, text="b" * 100)
        error = await refused(wire, "append", stream=number, text="c" * 101)
        assert (error["code"], error["retryable"]) == ("text_too_long", False)
        await accepted(wire, "append", stream=number, text=".")
        await wire.ask("end", stream=number)
        assert (await wire.until("stream.done"))["chars"] == 200


async def test_too_much_text_in_all(settings: Settings) -> None:
    voice = ToneVoice()
    voice.live_chars = 100
    async with serving(settings, voice) as served, served.client() as wire:
        number = await opened(wire)
        await accepted(wire, "append", stream=number, text="a" * 99)
        error = await refused(wire, "append", stream=number, text="bc")
        assert (error["code"], error["param"]) == ("text_too_long", "text")
        await accepted(wire, "append", stream=number, text=".")
        assert (await refused(wire, "append", stream=number, text="d"))["code"] == "text_too_long"
        await accepted(wire, "append", stream=number, text="")
        await wire.ask("end", stream=number)
        assert (await wire.until("stream.done"))["chars"] == 100


async def test_a_piece_that_was_refused_because_too_much_waits_is_taken_later(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=1.0)
    voice.text_chars = 60
    pieces = ["One two three four five. "] * 6
    async with serving(settings, voice, patience_s=600.0) as served, served.client() as wire:
        whole = await wire.speak("".join(pieces))
        await wire.until("stream.done")
        number = await opened(wire)
        at, refusals = 0, 0
        for piece in pieces:
            while (answer := await wire.ask("append", stream=number, text=piece, at=at))[
                "type"
            ] == "error":
                assert (answer["code"], answer["retryable"]) == ("overloaded", True)
                refusals += 1
                await trio.sleep(answer["retry_after_ms"] / 1000)
            at += len(piece)
        assert refusals
        await wire.ask("end", stream=number)
        await wire.until("stream.done", stream=number)
        assert story(wire, number) == story(wire, whole)


async def test_too_many_flushes(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000), messages_per_s=5_000, **AT_ONCE) as served:
        async with served.client() as wire:
            number = await opened(wire)
            await wire.ask("append", stream=number, text=TEXT)
            for _ in range(2_000):
                answer = await wire.ask("flush", stream=number)
                if answer["type"] == "error":
                    break
            assert (answer["code"], answer["retryable"]) == ("overloaded", True)
            await accepted(wire, "end", stream=number)


# --- flushes --------------------------------------------------------------------------------


async def test_flushes_are_told_in_their_order_behind_what_was_before_them(
    settings: Settings,
) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        for said in ("One tw", "a", "o. Three", "b", "c", None, " four.", "a", None):
            if said is not None and len(said) > 1:
                await wire.send("append", stream=number, text=said)
            else:
                await wire.send("flush", stream=number, **({"flush_id": said} if said else {}))
        await wire.send("end", stream=number)
        await wire.until("stream.done")
        told_: list[Any] = []
        for one in story(wire, number):
            if isinstance(one, dict) and one["type"] in {"segment", "flushed", "segment.done"}:
                told_.append(one.get("text") or one.get("flush_id") or one["type"])
        assert told_ == [
            "One tw", "segment.done", "a", "o.", "segment.done", "Three", "segment.done", "b", "c",
            "flushed", "four.", "segment.done", "a", "flushed",
        ]  # fmt: skip


async def test_a_flush_waits_for_the_frames_of_its_text(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=1.0)) as served, served.client() as wire:
        number = await opened(wire)
        await wire.ask("append", stream=number, text="One two three")
        await accepted(wire, "flush", stream=number, flush_id="f")
        assert wire.messages("flushed") == []
        assert await wire.until("flushed") == {
            "type": "flushed", "stream": number, "flush_id": "f",
        }  # fmt: skip
        assert sum(frame.samples for frame in wire.frames(number)) == 3 * WORD
        assert trio.current_time() == pytest.approx(3 * WORD / 24_000)


# --- another voice and speed ----------------------------------------------------------------


async def test_another_speed_from_the_next_segment_on(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=1.0)) as served, served.client() as wire:
        number = await opened(wire, speed=0.5)
        await wire.ask("append", stream=number, text="One two. Thr")
        await wire.until("segment")  # it is begun
        await accepted(wire, "configure", stream=number, speed=2)
        await wire.ask("append", stream=number, text="ee four. Five.")
        await wire.ask("end", stream=number)
        await wire.until("stream.done")
        samples = [m["samples"] for m in wire.messages("segment.done")]
        assert samples == [2 * WORD * 2, 2 * WORD // 2, WORD // 2]


async def test_another_speed_of_a_text_that_was_complete(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, ToneVoice(rtf=1.0)) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        await wire.until("segment")
        await accepted(wire, "configure", stream=number, speed=2, voice="bm_fable")
        await wire.until("stream.done")
        assert [m["samples"] for m in wire.messages("segment.done")] == [3 * WORD, WORD]


async def test_a_manner_that_is_none(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        error = await refused(wire, "configure", stream=number)
        assert error["code"] == "invalid_value"
        error = await refused(wire, "configure", stream=number, voice="nobody", speed=2)
        assert (error["code"], error["param"]) == ("unknown_voice", "voice")
        await wire.ask("append", stream=number, text="One.")
        await wire.ask("end", stream=number)
        await wire.until("stream.done")
        assert wire.messages("segment.done")[0]["samples"] == WORD, "nothing of it was taken"


# --- cancelling -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("played", "spoken"),
    [(0, ""), (WORD - 1, ""), (WORD, "One"), (2 * WORD + 1, "One two"), (3 * WORD, "One two three."),
     (4 * WORD, "One two three. Four"), (2**53, "One two three. Four five.")],
)  # fmt: skip
async def test_what_was_heard_is_told_to_all(settings: Settings, played: int, spoken: str) -> None:
    text = TEXT + " Si"
    async with serving(settings) as served:
        async with served.client() as owner, served.client() as ear:
            number = await opened(owner)
            await ear.ask("subscribe", stream=number)
            await owner.ask("append", stream=number, text=text[:9])
            await owner.ask("append", stream=number, text=text[9:])
            while len(owner.messages("segment.done")) < 2:
                await owner.next()
            await accepted(owner, "cancel", stream=number, played_samples=played)
            for wire in (owner, ear):
                cancelled = wire.messages("stream.cancelled") or [
                    await wire.until("stream.cancelled")
                ]
                assert cancelled == [
                    {
                        "type": "stream.cancelled", "stream": number, "played_samples": played,
                        "chars_spoken": len(spoken), "text_spoken": spoken,
                        "text_remaining": text[len(spoken) :],
                    }
                ]  # fmt: skip
                assert wire.messages("marks") == []


async def test_what_was_heard_is_not_told_to_who_does_not_ask(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await opened(wire)
        await wire.ask("append", stream=number, text=TEXT)
        await wire.until("segment.done")
        await wire.ask("cancel", stream=number)
        (cancelled,) = wire.messages("stream.cancelled") or [await wire.until("stream.cancelled")]
        assert cancelled == {"type": "stream.cancelled", "stream": number}


@pytest.mark.parametrize("word", ["a" * 1_000, "b" * 500, "ü" * 500, '"' * 500])
async def test_texts_that_would_not_fit_a_message_are_left_out(
    settings: Settings, word: str
) -> None:
    piece = f"{word}. " * 15
    voice = ToneVoice()
    voice.text_chars = 200_000
    async with serving(settings, voice) as served, served.client() as wire:
        number = await opened(wire)
        for _ in range(6):
            await accepted(wire, "append", stream=number, text=piece)
        while len(wire.messages("segment.done")) < 3:
            await wire.next()
        await wire.ask("cancel", stream=number, played_samples=3 * WORD)
        (cancelled,) = wire.messages("stream.cancelled") or [await wire.until("stream.cancelled")]
        assert cancelled["chars_spoken"] == 3 * (len(word) + 2) - 1
        text = piece * 6
        fits = len(json.dumps(text, ensure_ascii=False).encode()) < MAX_MESSAGE_BYTES - 500
        assert ("text_spoken" in cancelled) is fits
        assert ("text_remaining" in cancelled) is fits
        if fits:
            assert cancelled["text_spoken"] + cancelled["text_remaining"] == text
        assert (await wire.ask("ping"))["type"] == "pong"


# --- what is told meanwhile -----------------------------------------------------------------


async def times_of(wire: Wire, type_: str, last: str) -> list[tuple[float, Json]]:
    """When messages of this type come, and what they say, up to the last of that type."""
    found: list[tuple[float, Json]] = []
    while True:
        one = await wire.next()
        if isinstance(one, dict) and one["type"] == type_:
            found.append((trio.current_time(), one))
        elif isinstance(one, dict) and one["type"] == last:
            return found


async def test_progress_is_told_four_times_a_second(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.03)
    async with serving(settings, voice, patience_s=600.0) as served:
        async with served.client() as owner, served.client() as ear:
            number = await owner.speak(LONG)
            await ear.ask("subscribe", stream=number)
            found: dict[str, list[tuple[float, Json]]] = {}

            async def listen(name: str, wire: Wire) -> None:
                found[name] = await times_of(wire, "progress", "stream.done")

            async with trio.open_nursery() as nursery:
                nursery.start_soon(listen, "owner", owner)
                nursery.start_soon(listen, "ear", ear)
            took_s = trio.current_time()
            for told_ in found.values():
                assert all(b - a >= PROGRESS_S - 1e-6 for (a, _), (b, _) in pairwise(told_))
                assert 0.8 * took_s / PROGRESS_S - 1 <= len(told_) <= took_s / PROGRESS_S
            done = owner.messages("stream.done")[0]
            for wire in (owner, ear):
                heard = 0
                for one in wire.seen:
                    if isinstance(one, StreamFrame):
                        heard += one.frame.samples
                    elif one["type"] == "progress":
                        assert one.keys() == {"type", "stream", "samples_ready", "queue", "rtf"}
                        assert heard <= one["samples_ready"] <= done["samples"]
                        assert (one["queue"], one["rtf"]) == (0, 0.03)


async def test_progress_tells_of_each_stream_and_of_none_that_is_over(
    settings: Settings, idle_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.5)
    async with serving(settings, voice, patience_s=600.0) as served:
        async with served.client() as wire, served.client() as other:
            await other.ask("open", **PATIENT)
            numbers = [await wire.speak(LONG[:100]), await wire.speak(LONG[:200])]
            await wire.until("stream.done", stream=numbers[0])
            await wire.until("stream.done", stream=numbers[1])
            for number in numbers:
                progress = wire.messages("progress", stream=number)
                assert len(progress) >= 4
                at = wire.seen.index(wire.messages("stream.done", stream=number)[0])
                assert max(map(wire.seen.index, progress)) < at
            # a segment takes 0.55 s, so the first is told before any is done
            first, *rest = wire.messages("progress", stream=numbers[1])
            assert "rtf" not in first or first["samples_ready"] > 0
            assert {m["rtf"] for m in rest} == {0.5}
            assert wire.messages("progress", stream=numbers[0])[0]["queue"] == 2
            assert rest[-1]["queue"] == 1


async def test_a_short_text_has_no_progress(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.speak(TEXT)
        await wire.until("stream.done")
        await wire.ask("ping")
        assert wire.messages("progress") == []


@pytest.mark.parametrize("type_", ["speak", "open"])
async def test_marks_come_only_if_they_are_asked_for(settings: Settings, type_: str) -> None:
    # The server wants them of the voice in any case, to know how far a listener is.
    asked: list[bool] = []

    class Noting(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            asked.append(request.marks)
            async with super().__call__(request) as stream:
                yield stream

    async with serving(settings, Noting()) as served, served.client() as wire:
        stories: list[list[Any]] = []
        for marks in (False, True):
            if type_ == "speak":
                number = await wire.speak(TEXT, marks=marks)
            else:
                number = await opened(wire, marks=marks)
                await wire.ask("append", stream=number, text=TEXT)
                await wire.ask("end", stream=number)
            await wire.until("stream.done", stream=number)
            stories.append(story(wire, number))
        without, with_ = stories
        assert without == [m for m in with_ if not (isinstance(m, dict) and m["type"] == "marks")]
        assert len(with_) == len(without) + 2
        assert asked == [True, True]


async def test_what_is_to_come_is_told_with_each_segment(settings: Settings) -> None:
    class Predicting(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            async with super().__call__(request) as stream:
                yield told(self.predicting(stream))

        async def predicting(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
            async for event in events:
                is_first = isinstance(event, SegmentDone) and event.index == 0
                yield replace(event, predicted_ms_left=550.0) if is_first else event

    async with serving(settings, Predicting()) as served, served.client() as wire:
        await wire.speak(TEXT)
        await wire.until("stream.done")
        first, second = wire.messages("segment.done")
        assert first["predicted_ms_left"] == 550.0
        assert "predicted_ms_left" not in second


# --- how many -------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ["speak", "open"])
async def test_too_many_streams_of_one_connection(settings: Settings, type_: str) -> None:
    fields: dict[str, Any] = {"text": TEXT} if type_ == "speak" else {}
    async with serving(settings, ToneVoice(rtf=1000), connection_streams=2, **AT_ONCE) as served:
        async with served.client() as wire, served.client() as other:
            numbers = [(await wire.ask(type_, **fields))["stream"] for _ in range(2)]
            for again in ("speak", "open"):
                error = await refused(wire, again, **({"text": TEXT} if again == "speak" else {}))
                assert (error["code"], error["retryable"]) == ("too_many_streams", True)
                assert error["retry_after_ms"] > 0
            assert (await other.ask(type_, **fields))["type"] == "ack", "it is not their share"
            # to follow others is no share either
            await wire.ask("subscribe", stream=3)
            await wire.ask("cancel", stream=numbers[0])
            await wire.until("stream.cancelled", stream=numbers[0])
            assert (await wire.ask(type_, **fields))["type"] == "ack"


async def test_a_stream_that_is_made_and_not_read_counts(settings: Settings) -> None:
    # It is made at once, and is more than the sockets take by themselves.
    async with serving(settings, max_lead_ms=600_000, connection_streams=2) as served:
        async with served.client(queue=1) as wire:
            for n in (1, 2):
                await wire.send("speak", text=LONG, key=str(n))
            await served.until(lambda: served.server.streams.find(2) is not None)
            await served.until(lambda: not served.server.streams.live)
            error = await refused(wire, "speak", text=TEXT)
            assert error["code"] == "too_many_streams"
            for number in (1, 2):
                if not wire.messages("stream.done", stream=number):
                    await wire.until("stream.done", stream=number)
            await served.until(lambda: not any(c._following for c in served.server.clients))
            assert (await wire.ask("speak", text=TEXT))["type"] == "ack"


async def test_too_many_streams_over_all_connections(settings: Settings) -> None:
    async with serving(settings, streams=2, **AT_ONCE) as served:
        async with served.client() as one, served.client() as two:
            numbers = [await opened(one), await opened(two)]
            for wire in (one, two):
                error = await refused(wire, "open", **PATIENT)
                assert (error["code"], error["retryable"]) == ("overloaded", True)
            await accepted(two, "end", stream=numbers[0])
            await one.until("stream.done")
            await opened(two)


async def test_two_live_texts_at_once_do_not_mix(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        whole = await wire.speak(TEXT)
        await wire.until("stream.done")
        a, b = await opened(wire), await opened(wire)
        for at in range(0, len(TEXT), 3):
            await wire.send("append", stream=a, text=TEXT[at : at + 3])
            await wire.send("append", stream=b, text=TEXT[at : at + 3], at=at)
        await wire.send("end", stream=b)
        await wire.send("end", stream=a)
        for _ in range(2):
            await wire.until("stream.done")
        assert story(wire, a) == story(wire, b) == story(wire, whole)
