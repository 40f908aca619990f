"""Engines that ended in the use of another provider than the processor, and what follows. Core.

A provider may take the process down in the middle of a call, by an abort or a segmentation fault.
Whoever starts the engine anew would have it do the same again, for ever. So while an engine uses
one, a file says so, its mark (`marker`); at a clean end the engine takes it away, and so it does
when the provider is given up. A mark whose engine is gone tells of an `End`.

What is fair: most ends without a word are nobody's fault but that of who killed the engine, of a
machine without power, or of memory that ran out. So an end counts only

* if the process was ended by a fault, which it has written behind the mark while it died; one such
  end is enough,
* or if a call to the provider had not come back. A kill in the middle of speech looks like that
  too, and so does an engine that hangs: it takes two, of engines that began within a day.

What counts does so against the one decision that the engine went by. The next test of the providers
makes another, so nothing is held against anybody for longer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import pairwise

import msgspec

from engine.config import Retest
from engine.model.providers import PERIOD_S

#: ends in a call for which there may be other reasons are one too many if their engines began within
WITHIN_S = PERIOD_S["daily"]

#: first byte of a mark: whether a call to the provider has not come back
BUSY, IDLE = b"+", b"-"

#: what Python's faulthandler writes first; nothing else of what is behind a mark is told
_FAULT = re.compile(rb"^Fatal Python error: ([A-Z][A-Za-z ]{2,40})$", re.MULTILINE)


class Mark(msgspec.Struct, frozen=True):
    """What an engine writes down of itself before it uses another provider than the processor.

    Attributes:
        decided_s: of the decision that it goes by, which has no other name.
        began_s: when it began, seconds since 1970.
        pid: for people; whether the engine lives is told by its lock on the file.
        places: names of the candidates, without the processor.
    """

    decided_s: float
    began_s: float
    pid: int
    places: tuple[str, ...]


class End(msgspec.Struct, frozen=True):
    """An engine that left its mark behind.

    Attributes:
        mark: of it.
        busy: whether a call to the provider had not come back.
        fault: what ended it, such as "Aborted"; empty if it wrote nothing.
    """

    mark: Mark
    busy: bool
    fault: str


def encoded(mark: Mark) -> bytes:
    """A mark as a file; the first byte is changed in place, a fault is appended."""
    return IDLE + msgspec.json.encode(mark) + b"\n"


def decoded(content: bytes) -> End | None:
    """What a mark tells when its engine is gone; None if it is none."""
    line, _, behind = content.partition(b"\n")
    if line[:1] not in (BUSY, IDLE):
        return None
    try:
        mark = msgspec.json.decode(line[1:], type=Mark)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    fault = _FAULT.search(behind)
    return End(mark, line[:1] == BUSY, fault[1].decode() if fault else "")


def counts(end: End, decided_s: float) -> bool:
    """Whether an end is held against the providers of this decision."""
    return end.mark.decided_s == decided_s and (end.busy or bool(end.fault))


def verdict(ends: Sequence[End], decided_s: float, places: Collection[str], retest: Retest) -> str:
    """Why the processor is used instead of these places, a sentence; empty if they may be.

    Args:
        ends: all that are known.
        decided_s: of the decision that chose the places.
        places: names of candidates.
        retest: the setting.
    """
    against = [
        end
        for end in ends
        if counts(end, decided_s) and not set(places).isdisjoint(end.mark.places)
    ]
    faults = [end.fault for end in against if end.fault]
    begun = sorted(end.mark.began_s for end in against)
    used = " and ".join(sorted({name for end in against for name in end.mark.places}))
    if faults:
        what = f"The engine was ended by a fault ({faults[-1].lower()}) while it used {used}"
    elif any(later - earlier <= WITHIN_S for earlier, later in pairwise(begun)):
        what = f"The engine ended twice within a day in the middle of a call to {used}"
    else:
        return ""
    return (
        f"{what}, so the processor is used until the providers are tried again (provider_retest: "
        f"{retest}); python -m bench providers does that at once, for the engine's next start."
    )
