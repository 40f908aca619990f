"""The rules of Spanish, French, Italian and Portuguese, in their order. Core.

They differ in words, not in how numbers are written: a comma before decimals, dots or spaces
between thousands, days before months, and years that are quantities.
"""

from __future__ import annotations

import re

from engine.text.normal.romance_words import Tongue
from engine.text.normal.rules import DIGITS, Match, Rule, alternatives, at_end, rule
from engine.text.normal.web import Signs, split_camel
from engine.text.numbers import Numbers, of_roman

#: thousands by dot or space, decimals by comma; or plain, with decimals by comma or dot. After a
#: space a number may begin again, so that only so many groups may be read
_NUMBER = (
    r"(?:\d{1,3}(?:(?:\.\d{3})++|(?:[ \u00a0\u202f]\d{3}){1,4}+)(?!\d)(?:,\d++)?|\d++(?:[.,]\d++)?)"
)
_START = r"(?<!\w)(?<!\d[.,])"
_GROUPED = re.compile(r"\d{1,3}(?:[.\s]\d{3})+(?:,\d+)?")
_THOUSAND = {"es": "mil", "fr-fr": "mille", "it": "mila", "pt-br": "mil"}
_SIZES = (
    r"(?P<size>mille|mila|mil|k|M|milh(?:ão|ões)|mill(?:ón|ones)|millions?|milion[ei]"
    r"|milliards?|miliard[oi]|bilh(?:ão|ões))"
)
_FEMININE = re.compile(r" ?[^\W\d_]+as?\b")
#: masculine nouns in a that are counted often
_MASCULINE = re.compile(
    r" ?(?:día|dia|dias|días|problema|sistema|programa|mapa|tema|quilograma|grama)s?\b"
)
_FEMININE_NOUNS = frozenset({"livre", "heure", "seconde", "minute", "tonne", "livres", "heures"})
_COUNTS_ONE = re.compile(r"(?:\A|[^1])1\Z")
_MILLIONS = re.compile(
    r"(?:millón|millones|millions?|milion[ei]|milhão|milhões|milliards?|miliard[oi])\Z"
)
_NOUN = re.compile(r" [^\W\d_]{3,}")
#: in all four languages
_CHAPTERS = (
    "(?i:capítulos?|chapitres?|capitol[oi]|tomos?|tomes?|volumes?|volumen|act[oe]s?|atto|partes?"
    "|partie|sección|section|sezione|seção|título|titre|titolo|fase|tipo|type)"
)
_COUNTED = rf"(?:{_CHAPTERS}|(?i:siglos?|séculos?))"
#: queens, and the World Wars
_FEMININE_NAMES = (
    *("Isabel", "María", "Maria", "Elisabetta", "Caterina", "Catarina", "Catalina", "Juana"),
    *("Mundial", "Mondiale"),
)
_RULERS = (
    "(?:Felipe|Filipe|Carlos|Carlo|Charles|Alfonso|Afonso|Fernando|Pedro|Enrique|Henri|Philippe"
    "|Juan|João|Pío|Pio|Benedicto|Benedetto|Francisco|François|Napoleón|Napoléon|Napoleone|Umberto"
    f"|{'|'.join(_FEMININE_NAMES)})"
)
_LOW = "⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉"
_FEMININE_ORDINALS = ("ª", "re", "ère", "nde")


class Romance:
    """Makes the rules of one of the four.

    Args:
        tongue: its words.
    """

    def __init__(self, tongue: Tongue) -> None:
        self._words = tongue
        self._numbers = Numbers(tongue.language, tongue.comma, whole_decimals=True)
        self.signs = Signs(tongue.address, tongue.hashtag)

    def rules(self) -> tuple[Rule, ...]:
        """After `marks.PRELUDE` and `web.web`, before `marks.FINISH`."""
        say = self._words
        units, months = alternatives(say.units), alternatives(say.months)
        codes = alternatives(say.currencies)
        size = rf"(?: ?{_SIZES}\b(?: de\b| d')?)?"
        dash = r"\s?[-–]\s?"
        return (
            rule(rf"(?<!\w)(?:{alternatives(say.abbreviations)})(?!\w)", self._abbreviation),
            rule(
                r"(?<![\w.])((?:[^\W\d_]\.){2,})",
                lambda m: m[0].replace(".", "") + "." * at_end(m),
                ".",
            ),
            rule(
                rf"(?<!\w)(?P<word>{_COUNTED} |{_RULERS} |[A-ZÀ-Ý][a-zà-ÿ]{{2,20}} (?=[IVX]{{2}}))"
                r"(?P<roman>[IVX]{1,7})(?!\w|'\w)",
                self._roman,
                "IVX",
            ),
            rule(r"(?<!\w)(?P<roman>[IVX]{1,7})(?= secolo\b)", self._century, "IVX"),
            rule(r"(?<!\w)(?P<roman>[IVX]{1,7})(?:ème|er|re|e)(?!\w)", self._century, "IVX"),
            rule(r"(?<!\w)[a-z]{2,}+(?:[A-Z]++[a-z0-9]*+)+(?!\w)", lambda m: split_camel(m[0])),
            rule(
                r"(?<![\w-])(?P<year>\d{4})-(?P<month>0[1-9]|1[0-2])-(?P<day>[0-3]\d)(?![\w-])",
                self._date,
                "-",
            ),
            rule(
                r"(?<![\w/.-])(?P<day>\d{1,2})([/.-])(?P<month>\d{1,2})\2(?P<year>\d{4})(?![\w/-])",
                self._date,
                "/.-",
            ),
            rule(rf"(?<![\w.,])1(?:er|º|°|ro)?(?= (?:de )?(?:{months})\b)", say.first, "1"),
            rule(
                r"(?<![\w:.,])(?P<hour>[01]?\d|2[0-4])(?::(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d))?| ?h ?(?P<late>[0-5]\d))(?![\w:])h?",
                self._time,
                ":h",
            ),
            rule(r"(?<=\d)\s?:\s?(?=\d)", say.until, ":"),
            rule(
                r"(?<![\w.])\+\d{1,15}+(?:[ .-]\(?\d{1,4}+\)?|\(\d{1,4}\)){1,6}+(?!\w)",
                self._phone,
                "+",
            ),
            rule(r"(?<![\w.-])0\d(?:[ .]\d\d){4}(?!\w)", self._phone, "0"),
            rule(r"(?<![\w.])[vV]?\d{1,6}(?:\.\d{1,6}){2,}(?!\d)", self._version, "."),
            rule(
                rf"(?:(?<![\w)])(?P<minus>-) ?)?(?P<sign>{codes}) ?(?P<amount>{_NUMBER}){size}",
                self._money,
                DIGITS,
            ),
            rule(
                rf"(?:(?<![\w)])(?P<minus>-) ?)?{_START}(?P<amount>{_NUMBER}){size} ?(?P<sign>{codes})(?!\w)",
                self._money,
                DIGITS,
            ),
            rule(rf"(?<=\d){dash}(?=\d)", say.until, "-–"),
            rule(r"(?<![\w)%°'\"])-(?=\d)", say.minus, "-"),
            rule(
                rf"{_START}(?P<amount>{_NUMBER}) ?(?P<unit>{units})(?P<power>[²³])?"
                rf"(?:/(?P<per>{units}))?(?![\w/]|'\w)",
                self._measured,
                DIGITS,
            ),
            rule(
                rf"(?<![\w.,])(\d{{1,9}})\.?({alternatives(say.ordinals)})s?(?!\w)",
                self._ordinal,
                DIGITS,
            ),
            rule(r"(?<![\w.,/])(\d{1,2})/(\d{1,2})(?![\w/])", self._fraction, "/"),
            rule(r"(?<=\w)[²³]", self._power, "²³"),
            rule(r"[⁰¹²³⁴⁵⁶⁷⁸⁹₀-₉]", lambda m: f" {_LOW.index(m[0]) % 10} "),
            rule(r"(?<=\d)-(?=[^\W\d_])|(?<=[^\W\d_])-(?=\d)", " ", "-"),
            rule(r"\d(?=[^\W\d_])|[^\W\d_](?=\d)", lambda m: m[0] + " ", DIGITS),
            rule(rf"{_START}{_NUMBER}|\d+", self._plain, DIGITS),
            rule(r"(?<=[a-z])\.(?=[a-z_])", f" {say.address['.']} ", "."),
            rule(r"(?<=[\w)])(?:\*| \* )(?=[\w(])", f" {say.signs['×']} ", "*"),
            rule("[" + re.escape("".join(say.signs)) + "]", lambda m: f" {say.signs[m[0]]} "),
        )

    def _abbreviation(self, match: Match) -> str:
        stop = "." if match[0].endswith(".") and at_end(match) else ""
        return self._words.abbreviations[match[0]] + stop

    def _roman(self, match: Match) -> str:
        """Chapters are counted, kings and centuries have a place."""
        value, word = of_roman(match["roman"]), match["word"]
        if not value:
            return match[0]
        if value > self._words.ranked or re.fullmatch(_CHAPTERS, word.rstrip()):
            return word + self._numbers.cardinal(str(value))
        return word + self._rank(value, feminine=word.rstrip() in _FEMININE_NAMES)

    def _century(self, match: Match) -> str:
        """XIXe siècle, XIX secolo."""
        value = of_roman(match["roman"])
        if not value or (match[0] != match["roman"] and self._words.language != "fr-fr"):
            return match[0]
        return self._rank(value, feminine=match[0].endswith("Ire"))

    def _rank(self, value: int, *, feminine: bool) -> str:
        spoken = self._numbers.ordinal(str(value))
        if not feminine:
            return spoken
        return "première" if spoken == "premier" else re.sub(r"o\Z", "a", spoken)

    def _value(self, number: str) -> str:
        if _GROUPED.fullmatch(number):
            number = re.sub(r"[.\s]", "", number)
        whole, mark, part = number.replace(".", ",").partition(",")
        if not mark:
            return self._numbers.cardinal(whole)
        spoken = self._numbers.decimal(whole, part)
        if "." in number:
            dot = self._words.address["."]
            return spoken.replace(f" {self._words.comma} ", f" {dot} ", 1)
        return spoken

    def _before_noun(self, value: str, noun: str) -> str:
        """The same as it is said before what is counted: un, una."""
        masculine, feminine, alone = self._words.one
        gendered = _FEMININE.match(noun) and not _MASCULINE.match(noun)
        if gendered or noun.split()[0] in _FEMININE_NOUNS:
            if self._words.language == "pt-br":
                value = re.sub(r"dois\Z", "duas", value)
            return re.sub(rf"{alone}\Z", feminine, value)
        if value.endswith("veintiuno"):
            return value.removesuffix("uno") + "ún"
        return re.sub(rf"{alone}\Z", masculine, value)

    def _date(self, match: Match) -> str:
        day, month = int(match["day"]), int(match["month"])
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return match[0]
        first, second = self._words.day_of
        spoken = self._words.first if day == 1 else self._numbers.cardinal(str(day))
        year = self._numbers.cardinal(match["year"])
        return f"{spoken}{first}{self._words.months[month - 1]}{second}{year}"

    def _time(self, match: Match) -> str:
        hour, minute = int(match["hour"]), int(match["minute"] or match["late"])
        spoken = self._hour(hour)
        with_minutes, alone = self._words.hours
        one = hour == 1
        if minute == 0 and not match["second"]:
            return spoken + (alone.rstrip("s") if one else alone)
        spoken += with_minutes.rstrip("s") if one else with_minutes
        parts = [minute, *([int(match["second"])] if match["second"] else [])]
        joint = self._words.minute_joint
        return joint.join([spoken, *(self._numbers.cardinal(str(part)) for part in parts)])

    def _hour(self, hour: int) -> str:
        """Hours are feminine."""
        spoken = self._numbers.cardinal(str(hour))
        masculine, feminine, alone = self._words.one
        if hour in (1, 21):
            spoken = re.sub(rf"(?:{alone}|{masculine})\Z", feminine, spoken)
        if self._words.language == "pt-br":
            spoken = re.sub(r"dois\Z", "duas", spoken)
        return spoken

    def _phone(self, match: Match) -> str:
        groups = re.findall(r"\d+", match[0])
        plus = self._words.signs["+"] + " " if match[0][0] == "+" else ""
        return plus + ", ".join(map(self._numbers.digits, groups))

    def _version(self, match: Match) -> str:
        if _GROUPED.fullmatch(match[0]):
            return match[0]
        version = match[0].lstrip("vV")
        dot = f" {self._words.address['.']} "
        spoken = dot.join(map(self._numbers.cardinal, version.split(".")))
        return spoken if version == match[0] else f"{self._words.version} {spoken}"

    def _money(self, match: Match) -> str:
        one, many, cent, cents = self._words.currencies[match["sign"]]
        minus = self._words.minus if match["minus"] else ""
        amount, size = match["amount"], match["size"]
        if size in ("k", "mil", "mille", "mila"):
            return f"{minus}{self._value(amount)} {_THOUSAND[self._words.language]} {many}"
        if size:
            if size == "M":
                size = self._numbers.cardinal("1000000" if amount == "1" else "2000000").split()[-1]
            return f"{minus}{self._value(amount)} {size} {self._of(many)}"
        if _GROUPED.fullmatch(amount):
            amount = re.sub(r"[.\s]", "", amount)
        whole, _, part = amount.replace(".", ",").partition(",")
        if len(part) != 2 or not cent:
            unit = one if amount == "1" else many
            value = self._before_noun(self._value(amount), unit)
            return f"{minus}{value} {self._of(unit) if _MILLIONS.search(value) else unit}"
        spoken = []
        if int(whole) or not int(part):
            unit = one if whole == "1" else many
            value = self._before_noun(self._numbers.cardinal(whole), unit)
            spoken.append(f"{value} {self._of(unit) if _MILLIONS.search(value) else unit}")
        if int(part):
            unit = cent if int(part) == 1 else cents
            value = self._numbers.cardinal(str(int(part)))
            spoken.append(f"{self._before_noun(value, unit)} {unit}")
        return minus + self._words.joint.join(spoken)

    def _of(self, unit: str) -> str:
        """After millions."""
        of = self._words.of
        return ("de " if of == "d'" and unit[0] not in "aeiou" else of) + unit

    def _measured(self, match: Match) -> str:
        one, many = self._words.units[match["unit"]]
        name = one if match["amount"] in ("1", "-1") else many
        if match["power"]:
            square, cube = self._words.squared
            word = square if match["power"] == "²" else cube
            name += f" {self._agreed(word, name)}"
        if match["per"]:
            name += self._words.per + self._words.units[match["per"]][0]
        return f"{self._before_noun(self._value(match['amount']), name)} {name}"

    def _agreed(self, adjective: str, noun: str) -> str:
        if noun.endswith("i"):
            return adjective[:-1] + "i"
        return adjective + "s" if noun.endswith("s") else adjective

    def _ordinal(self, match: Match) -> str:
        spoken = self._numbers.ordinal(match[1])
        if match[2] == "er" and self._words.language == "es":  # primer, tercer
            return spoken.removesuffix("o")
        if match[2] not in _FEMININE_ORDINALS:
            return spoken
        if self._words.language == "fr-fr":
            return spoken.replace("premier", "première")
        return " ".join(re.sub(r"o\Z", "a", word) for word in spoken.split())

    def _fraction(self, match: Match) -> str:
        """Its parts, or both numbers."""
        top, below = int(match[1]), int(match[2])
        if match[0] == "1/2":
            return self._words.half
        if top < below and 3 <= below <= 10:
            third, quarter = self._words.parts
            part = {3: third, 4: quarter}.get(below) or self._numbers.ordinal(str(below))
            if top == 1:
                return f"{self._words.one[0]} {part}"
            many = part[:-1] + "i" if self._words.language == "it" else part.rstrip("s") + "s"
            return f"{self._numbers.cardinal(str(top))} {many}"
        return f"{match[1]} {self._words.signs['/']} {match[2]}"

    def _power(self, match: Match) -> str:
        return f" {self._words.raised['²³'.index(match[0])]} "

    def _plain(self, match: Match) -> str:
        """A number; before a noun, "uno" is shorter or feminine."""
        value = self._value(match[0])
        after = match.string[match.end() : match.end() + 24]
        if _NOUN.match(after) and (_COUNTS_ONE.search(match[0]) or value.endswith("dois")):
            return self._before_noun(value, after)
        return value
