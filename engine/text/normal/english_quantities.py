"""English formulas, and quantities with their units. Core."""

from __future__ import annotations

import re

from engine.text.normal import english_words as words
from engine.text.normal.english_base import (
    UNITS,
    Rules,
    counts_one,
    own_stop,
    text_after,
    text_before,
)
from engine.text.normal.rules import DIGITS, NUMBER, NUMBER_START, Match, Rule, alternatives, rule

_TURN = re.compile(r" (?:angle|turn|rotation|bend)s?\b")
_PERIOD = re.compile(r"\b(?:the|early|mid|late|his|her|my|your|our|their)[ -]\Z", re.I)
_LOWERED = str.maketrans("⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "+-01234567890123456789")
_LONG_WORD = re.compile(r"[^\W\d_]{3,}\Z")
_OPEN_QUOTE = re.compile(r'(?<!\d)"')


class Quantities(Rules):
    """Formulas and quantities as words."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return (*self._formulas(), *self._quantities())

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
        before = text_before(match, 2)
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
        if match[2] and _LONG_WORD.search(text_before(match)):
            spoken = digits  # the number of a footnote
        elif not sign and digits in ("2", "3"):
            spoken = "squared" if digits == "2" else "cubed"
        else:
            spoken = f"to the power of {sign}{self._numbers.cardinal(digits)}"
        return f" {spoken}" + " " * text_after(match, 1).isalnum()

    def _quantities(self) -> tuple[Rule, ...]:
        unit = rf"(?P<unit>{UNITS})"
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
                lambda m: self._counted_unit(m[1] or m[2], "foot", single=counts_one(m)),
                "'",
            ),
            rule(r"(?:(?<=\d/\d)|(?<=/\d\d))\"", self._fraction_of_inch, '"'),
            rule(rf"{NUMBER_START}({NUMBER})\"", self._inches, '"'),
            rule(
                r"(?<=\d/\d) ?(tsp|tbsp|oz|lbs?|mi|km|gal)(?!\w)\.?",
                lambda m: " " + words.UNITS[m[1]] + own_stop(m),
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
        if len(_OPEN_QUOTE.findall(text_before(match, 200))) % 2:
            return match[0]
        return self._counted_unit(match[1], "inch", single=counts_one(match))

    @staticmethod
    def _fraction_of_inch(match: Match) -> str:
        return match[0] if len(_OPEN_QUOTE.findall(text_before(match, 200))) % 2 else " inch"

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
        if not century and match[0][0] != "'" and not _PERIOD.search(text_before(match)):
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
        turned = unit == "°" and _TURN.match(text_after(match)) is not None
        single = match["space"] == "-" or turned or counts_one(match)
        low = match.groupdict().get("low")
        per = f" per {words.PER[match['per']]}" if match["per"] else ""
        spoken = self._spelled(self._counted_unit(match["amount"], name, single=single) + per)
        return f"{self._value(low)} to {spoken}" if low else spoken
