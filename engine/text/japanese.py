"""Japanese: numbers become kana, fugashi finds the words and their readings, misaki their sounds.

Blocking, as all G2P, and for one thread at a time. Needs the extra `ja`. Of misaki only `cutlet` is
used: `misaki.ja` imports pyopenjtalk, which is not needed and fetches its dictionary by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jaconv
import regex  # type: ignore[import-untyped]  # it ships no types
from misaki.cutlet import JA_WORDS, Cutlet, Word

from engine.text.alphabet import known
from engine.text.eastern import Token, mark, pieces_of, plain, table
from engine.text.kana import NUMBER, lengthened, read
from engine.text.words import Piece

#: the longest word that misaki's list joins from several of the dictionary's
_LONGEST = max(map(len, JA_WORDS))
#: stands for a number while fugashi looks at the sentence: a word of its own, as numbers are
_PLACE = "0"
#: misaki's number for words that have a reading
_READ = 6

_RANGE = re.compile(f"(?<={_PLACE})[-–—〜~](?={_PLACE})")
_SIGNS = table("""
    +:プラス =:イコール ×:かける ÷:わる ±:プラスマイナス <:小なり >:大なり ≈:ほぼ √:ルート π:パイ
    &:アンド @:アット ½:二分の一 ¼:四分の一 ¾:四分の三 %:パーセント
""")
_SIGN = re.compile(f"[{''.join(_SIGNS)}]")

_WRITTEN = regex.compile(r"[\p{Han}\p{Hiragana}\p{Katakana}ー]")
_KANA = regex.compile(r"[\p{Hiragana}\p{Katakana}ー]+")


class _Part(NamedTuple):
    """A word of the dictionary, and how it is said in hiragana; None: it is not."""

    text: str
    reading: str | None
    is_number: bool = False


class Japanese:
    """Words to phonemes. Making one opens the dictionary, which takes 0.3 s and 35 MB."""

    def __init__(self) -> None:
        self._cutlet = Cutlet()

    def pieces(self, text: str) -> list[Piece]:
        """The text word by word. Numbers are read; what is not Japanese has no phonemes.

        Args:
            text: any.
        """
        numbers: list[str] = []

        def place(found: re.Match[str]) -> str:
            numbers.append(read(found))
            return _PLACE

        words = plain(text).sub(NUMBER, place).sub(_RANGE, "から")
        words = words.sub(_SIGN, lambda found: _SIGNS[found[0]])
        return pieces_of(text, words, self._tokens(words.text, numbers))

    def _tokens(self, text: str, numbers: list[str]) -> Iterator[Token]:
        parts = list(self._parts(text, iter(numbers)))
        at = 0
        while at < len(parts):
            stop = at + _joined(parts, at)
            written = "".join(part.text for part in parts[at:stop])
            reading = "".join(part.reading or "" for part in parts[at:stop])
            phonemes = "".join(map(mark, written))
            said = reading if parts[at].is_number else None
            if reading:
                phonemes = " ".join(
                    map(self._sounds, (lengthened(said) if said else reading).split())
                )
            yield Token(written, phonemes, said)
            at = stop

    def _sounds(self, kana: str) -> str:
        try:
            return known(self._cutlet._romaji_word(Word(kana, kana, _READ)))
        except KeyError:  # a small kana where none can be, as in ーゃ
            return "".join(map(self._sounds, kana))

    def _parts(self, text: str, numbers: Iterator[str]) -> Iterator[_Part]:
        at = 0
        for word in self._cutlet.tagger(text):
            start = text.index(word.surface, at)
            if start > at:
                yield _Part(text[at:start], None)
            at = start + len(word.surface)
            if _PLACE in word.surface:
                for c in word.surface:
                    yield _Part(c, next(numbers), True) if c == _PLACE else _Part(c, None)
            else:
                yield _Part(word.surface, self._reading(word))
        if at < len(text):
            yield _Part(text[at:], None)

    def _reading(self, word: Any) -> str | None:
        """A word's kana. One that the dictionary does not have is read character by character."""
        if not _WRITTEN.search(word.surface):
            return None
        kana = word.feature.pron or word.feature.kana
        if not kana and not _KANA.fullmatch(word.surface) and len(word.surface) > 1:
            return "".join(self._reading(self._cutlet.tagger(c)[0]) or "" for c in word.surface)
        return str(jaconv.kata2hira(kana or word.surface))


def _joined(parts: list[_Part], at: int) -> int:
    """How many of the parts from here on misaki's list has as one word; at least one."""
    written, found = "", 1
    for number, part in enumerate(parts[at : at + _LONGEST], 1):
        written += part.text
        if part.is_number or not part.reading or len(written) > _LONGEST:
            break
        if written in JA_WORDS:
            found = number
    return found
