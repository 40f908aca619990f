"""What people type for a place in a text, a volume or a speed. Core."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import InvalidRequest
from engine.request import MAX_SPEED, MIN_SPEED
from engine.samples import ms_to_samples
from wsproto_api.messages import PlayerSeek

#: more than the longest text takes to be spoken; the most that a `seek` may say (a day)
_MOST_S = 24 * 3600.0

#: digits behind the point that are sent, so that steps of a tenth lead back to where they began
_DIGITS = 3

# Short, and ASCII: `float` alone would take "1_0", "nan" and digits of other scripts too.
_NUMBER = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})(%?)", re.ASCII)
_CLOCK = re.compile(
    r"(?:(?P<h>[0-9]{1,3}):(?=[0-5][0-9]:))?(?P<m>[0-9]{1,3}):(?P<s>[0-5][0-9](?:\.[0-9]{1,9})?)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Change:
    """A new value, or by how much more or less it is to be.

    Attributes:
        amount: the one or the other.
        relative: which of the two.
        least: what may come of it.
        most: the same.
    """

    amount: float
    relative: bool
    least: float
    most: float

    def of(self, now: float) -> float:
        """What becomes of the value `now`; a step over an end leads to the end."""
        wanted = round(now + self.amount if self.relative else self.amount, _DIGITS)
        return min(max(wanted, self.least), self.most)


def volume(text: str) -> Change:
    """A volume: "0.5" or "50%"; "+10%" and "-0.1" are louder and quieter by so much of the whole.

    Raises:
        InvalidRequest: it is none, or not from 0 to 1.
    """
    sign, rest = _signed(text)
    amount = _number(rest, percent=True)
    if amount is None or (not sign and amount > 1):
        raise InvalidRequest("A volume is like 0.5, 50%, +10% or -10%; the most is 1, or 100%.")
    return Change((sign or 1) * amount, bool(sign), 0.0, 1.0)


def speed(text: str) -> Change:
    """A speed: "1.25"; "+0.1" and "-0.1" are faster and slower by so much.

    Raises:
        InvalidRequest: it is none, or nothing can be spoken with it.
    """
    sign, rest = _signed(text)
    amount = _number(rest)
    if amount is None or not (sign or MIN_SPEED <= amount <= MAX_SPEED):
        raise InvalidRequest(
            f"A speed is like 1.25, +0.1 or -0.1; it is from {MIN_SPEED:g} to {MAX_SPEED:g}."
        )
    return Change((sign or 1) * amount, bool(sign), MIN_SPEED, MAX_SPEED)


def own_speed(text: str) -> float:
    """The speed of one text: "1.25".

    Raises:
        InvalidRequest: it is none, or nothing can be spoken with it.
    """
    change = speed(text)
    if change.relative:
        raise InvalidRequest(f"The speed of a text is from {MIN_SPEED:g} to {MAX_SPEED:g}.")
    return change.amount


def place(text: str) -> PlayerSeek:
    """A place in what is spoken: "30" (seconds), "1:30" or "50%"; "+5" and "-5" from where it is.

    Raises:
        InvalidRequest: it is none.
    """
    sign, rest = _signed(text)
    if rest.endswith("%"):
        fraction = _number(rest, percent=True)
        if not sign and fraction is not None and fraction <= 1:
            return PlayerSeek(fraction=fraction)
    else:
        seconds = _seconds(rest)
        if seconds is not None and seconds <= _MOST_S:
            if sign:
                return PlayerSeek(by_ms=sign * 1000 * seconds)
            return PlayerSeek(sample=ms_to_samples(1000 * seconds))
    raise InvalidRequest("A place is like +5, -5 or 30 (seconds), 1:30 or 50%.")


def _signed(text: str) -> tuple[int, str]:
    """1, -1, or 0 without a sign; and what follows it."""
    text = text.strip()
    sign = {"+": 1, "-": -1}.get(text[:1], 0)
    return sign, text[1:] if sign else text


def _number(text: str, *, percent: bool = False) -> float | None:
    """A number, or so many hundredths if it ends with a sign for that; None if it is neither."""
    found = _NUMBER.fullmatch(text)
    if found is None or (found[2] and not percent):
        return None
    return float(found[1]) / 100 if found[2] else float(found[1])


def _seconds(text: str) -> float | None:
    """Of "90", "1:30" or "1:02:30"; None if it is none of these."""
    clock = _CLOCK.fullmatch(text)
    if clock is None:
        return _number(text)
    return float(clock["h"] or 0) * 3600 + float(clock["m"]) * 60 + float(clock["s"])
