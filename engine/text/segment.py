"""Text to segments: the units of prosody, with their place in the original text. Core."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sentencex import get_sentence_boundaries

#: longer sentences are cut at a clause: beyond about 350 characters the model hurries and fades
MAX_CHARS = 300
#: the first segment is cut earlier, because no sound comes before all of it is inferred
FIRST_CHARS = 120

#: where to cut, best first; the sign stays with what is before it
_CUTS = tuple(
    re.compile(pattern)
    for pattern in (r"[.!?…]['\")\]”’]*\s+", r"[;:—–]\s*", r"[,、，]\s+", r"\s+")
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the original text: `text == original[start:end]`."""

    text: str
    start: int
    end: int


def segments(text: str, language: str) -> Iterator[Segment]:
    """Cuts `text` into segments that leave out nothing but white space.

    Args:
        text: the original text.
        language: code of the sentence splitter (`Language.sentences`).
    """
    first = True
    for start, end in _sentences(text, language):
        for piece_start, piece_end in _pieces(text, start, end, first=first):
            yield Segment(text[piece_start:piece_end], piece_start, piece_end)
            first = False


def _sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    # The splitter is native code and takes no lone surrogates; one for one, so offsets hold.
    safe = text.encode("utf-8", "replace").decode()
    for boundary in get_sentence_boundaries(language, safe):
        start, end = _trim(text, boundary["start_index"], boundary["end_index"])
        if start < end:
            yield start, end


def _pieces(text: str, start: int, end: int, *, first: bool) -> Iterator[tuple[int, int]]:
    while start < end:
        limit = FIRST_CHARS if first else MAX_CHARS
        cut = end if end - start <= limit else start + _cut(text[start : start + limit])
        yield _trim(text, start, cut)
        start, first = _trim(text, cut, end)[0], False


def _cut(window: str) -> int:
    """Where to cut a window that is full: after the last good place in its second half."""
    for pattern in _CUTS:
        places = [m.end() for m in pattern.finditer(window) if m.end() >= len(window) // 3]
        if places:
            return places[-1]
    return len(window)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
