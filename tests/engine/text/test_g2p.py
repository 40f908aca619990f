"""Grapheme-to-phoneme with the real misaki, spaCy and espeak-ng."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import metrics
from engine.text.clean import cleaned, has_letters_or_digits
from engine.text.g2p import G2P
from engine.text.languages import LANGUAGES, Frontend, Language

BY_TAG = {language.tag: language for language in LANGUAGES}
US, GB = BY_TAG["en-us"], BY_TAG["en-gb"]


@pytest.fixture(scope="module")
def g2p() -> G2P:
    loaded = G2P()
    loaded.load()
    return loaded


def falls(stage: str) -> float:
    return float(metrics.G2P_FALLS.labels(stage)._value.get())  # there is no public reader


def test_english(g2p: G2P) -> None:
    assert g2p.phonemes("Hello, world!", US) == "həlˈO, wˈɜɹld!"


def test_british_differs(g2p: G2P) -> None:
    assert g2p.phonemes("The dance class can't last.", GB) != g2p.phonemes(
        "The dance class can't last.", US
    )


@pytest.mark.parametrize("apostrophe", "’ʼ`´′")
def test_any_apostrophe_reads_like_the_plain_one(g2p: G2P, apostrophe: str) -> None:
    assert g2p.phonemes(f"No, it wasn{apostrophe}t.", US) == g2p.phonemes("No, it wasn't.", US)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("I read books every day.", "ɹˈid"),
        ("It has 3,497 items.", "θˈWzᵊnd"),
        ("In 1999 it rained.", "nˌIntˈin"),
    ],
)
def test_known_traps(g2p: G2P, text: str, holds: str) -> None:
    assert holds in g2p.phonemes(text, US)


@pytest.mark.parametrize("language", [x for x in LANGUAGES if x.frontend is Frontend.ESPEAK])
def test_other_languages_speak(g2p: G2P, language: Language) -> None:
    text = "नमस्ते दुनिया" if language.tag == "hi" else "Buenos amigos, la casa"
    assert len(g2p.phonemes(text, language)) > 8


def test_unknown_words_fall_to_espeak_inside_misaki(g2p: G2P) -> None:
    assert len(g2p.phonemes("zorgblatter", US)) > 6


@pytest.mark.parametrize("text", ["", "  ", "?!", "—", "…", "\0", "\ud800"])
def test_nothing_to_speak_is_empty(g2p: G2P, text: str) -> None:
    assert g2p.phonemes(text, US) == ""


@pytest.mark.parametrize(
    "text",
    [
        "-".join(["word"] * 200),
        "'" * 500 + "a",
        "a1" * 200,
        "1" * 2000,
        "h" + "\u0301" * 500 + "i",
        "=" * 500 + "x",
        "😀" * 400 + " hi",
        "x" * 2000,
        "don't " * 30,
        "a\u200bb \ud83d c\0d",
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_what_breaks_bare_misaki_is_spoken(g2p: G2P, text: str) -> None:
    before = falls("misaki")
    assert g2p.phonemes(text, US)
    assert falls("misaki") == before


def test_a_stage_that_fails_is_replaced_by_the_next(
    g2p: G2P, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("out of order")

    before = falls("misaki"), falls("espeak-ng")
    monkeypatch.setattr(g2p, "_misaki", broken)
    assert "wˈɜɹld" in g2p.phonemes("Hello, world!", US)
    monkeypatch.setattr(g2p, "_espeak_ng", broken)
    assert g2p.phonemes("Ok 7", US) == "ˈO, kˈA, sˈɛvən"
    assert (falls("misaki"), falls("espeak-ng")) == (before[0] + 2, before[1] + 1)


def test_without_load_speech_still_comes() -> None:
    assert "wˈɜɹld" in G2P().phonemes("Hello, world!", US)


TRAPS = """
    the wasn’t “No,” he—said $100 £5.50, 10-20 U.S. etc. (really?) -- cafe\u0301 x\u00ady … !
    zorgblatter 9:30PM 5% state-of-the-art *bold* C# ’tis &amp; a@b.com \ud83d 日本。 -$5
"""
TEXT = st.lists(
    st.one_of(st.sampled_from(TRAPS.split()), st.text(st.characters(), max_size=6)), max_size=9
).map(" ".join)


@given(TEXT, st.sampled_from([US, GB]))
def test_words_are_what_misaki_says_of_the_whole(g2p: G2P, text: str, language: Language) -> None:
    words = g2p.words(text, language)
    if words:
        spoken, _ = g2p._english[language is GB](cleaned(text).text, preprocess=False)
        if has_letters_or_digits(spoken):  # else espeak-ng has spoken
            assert "".join(word.phonemes for word in words) == " ".join(spoken.split())
    position = 0
    for word in words:
        assert position <= word.start <= word.end <= len(text)
        assert has_letters_or_digits(word.phonemes)
        position = word.end


def shown(g2p: G2P, text: str, language: Language) -> list[str]:
    return [text[word.start : word.end] for word in g2p.words(text, language)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello,  world!", "Hello world"),
        ("She paid $100 (not £5.50).", "She paid $100 not £5.50"),
        ("“No,” he said — “wasn’t it?”", "No he said wasn’t it"),
        ("The U.S. army’s state-of-the-art… thing", "The U.S. army’s state-of-the-art thing"),
        ("A cafe\u0301 x\u00adray\ttoo.\n", "A cafe\u0301 x\u00adray too"),
        ("9:30PM is 50% of \ud83d it", "9:30PM is 50% of it"),
    ],
)
def test_a_word_is_the_word_and_not_its_marks(g2p: G2P, text: str, expected: str) -> None:
    assert shown(g2p, text, US) == expected.split()


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("es", "¿Qué tal? Compré 25 manzanas por 7,50.", "Qué tal Compré 25 manzanas por 7,50"),
        ("fr-fr", "Il est l'ami de la famille !", "Il est l'ami de la famille"),
        ("hi", "नमस्ते, आप कैसे हैं?", "नमस्ते आप कैसे हैं"),
    ],
)
def test_espeak_ng_gives_words_too(g2p: G2P, tag: str, text: str, expected: str) -> None:
    assert shown(g2p, text, BY_TAG[tag]) == expected.split()


def test_what_espeak_ng_runs_together_is_one_word_up_to_a_mark(g2p: G2P) -> None:
    text = "Qu'est-ce que c'est, ça va"
    assert shown(g2p, text, BY_TAG["fr-fr"]) == ["Qu'est-ce que c'est", "ça", "va"]
