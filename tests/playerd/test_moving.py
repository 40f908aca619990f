"""The jitter buffer, when one goes elsewhere in the stream: back, ahead, by sentences."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.audio import PCM_DTYPE, ms_to_samples, pcm_samples
from engine.request import Boundary, Frame, Marks, SegmentDone, SegmentStart, WordMark
from playerd import playout as module
from playerd.delay import Immediate
from playerd.pieces import Piece, Pieces
from playerd.playout import FADE_SAMPLES, Phase, Playout
from playerd.script import BEGUN_SAMPLES, Script

NOW = 5.0
SEGMENT = 2 * BEGUN_SAMPLES
#: Sample n has this value: it is never silent and says where it belongs.
STREAM = (np.arange(8 * SEGMENT) % 30_000 + 1).astype(PCM_DTYPE)


def start(index: int, pause: Boundary | None = "sentence") -> SegmentStart:
    return SegmentStart(
        index=index, text="", char_start=10 * index, char_end=10 * index + 9,
        sample=index * SEGMENT, pause=pause,
    )  # fmt: skip


def frame(begin: int, end: int) -> Frame:
    return Frame(seq=0, sample=begin, pcm=STREAM[begin:end].tobytes())


def come(playout: Playout, index: int, pause: Boundary | None = "sentence") -> None:
    """A whole segment comes."""
    playout.begin(start(index, pause))
    playout.put(frame(index * SEGMENT, (index + 1) * SEGMENT), NOW)
    playout.segment_done(SegmentDone(index=index, samples=SEGMENT, compute_ms=0.0), NOW)


def with_segments(count: int, *, ended: bool = True) -> Playout:
    playout = Playout(Immediate())
    for index in range(count):
        come(playout, index)
    if ended:
        playout.end(count * SEGMENT)
    return playout


def phase(playout: Playout) -> Phase:
    """Asked through a function, because a type checker believes that it stays as it was."""
    return playout.phase


def pulled(playout: Playout, samples: int) -> list[int]:
    return [int(sample) for sample in np.frombuffer(playout.pull(samples, NOW), dtype=PCM_DTYPE)]


def stream(begin: int, end: int) -> list[int]:
    return [int(sample) for sample in STREAM[begin:end]]


# --- the pieces -------------------------------------------------------------------------------


@given(
    cuts=st.lists(st.integers(1, 400), min_size=1, max_size=12),
    takes=st.lists(st.integers(1, 120), max_size=40),
    keep=st.integers(0, 3000),
    back=st.integers(0, 5000),
)
def test_what_was_taken_comes_back_as_far_as_it_was_kept(
    cuts: list[int], takes: list[int], keep: int, back: int
) -> None:
    pieces = Pieces(keep)
    at = 0
    for cut in cuts:
        pieces.put(Piece(at, STREAM[at : at + cut].tobytes(), False))
        at += cut
    end = 0
    for take in takes:
        if pieces.by_start:
            end = min(end + take, pieces.by_start[0].end)
            pieces.take(end)
    begin = pieces.put_back(back)
    if back < end:
        # All that was to be kept, and less than a piece more.
        assert max(back, end - keep - max(cuts)) <= begin or begin == back
        assert begin <= max(back, end - keep)
    got = b"".join(piece.pcm for piece in pieces.by_start)
    first = min(begin, end) if pieces.by_start else end
    assert got == STREAM[first:at].tobytes() or not pieces.by_start
    assert pieces.held_samples == pcm_samples(got)


# --- one place and another --------------------------------------------------------------------


def test_going_back_plays_the_same_again() -> None:
    playout = with_segments(1)
    pulled(playout, 6000)
    playout.seek(2000, NOW)
    assert playout.position == 2000
    got = pulled(playout, 3000)
    assert got[FADE_SAMPLES:] == stream(2000 + FADE_SAMPLES, 5000)


def test_sound_that_begins_inside_a_segment_fades_in() -> None:
    playout = with_segments(1)
    pulled(playout, 6000)
    playout.seek(2000, NOW)
    got, plain = pulled(playout, FADE_SAMPLES), stream(2000, 2000 + FADE_SAMPLES)
    parts = [ours / theirs for ours, theirs in zip(got, plain, strict=True)]
    assert parts[0] < 0.01
    assert parts[-1] > 0.99
    assert all(part <= later + 0.01 for part, later in pairwise(parts))


def test_the_beginning_of_a_segment_is_as_it_is() -> None:
    playout = with_segments(2)
    pulled(playout, SEGMENT + 500)
    playout.seek(SEGMENT, NOW)
    assert pulled(playout, 500) == stream(SEGMENT, SEGMENT + 500)


def test_what_is_over_can_be_played_again() -> None:
    playout = with_segments(1)
    while pulled(playout, 5000):
        pass
    assert phase(playout) is Phase.DONE
    playout.seek(SEGMENT - 300, NOW)
    assert phase(playout) is Phase.DRAINING
    assert pulled(playout, 5000)[FADE_SAMPLES:] == stream(SEGMENT - 300 + FADE_SAMPLES, SEGMENT)


def test_ahead_only_to_what_is_here() -> None:
    playout = with_segments(1, ended=False)
    pulled(playout, 100)
    playout.seek(5 * SEGMENT, NOW)
    assert playout.position == SEGMENT
    assert phase(playout) is Phase.PREFILL
    come(playout, 1)
    assert pulled(playout, 100) == stream(SEGMENT, SEGMENT + 100)
    assert playout.underruns == 0


def test_back_only_as_far_as_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_SAMPLES", 1000)
    playout = with_segments(1)
    for _ in range(60):
        pulled(playout, 100)
    playout.seek(0, NOW)
    assert 6000 - 1100 <= playout.position <= 6000 - 1000


def test_what_was_heard_counts_from_there() -> None:
    playout = with_segments(2)
    pulled(playout, 6000)
    assert playout.heard(5000) == 5000
    playout.seek(1000, NOW)
    assert playout.heard(0) == 1000
    pulled(playout, 500)
    assert playout.heard(200) == 1200
    assert playout.heard(10_000) == 1500


# --- by sentences -----------------------------------------------------------------------------


def test_the_next_sentence_and_the_one_after_it() -> None:
    playout = with_segments(4)
    pulled(playout, 100)
    playout.skip(1, NOW)
    assert pulled(playout, 50) == stream(SEGMENT, SEGMENT + 50)
    playout.skip(2, NOW)
    assert pulled(playout, 50) == stream(3 * SEGMENT, 3 * SEGMENT + 50)


def test_a_part_of_a_sentence_is_none() -> None:
    playout = Playout(Immediate())
    for index, pause in enumerate((None, "comma", "none", "sentence")):
        come(playout, index, pause)  # type: ignore[arg-type]  # literals
    pulled(playout, 100)
    playout.skip(1, NOW)
    assert playout.position == 3 * SEGMENT
    playout.skip(-1, NOW)
    assert playout.position == 0


def test_back_leads_to_the_beginning_and_from_there_before_it() -> None:
    playout = with_segments(3)
    pulled(playout, 100)
    while playout.position < 2 * SEGMENT + BEGUN_SAMPLES:
        pulled(playout, 1000)
    playout.skip(-1, NOW)
    assert playout.position == 2 * SEGMENT
    playout.skip(-1, NOW)
    assert playout.position == SEGMENT
    playout.skip(-5, NOW)
    assert playout.position == 0


def test_a_sentence_that_has_not_come_is_waited_for() -> None:
    playout = with_segments(1, ended=False)
    pulled(playout, 100)
    playout.begin(start(1, "comma"))
    playout.put(frame(SEGMENT, SEGMENT + 1000), NOW)
    playout.skip(1, NOW)
    assert phase(playout) is Phase.PREFILL
    playout.put(frame(SEGMENT + 1000, 2 * SEGMENT), NOW)
    assert pulled(playout, 100) == []
    come(playout, 2)
    assert pulled(playout, 100) == stream(2 * SEGMENT, 2 * SEGMENT + 100)
    assert playout.late_samples == 0


def test_behind_the_last_sentence_it_is_over() -> None:
    ended, going = with_segments(2), with_segments(2, ended=False)
    for playout in (ended, going):
        pulled(playout, 100)
        playout.skip(7, NOW)
    assert phase(ended) is Phase.DONE
    assert phase(going) is Phase.PREFILL
    come(going, 2)
    going.end(3 * SEGMENT)
    assert phase(going) is Phase.DONE


# --- the script -------------------------------------------------------------------------------


def test_words_and_lines_of_a_sample() -> None:
    script = Script()
    script.begin(start(0, None))
    words = tuple(
        WordMark(char_start=n, char_end=n + 1, sample=100 * n, samples=80) for n in range(5)
    )
    script.marks(Marks(index=0, words=words))
    script.begin(start(1))
    line = script.line(SEGMENT + 5)
    assert line is not None
    assert (line.index, line.char_start) == (1, 10)
    assert script.words(100, 301) == list(words[1:4])
    assert script.next_word(301) == words[4]
    assert script.next_word(500) is None
    script.forget(SEGMENT)
    assert script.line(SEGMENT + 5) == line
    assert script.words(0, 1000) == []


def test_a_segment_of_which_nothing_came_gives_way_to_the_next_attempt() -> None:
    script = Script()
    script.begin(start(0, None))
    script.begin(start(1))
    script.broke(SEGMENT)
    assert script.ahead(0) == []
    script.begin(start(1))
    assert script.ahead(0) == [SEGMENT]


# --- whatever is done -------------------------------------------------------------------------


class Moves(RuleBasedStateMachine):
    """Frames come in order; whoever listens goes here and there. What he gets is always the stream
    at the position that is told, but for fades."""

    def __init__(self) -> None:
        super().__init__()
        self.playout = Playout(Immediate(), fade_samples=0)
        self.came = 0
        self.ended = False

    @precondition(lambda self: not self.ended and self.came < 8)
    @rule(pause=st.sampled_from(["sentence", "comma", "none", "paragraph"]))
    def segment(self, pause: Boundary) -> None:
        come(self.playout, self.came, pause if self.came else None)
        self.came += 1

    @rule()
    def end(self) -> None:
        self.ended = True
        self.playout.end(self.came * SEGMENT)

    @rule(samples=st.integers(1, SEGMENT))
    def pull(self, samples: int) -> None:
        before = self.playout.position
        got = pulled(self.playout, samples)
        assert got == stream(before, self.playout.position)

    @rule(sample=st.integers(0, 9 * SEGMENT))
    def seek(self, sample: int) -> None:
        self.playout.seek(sample, NOW)
        assert self.playout.position == min(sample, self.came * SEGMENT)

    @rule(sentences=st.integers(-9, 9))
    def skip(self, sentences: int) -> None:
        before = self.playout.position
        self.playout.skip(sentences, NOW)
        after = self.playout.position
        assert after % SEGMENT == 0 or sentences == 0
        assert (after >= before) if sentences > 0 else (after <= before)

    @rule()
    def dry(self) -> None:
        self.playout.ran_dry(NOW)

    @invariant()
    def counts(self) -> None:
        assert 0 <= self.playout.position <= self.came * SEGMENT
        assert self.playout.missing_samples == 0
        assert (phase(self.playout) is Phase.DONE) == (
            self.ended and self.playout.position == self.came * SEGMENT
        )
        assert self.playout.buffered_samples <= self.playout.held_samples


TestMoves = Moves.TestCase
assert ms_to_samples(60_000) > 9 * SEGMENT  # all of it is kept
