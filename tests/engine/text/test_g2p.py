"""Grapheme-to-phoneme with the real misaki, spaCy and espeak-ng."""

from __future__ import annotations

from typing import Never

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from engine import metrics
from engine.text import g2p as g2p_module
from engine.text.alphabet import SYMBOLS
from engine.text.divide import divided
from engine.text.g2p import G2P, Stage
from engine.text.languages import LANGUAGES, Frontend, Language
from engine.text.spanned import Spanned

BY_TAG = {language.tag: language for language in LANGUAGES}
US, GB = BY_TAG["en-us"], BY_TAG["en-gb"]


@pytest.fixture(scope="module")
def g2p() -> G2P:
    loaded = G2P()
    loaded.load()
    return loaded


def phonemes(g2p: G2P, text: str, language: Language) -> str:
    pieces = g2p.pieces(divided(Spanned.of(text)).text, language)
    return "".join(piece.phonemes + piece.space for piece in pieces).strip()


def falls(stage: str) -> float:
    return float(metrics.G2P_FALLS.labels(stage)._value.get())  # there is no public reader


def test_english(g2p: G2P) -> None:
    assert phonemes(g2p, "Hello, world!", US) == "həlˈO, wˈɜɹld!"


def test_british_differs(g2p: G2P) -> None:
    assert phonemes(g2p, "The dance class can't last.", GB) != phonemes(
        g2p, "The dance class can't last.", US
    )


def test_the_present_of_read(g2p: G2P) -> None:
    assert "ɹˈid" in phonemes(g2p, "I read books every day.", US)


@pytest.mark.parametrize("language", [x for x in LANGUAGES if x.frontend is Frontend.ESPEAK])
def test_other_languages_speak(g2p: G2P, language: Language) -> None:
    text = "नमस्ते दुनिया" if language.tag == "hi" else "Buenos amigos, la casa"
    assert len(phonemes(g2p, text, language)) > 8


def test_unknown_words_fall_to_espeak_inside_misaki(g2p: G2P) -> None:
    assert len(phonemes(g2p, "zorgblatter", US)) > 6


@pytest.mark.parametrize("text", ["?!", "—", "…"])
def test_marks_alone_are_nothing(g2p: G2P, text: str) -> None:
    assert g2p.pieces(text, US) == []


@pytest.mark.parametrize(
    "text",
    [
        "-".join(["word"] * 200),
        "'" * 500 + "a",
        "1" * 2000,
        "=" * 500 + "x",
        "x" * 2000,
        "don't " * 30,
    ],
    ids=lambda text: ascii(text[:12]),
)
def test_what_breaks_bare_misaki_is_spoken(g2p: G2P, text: str) -> None:
    before = falls("misaki")
    assert phonemes(g2p, text, US)
    assert falls("misaki") == before


def test_a_stage_that_fails_is_replaced_by_the_next(
    g2p: G2P, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> str:
        raise RuntimeError("out of order")

    before = falls("misaki"), falls("espeak-ng")
    monkeypatch.setattr(g2p, "_misaki", broken)
    assert "wˈɜɹld" in phonemes(g2p, "Hello, world!", US)
    monkeypatch.setattr(g2p, "_espeak_ng", broken)
    assert phonemes(g2p, "Ok, 7", US) == "ˈO, kˈA, sˈɛvən"
    assert (falls("misaki"), falls("espeak-ng")) == (before[0] + 2, before[1] + 1)


def test_without_load_speech_still_comes() -> None:
    assert "wˈɜɹld" in phonemes(G2P(), "Hello, world!", US)


@pytest.mark.parametrize(
    ("first", "stage"), [("misaki", "misaki"), ("espeak", "espeak-ng"), ("spelling", "spelling")]
)
def test_the_first_stage_can_be_chosen(
    first: Stage, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = G2P(first)
    names = [name for name, _ in chosen._stages(US)]
    assert names == ["misaki", "espeak-ng", "spelling"][3 - len(names) :]
    assert names[0] == stage
    if first != "misaki":
        chosen.load()  # nothing
        assert phonemes(chosen, "Hello, world!", US)


@pytest.mark.parametrize(
    ("first", "gone", "fault"),
    [
        ("misaki", "", ""),
        ("misaki", "misaki", "misaki cannot be loaded, so espeak-ng reads English"),
        ("misaki", "misaki espeak-ng", "Neither misaki nor espeak-ng can be loaded, so words are"),
        ("misaki", "espeak-ng", "espeak-ng cannot be loaded, so what misaki does not know is"),
        ("espeak", "misaki", ""),
        ("espeak", "espeak-ng", "espeak-ng cannot be loaded, so words are spelled out"),
        ("spelling", "misaki espeak-ng", ""),
    ],
)
def test_what_cannot_be_loaded_is_told_as_it_is(
    g2p: G2P, monkeypatch: pytest.MonkeyPatch, first: Stage, gone: str, fault: str
) -> None:
    def missing(*_: object, **__: object) -> Never:
        raise OSError("it is not there")

    monkeypatch.setattr(spacy, "load", missing if "misaki" in gone else lambda *_, **__: g2p._nlp)
    if "espeak-ng" in gone:
        monkeypatch.setattr(g2p_module, "_espeak_ng", missing)
        monkeypatch.setattr(g2p_module, "_fallback", missing)
    chosen = G2P(first)
    chosen.load()
    assert chosen.fault.startswith(fault)
    assert bool(chosen.fault) == bool(fault)
    spelled = first == "spelling" or "espeak-ng" in gone
    assert phonemes(chosen, "zorgblatter", US).count(",") == (10 if spelled else 0)


WORDS = st.lists(
    st.sampled_from(
        [
            "the",
            "wasn't",
            "“No,”",
            "he—said",
            "U.S.",
            "(really?)",
            "zorgblatter",
            "don't",
            "state-of-the-art",
        ]
    )
    | st.text("abcdeé'-,.", min_size=1, max_size=8),
    min_size=1,
    max_size=9,
).map(" ".join)


@given(WORDS, st.sampled_from([US, GB]))
def test_pieces_are_the_whole_text_in_the_models_alphabet(
    g2p: G2P, text: str, language: Language
) -> None:
    text = divided(Spanned.of(text)).text
    pieces = g2p.pieces(text, language)
    assert not pieces or "".join(p.text + p.space for p in pieces).strip() == text.strip()
    assert all(symbol in SYMBOLS for piece in pieces for symbol in piece.phonemes)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The US and AI", "The U S and A I"),
        ("at NASA, PM", "at NASA , P M"),
        ("Some CPUs", "Some C P Us"),
    ],
)
def test_letters_that_are_spelled_are_told(g2p: G2P, text: str, said: str) -> None:
    pieces = g2p.pieces(text, US)
    assert " ".join(piece.text if piece.said is None else piece.said for piece in pieces) == said


def test_a_word_that_misaki_knows_nothing_of_is_spelled(
    g2p: G2P, monkeypatch: pytest.MonkeyPatch
) -> None:
    g2p.pieces("Ready.", US)
    monkeypatch.setattr(g2p._english[False], "fallback", None)
    before = falls("misaki")
    assert phonemes(g2p, "Say zqx now.", US).count("kjˈu") == 1
    assert falls("misaki") == before + 1


@pytest.mark.parametrize("language", [US, GB, BY_TAG["es"]])
@pytest.mark.parametrize(
    ("text", "plain"),
    [("Nguyễn Trọng", "Nguyen Trong"), ("phở", "pho"), ("Ɗan", "Dan"), ("ﬁord", "fiord")],
)
def test_letters_that_espeak_ng_does_not_know_are_read_plainly(
    g2p: G2P, text: str, plain: str, language: Language
) -> None:
    espeak = G2P("espeak")
    assert phonemes(espeak, text, language) == phonemes(espeak, plain, language)
    assert len(phonemes(g2p, text, language)) < 20


def test_letters_that_espeak_ng_knows_stay(g2p: G2P) -> None:
    assert phonemes(g2p, "Škoda ışık", US) != phonemes(g2p, "Skoda isik", US)


def shown(g2p: G2P, text: str, language: Language) -> list[str]:
    return [piece.text for piece in g2p.pieces(text, language)]


@pytest.mark.parametrize(
    ("tag", "text", "expected"),
    [
        ("es", "Qué tal. Compré dos manzanas.", "Qué tal. Compré dos manzanas."),
        ("fr-fr", "Il est l'ami de la famille", "Il est l'ami de la famille"),
        ("hi", "नमस्ते, आप कैसे हैं?", "नमस्ते, आप कैसे हैं?"),
    ],
)
def test_espeak_ng_gives_words_too(g2p: G2P, tag: str, text: str, expected: str) -> None:
    assert shown(g2p, text, BY_TAG[tag]) == expected.split()


def test_what_espeak_ng_runs_together_is_one_piece_up_to_a_mark(g2p: G2P) -> None:
    text = "Qu'est-ce que c'est, ça va"
    assert shown(g2p, text, BY_TAG["fr-fr"]) == ["Qu'est-ce que c'est,", "ça", "va"]
