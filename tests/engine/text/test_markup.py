"""What markup becomes: text, pauses, pronunciations, languages, warnings."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from engine.request import TextOptions
from engine.text import tags
from engine.text.passage import Break, Passage
from engine.text.reader import Reader


def read(text: str, options: TextOptions | None = None, language: str = "en") -> list[Passage]:
    reader = Reader(language, options or TextOptions())
    return reader.push(text) + reader.end()


def seen(text: str, options: TextOptions | None = None, language: str = "en") -> list[str]:
    """The passages' texts; a line before those that begin a paragraph."""
    return [
        "| " * (passage.before is Break.PARAGRAPH) + passage.text.text
        for passage in read(text, options, language)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # headings
        ("# One\nTwo", ["| One", "| Two"]),
        ("### Title ###\n\ntext", ["| Title", "| text"]),
        ("Title\n=====\ntext", ["Title", "| text"]),
        ("#hash and C# and # alone", ["#hash and C# and # alone"]),
        ("####### seven", ["####### seven"]),
        ("# C# and F#", ["| C# and F#"]),
        # lists
        ("- one\n- two\n3. three", ["| one", "| two", "| 3, three"]),
        ("* a\n  goes on\n  * nested\n+ b", ["| a goes on", "| nested", "| b"]),
        ("• a\n•b", ["| a", "| b"]),
        ("1) a\n2) b", ["| 1, a", "| 2, b"]),
        ("- [ ] open\n- [x] done", ["| open", "| done"]),
        ("- \n-\n- a", ["| a"]),
        ("it was in\n1986. Then", ["it was in 1986.", "Then"]),
        ("two steps:\n7. Go", ["two steps:", "| 7, Go"]),
        ("so\n1. Go", ["so", "| 1, Go"]),
        ("so\n2. Go", ["so", "| 2, Go"]),
        ("word " * 12 + "and\n12. Then", ["word " * 12 + "and 12.", "Then"]),
        ("+ 5 = 7\n\n** Note", ["+ 5 = 7", "| Note"]),
        ("-5 degrees", ["-5 degrees"]),
        ("*Terms apply.", ["Terms apply."]),
        ("- pears\nThat is all.", ["| pears", "| That is all."]),
        ("- Pears.\nThat is all.\nAnd more", ["| Pears.", "| That is all.", "And more"]),
        ("- pears\n  That is all", ["| pears.", "That is all"]),
        ("- so, then,\nJohn", ["| so, then, John"]),
        ("**1. Item one**\n**2. Item two**", ["1.", "Item one.", "2.", "Item two"]),
        # quotes
        ("> a\n> b\n\nc", ["| a b", "| c"]),
        ("a\n> b\nc", ["a", "| b", "| c"]),
        (">> a\n>\n> b", ["| a", "| b"]),
        (">5 is more", [">5 is more"]),
        # tables
        ("| a | b |\n|---|:-:|\n| 1 | **2** |\n|  | x, | y |\n\nz",
         ["| a, b", "| 1, 2.", "x, y", "| z"]),
        ("Name | Age\n--- | ---\nBob | 3", ["Name, Age", "| Bob, 3"]),
        ("a || b |c| d", ["a || b |c| d"]),
        # rules, code, hard breaks, footnotes, targets
        ("a\n\n---\n\nb\n* * *\nc\n___", ["a", "| b", "| c"]),
        ("a\n```py\nx = 1\n```\nb", ["a", "| ", "| b"]),
        ("a\n~~~~\nx\n~~~\ny\n~~~~\nb", ["a", "| ", "| b"]),
        ("a  \nb\\\nc", ["a.", "b.", "c"]),
        ("A[^1] b.\n\n[^1]: The note.", ["A b.", "| The note."]),
        ("a\n\n[x]: http://y.z 'T'\nb", ["a", "| b"]),
        ("[x]: that is it", ["[x]: that is it"]),
        # lines
        ("Title line\nThe text.", ["Title line.", "The text."]),
        ("Roses are red\nViolets are blue,\nSugar", ["Roses are red.", "Violets are blue, Sugar"]),
        ("a short line\nthat goes on", ["a short line that goes on"]),
        ("word " * 14 + "and\nMary goes on", ["word " * 14 + "and Mary goes on"]),
        ("word " * 30 + "end\nMary goes on", ["word " * 30 + "end.", "Mary goes on"]),
        ("标题\n正文", ["标题.", "正文"]),
        # emphasis
        ("This is *very* **good** and ***both***.", ["This is very good and both."]),
        ("You *shouldn't* panic", ["You shouldn't panic"]),
        ("__init__ _a_ snake_case _private a_b_c", ["init a snake_case private a_b_c"]),
        ("2 * 3, 5 * x, 2*3*4, 2*(3+4)*5, f(x)*g(x), 2**3",
         ["2 * 3, 5 * x, 2*3*4, 2*(3+4)*5, f(x)*g(x), 2**3"]),
        ("**粗体。**文字 un**frigging**real", ["粗体。", "文字 unfriggingreal"]),
        ("f**k it", ["f**k it"]),
        ("**One. Two.** Three *a", ["One.", "Two.", "Three a"]),
        ("~~gone~~ ~5 a~~b", ["gone ~5 a~~b"]),
        ("\\*not\\* C:\\temp\\(x)", ["*not* C:\\temp\\(x)"]),
        ("https://a.b/c_d_?e=1&copy=2 x_", ["https://a.b/c_d_?e=1&copy=2 x"]),
        ("$a_1*b_2$, $5 and *$6*, $$x_$$", ["a_1*b_2, $5 and $6, x_"]),
        ("$x^2 + y$ $$E = mc^2$$ Ke$ha and US$", ["x^2 + y E = mc^2 Ke$ha and US$"]),
        ("H~2~O, 5~6~7, x^2^ 1^st^ a^b^c", ["H2O, 5~6~7, x^2 1st a^b^c"]),
        ("==high light== a == b == c x==y==z", ["high light a == b == c x==y==z"]),
        # actions
        ("*Holds out hand* Nice to meet you", ["Holds out hand.", "Nice to meet you"]),
        ("_Sighs._ “I am tired.”", ["Sighs.", "“I am tired.”"]),
        ("*waves* at you", ["waves at you"]),
        ("so *very* Nice", ["so very Nice"]),
        # code
        ("Set `max_len` to ``a`b``.", ["Set max_len to a'b."]),
        ("I won`t, `*x*` the dogs` bone", ["I won't, *x* the dogs' bone"]),
        ("a ` b ``c", ["a b c"]),
        ("you'ʼre ''so'' dogs'' ’’", ["you're ''so'' dogs'' ''"]),
        # links and images
        ("see [the *docs*](http://x.y/z_(a) \"T\").", ["see the docs."]),
        ("[a\nb](<c d>) [e][f] [g][]", ["a b e g"]),
        ("[x] a[0](x) a[0][1] f(x)[y](z)", ["[x] a[0](x) a[0][1] f(x)[y](z)"]),
        ("请看[文档](url)吧", ["请看文档吧"]),
        ("![alt](a.png) [![in](b)](c)", ["alt in"]),
        ("Wow![link](u) [not\n\na](link)", ["Wow!link [not", "| a](link)"]),
        ("<https://a.b/c_d> <me@x.org>", ["https://a.b/c_d me@x.org"]),
    ],
)  # fmt: skip
def test_markdown(text: str, expected: list[str]) -> None:
    assert seen(text) == expected


@pytest.mark.parametrize(
    ("text", "auto", "on", "off"),
    [
        ("*a* `b` [c](d)", "a b c", "a b c", "*a* b [c](d)"),
        ("2*3*4 a*b*c", "2*3*4 a*b*c", "234 abc", "2*3*4 a*b*c"),
        ("# x", "x", "x", "# x"),
        ("\\( \\$", "\\( \\$", "( $", "\\( \\$"),
        (">5", ">5", "5", ">5"),
        ("a[0](x)", "a[0](x)", "a0", "a[0](x)"),
        ("![x](y)", "x", "x", "![x](y)"),
        ("won`t", "won't", "won't", "won't"),
        ("a | b", "a, b", "a, b", "a | b"),
        # these are no markdown
        ("[x](/ə/) &amp; <b>y</b>[pause:1s]", "x & y", "x & y", "x & y"),
    ],
)
def test_modes(text: str, auto: str, on: str, off: str) -> None:
    assert seen(text, TextOptions(markdown="auto"))[-1].lstrip("| ") == auto
    assert seen(text, TextOptions(markdown="on"))[-1].lstrip("| ") == on
    assert seen(text, TextOptions(markdown="off")) == [off]


def test_without_markdown_a_fence_is_text() -> None:
    text = "a\n```\nb\n```\n- c"
    assert seen(text, TextOptions(markdown="off")) == ["a b - c"]


#: CommonMark, where nothing is left open: there the two say the same
COMMONMARK = """
*a* **b** ***c***|a*b*c and a**b**c|*a **b** c*|**a *b* c**|_a_ __b__ a_b_c|2 * 3 * 4|*a* b*c|
[link](url) and [l2](<u r> "t")|![alt](src) x|[a *b* c](u)|[a [b] c](u)|\\*a\\* \\[b\\](c)|\\a \\\\ b|
# head #\n\ntext|head\n===\n\ntext|- a\n- b\n  - c|> a\n> b|> a\n> > b|&amp; &lt;b&gt; &copy; &x;|
<http://a.b> <x@y.z>|~~a~~ b|*a\nb*|"*a*" (**b**)|foo*bar*|[a](b(c)d)|[a]( b )|[a](b c)|
a\\\\*b*|`a*b*` ``c``|***a** b*|***a* b**|* a\n\n  b|[![x](y)](z)|**a:** b|*a*.|x**a**.|“*a*”|
a `b\nc` d|[a](|[a]|!|*|a **  b|a  b|``` x ```
"""


@pytest.mark.parametrize("text", [text.strip("\n") for text in COMMONMARK.split("|")])
def test_closed_markup_reads_like_commonmark(text: str) -> None:
    parser = MarkdownIt("commonmark").enable("strikethrough")
    expected = " ".join(content(parser.parse(text)).split())
    assert " ".join(p.text.text for p in read(text, TextOptions(markdown="on"))) == expected


def content(tokens: list[Token]) -> str:
    parts = []
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            parts.append(token.content)
        elif token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.children:
            parts.append(content(token.children) + " ")
    return "".join(parts)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fish &amp; chips<br>now", ["Fish & chips.", "now"]),
        ("a&nbsp;b &#39;x&#x27; &lt;b&gt; AT&T &unknown; &rsquo;", ["a b 'x' <b> AT&T &unknown; '"]),
        ("<h1>A</h1><ul><li>b<li>c</ul><p>d", ["| A", "| b", "| c", "| d"]),
        ("<table><tr><td>a</td><td>b</td></tr><tr><th>c<th>d</table>", ["| a, b.", "c, d"]),
        ("H<sub>2</sub>O <i>x</i>y <wbr> z", ["H2O xy z"]),
        ("a <!-- no\n\n more --> b <!doctype html><?xml version='1.0'?>c", ["a b c"]),
        ("a <!-- open\nb", ["a b"]),
        ("<![CDATA[a < *b*]]>", ["a < *b*"]),
        ("a < b and c > d, x<y, a<b and c>d", ["a < b and c > d, x<y, a<b and c>d"]),
        ("List<String> <your name> I <3 you <>", ["List String your name I <3 you <>"]),
        ("Map<String, int> x<y", ["Map String, int x<y"]),
        ("<img src=x alt='a &amp; b'/>", ["a & b"]),
        ("<speak><p><s>One</s><s>Two</s></p></speak>", ["| One.", "Two."]),
        ("<s>One</s> <s>Two</s> a <s>b</s> c", ["One.", "Two a b c"]),
        ('<sub alias="World &amp; Web">WW</sub> x', ["World & Web x"]),
        ('<say-as interpret-as="characters">abc</say-as>', ["A B C"]),
        ('<say-as interpret-as="digits">12</say-as>', ["1 2"]),
        ('<say-as interpret-as="telephone">555-12</say-as>', ["5 5 5 - 1 2"]),
        ('<say-as interpret-as="cardinal">12</say-as>', ["12"]),
        ('<say-as interpret-as="cardinal">1234567</say-as>', ["1,234,567"]),
        ('<say-as interpret-as="ordinal">1902</say-as>', ["1,902nd"]),
        ('<say-as interpret-as="ordinal">13</say-as>', ["13th"]),
        ('<say-as interpret-as="date">1/2/2024</say-as>', ["1/2/2024"]),
    ],
)  # fmt: skip
def test_tags(text: str, expected: list[str]) -> None:
    assert seen(text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "silences"),
    [
        ("[pause:1s] Hello", "Hello", [(10, 1000)]),
        ("Hello [pause: 500 ms] you", "Hello you", [(21, 500)]),
        ("[pause=1] a", "a", [(9, 1000)]),
        ("[PAUSE:1.5S]a[pause:.5]", "a", [(12, 1500), (23, 500)]),
        ('a <break time="250ms"/> b', "a b", [(23, 250)]),
        ("a <break/><break strength='x-strong'/>", "a", [(10, 400), (38, 1000)]),
        ("a <break strength='none'/> b", "a b", []),
        ("He pressed [pause] twice", "He pressed [pause] twice", []),
    ],
)
def test_pauses(text: str, expected: str, silences: list[tuple[int, float]]) -> None:
    (passage,) = read(text)
    assert passage.text.text == expected
    assert [tuple(silence) for silence in passage.silences] == silences
    assert passage.warnings == ()


def test_a_pause_between_sentences_belongs_to_the_second() -> None:
    first, second = read("One two. [pause:1s] Three.")
    assert (first.silences, second.silences[0].at) == ((), 19)


@pytest.mark.parametrize(
    ("text", "expected", "say"),
    [
        ("Meet [Kokoro](/kˈOkəɹO/) today.", "Meet Kokoro today.", ("[Kokoro](/kˈOkəɹO/)", "kˈOkəɹO")),
        ("a [New York. Oh](/nu jɔɹk/).", "a New York. Oh.", ("[New York. Oh](/nu jɔɹk/)", "nu jɔɹk")),
        ("[**word**](/wˈɜɹd/)", "word", (None, "wˈɜɹd")),
        ('<phoneme ph="təˈmeɪtoʊ">tomato</phoneme>', "tomato", (None, "təˈmAtO")),
        ('<phoneme alphabet="x-kokoro" ph="A">a</phoneme>', "a", (None, "A")),
        ("<phoneme alphabet='ipa' ph='ʁɛ̃'>rin</phoneme>", "rin", (None, "ʁɛ\u0303")),
    ],
)  # fmt: skip
def test_pronunciations(text: str, expected: str, say: tuple[str | None, str]) -> None:
    (passage,) = read(text)
    assert passage.text.text == expected
    (found,) = passage.says
    assert text[found.start : found.end] == (say[0] or text)
    assert found.phonemes == say[1]


def test_an_address_is_no_pronunciation() -> None:
    (passage,) = read("[a](/docs_2/) [b](/c/d/) [c](/x.html/) [d](/docs/)")
    assert (passage.text.text, passage.says) == ("a b c d", ())


def test_a_language_may_go_over_sentences() -> None:
    text = 'So <lang xml:lang="fr-FR">bonjour. Ça <lang xml:lang="it">va</lang> là</lang> it is.'
    passages = read(text)
    assert [[(text[t.start : t.end], t.tag) for t in p.tongues] for p in passages] == [
        [("bonjour.", "fr-FR")],
        [("Ça ", "fr-FR"), ("va", "it"), (" là", "fr-FR")],
    ]


@pytest.mark.parametrize(
    ("text", "code", "what"),
    [
        ("a [pause:abc] b", "unknown_tag", "[pause:abc]"),
        ("a [pause 2s] b", "unknown_tag", "[pause 2s]"),
        ("a [b](http://xxx", "unknown_tag", "](http://xxx"),
        ('a <break time="500ms"\nb', "unknown_tag", '<break time="500ms"'),
        ("a b <sub x=1 alias='x y", "unknown_tag", "<sub x=1 alias='x y"),
        ("a b <sub alias='x y", "unknown_tag", "<sub alias='x y"),
        ("b <!-- x", "unknown_tag", "<!-- x"),
        ("a[^1] b", "footnote_skipped", "[^1]"),
        ("[^1]: b", "footnote_skipped", "[^1]:"),
        ("a\ufffdb", "unknown_character", "\ufffd"),
        ("<say-as interpret-as='expletive'>b</say-as>", "unsupported_tag",
         "<say-as interpret-as='expletive'>"),
        ("<say-as interpret-as='cardinal'>VIIb</say-as>", "unsupported_tag",
         "<say-as interpret-as='cardinal'>"),
        ("a [pause:-1s] b", "unknown_tag", "[pause:-1s]"),
        ("a [pause:60s] b", "pause_cut", "[pause:60s]"),
        ("a <break time='long'/> b", "unknown_tag", "<break time='long'/>"),
        ("a <foo>b</foo>", "unknown_tag", "<foo>"),
        ("<prosody rate='slow'>b</prosody>", "unsupported_tag", "<prosody rate='slow'>"),
        ("<voice name='x'>b</voice>", "unsupported_tag", "<voice name='x'>"),
        ("<audio src='x'/>b", "unsupported_tag", "<audio src='x'/>"),
        ("a [b](//) c", "no_pronunciation", "[b](//)"),
        ("a [b](/ъъ/) c", "no_pronunciation", "[b](/ъъ/)"),
        ("a [b](/ɛъ/) c", "unknown_phonemes", "[b](/ɛъ/)"),
        ("<phoneme alphabet='x-sampa' ph='b'>b</phoneme>", "unsupported_tag",
         "<phoneme alphabet='x-sampa' ph='b'>"),
        ("a ![](x.png) b", "image_skipped", "![](x.png)"),
        ("a <img src=x> b", "image_skipped", "<img src=x>"),
        ("a\n```\nx\n```\nb", "code_skipped", "```\nx\n```\n"),
        ("a\n```\nopen b", "code_skipped", "```\nopen b"),
        ("a <pre>x\n\ny</pre> b", "code_skipped", "<pre>x\n\ny</pre>"),
        ("a <script>x</script> b", "element_skipped", "<script>x</script>"),
        ("<style>x</STYLE>b", "element_skipped", "<style>x</STYLE>"),
    ],
)  # fmt: skip
def test_what_is_not_spoken_is_told(text: str, code: str, what: str) -> None:
    passages = read(text)
    (warning,) = [warning for passage in passages for warning in passage.warnings]
    assert (warning.code, text[warning.start : warning.end]) == (code, what)
    assert warning.message.endswith((".", "read."))
    spoken = "".join(passage.text.text for passage in passages)
    assert "b" in spoken or "open" in text
    assert "x" not in spoken


def test_an_element_that_never_ends_is_not_lost() -> None:
    assert seen("The <style> tag. And more.") == ["The tag.", "And more."]


def test_code_can_be_announced_or_read() -> None:
    text = "a\n```py\nx = *1*\n\nif y:\n```\nb"
    assert seen(text, TextOptions(code="announce")) == ["a", "| code block", "| b"]
    assert seen(text, TextOptions(code="announce"), "fr") == ["a", "| bloc de code", "| b"]
    assert seen(text, TextOptions(code="announce"), "hi") == ["a", "| ", "| b"]
    assert seen(text, TextOptions(code="read")) == ["a", "| x = *1*.", "if y:", "| b"]
    assert seen("<pre>x</pre>", TextOptions(code="read")) == ["| x"]
    (block,) = read("```\nx\n```", TextOptions(code="announce"))
    assert set(block.text.spans) == {(0, 4)}


def test_emoji_are_silent_or_named() -> None:
    assert seen("Hi 😀!\n😀\nYou") == ["Hi !", "| You"]
    assert seen("Hi 😀!", TextOptions(emoji="name")) == ["Hi grinning face !"]


# --- the pieces ---


@pytest.mark.parametrize(
    ("value", "ms"),
    [("1s", 1000), ("1.5 s", 1500), ("500ms", 500), ("2", 2000), (".25", 250), ("99s", 10_000),
     ("+1s", 1000), ("1sec", 1000), ("0", 0)],
)  # fmt: skip
def test_times(value: str, ms: float) -> None:
    found = tags.pause(value)
    assert found
    assert (found.ms, found.cut) == (ms, value == "99s")


@pytest.mark.parametrize("value", ["", "x", "1m", "-1s", "1s2", "1e3", ".", "1 000", "٣s"])
def test_what_is_no_time(value: str) -> None:
    assert tags.pause(value) is None


@given(st.text(max_size=30) | st.text("0123456789.sm +-", max_size=8))
def test_no_pause_is_negative_or_long(value: str) -> None:
    found = tags.pause(value)
    assert found is None or 0 <= found.ms <= tags.MAX_PAUSE_MS


def test_attributes() -> None:
    written = """ A="1" b='&lt;2&gt;' c=3 xml:lang="x y" """
    assert tags.attributes_of(written) == {"a": "1", "b": "<2>", "c": "3", "xml:lang": "x y"}
    assert not tags.has_bare_names(written)
    assert tags.has_bare_names(" a=1 b")


Alphabet = Literal["ipa", "x-kokoro"]


@pytest.mark.parametrize(
    ("written", "alphabet", "expected"),
    [
        ("həˈloʊ", "ipa", ("həˈlO", True)),
        ("dʒɪm t͡ʃɪn", "ipa", ("ʤɪm ʧɪn", True)),
        ("O", "x-kokoro", ("O", True)),
        ("bɔ\u0303", "x-kokoro", ("bɔ\u0303", True)),
        ("ã", "ipa", ("a\u0303", True)),
        ("ç", "ipa", ("ç", True)),
        ("aъ", "ipa", ("a", False)),
        ("", "ipa", ("", True)),
    ],
)
def test_phonemes(written: str, alphabet: Alphabet, expected: tuple[str, bool]) -> None:
    assert tags.phonemes(written, alphabet) == expected
