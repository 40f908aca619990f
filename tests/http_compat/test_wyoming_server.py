"""The Wyoming server with a fake voice, over streams in memory and in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from trio.testing import MockClock, lockstep_stream_pair, memory_stream_pair, wait_all_tasks_blocked

from engine.audio import ms_to_samples, silence
from engine.config import Settings
from engine.errors import InternalError, NotReady, SynthesisFailed, UnknownStream
from engine.request import Event as Spoken
from engine.request import LiveRequest, SpeakLive, SpeechRequest, Stream, VoiceInfo
from http_compat.wyoming.events import Decoder, Event, encode
from http_compat.wyoming.server import WyomingServer
from tests.support.reading import hear
from tests.support.tone import WORD_MS, ToneVoice, told
from wsproto_api.sockets import STALL_S

from .serving import defaults, say_nothing
from .test_wyoming_events import CUTS, cut

TEXT = "One two. Three four five! Is it six?"
FORMAT = {"rate": 24_000, "width": 2, "channels": 1}
SILENCE = silence(ms_to_samples(100))


@dataclass
class Client:
    """The other end of a connection."""

    stream: trio.abc.HalfCloseableStream
    _decoder: Decoder = field(default_factory=Decoder)

    async def send(self, type_: str, **data: Any) -> None:
        await self.send_raw(encode(Event(type_, data)))

    async def send_raw(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def say(self, *pieces: str, **data: Any) -> None:
        """A text in pieces, as Home Assistant sends it: with the whole of it before the end."""
        await self.send("synthesize-start", **data)
        for piece in pieces:
            await self.send("synthesize-chunk", text=piece)
        await self.send("synthesize", text="".join(pieces), **data)
        await self.send("synthesize-stop")

    async def next(self) -> Event | None:
        """The next event; None if the server has closed."""
        while (event := self._decoder.next()) is None:
            data = await self.stream.receive_some()
            if not data:
                return None
            self._decoder.push(data)
        return event

    def push(self, data: bytes | bytearray) -> None:
        """What was read without this."""
        self._decoder.push(data)

    async def until(self, type_: str) -> list[Event]:
        """The events up to the first of this type."""
        found: list[Event] = []
        while not (found and found[-1].type == type_):
            event = await self.next()
            assert event is not None, f"closed after {types(found)}"
            found.append(event)
        return found

    async def rest(self) -> list[Event]:
        """All events until the server closes."""
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found

    async def refused(self) -> str:
        """The code of the error, which must be all that comes."""
        (error,) = await self.rest()
        assert error.type == "error"
        assert error.data["text"].endswith(".")
        return str(error.data["code"])


def types(events: Sequence[Event]) -> list[str]:
    """Their types; of chunks in a row only the first."""
    found: list[str] = []
    for event in events:
        if event.type != "audio-chunk" or found[-1:] != ["audio-chunk"]:
            found.append(event.type)
    return found


def sound(events: Sequence[Event]) -> bytes:
    """The PCM of the chunks, which must be in the engine's format."""
    chunks = [event for event in events if event.type == "audio-chunk"]
    assert all(chunk.data == FORMAT and chunk.payload for chunk in chunks)
    return b"".join(chunk.payload for chunk in chunks)


async def tones() -> Sequence[VoiceInfo]:
    return ToneVoice.voices


Voices = Callable[[], Awaitable[Sequence[VoiceInfo]]]
Pair = tuple[trio.abc.HalfCloseableStream, trio.abc.HalfCloseableStream]


@dataclass
class Served:
    """A server, to which one can connect."""

    server: WyomingServer
    nursery: trio.Nursery

    def connect(self, pair: Callable[[], Pair] = memory_stream_pair) -> Client:
        ours, its = pair()

        async def converse() -> None:
            async with its:
                await self.server.converse(its)

        self.nursery.start_soon(converse)
        return Client(ours)


@asynccontextmanager
async def serving(
    speak: SpeakLive, *, voices: Voices = tones, settings: Settings | None = None
) -> AsyncIterator[Served]:
    server = WyomingServer(speak, voices, settings or defaults())
    with trio.fail_after(600):
        async with trio.open_nursery() as nursery:
            yield Served(server, nursery)
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def client_of(speak: SpeakLive, **options: Any) -> AsyncIterator[Client]:
    async with serving(speak, **options) as served:
        yield served.connect()


class Listening:
    """Speaks as another one does, and keeps the requests."""

    def __init__(self, speak: SpeakLive) -> None:
        self.requests: list[SpeechRequest | LiveRequest] = []
        self._speak = speak

    def __call__(
        self, request: SpeechRequest | LiveRequest, /
    ) -> AbstractAsyncContextManager[Stream]:
        self.requests.append(request)
        return self._speak(request)


@asynccontextmanager
async def speak_nothing(request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
    """What the engine does with `---`."""
    text = request.text if isinstance(request, SpeechRequest) else ""
    async with say_nothing(SpeechRequest(text=text)) as events:
        yield told(events)


# --- what is there -------------------------------------------------------------------------------


async def test_info_tells_the_voices(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("describe")
        (info,) = await client.until("info")
    (program,) = info.data["tts"]
    assert [voice["name"] for voice in program["voices"]] == ["af_heart", "bm_fable"]
    assert program["supports_synthesize_streaming"] is True


async def test_info_without_an_engine_is_an_error_and_the_end(autojump_clock: MockClock) -> None:
    async def nobody() -> Sequence[VoiceInfo]:
        raise NotReady("Nothing answers.")

    async with client_of(ToneVoice(), voices=nobody) as client:
        await client.send("describe")
        assert await client.refused() == "not_ready"


@pytest.mark.parametrize("data", [{}, {"text": "still there?"}])
async def test_a_ping_is_answered_with_what_it_said(
    autojump_clock: MockClock, data: dict[str, str]
) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("ping", **data)
        assert await client.next() == Event("pong", data)


async def test_a_ping_is_answered_while_a_text_is_open(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("synthesize-start")
        await client.send("ping")
        assert await client.next() == Event("pong")


async def test_events_for_others_mean_nothing(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("select-program", name="kokoro-live")
        await client.send_raw(encode(Event("audio-chunk", FORMAT, bytes(2_000))))
        await client.send("synthesize-start")
        await client.send("transcribe")
        await client.send("synthesize-chunk", text="One.")
        await client.send("synthesize-stop")
        heard = await client.until("synthesize-stopped")
    assert len(sound(heard)) == WORD_MS * 48


# --- speech --------------------------------------------------------------------------------------


async def test_a_whole_text(autojump_clock: MockClock) -> None:
    whole = await hear(ToneVoice(), SpeechRequest(text=TEXT))
    async with client_of(ToneVoice()) as client:
        await client.send("synthesize", text=TEXT)
        heard = await client.until("audio-stop")
    assert types(heard) == ["audio-start", "audio-chunk", "audio-stop"]
    assert heard[0].data == FORMAT
    assert sound(heard) == whole.pcm != b""


@pytest.mark.parametrize("lengths", [[1], [3, 10], [1000]])
async def test_a_text_in_pieces_is_the_same_and_is_spoken_once(
    autojump_clock: MockClock, lengths: list[int]
) -> None:
    whole = await hear(ToneVoice(), SpeechRequest(text=TEXT))
    voice = ToneVoice()
    async with client_of(voice) as client:
        await client.say(*(piece.decode() for piece in cut(TEXT.encode(), lengths)))
        heard = await client.until("synthesize-stopped")
    assert types(heard) == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]
    assert sound(heard) == whole.pcm
    assert voice.segments_made == 3


async def test_sound_comes_while_the_text_still_does(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("synthesize-start")
        await client.send("synthesize-chunk", text="One. T")
        first = await client.until("audio-chunk")
        assert types(first) == ["audio-start", "audio-chunk"]
        await client.send("synthesize-chunk", text="wo.")
        await client.send("synthesize-stop")
        rest = await client.until("synthesize-stopped")
    assert len(sound([*first, *rest])) == 2 * WORD_MS * 48


async def test_one_text_after_the_other_on_one_connection(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice()) as client:
        await client.send("synthesize", text="One.")
        await client.say("One ", "two.")
        await client.send("synthesize", text="One two three.")
        lengths = [len(sound(await client.until("audio-stop"))) for _ in range(3)]
    assert lengths == [n * WORD_MS * 48 for n in (1, 2, 3)]


@pytest.mark.parametrize("text", ["", " \n"])
async def test_no_text_is_a_short_silence(autojump_clock: MockClock, text: str) -> None:
    voice = ToneVoice()
    async with client_of(voice) as client:
        await client.send("synthesize", text=text)
        assert sound(await client.until("audio-stop")) == SILENCE
        await client.say(text)
        heard = await client.until("synthesize-stopped")
    assert sound(heard) == SILENCE
    assert types(heard) == ["audio-start", "audio-chunk", "audio-stop", "synthesize-stopped"]


async def test_text_with_nothing_to_speak_in_it_is_a_short_silence(
    autojump_clock: MockClock,
) -> None:
    async with client_of(speak_nothing) as client:
        await client.send("synthesize", text="---")
        heard = await client.until("audio-stop")
    assert types(heard) == ["audio-start", "audio-chunk", "audio-stop"]
    assert sound(heard) == SILENCE


@pytest.mark.parametrize(
    ("voice", "chosen"),
    [
        (None, None),
        ({}, None),
        ({"name": ""}, None),
        ({"name": "bm_fable"}, "bm_fable"),
        ({"name": "bm_fable", "language": "en-US"}, "bm_fable"),
        ({"name": "af_heart", "speaker": "bm_fable"}, "bm_fable"),
        ({"speaker": "bm_fable"}, "bm_fable"),
        ({"language": "en-GB"}, "bm_fable"),
        ({"language": "en"}, "af_heart"),
    ],
)
async def test_the_voice_is_chosen(
    autojump_clock: MockClock, voice: dict[str, str] | None, chosen: str | None
) -> None:
    listening = Listening(ToneVoice())
    async with client_of(listening) as client:
        await client.send("synthesize", text="One.", voice=voice)
        await client.until("audio-stop")
        await client.say("One.", voice=voice)
        await client.until("synthesize-stopped")
    whole, pieces = listening.requests
    assert isinstance(whole, SpeechRequest)
    assert isinstance(pieces, LiveRequest)
    assert (whole.voice, pieces.voice) == (chosen, chosen)


@pytest.mark.parametrize(
    ("voice", "code"),
    [({"name": "nobody"}, "unknown_voice"), ({"language": "xx"}, "unsupported_language")],
)
async def test_a_voice_that_there_is_not_is_an_error(
    autojump_clock: MockClock, voice: dict[str, str], code: str
) -> None:
    async with serving(ToneVoice()) as served:
        client = served.connect()
        await client.send("synthesize", text="One.", voice=voice)
        assert await client.refused() == code
        client = served.connect()
        await client.say("One.", voice=voice)
        assert await client.refused() == code


@pytest.mark.parametrize("in_pieces", [False, True])
async def test_a_failure_in_the_middle_is_no_proper_end(
    autojump_clock: MockClock, in_pieces: bool
) -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("The model failed."))
    async with client_of(voice) as client:
        if in_pieces:
            await client.say("One. ", "Two. Three.")
        else:
            await client.send("synthesize", text="One. Two.")
        heard = await client.rest()
    assert types(heard) == ["audio-start", "audio-chunk", "error"]
    assert heard[-1].data == {"text": "The model failed.", "code": "synthesis_failed"}
    assert voice.active == 0


async def test_text_that_comes_too_late_does_not_hide_the_failure(
    autojump_clock: MockClock,
) -> None:
    class Over:
        """A stream that has failed, which is known to it before it is to its listener."""

        def __aiter__(self) -> AsyncIterator[Spoken]:
            return self

        async def __anext__(self) -> Spoken:
            await trio.sleep(1)
            raise SynthesisFailed("The model failed.")

        async def append(self, text: str, /) -> None:
            raise UnknownStream("The stream is over.")

    @asynccontextmanager
    async def speak(request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        yield cast(Stream, Over())

    async with client_of(speak) as client:
        await client.say("One.")
        assert await client.refused() == "synthesis_failed"


# --- limits --------------------------------------------------------------------------------------


async def test_a_text_may_be_so_long(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice(), settings=defaults(text_chars=9)) as client:
        await client.send("synthesize", text="One. Two.")
        await client.until("audio-stop")
        await client.send("synthesize", text="One. Two..")
        assert await client.refused() == "text_too_long"


async def test_a_piece_may_be_longer_than_what_may_wait(autojump_clock: MockClock) -> None:
    voice = ToneVoice(rtf=0.1)
    voice.text_chars = 600
    async with client_of(voice) as client:
        await client.say("One. " * 400)  # as one piece, as Home Assistant sends what is complete
        heard = await client.until("synthesize-stopped")
    assert len(sound(heard)) == 400 * WORD_MS * 48


async def test_a_text_in_pieces_has_an_end(autojump_clock: MockClock) -> None:
    voice = ToneVoice()
    voice.live_chars = 700
    async with client_of(voice) as client:
        await client.send("synthesize-start")
        for _ in range(200):
            await client.send("synthesize-chunk", text="One. ")
        heard = await client.rest()
    assert heard[-1].data["code"] == "text_too_long"
    assert voice.active == 0


async def test_there_may_be_so_many_connections(autojump_clock: MockClock) -> None:
    async with serving(ToneVoice(), settings=defaults(connections=2)) as served:
        first, second = served.connect(), served.connect()
        await wait_all_tasks_blocked()
        assert await served.connect().refused() == "overloaded"
        await first.stream.aclose()
        await wait_all_tasks_blocked()
        for client in (second, served.connect()):
            await client.send("ping")
            assert await client.next() == Event("pong")


async def test_a_slow_reader_holds_up_nobody_and_is_let_go_at_last(
    autojump_clock: MockClock,
) -> None:
    voice = ToneVoice()
    async with serving(voice) as served:
        slow = served.connect(lockstep_stream_pair)
        await slow.send("synthesize", text=TEXT)
        await wait_all_tasks_blocked()
        assert voice.active == 1
        began_s = trio.current_time()
        quick = served.connect()
        await quick.send("synthesize", text=TEXT)
        await quick.until("audio-stop")
        assert trio.current_time() == began_s
        assert voice.active == 1
        await trio.sleep(STALL_S + 1)
        assert voice.active == 0


# --- the end -------------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", ["whole", "pieces", "open"])
async def test_who_leaves_is_not_spoken_for(autojump_clock: MockClock, request_: str) -> None:
    voice = ToneVoice(rtf=1.0)
    text = "One. " * 50
    async with client_of(voice) as client:
        if request_ == "whole":
            await client.send("synthesize", text=text)
        elif request_ == "pieces":
            await client.say(text)
        else:
            await client.send("synthesize-start")
            await client.send("synthesize-chunk", text="One. Two.")
        await client.until("audio-chunk")
        assert voice.active == 1
        await client.stream.aclose()
        await wait_all_tasks_blocked()
        assert voice.active == 0
        assert voice.segments_made <= 2


async def test_who_leaves_while_others_wait_leaves_nothing(autojump_clock: MockClock) -> None:
    voice = ToneVoice(rtf=1.0)
    async with client_of(voice) as client:
        for _ in range(30):  # more than are read ahead
            await client.send("synthesize", text="One. Two.")
        await client.until("audio-chunk")
        await client.stream.aclose()
        await trio.sleep(5)
        assert voice.active == 0
        assert voice.segments_made <= 3


async def test_the_end_of_the_server_is_the_end_of_its_streams(autojump_clock: MockClock) -> None:
    voice = ToneVoice(rtf=1.0)
    async with client_of(voice) as client:
        await client.send("synthesize", text="One. Two. Three.")
        await client.until("audio-chunk")
        assert voice.active == 1
    assert voice.active == 0


@pytest.mark.parametrize(
    "events",
    [
        [("synthesize-chunk", {"text": "One."})],
        [("synthesize-stop", {})],
        [("synthesize-start", {}), ("synthesize-start", {})],
        [("synthesize", {})],
        [("synthesize-start", {}), ("synthesize-chunk", {"text": 5})],
        [("synthesize", {"text": "<speak/>", "text_format": "ssml"})],
    ],
)
async def test_what_makes_no_sense_is_an_error(
    autojump_clock: MockClock, events: list[tuple[str, dict[str, Any]]]
) -> None:
    voice = ToneVoice()
    async with client_of(voice) as client:
        for type_, data in events:
            await client.send(type_, **data)
        assert await client.refused() == "invalid_value"
    assert voice.active == 0


async def test_what_was_asked_before_it_is_spoken(autojump_clock: MockClock) -> None:
    async with client_of(ToneVoice(rtf=0.1)) as client:
        await client.send("synthesize", text="One.")
        await client.send_raw(b"GET / HTTP/1.1\r\n\r\n")
        assert types(await client.rest()) == ["audio-start", "audio-chunk", "audio-stop", "error"]


@pytest.mark.parametrize("then", ["error", "pong"])
async def test_what_comes_in_between_comes_behind_a_whole_event(
    autojump_clock: MockClock, then: str
) -> None:
    """To a slow reader, who has a part of a chunk when there is something else to be told."""
    async with serving(ToneVoice()) as served:
        client = served.connect(lockstep_stream_pair)
        await client.send("synthesize-start")
        await client.send("synthesize-chunk", text="One. Two.")
        begun = await client.stream.receive_some(200)
        await client.send_raw(b"nonsense\n" if then == "error" else encode(Event("ping")))
        await wait_all_tasks_blocked()
        client.push(begun)
        heard = await client.until(then)
    assert types(heard) == ["audio-start", "audio-chunk", then]
    assert sound(heard)


@pytest.mark.parametrize("error", [RuntimeError("My secret."), InternalError("It is broken.")])
async def test_a_crash_is_told_without_the_text(
    autojump_clock: MockClock, error: Exception
) -> None:
    @asynccontextmanager
    async def crash(request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        raise error
        yield

    with capture_logs() as logs:
        async with serving(crash) as served:
            for _ in range(2):
                client = served.connect()
                await client.send("synthesize", text="My secret.")
                assert await client.refused() == "internal"
                client = served.connect()
                await client.say("My secret.")
                assert await client.refused() == "internal"
    assert logs
    assert "secret" not in str(logs)


async def test_the_log_says_how_it_went_and_not_what_was_said(autojump_clock: MockClock) -> None:
    with capture_logs() as logs:
        async with client_of(ToneVoice(rtf=0.1)) as client:
            await client.send("synthesize", text="Secret.")
            await client.until("audio-stop")
            await client.say("Sec", "ret. Secret.")
            await client.until("synthesize-stopped")
            await client.send("synthesize", text="Secret.", voice={"name": "Secret"})
            await client.rest()
    assert [(line["kind"], line["chars"], line["outcome"]) for line in logs[:3]] == [
        ("whole", 7, "spoken"),
        ("pieces", 15, "spoken"),
        ("whole", 7, "unknown_voice"),
    ]
    assert logs[0]["first_audio_ms"] == pytest.approx(WORD_MS * 0.1, abs=0.1)
    assert "ecret" not in str(logs)


# --- any bytes -----------------------------------------------------------------------------------

PROGRAMS = st.lists(
    st.sampled_from(
        [
            encode(Event("describe")),
            encode(Event("synthesize", {"text": "One."})),
            encode(Event("synthesize-start")),
            encode(Event("synthesize-chunk", {"text": "One. T"})),
            encode(Event("synthesize-stop")),
            encode(Event("synthesize", {"text": 1})),
            encode(Event("synthesize", {"text": "One.", "voice": {"name": "x"}})),
            encode(Event("ping", {}, b"\n\n")),
            b"{}\n",
            b"\x00",
        ]
    ),
    max_size=8,
)


@given(PROGRAMS, CUTS)
def test_whatever_is_sent_there_are_events_at_most_one_error_and_the_end(
    parts: list[bytes], lengths: list[int]
) -> None:
    voice = ToneVoice()

    async def talk() -> list[Event]:
        async with client_of(voice) as client:
            with suppress(trio.BrokenResourceError):  # closed already, after an error
                for piece in cut(b"".join(parts), lengths):
                    await client.send_raw(piece)
            await wait_all_tasks_blocked()
            await client.stream.send_eof()
            return await client.rest()

    with capture_logs() as logs:
        heard = trio.run(talk, clock=MockClock(autojump_threshold=0))
    assert voice.active == 0
    assert "error" not in [event.type for event in heard[:-1]]
    assert not [line for line in logs if "crashed" in line["event"]]
