"""Makes characters harmless before grapheme-to-phoneme. Core.

The text of one sentence goes in, the text that G2P may see comes out, and every character of it
knows which characters of the original it stands for.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

#: signs that writers and editors use for the apostrophe; G2P knows only the plain one
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u2032\u00b4`"), "'")

_JOINERS = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_RUN = re.compile(r"\S+")
_PIECE = re.compile(r"[^\W\d_]+|\d+|[\W_]", re.UNICODE)

#: misaki tries every sub-range of a run without white space, which is cubic in its pieces: 200
#: words joined by hyphens took 92 s (measured, Python 3.11, 2 cores); in eights they take 0.1 s
MAX_RUN_PIECES = 8

#: a longer word or number is cut too: nobody can say it, and digits overflow in num2words
MAX_WORD_CHARS = 40
_OVERLONG = re.compile(rf"\w{{{MAX_WORD_CHARS}}}(?=\w)")


@dataclass(frozen=True, slots=True)
class Clean:
    """Cleaned text, and where it comes from.

    Attributes:
        text: what G2P may see.
        spans: for each character of `text` the (start, end) in the original that it stands for;
            ascending. Characters that were composed together share one, and a space has that of the
            character before it.
    """

    text: str
    spans: tuple[tuple[int, int], ...]


def cleaned(text: str) -> Clean:
    """The same text without what trips G2P.

    Lone surrogates, control and zero-width characters go, white space becomes single spaces,
    composed forms (NFC) and plain apostrophes replace their variants, and long runs without
    white space are divided.
    """
    kept: list[tuple[str, int]] = []
    for at, c in enumerate(text):
        category = unicodedata.category(c)
        if category == "Cc":
            kept.append((" ", at))
        elif category not in ("Cs", "Co", "Cn") and not _JOINERS.match(c):
            kept.append((c, at))
    plain, spans = "", []
    for cluster in _clusters(kept):
        composed = unicodedata.normalize("NFC", "".join(c for c, _ in cluster))
        plain += composed.translate(_APOSTROPHES)
        spans += [(cluster[0][1], cluster[-1][1] + 1)] * len(composed)
    parts = list(_parts(plain))
    words = " ".join(plain[start:end] for start, end in parts)
    places: list[tuple[int, int]] = []
    for start, end in parts:
        places += [*places[-1:], *spans[start:end]]  # a space has the place of what is before it
    return Clean(words, tuple(places))


def _clusters(kept: list[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """Pieces that can be composed one by one: a character and what may join it."""
    start = 0
    for at in range(1, len(kept) + 1):
        if at == len(kept) or not _may_join(kept[at][0]):
            yield kept[start:at]
            start = at


def _may_join(c: str) -> bool:
    """Whether NFC may compose it with what is before it: a mark, or a Hangul vowel or final."""
    return unicodedata.category(c)[0] == "M" or "\u1160" <= c <= "\u11ff"


def _parts(plain: str) -> Iterator[tuple[int, int]]:
    """Runs without white space as (start, end), divided where they are too long for G2P."""
    for run in _RUN.finditer(plain):
        start, stop = run.span()
        cuts = [match.end() for match in _OVERLONG.finditer(plain, start, stop)]
        for left, right in pairwise([start, *cuts, stop]):
            ends = [match.end() for match in _PIECE.finditer(plain, left, right)]
            yield from pairwise(sorted({left, *ends[MAX_RUN_PIECES - 1 :: MAX_RUN_PIECES], right}))


def has_letters_or_digits(text: str) -> bool:
    """Whether there is anything in it that could be spoken."""
    return any(c.isalnum() for c in text)
