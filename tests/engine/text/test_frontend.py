"""The whole text front end, with the real G2P: what is written is what is spoken."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.request import Pronunciation, TextOptions
from engine.text import lexicon as lexicons
from engine.text.alphabet import SYMBOLS
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.languages import LANGUAGES, Language
from engine.text.lexicon import Lexicon
from engine.text.reader import Reader
from engine.text.segment import Segment, Segmenter

READINGS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "readings.jsonl").read_text().splitlines()
]
BY_TAG = {language.tag: language for language in LANGUAGES}
US = BY_TAG["en-us"]
PLAIN = TextOptions()
NOBODYS = Lexicon()


@pytest.fixture(scope="module")
def frontend() -> TextFrontend:
    g2p = G2P()
    g2p.load()
    return TextFrontend(g2p)


def read(
    frontend: TextFrontend,
    text: str,
    language: Language = US,
    options: TextOptions = PLAIN,
    lexicon: Lexicon = NOBODYS,
) -> list[Segment]:
    return frontend.segments(text, language, options, lexicon)


def said(segments: list[Segment]) -> str:
    return " ".join(segment.spoken for segment in segments if segment.spoken)


def words(text: str) -> list[str]:
    plain = re.sub(r"[^\w\s']", " ", text.lower().replace("-", " "))
    return [word for word in plain.split() if word != "and"]


def test_what_is_remembered_has_a_bound_in_words(frontend: TextFrontend) -> None:
    bounded = TextFrontend(frontend._g2p, remembered=30)
    for number in range(12):
        read(bounded, f"Here are {'very ' * number}few words.")
        own, *others = bounded.caches
        assert (own.name, own.bound, own.unit) == ("phonemes", 30, "words")
        assert 6 <= own.used <= 30
    read(bounded, "word " * 40)  # more than all of it: nothing has to make room for that
    assert bounded.caches[0].used == own.used
    assert {cache.name: cache.used <= cache.bound for cache in others} == {
        "numbers": True,
        "rules": True,
    }
    bounded.forget()
    assert bounded.caches[0].used == 0


def test_what_cannot_be_read_counts_too(frontend: TextFrontend) -> None:
    """A sentence without phonemes is remembered like all others."""
    bounded = TextFrontend(G2P("spelling"), remembered=3)
    for number in range(10):
        read(bounded, "न" * (number + 1), BY_TAG["hi"])
        assert bounded.caches[0].used <= 3
        assert len(bounded._pieces) <= 3


@pytest.mark.parametrize("row", READINGS, ids=lambda row: row["id"])
def test_readings(frontend: TextFrontend, row: dict[str, str]) -> None:
    segments = read(frontend, row["text"])
    assert words(said(segments)) in [words(spoken) for spoken in row["spoken"]]
    check(row["text"], segments)


def check(text: str, segments: list[Segment]) -> None:
    """Every sound has its characters, in order, and the model knows it."""
    position = 0
    for segment in segments:
        assert position <= segment.start <= segment.end <= len(text)
        assert segment.text == text[segment.start : segment.end]
        assert set(segment.phonemes) <= SYMBOLS
        char, phoneme = segment.start, 0
        for word in segment.words:
            assert char <= word.char_start <= word.char_end <= segment.end
            assert phoneme <= word.phoneme_start < word.phoneme_end <= len(segment.phonemes)
            char, phoneme = word.char_end, word.phoneme_end
        position = segment.end
        for warning in segment.warnings:
            assert 0 <= warning.start <= warning.end <= len(text)


def places(text: str, segments: list[Segment]) -> list[str]:
    return [text[w.char_start : w.char_end] for segment in segments for w in segment.words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The price is $100 after 9:30PM.", "The|price|is|$100|after|9:30PM"),
        ("“No,” he said — “wasn’t it?”", "No|he|said|wasn’t|it"),
        ("A cafe\u0301 x\u00adray\ttoo.\n", "A|cafe\u0301|x\u00adray|too"),
        ("**Bold** is [a link](http://x.y/z) too", "Bold|is|a|link|too"),
        ("Meet [Kokoro](/kˈOkəɹO/) today.", "Meet|Kokoro|today"),
    ],
)
def test_a_word_is_where_it_is_written(frontend: TextFrontend, text: str, expected: str) -> None:
    assert "|".join(places(text, read(frontend, text))) == expected


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        ("Meet [Kokoro](/kˈOkəɹO/) today.", "mˈit kˈOkəɹO tədˈA."),
        ("Meet [Kokoro](/kˈOkəɹO/)'s sister.", "mˈit kˈOkəɹOz sˈɪstəɹ."),
        ("It is [2024](/nˈW/), so.", "ˌɪt ɪz nˈW, sˌO."),
        ("A [§§](/lˈʌv/) b", "ɐ lˈʌv bˈi"),
        ("In [New York](/nuˈɑɹk/).", "ɪn nuˈɑɹk."),
    ],
)
def test_pronunciations_in_the_text(frontend: TextFrontend, text: str, phonemes: str) -> None:
    assert " ".join(s.phonemes for s in read(frontend, text)) == phonemes


def test_the_lexicon(frontend: TextFrontend) -> None:
    lexicon = lexicons.requested(
        [
            Pronunciation(word="kubectl", say="cube control"),
            Pronunciation(word="Pio", phonemes="/pˈiO/"),
            Pronunciation(word="C++", say="see plus plus"),
        ]
    )
    text = "Pio's kubectl and C++."
    segments = read(frontend, text, lexicon=lexicon)
    assert said(segments) == "Pio's cube control and see plus plus"
    assert segments[0].phonemes.startswith("pˈiOz kjˈub")
    assert places(text, segments) == ["Pio's", "kubectl", "and", "C++"]


@pytest.mark.parametrize(
    ("tag", "text", "spoken"),
    [
        ("en-us", "I love 日本 a lot.", "I love nippon a lot"),
        ("fr-fr", "日本です", "nippon です"),
        ("zh", "去KFC吃", "去 肯德基 吃"),
    ],
)
def test_a_respelling_is_read_by_its_own_script(
    frontend: TextFrontend, tag: str, text: str, spoken: str
) -> None:
    lexicon = lexicons.requested(
        [Pronunciation(word="日本", say="nippon"), Pronunciation(word="KFC", say="肯德基")]
    )
    segments = read(frontend, text, BY_TAG[tag], lexicon=lexicon)
    check(text, segments)
    assert said(segments) == spoken


def test_without_normalising_text_is_read_as_it_is(frontend: TextFrontend) -> None:
    plainly = TextOptions(normalize=False)
    assert said(read(frontend, "It is 5km", options=plainly)) == "It is 5km"
    assert said(read(frontend, "It is 5km")) == "It is five kilometers"


@pytest.mark.parametrize(
    ("tag", "text", "spoken"),
    [
        ("ja", "今日は10月1日です。", "今日 は じゅうがつ ついたち です"),
        ("ja", "3,500円です", "さんぜん ごひゃくえん です"),
        ("zh", "我在KFC里。", "我 在 K F C 里"),
        ("zh", "有90%的人", "有 百分之九十 的 人"),
        ("en-us", "She said 我在里 today.", "She said 我 在 里 today"),
        (
            "es",
            "Son 25 gatos y 7,50 €.",
            "Son veinticinco gatos y siete euros con cincuenta céntimos",
        ),
        ("fr-fr", "Il est 9h30.", "Il est neuf heures trente"),
        ("it", "Costa 3,50 €.", "Costa tre euro e cinquanta centesimi"),
        ("pt-br", "São 9:30 da manhã.", "São nove horas e trinta da manhã"),
    ],
)
def test_languages(frontend: TextFrontend, tag: str, text: str, spoken: str) -> None:
    segments = read(frontend, text, BY_TAG[tag])
    assert said(segments).lower() == spoken.lower()
    check(text, segments)
    assert not [w for segment in segments for w in segment.warnings]


def test_marks_behind_what_is_not_spoken_are_heard(frontend: TextFrontend) -> None:
    (segment,) = read(frontend, "Hello 안녕.")
    assert segment.phonemes == "həlˈO."


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        ("Hello 안녕 there.", "not_spoken", "안녕"),
        ("[pause:abc] Hello", "unknown_tag", "[pause:abc]"),
    ],
)
def test_what_is_not_spoken_is_told(
    frontend: TextFrontend, text: str, code: str, place: str
) -> None:
    (warning,) = [w for segment in read(frontend, text) for w in segment.warnings]
    assert warning.code == code
    assert text[warning.start : warning.end].strip() == place


def test_a_normaliser_that_fails_costs_no_speech(
    frontend: TextFrontend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr("engine.text.frontend.normalised", broken)
    assert said(read(frontend, "It is so.")) == "It is so"


def test_letters_among_roman_numbers_are_no_numbers(frontend: TextFrontend) -> None:
    assert said(read(frontend, "Part Ⅳ, Ↄ.")).startswith("Part four")


def test_what_is_remembered_is_the_same(frontend: TextFrontend) -> None:
    text = "It is said again."
    first = read(frontend, text)
    assert read(frontend, text) == first
    frontend.forget()
    assert read(frontend, text) == first


KINDS = """
    the wasn’t “No,” he—said $100 £5.50, 10-20 U.S. etc. (really?) -- cafe\u0301 x\u00ady … ! 1/2
    zorgblatter 9:30PM 5% state-of-the-art *bold* C# ’tis &amp; a@b.com \ud83d 日本。 -$5 한국 Привет
    [pause:1s] [a](/bˈi/) <b>x</b> `x_y` ``` # - | 3. https://a.b/c 😀 XIV мир
"""
PARTS = st.sampled_from([*KINDS.split(), "\n\n", "\n"]) | st.text(st.characters(), max_size=6)
TEXT = st.lists(PARTS, max_size=12).map(" ".join)


@settings(max_examples=150)
@given(TEXT, st.sampled_from(["en-us", "en-gb", "es", "fr-fr", "hi"]))
def test_any_text_is_read_with_its_places(frontend: TextFrontend, text: str, tag: str) -> None:
    check(text, read(frontend, text, BY_TAG[tag]))


@settings(max_examples=60)
@given(TEXT, st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_any_pieces_of_the_text_are_read_alike(
    frontend: TextFrontend, text: str, lengths: list[int]
) -> None:
    reader, segmenter = Reader(US.sentences, PLAIN), Segmenter()
    made: list[Segment] = []
    at, number = 0, 0
    passages = []
    while at < len(text):
        length = lengths[number % len(lengths)]
        passages += reader.push(text[at : at + length])
        at, number = at + length, number + 1
    for passage in (*passages, *reader.end()):
        reading = frontend.read(passage, US, PLAIN, NOBODYS)
        made += segmenter.push(passage, reading.words, reading.warnings, text)
    assert made + segmenter.end() == read(frontend, text)
