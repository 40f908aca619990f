"""Text to segments with their place in the original."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.clean import has_letters_or_digits
from engine.text.segment import (
    FIRST_LIMIT,
    FLOOR,
    HARD_LIMIT,
    SENTENCE_CHARS,
    SOFT_LIMIT,
    Mark,
    Segment,
    Segmenter,
    Sentence,
    sentences,
)
from engine.text.words import SILENT, Word

PROSE = st.text(
    alphabet=st.one_of(st.sampled_from(" \n\t.,;:!?—'\"abcdeé日😀\ud800"), st.characters()),
    max_size=700,
)


@given(PROSE, st.sampled_from(["en", "es", "fr", "hi", "it", "pt"]))
def test_sentences_leave_out_nothing_but_white_space(text: str, language: str) -> None:
    position = 0
    for sentence in sentences(text, language):
        end = sentence.start + len(sentence.text)
        assert sentence.text == text[sentence.start : end]
        assert sentence.text.strip() == sentence.text != ""
        assert sentence.lead == text[position : sentence.start]
        assert not sentence.lead.strip()
        assert len(sentence.text) <= SENTENCE_CHARS
        position = end
    assert not text[position:].strip()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One.", ["One."]),
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Pi is 3.14. So.", ["Pi is 3.14.", "So."]),
        ("Dr. Smith paid $3.50 to Mr. Jones.", ["Dr. Smith paid $3.50 to Mr. Jones."]),
        ("A title\n\nA paragraph.", ["A title", "A paragraph."]),
        ("😀 Hello. 日本語。 Bye.", ["😀 Hello.", "日本語。", "Bye."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in sentences(text, "en")] == expected


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    text = "The quick brown fox jumps over the lazy dog, and then " * 30
    first, *others = sentences(text.strip(), "en")
    assert first.text.endswith("dog,")
    assert len(first.text) > SENTENCE_CHARS // 3
    assert all(other.text[-1] in ",n" for other in others)


def test_what_has_no_place_to_cut_is_cut_all_the_same() -> None:
    cut = [sentence.text for sentence in sentences("x" * 1000, "en")]
    assert "".join(cut) == "x" * 1000
    assert max(map(len, cut)) <= SENTENCE_CHARS


@given(PROSE, st.sampled_from(["en", "es", "fr", "hi", "it", "pt"]))
def test_sentences_leave_out_nothing(text: str, language: str) -> None:
    position = 0
    for sentence in sentences(text, language):
        assert sentence.lead == text[position : sentence.start]
        assert not sentence.lead.strip()
        position = sentence.start + len(sentence.text)
        assert sentence.text == text[sentence.start : position] == sentence.text.strip() != ""
        assert len(sentence.text) <= SENTENCE_CHARS
    assert not text[position:].strip()


def read(sentence: Sentence) -> list[Word]:
    """A G2P for which every letter is its own phoneme and a mark is what it is written like."""
    made = []
    for found in re.finditer(r"([“(]*)([a-z0-9]+)([^a-z0-9“(]*)", sentence.text):
        marks = "".join(c for c in re.sub(r"\s+", " ", found[3]) if c in SILENT)
        made.append(Word(found.start(2), found.end(2), found[1] + found[2] + marks))
    return made


def segmented(text: str) -> list[Segment]:
    segmenter = Segmenter()
    made = [
        s for sentence in sentences(text, "en") for s in segmenter.push(sentence, read(sentence))
    ]
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
    return sum(map(has_letters_or_digits, text))


@given(SPEECH)
def test_every_word_is_in_one_segment_and_the_limits_are_kept(text: str) -> None:
    made = segmented(text)
    position, heard = 0, 0
    for segment in made:
        assert segment.text == text[segment.start : segment.end] == segment.text.strip()
        assert not text[position : segment.start].strip()
        position = segment.end
        limit = HARD_LIMIT if heard >= FLOOR else FIRST_LIMIT
        assert len(segment.phonemes) <= limit
        assert bool(segment.phonemes) == has_letters_or_digits(segment.phonemes)
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
    assert not text[position:].strip()
    spoken = "".join(segment.phonemes for segment in made)
    assert re.sub("[^a-z]", "", spoken) == re.sub("[^a-z]", "", text)


@given(SPEECH)
def test_what_follows_changes_nothing_that_was_given(text: str) -> None:
    whole = segmented(text)
    segmenter, given_so_far = Segmenter(), 0
    for sentence in sentences(text, "en"):
        for segment in segmenter.push(sentence, read(sentence)):
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
        ("—", [("—", "START")]),
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
        ("so.\n\n* * *\n\nyes.", [("so.", "START"), ("* * *", "PARAGRAPH"), ("yes.", "PARAGRAPH")]),
        # what cannot be spoken is told apart
        ("so it is. 日本。 yes.", [("so it is.", "START"), ("日本。", "SENTENCE"), ("yes.", "SENTENCE")]),
    ],
)  # fmt: skip
def test_segments(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(segment.text, segment.pause.name) for segment in segmented(text)] == expected


def test_the_first_sentence_is_given_at_once() -> None:
    segmenter = Segmenter()
    first, second = sentences(f"{CLAUSE}. {CLAUSE}.", "en")
    (segment,) = segmenter.push(first, read(first))
    assert segment.text == first.text
    assert segmenter.push(second, read(second)) == []
    assert segmenter.end()[0].text == second.text


def test_short_sentences_are_joined_and_long_ones_are_cut_evenly() -> None:
    short = [len(segment.phonemes) for segment in segmented("so it is said. " * 60)]
    assert all(SOFT_LIMIT - FLOOR < n <= SOFT_LIMIT + FLOOR for n in short[1:-1])
    _, *long = [len(segment.phonemes) for segment in segmented("letter or it " * 45 + ".")]
    assert len(long) == 2
    assert abs(long[0] - long[1]) < FLOOR


def test_a_word_that_is_too_long_is_divided_with_its_characters() -> None:
    text = " ".join(f"w{n:02}" for n in range(90))
    sentence = Sentence(text, 0, "")
    segmenter = Segmenter()
    made = segmenter.push(sentence, [Word(0, len(text), text)]) + segmenter.end()
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
    (segment,) = segmenter.push(Sentence("% a % % b.", 0, ""), words) + segmenter.end()
    assert segment.phonemes == "ə , bi."
