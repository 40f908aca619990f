"""English money, and numbers that are names: of telephones, versions, codes. Core."""

from __future__ import annotations

import re

from engine.text.normal import english_words as words
from engine.text.normal.english_base import DASH, UNITS, Rules, counts_one, text_after
from engine.text.normal.rules import DIGITS, NUMBER, NUMBER_START, Match, Rule, alternatives, rule

_SIGN = rf"(?P<sign>(?:(?<!\w)(?:US|AU|CA|HK|NZ|Mex|A|C|S|R)|(?<![^\W\d_]))\$|[{re.escape('£€¥₹₩₿₽₺₴₦₱₪₫฿')}])"
_CODES = [code for code in words.CURRENCIES if code.isalpha()]
_MONEY_SIZE = (
    rf"(?:[ -]?(?P<size>(?i:{alternatives(words.SIZE_WORDS)}))\b"
    r"| ?(?P<short>(?i:bn|mn|tn|trn|mio|mm)|(?<=\d)[kKmMbBtT])(?!\w))"
)
_HYPHENED = re.compile(r"-(?:an?|per)-[a-z]")


class Names(Rules):
    """Numbers that are names."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return self._groups()

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
                rf"(?<![\w.,])(\d{{1,3}}),(\d)(?= ?(?:{UNITS})(?!\w))",
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


class Money(Rules):
    """Money as words."""

    def rules(self) -> tuple[Rule, ...]:
        """See `Rules`."""
        return self._money()

    def _money(self) -> tuple[Rule, ...]:
        codes = alternatives(_CODES)
        minus = r"(?:(?<![\w)])(?P<minus>-) ?)?"
        other = _SIGN.replace("?P<sign>", "?:")
        until = rf"(?:{DASH}(?:{other})?(?P<to>{NUMBER}))?"
        per = rf"(?:/(?P<per>{alternatives(words.PER)})(?!\w))?"
        amount = rf"(?P<amount>\d++,\d\d(?!\d|,\d)|{NUMBER})"
        before = rf"(?:(?<!\w)(?P<code>{codes})|{_SIGN})"
        return (
            rule(rf"(?<=\d[kKmMbBtT]){DASH}(?={other}\d)", " to ", "-–—"),
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
        single = hyphened or counts_one(match) or _HYPHENED.match(text_after(match)) is not None
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
