"""Words: phonemes with their place in the original text. Core."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

from engine.text.alphabet import sounds
from engine.text.spanned import Span

#: signs around a word that are not the word
_EDGES = ".,;:!?…—–\"'()[]{}«»“”‘’¿¡"


@dataclass(frozen=True, slots=True)
class Word:
    """A spoken word: `text[start:end]` and its phonemes.

    Attributes:
        start: first code point of the word itself, in the original text.
        end: one past its last; marks such as a comma are outside, a currency sign is inside.
        phonemes: with the marks around it and the space after it, so that the phonemes of all
            words in a row are the phonemes of the text.
        spoken: the words that are said for it.
    """

    start: int
    end: int
    phonemes: str
    spoken: str = ""


class Piece(NamedTuple):
    """What G2P makes of a piece of text; texts and spaces in a row are the whole text.

    Attributes:
        text: as G2P saw it.
        phonemes: empty if it is not spoken.
        space: the white space after it.
        said: the words that are said, if they are not `text`.
    """

    text: str
    phonemes: str
    space: str
    said: str | None = None


def words_of(pieces: Iterable[Piece], spans: Sequence[Span]) -> list[Word]:
    """Joins pieces to words, each with pieces that sound and the silent ones around them.

    An opening mark goes to the word after it, everything else that is silent to the word before.
    Pieces that stand for the same characters of the original are one word.

    Args:
        pieces: of the text.
        spans: of its characters in the original (`spanned.Spanned.spans`).

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
        phonemes = piece.phonemes + piece.space
        if sounds(piece.phonemes):
            first = start if opening_start is None else opening_start
            said = (piece.text if piece.said is None else piece.said).strip(_EDGES)
            word = Word(spans[first][0], spans[end - 1][1], (opening or "") + phonemes, said)
            extend(words, [word])
            opening, opening_start = None, None
        elif not words or opening is not None or not (glued or piece.space):
            opening = (opening or "") + phonemes
            opening_start = start if _is_currency(piece) else None
        else:
            words[-1] = replace(words[-1], phonemes=words[-1].phonemes + phonemes)
        glued = not piece.space
    if words:
        words[-1] = replace(words[-1], phonemes=words[-1].phonemes + (opening or ""))
    return _spaced(words)


def extend(words: list[Word], more: Sequence[Word]) -> None:
    """Appends words; one that stands for the same characters as the last becomes one with it."""
    if words and more and more[0].start < words[-1].end:
        one, two = words.pop(), more[0]
        space = " " * one.phonemes[-1:].isspace()
        phonemes, spoken = one.phonemes + two.phonemes, one.spoken + space + two.spoken
        words.append(Word(one.start, max(one.end, two.end), phonemes, spoken))
        more = more[1:]
    words += more


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
        texts, heard = _clauses(written), _clauses(spoken)
        if len(texts) == len(heard) > 1:
            parts = zip(texts, heard, strict=True)
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


def _is_currency(piece: Piece) -> bool:
    return not piece.phonemes and all(unicodedata.category(c) == "Sc" for c in piece.text)


def _spaced(words: list[Word]) -> list[Word]:
    """The same words with single spaces between them, and none at the ends."""
    spaced = []
    for number, word in enumerate(words, 1):
        following = words[number].phonemes if number < len(words) else ""
        space = " " * (word.phonemes[-1:].isspace() or following[:1].isspace())
        phonemes = " ".join(word.phonemes.split()) + space * bool(following)
        spaced.append(replace(word, phonemes=phonemes))
    return spaced
