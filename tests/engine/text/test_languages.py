"""Voices and languages."""

from __future__ import annotations

import pytest

from engine.errors import UnsupportedLanguage
from engine.text.languages import resolve


@pytest.mark.parametrize(
    ("tag", "voice", "expected"),
    [
        (None, "af_heart", "en-us"),
        (None, "bm_fable", "en-gb"),
        (None, "ef_dora", "es"),
        (None, "ff_siwis", "fr-fr"),
        ("en", "jf_alpha", "en-us"),
        ("EN_gb", "af_heart", "en-gb"),
        (" pt-BR ", "af_heart", "pt-br"),
    ],
)
def test_the_language_asked_for_or_else_the_voices(
    tag: str | None, voice: str, expected: str
) -> None:
    assert resolve(tag, voice).tag == expected


@pytest.mark.parametrize(
    ("tag", "voice", "says"),
    [
        (None, "jf_alpha", "speaks Japanese"),
        (None, "zm_yunxi", "speaks Mandarin Chinese"),
        ("zh", "af_heart", "Mandarin Chinese cannot be read"),
        ("tlh", "af_heart", "no language 'tlh'; known are en-us"),
    ],
)
def test_what_cannot_be_read_is_refused(tag: str | None, voice: str, says: str) -> None:
    with pytest.raises(UnsupportedLanguage, match=says) as caught:
        resolve(tag, voice)
    assert caught.value.param == "lang"
