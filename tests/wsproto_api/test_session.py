"""The rules of a connection: each row of the table in `wsproto_api.session`, from both ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.request import Frame
from tests.support.tone import ToneVoice
from wsproto_api import frames, messages
from wsproto_api.errors import LocalProtocolError, RemoteProtocolError
from wsproto_api.messages import Decoded, StreamFrame, Unknown
from wsproto_api.session import Phase, Role, Session

from .serving import ready_of

Sent = msgspec.Struct | StreamFrame

ENGINE_READY = ready_of(ToneVoice.model)
PLAYER_READY = messages.PlayerReady(
    protocol=messages.PROTOCOL, server=ENGINE_READY.server, sink="null", sample_rate=24000
)
STATE = messages.PlayerState(
    rev=1,
    state="idle",
    queue_len=0,
    device=None,
    underruns=0,
    buffered_ms=0.0,
    volume=1.0,
    depth_ms=60.0,
    target_ms=80.0,
)
SPEAK = messages.Speak(text="Hello.")


def session(role: Role, socket: str = "engine") -> Session:
    if socket == "engine":
        return Session(role, client=messages.ENGINE_CLIENT, server=messages.ENGINE_SERVER)
    return Session(role, client=messages.PLAYER_CLIENT, server=messages.PLAYER_SERVER)


def raw(message: Sent) -> str | bytes:
    """Its bytes or text, whatever the rules say."""
    if isinstance(message, StreamFrame):
        return frames.encode(message.stream, message.frame)
    return messages.encode(message)


class Pair:
    """Both ends of a connection; what is said at one is at once heard at the other."""

    def __init__(self, socket: str = "engine", *, ready: bool = True) -> None:
        self.client = session(Role.CLIENT, socket)
        self.server = session(Role.SERVER, socket)
        if ready:
            self.served(ENGINE_READY if socket == "engine" else PLAYER_READY)

    def served(self, *said: Sent) -> None:
        """The server may say these and the client accepts them."""
        for message in said:
            heard = self.client.receive(self.server.send(message))
            assert heard == (message if isinstance(message, StreamFrame) else Decoded(message))

    def asked(self, *said: msgspec.Struct) -> None:
        """The client may say these and the server accepts them."""
        for message in said:
            assert self.server.receive(self.client.send(message)) == Decoded(message)

    def not_served(self, message: Sent) -> None:
        """The server may not say this: its own fault if it tries, the server's if it arrives."""
        with pytest.raises(LocalProtocolError):
            self.server.send(message)
        with pytest.raises(RemoteProtocolError) as caught:
            self.client.receive(raw(message))
        assert caught.value.code == "bad_message"

    def not_asked(self, message: msgspec.Struct) -> None:
        """The client may not say this."""
        with pytest.raises(LocalProtocolError):
            self.client.send(message)
        with pytest.raises(RemoteProtocolError) as caught:
            self.server.receive(raw(message))
        assert caught.value.code == "bad_message"


def opened(stream: int = 1) -> messages.StreamOpened:
    return messages.StreamOpened(voice="v", lang="l", speed=1.0, stream=stream, owner=True)


def frame(seq: int, sample: int, samples: int = 2, *, jump: bool = False) -> StreamFrame:
    return StreamFrame(1, Frame(seq=seq, sample=sample, pcm=b"\0\0" * samples, discontinuity=jump))


def segment(stream: int = 1) -> messages.Segment:
    return messages.Segment(
        index=0, text="t", char_start=0, char_end=1, sample=0, stream=stream
    )  # fmt: skip


def segment_done(stream: int = 1) -> messages.SegmentFinished:
    return messages.SegmentFinished(index=0, samples=2, compute_ms=1.0, stream=stream)


def flushed(stream: int = 1) -> messages.AllSpoken:
    return messages.AllSpoken(stream=stream, flush_id="f")


def progress(stream: int = 1) -> messages.Progress:
    return messages.Progress(stream=stream, samples_ready=9, queue=0, rtf=0.5)


def marks(stream: int = 1) -> messages.SegmentMarks:
    return messages.SegmentMarks(index=0, words=(), phonemes=(), stream=stream)


def done(stream: int = 1) -> messages.StreamDone:
    return messages.StreamDone(samples=2, audio_ms=1.0, chars=1, segments=1, stream=stream)


def player_failed(
    *, item: int | None = None, reply_to: str | None = None, fatal: bool = False
) -> messages.PlayerError:
    return messages.PlayerError(
        code="internal", message="m", retryable=False, fatal=fatal, item=item, reply_to=reply_to
    )


def failed(
    *, stream: int | None = None, reply_to: str | None = None, fatal: bool = False
) -> messages.Error:
    return messages.Error(
        code="internal", message="m", retryable=False, fatal=fatal, stream=stream, reply_to=reply_to
    )


CANCELLED = messages.StreamCancelled(stream=1)
WARNING = messages.Warning(code="c", message="m", stream=1)
FATAL = failed(fatal=True)


def fatal(socket: str) -> messages.Error:
    return FATAL if socket == "engine" else player_failed(fatal=True)


STATUS = messages.status(ToneVoice().report(), streams=0, connections=0, uptime_s=0.0, instance="i")
ENGINE_SAYS: list[Sent] = [
    messages.Ack(), failed(), WARNING, opened(), messages.Voices(voices=()),
    STATUS, messages.SessionReset(cancelled=0, result="cancelled"), messages.Pong(),
]  # fmt: skip
ITEM_DONE = messages.ItemDone(item=1, played_ms=0.0, outcome="finished")
PLAYER_SAYS: list[Sent] = [
    messages.PlayerAck(), player_failed(), WARNING, STATE, ITEM_DONE, messages.Queue(items=()),
    messages.Devices(devices=("null",)), messages.Pong(),
]  # fmt: skip
ENGINE_ASKED: list[msgspec.Struct] = [
    SPEAK, messages.Cancel(stream=1), messages.Subscribe(stream="*"),
    messages.Heard(stream=1, sample=0, playing=True), messages.Unsubscribe(stream=1), messages.AskVoices(), messages.AskStatus(),
    messages.AskReset(), messages.Ping(),
]  # fmt: skip
PLAYER_ASKED: list[msgspec.Struct] = [
    messages.PlayerSpeak(text="Hello."), messages.PlayerStop(), messages.PlayerQueue(),
    messages.AskDevices(), messages.AskStatus(), messages.Ping(),
]  # fmt: skip
SAYS = [("engine", m) for m in ENGINE_SAYS] + [("player", m) for m in PLAYER_SAYS]
ASKED = [("engine", m) for m in ENGINE_ASKED] + [("player", m) for m in PLAYER_ASKED]


def name_of(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


# --- the connection -------------------------------------------------------------------------


@pytest.mark.parametrize("socket", ["engine", "player"])
def test_opening_then_ready_then_open(socket: str) -> None:
    pair = Pair(socket, ready=False)
    assert (pair.server.phase, pair.client.phase) == (Phase.OPENING, Phase.OPENING)
    pair.served(ENGINE_READY if socket == "engine" else PLAYER_READY)
    assert (pair.server.phase, pair.client.phase) == (Phase.OPEN, Phase.OPEN)


@pytest.mark.parametrize("socket", ["engine", "player"])
@pytest.mark.parametrize("ready", [False, True])
def test_a_fatal_error_closes_from_opening_and_from_open(socket: str, ready: bool) -> None:
    pair = Pair(socket, ready=ready)
    pair.served(fatal(socket))
    assert (pair.server.phase, pair.client.phase) == (Phase.CLOSING, Phase.CLOSING)


@pytest.mark.parametrize(("socket", "message"), SAYS, ids=name_of)
def test_a_server_says_anything_once_it_is_open_and_nothing_before(
    socket: str, message: Sent
) -> None:
    pair = Pair(socket, ready=False)
    pair.not_served(message)
    assert (pair.server.phase, pair.client.phase) == (Phase.OPENING, Phase.OPENING)
    pair.served(ENGINE_READY if socket == "engine" else PLAYER_READY, message)


@pytest.mark.parametrize("socket", ["engine", "player"])
def test_ready_comes_only_once(socket: str) -> None:
    Pair(socket).not_served(ENGINE_READY if socket == "engine" else PLAYER_READY)


@pytest.mark.parametrize(("socket", "message"), SAYS, ids=name_of)
def test_a_server_says_nothing_after_a_fatal_error(socket: str, message: Sent) -> None:
    pair = Pair(socket)
    pair.served(fatal(socket))
    pair.not_served(message)
    pair.not_served(fatal(socket))


def test_no_frame_follows_a_fatal_error() -> None:
    pair = Pair()
    pair.served(opened(), frame(0, 0), FATAL)
    pair.not_served(frame(1, 2))


@pytest.mark.parametrize(("socket", "message"), ASKED, ids=name_of)
def test_a_client_asks_before_and_after_ready_but_not_after_a_fatal_error(
    socket: str, message: msgspec.Struct
) -> None:
    pair = Pair(socket, ready=False)
    pair.asked(message)
    pair.served(ENGINE_READY if socket == "engine" else PLAYER_READY)
    pair.asked(message)
    pair.served(fatal(socket))
    pair.not_asked(message)


@pytest.mark.parametrize(("socket", "message"), SAYS, ids=name_of)
def test_a_client_does_not_say_what_servers_say(socket: str, message: Sent) -> None:
    with pytest.raises(LocalProtocolError):
        session(Role.CLIENT, socket).send(message)


@pytest.mark.parametrize(("socket", "message"), ASKED, ids=name_of)
def test_a_server_does_not_say_what_clients_say(socket: str, message: msgspec.Struct) -> None:
    # Some have a namesake that it does say (`status`, `voices`): the words are not the same.
    pair = Pair(socket)
    with pytest.raises(LocalProtocolError):
        pair.server.send(message)


def test_the_two_sockets_have_different_words() -> None:
    with pytest.raises(LocalProtocolError):
        session(Role.SERVER, "player").send(ENGINE_READY)
    with pytest.raises(LocalProtocolError):
        session(Role.CLIENT, "player").send(SPEAK)
    with pytest.raises(LocalProtocolError):
        session(Role.SERVER, "engine").send(PLAYER_READY)


def test_what_both_servers_say_is_one_message_with_more_or_fewer_fields() -> None:
    pair = Pair("player")
    heard = pair.client.receive(pair.server.send(failed()))
    assert heard == Decoded(player_failed())
    pair.asked(messages.Ping(id="a"))
    heard = pair.client.receive(pair.server.send(messages.Ack(reply_to="a")))
    assert heard == Decoded(messages.PlayerAck(reply_to="a"))
    for message in (player_failed(item=1), messages.PlayerAck(item=1)):
        with pytest.raises(LocalProtocolError):
            Pair("engine").server.send(message)


def test_frames_go_from_server_to_client_only() -> None:
    client, server = session(Role.CLIENT), session(Role.SERVER)
    with pytest.raises(LocalProtocolError):
        client.send(frame(0, 0))
    with pytest.raises(RemoteProtocolError) as caught:
        server.receive(raw(frame(0, 0)))
    assert caught.value.code == "bad_message"
    assert "binary" in caught.value.message


def test_what_is_refused_leaves_no_trace() -> None:
    pair = Pair()
    pair.asked(messages.Ping(id="a"))
    pair.served(opened(), frame(0, 0))
    for message in (ENGINE_READY, messages.Pong(reply_to="b"), frame(2, 4), done(2)):
        pair.not_served(message)
    pair.not_asked(messages.Ping(id="a"))
    pair.served(frame(1, 2), messages.Pong(reply_to="a"), done())


# --- requests -------------------------------------------------------------------------------

ANSWERS = [
    ("engine", messages.Ack(reply_to="a")),
    ("engine", messages.Ack(reply_to="a", stream=1)),
    ("engine", failed(reply_to="a")),
    ("engine", messages.Voices(reply_to="a", voices=())),
    ("engine", msgspec.structs.replace(STATUS, reply_to="a")),
    ("engine", messages.SessionReset(reply_to="a", cancelled=0, result="cancelled")),
    ("engine", messages.Pong(reply_to="a")),
    ("player", messages.PlayerAck(reply_to="a")),
    ("player", messages.PlayerAck(reply_to="a", item=1)),
    ("player", player_failed(reply_to="a")),
    ("player", messages.Pong(reply_to="a")),
    ("player", msgspec.structs.replace(STATE, reply_to="a")),
]


@pytest.mark.parametrize(("socket", "answer"), ANSWERS, ids=name_of)
def test_an_id_is_answered_exactly_once(socket: str, answer: msgspec.Struct) -> None:
    pair = Pair(socket)
    pair.not_served(answer)
    pair.asked(messages.Ping(id="a"))
    pair.served(answer)
    pair.not_served(answer)
    pair.asked(messages.Ping(id="a"))  # and then the name is free again
    pair.served(answer)


def test_an_open_id_is_not_used_again() -> None:
    pair = Pair()
    pair.asked(messages.Ping(id="a"), messages.Ping(id="b"))
    pair.not_asked(messages.Speak(text="x", id="a"))
    with pytest.raises(RemoteProtocolError) as caught:
        pair.server.receive(raw(messages.Ping(id="b")))
    assert caught.value.reply_to is None  # the one answer is owed to the first
    pair.served(messages.Pong(reply_to="b"), messages.Pong(reply_to="a"))


def test_ids_are_answered_in_any_order_and_a_warning_is_no_answer() -> None:
    pair = Pair()
    pair.asked(messages.Ping(id="a"), messages.Ping(id=""), messages.Ping(), messages.Ping())
    warning = messages.Warning(code="c", message="m", reply_to="a")
    pair.served(warning, warning, messages.Pong(reply_to=""), messages.Pong(), messages.Pong())
    pair.served(messages.Pong(reply_to="a"))


def test_an_id_asked_before_ready_is_answered_after_it() -> None:
    pair = Pair(ready=False)
    pair.asked(messages.Ping(id="a"))
    pair.not_served(messages.Pong(reply_to="a"))
    pair.served(ENGINE_READY, messages.Pong(reply_to="a"))


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"speak","id":"a"}',
        '{"type":"speak","id":"a","text":5}',
        '{"type":"cancel","id":"a","stream":"x"}',
        '{"id":"a"}',
        '{"type":7,"id":"a"}',
    ],
)
def test_a_malformed_message_with_an_id_is_answered_once_too(text: str) -> None:
    server = session(Role.SERVER)
    server.send(ENGINE_READY)
    with pytest.raises(RemoteProtocolError) as caught:
        server.receive(text)
    assert caught.value.reply_to == "a"
    server.send(failed(reply_to="a"))
    with pytest.raises(LocalProtocolError):
        server.send(failed(reply_to="a"))


def test_a_malformed_message_cannot_take_the_answer_of_another() -> None:
    pair = Pair()
    pair.asked(messages.Ping(id="a"))
    with pytest.raises(RemoteProtocolError) as caught:
        pair.server.receive('{"type":"speak","id":"a"}')
    assert caught.value.reply_to is None
    pair.served(messages.Pong(reply_to="a"))


def test_an_unknown_type_with_an_id_is_owed_an_answer() -> None:
    server = session(Role.SERVER)
    server.send(ENGINE_READY)
    assert server.receive('{"type":"dance","id":"a"}') == Decoded(Unknown("dance", "a"))
    with pytest.raises(RemoteProtocolError):
        server.receive('{"type":"dance","id":"a"}')
    server.send(failed(reply_to="a"))
    assert server.receive('{"type":"dance"}') == Decoded(Unknown("dance", None))


def test_a_client_takes_unknown_types_from_newer_servers() -> None:
    pair = Pair()
    assert pair.client.receive('{"type":"news","id":"a"}') == Decoded(Unknown("news", "a"))
    assert pair.client.receive('{"type":"news","id":"a"}') == Decoded(Unknown("news", "a"))


# --- streams --------------------------------------------------------------------------------

NEEDS_A_STREAM = [
    frame(0, 0), segment(), marks(), segment_done(), flushed(), progress(), done(), CANCELLED,
]  # fmt: skip


@pytest.mark.parametrize("message", NEEDS_A_STREAM, ids=name_of)
def test_an_absent_stream_has_no_events(message: Sent) -> None:
    pair = Pair()
    pair.not_served(message)
    pair.served(opened(2))
    pair.not_served(message)
    pair.served(opened(1), message)


@pytest.mark.parametrize("message", NEEDS_A_STREAM, ids=name_of)
@pytest.mark.parametrize("ending", [done(), CANCELLED, failed(stream=1)], ids=name_of)
def test_nothing_of_a_stream_follows_its_end(ending: Sent, message: Sent) -> None:
    pair = Pair()
    pair.served(opened(), frame(0, 0), ending)
    pair.not_served(message)


def test_a_live_stream_goes_on_through_segments_frames_and_warnings() -> None:
    pair = Pair()
    pair.served(opened(), segment(), marks(), WARNING, frame(0, 0), segment_done(), frame(1, 2))
    pair.served(done())


def test_warnings_and_errors_may_name_an_absent_stream() -> None:
    pair = Pair()
    pair.served(WARNING, failed(stream=1), failed(stream=9))


def test_a_stream_opened_again_is_counted_afresh() -> None:
    pair = Pair()
    pair.served(opened(), frame(0, 0), frame(1, 2), opened(), frame(0, 0), frame(1, 2), done())
    pair.served(opened(), frame(0, 0), CANCELLED, opened(), frame(5, 10), frame(6, 12))


def test_streams_are_counted_apart() -> None:
    pair = Pair()
    pair.served(opened(1), opened(2), frame(0, 0))
    pair.served(StreamFrame(2, Frame(seq=0, sample=0, pcm=b"\0\0")), frame(1, 2))
    pair.served(done(2), frame(2, 4))


@pytest.mark.parametrize("first", [frame(0, 0), frame(7, 70), frame(7, 70, jump=True)])
def test_a_stream_begins_at_any_frame(first: StreamFrame) -> None:
    Pair().served(opened(), first, frame(first.frame.seq + 1, first.frame.sample + 2))


@pytest.mark.parametrize(
    "broken",
    [
        frame(2, 4),  # one is missing
        frame(2, 2),
        frame(0, 0),  # the same again
        frame(1, 3),  # samples are missing
        frame(1, 1),
        frame(1, 0),
        frame(0, 4, jump=True),  # back in numbers
        frame(2, 0, jump=True),  # back in samples
        frame(0, 0, jump=True),
    ],
    ids=lambda f: f"{f.frame.seq}@{f.frame.sample}{'!' if f.frame.discontinuity else ''}",
)
def test_frames_have_no_holes(broken: StreamFrame) -> None:
    pair = Pair()
    pair.served(opened(), frame(0, 0))
    pair.not_served(broken)
    pair.served(frame(1, 2))


@pytest.mark.parametrize("jump", [frame(1, 2, jump=True), frame(9, 99, jump=True)])
def test_a_discontinuity_goes_forward(jump: StreamFrame) -> None:
    Pair().served(opened(), frame(0, 0), jump, frame(jump.frame.seq + 1, jump.frame.sample + 2))


def test_an_empty_frame_counts_as_one() -> None:
    pair = Pair()
    pair.served(opened(), frame(0, 0, 0), frame(1, 0, 2), frame(2, 2, 0))
    pair.not_served(frame(2, 2))


# --- any order at all, compared with a naive model ------------------------------------------

IDS = st.sampled_from([None, "a", "b"])
STREAMS = st.integers(1, 2)


class Joined(RuleBasedStateMachine):
    """Two sessions with messages in flight between them, and what each end should know.

    Whatever the rules let one end say, the other accepts, however late it arrives; whatever they
    do not is `LocalProtocolError` to the sayer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.client = session(Role.CLIENT)
        self.server = session(Role.SERVER)
        self.to_client: deque[tuple[Sent, str | bytes]] = deque()
        self.to_server: deque[tuple[msgspec.Struct, str | bytes]] = deque()
        self.ready = self.closing = self.closing_heard = False
        self.asked: set[str] = set()  # as the client sees it
        self.owed: set[str] = set()  # as the server sees it
        self.live: dict[int, tuple[int, int] | None] = {}  # next number and sample
        self.answers = dict.fromkeys(("a", "b"), 0)

    def serve(self, message: Sent, *, legal: bool) -> bool:
        if not legal:
            with pytest.raises(LocalProtocolError):
                self.server.send(message)
            return False
        data = self.server.send(message)
        self.to_client.append((message, data))
        return True

    @property
    def open(self) -> bool:
        return self.ready and not self.closing

    @rule()
    def say_ready(self) -> None:
        if self.serve(ENGINE_READY, legal=not self.ready and not self.closing):
            self.ready = True

    @rule(name=IDS)
    def ask(self, name: str | None) -> None:
        message = messages.Ping(id=name)
        if self.closing_heard or name in self.asked:
            with pytest.raises(LocalProtocolError):
                self.client.send(message)
            return
        self.to_server.append((message, self.client.send(message)))
        if name is not None:
            self.asked.add(name)

    @rule(name=IDS, kind=st.sampled_from(["pong", "ack", "error"]), stream=STREAMS)
    def answer(self, name: str | None, kind: str, stream: int) -> None:
        message: Sent = {
            "pong": messages.Pong(reply_to=name),
            "ack": messages.Ack(reply_to=name),
            "error": failed(reply_to=name),
        }[kind]
        if self.serve(message, legal=self.open and (name is None or name in self.owed)) and name:
            self.owed.discard(name)

    @rule(stream=STREAMS)
    def open_stream(self, stream: int) -> None:
        if self.serve(opened(stream), legal=self.open):
            self.live[stream] = None

    @rule(
        stream=STREAMS, skip=st.integers(-1, 2), gap=st.integers(-1, 2), samples=st.integers(0, 2),
        jump=st.booleans(),
    )  # fmt: skip
    def send_frame(self, stream: int, skip: int, gap: int, samples: int, jump: bool) -> None:
        legal = self.open and stream in self.live
        next_seq, next_sample = self.live.get(stream) or (0, 0)
        seq, sample = max(0, next_seq + skip), max(0, next_sample + gap)
        if legal and self.live[stream] is not None:
            on = seq >= next_seq and sample >= next_sample
            legal = on if jump else (seq, sample) == (next_seq, next_sample)
        pcm = b"\0\0" * samples
        message = StreamFrame(stream, Frame(seq=seq, sample=sample, pcm=pcm, discontinuity=jump))
        if self.serve(message, legal=legal):
            self.live[stream] = (seq + 1, sample + samples)

    @rule(stream=STREAMS, make=st.sampled_from([segment, marks, segment_done, flushed, progress]))
    def say_segment(self, stream: int, make: Callable[[int], Sent]) -> None:
        message = make(stream)
        self.serve(message, legal=self.open and stream in self.live)

    @rule(stream=STREAMS, kind=st.sampled_from(["done", "cancelled", "error"]))
    def end_stream(self, stream: int, kind: str) -> None:
        message: Sent = {
            "done": done(stream),
            "cancelled": messages.StreamCancelled(stream=stream),
            "error": failed(stream=stream),
        }[kind]
        legal = self.open and (kind == "error" or stream in self.live)
        if self.serve(message, legal=legal):
            self.live.pop(stream, None)

    @precondition(lambda self: len(self.asked) == 2)  # rarely, for it ends everything
    @rule()
    def say_fatal(self) -> None:
        if self.serve(FATAL, legal=not self.closing):
            self.closing = True

    @rule()
    def server_hears(self) -> None:
        if self.to_server and not self.closing:
            message, data = self.to_server.popleft()
            assert self.server.receive(data) == Decoded(message)
            name = getattr(message, "id", None)
            if name is not None:
                self.owed.add(name)

    @rule()
    def client_hears(self) -> None:
        if self.to_client:
            message, data = self.to_client.popleft()
            heard = self.client.receive(data)
            assert heard == (message if isinstance(message, StreamFrame) else Decoded(message))
            self.asked.discard(getattr(message, "reply_to", None) or "")
            self.closing_heard |= message is FATAL

    @invariant()
    def the_phases_are_what_was_said_and_heard(self) -> None:
        expected = Phase.CLOSING if self.closing else Phase.OPEN if self.ready else Phase.OPENING
        assert self.server.phase is expected
        assert (self.client.phase is Phase.CLOSING) == self.closing_heard

    def teardown(self) -> None:
        while self.to_client:
            self.client_hears()


Joined.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
test_two_sessions_joined_understand_each_other = Joined.TestCase
