"""How far a listener is in a text, by example and against a naive model."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.request import Event, Frame, Marks, SegmentDone, SegmentStart, WordMark
from wsproto_api.spoken import Spoken


def spoken(*events: Event) -> Spoken:
    made = Spoken()
    for event in events:
        made.note(event)
    return made


def segment(index: int, start: int, end: int, sample: int) -> SegmentStart:
    return SegmentStart(index=index, text="", char_start=start, char_end=end, sample=sample)


def word(start: int, end: int, sample: int, samples: int) -> WordMark:
    return WordMark(char_start=start, char_end=end, sample=sample, samples=samples)


#: "Hi, you. So?" with a pause of 100 before the second segment
HELLO = spoken(
    segment(0, 0, 8, 0),
    Marks(index=0, words=(word(0, 2, 10, 90), word(4, 7, 100, 100))),
    Frame(seq=0, sample=0, pcm=b"\0\0" * 240),
    SegmentDone(index=0, samples=240, compute_ms=1.0),
    segment(1, 9, 12, 240),
    Marks(index=1, words=(word(9, 11, 340, 60),)),
)


def test_a_word_counts_when_its_end_was_heard() -> None:
    at = [0, 99, 100, 199, 200, 239, 240, 399, 400, 10**12]
    assert [HELLO.chars(samples) for samples in at] == [0, 0, 2, 2, 7, 7, 8, 8, 11, 11]


def test_without_marks_a_segment_counts_when_its_end_was_heard() -> None:
    made = spoken(segment(0, 2, 8, 0), SegmentDone(index=0, samples=240, compute_ms=1.0))
    assert [made.chars(samples) for samples in (0, 239, 240)] == [0, 0, 8]


def test_nothing_was_spoken_yet() -> None:
    assert spoken().chars(5) == 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30), st.integers(0, 99))
def test_it_is_like_looking_at_every_word(steps: list[tuple[int, int]], played: int) -> None:
    at = chars = 0
    words: list[WordMark] = []
    for samples, length in steps:
        words.append(word(chars, chars + length, at, samples))
        at, chars = at + samples, chars + length
    made = spoken(segment(0, 0, chars, 0), Marks(index=0, words=tuple(words)))
    heard = [w.char_end for w in words if w.sample + w.samples <= played]
    assert made.chars(played) == max(heard, default=0)
