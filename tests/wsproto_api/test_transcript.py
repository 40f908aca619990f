"""Transcripts: their lines, what is taken out of them, what is found wrong in them, and their script."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import SetupError
from engine.request import Frame
from tests.wsproto_api.recording import FILE, TEXT
from wsproto_api import frames, messages, review, transcript
from wsproto_api.redaction import redact
from wsproto_api.script import COMPLAINTS, End, Listen, Say, Script
from wsproto_api.transcript import (
    Binary,
    Closed,
    Entry,
    Header,
    Opened,
    Passed,
    Recorder,
    Said,
    Side,
    Sounded,
    Transcript,
)

KEPT = transcript.header("engine", text=True, audio=True)
ENGINE_CLIENT = messages.ENGINE_CLIENT


def file_of(entries: Sequence[Entry], header: Header = KEPT) -> bytes:
    return "".join(map(transcript.line, [header, *entries])).encode()


# --- lines ------------------------------------------------------------------------------------

MS = st.integers(0, 10**9).map(lambda n: n / 1000)
SIDES: st.SearchStrategy[Side] = st.sampled_from(["client", "server"])
PCM = st.binary(max_size=40).map(lambda data: data[: len(data) // 2 * 2])
HASHED = st.fixed_dictionaries({"length": st.integers(0, 50).map(lambda n: 2 * n), "blake2b": st.text("0123456789abcdef", min_size=32, max_size=32)})  # fmt: skip
U32 = st.integers(0, 2**32 - 1)


def passed(connection: int) -> st.SearchStrategy[Passed]:
    here = st.just(connection)
    sound = st.builds(
        Sounded, ms=MS, connection=here, stream=U32, seq=U32, sample=st.integers(0, 2**63 - 1),
        first=st.booleans(), last=st.booleans(), discontinuity=st.booleans(),
        segment_first=st.booleans(), pcm=PCM,
    )  # fmt: skip
    silent = st.builds(
        lambda hashed, ms, seq: Sounded(
            ms=ms, connection=connection, stream=1, seq=seq, sample=0, **hashed
        ),
        HASHED, MS, U32,
    )  # fmt: skip
    return st.one_of(
        st.builds(Said, ms=MS, connection=here, sender=SIDES, text=st.text()),
        sound,
        silent,
        st.builds(Binary, ms=MS, connection=here, sender=SIDES, data=st.binary(max_size=40)),
    )


@st.composite
def sessions(draw: st.DrawFn) -> list[Entry]:
    """Entries that may stand in this order."""
    entries: list[Entry] = []
    is_open: list[int] = []
    count = 0
    for _ in range(draw(st.integers(0, 12))):
        what = draw(st.sampled_from(["open", "pass", "pass", "pass", "close"]))
        if what == "open" or not is_open:
            count += 1
            is_open.append(count)
            entries.append(Opened(after_ms=draw(MS), connection=count))
            continue
        number = draw(st.sampled_from(is_open))
        if what == "close":
            is_open.remove(number)
            code = draw(st.integers(1000, 4999))
            entries.append(
                Closed(ms=draw(MS), connection=number, sender=draw(SIDES), code=code,
                       reason=draw(st.text(max_size=20)))
            )  # fmt: skip
        else:
            entries.append(draw(passed(number)))
    return entries


HEADERS = st.builds(
    transcript.header,
    st.sampled_from(["engine", "player"]),
    text=st.booleans(),
    audio=st.booleans(),
)


@given(sessions(), HEADERS)
def test_what_is_written_is_read(entries: list[Entry], header: Header) -> None:
    found = transcript.read(file_of(entries, header))
    assert found == Transcript(header, tuple(entries), tuple(range(2, len(entries) + 2)))


@given(st.one_of(st.binary(), st.binary().map(lambda rest: transcript.line(KEPT).encode() + rest)))
def test_any_bytes_are_entries_or_a_sentence(data: bytes) -> None:
    try:
        transcript.read(data)
    except SetupError as error:
        assert error.message.endswith(".")
        assert "\n" not in error.message


@given(sessions(), st.data())
def test_any_bytes_in_between_are_too(entries: list[Entry], data: st.DataObject) -> None:
    whole = file_of(entries)
    at = data.draw(st.integers(0, len(whole)))
    spoilt = (
        whole[:at] + data.draw(st.binary(max_size=8)) + whole[at + data.draw(st.integers(0, 9)) :]
    )
    try:
        transcript.read(spoilt)
    except SetupError as error:
        assert error.message.startswith("The transcript")


@given(sessions(), st.data())
def test_a_file_that_was_cut_off_is_read_up_to_there(
    entries: list[Entry], data: st.DataObject
) -> None:
    whole = file_of(entries)
    head = len(transcript.line(KEPT).encode())
    at = data.draw(st.integers(head, len(whole)))
    found = transcript.read(whole[:at])
    complete = whole[:at].count(b"\n") - 1
    # a line without its end may be all there
    assert found.entries in (tuple(entries[:complete]), tuple(entries[: complete + 1]))
    ended = whole[:at].endswith(b"\n")
    assert found.cut_off == (not ended and len(found.entries) == complete)


OPENED = '{"type":"opened","after_ms":0,"connection":1}'
FRAME = '{"type":"frame","ms":0,"connection":1,"stream":1,"seq":0,"sample":0'
CLOSED = '{"type":"closed","ms":0,"connection":1,"sender":"client","code":1000}'


@pytest.mark.parametrize(
    ("lines", "number", "says"),
    [
        (["not JSON"], 3, "not valid JSON"),
        (["\x80"], 3, "not UTF-8"),
        (["[]"], 3, "JSON object"),
        (['{"type":"note"}'], 3, "this type is not understood"),
        (['{"type":"transcript","version":1}'], 3, "this type is not understood"),
        ([OPENED], 3, "Connection 1 was opened before"),
        ([OPENED.replace(":1}", ":0}")], 3, ">= 1"),
        ([CLOSED.replace('n":1', 'n":2')], 3, "Connection 2 is not open"),
        (["", CLOSED, CLOSED], 5, "Connection 1 is not open"),
        ([CLOSED.replace("1000", "999")], 3, "code"),
        ([CLOSED.replace("client", "nobody")], 3, "sender"),
        ([CLOSED.replace('"ms":0', '"ms":-1')], 3, "ms"),
        ([FRAME + "}"], 3, "pcm, or else its length"),
        ([FRAME + ',"pcm":"AAA=","length":2}'], 3, "pcm, or else its length"),
        ([FRAME + ',"pcm":"AA=="}'], 3, "middle of a sample"),
        ([FRAME + ',"length":3}'], 3, "middle of a sample"),
        ([FRAME + ',"length":9007199254740992}'], 3, "length"),
        ([FRAME + ',"pcm":"!"}'], 3, "base64"),
        (['{"type":"binary","ms":0,"connection":1,"sender":"client"}'], 3, "data, or else"),
    ],
)
def test_what_is_no_entry_is_told_by_its_line(lines: list[str], number: int, says: str) -> None:
    data = "\n".join([transcript.line(KEPT).strip(), OPENED, *lines, ""]).encode("latin-1")
    with pytest.raises(SetupError) as caught:
        transcript.read(data, "x.jsonl")
    assert caught.value.message.startswith(f"x.jsonl, line {number}: ")
    assert says in caught.value.message


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b'{"type":"transcr', "line 1: The message is not valid JSON"),
        (OPENED.encode(), "line 1: This is no transcript"),
        (transcript.line(KEPT).replace('"version":1', '"version":2').encode(), "version 2"),
        (transcript.line(KEPT).replace("kokoro.v1", "kokoro.v2").encode(), "kokoro.v1"),
    ],
)
def test_what_is_no_transcript(data: bytes, says: str) -> None:
    with pytest.raises(SetupError, match=says):
        transcript.read(data)


def test_fields_of_a_later_version_are_ignored() -> None:
    later = OPENED.replace("}", ',"colour":"blue"}')
    assert transcript.read(transcript.line(KEPT).encode() + later.encode()).connections == [1]


# --- recording --------------------------------------------------------------------------------


def recorded(data: str | bytes, sender: Side, header: Header = KEPT) -> Entry:
    recorder = Recorder(header)
    number, opened = recorder.opened(0.0)
    line = recorder.passed(number, sender, data, 0.0)
    return transcript.read((recorder.first_line() + opened + line).encode()).entries[-1]


def without(*, text: bool = True, audio: bool = True) -> Header:
    return transcript.header("engine", text=text, audio=audio)


def test_times_count_from_when_a_connection_was_opened() -> None:
    recorder = Recorder(KEPT)
    lines = [recorder.first_line()]
    for now_s in (10.0, 11.5):
        number, line = recorder.opened(now_s)
        lines.append(line)
    lines.append(recorder.passed(1, "client", "a", 12.0001234))
    lines.append(recorder.passed(2, "server", "b", 12.0))
    lines.append(recorder.closed(2, "server", 1001, "gone", 13.0))
    assert (number, recorder.count) == (2, 2)
    assert transcript.read("".join(lines).encode()).entries == (
        Opened(after_ms=0.0, connection=1),
        Opened(after_ms=1500.0, connection=2),
        Said(ms=2000.123, connection=1, sender="client", text="a"),
        Said(ms=500.0, connection=2, sender="server", text="b"),
        Closed(ms=1500.0, connection=2, sender="server", code=1001, reason="gone"),
    )


FRAMES = st.builds(
    Frame, seq=U32, sample=st.integers(0, 2**64 - 1), pcm=PCM, first=st.booleans(),
    last=st.booleans(), discontinuity=st.booleans(), segment_first=st.booleans(),
)  # fmt: skip


@given(U32, FRAMES)
@example(1, Frame(seq=0, sample=2**63, pcm=b""))
def test_a_frame_comes_back_to_the_bit(stream: int, frame: Frame) -> None:
    data = frames.encode(stream, frame)
    entry = recorded(data, "server")
    assert isinstance(entry, Sounded) == (frame.sample < 2**63)
    assert isinstance(entry, Sounded | Binary)
    assert entry.wire() == data


@given(st.binary(max_size=60), SIDES)
@example(frames.encode(1, Frame(seq=0, sample=0, pcm=b"")), "client")
@example(b"\x01\x00\xf0\x00" + bytes(16), "server")  # flags that nobody knows
def test_anything_binary_comes_back(data: bytes, sender: Side) -> None:
    entry = recorded(data, sender)
    assert isinstance(entry, Sounded | Binary)
    assert entry.wire() == data
    assert sender == "server" or isinstance(entry, Binary)


@given(st.text(), SIDES)
def test_any_text_comes_back(text: str, sender: Side) -> None:
    assert recorded(text, sender) in (
        Said(ms=0.0, connection=1, sender=sender, text=text),
        # a token may be hidden in what is no message
        Said(ms=0.0, connection=1, sender=sender, text=redact(text, {}, keep_text=True)),
    )


def test_without_samples_frames_are_silent_and_can_be_compared() -> None:
    loud = [
        frames.encode(1, Frame(seq=0, sample=0, pcm=pcm))
        for pcm in (b"\1\2\3\4", b"\1\2\3\4", b"\1\2\3\5")
    ]
    one, same, other = (recorded(data, "server", without(audio=False)) for data in loud)
    assert isinstance(one, Sounded)
    assert one == same != other
    assert (one.pcm, one.length, one.samples) == (None, 4, 2)
    assert one.wire() == frames.encode(1, Frame(seq=0, sample=0, pcm=bytes(4)))


@pytest.mark.parametrize("header", [without(audio=False), without(text=False)])
def test_what_is_no_frame_may_be_a_text(header: Header) -> None:
    entry = recorded(b"a secret", "client", header)
    assert isinstance(entry, Binary)
    assert (entry.data, entry.length, entry.wire()) == (None, 8, bytes(8))


# --- redaction --------------------------------------------------------------------------------


def redacted(message: dict[str, Any], *, keep_text: bool = False, **dumping: Any) -> dict[str, Any]:
    client = redact(json.dumps(message, **dumping), ENGINE_CLIENT, keep_text=keep_text)
    found: dict[str, Any] = json.loads(client)
    return found


def test_letters_and_digits_go_and_everything_else_stays() -> None:
    message = {
        "type": "speak",
        "id": "a",
        "text": 'It\'s 3.14 — “Ça va?”\n\t早安 🎧 \\ "ǅ" ²',
        "speed": 1.5,
    }
    masked = 'Xx\'x 0.00 — “Xx xx?”\n\txx 🎧 \\ "X" 0'
    for ascii_only in (True, False):
        assert redacted(message, ensure_ascii=ascii_only) == {**message, "text": masked}


def test_everything_but_strings_stays_to_the_letter() -> None:
    text = '{ "type":"speak",\n"text" : "Hé\\u00e9\\ud83c\\udfa7\\n" , "speed":1.50, "marks":true}'
    expected = '{ "type":"speak",\n"text" : "Xxx\\ud83c\\udfa7\\n" , "speed":1.50, "marks":true}'
    assert redact(text, ENGINE_CLIENT, keep_text=False) == expected
    assert redact(text, ENGINE_CLIENT, keep_text=True) == text


def test_all_fields_with_text() -> None:
    message = {
        "type": "speak", "voice": "af_heart", "key": "mine", "text": "Hi", "phonemes": True,
        "options": {
            "urls": "skip",
            "lexicon": [{"word": "Pio", "phonemes": "pˈi", "say": "pie", "case": "exact"}],
        },
        "invented": {"a": ["Words", 1]},
    }  # fmt: skip
    assert redacted(message) == {
        **message,
        "text": "Xx",
        "options": {
            "urls": "skip",
            "lexicon": [{"word": "Xxx", "phonemes": "xxx", "say": "xxx", "case": "exact"}],
        },
        "invented": {"a": ["Xxxxx", 1]},
    }
    assert redacted(message, keep_text=True) == message


def test_what_a_server_says_of_a_text() -> None:
    for message, fields in (
        ({"type": "segment", "stream": 1, "text": "Hi.", "phonemes": "hˈI"}, {"text": "Xx.", "phonemes": "xxX"}),
        ({"type": "stream.cancelled", "stream": 1, "text_spoken": "A", "text_remaining": " b"},
         {"text_spoken": "X", "text_remaining": " x"}),
        ({"type": "invented", "id": "kept", "words": "Hi"}, {"words": "Xx"}),
        ({"type": "error", "code": "internal", "message": "Kept.", "fatal": False}, {}),
    ):  # fmt: skip
        found = redact(json.dumps(message), messages.ENGINE_SERVER, keep_text=False)
        assert json.loads(found) == {**message, **fields}


@pytest.mark.parametrize("keep_text", [True, False])
@pytest.mark.parametrize(
    "message",
    [
        '{"type":"auth","id":"a","token":"s3cret"}',
        '{"type":"auth","to\\u006ben":"s3cret"}',
        '{"type":"from the future","token":["s3cret"]}',
        '{"type":"auth","token":"s3cret',
        '{"TOKEN":"s3cret"}',
        '["token","s3cret"]',
    ],
)
def test_a_token_never_stands_in_a_transcript(message: str, keep_text: bool) -> None:
    found = redact(message, ENGINE_CLIENT, keep_text=keep_text)
    assert "s3cret" not in found
    assert "cret" not in found
    entry = recorded(message, "client", without(text=keep_text))
    assert isinstance(entry, Said)
    assert entry.text == found


NAMES = st.sampled_from(["type", "text", "options", "lexicon", "word", "voice", "x", 'q"\\'])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@given(st.text(), st.dictionaries(NAMES, JSON, max_size=4), st.booleans())
def test_redacted_messages_have_the_same_form(
    text: str, fields: dict[str, Any], ascii_only: bool
) -> None:
    message = {**fields, "type": "speak", "text": text}
    found = redacted(message, ensure_ascii=ascii_only)
    assert len(found["text"]) == len(text)
    assert not any(c.isalpha() and c not in "xX" for c in found["text"])
    assert not any(c.isdigit() and c != "0" for c in found["text"])

    def form(value: Any) -> Any:
        match value:
            case str():
                return len(value)
            case list():
                return [form(item) for item in value]
            case dict():
                return {name: form(item) for name, item in value.items()}
            case _:
                return value

    assert form(found) == form(message)
    assert redacted(message, keep_text=True, ensure_ascii=ascii_only) == message


@given(st.text())
def test_anything_at_all_is_redacted_to_the_same_length(text: str) -> None:
    assert len(redact(text, ENGINE_CLIENT, keep_text=False)) == len(text) or '"token"' in text


# --- for people -------------------------------------------------------------------------------


def session_file() -> Transcript:
    return transcript.read(FILE.read_bytes(), FILE.name)


def test_the_recorded_session_keeps_to_the_protocol() -> None:
    assert review.faults(session_file()) == []


def test_a_transcript_is_shown_line_by_line() -> None:
    lines = list(review.shown(session_file()))
    assert lines[0] == "kokoro.v1, engine, 2 connections; with text, with samples"
    assert any("#1 → speak" in line and repr(TEXT) in line for line in lines)
    (run,) = (line for line in lines if "#2 ← 3 frames 0-2 of stream 1" in line)
    assert "from sample 0, 3300 samples, first, segment_first" in run
    assert any("#1 → 'dance', which is not known, id='g' 28 characters" in line for line in lines)
    assert lines[-1].endswith("#1 → closed 1000")


def test_every_frame_is_shown_once() -> None:
    found = session_file()
    shown = "\n".join(review.shown(found))
    samples = sum(e.samples for e in found.entries if isinstance(e, Sounded))
    told = [
        int(part.split()[-1]) for part in shown.split(" samples")[:-1] if part.split()[-1].isdigit()
    ]
    assert sum(told) == samples > 0


def test_no_text_is_shown_that_was_not_kept() -> None:
    found = session_file()
    header = without(text=False)
    entries = tuple(transcript.reduced(entry, header) for entry in found.entries)
    shown = "\n".join(review.shown(Transcript(header, entries, found.lines)))
    assert f"text={len(TEXT)} characters" in shown
    for word in ("One", "two", "Three", "Four", "five", "xxx"):
        assert word not in shown


def test_a_cut_is_shown() -> None:
    data = FILE.read_bytes()
    assert list(review.shown(transcript.read(data[:-20])))[-1].startswith(
        "The file ends in the mid"
    )


READY = next(e.text for e in session_file().entries if isinstance(e, Said))


def sounded(seq: int, sample: int, samples: int = 2, stream: int = 1) -> Sounded:
    return Sounded(
        ms=0.0, connection=1, stream=stream, seq=seq, sample=sample, pcm=b"\0\0" * samples
    )


def says(**fields: Any) -> Said:
    return Said(ms=0.0, connection=1, sender="server", text=json.dumps(fields))


def asks(**fields: Any) -> Said:
    return Said(ms=0.0, connection=1, sender="client", text=json.dumps(fields))


GREETING = Said(ms=0.0, connection=1, sender="server", text=READY)
STREAM = says(type="stream.opened", stream=1, voice="v", lang="l", speed=1.0, owner=True)
CANCELLED = says(type="stream.cancelled", stream=1)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([GREETING, STREAM, sounded(0, 0), sounded(1, 2), CANCELLED], []),
        ([STREAM], [(3, "server", "only the first, is ready")]),
        (
            [GREETING, STREAM, sounded(0, 0), sounded(2, 4), sounded(3, 6), CANCELLED],
            [(6, "server", "has number 2, but 1 is next")],
        ),
        (
            [GREETING, STREAM, sounded(0, 0), sounded(1, 3), sounded(2, 5)],
            [(6, "server", "starts at sample 3, but 2 is next")],
        ),
        (
            [GREETING, STREAM, sounded(0, 0), sounded(0, 0), sounded(1, 2)],
            [(6, "server", "has number 0, but 1 is next")],
        ),
        (
            [GREETING, STREAM, CANCELLED, sounded(0, 0), sounded(1, 2), sounded(2, 4)],
            [(6, "server", "Stream 1 is not open on this connection. (3 times)")],
        ),
        ([GREETING, CANCELLED], [(4, "server", "not open")]),
        ([GREETING, says(type="ack", reply_to="a")], [(4, "server", "an id that is not open")]),
        ([GREETING, asks(type="ping", id="a")], [(4, "server", "The ping with id 'a' has no answer")]),
        ([GREETING, asks(type="ping", id="a"), says(type="pong", reply_to="a")], []),
        ([asks(type="ping", id="a"), GREETING, says(type="pong", reply_to="a")], []),
        (
            [GREETING, asks(type="ping", id="a"), asks(type="status", id="a"),
             says(type="pong", reply_to="a")],
            [(5, "client", "still being answered")],
        ),
        (
            [GREETING, asks(type="dance", id="a"), says(type="error", reply_to="a", code="c",
             message="m", retryable=False, fatal=False)],
            [],
        ),
        ([GREETING, asks(type="speak", text=1)], [(4, "client", "text")]),
        (
            [GREETING, says(type="error", code="c", message="m", retryable=False, fatal=True),
             says(type="pong"), asks(type="ping", id="a")],
            [(5, "server", "Nothing follows"), (6, "client", "Nothing follows"),
             (6, "server", "no answer")],
        ),
        ([GREETING, Binary(ms=0.0, connection=1, sender="client", data=b"")], [(4, "client", "text messages")]),
        ([GREETING, Binary(ms=0.0, connection=1, sender="server", data=b"")], [(4, "server", "header")]),
        ([GREETING, Said(ms=0.0, connection=1, sender="client", text="[")], [(4, "client", "JSON")]),
        ([GREETING, says(type="invented")], []),
    ],
)  # fmt: skip
def test_breaks_of_the_protocol_are_found(
    entries: list[Passed], expected: list[tuple[int, Side, str]]
) -> None:
    found = review.faults(transcript.read(file_of([Opened(after_ms=0.0, connection=1), *entries])))
    assert [(fault.line, fault.sender) for fault in found] == [e[:2] for e in expected]
    for fault, (_, _, what) in zip(found, expected, strict=True):
        assert what in str(fault)


@given(sessions())
def test_any_transcript_is_shown_and_judged(entries: list[Entry]) -> None:
    found = transcript.read(file_of(entries))
    assert all("\n" not in line for line in review.shown(found))
    review.faults(found)


# --- the script -------------------------------------------------------------------------------


def at(ms: float, entry: Passed) -> Passed:
    return msgspec.structs.replace(entry, ms=ms)


def script(*entries: Passed, shown: bool = True) -> Script:
    return Script(entries, "engine", 100.0, shown=shown)


def ask(type_: str, **fields: Any) -> str:
    return json.dumps({"type": type_, **fields})


def told(script: Script, now_s: float = 0.0) -> dict[str, Any]:
    step = script.step(now_s)
    assert isinstance(step, Say)
    found: dict[str, Any] = json.loads(step.data)
    return found


PONG_A, PING_A = says(type="pong", reply_to="a"), asks(type="ping", id="a")


def test_each_thing_is_said_as_long_after_the_client_as_it_was() -> None:
    one = script(
        at(5, GREETING), at(1000, PING_A), at(1250, PONG_A), at(1300, STREAM),
        at(2000, asks(type="cancel", stream=1)), at(2500, CANCELLED),
        at(3000, Closed(ms=0.0, connection=1, sender="server", code=4401, reason="r")),
    )  # fmt: skip
    assert at_s(one.step(100.0)) == pytest.approx(100.005)
    assert one.step(100.1) == Listen()
    assert one.step(900.0) == Listen()
    one.hear(ask("ping", id="a"), 1000.0)
    one.hear(ask("cancel", stream=1), 1000.1)  # before its turn
    times = [at_s(one.step(1001.0)) for _ in range(4)]
    assert times == pytest.approx([1000.25, 1000.3, 1000.6, 1001.1])
    end = one.step(1001.0)
    assert isinstance(end, End)
    assert (end.code, end.reason) == (4401, "r")


def at_s(step: Say | End | Listen) -> float:
    assert not isinstance(step, Listen)
    return step.at_s


def test_an_answer_goes_to_the_id_that_is_used_now() -> None:
    second = says(type="ack", reply_to="b", stream=7)
    one = script(GREETING, PING_A, asks(type="end", id="b", stream=7), second, PONG_A)
    one.step(0.0)
    one.hear(ask("ping", id="b"), 0.0)  # the same two ids the other way round
    one.hear(ask("end", id="a", stream=9), 0.0)
    assert told(one) == {"type": "ack", "reply_to": "a", "stream": 7}
    assert told(one) == {"type": "pong", "reply_to": "b"}
    assert one.step(0.0) == Listen()


def test_how_far_a_listener_is_comes_when_it_likes() -> None:
    report = asks(type="heard", stream=1, sample=7, playing=True)
    one = script(GREETING, report, PING_A, report, PONG_A, report)
    one.step(0.0)
    assert one.step(0.0) == Listen()
    for sample in range(5):
        one.hear(ask("heard", stream=1, sample=sample, playing=True), 0.0)
    assert one.step(0.0) == Listen()
    one.hear(ask("ping", id="a"), 0.0)
    assert told(one)["type"] == "pong"
    one.hear(ask("heard", id="x", stream=1, sample=0, playing=True), 0.0)  # it wants an answer
    assert "no more messages" in told(one)["message"]


def test_who_gives_no_id_gets_none_back() -> None:
    one = script(GREETING, PING_A, PONG_A)
    one.step(0.0)
    one.hear(ask("ping"), 0.0)
    assert told(one) == {"type": "pong"}


def test_what_need_not_be_changed_is_said_to_the_letter() -> None:
    odd = msgspec.structs.replace(PONG_A, text='{"type": "pong" ,"reply_to":"a","new":1.50}')
    one = script(GREETING, PING_A, odd)
    one.step(0.0)
    one.hear(ask("ping", id="a"), 0.0)
    assert one.step(0.0) == Say(odd.text, 0.0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (ask("speak", id="x", text="Hi"), "has a message 'ping' here, not a message 'speak'"),
        ('{"id":"x"}', "has a message 'ping' here, not a message that is none"),
        (b"\0", "has a message 'ping' here, not a binary message"),
    ],
)
def test_another_message_than_the_recorded_one_is_refused(data: str | bytes, says: str) -> None:
    one = script(GREETING, PING_A, PONG_A)
    one.hear(data, 0.0)
    assert told(one)["type"] == "ready"  # comes first in any case
    error = told(one)
    assert (error["type"], error["code"], error["fatal"]) == ("error", "bad_message", False)
    assert says in error["message"]
    assert error.get("reply_to") == (None if isinstance(data, bytes) else "x")
    assert one.step(0.0) == Listen()
    one.hear(ask("ping", id="y"), 0.0)  # and now the right one
    assert told(one) == {"type": "pong", "reply_to": "y"}
    one.hear(ask("ping", id="z"), 0.0)
    assert "no more messages" in told(one)["message"]


def test_an_answer_that_was_not_recorded_is_not_waited_for() -> None:
    one = script(GREETING, asks(type="ping"), says(type="pong"))
    one.step(0.0)
    one.hear(ask("ping", id="a"), 0.0)
    error = told(one)
    assert (error["type"], error["reply_to"]) == ("error", "a")
    assert "had no id" in error["message"]


def test_broken_messages_stand_for_broken_ones() -> None:
    broken = Said(ms=0.0, connection=1, sender="client", text="{")
    binary = Binary(ms=0.0, connection=1, sender="client", data=b"a")
    one = script(GREETING, broken, binary, PONG_A)
    one.step(0.0)
    one.hear("no JSON either", 0.0)
    one.hear(b"b", 0.0)
    assert told(one)["type"] == "pong"


def test_complaints_are_bounded() -> None:
    one = script(GREETING)
    assert told(one)["type"] == "ready"
    while not one.full:
        one.hear(ask("ping", id="a"), 0.0)
    for _ in range(COMPLAINTS):
        assert told(one)["type"] == "error"
    assert not one.full
    assert one.step(0.0) == Listen()


def test_who_showed_the_token_before_need_not_say_auth() -> None:
    auth = asks(type="auth", id="t", token="redacted")
    entries = [auth, GREETING, says(type="ack", reply_to="t"), PING_A, PONG_A]
    with_auth = script(*entries, shown=False)
    assert with_auth.wants_auth
    assert with_auth.step(0.0) == Listen()
    with_auth.hear(ask("auth", id="mine", token="real"), 0.0)
    assert told(with_auth)["type"] == "ready"
    assert told(with_auth) == {"type": "ack", "reply_to": "mine"}
    without_auth = script(*entries)
    assert told(without_auth)["type"] == "ready"
    assert without_auth.step(0.0) == Listen()
    without_auth.hear(ask("ping", id="a"), 0.0)
    assert told(without_auth)["type"] == "pong"


def test_the_end_by_the_client_is_waited_for() -> None:
    one = script(GREETING, Closed(ms=5.0, connection=1, sender="client", code=1000))
    assert told(one)["type"] == "ready"
    assert one.step(0.0) == Listen()
    assert script().step(0.0) == Listen()
