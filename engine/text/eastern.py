"""What Mandarin and Japanese share: marks, units, and pieces of a text that was rewritten. Core."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from itertools import accumulate
from typing import NamedTuple

from engine.text.alphabet import SILENT
from engine.text.spanned import Spanned
from engine.text.words import Piece


def table(rows: str) -> dict[str, str]:
    """Pairs that are written as `key:value`, divided by white space."""
    return dict(row.split(":", 1) for row in rows.split())


#: what the marks of East Asian writing are in the model's alphabet, character by character
MARKS = str.maketrans(
    {
        **dict.fromkeys("、，､", ","),
        **dict.fromkeys("。．｡", "."),
        **dict.fromkeys("「『《〈«【〝｢", "“"),
        **dict.fromkeys("」』》〉»】〟｣", "”"),
        **dict.fromkeys("（〔［[{｛", "("),
        **dict.fromkeys("）〕］]}｝", ")"),
        **dict.fromkeys("–―─〜～~", "—"),
        **dict.fromkeys("⋯‥", "…"),
        **dict.fromkeys("・·‧･", " "),
        "！": "!",
        "？": "?",
        "：": ":",
        "；": ";",
    }
)

#: units that may stand behind a number: in Chinese, and in kana
UNITS = {
    "km/h": ("公里每小时", "きろめーとるまいじ"),
    "km": ("公里", "きろめーとる"),
    "cm": ("厘米", "せんちめーとる"),
    "mm": ("毫米", "みりめーとる"),
    "m": ("米", "めーとる"),
    "kg": ("公斤", "きろぐらむ"),
    "mg": ("毫克", "みりぐらむ"),
    "g": ("克", "ぐらむ"),
    "ml": ("毫升", "みりりっとる"),
    "mL": ("毫升", "みりりっとる"),
    "L": ("升", "りっとる"),
    "m²": ("平方米", "へいほうめーとる"),
    "km²": ("平方公里", "へいほうきろめーとる"),
    "°C": ("摄氏度", "ど"),
    "°": ("度", "ど"),
    "KB": ("千字节", "きろばいと"),
    "MB": ("兆字节", "めがばいと"),
    "GB": ("吉字节", "ぎがばいと"),
    "TB": ("太字节", "てらばいと"),
    "Hz": ("赫兹", "へるつ"),
    "kHz": ("千赫", "きろへるつ"),
    "MHz": ("兆赫", "めがへるつ"),
    "GHz": ("吉赫", "ぎがへるつ"),
    "W": ("瓦", "わっと"),
    "kW": ("千瓦", "きろわっと"),
    "kWh": ("千瓦时", "きろわっとじ"),
    "V": ("伏", "ぼると"),
    "ms": ("毫秒", "みりびょう"),
}
#: one of them, the longest that is there
UNIT = "|".join(map(re.escape, sorted(UNITS, key=len, reverse=True)))

#: forms of width, squared units and the like: they mean the same as the plain characters
_FORMS = re.compile("[！-～]|[￠-￦]|[｡-ﾟ]+|[㌀-㏿℃①-⑳]")
#: what no library for text takes; the cleaner has no such thing left
_BROKEN = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\ud800-\udfff]")
_DIGIT = re.compile(r"(?![0-9])\d")
#: between digits of a number; a space or another mark is none
_THOUSANDS = re.compile(r"(?<=[0-9])[,，](?=[0-9]{3}(?![0-9]))")


class Token(NamedTuple):
    """A token of a rewritten text.

    Attributes:
        text: its characters; those of all tokens in a row are the text.
        phonemes: of the model's alphabet, without spaces at their ends; empty: not spoken.
        said: the words that are said, if they are not `text`.
    """

    text: str
    phonemes: str
    said: str | None = None


def plain(text: str) -> Spanned:
    """The text with plain forms of digits, Latin and marks, and no commas in numbers."""
    made = Spanned.of(text).sub(_BROKEN, "\ufffd")
    made = made.sub(_FORMS, lambda found: unicodedata.normalize("NFKC", found[0]))
    made = made.sub(_DIGIT, lambda found: str(unicodedata.digit(found[0])))
    return made.sub(_THOUSANDS, "")


def mark(character: str) -> str:
    """What a mark is in the model's alphabet; empty if it is nothing of the kind."""
    plainer = character.translate(MARKS)
    return plainer if plainer in SILENT and plainer != " " else ""


def pieces_of(text: str, rewritten: Spanned, tokens: Iterable[Token]) -> list[Piece]:
    """The tokens as pieces of the text itself, with spaces between the words' phonemes.

    Args:
        text: as G2P was given it.
        rewritten: the same, as it was divided; its spans are places in `text`.
        tokens: of `rewritten`. Those that stand for the same characters of `text` become one piece.

    Returns:
        Pieces that are the whole text: what no token stands for is in silent ones.
    """
    found: list[tuple[int, int, str, str]] = []
    at = 0
    for token in tokens:
        start, end = rewritten.origin(at, at + len(token.text))
        at += len(token.text)
        if token.text.isspace():
            continue
        said, phonemes = token.said or token.text, token.phonemes
        if found and start < found[-1][1]:
            start, _, before, heard = found.pop()
            said, phonemes = before + said, heard + _space(heard, phonemes) + phonemes
        found.append((start, end, said, phonemes))
    following = list(accumulate((heard for *_, heard in reversed(found)), _first, initial=""))
    pieces: list[Piece] = []
    done = 0
    for (start, end, said, phonemes), after in zip(found, following[-2::-1], strict=True):
        _fill(pieces, text[done:start])
        written = text[start:end]
        phonemes += _space(phonemes, after)
        pieces.append(Piece(written, phonemes, "", None if said == written else said))
        done = end
    _fill(pieces, text[done:])
    return pieces


def _first(after: str, phonemes: str) -> str:
    return phonemes or after


def _fill(pieces: list[Piece], between: str) -> None:
    """What is between two words, after the one before; a silent piece if there is none."""
    if pieces and between.isspace():
        pieces[-1] = pieces[-1]._replace(space=between)
    elif between:
        pieces.append(Piece(between, "", ""))


def _space(one: str, two: str) -> str:
    """A space between the phonemes of two tokens, unless they belong together."""
    together = not one or not two or one[-1] in "(“ʔ" or two[0] in ",.;:!?…)”—ʔ"
    return "" if together else " "
