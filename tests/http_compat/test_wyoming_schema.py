"""Requests of Wyoming from events, the choice of a voice, and `info` as Home Assistant reads it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wyoming.event import Event as TheirEvent
from wyoming.info import Info
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeVoice,
)

from engine.errors import InvalidRequest, UnsupportedLanguage
from engine.request import VoiceInfo
from http_compat.wyoming import schema
from http_compat.wyoming.events import Event

from .test_wyoming_events import JSON, TEXT

VOICE = SynthesizeVoice(name="af_heart", speaker="bm_fable")


def ours(event: TheirEvent) -> Event:
    return Event(event.type, event.data, event.payload or b"")


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        (Synthesize("Hi."), schema.Synthesize(text="Hi.")),
        (
            Synthesize("Hi.", VOICE, text_format="text", context={"a": 1}),
            schema.Synthesize(
                text="Hi.",
                voice=schema.Voice(name="af_heart", speaker="bm_fable"),
                text_format="text",
            ),
        ),
        (
            SynthesizeStart(SynthesizeVoice(language="en-GB")),
            schema.SynthesizeStart(voice=schema.Voice(language="en-GB")),
        ),
        (SynthesizeStart(SynthesizeVoice()), schema.SynthesizeStart(voice=schema.Voice())),
        (SynthesizeChunk("Hi"), schema.SynthesizeChunk(text="Hi")),
        (SynthesizeStop(), schema.SynthesizeStop()),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_the_package_sends_is_understood(sent: Any, meant: schema.Request) -> None:
    assert schema.request_of(ours(sent.event())) == meant


@pytest.mark.parametrize(
    ("kind", "data", "param"),
    [
        ("synthesize", {}, "text"),
        ("synthesize", {"text": None}, "text"),
        ("synthesize", {"text": ["secret"]}, "text"),
        ("synthesize-chunk", {"text": 1}, "text"),
        ("synthesize", {"text": "secret", "voice": "secret"}, "voice"),
        ("synthesize", {"text": "secret", "voice": {"name": 1}}, "voice.name"),
        ("synthesize-start", {"voice": []}, "voice"),
        ("synthesize-start", {"voice": {"speaker": "x" * 201}}, "voice"),
        ("synthesize", {"text": "secret", "text_format": "ssml"}, "text_format"),
        ("synthesize-start", {"text_format": "secret"}, "text_format"),
        ("ping", {"text": 5}, "text"),
    ],
)
def test_what_is_wrong_is_named_and_not_quoted(kind: str, data: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        schema.request_of(Event(kind, data))
    assert refused.value.param == param
    assert refused.value.message.endswith(".")
    assert "secret" not in refused.value.message


KINDS = ["describe", "ping", "synthesize", "synthesize-start", "synthesize-chunk"]


@given(
    st.sampled_from([*KINDS, "synthesize-stop", "transcribe"]) | TEXT,
    st.dictionaries(st.sampled_from(["text", "voice", "text_format", "context"]), JSON),
)
def test_any_event_is_a_request_or_none_or_a_sentence(kind: str, data: dict[str, Any]) -> None:
    try:
        found = schema.request_of(Event(kind, data))
    except InvalidRequest as error:
        assert error.message.endswith(".")
        assert kind in KINDS
    else:
        assert (found is not None) == (kind in {*KINDS, "synthesize-stop"})


# --- which voice ---------------------------------------------------------------------------------

VOICES = (
    VoiceInfo(id="af_sky", name="Sky", lang="en-us", grade="C-"),
    VoiceInfo(id="af_alloy", name="Alloy", lang="en-us", grade="C"),
    VoiceInfo(id="af_heart", name="Heart", lang="en-us", grade="A"),
    VoiceInfo(id="af_bella", name="Bella", lang="en-us", grade="A-"),
    VoiceInfo(id="bf_emma", name="Emma", lang="en-gb", grade="B-"),
    VoiceInfo(id="ef_dora", name="Dora", lang="es"),
    VoiceInfo(id="jf_alpha", name="Alpha", lang="ja", grade="C+", unreadable="make setup helps."),
)


@pytest.mark.parametrize(
    ("language", "usual", "voice"),
    [
        ("en-US", "af_sky", "af_sky"),  # the usual one, though others are better
        ("en-US", "bf_emma", "af_heart"),
        ("en_GB", "af_sky", "bf_emma"),
        ("en-gb", "a blend", "bf_emma"),
        ("en", "af_sky", "af_sky"),
        ("en-AU", "ef_dora", "af_heart"),
        ("es-MX", "af_sky", "ef_dora"),
    ],
)
def test_a_language_has_a_voice(language: str, usual: str, voice: str) -> None:
    assert schema.voice_of_language(language, VOICES, usual) == voice


def test_grades_are_in_order() -> None:
    order = ["A", "A-", "B-", "C+", "C", "C-", "D-", "F+", None]
    for better, worse in pairwise(order):
        pair = [
            VoiceInfo(id="worse", name="", lang="it", grade=worse),
            VoiceInfo(id="better", name="", lang="it", grade=better),
        ]
        assert schema.voice_of_language("it", pair, "") == "better"


@pytest.mark.parametrize("language", ["ja", "xx", "", "e"])
def test_a_language_that_nobody_speaks_is_told_with_those_that_are(language: str) -> None:
    with pytest.raises(UnsupportedLanguage) as refused:
        schema.voice_of_language(language, VOICES, "af_heart")
    assert refused.value.message.endswith("spoken are: en-US, en-GB, es.")


# --- info ----------------------------------------------------------------------------------------


def test_the_package_reads_info() -> None:
    event = schema.info(VOICES)
    (program,) = Info.from_event(TheirEvent(event.type, event.data)).tts
    assert program.installed
    assert program.supports_synthesize_streaming
    assert program.name == "kokoro-live"
    assert program.version
    voices = {voice.name: voice for voice in program.voices}
    assert list(voices) == [voice.id for voice in VOICES]
    assert voices["bf_emma"].languages == ["en-GB"]
    assert voices["bf_emma"].description == "Emma"
    # Home Assistant leaves out what is not installed
    assert [name for name, voice in voices.items() if not voice.installed] == ["jf_alpha"]
    for artifact in (program, *program.voices):
        assert artifact.attribution.name
        assert artifact.attribution.url.startswith("https://")
