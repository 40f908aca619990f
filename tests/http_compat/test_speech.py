"""Speech from the request to the last byte, without sockets and in virtual time."""

from __future__ import annotations

import base64
import io
import json
import math
import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import pipeline
from engine.audio import ms_to_samples, pcm_samples, silence
from engine.config import OPENAI_VOICES
from engine.errors import NotReady, SynthesisFailed
from engine.request import Event, SpeechRequest
from http_compat.containers import encoder_for
from http_compat.schema import Format
from http_compat.speech import NOTHING_MS
from tests.engine.voicing import Voicing, paragraphs, utterance
from tests.support.tone import WORD_MS, ToneVoice

from .decoding import DELAY, by_ffmpeg
from .serving import (
    JSON,
    SPEECH,
    Asked,
    Engine,
    Gate,
    calling,
    defaults,
    events_of,
    length_ms,
    post,
    say_nothing,
    sound_of,
    told,
)  # fmt: skip

TWO = b'{"input": "One. Two."}'


# --- three ways ------------------------------------------------------------------------------


@pytest.mark.parametrize("container", Format)
async def test_the_three_ways_carry_the_same_sound(
    autojump_clock: MockClock, container: Format
) -> None:
    app = Engine().app()
    body = {"input": "One two. Three.", "response_format": str(container)}
    streamed = await post(app, body)
    assert "Content-Length" not in streamed.headers
    whole = await post(app, {**body, "stream": False})
    assert whole.headers["Content-Length"] == str(len(whole.body))
    assert whole.headers["content-type"] == streamed.headers["content-type"]
    events = await post(app, {**body, "stream_format": "sse"})
    assert events.headers["content-type"] == "text/event-stream"
    assert sound_of(events.body) == streamed.body
    header = len(encoder_for(container).header())
    assert whole.body[header:] == streamed.body[header:]
    assert by_ffmpeg(whole.body, container).length >= 3 * WORD_MS * 24
    if container not in DELAY:
        assert by_ffmpeg(streamed.body, container).length == 3 * WORD_MS * 24


async def test_audio_is_sent_while_the_engine_works(autojump_clock: MockClock) -> None:
    gate = Gate(ToneVoice())
    body = json.dumps({"input": "One. Two.", "response_format": "wav"}).encode()
    async with calling(Engine(gate).app(), "POST", SPEECH, JSON, body) as call:
        first = await call.pieces.receive()
        assert first[:4] == b"RIFF"
        assert len(first) == 44 + 2400  # header and the first 50 ms in one piece
        sound = len(first) - 44
        while sound < WORD_MS * 48:
            sound += len(await call.pieces.receive())
        await gate.reached.wait()
        gate.opened.set()
        assert await call.read()
    assert call.complete


async def test_nothing_to_speak_is_a_moment_of_silence(autojump_clock: MockClock) -> None:
    app = Engine(say_nothing).app()
    for blank in (" ", "\n\t \n", "\u200b"):
        silent = await post(app, {"input": blank, "response_format": "pcm"})
        assert (silent.status, silent.body) == (200, silence(ms_to_samples(NOTHING_MS)))
    response = await post(app, {"input": "---", "response_format": "wav"})
    assert response.status == 200
    with wave.open(io.BytesIO(response.body)) as file:
        assert file.readframes(100_000) == bytes(4800)
    response = await post(app, {"input": "---"})
    assert response.body


async def test_the_whole_is_sent_when_all_is_made(autojump_clock: MockClock) -> None:
    voice = ToneVoice()
    gate = Gate(voice)
    body = json.dumps({"input": "One. Two.", "response_format": "wav", "stream": False}).encode()
    async with calling(Engine(gate).app(), "POST", SPEECH, JSON, body) as call:
        await gate.reached.wait()
        assert call.status is None
        gate.opened.set()
        data = await call.read()
    with wave.open(io.BytesIO(data)) as file:
        assert file.getnframes() == 2 * WORD_MS * 24  # exact: not one of the largest numbers


async def test_a_whole_that_fails_has_a_status(autojump_clock: MockClock) -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("It failed."))
    response = await post(Engine(voice).app(), {"input": "One. Two.", "stream": False})
    assert response.status == 500
    assert told(response)["code"] == "synthesis_failed"
    assert voice.active == 0


async def test_events_tell_what_was_used(autojump_clock: MockClock) -> None:
    body = {"input": "One two. Three.", "response_format": "pcm", "stream_format": "sse"}
    response = await post(Engine().app(), body)
    assert response.headers["Cache-Control"] == "no-cache"
    *deltas, done = events_of(response.body)
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert len(deltas) > 2
    sound_ms = length_ms(sound_of(response.body))
    assert sound_ms == 3 * WORD_MS
    tokens = -(-3 * WORD_MS // 50)
    assert done == {
        "type": "speech.audio.done",
        "usage": {"input_tokens": 15, "output_tokens": tokens, "total_tokens": 15 + tokens},
    }


async def test_events_tell_where_the_words_are(autojump_clock: MockClock) -> None:
    text = "One two. Three."
    body = {"input": text, "response_format": "pcm", "stream_format": "sse", "marks": True}
    sample = 0
    words = []
    for event in events_of((await post(Engine().app(), body)).body):
        if event["type"] == "speech.audio.marks":
            assert event["words"][0]["sample"] == sample  # it comes right before its sound
            words += [text[word["char_start"] : word["char_end"]] for word in event["words"]]
        elif event["type"] == "speech.audio.delta":
            sample += pcm_samples(base64.b64decode(event["audio"]))
    assert words == ["One", "two.", "Three."]


async def test_an_error_among_events_is_one_and_cuts_the_transfer(
    autojump_clock: MockClock,
) -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("It failed."))
    body = json.dumps({"input": "One. Two.", "stream_format": "sse"}).encode()
    async with calling(Engine(voice).app(), "POST", SPEECH, JSON, body) as call:
        events = events_of(await call.read())
    assert call.status == 200
    assert not call.complete
    assert events[-1] == {
        "type": "speech.audio.error",
        "error": {
            "message": "It failed.", "type": "server_error", "param": None,
            "code": "synthesis_failed",
        },
    }  # fmt: skip
    assert voice.active == 0


@pytest.mark.parametrize("fields", [{"stream_format": "sse"}, {"stream": False}, {}])
async def test_an_error_before_the_first_sound_has_a_status(
    autojump_clock: MockClock, fields: dict[str, Any]
) -> None:
    voice = ToneVoice(fail_at=0, failure=SynthesisFailed("It failed."))
    response = await post(Engine(voice).app(), {"input": "One.", **fields})
    assert response.status == 500
    assert told(response)["code"] == "synthesis_failed"


@pytest.mark.parametrize("container", Format)
@pytest.mark.parametrize("fields", [{"stream_format": "sse"}, {"stream": False}, {}])
async def test_nothing_to_speak_is_a_moment_of_silence_in_every_container(
    autojump_clock: MockClock, container: Format, fields: dict[str, Any]
) -> None:
    app = Engine(say_nothing).app()
    response = await post(app, {"input": "---", "response_format": str(container), **fields})
    assert response.status == 200
    is_sse = "stream_format" in fields
    made = by_ffmpeg(sound_of(response.body) if is_sse else response.body, container)
    assert NOTHING_MS * 24 <= made.length - DELAY.get(container, 0) < 2 * NOTHING_MS * 24
    assert abs(made.samples).max() < 0.001


# --- voices and language ---------------------------------------------------------------------


@pytest.mark.parametrize("name", OPENAI_VOICES)
async def test_openai_names_are_known(autojump_clock: MockClock, name: str) -> None:
    asked = Asked()
    response = await post(Engine(asked).app(), {"input": "One.", "voice": name})
    assert response.status == 200
    assert asked.requests[0].voice == OPENAI_VOICES[name]


async def test_names_are_a_setting(autojump_clock: MockClock) -> None:
    asked = Asked()
    app = Engine(asked).app(settings=defaults(openai_voices={"alloy": "bm_fable"}))
    for voice in ("alloy", "nova", "af_heart(2)+am_michael(1)", None):
        await post(app, {"input": "One.", "voice": voice, "lang": "en-gb"})
    assert [request.voice for request in asked.requests] == [
        "bm_fable", OPENAI_VOICES["nova"], "af_heart(2)+am_michael(1)", None,
    ]  # fmt: skip
    assert {request.lang for request in asked.requests} == {"en-gb"}


async def test_an_unknown_voice_is_told_the_known_ones(autojump_clock: MockClock) -> None:
    engine = Engine()
    response = await post(engine.app(), {"input": "One.", "voice": "af_nobody"})
    assert response.status == 400
    detail = told(response)
    assert (detail["param"], detail["code"]) == ("voice", "voice_not_found")
    for name in ("'af_nobody'", "af_heart", "bm_fable", *OPENAI_VOICES, "af_heart:60"):
        assert name in detail["message"]
    # It is refused as well by an engine that says nothing more.
    engine.down = NotReady("Not there.")
    short = await post(engine.app(), {"input": "One.", "voice": "af_nobody"})
    assert told(short)["message"] == "There is no voice 'af_nobody'."


# --- what goes wrong later -------------------------------------------------------------------


@pytest.mark.parametrize("failure", [SynthesisFailed("It failed."), ZeroDivisionError()])
async def test_a_failure_after_the_first_sound_breaks_the_body(
    autojump_clock: MockClock, failure: Exception
) -> None:
    voice = ToneVoice(fail_at=1, failure=failure)  # type: ignore[arg-type]
    with capture_logs() as logs:
        async with calling(Engine(voice).app(), "POST", SPEECH, JSON, TWO) as call:
            assert await call.read()
    assert call.status == 200
    assert not call.complete
    assert voice.active == 0
    assert logs[-1]["outcome"] == "broken"


# --- clients that leave ----------------------------------------------------------------------


@pytest.mark.parametrize("body", [TWO, b'{"input": "One. Two.", "stream_format": "sse"}'])
async def test_a_client_that_leaves_ends_the_stream(autojump_clock: MockClock, body: bytes) -> None:
    voice = ToneVoice()
    gate = Gate(voice)
    with capture_logs() as logs:
        async with (
            calling(Engine(gate).app(), "POST", SPEECH, JSON, body) as call,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(call.read)
            await gate.reached.wait()
            assert voice.active == 1
            call.disconnect()
            await gate.left.wait()
    assert voice.active == 0
    assert not call.complete
    assert [entry["outcome"] for entry in logs] == ["gone"]


class Windows(Voicing):
    """Makes windows of 100 ms in 50 ms each, and none can be stopped halfway."""

    WINDOW_S = 0.05

    def __init__(self) -> None:
        super().__init__(piece_s=self.WINDOW_S)
        self.left_s = math.inf

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        try:
            async with pipeline.run(utterance(request.text), self) as events:
                yield events
        finally:
            self.left_s = trio.current_time()

    async def _step(self, kind: str, what: str, seconds: float) -> None:
        with trio.CancelScope(shield=True):
            await super()._step(kind, what, seconds)


@pytest.mark.parametrize("gone_s", [0.02, 0.13, 0.36])
@pytest.mark.parametrize(
    "fields", [{}, {"response_format": "pcm"}, {"stream_format": "sse"}, {"stream": False}]
)
async def test_the_engine_is_done_one_window_after_a_client_has_left(
    autojump_clock: MockClock, gone_s: float, fields: dict[str, Any]
) -> None:
    voice = Windows()
    body = json.dumps({"input": paragraphs("abc"), **fields}).encode()
    async with (
        calling(Engine(voice).app(), "POST", SPEECH, JSON, body) as call,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(call.read)
        began_s = trio.current_time()
        await trio.sleep(gone_s)
        begun = len(voice.due)
        call.disconnect()
    assert begun == 1 + gone_s // voice.WINDOW_S
    assert len(voice.due) == begun  # no other window is begun
    assert began_s + gone_s < voice.left_s <= began_s + gone_s + voice.WINDOW_S


@pytest.mark.parametrize(
    ("before", "fields"),
    [(0, {}), (0, {"stream_format": "sse"}), (0, {"stream": False}), (1, {"stream": False})],
)
async def test_a_client_that_leaves_before_there_is_an_answer(
    autojump_clock: MockClock, before: int, fields: dict[str, Any]
) -> None:
    voice = ToneVoice()
    gate = Gate(voice, before=before)
    body = json.dumps({"input": "One. Two.", **fields}).encode()
    async with calling(Engine(gate).app(), "POST", SPEECH, JSON, body) as call:
        await gate.reached.wait()
        assert call.status is None  # no header before there is sound
        call.disconnect()
        await gate.left.wait()
    assert voice.active == 0


@pytest.mark.parametrize("body", [TWO, b'{"input": "One. Two.", "stream_format": "sse"}'])
async def test_a_client_that_leaves_while_it_is_sent_to(
    autojump_clock: MockClock, body: bytes
) -> None:
    voice = ToneVoice()
    gate = Gate(voice, before=9)
    async with calling(Engine(gate).app(), "POST", SPEECH, JSON, body) as call:
        await call.pieces.receive()
        await trio.testing.wait_all_tasks_blocked()  # the second piece finds nobody
        call.disconnect()
        await gate.left.wait()
    assert voice.active == 0
