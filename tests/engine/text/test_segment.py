"""Text to segments with their place in the original."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.alphabet import SILENT, sounds
from engine.text.passage import Break, Passage, Silence, Warn
from engine.text.segment import (
    FIRST_LIMIT,
    FLOOR,
    HARD_LIMIT,
    PART_FLOOR,
    SOFT_LIMIT,
    Mark,
    Segment,
    Segmenter,
    divided,
)
from engine.text.spanned import Spanned
from engine.text.words import Word

BLANK = re.compile(r"\n\s*\n")


def passages(text: str) -> list[Passage]:
    """Sentences: up to a full stop and a space, or a blank line."""
    made: list[Passage] = []
    for found in re.finditer(r"\S.*?(?:[.!?。](?=\s)|(?=\s*\n\s*\n)|\s*\Z)", text, re.DOTALL):
        start = found.start()
        stop = start + len(found[0].rstrip())
        blank = BLANK.search(text, made[-1].end if made else 0, start)
        before = Break.PARAGRAPH if blank else Break.NONE
        made.append(Passage(start, stop, Spanned.of(text[start:stop], start), before))
    return made


def read(passage: Passage) -> list[Word]:
    """A G2P for which every letter is its own phoneme and a mark is what it is written like."""
    made = []
    for found in re.finditer(r"([“(]*)([a-z0-9]+)([^a-z0-9“(]*)", passage.text.text):
        marks = "".join(c for c in re.sub(r"\s+", " ", found[3]) if c in SILENT)
        start, end = passage.text.origin(*found.span(2))
        made.append(Word(start, end, found[1] + found[2] + marks, found[2]))
    return made


def pushed(segmenter: Segmenter, passage: Passage, text: str) -> list[Segment]:
    return segmenter.push(passage, read(passage), passage.warnings, text)


def segmented(text: str, limit: int = FIRST_LIMIT) -> list[Segment]:
    segmenter = Segmenter(limit)
    made = [s for passage in passages(text) for s in pushed(segmenter, passage, text)]
    return made + segmenter.end()


SPEECH = st.lists(
    st.one_of(
        st.sampled_from(
            [". ", "! ", ", ", "; ", " — ", ".\n\n", "\n \n", " “", "日本。 ", "* * *\n\n"]
        ),
        st.integers(1, 70).map(lambda n: "a" * n + " "),
        st.integers(1, 60).map(lambda n: "of word another, " * n),
        st.integers(1, 12).map(lambda n: "It is so. ".lower() * n),
    ),
    max_size=14,
).map("".join)


def count(text: str) -> int:
    return sum(map(str.isalnum, text))


@given(SPEECH)
def test_every_word_is_in_one_segment_and_the_limits_are_kept(text: str) -> None:
    made = segmented(text)
    position, heard = 0, 0
    for segment in made:
        assert segment.text == text[segment.start : segment.end] == segment.text.strip()
        assert not re.search("[a-z0-9]", text[position : segment.start])
        position = segment.end
        limit = HARD_LIMIT if heard >= FLOOR else FIRST_LIMIT
        assert len(segment.phonemes) <= limit
        assert sounds(segment.phonemes)
        assert segment.phonemes == segment.phonemes.strip()
        assert not re.search(r"\n\s*\n", segment.text)
        heard = max(heard, len(segment.phonemes))
        char, phoneme = segment.start, 0
        for word in segment.words:
            assert char <= word.char_start <= word.char_end <= segment.end
            assert phoneme <= word.phoneme_start < word.phoneme_end <= len(segment.phonemes)
            char, phoneme = word.char_end, word.phoneme_end
            sound = segment.phonemes[word.phoneme_start : word.phoneme_end]
            assert sound == text[word.char_start : word.char_end]
    assert not re.search("[a-z0-9]", text[position:])
    spoken = "".join(segment.phonemes for segment in made)
    assert re.sub("[^a-z]", "", spoken) == re.sub("[^a-z]", "", text)


@given(SPEECH, st.integers(2 * FLOOR, 150))
def test_the_first_segment_is_as_long_as_it_may_be(text: str, limit: int) -> None:
    made = segmented(text, limit)
    assert all(len(one.phonemes) <= limit for one in made[:1])
    spoken = "".join(one.phonemes for one in made)
    usual = "".join(one.phonemes for one in segmented(text))
    assert spoken.replace(" ", "") == usual.replace(" ", "")


@given(SPEECH)
def test_what_follows_changes_nothing_that_was_given(text: str) -> None:
    whole = segmented(text)
    segmenter, given_so_far = Segmenter(), 0
    for passage in passages(text):
        for segment in pushed(segmenter, passage, text):
            assert segment == whole[given_so_far]
            given_so_far += 1


@given(SPEECH)
def test_pauses_follow_marks_and_paragraphs(text: str) -> None:
    made = segmented(text)
    spoken = [segment for segment in made if segment.phonemes]
    for number, segment in enumerate(spoken):
        if not number:
            assert segment.pause is Mark.START
            continue
        before = spoken[number - 1]
        between = text[before.end : segment.start]
        if re.search(r"\n\s*\n", between):
            assert segment.pause is Mark.PARAGRAPH
        else:
            assert segment.pause is not Mark.START


CLAUSE = "this clause is about sixty letters long if one counts the marks"  # 63


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes.", [("yes.", "START")]),
        ("", []),
        ("—", []),
        # the first goes out alone only if it is long enough
        ("yes. no. maybe.", [("yes. no. maybe.", "START")]),
        (f"yes. {CLAUSE}. no.", [(f"yes. {CLAUSE}.", "START"), ("no.", "SENTENCE")]),
        (f"{CLAUSE}. yes. no.", [(f"{CLAUSE}.", "START"), ("yes. no.", "SENTENCE")]),
        # never over a blank line
        ("one\n\ntwo", [("one", "START"), ("two", "PARAGRAPH")]),
        ("one.\ntwo.", [("one.\ntwo.", "START")]),
        # at the strongest mark
        (f"well, {CLAUSE}, and so it is, {CLAUSE}.",
         [(f"well, {CLAUSE}, and so it is,", "START"), (f"{CLAUSE}.", "COMMA")]),
        (f"{CLAUSE}; and so, {CLAUSE}.",
         [(f"{CLAUSE};", "START"), (f"and so, {CLAUSE}.", "CLAUSE")]),
        (f"{CLAUSE} — “and so, {CLAUSE}.",
         [(f"{CLAUSE} —", "START"), (f"“and so, {CLAUSE}.", "CLAUSE")]),
        # before a small word if there is no mark
        (f"{CLAUSE} and {CLAUSE}.", [(f"{CLAUSE}", "START"), (f"and {CLAUSE}.", "NONE")]),
        # marks alone go with their neighbours, but not over a blank line
        ("so it is. * * * yes.", [("so it is. * * * yes.", "START")]),
        ("so.\n\n* * *\n\nyes.", [("so.", "START"), ("yes.", "PARAGRAPH")]),
        ("so it is. 日本。 yes.", [("so it is. 日本。 yes.", "START")]),
    ],
)  # fmt: skip
def test_segments(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(segment.text, segment.pause.name) for segment in segmented(text)] == expected


def test_the_first_sentence_is_given_at_once() -> None:
    segmenter, text = Segmenter(), f"{CLAUSE}. {CLAUSE}."
    first, second = passages(text)
    (segment,) = pushed(segmenter, first, text)
    assert segment.text == first.text.text
    assert pushed(segmenter, second, text) == []
    assert segmenter.end()[0].text == second.text.text


def test_short_sentences_are_joined_and_long_ones_are_cut_evenly() -> None:
    short = [len(segment.phonemes) for segment in segmented("so it is said. " * 60)]
    assert all(SOFT_LIMIT - FLOOR < n <= SOFT_LIMIT + FLOOR for n in short[1:-1])
    _, *long = [len(segment.phonemes) for segment in segmented("letter or it " * 45 + ".")]
    assert len(long) == 2
    assert abs(long[0] - long[1]) < FLOOR


def test_a_word_that_is_too_long_is_divided_with_its_characters() -> None:
    text = " ".join(f"w{n:02}" for n in range(90))
    (passage,) = passages(text)
    segmenter = Segmenter()
    made = segmenter.push(passage, [Word(0, len(text), text, "so")], (), text) + segmenter.end()
    assert " ".join(segment.spoken for segment in made).strip() == "so"
    assert "".join(s.phonemes for s in made).replace(" ", "") == text.replace(" ", "")
    for segment in made:
        for word in segment.words:
            sound = segment.phonemes[word.phoneme_start : word.phoneme_end]
            assert text[word.char_start : word.char_end] == sound


def test_words_without_a_sound_give_their_marks_to_the_word_before() -> None:
    words = [
        Word(0, 1, "“ "),
        Word(2, 3, "ə "),
        Word(4, 5, ", "),
        Word(6, 7, " "),
        Word(8, 9, "bi."),
    ]
    segmenter = Segmenter()
    text = "% a % % b."
    (passage,) = passages(text)
    (segment,) = segmenter.push(passage, words, (), text) + segmenter.end()
    assert segment.phonemes == "ə , bi."


def test_a_silence_that_is_asked_for_divides() -> None:
    text = "so it is. and so."
    passage = Passage(
        0, len(text), Spanned.of(text), silences=(Silence(0, 900.0), Silence(10, 50.0))
    )
    segmenter = Segmenter()
    made = segmenter.push(passage, read(passage), (), text) + segmenter.end()
    assert [(s.text, s.pause.name, s.silence_ms) for s in made] == [
        ("so it is.", "START", 900.0),
        ("and so.", "SENTENCE", 50.0),
    ]
    segmenter = Segmenter()
    last = Passage(0, 2, Spanned.of("so"), silences=(Silence(2, 100.0),))
    made = segmenter.push(last, read(last), (), "so") + segmenter.end()
    assert [(s.text, s.phonemes, s.silence_ms) for s in made] == [
        ("so", "so", 0.0),
        ("", "", 100.0),
    ]


def test_warnings_travel_with_the_next_segment_or_alone() -> None:
    text = "so. ♥ no."
    one, two, three = (
        Passage(start, stop, Spanned.of(text[start:stop], start))
        for start, stop in ((0, 3), (4, 5), (6, 9))
    )
    warning = Warn("not_spoken", 4, 5, "A heart.")
    segmenter = Segmenter()
    assert not pushed(segmenter, one, text)
    assert not segmenter.push(two, [], [warning], text)
    (segment,) = pushed(segmenter, three, text) + segmenter.end()
    assert segment.warnings == (warning,)
    segmenter = Segmenter()
    assert not segmenter.push(two, [], [warning], text)
    (alone,) = segmenter.end()
    assert (alone.phonemes, alone.warnings) == ("", (warning,))


def test_a_flush_gives_what_is_held_and_goes_on() -> None:
    text = "yes. no. maybe so."
    one, two, three = passages(text)
    segmenter = Segmenter()
    assert segmenter.flush() == []
    assert not pushed(segmenter, one, text)
    assert segmenter.holds
    (first,) = segmenter.flush()
    assert not segmenter.holds
    assert segmenter.flush() == []
    made = pushed(segmenter, two, text) + pushed(segmenter, three, text) + segmenter.end()
    assert [(s.text, s.pause.name) for s in (first, *made)] == [
        ("yes.", "START"),
        ("no. maybe so.", "SENTENCE"),
    ]


def test_the_pause_after_a_flush_is_that_of_the_last_mark() -> None:
    for text, pause in (("one, two", "COMMA"), ("one two", "NONE"), ("one; two", "CLAUSE")):
        start = text.index("two")
        first = Passage(0, start - 1, Spanned.of(text[: start - 1]))
        segmenter = Segmenter()
        assert not pushed(segmenter, first, text)
        segmenter.flush()
        second = Passage(start, len(text), Spanned.of(text[start:], start))
        (segment,) = pushed(segmenter, second, text) + segmenter.end()
        assert segment.pause.name == pause


def test_a_flush_gives_held_warnings_and_silences_once() -> None:
    warning = Warn("not_spoken", 4, 5, "A heart.")
    passage = Passage(4, 5, Spanned.of("♥", 4), silences=(Silence(5, 100.0),))
    segmenter = Segmenter()
    assert not segmenter.push(passage, [], [warning], "so. ♥ no.")
    assert not segmenter.holds  # nothing that could be spoken sooner
    (alone,) = segmenter.flush()
    assert (alone.phonemes, alone.warnings, alone.silence_ms) == ("", (warning,), 100.0)
    assert segmenter.flush() == segmenter.end() == []


@given(SPEECH, st.sets(st.integers(0, 20)))
def test_flushes_lose_no_word_and_double_none(text: str, places: set[int]) -> None:
    segmenter, made = Segmenter(), []
    for number, passage in enumerate(passages(text)):
        made += pushed(segmenter, passage, text)
        if number in places:
            made += segmenter.flush()
            assert segmenter.flush() == []
    made += segmenter.end()
    position = 0
    for segment in made:
        assert position <= segment.start <= segment.end
        position = segment.end
        assert len(segment.phonemes) <= HARD_LIMIT
    spoken = "".join(segment.phonemes for segment in made)
    assert re.sub("[^a-z]", "", spoken) == re.sub("[^a-z]", "", text)
    assert [s.pause for s in made].count(Mark.START) <= 1


# --- where there is no time for all of it -------------------------------------------------------


def parts(segment: Segment, limits: list[int]) -> list[Segment]:
    """A segment, divided with one limit after the other, and the last one again and again."""
    made: list[Segment] = []
    rest: Segment | None = segment
    while rest is not None:
        part, rest = divided(rest, limits[min(len(made), len(limits) - 1)])
        made.append(part)
    return made


@given(SPEECH, st.lists(st.integers(-5, HARD_LIMIT), min_size=1, max_size=6))
def test_parts_are_the_segment(text: str, limits: list[int]) -> None:
    for segment in segmented(text):
        made = parts(segment, limits)
        assert [word for part in made for word in part.made_of] == list(segment.made_of)
        assert " ".join(part.phonemes for part in made) == segment.phonemes
        chars = [(w.char_start, w.char_end) for part in made for w in part.words]
        assert chars == [(w.char_start, w.char_end) for w in segment.words]
        spoken = " ".join(part.spoken for part in made if part.spoken)
        assert spoken == segment.spoken
        assert made[0].start == segment.start
        assert made[-1].end == segment.end
        assert made[0].pause is segment.pause
        for before, part in pairwise(made):
            assert before.end <= part.start
            assert not re.search("[a-z0-9]", text[before.end : part.start])
            assert part.pause in (Mark.NONE, Mark.COMMA, Mark.CLAUSE, Mark.SENTENCE)
        for part in made:
            assert part.text == text[part.start : part.end] == part.text.strip()
            sounds_of = [part.phonemes[w.phoneme_start : w.phoneme_end] for w in part.words]
            assert sounds_of == [text[w.char_start : w.char_end] for w in part.words]


@given(SPEECH, st.integers(0, HARD_LIMIT))
def test_parts_are_neither_longer_than_allowed_nor_too_short(text: str, limit: int) -> None:
    for segment in segmented(text):
        made = parts(segment, [limit])
        longest = max(len(word.phonemes) for word in segment.made_of)
        for part in made if len(made) > 1 else []:
            assert len(part.phonemes) >= PART_FLOOR - 1  # a space at its end is not spoken
        for part in made:
            assert len(part.phonemes) <= max(limit, 2 * PART_FLOOR + longest)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (HARD_LIMIT, [(f"well, {CLAUSE}, so; {CLAUSE}.", "SENTENCE")]),
        (78, [(f"well, {CLAUSE}, so;", "SENTENCE"), (f"{CLAUSE}.", "CLAUSE")]),
        (72, [(f"well, {CLAUSE},", "SENTENCE"), (f"so; {CLAUSE}.", "COMMA")]),
    ],
)  # fmt: skip
def test_parts_end_at_the_strongest_mark_of_the_second_half(
    limit: int, expected: list[tuple[str, str]]
) -> None:
    first = f"{CLAUSE}."
    _, segment = segmented(f"{first} well, {CLAUSE}, so; {CLAUSE}.")
    made = [(part.text, part.pause.name) for part in parts(segment, [limit])]
    assert made == expected


def test_parts_end_before_a_small_word_if_there_is_no_mark_at_all() -> None:
    _, segment = segmented(f"{CLAUSE}. {CLAUSE} and {CLAUSE}.")
    first, rest = divided(segment, 90)
    assert rest is not None
    assert (first.text, first.pause.name) == (CLAUSE, "SENTENCE")
    assert (rest.text, rest.pause.name) == (f"and {CLAUSE}.", "NONE")
    # a mark before the half is better than a place between two words behind it
    _, segment = segmented(f"{CLAUSE}. and so it was, {'letter ' * 20}.")
    assert divided(segment, 60)[0].text == "and so it was,"


def test_what_is_told_before_a_segment_is_told_with_its_first_part() -> None:
    warning = Warn("not_spoken", 0, 1, "A heart.")
    _, segment = segmented(f"{CLAUSE}. {CLAUSE}, {CLAUSE}.")
    first, rest = divided(replace(segment, warnings=(warning,), silence_ms=300.0), 70)
    assert rest is not None
    assert (first.warnings, first.silence_ms) == ((warning,), 300.0)
    assert (rest.warnings, rest.silence_ms) == ((), 0.0)
