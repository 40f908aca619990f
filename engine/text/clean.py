"""Makes characters harmless before anything looks at them. Core.

What nobody can speak goes: surrogates, control and format characters, private use, escape sequences
of terminals, floods of marks on a letter. What has several forms gets one: white space, line ends,
composed letters (NFC), full-width Latin. Emoji are dropped or named; a digit in a box is the digit.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import emoji
import regex  # type: ignore[import-untyped]  # it ships no types

from engine.text.spanned import Span, Spanned

#: marks that a letter keeps; written languages need three at most, more are decoration
MAX_MARKS = 3

#: what may belong to the character before it: marks, Hangul vowels and finals, format characters
_JOINS = r"\p{M}\p{Cf}\u1160-\u11ff"
#: so many of them belong to one character, the rest to none
_MAX_JOINED = 32
_FLAGS, _SKINS = r"\U0001f1e6-\U0001f1ff", r"\U0001f3fb-\U0001f3ff"
#: what belongs to nothing before it; text before one of these is settled, whatever follows
_STARTS = regex.compile(
    rf"(?r)(?<!\u200d)(?<!\r(?=\n))[^{_JOINS}{_FLAGS}{_SKINS}]|(?<=[{_JOINS}]{{{_MAX_JOINED}}})[{_JOINS}]"
)
_ANSI = regex.compile(r"\x1b(?:\[[0-?]{0,32}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,256}\x07?|\\)")

#: pictographs that are letters and signs in plain text: emoji only with the selector U+FE0F
_SIGNS = "‼⁉ℹ↔-↙↩↪Ⓜ⤴⤵⬅-⬇〰〽㊗㊙♀♂✖▪▫◻◼▶◀"
_PICTURE = rf"""
    (?:(?![©®™{_SIGNS}])\p{{Extended_Pictographic}}|[{_SIGNS}](?=\ufe0f)|[{_SKINS}])
    [\ufe0e\ufe0f]?[{_SKINS}]?(?:[\U000e0020-\U000e007e]{{1,24}}\U000e007f)?
"""
_TOKEN = regex.compile(
    rf"""
    (?P<plain> (?:[ -~](?=[ -~\n]|\Z))+ )
    | (?P<line> \r\n | [\n\r\x85\u2028] )
    | (?P<paragraph> \u2029 )
    | (?P<escape> {_ANSI.pattern} )
    | (?P<emoji> [{_FLAGS}]{{1,2}} | [0-9\#*]\ufe0f?\u20e3
               | {_PICTURE}(?:\u200d{_PICTURE})* )
    | (?P<cluster> [^{_JOINS}][{_JOINS}]{{0,{_MAX_JOINED}}} )
    | (?P<stray> [{_JOINS}]+ )
    """,
    regex.VERBOSE,
)
_WIDE = regex.compile("[\uff01-\uff5e‼⁇⁈⁉]")
_SPACES = regex.compile(r"\s+")
#: signs that writers and editors use for the apostrophe; G2P knows only the plain one
APOSTROPHES = "‘’ʼ′´`"
_APOSTROPHE = regex.compile(f"[{APOSTROPHES}]")
#: signs that nothing joins: what follows changes none of them
_ALONE = frozenset(" \n\t.,;:!?…।॥؟۔)]}\"'”’»›」』）】。！？，、")
_NO_NAME = regex.compile(r"[^\w'-]+|_+")


class Cleaner:
    """Cleans a text that comes in pieces; the result does not depend on where it is cut.

    Args:
        language: `Language.sentences`. Names of emoji are in it, if they have any; full-width forms
            stay as they are in Chinese and Japanese.
        emojis: what becomes of emoji.
    """

    def __init__(self, language: str, emojis: Literal["drop", "name"] = "drop") -> None:
        self._language = language
        self._emojis = emojis
        self._held = ""  # characters `_at`… of the original, not settled yet
        self._at = 0

    def push(self, piece: str) -> Spanned:
        """What is settled with this piece. A letter is when the character after it is there."""
        # but for an escape sequence, what was held has no such place
        known = 0 if self._held.startswith("\x1b") else len(self._held)
        self._held += piece
        start = _STARTS.search(self._held, known)
        return self._take(self._before_escape(start.start() if start else 0))

    @property
    def held(self) -> str:
        """What is not settled yet, as it was written."""
        return self._held

    def settle(self) -> Spanned:
        """What is held, if it will not change: a mark or a space; more may follow."""
        return self._take(1 if self._held in _ALONE else 0)

    def flush(self) -> Spanned:
        """What is held, but for the beginning of what nobody hears; more may follow."""
        return self._take(self._before_escape(len(self._held.removesuffix("\r"))))

    def end(self) -> Spanned:
        """What is still held."""
        return self._take(len(self._held))

    def _before_escape(self, cut: int) -> int:
        """The cut, or one before it that leaves an escape sequence whole."""
        escape = self._held.rfind("\x1b", 0, cut)
        if escape >= 0:
            found = _ANSI.match(self._held, escape, partial=True)
            if found and (found.partial or found.end() > cut):
                return escape
        return cut

    def _take(self, cut: int) -> Spanned:
        text: list[str] = []
        spans: list[Span] = []
        for found in _TOKEN.finditer(self._held, 0, cut):
            start, end = self._at + found.start(), self._at + found.end()
            if found.lastgroup == "plain":
                text.append(found[0])
                spans += [(at, at + 1) for at in range(start, end)]
                continue
            new, span = self._one(found[0], found.lastgroup), (start, end)
            if found.lastgroup == "cluster":
                new, span = self._cluster(found[0], start)
            text.append(new)
            spans += [span] * len(new)
        self._held, self._at = self._held[cut:], self._at + cut
        return Spanned("".join(text), tuple(spans))

    def _one(self, token: str, kind: str) -> str:
        if kind == "emoji" and token[0].isdecimal():
            return token[0]
        if kind == "emoji" and self._emojis == "name":
            return f" {self._name(token)} "
        return {"line": "\n", "paragraph": "\n\n"}.get(kind, "")

    def _name(self, token: str) -> str:
        language = self._language if self._language in emoji.LANGUAGES else "en"
        named = emoji.demojize(token, delimiters=(" ", " "), language=language)
        return str(_NO_NAME.sub(" ", named)).strip()

    def _cluster(self, token: str, start: int) -> tuple[str, Span]:
        """A character with what belongs to it, and the characters of the original that are left."""
        category = unicodedata.category(token[0])
        if category in ("Cc", "Zs"):
            return " ", (start, start + 1)
        if category in ("Cs", "Co", "Cn"):
            return "", (start, start)
        kept, marks, end = token[0], 0, start + 1
        for at, c in enumerate(token[1:], start + 1):
            is_mark = unicodedata.category(c)[0] == "M"
            if _is_unspoken(c) or (is_mark and marks == MAX_MARKS):
                continue
            marks += is_mark
            kept += c
            end = at + 1
        composed = unicodedata.normalize("NFC", kept)
        if len(composed) > 1 and not token[0].isalnum():
            composed, end = token[0], start + 1  # a mark on nothing; the sign may be markup
        if self._language not in ("ja", "zh"):
            composed = _WIDE.sub(lambda wide: unicodedata.normalize("NFKC", wide[0]), composed)
        return composed, (start, end)


def _is_unspoken(c: str) -> bool:
    """Format characters and variation selectors."""
    return (
        unicodedata.category(c) == "Cf"
        or "\ufe00" <= c <= "\ufe0f"
        or "\U000e0100" <= c < "\U000e01f0"
    )


def cleaned(text: str, language: str = "en") -> Spanned:
    """A whole text cleaned, with single spaces for all white space and none at its ends."""
    cleaner = Cleaner(language)
    whole = cleaner.push(text) + cleaner.end()
    return whole.sub(_SPACES, " ").strip().sub(_APOSTROPHE, "'")


def has_letters_or_digits(text: str) -> bool:
    """Whether there is anything in it that could be spoken."""
    return any(c.isalnum() for c in text)
