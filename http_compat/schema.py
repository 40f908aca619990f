"""The body of a speech request: JSON bytes to something the engine can speak. Core.

Strict where a mistake would be heard, lenient where clients differ: keys we do not know are
ignored and reported by name, `null` counts as not given, and `model` and `voice` may be missing
because local clients leave them out. What can be wrong is told in one sentence with the name of
the field, never with the text to be spoken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

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
    WAV = "wav"
    PCM = "pcm"


#: formats of the OpenAI API that we cannot write yet
FORMATS_TO_COME = frozenset({"opus", "aac", "flac"})

#: names and characters of a name that go into the header of ignored keys
IGNORED_NAMES = 16
IGNORED_NAME_CHARS = 40


class VoiceReference(msgspec.Struct, frozen=True):
    """The object form of `voice`."""

    id: str


class Body(msgspec.Struct, frozen=True):
    """The fields of the request that have a meaning here; `null` ones are taken out before.

    `priority` is ours: a client that makes a file, say of a book, asks for `batch`, and whoever
    listens meanwhile goes first. OpenAI's clients cannot say so, and most of theirs listen.
    `options` are ours too, the same as over WebSocket.
    """

    input: str
    model: str | None = None
    voice: str | VoiceReference | None = None
    response_format: str = Format.MP3
    speed: float | None = None
    stream_format: str = "audio"
    priority: Priority = "live"
    options: TextOptions = TextOptions()


#: what a field must be, told when it has the wrong type
_EXPECTED = {
    "input": "input must be a string.",
    "model": "model must be a string.",
    "voice": 'voice must be a string, or an object such as {"id": "af_heart"}.',
    "response_format": "response_format must be mp3, wav or pcm.",
    "speed": f"speed must be a number from {MIN_SPEED:g} to {MAX_SPEED:g}.",
    "stream_format": 'stream_format must be "audio".',
    "priority": 'priority must be "live" or "batch".',
    "options": 'options must be an object such as {"markdown": "off"}; docs/protocol.md lists them.',
}


@dataclass(frozen=True, slots=True)
class Order:
    """What a client asked for.

    Attributes:
        speech: what to say and how.
        format: the container to say it in.
        ignored: keys of the body that have no effect here, sorted.
    """

    speech: SpeechRequest
    format: Format
    ignored: tuple[str, ...] = ()


def parse(body: bytes, *, text_chars: int) -> Order:
    """The body of `POST /v1/audio/speech` to an order.

    Args:
        body: what the client sent, whatever it is.
        text_chars: the longest input, in code points.

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
    container = _container(asked.response_format)
    if asked.stream_format == "sse":
        raise InvalidRequest(
            'stream_format "sse" is not available yet; use "audio".', param="stream_format"
        )
    if asked.stream_format != "audio":
        raise InvalidRequest(_EXPECTED["stream_format"], param="stream_format")
    # Written so that it also catches what is not a number.
    if asked.speed is not None and not MIN_SPEED <= asked.speed <= MAX_SPEED:
        raise InvalidRequest(_EXPECTED["speed"], param="speed")
    speech = SpeechRequest(
        text=_text(asked.input, text_chars),
        voice=_voice(asked.voice),
        speed=asked.speed,
        priority=asked.priority,
        options=asked.options,
    )
    ignored = sorted(name for name in given if name not in Body.__struct_fields__)
    return Order(speech, container, tuple(ignored))


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
        given = json.loads(body)
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


def _container(name: str) -> Format:
    try:
        return Format(name)
    except ValueError:
        what = "is not available yet" if name in FORMATS_TO_COME else "is not a known format"
        raise InvalidRequest(
            f"response_format {name[:20]!r} {what}; use mp3, wav or pcm.", param="response_format"
        ) from None


def _text(text: str, text_chars: int) -> str:
    if len(text) > text_chars:
        raise TextTooLong(
            f"input has {len(text)} characters; the limit is {text_chars}.", param="input"
        )
    if not text.strip():
        raise InvalidRequest("input is empty; it is the text to speak.", param="input")
    return _well_formed(text)


def _voice(voice: str | VoiceReference | None) -> str | None:
    name = voice.id if isinstance(voice, VoiceReference) else voice
    if not name or not name.strip():
        return None  # clients with an empty text box for the voice mean "whatever is usual"
    if len(name) > MAX_VOICE_CHARS:
        raise InvalidRequest(
            f"voice has {len(name)} characters; the limit is {MAX_VOICE_CHARS}.", param="voice"
        )
    return _well_formed(name)


def _well_formed(text: str) -> str:
    """Lone halves of surrogate pairs, which no encoding can carry, become U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
