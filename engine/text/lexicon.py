"""The user's own pronunciations: what an entry may be, and where it applies. Core.

An entry applies at word boundaries only. Where several could, the longest does; of two for the
same word one that minds capitals before one that does not, and one for this language before one
for all. A request's lexicon goes before the file's (`Lexicon.over`).
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple

from engine.errors import InvalidRequest
from engine.request import Pronunciation
from engine.text import alphabet
from engine.text.clean import cleaned
from engine.text.languages import LANGUAGES, Language
from engine.text.passage import Say
from engine.text.spanned import Span, Spanned

#: entries of one lexicon, so that it is read in a moment; a text takes no longer with more of them
MAX_ENTRIES = 10_000
#: characters of a word, and of what is said for it
MAX_CHARS = 100

#: what people type for a symbol that looks like it
_MEANT = {"g": "ɡ", "'": "ˈ", "’": "ˈ", "ɝ": "ɜɹ", "ɫ": "l"}

# Kana and Han are written without spaces: every character may begin a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
#: where an entry may begin
_ATOM = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+|\S")


def checked(entry: Pronunciation) -> Pronunciation:
    """The same entry in the form that is looked up: cleaned, no slashes, `case` decided.

    Raises:
        ValueError: what is wrong with it, to be read after "The entry"; it quotes no words.
    """
    word = _plain(entry.word)
    if not word:
        raise ValueError("has no word")
    if len(word) > MAX_CHARS:
        raise ValueError(f"has a word of more than {MAX_CHARS} characters")
    phonemes = None if entry.phonemes is None else _phonemes(entry.phonemes)
    say = None if entry.say is None else _plain(entry.say)
    if (phonemes is None) == (say is None):
        raise ValueError("needs one of phonemes and say")
    spoken = phonemes or say or ""
    if not any(map(_in_word, spoken)):
        raise ValueError("says nothing: there is no sound in it")
    if len(spoken) > MAX_CHARS:
        raise ValueError(f"says more than {MAX_CHARS} characters")
    return Pronunciation(
        word=word,
        phonemes=phonemes,
        say=say,
        case=entry.case or ("ignore" if word == word.lower() else "exact"),
        lang=None if entry.lang is None else _language(entry.lang),
    )


def _plain(text: str) -> str:
    return " ".join(cleaned(text).text.split())


def _phonemes(written: str) -> str:
    phonemes = " ".join(written.split())
    slashes = phonemes[:1] == "/", phonemes[-1:] == "/"
    if any(slashes):
        if not all(slashes) or len(phonemes) < 2:
            raise ValueError("has a slash at one end of its phonemes only")
        phonemes = phonemes[1:-1].strip()
    # A tilde on a vowel is a symbol of its own here, but not the cedilla of ç.
    symbols = unicodedata.normalize("NFC", phonemes)
    phonemes = "".join(
        s if s in alphabet.SYMBOLS else unicodedata.normalize("NFD", s) for s in symbols
    )
    odd = list(dict.fromkeys(s for s in phonemes if s not in alphabet.SYMBOLS))
    if odd:
        told = ", ".join(map(_told, odd[:5])) + ", …" * (len(odd) > 5)
        raise ValueError(f"has phonemes that are not in the model's alphabet: {told}")
    return phonemes


def _told(symbol: str) -> str:
    """A symbol with its number, because it often looks like another one."""
    meant = _MEANT.get(symbol)
    hint = f", perhaps {meant} is meant" if meant else ""
    return f"{symbol if symbol.isprintable() else '?'} (U+{ord(symbol):04X}{hint})"


def _language(tag: str) -> str:
    plain = tag.strip().lower().replace("_", "-")
    if not any(_covers(plain, language.tag) for language in LANGUAGES):
        raise ValueError(
            f"is for a language that is not one of {', '.join(x.tag for x in LANGUAGES)}"
        )
    return plain


def language_of(entry: Pronunciation, default: Language) -> Language:
    """The default if the entry is for it, else the first language that it is for."""
    return next(x for x in (default, *LANGUAGES) if _covers(entry.lang, x.tag))


def _covers(lang: str | None, tag: str) -> bool:
    """Whether an entry for `lang` is for the language `tag`: en for en-gb, es-mx for es."""
    return lang is None or lang == tag or f"{tag}-".startswith(f"{lang}-") or lang[:3] == f"{tag}-"


def requested(entries: Sequence[Pronunciation]) -> Lexicon:
    """The lexicon of a request; of two entries for the same word the first applies.

    Raises:
        InvalidRequest: an entry cannot be used; the sentence says which and why.
    """
    if len(entries) > MAX_ENTRIES:
        raise InvalidRequest(
            f"The lexicon has {len(entries)} entries; the limit is {MAX_ENTRIES}.", param="lexicon"
        )
    good = []
    for number, entry in enumerate(entries, 1):
        try:
            good.append(checked(entry))
        except ValueError as error:
            raise InvalidRequest(
                f"Entry {number} of the lexicon {error}.", param="lexicon"
            ) from None
    return Lexicon(good)


class _Match(NamedTuple):
    start: int
    stop: int
    entry: Pronunciation


class Lexicon:
    """Entries that can be applied to texts.

    Args:
        entries: as `checked` gives them.
    """

    def __init__(self, entries: Iterable[Pronunciation] = ()) -> None:
        self._layers: tuple[_Layer, ...] = ()
        if layer := _Layer(entries):
            self._layers = (layer,)

    def over(self, other: Lexicon) -> Lexicon:
        """These entries, and those of `other` where none of these applies."""
        both = Lexicon()
        both._layers = self._layers + other._layers
        return both

    def apply(
        self, text: Spanned, language: str, says: Sequence[Say] = ()
    ) -> tuple[Spanned, tuple[Say, ...]]:
        """The text with respellings in it, and the pronunciations by phonemes, in order.

        A word that is only a part of what replaced something (one of the name of an emoji) cannot
        be told by its place in the original, so it gets no phonemes.

        Args:
            text: cleaned.
            language: tag of a `languages.Language`.
            says: pronunciations that are already there, in order; no entry touches them.
        """
        if not self._layers:
            return text, ()
        taken = bytearray(len(text))
        for say in says:
            start = bisect_right(text.spans, say.start, key=itemgetter(1))
            stop = bisect_left(text.spans, say.end, key=itemgetter(0))
            taken[start:stop] = b"\1" * (stop - start)
        flat = Spanned(text.text.replace("\n", " "), text.spans)  # a phrase goes over a line's end
        lower = _lower(flat.text)
        matches: list[_Match] = []
        for layer in self._layers:
            matches += layer.matches(flat, lower, language, taken)
        matches.sort(key=itemgetter(0))
        spoken = tuple(
            Say(*text.origin(start, stop), entry.phonemes)
            for start, stop, entry in matches
            if entry.phonemes is not None
        )
        return _respelled(text, matches), spoken


class _Layer:
    """Entries by their word, and how long words are that begin alike.

    So no text is compared with more than `MAX_CHARS` of them at one place, however many there are.
    """

    def __init__(self, entries: Iterable[Pronunciation]) -> None:
        words: defaultdict[str, list[Pronunciation]] = defaultdict(list)
        lengths: defaultdict[str, set[int]] = defaultdict(set)
        for entry in entries:
            key = _lower(entry.word)
            words[key].append(entry)
            if first := _ATOM.match(key):
                lengths[first[0]].add(len(key))
        self._words = {key: sorted(same, key=_rank) for key, same in words.items()}
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def __bool__(self) -> bool:
        return bool(self._words)

    def matches(
        self, text: Spanned, lower: str, language: str, taken: bytearray
    ) -> Iterator[_Match]:
        """Where entries apply; `taken` has a 1 for each character that is spoken for, and gets more."""
        done = 0
        for atom in _ATOM.finditer(lower):
            start = atom.start()
            if start < done:
                continue
            for length in self._lengths.get(atom[0], ()):
                match = self._match(text, lower, language, start, start + length)
                if match and taken.find(1, match.start, match.stop) < 0:
                    done = match.stop
                    taken[start:done] = b"\1" * (done - start)
                    yield match
                    break

    def _match(
        self, text: Spanned, lower: str, language: str, start: int, stop: int
    ) -> _Match | None:
        same = self._words.get(lower[start:stop], ())
        if not same or stop > len(lower) or not _bounded(lower, start, stop, language):
            return None
        for entry in same:
            exact = entry.case != "exact" or text.text[start:stop] == entry.word
            placed = entry.phonemes is None or _alone(text.spans, start, stop)
            if exact and placed and _covers(entry.lang, language):
                return _Match(start, stop, entry)
        return None


def _rank(entry: Pronunciation) -> tuple[bool, int]:
    return entry.case != "exact", -len(entry.lang or "")


def _lower(text: str) -> str:
    """Small letters, one for each character."""
    lower = text.lower()
    if len(lower) == len(text):
        return lower
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _in_word(c: str) -> bool:
    return c.isalnum() or (c != "" and unicodedata.category(c)[0] == "M")


def _bounded(text: str, start: int, stop: int, language: str) -> bool:
    """Whether an entry that is at `start`…`stop` is there as a word of its own."""
    before, after = text[max(0, start - 1) : start], text[stop : stop + 1]
    if not any(map(_in_word, text[start:stop])):  # signs alone: % in 50%, but not = in ==
        return before != text[start] and after != text[stop - 1]
    if _goes_on(text[start], before) or _goes_on(text[stop - 1], after):
        return False
    if not language.startswith("en"):
        return True  # an apostrophe ends a word: l'ami
    # In English it is part of the word, but for 's: no "don" in "don't", no "brien" in "o'brien".
    if before == "'" and _in_word(text[start]) and _in_word(text[max(0, start - 2) : start - 1]):
        return False
    possessive = text[stop : stop + 2] == "'s" and not _in_word(text[stop + 2 : stop + 3])
    contracted = after == "'" and _in_word(text[stop - 1]) and _in_word(text[stop + 1 : stop + 2])
    return possessive or not contracted


def _goes_on(edge: str, beyond: str) -> bool:
    """Whether the word at whose edge this character is goes on: C++ before 11 or another +."""
    if not _in_word(edge):
        return beyond == edge or (_in_word(beyond) and not _IS_UNSPACED.match(beyond))
    return _in_word(beyond) and not (_IS_UNSPACED.match(edge) or _IS_UNSPACED.match(beyond))


def _alone(spans: Sequence[Span], start: int, stop: int) -> bool:
    """Whether the original characters of these are not also those of their neighbours."""
    return (start == 0 or spans[start - 1][1] <= spans[start][0]) and (
        stop == len(spans) or spans[stop - 1][1] <= spans[stop][0]
    )


def _respelled(text: Spanned, matches: Iterable[_Match]) -> Spanned:
    words: list[str] = []
    spans: list[Span] = []
    done = 0
    for start, stop, entry in matches:
        if entry.say is None or entry.say == text.text[start:stop]:
            continue
        # "percent" for % in "50%" needs a space before it.
        left = " " * (_in_word(text.text[max(0, start - 1) : start]) and _in_word(entry.say[0]))
        right = " " * (_in_word(text.text[stop : stop + 1]) and _in_word(entry.say[-1]))
        words += text.text[done:start], left, entry.say, right
        spans += text.spans[done:start]
        spans += [text.origin(start, stop)] * len(left + entry.say + right)
        done = stop
    return Spanned("".join(words) + text.text[done:], (*spans, *text.spans[done:]))
