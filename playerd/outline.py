"""What the text lets one expect: sentences that are still to be spoken. Core.

The engine cuts as it likes, and says only of a segment that is begun how long it will be. What
comes behind it is guessed from the text: a sentence is a segment, a very long one is two.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.request import Boundary

#: how far ahead to look; what is further away changes no decision
_PARTS, _CHARS = 3, 1200
#: a longer sentence is more than one segment
_LONG = 260

_END = re.compile(r"[.!?…。！？]+[\"'”’)\]]*(?=\s|$)\s*|\s*\n\s*\n\s*")
_CLOSING: dict[str, Boundary] = {
    **dict.fromkeys(",、，", "comma"),
    **dict.fromkeys(";:—–…；：", "clause"),
    **dict.fromkeys(".!?。！？", "sentence"),
}


class Part(NamedTuple):
    """A piece of text that will probably be a segment: its length, and what is before it."""

    chars: int
    before: Boundary


def boundary(text: str, at: int) -> Boundary:
    """What is between two segments, of which the second begins about there."""
    before = text[:at].rstrip()
    rest = text[at:]
    between = text[len(before) : at] + rest[: len(rest) - len(rest.lstrip())]
    if between.count("\n") > 1:
        return "paragraph"
    return _CLOSING.get(before.rstrip("\"'”’)]")[-1:], "none")


def parts(text: str, start: int, *, complete: bool) -> tuple[Part, ...]:
    """The next few parts from character `start` on.

    Args:
        text: as far as it is known.
        start: where the last segment that was begun ends.
        complete: whether no text will follow; if not, a sentence without an end is not counted.
    """
    found: list[Part] = []
    window = text[start : start + _CHARS]
    at = 0
    while len(found) < _PARTS and at < len(window):
        end = _END.search(window, at)
        if end is None and not (complete and start + _CHARS >= len(text)):
            break
        stop = end.end() if end else len(window)
        chars = len(window[at:stop].strip())
        if chars:
            pieces = -(-chars // _LONG)
            first = boundary(text, start + at)
            befores: list[Boundary] = [first]
            befores += ["comma"] * (pieces - 1)
            found += [Part(chars // pieces, before) for before in befores]
        at = stop
    return tuple(found[:_PARTS])
