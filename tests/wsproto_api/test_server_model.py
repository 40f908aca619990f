"""The engine's server against a naive model: whatever two clients do, both agree.

Hypothesis draws what the clients do; time is virtual, and there are no sockets: `MemoryPeer` stands
for `peer.Peer`. Every message passes the rules of `Session` at both ends. `Model` knows what was
accepted, and checks every answer and every event against it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec
import pytest
import trio
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from engine import config
from engine.config import Settings
from engine.errors import EngineError, SynthesisFailed
from engine.request import Frame
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages
from wsproto_api.errors import LocalProtocolError
from wsproto_api.messages import Decoded, StreamFrame
from wsproto_api.peer import Peer
from wsproto_api.server import UNREAD, EngineServer, _Client
from wsproto_api.session import Role, Session
from wsproto_api.stream import Cursor
from wsproto_api.streams import LiveStream

#: of `speak` and `append`; some cut words, some have nothing to speak
PIECES = (
    "One two. ", "thr", "ee four", "! ", " ", "a b c d e f g h i j k l m n o p. ", "?", "",
    "Long" * 20 + ". ",
)  # fmt: skip
#: what a stream takes, waiting and in all: little, so that it is reached
WAITING_CHARS, LIVE_CHARS = 90, 120
LIMITS = {"max_lead_ms": 1000, "streams": 3, "connection_streams": 2}
#: the segment at which the brittle voice fails
BRITTLE_AT = 2

Action: TypeAlias = tuple[Any, ...]


@dataclass
class Text:
    """A stream as it was accepted.

    Attributes:
        flushes: their ids, and how much text was before them.
        frames: those that anybody heard.
    """

    text: str
    marks: bool
    owner: MemoryPeer | None
    cancelled: bool = False
    flushes: list[tuple[str | None, int]] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)


@dataclass
class View:
    """What a client hears of a stream from `stream.opened` on.

    Attributes:
        wanted: the first frame that it asked for.
        by_all: whether it did not ask for this stream, but for all.
        whole: it heard everything from the beginning.
        inside: the segment that it is in; None between two, and while `lost`.
        lost: it does not know in which segment it is.
        jumps: what was told shows that frames are missing: the next one must say so.
    """

    wanted: int
    owner: bool
    by_all: bool = False
    opened: bool = False
    whole: bool = True
    lost: bool = False
    told_of_hole: bool = False
    jumps: bool = False
    next_seq: int | None = None
    sample: int = 0
    inside: messages.Segment | None = None
    samples_inside: int = 0
    marked: bool = False
    index: int = 0
    chars: int = 0
    flushed: int = 0
    ended: bool = False  # by a frame that says so


class Model:
    """What was accepted, and what follows from it."""

    def __init__(self, server: EngineServer, *, brittle: bool) -> None:
        self.streams: dict[int, Text] = {}
        self.peers: list[MemoryPeer] = []
        self._server = server
        self._brittle = brittle

    # --- requests -------------------------------------------------------------------------------

    def expected(self, peer: MemoryPeer, request: Any) -> set[str]:
        """Answers that this request may have now, by code or type."""
        live = self._server.streams.find(getattr(request, "stream", 0) or 0)
        match request:
            case messages.Ping():
                return {"pong"}
            case messages.AskStatus():
                return {"status"}
            case messages.Speak() | messages.Open():
                if self.owned(peer) >= LIMITS["connection_streams"]:
                    return {"too_many_streams"}
                if len(self._server.streams.live) >= LIMITS["streams"]:
                    return {"overloaded"}
                # Others may be on their way to become streams, or not.
                opening = sum(other.opens for other in self.peers if other is not peer)
                full = len(self._server.streams.live) + opening >= LIMITS["streams"]
                perhaps = {"overloaded"} if full else set()
                if request.voice == "nobody":
                    return {"unknown_voice"} | perhaps
                empty = isinstance(request, messages.Speak) and not request.text.strip()
                return {"invalid_value" if empty else "ack"} | perhaps
            case messages.Cancel():
                if live is not None and not live.log.over:
                    self.streams[request.stream].cancelled = True
                return {"ack"}
            case messages.Heard(id=str(name)):
                peer.reports[name] = self._wrong(peer, live, request)
                return {"ack"}
            case messages.Unsubscribe():
                return {"ack"}
            case messages.Subscribe(stream="*"):
                return {"ack"}
            case _ if live is None:
                return {"unknown_stream"}
            case messages.Subscribe():
                return {"ack" if request.from_seq <= live.log.next_seq else "invalid_value"}
            case messages.End():
                return {"ack"}
            case messages.Configure(voice=None, speed=None):
                return {"invalid_value"}
            case _ if live.log.over:
                return {"unknown_stream"}
            case messages.Configure():
                return {"ack"} if request.voice != "nobody" else {"unknown_voice"}
            case messages.Flush():
                return {"ack" if live.awaits_text else "invalid_value"}
            case messages.Append():
                return self._append(self.streams[request.stream], request, live.awaits_text)
            case _:
                raise AssertionError(type(request))

    def _append(self, stream: Text, request: messages.Append, more: bool) -> set[str]:
        text = request.text
        if request.at is not None:
            if request.at > len(stream.text):
                return {"invalid_value"}
            known, text = stream.text[request.at :], text[len(stream.text) - request.at :]
            if not (known.startswith(request.text) or request.text.startswith(known)):
                return {"invalid_value"}
            if not text:
                return {"ack"}
        if not more:
            return {"invalid_value"}
        if len(stream.text) + len(text) > LIVE_CHARS or len(text) > WAITING_CHARS:
            return {"text_too_long"}
        # How much waits depends on how far the voice is.
        fits = len(stream.text) + len(text) <= WAITING_CHARS
        return {"ack"} if fits else {"ack", "overloaded"}

    def _wrong(
        self, peer: MemoryPeer, live: LiveStream | None, report: messages.Heard
    ) -> str | None:
        """The code of the warning that a report gets."""
        if live is None:
            return "unknown_stream"
        if getattr(live.owner, "_peer", None) is not peer:
            return "not_owner"
        return "not_made_yet" if report.sample > live.log.samples else None

    def owned(self, peer: MemoryPeer) -> int:
        """Streams of a client that are made, or not yet heard."""
        return sum(
            stream.owner is peer and (self.is_live(number) or number in peer.following)
            for number, stream in self.streams.items()
        )

    def _has_yet_to_lose(self, number: int, peer: MemoryPeer) -> bool:
        """Whether the server does not know yet that the stream's owner is gone."""
        live = self._server.streams.find(number)
        owner = getattr(live and live.owner, "_peer", None)
        return owner not in (None, peer) and bool(owner.gone)

    def is_live(self, number: int) -> bool:
        live = self._server.streams.find(number)
        return live is not None and not live.log.over

    def answered(self, peer: MemoryPeer, request: Any, answer: Any) -> None:
        """A request has its answer."""
        if not isinstance(answer, messages.Ack):
            return
        match request:
            case messages.Speak() | messages.Open():
                number = answer.stream
                assert number is not None
                assert number not in self.streams
                text = request.text if isinstance(request, messages.Speak) else ""
                self.streams[number] = Text(text, request.marks, None if peer.gone else peer)
                peer.follow(number, 0, owner=True)
                for other in self.peers:
                    if other is not peer and other.follows_all and not other.gone:
                        other.follow(number, 0, owner=False, by_all=True)
            case messages.Append(stream=number, text=text, at=at):
                stream = self.streams[number]
                stream.text += text if at is None else text[len(stream.text) - at :]
            case messages.Flush(stream=number, flush_id=flush_id):
                stream = self.streams[number]
                stream.flushes.append((flush_id, len(stream.text)))
            case messages.Subscribe(stream="*"):
                peer.follows_all = True
                for number in self.streams:
                    if self.is_live(number):
                        owner = self.streams[number].owner is peer
                        peer.follow(number, 0, owner=owner, by_all=True)
            case messages.Subscribe(stream=int(number), from_seq=from_seq):
                stream = self.streams[number]
                free = stream.owner is None and not self._has_yet_to_lose(number, peer)
                if free and not peer.gone and self.is_live(number):
                    stream.owner = peer
                peer.following.pop(number, None)  # it begins anew
                peer.follow(number, from_seq, owner=stream.owner is peer)
            case messages.Unsubscribe(stream="*"):
                peer.follows_all = False
                for number in [n for n, view in peer.following.items() if view.by_all]:
                    del peer.following[number]
            case messages.Unsubscribe(stream=int(number)):
                peer.following.pop(number, None)
            case _:
                pass

    def left(self, peer: MemoryPeer) -> None:
        """A client is gone."""
        for stream in self.streams.values():
            if stream.owner is peer:
                stream.owner = None

    # --- events ---------------------------------------------------------------------------------

    def heard(self, peer: MemoryPeer, number: int, event: Any) -> None:
        """Something of a stream came to a client that follows it."""
        assert number in peer.following, "only who follows hears of it"
        stream, view = self.streams[number], peer.following[number]
        if isinstance(event, messages.StreamOpened):
            assert not view.opened
            assert event.owner in {view.owner, stream.owner is peer}
            view.opened = True
            return
        assert view.opened, "nothing comes before stream.opened"
        assert not view.told_of_hole or isinstance(event, StreamFrame)
        match event:
            case StreamFrame(frame=frame):
                self._frame(stream, view, frame)
            case messages.Segment():
                assert event.text == stream.text[event.char_start : event.char_end] != ""
                assert event.char_start >= view.chars
                if view.whole and (view.inside is not None or event.index != view.index):
                    self._missed(view)
                assert view.inside is None or view.jumps
                assert event.sample == view.sample or view.next_seq is None or view.jumps
                between = stream.text[view.chars : event.char_start]
                assert not view.whole or not re.search(r"\w", between)
                view.inside, view.lost, view.marked = event, False, False
                view.samples_inside = 0
                view.chars = event.char_end
            case messages.SegmentMarks():
                assert stream.marks
                assert view.inside is not None or view.lost
                assert not view.samples_inside
                assert not view.marked
                view.marked = True
            case messages.SegmentFinished():
                if view.whole and view.inside is None:
                    self._missed(view)
                inside = view.inside
                if inside is not None and (
                    (event.index, event.samples) != (inside.index, view.samples_inside)
                ):
                    self._missed(view)
                view.inside, view.lost, view.index = None, False, event.index + 1
            case messages.AllSpoken():
                assert view.inside is None or view.jumps
                ids = [flush_id for flush_id, _ in stream.flushes]
                at = ids.index(event.flush_id, view.flushed)
                if view.whole and at != view.flushed:
                    self._missed(view)
                view.flushed = at + 1
                unspoken = stream.text[view.chars : stream.flushes[at][1]]
                assert not view.whole or not re.search(r"\w", unspoken)
            case messages.Progress():
                assert event.samples_ready >= view.sample
            case messages.Warning(code="frames_skipped"):
                view.told_of_hole = True
            case messages.StreamDone():
                assert view.ended or view.wanted > 0
                assert not view.jumps
                assert not stream.cancelled
                live = self._server.streams.find(number)
                assert live is None or not live.awaits_text
                assert event.chars == len(stream.text)
                if view.whole:
                    assert view.inside is None
                    assert (event.samples, event.segments) == (view.sample, view.index)
                    assert view.flushed == len(stream.flushes)
                    assert not re.search(r"\w", stream.text[view.chars :])
                del peer.following[number]
            case messages.StreamCancelled():
                if event.played_samples is not None:
                    assert event.text_spoken is not None
                    assert event.text_remaining is not None
                    assert event.text_spoken + event.text_remaining == stream.text
                    assert len(event.text_spoken) == event.chars_spoken
                del peer.following[number]
            case messages.Error(code="synthesis_failed"):
                assert self._brittle
                assert view.index == BRITTLE_AT or not view.whole
                del peer.following[number]
            case _:
                raise AssertionError(event)

    def _missed(self, view: View) -> None:
        """What comes is behind frames that the client has not had."""
        view.whole, view.jumps = False, True

    def _frame(self, stream: Text, view: View, frame: Frame) -> None:
        assert frame.discontinuity == view.told_of_hole
        assert frame.discontinuity or not view.jumps
        if frame.discontinuity:
            assert frame.seq > (view.wanted if view.next_seq is None else view.next_seq)
            view.whole, view.lost, view.inside = False, True, None
        else:
            assert frame.seq == (view.wanted if view.next_seq is None else view.next_seq)
            assert frame.sample == view.sample or view.next_seq is None
        if frame.samples and view.inside is not None:
            assert frame.segment_first == (view.samples_inside == 0)
            assert view.marked == stream.marks
        assert frame.samples == 0 or view.lost or view.inside is not None
        plain = msgspec.structs.replace(frame, discontinuity=False)
        assert stream.frames.setdefault(frame.seq, plain) == plain, "all hear the same"
        assert frame.last == (frame.samples == 0)
        view.told_of_hole, view.jumps, view.ended = False, False, frame.last
        view.next_seq, view.sample = frame.seq + 1, frame.sample + frame.samples
        view.samples_inside += frame.samples


class MemoryPeer:
    """A `Peer` without a socket, and the client at its other end.

    Attributes:
        following: what the client follows, by its requests.
        gone: whether the client has left.
    """

    def __init__(self, model: Model) -> None:
        rules = {"client": messages.ENGINE_CLIENT, "server": messages.ENGINE_SERVER}
        self.following: dict[int, View] = {}
        self.reports: dict[str, str | None] = {}  # by id, the warning that each will get
        self.follows_all = False
        self.said_goodbye = False
        self._model = model
        self._server = Session(Role.SERVER, **rules)
        self._client = Session(Role.CLIENT, **rules)
        self._outbox, self._inbox = trio.open_memory_channel[str](math.inf)
        self._asked: dict[str, Any] = {}
        self._expected: dict[str, set[str]] = {}
        self._reads = trio.Event()
        self._reads.set()
        self.gone = False
        self._count = 0

    # --- the server's side ----------------------------------------------------------------------

    async def send(self, message: msgspec.Struct | StreamFrame) -> None:
        await trio.lowlevel.checkpoint()
        while not self._reads.is_set():
            await self._reads.wait()
        self.reply(message)

    def reply(self, message: msgspec.Struct | StreamFrame) -> None:
        if not self.gone:
            self._hear(self._client.receive(self._server.send(message)))
        elif getattr(message, "reply_to", None) in self._asked:
            self._hear(Decoded(cast(msgspec.Struct, message)))  # it is so, though nobody hears it

    def end(self, code: int, error: EngineError) -> None:
        """The server lets the client go: it followed all, and did not read."""
        assert (code, error.code) == (1008, "overloaded")
        assert sum(view.by_all for view in self.following.values()) >= UNREAD
        if not self.gone:
            self.leave(politely=False)

    def __aiter__(self) -> MemoryPeer:
        return self

    async def __anext__(self) -> msgspec.Struct:
        try:
            decoded = self._server.receive(await self._inbox.receive())
        except trio.EndOfChannel:
            raise StopAsyncIteration from None
        assert isinstance(decoded, Decoded)
        message: Any = decoded.message
        self._expected[message.id] = self._model.expected(self, message)
        return cast(msgspec.Struct, message)

    # --- the client -----------------------------------------------------------------------------

    def ask(self, request: Any) -> None:
        """Sends a request, if there is somebody yet."""
        if self.gone:
            return
        self._count += 1
        request = msgspec.structs.replace(request, id=f"{self._count}")
        self._asked[request.id] = request
        text = self._client.send(request)
        assert isinstance(text, str)
        self._outbox.send_nowait(text)

    def read(self, reads: bool) -> None:
        """Whether the client reads from now on."""
        if reads:
            self._reads.set()
        elif self._reads.is_set():
            self._reads = trio.Event()

    def leave(self, *, politely: bool) -> None:
        """The client is gone."""
        self.said_goodbye, self.gone = politely, True
        self._reads.set()
        self._outbox.close()
        self._model.left(self)

    @property
    def opens(self) -> bool:
        """Whether the server is about to open a stream for this client."""
        opening = (messages.Speak, messages.Open)
        return any(isinstance(self._asked[name], opening) for name in self._expected)

    @property
    def unanswered(self) -> list[Any]:
        """Requests without an answer."""
        return list(self._asked.values())

    def follow(self, number: int, from_seq: int, *, owner: bool, by_all: bool = False) -> None:
        """The client is to hear a stream, from now on if it did not already."""
        if number not in self.following:
            known = from_seq == 0
            self.following[number] = View(from_seq, owner, by_all, whole=known, lost=not known)

    def _hear(self, received: Decoded | StreamFrame) -> None:
        if isinstance(received, StreamFrame):
            self._model.heard(self, received.stream, received)
            return
        assert received.unknown_fields == ()
        message: Any = received.message
        name = getattr(message, "reply_to", None)
        if name is not None and not isinstance(message, messages.Warning):  # no answer
            request = self._asked.pop(name)
            assert self.reports.pop(name, None) is None, "a warning comes before the answer"
            kind = message.__struct_config__.tag
            code = message.code if isinstance(message, messages.Error) else kind
            assert code in self._expected.pop(name), (request, message)
            self._model.answered(self, request, message)
        elif isinstance(message, messages.Warning) and name in self.reports:
            assert message.code == self.reports.pop(name)
        elif isinstance(message, messages.Warning) and message.code == "unknown_stream":
            assert not self._model.is_live(message.stream or 0)
        elif not isinstance(message, messages.Ready):
            self._model.heard(self, message.stream, message)


class Table:
    """Two clients at a server, and what they can do."""

    def __init__(self, server: EngineServer, model: Model, nursery: trio.Nursery) -> None:
        self._server = server
        self._model = model
        self._nursery = nursery
        self._flushes = 0
        self.seats = [self._sit(), self._sit()]

    def _sit(self) -> MemoryPeer:
        peer = MemoryPeer(self._model)
        self._model.peers.append(peer)
        self._nursery.start_soon(self._server._connected, cast(Peer, peer))
        return peer

    def do(self, seat: int, what: str, *arguments: Any) -> None:
        """One action of one client."""
        getattr(self, f"do_{what}")(seat, *arguments)

    def number(self, back: int) -> int:
        """The stream that was opened so many before the last one; 0 was never."""
        return max(len(self._model.streams) - back, 0)

    def do_speak(self, seat: int, pieces: list[str], marks: bool, voice: str | None) -> None:
        request = messages.Speak(text="".join(pieces), marks=marks, voice=voice)
        self.seats[seat].ask(request)

    def do_open(self, seat: int, marks: bool, voice: str | None) -> None:
        self.seats[seat].ask(messages.Open(marks=marks, voice=voice, max_buffer_delay_ms=500))

    def do_append(self, seat: int, back: int, piece: str, again: int | None) -> None:
        number, at = self.number(back), None
        stream = self._model.streams.get(number)
        if again is not None and stream is not None:
            at = max(len(stream.text) - again, 0)
            piece = stream.text[at:] + piece
        self.seats[seat].ask(messages.Append(stream=number, text=piece, at=at))

    def do_flush(self, seat: int, back: int) -> None:
        self._flushes += 1
        flush_id = f"f{self._flushes}"
        self.seats[seat].ask(messages.Flush(stream=self.number(back), flush_id=flush_id))

    def do_end(self, seat: int, back: int) -> None:
        self.seats[seat].ask(messages.End(stream=self.number(back)))

    def do_configure(self, seat: int, back: int, voice: str | None, speed: float | None) -> None:
        request = messages.Configure(stream=self.number(back), voice=voice, speed=speed)
        self.seats[seat].ask(request)

    def do_heard(self, seat: int, back: int, sample: int, playing: bool) -> None:
        request = messages.Heard(stream=self.number(back), sample=sample, playing=playing)
        self.seats[seat].ask(request)

    def do_cancel(self, seat: int, back: int, played: int | None) -> None:
        self.seats[seat].ask(messages.Cancel(stream=self.number(back), played_samples=played))

    def do_subscribe(self, seat: int, back: int | None, from_seq: int) -> None:
        stream = "*" if back is None else self.number(back)
        self.seats[seat].ask(messages.Subscribe(stream=cast(Any, stream), from_seq=from_seq))

    def do_unsubscribe(self, seat: int, back: int | None) -> None:
        stream = "*" if back is None else self.number(back)
        self.seats[seat].ask(messages.Unsubscribe(stream=cast(Any, stream)))

    def do_status(self, seat: int) -> None:
        self.seats[seat].ask(messages.AskStatus())

    def do_ping(self, seat: int) -> None:
        self.seats[seat].ask(messages.Ping())

    def do_read(self, seat: int, reads: bool) -> None:
        self.seats[seat].read(reads)

    def do_come_again(self, seat: int, politely: bool) -> None:
        if not self.seats[seat].gone:
            self.seats[seat].leave(politely=politely)
        self.seats[seat] = self._sit()


SEAT, YES_NO = st.integers(0, 1), st.booleans()
BACK = st.sampled_from([0, 0, 0, 0, 1, 2, 9])
VOICE = st.sampled_from([None, None, None, "bm_fable", "nobody"])
SPEED = st.sampled_from([None, 0.5, 2.0])
PIECE = st.sampled_from(PIECES)


def _does(what: str, *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Action]:
    return st.tuples(SEAT, st.just(what), *arguments)


# What makes the others matter comes more often.
OPENS = _does("open", YES_NO, VOICE)
APPENDS = _does("append", BACK, PIECE, st.none())
ACTIONS = st.one_of(
    _does("speak", st.lists(PIECE, max_size=8), YES_NO, VOICE),
    OPENS, OPENS, APPENDS, APPENDS, APPENDS,
    _does("append", BACK, PIECE, st.none() | st.integers(-2, 20)),
    _does("flush", BACK),
    _does("end", BACK),
    _does("configure", BACK, VOICE, SPEED),
    _does("heard", BACK, st.integers(0, 60_000), YES_NO),
    _does("cancel", BACK, st.none() | st.integers(0, 100_000)),
    _does("subscribe", BACK, st.sampled_from([0, 0, 5, 30])),
    _does("subscribe", st.none(), st.just(0)),
    _does("unsubscribe", st.none() | BACK),
    st.sampled_from([(0, "status"), (1, "ping")]),
    _does("read", YES_NO),
    _does("come_again", YES_NO),
    st.tuples(st.none(), st.sampled_from([0.1, 1.0, 3.0, 30.0])),  # seconds that pass
)  # fmt: skip


#: an action, and whether the server may act on it before the next one
STEPS = st.lists(
    st.tuples(ACTIONS, st.sampled_from([True, True, True, False])), min_size=10, max_size=60
)
Steps: TypeAlias = list[tuple[Action, bool]]


async def play(settings: Settings, steps: Steps, brittle: bool) -> Model:
    """Does it all, brings it to an end, and checks that nothing is left."""
    failure = SynthesisFailed("The model failed.") if brittle else None
    voice = ToneVoice(rtf=0.3, fail_at=BRITTLE_AT if brittle else None, failure=failure)
    voice.text_chars, voice.live_chars = WAITING_CHARS, LIVE_CHARS
    server = EngineServer(voice, voice, settings.model_copy(update=LIMITS), TOKEN)
    model = Model(server, brittle=brittle)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.streams.run)
        async with trio.open_nursery() as clients:
            table = Table(server, model, clients)
            for (seat, what, *arguments), settles in steps:
                if seat is not None:
                    table.do(seat, what, *arguments)
                else:
                    await trio.sleep(what)
                if settles:
                    await wait_all_tasks_blocked()
            for peer in table.seats:
                peer.read(True)
            await wait_all_tasks_blocked()
            for number in model.streams:
                table.seats[0].ask(messages.End(stream=number))
            await trio.sleep(1_000)
            for peer in table.seats:
                if not peer.gone:
                    assert not peer.unanswered
                    assert not peer.following, "what is followed comes to its end"
                    peer.leave(politely=True)
        await trio.sleep(10)  # orphans
        assert server.streams.live == []
        assert voice.active == 0
        assert not server.clients
        assert not server.streams._nursery.child_tasks
        nursery.cancel_scope.cancel()
    return model


def run(settings: Settings, steps: Steps, brittle: bool = False) -> Model:
    return trio.run(play, settings, steps, brittle, clock=MockClock(autojump_threshold=0))


def limits() -> Settings:
    return config.load({}, environ={}, file=Path("there-is-none.toml")).settings


def settling(*actions: Action) -> Steps:
    return [(action, True) for action in actions]


#: live text, cut anywhere, that everybody hears, one of them slowly; and another that is cancelled
LIVE = settling(
    (1, "subscribe", None, 0),
    (0, "open", True, None),
    (0, "append", 0, "One two. ", None),
    (0, "flush", 0),
    (1, "read", False),
    (0, "append", 0, "thr", None),
    (0, "append", 0, "ee four", 3),
    (0, "flush", 0),
    (0, "configure", 0, None, 2.0),
    (0, "append", 0, "Five six seven eight nine ten. ", None),
    (None, 30.0),
    (1, "read", True),
    (0, "speak", ["One two. "] * 3, False, None),
    (None, 0.2),
    (0, "cancel", 0, 10_000),
)
BROKEN_OFF = settling((0, "come_again", False), (1, "subscribe", 1, 5), (1, "end", 1))


@hypothesis_settings(max_examples=300)
@given(STEPS, st.booleans())
@example(LIVE, False)
@example([*LIVE, *BROKEN_OFF], True)
def test_whatever_two_clients_do_agrees_with_the_model(steps: Steps, brittle: bool) -> None:
    run(limits(), steps, brittle)


def test_the_actions_of_the_example_have_their_effects() -> None:
    model = run(limits(), LIVE)
    live, spoken = model.streams[1], model.streams[2]
    assert live.text == "One two. three fourFive six seven eight nine ten. "
    assert [flush_id for flush_id, _ in live.flushes] == ["f1", "f2"]
    assert sum(frame.samples for frame in live.frames.values()) > 24_000
    assert spoken.frames.keys() != live.frames.keys()


def test_a_stream_that_is_heard_to_its_end_leaves_nothing() -> None:
    # Longer than `max_lead_ms`, and whoever hears it is gone as soon as the voice has said the
    # last, or a tick later; as trio likes it.
    for _ in range(20):
        run(limits(), settling((0, "speak", ["One two. "] * 5, False, None)))


# --- the model can tell --------------------------------------------------------------------------


def _lose_a_frame(patch: pytest.MonkeyPatch) -> None:
    read = Cursor.read

    def lossy(self: Cursor) -> Any:
        entry = read(self)
        lost = isinstance(entry, Frame) and entry.seq == 3
        return read(self) if lost else entry

    patch.setattr(Cursor, "read", lossy)


def _answer_twice(patch: pytest.MonkeyPatch) -> None:
    acknowledge = _Client._acknowledge

    def twice(self: _Client, name: str | None, stream: int | None = None) -> None:
        acknowledge(self, name, stream)
        acknowledge(self, name, stream)

    patch.setattr(_Client, "_acknowledge", twice)


def _tell_marks_to_all(patch: pytest.MonkeyPatch) -> None:
    async def tell(self: _Client, live: LiveStream, entry: Any) -> None:
        await self._peer.send(messages.of_stream(entry, live.log.number))

    patch.setattr(_Client, "_tell", tell)


def _forget_a_flush(patch: pytest.MonkeyPatch) -> None:
    async def flush(self: LiveStream, flush_id: str | None) -> None:
        pass

    patch.setattr(LiveStream, "flush", flush)


def _lose_text(patch: pytest.MonkeyPatch) -> None:
    append = LiveStream.append

    async def lossy(self: LiveStream, text: str, at: int | None = None) -> None:
        await append(self, text[:2] + text[3:], at)

    patch.setattr(LiveStream, "append", lossy)


def _go_on_after_cancel(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LiveStream, "cancel", lambda self, played_samples=None: True)


@pytest.mark.parametrize(
    "fault",
    [
        _lose_a_frame, _answer_twice, _tell_marks_to_all, _forget_a_flush, _lose_text,
        _go_on_after_cancel,
    ],
)  # fmt: skip
def test_the_model_notices_a_fault(
    monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None]
) -> None:
    fault(monkeypatch)
    with pytest.raises(ExceptionGroup) as raised:
        run(limits(), LIVE)
    _, others = raised.value.split((AssertionError, LocalProtocolError))
    assert others is None
