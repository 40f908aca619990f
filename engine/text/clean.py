"""Makes characters harmless before grapheme-to-phoneme. Core.

The text of one segment goes in, the text that G2P may see comes out. Spans are not kept here:
a segment knows where it stands in the original.
"""

from __future__ import annotations

import re
import unicodedata

#: signs that writers and editors use for the apostrophe; G2P knows only the plain one
_APOSTROPHES = dict.fromkeys(map(ord, "\u2018\u2019\u02bc\u2032\u00b4`"), "'")

_JOINERS = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufe00-\ufe0f\ufeff]")
_PIECE = re.compile(r"[^\W\d_]+|\d+|[\W_]", re.UNICODE)

#: misaki tries every sub-range of a run without white space, which is cubic in its pieces: 200
#: words joined by hyphens took 92 s (measured, Python 3.11, 2 cores); in eights they take 0.1 s
MAX_RUN_PIECES = 8

#: a longer word or number is cut too: nobody can say it, and digits overflow in num2words
MAX_WORD_CHARS = 40
_OVERLONG = re.compile(rf"\w{{{MAX_WORD_CHARS}}}(?=\w)")


def speakable(text: str) -> str:
    """The same text without what trips G2P.

    Lone surrogates, control and zero-width characters go, white space becomes single spaces,
    composed forms (NFC) and plain apostrophes replace their variants, and long runs without
    white space are divided.
    """
    text = "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
    text = "".join(c for c in text if unicodedata.category(c) not in ("Cs", "Co", "Cn"))
    text = _JOINERS.sub("", unicodedata.normalize("NFC", text)).translate(_APOSTROPHES)
    text = _OVERLONG.sub(r"\g<0> ", text)
    return " ".join(part for run in text.split() for part in _divide(run))


def _divide(run: str) -> list[str]:
    pieces = _PIECE.findall(run)
    groups = range(0, len(pieces), MAX_RUN_PIECES)
    return ["".join(pieces[at : at + MAX_RUN_PIECES]) for at in groups]


def has_letters_or_digits(text: str) -> bool:
    """Whether there is anything in it that could be spoken."""
    return any(c.isalnum() for c in text)
