"""Any body is a request or an error that names the field."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidRequest, TextTooLong
from engine.request import SpeechRequest, TextOptions
from http_compat.schema import Body, Format, Order, Way, ignored_header, parse

LIMIT = 4096


def order(**fields: Any) -> Order:
    return parse(json.dumps(fields).encode(), text_chars=LIMIT)


def test_the_least_request() -> None:
    assert order(input="Hello.") == Order(SpeechRequest(text="Hello."), Format.MP3)


@pytest.mark.parametrize(
    ("fields", "voice", "speed", "container"),
    [
        ({"voice": "af_heart", "response_format": "wav"}, "af_heart", None, Format.WAV),
        ({"voice": {"id": "bm_fable"}, "speed": 2}, "bm_fable", 2.0, Format.MP3),
        ({"voice": "", "response_format": "pcm", "speed": 0.25}, None, 0.25, Format.PCM),
        ({"voice": None, "response_format": None, "speed": None}, None, None, Format.MP3),
        ({"model": "kokoro", "stream_format": "audio", "speed": 4.0}, None, 4.0, Format.MP3),
    ],
)
def test_what_is_understood(
    fields: dict[str, Any], voice: str | None, speed: float | None, container: Format
) -> None:
    expected = Order(SpeechRequest(text="Hi", voice=voice, speed=speed), container)
    assert order(input="Hi", **fields) == expected


@pytest.mark.parametrize(
    ("fields", "param", "sentence"),
    [
        ({}, "input", "input is missing; it is the text to speak."),
        ({"input": None}, "input", "input is missing; it is the text to speak."),
        ({"input": ""}, "input", "input is empty; it is the text to speak."),
        ({"input": 5}, "input", "input must be a string."),
        ({"input": "a", "model": 1}, "model", "model must be a string."),
        ({"input": "a", "voice": 1}, "voice", "voice must be a string"),
        ({"input": "a", "voice": {}}, "voice", "voice must be a string"),
        ({"input": "a", "voice": {"id": 1}}, "voice", "voice must be a string"),
        ({"input": "a", "voice": "x" * 201}, "voice", "voice has 201 characters; the limit is 200"),
        ({"input": "a", "priority": "high"}, "priority", 'priority must be "live" or "batch".'),
        ({"input": "a", "priority": 1}, "priority", 'priority must be "live" or "batch".'),
        ({"input": "a", "speed": "1"}, "speed", "speed must be a number from 0.25 to 4."),
        ({"input": "a", "speed": True}, "speed", "speed must be a number"),
        ({"input": "a", "speed": 0.2}, "speed", "speed must be a number"),
        ({"input": "a", "speed": 4.01}, "speed", "speed must be a number"),
        ({"input": "a", "speed": math.nan}, "speed", "speed must be a number"),
        ({"input": "a", "speed": math.inf}, "speed", "speed must be a number"),
        ({"input": "a", "speed": 10**400}, "speed", "speed must be a number"),
        ({"input": "a", "response_format": "ogg"}, "response_format", "opus, aac, flac, wav or"),
        ({"input": "a", "response_format": 3}, "response_format", "must be mp3, opus, aac"),
        ({"input": "a", "stream_format": "x"}, "stream_format", 'must be "audio" or "sse".'),
        ({"input": "a", "stream_format": 1}, "stream_format", 'must be "audio" or "sse".'),
        ({"input": "a", "stream": "yes"}, "stream", "stream must be true or false."),
        ({"input": "a", "normalize": 0}, "normalize", "normalize must be true or false."),
        ({"input": "a", "marks": 1}, "marks", "marks must be true or false."),
        ({"input": "a", "marks": True}, "marks", 'they need stream_format "sse".'),
        ({"input": "a", "lang": 1}, "lang", "lang must be a string such as en-gb."),
        ({"input": "a", "instructions": 1}, "instructions", "instructions must be a string."),
        ({"input": "a", "options": {"markdown": 1}}, "options", "options must be an object"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], param: str, sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        order(**fields)
    assert caught.value.param == param
    assert sentence in caught.value.message


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"input": 1' + b"0" * 9999])
def test_what_is_not_json(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="not valid JSON"):
        parse(body, text_chars=LIMIT)


@pytest.mark.parametrize("body", [b"[]", b"null", b'"input"', b"3"])
def test_what_is_not_an_object(body: bytes) -> None:
    with pytest.raises(InvalidRequest, match="must be a JSON object"):
        parse(body, text_chars=LIMIT)


def test_the_limit_counts_code_points() -> None:
    assert order(input="😀" * LIMIT).speech.text == "😀" * LIMIT
    with pytest.raises(TextTooLong, match="4097 characters; the limit is 4096") as caught:
        order(input="a" * (LIMIT + 1))
    assert caught.value.param == "input"


def test_half_an_emoji_is_replaced_not_refused() -> None:
    options = b'{"lexicon": [{"word": "\\ud83d", "say": "a"}]}'
    body = b'{"input": "well \\ud83d", "voice": "\\ude00", "options": %s}' % options
    made = parse(body, text_chars=LIMIT)
    assert (made.speech.text, made.speech.voice) == ("well \ufffd", "\ufffd")
    assert made.speech.options.lexicon[0].word == "\ufffd"


@pytest.mark.parametrize("container", Format)
def test_every_format_is_taken(container: Format) -> None:
    assert order(input="a", response_format=str(container)).format is container


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({}, Way.STREAM),
        ({"stream": True, "stream_format": "audio"}, Way.STREAM),
        ({"stream": False}, Way.WHOLE),
        ({"stream_format": "sse"}, Way.EVENTS),
        ({"stream_format": "sse", "stream": False}, Way.EVENTS),
        ({"stream_format": "sse", "marks": True}, Way.EVENTS),
        ({"stream_format": None, "stream": None, "marks": False}, Way.STREAM),
    ],
)
def test_the_way_to_the_client(fields: dict[str, Any], way: Way) -> None:
    assert order(input="a", **fields).way is way


def test_what_is_ours() -> None:
    asked = order(
        input="a",
        lang="en-gb",
        marks=True,
        stream_format="sse",
        normalize=False,
        options={"markdown": "off", "normalize": True},
    )
    assert asked.speech == SpeechRequest(
        text="a",
        lang="en-gb",
        marks=True,
        options=TextOptions(markdown="off", normalize=False),  # the shorter way of saying it wins
    )
    assert asked.ignored == ()


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("alloy", "bf_emma"), (" Alloy", "bf_emma"), ({"id": "alloy"}, "bf_emma"), ("nova", "nova")],
)
def test_names_of_voices_can_mean_others(asked: object, meant: str) -> None:
    body = json.dumps({"input": "a", "voice": asked}).encode()
    assert parse(body, text_chars=9, voices={"alloy": "bf_emma"}).speech.voice == meant


def test_unknown_keys_are_named() -> None:
    made = order(input="a", stream=True, lang_code="a", instructions="slowly", model="tts-1")
    assert made.ignored == ("instructions", "lang_code")


@given(st.lists(st.text()))
def test_the_header_of_ignored_keys_is_always_a_legal_header(names: list[str]) -> None:
    value = ignored_header(names)
    assert value.isascii()
    assert value == value.strip()
    assert value.isprintable()
    assert len(value) < 1000


def test_the_header_of_ignored_keys() -> None:
    assert ignored_header(["stream", "a\r\nb: c", "", "é"]) == "stream, a_b_c, _, _"
    assert ignored_header(["k"] * 18).endswith("k, and 2 more")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
known_or_not = st.sampled_from(Body.__struct_fields__) | st.text(st.characters())


@given(json_values | st.dictionaries(known_or_not, json_values))
def test_any_json_is_an_order_or_one_sentence(value: object) -> None:
    check(json.dumps(value).encode())


@given(st.dictionaries(known_or_not, json_values), st.text(min_size=1))
def test_any_json_with_an_input_is_an_order_or_one_sentence(
    value: dict[str, object], text: str
) -> None:
    check(json.dumps({**value, "input": text}).encode())


@given(st.binary())
def test_any_bytes_are_an_order_or_one_sentence(body: bytes) -> None:
    check(body)


def check(body: bytes) -> None:
    try:
        made = parse(body, text_chars=LIMIT)
    except InvalidRequest as error:
        assert error.message.endswith(".")
        assert error.param is None or error.param in Body.__struct_fields__
    else:
        assert made.speech.text
        assert made.speech.speed is None or 0.25 <= made.speech.speed <= 4
        made.speech.text.encode()


@pytest.mark.parametrize(
    ("asked", "priority"), [(None, "live"), ("live", "live"), ("batch", "batch")]
)
def test_a_client_that_does_not_listen_can_say_so(asked: str | None, priority: str) -> None:
    order = parse(json.dumps({"input": "Hi", "priority": asked}).encode(), text_chars=100)
    assert order.speech.priority == priority
    assert order.ignored == ()
