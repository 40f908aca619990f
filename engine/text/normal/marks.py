"""Characters at both ends of the rules: variants made one, and what is left made a pause. Core."""

from __future__ import annotations

import re
import unicodedata

from engine.text.normal.rules import Match, rule

#: one sign for all that look or mean alike
_SAME = {
    **dict.fromkeys("\u2010\u2011\u2212\ufe63", "-"),  # hyphens and the minus
    **dict.fromkeys("\u2015\u2e3a\u2e3b", "—"),
    **dict.fromkeys("‘’ʼ′`´‛", "'"),
    **dict.fromkeys("″〃", '"'),
    **dict.fromkeys("„‟«‹「『", "“"),
    **dict.fromkeys("»›」』", "”"),
    **dict.fromkeys("⁄∕", "/"),
    **dict.fromkeys("∗⋅", "*"),
    **dict.fromkeys("[{⟨〈【", "("),
    **dict.fromkeys("]}⟩〉】", ")"),
    **dict.fromkeys("。।॥", "."),
    **dict.fromkeys("、،", ","),
    **dict.fromkeys("⟶⇒➔➜", "→"),
    **dict.fromkeys("•‣▪●|¦", ","),
    **dict.fromkeys("¿¡™®\u200d", ""),
    "∶": ":",
    "μ": "µ",
    "\u2126": "Ω",
    "؟": "?",
    "؛": ";",
    "⩽": "≤",
    "⩾": "≥",
    "‼": "!!",
    "⁉": "!?",
    "⁈": "?!",
}

_VULGAR = "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
_CIRCLED = "\u2460-\u2473\u24ea-\u24ff\u2776-\u2793"
_ROMAN = "\u2160-\u2188"
#: ligatures, letter-like signs, squared units: what NFKC writes out
_COMPATIBLE = "\ufb00-\ufb06\u2103\u2109\u2116\u3371-\u33df"


def _compatible(match: Match) -> str:
    return unicodedata.normalize("NFKC", match[0])


def _apart(match: Match, words: str) -> str:
    """The words with spaces where letters or digits would touch them."""
    start, stop = match.span()
    before, after = match.string[start - 1 : start], match.string[stop : stop + 1]
    return " " * before.isalnum() + words + " " * after.isalnum()


def _vulgar(match: Match) -> str:
    return _apart(match, _compatible(match).replace("⁄", "/"))


def _number(match: Match) -> str:
    value = unicodedata.numeric(match[0], None)  # the reversed C is a letter among them
    return match[0] if value is None else _apart(match, str(int(value)))


def _digit(match: Match) -> str:
    return str(unicodedata.digit(match[0]))


#: digits and letters of full width, which every language may hold
WIDTH = rule(r"[\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]", _compatible)

#: for languages in Latin letters
PRELUDE = (
    rule(r"[\uff01-\uff5e]", _compatible),
    rule("[" + re.escape("".join(_SAME)) + "]", lambda match: _SAME[match[0]]),
    rule(r"(?<=[^\W\d_])''(?=[^\W\d_])", "'", "'"),
    rule(r"[^\D0-9]", _digit),
    rule(f"[{_VULGAR}]", _vulgar, _VULGAR),
    rule(f"[{_CIRCLED}{_ROMAN}]", _number),
    rule(f"[{_COMPATIBLE}]", _compatible),
    # ornaments: a row of the same sign says nothing
    rule(r"([-=+/\\<>])\1{3,}", " — "),
    rule(r"([*#_~^@])\1{2,}", " "),
    rule(r"([$€£¥₹₩₿%&°§])\1{2,}", lambda match: match[1], "$€£¥₹₩₿%&°§"),
)

_MARKS = ".,;:!?…—"


def _unspoken(match: Match) -> str:
    """Marks of letters stay with them; other signs end here."""
    return "".join(c for c in match[0] if unicodedata.category(c)[0] == "M") or " "


#: what is left becomes marks, spaces and words
FINISH = (
    rule(r"_", " ", "_"),
    rule(r"\.{3,}|\. \. \.(?: \.)*", "…", "."),
    rule(r"\s?--+\s?|\s?[–—]\s?|(?<!\S)-(?!\S)", " — ", "-–—"),
    rule(r"(?<![^\W\d_])-|-(?![^\W\d_])", " ", "-"),
    rule(rf"[^\w\s{_MARKS}()\"“”'-]+", _unspoken),
    rule(rf"(?<=[{_MARKS}]{{3}})[{_MARKS}]+", ""),
    rule(r"\(\s*\)", " ", "("),
    rule(r"(?<!\s)\s++(?=[,.;:!?…)])", ""),
    rule(r"(?<=\w)[,;:!?](?=\w)", lambda match: match[0] + " ", ",;:!?"),
    rule(r"(?<=\()\s+", "", "("),
    # a space, so that every word is a piece of its own; "file(s)" is one word
    rule(r"(?<=[\w.,;:!?…)”])(?=“|\((?!s\)))|(?<=[)”…—])(?=[\w“—])", " ", "(“)”…—"),
    rule(r'(?<=\w)"(?=\w)', '" ', '"'),
    rule(r"\s{2,}|[^\S ]", " "),
    rule(r"\A[\s,;:]+(?=\w)", ""),
)
