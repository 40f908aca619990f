"""A rule of the normaliser, and how a row of them is applied. Core."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from engine.text.spanned import Spanned

Match = re.Match[str]

DIGITS = "0123456789"

#: a number of English, grouped or not (also as in India: 1,00,000), decimals or not. Possessive, so
#: that no number of digits is read twice; whoever uses it anchors it with `NUMBER_START`
NUMBER = (
    r"(?:(?:\d{1,3}(?:,\d{3})++(?!\d)|\d{1,2}(?:,\d\d(?=,))++,\d{3}(?!\d)|\d++)(?:\.\d++)?|\.\d++)"
)
#: not inside a word or another number
NUMBER_START = r"(?<!\w)(?<!\d[.,])"

_NO_MORE_WORDS = re.compile(r"[\W_]*\Z")


class Rule(NamedTuple):
    """Replaces every match.

    Attributes:
        pattern: linear in the text: anchored by what may stand before it, with possessive or
            bounded repetition.
        replace: the new text, or what gives it for a match.
        needs: the rule is tried only if one of these characters is there; empty is always.
    """

    pattern: re.Pattern[str]
    replace: str | Callable[[Match], str]
    needs: frozenset[str]


def rule(
    pattern: str, replace: str | Callable[[Match], str], needs: str = "", flags: int = 0
) -> Rule:
    """A rule with its pattern compiled; digits are ASCII, for `marks.PRELUDE` made them so."""
    return Rule(re.compile(pattern, flags), replace, frozenset(needs))


def applied(text: Spanned, rules: Iterable[Rule]) -> Spanned:
    """The text after all rules, in their order."""
    present = set(text.text)
    for pattern, replace, needs in rules:
        if needs and needs.isdisjoint(present):
            continue
        after = text.sub(pattern, replace)
        if after is not text:
            text, present = after, set(after.text)
    return text


def alternatives(words: Iterable[str]) -> str:
    """A pattern of any of these, the longest first."""
    return "|".join(map(re.escape, sorted(words, key=lambda word: (-len(word), word))))


def at_end(match: Match) -> bool:
    """Whether nothing but marks follows."""
    return _NO_MORE_WORDS.match(match.string, match.end()) is not None
