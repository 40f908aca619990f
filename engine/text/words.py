"""Words: phonemes with their place in the text. Core."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from engine.text.clean import has_letters_or_digits

#: the symbols of the model's vocabulary that are not sounds
SILENT = ' ;:,.!?—…"()“”'

#: signs around a word that are not the word
_EDGES = ".,;:!?…—–\"'()[]{}«»“”‘’¿¡"


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word: `text[start:end]` and its phonemes.

    Attributes:
        start: first code point of the word itself, in the text that was given.
        end: one past its last; marks such as a comma are outside, a currency sign is inside.
        phonemes: with the marks around it and the space after it, so that the phonemes of all
            words in a row are the phonemes of the text.
    """

    start: int
    end: int
    phonemes: str


class Piece(NamedTuple):
    """What G2P makes of a piece of text; texts and spaces in a row are the whole text."""

    text: str
    phonemes: str
    space: str


def words_of(pieces: Iterable[Piece], spans: Sequence[tuple[int, int]]) -> list[Word]:
    """Joins pieces to words, each with one piece that sounds and the silent ones around it.

    An opening mark goes to the word after it, everything else that is silent to the word before.

    Args:
        pieces: of the cleaned text.
        spans: of its characters in the original (`clean.Clean.spans`).

    Returns:
        Words in order, not overlapping; white space in their phonemes is single spaces, with none
        at the ends of the text. None if no piece sounds.
    """
    words: list[Word] = []
    # Silent pieces that belong to the next word, and where it begins if they are part of it.
    opening: str | None = None
    opening_start: int | None = None
    at, glued = 0, False  # glued: no space before this piece
    for piece in pieces:
        start, end = _place(piece, at)
        at += len(piece.text) + len(piece.space)
        spoken = piece.phonemes + piece.space
        if has_letters_or_digits(piece.phonemes):
            first = start if opening_start is None else opening_start
            words.append(Word(*_span(spans, first, end, words), (opening or "") + spoken))
            opening, opening_start = None, None
        elif not words or opening is not None or not (glued or piece.space):
            opening = (opening or "") + spoken
            opening_start = start if _is_currency(piece) else None
        else:
            words[-1] = Word(words[-1].start, words[-1].end, words[-1].phonemes + spoken)
        glued = not piece.space
    if words:
        words[-1] = Word(words[-1].start, words[-1].end, words[-1].phonemes + (opening or ""))
    return _spaced(words)


def matched(
    written: Sequence[str], spoken: Sequence[str], length: Callable[[str], int]
) -> list[Piece]:
    """Pieces of a text of which only the phonemes of the whole are known, as small as can be told.

    One piece for each word if the numbers of words agree; else between two marks if those agree,
    and there by asking how many words each one becomes (a number is many).

    Args:
        written: words of the text, divided at spaces.
        spoken: the same of its phonemes.
        length: words that a written word becomes when it is spoken alone.
    """
    if len(written) != len(spoken):
        texts, sounds = _clauses(written), _clauses(spoken)
        if len(texts) == len(sounds) > 1:
            parts = zip(texts, sounds, strict=True)
            return [piece for part in parts for piece in matched(*part, length)]
        lengths = [length(word) for word in written]
        if sum(lengths) != len(spoken):
            return [Piece(" ".join(written), " ".join(spoken), " ")]
        spoken = [" ".join(spoken[a:b]) for a, b in pairwise([0, *accumulate(lengths)])]
    return [Piece(text, phonemes, " ") for text, phonemes in zip(written, spoken, strict=True)]


def _clauses(words: Sequence[str]) -> list[Sequence[str]]:
    """Words up to and with one that ends in a mark, and so on."""
    ends = [n for n, word in enumerate(words, 1) if word[-1] in ",.;:!?—…" or n == len(words)]
    return [words[a:b] for a, b in pairwise([0, *ends])]


def _place(piece: Piece, at: int) -> tuple[int, int]:
    """The characters of the word itself; marks that the phonemes show are outside."""
    text = piece.text
    left = text if piece.phonemes[:1].isalnum() else text.lstrip(_EDGES)
    right = text if piece.phonemes[-1:].isalnum() else text.rstrip(_EDGES)
    if not left or not right:
        return at, at + len(text)
    return at + len(text) - len(left), at + len(right)


def _span(
    spans: Sequence[tuple[int, int]], start: int, end: int, before: list[Word]
) -> tuple[int, int]:
    free = before[-1].end if before else 0
    return max(free, spans[start][0]), max(free, spans[end - 1][1])


def _is_currency(piece: Piece) -> bool:
    return not piece.phonemes and all(unicodedata.category(c) == "Sc" for c in piece.text)


def _spaced(words: list[Word]) -> list[Word]:
    """The same words with single spaces between them, and none at the ends."""
    spaced = []
    for number, word in enumerate(words, 1):
        following = words[number].phonemes if number < len(words) else ""
        space = " " * (word.phonemes[-1:].isspace() or following[:1].isspace())
        phonemes = " ".join(word.phonemes.split()) + space * bool(following)
        spaced.append(Word(word.start, word.end, phonemes))
    return spaced
