"""English dates and times. Core."""

from __future__ import annotations

import re

from engine.text.normal import english_words as words
from engine.text.normal.english_base import DASH, Rules, own_stop, text_after, text_before
from engine.text.normal.rules import DIGITS, NUMBER, NUMBER_START, Match, Rule, alternatives, rule

#: lower case only where it is no other word
_MONTH_NAMES = [*words.MONTHS, *(m.lower() for m in words.MONTHS if m not in ("March", "May"))]
_MONTH = rf"(?P<month>{alternatives(_MONTH_NAMES)}|(?:{alternatives(words.MONTH_OF)})\b\.?)"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])"
_YEAR = r"(?P<year>(?:1\d|20)\d\d)"
_TH = r"(?:st|nd|rd|th)?"
#: AM or PM; a dot of its own is part of it, one after "PM" is the sentence's
_HALF = r"(?P<half>[AaPp](?:[Mm]\b|\.\s?[Mm]\b\.?))"
_ON = re.compile(r"\b(?:on|due|until|till|since|dated) \Z", re.I)
_MEASURES = re.compile(r" (?!(?:at|and|or|in|to|from|we|I|he|she|it|they)\b)[a-z]")
#: above twelve, of fractions that are written
_DENOMINATORS = (15, 16, 20, 24, 30)
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


def _is_day(day: int, month: int) -> bool:
    """Whether a year may have it."""
    return 1 <= month <= 12 and 1 <= day <= _MONTH_DAYS[month - 1]


class Dates(Rules):
    """Dates and times as words."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return (*self._dates(), *self._times())

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
                rf"(?<![\w.,/:-])(?<!the ){_DAY}{_TH}(?:{DASH}| to )"
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
                rf"(?<!\w){_MONTH} {_DAY}{_TH}{DASH}(?P<to>[12]\d|3[01]|0?[1-9]){_TH}{after}(?![\w:/-]|[.,]\d)",
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
        return date.removeprefix("the ") if text_before(match, 4).lower() == "the " else date

    def _year_and_month(self, match: Match) -> str:
        """2024-03; 2004-05 are two years."""
        if int(match[3]) > int(match[2]):
            return f"{self._year(match[1])} to {self._minutes(match[3])}"
        return f"{words.MONTHS[int(match[3]) - 1]} {self._year(match[1])}"

    def _day_of_month(self, match: Match) -> str:
        """12/25, where it can hardly be a fraction."""
        one, two = int(match[1]), int(match[2])
        day, month = (one, two) if self._british else (two, one)
        told = _ON.search(text_before(match)) and not _MEASURES.match(text_after(match))
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
        the = "" if " of " in match[0] or text_before(match).endswith("the ") else "the "
        year = f" {self._year(match['year'])}" if match["year"] else ""
        return f"{the}{day} of {month}{year}"

    def _month_and_year(self, match: Match) -> str:
        return f"{self._month_name(match)} {self._year(match['year'])}"

    def _times(self) -> tuple[Rule, ...]:
        clock = r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?(?![\d:]|\.\d)(?: ?h\b)?"
        return (
            rule(rf"(?<=[\dmM]){DASH}(?=\d{{1,2}}(?::[0-5]\d|\s?[AaPp]\.?[Mm]\b))", " to ", "-–—"),
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
        return match["half"][0].upper() + "M" + own_stop(match)

    def _duration(self, match: Match) -> str:
        groups = match.groups()[-3:] if match.groups()[-1] else match.groups()[:3]
        names = zip(groups, ("hour", "minute", "second"), strict=True)
        return " ".join(self._counted_unit(value, name) for value, name in names if value)
