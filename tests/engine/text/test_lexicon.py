"""The user's pronunciations: what an entry may be, where it applies, and the file it is in."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from engine import config
from engine.__main__ import check_lexicon
from engine.config import Settings
from engine.errors import ConfigError, InvalidRequest
from engine.request import Pronunciation
from engine.text import lexicon_file
from engine.text.languages import LANGUAGES
from engine.text.lexicon import MAX_CHARS, MAX_ENTRIES, Lexicon, checked, requested
from engine.text.lexicon_file import MAX_BYTES, LexiconFile
from engine.text.lexicon_toml import Fault, parsed
from engine.text.passage import Say
from engine.text.spanned import Spanned


def entry(word: str, said: str, **more: str) -> Pronunciation:
    """An entry as people write it in a file: phonemes are between slashes."""
    kind = "phonemes" if said.startswith("/") else "say"
    return Pronunciation(**{"word": word, kind: said, **more})  # type: ignore[arg-type]  # strings only


ENTRIES = [
    entry("kubectl", "cube control"),
    entry("AT&T", "ay tee and tee"),
    entry("C++", "see plus plus"),
    entry(".NET", "dot net"),
    entry("New York", "the apple"),
    entry("york", "yorick"),
    entry("US", "the states"),
    entry("Polish", "polnish"),
    entry("polish", "burnish"),
    entry("don", "dawn"),
    entry("brien", "bryan"),
    entry("ami", "ammy"),
    entry("%", "per cent"),
    entry("=", "is"),
    entry("24/7", "all day"),
    entry("नमस्ते", "namaste"),
    entry("कार", "gaadi"),
    entry("東京", "tookyoo"),
    entry("KFC", "K F C"),
    entry("color", "colour", lang="en-gb"),
    entry("color", "kolor", lang="en"),
    entry("café", "coffee"),
]


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("Kubectl, kubectl. (kubectl) 'kubectl'", "cube control, cube control. (cube control) 'cube control'"),
        ("kubectl's my-kubectl_x", "cube control's my-cube control_x"),
        ("kubectls xkubectl kubectl2", "kubectls xkubectl kubectl2"),
        ("AT&T's at&t AT&TX", "ay tee and tee's at&t AT&TX"),
        ("C++, C++. (C++) C++-like C++'s", "see plus plus, see plus plus. (see plus plus) see plus plus-like see plus plus's"),
        ("C+++ C++11 c++ AC++", "C+++ C++11 c++ AC++"),
        ("Use .NET. ASP.NET ..NET", "Use dot net. ASP.NET ..NET"),
        ("In New\nYork. New\n\nYork", "In the apple. New\n\nyorick"),
        ("New York, New Yorks, new york", "the apple, New Yorks, new yorick"),
        ("Tell US that US's for us.", "Tell the states that the states's for us."),
        ("Polish polish POLISH", "polnish burnish burnish"),
        ("don Don's don't donʼt", "dawn dawn's don't donʼt"),
        ("o'brien brien", "o'brien bryan"),
        ("50% of 5%%", "50 per cent of 5%%"),
        ("a=b a==b", "a is b a==b"),
        ("open 24/7, 24/71", "open all day, 24/71"),
        ("नमस्ते, कार कारें", "namaste, gaadi कारें"),
        ("在東京吃KFC嗎", "在 tookyoo 吃 K F C 嗎"),
        ("color", "kolor"),
        ("Café cafés", "coffee cafés"),
        ("", ""),
    ],
)  # fmt: skip
def test_an_entry_applies_to_words_only(text: str, spoken: str) -> None:
    lexicon = requested(ENTRIES)
    assert lexicon.apply(Spanned.of(text), "en-us")[0].text == spoken


@pytest.mark.parametrize(
    ("language", "text", "spoken"),
    [
        ("fr-fr", "l'ami", "l'ammy"),
        ("en-us", "l'ami", "l'ami"),
        ("en-gb", "color", "colour"),
        ("fr-fr", "color", "color"),
    ],
)
def test_the_language_decides(language: str, text: str, spoken: str) -> None:
    assert requested(ENTRIES).apply(Spanned.of(text), language)[0].text == spoken


def test_a_respelling_stands_for_the_word() -> None:
    text, says = requested(ENTRIES).apply(Spanned.of("so kubectl's", 10), "en-us")
    assert says == ()
    assert {span for c, span in zip(text.text, text.spans, strict=True) if c in "cubeontrl"} >= {
        (13, 20)
    }
    assert [text.spans[n] for n in (0, 2, 3, 14, 15, 16)] == [
        (10, 11), (12, 13), (13, 20), (13, 20), (20, 21), (21, 22),
    ]  # fmt: skip


def test_phonemes_are_told_by_their_place() -> None:
    lexicon = requested([entry("Kokoro", "/kˈOkəɹO/"), entry("New York", "/nu jˈɔɹk/")])
    given_text = Spanned.of("Kokoro's New York", 5)
    text, says = lexicon.apply(given_text, "en-us")
    assert text is not None
    assert text.text == given_text.text
    assert text.spans == given_text.spans
    assert says == (Say(5, 11, "kˈOkəɹO"), Say(14, 22, "nu jˈɔɹk"))


def test_what_is_already_pronounced_stays() -> None:
    lexicon = requested(
        [entry("New York", "/nu jˈɔɹk/"), entry("york", "/jɔk/"), entry("new", "/nu/")]
    )
    text = Spanned.of("New York")
    assert lexicon.apply(text, "en-us", [Say(4, 8, "x")])[1] == (Say(0, 3, "nu"),)
    assert lexicon.apply(text, "en-us", [Say(0, 8, "x")]) == (text, ())
    assert lexicon.apply(text, "en-us", [Say(20, 28, "x")])[1] == (Say(0, 8, "nu jˈɔɹk"),)


def test_a_part_of_a_replacement_has_no_phonemes_of_its_own() -> None:
    lexicon = requested(
        [entry("thumbs", "/θˈʌmz/"), entry("up", "yup"), entry("thumbs up", "/jˈɛs/")]
    )
    named = Spanned("thumbs up", ((3, 4),) * 9)
    assert lexicon.apply(named, "en-us")[1] == (Say(3, 4, "jˈɛs"),)
    longer = Spanned("thumbs up now", ((3, 4),) * 13)
    text, says = lexicon.apply(longer, "en-us")
    assert (text.text, set(text.spans), says) == ("thumbs yup now", {(3, 4)}, ())


def test_the_request_goes_before_the_file() -> None:
    mine, file = (
        requested([entry("york", "/jɔk/")]),
        requested([entry("New York", "x"), entry("new", "old")]),
    )
    text, says = mine.over(file).apply(Spanned.of("New York New York."), "en-us")
    assert (text.text, [say[:2] for say in says]) == ("old York old York.", [(4, 8), (13, 17)])
    assert file.over(mine).apply(Spanned.of("New York"), "en-us")[0].text == "x"


def test_an_empty_lexicon_gives_the_text_itself() -> None:
    text = Spanned.of("New York")
    assert Lexicon().over(Lexicon()).apply(text, "en-us")[0] is text


@pytest.mark.parametrize(
    ("given_entry", "says"),
    [
        (Pronunciation(word=" ", say="x"), "no word"),
        (Pronunciation(word="x" * (MAX_CHARS + 1), say="x"), "more than 100 characters"),
        (Pronunciation(word="x", say="x" * (MAX_CHARS + 1)), "more than 100 characters"),
        (Pronunciation(word="x"), "needs one of"),
        (Pronunciation(word="x", say="x", phonemes="x"), "needs one of"),
        (Pronunciation(word="x", say=" "), "no sound"),
        (Pronunciation(word="x", say="?!"), "no sound"),
        (Pronunciation(word="x", phonemes="//"), "no sound"),
        (Pronunciation(word="x", phonemes="/"), "slash at one end"),
        (Pronunciation(word="x", phonemes="/a"), "slash at one end"),
        (Pronunciation(word="x", phonemes="a/"), "slash at one end"),
        (Pronunciation(word="x", phonemes="ga'g7"), "g (U+0067, perhaps ɡ is meant), ' (U+0027, perhaps ˈ is meant), 7 (U+0037)"),
        (Pronunciation(word="x", phonemes="0123456"), "4 (U+0034), …"),
        (Pronunciation(word="x", phonemes="a\x07"), "? (U+0007)"),
        (Pronunciation(word="x", say="x", lang="klingon"), "one of en-us, en-gb"),
        (Pronunciation(word="x", say="x", lang=""), "one of en-us, en-gb"),
    ],
)  # fmt: skip
def test_a_bad_entry_is_a_sentence(given_entry: Pronunciation, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        requested([entry("good", "fine"), given_entry])
    assert caught.value.message.startswith("Entry 2 of the lexicon ")
    assert says in caught.value.message
    assert caught.value.param == "lexicon"


def test_there_may_not_be_too_many() -> None:
    with pytest.raises(InvalidRequest, match="the limit is 10000"):
        requested([entry("a", "b")] * (MAX_ENTRIES + 1))


@pytest.mark.parametrize(
    ("given_entry", "expected"),
    [
        (entry("  New\tYork ", " the  apple "), entry("New York", "the apple", case="exact")),
        (entry("it’s", "x"), entry("it's", "x", case="ignore")),
        (entry("x", "/ nu  jɔk /"), Pronunciation(word="x", phonemes="nu jɔk", case="ignore")),
        (
            entry("x", "/\u00f5\u00e7/"),
            Pronunciation(word="x", phonemes="o\u0303\u00e7", case="ignore"),
        ),
        (entry("Us", "x", case="ignore"), entry("Us", "x", case="ignore")),
        (entry("x", "y", lang="EN_us"), entry("x", "y", lang="en-us", case="ignore")),
        (entry("x", "y", lang="es-MX"), entry("x", "y", lang="es-mx", case="ignore")),
    ],
)
def test_an_entry_in_its_form(given_entry: Pronunciation, expected: Pronunciation) -> None:
    assert checked(given_entry) == expected
    assert checked(expected) == expected


FILE = """\
# mine
[words]
kubectl = "cube control"          # say it like this
Kokoro = "/kˈOkəɹO/"
"AT&T" = "ay tee and tee"
US = { say = "us", lang = "en" }

[[entry]]
word = "Polish"
phonemes = \"\"\"
pˈOlɪʃ\"\"\"
[[entry]]
word = "New York"
say = "the apple"
case = "ignore"
[words."C++"]
say = "see plus plus"
"""


def test_a_file() -> None:
    entries, faults = parsed(FILE.replace("\n", "\r\n"))
    assert faults == ()
    assert [(line, e.word, e.say or e.phonemes, e.case) for line, e in entries] == [
        (3, "kubectl", "cube control", "ignore"),
        (4, "Kokoro", "kˈOkəɹO", "exact"),
        (5, "AT&T", "ay tee and tee", "exact"),
        (6, "US", "us", "exact"),
        (8, "Polish", "pˈOlɪʃ", "exact"),
        (12, "New York", "the apple", "ignore"),
        (16, "C++", "see plus plus", "exact"),
    ]
    assert entries[3][1].lang == "en"


def test_the_example_of_the_page() -> None:
    page = (Path(__file__).parents[3] / "docs" / "lexicon.md").read_text()
    entries, faults = parsed(page.split("```toml\n")[1].split("```")[0])
    assert (len(entries), faults) == (6, ())


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        ('[words]\nok = "x"\nC++ = "y"', 3, "needs quotes around it"),
        ('[words]\nok = "x', 2, "not TOML: unterminated string"),
        ("[words]\n\nok = ", 3, "not TOML"),
        ('[words]\nsecret = "x"\nsecret = "y"', 3, "is there twice"),
        ('[words]\n[words]\nsecret = "y"', 2, "is there twice"),
        ("a = " + "[" * 4000, 1, "too long or too deep"),
        ("a = " + "9" * 5000, 1, "too long or too deep"),
        ("[words]\nx = [", 2, "not TOML"),
        ('secret = "x"', 1, "not below a line [words] or [[entry]]"),
        ('[entry]\nword = "x"', 1, "not below a line"),
        ('words = "secret"', 1, "not below a line"),
        ('[words]\nnode.js = "x"', 2, "a dot in it, which needs quotes"),
        ("[words]\nx = 5", 2, "not a text in quotes"),
        ('[words]\nx = { say = "y", word = "z" }', 2, "two words"),
        ('\n[[entry]]\nword = "x"\nspeak = "y"', 2, "none of word, phonemes"),
        ("[[entry]]\nword = 'x'\nsay = 1", 1, "a field that is not a text"),
        ("[[entry]]\nsay = 'x'", 1, "has no word"),
        ("[[entry]]\nword = 'x'", 1, "needs one of phonemes and say"),
        ('[[entry]]\nword = "x"\nsay = "y"\ncase = "any"', 1, 'neither "ignore" nor "exact"'),
        ('[words]\nx = "/y"', 2, "slash at one end"),
        ('[words]\nx = "y"\n[[entry]]\nword = "X"\ncase = "ignore"\nsay = "z"', 3, "the one in line 2"),
        ('entry = [{ word = "x", say = "y" },\n { word = "x" }]', 1, "needs one of"),
        # lines are counted through values of a sane size only; then it is the section's
        ('[words]\nlong = """a' + "\n" * 50 + '"""\nx = 5', 1, "not a text in quotes"),
    ],
    ids=lambda value: ascii(value)[:24],
)  # fmt: skip
def test_a_fault_has_its_line_and_no_words(source: str, line: int, says: str) -> None:
    fault = parsed(source).faults[0]
    assert fault.line == line
    assert says in fault.message
    assert fault.message.endswith(".")
    assert "secret" not in fault.message


def test_a_fault_leaves_the_other_entries() -> None:
    entries, faults = parsed('[words]\na = "x"\nb = 5\nc = "y"\nd = 7')
    assert [e.word for _, e in entries] == ["a", "c"]
    assert [fault.line for fault in faults] == [3, 5]


def test_a_file_may_not_have_too_many_entries() -> None:
    source = "[words]\n" + "".join(f'w{n} = "x"\n' for n in range(MAX_ENTRIES + 1))
    entries, faults = parsed(source)
    assert len(entries) == MAX_ENTRIES
    assert (faults[0].line, len(faults)) == (MAX_ENTRIES + 2, 1)


# ------------------------------------------------------------------ properties

ODD = [
    "C++",
    "'s",
    "'",
    "=",
    "%",
    "नमस्ते",
    "東京",
    "İ",
    "ß",
    "Σ",
    "\u0301",
    ".NET",
    "AT&T",
    "a_b",
    " ",
]
PIECES = st.one_of(
    st.sampled_from(ODD), st.text(st.characters(), max_size=3), st.sampled_from("abcABC ")
)
TEXTS = st.lists(PIECES, max_size=14).map("".join)
TAGS = st.sampled_from([language.tag for language in LANGUAGES])
RAW = st.builds(
    Pronunciation,
    word=TEXTS,
    phonemes=st.none() | st.sampled_from(["/a/", "ˈA b", "//", "/x", "7"]),
    say=st.none() | TEXTS,
    case=st.sampled_from([None, "ignore", "exact"]),
    lang=st.sampled_from([None, "en", "en-gb", "zh", "xx"]),
)


@given(st.lists(RAW, max_size=12), TEXTS, TAGS, st.data())
def test_a_text_stays_in_order(
    raw: list[Pronunciation], text: str, language: str, data: st.DataObject
) -> None:
    good = []
    for one in raw:
        try:
            requested([one])
        except InvalidRequest:
            continue
        good.append(one)
    at = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=2, min_size=2)))
    says = [Say(at[0], at[1], "x")] if at[0] < at[1] else []
    spoken, found = requested(good).apply(Spanned.of(text), language, says)
    assert len(spoken.text) == len(spoken.spans)
    for (start, end), (next_start, next_end) in pairwise(spoken.spans):
        assert start <= next_start
        assert end <= next_end
    kept = {span[0] for span in spoken.spans}
    for say in says:
        assert kept >= set(range(say.start, say.end))
    in_order = sorted([*says, *found])
    assert all(one.end <= two.start for one, two in pairwise(in_order))
    assert all(0 <= say.start < say.end <= len(text) for say in found)


WORDS = st.sampled_from(["a", "bc", "D", "e+", "f1"])
PHRASES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@given(st.lists(PHRASES, max_size=8, unique=True), st.lists(WORDS, max_size=20))
def test_the_longest_phrase_wins_from_the_left(phrases: list[str], words: list[str]) -> None:
    lexicon = requested([entry(phrase, f"<{phrase}>", case="exact") for phrase in phrases])
    expected, at = [], 0
    while at < len(words):
        sizes = [n for n in (3, 2, 1) if " ".join(words[at : at + n]) in phrases]
        size = next((n for n in sizes if at + n <= len(words)), 0)
        here = " ".join(words[at : at + max(size, 1)])
        expected.append(f"<{here}>" if size else here)
        at += max(size, 1)
    assert lexicon.apply(Spanned.of(" ".join(words)), "en-us")[0].text == " ".join(expected)


@given(st.lists(RAW, max_size=6))
def test_what_was_written_is_read(raw: list[Pronunciation]) -> None:
    """Every good entry comes back from a file, or is told to be there twice; in order."""
    source = ""
    good = []
    for one in raw:
        try:
            good.append(requested([one]) and checked(one))
        except InvalidRequest:
            continue
        fields = {"word": one.word, "say": one.say, "phonemes": one.phonemes}
        fields |= {"case": one.case, "lang": one.lang}
        source += "[[entry]]\n"
        source += "".join(f"{k} = {_quoted(v)}\n" for k, v in fields.items() if v is not None)
    entries, faults = parsed(source)
    assert all("same word" in fault.message for fault in faults)
    assert len(entries) + len(faults) == len(good)
    assert [e for _, e in entries] == [
        e for n, e in enumerate(good) if n not in _twice(faults, source)
    ]


def _quoted(text: str) -> str:
    # TOML's strings are JSON's, but for surrogates and DEL.
    return json.dumps(text.encode("utf-8", "ignore").decode(), ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )


def _twice(faults: tuple[Fault, ...], source: str) -> set[int]:
    starts = [n for n, line in enumerate(source.split("\n"), 1) if line == "[[entry]]"]
    return {starts.index(fault.line) for fault in faults}


BITS = [
    "[words]",
    "[[entry]]",
    "\n",
    "=",
    '"',
    '"""',
    "x",
    ' = "y"',
    "word = 'z'",
    "[",
    "{",
    ".",
    "#",
    "\r",
]


@given(st.lists(st.one_of(st.sampled_from(BITS), st.text(max_size=3)), max_size=20).map("".join))
def test_any_file_is_read_or_told(source: str) -> None:
    entries, faults = parsed(source)
    lines = source.count("\n") + 1
    assert all(1 <= line <= lines for line, _ in (*entries, *faults))


# ------------------------------------------------------------------ the file


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def spoken(file: LexiconFile, text: str = "kubectl") -> str:
    return file.current().apply(Spanned.of(text), "en-us")[0].text


def write(path: Path, text: str, version: int) -> None:
    """As an editor does, with a time that is surely another one."""
    path.write_text(text)
    os.utime(path, (version, version))


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path, clock = tmp_path / "lexicon.toml", Clock()
    file = LexiconFile(path, clock)
    assert spoken(file) == "kubectl"
    write(path, '[words]\nkubectl = "one"', 1)
    assert spoken(file) == "kubectl"  # it was looked at in this second
    clock.now_s += 1
    assert spoken(file) == "one"
    write(path, '[words]\nkubectl = "two"', 2)
    clock.now_s += 0.9
    assert spoken(file) == "one"
    clock.now_s += 0.1
    assert spoken(file) == "two"
    path.unlink()
    clock.now_s += 1
    assert spoken(file) == "kubectl"


def test_a_file_that_stays_is_not_read_again(tmp_path: Path) -> None:
    path, clock = tmp_path / "lexicon.toml", Clock()
    write(path, '[words]\nkubectl = "one"', 1)
    file = LexiconFile(path, clock)
    first = file.current()
    clock.now_s += 5
    assert file.current() is first


def test_a_broken_file_changes_nothing_and_is_told_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "lexicon.toml", Clock()
    write(path, '[words]\nkubectl = "one"', 1)
    file = LexiconFile(path, clock)
    assert spoken(file) == "one"
    write(path, '[words]\nsecret = "x"\nsecret = 5\n', 2)
    with capture_logs() as logs:
        for _ in range(3):
            clock.now_s += 1
            assert spoken(file) == "one"
    assert [(log["log_level"], log["line"], log["faults"]) for log in logs] == [("warning", 3, 1)]
    assert "twice" in logs[0]["reason"]
    assert "secret" not in str(logs).replace(str(tmp_path), "")
    write(path, '[words]\nkubectl = "three"', 3)
    clock.now_s += 1
    assert spoken(file) == "three"


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b'[words]\nx = "\xff"', 2, "not UTF-8"),
        (b"#" * (MAX_BYTES + 1), 1, "more than 2000000 bytes"),
    ],
    ids=["latin", "large"],
)
def test_what_is_no_text(tmp_path: Path, data: bytes, line: int, says: str) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_bytes(data)
    assert [(fault.line, says in fault.message) for fault in lexicon_file.read(path).faults] == [
        (line, True)
    ]


def test_a_byte_order_mark_is_fine(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.toml"
    path.write_bytes(b'\xef\xbb\xbf[words]\nx = "y"\r\n')
    assert lexicon_file.read(path).entries[0][0] == 2


def test_a_folder_in_its_place_is_told(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert spoken(LexiconFile(tmp_path, Clock())) == "kubectl"
    assert [(log["log_level"], log["reason"]) for log in logs] == [("warning", "Is a directory")]


def test_it_is_beside_the_settings(tmp_path: Path) -> None:
    loaded = config.load(environ={}, file=tmp_path / "config.toml")
    assert loaded.settings.lexicon == tmp_path / "lexicon.toml"
    assert loaded.origins["lexicon"] == "default"
    named = config.load(environ={"KOKORO_LIVE_LEXICON": "/a/b.toml"}, file=tmp_path / "config.toml")
    assert named.settings.lexicon == Path("/a/b.toml")


# ------------------------------------------------------------------ --lexicon-check


async def test_the_check_says_what_is_spoken(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.lexicon.write_text(FILE)
    await check_lexicon(settings)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "4", "5", "6", "8", "12", "16"]
    assert "kˈOkəɹO" in lines[1]
    assert lines[0].endswith("(cube control)")
    assert "kjˈub kəntɹˈOl" in lines[0]


async def test_the_check_tells_faults(
    settings: Settings, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('[words]\na = 5\nb = "/7/"\n')
    with pytest.raises(ConfigError, match="until this is mended"):
        await check_lexicon(settings, file)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == f"{file}, line 2: The entry is not a text in quotes."
    assert told[1].startswith(f"{file}, line 3: The entry has phonemes")


async def test_the_check_needs_a_file(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no lexicon .*lexicon\.toml; docs/lexicon\.md"):
        await check_lexicon(settings)
    with pytest.raises(ConfigError, match="Is a directory"):
        await check_lexicon(settings, tmp_path)
