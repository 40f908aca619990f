"""The rules of English, in their order. Core.

A number is read by what is around it: as a date, a time, money, with its unit, as a year, and at
last as a quantity. Each rule leaves words, which no later rule takes for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from engine.text.normal import english_words as words
from engine.text.normal.rules import (
    DIGITS,
    NUMBER,
    NUMBER_START,
    Match,
    Rule,
    alternatives,
    at_end,
    rule,
)
from engine.text.normal.web import Signs, split_camel
from engine.text.numbers import Numbers, of_roman
from engine.text.spanned import Spanned

SIGNS = Signs(words.ADDRESS, "hashtag")

#: lower case only where it is no other word
_MONTH_NAMES = [*words.MONTHS, *(m.lower() for m in words.MONTHS if m not in ("March", "May"))]
_MONTH = rf"(?P<month>{alternatives(_MONTH_NAMES)}|(?:{alternatives(words.MONTH_OF)})\b\.?)"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>(?:1\d|20)\d\d)"
_TH = r"(?:st|nd|rd|th)?"
#: AM or PM; a dot of its own is part of it, one after "PM" is the sentence's
_HALF = r"(?P<half>[AaPp](?:[Mm]\b|\.\s?[Mm]\b\.?))"
_SIGN = rf"(?P<sign>(?:(?<!\w)(?:US|AU|CA|HK|NZ|Mex|A|C|S|R)|(?<![^\W\d_]))\$|[{re.escape('£€¥₹₩₿₽₺₴₦₱₪₫฿')}])"
_SPAN_ENDS = {**words.WEEKDAY_OF, **words.MONTH_OF}
_CODES = [code for code in words.CURRENCIES if code.isalpha()]
_MONEY_SIZE = (
    rf"(?:[ -]?(?P<size>(?i:{alternatives(words.SIZE_WORDS)}))\b"
    r"| ?(?P<short>(?i:bn|mn|tn|trn|mio|mm)|(?<=\d)[kKmMbBtT])(?!\w))"
)
_DASH = r"\s?[-–—]\s?"
_ROMAN = r"(?P<roman>[IVXLCDM]{1,15}|[ivx]{2,7})"
_UNITS = alternatives(words.UNITS)
_NOT_A_WORD = r"(?!\w|'(?!s\b))"

_ARTICLE = re.compile(r"(?<!\w)[Aa]n? (?:\w+ )?\Z")
_NOUN = re.compile(r" [a-z]{2,}")
_NOT_A_NOUN = re.compile(r" (?:and|or|is|was|are|were|in|on|at|to|for|of|per|by|from|with|as|if)\b")
_DATED = re.compile(
    r"(?:\b(?:in|since|of|until|till|by|from|year|the|before|after|circa) )\Z", re.I
)
_YEAR_BEFORE = re.compile(r"\b(?:in|since|year|until|till|circa) \Z", re.I)
_STREET_NUMBER = re.compile(r"\d\w*(?: [A-Z][\w.]*){1,3} \Z")
_NAME_BEFORE = re.compile(
    r"\b(?:(?!(?:The|My|Our|His|Her|Your) )[A-Z][a-z]+|\d{1,4}(?:st|nd|rd|th)|[JS]r\.) \Z"
)
_AFTER_STREET = re.compile(r" (?:[NS][EW]?|[EW]|Bridge|Station|Market|School|Church|Park|Pier)\b")
_DAYS = alternatives(words.WEEKDAY_OF)
_DAY_BEFORE = re.compile(rf"\b(?:{_DAYS})\.?(?:,|,? and|,? or| to) \Z")
_ON_DAY = re.compile(r"\b(?:on|by|until|till|every|next|last|this) \Z")
_DAY_AFTER = re.compile(rf"(?:,|,? and|,? or| to) (?:{_DAYS})\b")
_ON = re.compile(r"\b(?:on|due|until|till|since|dated) \Z", re.I)
_MEASURES = re.compile(r" (?!(?:at|and|or|in|to|from|we|I|he|she|it|they)\b)[a-z]")
#: above twelve, of fractions that are written
_DENOMINATORS = (15, 16, 20, 24, 30)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
#: begin a sentence about what I do: Part I liked
_BEFORE_I = ("Part ", "Page ", "Number ")
_TURN = re.compile(r" (?:angle|turn|rotation|bend)s?\b")
_PERIOD = re.compile(r"\b(?:the|early|mid|late|his|her|my|your|our|their)[ -]\Z", re.I)
_LOWERED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "+-01234567890123456789")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}\Z")
_HYPHENED = re.compile(r"-(?:an?|per)-[a-z]")
_OPEN_QUOTE = re.compile(r'(?<!\d)"')

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


def _before(match: Match, chars: int = 24) -> str:
    """The last few characters before a match."""
    return match.string[max(0, match.start() - chars) : match.start()]


def _after(match: Match, chars: int = 24) -> str:
    return match.string[match.end() : match.end() + chars]


def _stop(match: Match) -> str:
    """The full stop that a short form shares with its sentence."""
    return "." if match[0].endswith(".") and at_end(match) else ""


def _counts_one(match: Match) -> bool:
    """Whether a quantity stands before a noun: a five meter rope."""
    after = _after(match)
    noun = _NOUN.match(after) and not _NOT_A_NOUN.match(after)
    return bool(noun and _ARTICLE.search(_before(match)))


def _is_day(day: int, month: int) -> bool:
    """Whether a year may have it."""
    return 1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1]


def calmed(text: Spanned) -> Spanned:
    """A sentence in capitals as words, which G2P would spell or stress; initialisms stay."""
    capitals = [word for word in _CAPITALS.findall(text.text) if _is_word(word)]
    others = [word for word in _WORD.findall(text.text) if word not in words.INITIALISMS]
    plain = any(len(word) > 4 or word in _FUNCTION_WORDS for word in capitals)
    count = len(capitals) + (_SHOUTED_US.search(text.text) is not None)
    if count < _SHOUTED or 2 * count <= len(others) or not plain:
        return text

    def lower(match: Match) -> str:
        if not _is_word(match[0]) or _AFTER_NUMBER.search(_before(match, 2)):
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


class English:
    """Makes the rules.

    Args:
        british: days come before months, "and" is said in numbers, and metres are spelled so.
    """

    def __init__(self, *, british: bool) -> None:
        self._british = british
        self._numbers = Numbers("en-gb" if british else "en-us", "point")

    def rules(self) -> tuple[Rule, ...]:
        """After `marks.PRELUDE` and `web.web`, before `marks.FINISH`."""
        return (
            *self._short_forms(),
            *self._dates(),
            *self._times(),
            *self._groups(),
            *self._money(),
            *self._formulas(),
            *self._quantities(),
            *self._plain_numbers(),
            *self._signs(),
        )

    # ------------------------------------------------------------------ short forms

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
                lambda m: words.DOTTED[m[1].lower()] + _stop(m),
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
                rf"(?<!\w)({span_ends})\.?{_DASH}({span_ends})(?!\w)\.?",
                lambda m: f"{_SPAN_ENDS[m[1]]} to {_SPAN_ENDS[m[2]]}" + _stop(m),
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
        after = _after(match, 2)
        ends = match[0][-1] == "." and (at_end(match) or (after[:1] == " " and after[1:].isupper()))
        return "et cetera" + "." * ends

    @staticmethod
    def _street(match: Match) -> str:
        before, after = _before(match, 40), _after(match)
        named = after[:1] == " " and after[1:2].isupper() and not _AFTER_STREET.match(after)
        if not _NAME_BEFORE.search(before) or (named and not _STREET_NUMBER.search(before)):
            return match[0]
        return words.STREETS[match[1]] + _stop(match)

    @staticmethod
    def _abbreviation(match: Match) -> str:
        return words.ABBREVIATIONS[match[1]] + _stop(match)

    @staticmethod
    def _weekday(match: Match) -> str:
        """Mon, Wed, Sat and Sun are also words, unless a dot or another day is next to them."""
        before, after = _before(match), _after(match)
        if match[1] in ("Mon", "Wed", "Sat", "Sun"):
            ends = at_end(match) and not _ON_DAY.search(before)
            dotted = match[0][-1] == "." and not ends and not before.lower().endswith("the ")
            if not dotted and not _DAY_BEFORE.search(before) and not _DAY_AFTER.match(after):
                return match[0]
        return words.WEEKDAY_OF[match[1]] + _stop(match)

    @staticmethod
    def _before_lower(match: Match) -> str:
        return {"Co": "Company", "min": "minimum", "est": "estimated"}[match[1]]

    @staticmethod
    def _dotted(match: Match) -> str:
        """U.S. without its dots, which G2P spells."""
        letters = match[1].replace(".", "")
        return letters + _stop(match)

    def _ruler(self, match: Match) -> str:
        value = of_roman(match["roman"])
        after = _after(match, 4)
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
        near = {"i": ("(ii)", _after(match, 200)), "v": ("(iv)", _before(match, 200))}
        near["x"] = ("(ix)", _before(match, 200))
        value, (other, where) = of_roman(match[1]), near.get(match[1], ("", ""))
        return f"({self._numbers.cardinal(str(value))})" if value and other in where else match[0]

    def _counted(self, match: Match) -> str:
        value = of_roman(match["roman"])
        pronoun = match["roman"] == "I" and match[1] in _BEFORE_I and _NOUN.match(_after(match))
        told = match[1] in ("volume ", "chapter ") and not _NOUN.match(_after(match))
        lower = match[1][0].islower() and not told
        if not value or pronoun or (len(match["roman"]) == 1 and lower):
            return match[0]
        return match[1] + self._numbers.cardinal(str(value))

    # ------------------------------------------------------------------ dates and times

    def _dates(self) -> tuple[Rule, ...]:
        time = r"(?:[T ](?P<hour>[01]\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?"
        time += r"(?:[.,]\d{1,9})?(?P<zone>Z|[+-][01]\d:?[0-5]\d)?)?"
        iso = r"(?<![\w-])(?P<year>\d{4})([-/]|\.(?=\d\d\.\d\d(?!\d)))(?P<month>0?[1-9]|1[0-2])\2(?P<day>0[1-9]|[12]\d|3[01]|[1-9])"
        after = r"(?:,? (?P<year>(?:1\d|20)\d\d)(?![\w:]|[.,]\d|-\d))?"
        return (
            rule(
                r"(?<![\w.,/-])((?:19|20)(\d\d))-(0[1-9]|1[0-2])(?![\w/-]|[.,]\d)",
                self._year_and_month,
                "-",
            ),
            rule(
                r"(?<![\w.,/-])(\d{1,2})/(\d{1,2})(?![\w/\"]|[.,]\d| ?=)",
                self._day_of_month,
                "/",
            ),
            rule(r"(?<![\w'])'(\d\d)(?![\w']|[.,]\d)", lambda m: self._minutes(m[1]), "'"),
            rule(rf"(?<=\d) ?[-–] ?(?={_MONTH.replace('?P<month>', '?:')})", " to ", "-–"),
            rule(
                rf"(?<![\w.,/:-])(?<!the ){_DAY}{_TH}(?:{_DASH}| to )"
                rf"(?={_DAY.replace('?P<day>', '?:')}{_TH}(?: of)? {_MONTH.replace('?P<month>', '?:')}(?!\w))",
                lambda m: f"the {self._numbers.ordinal(str(int(m['day'])))} to ",
                DIGITS,
            ),
            rule(rf"{iso}{time}(?![\w-])", self._iso, "-/."),
            rule(
                r"(?<![\w/.-])(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})(?![\w/-]|\.\d)",
                self._numeric_date,
                "-/.",
            ),
            rule(
                rf"(?<!\w){_MONTH} {_DAY}{_TH}{_DASH}(?P<to>[12]\d|3[01]|0?[1-9]){_TH}{after}(?![\w:/-]|[.,]\d)",
                self._month_first,
                DIGITS,
            ),
            rule(
                rf"(?<!\w){_MONTH} {_DAY}{_TH}{after}(?![\w:/%]|[.,]\d)", self._month_first, DIGITS
            ),
            rule(
                rf"(?<![\w.,/:-]){_DAY}{_TH}(?: of)? {_MONTH}(?!\w){after}",
                self._day_first,
                DIGITS,
            ),
            rule(rf"(?<!\w){_MONTH},? {_YEAR}(?![\w:]|[.,]\d)", self._month_and_year, DIGITS),
        )

    def _date(self, month: str, day: str, year: str | None) -> str:
        ordinal = self._numbers.ordinal(str(int(day)))
        date = f"the {ordinal} of {month}" if self._british else f"{month} {ordinal}"
        comma = " " if self._british else ", "
        return date + (comma + self._year(year) if year else "")

    def _year(self, year: str) -> str:
        return (
            self._numbers.year(year) if 1000 <= int(year) <= 2099 else self._numbers.cardinal(year)
        )

    def _iso(self, match: Match) -> str:
        date = self._date(words.MONTHS[int(match["month"]) - 1], match["day"], match["year"])
        if not match["hour"]:
            return self._dated(match, date)
        time = self._clock(match["hour"], match["minute"], match["second"] or "00", exact=False)
        zone = match["zone"] or ""
        if zone == "Z":
            return f"{date}, {time} UTC"
        if zone:
            hours = self._numbers.cardinal(str(int(zone[1:3])))
            minutes = int(zone[-2:])
            hours += f" {self._numbers.cardinal(str(minutes))}" if minutes else ""
            return f"{date}, {time} UTC {'plus' if zone[0] == '+' else 'minus'} {hours}"
        return f"{date}, {time}"

    def _numeric_date(self, match: Match) -> str:
        one, two, year = int(match[1]), int(match[3]), match[4]
        day, month = (one, two) if self._british or match[2] == "." else (two, one)
        if month > 12:
            day, month = month, day
        if not _is_day(day, month) or (match[2] != "/" and len(year) == 2):
            return match[0]
        if len(year) == 2:
            year = ("20" if int(year) < 70 else "19") + year
        return self._dated(match, self._date(words.MONTHS[month - 1], str(day), year))

    @staticmethod
    def _dated(match: Match, date: str) -> str:
        """With one article."""
        return date.removeprefix("the ") if _before(match, 4).lower() == "the " else date

    def _year_and_month(self, match: Match) -> str:
        """2024-03; 2004-05 are two years."""
        if int(match[3]) > int(match[2]):
            return f"{self._year(match[1])} to {self._minutes(match[3])}"
        return f"{words.MONTHS[int(match[3]) - 1]} {self._year(match[1])}"

    def _day_of_month(self, match: Match) -> str:
        """12/25, where it can hardly be a fraction."""
        one, two = int(match[1]), int(match[2])
        day, month = (one, two) if self._british else (two, one)
        told = _ON.search(_before(match)) and not _MEASURES.match(_after(match))
        odd = not self._british and day > 12 and day not in _DENOMINATORS
        if not _is_day(day, month) or not (told or odd):
            return match[0]
        return self._dated(match, self._date(words.MONTHS[month - 1], str(day), None))

    @staticmethod
    def _month_name(match: Match) -> str:
        name = match["month"].rstrip(".").capitalize()
        return words.MONTH_OF.get(name, name)

    def _month_first(self, match: Match) -> str:
        month, day = self._month_name(match), self._numbers.ordinal(str(int(match["day"])))
        until = match.groupdict().get("to")
        if until:
            day += " to " + self._numbers.ordinal(str(int(until)))
        return f"{month} {day}" + (f", {self._year(match['year'])}" if match["year"] else "")

    def _day_first(self, match: Match) -> str:
        month, day = self._month_name(match), self._numbers.ordinal(str(int(match["day"])))
        the = "" if " of " in match[0] or _before(match).endswith("the ") else "the "
        year = f" {self._year(match['year'])}" if match["year"] else ""
        return f"{the}{day} of {month}{year}"

    def _month_and_year(self, match: Match) -> str:
        return f"{self._month_name(match)} {self._year(match['year'])}"

    def _times(self) -> tuple[Rule, ...]:
        clock = r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:]|\.\d)(?: ?h\b)?"
        return (
            rule(rf"(?<=[\dmM]){_DASH}(?=\d{{1,2}}(?::[0-5]\d|\s?[AaPp]\.?[Mm]\b))", " to ", "-–—"),
            rule(
                r"(?<![\w:.,$£€])(1[0-2]|0?[1-9])\.([0-5]\d)(?=\s?[AaPp]\.?[Mm]\b)",
                lambda m: f"{m[1]}:{m[2]}",
                ".",
            ),
            rule(
                rf"(?<!\w)({alternatives(words.BIBLE)})\.? (\d{{1,3}}):([1-9]\d{{0,2}})(?![\w:])",
                lambda m: f"{words.BIBLE[m[1]]} {m[2]} {m[3]}",
                ":",
            ),
            rule(
                r"(?:(?<=won )|(?<=lost )|(?<=score )|(?<=victory ))(\d{1,3}):(?=\d)",
                lambda m: f"{m[1]} to ",
                ":",
            ),
            rule(rf"(?<![\w:.,$£€]){clock}(?:\s?{_HALF})?", self._time, ":"),
            rule(
                r"(?<![\w:.,$£€])(\d{2}):(0\d)(?![\w:]|[.,]\d)",
                lambda m: f"{self._numbers.cardinal(m[1])} {self._minutes(m[2])}",
                ":",
            ),
            rule(
                r"(?<!\w)(?P<hour>[01]?\d|2[0-3])h(?P<minute>[0-5]\d)(?!\w)",
                lambda m: self._clock(m["hour"], m["minute"], None),
                "h",
            ),
            rule(
                r"(?<![\w.:])()(\d{1,3})m\s?([0-5]?\d)s(?!\w)|(?<![\w°])()(\d{1,2})' ?(1[2-9]|[2-5]\d)\"",
                self._duration,
                "m'",
            ),
            rule(rf"(?<![\w:.,$£€])(?P<hour>1[0-2]|0?[1-9])\s?{_HALF}", self._hour, DIGITS),
            rule(
                r"(?<![\w.:])(\d{1,3})h\s?([0-5]?\d)(?:m|min)(?:\s?([0-5]?\d)s)?(?!\w)",
                self._duration,
                "h",
            ),
            rule(rf"{NUMBER_START}({NUMBER})\s?:\s?(?={NUMBER})", lambda m: f"{m[1]} to ", ":"),
        )

    def _clock(self, hour: str, minute: str, second: str | None, *, exact: bool = True) -> str:
        """Words for a time of day without its half; `exact`: also seconds that are zero."""
        number = int(hour)
        spoken = f"{self._numbers.cardinal(str(number))} "
        if second is not None and (exact or second != "00"):
            return f"{spoken}{self._minutes(minute)} {self._minutes(second)}"
        if minute != "00":
            return spoken + self._minutes(minute)
        if number in (0, 24):
            return "midnight"
        return spoken + ("hundred" if number > 12 else "o'clock")

    def _minutes(self, minutes: str) -> str:
        if minutes == "00":
            return "oh oh"
        return "oh " * (minutes[0] == "0") + self._numbers.cardinal(str(int(minutes)))

    def _time(self, match: Match) -> str:
        if not match["half"]:
            return self._clock(match["hour"], match["minute"], match["second"])
        hour = self._numbers.cardinal(str(int(match["hour"])))
        late = [self._minutes(part) for part in (match["minute"], match["second"]) if part]
        if late[-1] == "oh oh" and len(late) == 1:
            late = []
        return " ".join([hour, *late, self._half(match)])

    def _hour(self, match: Match) -> str:
        return f"{self._numbers.cardinal(str(int(match['hour'])))} {self._half(match)}"

    @staticmethod
    def _half(match: Match) -> str:
        """In capitals, which G2P reads as letters."""
        return match["half"][0].upper() + "M" + _stop(match)

    def _duration(self, match: Match) -> str:
        groups = match.groups()[-3:] if match.groups()[-1] else match.groups()[:3]
        names = zip(groups, ("hour", "minute", "second"), strict=True)
        return " ".join(self._counted_unit(value, name) for value, name in names if value)

    # ------------------------------------------------------------------ numbers that are names

    def _groups(self) -> tuple[Rule, ...]:
        return (
            rule(
                r"(?<![\w-])[\da-fA-F]{8}-(?:[\da-fA-F]{4}-){3}[\da-fA-F]{12}(?![\w-])",
                self._code,
                "-",
            ),
            rule(
                r"(?<![\w.-])(7[0-8]7)-(?=[1-9](?:00)?(?:ER|LR)?(?!\w))",
                lambda m: self._paired(m[1]) + " ",
                "-",
            ),
            rule(r"(?<![\w.])555 \d{4}(?![\w-]|[.,]\d)", self._phone, "5"),
            rule(r"(?<![\w.-])([A-Za-z]{1,3}\d{1,4})-(?=\d{2,5}[A-Z])", lambda m: m[1] + " ", "-"),
            rule(
                r"(?i:(?<=\bzip )|(?<=\bzip code )|(?<=\bpin )|(?<=\bcode ))\d{4,6}(?![\w-]|[.,]\d)"
                r"|(?<=\b[A-Z]{2} )\d{5}(?![\w-]|[.,]\d)|(?i:(?<=call )|(?<=dial ))911(?![\w-])",
                self._code,
                DIGITS,
            ),
            rule(
                r"(?<![\w.,])\d{1,3}(?:[. \u00a0\u202f]\d{3}){1,8}+,\d\d?(?![\w,]|\.\d)",
                lambda m: re.sub(r"[.\s]", "", m[0]).replace(",", "."),
                ",",
            ),
            rule(
                rf"(?<![\w.,])(\d{{1,3}}),(\d)(?= ?(?:{_UNITS})(?!\w))",
                lambda m: f"{m[1]}.{m[2]}",
                ",",
            ),
            rule(
                r"(?<!\w)\(0\d\) \d{4} \d{4}(?!\w)|(?<![\w.-])07\d{3} \d{6}(?!\w)", self._phone, "0"
            ),
            rule(
                r"(?<![\w.,])\d{1,3}(?:(?: \d{3}){2,8}+| 000)(?![\w.,-]\d|\w)",
                lambda m: m[0].replace(" ", ""),
                DIGITS,
            ),
            rule(
                r"(?<![\w.])\+\d{1,15}+(?:[ .-]?\(\d{1,5}\)|[ .-]\d{1,8}+|(?<=\))\d{1,8}+){0,7}+(?!\w)",
                self._phone,
                "+",
            ),
            rule(
                r"(?<![\w.-])(?:1[-. ])?(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-]|\.\d)",
                self._phone,
                "-. ",
            ),
            rule(r"(?<![\w.-])1-\d{3}-(?=[A-Z]{3})", lambda m: self._phone(m) + ", ", "-"),
            rule(r"(?<![\w.$£€-])\d{3}-\d{4}(?![\w-]|[.,]\d)", self._short_phone, "-"),
            rule(r"(?<![\w.-])0\d{2,4}(?:[ -]\d{3,4}){1,3}+(?![\w-])", self._phone, "- "),
            rule(r"(?<![\w-])\d{3}-\d{2}-\d{4}(?![\w-])", self._phone, "-"),
            rule(r"(?<![\w-])\d{4}(?:[ -]\d{4}){3}(?![\w-])", self._phone, "- "),
            rule(r"(?<![\w-])\d{1,5}(?:-\d{1,7}){3,6}(?![\w-])", self._phone, "-"),
            rule(
                r"(?<![\w.,-])\d{1,6}(?:-\d{1,6}){2,}+(?![\w-])",
                lambda m: m[0].replace("-", " "),
                "-",
            ),
            rule(
                r"(?:(?<!\w)(?P<word>[Vv]ersions? )?(?P<v>[vV]\.? ?)?)?(?<!\d)(?<!\d\.)"
                r"(?P<parts>\d{1,6}(?:\.\d{1,6}){2,})(?!\d)",
                self._version,
                ".",
            ),
            rule(r"(?<![\w.])(?:v\.?(?=\d)|V(?=\d+\.\d))", "version ", "vV"),
            rule(r"(?<!\w)0x(?=[\da-fA-F])", "zero x ", "x"),
            rule(
                r"(?<!\w)1(?:0{1,3}|,000)s(?= of\b)",
                lambda m: ("tens", "hundreds", "thousands")[m[0].count("0") - 1],
                "0",
            ),
            rule(r"(?<!\w)401\(?[kK]\)?(?!\w)", "four oh one K", "4"),
        )

    def _code(self, match: Match) -> str:
        """Letters and digits one by one."""
        return " ".join(
            self._numbers.digits(c) if c.isdigit() else c.upper() for c in match[0] if c != "-"
        )

    def _phone(self, match: Match) -> str:
        groups = re.findall(r"\d+", match[0])
        if match[0][0] == "+" and sum(map(len, groups)) < 8:
            return match[0]
        plus = "plus " if match[0][0] == "+" else ""
        return plus + ", ".join(map(self._numbers.digits, groups))

    def _short_phone(self, match: Match) -> str:
        """555-0123; two round numbers are a range."""
        return match[0] if match[0][1:3] == match[0][-2:] == "00" else self._phone(match)

    def _version(self, match: Match) -> str:
        parts = match["parts"].split(".")
        if match[0] == match["parts"] and [len(part) for part in parts[1:]] == [3, 3]:
            return "".join(parts)  # thousands as most of Europe writes them
        joint = " dot " if len(parts) == 4 else " point "
        spoken = joint.join(map(self._numbers.cardinal, parts))
        if match["word"]:
            return match["word"] + spoken
        return f"version {spoken}" if match["v"] else spoken

    # ------------------------------------------------------------------ money

    def _money(self) -> tuple[Rule, ...]:
        codes = alternatives(_CODES)
        minus = r"(?:(?<![\w)])(?P<minus>-) ?)?"
        other = _SIGN.replace("?P<sign>", "?:")
        until = rf"(?:{_DASH}(?:{other})?(?P<to>{NUMBER}))?"
        per = rf"(?:/(?P<per>{alternatives(words.PER)})(?!\w))?"
        amount = rf"(?P<amount>\d++,\d\d(?!\d|,\d)|{NUMBER})"
        before = rf"(?:(?<!\w)(?P<code>{codes})|{_SIGN})"
        return (
            rule(rf"(?<=\d[kKmMbBtT]){_DASH}(?={other}\d)", " to ", "-–—"),
            rule(
                rf"{minus}{before} ?(?P<late>-(?=[\d.]))?{amount}{until}(?:{_MONEY_SIZE})?{per}(?:[sp](?!\w))?",
                self._amount,
                DIGITS,
            ),
            rule(
                rf"{minus}{NUMBER_START}{amount}{until}(?:{_MONEY_SIZE})?"
                rf" ?(?:(?P<code>{codes})(?!\w)|{_SIGN}(?!\d)){per}",
                self._amount,
                DIGITS,
            ),
        )

    def _amount(self, match: Match) -> str:
        per = f" per {self._spelled(words.PER[match['per']])}" if match["per"] else ""
        return self._price(match) + per

    def _price(self, match: Match) -> str:
        found = match.groupdict()
        one, many, cent, cents = words.CURRENCIES[found["code"] or found["sign"]]
        amount, until = found["amount"], found.get("to")
        size = (found["size"] or "").lower() or words.SIZES.get((found["short"] or "").lower(), "")
        minus = "minus " if found["minus"] or found.get("late") else ""
        if re.fullmatch(r"\d+,\d\d", amount):
            amount = amount.replace(",", ".")
        whole, _, part = amount.replace(",", "").partition(".")
        hyphened = "-" + (found["size"] or " ") in match[0]
        single = hyphened or _counts_one(match) or _HYPHENED.match(_after(match)) is not None
        if size or until or len(part) != 2 or not cent:
            value = self._value(amount) + (f" to {self._value(until)}" if until else "")
            exactly_one = amount == "1" and not until and not size
            return f"{minus}{value} {size + ' ' if size else ''}{one if single or exactly_one else many}"
        spoken = []
        if int(whole or 0) or not int(part):
            unit = one if single or whole == "1" else many
            spoken.append(f"{self._numbers.cardinal(whole or '0')} {unit}")
        if int(part):
            value = self._numbers.cardinal(str(int(part)))
            spoken.append(f"{value} {cent if single or int(part) == 1 else cents}")
        return minus + " and ".join(spoken)

    # ------------------------------------------------------------------ formulas and quantities

    def _formulas(self) -> tuple[Rule, ...]:
        return (
            rule(
                rf"{NUMBER_START}(\d+(?:\.\d+)?)[eE]([-+]?)(\d{{1,3}})(?!\w)",
                self._scientific,
                "eE",
            ),
            rule(r"(?<=[A-Za-z])~(\d{1,3})~", lambda m: f" {m[1]} ", "~"),
            rule(
                r"(?<=[\w)])(?:\^\(?([-+]?\d{1,9})\)?|([⁺⁻]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,9}))",
                self._power,
                "^⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹",
            ),
            rule(r"(?<!\w)(?:CO|NO|SO|NH|CH)(?=[2-4₂-₄])", lambda m: " ".join(m[0]) + " "),
            rule(r"[⁰¹²³⁴⁵⁶⁷⁸⁹₀-₉⁺⁻]+", lambda m: f" {m[0].translate(_LOWERED)} "),
            rule(r"(?<=\d)/(?=\d++\s?=)", " divided by ", "/"),
            rule(r"(?<=\d)[x×](?= [a-z])", " times", "x×"),
            rule(r"(?<=[\w)])(?: - |-)(?=(?:\d++(?:\.\d++)?|[a-z])(?!\w))", self._minus, "="),
            rule(
                r"(?<!\w)(\d{3,4})x(\d{3,4})(?!\w)",
                lambda m: f"{self._paired(m[1])} by {self._paired(m[2])}",
                "x",
            ),
            rule(
                r"(?<=\d)( ?(?:[cdmk]?m|in|ft|px|yd)) ?[x×] ?(?=\d)",
                lambda m: f"{m[1]} by ",
                "x×",
            ),
            rule(
                r"(?<=\d)\s?x\s?(?=\d)",
                lambda m: " times " if "=" in m.string else " by ",
                "x",
            ),
            rule(r"(?<=[a-z]{2})\*([a-z]{2,20})\*(?=[a-z]{2})", lambda m: m[1], "*"),
            rule(r"\^_{1,9}\^|\^(?=\s?(?:[|,.;)]|\Z))", " ", "^"),
            rule(r"(?<=\w)\*\*(?=\d)", " to the power of ", "*"),
            rule(r"(?<=[\w)])(?:\*| \* )(?=[\w(])", " times ", "*"),
        )

    @staticmethod
    def _minus(match: Match) -> str:
        """A hyphen is a minus in an equation, and a range without one."""
        before = _before(match, 2)
        word = before.isalpha() and len(before) == 2
        return match[0] if word else " minus "

    def _scientific(self, match: Match) -> str:
        minus = "minus " if match[2] == "-" else ""
        power = self._numbers.cardinal(str(int(match[3])))
        return f"{self._value(match[1])} times ten to the power of {minus}{power}"

    def _power(self, match: Match) -> str:
        power = match[1] or match[2].translate(_LOWERED)
        sign = {"-": "minus ", "+": "plus "}.get(power[0], "")
        digits = power.lstrip("+-")
        if match[2] and _LONG_WORD.search(_before(match)):
            spoken = digits  # the number of a footnote
        elif not sign and digits in ("2", "3"):
            spoken = "squared" if digits == "2" else "cubed"
        else:
            spoken = f"to the power of {sign}{self._numbers.cardinal(digits)}"
        return f" {spoken}" + " " * _after(match, 1).isalnum()

    def _quantities(self) -> tuple[Rule, ...]:
        unit = rf"(?P<unit>{_UNITS})"
        power = r"(?P<power>[²³]|\^[23](?!\d)| squared| cubed)?"
        per = rf"(?:/(?P<per>{alternatives(words.PER)})(?!\w))?"
        end = r"(?![\w/²³^]|\.\w|'[a-z])"
        return (
            rule(r"(?<=\d{3}0s)\s?[-–]\s?'?(?=\d0s(?!\w))", " to the ", "-–"),
            rule(
                rf"{NUMBER_START}(?P<low>{NUMBER})[-–—](?P<amount>{NUMBER})(?P<space>[ ]?){unit}{power}{per}{end}",
                self._measured,
                "-–—",
            ),
            rule(r"(\d(?:%|°[CF]?|[a-zA-Z]{1,3}))[-–—](?=\d)", lambda m: f"{m[1]} to ", "-–—"),
            rule(r"(?<=\d)(?:\s?[–-]\s?|—|\.\.)(?=\.?\d)", " to ", "-–—."),
            rule(r"(?<![\w)%°'\"])-(?=\.?\d)", "minus ", "-"),
            rule(r"(?<![\w)+])\+(?=\.?\d)", "plus ", "+"),
            rule(r"~\s?(?=[\d.])", "about ", "~"),
            rule(
                r"(?<=\d) ?in\b\.?(?= (?:wide|tall|long|high|deep|thick|by|x|of (?:rain|snow))\b)",
                " inches",
                "n",
            ),
            rule(
                r"(?<![\w.])(\d{1,3})°\s?(\d{1,2})'\s?(?:(\d{1,2})\"\s?)?([NSEW]?)(?!\w)",
                self._arc,
                "°",
            ),
            rule(
                r"(?<![\w.])(\d{1,3})' ?(\d|1[01])(?:\"|'')|(?<![\w.])([4-7])'(\d|1[01])(?![\w'])",
                self._height,
                "'",
            ),
            rule(
                rf"{NUMBER_START}({NUMBER})'(?= (?:tall|long|wide|high|deep|by|x)\b)"
                rf"|(?:(?<= by )|(?<= x ))({NUMBER})'(?!\w)",
                lambda m: self._counted_unit(m[1] or m[2], "foot", single=_counts_one(m)),
                "'",
            ),
            rule(r"(?:(?<=\d/\d)|(?<=/\d\d))\"", self._fraction_of_inch, '"'),
            rule(rf"{NUMBER_START}({NUMBER})\"", self._inches, '"'),
            rule(
                r"(?<=\d/\d) ?(tsp|tbsp|oz|lbs?|mi|km|gal)(?!\w)\.?",
                lambda m: " " + words.UNITS[m[1]] + _stop(m),
                "/",
            ),
            rule(
                rf"(?<= per )({alternatives(words.PER_UNITS)})(?!\w)",
                lambda m: self._spelled(words.UNITS[m[1]]),
                "p",
            ),
            rule(
                r"(?<![\w./])(\d{1,3})/(5|10|100)(?= (?:stars?|points?|dentists|doctors|people)\b)"
                r"|(?<![\w/])(\d{1,3}\.\d)/(\d{1,3})(?![\w/]|\.\d)",
                lambda m: f"{m[1] or m[3]} out of {m[2] or m[4]}",
                "/",
            ),
            rule(r"(?<=\d)A(?= (?:fuse|current|charger|breaker|circuit)\b)", " amp", "A"),
            rule(r"(?<![\w.])(\d{1,2})p(?!\w)", lambda m: f"{m[1]} pence", "p"),
            rule(
                rf"{NUMBER_START}(?P<whole>\d{{1,3}})[ -](?P<top>[1-9]\d?)/(?P<below>[1-9]\d{{0,2}})(?![\w/])",
                self._mixed,
                "/",
            ),
            rule(
                rf"{NUMBER_START}(?<!/)(?P<top>\d{{1,3}}) ?/ ?(?P<below>[1-9]\d{{0,3}})(?:(?:th|rd)s?)?(?![\w/]|\.\d)",
                self._fraction,
                "/",
            ),
            rule(r"(?<!\w)'?(?P<century>\d{2})?(?P<decade>\d0)'?s(?!\w)", self._decade, "s"),
            rule(
                rf"{NUMBER_START}(?P<amount>{NUMBER})(?P<space>[ -]?){unit}{power}{per}(?:\.(?= [a-z]))?{end}",
                self._measured,
                DIGITS,
            ),
            rule(r"(?<=\d)M(?!\w)", " million", "M"),
            rule(r"(?<=\d)bn(?!\w)", " billion", "b"),
        )

    def _height(self, match: Match) -> str:
        feet, inches = match[1] or match[3], match[2] or match[4]
        return f"{self._numbers.cardinal(feet)} foot {self._numbers.cardinal(inches)}"

    def _arc(self, match: Match) -> str:
        """A place on the globe."""
        names = zip(match.groups()[:3], ("degree", "minute", "second"), strict=True)
        parts = [self._counted_unit(value, name) for value, name in names if value]
        parts += filter(None, [words.COMPASS.get(match[4])])
        return " ".join(parts)

    def _inches(self, match: Match) -> str:
        """A sign that closes no quotation is inches."""
        if len(_OPEN_QUOTE.findall(_before(match, 200))) % 2:
            return match[0]
        return self._counted_unit(match[1], "inch", single=_counts_one(match))

    @staticmethod
    def _fraction_of_inch(match: Match) -> str:
        return match[0] if len(_OPEN_QUOTE.findall(_before(match, 200))) % 2 else " inch"

    def _mixed(self, match: Match) -> str:
        top, below = match["top"], match["below"]
        if int(top) >= int(below):
            return match[0]
        one = "" if top != "1" else "a " if below in ("2", "4") else "one "
        return f"{self._numbers.cardinal(match['whole'])} and {one}{self._part(top, below)}"

    def _fraction(self, match: Match) -> str:
        top, below = match["top"], match["below"]
        if top == below:
            return f"{top} out of {below}"
        if int(top) >= int(below) or (len(below) > 2 and below not in ("100", "1000")):
            return f"{top} {'divided by' if ' / ' in match[0] else 'slash'} {below}"
        return ("one " if top == "1" else "") + self._part(top, below)

    def _part(self, top: str, below: str) -> str:
        name = {"2": "half", "4": "quarter"}.get(below) or self._numbers.ordinal(below)
        name = name.removeprefix("one ")
        if top == "1":
            return name
        return f"{self._numbers.cardinal(top)} {'halves' if name == 'half' else name + 's'}"

    def _decade(self, match: Match) -> str:
        century, decade = match["century"], match["decade"]
        if not century and match[0][0] != "'" and not _PERIOD.search(_before(match)):
            return match[0]  # seconds
        if century and not 11 <= int(century) <= 20:
            return match[0]
        year = self._numbers.year(century + decade) if century else self._numbers.cardinal(decade)
        return year[:-1] + "ies" if year.endswith("y") else year + "s"

    def _measured(self, match: Match) -> str:
        unit = match["unit"]
        if unit in words.ONLY_CLOSE and match["space"] and not match["per"]:
            return match[0]
        if match["space"] == "-" and (len(unit) == 1 or not unit.isalpha()):
            return match[0]
        name = words.UNITS[unit]
        power = match["power"]
        if power:
            name = ("square " if power in ("²", "^2", " squared") else "cubic ") + name
        turned = unit == "°" and _TURN.match(_after(match)) is not None
        single = match["space"] == "-" or turned or _counts_one(match)
        low = match.groupdict().get("low")
        per = f" per {words.PER[match['per']]}" if match["per"] else ""
        spoken = self._spelled(self._counted_unit(match["amount"], name, single=single) + per)
        return f"{self._value(low)} to {spoken}" if low else spoken

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

    # ------------------------------------------------------------------ all other numbers

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

    def _paired(self, digits: str) -> str:
        """Rows and columns of a picture: ten eighty."""
        if digits.endswith("00"):
            return self._numbers.cardinal(digits)
        return f"{self._numbers.cardinal(digits[:-2])} {self._minutes(digits[-2:])}"

    def _ordinal(self, match: Match) -> str:
        return self._numbers.ordinal(re.sub(r"\D", "", match[0]))

    def _bare(self, match: Match) -> str:
        """Four digits without a comma are read in pairs, unless they count something.

        "It costs 1500" is "fifteen hundred", as misaki says it; "1500 people" and "1,500" are
        "one thousand five hundred".
        """
        before = _before(match)
        counts = match["noun"] and not _DATED.search(before)
        number = int(match[1])
        early = number == 1000 or (number < 1100 and not _YEAR_BEFORE.search(before))
        return self._numbers.cardinal(match[1]) if counts or early else self._numbers.year(match[1])

    def _value(self, number: str) -> str:
        """A quantity as it is written."""
        whole, dot, part = number.replace(",", "").partition(".")
        return self._numbers.decimal(whole, part) if dot else self._numbers.cardinal(whole)

    # ------------------------------------------------------------------ signs

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
