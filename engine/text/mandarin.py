"""Mandarin: numbers become words, jieba finds the words, pypinyin their sounds.

Blocking, as all G2P, and for one thread at a time. Needs the extra `zh`. The tones are those of the
dictionary, without sandhi, as misaki gives them to the model.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.memory import remembered
from engine.report import CacheSize
from engine.text.alphabet import known
from engine.text.eastern import UNIT, UNITS, Token, mark, pieces_of, plain, table
from engine.text.spanned import Spanned
from engine.text.words import Piece

with warnings.catch_warnings():
    # jieba 0.42.1 has escapes in strings that Python warns of, and asks setuptools for its files
    warnings.simplefilter("ignore")
    import jieba
from cn2an import an2cn
from misaki.zh import ZHG2P
from pypinyin import Style, lazy_pinyin

#: a mark under the shorter vowel of two, which the model does not know
_NON_SYLLABIC = "\u032f"
#: syllables that are remembered; pypinyin has about 1,600
_SYLLABLES = 2048
#: an2cn takes numbers of so many digits
_MAX_DIGITS = 16

_MONEY = table("¥:元 $:美元 €:欧元 £:英镑 ₩:韩元 ₹:卢比")
_SIGNS = table("""
    +:加 =:等于 ×:乘 ÷:除以 <:小于 >:大于 ≤:小于等于 ≥:大于等于 ≈:约等于 ≠:不等于 ±:正负 √:根号 π:派
    &:和 @:艾特 ½:二分之一 ¼:四分之一 ¾:四分之三 %:百分号
""")
#: what two of are 两, not 二
_MEASURES = (
    "[个個只位本次天张張件条條块塊种種里杯瓶家辆輛台场場座斤米岁歲周遍句首层層双雙份篇间間口人千万萬"
    "亿億点點秒元倍]|小时|小時|分钟|分鐘|年(?!级|級)"
)

_N = r"[0-9]++(?:\.[0-9]++)?"
_NO = r"(?<![0-9.])"
_DAY = r"(1[0-2]|0?[1-9])\2(3[01]|[12][0-9]|0?[1-9])(?![0-9])"
_PHONE = r"0[0-9]{2,3}-[0-9]{7,8}|[0-9]{3,4}(?:-[0-9]{3,4}){2}|1[3-9][0-9]{9}"

#: jieba copies its path at every unknown character, so it gets rows of bounded length
_TOKEN = regex.compile(r"(?P<han>\p{Han}{1,400})|\s+|.", regex.DOTALL)


class Mandarin:
    """Words to phonemes. Making one reads jieba's dictionary, which takes 1.5 s and 120 MB."""

    def __init__(self) -> None:
        self._jieba = _Jieba()
        self._jieba.initialize()

    def pieces(self, text: str) -> list[Piece]:
        """The text word by word. Numbers are read; what is not Chinese has no phonemes.

        Args:
            text: any.
        """
        words = _worded(plain(text))
        return pieces_of(text, words, self._tokens(words.text))

    def _tokens(self, text: str) -> Iterator[Token]:
        for found in _TOKEN.finditer(text):
            if not found["han"]:
                yield Token(found[0], mark(found[0]))
                continue
            for word in self._jieba.cut(found["han"]):
                yield Token(word, _spoken(word))


class _Jieba(jieba.Tokenizer):  # type: ignore[misc]  # jieba has no types
    """jieba without its cache: a file in the temporary folder that anybody could have written."""

    def initialize(self, dictionary: str | None = None) -> None:
        """Reads the dictionary."""
        self.FREQ, self.total = self.gen_pfdict(self.get_dict_file())
        self.initialized = True


def _spoken(word: str) -> str:
    syllables = lazy_pinyin(word, style=Style.TONE3, neutral_tone_with_five=True, errors="ignore")
    return "".join(map(_syllable, syllables))


@lru_cache(_SYLLABLES)
def _syllable(pinyin: str) -> str:
    try:
        return known(ZHG2P.py2ipa(pinyin).replace(_NON_SYLLABIC, ""))
    except (ValueError, AssertionError):  # not one of the syllables that misaki has sounds for
        return ""


def cached() -> CacheSize:
    """How many syllables are remembered in phonemes."""
    return remembered("syllables", _syllable)


def _worded(text: Spanned) -> Spanned:
    """Numbers and signs as words."""
    for pattern, replace in _RULES:
        text = text.sub(pattern, replace)
    return text


def _digits(digits: str) -> str:
    return str(an2cn(digits, "direct"))


def _number(written: str) -> str:
    whole, _, decimals = written.partition(".")
    spelled = len(whole) > _MAX_DIGITS or (len(whole) > 1 and whole[0] == "0")
    read = _digits(whole) if spelled else str(an2cn(whole))
    return f"{read}点{_digits(decimals)}" if decimals else read


def _date(found: re.Match[str]) -> str:
    return (
        f"{_digits(found[1])}年{_number(found[3].lstrip('0'))}月{_number(found[4].lstrip('0'))}日"
    )


def _phone(found: re.Match[str]) -> str:
    return "，".join(map(_digits, found[0].split("-")))


def _clock(found: re.Match[str]) -> str:
    hour, minute, second = (int(part or 0) for part in found.groups())
    read = "两点" if hour == 2 else f"{an2cn(hour)}点"
    if minute or second:
        read += ("零" if minute < 10 else "") + (f"{an2cn(minute)}分" if minute else "分")
    return read + (f"{an2cn(second)}秒" if second else "")


def _percent(found: re.Match[str]) -> str:
    of = "百分之" if found[3] == "%" else "千分之"
    least = f"{_number(found[1])}到" if found[1] else ""
    return f"{of}{least}{_number(found[2])}"


#: in this order; each sees what those before it have made
_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"{_NO}([12][0-9]{{3}})([-/.]){_DAY}"), _date),
    (re.compile(rf"(?<![0-9-])(?:{_PHONE})(?![0-9-])"), _phone),
    (
        re.compile(rf"{_NO}[0-9]++(?:\.[0-9]++){{2,}}"),
        lambda found: "点".join(map(_digits, found[0].split("."))),
    ),
    (re.compile(r"(?<=[0-9%年月日号號点點])[-–—~〜](?=[0-9])"), "到"),
    (
        re.compile(rf"{_NO}[12][0-9]{{3}}(?=(?:[到至][12][0-9]{{3}})?年(?![前来來后後间間历歷]))"),
        lambda found: _digits(found[0]),
    ),
    (
        re.compile(rf"{_NO}([01]?[0-9]|2[0-4]):([0-5][0-9])(?::([0-5][0-9]))?(?![0-9])"),
        _clock,
    ),
    (re.compile(r"(?<=[0-9]):(?=[0-9])"), "比"),
    (
        re.compile(rf"([¥$€£₩₹])\s?({_N}[百千万亿萬億]*)"),
        lambda found: found[2] + _MONEY[found[1]],
    ),
    (re.compile(rf"{_NO}(?:({_N})%?到)?({_N})([%‰])"), _percent),
    (
        re.compile(rf"{_NO}(?<!/)([0-9]++)/([0-9]++)(?![/.]?[0-9])"),
        lambda found: f"{_number(found[2])}分之{_number(found[1])}",
    ),
    (re.compile(rf"(?<![0-9A-Za-z.)])[-−](?={_N}\s?°C)"), "零下"),
    (re.compile(r"(?<![0-9A-Za-z.)])[-−](?=[0-9])"), "负"),
    (
        re.compile(rf"(?<=[0-9百千万亿萬億])\s?({UNIT})(?![A-Za-z0-9])"),
        lambda found: UNITS[found[1]][0],
    ),
    (re.compile(r"(?<=[0-9])\s[-−]\s(?=[0-9])"), "减"),
    (re.compile(rf"(?<![0-9.第])2(?={_MEASURES})"), "两"),
    (re.compile(_N), lambda found: _number(found[0])),
    (re.compile(f"[{''.join(_SIGNS)}]"), lambda found: _SIGNS[found[0]]),
)
