"""Voices and languages."""

from __future__ import annotations

from dataclasses import replace
from importlib.machinery import ModuleSpec

import pytest

from engine.errors import UnsupportedLanguage
from engine.text import languages
from engine.text.languages import (
    BY_TAG,
    LANGUAGES,
    Frontend,
    is_of_voices,
    mismatch,
    named,
    resolve,
)


@pytest.fixture
def without_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    for tag in ("ja", "zh"):
        monkeypatch.setitem(BY_TAG, tag, replace(BY_TAG[tag], frontend=Frontend.NONE))
        monkeypatch.setitem(languages._BY_PREFIX, BY_TAG[tag].prefix, BY_TAG[tag])


@pytest.mark.parametrize(
    ("tag", "voice", "expected"),
    [
        (None, "af_heart", "en-us"),
        (None, "bm_fable", "en-gb"),
        (None, "ef_dora", "es"),
        (None, "ff_siwis", "fr-fr"),
        (None, "jf_alpha", "ja"),
        (None, "zm_yunxi", "zh"),
        (None, "my_own", "en-us"),
        ("en", "jf_alpha", "en-us"),
        ("EN_gb", "af_heart", "en-gb"),
        (" pt-BR ", "af_heart", "pt-br"),
        ("ja", "af_heart", "ja"),
    ],
)
def test_the_language_asked_for_or_else_the_voices(
    tag: str | None, voice: str, expected: str
) -> None:
    assert resolve(tag, voice).tag == expected


@pytest.mark.parametrize(
    ("tag", "names"),
    [
        ("en-us", "a A en EN en-us en_US eng English american_english en-ca"),
        ("en-gb", "b en-gb en_GB en-UK en-au British british-english"),
        ("es", "e es es-ES es-mx es-419 spa spanish"),
        ("fr-fr", "f fr FR fr-fr fr-ca fra fre French"),
        ("hi", "h hi hi-IN hin hindi"),
        ("it", "i it it-it it_CH ita Italian"),
        ("pt-br", "p pt pt-pt pt_BR por portuguese brazilian-portuguese"),
        ("ja", "j ja jp ja-JP jpn Japanese"),
        ("zh", "z zh cn cmn zh-cn zh_CN zh-Hans zh-tw zh-Hans-CN zho chi chinese mandarin-chinese"),
    ],
)
def test_all_that_people_write(tag: str, names: str) -> None:
    assert {name: named(name) for name in names.split()} == dict.fromkeys(
        names.split(), BY_TAG[tag]
    )
    assert named(f"  {BY_TAG[tag].name.upper()} ") is BY_TAG[tag]


@pytest.mark.parametrize("name", ["", " ", "-", "tlh", "c", "a-b", "de", "yue", "en us x y" * 999])
def test_what_is_no_name_of_a_language(name: str) -> None:
    expected = BY_TAG["en-us"] if name.startswith("en us") else None
    assert named(name) is expected


def test_an_unknown_language_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnsupportedLanguage, match=r"no language 'tlh'; known are en-us, .*, zh\.$"):
        resolve("tlh", "af_heart")
    with pytest.raises(UnsupportedLanguage, match=r"no language ''; known are en-us"):
        resolve("", "af_heart")


@pytest.mark.usefixtures("without_extras")
@pytest.mark.parametrize(
    ("tag", "voice", "says"),
    [
        (None, "jf_alpha", "The voice 'jf_alpha' speaks Japanese, which cannot be read here yet"),
        (None, "zm_yunxi", "The voice 'zm_yunxi' speaks Mandarin Chinese, which cannot be read"),
        ("cmn", "af_heart", "Mandarin Chinese cannot be read here yet"),
    ],
)
def test_what_is_not_installed_is_refused_with_the_command(
    tag: str | None, voice: str, says: str
) -> None:
    with pytest.raises(UnsupportedLanguage) as caught:
        resolve(tag, voice)
    assert caught.value.message.startswith(says)
    assert f"run `make setup EXTRAS={'ja' if voice[0] == 'j' else 'zh'}`" in caught.value.message
    assert caught.value.param == "lang"


def test_a_language_without_one_of_its_packages_has_no_g2p(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "mojimoji" else ModuleSpec(name, None)

    monkeypatch.setattr(languages, "find_spec", find)
    found = {language.tag: languages._here(language).frontend for language in LANGUAGES}
    assert [tag for tag, frontend in found.items() if frontend is Frontend.NONE] == ["ja"]


@pytest.mark.parametrize(
    ("tag", "voice", "expected"),
    [
        ("en-us", "af_heart", None),
        ("en-gb", "af_heart", None),
        ("es", "ef_dora", None),
        ("fr-fr", "my_own", None),
        (
            *("fr-fr", "bf_emma"),
            "The voice 'bf_emma' speaks British English, so French will have an accent.",
        ),
        (
            *("en-us", "zm_yunxi"),
            "The voice 'zm_yunxi' speaks Mandarin Chinese, so American English will have an accent.",
        ),
    ],
)
def test_a_voice_of_another_language_is_told(tag: str, voice: str, expected: str | None) -> None:
    assert mismatch(BY_TAG[tag], voice) == expected


@pytest.mark.parametrize(
    ("voice", "expected"),
    [("af_heart", True), ("zm_yunxi", True), ("nope", False), ("xx", False), ("", False)],
)
def test_names_that_voices_may_have(voice: str, expected: bool) -> None:
    assert is_of_voices(voice) is expected
