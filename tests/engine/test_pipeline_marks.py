"""Where words and phonemes are: in the text, in the segment and in the stream."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import is_audible
from engine.request import Frame, Marks, SegmentDone, SegmentStart
from engine.text.segment import Mark
from engine.timing import FRAME_SAMPLES, LEAD_SAMPLES
from tests.engine.voicing import FRAMES, QUIET, Voicing, heard_of, paragraphs, pause, utterance

TEXT = " \n One  two,\n\n“Three” — naïve 4our.\n\nxx\n\nSix"
WORDS = ["One", "two", "Three", "naïve", "4our", "Six"]

#: length of a phoneme of the fake
LENGTH = FRAMES * FRAME_SAMPLES


def uncut(phoneme: int) -> int:
    """Where the fake's phonemes are heard: all are equally long, and so is the padding."""
    return (1 + phoneme) * LENGTH - LEAD_SAMPLES


async def test_words_are_where_they_are_written_and_where_they_are_heard() -> None:
    spoken = utterance(TEXT, marks=True, speed=2.0)
    heard = await heard_of(spoken, Voicing())
    marks, starts = heard.of(Marks), heard.of(SegmentStart)
    words = [TEXT[word.char_start : word.char_end] for mark in marks for word in mark.words]
    assert words == WORDS
    pauses = [0, *2 * [pause(Mark.PARAGRAPH, 2.0)]]
    for mark, start, silent in zip(marks, starts, pauses, strict=True):
        assert mark.index == start.index
        phonemes = start.phonemes or ""
        at = 0
        for word in mark.words:
            at = phonemes.index(TEXT[word.char_start : word.char_end], at)
            assert word.sample == start.sample + silent + uncut(at) - QUIET
            length = word.char_end - word.char_start
            # the last one may be foreseen to end where nothing is any more
            is_last = word is mark.words[-1] and len(phonemes) == at + length
            assert word.samples == length * LENGTH or is_last
            at += length


async def test_there_is_one_mark_for_each_phoneme_of_the_segment() -> None:
    heard = await heard_of(utterance(TEXT, marks=True), Voicing())
    for mark, start in zip(heard.of(Marks), heard.of(SegmentStart), strict=True):
        silent = pause(Mark.PARAGRAPH) if mark.index else 0
        wanted = [
            start.sample + silent + uncut(n) - QUIET for n in range(len(start.phonemes or ""))
        ]
        assert list(mark.phonemes[:-1]) == wanted[:-1]
        assert mark.phonemes[-1] <= wanted[-1]


async def test_marks_come_behind_the_pause_and_before_the_first_sound() -> None:
    heard = await heard_of(utterance(paragraphs("abc"), marks=True), Voicing())
    seen: list[str] = []
    for event in heard.events:
        name = type(event).__name__
        if isinstance(event, Frame):
            name = "sound" if is_audible(event.pcm) else "silence"
        if name in {"Marks", "SegmentStart", "silence", "sound"} and seen[-1:] != [name]:
            seen.append(name)
    quiet = ["SegmentStart", "silence", "Marks", "sound"]
    assert seen == [
        "SegmentStart",
        "Marks",
        "sound",
        *quiet,
        *quiet,
        "silence",
    ]  # the last is empty


async def test_nobody_gets_marks_who_has_not_asked() -> None:
    assert not (await heard_of(utterance(TEXT), Voicing())).of(Marks)


@given(quiet=st.integers(0, 4000), remembers=st.booleans())
async def test_a_word_never_begins_before_what_is_kept_of_its_sound(
    quiet: int, remembers: bool
) -> None:
    """What is cut off may be more than what is before the first phoneme."""
    spoken = utterance("Good one.\n\nFine.", marks=True)
    voicing = Voicing(quiet=quiet, remembers=remembers)
    first = await heard_of(spoken, voicing)
    again = await heard_of(spoken, voicing)
    for heard in (first, again):
        ends = [d.samples for d in heard.of(SegmentDone)]
        for mark, start, end in zip(
            heard.of(Marks), heard.of(SegmentStart), np.cumsum(ends), strict=True
        ):
            begins = start.sample + (pause(Mark.PARAGRAPH) if mark.index else 0)
            assert mark.words[0].sample == begins + max(0, uncut(0) - quiet)
            assert mark.phonemes[0] == mark.words[0].sample
            if remembers and heard is again:  # then the end is known as well
                assert mark.words[-1].sample + mark.words[-1].samples <= end
                assert mark.phonemes[-1] <= end
