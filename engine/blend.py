"""Blends of voices, from what people write to shares and back. Core.

Written in any of these ways: `a:60,b:40`, `a(2)+b(1)`, `a*0.6+b*0.4`, `0.6*a+0.4*b`, and `a+b` or
`a,b` for equal parts. A minus takes a voice away, which makes the others less like it: `a(2)-b(1)`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from engine.errors import InvalidRequest
from engine.request import MAX_VOICE_CHARS

MAX_PARTS = 8
MAX_WEIGHT = 1000.0

#: shares of a blend add up to this; a finer difference cannot be heard
WHOLE = 10_000

_WEIGHT = r"[-+]?[\w.]+(?:(?<=[\d.][eE])[-+]\d+)?"
_PART = re.compile(
    rf"\s*(?:({_WEIGHT})\s*\*\s*)?([^\W\d]\w*)\s*(?:[:*]\s*({_WEIGHT})|\(\s*({_WEIGHT})\s*\))?\s*"
)
_SIGNS = {",": 1, "+": 1, "-": -1}


class Part(NamedTuple):
    """A voice and its share, in parts of `WHOLE`; below 0 it is taken away."""

    voice: str
    share: int


@dataclass(frozen=True, slots=True)
class Blend:
    """One voice, or several with their shares.

    Attributes:
        parts: 1 to `MAX_PARTS`, the heaviest first and equal ones as they were written; the shares
            add up to `WHOLE`.
    """

    parts: tuple[Part, ...]

    @property
    def heaviest(self) -> str:
        """The voice that gives the blend what cannot be mixed: its language and its speed."""
        return self.parts[0].voice

    @property
    def name(self) -> str:
        """The one way of writing it in percent, such as `af_heart:60,am_michael:40`."""
        if len(self.parts) == 1:
            return self.heaviest
        written = (
            f"{',' if share > 0 else '-'}{voice}:{abs(share) / 100:g}"
            for voice, share in self.parts
        )
        return "".join(written)[1:]


def of_voice(voice: str) -> Blend:
    """That voice alone."""
    return Blend((Part(voice, WHOLE),))


def parse(text: str) -> Blend:
    """A blend from one of the notations above; whether there are such voices is not checked.

    Raises:
        InvalidRequest: it cannot be read, a weight is impossible, or a voice comes twice.
    """
    if len(text) > MAX_VOICE_CHARS:
        raise _too_long(len(text))
    written = _written(text)
    if len(written) > MAX_PARTS:
        raise _invalid(f"The voice is a blend of {len(written)}; it may have {MAX_PARTS} parts.")
    voices = [voice for voice, _, _ in written]
    for voice in voices:
        if voices.count(voice) > 1:
            raise _invalid(f"The voice {voice[:40]!r} comes twice in the blend.")
    if len({weight is None for _, _, weight in written}) > 1:
        raise _invalid("Give all voices of the blend a weight, or none of them.")
    shares = _shares([sign * (1.0 if w is None else w) for _, sign, w in written])
    for voice, share in zip(voices, shares, strict=True):
        if not share:
            raise _invalid(f"The voice {voice[:40]!r} is less than 0.01 % of the blend.")
    parts = map(Part, voices, shares)
    blend = Blend(tuple(sorted(parts, key=lambda part: part.share, reverse=True)))
    if len(blend.name) > MAX_VOICE_CHARS:
        raise _too_long(len(blend.name))
    return blend


def _written(text: str) -> list[tuple[str, int, float | None]]:
    """Voice, sign and weight of each part."""
    found: list[tuple[str, int, float | None]] = []
    sign, at = 1, 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            rest = text[at:].strip()
            raise _empty() if not rest or rest[0] in _SIGNS else _unreadable(text)
        before, voice, *after = match.groups()
        weights = [_weight(written, voice) for written in (before, *after) if written is not None]
        if len(weights) > 1:
            raise _invalid(f"The voice {voice[:40]!r} has two weights in the blend.")
        found.append((voice, sign, weights[0] if weights else None))
        at = match.end()
        if at == len(text):
            return found
        if text[at] not in _SIGNS:
            raise _unreadable(text)
        sign, at = _SIGNS[text[at]], at + 1


def _weight(written: str, voice: str) -> float:
    try:
        weight = float(written)
    except ValueError:
        raise _invalid(f"The weight {written[:40]!r} of {voice[:40]!r} is not a number.") from None
    if not 0 < weight <= MAX_WEIGHT:  # also catches what is not a number
        raise _invalid(
            f"The weight of {voice[:40]!r} is {weight:g}; it must be above 0 and at most "
            f"{MAX_WEIGHT:g}."
        )
    return weight


def _shares(weights: list[float]) -> list[int]:
    """Signed weights to whole shares: rounded down, and what is left to the largest rests."""
    total = sum(weights)
    shares: list[int] = []
    if total > 0:
        exact = [weight / total * WHOLE for weight in weights]
        shares = [math.floor(share) for share in exact]
        by_rest = sorted(range(len(exact)), key=lambda at: shares[at] - exact[at])
        for at in by_rest[: WHOLE - sum(shares)]:
            shares[at] += 1
    # Farther out than this the style is like nothing that the model has learned.
    if total <= 0 or sum(share for share in shares if share < 0) < -WHOLE:
        raise _invalid("The blend takes away more than half of what it adds.")
    return shares


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest(message, param="voice")


def _too_long(chars: int) -> InvalidRequest:
    return _invalid(f"The voice has {chars} characters; the limit is {MAX_VOICE_CHARS}.")


def _empty() -> InvalidRequest:
    return _invalid("The blend has an empty part; write for instance af_heart:60,am_michael:40.")


def _unreadable(text: str) -> InvalidRequest:
    return _invalid(
        f"The voice {text[:40]!r} cannot be read; write for instance af_heart:60,am_michael:40."
    )
