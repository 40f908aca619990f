"""Characters made harmless before G2P."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.clean import MAX_WORD_CHARS, cleaned, has_letters_or_digits


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wasn’t wasnʼt wasn`t wasn´t wasn′t", "wasn't wasn't wasn't wasn't wasn't"),
        ("one\u00a0two\tthree\n four", "one two three four"),
        ("zero\u200bwidth soft\u00adhyphen \ufeffBOM", "zerowidth softhyphen BOM"),
        ("nul\0byte", "nul byte"),
        ("lone \ud83d surrogate", "lone surrogate"),
        ("cafe\u0301", "café"),
        ("", ""),
        ("state-of-the-art", "state-of-the-art"),
        ("$1,234.56", "$1,234.56"),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert cleaned(text).text == expected


@given(st.text(max_size=300))
def test_the_result_is_harmless_and_cleaning_it_again_changes_nothing(text: str) -> None:
    clean = cleaned(text).text
    clean.encode()
    assert clean == " ".join(clean.split())
    assert all(c.isprintable() for c in clean.replace(" ", ""))
    assert cleaned(clean).text == clean


@given(st.text(max_size=100) | st.text("a1-’\u0301\u200b\u1100\u1161\u11a8 \n\ud800", max_size=60))
def test_every_character_knows_where_it_comes_from(text: str) -> None:
    clean = cleaned(text)
    assert len(clean.spans) == len(clean.text)
    assert list(clean.spans) == sorted(clean.spans)
    for character, (start, end) in zip(clean.text, clean.spans, strict=True):
        assert 0 <= start < end <= len(text)
        assert character == " " or character in cleaned(text[start:end]).text


def test_places_are_in_the_original() -> None:
    text = "\u200bcafe\u0301\t wasn’t"
    clean = cleaned(text)
    assert clean.text == "café wasn't"
    assert [text[start:end] for start, end in clean.spans] == [
        "c", "a", "f", "e\u0301", "e\u0301", "w", "a", "s", "n", "’", "t",
    ]  # fmt: skip


def test_no_letter_is_lost_from_a_long_run() -> None:
    words = "-".join(f"word{n}" for n in range(200))
    clean = cleaned(words).text
    assert clean.replace(" ", "") == words
    assert max(part.count("-") for part in clean.split()) <= 8


def test_a_long_number_is_divided() -> None:
    clean = cleaned("7" * 2000).text
    assert clean.replace(" ", "") == "7" * 2000
    assert max(map(len, clean.split())) <= MAX_WORD_CHARS


@pytest.mark.parametrize(
    ("text", "expected"), [("", False), ("?! — …", False), ("a", True), ("7", True), ("日", True)]
)
def test_has_letters_or_digits(text: str, expected: bool) -> None:
    assert has_letters_or_digits(text) is expected
