"""The rules of English, in their order. Core.

A number is read by what is around it: as a date, a time, money, with its unit, as a year, and at
last as a quantity. Each rule leaves words, which no later rule takes for anything else.
"""

from __future__ import annotations

import re

from engine.text.normal import english_words as words
from engine.text.normal.english_base import Rules, text_before
from engine.text.normal.english_dates import Dates
from engine.text.normal.english_money import Money, Names
from engine.text.normal.english_quantities import Quantities
from engine.text.normal.english_short import ShortForms
from engine.text.normal.rules import DIGITS, NUMBER, Match, Rule, alternatives, rule
from engine.text.normal.web import Signs

SIGNS = Signs(words.ADDRESS, "hashtag")
_DATED = re.compile(
    r"(?:\b(?:in|since|of|until|till|by|from|year|the|before|after|circa) )\Z", re.I
)
_YEAR_BEFORE = re.compile(r"\b(?:in|since|year|until|till|circa) \Z", re.I)


class Numerals(Rules):
    """All other numbers, and signs, as words."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return (*self._plain_numbers(), *self._signs())

    def _plain_numbers(self) -> tuple[Rule, ...]:
        countable, counting = alternatives(words.COUNTABLE), alternatives(words.COUNTING)
        return (
            rule(r"(?<!\w)#\s?(?=\d)", "number ", "#"),
            rule(r"(?<!\w)(\d{3,4})([pi])(?!\w)", lambda m: f"{self._paired(m[1])} {m[2]}", "pi"),
            rule(r"(?<![\w.])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)(?!\w)", self._ordinal, "tdh"),
            rule(r"(?<=\d)a(?!\w)", " A", DIGITS),
            rule(r"(?<=\d)-(?=[^\W\d_])|(?<=[^\W\d_])-(?=\d)", " ", "-"),
            rule(r"\d(?=[^\W\d_])|[^\W\d_](?=\d)", lambda m: m[0] + " ", DIGITS),
            rule(
                rf"(?<!\w)(?<!\d[.,])(1\d{{3}}|20\d\d)(?!\w|[.,]\d)(?=(?P<noun> (?:(?:{counting}) ){{0,2}}(?:{countable})\b)?)",
                self._bare,
                "12",
            ),
            rule(rf"(?<!\w)(?<!\d[.,]){NUMBER}|\d+", lambda m: self._value(m[0]), DIGITS),
        )

    def _ordinal(self, match: Match) -> str:
        return self._numbers.ordinal(re.sub(r"\D", "", match[0]))

    def _bare(self, match: Match) -> str:
        """Four digits without a comma are read in pairs, unless they count something.

        "It costs 1500" is "fifteen hundred", as misaki says it; "1500 people" and "1,500" are
        "one thousand five hundred".
        """
        before = text_before(match)
        counts = match["noun"] and not _DATED.search(before)
        number = int(match[1])
        early = number == 1000 or (number < 1100 and not _YEAR_BEFORE.search(before))
        return self._numbers.cardinal(match[1]) if counts or early else self._numbers.year(match[1])

    def _signs(self) -> tuple[Rule, ...]:
        greek = words.GREEK
        return (
            rule(alternatives(words.DIGRAPHS), lambda m: words.DIGRAPHS[m[0]], "-=<>+&~"),
            rule(
                r"(?<![\u0370-\u03ff])[α-ωΑ-Ω](?![\u0370-\u03ff])",
                lambda m: f" {greek.get(m[0].lower(), m[0])} ",
            ),
            rule(r"(?<=[^\W\d_])\.(?=[a-z_])", " dot ", "."),
            rule(r"(?<=[a-z])\.(?=[A-Z])", ". ", "."),
            rule(
                "[" + re.escape("".join(words.SIGNS)) + "]",
                lambda m: f" {words.SIGNS[m[0]]} ",
            ),
        )


class English(Rules):
    """All rules, of all rooms."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        rooms = (ShortForms, Dates, Names, Money, Quantities, Numerals)
        return tuple(one for room in rooms for one in room(british=self._british).rules())
