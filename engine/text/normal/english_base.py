"""What the rules of English share: what is around a match, and numbers as words. Core."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from engine.text.normal import english_words as words
from engine.text.normal.rules import Match, Rule, alternatives, at_end
from engine.text.numbers import Numbers

_ARTICLE = re.compile(r"(?<!\w)[Aa]n? (?:\w+ )?\Z")
_NOUN = re.compile(r" [a-z]{2,}")
_NOT_A_NOUN = re.compile(r" (?:and|or|is|was|are|were|in|on|at|to|for|of|per|by|from|with|as|if)\b")
DASH = r"\s?[-–—]\s?"
UNITS = alternatives(words.UNITS)


def text_before(match: Match, chars: int = 24) -> str:
    """The last few characters before a match."""
    return match.string[max(0, match.start() - chars) : match.start()]


def text_after(match: Match, chars: int = 24) -> str:
    """The next few characters after it."""
    return match.string[match.end() : match.end() + chars]


def own_stop(match: Match) -> str:
    """The full stop that a short form shares with its sentence."""
    return "." if match[0].endswith(".") and at_end(match) else ""


def counts_one(match: Match) -> bool:
    """Whether a quantity stands before a noun: a five meter rope."""
    after = text_after(match)
    noun = _NOUN.match(after) and not _NOT_A_NOUN.match(after)
    return bool(noun and _ARTICLE.search(text_before(match)))


class Rules(ABC):
    """Some rules of English; each room makes its own, in their order.

    Args:
        british: days come before months, "and" is said in numbers, and metres are spelled so.
    """

    def __init__(self, *, british: bool) -> None:
        self._british = british
        self._numbers = Numbers("en-gb" if british else "en-us", "point")

    @abstractmethod
    def rules(self) -> tuple[Rule, ...]:
        """They come after `marks.PRELUDE` and `web.web`, before `marks.FINISH`."""

    def _minutes(self, minutes: str) -> str:
        if minutes == "00":
            return "oh oh"
        return "oh " * (minutes[0] == "0") + self._numbers.cardinal(str(int(minutes)))

    def _paired(self, digits: str) -> str:
        """Rows and columns of a picture: ten eighty."""
        if digits.endswith("00"):
            return self._numbers.cardinal(digits)
        return f"{self._numbers.cardinal(digits[:-2])} {self._minutes(digits[-2:])}"

    def _value(self, number: str) -> str:
        """A quantity as it is written."""
        whole, dot, part = number.replace(",", "").partition(".")
        return self._numbers.decimal(whole, part) if dot else self._numbers.cardinal(whole)

    def _counted_unit(self, amount: str, unit: str, *, single: bool = False) -> str:
        value = self._value(amount)
        if single or amount == "1":
            return f"{value} {unit}"
        first, _, rest = unit.partition(" ")
        if first in ("square", "cubic", "fluid"):
            return f"{value} {first} {self._plural(rest)}"
        if rest in ("hour", "meter"):  # watt hours
            return f"{value} {unit}s"
        return f"{value} {self._plural(first)} {rest}".rstrip()

    @staticmethod
    def _plural(unit: str) -> str:
        return words.UNIT_PLURALS.get(unit, unit + "s")

    def _spelled(self, text: str) -> str:
        """With British metres; a meter is a device there."""
        return text.replace("meter", "metre").replace("liter", "litre") if self._british else text
