"""What the text lets one expect."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine.request import Boundary
from playerd import outline
from playerd.outline import Part


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n ", []),
        ("One two.", [Part(8, "none")]),
        ("One. Two, three! Four", [Part(4, "none"), Part(11, "sentence"), Part(4, "sentence")]),
        ("One\n\nTwo.", [Part(3, "none"), Part(4, "paragraph")]),
        ("“One.” Two.", [Part(6, "none"), Part(4, "sentence")]),
        ("It is 3.5 m. Yes.", [Part(12, "none"), Part(4, "sentence")]),
        ("A. B. C. D. E.", [Part(2, "none"), Part(2, "sentence"), Part(2, "sentence")]),
    ],
)
def test_sentences_are_expected(text: str, expected: list[Part]) -> None:
    assert list(outline.parts(text, 0, complete=True)) == expected


def test_a_very_long_sentence_is_expected_in_parts() -> None:
    text = "word " * 80
    assert outline.parts(text, 0, complete=True) == (Part(199, "none"), Part(199, "comma"))


def test_what_was_begun_is_not_expected_any_more() -> None:
    text = "One, two. Three."
    assert outline.parts(text, 4, complete=True) == (Part(4, "comma"), Part(6, "sentence"))
    assert outline.parts(text, len(text), complete=True) == ()


def test_a_sentence_that_may_go_on_is_not_expected_yet() -> None:
    assert outline.parts("One. Two", 0, complete=False) == (Part(4, "none"),)
    assert outline.parts("One. Two", 4, complete=False) == ()


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("One", " two", "none"),
        ("One,", " two", "comma"),
        ("One;", " two", "clause"),
        ("One — ", "two", "clause"),
        ("One.", " Two", "sentence"),
        ("“One?”", " Two", "sentence"),
        ("一。", "二", "sentence"),
        ("One,\n\n", "two", "paragraph"),
        ("One", "\n \n two", "paragraph"),
        ("One.", "\nTwo", "sentence"),
    ],
)
def test_what_is_between_two_segments(before: str, after: str, expected: Boundary) -> None:
    assert outline.boundary(before + after, len(before)) == expected


@given(text=st.text(alphabet="ab .,!\n", max_size=400), start=st.integers(0, 400))
def test_no_more_is_expected_than_there_is(text: str, start: int) -> None:
    parts = outline.parts(text, start, complete=True)
    assert sum(part.chars for part in parts) <= len(text[start:].strip())
    assert all(part.chars > 0 for part in parts)
    if len(parts) < 3 and text[start:].strip(" .,!\n"):
        assert parts
