"""Characters made harmless."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.clean import MAX_MARKS, Cleaner, cleaned, has_letters_or_digits
from engine.text.spanned import Spanned

TRICKY = st.text(
    "a1-’\u0301\u0338\u200b\u200d\ufe0f\u20e3\u1100\u1161\u11a8 \n\r\u2029\ud800\x1b[;m]😀👩🇺🇸🏽❤>Ｈ‼",
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("wasn’t wasnʼt wasn`t wasn´t wasn′t", "wasn't wasn't wasn't wasn't wasn't"),
        ("one\u00a0two\tthree\n four\u2028five\u3000six", "one two three four five six"),
        ("zero\u200bwidth soft\u00adhyphen \ufeffBOM \u202ebidi", "zerowidth softhyphen BOM bidi"),
        ("nul\0byte", "nul byte"),
        ("lone \ud83d surrogate", "lone surrogate"),
        ("private \ue000 and unassigned \u0378", "private and unassigned"),
        ("cafe\u0301 e\u200b\u0301", "café é"),
        ("\u1112\u1161\u11ab", "한"),
        ("=\u0338 >\u0301 \u0301x", "≠ > x"),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07end", "red end"),
        ("", ""),
        ("state-of-the-art", "state-of-the-art"),
        ("$1,234.56", "$1,234.56"),
        ("नमस्ते क्‍ष", "नमस्ते क्ष"),
        ("Ｈｅｌｌｏ １２３！ ⁉", "Hello 123! !?"),
        ("yes 👍🏽 no 🇺🇸 ❤️ ❤ 1️⃣ 👨‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿 end", "yes no 1 end"),
        ("© ™ ® ↔ → ♀ ✓", "© ™ ® ↔ → ♀ ✓"),
    ],
)
def test_examples(text: str, expected: str) -> None:
    assert cleaned(text).text == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "hi 👍🏽 ", "hi thumbs up medium skin tone"),
        ("en", "❤️", "red heart"),
        ("en", "🇫🇷🇮🇹", "France Italy"),
        ("en", "*️⃣ #️⃣ 7️⃣", "keycap keycap 7"),
        ("en", "👩‍⚕️", "woman health worker"),
        ("fr", "😂", "visage riant aux larmes"),
        ("hi", "😂", "face with tears of joy"),
    ],
)
def test_emoji_can_be_named(language: str, text: str, expected: str) -> None:
    cleaner = Cleaner(language, "name")
    clean = cleaner.push(text) + cleaner.end()
    assert " ".join(clean.text.split()) == expected


@pytest.mark.parametrize("language", ["ja", "zh"])
def test_full_width_forms_stay_where_they_belong(language: str) -> None:
    assert cleaned("Ｈ！", language).text == "Ｈ！"


def test_a_name_has_the_place_of_its_emoji() -> None:
    cleaner = Cleaner("en", "name")
    clean = cleaner.push("a 👍🏽 b") + cleaner.end()
    assert {span for c, span in zip(clean.text, clean.spans, strict=True) if c in "thumsp"} == {
        (2, 4)
    }


def test_a_flood_of_marks_is_cut() -> None:
    clean = cleaned("x" + "\u0303\u0300" * 500 + "y")
    assert sum(unicodedata.category(c) == "Mn" for c in clean.text) == MAX_MARKS
    assert clean.text[0] == "x"
    assert clean.text[-1] == "y"


@given(st.text(max_size=300) | TRICKY)
def test_the_result_is_harmless_and_cleaning_it_again_changes_nothing(text: str) -> None:
    clean = cleaned(text).text
    clean.encode()
    assert clean == " ".join(clean.split())
    assert all(c.isprintable() for c in clean.replace(" ", ""))
    assert cleaned(clean).text == clean


@given(st.text(max_size=100) | TRICKY)
def test_every_character_knows_where_it_comes_from(text: str) -> None:
    clean = cleaned(text)
    assert len(clean.spans) == len(clean.text)
    assert list(clean.spans) == sorted(clean.spans)
    for character, (start, end) in zip(clean.text, clean.spans, strict=True):
        assert 0 <= start < end <= len(text)
        assert character == " " or character in cleaned(text[start:end]).text


@given(TRICKY, st.lists(st.integers(1, 4), max_size=60), st.sampled_from(["drop", "name"]))
def test_pieces_give_what_the_whole_gives(text: str, sizes: list[int], emojis: str) -> None:
    def clean(pieces: list[str]) -> Spanned:
        cleaner = Cleaner("en", "name" if emojis == "name" else "drop")
        whole = Spanned()
        for piece in pieces:
            whole += cleaner.push(piece)
        return whole + cleaner.end()

    pieces, rest = [], text
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert clean([*pieces, rest]) == clean([text])


def test_a_character_is_given_when_the_next_one_is_there() -> None:
    cleaner = Cleaner("en")
    assert [cleaner.push(c).text for c in "añ日。x"] == ["", "a", "ñ", "日", "。"]


def test_line_ends_are_kept_for_the_markup() -> None:
    cleaner = Cleaner("en")
    clean = cleaner.push("a\r\nb\rc\u2028d\u2029e") + cleaner.end()
    assert clean.text == "a\nb\nc\nd\n\ne"
    assert clean.spans[1] == (1, 3)


def test_places_are_in_the_original() -> None:
    text = "\u200bcafe\u0301\t wasn’t"
    clean = cleaned(text)
    assert clean.text == "café wasn't"
    assert [text[start:end] for start, end in clean.spans] == [
        "c", "a", "f", "e\u0301", "\t ", "w", "a", "s", "n", "’", "t",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"), [("", False), ("?! — …", False), ("a", True), ("7", True), ("日", True)]
)
def test_has_letters_or_digits(text: str, expected: bool) -> None:
    assert has_letters_or_digits(text) is expected


@pytest.mark.parametrize(
    ("begun", "settled", "flushed"),
    [
        ("word", "wor", "word"),
        ("so.", "so.", "so."),
        ("so ", "so ", "so "),
        ("so\n", "so\n", "so\n"),
        ("so\r", "so", "so"),  # a "\n" may follow, which is the same line end
        ("7", "", "7"),
        (">", "", ">"),
        ("so \x1b[3", "so ", "so "),  # nobody hears it; what follows belongs to it
        ("", "", ""),
    ],
)
def test_what_is_held_is_given_if_it_is_settled_or_wanted(
    begun: str, settled: str, flushed: str
) -> None:
    waiting, wanted = Cleaner("en"), Cleaner("en")
    assert waiting.push(begun).text + waiting.settle().text == settled
    assert wanted.push(begun).text + wanted.flush().text == flushed
    assert waiting.settle() == wanted.flush() == Spanned()


@given(TRICKY, st.data())
def test_settling_changes_no_letter_and_no_place(text: str, data: st.DataObject) -> None:
    whole = Cleaner("en")
    expected = whole.push(text) + whole.end()
    cleaner, got = Cleaner("en"), Spanned()
    for c in text:
        got += cleaner.push(c)
        if data.draw(st.booleans()):
            got += cleaner.settle()
    got += cleaner.end()
    assert got.text == expected.text
    assert [start for start, _ in got.spans] == [start for start, _ in expected.spans]


@given(TRICKY, TRICKY)
def test_a_flush_is_an_end_after_which_the_text_goes_on(text: str, more: str) -> None:
    ended, cleaner = Cleaner("en"), Cleaner("en")
    whole = (ended.push(text) + ended.end()).text
    got = cleaner.push(text) + cleaner.flush()
    assert whole.startswith(got.text)
    assert not has_letters_or_digits(whole[len(got) :]) or "\x1b" in text
    got += cleaner.push(more) + cleaner.end()
    assert list(got.spans) == sorted(got.spans)
    assert all(end <= len(text + more) for _, end in got.spans)
