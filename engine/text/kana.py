"""Japanese numbers in hiragana, with the counters that change with them. Core.

Their words are apart: thousands, hundreds, tens, and the last with its counter.
"""

from __future__ import annotations

import re
from math import prod

from engine.text.eastern import UNIT, UNITS, table

_DIGITS = ("ぜろ", "いち", "に", "さん", "よん", "ご", "ろく", "なな", "はち", "きゅう")
#: thousands, hundreds and tens, and the digits that do not simply stand before them
_PLACES = (
    (1000, "せん", {1: "せん", 3: "さんぜん", 8: "はっせん"}),
    (100, "ひゃく", {1: "ひゃく", 3: "さんびゃく", 6: "ろっぴゃく", 8: "はっぴゃく"}),
    (10, "じゅう", {1: "じゅう"}),
)
#: powers of 10,000
_GROUPS = ("", "まん", "おく", "ちょう", "けい")
_MAX_DIGITS = 4 * len(_GROUPS)
_SCALES = {"百": 100, "千": 1000, "万": 10**4, "億": 10**8, "兆": 10**12}
_SCALE_NAMES = table("百:ひゃく 千:せん 万:まん 億:おく 兆:ちょう")

#: counters: how they are read, and after さん if that is different
_COUNTERS = table("""
    円:えん 年:ねん 月:がつ 日:にち 時:じ 分:ふん:ぷん 秒:びょう 週:しゅう 人:にん 名:めい 歳:さい 才:さい 個:こ つ:つ
    ヶ月:かげつ か月:かげつ カ月:かげつ ヵ月:かげつ ケ月:かげつ か所:かしょ ヶ所:かしょ か国:かこく ヶ国:かこく
    本:ほん:ぼん 枚:まい 台:だい 回:かい 階:かい:がい 番:ばん 号:ごう 度:ど 冊:さつ 匹:ひき:びき 頭:とう 羽:わ
    杯:はい:ばい 点:てん 倍:ばい 件:けん 軒:けん:げん 丁目:ちょうめ 話:わ 巻:かん 章:しょう 曲:きょく 位:い 級:きゅう
    歩:ほ:ぽ 泊:はく:ぱく 組:くみ 種類:しゅるい 代:だい 世紀:せいき 校:こう 社:しゃ 足:そく:ぞく
""")
#: what may follow a counter and is then read like this
_TAILS = table("間:かん 目:め 後:ご 前:まえ 度:ど 生:せい 分:ぶん")
#: numbers whose end is different before a counter
_ENDS = {
    "円": {"よん": "よ"},
    "年": {"よん": "よ"},
    "人": {"よん": "よ"},
    "時": {"よん": "よ", "なな": "しち", "きゅう": "く", "ぜろ": "れい"},
    "月": {"よん": "し", "なな": "しち", "きゅう": "く"},
    "日": {"なな": "しち", "きゅう": "く"},
    "点": {"ぜろ": "れい"},
}
#: a number and its counter that are a word of their own
_WHOLE = table("""
    2日:ふつか 3日:みっか 4日:よっか 5日:いつか 6日:むいか 7日:なのか 8日:ようか 9日:ここのか 10日:とおか
    14日:じゅうよっか 20日:はつか 24日:にじゅうよっか 1人:ひとり 2人:ふたり 20歳:はたち 20才:はたち
    1つ:ひとつ 2つ:ふたつ 3つ:みっつ 4つ:よっつ 5つ:いつつ 6つ:むっつ 7つ:ななつ 8つ:やっつ 9つ:ここのつ
""")
#: ends that become shorter: before k and h all of them, before s and t the first three
_SHORTER = (
    ("いち", "いっ"),
    ("はち", "はっ"),
    ("じゅう", "じゅっ"),
    ("ろく", "ろっ"),
    ("ひゃく", "ひゃっ"),
)
_H_TO_P = str.maketrans("はひふへほ", "ぱぴぷぺぽ")
_MONEY = table("$:どる €:ゆーろ £:ぽんど ₩:うぉん ₹:るぴー")
_PERCENT = table("%:ぱーせんと ‰:ぱーみる")

_NO = r"(?<![0-9.])"
#: what `read` reads, after `eastern.plain`
NUMBER = re.compile(
    rf"""
    (?P<date> {_NO} (?P<year>[12][0-9]{{3}}) (?P<between>[-/.]) (?P<month>1[0-2]|0?[1-9])
        (?P=between) (?P<day>3[01]|[12][0-9]|0?[1-9]) (?![0-9]) )
    | (?P<clock> {_NO} (?P<hour>[01]?[0-9]|2[0-4]):(?P<minute>[0-5][0-9])
        (?: :(?P<second>[0-5][0-9]) )? (?![0-9:]) )
    | (?P<phone> (?<![0-9-]) 0[0-9]{{1,4}}-[0-9]{{1,4}}-[0-9]{{3,4}} (?![0-9-]) )
    | (?P<version> {_NO} [0-9]++(?:\.[0-9]++){{2,}} )
    | (?P<ratio> {_NO} (?P<one>[0-9]++)(?P<of>/|:|分の)(?P<two>[0-9]++) (?![0-9.:/]) )
    | (?P<count> (?P<sign>(?<![0-9A-Za-z.)年月日時分円%])[-−])? (?P<money>[¥$€£₩₹])?
        (?P<number>[0-9]++(?:\.[0-9]++)?) (?P<scale>[百千万億兆]{{0,3}})
        (?: (?P<counter>{"|".join(sorted(_COUNTERS, key=len, reverse=True))})
            (?:(?<!日)|(?![曜本]))(?:(?<!月)|(?!曜))
            (?P<tail> [間目度] | [前後](?![前後半期]) | 生(?![まき活]) | 分(?![のかけ]) )?
          | \s?(?P<unit>{UNIT}|[%‰])(?![A-Za-z0-9]) )? )
    """,
    re.VERBOSE,
)


#: vowels that are written out, and are long: not before a small vowel, as in うぉん
_LONG = re.compile(
    "(?<=[くすつぬふむゆるぐずぶぷゅ])う(?![ぁ-ぉ])|(?<=[おこそとのほもよろごぞどぼぽょ])[うお](?![ぁ-ぉ])"
    "|(?<=[えけせてねへめれげぜでべぺ])い"
)


def lengthened(kana: str) -> str:
    """The same as dictionaries write what is heard: じゅう as じゅー."""
    return _LONG.sub("ー", kana)


def read(found: re.Match[str]) -> str:
    """A match of `NUMBER` in hiragana."""
    if found["date"]:
        return " ".join(
            _counted(str(int(found[part])), counter, after_month=counter == "日")
            for part, counter in (("year", "年"), ("month", "月"), ("day", "日"))
        )
    if found["clock"]:
        parts = (found["hour"], "時"), (found["minute"], "分"), (found["second"] or "0", "秒")
        told = (p for p in parts if p[1] == "時" or int(p[0]))
        return " ".join(_counted(str(int(number)), counter) for number, counter in told)
    if found["phone"]:
        return " の ".join(map(_digits, found[0].split("-")))
    if found["version"]:
        return "てん ".join(map(_integer, found[0].split(".")))
    if found["ratio"]:
        one, two = _integer(found["one"]), _integer(found["two"])
        return {"/": f"{two}ぶんの {one}", ":": f"{one} たい {two}"}.get(
            found["of"], f"{one}ぶんの {two}"
        )
    return _count(found)


def _count(found: re.Match[str]) -> str:
    number, counter, tail = (
        _scaled(found["number"], found["scale"]),
        found["counter"],
        found["tail"],
    )
    sign = "まいなす " if found["sign"] else ""
    if found["money"]:
        name = _MONEY.get(found["money"])
        said = _loaned(number, name) if name else _ended(number, "円")
        after = _COUNTERS[counter].partition(":")[0] if counter and counter != "円" else ""
        return sign + said + after
    if found["unit"]:
        unit = found["unit"]
        return sign + _loaned(number, _PERCENT.get(unit) or UNITS[unit][1])
    if not counter:
        return sign + number
    after_month = found.string[found.start() - 1 : found.start()] == "月"
    if found["scale"] or (counter, tail) == ("人", "前"):
        said = _ended(number, counter)
    else:
        said = _counted(found["number"], counter, after_month=after_month)
    return sign + said + _TAILS.get(tail, "")


def _counted(digits: str, counter: str, *, after_month: bool = False) -> str:
    if after_month and digits + counter == "1日":
        return "ついたち"
    return _WHOLE.get(digits + counter) or _ended(_scaled(digits, ""), counter)


def _ended(number: str, counter: str) -> str:
    """A number in kana and its counter, each as the other makes it."""
    kana, _, after_three = _COUNTERS[counter].partition(":")
    for end, other in _ENDS.get(counter, {}).items():
        if number.endswith(end):
            return number.removesuffix(end) + other + kana
    if number.endswith(("さん", "せん", "まん")):
        return number + (after_three or kana)
    if number.endswith("よん") and after_three[:1] in ("ぷ", "ぱ"):  # よんぷん, but よんほ
        return number + after_three
    count = (
        5 if kana[0] in "かきくけこはひふへほ" else 3 if kana[0] in "さしすせそたちつてと" else 0
    )
    for end, short in _SHORTER[:count]:
        if number.endswith(end):
            return number.removesuffix(end) + short + kana[0].translate(_H_TO_P) + kana[1:]
    return number + kana


def _loaned(number: str, name: str) -> str:
    """A number in kana and a foreign word."""
    if number.endswith("じゅう") and name[0] in "かきくけこさしすせそたちつてとぱぴぷぺぽ":
        number = number.removesuffix("う") + "っ"
    return number + name


def _scaled(digits: str, scale: str) -> str:
    """A number with a power of ten that is written after it."""
    whole, _, decimals = digits.partition(".")
    if decimals:
        names = "".join(_SCALE_NAMES[c] for c in scale)
        return f"{_ended(_integer(whole), '点')} {_digits(decimals)}{names}"
    if scale:
        return _integer(str(int(whole) * prod(_SCALES[c] for c in scale)))
    return _integer(whole)


def _integer(digits: str) -> str:
    """A whole number; digit by digit if it begins with zero or is too long."""
    if len(digits) > _MAX_DIGITS or (len(digits) > 1 and digits[0] == "0"):
        return _digits(digits)
    number, words = int(digits), []
    for group in _GROUPS:
        number, four = divmod(number, 10_000)
        if four:
            words.append(_group(four, group))
    return " ".join(reversed(words)) or _DIGITS[0]


def _group(four: int, group: str) -> str:
    """A number below 10,000, and the power that it counts."""
    words, left = [], four
    for unit, name, odd in _PLACES:
        digit, left = divmod(left, unit)
        if digit:
            words.append(odd.get(digit) or _DIGITS[digit] + name)
    if left:
        words.append(_DIGITS[left])
    said = "いっせん" if group and four == 1000 else " ".join(words)
    if group in ("ちょう", "けい"):
        for end, short in _SHORTER[: 5 if group == "けい" else 3]:
            if said.endswith(end):
                return said.removesuffix(end) + short + group
    return said + group


def _digits(digits: str) -> str:
    return " ".join(_DIGITS[int(digit)] for digit in digits)
