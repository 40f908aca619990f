"""The body of a speech request: JSON bytes to something the engine can speak. Core.

Strict where a mistake would be heard, lenient where clients differ: keys we do not know are
ignored and reported by name, `null` counts as not given, and `model` and `voice` may be missing
because local clients leave them out. What can be wrong is told in one sentence with the name of
the field, never with the text to be spoken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from engine.errors import InvalidRequest, TextTooLong
from engine.request import (
    MAX_SPEED,
    MAX_VOICE_CHARS,
    MIN_SPEED,
    Priority,
    SpeechRequest,
    TextOptions,
)


class Format(StrEnum):
    """The containers we can write, by their OpenAI names."""

    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"
    WAV = "wav"
    PCM = "pcm"


class StreamFormat(StrEnum):
    """What the body of the answer is."""

    AUDIO = "audio"
    SSE = "sse"


class Way(StrEnum):
    """How the sound gets to the client."""

    #: piece by piece, while the engine works on the rest
    STREAM = "stream"
    #: in one piece of known length, when all is made
    WHOLE = "whole"
    #: piece by piece, as server-sent events
    EVENTS = "events"


#: names and characters of a name that go into the header of ignored keys
IGNORED_NAMES = 16
IGNORED_NAME_CHARS = 40


class VoiceReference(msgspec.Struct, frozen=True):
    """The object form of `voice`."""

    id: str


class Body(msgspec.Struct, frozen=True):
    """The fields of the request that have a meaning here; `null` ones are taken out before.

    The descriptions are those of the OpenAPI document. From `lang` on, fields are ours.
    """

    input: Annotated[str, Meta(description="The text to speak.")]
    model: Annotated[str | None, Meta(description="Any name; there is one model.")] = None
    voice: Annotated[
        str | VoiceReference | None,
        Meta(
            description="A voice of GET /v1/audio/voices, one of OpenAI's names, or a blend such "
            "as af_heart:60,am_michael:40 or af_heart(2)+am_michael(1)."
        ),
    ] = None
    instructions: Annotated[
        str | None, Meta(description="Taken and not followed: a voice has one way of speaking.")
    ] = None
    response_format: Annotated[
        Format | None, Meta(description="The container of the sound; mp3 if none is named.")
    ] = None
    speed: Annotated[
        Annotated[float, Meta(ge=MIN_SPEED, le=MAX_SPEED)] | None,
        Meta(description="1 is the voice's natural pace."),
    ] = None
    stream_format: Annotated[
        StreamFormat | None,
        Meta(description="The sound itself, which is the default, or server-sent events."),
    ] = None
    stream: Annotated[
        bool | None,
        Meta(description="false: the sound comes in one piece, of exact length, when all is made."),
    ] = None
    lang: Annotated[
        str | None, Meta(description="A language tag such as en-gb; by default the voice's own.")
    ] = None
    marks: Annotated[
        bool | None,
        Meta(description='Tell where the words are; only with stream_format "sse".'),
    ] = None
    normalize: Annotated[
        bool | None,
        Meta(description="false: numbers, units and the like are left to the pronunciation."),
    ] = None
    priority: Annotated[
        Priority | None,
        Meta(description="batch: nobody listens while it is made; others go first."),
    ] = None
    options: Annotated[
        TextOptions | None, Meta(description="How what is written becomes what is spoken.")
    ] = None


#: what a field must be, told when it has the wrong type
_EXPECTED = {
    "input": "input must be a string.",
    "model": "model must be a string.",
    "voice": 'voice must be a string, or an object such as {"id": "af_heart"}.',
    "instructions": "instructions must be a string.",
    "response_format": f"response_format must be {', '.join([*Format][:-1])} or {[*Format][-1]}.",
    "speed": f"speed must be a number from {MIN_SPEED:g} to {MAX_SPEED:g}.",
    "stream_format": 'stream_format must be "audio" or "sse".',
    "stream": "stream must be true or false.",
    "lang": "lang must be a string such as en-gb.",
    "marks": "marks must be true or false.",
    "normalize": "normalize must be true or false.",
    "priority": 'priority must be "live" or "batch".',
    "options": 'options must be an object such as {"markdown": "off"}; docs/protocol.md lists them.',
}


@dataclass(frozen=True, slots=True)
class Order:
    """What a client asked for.

    Attributes:
        speech: what to say and how.
        format: the container to say it in.
        way: how it gets to the client.
        ignored: keys of the body that have no effect here, sorted.
    """

    speech: SpeechRequest
    format: Format = Format.MP3
    way: Way = Way.STREAM
    ignored: tuple[str, ...] = ()


def parse(
    body: bytes, *, text_chars: int, voices: Mapping[str, str] = MappingProxyType({})
) -> Order:
    """The body of `POST /v1/audio/speech` to an order.

    Args:
        body: what the client sent, whatever it is.
        text_chars: the longest input, in code points.
        voices: names, in small letters, and the voices that they mean here.

    Raises:
        InvalidRequest: it is no such request; `param` is the field at fault.
        TextTooLong: the input is over the limit.
    """
    given = _object(body)
    fields = {name: given[name] for name in Body.__struct_fields__ if given.get(name) is not None}
    try:
        asked = msgspec.convert(fields, Body)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None
    if asked.speed != asked.speed:  # not a number, which no limit holds off
        raise InvalidRequest(_EXPECTED["speed"], param="speed")
    options = asked.options or TextOptions()
    if asked.normalize is not None:
        options = replace(options, normalize=asked.normalize)
    speech = SpeechRequest(
        text=_text(asked.input, text_chars),
        voice=_voice(asked.voice, voices),
        lang=asked.lang or None,
        speed=asked.speed,
        marks=asked.marks or False,
        priority=asked.priority or "live",
        options=options,
    )
    known = {*Body.__struct_fields__} - {"instructions"}
    ignored = sorted(name for name in given if name not in known)
    return Order(speech, asked.response_format or Format.MP3, _way(asked), tuple(ignored))


def ignored_header(names: Iterable[str]) -> str:
    """Names of ignored keys as the value of a header: printable ASCII, of limited length."""
    clean = (re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:IGNORED_NAME_CHARS] for name in names)
    shown = [name or "_" for name in clean]
    more = [f"and {len(shown) - IGNORED_NAMES} more"] if len(shown) > IGNORED_NAMES else []
    return ", ".join(shown[:IGNORED_NAMES] + more)


def _object(body: bytes) -> dict[str, Any]:
    # The standard library's parser, because it takes half of a surrogate pair: clients that cut
    # long texts into pieces send one when they cut through an emoji.
    try:
        given = _well_formed(json.loads(body))
    except (ValueError, RecursionError):
        raise InvalidRequest("The body is not valid JSON.") from None
    if not isinstance(given, dict):
        raise InvalidRequest("The body must be a JSON object.")
    return given


def _wrong(error: str) -> InvalidRequest:
    """An error that names the field, from a message such as "… - at `$.input`" of msgspec's."""
    _, _, where = error.partition(" - at `$.")
    name = re.split(r"[.\[`]", where)[0]
    if name in _EXPECTED:
        return InvalidRequest(_EXPECTED[name], param=name)
    return InvalidRequest("input is missing; it is the text to speak.", param="input")


def _way(asked: Body) -> Way:
    if asked.stream_format is StreamFormat.SSE:
        return Way.EVENTS
    if asked.marks:
        raise InvalidRequest('marks come as events; they need stream_format "sse".', param="marks")
    return Way.WHOLE if asked.stream is False else Way.STREAM


def _text(text: str, text_chars: int) -> str:
    if len(text) > text_chars:
        raise TextTooLong(
            f"input has {len(text)} characters; the limit is {text_chars}.", param="input"
        )
    if not text:
        raise InvalidRequest("input is empty; it is the text to speak.", param="input")
    return text


def _voice(voice: str | VoiceReference | None, voices: Mapping[str, str]) -> str | None:
    name = voice.id if isinstance(voice, VoiceReference) else voice
    if not name or not name.strip():
        return None  # clients with an empty text box for the voice mean "whatever is usual"
    if len(name) > MAX_VOICE_CHARS:
        raise InvalidRequest(
            f"voice has {len(name)} characters; the limit is {MAX_VOICE_CHARS}.", param="voice"
        )
    return voices.get(name.strip().lower(), name)


def _well_formed(value: Any) -> Any:
    """Lone halves of surrogate pairs, which no encoding can carry, become U+FFFD."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_well_formed(item) for item in value]
        case dict():
            return {_well_formed(name): _well_formed(item) for name, item in value.items()}
        case _:
            return value
