"""The log of a stream and its followers' cursors, by example and against a naive model."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.request import Done, Event, Frame, Opened, SegmentDone, SegmentStart
from wsproto_api.messages import Error, StreamCancelled
from wsproto_api.stream import MAX_ENTRIES, Cursor, Ending, StreamLog

OPENED = Opened(voice="v", lang="l", speed=1.0)
DONE = Done(samples=1, audio_ms=1.0, chars=1, segments=1)
FAILED = Error(code="synthesis_failed", message="m", retryable=False, fatal=False, stream=7)
CANCELLED = StreamCancelled(stream=7)
START = SegmentStart(index=0, text="t", char_start=0, char_end=1, sample=0)
ENDED = SegmentDone(index=0, samples=1, compute_ms=1.0)


ENDINGS = (Done, Error, StreamCancelled)


def frame(seq: int, sample: int | None = None, samples: int = 10) -> Frame:
    pcm = bytes([seq % 256, 0]) * samples
    return Frame(seq=seq, sample=seq * 10 if sample is None else sample, pcm=pcm, first=seq == 0)


def jump(seq: int) -> Frame:
    return msgspec.structs.replace(frame(seq), discontinuity=True)


def new_log(*events: Event, retain: int = 10_000) -> StreamLog:
    log = StreamLog(7, OPENED, retain)
    for event in events:
        log.append(event)
    return log


def rest(cursor: Cursor) -> list[Event | Ending]:
    """What the follower has not read."""
    found: list[Event | Ending] = []
    while (entry := cursor.read()) is not None:
        found.append(entry)
    assert not cursor.behind
    return found


EVENTS = [START, frame(0), frame(1), ENDED, frame(2), DONE]


# --- by example -----------------------------------------------------------------------------


def test_followers_read_everything_in_order_each_at_its_own_pace() -> None:
    log = new_log()
    quick, slow = log.follow(), log.follow()
    got: list[Event | Ending] = []
    for event in EVENTS:
        assert not quick.behind
        assert quick.read() is None
        log.append(event)
        assert quick.behind
        got += rest(quick)
    assert got == EVENTS
    assert rest(slow) == EVENTS


def test_a_late_follower_of_a_finished_stream_hears_all_of_it() -> None:
    log = new_log(*EVENTS)
    log.finish()
    assert log.over
    late = log.follow()
    assert late.behind
    assert rest(late) == EVENTS


@pytest.mark.parametrize(("from_seq", "left"), [(0, 0), (1, 2), (2, 3), (3, 5)])
def test_from_seq_goes_on_right_behind_the_frame_before(from_seq: int, left: int) -> None:
    cursor = new_log(*EVENTS).follow(from_seq)
    assert rest(cursor) == EVENTS[left:]


def test_the_end_is_told_whatever_the_frame() -> None:
    assert rest(new_log(*EVENTS).follow(from_seq=9)) == [DONE]


def test_a_cancelled_stream_tells_what_it_is_given() -> None:
    log = new_log(*EVENTS)
    told = StreamCancelled(stream=7, played_samples=3, chars_spoken=1)
    cursor = log.follow()
    assert log.cancel(told)
    assert rest(cursor) == [told]


def test_from_seq_of_a_frame_yet_to_come() -> None:
    log = new_log(frame(0))
    cursor = log.follow(from_seq=2)
    assert rest(cursor) == []
    log.append(frame(1))
    assert rest(cursor) == []
    log.append(frame(2))
    assert rest(cursor) == [frame(2)]  # as asked for: no discontinuity


def test_a_follower_behind_the_window_finds_a_discontinuity_once() -> None:
    log = new_log(*(frame(n) for n in range(10)), retain=30)
    assert rest(log.follow()) == [jump(7), frame(8), frame(9)]
    assert rest(log.follow(from_seq=7)) == [frame(7), frame(8), frame(9)]
    assert rest(log.follow(from_seq=9)) == [frame(9)]
    slow = log.follow(from_seq=8)
    assert slow.read() == frame(8)
    for n in range(10, 20):
        log.append(frame(n))
    assert rest(slow) == [jump(17), frame(18), frame(19)]


def test_at_least_the_window_is_kept_and_not_much_more() -> None:
    log = new_log(retain=25)
    for n in range(50):
        log.append(START)
        log.append(frame(n))
        log.append(ENDED)
        kept = [e for e in rest(log.follow()) if isinstance(e, Frame)]
        held = sum(f.samples for f in kept)
        assert held == min((n + 1) * 10, 30)  # 25 and what a whole frame adds
    # what was told before the oldest of them is kept with it, and nothing older
    assert len(rest(log.follow())) == 10


def test_entries_without_sound_are_bounded_too() -> None:
    log = new_log(frame(0))
    reader = log.follow()
    for _ in range(MAX_ENTRIES + 100):
        log.append(START)
    assert len(rest(log.follow())) == MAX_ENTRIES
    assert len(rest(reader)) == MAX_ENTRIES
    log.append(frame(1))
    assert rest(reader)[-1] == jump(1)
    assert rest(log.follow(from_seq=1))[-1] == frame(1)


def test_lead_is_counted_from_the_fastest_follower() -> None:
    log = new_log(frame(0), frame(1), frame(2))
    assert log.lead_samples == log.samples == 30  # nobody follows
    fast, slow = log.follow(), log.follow()
    assert log.lead_samples == 30
    fast.read()
    fast.read()
    assert log.lead_samples == 10
    slow.read()
    assert log.lead_samples == 10
    rest(fast)
    assert log.lead_samples == 0
    log.leave(fast)
    assert log.lead_samples == 20
    log.leave(fast)  # twice does no harm
    log.leave(slow)
    assert log.lead_samples == 30


def test_frames_passed_over_count_as_heard() -> None:
    log = new_log(frame(0), frame(1))
    cursor = log.follow(from_seq=9)
    assert rest(cursor) == []
    assert cursor.sample == 20
    assert log.lead_samples == 0


def test_failing_keeps_the_frames_that_were_made() -> None:
    log = new_log(START, frame(0))
    cursor = log.follow()
    assert cursor.read() == START
    log.fail(FAILED)
    assert log.over
    assert rest(cursor) == [frame(0), FAILED]
    assert rest(log.follow()) == [START, frame(0), FAILED]


def test_cancelling_drops_what_was_not_read() -> None:
    log = new_log(START, frame(0), frame(1))
    behind, level = log.follow(), log.follow()
    assert behind.read() == START
    rest(level)
    assert log.cancel()
    assert log.over
    assert rest(behind) == [CANCELLED]
    assert rest(level) == [CANCELLED]
    assert rest(log.follow()) == [CANCELLED]
    assert log.entry(0) == (3, CANCELLED)


def test_cancelling_a_stream_that_is_made_but_not_heard() -> None:
    log = new_log(*EVENTS)
    log.finish()
    behind, level = log.follow(), log.follow()
    rest(level)
    assert log.cancel()
    assert rest(behind) == [CANCELLED]


def test_cancelling_a_stream_that_all_have_heard_does_nothing() -> None:
    log = new_log(*EVENTS)
    log.finish()
    assert not log.cancel()  # nobody follows
    rest(log.follow())
    assert not log.cancel()
    assert rest(log.follow()) == EVENTS


def test_who_has_heard_the_end_hears_no_other() -> None:
    log = new_log(*EVENTS)
    log.finish()
    behind, level = log.follow(), log.follow()
    assert rest(level)[-1] == DONE
    assert level.ended
    assert log.cancel()  # for the sake of the other one
    assert not level.behind
    assert level.read() is None
    assert rest(behind) == [CANCELLED]


def test_cancelling_twice_is_cancelling_once() -> None:
    log = new_log(frame(0))
    behind, level = log.follow(), log.follow()
    assert log.cancel()
    assert rest(level) == [CANCELLED]
    assert not log.cancel()
    assert rest(level) == []
    assert rest(behind) == [CANCELLED]


@pytest.mark.parametrize("end", ["finish", "fail", "cancel"])
def test_what_comes_after_the_end_is_not_written(end: str) -> None:
    # A task that makes frames may have one in hand when somebody cancels the stream.
    log = new_log(frame(0))
    cursor = log.follow()
    match end:
        case "finish":
            log.append(DONE)
            log.finish()
        case "fail":
            log.fail(FAILED)
        case _:
            log.cancel()
    before = rest(log.follow())
    log.append(frame(1))
    log.append(DONE)
    log.fail(FAILED)
    assert rest(log.follow()) == before == rest(cursor)
    assert log.samples == 10


# --- against a naive model ------------------------------------------------------------------


@dataclass
class Reader:
    """A follower, and where it should be in the history."""

    cursor: Cursor
    next_seq: int
    from_seq: int
    at: int = 0
    sample: int = 0
    heard: list[Event | Ending] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return bool(self.heard) and isinstance(self.heard[-1], ENDINGS)


RETAIN = 35


class Log(RuleBasedStateMachine):
    """The log with several followers, against a list of everything ever written."""

    def __init__(self) -> None:
        super().__init__()
        self.log = StreamLog(7, OPENED, RETAIN)
        self.history: list[Event | Ending] = []
        self.gone = 0  # so many of them are not kept
        self.readers: list[Reader] = []
        self.seq = self.samples = 0
        self.over = False

    def wrote(self, entry: Event | Ending) -> None:
        self.history.append(entry)
        if isinstance(entry, Frame):
            # The longest tail that would be too short without its first entry.
            held = 0
            for at in range(len(self.history) - 1, self.gone - 1, -1):
                old = self.history[at]
                held += old.samples if isinstance(old, Frame) else 0
                if held >= RETAIN:
                    # with it stays what was told since the frame before it
                    while at > self.gone and not isinstance(self.history[at - 1], Frame):
                        at -= 1
                    self.gone = at
                    break

    @rule(samples=st.integers(0, 20), times=st.integers(1, 3))
    def make(self, samples: int, times: int) -> None:
        for _ in range(times):
            made = Frame(seq=self.seq, sample=self.samples, pcm=b"\0\0" * samples)
            self.log.append(made)
            if not self.over:
                self.wrote(made)
                self.seq, self.samples = self.seq + 1, self.samples + samples

    @rule(event=st.sampled_from([START, ENDED]))
    def tell(self, event: Event) -> None:
        self.log.append(event)
        if not self.over:
            self.wrote(event)

    @precondition(lambda self: self.seq > 3 and not self.over)
    @rule()
    def finish(self) -> None:
        self.log.append(DONE)
        self.log.finish()
        self.wrote(DONE)
        self.over = True

    @precondition(lambda self: self.seq > 3)
    @rule()
    def fail(self) -> None:
        self.log.fail(FAILED)
        if not self.over:
            self.wrote(FAILED)
            self.over = True

    @precondition(lambda self: self.seq > 3)
    @rule()
    def cancel(self) -> None:
        unread = any(self.has_more(reader) for reader in self.readers)
        twice = bool(self.history) and self.history[-1] == CANCELLED
        happens = not twice and (unread or not self.over)
        assert self.log.cancel() is happens
        if happens:
            self.gone = len(self.history)
            self.history.append(CANCELLED)
            self.over = True

    @rule(from_seq=st.integers(0, 6))
    def follow(self, from_seq: int) -> None:
        if len(self.readers) < 4:
            self.readers.append(Reader(self.log.follow(from_seq), from_seq, from_seq))

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 3))
    def leave(self, which: int) -> None:
        if len(self.readers) > 2:
            self.log.leave(self.readers.pop(which % len(self.readers)).cursor)

    @precondition(lambda self: self.readers)
    @rule(which=st.integers(0, 3), times=st.integers(1, 6))
    def read(self, which: int, times: int) -> None:
        reader = self.readers[which % len(self.readers)]
        for _ in range(times):
            expected = self.next_for(reader)
            assert reader.cursor.read() == expected
            if expected is not None:
                reader.heard.append(expected)

    def has_more(self, reader: Reader) -> bool:
        return reader.at < len(self.history) and not reader.ended

    def next_for(self, reader: Reader) -> Event | Ending | None:
        if not self.has_more(reader):
            return None
        reader.at = max(reader.at, self.gone)
        for entry in self.history[reader.at :]:
            reader.at += 1
            if not isinstance(entry, Frame):
                told = self.history[: reader.at - 1]
                behind = [e.seq for e in told if isinstance(e, Frame)][-1:] >= [reader.from_seq - 1]
                if behind or reader.from_seq == 0 or isinstance(entry, ENDINGS):
                    return entry
                continue
            reader.sample = entry.sample + entry.samples
            if entry.seq >= reader.next_seq:
                skipped = entry.seq > reader.next_seq
                reader.next_seq = entry.seq + 1
                return msgspec.structs.replace(entry, discontinuity=skipped)
        return None

    @invariant()
    def the_lead_is_that_of_the_fastest(self) -> None:
        fastest = max((reader.sample for reader in self.readers), default=0)
        assert self.log.samples == self.samples
        assert self.log.lead_samples == self.samples - fastest
        assert self.log.over is self.over

    @invariant()
    def whoever_has_something_to_read_is_behind(self) -> None:
        for reader in self.readers:
            assert reader.cursor.behind is self.has_more(reader)

    @invariant()
    def nobody_hears_frames_twice_or_a_hole_untold(self) -> None:
        for reader in self.readers:
            frames = [entry for entry in reader.heard if isinstance(entry, Frame)]
            for before, after in pairwise(frames):
                assert after.discontinuity is (after.seq != before.seq + 1)
                assert after.seq > before.seq
                assert after.sample >= before.sample + before.samples
            endings = [e for e in reader.heard if isinstance(e, ENDINGS)]
            assert len(endings) == reader.ended


Log.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_a_log_is_like_a_list_of_everything = Log.TestCase
