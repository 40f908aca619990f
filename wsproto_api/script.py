"""What a server said on one recorded connection, and when it is its turn to say it again. Core.

The n-th message of the client stands for the n-th recorded one; reports of how far a listener is
(`heard`), which come by the clock, do not count. What the server said comes after the messages of
the client that it came after, and as long after the last of them as it did then. `reply_to` becomes
the id that the client uses now; everything else is as it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from . import messages
from .errors import RemoteProtocolError
from .messages import Ack, Error, Unknown
from .transcript import Binary, Closed, Passed, Said, Socket, Sounded, vocabularies

#: complaints that a client may leave unread before no more of it is heard
COMPLAINTS = 16


@dataclass(frozen=True, slots=True)
class Say:
    """Send this at `at_s`, or at once."""

    data: str | bytes
    at_s: float


@dataclass(frozen=True, slots=True)
class End:
    """Close the connection at `at_s`."""

    code: int
    reason: str
    at_s: float


@dataclass(frozen=True, slots=True)
class Listen:
    """Wait for the client, which has the next word or none."""


Step: TypeAlias = Say | End | Listen


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a client's message is, as far as a recorded and a new one must agree."""

    type: str
    id: str | None = None

    def __str__(self) -> str:
        return self.type if self.type in (_BINARY, _BROKEN) else f"a message {self.type!r}"


_BINARY, _BROKEN = "a binary message", "a message that is none"


class Script:
    """One connection of a transcript, played again.

    Args:
        entries: what passed on it.
        socket: who the server was.
        now_s: when the client came; times are seconds of any one clock.
        shown: whether the client showed its token in the handshake; an `auth` that was recorded
            will not come then.
    """

    def __init__(
        self, entries: Sequence[Passed], socket: Socket, now_s: float, *, shown: bool = True
    ) -> None:
        self._entries = [e for e in entries if not (_is_clients(e) and _is_report(_data(e)))]
        if shown:
            self._entries = _without_auth(self._entries)
        self._server_says = vocabularies(socket)[1]
        self._expected = [_kind(_data(e)) for e in self._entries if _is_clients(e)]
        self._heard_s: list[float] = []  # when the n-th message of the client came
        self._ids: dict[str, str | None] = {}  # recorded id -> the one used now
        self._next = 0
        self._passed = 0  # messages of the client before the next entry
        self._since_s, self._since_ms = now_s, 0.0
        self._greeted = False
        self._complaints: deque[str] = deque()

    @property
    def full(self) -> bool:
        """Whether to read nothing from the client before it has read what is waiting."""
        return len(self._complaints) >= COMPLAINTS

    @property
    def wants_auth(self) -> bool:
        """Whether the first message of the client is `auth`."""
        return bool(self._expected) and self._expected[0].type == "auth"

    def hear(self, data: str | bytes, now_s: float) -> None:
        """A message of the client came; if it is not the recorded one, it will be told so."""
        if _is_report(data):
            return
        found, number = _kind(data), len(self._heard_s)
        if number == len(self._expected):
            self._complain(f"The recording has no more messages of the client, not {found}.", found)
            return
        expected = self._expected[number]
        if found.type != expected.type:
            self._complain(f"The recording has {expected} here, not {found}.", found)
            return
        if expected.id is None and found.id is not None and found.type == "auth":
            self.acknowledge(found.id)  # the only answer that it can have
        elif expected.id is None and found.id is not None:
            why = f"The recorded {found.type!r} had no id, so no answer to it is in the recording."
            self._complain(why, found)
            return
        if expected.id is not None:
            self._ids[expected.id] = found.id
        self._heard_s.append(now_s)

    def acknowledge(self, name: str) -> None:
        """Will say that a message with this id, which the recording does not have, was accepted."""
        self._complaints.append(messages.encode(Ack(reply_to=name)))

    def step(self, now_s: float) -> Step:
        """What to do next; a `Say` counts as done."""
        # Not before `ready`, which a client takes for the first message.
        if self._complaints and self._greeted:
            return Say(self._complaints.popleft(), now_s)
        while self._next < len(self._entries):
            entry = self._entries[self._next]
            at_s = self._since_s + (entry.ms - self._since_ms) / 1000
            match entry:
                case Closed(sender="server"):
                    return End(entry.code, entry.reason, at_s)
                case Closed():
                    return Listen()
                case Said(sender="client") | Binary(sender="client"):
                    if self._passed == len(self._heard_s):
                        return Listen()
                    self._since_s, self._since_ms = self._heard_s[self._passed], entry.ms
                    self._passed += 1
                    self._next += 1
                case Said() | Sounded() | Binary():
                    self._next += 1
                    self._greeted = True
                    return Say(self._said_now(entry), at_s)
        return Listen()

    def _said_now(self, entry: Said | Sounded | Binary) -> str | bytes:
        if not isinstance(entry, Said):
            return entry.wire()
        try:
            message = messages.decode(entry.text, self._server_says).message
        except RemoteProtocolError:
            return entry.text
        recorded = getattr(message, "reply_to", None)
        used = self._ids.get(recorded or "", recorded)
        if isinstance(message, Unknown) or used == recorded:
            return entry.text  # to the letter
        return messages.encode(msgspec.structs.replace(message, reply_to=used))

    def _complain(self, why: str, about: _Kind) -> None:
        self._complaints.append(
            messages.encode(
                Error(
                    reply_to=about.id,
                    code="bad_message",
                    message=why,
                    retryable=False,
                    fatal=False,
                )
            )
        )


def _is_clients(entry: Passed) -> bool:
    return isinstance(entry, Said | Binary) and entry.sender == "client"


def _data(entry: Passed) -> str | bytes:
    match entry:
        case Said():
            return entry.text
        case Sounded() | Binary():
            return entry.wire()
        case Closed():
            raise AssertionError("the end is no message")


def _kind(data: str | bytes) -> _Kind:
    if isinstance(data, bytes):
        return _Kind(_BINARY)
    try:
        found = messages.decode(data, {}).message
    except RemoteProtocolError as error:
        return _Kind(_BROKEN, error.reply_to)
    assert isinstance(found, Unknown)  # nothing is known to no vocabulary
    return _Kind(found.type, found.id)


def _is_report(data: str | bytes) -> bool:
    """Whether it is a report that wants no answer."""
    return _kind(data) == _Kind("heard")


def _without_auth(entries: Sequence[Passed]) -> list[Passed]:
    """Without the first message of the client if it is `auth`, and without the answer to it."""
    first = next((n for n, entry in enumerate(entries) if _is_clients(entry)), None)
    if first is None:
        return list(entries)
    auth = _kind(_data(entries[first]))
    if auth.type != "auth":
        return list(entries)
    rest = [*entries[:first], *entries[first + 1 :]]
    answer = next((n for n, e in enumerate(rest) if auth.id and _answers(e, auth.id)), None)
    return rest if answer is None else [*rest[:answer], *rest[answer + 1 :]]


def _answers(entry: Passed, name: str) -> bool:
    if not isinstance(entry, Said) or entry.sender != "server":
        return False
    try:
        return messages.decode(entry.text, {"ack": Ack}).message == Ack(reply_to=name)
    except RemoteProtocolError:
        return False
