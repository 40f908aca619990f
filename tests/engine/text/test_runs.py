"""Sentences divided by language."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import UnsupportedLanguage
from engine.text.languages import BY_TAG, LANGUAGES, Frontend, Language
from engine.text.passage import Tongue
from engine.text.runs import refuse_unreadable, runs
from engine.text.spanned import Spanned


def divided(text: str, tag: str, *tongues: Tongue) -> str:
    found = runs(Spanned.of(text), BY_TAG[tag], tongues)
    return "|".join(
        f"{language.tag if language else '-'}:{text[start:stop]}" for start, stop, language in found
    )


@pytest.fixture
def without(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for tag in request.param.split():
        monkeypatch.setitem(BY_TAG, tag, replace(BY_TAG[tag], frontend=Frontend.NONE))


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("en-us", "", ""),
        ("en-us", "Plain text, 3 words.", "en-us:Plain text, 3 words."),
        ("fr-fr", "Où ? À 3 €.", "fr-fr:Où ? À 3 €."),
        # Chinese characters and kana
        ("en-us", "今日は10月1日です", "ja:今日は10月1日です"),
        ("en-us", "中文 and 日本", "zh:中文 |en-us:and |zh:日本"),
        ("en-us", "日本 and です", "zh:日本 |en-us:and |ja:です"),
        ("en-us", "你好 and こんにちは", "zh:你好 |en-us:and |ja:こんにちは"),
        ("fr-fr", "「東京」、Xで 我", "ja:「東京」、|fr-fr:X|ja:で |zh:我"),
        ("ja", "你好 and こんにちは", "ja:你好 |en-us:and |ja:こんにちは"),
        ("ja", "日本", "ja:日本"),
        ("zh", "私は学生です。我喜欢", "ja:私は学生です。|zh:我喜欢"),
        ("zh", "12月はです", "ja:12月はです"),
        ("en-us", "コーヒー", "ja:コーヒー"),
        # Latin among them
        ("zh", "我在KFC里", "zh:我在|en-us:KFC|zh:里"),
        ("en-gb", "我在KFC里", "zh:我在|en-gb:KFC|zh:里"),
        ("ja", "Pythonは好き", "en-us:Python|ja:は好き"),
        ("zh", "KFC。里", "en-us:KFC。|zh:里"),
        # numbers
        ("en-us", "On 2024年3月5日 at 5", "en-us:On |zh:2024年3月5日 |en-us:at 5"),
        ("en-us", "第3, 4", "zh:第3, |en-us:4"),
        ("zh", "GPT-4很好", "en-us:GPT-|zh:4很好"),
        ("zh", "iPhone15很好", "en-us:iPhone|zh:15很好"),
        ("zh", "他说 I have 3 dogs 了", "zh:他说 |en-us:I have 3 dogs |zh:了"),
        ("zh", "跑了5km。5 kmx", "zh:跑了5km。5 |en-us:kmx"),
        ("zh", "花了$3.50和90%", "zh:花了$3.50和90%"),
        ("zh", "-5", "zh:-5"),
        # marks
        ("en-us", "The (中文) and “日本” x", "en-us:The |zh:(中文) |en-us:and |zh:“日本” |en-us:x"),
        ("zh", "他说“hello”。", "zh:他说|en-us:“hello”。"),
        # other scripts
        ("en-us", "हिन्दी text", "hi:हिन्दी |en-us:text"),
        ("hi", "हिन्दी text १२", "hi:हिन्दी text १२"),
        ("en-us", "Hello 안녕 2024 there.", "en-us:Hello |-:안녕|en-us: 2024 there."),
        ("en-us", "안녕하세요, 세계 3", "-:안녕하세요, 세계|en-us: 3"),
        ("en-us", "안abc", "-:안|en-us:abc"),
        ("en-us", "Привет, שלום مرحبا สวัสดี", "-:Привет, שלום مرحبا สวัสดี"),
        ("en-us", "3월", "en-us:3|-:월"),
        ("en-us", "π≈3.14, 5 µm, Ω", "en-us:π≈3.14, 5 µm, Ω"),
        ("en-us", "ΔT αβγ x", "en-us:ΔT |-:αβγ|en-us: x"),
        ("en-us", "cafe\u0301 ½ 😀 ʼ", "en-us:cafe\u0301 ½ 😀 ʼ"),
        ("ja", "é", "en-us:é"),
    ],
)
def test_scripts(tag: str, text: str, expected: str) -> None:
    assert divided(text, tag) == expected


@pytest.mark.parametrize("without", ["ja", "ja zh"], indirect=True)
@pytest.mark.usefixtures("without")
def test_what_is_not_installed_is_never_read_as_something_else() -> None:
    assert divided("Hi 今日は 3", "en-us") == "en-us:Hi |-:今日は|en-us: 3"
    assert divided("Hi 今日 x", "en-us", Tongue(3, 5, "ja")) == "en-us:Hi |-:今日|en-us: x"


@pytest.mark.parametrize(
    ("text", "tongues", "expected"),
    [
        ("Say chat and chat", [(4, 8, "fr")], "en-us:Say |fr-fr:chat|en-us: and chat"),
        ("abcd", [(0, 1, "fr"), (1, 2, "es-MX"), (3, 4, "fr")], "fr-fr:a|es:b|en-us:c|fr-fr:d"),
        ("Say 学生 now", [(4, 6, "ja")], "en-us:Say |ja:学生|en-us: now"),
        ("Say KFC 里", [(4, 9, "zh")], "en-us:Say KFC |zh:里"),
        ("Say chat 里", [(4, 8, "tlh")], "en-us:Say chat |zh:里"),
        ("Say chat", [(4, 8, "en")], "en-us:Say chat"),
        ("chat", [(0, 4, "fr")], "fr-fr:chat"),
        ("chat", [(9, 12, "fr")], "en-us:chat"),
    ],
)
def test_tongues(text: str, tongues: list[tuple[int, int, str]], expected: str) -> None:
    assert divided(text, "en-us", *(Tongue(*tongue) for tongue in tongues)) == expected


def test_tongues_are_places_in_the_original() -> None:
    text = Spanned("ab", ((10, 11), (14, 15)))
    found = runs(text, BY_TAG["en-us"], [Tongue(14, 15, "it")])
    assert [(run.start, run.stop, run.language) for run in found] == [
        (0, 1, BY_TAG["en-us"]),
        (1, 2, BY_TAG["it"]),
    ]


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("Hi", "en-us"),
        ("안녕 hi", "en-us"),
        ("안녕 3", "en-us"),
        ("...", "en-us"),
        ("今日は", "en-us"),
        ("我", "ja"),
        ("हिन्दी", "zh"),
    ],
)
def test_a_text_of_which_something_can_be_read_is_taken(text: str, tag: str) -> None:
    refuse_unreadable(text, BY_TAG[tag])


def test_a_text_in_a_script_of_nobody_is_refused() -> None:
    with pytest.raises(UnsupportedLanguage, match=r"script that no voice can read; .*Hindi") as e:
        refuse_unreadable("(Привет, мир!)", BY_TAG["en-us"])
    assert e.value.param == "text"


@pytest.mark.parametrize("without", ["ja"], indirect=True)
@pytest.mark.usefixtures("without")
def test_a_text_of_a_language_that_is_not_installed_is_refused() -> None:
    with pytest.raises(UnsupportedLanguage, match=r"in Japanese, which .*EXTRAS=ja`"):
        refuse_unreadable("今日は안녕", BY_TAG["en-us"])
    refuse_unreadable("我在", BY_TAG["en-us"])


LETTERS = "abéßπΩΣ한국日本は中カーहिंмшلاתก\u0301\u20dd12١९-−$%.,。、「」（ 　'“”½😀kmµʼ々〆㎏\u200b"
TEXTS = st.text(st.sampled_from(LETTERS) | st.characters(), max_size=40)
TONGUES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.sampled_from(["fr", "ja", "zh", "x"])),
    max_size=4,
)


@settings(max_examples=400)
@given(TEXTS, st.sampled_from(LANGUAGES), TONGUES)
def test_runs_cover_any_text(
    text: str, language: Language, gaps: list[tuple[int, int, str]]
) -> None:
    at = 0
    tongues = []
    for gap, length, tag in gaps:
        tongues.append(Tongue(at + gap, at + gap + length, tag))
        at += gap + length
    found = runs(Spanned.of(text), language, tongues)
    assert "".join(text[run.start : run.stop] for run in found) == text
    assert all(run.start < run.stop for run in found)
    assert all(a.stop == b.start and a.language != b.language for a, b in pairwise(found))
    for run in found:
        if run.language is None:
            assert not any(c.isascii() and c.isalnum() for c in text[run.start : run.stop])
