"""The stages of one utterance, in virtual time, with a voicing that costs what it is told."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from engine import pipeline, timing
from engine.audio import SAMPLE_RATE, is_audible
from engine.errors import EngineError, SynthesisFailed
from engine.request import (
    Done,
    Event,
    Frame,
    Marks,
    Notice,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
    TextOptions,
)
from engine.text.segment import Mark
from tests.engine.voicing import (
    ACOUSTIC,
    PIECE,
    QUIET,
    WORDS,
    Voicing,
    heard_of,
    paragraphs,
    pause,
    sound_samples,
    utterance,
)
from tests.support.reading import check_stream

ANYTHING = st.text(
    alphabet=st.one_of(st.sampled_from("aab z x. , .!?…\n—'"), st.characters(codec="utf-8")),
    min_size=1,
    max_size=300,
)


@given(
    text=ANYTHING,
    piece=st.integers(1, 9000),
    speed=st.sampled_from([0.25, 1.0, 4.0]),
    marks=st.booleans(),
    remembers=st.booleans(),
)
async def test_any_text_in_any_pieces_keeps_the_rules_of_the_port(
    text: str, piece: int, speed: float, marks: bool, remembers: bool
) -> None:
    voicing = Voicing(piece_samples=max(piece, len(text) * 10), remembers=remembers)
    first, again = [
        await heard_of(utterance(text, speed=speed, marks=marks), voicing) for _ in range(2)
    ]
    request = SpeechRequest(text=text, speed=speed, marks=marks, phonemes=True)
    check_stream(first, request)
    check_stream(again, request)
    assert first.pcm == again.pcm
    speakable = [segment for segment in first.of(SegmentStart) if segment.phonemes]
    assert len(speakable) == first.done.segments


async def test_one_segment() -> None:
    heard = await heard_of("Abc defg.", Voicing())
    (start,), (done,) = heard.of(SegmentStart), heard.of(SegmentDone)
    assert (start.index, start.text, start.char_start, start.char_end) == (0, "Abc defg.", 0, 9)
    assert (start.sample, start.phonemes) == (0, "Abc defg.")
    assert done.samples == heard.done.samples == sound_samples("Abc defg.")
    assert {frame.samples for frame in heard.of(Frame)[:-2]} == {1200}
    assert not heard.done.cached


async def test_pieces_stream_out_before_the_segment_is_finished(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(words_s=0.1, acoustic_s=0.2, piece_s=1.0, piece_samples=2400)
    count = -(-sound_samples(paragraphs("a")) // 2400)
    arrived: list[float] = []
    async with pipeline.run(utterance(paragraphs("a")), voicing) as events:
        async for event in events:
            if isinstance(event, Frame) and event.samples:
                arrived.append(round(trio.current_time(), 3))
            if isinstance(event, SegmentDone):
                assert trio.current_time() == pytest.approx(0.3 + count)
                assert event.compute_ms == pytest.approx(200 + count * 1000)
    # the two frames of a piece with it, and what is left of the last one at the end
    assert arrived[:6] == [1.3, 1.3, 2.3, 2.3, 3.3, 3.3]
    assert len(set(arrived)) == count


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
async def test_pauses_belong_to_the_segment_behind_them(speed: float) -> None:
    long = {letter: " ".join([letter * 50] * 5) for letter in "BC"}  # too long for one segment
    text = f"{'A' * 30}. {long['B']}. {long['C']},\n\nD"
    heard = await heard_of(utterance(text, speed=speed), Voicing())
    starts, dones = heard.of(SegmentStart), heard.of(SegmentDone)
    assert [start.text[0] for start in starts] == ["A", "B", "C", "D"]
    marks = [Mark.START, Mark.SENTENCE, Mark.SENTENCE, Mark.PARAGRAPH]
    assert pause(Mark.START, speed) == 0 < pause(Mark.SENTENCE, 2.0) < pause(Mark.SENTENCE, 1.0)
    for start, done, mark in zip(starts, dones, marks, strict=True):
        silent = pause(mark, speed)
        assert done.samples == silent + sound_samples(start.phonemes or "", speed)
        audio = heard.audio[start.sample : start.sample + done.samples]
        assert not audio[:silent].any()
        assert audio[silent:].all()


async def test_a_pause_that_the_text_asks_for_is_silence() -> None:
    heard = await heard_of("[pause:1s] Aaa. [pause:500ms] Bbb.[pause:100ms]", Voicing())
    starts, dones = heard.of(SegmentStart), heard.of(SegmentDone)
    assert [start.phonemes for start in starts] == ["Aaa.", "Bbb.", ""]
    silences = [
        done.samples - (sound_samples(start.phonemes) if start.phonemes else 0)
        for start, done in zip(starts, dones, strict=True)
    ]
    assert silences == [SAMPLE_RATE, SAMPLE_RATE // 2, SAMPLE_RATE // 10]
    assert not heard.of(Notice)


async def test_pauses_can_be_scaled() -> None:
    options = TextOptions(pause_scale=2.0)
    heard = await heard_of(utterance("Aaa.\n\nBbb.", options=options), Voicing())
    silent = heard.of(SegmentDone)[1].samples - sound_samples("Bbb.")
    assert silent == timing.pause_samples(Mark.PARAGRAPH, 1.0, 2.0) > pause(Mark.PARAGRAPH)


async def test_what_cannot_be_spoken_is_told_and_the_rest_goes_on() -> None:
    heard = await heard_of("One. --- Two.", Voicing())
    assert [start.text for start in heard.of(SegmentStart)] == ["One. --- Two."]
    assert not heard.of(Notice)
    heard = await heard_of("One.\n\nxx xxx\n\nTwo.", Voicing())
    assert [start.index for start in heard.of(SegmentStart)] == [0, 1]
    assert [start.text for start in heard.of(SegmentStart)] == ["One.", "Two."]
    (notice,) = heard.of(Notice)
    assert (notice.code, notice.char_start, notice.char_end) == ("not_spoken", 6, 12)
    order = [type(e) for e in heard.events if isinstance(e, Notice | SegmentStart)]
    assert order == [SegmentStart, Notice, SegmentStart]


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        ("…", ["nothing_to_speak"]),
        ("xx.", ["not_spoken", "nothing_to_speak"]),
        (" \n*** ", ["nothing_to_speak"]),
    ],
)
async def test_nothing_to_speak_is_an_empty_stream_with_a_notice(
    text: str, notices: list[str]
) -> None:
    heard = await heard_of(text, Voicing())
    assert [n.code for n in heard.of(Notice)] == notices
    (frame,) = heard.of(Frame)
    assert (frame.first, frame.last, frame.samples) == (True, True, 0)
    assert heard.events[-1] == Done(samples=0, audio_ms=0, chars=len(text), segments=0)


async def test_a_segment_without_sound_is_only_its_pause() -> None:
    spoken = utterance("Aaa.\n\nZzz zz.\n\nBbb.", marks=True)
    heard = await heard_of(spoken, Voicing())
    assert isinstance(spoken.request, SpeechRequest)
    check_stream(heard, spoken.request)
    silent = heard.of(SegmentDone)[1]
    assert silent.samples == pause(Mark.PARAGRAPH)
    assert [mark.index for mark in heard.of(Marks)] == [0, 2]
    heard = await heard_of("Zz.", Voicing())
    assert (heard.done.samples, heard.done.segments, heard.done.ttfa_ms) == (0, 1, None)


async def test_first_sound_is_timed_from_the_text_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(words_s=0.01, acoustic_s=0.2, piece_s=0.1)
    heard = await heard_of(paragraphs("abc"), voicing)
    assert heard.done.ttfa_ms == pytest.approx(310)


# --- who is ahead, and how far ------------------------------------------------------------------


async def test_the_next_segments_are_prepared_while_one_is_decoded(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(words_s=0.1, acoustic_s=0.3, piece_s=1.0, piece_samples=10**9)
    heard = await heard_of(paragraphs("abcdef"), voicing)
    assert voicing.times(PIECE) == [1.4, 2.4, 3.4, 4.4, 5.4, 6.4]
    # one is decoded, one waits for that, and one has its acoustic pass and waits for its place
    assert voicing.times(ACOUSTIC) == [0.4, 0.7, 1.0, 1.7, 2.7, 3.7]
    assert [done.compute_ms for done in heard.of(SegmentDone)] == [1300] * 6


@pytest.mark.parametrize("piece_samples", [1200, 10**9])
async def test_no_stage_runs_away_from_a_slow_listener(
    piece_samples: int, autojump_clock: trio.testing.MockClock
) -> None:
    voicing = Voicing(piece_samples=piece_samples)
    text = paragraphs("abcdefghijklmnopqrst")
    async with pipeline.run(utterance(text), voicing) as events:
        async for event in events:
            if isinstance(event, Frame):
                break
        await trio.testing.wait_all_tasks_blocked()
        assert 1 <= len(voicing.done(PIECE)) <= 4
        assert len(voicing.done(ACOUSTIC)) <= 6
        assert len(voicing.done(WORDS)) <= 9


async def test_deadlines_are_those_of_a_listener(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await trio.sleep(7)
    voicing = Voicing(acoustic_s=0.5, piece_s=0.1, piece_samples=10**9)
    heard = await heard_of(paragraphs("abcde"), voicing)
    asked = [deadline_s for deadline_s, _ in voicing.asked]
    length_s = [done.samples / SAMPLE_RATE for done in heard.of(SegmentDone)]
    cut_s = 2 * QUIET / SAMPLE_RATE
    assert asked[0] == 7  # when it was asked for
    # What is planned counts until it is made; nobody knows yet that it will be trimmed.
    assert asked[1] == pytest.approx(7 + length_s[0] + cut_s)
    # The first is made, and began to play then.
    playing_s = 7.5 + 0.1
    for n in (2, 3, 4):
        assert asked[n] == pytest.approx(playing_s + sum(length_s[:n]) + cut_s)
    assert [due_s for due_s, _ in voicing.due] == pytest.approx(
        [7, *(playing_s + sum(length_s[:n]) + pause(Mark.PARAGRAPH) / SAMPLE_RATE
              for n in range(1, 5))]
    )  # fmt: skip
    assert all(a < b for a, b in pairwise(asked))


async def test_the_first_piece_is_due_when_the_text_came_and_not_when_it_was_prepared(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Else an acoustic pass of a stream that came later would go first."""
    voicing = Voicing(words_s=0.1, acoustic_s=0.5, piece_s=0.1)
    await heard_of(paragraphs("a"), voicing)
    assert voicing.due[0][0] == 0.0
    assert voicing.due[1][0] == pytest.approx(0.7 + 0.1)


@pytest.mark.parametrize("priority", ["live", "batch"])
async def test_the_priority_reaches_every_call(priority: str) -> None:
    voicing = Voicing()
    await heard_of(utterance(paragraphs("ab"), priority=priority), voicing)
    flags = [batch for _, batch in voicing.asked + voicing.due]
    assert len(flags) > 4
    assert set(flags) == {priority == "batch"}


# --- ends ---------------------------------------------------------------------------------------


async def test_leaving_early_cancels_the_model(autojump_clock: trio.testing.MockClock) -> None:
    voicing = Voicing(piece_s=10, piece_samples=10**9)
    async with pipeline.run(utterance(paragraphs("abc")), voicing) as events:
        assert (await anext(events)) is not None
        await trio.sleep(15)  # in the middle of the second segment
    assert trio.current_time() == 15
    assert len(voicing.done(PIECE)) == 1
    await trio.sleep(100)
    assert len(voicing.done(PIECE)) == 1


@pytest.mark.parametrize("kind", [WORDS, ACOUSTIC, PIECE])
async def test_an_error_comes_after_what_was_made_before_it(kind: str) -> None:
    voicing = Voicing(fail_at="b", fail_in=kind, failure=lambda: SynthesisFailed("It failed."))
    got: list[Event] = []
    async with pipeline.run(utterance(paragraphs("abc")), voicing) as events:
        with pytest.raises(SynthesisFailed, match=r"It failed\."):
            async for event in events:
                got.append(event)
    assert [event.index for event in got if isinstance(event, SegmentDone)] == [0]
    assert not [event for event in got if isinstance(event, Done)]
    assert is_audible(b"".join(event.pcm for event in got if isinstance(event, Frame)))


async def test_an_error_in_a_segment_comes_after_its_pieces() -> None:
    calls = 0

    class Third(Voicing):
        async def _step(self, kind: str, what: str, seconds: float) -> None:
            nonlocal calls
            calls += kind == PIECE
            if calls == 3:
                raise SynthesisFailed("It failed.")
            await super()._step(kind, what, seconds)

    got: list[Event] = []
    async with pipeline.run(utterance(paragraphs("a")), Third(piece_samples=2400)) as events:
        with pytest.raises(SynthesisFailed, match=r"It failed\."):
            async for event in events:
                got.append(event)
    assert sum(event.samples for event in got if isinstance(event, Frame)) == 2 * 2400
    assert not [event for event in got if isinstance(event, SegmentDone)]


async def test_of_two_errors_the_first_in_the_text_is_told_though_the_listener_is_slow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The second comes to a stage behind which there is nobody any more."""

    class Both(Voicing):
        async def _step(self, kind: str, what: str, seconds: float) -> None:
            if kind == PIECE:
                raise SynthesisFailed("The first.")
            await super()._step(kind, what, seconds)
            if kind == ACOUSTIC and "b" in what:
                raise SynthesisFailed("The second.")

    heard_on = False
    async with pipeline.run(utterance(paragraphs("abc")), Both(acoustic_s=1.0)) as events:
        with pytest.raises(SynthesisFailed, match=r"The first\."):
            async for _ in events:
                await trio.sleep(10)
        heard_on = True
    assert heard_on


@pytest.mark.parametrize("kind", [WORDS, ACOUSTIC, PIECE])
async def test_a_foreign_exception_is_translated_and_tells_no_text(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "Secret words."
    voicing = Voicing(fail_at="S", fail_in=kind, failure=lambda: ValueError(text))
    with pytest.raises(EngineError) as caught:
        await heard_of(text, voicing)
    assert type(caught.value) is SynthesisFailed
    captured = capsys.readouterr()
    assert "ecret" not in caught.value.message + captured.err + captured.out
    assert "ValueError" in captured.err + captured.out


async def test_what_is_logged_of_speech_holds_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    await heard_of("Secret words.", Voicing())
    captured = capsys.readouterr()
    assert "chars=13" in captured.err + captured.out
    assert "ecret" not in captured.err + captured.out


async def test_what_the_listener_raises_comes_as_itself() -> None:
    voicing = Voicing()
    with pytest.raises(ZeroDivisionError):
        async with pipeline.run(utterance(paragraphs("abc")), voicing) as events:
            await anext(events)
            raise ZeroDivisionError


async def test_cancelling_at_any_moment_leaves_nothing_running(
    autojump_clock: trio.testing.MockClock,
) -> None:
    cancelled = 0
    for moment in np.arange(0.0, 6.0, 0.05):
        voicing = Voicing(words_s=0.13, acoustic_s=0.17, piece_s=0.31, piece_samples=40_000)
        with trio.move_on_after(float(moment)) as scope:
            await heard_of(paragraphs("abcd"), voicing)
        if scope.cancelled_caught:
            cancelled += 1
            made = len(voicing.log)
            await trio.sleep(5)
            assert len(voicing.log) == made
    assert 40 < cancelled < 120


# --- caches -------------------------------------------------------------------------------------


async def test_what_was_there_already_is_told_and_costs_nothing(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(acoustic_s=0.2, piece_s=0.1, remembers=True)
    first = await heard_of(paragraphs("a"), voicing)
    again = await heard_of(paragraphs("a"), voicing)
    both = await heard_of(paragraphs("ba"), voicing)
    other = await heard_of(paragraphs("ac"), voicing)
    new = await heard_of(paragraphs("d"), voicing)
    assert [h.done.cached for h in (first, again, both)] == [False, True, True]
    assert [h.done.cached for h in (other, new)] == [True, False]
    told = [[start.cached for start in h.of(SegmentStart)] for h in (first, both, other)]
    assert told == [[False], [False, True], [True, False]]
    assert again.pcm == first.pcm
    assert again.done.ttfa_ms == 0
    assert again.of(SegmentDone)[0].compute_ms == 0
    costs = [done.compute_ms for done in both.of(SegmentDone)]
    assert costs == [first.of(SegmentDone)[0].compute_ms, 0]
    assert costs[0] > 0


async def test_a_segment_says_beforehand_how_long_it_is_and_what_is_before_it() -> None:
    long = ", ".join(["b" * 50] * 6)  # too long for one segment
    heard = await heard_of(f"{'a' * 30}. {long}.\n\nC", Voicing())
    starts, dones = heard.of(SegmentStart), heard.of(SegmentDone)
    assert [start.pause for start in starts] == [None, "sentence", "comma", "paragraph"]
    for start, done in zip(starts, dones, strict=True):
        assert start.predicted_samples is not None
        trimmed = start.predicted_samples - done.samples
        assert 0 <= trimmed < SAMPLE_RATE / 10
    assert dones[1].samples > sound_samples(starts[1].phonemes or "")  # its silence counts


# --- where the listener is ---------------------------------------------------------------------


async def test_deadlines_are_those_of_a_listener_who_tells_where_he_is(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(acoustic_s=0.5, piece_s=0.1, piece_samples=10**9)
    async with pipeline.run(utterance(paragraphs("abcde")), voicing) as events:
        async for event in events:
            if isinstance(event, SegmentStart):
                events.heard(0, False)  # he holds back all that there is
    length_s = [done / SAMPLE_RATE for done in map(sound_samples, voicing.done(PIECE))]
    now_s = voicing.log[-1][0] - voicing.piece_s
    due_s, _ = voicing.due[-1]
    assert due_s > now_s + sum(length_s[:-2])  # all but what came since he told


async def test_what_he_tells_wrongly_changes_nothing(
    autojump_clock: trio.testing.MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, wrong = Voicing(acoustic_s=0.5, piece_s=0.1), Voicing(acoustic_s=0.5, piece_s=0.1)
    await heard_of(paragraphs("abc"), plain)
    began_s = trio.current_time()
    async with pipeline.run(utterance(paragraphs("abc")), wrong) as events:
        async for event in events:
            if isinstance(event, Frame):
                events.heard(10**9, False)
    assert [due_s - began_s for due_s, _ in wrong.due] == pytest.approx([d for d, _ in plain.due])
    captured = capsys.readouterr()
    assert "not made" in captured.err + captured.out


# --- the pass over the next segment ------------------------------------------------------------


async def begun_s(voicing: Voicing, priority: str = "live") -> float:
    """When the pass over the second of two segments begins, after the first one's."""
    await heard_of(utterance(paragraphs("ab"), priority=priority), voicing)
    first, second = voicing.times(ACOUSTIC)
    return round(second - voicing.acoustic_s - first, 3)


async def test_the_next_pass_waits_until_what_is_in_hand_outlasts_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # A piece of 0.1 s takes 0.05 s: a second is in hand after about one.
    slow = Voicing(acoustic_s=1.0, known_s=1.0, piece_s=0.05)
    assert 0.9 <= await begun_s(slow) <= 1.1
    # … and at once if it is short, as far as is known.
    assert await begun_s(Voicing(acoustic_s=1.0, known_s=0.0, piece_s=0.05)) == 0


async def test_it_waits_no_longer_than_there_is_something_to_decode(
    autojump_clock: trio.testing.MockClock,
) -> None:
    # So slow that nothing is ever in hand; 4 s in pieces of 0.1 s, each in 0.2 s.
    voicing = Voicing(acoustic_s=1.0, known_s=1.0, piece_s=0.2)
    pieces = len(range(0, sound_samples("A" + "a" * 39 + "."), voicing.piece_samples))
    assert await begun_s(voicing) == pytest.approx(0.2 * pieces)


async def test_nobody_waits_for_a_batch(autojump_clock: trio.testing.MockClock) -> None:
    voicing = Voicing(acoustic_s=1.0, known_s=1.0, piece_s=0.05)
    assert await begun_s(voicing, "batch") == 0
