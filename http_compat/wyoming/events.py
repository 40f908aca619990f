"""Events of Wyoming as bytes, and bytes as events. Core.

    {"type": "synthesize", "data_length": 16}      one line, ended by a newline
    {"text": "Good."}                              exactly `data_length` bytes
    …                                              exactly `payload_length` bytes

`data` may be in the line as well, under that name; both parts are one. Lengths that are missing
are 0, and names that are not known mean nothing.

The package `wyoming` is not used for this: it reads from asyncio only, takes a length as far as
memory goes, checks no types, and ends without a word when it cannot read something. It is what the
tests talk to this with.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from engine.errors import InvalidRequest

#: of the line: the package's own servers take no longer ones either
MAX_LINE_BYTES = 64 * 1024
#: of the data behind it: as much as of a body over HTTP
MAX_DATA_BYTES = 1024 * 1024
#: of what follows that, which nothing that we know of sends to a voice
MAX_PAYLOAD_BYTES = 1024 * 1024

T = TypeVar("T")


class Event(msgspec.Struct, frozen=True):
    """One event.

    Attributes:
        type: its name, such as `synthesize`.
        data: what belongs to it, as in JSON.
        payload: bytes that belong to it, such as PCM.
    """

    type: str
    data: dict[str, Any] = {}
    payload: bytes = b""


_Length = Annotated[int, msgspec.Meta(ge=0)]


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    type: str
    data: dict[str, Any] | None = None
    data_length: _Length | None = None
    payload_length: _Length | None = None


def encode(event: Event) -> bytes:
    """The bytes of an event."""
    data = msgspec.json.encode(event.data) if event.data else b""
    line = _Line(
        event.type, data_length=len(data) or None, payload_length=len(event.payload) or None
    )
    return msgspec.json.encode(line) + b"\n" + data + event.payload


class Decoder:
    """Makes events of bytes: `push` what came, then ask for `next` until there is none.

    However the bytes are cut, the events are the same, and so is the error behind them.
    """

    def __init__(self) -> None:
        self._held = bytearray()
        self._searched = 0  # bytes of them in which there is no newline
        self._line: _Line | None = None  # whose event is not complete
        self._fault: str | None = None

    def push(self, data: bytes | bytearray) -> None:
        """More bytes."""
        self._held += data

    def next(self) -> Event | None:
        """The next event that is complete, if there is one.

        Raises:
            InvalidRequest: what follows is no event, so nothing behind it can be understood;
                raised again each time.
        """
        if self._fault is None:
            try:
                return self._next()
            except InvalidRequest as error:
                self._fault = error.message
        self._held.clear()
        raise InvalidRequest(self._fault)

    def _next(self) -> Event | None:
        if self._line is None:
            self._line = self._next_line()
        if self._line is None:
            return None
        line = self._line
        data_bytes, payload_bytes = line.data_length or 0, line.payload_length or 0
        end = data_bytes + payload_bytes
        if len(self._held) < end:
            return None
        data = dict(line.data or {})
        if data_bytes:
            what = "The data of an event"
            data |= _json(bytes(self._held[:data_bytes]), dict[str, Any], what)
        payload = bytes(self._held[data_bytes:end])
        del self._held[:end]
        self._line = None
        return Event(line.type, data, payload)

    def _next_line(self) -> _Line | None:
        end = self._held.find(b"\n", self._searched)
        if max(end, len(self._held) if end < 0 else 0) > MAX_LINE_BYTES:
            raise InvalidRequest(
                f"The first line of an event has more than {MAX_LINE_BYTES} bytes; put what is "
                "long behind it, as data."
            )
        if end < 0:
            self._searched = len(self._held)
            return None
        line = _json(bytes(self._held[:end]), _Line, "The first line of an event")
        del self._held[: end + 1]
        self._searched = 0
        for what, length, limit in (
            ("data", line.data_length, MAX_DATA_BYTES),
            ("payload", line.payload_length, MAX_PAYLOAD_BYTES),
        ):
            if (length or 0) > limit:
                raise InvalidRequest(
                    f"The {what} of an event would have more than {limit} bytes, which is the limit."
                )
        return line


def _json(text: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        # The message would quote what it stumbled over.
        raise InvalidRequest(
            f"{what} is not JSON as Wyoming has it; this port takes no other protocol."
        ) from None
