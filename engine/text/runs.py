"""A sentence divided by language: by its scripts, and by what the user marked. Core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.errors import UnsupportedLanguage
from engine.text import languages
from engine.text.eastern import UNIT
from engine.text.languages import BY_TAG, LANGUAGES, Frontend, Language
from engine.text.passage import Tongue
from engine.text.spanned import Spanned

_LATIN, _HAN, _KANA, _DEVANAGARI = (
    r"\p{Latin}",
    r"\p{Han}",
    r"[\p{Hiragana}\p{Katakana}ー]",
    r"\p{Devanagari}",
)
#: A number has its signs and unit with it. A single Greek letter is a sign as well (π, Ω), which
#: the normaliser knows. Letters of scripts that nothing reads are `other`.
_TOKEN = regex.compile(
    rf"""
    (?P<number> (?:(?<![\p{{L}}\p{{N}}])[-+−])? (?:[$€£¥￥₩₹][-−]?)? \p{{Nd}}+ (?:[.,:/]\p{{Nd}}+)*
                (?: [ ]?(?:{UNIT})(?![\p{{Latin}}\p{{N}}]) | [%％‰℃] )?
              | \p{{Greek}}\p{{M}}* (?!\p{{Greek}}) )
    | (?P<han> (?:{_HAN}\p{{M}}*)+ )
    | (?P<kana> (?:{_KANA}\p{{M}}*)+ )
    | (?P<devanagari> (?:{_DEVANAGARI}\p{{M}}*)+ )
    | (?P<latin> (?:{_LATIN}\p{{M}}*)+ )
    | (?P<other> (?:(?!{_LATIN}|{_HAN}|{_KANA}|{_DEVANAGARI}|\p{{Common}})\p{{L}}\p{{M}}*)+ )
    | (?P<space> \s+ )
    | (?P<opening> [\p{{Ps}}\p{{Pi}}¿¡]+ )
    | (?P<mark> . )
    """,
    regex.VERBOSE | regex.DOTALL,
)
_LETTERS = ("han", "kana", "devanagari", "latin", "other")


class Run(NamedTuple):
    """Characters `start`…`stop` of a text, and what reads them; None: nothing can."""

    start: int
    stop: int
    language: Language | None


def runs(text: Spanned, language: Language, tongues: Iterable[Tongue] = ()) -> list[Run]:
    """The text divided into runs of one language each, in order and without gaps.

    Kana are Japanese. Chinese characters are Mandarin, unless the language is Japanese or kana are
    near: without a space between or, in a Mandarin sentence, in the same unbroken row. Latin is in
    the language itself, but English in Mandarin and Japanese.

    Numbers that touch Chinese characters or kana are read with them, else in the language if it
    is Mandarin or Japanese, else with the word they touch. Marks go with what is before them,
    opening ones with what follows. Beside what nothing can read, both are in the language.

    Args:
        text: a sentence.
        language: that it is in.
        tongues: parts that the user marked as another one, in order, without overlap. An unknown
            name is ignored.
    """
    tongues = tuple(tongues)
    if text.text.isascii() and not (tongues or _is_eastern(language)):
        return [Run(0, len(text), language)] if text.text else []
    found: list[Run] = []
    for start, stop, main in _regions(text, language, tongues):
        found += (
            [Run(start, stop, None)] if main is None else _divided(text.text, start, stop, main)
        )
    joined: list[Run] = []
    for read, group in groupby(found, key=lambda run: run.language):
        same = list(group)
        joined.append(Run(same[0].start, same[-1].stop, read))
    return joined


def refuse_unreadable(text: str, language: Language) -> None:
    """Does nothing if anything in the text can be read.

    Args:
        text: the original; it is looked at up to the first thing that can be read.
        language: of the request.

    Raises:
        UnsupportedLanguage: it has letters, and all are in scripts that cannot be read here.
    """
    missing: Language | None = None
    letters = False
    for token in _TOKEN.finditer(text):
        kind = str(token.lastgroup)
        if kind not in (*_LETTERS, "number"):
            continue
        kana = kind == "han" and regex.search(_KANA, text) is not None
        spoken = language if kind == "number" else _of_script(kind, language, kana=kana)
        if _readable(spoken):
            return
        letters, missing = True, missing or spoken
    if missing:
        sentence = f"The text is in {missing.name}, which {languages.unreadable(missing)}."
        raise UnsupportedLanguage(sentence, param="text")
    if letters:
        known = ", ".join(known.name for known in LANGUAGES)
        sentence = f"The text is in a script that no voice can read; voices speak {known}."
        raise UnsupportedLanguage(sentence, param="text")


def _regions(
    text: Spanned, language: Language, tongues: Sequence[Tongue]
) -> Iterator[tuple[int, int, Language | None]]:
    """Parts by what the user marked, each with its language; None: it cannot be read here."""
    left = list(reversed(tongues))
    owners: list[Tongue | None] = []
    for start, _ in text.spans:
        while left and left[-1].end <= start:
            left.pop()
        owners.append(left[-1] if left and left[-1].start <= start else None)
    at = 0
    for tongue, group in groupby(owners):
        stop = at + len(list(group))
        named = languages.named(tongue.tag) if tongue else None
        yield at, stop, _readable(named) if named else language
        at = stop


def _divided(text: str, start: int, stop: int, main: Language) -> Iterator[Run]:
    """The tokens of a region, each with what reads it."""
    tokens = list(_TOKEN.finditer(text, start, stop))
    kinds = [str(token.lastgroup) for token in tokens]
    letters = _letters(kinds, main)
    next_kind, next_read = _following(kinds, letters, main)
    read: list[Language | None] = []
    last_kind = ""
    for at, kind in enumerate(kinds):
        before = read[-1] if read else main
        if kind in _LETTERS:
            last_kind = kind
            read.append(letters[at])
        elif kind == "number":
            inside = last_kind == next_kind[at] == "latin"
            read.append(_of_number(at, kinds, letters, main, before, inside=inside))
        else:
            read.append(before or (next_read[at] and main))
    for at in range(len(kinds) - 2, -1, -1):
        if kinds[at] == "opening":
            read[at] = read[at + 1] or read[at]
    for token, language in zip(tokens, read, strict=True):
        yield Run(token.start(), token.end(), language)


def _letters(kinds: Sequence[str], main: Language) -> list[Language | None]:
    """What reads each token of letters."""
    near: list[bool] = []
    for _, group in groupby(kinds, key=_is_in_row if main.tag == "zh" else "space".__ne__):
        same = list(group)
        near += ["kana" in same] * len(same)
    pairs = zip(kinds, near, strict=True)
    return [_readable(_of_script(kind, main, kana=kana)) for kind, kana in pairs]


def _is_in_row(kind: str) -> bool:
    return kind in ("han", "kana", "number")


def _following(
    kinds: Sequence[str], letters: Sequence[Language | None], main: Language
) -> tuple[list[str], list[Language | None]]:
    """The kind of the next letters behind each token, and what reads them; main at the end."""
    next_kind, next_read = [""], [main if main else None]
    for kind, read in zip(reversed(kinds), reversed(letters), strict=True):
        is_letter = kind in _LETTERS
        next_kind.append(kind if is_letter else next_kind[-1])
        next_read.append(read if is_letter else next_read[-1])
    return next_kind[:0:-1], next_read[:0:-1]


def _of_number(
    at: int,
    kinds: Sequence[str],
    letters: Sequence[Language | None],
    main: Language,
    before: Language | None,
    *,
    inside: bool,
) -> Language:
    """What reads a number; `inside`: it is between Latin letters."""
    for beside in (at + 1, at - 1):
        if 0 <= beside < len(kinds) and kinds[beside] in ("han", "kana"):
            return letters[beside] or main
    touches = at > 0 and kinds[at - 1] in (*_LETTERS, "number")
    if (touches and not _is_eastern(main)) or inside:
        return before or main
    return main


def _of_script(kind: str, main: Language, *, kana: bool) -> Language | None:
    """What should read letters of a kind; `kana`: they are near."""
    if kind == "latin":
        return BY_TAG["en-us"] if _is_eastern(main) else main
    if kind == "han" and not (kana or main.tag == "ja"):
        return BY_TAG["zh"]
    return {"han": BY_TAG["ja"], "kana": BY_TAG["ja"], "devanagari": BY_TAG["hi"]}.get(kind)


def _is_eastern(language: Language) -> bool:
    return language.tag in ("ja", "zh")


def _readable(language: Language | None) -> Language | None:
    return language if language and language.frontend is not Frontend.NONE else None
