"""Sentences in capitals, which are read as if they were not. Core."""

from __future__ import annotations

import re

from engine.text.normal import english_words as words
from engine.text.normal.english_base import text_before
from engine.text.normal.rules import Match
from engine.text.numbers import of_roman
from engine.text.spanned import Spanned

_CAPITALS = re.compile(r"(?<![\w@#/.-])[A-Z][A-Z']+(?![\w@/-]|\.\w)")
_VOWEL = re.compile("[AEIOUY]")
_WORD = re.compile(r"(?<!\w)[^\W\d_]{2,}")
_AFTER_NUMBER = re.compile(r"\d ?\Z")
#: so many words in capitals that are more than half of a sentence are shouted; fewer are names
_SHOUTED = 2
_FUNCTION_WORDS = {
    *("A", "ALL", "AN", "AND", "ARE", "AT", "BE", "BUT", "BY", "CAN", "DO", "DON'T", "FOR", "FROM"),
    *("GO", "HE", "HELP", "I'M", "IN", "IS", "IT", "IT'S", "MY", "NO", "NOT", "OF", "ON", "OR"),
    *("OUR", "OUT", "SHE", "SO", "STOP", "THAT", "THE", "THEY", "THIS", "TO", "UP", "WAS", "WE"),
    *("WHO", "WHY", "WILL", "WITH", "YOU", "YOUR"),
}
_SHOUTED_ORDINAL = re.compile(r"(?<=\d)(?:ST|ND|RD|TH)(?!\w)")
_SHOUTED_TITLE = re.compile(r"(?<!\w)(?:MR|MRS|MS|DR|PROF|ST|JR|SR)(?=\.)")
#: the pronoun ends a clause; a country has "the" or "in" before it
_SHOUTED_US = re.compile(
    r"(?<=[A-Z] )(?<!THE )(?<!IN )(?<!AND )US(?=[.,;:!?)”\"]|\Z)|(?<=IT'S )US(?!\w)"
)
_PROPER = {*words.MONTHS, *words.MONTH_OF, *words.TITLES, *words.COUNTED, *words.RULERS}


def calmed(text: Spanned) -> Spanned:
    """A sentence in capitals as words, which G2P would spell or stress; initialisms stay."""
    capitals = [word for word in _CAPITALS.findall(text.text) if _is_word(word)]
    others = [word for word in _WORD.findall(text.text) if word not in words.INITIALISMS]
    plain = any(len(word) > 4 or word in _FUNCTION_WORDS for word in capitals)
    count = len(capitals) + (_SHOUTED_US.search(text.text) is not None)
    if count < _SHOUTED or 2 * count <= len(others) or not plain:
        return text

    def lower(match: Match) -> str:
        if not _is_word(match[0]) or _AFTER_NUMBER.search(text_before(match, 2)):
            return match[0]
        name = match[0].capitalize()
        return name if name in _PROPER or name.startswith("I'") else name.lower()

    text = text.sub(_SHOUTED_ORDINAL, lambda m: m[0].lower())
    text = text.sub(_SHOUTED_TITLE, lambda m: m[0].capitalize())
    return text.sub(_SHOUTED_US, "us").sub(_CAPITALS, lower)


def _is_word(capitals: str) -> bool:
    """Whether it is said as a word in small letters; without a vowel it cannot be."""
    numeral = set(capitals) <= set("IVX") and of_roman(capitals)
    known = capitals in words.INITIALISMS or numeral
    return not known and _VOWEL.search(capitals) is not None
