"""Control messages as JSON: frozen vectors, round trips, and every way to be wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.request import (
    Done,
    Frame,
    Marks,
    Notice,
    Opened,
    SegmentDone,
    SegmentStart,
    WordMark,
)
from wsproto_api import messages
from wsproto_api.errors import RemoteProtocolError
from wsproto_api.messages import Decoded, StreamFrame, Unknown, Vocabulary

VOCABULARIES: dict[str, Vocabulary] = {
    "ENGINE_CLIENT": messages.ENGINE_CLIENT,
    "ENGINE_SERVER": messages.ENGINE_SERVER,
    "PLAYER_CLIENT": messages.PLAYER_CLIENT,
    "PLAYER_SERVER": messages.PLAYER_SERVER,
}
WORDS = [
    (name, struct) for name, vocabulary in VOCABULARIES.items() for struct in vocabulary.values()
]
each_vocabulary = pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES)
each_word = pytest.mark.parametrize(
    ("name", "struct"), WORDS, ids=[f"{n}.{s.__name__}" for n, s in WORDS]
)

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "data" / "messages.json").read_text()
)


def on_the_wire(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def vector(name: str, struct: type[msgspec.Struct], form: str) -> dict[str, Any]:
    """The JSON of a frozen vector; a message that has one form only has the short one."""
    found = {
        entry["form"]: entry["json"]
        for entry in VECTORS
        if (entry["vocabulary"], entry["struct"]) == (name, struct.__name__)
    }
    return dict(found.get(form) or found["short"])


def refusal(text: str, vocabulary: Vocabulary = messages.ENGINE_CLIENT) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        messages.decode(text, vocabulary)
    error = caught.value
    assert error.code in {"bad_json", "bad_message"}
    assert error.message.endswith(".")
    return error


# --- frozen ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "entry", VECTORS, ids=lambda e: f"{e['vocabulary']}.{e['struct']}.{e['form']}"
)
def test_frozen_vector_both_ways(entry: dict[str, Any]) -> None:
    text = on_the_wire(entry["json"])
    decoded = messages.decode(text, VOCABULARIES[entry["vocabulary"]])
    assert type(decoded.message).__name__ == entry["struct"]
    assert decoded.unknown_fields == ()
    assert isinstance(decoded.message, msgspec.Struct)
    for name, value in entry["json"].items():
        if name != "type":
            assert json.loads(msgspec.json.encode(getattr(decoded.message, name))) == value
    assert messages.encode(decoded.message) == text


@each_word
def test_every_message_has_vectors_with_the_fewest_and_with_all_fields(
    name: str, struct: type[msgspec.Struct]
) -> None:
    fields = msgspec.structs.fields(struct)
    assert vector(name, struct, "short").keys() == {"type"} | {f.name for f in fields if f.required}
    assert vector(name, struct, "full").keys() == {"type"} | {f.name for f in fields}


def test_no_vector_is_of_a_message_that_is_no_more() -> None:
    known = {(name, struct.__name__) for name, struct in WORDS}
    assert {(entry["vocabulary"], entry["struct"]) for entry in VECTORS} == known


@each_vocabulary
def test_a_vocabulary_is_keyed_by_the_type_on_the_wire(vocabulary: Vocabulary) -> None:
    for tag, struct in vocabulary.items():
        assert struct.__struct_config__.tag == tag
        assert struct.__struct_config__.tag_field == "type"


# --- the round trip -------------------------------------------------------------------------

#: what the wire can carry: any characters but lone surrogates, numbers of a stream
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MOST = 2**32 - 1


def built(struct: type[msgspec.Struct]) -> st.SearchStrategy[msgspec.Struct]:
    """Messages of one kind, by the types of its fields."""
    return st.builds(
        struct, **{f.name: value_of(msgspec.inspect.type_info(f.type)) for f in fields_of(struct)}
    )


def fields_of(struct: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(struct)


def value_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    match kind:
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType(ge=least, le=most):
            return st.integers(least or 0, MOST if most is None else min(most, MOST))
        case msgspec.inspect.FloatType(ge=least, le=most):
            return st.floats(least, most, allow_nan=False, allow_infinity=False)
        case msgspec.inspect.StrType():
            return texts
        case msgspec.inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case msgspec.inspect.UnionType(types=types):
            return st.one_of([value_of(one) for one in types])
        case msgspec.inspect.VarTupleType(item_type=item):
            return st.lists(value_of(item), max_size=3).map(tuple)
        case msgspec.inspect.StructType(cls=cls):
            return built(cls)
        case _:
            raise AssertionError(kind)


@given(pair=st.sampled_from(WORDS).flatmap(lambda word: st.tuples(st.just(word), built(word[1]))))
def test_what_is_encoded_is_decoded(pair: tuple[tuple[str, Any], msgspec.Struct]) -> None:
    (name, _), message = pair
    text = messages.encode(message)
    assert messages.decode(text, VOCABULARIES[name]) == Decoded(message)
    assert json.loads(text)["type"] == message.__struct_config__.tag


def test_events_of_the_port_become_messages_and_keep_their_fields() -> None:
    opened = Opened(voice="v", lang="l", speed=2.0, key="k")
    assert messages.stream_opened(opened, 9, owner=True) == messages.StreamOpened(
        voice="v", lang="l", speed=2.0, key="k", stream=9, owner=True
    )
    start = SegmentStart(index=1, text="t", char_start=2, char_end=3, sample=4, phonemes="p")
    assert messages.of_stream(start, 9) == messages.Segment(
        index=1, text="t", char_start=2, char_end=3, sample=4, phonemes="p", stream=9
    )
    word = WordMark(char_start=1, char_end=2, sample=3, samples=4)
    marks = Marks(index=1, words=(word, word), phonemes=(5, 6))
    assert messages.of_stream(marks, 9) == messages.SegmentMarks(
        index=1, words=(word, word), phonemes=(5, 6), stream=9
    )
    done = SegmentDone(index=1, samples=2, compute_ms=3.0)
    assert messages.of_stream(done, 9) == messages.SegmentFinished(
        index=1, samples=2, compute_ms=3.0, stream=9
    )
    notice = Notice(code="c", message="m")
    assert messages.of_stream(notice, 9) == messages.Warning(code="c", message="m", stream=9)
    over = Done(samples=1, audio_ms=2.0, chars=3, segments=4, ttfa_ms=5.0, cached=True)
    assert messages.of_stream(over, 9) == messages.StreamDone(
        samples=1, audio_ms=2.0, chars=3, segments=4, ttfa_ms=5.0, cached=True, stream=9
    )
    frame = Frame(seq=0, sample=0, pcm=b"")
    assert messages.of_stream(frame, 9) == StreamFrame(9, frame)


def test_messages_from_one_wire_can_go_out_on_another() -> None:
    # What a `WebSocketSpeak` yields is a message already: with a number that is not ours.
    theirs = messages.StreamOpened(voice="v", lang="l", speed=1.0, stream=1, owner=True)
    assert messages.stream_opened(theirs, 2, owner=False).stream == 2
    done = messages.StreamDone(samples=1, audio_ms=2.0, chars=3, segments=4, stream=1)
    assert messages.of_stream(done, 2) == messages.StreamDone(
        samples=1, audio_ms=2.0, chars=3, segments=4, stream=2
    )
    ending = messages.StreamCancelled(stream=2)
    assert messages.of_stream(ending, 2) is ending


# --- text that is not a message -------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "nul",
        "{",
        '{"type":"ping"',
        '{"type":"ping"}}',
        '{"type":"ping"} {"type":"ping"}',
        "{'type':'ping'}",
        '{"type":"ping",}',
        '\ufeff{"type":"ping"}',
        '{"type":"speak","text":"\ud800"}',  # a lone surrogate, raw
        '{"type":"speak","text":"\\ud800"}',  # and escaped
        '{"type":"speak","text":"\\udfff"}',
        '{"type":"speak","text":"a\nb"}',
        '{"type":"speak","text":"a","speed":NaN}',
        '{"type":"speak","text":"a","speed":Infinity}',
        '{"type":"speak","text":"a","speed":-Infinity}',
        '{"type":"speak","text":"a","speed":1e999}',
        '{"type":"cancel","stream":1' + "0" * 5000 + "}",
        "[" * 10_000 + "]" * 10_000,
        "[" * 10_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        '{"type":"speak","text":"a","x":' + "[" * 10_000 + "]" * 10_000 + "}",
    ],
    ids=lambda text: text[:24] + f"…{len(text)}",
)
def test_what_is_not_json_is_bad_json(text: str) -> None:
    assert refusal(text).code == "bad_json"


@pytest.mark.parametrize("text", ["[]", "1", "null", "true", '"speak"', '[{"type":"ping"}]', "1.5"])
def test_what_is_not_an_object_is_a_bad_message(text: str) -> None:
    assert refusal(text).code == "bad_message"


@pytest.mark.parametrize("text", ["{}", '{"type":null}', '{"type":1}', '{"type":["ping"]}'])
def test_a_type_is_a_string(text: str) -> None:
    error = refusal(text)
    assert (error.code, error.param, error.reply_to) == ("bad_message", "type", None)
    with_id = refusal(text[:-1] + ("," if len(text) > 2 else "") + '"id":"x"}')
    assert with_id.reply_to == "x"


def test_of_two_fields_with_one_name_the_last_counts() -> None:
    decoded = messages.decode('{"type":"cancel","stream":1,"stream":2}', messages.ENGINE_CLIENT)
    assert decoded.message == messages.Cancel(stream=2)
    decoded = messages.decode('{"type":"cancel","type":"ping"}', messages.ENGINE_CLIENT)
    assert decoded.message == messages.Ping()


def test_an_unknown_type_is_not_an_error() -> None:
    decoded = messages.decode('{"type":"dance","id":"x","y":1}', messages.ENGINE_CLIENT)
    assert decoded.message == Unknown("dance", "x")
    decoded = messages.decode('{"type":"dance","id":5}', messages.ENGINE_CLIENT)
    assert decoded.message == Unknown("dance", None)
    # what the other end says is not in the vocabulary of this one
    decoded = messages.decode('{"type":"ack"}', messages.ENGINE_CLIENT)
    assert decoded.message == Unknown("ack", None)
    long = messages.decode('{"type":"' + "x" * 1000 + '"}', messages.ENGINE_CLIENT).message
    assert isinstance(long, Unknown)
    assert len(long.type) <= 64


def test_unknown_fields_are_told_by_name() -> None:
    decoded = messages.decode('{"type":"ping","b":1,"a":{"c":2},"id":"x"}', messages.ENGINE_CLIENT)
    assert decoded == Decoded(messages.Ping(id="x"), ("a", "b"))


def test_thousands_of_unknown_fields_do_not_make_a_long_answer() -> None:
    text = on_the_wire({"type": "ping", **{f"field{n}": 0 for n in range(4000)}})
    decoded = messages.decode(text, messages.ENGINE_CLIENT)
    assert decoded.message == messages.Ping()
    assert 1 <= len(decoded.unknown_fields) <= 10
    long = messages.decode('{"type":"ping","' + "x" * 5000 + '":1}', messages.ENGINE_CLIENT)
    assert all(len(name) <= 64 for name in long.unknown_fields)


# --- wrong fields ---------------------------------------------------------------------------

#: a value of every JSON type, and numbers that fit nowhere
WRONG: list[Any] = [
    None, True, -1, 2**32, 2**64, 10**400, 1.5, -1e300, "", "SECRET", [], ["SECRET"],
    {}, {"SECRET": "SECRET"}, [[[]]],
]  # fmt: skip


@each_word
def test_any_value_in_any_field_is_taken_or_blamed_on_the_field(
    name: str, struct: type[msgspec.Struct]
) -> None:
    refused = 0
    for field in fields_of(struct):
        for value in WRONG:
            raw = {**vector(name, struct, "full"), field.name: value}
            try:
                decoded = messages.decode(on_the_wire(raw), VOCABULARIES[name])
            except RemoteProtocolError as error:
                refused += 1
                assert error.code == "bad_message"
                assert error.param is not None
                assert error.param.split(".")[0].split("[")[0] == field.name
                assert field.name in error.message
                assert error.message.startswith(f"{raw['type']}: ")
                assert error.reply_to == (raw.get("id") if field.name != "id" else error.reply_to)
            else:
                assert type(decoded.message) is struct
                messages.encode(decoded.message)  # and what was taken can be sent
    assert refused or not fields_of(struct)


@each_word
def test_every_required_field_is_required(name: str, struct: type[msgspec.Struct]) -> None:
    for field in fields_of(struct):
        raw = vector(name, struct, "full")
        del raw[field.name]
        text = on_the_wire(raw)
        if field.required:
            error = refusal(text, VOCABULARIES[name])
            assert (error.code, error.param) == ("bad_message", field.name)
        else:
            messages.decode(text, VOCABULARIES[name])


@pytest.mark.parametrize("value", [-1, 2**32, 2**63, 2**64, 10**100])
@pytest.mark.parametrize("kind", ["cancel", "subscribe", "unsubscribe"])
def test_a_stream_is_a_number_that_a_frame_can_carry(kind: str, value: int) -> None:
    error = refusal(on_the_wire({"type": kind, "stream": value, "id": "x"}))
    assert (error.code, error.param, error.reply_to) == ("bad_message", "stream", "x")


@pytest.mark.parametrize("value", [-1, 2**32, 10**100])
def test_from_seq_is_a_number_that_a_frame_can_carry(value: int) -> None:
    error = refusal(on_the_wire({"type": "subscribe", "stream": 1, "from_seq": value}))
    assert (error.code, error.param) == ("bad_message", "from_seq")


def test_a_value_cannot_shift_the_blame_to_another_field() -> None:
    error = refusal(on_the_wire({"type": "subscribe", "stream": "x - at `$.y`"}))
    assert error.param == "stream"


def test_a_message_quotes_little_of_what_was_wrong() -> None:
    error = refusal(on_the_wire({"type": "subscribe", "stream": "x" * 60_000}))
    assert len(error.message) < 300
    error = refusal(
        on_the_wire({"type": "speak", "text": "a", "mode": "x" * 60_000}), messages.PLAYER_CLIENT
    )
    assert len(error.message) < 300


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ["SECRET"]},
        {"text": {"SECRET": 1}},
        {"text": {"a": "SECRET"}},
        {"text": "SECRET", "voice": 1},
        {"text": "SECRET", "speed": "fast"},
        {"text": "SECRET", "id": 1},
        {"text": "SECRET", "key": []},
        {"text": "SECRET", "mode": 5},
        {"text": "SECRET", "priority": 5},
        {"text": "SECRET", "marks": "yes"},
        {"text": "SECRET", "type": 5},
        {"text": "SECRET", "type": "dance"},
    ],
)
@pytest.mark.parametrize("vocabulary", [messages.ENGINE_CLIENT, messages.PLAYER_CLIENT])
def test_sentences_never_hold_the_text(vocabulary: Vocabulary, wrong: dict[str, Any]) -> None:
    text = on_the_wire({"type": "speak", **wrong})
    try:
        decoded = messages.decode(text, vocabulary)
    except RemoteProtocolError as error:
        assert "SECRET" not in error.message + str(error) + str(error.param)
        assert error.__context__ is None or error.__suppress_context__  # for tracebacks show it
    else:
        assert "SECRET" not in repr(decoded.unknown_fields)


# --- anything at all ------------------------------------------------------------------------


def taken_or_refused(text: str, vocabulary: Vocabulary) -> None:
    try:
        decoded = messages.decode(text, vocabulary)
    except RemoteProtocolError as error:
        assert error.code in {"bad_json", "bad_message"}
        assert error.message
    else:
        assert isinstance(decoded, Decoded)
        if isinstance(decoded.message, msgspec.Struct):
            messages.encode(decoded.message)


@given(text=st.text(st.characters(), max_size=60), name=st.sampled_from(sorted(VOCABULARIES)))
@example(text='{"type":"speak","text":"\\ud83d"}', name="ENGINE_CLIENT")
def test_any_text_is_a_message_or_refused(text: str, name: str) -> None:
    taken_or_refused(text, VOCABULARIES[name])


#: names and values that get past the first checks
names = st.sampled_from(
    ["type", "id", "stream", "text", "speed", "from_seq", "reply_to", "model", "voices", "limits"]
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(sorted({tag for v in VOCABULARIES.values() for tag in v} | {"*"})),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(names | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)


@given(value=json_values, name=st.sampled_from(sorted(VOCABULARIES)))
def test_any_json_is_a_message_or_refused(value: Any, name: str) -> None:
    taken_or_refused(json.dumps(value), VOCABULARIES[name])


@given(
    word=st.sampled_from(WORDS), changes=st.dictionaries(names, json_values, max_size=3),
    cut=st.integers(0, 3),
)  # fmt: skip
def test_any_change_of_a_message_is_a_message_or_refused(
    word: tuple[str, type[msgspec.Struct]], changes: dict[str, Any], cut: int
) -> None:
    name, struct = word
    text = on_the_wire({**vector(name, struct, "full"), **changes})
    taken_or_refused(text[: len(text) - cut], VOCABULARIES[name])
