"""One sentence becomes words: no sign and no digit is left that G2P would have to guess. Core.

Rules are applied in a fixed order, which `tests/engine/text/test_normalise.py` holds: characters
that look alike, addresses, shouting, short forms, dates, times, numbers that are names, money,
formulas, quantities, all other numbers, signs, marks. Every rule reads the text once, so that time
grows with its length whatever it is.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from engine.memory import remembered
from engine.report import CacheSize
from engine.text.normal import asian
from engine.text.normal.english import SIGNS, English
from engine.text.normal.english_shouting import calmed
from engine.text.normal.marks import FINISH, PRELUDE, WIDTH
from engine.text.normal.romance import Romance
from engine.text.normal.romance_words import TONGUES
from engine.text.normal.rules import Rule, applied
from engine.text.normal.web import Urls, web
from engine.text.spanned import Span, Spanned

_ENGLISH = ("en-us", "en-gb")

#: sets of rules that are kept: one for each language and way to read addresses, 27 by now
_SETS = 64


def normalised(text: Spanned, language: str, *, urls: Urls = "short") -> Spanned:
    """The same as words, with the marks that are pauses: `. , ; : ! ? … — ( ) "`.

    Args:
        text: a sentence or a heading, without markup.
        language: one of `languages.LANGUAGES`; Hindi, Japanese and Chinese keep their digits, which
            their G2P reads.
        urls: an address is its host and what can be read of its path, or every part, or nothing.
    """
    first, then = _rules(language, urls)
    text = applied(text, first)
    if language in _ENGLISH:
        text = calmed(text)
    return applied(text, then)


def unread(text: Spanned, language: str) -> list[Span]:
    """Symbols of `text` that no rule reads, and that vanish; where the G2P decides, none."""
    if language in asian.TAGS or not any(map(_is_symbol, text.text)):
        return []
    first, then = _rules(language, "full")
    left = applied(applied(text, first), then[: -len(FINISH)])
    return [span for char, span in zip(left.text, left.spans, strict=True) if _is_symbol(char)]


def cached() -> CacheSize:
    """How many sets of rules are kept."""
    return remembered("rules", _rules)


def _is_symbol(char: str) -> bool:
    return unicodedata.category(char) in ("So", "Sc", "Sm")


@lru_cache(_SETS)
def _rules(language: str, urls: Urls) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """What is applied before a shouted sentence is calmed, and after."""
    if language in asian.TAGS:
        return (WIDTH, *web(asian.address_signs(language), urls)), asian.rules(language)
    if language in TONGUES:
        romance = Romance(TONGUES[language])
        return (*PRELUDE, *web(romance.signs, urls)), (*romance.rules(), *FINISH)
    english = English(british=language == "en-gb")
    return (*PRELUDE, *web(SIGNS, urls)), (*english.rules(), *FINISH)
