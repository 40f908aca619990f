"""Speech as server-sent events, the other stream format of the OpenAI API. Core.

    speech.audio.delta   audio       a piece of the container, in base64
    speech.audio.marks   words, …    where the words are; only if the request asked for marks
    speech.audio.done    usage       all was sent
    speech.audio.error   error       no more will come; the object of an error body

Only the first and the third are OpenAI's. Each event is one `data:` line of JSON that says its type,
with neither `event:` lines nor an end mark behind the last.
"""

from __future__ import annotations

import msgspec

from engine.audio import SAMPLE_RATE
from engine.request import Marks, WordMark

from .errors import Detail

CONTENT_TYPE = "text/event-stream"

#: What counts as a token: a character that is read, and so much sound.
OUTPUT_TOKEN_SAMPLES = SAMPLE_RATE // 20


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What it took: characters of text, pieces of 50 ms of sound."""

    input_tokens: int
    output_tokens: int
    total_tokens: int


class AudioDelta(msgspec.Struct, frozen=True, tag_field="type", tag="speech.audio.delta"):
    """The next bytes of the container; msgspec writes them in base64."""

    audio: bytes


class AudioMarks(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="speech.audio.marks"
):
    """The words of a segment; comes before its sound. Offsets are code points and samples."""

    index: int
    words: tuple[WordMark, ...]


class AudioDone(msgspec.Struct, frozen=True, tag_field="type", tag="speech.audio.done"):
    """All sound was sent."""

    usage: Usage


class AudioError(msgspec.Struct, frozen=True, tag_field="type", tag="speech.audio.error"):
    """The speech broke off."""

    error: Detail


EVENTS = (AudioDelta, AudioMarks, AudioDone, AudioError)


def delta(audio: bytes) -> bytes:
    """The event of a piece of sound."""
    return _event(AudioDelta(audio))


def marks(told: Marks) -> bytes:
    """The event of a segment's words."""
    return _event(AudioMarks(index=told.index, words=told.words))


def done(*, chars: int, samples: int) -> bytes:
    """The last event.

    Args:
        chars: length of the text.
        samples: length of the sound, 24 kHz.
    """
    tokens = -(-samples // OUTPUT_TOKEN_SAMPLES)
    usage = Usage(input_tokens=chars, output_tokens=tokens, total_tokens=chars + tokens)
    return _event(AudioDone(usage))


def failed(detail: Detail) -> bytes:
    """The event of an error."""
    return _event(AudioError(detail))


def _event(event: msgspec.Struct) -> bytes:
    return b"data: " + msgspec.json.encode(event) + b"\n\n"
