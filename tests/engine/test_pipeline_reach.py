"""Rule G: what a listener hears of engines that are hardly faster than speech. Virtual time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
import trio
from trio.testing import MockClock

from bench.tune.simulated import Machine, Taken
from engine import pipeline
from engine.audio import SAMPLE_RATE
from engine.live import TextFeed
from engine.request import Frame, Marks, SegmentStart, SpeechRequest
from engine.text.passage import Passage, Reading
from engine.utterance import Utterance
from tests.playerd.measuring import SENTENCES
from tests.support.reading import Heard, check_stream

from .voicing import letters, live_utterance, utterance

TEXT = (
    "It had rained all week. The river had taken the lower path, two gardens and the bench where "
    "the men used to play cards, and still it came down, grey and even, as if someone had "
    "forgotten to turn it off. On Sunday it stopped. We went out without coats and looked at what "
    "was left of the bridge that our grandfathers had built in one single summer with nothing but "
    "stones, rope and a good deal of shouting; nobody said a word.\n\n"
    "The ferry leaves at seven in the morning, and again at four. If the wind comes from the "
    "north, it may not leave at all: the captain decides that, usually late, and nobody argues "
    "with her. Last winter we waited for three days. There is a small hotel above the harbour, "
    "where the rooms are cold but the soup is good, and where every guest has to tell one story "
    "before he may go to bed. My sister told them about the bear."
)

#: what the real model takes on the machine of docs/tuning.md: columns of stage one and two, phonemes
#: of a pass (of 40 and those that are spoken), in seconds; all in all this part of the audio
ONE_S, TWO_S, PASS_S, RTF = 0.00134, 0.0021, 0.0017, 0.31


async def read(passage: Passage, _: Utterance) -> Reading:
    return letters(passage)


def machine_of(rtf: float = RTF, seed: int = 7, *, rule: bool = True) -> Machine:
    """Takes the time that the real steps would take on a machine of this pace.

    Args:
        rtf: computing per audio, for a segment of 100 phonemes.
        seed: of what a step takes.
        rule: whether a segment is only as long as is in time.
    """
    factor = rtf / RTF
    taken = Taken(factor * ONE_S, factor * TWO_S, factor * PASS_S)
    return Machine(taken, read, seed=seed, rule=rule)


@dataclass
class Listened:
    """What one hears who plays everything the moment it comes.

    Attributes:
        start_s: when sound begins.
        holes_s: silence after that, which is not in the stream …
        holes_in: … and in or before which segment.
        segments: their texts.
    """

    heard: Heard
    start_s: float = 0.0
    holes_s: list[float] = field(default_factory=list)
    holes_in: list[int] = field(default_factory=list)

    @property
    def segments(self) -> list[str]:
        return [start.text for start in self.heard.of(SegmentStart)]

    def behind_first_s(self) -> float:
        """Silence that comes when the first segment was heard."""
        return sum(hole for hole, index in zip(self.holes_s, self.holes_in, strict=True) if index)


async def listened(machine: Machine, spoken: Utterance) -> Listened:
    heard = Heard()
    found = Listened(heard)
    began_s = trio.current_time()
    end_s: float | None = None
    index = 0
    async with pipeline.run(spoken, machine) as events:
        async for event in events:
            heard.events.append(event)
            if isinstance(event, SegmentStart):
                index = event.index
            if isinstance(event, Frame) and event.samples:
                now_s = trio.current_time() - began_s
                if end_s is None:
                    found.start_s = end_s = now_s
                if now_s > end_s + 0.001:
                    found.holes_s.append(now_s - end_s)
                    found.holes_in.append(index)
                end_s = max(end_s, now_s) + event.samples / SAMPLE_RATE
    return found


def both(rtf: float, seed: int = 7, **fields: object) -> tuple[Listened, Listened]:
    """The same machine without the rule and with it."""

    def run(*, rule: bool) -> Listened:
        spoken = utterance(TEXT, budget_s=0.3, **fields)
        machine = machine_of(rtf=rtf, seed=seed, rule=rule)
        return trio.run(listened, machine, spoken, clock=MockClock(autojump_threshold=0))

    return run(rule=False), run(rule=True)


@pytest.mark.parametrize("rtf", [0.1, 0.2, 0.3])
def test_on_a_quick_machine_nothing_changes(rtf: float) -> None:
    before, after = both(rtf)
    assert after.segments == before.segments
    assert sum(after.holes_s) <= sum(before.holes_s)
    assert len(after.segments) > 5


@pytest.mark.parametrize("rtf", [0.25, 0.3, 0.35])
def test_a_short_segment_comes_not_between_the_first_windows_of_the_one_before(rtf: float) -> None:
    """Late, it would be hardly later than a part of it; but there is still something to decode."""
    text = (
        "First open the settings, then choose your device from the list of all there are; if it is "
        "not there, switch it off and on, and look at the small light on the back again.\n\nMost "
        "problems go away after that."
    )
    for seed in range(12):
        machine = machine_of(rtf, seed)
        spoken = utterance(text, budget_s=0.3)
        found = trio.run(listened, machine, spoken, clock=MockClock(autojump_threshold=0))
        assert 60 <= len(found.segments[1]) <= 90
        # A window that takes longer than expected is no whole pass.
        assert max(found.holes_s, default=0.0) < 0.05, (seed, found.holes_s)


@pytest.mark.parametrize("rtf", [0.3, 0.4, 0.45])
def test_with_half_of_its_time_to_spare_there_is_no_silence_at_all(rtf: float) -> None:
    """Not even without the rule: no pass comes between two windows that are more urgent."""
    for seed in (6, 7, 8):
        for found in both(rtf, seed):
            assert sum(found.holes_s) == 0.0


@pytest.mark.parametrize("rtf", [0.7, 0.75, 0.8])
def test_on_a_slow_machine_half_of_the_silence_is_gone(rtf: float) -> None:
    before_s, after_s, longest_s = 0.0, 0.0, [0.0, 0.0]
    for seed in (6, 7, 8):
        before, after = both(rtf, seed)
        assert after.start_s == before.start_s
        assert after.segments[0] == before.segments[0]
        before_s, after_s = before_s + sum(before.holes_s), after_s + sum(after.holes_s)
        for n, one in enumerate((before, after)):
            longest_s[n] = max(longest_s[n], *one.holes_s, 0.0)
    assert before_s > 0.5
    assert after_s <= before_s / 2
    assert longest_s[1] <= longest_s[0] / 2


@pytest.mark.soak
@pytest.mark.parametrize("rtf", [0.3, 0.45, 0.6, 0.75, 0.9, 1.1, 1.5])
def test_silence_in_ten_minutes_of_speech(rtf: float) -> None:
    """The table of docs/tuning.md: other texts than the tests are tuned with, five times each."""
    chance = random.Random(1)
    texts = [TEXT, *(" ".join(chance.choices(SENTENCES, k=16)) for _ in range(3))]
    silent_s: list[float] = []
    for rule in (False, True):
        found = [
            trio.run(
                listened,
                machine_of(rtf, seed, rule=rule),
                utterance(text, budget_s=0.3),
                clock=MockClock(autojump_threshold=0),
            )
            for text in texts
            for seed in range(5)
        ]
        audio_s = sum(e.samples for f in found for e in f.heard.of(Frame)) / SAMPLE_RATE
        silent_s.append(sum(sum(one.holes_s) for one in found) * 600 / audio_s)
        longest_s = max((hole_s for one in found for hole_s in one.holes_s), default=0.0)
        segments = sum(len(one.segments) for one in found) / 5
        print(
            f"{rtf}, {'with' if rule else 'without'} the rule: {silent_s[-1]:.1f} s of silence, "
            f"{longest_s:.2f} at most, {segments:.0f} segments, {audio_s / len(found):.0f} s a text"
        )
    assert silent_s[1] <= 1.02 * silent_s[0]


@pytest.mark.parametrize("rtf", [0.9, 1.1, 1.5])
def test_where_no_time_is_to_be_had_silence_is_no_more_and_not_longer(rtf: float) -> None:
    for seed in (6, 7, 8):
        before, after = both(rtf, seed)
        assert after.start_s == before.start_s
        assert sum(after.holes_s) <= 1.1 * sum(before.holes_s)
        assert max(after.holes_s) <= max(before.holes_s)


async def test_segments_become_shorter_when_the_machine_becomes_slow(
    autojump_clock: MockClock,
) -> None:
    """It was quick at the warm-up, and learns: nobody plans anew."""
    machine = machine_of(rtf=0.25)
    quick = await listened(machine, utterance(TEXT, budget_s=0.3))
    machine.slower = 3.0
    await listened(machine, utterance(TEXT, budget_s=0.3))  # from which it learns
    slow = await listened(machine, utterance(TEXT, budget_s=0.3))
    always = await listened(machine_of(rtf=0.75), utterance(TEXT, budget_s=0.3))
    assert len(quick.segments) < len(slow.segments) <= len(always.segments) + 1
    untaught = machine_of(rtf=0.75, rule=False)
    assert sum(slow.holes_s) < sum(
        (await listened(untaught, utterance(TEXT, budget_s=0.3))).holes_s
    )


def test_what_is_said_does_not_change() -> None:
    before, after = both(0.75, marks=True)
    check_stream(after.heard, SpeechRequest(text=TEXT, marks=True, phonemes=True))
    assert len(after.segments) > len(before.segments)
    words = [
        [(word.char_start, word.char_end) for mark in one.heard.of(Marks) for word in mark.words]
        for one in (before, after)
    ]
    assert words[0] == words[1]
    phonemes = [
        " ".join(start.phonemes or "" for start in one.heard.of(SegmentStart))
        for one in (before, after)
    ]
    assert phonemes[0] == phonemes[1]


def test_nobody_waits_for_a_batch_and_so_it_has_whole_segments() -> None:
    before, after = both(0.75, priority="batch")
    assert after.segments == before.segments


@pytest.mark.parametrize("length", [1, 7, 100])
def test_text_that_came_in_pieces_has_the_same_segments(length: int) -> None:
    def run(spoken: Utterance) -> Listened:
        return trio.run(
            listened, machine_of(rtf=0.75), spoken, clock=MockClock(autojump_threshold=0)
        )

    feed = TextFeed(waiting_chars=len(TEXT), total_chars=len(TEXT))
    for at in range(0, len(TEXT), length):
        feed.append(TEXT[at : at + length])
    feed.end()
    at_once = run(utterance(TEXT, budget_s=0.3))
    pieces = run(live_utterance(feed, budget_s=0.3))
    assert pieces.segments == at_once.segments
    assert pieces.start_s == at_once.start_s
    assert len(pieces.segments) > 8


async def test_who_has_paused_has_time_for_whole_segments(autojump_clock: MockClock) -> None:
    """He tells that he stands still, so that what he has in hand is what was made."""
    machine = machine_of(rtf=0.75)
    found = Heard()
    async with pipeline.run(utterance(TEXT, budget_s=0.3), machine) as events:
        async for event in events:
            found.events.append(event)
            if isinstance(event, Frame):
                events.heard(0, False)
    playing = await listened(machine_of(rtf=0.75), utterance(TEXT, budget_s=0.3))
    texts = [start.text for start in found.of(SegmentStart)]
    assert texts[0] == playing.segments[0]
    assert len(texts) < len(playing.segments)
