"""Segments through a fake model: rungs, caches, and who has the lane."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import trio
import trio.testing

from engine import pipeline, synthesis
from engine.audio import SAMPLE_RATE, from_pcm, pcm_samples
from engine.errors import SynthesisFailed
from engine.ladder import Costs, Kind, Step, Windows
from engine.lane import Pace
from engine.model.runtime import Call
from engine.report import CacheSize
from engine.request import TextOptions
from engine.synthesis import Synthesis
from engine.text.passage import Passage
from engine.text.reader import Reader
from engine.text.spanned import Spanned
from engine.utterance import Manner, Piece, Speech
from tests.engine.machine import FIRST_SOUND_S, SLOW, Front, Machine, pcm_of, speak
from tests.engine.machine import synthesis as made_of
from tests.engine.voicing import utterance

#: some seconds of speech
LONG = "a" * 60 + "."
SHORT = "aaaa."
REQUESTED = utterance("Read this.")


def passage(text: str) -> Passage:
    """A sentence that is the whole text."""
    return Passage(0, len(text), Spanned.of(text))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The fake model; stopping a call lets it go."""
    machine = Machine()
    stop = Call.stop

    def stopped(call: Call[object]) -> None:
        stop(call)
        machine.log.append("stopped")
        machine.let_go()

    monkeypatch.setattr(Call, "stop", stopped)
    return machine


def new() -> Pace:
    """Of a stream that comes now."""
    return Pace(trio.current_time(), 1e6)


def hurried() -> Pace:
    """Of one that has no budget."""
    return Pace(trio.current_time())


def rich() -> Pace:
    """Of one that has an hour of audio in hand."""
    pace = hurried()
    pace.made(trio.current_time(), 3600 * SAMPLE_RATE)
    return pace


# --- a segment ----------------------------------------------------------------------------------


async def test_a_segment_is_decoded_whole_if_there_is_time(machine: Machine) -> None:
    speech, pieces = await speak(made_of(machine), SHORT, new())
    assert machine.log == ["acoustic a", "whole a"]
    (piece,) = pieces
    assert piece.start is not None
    start, stop = speech.span
    assert start < piece.start < FIRST_SOUND_S * SAMPLE_RATE
    assert piece.start + pcm_samples(piece.pcm) == stop  # sound to its end
    assert speech.compute_s > 0 < piece.compute_s


async def test_slow_speech_is_not_cut_off_at_its_beginning(machine: Machine) -> None:
    """It begins as early in the audio as it would at speed 1, though its frames begin later."""
    for speed in (1.0, 0.25):
        speech, (piece,) = await speak(made_of(machine), SHORT, new(), speed=speed)
        assert speech.speed == speed
        assert piece.start is not None
        assert 0 < FIRST_SOUND_S * SAMPLE_RATE - piece.start < 500


@pytest.mark.parametrize("rich_after", [1, 4, None])
async def test_windows_in_a_row_are_the_whole_segment(
    rich_after: int | None, machine: Machine
) -> None:
    """Predicted to the end, or exact as soon as there is time for stage one."""
    _, (whole,) = await speak(made_of(machine), LONG, new())
    machine.log.clear()
    made, pace = made_of(machine, costs=SLOW, budget_s=0.0), hurried()
    speech = await made.prepare(LONG, "a", 1.0, pace, batch=False)
    pieces: list[Piece] = []
    async with aclosing(made.pieces(speech, pace, batch=False)) as stream:
        async for piece in stream:
            pieces.append(piece)
            if len(pieces) == rich_after:
                pace.made(trio.current_time(), 10**9 * SAMPLE_RATE)
    assert machine.log[:2] == ["acoustic a", "two a 0-17"]  # and one to be blended
    assert [name for name in machine.log if name == "one a"] == ["one a"] * bool(rich_after)
    assert len(pieces) > 4
    assert {piece.start for piece in pieces} == {whole.start}
    assert all(piece.pcm for piece in pieces)
    difference = from_pcm(pcm_of(pieces)) - from_pcm(whole.pcm)  # raises if one is longer
    assert np.abs(difference).max() < 1e-3


async def test_the_first_window_comes_before_the_second_is_decoded(machine: Machine) -> None:
    made = made_of(machine, costs=SLOW, budget_s=0.0)
    pace = hurried()
    speech = await made.prepare(LONG, "a", 1.0, pace, batch=False)
    async with aclosing(made.pieces(speech, pace, batch=False)) as pieces:
        first = await anext(pieces)
        assert first.pcm
        assert [name for name in machine.log if name.startswith("two")] == ["two a 0-17"]


@pytest.mark.parametrize(("gone_s", "whole"), [(0.0, True), (0.15, True), (0.25, False)])
async def test_the_budget_is_what_is_left_since_the_text_came(
    gone_s: float, whole: bool, machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    columns = (len(LONG) + 2) * 8
    made = made_of(machine, costs=(0.1 / columns, 0.0), budget_s=0.3)
    pace = Pace(trio.current_time(), 0.3)
    await trio.sleep(gone_s)
    await speak(made, LONG, pace)
    assert ("whole a" in machine.log) is whole


async def test_a_segment_that_nobody_waits_for_is_decoded_whole(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    made = made_of(machine, costs=(1e-5, 1e-5), budget_s=0.0)
    await speak(made, LONG, hurried(), batch=True)
    assert machine.log == ["acoustic a", "whole a"]
    machine.log.clear()
    await speak(made, LONG + LONG, hurried())
    assert "whole a" not in machine.log


async def test_what_a_step_takes_is_learnt(machine: Machine) -> None:
    made = made_of(machine)
    step = Step(Kind.WHOLE, 0, 100)
    before = made._costs.of(step)
    await speak(made, SHORT, new())
    assert made._costs.of(step) > before  # it cannot be as quick as it was told


@pytest.mark.parametrize("name", ["acoustic a", "whole a"])
async def test_a_model_that_fails_is_told_and_leaves_the_lane(name: str, machine: Machine) -> None:
    made = made_of(machine)
    machine.fails.add(name)
    with pytest.raises(SynthesisFailed):
        await speak(made, SHORT, new())
    machine.fails.clear()
    speech, pieces = await speak(made, SHORT, new())
    assert speech.pcm is None  # what failed was not kept
    assert pcm_of(pieces)


async def test_silence_is_no_piece_the_first_time_and_the_second(machine: Machine) -> None:
    machine.silent = True
    made = made_of(machine)
    first, no_pieces = await speak(made, SHORT, new())
    again, still_none = await speak(made, SHORT, new())
    assert no_pieces == still_none == []
    assert (first.pcm, again.pcm) == (None, b"")


async def test_what_was_prepared_elsewhere_is_refused(machine: Machine) -> None:
    foreign = Speech(SHORT, np.full(len(SHORT) + 2, 4, np.int64))
    async with aclosing(made_of(machine).pieces(foreign, new(), batch=False)) as pieces:
        with pytest.raises(TypeError):
            await anext(pieces)


# --- the cache of audio -------------------------------------------------------------------------


async def is_kept(made: Synthesis, phonemes: str, *, voice: str = "a", speed: float = 1.0) -> bool:
    """Whether it need not be made; makes none of it."""
    speech = await made.prepare(phonemes, voice, speed, rich(), batch=False)
    return speech.pcm is not None


async def test_what_comes_again_is_there_already(machine: Machine) -> None:
    made = made_of(machine, costs=SLOW, budget_s=0.0)
    first, pieces = await speak(made, LONG, hurried())
    machine.log.clear()
    again, (kept,) = await speak(made, LONG, hurried())
    assert machine.log == []
    assert first.pcm is None
    assert kept.pcm == again.pcm == pcm_of(pieces)
    assert (kept.start, kept.compute_s, again.compute_s) == (pieces[0].start, 0.0, 0.0)
    assert again.samples == pcm_samples(kept.pcm) < first.samples
    assert np.array_equal(again.durations, first.durations)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({}, True),
        ({"voice": "twin of a"}, True),  # the same vector under another name
        ({"voice": "b"}, False),
        ({"speed": 1.1}, False),
        ({"phonemes": "aaab."}, False),
        ({"phonemes": "aaaa"}, False),
    ],
)
async def test_only_the_very_same_is_the_same(
    change: dict[str, object], same: bool, machine: Machine
) -> None:
    made = made_of(machine)
    await speak(made, SHORT, new())
    assert await is_kept(made, **{"phonemes": SHORT, **change}) is same  # type: ignore[arg-type]  # a test's shorthand


async def test_another_build_of_the_model_is_not_the_same(machine: Machine) -> None:
    keys = set()
    for build in ("build", "build", "another"):
        speech, _ = await speak(made_of(machine, build=build), SHORT, new())
        keys.add(speech.key)
    assert len(keys) == 2


async def test_the_cache_is_bounded_in_bytes_and_forgets_what_was_not_used(
    machine: Machine,
) -> None:
    _, pieces = await speak(made_of(machine), "a" * 20, new())
    size = len(pcm_of(pieces))
    made = made_of(machine, cache_bytes=size * 7 // 2)
    texts = [letter * 20 for letter in "abcdef"]
    for text in texts[:3]:
        await speak(made, text, new())
    assert [await is_kept(made, text) for text in texts[:3]] == [True] * 3
    await is_kept(made, texts[0])  # used once more
    for text in texts[3:5]:
        await speak(made, text, new())
    kept = [await is_kept(made, text) for text in texts[:5]]
    assert kept == [True, False, False, True, True]


async def test_what_is_larger_than_the_cache_is_spoken_and_not_kept(machine: Machine) -> None:
    _, pieces = await speak(made_of(machine), "a" * 20, new())
    made = made_of(machine, cache_bytes=len(pcm_of(pieces)) - 1)
    await speak(made, SHORT, new())
    _, again = await speak(made, "a" * 20, new())
    assert pcm_of(again) == pcm_of(pieces)
    assert not await is_kept(made, "a" * 20)
    assert await is_kept(made, SHORT)  # nothing had to make room for it


async def test_what_was_kept_is_forgotten_after_an_hour(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    made = made_of(machine)
    await speak(made, SHORT, new())
    await trio.sleep(3599)
    assert await is_kept(made, SHORT)
    await trio.sleep(2)
    assert not await is_kept(made, SHORT)


async def test_what_nobody_heard_to_its_end_is_not_kept(machine: Machine) -> None:
    made = made_of(machine, costs=SLOW, budget_s=0.0)
    pace = hurried()
    speech = await made.prepare(LONG, "a", 1.0, pace, batch=False)
    async with aclosing(made.pieces(speech, pace, batch=False)) as pieces:
        await anext(pieces)
    assert not await is_kept(made, LONG)


async def test_a_cache_can_be_turned_off(machine: Machine) -> None:
    made = made_of(machine, cache_bytes=0)
    for _ in range(2):
        speech, (piece,) = await speak(made, SHORT, new())
        assert speech.pcm is None
        assert speech.compute_s > 0 < piece.compute_s
    assert machine.log == ["acoustic a", "whole a"] * 2


async def test_what_is_remembered_can_be_forgotten(machine: Machine) -> None:
    front = Front()
    made = made_of(machine, front=front)
    await made.read(passage("one two"), REQUESTED)
    await speak(made, SHORT, new())
    made.forget()
    assert not front.seen
    assert not await is_kept(made, SHORT)


async def test_caches_tell_how_full_they_are(
    machine: Machine, autojump_clock: trio.testing.MockClock
) -> None:
    made = made_of(machine, cache_bytes=10**6)
    audio, *others = made.caches
    assert audio == CacheSize("audio", 0, 10**6, "bytes")
    assert [cache.name for cache in others] == ["voices", "phonemes"]
    _, pieces = await speak(made, SHORT, new())
    assert len(pcm_of(pieces)) < made.caches[0].used < len(pcm_of(pieces)) + 1000
    await trio.sleep(3601)
    assert made.caches[0].used == 0


async def test_upkeep_comes_when_nobody_waits_and_gives_way(machine: Machine) -> None:
    made = made_of(machine)
    machine.hold("acoustic b")
    style = np.array([[2.0, 0.0]], np.float32)
    async with trio.open_nursery() as nursery, trio.open_nursery() as kept:
        kept.start_soon(made.in_batch, machine.model.acoustic.call("bbbb", style, 1.0))
        await trio.to_thread.run_sync(machine.wait_until_held, "acoustic b")
        nursery.start_soon(speak, made, SHORT, new())
        await trio.testing.wait_all_tasks_blocked()
        kept.cancel_scope.cancel()
    assert machine.log == ["acoustic b", "stopped", "acoustic a", "whole a"]


# --- reading ------------------------------------------------------------------------------------


async def test_one_task_at_a_time_reads(machine: Machine) -> None:
    front = Front()
    made = made_of(machine, front=front)
    front.gate.clear()
    async with trio.open_nursery() as nursery:
        for n in range(10):
            nursery.start_soon(made.read, passage(f"text {n}"), REQUESTED)
        await trio.testing.wait_all_tasks_blocked()
        front.gate.set()
    assert len(front.seen) == 10
    assert front.most == 1


async def test_text_becomes_passages_piece_by_piece(machine: Machine) -> None:
    made = made_of(machine)
    reader = Reader("en", TextOptions())
    found = [
        passage
        for piece in ("It is so. It i", "s not so. Or", " is it", None)
        for passage in await made.passages(
            reader.end if piece is None else partial(reader.push, piece)
        )
    ]
    assert [p.text.text for p in found] == ["It is so.", "It is not so.", "Or is it"]


# --- the lane -----------------------------------------------------------------------------------


async def test_a_stream_that_is_cancelled_in_a_window_frees_the_lane(machine: Machine) -> None:
    made = made_of(machine, costs=SLOW, budget_s=0.0)
    machine.hold("two a 16-33")
    scope = trio.CancelScope()

    async def leave() -> None:
        with scope:
            await speak(made, LONG, hurried(), voice="a")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(leave)
        await trio.to_thread.run_sync(machine.wait_until_held, "two a 16-33")
        nursery.start_soon(partial(speak, made, SHORT, hurried(), voice="b"))
        await trio.testing.wait_all_tasks_blocked()
        assert machine.log == ["acoustic a", "two a 0-17", "two a 16-33"]
        scope.cancel()
    assert scope.cancelled_caught
    assert machine.log[3:5] == ["stopped", "acoustic b"]
    assert not [name for name in machine.log[4:] if name.endswith("33") and " a " in name]
    assert not await is_kept(made, LONG)
    assert await is_kept(made, SHORT, voice="b")


async def test_a_new_stream_overtakes_one_that_has_audio_in_hand(machine: Machine) -> None:
    made = made_of(machine, costs=SLOW, budget_s=0.0)
    machine.hold("two a 0-17")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(speak, made, LONG, rich(), voice="a"))
        await trio.to_thread.run_sync(machine.wait_until_held, "two a 0-17")
        nursery.start_soon(partial(speak, made, LONG, hurried(), voice="b"))
        await trio.testing.wait_all_tasks_blocked()
        machine.let_go()
    b = [n for n, name in enumerate(machine.log) if " b" in name]
    assert machine.log[:4] == ["acoustic a", "two a 0-17", "acoustic b", "two b 0-17"]
    assert b == list(range(2, 2 + len(b)))  # all of it: it never has as much in hand


async def test_a_streams_first_window_comes_before_the_acoustic_pass_of_a_later_stream(
    machine: Machine,
) -> None:
    """Streams that come together are served one after the other."""
    made = made_of(machine, costs=SLOW, budget_s=0.0)

    async def listen(voice: str) -> None:
        asked = replace(utterance(SHORT), manner=Manner(voice, 1.0))
        async with pipeline.run(asked, made) as events:
            async for _ in events:
                pass

    machine.hold("acoustic a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen, "a")
        await trio.to_thread.run_sync(machine.wait_until_held, "acoustic a")
        nursery.start_soon(listen, "b")
        await trio.testing.wait_all_tasks_blocked()
        machine.let_go()
    acoustic = [name.startswith("acoustic") for name in machine.log]
    assert acoustic == [True, False, True, False]  # each is decoded whole


async def test_batch_work_waits_for_live_work(machine: Machine) -> None:
    made = made_of(machine)
    machine.hold("acoustic a")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(speak, made, SHORT, new(), voice="a", batch=True))
        await trio.to_thread.run_sync(machine.wait_until_held, "acoustic a")
        nursery.start_soon(partial(speak, made, SHORT, new(), voice="b"))
        await trio.testing.wait_all_tasks_blocked()
        machine.let_go()
    assert machine.log == ["acoustic a", "acoustic b", "whole b", "whole a"]


# --- the warm-up --------------------------------------------------------------------------------


def test_warming_up_runs_every_size_and_tells_what_it_costs(machine: Machine) -> None:
    sound = machine.model.acoustic.call(LONG, np.ones((1, 2), np.float32), 1.0).run()
    costs = synthesis.warm_up(machine.model, sound, Windows())
    assert isinstance(costs, Costs)
    assert costs.of(Step(Kind.WHOLE, 0, 100)) > 0
    windows = {name for name in machine.log if name.startswith("two")}
    assert {f"two a 0-{size + more}" for size in (16, 32, 64, 96) for more in (0, 1)} == windows
    assert "whole a" in machine.log
    assert "one a" in machine.log
