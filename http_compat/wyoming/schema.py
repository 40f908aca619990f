"""What Wyoming's events mean to a voice: requests from events, and events from answers. Core.

    describe                           info
    ping                               pong
    synthesize                         audio-start, audio-chunk …, audio-stop
    synthesize-start, -chunk …, -stop  the same, and synthesize-stopped

Other events are for microphones, satellites and the like, and mean nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from engine import __version__
from engine.audio import SAMPLE_BYTES, SAMPLE_RATE
from engine.errors import EngineError, InvalidRequest, UnsupportedLanguage
from engine.request import MAX_VOICE_CHARS, VoiceInfo

from .events import Event

#: what Home Assistant calls the voice
PROGRAM = "kokoro-live"
_MADE_BY = {"name": "hexgrad", "url": "https://huggingface.co/hexgrad/Kokoro-82M"}
_FORMAT = {"rate": SAMPLE_RATE, "width": SAMPLE_BYTES, "channels": 1}


class Voice(msgspec.Struct, frozen=True):
    """Which voice is wanted.

    Attributes:
        name: of a voice or a blend, as in `info`.
        language: a tag such as `en-GB`, for whoever does not care which voice of it.
        speaker: one of those of the voice `name`. Ours have none: it is the name of a voice too,
            and goes before the other one.
    """

    name: str | None = None
    language: str | None = None
    speaker: str | None = None


class Request(msgspec.Struct, frozen=True):
    """Something that a client wants."""

    type: ClassVar[str]


class Describe(Request, frozen=True):
    """What is there?"""

    type = "describe"


class Ping(Request, frozen=True):
    """Is anybody there?"""

    type = "ping"
    text: str | None = None


class _Manner(Request, frozen=True):
    voice: Voice | None = None
    text_format: str | None = None


class SynthesizeStart(_Manner, frozen=True):
    """A text begins, whose pieces follow."""

    type = "synthesize-start"


class Synthesize(_Manner, frozen=True, kw_only=True):
    """A whole text. Inside a text in pieces: the same once more, for servers without pieces."""

    type = "synthesize"
    text: str


class SynthesizeChunk(Request, frozen=True):
    """A piece of the text; it may be cut anywhere."""

    type = "synthesize-chunk"
    text: str


class SynthesizeStop(Request, frozen=True):
    """The text is complete."""

    type = "synthesize-stop"


_REQUESTS: dict[str, type[Request]] = {
    kind.type: kind
    for kind in (Describe, Ping, Synthesize, SynthesizeStart, SynthesizeChunk, SynthesizeStop)
}


def request_of(event: Event) -> Request | None:
    """What an event wants; None if it is none of ours.

    Raises:
        InvalidRequest: something in it is missing, has the wrong type or is impossible.
    """
    kind = _REQUESTS.get(event.type)
    if kind is None:
        return None
    try:
        request = msgspec.convert(event.data, kind)
    except msgspec.ValidationError as error:
        # Only the place, such as `$.voice.name`; without one it is the only field that must be.
        place = str(error).partition(" - at `$.")[2].rstrip("`") or "text"
        raise InvalidRequest(
            f"In the event {kind.type}, {place} is missing or has the wrong type.", param=place
        ) from None
    if isinstance(request, _Manner):
        _check(request)
    return request


def _check(manner: _Manner) -> None:
    if manner.text_format not in (None, "text"):
        raise InvalidRequest(
            "This text_format cannot be spoken; the only one is text, which may have markdown in "
            "it.",
            param="text_format",
        )
    for wanted in msgspec.structs.astuple(manner.voice or Voice()):
        if wanted is not None and len(wanted) > MAX_VOICE_CHARS:
            raise InvalidRequest(
                f"The voice has {len(wanted)} characters; the limit is {MAX_VOICE_CHARS}.",
                param="voice",
            )


# --- which voice ---------------------------------------------------------------------------------


def voice_of_language(language: str, voices: Sequence[VoiceInfo], usual: str) -> str:
    """The voice for a language: the usual one if it speaks it, else the best.

    Args:
        language: a tag such as `en-GB`, `en_GB` or `en`.
        voices: that there are.
        usual: the one that is taken when nothing is wanted.

    Raises:
        UnsupportedLanguage: none speaks it; the sentence names those that are spoken.
    """
    tag = language.lower().replace("_", "-")
    spoken = [voice for voice in voices if voice.unreadable is None]
    fitting = [voice for voice in spoken if voice.lang == tag]
    fitting = fitting or [voice for voice in spoken if _main(voice.lang) == _main(tag)]
    if not fitting:
        known = ", ".join(dict.fromkeys(language_tag(voice.lang) for voice in spoken))
        raise UnsupportedLanguage(
            f"No voice speaks the language {language[:20]!r}; those that are spoken are: {known}.",
            param="voice",
        )
    best = min(fitting, key=lambda voice: (voice.id != usual, _rank(voice.grade)))
    return best.id


def _main(tag: str) -> str:
    return tag.partition("-")[0]


def _rank(grade: str | None) -> tuple[str, int]:
    """Sorts A+ before A, A before A-, and what has no grade last."""
    return (grade[0], -1 if "+" in grade else int("-" in grade)) if grade else ("~", 0)


def language_tag(lang: str) -> str:
    """A language as Home Assistant writes it: `en-GB` for `en-gb`."""
    main, dash, region = lang.partition("-")
    return main + dash + region.upper()


# --- answers -------------------------------------------------------------------------------------


def info(voices: Sequence[VoiceInfo]) -> Event:
    """The answer to `describe`. A voice whose language cannot be read here is not installed."""
    told = [
        {
            "name": voice.id,
            "description": voice.name,
            "languages": [language_tag(voice.lang)],
            "attribution": _MADE_BY,
            "installed": voice.unreadable is None,
        }
        for voice in voices
    ]
    program = {
        "name": PROGRAM,
        "description": "Kokoro-82M, spoken while the text still comes",
        "version": __version__,
        "attribution": _MADE_BY,
        "installed": True,
        "voices": told,
        "supports_synthesize_streaming": True,
    }
    return Event("info", {"tts": [program]})


def pong(ping: Ping) -> Event:
    """The answer to `ping`, with what was in it."""
    return Event("pong", {} if ping.text is None else {"text": ping.text})


def audio_start() -> Event:
    """Sound follows."""
    return Event("audio-start", _FORMAT)


def audio_chunk(pcm: bytes) -> Event:
    """Sound, as PCM of the engine."""
    return Event("audio-chunk", _FORMAT, pcm)


def audio_stop() -> Event:
    """That was all sound of a text."""
    return Event("audio-stop")


def stopped() -> Event:
    """That was all of a text in pieces."""
    return Event("synthesize-stopped")


def failure(error: EngineError) -> Event:
    """What went wrong, for a person and for a program."""
    return Event("error", {"text": error.message, "code": error.code})
