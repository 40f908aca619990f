"""A transcript: what passed on the WebSockets of a session, as a file of JSON lines. Core.

The first line is a `Header`; each other one is an entry, told from others by its `type`:

    opened    a client came; `after_ms` counts from the first client's coming
    message   a text message, verbatim, whether it makes sense or not
    frame     an audio frame, taken apart; its samples, or only their length and hash
    binary    a binary message that is no frame, or comes from a client
    closed    the end of a connection, and who brought it about

`ms` counts from when the connection was opened, `connection` from 1. The order of lines is the order
in which things passed, over all connections. A connection without `closed` was open when the
recording ended. A frame with flags that we do not know is a `binary`: it would not come back as it
was.

Bytes of the wire are made and read by `messages` and `frames`, and so are the lines of this file,
which are messages of a vocabulary of their own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

import msgspec

from engine.audio import SAMPLE_BYTES
from engine.errors import SetupError
from engine.request import Frame

from . import frames, messages
from .errors import RemoteProtocolError
from .messages import PROTOCOL, FrameNumber, Message, StreamFrame, StreamNumber, Vocabulary
from .redaction import redact

VERSION = 1

Side: TypeAlias = Literal["client", "server"]
Socket: TypeAlias = Literal["engine", "player"]

#: longer messages do not pass; more than the protocol allows, so that those can be recorded too
MAX_BINARY_BYTES = 16 * messages.MAX_MESSAGE_BYTES

Milliseconds = Annotated[float, msgspec.Meta(ge=0)]
ConnectionNumber = Annotated[int, msgspec.Meta(ge=1)]
Length = Annotated[int, msgspec.Meta(ge=0, le=MAX_BINARY_BYTES)]
_Sample = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

#: 16 bytes tell any two recordings apart
_HASH_BYTES = 16


class Header(Message, tag="transcript", kw_only=True, frozen=True):
    """The first line.

    Attributes:
        version: of this file format.
        protocol: what the messages are.
        socket: who the server was.
        text: whether what was spoken stands in it; else its letters are `x`.
        audio: whether samples stand in it.
    """

    version: int
    protocol: str
    socket: Socket
    text: bool
    audio: bool


class Opened(Message, tag="opened", kw_only=True, frozen=True):
    """A client came."""

    after_ms: Milliseconds
    connection: ConnectionNumber


class Said(Message, tag="message", kw_only=True, frozen=True):
    """A text message."""

    ms: Milliseconds
    connection: ConnectionNumber
    sender: Side
    text: str


class Sounded(Message, tag="frame", kw_only=True, frozen=True):
    """An audio frame of the server: its samples, or how many bytes they were and their hash."""

    ms: Milliseconds
    connection: ConnectionNumber
    stream: StreamNumber
    seq: FrameNumber
    sample: _Sample
    first: bool = False
    last: bool = False
    discontinuity: bool = False
    segment_first: bool = False
    pcm: bytes | None = None
    length: Length | None = None
    blake2b: str | None = None

    def wire(self) -> bytes:
        """The frame; silent if its samples were not recorded."""
        pcm = bytes(self.length or 0) if self.pcm is None else self.pcm
        frame = Frame(
            seq=self.seq,
            sample=self.sample,
            pcm=pcm,
            first=self.first,
            last=self.last,
            discontinuity=self.discontinuity,
            segment_first=self.segment_first,
        )
        return frames.encode(self.stream, frame)

    @property
    def samples(self) -> int:
        """How many it has."""
        return self.size // SAMPLE_BYTES

    @property
    def size(self) -> int:
        """How many bytes these are."""
        return (self.length or 0) if self.pcm is None else len(self.pcm)


class Binary(Message, tag="binary", kw_only=True, frozen=True):
    """Another binary message: its bytes, or how many they were and their hash."""

    ms: Milliseconds
    connection: ConnectionNumber
    sender: Side
    data: bytes | None = None
    length: Length | None = None
    blake2b: str | None = None

    def wire(self) -> bytes:
        """The message; nothing but zeros if its bytes were not recorded."""
        return bytes(self.length or 0) if self.data is None else self.data


class Closed(Message, tag="closed", kw_only=True, frozen=True):
    """The end of a connection: 1005 is a goodbye without a code, 1006 none at all."""

    ms: Milliseconds
    connection: ConnectionNumber
    sender: Side
    code: Annotated[int, msgspec.Meta(ge=1000, le=4999)]
    reason: str = ""


Passed: TypeAlias = Said | Sounded | Binary | Closed
Entry: TypeAlias = Opened | Passed

_HEADER: Vocabulary = {"transcript": Header}
_ENTRIES: Vocabulary = {
    "opened": Opened, "message": Said, "frame": Sounded, "binary": Binary, "closed": Closed,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Transcript:
    """A file that was read.

    Attributes:
        header: its first line.
        entries: the others.
        lines: the number of the line that each entry stands in, from 1.
        cut_off: whether the file ends in the middle of a line, which was left out.
    """

    header: Header
    entries: tuple[Entry, ...] = ()
    lines: tuple[int, ...] = ()
    cut_off: bool = False

    @property
    def connections(self) -> list[int]:
        """Their numbers, in the order in which they were opened."""
        return [entry.connection for entry in self.entries if isinstance(entry, Opened)]

    def of(self, connection: int) -> list[Passed]:
        """What passed on one connection."""
        return [
            entry
            for entry in self.entries
            if not isinstance(entry, Opened) and entry.connection == connection
        ]


def header(socket: Socket, *, text: bool, audio: bool) -> Header:
    """The first line of a new transcript."""
    return Header(version=VERSION, protocol=PROTOCOL, socket=socket, text=text, audio=audio)


def vocabularies(socket: Socket) -> tuple[Vocabulary, Vocabulary]:
    """What the client and the server of this socket may say."""
    if socket == "engine":
        return messages.ENGINE_CLIENT, messages.ENGINE_SERVER
    return messages.PLAYER_CLIENT, messages.PLAYER_SERVER


# --- writing ----------------------------------------------------------------------------------


@dataclass(slots=True)
class Recorder:
    """Turns what passes into lines. Times are seconds of any one clock.

    Attributes:
        header: how to record.
        count: how many messages passed so far.
    """

    header: Header
    count: int = 0
    _last_number: int = 0
    _began_s: float = 0.0
    _opened_s: dict[int, float] = field(default_factory=dict)

    def first_line(self) -> str:
        """The line of the header."""
        return line(self.header)

    def opened(self, now_s: float) -> tuple[int, str]:
        """A client came: the number of its connection, and the line."""
        self._last_number += 1
        if self._last_number == 1:
            self._began_s = now_s
        number = self._last_number
        self._opened_s[number] = now_s
        entry = Opened(connection=number, after_ms=_ms(now_s - self._began_s))
        return number, line(entry)

    def passed(self, connection: int, sender: Side, data: str | bytes, now_s: float) -> str:
        """A message passed: the line."""
        self.count += 1
        ms = self._since_opened(connection, now_s)
        return line(reduced(_entry(connection, sender, data, ms), self.header))

    def closed(self, connection: int, sender: Side, code: int, reason: str, now_s: float) -> str:
        """A connection ended: the line."""
        ms = self._since_opened(connection, now_s)
        del self._opened_s[connection]
        return line(Closed(ms=ms, connection=connection, sender=sender, code=code, reason=reason))

    def _since_opened(self, connection: int, now_s: float) -> float:
        return _ms(now_s - self._opened_s[connection])


def line(entry: Header | Entry) -> str:
    """An entry as it stands in the file."""
    return messages.encode(entry) + "\n"


def reduced(entry: Entry, how: Header) -> Entry:
    """The entry without what is not to be recorded; tokens never are."""
    match entry:
        case Said():
            client, server = vocabularies(how.socket)
            vocabulary = client if entry.sender == "client" else server
            text = redact(entry.text, vocabulary, keep_text=how.text)
            return msgspec.structs.replace(entry, text=text)
        case Sounded(pcm=bytes(pcm)) if not how.audio:
            return msgspec.structs.replace(entry, pcm=None, length=len(pcm), blake2b=_hash(pcm))
        # What is no frame may be anything, a text too.
        case Binary(data=bytes(data)) if not (how.audio and how.text):
            return msgspec.structs.replace(entry, data=None, length=len(data), blake2b=_hash(data))
        case _:
            return entry


def _entry(connection: int, sender: Side, data: str | bytes, ms: float) -> Said | Sounded | Binary:
    if isinstance(data, str):
        return Said(ms=ms, connection=connection, sender=sender, text=data)
    found = _frame(data) if sender == "server" else None
    if found is None:
        return Binary(ms=ms, connection=connection, sender=sender, data=data)
    frame = found.frame
    return Sounded(
        ms=ms,
        connection=connection,
        stream=found.stream,
        seq=frame.seq,
        sample=frame.sample,
        first=frame.first,
        last=frame.last,
        discontinuity=frame.discontinuity,
        segment_first=frame.segment_first,
        pcm=frame.pcm,
    )


def _frame(data: bytes) -> StreamFrame | None:
    """The frame, if these bytes are one that can be made again."""
    try:
        stream, frame = frames.decode(data)
    except RemoteProtocolError:
        return None
    if frame.sample > 2**63 - 1 or frames.encode(stream, frame) != data:
        return None
    return StreamFrame(stream, frame)


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_HASH_BYTES).hexdigest()


def _ms(seconds: float) -> float:
    return round(max(0.0, seconds) * 1000, 3)


# --- reading ----------------------------------------------------------------------------------


def read(data: bytes, name: str = "The transcript") -> Transcript:
    """The transcript that these bytes are.

    Args:
        data: the whole file. One that ends in the middle of a line is read up to there.
        name: what to call it in an error.

    Raises:
        SetupError: they are none; the sentence names the line.
    """
    head: Header | None = None
    entries: list[Entry] = []
    numbers: list[int] = []
    cut_off = False
    state: dict[int, bool] = {}  # connection -> whether it is open
    for number, text, ended in _lines(data):
        try:
            decoded = messages.decode(_utf8(text), _HEADER if head is None else _ENTRIES).message
            if head is None:
                head = _header(decoded)
                continue
            entry = _checked(decoded, state)
        except RemoteProtocolError as error:
            if head is not None and not ended and error.code == "bad_json":
                cut_off = True
                break
            raise SetupError(f"{name}, line {number}: {error.message}") from None
        entries.append(entry)
        numbers.append(number)
    if head is None:
        raise SetupError(f"{name} is empty, or was cut off before its first line ended.")
    return Transcript(head, tuple(entries), tuple(numbers), cut_off)


def _lines(data: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Number, line and whether it has an end, of those that are not blank."""
    lines = data.split(b"\n")
    for number, text in enumerate(lines, 1):
        if text.strip():
            yield number, text, number < len(lines)


def _utf8(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise _broken("bad_json", "This is not UTF-8.") from None


def _header(decoded: object) -> Header:
    if not isinstance(decoded, Header):
        raise _broken(
            "bad_message", "This is no transcript, which begins with a line that says so."
        )
    if decoded.version != VERSION:
        raise _broken(
            "bad_message",
            f"Transcripts of version {decoded.version} are not understood, only {VERSION}.",
        )
    if decoded.protocol != PROTOCOL:
        raise _broken(
            "bad_message", f"Only {PROTOCOL} is understood, and this is another protocol."
        )
    return decoded


def _checked(decoded: object, state: dict[int, bool]) -> Entry:
    """The entry, if it may stand here."""
    if not isinstance(decoded, Entry):
        raise _broken("bad_message", "An entry of this type is not understood.")
    number = decoded.connection
    if isinstance(decoded, Opened):
        if number in state:
            raise _broken("bad_message", f"Connection {number} was opened before.")
        state[number] = True
        return decoded
    if not state.get(number):
        raise _broken("bad_message", f"Connection {number} is not open here.")
    match decoded:
        case Closed():
            state[number] = False
        case Sounded():
            if (decoded.pcm is None) == (decoded.length is None):
                raise _broken("bad_message", "A frame has pcm, or else its length.")
            if decoded.size % SAMPLE_BYTES:
                raise _broken("bad_message", "A frame ends in the middle of a sample.")
        case Binary():
            if (decoded.data is None) == (decoded.length is None):
                raise _broken("bad_message", "A binary message has data, or else its length.")
        case _:
            pass
    return decoded


def _broken(code: str, message: str) -> RemoteProtocolError:
    return RemoteProtocolError(code, message)
