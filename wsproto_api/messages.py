"""All control messages of kokoro.v1, as structs, and their JSON. Core.

A message is a JSON object with a `type`. Structs of the engine's port (`engine.request`) are the
bodies; here they get their tag, `id` or `stream`. Fields without a default are always on the
wire; fields with one are left out when they have it.

Each end of each socket has a vocabulary: the messages it may send. Decoding takes the vocabulary
of the other end. Unknown fields are ignored and reported by name; unknown types become `Unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from engine.report import Report, Reset
from engine.request import (
    Done,
    Event,
    Flushed,
    Frame,
    LiveRequest,
    Marks,
    ModelInfo,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
    VoiceInfo,
    WordMark,
)

from .errors import RemoteProtocolError

M = TypeVar("M", bound=msgspec.Struct)

PROTOCOL = "kokoro.v1"
MAX_MESSAGE_BYTES = 64 * 1024

#: what the header of a frame can carry
StreamNumber = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]
FrameNumber = Annotated[int, msgspec.Meta(ge=0, le=0xFFFF_FFFF)]

#: an offset into the text, or samples; JSON numbers are exact up to here
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]

#: longest name that a client gives to something: it comes back in messages of ours
_NAME_CHARS = 256
Name = Annotated[str, msgspec.Meta(max_length=_NAME_CHARS)]

#: a step in time that is longer than this is none
_DAY_MS = 86_400_000

#: longest part of a segment's text that is told: what is not spoken counts too, so it has no limit
_SEGMENT_CHARS = 4_000

#: more than this is not quoted from a message that somebody sent
_QUOTED_CHARS = 64
_QUOTED_NAMES = 8


class Message(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="type"):
    """Base of all control messages."""


# --- client to engine -------------------------------------------------------------------------


class Request(Message, kw_only=True, frozen=True):
    """A client's message; with an `id` it gets exactly one `ack` or `error`."""

    id: Name | None = None


class Speak(SpeechRequest, tag_field="type", tag="speak", kw_only=True, frozen=True):
    """Speak a text; the sender owns the stream and gets its frames."""

    id: Name | None = None
    key: Name | None = None


class Open(LiveRequest, tag_field="type", tag="open", kw_only=True, frozen=True):
    """Speak a text that will come in pieces; else as `speak`."""

    id: Name | None = None
    key: Name | None = None


class Append(Request, tag="append", kw_only=True, frozen=True):
    """More text of an open stream, verbatim; it may be cut anywhere.

    Attributes:
        at: how many code points were appended before. What is there already is not added again,
            so a client that does not know whether a piece arrived can send it again.
    """

    stream: StreamNumber
    text: str
    at: Count | None = None


class Flush(Request, tag="flush", kw_only=True, frozen=True):
    """Speak what is there; `flushed` comes after it."""

    stream: StreamNumber
    flush_id: Name | None = None


class End(Request, tag="end", kw_only=True, frozen=True):
    """No more text."""

    stream: StreamNumber


class Configure(Request, tag="configure", kw_only=True, frozen=True):
    """Another voice or speed, from the next segment on that is not begun."""

    stream: StreamNumber
    voice: str | None = None
    speed: float | None = None


class Heard(Request, tag="heard", kw_only=True, frozen=True):
    """How far the owner of a stream has heard it; needs no answer. See `engine.request.Stream`.

    Attributes:
        sample: which is heard next.
        playing: whether it goes on by the clock.
    """

    stream: StreamNumber
    sample: Count
    playing: bool


class Cancel(Request, tag="cancel", kw_only=True, frozen=True):
    """End a stream now.

    Attributes:
        played_samples: how much of it was heard, to be told what that was.
    """

    stream: StreamNumber
    played_samples: Count | None = None


class Subscribe(Request, tag="subscribe", kw_only=True, frozen=True):
    """Follow one stream, or with `"*"` every stream, from frame `from_seq` on."""

    stream: StreamNumber | Literal["*"]
    from_seq: FrameNumber = 0


class Unsubscribe(Request, tag="unsubscribe", kw_only=True, frozen=True):
    """Stop following."""

    stream: StreamNumber | Literal["*"]


class Auth(Request, tag="auth", kw_only=True, frozen=True):
    """The token, from a page that cannot send it in a header; the first message."""

    token: str


class AskVoices(Request, tag="voices", kw_only=True, frozen=True):
    """Which voices are there? Answered with `voices`."""


class AskStatus(Request, tag="status", kw_only=True, frozen=True):
    """How are things? Answered with `status`."""


class AskReset(Request, tag="session_reset", kw_only=True, frozen=True):
    """End all streams and set the engine going anew. Answered with `session_reset`."""


class Ping(Request, tag="ping", kw_only=True, frozen=True):
    """Answered with `pong`."""


# --- engine to client -------------------------------------------------------------------------


class ServerInfo(msgspec.Struct, kw_only=True, frozen=True):
    """Who answers.

    Attributes:
        instance: another one after each start; streams are numbered afresh then.
    """

    name: str
    version: str
    instance: str


class Limits(msgspec.Struct, kw_only=True, frozen=True):
    """What a client must stay under.

    Attributes:
        text_chars: of one text; of a stream in pieces, what waits to be spoken.
        live_chars: all text of a stream in pieces.
        streams: at once, over all connections.
        connection_streams: at once, of one connection.
        subscribers: connections at once.
        message_bytes: of one message.
        messages_per_s: of one connection; twice as many may come in a burst.
        max_lead_ms: how far a stream is made ahead of its fastest follower.
        orphan_grace_ms: how long a stream lives without its owner's connection.
    """

    text_chars: int
    live_chars: int
    streams: int
    connection_streams: int
    subscribers: int
    message_bytes: int
    messages_per_s: int
    max_lead_ms: int
    orphan_grace_ms: int


class Ready(Message, tag="ready", kw_only=True, frozen=True):
    """The first message of an engine."""

    protocol: str
    server: ServerInfo
    model: ModelInfo
    sample_rate: int
    frame_ms: int
    voices_hash: str
    limits: Limits


class Reply(Message, kw_only=True, frozen=True):
    """Base of what answers a request; `reply_to` is the request's `id`."""

    reply_to: str | None = None


class Ack(Reply, tag="ack", kw_only=True, frozen=True):
    """A request was accepted."""

    stream: int | None = None


class Error(Reply, tag="error", kw_only=True, frozen=True):
    """A request, or a stream, failed. After a `fatal` one the socket is closed."""

    code: str
    message: str
    retryable: bool
    fatal: bool
    stream: int | None = None
    param: str | None = None
    retry_after_ms: int | None = None


class Warning(Notice, tag_field="type", tag="warning", kw_only=True, frozen=True):
    """Something to know; nothing failed."""

    stream: int | None = None
    reply_to: str | None = None


class StreamOpened(Opened, tag_field="type", tag="stream.opened", kw_only=True, frozen=True):
    """A stream begins; `owner` tells whether this socket asked for it."""

    stream: int
    owner: bool


class Segment(SegmentStart, tag_field="type", tag="segment", kw_only=True, frozen=True):
    """A segment begins; comes before its first frame."""

    stream: int


class SegmentMarks(Marks, tag_field="type", tag="marks", kw_only=True, frozen=True):
    """Where words and phonemes of a segment are; only if the request asked for `marks`."""

    stream: int


class SegmentFinished(SegmentDone, tag_field="type", tag="segment.done", kw_only=True, frozen=True):
    """All frames of a segment were sent."""

    stream: int


class StreamDone(Done, tag_field="type", tag="stream.done", kw_only=True, frozen=True):
    """All frames of a stream were sent."""

    stream: int


class AllSpoken(Flushed, tag_field="type", tag="flushed", kw_only=True, frozen=True):
    """All that was appended before a flush was sent."""

    stream: int


class Progress(Message, tag="progress", kw_only=True, frozen=True):
    """How far a stream is, at most four times a second: what planning the playout needs.

    Attributes:
        samples_ready: made so far, read or not.
        rtf: computing per audio in the segments that are done; None before the first is.
        queue: other streams that are being made.
    """

    stream: int
    samples_ready: int
    queue: int
    rtf: float | None = None


class StreamCancelled(Message, tag="stream.cancelled", kw_only=True, frozen=True):
    """The stream was cancelled; no frame of it follows.

    Attributes:
        played_samples: as the `cancel` told it.
        chars_spoken: code points of the text up to the last word that was heard to its end.
        text_spoken: these characters; left out, like the next, if they would not fit a message.
        text_remaining: those behind them, as far as they were appended.
    """

    stream: int
    played_samples: int | None = None
    chars_spoken: int | None = None
    text_spoken: str | None = None
    text_remaining: str | None = None


class Voices(Reply, tag="voices", kw_only=True, frozen=True):
    """The voices that can be asked for."""

    voices: tuple[VoiceInfo, ...]


class Status(Report, tag_field="type", tag="status", kw_only=True, frozen=True):
    """How the engine is, and what it is doing.

    Attributes:
        streams: that are being made.
        connections: that are open.
        uptime_s: since it listens.
        instance: as in `ready`.
    """

    streams: int
    connections: int
    uptime_s: float
    instance: str
    reply_to: str | None = None


class SessionReset(Reply, tag="session_reset", kw_only=True, frozen=True):
    """What a reset did.

    Attributes:
        cancelled: how many streams it ended.
        result: see `engine.report.Reset`.
    """

    cancelled: int
    result: Reset


class Pong(Reply, tag="pong", kw_only=True, frozen=True):
    """Answer to `ping`."""


# --- client to player -------------------------------------------------------------------------

#: what becomes of the items that are there: they end, it waits behind them, or they end and it too
PlayerMode = Literal["replace", "queue", "toggle"]
#: what becomes of an item when the connection that asked for it is gone
OnDisconnect = Literal["finish", "stop"]
#: what a client of the player can be told of besides the items it asked for
PlayerEvents = Literal["state", "position", "marks"]


class PlayerSpeak(SpeechRequest, tag_field="type", tag="speak", kw_only=True, frozen=True):
    """Speak aloud: instead of what is playing, after it, or (`toggle`) only if nothing is."""

    mode: PlayerMode = "replace"
    on_disconnect: OnDisconnect = "finish"
    id: Name | None = None
    key: Name | None = None


class PlayerOpen(LiveRequest, tag_field="type", tag="open", kw_only=True, frozen=True):
    """Speak aloud a text that will come in pieces; else as `speak`.

    `on_disconnect` None: it stops while its text has not ended, and is finished then.
    """

    mode: PlayerMode = "replace"
    on_disconnect: OnDisconnect | None = None
    id: Name | None = None
    key: Name | None = None


class PlayerAppend(Request, tag="append", kw_only=True, frozen=True):
    """More text of an item, verbatim; it may be cut anywhere. Only from who opened it."""

    item: Count
    text: str


class PlayerEnd(Request, tag="end", kw_only=True, frozen=True):
    """No more text of an item. Only from who opened it."""

    item: Count


class PlayerPause(Request, tag="pause", kw_only=True, frozen=True):
    """Silence until `resume`; nothing is lost. Succeeds when nothing plays, or it is paused."""


class PlayerResume(Request, tag="resume", kw_only=True, frozen=True):
    """Go on where `pause` silenced it. Succeeds when it is not paused."""


class PlayerToggle(Request, tag="toggle", kw_only=True, frozen=True):
    """Pause, or resume."""


class PlayerStop(Request, tag="stop", kw_only=True, frozen=True):
    """Silence now, and forget the queue; of one item, if it is named. Succeeds when it is over."""

    item: Count | None = None


class PlayerSkip(Request, tag="skip", kw_only=True, frozen=True):
    """Go on with another sentence or item.

    Attributes:
        n: how many forward. Back, if negative, and then only by sentences: the first step leads to
            the beginning of the one that plays, unless it has hardly begun.
    """

    unit: Literal["sentence", "item"] = "sentence"
    n: Annotated[int, msgspec.Meta(ge=-1000, le=1000)] = 1


class PlayerSeek(Request, tag="seek", kw_only=True, frozen=True):
    """Go on elsewhere in the item that plays, as far as it is here or was just heard.

    One of the three is needed.

    Attributes:
        sample: of the item.
        fraction: of what the item will be, 0-1.
        by_ms: forward, or back if negative, from what is heard now.
    """

    sample: Count | None = None
    fraction: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    by_ms: Annotated[float, msgspec.Meta(ge=-_DAY_MS, le=_DAY_MS)] | None = None


class PlayerRepeat(Request, tag="repeat", kw_only=True, frozen=True):
    """Speak once more what is spoken, or was spoken last; instead of what is playing."""


class PlayerVolume(Request, tag="volume", kw_only=True, frozen=True):
    """How loud, 0-1; 1 leaves all samples as they are."""

    value: Annotated[float, msgspec.Meta(ge=0, le=1)]


class PlayerConfigure(Request, tag="configure", kw_only=True, frozen=True):
    """How it is spoken from now on, and where it is heard.

    Attributes:
        voice: for what is not begun of the text that is spoken, and for texts that name none.
        speed: the same.
        device: a name that `devices` gives, or part of it; "default" is what the system's is.
    """

    voice: str | None = None
    speed: float | None = None
    device: str | None = None


class PlayerQueue(Request, tag="queue", kw_only=True, frozen=True):
    """What is to be played: `list` it, `clear` what waits, or `remove` one that waits.

    Answered with `queue`.
    """

    op: Literal["list", "clear", "remove"] = "list"
    item: Count | None = None


class AskDevices(Request, tag="devices", kw_only=True, frozen=True):
    """Which sound devices are there? Answered with `devices`."""


class PlayerSubscribe(Request, tag="subscribe", kw_only=True, frozen=True):
    """What to be told of; takes the place of what was subscribed before.

    Attributes:
        events: `state` (and beginnings and ends of items) is what one has without it; `position`
            comes ten times a second while there is sound; `marks` are words, when they are heard.
    """

    events: tuple[PlayerEvents, ...]


# --- player to client -------------------------------------------------------------------------


class PlayerReady(Message, tag="ready", kw_only=True, frozen=True):
    """The first message of a player."""

    protocol: str
    server: ServerInfo
    sink: str
    sample_rate: int


class PlayerAck(Ack, tag="ack", kw_only=True, frozen=True):
    """A request was accepted; `item` is the number of what will be spoken, if anything will."""

    item: int | None = None


class PlayerError(Error, tag="error", kw_only=True, frozen=True):
    """A request failed, or later the item that it was accepted as."""

    item: int | None = None


class PlayerState(Reply, tag="state", kw_only=True, frozen=True):
    """What the player is doing: sent when it changes, and as the answer to `status`.

    Attributes:
        rev: counts changes; milliseconds alone are none.
        state: `buffering` before there is sound, `recovering` when it had to stop for lack of it.
        item: that is heard, or will be next.
        queue_len: items behind it.
        position_ms: how far the item was heard.
        buffered_ms: what is here of it and was not given to the device.
        volume: 0-1.
        voice: for texts that name none; None is the engine's choice.
        speed: the same.
        device: None while there is none; speech waits then.
        stalled: the device is there, and stands still.
        depth_ms: how much the device is given ahead.
        target_ms: how much sound must be here for a start, because of how evenly it comes.
        slack_ms: how long the engine may stay away without a gap; None while nothing is made.
        rtf: how long the engine takes for a second of sound; None before that is known.
        underruns: how often sound had to stop since the start of the player: the engine or the device
            had nothing more to play.
    """

    rev: int
    state: Literal["idle", "buffering", "playing", "paused", "recovering"]
    queue_len: int
    device: str | None
    underruns: int
    buffered_ms: float
    volume: float
    depth_ms: float
    target_ms: float
    position_ms: float = 0.0
    item: int | None = None
    voice: str | None = None
    speed: float | None = None
    stalled: bool = False
    slack_ms: float | None = None
    rtf: float | None = None


class Sentence(msgspec.Struct, kw_only=True, frozen=True):
    """A segment: characters of the original text, and the sample it begins at."""

    index: int
    char_start: int
    char_end: int
    sample: int


class Position(Message, tag="position", kw_only=True, frozen=True):
    """Which sample leaves the device now.

    Attributes:
        of_ms: how long the item will be, once that is known.
        sentence: the one that is heard.
    """

    item: int
    sample: int
    ms: float
    of_ms: float | None = None
    sentence: Sentence | None = None


class Word(WordMark, tag_field="type", tag="word", kw_only=True, frozen=True):
    """This word of the original text begins to be heard."""

    item: int


class ItemStarted(Message, tag="item.started", kw_only=True, frozen=True):
    """The first sample of an item leaves the device."""

    item: int
    key: str | None = None


class ItemDone(Message, tag="item.done", kw_only=True, frozen=True):
    """An item ended: its last sample has left the device, or it was stopped, replaced or failed."""

    item: int
    played_ms: float
    outcome: Literal["finished", "stopped", "replaced", "failed"]
    key: str | None = None


class QueuedItem(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """An item that is not over.

    Attributes:
        chars: of its text, as far as it came.
        waits: it is not the one that is played.
        own: it was asked for on this connection.
    """

    item: int
    chars: int
    waits: bool
    own: bool
    key: str | None = None


class Queue(Reply, tag="queue", kw_only=True, frozen=True):
    """The items that are not over, in playing order; `more` of them are not listed."""

    items: tuple[QueuedItem, ...]
    more: int = 0


class Devices(Reply, tag="devices", kw_only=True, frozen=True):
    """Names of the sound devices, and which of them was chosen; None is the system's default."""

    devices: tuple[str, ...]
    chosen: str | None = None


# --- vocabularies -----------------------------------------------------------------------------

Vocabulary = Mapping[str, type[msgspec.Struct]]


def _vocabulary(*structs: type[msgspec.Struct]) -> Vocabulary:
    return {str(struct.__struct_config__.tag): struct for struct in structs}


ENGINE_CLIENT = _vocabulary(
    Auth, Speak, Open, Append, Flush, End, Configure, Heard, Cancel, Subscribe, Unsubscribe,
    AskVoices, AskStatus, AskReset, Ping,
)  # fmt: skip
ENGINE_SERVER = _vocabulary(
    Ready, Ack, Error, Warning, StreamOpened, Segment, SegmentMarks, SegmentFinished, AllSpoken,
    Progress, StreamDone, StreamCancelled, Voices, Status, SessionReset, Pong,
)  # fmt: skip
PLAYER_CLIENT = _vocabulary(
    Auth, PlayerSpeak, PlayerOpen, PlayerAppend, PlayerEnd, PlayerPause, PlayerResume, PlayerToggle,
    PlayerStop, PlayerSkip, PlayerSeek, PlayerRepeat, PlayerVolume, PlayerConfigure, PlayerQueue,
    AskDevices, PlayerSubscribe, AskStatus, Ping,
)  # fmt: skip
PLAYER_SERVER = _vocabulary(
    PlayerReady, PlayerAck, PlayerError, Warning, PlayerState, Position, Word, ItemStarted, ItemDone,
    Queue, Devices, Pong,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class StreamFrame:
    """An audio frame and the number of its stream; `frames` has its bytes."""

    stream: int
    frame: Frame


@dataclass(frozen=True, slots=True)
class Unknown:
    """A well-formed message of a type that is not in the vocabulary."""

    type: str
    id: str | None


@dataclass(frozen=True, slots=True)
class Decoded:
    """A message, and the names of fields it had that nobody knows (the first few)."""

    message: msgspec.Struct | Unknown
    unknown_fields: tuple[str, ...] = ()


def stream_opened(opened: Opened, stream: int, *, owner: bool) -> StreamOpened:
    """The wire's form of a stream's first event."""
    return StreamOpened(**_body(opened, Opened), stream=stream, owner=owner)


def status(
    report: Report,
    *,
    streams: int,
    connections: int,
    uptime_s: float,
    instance: str,
    reply_to: str | None = None,
) -> Status:
    """The wire's form of what an engine tells of itself."""
    return Status(
        **_body(report, Report),
        streams=streams,
        connections=connections,
        uptime_s=uptime_s,
        instance=instance,
        reply_to=reply_to,
    )


_OF_STREAM: tuple[tuple[type[Event], type[msgspec.Struct]], ...] = (
    (SegmentStart, Segment),
    (Marks, SegmentMarks),
    (SegmentDone, SegmentFinished),
    (Flushed, AllSpoken),
    (Notice, Warning),
    (Done, StreamDone),
)


def of_stream(event: Event | Error | StreamCancelled, stream: int) -> msgspec.Struct | StreamFrame:
    """The wire's form of a stream's later events; endings are in that form already."""
    match event:
        case Error() | StreamCancelled():
            return event
        case Frame():
            return StreamFrame(stream, event)
        case SegmentStart(text=text) if len(text) > _SEGMENT_CHARS:
            short = msgspec.structs.replace(event, text=text[:_SEGMENT_CHARS])
            return Segment(**_body(short, SegmentStart), stream=stream)
        case _:
            body, message = next(pair for pair in _OF_STREAM if isinstance(event, pair[0]))
            return message(**_body(event, body), stream=stream)


def _body(event: msgspec.Struct, struct: type[msgspec.Struct]) -> dict[str, Any]:
    # By the fields of the port's struct: what comes from another wire has more of them.
    return {name: getattr(event, name) for name in struct.__struct_fields__}


def encode(message: msgspec.Struct) -> str:
    """A control message as JSON text."""
    return msgspec.json.encode(message).decode()


def fitting(message: M, *fields: str) -> M:
    """The message, without these optional fields if it would be too long with them."""
    if len(msgspec.json.encode(message)) <= MAX_MESSAGE_BYTES:
        return message
    return msgspec.structs.replace(message, **dict.fromkeys(fields))


def decode(text: str, vocabulary: Vocabulary) -> Decoded:
    """JSON text to a message of the vocabulary.

    Raises:
        RemoteProtocolError: `bad_json` or `bad_message`, whatever the text is.
    """
    try:
        raw = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        raise RemoteProtocolError("bad_json", "The message is not valid JSON.") from None
    if not isinstance(raw, dict):
        raise RemoteProtocolError("bad_message", "A message is a JSON object.")
    kind, name = raw.get("type"), raw.get("id")
    reply_to = name if isinstance(name, str) and len(name) <= _NAME_CHARS else None
    if not isinstance(kind, str):
        raise RemoteProtocolError(
            "bad_message",
            "A message has a type, which is a string.",
            param="type",
            reply_to=reply_to,
        )
    struct = vocabulary.get(kind)
    if struct is None:
        return Decoded(Unknown(kind[:_QUOTED_CHARS], reply_to))
    try:
        message = msgspec.convert(raw, struct)
    except msgspec.ValidationError as error:
        text_, param = _blame(str(error))
        raise RemoteProtocolError(
            "bad_message", f"{kind}: {text_}.", param=param, reply_to=reply_to
        ) from None
    known: set[Any] = {"type", *struct.__struct_fields__}
    unknown = sorted(key[:_QUOTED_CHARS] for key in raw if key not in known)
    return Decoded(message, tuple(unknown[:_QUOTED_NAMES]))


def _blame(error: str) -> tuple[str, str | None]:
    """From msgspec's "Expected `str`, got `int` - at `$.text`" to (sentence, field)."""
    what, found, where = error.rpartition(" - at ")  # what may quote a value, which may hold this
    if not found:
        what, where = error, ""
    field = where.strip("`").removeprefix("$.").removeprefix("$") or None
    if len(what) > 2 * _QUOTED_CHARS:
        what = f"{what[: 2 * _QUOTED_CHARS]}…"
    if field is None and "`" in what and "missing" in what:
        field = what.split("`")[1]
    return (f"{what} in field {field!r}" if where and field else what), field
