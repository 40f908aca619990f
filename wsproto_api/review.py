"""Reads a transcript for people: a line per entry, and where the protocol was broken. Core."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from . import frames, messages
from .errors import LocalProtocolError, RemoteProtocolError
from .messages import StreamFrame, Unknown
from .redaction import TEXT_FIELDS
from .session import Role, Session
from .transcript import (
    Binary,
    Closed,
    Opened,
    Passed,
    Said,
    Side,
    Sounded,
    Transcript,
    vocabularies,
)

_ARROWS = {"client": "→", "server": "←"}

#: longer strings are shown by their beginning
_SHOWN_CHARS = 60


# --- a line per entry -------------------------------------------------------------------------


def shown(transcript: Transcript) -> Iterator[str]:
    """A line per entry; of frames in a row, on one connection, one.

    What was spoken is shown if it was kept.
    """
    header = transcript.header
    yield (
        f"{header.protocol}, {header.socket}, {len(transcript.connections)} connections; "
        f"{'with' if header.text else 'without'} text, "
        f"{'with' if header.audio else 'without'} samples"
    )
    runs: dict[tuple[int, int], list[Sounded]] = {}  # by connection and stream
    for entry in transcript.entries:
        if isinstance(entry, Sounded):
            run = runs.setdefault((entry.connection, entry.stream), [])
            if run and run[-1].seq + 1 != entry.seq:
                yield _frames(run)
                run.clear()
            run.append(entry)
            continue
        for key in [key for key in runs if key[0] == entry.connection]:
            yield _frames(runs.pop(key))
        yield _line(entry, transcript)
    yield from map(_frames, runs.values())
    if transcript.cut_off:
        yield "The file ends in the middle of a line, which is left out."


def _line(entry: Opened | Said | Binary | Closed, transcript: Transcript) -> str:
    match entry:
        case Opened():
            return f"{'':11}#{entry.connection} opened after {entry.after_ms:.3f} ms"
        case Closed():
            reason = f" {entry.reason!r}" if entry.reason else ""
            return f"{_where(entry, entry.sender)} closed {entry.code}{reason}"
        case Binary():
            return f"{_where(entry, entry.sender)} binary, no frame: {len(entry.wire())} bytes"
        case Said():
            return f"{_where(entry, entry.sender)} {_message(entry, transcript)}"


def _where(entry: Passed, sender: Side) -> str:
    return f"{entry.ms:11.3f} #{entry.connection} {_ARROWS[sender]}"


def _frames(run: list[Sounded]) -> str:
    first, last = run[0], run[-1]
    one = first is last
    numbers = f"frame {first.seq}" if one else f"{len(run)} frames {first.seq}-{last.seq}"
    until = "" if one else f" to {last.ms:.3f} ms,"
    flags = [
        name
        for name in ("first", "last", "discontinuity", "segment_first")
        if any(getattr(entry, name) for entry in run)
    ]
    return (
        f"{_where(first, 'server')} {numbers} of stream {first.stream},{until} from sample "
        f"{first.sample}, {sum(entry.samples for entry in run)} samples"
        f"{''.join(f', {name}' for name in flags)}"
    )


def _message(entry: Said, transcript: Transcript) -> str:
    client, server = vocabularies(transcript.header.socket)
    try:
        decoded = messages.decode(entry.text, client if entry.sender == "client" else server)
    except RemoteProtocolError as error:
        return f"a broken message of {len(entry.text)} characters: {error.message}"
    message = decoded.message
    if isinstance(message, Unknown):
        name = "" if message.id is None else f" id={message.id!r}"
        return f"{message.type!r}, which is not known,{name} {len(entry.text)} characters"
    struct = type(message)
    fields = [
        _field(name, getattr(message, name), keep_text=transcript.header.text)
        for name in struct.__struct_fields__
        if getattr(message, name) is not None
    ]
    fields += [f"{name}: not known" for name in decoded.unknown_fields]
    return " ".join([str(struct.__struct_config__.tag), *filter(None, fields)])


def _field(name: str, value: object, *, keep_text: bool) -> str:
    """A field as `name=value`; nothing for those that have parts, but the length of lists."""
    match value:
        case str() if name in TEXT_FIELDS and not keep_text:
            return f"{name}={len(value)} characters"
        case str():
            more = f"… {len(value)} characters" if len(value) > _SHOWN_CHARS else ""
            return f"{name}={value[:_SHOWN_CHARS]!r}{more}"
        case bool() | int() | float():
            return f"{name}={value}"
        case tuple() | list():
            return f"{name}={len(value)}"
        case _:
            return ""


# --- what is wrong in it ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """A break of the protocol.

    Attributes:
        line: the first line of the file where it is.
        connection: where it happened.
        sender: who is to blame.
        what: a sentence.
        times: how often it came in a row.
    """

    line: int
    connection: int
    sender: Side
    what: str
    times: int = 1

    def __str__(self) -> str:
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"line {self.line}, connection {self.connection}, {self.sender}: {self.what}{often}"


def faults(transcript: Transcript) -> list[Fault]:
    """Where either side broke the protocol, by line."""
    listeners: dict[int, _Listener] = {}
    for number, entry in zip(transcript.lines, transcript.entries, strict=True):
        if isinstance(entry, Opened):
            listeners[entry.connection] = _Listener(entry.connection, transcript)
        else:
            listeners[entry.connection].hear(number, entry)
    found = [fault for one in listeners.values() for fault in one.found()]
    return sorted(found, key=lambda fault: fault.line)


class _Listener:
    """Hears both sides of one connection, with a `Session` at either end."""

    def __init__(self, connection: int, transcript: Transcript) -> None:
        client, server = vocabularies(transcript.header.socket)
        self._connection = connection
        self._server_says = server
        self._client = Session(Role.CLIENT, client=client, server=server)
        self._server = Session(Role.SERVER, client=client, server=server)
        self._asked: dict[str, tuple[int, str]] = {}  # id -> line and type, until it is answered
        self._found: list[Fault] = []

    def found(self) -> list[Fault]:
        """All faults, with those that only the end shows."""
        return self._found + [
            Fault(line, self._connection, "server", f"The {kind} with id {name!r} has no answer.")
            for name, (line, kind) in self._asked.items()
        ]

    def hear(self, line: int, entry: Passed) -> None:
        """What passed next."""
        match entry:
            case Said(sender="client"):
                self._hear_client(line, entry.text)
            case Binary(sender="client"):
                self._hear_client(line, entry.wire())
            case Said():
                self._hear_server(line, entry.text)
            case Sounded() | Binary():
                self._hear_server(line, entry.wire())
            case Closed():
                pass

    def _hear_client(self, line: int, data: str | bytes) -> None:
        try:
            self._server.receive(data)
        except RemoteProtocolError as error:
            self._note(line, "client", error.message)
        asked = _request(data)
        if asked is None or asked.id is None or asked.id in self._asked:
            return
        self._asked[asked.id] = (line, asked.type)
        with suppress(LocalProtocolError):  # nothing follows a fatal error
            # In whatever words it was asked: an answer to this id may come.
            self._client.send(messages.Ping(id=asked.id))

    def _hear_server(self, line: int, data: str | bytes) -> None:
        try:
            heard = self._client.receive(data)
        except RemoteProtocolError as error:
            self._note(line, "server", error.message)
            self._go_on_after(data)
            return
        if isinstance(heard, StreamFrame):
            message: msgspec.Struct | StreamFrame = heard
        elif isinstance(heard.message, Unknown):
            return
        else:
            message = heard.message
            if not isinstance(message, messages.Warning):
                self._asked.pop(getattr(message, "reply_to", None) or "", None)
        try:
            self._server.send(message)
        except LocalProtocolError as error:
            self._note(line, "server", str(error))

    def _go_on_after(self, data: str | bytes) -> None:
        """After a gap, counts from behind it: one fault is to be one."""
        if isinstance(data, str):
            return
        with suppress(RemoteProtocolError, LocalProtocolError):
            stream, frame = frames.decode(data)
            frame = msgspec.structs.replace(frame, discontinuity=True)
            self._client.receive(frames.encode(stream, frame))
            self._server.send(StreamFrame(stream, frame))

    def _note(self, line: int, sender: Side, what: str) -> None:
        last = self._found[-1] if self._found else None
        if last is not None and (last.sender, last.what) == (sender, what):
            self._found[-1] = replace(last, times=last.times + 1)
        else:
            self._found.append(Fault(line, self._connection, sender, what))


def _request(data: str | bytes) -> Unknown | None:
    """Type and id of a client's message, whether or not it makes sense otherwise."""
    if isinstance(data, bytes):
        return None
    try:
        found = messages.decode(data, {}).message
    except RemoteProtocolError:
        return None
    assert isinstance(found, Unknown)  # nothing is known to no vocabulary
    return found
