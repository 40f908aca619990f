"""English abbreviations, titles, streets, Roman numbers and other short forms. Core."""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.text.normal import english_words as words
from engine.text.normal.english_base import DASH, Rules, own_stop, text_after, text_before
from engine.text.normal.rules import Match, Rule, alternatives, at_end, rule
from engine.text.normal.web import split_camel
from engine.text.numbers import of_roman

_SPAN_ENDS = {**words.WEEKDAY_OF, **words.MONTH_OF}
_ROMAN = r"(?P<roman>[IVXLCDM]{1,15}|[ivx]{2,7})"
_NOT_A_WORD = r"(?!\w|'(?!s\b))"
_NOUN = re.compile(r" [a-z]{2,}")
_STREET_NUMBER = re.compile(r"\d\w*(?: [A-Z][\w.]*){1,3} \Z")
_NAME_BEFORE = re.compile(
    r"\b(?:(?!(?:The|My|Our|His|Her|Your) )[A-Z][a-z]+|\d{1,4}(?:st|nd|rd|th)|[JS]r\.) \Z"
)
_AFTER_STREET = re.compile(r" (?:[NS][EW]?|[EW]|Bridge|Station|Market|School|Church|Park|Pier)\b")
_DAYS = alternatives(words.WEEKDAY_OF)
_DAY_BEFORE = re.compile(rf"\b(?:{_DAYS})\.?(?:,|,? and|,? or| to) \Z")
_ON_DAY = re.compile(r"\b(?:on|by|until|till|every|next|last|this) \Z")
_DAY_AFTER = re.compile(rf"(?:,|,? and|,? or| to) (?:{_DAYS})\b")
#: begin a sentence about what I do: Part I liked
_BEFORE_I = ("Part ", "Page ", "Number ")


class ShortForms(Rules):
    """Short forms as words."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return self._short_forms()

    def _short_forms(self) -> tuple[Rule, ...]:
        titles, streets = alternatives(words.TITLES), alternatives(words.STREETS)
        span_ends = alternatives(_SPAN_ENDS)
        rulers, counted = alternatives(words.RULERS), alternatives(words.COUNTED)
        return (
            rule(r"(?<![\w/])(?:C\+\+)(?!\w)", "C plus plus", "+"),
            rule(r"(?<![\w/])([CFAGDJ])#(?!\w)", lambda m: f"{m[1]} sharp", "#"),
            rule(
                rf"(?<![\w/.])(?i:{alternatives(words.STROKES)})(?![\w/])",
                lambda m: words.STROKES[m[0].lower()],
                "/",
            ),
            rule(r"(?<![\w/.])[wW]/ ?(?=\w)", "with ", "/"),
            rule(
                rf"(?<![\w.])((?i:{alternatives(words.DOTTED)}))(?!\w)\.?",
                lambda m: words.DOTTED[m[1].lower()] + own_stop(m),
                ".",
            ),
            rule(r"(?<!\w)etc(?:\.|\b)", self._et_cetera),
            rule(
                rf"(?<!\w)(?!no\. \d{{1,9}} [a-z])(?:{alternatives(words.NUMBERED)})\. ?(?=\d|[IVX]{{2,7}}\b|[ivx]{{2,7}}\b)"
                r"|(?<!\w)(?:Vol|vol|Ch|ch)\. ?(?=[IVX]\b(?! ?[a-z']))",
                lambda m: words.NUMBERED[m[0].rstrip(". ")] + " ",
                ".",
            ),
            rule(rf"(?<![\w.])({streets})\b\.?(?![.'\w])", self._street),
            rule(
                rf"(?<![\w.])(?:({titles})\. ?(?=[A-Z])|(Mr|Mrs|Ms|Dr|Prof)\. ?(?=[a-z]))",
                lambda m: words.TITLES[m[1] or m[2]] + " ",
                ".",
            ),
            rule(
                r"(?<![\w.])(Mr|Mrs|Ms|Dr|Prof|St|Mt) (?=[A-Z])", lambda m: words.TITLES[m[1]] + " "
            ),
            rule(r"(?<!\w)sq\. (?=(?:mi|ft|in|m|km|yd)\b)", "sq ", "."),
            rule(rf"(?<![\w.])({alternatives(words.ABBREVIATIONS)})\.", self._abbreviation, "."),
            rule(r"(?<![\w.])vs(?!\w)", "versus"),
            rule(r"(?<![\w.])(?<!\d )(Co|min|est)\.(?= [a-z\d]|,)", self._before_lower, "."),
            rule(r"(?<![\w.])ed\.(?= by\b)", "edited", "."),
            rule(
                rf"(?<!\w)({span_ends})\.?{DASH}({span_ends})(?!\w)\.?",
                lambda m: f"{_SPAN_ENDS[m[1]]} to {_SPAN_ENDS[m[2]]}" + own_stop(m),
                "-–—",
            ),
            rule(rf"(?<!\w)({alternatives(words.WEEKDAY_OF)})(?!\w)\.?", self._weekday, "MTWFS"),
            rule(
                rf"(?<!\w)({alternatives(words.MONTH_OF)})\.(?=,? )",
                lambda m: words.MONTH_OF[m[1]],
                ".",
            ),
            rule(r"(?<![\w.])((?:[A-Z]\.){2,})", self._dotted, "."),
            rule(r"(?<!\w)(?:README|TODO|CHANGELOG)(?!\w)", lambda m: m[0].lower()),
            rule(
                r"(?<!\w)([A-Z]{1,3}&[A-Z]{1,3}|[A-Z]{1,2} & [A-Z]{1,2})(?!\w)",
                lambda m: m[0].replace(" ", "").replace("&", " and "),
                "&",
            ),
            rule(
                rf"(?<!\w)(?!Malcolm X)((?:{rulers}) (?:the )?)(?P<roman>[IVX]+){_NOT_A_WORD}",
                self._ruler,
                "IVX",
            ),
            rule(r"(?<!\w)Mk\.? ?(?=\d|[IVX]+\b)", "Mark ", "M"),
            rule(
                r"(?<!\w)(?!I )([IVX]{1,7})(?:th|st|nd|rd)?(?=[ -](?:century|centuries|dynasty)\b)",
                lambda m: self._roman(m, self._numbers.ordinal),
                "IVX",
            ),
            rule(
                r"(?<!\w)(M(?:CM|M|DC{0,3})[CLXVI]{2,9})(?!\w)",
                lambda m: self._roman(m, self._numbers.year),
                "M",
            ),
            rule(r"(?<!\w)\(([ivx]{1,5})\)", self._item, "ivx"),
            rule(
                r"(?<![\w-])([ivx]{2,7}|[IVX]{2,7})(?=[-–]([ivx]{2,7}|[IVX]{2,7})(?![\w-]))[-–]",
                lambda m: f"{m[1]} to " if of_roman(m[1]) and of_roman(m[2]) else m[0],
                "-–",
            ),
            rule(
                r"(?<!\w)((?:[ivx]{2,7}|[IVX]{2,7})(?= to (?:[ivx]{2,7}|[IVX]{2,7})\b)|(?<=[iIvVxX] to )(?:[ivx]{2,7}|[IVX]{2,7})(?!\w))",
                lambda m: self._roman(m, self._numbers.cardinal),
                "IVXivx",
            ),
            rule(rf"(?<!\w)((?i:{counted})s? ){_ROMAN}{_NOT_A_WORD}", self._counted, "IVXLivx"),
            rule(
                r"(?<!\w)([A-Z][a-z]{2,} )(?P<roman>II|III|VII|VIII|XII|XIII|XIV|XVI)"
                + _NOT_A_WORD,
                self._counted,
                "IX",
            ),
            rule(
                r"(?<!\w)[a-z]{2,}+(?:[A-Z]++[a-z0-9]*+)+(?!\w)|(?<!\w)(?:[A-Z][a-z]++){3,}(?!\w)",
                lambda m: split_camel(m[0]),
            ),
        )

    @staticmethod
    def _et_cetera(match: Match) -> str:
        after = text_after(match, 2)
        ends = match[0][-1] == "." and (at_end(match) or (after[:1] == " " and after[1:].isupper()))
        return "et cetera" + "." * ends

    @staticmethod
    def _street(match: Match) -> str:
        before, after = text_before(match, 40), text_after(match)
        named = after[:1] == " " and after[1:2].isupper() and not _AFTER_STREET.match(after)
        if not _NAME_BEFORE.search(before) or (named and not _STREET_NUMBER.search(before)):
            return match[0]
        return words.STREETS[match[1]] + own_stop(match)

    @staticmethod
    def _abbreviation(match: Match) -> str:
        return words.ABBREVIATIONS[match[1]] + own_stop(match)

    @staticmethod
    def _weekday(match: Match) -> str:
        """Mon, Wed, Sat and Sun are also words, unless a dot or another day is next to them."""
        before, after = text_before(match), text_after(match)
        if match[1] in ("Mon", "Wed", "Sat", "Sun"):
            ends = at_end(match) and not _ON_DAY.search(before)
            dotted = match[0][-1] == "." and not ends and not before.lower().endswith("the ")
            if not dotted and not _DAY_BEFORE.search(before) and not _DAY_AFTER.match(after):
                return match[0]
        return words.WEEKDAY_OF[match[1]] + own_stop(match)

    @staticmethod
    def _before_lower(match: Match) -> str:
        return {"Co": "Company", "min": "minimum", "est": "estimated"}[match[1]]

    @staticmethod
    def _dotted(match: Match) -> str:
        """U.S. without its dots, which G2P spells."""
        letters = match[1].replace(".", "")
        return letters + own_stop(match)

    def _ruler(self, match: Match) -> str:
        value = of_roman(match["roman"])
        after = text_after(match, 4)
        alone = match["roman"] == "I" and not (re.match(r"[.,;:)]| of ", after) or at_end(match))
        if not value or alone:
            return match[0]
        the = "" if match[1].endswith("the ") else "the "
        return f"{match[1]}{the}{self._numbers.ordinal(str(value))}"

    @staticmethod
    def _roman(match: Match, said: Callable[[str], str]) -> str:
        value = of_roman(match[1])
        return said(str(value)) if value else match[0]

    def _item(self, match: Match) -> str:
        """One of a row; a single letter only next to another of them."""
        near = {"i": ("(ii)", text_after(match, 200)), "v": ("(iv)", text_before(match, 200))}
        near["x"] = ("(ix)", text_before(match, 200))
        value, (other, where) = of_roman(match[1]), near.get(match[1], ("", ""))
        return f"({self._numbers.cardinal(str(value))})" if value and other in where else match[0]

    def _counted(self, match: Match) -> str:
        value = of_roman(match["roman"])
        pronoun = match["roman"] == "I" and match[1] in _BEFORE_I and _NOUN.match(text_after(match))
        told = match[1] in ("volume ", "chapter ") and not _NOUN.match(text_after(match))
        lower = match[1][0].islower() and not told
        if not value or pronoun or (len(match["roman"]) == 1 and lower):
            return match[0]
        return match[1] + self._numbers.cardinal(str(value))
