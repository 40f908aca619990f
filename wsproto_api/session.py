"""The rules of one kokoro.v1 connection, without any I/O. Core.

`Session` stands at either end of either socket (engine or player). It turns messages into bytes
and bytes into messages, and refuses what the rules forbid: `LocalProtocolError` if we were about
to send it, `RemoteProtocolError` if it arrived. The shell does the I/O and answers the errors.

The connection, seen from both ends:

    phase     who     message                      next
    OPENING   client  auth, or any request         OPENING
    OPENING   server  ready                        OPEN
    OPENING   server  error with fatal             CLOSING
    OPEN      client  any request                  OPEN
    OPEN      server  anything but ready           OPEN
    OPEN      server  error with fatal             CLOSING
    CLOSING   -       nothing                      -

A client may speak as soon as the socket is open; it need not wait for `ready`. Some must begin
with `auth` and get `ready` only then. To the rules that is a request like any other, whose answer
comes after `ready`; who must, `security` decides, and `peer` sees to it.

Requests: an `id` is open from the request until its one answer (`ack`, `error`, or the message
asked for: `voices`, `status`, `session_reset`, `state`, `pong`, `queue`, `devices`). An answer to an `id` that is not open is against
the rules, and so is a second request with an `id` that is open. A malformed request with an `id`
is answered like any other.

Streams, on this connection:

    state     message                                            next
    any       stream.opened                                      LIVE, counting afresh
    LIVE      frame, segment, marks, segment.done, flushed       LIVE
    LIVE      progress, warning                                  LIVE
    LIVE      stream.done, stream.cancelled, error of the stream absent
    absent    frame, segment, marks, segment.done, flushed       against the rules
    absent    progress, stream.done, stream.cancelled            against the rules
    absent    error of the stream, warning                       absent

Frames of a LIVE stream are numbered without holes and `sample` counts without holes, except at
the first frame or where the frame says `discontinuity`; then neither may go back.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec

from engine.request import Frame

from . import frames, messages
from .errors import LocalProtocolError, RemoteProtocolError
from .messages import Decoded, StreamFrame, Unknown, Vocabulary


class Role(enum.Enum):
    """Which end this is."""

    CLIENT = enum.auto()
    SERVER = enum.auto()


class Phase(enum.Enum):
    """How far the connection is."""

    OPENING = enum.auto()
    OPEN = enum.auto()
    CLOSING = enum.auto()


@dataclass(slots=True)
class _Track:
    """Where a LIVE stream is: the next frame's number and sample, None before the first."""

    seq: int | None = None
    sample: int = 0

    def advance(self, frame: Frame) -> str | None:
        """Takes a frame; gives the rule it breaks, if any."""
        if self.seq is not None:
            if frame.discontinuity:
                if frame.seq < self.seq or frame.sample < self.sample:
                    return "goes back"
            elif frame.seq != self.seq:
                return f"has number {frame.seq}, but {self.seq} is next"
            elif frame.sample != self.sample:
                return f"starts at sample {frame.sample}, but {self.sample} is next"
        self.seq = frame.seq + 1
        self.sample = frame.sample + frame.samples
        return None


class _Violation(Exception):
    """A rule is broken; who is to blame depends on the direction."""


_ANSWERS = (
    messages.Ack,
    messages.Voices,
    messages.Status,
    messages.SessionReset,
    messages.Pong,
    messages.PlayerState,
    messages.Queue,
    messages.Devices,
)


class Session:
    """One end of one connection.

    Args:
        role: which end this is.
        client: what the client may say (`messages.ENGINE_CLIENT` or `PLAYER_CLIENT`).
        server: what the server may say.
    """

    def __init__(self, role: Role, *, client: Vocabulary, server: Vocabulary) -> None:
        self.role = role
        self.phase = Phase.OPENING
        self._incoming = client if role is Role.SERVER else server
        self._outgoing = server if role is Role.SERVER else client
        self._open_ids: set[str] = set()
        self._streams: dict[int, _Track] = {}

    def send(self, message: msgspec.Struct | StreamFrame) -> str | bytes:
        """The bytes or text to put on the socket for `message`.

        Raises:
            LocalProtocolError: sending it would break the rules.
        """
        # Not by tag alone: `status` of a client and `status` of an engine are two messages. What
        # has fewer fields than the vocabulary's (an `Error` for a `PlayerError`) is welcome.
        if isinstance(message, StreamFrame):
            if self.role is Role.CLIENT:
                raise LocalProtocolError("Clients do not send frames.")
            data: str | bytes = frames.encode(message.stream, message.frame)
        elif not self._says(type(message)):
            raise LocalProtocolError(f"This end does not say {type(message).__name__}.")
        else:
            data = messages.encode(message)
        if len(data if isinstance(data, bytes) else data.encode()) > messages.MAX_MESSAGE_BYTES:
            raise LocalProtocolError(f"A message of {type(message).__name__} is too long.")
        try:
            self._apply(message, from_server=self.role is Role.SERVER)
        except _Violation as violation:
            raise LocalProtocolError(str(violation)) from None
        return data

    def receive(self, data: str | bytes) -> StreamFrame | Decoded:
        """What arrived.

        A `Decoded` may hold `Unknown`; a server answers that with a warning, a client ignores it.

        Raises:
            RemoteProtocolError: it breaks the rules; a server answers with its code, and to its
                `reply_to` if there is one.
        """
        if isinstance(data, bytes):
            if self.role is Role.SERVER:
                raise RemoteProtocolError(
                    "bad_message", "Clients send text messages, not binary ones."
                )
            stream, frame = frames.decode(data)
            received = StreamFrame(stream, frame)
            self._blame_remote(received)
            return received
        try:
            decoded = messages.decode(data, self._incoming)
        except RemoteProtocolError as error:
            if error.reply_to in self._open_ids:
                error.reply_to = None  # the one answer is owed to the message before
            elif error.reply_to is not None and self.role is Role.SERVER:
                self._open_ids.add(error.reply_to)
            raise
        if isinstance(decoded.message, Unknown):
            name = decoded.message.id
            if self.role is Role.SERVER and name is not None:
                self._open(name, remote=True)
        else:
            self._blame_remote(decoded.message)
        return decoded

    def _says(self, struct: type[msgspec.Struct]) -> bool:
        word = self._outgoing.get(str(struct.__struct_config__.tag))
        return word is not None and issubclass(word, struct)

    def _blame_remote(self, message: msgspec.Struct | StreamFrame) -> None:
        try:
            self._apply(message, from_server=self.role is Role.CLIENT)
        except _Violation as violation:
            raise RemoteProtocolError("bad_message", str(violation)) from None

    def _open(self, name: str, *, remote: bool) -> None:
        if name in self._open_ids:
            text = "A message with this id is still being answered; use another id."
            raise RemoteProtocolError("bad_message", text) if remote else _Violation(text)
        self._open_ids.add(name)

    def _apply(self, message: msgspec.Struct | StreamFrame, *, from_server: bool) -> None:
        if self.phase is Phase.CLOSING:
            raise _Violation("Nothing follows a fatal error.")
        if not from_server:
            name = getattr(message, "id", None)
            if name is not None:
                self._open(name, remote=self.role is Role.SERVER)
            return
        fatal = isinstance(message, messages.Error) and message.fatal
        ready = isinstance(message, messages.Ready | messages.PlayerReady)
        if (self.phase is Phase.OPENING) != ready and not fatal:
            raise _Violation("The first message of a server, and only the first, is ready.")
        self._answer(message)
        self._follow(message)
        self.phase = Phase.CLOSING if fatal else Phase.OPEN

    def _answer(self, message: msgspec.Struct | StreamFrame) -> None:
        if not isinstance(message, (*_ANSWERS, messages.Error)) or message.reply_to is None:
            return
        if message.reply_to not in self._open_ids:
            raise _Violation("An answer to an id that is not open.")
        self._open_ids.discard(message.reply_to)

    def _follow(self, message: msgspec.Struct | StreamFrame) -> None:
        match message:
            case messages.StreamOpened():
                self._streams[message.stream] = _Track()
            case StreamFrame():
                broken = self._live(message.stream).advance(message.frame)
                if broken:
                    raise _Violation(f"A frame of stream {message.stream} {broken}.")
            case (
                messages.Segment()
                | messages.SegmentMarks()
                | messages.SegmentFinished()
                | messages.AllSpoken()
                | messages.Progress()
            ):
                self._live(message.stream)
            case messages.StreamDone() | messages.StreamCancelled():
                self._live(message.stream)
                del self._streams[message.stream]
            case messages.Error(stream=int(stream)):
                self._streams.pop(stream, None)
            case _:
                pass

    def _live(self, stream: int) -> _Track:
        track = self._streams.get(stream)
        if track is None:
            raise _Violation(f"Stream {stream} is not open on this connection.")
        return track
