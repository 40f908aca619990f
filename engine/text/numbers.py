"""Numbers to words, through num2words. Core.

Digits are given as they are written in ASCII, without grouping marks. Words come without hyphens
and commas, which would be pauses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from num2words import num2words

from engine.memory import remembered
from engine.report import CacheSize

#: longer ones are read digit by digit: nobody understands quadrillions
MAX_DIGITS = 15

#: words that are kept; a number is some 30 bytes of text and takes 0.1 ms to make (measured)
_REMEMBERED = 8192

_VALID_ROMAN = re.compile(
    "M{0,3}(?:CM|CD|D?C{0,3})(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})", re.IGNORECASE
)
#: these are more often a letter, a disc or a doctor
_NO_ROMAN = re.compile("[LCDM]{1,2}")
_ROMAN_DIGITS = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}

Kind = Literal["cardinal", "ordinal", "year"]

_NAMES = {"en-us": "en", "en-gb": "en", "fr-fr": "fr", "pt-br": "pt_BR"}


@lru_cache(_REMEMBERED)
def _words(number: int, language: str, kind: Kind) -> str:
    name = _NAMES.get(language, language)
    words = str(num2words(number, lang=name, to=kind)).replace("-", " ").replace(",", "")
    return words.replace(" and ", " ") if language == "en-us" else words


def cached() -> CacheSize:
    """How many numbers are remembered in words."""
    return remembered("numbers", _words)


def of_roman(numeral: str) -> int:
    """The value of a Roman number up to 3,999, in capitals or small letters; 0 if it is none."""
    if not _VALID_ROMAN.fullmatch(numeral) or _NO_ROMAN.fullmatch(numeral):
        return 0
    values = [_ROMAN_DIGITS[letter] for letter in numeral.upper()]
    return sum(-a if a < b else a for a, b in pairwise([*values, 0]))


@dataclass(frozen=True, slots=True)
class Numbers:
    """How one language says numbers.

    Args:
        language: a tag that num2words knows: en-us en-gb es fr-fr it pt-br.
        point: what is said between the digits before and after the decimal mark.
        whole_decimals: digits after the mark are said as a number ("trois virgule quatorze")
            rather than one by one.
    """

    language: str
    point: str
    whole_decimals: bool = False

    def cardinal(self, digits: str) -> str:
        """A quantity; digit by digit if it begins with a zero or is longer than `MAX_DIGITS`."""
        if len(digits) > MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
            return self.digits(digits)
        return _words(int(digits), self.language, "cardinal")

    def ordinal(self, digits: str) -> str:
        """A place in a row, masculine; see `cardinal` for what is too long."""
        if len(digits) > MAX_DIGITS or not int(digits):  # num2words has no zeroth but in English
            return self.digits(digits)
        return _words(int(digits), self.language, "ordinal")

    def year(self, digits: str) -> str:
        """A year; where English pairs digits ("nineteen oh five") only English does."""
        if self.language not in ("en-us", "en-gb"):
            return self.cardinal(digits)
        return _words(int(digits), self.language, "year")

    def digits(self, digits: str) -> str:
        """One by one."""
        return " ".join(_words(int(digit), self.language, "cardinal") for digit in digits)

    def decimal(self, whole: str, part: str) -> str:
        """`whole` and the digits after the decimal mark; a missing whole is zero."""
        return f"{self.cardinal(whole or '0')} {self.point} {self._part(part)}"

    def _part(self, part: str) -> str:
        if not self.whole_decimals or len(part) > 3:
            return self.digits(part)
        number = part.lstrip("0")
        zeros = part[: len(part) - len(number)]
        return " ".join(filter(None, (self.digits(zeros), number and self.cardinal(number))))
