"""Keeps runs without white space short enough for G2P. Core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from engine.text.spanned import Spanned

_RUN = re.compile(r"\S+")
_PIECE = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*|\d+|[\W_]")

#: misaki tries every sub-range of a run without white space, which is cubic in its pieces: 200
#: words joined by hyphens took 92 s (measured, Python 3.11, 2 cores); in eights they take 0.1 s
MAX_RUN_PIECES = 8

#: a longer word or number is cut too: nobody can say it, and digits overflow in num2words
MAX_WORD_CHARS = 60
_OVERLONG = re.compile(rf"\w{{{MAX_WORD_CHARS}}}(?=\w)")


def divided(text: Spanned) -> Spanned:
    """The same with single spaces, also where a run is too long for G2P; none at its ends."""
    words: list[Spanned] = []
    for start, stop in _parts(text.text):
        if words:  # a space has the place of what is before it
            words.append(Spanned(" ", words[-1].spans[-1:]))
        words.append(text.part(start, stop))
    return Spanned("".join(w.text for w in words), tuple(s for w in words for s in w.spans))


def _parts(text: str) -> Iterator[tuple[int, int]]:
    for run in _RUN.finditer(text):
        start, stop = run.span()
        cuts = [match.end() for match in _OVERLONG.finditer(text, start, stop)]
        for left, right in pairwise([start, *cuts, stop]):
            ends = [match.end() for match in _PIECE.finditer(text, left, right)]
            yield from pairwise(sorted({left, *ends[MAX_RUN_PIECES - 1 :: MAX_RUN_PIECES], right}))
