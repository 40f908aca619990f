"""Numbers as words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.numbers import MAX_DIGITS, Numbers, of_roman

US = Numbers("en-us", "point")
GB = Numbers("en-gb", "point")
FRENCH = Numbers("fr-fr", "virgule", whole_decimals=True)
PORTUGUESE = Numbers("pt-br", "vírgula", whole_decimals=True)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (US.cardinal("0"), "zero"),
        (US.cardinal("3497"), "three thousand four hundred ninety seven"),
        (GB.cardinal("3497"), "three thousand four hundred and ninety seven"),
        (US.cardinal("007"), "zero zero seven"),
        (US.cardinal("1" + "0" * (MAX_DIGITS - 1)), "one hundred trillion"),
        (US.cardinal("1" * (MAX_DIGITS + 1)), " ".join(["one"] * 16)),
        (US.ordinal("22"), "twenty second"),
        (US.ordinal("1" * (MAX_DIGITS + 1)), " ".join(["one"] * 16)),
        (US.year("1999"), "nineteen ninety nine"),
        (US.year("1905"), "nineteen oh five"),
        (US.year("2008"), "two thousand eight"),
        (GB.year("2008"), "two thousand and eight"),
        (US.year("2025"), "twenty twenty five"),
        (FRENCH.year("1999"), "mille neuf cent quatre vingt dix neuf"),
        (US.digits("5550"), "five five five zero"),
        (US.decimal("3", "14"), "three point one four"),
        (US.decimal("", "5"), "zero point five"),
        (FRENCH.decimal("3", "14"), "trois virgule quatorze"),
        (FRENCH.decimal("3", "05"), "trois virgule zéro cinq"),
        (FRENCH.decimal("3", "00"), "trois virgule zéro zéro"),
        (FRENCH.decimal("3", "1415"), "trois virgule un quatre un cinq"),
        (PORTUGUESE.cardinal("3497"), "três mil quatrocentos e noventa e sete"),
        (PORTUGUESE.ordinal("2"), "segundo"),
    ],
)
def test_a_number_is_said(made: str, said: str) -> None:
    assert made == said


@given(
    st.text("0123456789", min_size=1, max_size=40),
    st.sampled_from(["en-us", "en-gb", "es", "fr-fr", "it", "pt-br"]),
)
def test_any_digits_are_words_without_marks(digits: str, language: str) -> None:
    numbers = Numbers(language, "x")
    for made in (numbers.cardinal(digits), numbers.ordinal(digits)):
        assert made.replace(" ", "").isalpha()


@pytest.mark.parametrize(
    ("numeral", "value"),
    [
        ("I", 1), ("iv", 4), ("XIX", 19), ("XLII", 42), ("LVIII", 58), ("MCMXCIX", 1999),
        ("MMXXIV", 2024), ("IIII", 0), ("VX", 0), ("CD", 0), ("D", 0), ("", 0), ("CAT", 0),
    ],
)  # fmt: skip
def test_a_roman_number_has_a_value(numeral: str, value: int) -> None:
    assert of_roman(numeral) == value
