"""The rules of Hindi, Japanese and Chinese. Core.

Their G2P reads digits; what it cannot read is named, and what would stop it goes.
"""

from __future__ import annotations

import re

from engine.text.normal.rules import Match, Rule, rule
from engine.text.normal.web import Signs


def _signs(names: str) -> dict[str, str]:
    return dict(
        zip(["+", "=", "&", "@", "×", "÷", "±", "°", "/", "#"], names.split("|"), strict=True)
    )


_NAMES = {
    "hi": _signs("प्लस|बराबर|और|ऐट|गुणा|भागा|प्लस माइनस|डिग्री|स्लैश|नंबर"),
    "ja": _signs(
        "プラス|イコール|アンド|アットマーク|かける|わる|プラスマイナス|度|スラッシュ|ナンバー"
    ),
    "zh": _signs("加|等于|和|艾特|乘|除以|正负|度|斜杠|井号"),
}
_ADDRESS = {
    "hi": {".": "डॉट", "-": "डैश", "_": "अंडरस्कोर", "/": "स्लैश", "@": "ऐट", "#": "हैश"},
    "ja": {
        ".": "ドット",
        "-": "ハイフン",
        "_": "アンダーバー",
        "/": "スラッシュ",
        "@": "アットマーク",
        "#": "シャープ",
    },
    "zh": {".": "点", "-": "横杠", "_": "下划线", "/": "斜杠", "@": "艾特", "#": "井号"},
}
_CURRENCIES = {"$": " डॉलर", "€": " यूरो", "£": " पाउंड", "¥": " येन", "￥": " येन", "₹": " रुपये"}
_HASHTAG = {"hi": "हैशटैग", "ja": "ハッシュタグ", "zh": "话题"}
TAGS = tuple(_NAMES)


def address_signs(language: str) -> Signs:
    """How signs are called in addresses."""
    return Signs(_ADDRESS[language], _HASHTAG[language])


def _time(match: Match) -> str:
    return f"{match[1]} बजे" if match[2] == "00" else f"{match[1]} बजकर {match[2]} मिनट"


def _fraction(match: Match) -> str:
    return "आधा" if match[0] == "1/2" else f"{match[1]} बटा {match[2]}"


def rules(language: str) -> tuple[Rule, ...]:
    """After `marks.WIDTH` and `web.web`."""
    names = _NAMES[language]
    if language != "hi":  # the others' G2P reads numbers with their signs itself
        names = {sign: names[sign] for sign in "=&@#"}
    named = rule(f"[{re.escape(''.join(names))}]", lambda m: f" {names[m[0]]} ")
    leftovers = (rule(r"[*_^|\\<>`]+", " "), rule(r" {2,}", " "))
    if language != "hi":
        return named, *leftovers
    return (
        rule(r"[।॥]", ".", "।॥"),
        rule(r"(?<!\w)डॉ\.", "डॉक्टर", "."),
        rule(r"(?<![\d:])(\d{1,2}):([0-5]\d)(?![\d:])(?: बजे)?", _time, ":"),
        rule(r"(?<![\d./])(\d{1,3})/(\d{1,3})(?![\d/])", _fraction, "/"),
        rule(r"(?<![\w-])(\d{1,9}) ?[-–] ?(?=\d{1,9}(?![\w-]))", lambda m: f"{m[1]} से ", "-–"),
        rule(r"(?<=\d),(?=(?:\d\d,){0,6}\d{3}(?!\d))", "", ","),
        rule(
            rf"([{re.escape(''.join(_CURRENCIES))}]) ?(\d++(?:\.\d++)?)",
            lambda m: m[2] + _CURRENCIES[m[1]],
        ),
        rule(r"(?<![\d.])(\d++(?:\.\d++)?)[%％]", lambda m: f"{m[1]} प्रतिशत", "%％"),
        rule(r"(?<![\w)])-(?=\d)", "माइनस ", "-"),
        named,
        rule(r"[~={}\[\]]+", " "),
        *leftovers,
    )
