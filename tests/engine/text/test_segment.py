"""Text to segments with their place in the original."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.segment import FIRST_CHARS, MAX_CHARS, segments

PROSE = st.text(
    alphabet=st.one_of(st.sampled_from(" \n\t.,;:!?—'\"abcdeé日😀\ud800"), st.characters()),
    max_size=700,
)


@given(PROSE, st.sampled_from(["en", "es", "fr", "hi", "it", "pt"]))
def test_segments_leave_out_nothing_but_white_space(text: str, language: str) -> None:
    position = 0
    for number, segment in enumerate(segments(text, language)):
        assert segment.text == text[segment.start : segment.end]
        assert segment.text.strip() == segment.text != ""
        assert not text[position : segment.start].strip()
        assert segment.end - segment.start <= (MAX_CHARS if number else FIRST_CHARS)
        position = segment.end
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
    assert [segment.text for segment in segments(text, "en")] == expected


def test_a_long_first_sentence_is_cut_at_a_clause() -> None:
    text = "The quick brown fox jumps over the lazy dog, and then " * 8
    first, *others = segments(text.strip(), "en")
    assert first.text.endswith("dog,")
    assert len(first.text) > FIRST_CHARS // 3
    assert all(other.text[-1] in ",n" for other in others)


def test_what_has_no_place_to_cut_is_cut_all_the_same() -> None:
    cut = [segment.text for segment in segments("x" * 1000, "en")]
    assert "".join(cut) == "x" * 1000
    assert max(map(len, cut)) <= MAX_CHARS
