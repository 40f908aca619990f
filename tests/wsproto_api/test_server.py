"""What an engine's server answers, over real sockets of loopback."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
import structlog
import trio

from engine.config import Settings
from engine.errors import SynthesisFailed
from engine.request import Event, Frame, LiveRequest, Notice, Opened, SpeechRequest, Stream
from tests.support.tone import ToneVoice, told
from wsproto_api.messages import StreamFrame

from .serving import Wire, serving

TEXT = "One two three. Four five."


async def still_fine(wire: Wire) -> None:
    """The socket is as usable as ever."""
    stream = await wire.speak("Fine.")
    assert (await wire.until("stream.done"))["stream"] == stream


# --- one text -------------------------------------------------------------------------------


async def test_ready_comes_first_and_says_what_this_is(settings: Settings) -> None:
    async with serving(settings, streams=3, frame_ms=40) as served:
        async with served.client(ready=False) as wire:
            await wire.send("ping", id="early")  # a client need not wait
            assert await wire.next() == {
                "type": "ready",
                "protocol": "kokoro.v1",
                "server": {
                    "name": "kokoro-live",
                    "version": "0.1.0",
                    "instance": served.server.instance,
                },
                "model": {
                    "name": "tone",
                    "build": "0",
                    "precision": "int16",
                    "provider": "none",
                },
                "sample_rate": 24000,
                "frame_ms": 40,
                "voices_hash": "0" * 64,
                "limits": {
                    "text_chars": 16_000,
                    "live_chars": 1_000_000,
                    "streams": 3,
                    "connection_streams": 8,
                    "subscribers": 64,
                    "message_bytes": 65536,
                    "messages_per_s": 200,
                    "max_lead_ms": 30_000,
                    "orphan_grace_ms": 2_000,
                },
            }
            assert await wire.next() == {"type": "pong", "reply_to": "early"}
            assert wire.websocket.subprotocol == "kokoro.v1"
            response = wire.websocket.response
            assert response is not None
            assert "Sec-WebSocket-Extensions" not in response.headers


async def test_a_text_from_ack_to_done(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send("speak", id="x", text=TEXT, key="mine", speed=2)
        done = await wire.until("stream.done")
        assert wire.seen[1] == {"type": "ack", "reply_to": "x", "stream": 1}
        assert wire.seen[2] == {
            "type": "stream.opened", "stream": 1, "owner": True, "voice": "af_heart",
            "lang": "en-us", "speed": 2.0, "key": "mine",
        }  # fmt: skip
        assert wire.order(1) == [
            "stream.opened", "segment", "frame", "segment.done", "segment", "frame",
            "segment.done", "frame", "stream.done",
        ]  # fmt: skip
        frames = wire.frames(1)
        assert [frame.seq for frame in frames] == list(range(len(frames)))
        assert all(a.sample + a.samples == b.sample for a, b in pairwise(frames))
        assert frames[0].first
        assert frames[-1].last
        for found in wire.messages("segment"):
            assert TEXT[found["char_start"] : found["char_end"]] == found["text"]
        assert done["samples"] == frames[-1].sample
        assert (done["segments"], done["chars"]) == (2, len(TEXT))


async def test_without_an_id_there_is_no_ack_and_the_stream_all_the_same(
    settings: Settings,
) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send("speak", text=TEXT)
        await wire.until("stream.done")
        assert wire.messages("ack") == []
        assert wire.messages("stream.opened", owner=True)


async def test_two_texts_at_once_on_one_socket(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send("speak", id="a", text=TEXT, key="a")
        await wire.send("speak", id="b", text=TEXT, key="b")
        for _ in range(2):
            await wire.until("stream.done")
        number = {m["key"]: m["stream"] for m in wire.messages("stream.opened")}
        acked = {m["reply_to"]: m["stream"] for m in wire.messages("ack")}
        assert number == acked
        assert sorted(number.values()) == [1, 2]
        pcm = [b"".join(f.pcm for f in wire.frames(n)) for n in (1, 2)]
        assert pcm[0] == pcm[1] != b""


# --- questions ------------------------------------------------------------------------------


async def test_voices_status_and_ping_are_answered_by_their_namesakes(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        answer = await wire.ask("voices")
        assert answer["type"] == "voices"
        assert answer["voices"][1] == {"id": "bm_fable", "name": "Fable", "lang": "en-gb"}
        answer = await wire.ask("status")
        assert answer["type"] == "status"
        assert (answer["streams"], answer["connections"]) == (0, 1)
        assert answer["uptime_s"] >= 0
        assert (await wire.ask("ping"))["type"] == "pong"
        for question, answer_type in (("voices", "voices"), ("status", "status"), ("ping", "pong")):
            await wire.send(question)
            found = await wire.next()
            assert isinstance(found, dict)
            assert (found["type"], found.get("reply_to")) == (answer_type, None)


async def test_status_counts_streams_that_are_not_over(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        assert (await wire.ask("status"))["streams"] == 1
        await wire.ask("cancel", stream=number)
        assert (await wire.ask("status"))["streams"] == 0


# --- what cannot be done --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "code", "param", "reply_to"),
    [
        ("{", "bad_json", None, None),
        ("", "bad_json", None, None),
        ("[" * 10_000, "bad_json", None, None),
        ("[]", "bad_message", None, None),
        ("{}", "bad_message", "type", None),
        ('{"id":"x"}', "bad_message", "type", "x"),
        ('{"type":1,"id":"x"}', "bad_message", "type", "x"),
        ('{"type":"speak"}', "bad_message", "text", None),
        ('{"type":"speak","id":"x"}', "bad_message", "text", "x"),
        ('{"type":"speak","id":"x","text":1}', "bad_message", "text", "x"),
        ('{"type":"speak","id":"x","text":"a","speed":"fast"}', "bad_message", "speed", "x"),
        ('{"type":"speak","id":"x","text":"a","priority":"urgent"}', "bad_message", "priority", "x"),
        ('{"type":"speak","id":"x","text":"a","marks":1}', "bad_message", "marks", "x"),
        ('{"type":"speak","id":5,"text":"a"}', "bad_message", "id", None),
        ('{"type":"cancel","id":"x"}', "bad_message", "stream", "x"),
        ('{"type":"cancel","id":"x","stream":-1}', "bad_message", "stream", "x"),
        ('{"type":"subscribe","id":"x","stream":"?"}', "bad_message", "stream", "x"),
        ('{"type":"subscribe","id":"x","stream":"*","from_seq":-1}', "bad_message", "from_seq", "x"),
        ('{"type":"dance","id":"x"}', "bad_message", "type", "x"),
        ('{"type":"speak","id":"x","text":" \\n"}', "invalid_value", "text", "x"),
        ('{"type":"speak","id":"x","text":""}', "invalid_value", "text", "x"),
        ('{"type":"speak","text":""}', "invalid_value", "text", None),
        ('{"type":"speak","id":"x","text":"a","voice":"no"}', "unknown_voice", "voice", "x"),
        ('{"type":"subscribe","id":"x","stream":9}', "unknown_stream", "stream", "x"),
        (b"\x01\x00", "bad_message", None, None),
        (b"", "bad_message", None, None),
    ],
)  # fmt: skip
async def test_a_refusal_is_one_error_and_the_socket_goes_on(
    settings: Settings, raw: str | bytes, code: str, param: str | None, reply_to: str | None
) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send_raw(raw)
        await wire.send("ping")
        await wire.until("pong")
        (error,) = wire.messages("error")
        assert error.pop("message").endswith(".")
        expected: dict[str, Any] = {
            "type": "error", "code": code, "retryable": False, "fatal": False, "param": param,
            "reply_to": reply_to,
        }  # fmt: skip
        assert error == {k: v for k, v in expected.items() if v is not None}
        await still_fine(wire)
        assert served.voice.active == 0


async def test_an_unknown_type_is_told_by_a_warning(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send("dance", style="tango")
        found = await wire.next()
        assert isinstance(found, dict)
        assert (found["type"], found["code"]) == ("warning", "unknown_type")
        assert "dance" in found["message"]
        await wire.send("dance", id="x")
        await wire.until("warning", reply_to="x", code="unknown_type")
        await wire.until("error", reply_to="x")
        await still_fine(wire)


async def test_an_unknown_field_is_ignored_and_told_by_a_warning(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send("speak", id="x", text="Hello.", colour="red", tempo=3)
        done = await wire.until("stream.done")
        (warning,) = wire.messages("warning")
        assert (warning["code"], warning["reply_to"]) == ("unknown_field", "x")
        assert "colour, tempo" in warning["message"]
        assert len(wire.messages("ack", reply_to="x")) == 1
        assert done["segments"] == 1


async def test_a_message_of_unknown_fields_gets_an_answer_that_can_be_sent(
    settings: Settings,
) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.send_raw(json.dumps({"type": "ping", **{f"f{n}": 0 for n in range(4000)}}))
        await wire.until("pong")
        assert len(json.dumps(wire.messages("warning"))) < 1000


async def test_an_id_is_free_again_once_it_was_answered(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        for _ in range(3):
            assert (await wire.ask("ping"))["type"] == "pong"
            assert (await wire.ask("speak", text=""))["type"] == "error"
            assert (await wire.ask("cancel", stream=77))["type"] == "ack"


async def test_too_many_streams(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000), streams=2) as served:
        async with served.client() as wire, served.client() as other:
            first = await wire.speak(TEXT)
            await other.speak(TEXT)
            for full in (wire, other):
                error = await full.ask("speak", text=TEXT)
                assert error["code"] == "overloaded"
                assert error["retryable"] is True
                assert error["retry_after_ms"] > 0
                assert "2" in error["message"]
            await wire.ask("cancel", stream=first)
            assert (await other.ask("speak", text=TEXT))["type"] == "ack"
            assert (await wire.ask("speak", text=TEXT))["type"] == "error"


async def test_a_failure_in_mid_stream_comes_after_the_frames_made_before(
    settings: Settings,
) -> None:
    failure = SynthesisFailed("The model failed.", param="text")
    voice = ToneVoice(fail_at=1, failure=failure)
    async with serving(settings, voice) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        error = await wire.until("error")
        assert error == {
            "type": "error", "stream": number, "code": "synthesis_failed", "param": "text",
            "message": "The model failed.", "retryable": False, "fatal": False,
        }  # fmt: skip
        assert wire.order(number) == [
            "stream.opened", "segment", "frame", "segment.done", "error",
        ]  # fmt: skip
        assert sum(f.samples for f in wire.frames(number)) == 3 * 6600
        voice.fail_at = None
        await still_fine(wire)
        assert voice.active == 0


# --- a voice with a bug ---------------------------------------------------------------------

SECRET = "The password is swordfish."


class Broken:
    """Fails in a way that no `Speak` should, quoting the text as foreign exceptions do."""

    def __init__(self, where: str) -> None:
        self.where = where

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        assert isinstance(request, SpeechRequest)
        if self.where == "entry":
            raise RuntimeError(f"cannot speak {request.text!r}")
        async with aclosing(self.events(request)) as events:
            yield told(events)
        if self.where == "exit":
            raise RuntimeError(f"cannot end {request.text!r}")

    async def events(self, request: SpeechRequest) -> AsyncGenerator[Event]:
        if self.where == "no events":
            return
        if self.where == "first event":
            raise ValueError(f"invalid literal: {request.text!r}")
        if self.where == "no opened":
            yield Notice(code="c", message="m")
        yield Opened(voice="v", lang="l", speed=1.0)
        if self.where == "later":
            raise ExceptionGroup("two", [KeyError(request.text), ValueError(request.text)])
        if self.where == "no end":
            return
        await trio.sleep_forever() if self.where != "exit" else None


@pytest.mark.parametrize(
    "where", ["entry", "no events", "first event", "no opened", "later", "no end", "exit"]
)
async def test_a_foreign_exception_is_internal_and_its_text_stays_out_of_the_logs(
    settings: Settings, where: str, capfd: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    async with serving(settings, speak=Broken(where)) as served, served.client() as wire:
        await wire.send("speak", id="x", text=SECRET)
        error = await wire.until("error")
        assert error["code"] == "internal"
        assert "swordfish" not in json.dumps([m for m in wire.seen if isinstance(m, dict)])
        if where in {"later", "no end", "exit"}:
            assert wire.messages("ack", reply_to="x")
            assert error["stream"] == 1
            assert "reply_to" not in error
        else:
            assert error["reply_to"] == "x"
        assert served.server.streams.live == []
        assert (await wire.ask("ping"))["type"] == "pong"
    out, err = capfd.readouterr()
    assert "stream crashed" in out + err
    assert "swordfish" not in out + err


async def test_a_text_leaves_no_trace_in_the_logs(
    settings: Settings, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    structlog.reset_defaults()
    caplog.set_level("DEBUG")
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("The model failed."))
    async with serving(settings, voice) as served, served.client() as wire:
        await wire.send("speak", id="x", text=SECRET + " And more.", key=SECRET)
        await wire.until("error")
        await wire.send("speak", id="y", text=SECRET, voice=5)
        await wire.until("error", reply_to="y")
    out, err = capfd.readouterr()
    assert "stream failed" in out + err
    # the library logs frames at DEBUG, which no configuration of ours turns on
    logged = "\n".join(
        r.getMessage() for r in caplog.records if r.levelname not in {"DEBUG", "INFO"}
    )
    assert "swordfish" not in out + err + logged


# --- how far the listener is ------------------------------------------------------------------


async def test_the_voice_is_told_how_far_the_owner_is(settings: Settings) -> None:
    voice = ToneVoice(rtf=1.0)
    async with serving(settings, voice) as served, served.client() as wire:
        number = await wire.speak("One two. " * 20)
        await wire.until("segment.done")
        await wire.send("heard", stream=number, sample=0, playing=False)
        await wire.send("heard", stream=number, sample=2400, playing=True)
        assert (await wire.ask("heard", stream=number, sample=12, playing=True))["type"] == "ack"
        assert voice.heard == [(0, False), (2400, True), (12, True)]
        assert wire.messages("warning") == []


async def test_a_report_that_cannot_be_is_ignored_with_a_warning(settings: Settings) -> None:
    voice = ToneVoice(rtf=1.0)
    async with serving(settings, voice) as served, served.client() as wire:
        number = await wire.speak("One two. " * 20)
        async with served.client() as other:
            await other.ask("subscribe", stream=number)
            await other.until("segment.done")
            for who, stream, sample, code in (
                (other, number, 0, "not_owner"),
                (wire, number, 2**53, "not_made_yet"),
                (wire, 77, 0, "unknown_stream"),
            ):
                answer = await who.ask("heard", stream=stream, sample=sample, playing=True)
                assert answer["type"] == "ack"
                (warning,) = who.messages("warning", code=code)
                assert (warning["stream"], warning["reply_to"]) == (stream, "ask")
        assert voice.heard == []
        await still_fine(wire)


async def test_how_far_he_is_in_a_stream_that_is_made_is_of_no_interest(
    settings: Settings,
) -> None:
    voice = ToneVoice()
    async with serving(settings, voice) as served, served.client() as wire:
        number = await wire.speak("One two.")
        await wire.until("stream.done")
        await wire.ask("heard", stream=number, sample=2400, playing=True)
        assert voice.heard == []
        assert wire.messages("warning") == []


# --- cancelling -----------------------------------------------------------------------------


async def test_the_owner_cancels_and_nothing_follows(settings: Settings) -> None:
    voice = ToneVoice()
    async with serving(settings, voice, max_lead_ms=1000) as served, served.client() as wire:
        number = await wire.speak("One two three four. " * 300)
        while not wire.frames(number):
            await wire.next()
        assert voice.active == 1
        await wire.send("cancel", id="c", stream=number)
        cancelled = await wire.until("stream.cancelled")
        assert cancelled == {"type": "stream.cancelled", "stream": number}
        await served.until(lambda: voice.active == 0)
        answers = wire.messages("ack", reply_to="c")
        assert answers or await wire.until("ack", reply_to="c")
        await still_fine(wire)  # reads on, and the session of the client holds it to the rules
        assert len(wire.messages("stream.cancelled")) == 1
        last = max(n for n, m in enumerate(wire.seen) if m is cancelled)
        assert not any(isinstance(m, StreamFrame) and m.stream == number for m in wire.seen[last:])
        assert voice.segments_made < 100


async def test_anybody_may_cancel(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served:
        async with served.client() as owner, served.client() as other:
            number = await owner.speak(TEXT)
            assert (await other.ask("cancel", stream=number))["type"] == "ack"
            await owner.until("stream.cancelled")
            await served.until(lambda: served.voice.active == 0)


async def test_cancelling_what_is_not_there_is_a_warning_and_an_ack(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        number = await wire.speak("Hello.")
        await wire.until("stream.done")
        for stream in (number, 0, 77, 2**32 - 1):
            assert (await wire.ask("cancel", stream=stream))["type"] == "ack"
            (warning,) = wire.messages("warning", stream=stream)
            assert warning["code"] == "unknown_stream"
        assert wire.messages("stream.cancelled") == []
        await still_fine(wire)


async def test_cancelling_twice_is_cancelling_once(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served, served.client() as wire:
        number = await wire.speak(TEXT)
        await wire.send("cancel", stream=number)
        assert (await wire.ask("cancel", stream=number))["type"] == "ack"
        await wire.ask("ping")
        assert len(wire.messages("stream.cancelled")) == 1
        assert len(wire.messages("warning", code="unknown_stream")) == 1


async def test_a_text_that_is_made_but_not_heard_can_still_be_cancelled(
    settings: Settings,
) -> None:
    # 110 s of audio fit into max_lead_ms, so it is made at once; the reader reads none of it.
    async with serving(settings, max_lead_ms=600_000) as served, served.client(queue=1) as wire:
        number = await wire.speak("One two three four. " * 100)
        await served.until(lambda: served.voice.active == 0)
        assert served.server.streams.live == []
        await wire.send("cancel", id="c", stream=number)
        await wire.until("stream.cancelled")
        assert wire.messages("stream.done") == []
        assert wire.messages("warning") == []
        await still_fine(wire)


class CancelledByItself:
    """A voice that somebody cancels while it has an event in hand."""

    def __init__(self) -> None:
        self.cancel: Callable[[], None] = lambda: None
        self.active = 0

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        self.active += 1
        async with aclosing(self.events(request)) as events:
            yield told(events)
        self.active -= 1

    async def events(self, request: SpeechRequest | LiveRequest) -> AsyncGenerator[Event]:
        async with ToneVoice()(request) as events:
            async for event in events:
                yield event
                if isinstance(event, Frame) and event.seq == 3:
                    self.cancel()


async def test_an_event_that_is_made_while_the_stream_is_cancelled_is_not_sent(
    settings: Settings,
) -> None:
    voice = CancelledByItself()
    async with serving(settings, speak=voice) as served, served.client() as wire:

        def cancel() -> None:
            live = served.server.streams.find(1)
            assert live is not None
            live.cancel()

        voice.cancel = cancel
        number = await wire.speak(TEXT)
        await wire.until("stream.cancelled")
        await wire.ask("ping")
        assert wire.order(number)[-1] == "stream.cancelled"
        assert voice.active == 0
