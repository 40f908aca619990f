"""Text that comes live: what a flush gives, what has waited too long, and that nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sentencex import get_sentence_boundaries

from engine.request import TextOptions
from engine.text import sentences
from engine.text.passage import Break, Passage, Tongue
from engine.text.reader import Reader
from engine.text.scan import Scan
from tests.engine.text.test_reader import BLANKS, OPTIONS, RICH, SIGNS, TEXTS, read

#: in the examples, where the reader is asked
FLUSH, SETTLE = "▮", "▯"

Ask = Callable[[Reader], list[Passage]]


def answers(
    text: str, options: TextOptions | None = None, language: str = "en"
) -> list[list[Passage]]:
    """What there is at each flush and settle, and at the end."""
    reader = Reader(language, options or TextOptions())
    given: list[list[Passage]] = [[]]
    for c in text:
        if c == FLUSH:
            given[-1] += reader.flush()
            given.append([])
        elif c == SETTLE:
            given[-1] += reader.settle()
            given.append([])
        else:
            given[-1] += reader.push(c)
    given[-1] += reader.end()
    return given


def shown(text: str, language: str = "en") -> list[list[str]]:
    """Their texts; a line before those that begin a paragraph."""
    return [
        ["| " * (passage.before is Break.PARAGRAPH) + passage.text.text for passage in passages]
        for passages in answers(text, language=language)
    ]


# --- flush ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("▮", [[], []]),
        (" \n▮ x▮▮", [[], ["| x"], [], []]),
        ("One. Two▮ three. Four", [["One.", "Two"], ["three.", "Four"]]),
        ("Hello!▮ You", [["Hello!"], ["You"]]),
        ("The dogs'▮ tails", [["The dogs'"], ["tails"]]),
        ("Dr.▮ Smith", [["Dr."], ["Smith"]]),
        ("Hel▮lo", [["Hel"], ["lo"]]),
        ("It costs 3.▮14", [["It costs 3."], ["14"]]),
        # it goes on in the same line
        ("It is▮ - not a list", [["It is"], ["- not a list"]]),
        ("It is▮# no heading", [["It is"], ["# no heading"]]),
        ("It is\n▮- a list", [["It is"], ["| a list"]]),
        ("It is\n▮so", [["It is"], ["so"]]),
        ("A title\n▮\nText", [["A title"], ["| Text"]]),
        ("A title\r▮\nText", [["A title"], ["Text"]]),
        ("- one▮ and two\n- three", [["| one"], ["and two", "| three"]]),
        ("- one\n▮  goes on", [["| one"], ["goes on"]]),
        ("- ▮one\n-▮ two", [[], ["| one"], ["| two"]]),
        ("1. one\n▮2. two", [["| 1, one"], ["| 2, two"]]),
        ("# A▮ title\ntext", [["| A"], ["title", "| text"]]),
        ("> a▮ b\nc", [["| a"], ["b", "| c"]]),
        ("| a ▮| b |\n|---|---|\n| c ▮| d |", [["| a"], ["b", "| c"], ["d"]]),
        ("Title\n==▮==\ntext", [["Title"], ["| text"]]),
        # a block of code stays open, and marks that are cut are marks all the same
        ("a\n```py\nx = 1▮\n- y\n```\nb", [["a"], ["| ", "| b"]]),
        ("a\n```py▮\nx\n```\nb", [["a"], ["| ", "| b"]]),
        ("a\n``▮`\nx\n```\nb", [["a"], ["| ", "| b"]]),
        ("a\n```\nx\n``▮`\nb", [["a"], ["| ", "| b"]]),
        ("a\n```\nx\n```▮\nb", [["a", "| "], ["| b"]]),
        ("a\n~~~\nx\n```▮\n~~~\nb", [["a"], ["| ", "| b"]]),
        # emphasis is still one
        ("a **b▮ c** d", [["a b"], ["c d"]]),
        ("a **▮b** c", [["a"], ["b c"]]),
        ("a *▮*b*▮* c", [["a"], ["b"], ["c"]]),
        ("*Waves* ▮Nice", [["Waves"], ["Nice"]]),
        # what is cut is read as what is there
        ("a [b▮ c](http://d.e) f", [["a [b"], ["c](http://d.e) f"]]),
        ("a [b](http://c▮.d/e) f", [["a b"], ["f"]]),
        ("a <b class=▮'x'>b</b>", [["a <b class="], ["'x'>b"]]),
        ("so &am▮p; on", [["so &am"], ["p; on"]]),
        ("a `b▮c", [["a b"], ["c"]]),
        ("a\x1b[3▮1mb", [["a"], ["b"]]),
    ],
)  # fmt: skip
def test_flush(text: str, expected: list[list[str]]) -> None:
    assert shown(text) == expected


def test_a_language_stays_over_a_flush() -> None:
    first, second = answers('a <lang xml:lang="fr">un▮ deux</lang> three')
    assert [p.tongues for p in (*first, *second)] == [
        (Tongue(22, 24, "fr"),),
        (Tongue(25, 29, "fr"),),
    ]


@pytest.mark.parametrize(("code", "last"), [("read", ["y = 2."]), ("announce", []), ("skip", [""])])
def test_code_behind_a_flush_is_what_it_was_before(
    code: Literal["read", "announce", "skip"], last: list[str]
) -> None:
    options = TextOptions(code=code)
    _, second = answers("```py\nx = 1▮\ny = 2\n```\nSo", options)
    assert [p.text.text for p in second] == [*last, "So"]


# --- settle ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("▯x▯", [[], [], ["x"]]),
        # up to the last whole word
        ("Hello my na▯me is", [["Hello my"], ["name is"]]),
        ("Hello my ▯name", [["Hello my"], ["name"]]),
        ("Hello▯ my ▯name", [[], ["Hello my"], ["name"]]),
        ("so, ▯then", [["so,"], ["then"]]),
        ("the dogs' ▯tails", [["the dogs'"], ["tails"]]),
        ("it'▯s so", [[], ["it's so"]]),
        ("A line\n▯goes on", [["A line"], ["goes on"]]),
        ("A line\n▯\nNext", [["A line"], ["| Next"]]),
        # or to a mark that ends one
        ("Hello.▯ You", [["Hello."], ["You"]]),
        ("Really?!▯ You", [["Really?!"], ["You"]]),
        ("Well…▯ You", [["Well…"], ["You"]]),
        ("“Go.”▯ He", [["“Go.”"], ["He"]]),
        ("No.▯ I do", [["No."], ["I do"]]),
        ("Bonjour !▯ Oui", [["Bonjour !"], ["Oui"]]),
        # no number, no name, no address is divided
        ("It costs 3.▯14", [["It costs"], ["3.14"]]),
        ("It costs 3,▯000", [["It costs"], ["3,000"]]),
        ("It costs 3 ▯million", [["It costs"], ["3 million"]]),
        ("so far 10 000 ▯km", [["so far"], ["10 000 km"]]),
        ("It is 42. ▯So", [["It is 42."], ["So"]]),
        ("I met Dr. ▯Smith", [["I met"], ["Dr. Smith"]]),
        ("I met Dr.▯ Smith", [["I met"], ["Dr. Smith"]]),
        ("by J. R. R. ▯Tolkien", [["by"], ["J. R. R. Tolkien"]]),
        ("in the U.S.▯A. now", [["in the"], ["U.S.A. now"]]),
        ("some, e.g.▯ this", [["some,"], ["e.g. this"]]),
        ("see https://x.y/w?▯v=1 now", [["see"], ["https://x.y/w?v=1 now"]]),
        # markup is not either
        ("see the [do▯cs](u) now", [["see the"], ["docs now"]]),
        ("see the [docs](ht▯tp://x) now", [["see the"], ["docs now"]]),
        ("the `co de ▯x` is", [["the"], ["co de x is"]]),
        ("a b <b▯r>c", [["a b"], ["c"]]),
        ("a b [pause:▯1s] c", [["a b"], ["c"]]),
        ("a **b▯** c", [["a"], ["b c"]]),
        ("a **b** ▯c", [["a b"], ["c"]]),
        ("a b\n-▯ c", [["a b"], ["| c"]]),
        ("a b\n``▯`\nc d ▯e\n```\nf", [["a b"], [], ["| ", "| f"]]),
        ("See [a b ▯c d](/bˈi/) now", [["See"], ["a b c d now"]]),
    ],
)  # fmt: skip
def test_settle(text: str, expected: list[list[str]]) -> None:
    assert shown(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr", "Voici M. ▯Dupont", [["Voici"], ["M. Dupont"]]),
        ("es", "¿Qué?▯ Sí", [["¿Qué?"], ["Sí"]]),
        ("hi", "नमस्ते।▯ यह", [["नमस्ते।"], ["यह"]]),
        ("hi", "यह ▯है", [["यह"], ["है"]]),
        ("zh", "你好，▯我", [["你好，"], ["我"]]),
        ("ja", "次です！▯はい", [["次です！"], ["はい"]]),
    ],
)
def test_settle_in_other_languages(language: str, text: str, expected: list[list[str]]) -> None:
    assert shown(text, language) == expected


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("", False),
        (" \n", False),
        ("— “", False),
        ("He", True),
        ("Hello my", True),
        ("Hello. ", True),
        ("[Hello", True),
        ("H", True),
        ("a\n\n\n", False),
        ("```\n", False),
        ("```\ncode", False),
        ("```py", False),
        ("```\ncode\n``", False),
        ("```\ncode\n```\nSo", True),
        ("<!-- a", False),
    ],
)
def test_holds(text: str, holds: bool) -> None:
    reader = Reader("en", TextOptions())
    reader.push(text)
    assert reader.holds is holds
    reader.flush()
    assert not reader.holds


@pytest.mark.parametrize(("code", "holds"), [("skip", False), ("announce", True), ("read", True)])
def test_a_block_of_code_that_has_just_begun_is_held_if_it_is_heard(
    code: Literal["skip", "announce", "read"], holds: bool
) -> None:
    reader = Reader("en", TextOptions(code=code))
    reader.push("```\nx")
    assert reader.holds is holds


def test_read_code_is_held() -> None:
    reader = Reader("en", TextOptions(code="read"))
    reader.push("```\ncode he")
    assert reader.holds
    assert [p.text.text for p in reader.settle()] == ["code"]


# --- laws: whatever the text, wherever it is cut, flushed and settled ---

MARKS = sorted({*SIGNS.split(), *BLANKS, *"ab1 .,\n"})
TOKENS = st.lists(st.sampled_from([*TEXTS, *MARKS]), max_size=30).map("".join)
ANY = RICH | TOKENS
#: without markup that has letters of its own: if it is cut, others are spoken
PLAIN = st.lists(
    st.sampled_from([token for token in [*TEXTS, *MARKS] if not set(token) & set("`~<&[🇺\x1b")]),
    max_size=30,
).map("".join)
LANGUAGES = st.sampled_from(["en", "fr", "zh", "hi"])


def asked(
    text: str, places: Iterable[int], ask: Ask, options: TextOptions, language: str = "en"
) -> list[Passage]:
    """All passages of a text, when the reader is asked at these places."""
    reader = Reader(language, options)
    made: list[Passage] = []
    for start, stop in pairwise([0, *sorted(places), len(text)]):
        if start:
            made += ask(reader)
        made += reader.push(text[start:stop])
    return made + reader.end()


def some_places(data: st.DataObject, text: str, most: int = 12) -> list[int]:
    return data.draw(st.lists(st.integers(0, len(text)), max_size=most).map(sorted))


def check(passages: Sequence[Passage], text: str) -> None:
    """In order, without overlap, all that belongs to a passage in it."""
    position = 0
    for passage in passages:
        assert position <= passage.start <= passage.end <= len(text)
        position = passage.end
        assert len(passage.text.text) == len(passage.text.spans)
        places = [*passage.text.spans, *((s.start, s.end) for s in passage.says)]
        places += [(t.start, t.end) for t in passage.tongues]
        places += [(w.start, w.end) for w in passage.warnings]
        places += [(s.at, s.at) for s in passage.silences]
        assert all(passage.start <= start <= end <= passage.end for start, end in places)


def notes(passages: Sequence[Passage]) -> list[object]:
    """All that is to be heard or told, with its place."""
    told = [warning for passage in passages for warning in passage.warnings]
    return [
        *spoken(passages),
        *(say for passage in passages for say in passage.says),
        *(silence for passage in passages for silence in passage.silences),
        # a mark before it may have been given before it was known to be an image's
        *(warning for warning in told if warning.code != "image_skipped"),
    ]


def spoken(passages: Iterable[Passage]) -> list[tuple[str, tuple[int, int]]]:
    """Letters and digits with their places."""
    return [
        (c, span)
        for passage in passages
        for c, span in zip(passage.text.text, passage.text.spans, strict=True)
        if c.isalnum()
    ]


@settings(max_examples=400)
@given(ANY, OPTIONS, LANGUAGES, st.data())
def test_between_flushes_it_does_not_matter_how_the_text_is_cut(
    text: str, options: TextOptions, language: str, data: st.DataObject
) -> None:
    flushes, cuts = some_places(data, text, 5), some_places(data, text)
    reader = Reader(language, options)
    made: list[Passage] = []
    position = 0
    for place, is_flush in sorted([*((p, 0) for p in cuts), *((p, 1) for p in flushes)]):
        made += reader.push(text[position:place])
        position = place
        made += reader.flush() if is_flush else []
    made += reader.push(text[position:]) + reader.end()
    reader = Reader(language, options)
    whole: list[Passage] = []
    for start, stop in pairwise([0, *flushes, len(text)]):
        whole += reader.push(text[start:stop])
        whole += reader.flush() if stop < len(text) or stop in flushes else []
    assert made == whole + reader.end()


@settings(max_examples=400)
@given(PLAIN, OPTIONS, LANGUAGES, st.data())
def test_flushes_lose_nothing(
    text: str, options: TextOptions, language: str, data: st.DataObject
) -> None:
    flushed = asked(text, some_places(data, text), Reader.flush, options, language)
    check(flushed, text)
    told = {at for _, span in spoken(flushed) for at in range(*span)}
    for c, span in spoken(read([text], options, language)):
        assert told & set(range(*span)), (c, span)


@settings(max_examples=200)
@given(ANY, OPTIONS, st.data())
def test_a_flush_with_nothing_to_give_changes_nothing(
    text: str, options: TextOptions, data: st.DataObject
) -> None:
    places = some_places(data, text)
    seconds: list[Passage] = []

    def twice(reader: Reader) -> list[Passage]:
        made = reader.flush()
        seconds.extend(reader.flush())
        return made

    assert asked(text, places, twice, options) == asked(text, places, Reader.flush, options)
    assert not seconds


@given(ANY, OPTIONS)
def test_a_flush_before_the_end_gives_what_the_end_gives(text: str, options: TextOptions) -> None:
    reader = Reader("en", options)
    made = reader.push(text) + reader.flush() + reader.end()
    check(made, text)
    assert notes(made) == notes(read([text], options))


@settings(max_examples=400)
@given(ANY, OPTIONS, LANGUAGES, st.data())
def test_settling_changes_nothing_of_what_is_spoken(
    text: str, options: TextOptions, language: str, data: st.DataObject
) -> None:
    places = data.draw(st.just(list(range(1, len(text)))) | st.just(some_places(data, text)))
    settled, whole = (
        asked(text, places, Reader.settle, options, language),
        read([text], options, language),
    )
    check(settled, text)
    assert notes(settled) == notes(whole)
    assert [p.start for p in settled if p.before is Break.PARAGRAPH] == [
        p.start for p in whole if p.before is Break.PARAGRAPH
    ]


@settings(max_examples=300)
@given(ANY | st.text("ab1 .,:'’-!?%$\n", max_size=60), OPTIONS, LANGUAGES)
def test_no_word_and_no_number_is_divided_by_settling(
    text: str, options: TextOptions, language: str
) -> None:
    reader = Reader(language, options)
    for c in text:
        reader.push(c)
        for passage in reader.settle()[-1:]:
            before, after = text[max(0, passage.end - 2) : passage.end], text[passage.end :]
            assert not (before[-1:].isalnum() and after[:1].isalnum())
            number = before[:1].isdigit() and before[-1:] in ".,:'’" and after[:1].isdigit()
            assert not number
            assert not (before[-1:].isdigit() and after[:1] in ".,:" and after[1:2].isdigit())


@settings(max_examples=200)
@given(ANY, OPTIONS, st.data())
def test_what_a_flush_gives_is_held(text: str, options: TextOptions, data: st.DataObject) -> None:
    reader = Reader("en", options)
    cut = data.draw(st.integers(0, len(text)))
    reader.push(text[:cut])
    if data.draw(st.booleans()):
        reader.settle()
    holds = reader.holds
    assert holds or not spoken(reader.flush())


@given(ANY, OPTIONS, st.lists(st.sampled_from([Reader.flush, Reader.settle]), max_size=200))
def test_asked_in_any_order_it_goes_on(text: str, options: TextOptions, asks: list[Ask]) -> None:
    reader, made = Reader("en", options), list[Passage]()
    for c, ask in zip(text, asks, strict=False):
        made += reader.push(c) + ask(reader)
    made += reader.push(text[len(asks) :]) + reader.end()
    check(made, text)


# --- bounded ---


UNITS = "[ * ` < ! $ | \\ # - . “ ' [a a*b <a <!-- [x]( &a e.g. <pre> x 日 。 1 1. Dr. U.S. a\u0301 \x1b["


@pytest.mark.parametrize("ask", [Reader.flush, Reader.settle])
@pytest.mark.parametrize("unit", [*UNITS.split(), "x ", "1 ", "Dr. ", "- ", "`a ", "```\n", "a. "])
def test_asking_costs_the_same_however_long_the_text_is(
    unit: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    class Counted(Scan):
        def match(self, pattern: object, ahead: int = 0) -> object:
            nonlocal looks
            looks += 1
            return super().match(pattern, ahead)

    def counted(language: str, text: str) -> object:
        nonlocal looks
        looks += 1
        assert len(text) <= sentences.LOOKBEHIND + 8
        return get_sentence_boundaries(language, text)

    monkeypatch.setattr("engine.text.markup.Scan", Counted)
    monkeypatch.setattr(sentences, "get_sentence_boundaries", counted)
    text = unit * (1000 // len(unit))
    asked(text, range(1, len(text)), ask, TextOptions())
    assert looks <= 20 * len(text)  # 17 at most, whether it has 200 characters or 400
