"""Which voice speaks which language, what it is called, and which G2P knows it. Core."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from importlib.util import find_spec

from engine.errors import UnsupportedLanguage


class Frontend(Enum):
    """What turns a language's text into phonemes."""

    MISAKI = "misaki"
    ESPEAK = "espeak-ng"
    MANDARIN = "pypinyin"
    JAPANESE = "fugashi"
    NONE = "none"  # its packages are not installed


@dataclass(frozen=True, slots=True)
class Language:
    """A language of Kokoro-82M.

    Attributes:
        tag: BCP 47, lower case; also espeak-ng's name for it.
        prefix: first letter of the voices that speak it, and Kokoro's own name for it.
        sentences: the code that the sentence splitter knows it by.
        names: what else people write for it, in lower case with hyphens.
        packages: modules that must be there to read it; the extra that has them is `tag`.
    """

    tag: str
    name: str
    prefix: str
    sentences: str
    frontend: Frontend
    names: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def _here(language: Language) -> Language:
    if all(find_spec(name) is not None for name in language.packages):
        return language
    return replace(language, frontend=Frontend.NONE)


_ALL = (
    Language("en-us", "American English", "a", "en", Frontend.MISAKI, ("en", "eng", "english")),
    Language(
        *("en-gb", "British English", "b", "en", Frontend.MISAKI),
        names=("en-uk", "en-au", "en-ie", "en-nz", "british"),
    ),
    Language("es", "Spanish", "e", "es", Frontend.ESPEAK, ("spa", "castilian")),
    Language("fr-fr", "French", "f", "fr", Frontend.ESPEAK, ("fr", "fra", "fre")),
    Language("hi", "Hindi", "h", "hi", Frontend.ESPEAK, ("hin",)),
    Language("it", "Italian", "i", "it", Frontend.ESPEAK, ("ita",)),
    Language(
        *("pt-br", "Brazilian Portuguese", "p", "pt", Frontend.ESPEAK),
        names=("pt", "por", "portuguese"),
    ),
    Language(
        *("ja", "Japanese", "j", "ja", Frontend.JAPANESE),
        names=("jp", "jpn"),
        packages=("fugashi", "unidic_lite", "jaconv", "mojimoji"),
    ),
    Language(
        *("zh", "Mandarin Chinese", "z", "zh", Frontend.MANDARIN),
        names=("cn", "cmn", "chi", "zho", "chinese", "mandarin"),
        packages=("jieba", "pypinyin", "cn2an", "ordered_set"),
    ),
)
#: those whose packages are not there have no G2P; it is found out once, when this is imported
LANGUAGES = tuple(map(_here, _ALL))

BY_TAG = {language.tag: language for language in LANGUAGES}
_BY_PREFIX = {language.prefix: language for language in LANGUAGES}
_TAGS = {
    name: language.tag
    for language in LANGUAGES
    for name in (
        language.tag,
        language.prefix,
        language.name.lower().replace(" ", "-"),
        *language.names,
    )
}


def of_voice(voice: str) -> Language:
    """The language that a voice speaks; English for a voice of an unknown kind."""
    return _BY_PREFIX.get(voice[:1], BY_TAG["en-us"])


def is_of_voices(voice: str) -> bool:
    """Whether a voice may have such a name, by its first letter."""
    return voice[:1] in _BY_PREFIX and voice[2:3] == "_"


def named(name: str) -> Language | None:
    """The language of that name, readable here or not; None: there is no such one.

    Args:
        name: a tag, with any region or script (es-MX, zh_Hans), one of Kokoro's letters, a code of
            three letters, or the English name; in any case.
    """
    plain = "-".join(name.lower().replace("_", " ").replace("-", " ").split())
    general = plain.partition("-")[0]
    tag = _TAGS.get(plain) or (_TAGS.get(general, "") if len(general) > 1 else "")
    return BY_TAG.get(tag)


def unreadable(language: Language) -> str:
    """What is said of a language whose packages are not there, after "which": what helps."""
    return f"cannot be read here yet: run `make setup EXTRAS={language.tag}` and start again"


def resolve(tag: str | None, voice: str) -> Language:
    """The language to read in.

    What is asked for is what is meant: every voice can read every language, with an accent, but
    never silently (`mismatch`). If nothing is asked for, it is the voice's own. Parts of the text in
    a script that is not the language's are read in theirs; see `runs`.

    Raises:
        UnsupportedLanguage: it is unknown, or nothing here can read it.
    """
    language = of_voice(voice) if tag is None else named(tag)
    if language is None:
        raise UnsupportedLanguage(
            f"There is no language {tag[:32] if tag else tag!r}; known are {', '.join(BY_TAG)}.",
            param="lang",
        )
    if language.frontend is Frontend.NONE:
        what = (
            f"The voice {voice!r} speaks {language.name}, which" if tag is None else language.name
        )
        other = "set lang to what your text is in" if tag is None else "choose another language"
        raise UnsupportedLanguage(f"{what} {unreadable(language)}, or {other}.", param="lang")
    return language


def mismatch(language: Language, voice: str) -> str | None:
    """What the listener should know if the voice speaks another language than it is to read.

    American and British English are one language here. A voice of an unknown kind speaks any.
    """
    own = _BY_PREFIX.get(voice[:1], language)
    if own.sentences == language.sentences:
        return None
    return f"The voice {voice!r} speaks {own.name}, so {language.name} will have an accent."
