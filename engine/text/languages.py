"""Which voice speaks which language, and which G2P knows it. Core."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from engine.errors import UnsupportedLanguage


class Frontend(Enum):
    """What turns a language's text into phonemes."""

    MISAKI = "misaki"
    ESPEAK = "espeak-ng"
    NONE = "none"  # the voice exists, but nothing here can read its language


@dataclass(frozen=True, slots=True)
class Language:
    """A language of Kokoro-82M.

    Attributes:
        tag: BCP 47, lower case; also espeak-ng's name for it.
        prefix: first letter of the voices that speak it.
        sentences: the code that the sentence splitter knows it by.
    """

    tag: str
    name: str
    prefix: str
    sentences: str
    frontend: Frontend


LANGUAGES = (
    Language("en-us", "American English", "a", "en", Frontend.MISAKI),
    Language("en-gb", "British English", "b", "en", Frontend.MISAKI),
    Language("es", "Spanish", "e", "es", Frontend.ESPEAK),
    Language("fr-fr", "French", "f", "fr", Frontend.ESPEAK),
    Language("hi", "Hindi", "h", "hi", Frontend.ESPEAK),
    Language("it", "Italian", "i", "it", Frontend.ESPEAK),
    Language("pt-br", "Brazilian Portuguese", "p", "pt", Frontend.ESPEAK),
    Language("ja", "Japanese", "j", "ja", Frontend.NONE),
    Language("zh", "Mandarin Chinese", "z", "zh", Frontend.NONE),
)

_BY_TAG = {language.tag: language for language in LANGUAGES}
_BY_PREFIX = {language.prefix: language for language in LANGUAGES}
#: what people write instead of the tags above
_ALIASES = {"en": "en-us", "fr": "fr-fr", "pt": "pt-br", "cmn": "zh", "zh-cn": "zh"}
_ALIASES |= {"es-es": "es", "it-it": "it", "hi-in": "hi", "ja-jp": "ja"}


def of_voice(voice: str) -> Language:
    """The language that a voice speaks; English for a voice of an unknown kind."""
    return _BY_PREFIX.get(voice[:1], _BY_TAG["en-us"])


def resolve(tag: str | None, voice: str) -> Language:
    """The language to read in: the one asked for, else the voice's own.

    Raises:
        UnsupportedLanguage: it is unknown, or nothing here can read it.
    """
    if tag is None:
        language = of_voice(voice)
        hint = f"The voice {voice!r} speaks {language.name}, which cannot be read here yet; "
        hint += 'choose another voice, or set lang (for instance "en-us").'
    else:
        plain = tag.strip().lower().replace("_", "-")
        known = _BY_TAG.get(_ALIASES.get(plain, plain))
        if known is None:
            raise UnsupportedLanguage(
                f"There is no language {tag[:32]!r}; known are {', '.join(_BY_TAG)}.", param="lang"
            )
        language, hint = known, f"{known.name} cannot be read here yet; choose another language."
    if language.frontend is Frontend.NONE:
        raise UnsupportedLanguage(hint, param="lang")
    return language
