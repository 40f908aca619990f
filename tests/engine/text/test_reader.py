"""Text to passages: the same however it is cut, soon, nothing lost, in bounded time."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.request import TextOptions
from engine.text.passage import Break, Passage
from engine.text.reader import Reader
from engine.text.scan import Scan
from engine.text.sentences import LOOKAHEAD, SENTENCE_CHARS


def read(
    pieces: Iterable[str], options: TextOptions | None = None, language: str = "en"
) -> list[Passage]:
    reader = Reader(language, options or TextOptions())
    return [p for piece in pieces for p in reader.push(piece)] + reader.end()


def texts(text: str, language: str = "en") -> list[str]:
    return [passage.text.text for passage in read([text], language=language)]


# --- sentences ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\t ", []),
        ("One", ["One"]),
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("Pi is 3.14. It cost $100,000. So.", ["Pi is 3.14.", "It cost $100,000.", "So."]),
        ("Dr. Smith paid $3.50 to Mr. Jones.", ["Dr. Smith paid $3.50 to Mr. Jones."]),
        ("J. R. R. Tolkien and George W. Bush", ["J. R. R. Tolkien and George W. Bush"]),
        ("Use Mac, etc. Then, e.g. this (or that) one.", ["Use Mac, etc.", "Then, e.g. this (or that) one."]),
        ("See Vol. 2 and No. 7. Fine.", ["See Vol. 2 and No. 7.", "Fine."]),
        ("“Really?” she said… then left. “Oh.” “No!” He", ["“Really?” she said… then left.", "“Oh.”", "“No!”", "He"]),
        ("Wait... what?! Yes!!! OK", ["Wait... what?!", "Yes!!!", "OK"]),
        ("So it is (really). Yes", ["So it is (really).", "Yes"]),
        ("Hello.\nSecond line. 😀\nThird.", ["Hello.", "Second line.", "Third."]),
        ("A title\n\nA paragraph.", ["A title", "A paragraph."]),
        ("日本語。次です！「はい」か？ はい。", ["日本語。", "次です!", "「はい」か?", "はい。"]),
        ("...", ["..."]),
        ("The end [now.](x) Next", ["The end now.", "Next"]),
        ("See [a. B](/bˈi/) now. Then", ["See a. B now.", "Then"]),
    ],
)  # fmt: skip
def test_sentences(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("fr", "M. Dupont et Mme. Roux. Oui.", ["M. Dupont et Mme. Roux.", "Oui."]),
        ("es", "El Sr. Ruiz. ¿Qué? Sí.", ["El Sr. Ruiz.", "¿Qué?", "Sí."]),
        ("pt", "Veja a pág. 5. Sim.", ["Veja a pág. 5.", "Sim."]),
        ("it", "Il sig. Rossi. Sì.", ["Il sig. Rossi.", "Sì."]),
        ("hi", "नमस्ते। यह है।", ["नमस्ते।", "यह है।"]),
        ("zh", "你好！“好。”他说。", ["你好！", "“好。”", "他说。"]),
    ],
)
def test_sentences_of_other_languages(language: str, text: str, expected: list[str]) -> None:
    assert texts(text, language) == expected


def test_a_long_sentence_is_cut_at_a_clause() -> None:
    first, *others = texts("The quick brown fox jumps over the lazy dog, and then " * 30)
    assert first.endswith("dog,")
    assert len(first) > SENTENCE_CHARS // 3
    assert all(other.endswith(("dog,", "then")) for other in others)


def test_what_has_no_place_to_cut_is_cut_all_the_same() -> None:
    cut = texts("x" * 1500)
    assert "".join(cut) == "x" * 1500
    assert max(map(len, cut)) == SENTENCE_CHARS


def test_a_number_an_address_and_a_pronounced_word_are_not_cut() -> None:
    long = "a" * (SENTENCE_CHARS - 8)
    assert texts(f"{long} 1,000,000 x y z")[0] == long
    word = f"[{'New York ' * 20}](/nu jɔɹk/)"
    for before in ("", "b " * 250, "b" * 590):
        passages = read([f"{before}{word} {before} {'c ' * 300}"])
        (holding,) = [passage for passage in passages if passage.says]
        assert holding.text.text.count("New York") == 20


def test_what_stands_for_one_thing_is_not_cut() -> None:
    name = read(["😀" * 99], TextOptions(emoji="name"))
    assert len(name) > 1
    assert all(passage.text.text.startswith("grinning face") for passage in name)
    assert texts('It is <sub alias="A. B. And so. On">x</sub>.') == ["It is A. B. And so. On."]


# --- the law: it does not matter how the text is cut ---

#: parted by a sign that none of them has, and the line end before it
FIXED = """
Hello.¶One. Two.¶It cost $3.50. Dr. Smith, etc. Then.¶“Really?” she said… then left.¶Wait... what?!
¶a\r\nb\r\rc¶Title\nText\n\nMore¶- one\n- two\n3. three¶1. a\n2. b\n\n3. c¶# Head #\ntext¶Head\n===\nx
¶> q\n> r\ns¶a\n\n---\nb¶* * *¶**bold** and *it* ***x***¶*Holds out hand* Nice¶*waves* at¶snake_case_
¶2 * 3*4 **a**b**c**¶~~x~~ ~5¶`code` won`t ``a`b``¶a ` b¶```py\nx\n```\nb¶```\nopen¶~~~\nx\n~~~
¶[l](u) [m][n] [o]¶[l [k] m](u(v) "t")¶[Ko. Ko](/kˈO/) x¶[w](//) [w](/x¶[v。w](//) [v。w](/ъ/)¶<phoneme alphabet="x" ph="y">v。w</phoneme>¶[[[](¶![a](b) ![](c)¶![
¶[^1] x\n\n[^1]: n¶[x]: http://y\nz¶[pause:1s] a. [pause:x] b¶[pause:¶| a | b |\n|---|---|\n| c | |\n
¶a | b | c\n---|---\nd | e¶&amp; &lt;b &#39; AT&T &¶a < b and c > d¶<b>x</b><br>y¶<p>x</p><foo>y</foo>
¶<lang xml:lang="fr">a. b</lang> c¶<sub alias="x y">z</sub>¶<say-as interpret-as="digits">12</say-as>
¶<phoneme ph="a">b</phoneme>¶<break time="1s"/> <break/>¶a <break time="1s"\nb¶<sub alias="x¶<your name> List<a, b> x¶[pause 2s] a¶[l](http://x\ny¶you'ʼre x'' y¶$x^2$ H~2~O x^2^ ==a b== == c¶- a\nB\nc¶**1. a**\n**2. b**¶<say-as interpret-as="cardinal">1234</say-as>¶a\ufffdb¶<pre>a\n\nb</pre>c¶<style>a¶<!-- a --> b¶<!-- a
¶<s>a</s> <s>b</s>¶<speak><s>a</s></speak>¶https://a.b/c_d_ x¶$a_b$ $5¶a\\*b \\\nc  \nd¶C:\\x
¶👍🏽 a 🇺🇸 1️⃣¶👁\u200dℹ\ufe0f x¶e\u0301a\u0301\u0301\u0301\u0301\u0301¶a\u200bb\u00adc¶\x1b[31mred\x1b[0m¶日本。語！「は」か
¶Ｈｅ！¶नमस्ते। यह¶\ud800a\ud800¶a\u2028b\u2029c
"""
TEXTS = [text.strip("\n") for text in FIXED.split("¶")]
#: what is put together to texts; parted by white space, of which there is a line of its own
SIGNS = """
# ## - * 1. 12) > | |---| --- *** ``` ~~~ ` `` ** _ __ ~~ [ ] ( ) ]( ](/ /) ![ [^ < > </ <b> <br> <p>
</p> <s> </s> </lang> <sub <!-- --> & ; [pause: \\ $ ! . ? … , " “ ” ' ’ Hello Dr. 3.14 b B 日 。 😀 🏽
"""
BLANKS = [" ", "  ", "\n", "\n\n", "\r", "\t", "\u0301", "\u200d", "\x1b", "\ud800"]


def test_a_long_text_in_pieces_gives_the_same() -> None:
    text = "One [link](http://a.b/c) two, `x` and *so* on. <b>Three</b> &amp; four\n" * 200
    whole = read([text])
    assert len(whole) == 400
    assert read([text[at : at + 7] for at in range(0, len(text), 7)]) == whole


MARKUP = st.sampled_from([*TEXTS, *SIGNS.split(), *BLANKS])
RICH = st.lists(MARKUP | st.text(max_size=4), max_size=25).map("".join) | st.builds(
    lambda unit, count: ("".join(unit) * count)[:2500],
    st.lists(MARKUP, min_size=1, max_size=5),
    st.integers(1, 120),
)
OPTIONS = st.builds(
    TextOptions,
    markdown=st.sampled_from(["auto", "on", "off"]),
    emoji=st.sampled_from(["drop", "name"]),
    code=st.sampled_from(["skip", "announce", "read"]),
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("more", [TextOptions(), TextOptions(emoji="name", code="read")])
def test_every_cutting_in_two_and_into_characters_gives_the_same(
    text: str, more: TextOptions
) -> None:
    whole = read([text], more)
    assert read(text, more) == whole
    for at in range(1, len(text)):
        assert read([text[:at], text[at:]], more) == whole


@settings(max_examples=500)
@given(RICH, OPTIONS, st.sampled_from(["en", "fr", "zh"]), st.data())
def test_any_cutting_gives_the_same(
    text: str, options: TextOptions, language: str, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=12).map(sorted))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = read([text], options, language)
    assert read(pieces, options, language) == whole
    assert read(text[:400], options, language) == read([text[:400]], options, language)


@settings(max_examples=300)
@given(RICH | st.text(max_size=200), OPTIONS, st.sampled_from(["en", "hi", "ja"]))
def test_passages_are_in_order_and_every_character_is_in_its_passage(
    text: str, options: TextOptions, language: str
) -> None:
    position = 0
    for passage in read([text], options, language):
        assert position <= passage.start <= passage.end <= len(text)
        position = passage.end
        shown, spans = passage.text.text, passage.text.spans
        assert shown == " ".join(shown.split())
        assert len(shown) == len(spans)
        assert len(shown) <= SENTENCE_CHARS + 1
        assert list(spans) == sorted(spans)
        assert sorted(end for _, end in spans) == [end for _, end in spans]
        places = [*spans, *((s.start, s.end) for s in passage.says)]
        places += [(t.start, t.end) for t in passage.tongues]
        places += [(w.start, w.end) for w in passage.warnings]
        places += [(s.at, s.at) for s in passage.silences]
        assert all(passage.start <= start <= end <= passage.end for start, end in places)


@given(st.text(" \n.,;?!'\"()abcdXYZ0123é日", max_size=400), OPTIONS)
def test_of_plain_text_nothing_is_lost(text: str, options: TextOptions) -> None:
    spoken = "".join(passage.text.text for passage in read([text], options))
    assert [c for c in spoken if c.isalnum()] == [c for c in text if c.isalnum()]


# --- soon ---

STREAM = "It rained today. Nobody *minded* much. Dr. Smith paid [$3.50](u) for it. So it is."


def test_a_sentence_is_given_when_the_next_one_has_begun() -> None:
    reader, waited = Reader("en", TextOptions()), []
    for at, c in enumerate(STREAM, 1):
        waited += [at - passage.end for passage in reader.push(c)]
    assert len(waited) == 3
    assert max(waited) <= LOOKAHEAD + 2  # the space before it, and the character after a letter


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        ("It costs 3.", "5 euros."),
        ("Dr. ", "Smith is here."),
        ("Hello [pause:", "1s] you."),
        ("Hello <br", "eak/> you."),
        ("He said “Go.", "” and left."),
        ("Meet [Ko. Ko](/k", "O/) now."),
    ],
)
def test_what_may_be_incomplete_is_not_given(begun: str, more: str) -> None:
    reader = Reader("en", TextOptions())
    assert reader.push(begun) == []
    assert len(reader.push(more) + reader.end()) == 1


def test_a_paragraph_ends_with_its_blank_line() -> None:
    reader = Reader("en", TextOptions())
    assert reader.push("A title\n") == []
    (title,) = reader.push("\n ")
    (text,) = reader.push("text") + reader.end()
    assert (title.before, text.before) == (Break.NONE, Break.PARAGRAPH)


# --- bounded ---


UNITS = """
[ * ` < _ ~ ! & $ | \\ # > - . ( " “ ' [a ![ a*b <a <!-- [x]( &a |- e.g. [pause: <lang> <pre> x 日 。
<a-b ^a = == =a\u0020 ' '' $a$ a\u0301\u0301 \u0301 😀 👩\u200d \x1b[
"""


@pytest.mark.parametrize("unit", [*UNITS.split(), "- ", "1. ", "`a ", "<a "])
def test_looks_at_the_text_are_few_whatever_it_is(
    unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    class Counted(Scan):
        def match(self, pattern: object, ahead: int = 0) -> object:
            nonlocal count
            count += 1
            return super().match(pattern, ahead)

    monkeypatch.setattr("engine.text.markup.Scan", Counted)
    text = unit * (4000 // len(unit))
    read([text])
    assert count <= 12 * len(text)


@pytest.mark.parametrize(
    ("text", "kept", "passages"),
    [
        ("[" * 20_000, 20_000, 34),
        ("*" * 20_000, 0, 0),
        ("`" * 20_000, 0, 0),
        ("<" * 5_000, 5_000, 9),
        ("x" * 100_000, 100_000, 167),
        ("- \n" * 5_000, 0, 0),
        ("- a\n" * 5_000, 5_000, 5_000),
    ],
)
def test_hostile_texts(text: str, kept: int, passages: int) -> None:
    found = read([text])
    assert len(found) == passages
    assert sum(len(passage.text) for passage in found) == kept
