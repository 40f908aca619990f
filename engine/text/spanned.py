"""Text whose every character knows which characters of the original it stands for. Core."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

#: (start, end) in the original text, in code points
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Spanned:
    """A piece of text on its way from what was written to what is spoken.

    Attributes:
        text: as it is now.
        spans: for each character of `text` the characters of the original that it stands for;
            both ends never fall. Characters of a replacement all have the span of what they
            replace.
    """

    text: str = ""
    spans: tuple[Span, ...] = ()

    @classmethod
    def of(cls, text: str, start: int = 0) -> Spanned:
        """The original itself, or a part of it that begins at `start`."""
        return cls(text, tuple((at, at + 1) for at in range(start, start + len(text))))

    def __len__(self) -> int:
        return len(self.text)

    def __add__(self, other: Spanned) -> Spanned:
        return Spanned(self.text + other.text, self.spans + other.spans)

    def part(self, start: int, stop: int | None = None) -> Spanned:
        """Characters `start`…`stop`, as a slice."""
        return Spanned(self.text[start:stop], self.spans[start:stop])

    def strip(self) -> Spanned:
        """The same without white space at its ends."""
        start = len(self.text) - len(self.text.lstrip())
        return self.part(start, max(start, len(self.text.rstrip())))

    def origin(self, start: int, stop: int) -> Span:
        """What characters `start`…`stop` of this text, one at least, stand for."""
        return self.spans[start][0], self.spans[stop - 1][1]

    def sub(
        self, pattern: re.Pattern[str], replace: str | Callable[[re.Match[str]], str]
    ) -> Spanned:
        """Every match replaced; a match that is replaced by itself keeps its characters' spans.

        Args:
            pattern: an empty match gives its characters the place before which it stands.
            replace: the new text itself, not a template; or what gives it for a match.
        """
        text: list[str] = []
        spans: list[Span] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = replace if isinstance(replace, str) else replace(match)
            start, stop = match.span()
            if new == match[0]:
                continue
            text += self.text[done:start], new
            spans += self.spans[done:start]
            spans += [self._around(start, stop)] * len(new)
            done = stop
        if not done and not text:
            return self
        return Spanned("".join(text) + self.text[done:], (*spans, *self.spans[done:]))

    def _around(self, start: int, stop: int) -> Span:
        if start < stop:
            return self.origin(start, stop)
        before = self.spans[start - 1][1] if start else 0
        at = self.spans[start][0] if start < len(self.spans) else before
        return at, max(at, before)
