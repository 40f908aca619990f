"""`Speak` over a WebSocket: what goes wrong becomes our errors, and whoever leaves leaves nothing."""

from __future__ import annotations

import math
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import NoReturn

import msgspec
import pytest
import trio
import trio.testing
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.trio.server import ServerConnection
from websockets.trio.server import serve as serve_websocket

from engine.config import Settings
from engine.errors import (
    BY_CODE,
    ConfigError,
    EngineError,
    InternalError,
    InvalidRequest,
    NotReady,
    Overloaded,
    StreamCancelled,
    TextTooLong,
)
from engine.process import open_listeners
from engine.request import Done, Event, Frame, LiveRequest, Notice, Opened, SpeechRequest, Stream
from tests.support.access import TOKEN
from tests.support.reading import Heard, hear
from tests.support.tone import ToneVoice, told
from wsproto_api import frames, messages
from wsproto_api.client import (
    CONNECT_TIMEOUT_S,
    ask,
    connect,
)
from wsproto_api.sockets import CLOSE_TIMEOUT_S
from wsproto_api.speak import WebSocketSpeak

from .serving import PATIENCE_S, Served, ready_of, serving

TEXT = "One two three. Four five."
LONG = "One two three four. " * 100
REQUEST = SpeechRequest(text=TEXT)
VOICES = messages.AskVoices(id="voices")


def speak_to(served: Served) -> WebSocketSpeak:
    return WebSocketSpeak(served.url, TOKEN)


async def failure(url: str, request: SpeechRequest = REQUEST) -> EngineError:
    """The error with which speaking ends; it is one, and not in a group."""
    try:
        await hear(WebSocketSpeak(url, TOKEN), request)
    except EngineError as error:
        return error
    pytest.fail("it spoke")


# --- errors of the engine -------------------------------------------------------------------


class Failing(ToneVoice):
    """Fails on entry, or before its second segment."""

    def __init__(self, error: EngineError, *, on_entry: bool) -> None:
        super().__init__(fail_at=None if on_entry else 1, failure=error)
        self.error = error if on_entry else None

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        if self.error is not None:
            raise self.error
        async with super().__call__(request) as events:
            yield events


@pytest.mark.parametrize("on_entry", [True, False])
@pytest.mark.parametrize("code", BY_CODE)
async def test_every_error_arrives_as_what_it_was(
    settings: Settings, code: str, on_entry: bool
) -> None:
    sent = BY_CODE[code]("A sentence.", param="voice", retry_after_ms=70)
    async with serving(settings, Failing(sent, on_entry=on_entry)) as served:
        got: EngineError | None = None
        heard: list[Event] = []
        try:
            async with speak_to(served)(REQUEST) as events:
                assert not on_entry, "it was accepted"
                async for event in events:
                    heard.append(event)
        except EngineError as error:
            got = error
        assert got is not None
        assert type(got) is type(sent)
        assert (got.message, got.param, got.retry_after_ms) == ("A sentence.", "voice", 70)
        assert got.retryable == sent.retryable
        assert any(isinstance(event, Frame) for event in heard) is not on_entry
        assert served.voice.active == 0


async def test_a_stream_that_somebody_else_cancels(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served, served.client() as other:
        with pytest.raises(StreamCancelled):
            async with speak_to(served)(REQUEST) as events:
                assert isinstance(await anext(events), Opened)
                await other.ask("cancel", stream=1)
                async for _ in events:
                    pass


async def test_a_text_that_makes_too_long_a_message_is_not_sent(settings: Settings) -> None:
    async with serving(settings, text_chars=1_000_000) as served:
        for text in ("a" * 65_536, "🎧" * 16_384, "\x01" * 11_000):
            error = await failure(served.url, SpeechRequest(text=text))
            assert type(error) is TextTooLong
            assert error.param == "text"
            assert "65536" in error.message
        assert (await hear(speak_to(served), REQUEST)).of(Done)


async def test_notices_come_through(settings: Settings) -> None:
    class Noticing(ToneVoice):
        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            async with super().__call__(request) as events:
                yield told(self.with_notice(events))

        async def with_notice(self, events: AsyncIterator[Event]) -> AsyncIterator[Event]:
            yield await anext(events)
            yield Notice(code="dropped", message="Something was left out.")
            async for event in events:
                yield event

    async with serving(settings, Noticing()) as served:
        heard = await hear(speak_to(served), REQUEST)
        (notice,) = heard.of(Notice)
        assert (notice.code, notice.message) == ("dropped", "Something was left out.")
        assert isinstance(heard.events[0], Opened)


async def test_voices(settings: Settings) -> None:
    async with serving(settings) as served:
        assert (await ask(served.url, VOICES, messages.Voices, TOKEN)).voices == served.voice.voices
        await served.until(lambda: not served.server.clients)


# --- engines that are not there -------------------------------------------------------------


async def free_port() -> int:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        return int(listener.socket.getsockname()[1])


async def test_an_engine_that_is_absent() -> None:
    url = f"ws://127.0.0.1:{await free_port()}/"
    error = await failure(url)
    assert type(error) is NotReady
    assert error.message == f"Nothing answers at {url}; start it with `make up` and try again."
    assert error.retry_after_ms == 1000
    with pytest.raises(NotReady):
        await ask(url, VOICES, messages.Voices, TOKEN)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "127.0.0.1:1", "", "ws://"])
async def test_an_address_that_is_none(url: str) -> None:
    error = await failure(url)
    assert type(error) is ConfigError
    assert "ws://127.0.0.1:8881/" in error.message


async def test_a_name_that_is_not_known() -> None:
    class NobodyKnows(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_: object, **__: object) -> NoReturn:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_: object) -> NoReturn:
            raise NotImplementedError

    trio.socket.set_custom_hostname_resolver(NobodyKnows())
    assert type(await failure("ws://nobody.invalid:1/")) is NotReady


async def test_a_server_that_is_full(settings: Settings) -> None:
    async with serving(settings, connections=1) as served, served.client():
        error = await failure(served.url)
        assert type(error) is NotReady
        assert "Too many connections; close one first." in error.message


@asynccontextmanager
async def tcp(handle: Callable[[trio.SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    """A server below HTTP; gives its address."""
    async with trio.open_nursery() as nursery:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, handle, listeners)
        yield f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\x00\x01\x02\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>x",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"HTTP/1.1 101 Switching Proto",
    ],
)
async def test_something_else_on_the_port(answer: bytes) -> None:
    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer)

    with trio.fail_after(PATIENCE_S):
        async with tcp(handle) as url:
            error = await failure(url)
    assert type(error) is NotReady
    assert url in error.message


async def test_something_that_hangs_up_at_once() -> None:
    async def handle(stream: trio.SocketStream) -> None:
        await trio.aclose_forcefully(stream)

    with trio.fail_after(PATIENCE_S):
        async with tcp(handle) as url:
            assert type(await failure(url)) is NotReady


async def test_something_that_hangs_up_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send_all(_: trio.SocketStream, __: bytes) -> None:
        raise trio.BrokenResourceError

    monkeypatch.setattr(trio.SocketStream, "send_all", send_all)
    with trio.fail_after(PATIENCE_S):
        async with tcp(trio.aclose_forcefully) as url:
            assert type(await failure(url)) is NotReady


async def test_something_that_never_answers(mock_clock: trio.testing.MockClock) -> None:
    asked = trio.Event()

    async def handle(stream: trio.SocketStream) -> None:
        async with stream:
            assert await stream.receive_some()
            asked.set()
            while await stream.receive_some():
                pass

    async with tcp(handle) as url:
        await ends_at_the_timeout(url, asked, mock_clock)


async def test_something_that_never_says_ready(mock_clock: trio.testing.MockClock) -> None:
    asked = trio.Event()

    async def handle(websocket: ServerConnection) -> None:
        asked.set()
        async for _ in websocket:
            pass

    async with scripted(handle) as url:
        await ends_at_the_timeout(url, asked, mock_clock)


async def ends_at_the_timeout(
    url: str,
    asked: trio.Event,
    mock_clock: trio.testing.MockClock,
    wait: Callable[[], Awaitable[None]] | None = None,
    limit_s: float = CONNECT_TIMEOUT_S,
) -> None:
    errors: list[EngineError] = []

    async def try_it() -> None:
        if wait is None:
            errors.append(await failure(url))
            return
        with pytest.raises(EngineError) as caught:
            await wait()
        errors.append(caught.value)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(try_it)
        await asked.wait()
        await trio.testing.wait_all_tasks_blocked(0.01)
        mock_clock.jump(limit_s - 0.01)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert errors == []
        mock_clock.jump(0.01)
    assert type(errors[0]) is NotReady
    assert f"{url} does not answer yet" in errors[0].message


async def test_a_limit_of_ones_own(mock_clock: trio.testing.MockClock) -> None:
    """Whoever has a user waiting for the answer does not want to wait as long as others."""
    asked = trio.Event()

    async def handle(websocket: ServerConnection) -> None:
        asked.set()
        async for _ in websocket:
            pass

    async def speak(url: str) -> None:
        async with WebSocketSpeak(url, TOKEN, connect_s=1.0)(SpeechRequest(text="One.")):
            pass

    async with scripted(handle) as url:
        await ends_at_the_timeout(url, asked, mock_clock, partial(speak, url), 1.0)


async def test_a_question_that_is_never_answered(mock_clock: trio.testing.MockClock) -> None:
    asked = trio.Event()

    async def handle(websocket: ServerConnection) -> None:
        await websocket.send(messages.encode(READY))
        async for _ in websocket:
            asked.set()

    async def question(url: str) -> None:
        await ask(url, VOICES, messages.Voices, TOKEN, limit_s=1.0)

    async with scripted(handle) as url:
        await ends_at_the_timeout(url, asked, mock_clock, partial(question, url), 1.0)


# --- servers that do not keep to the protocol -----------------------------------------------


@asynccontextmanager
async def scripted(
    handle: Callable[[ServerConnection], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server that may say anything; gives its address."""
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(partial(serve_websocket, handle, listeners=listeners, compression=None))
        yield f"ws://127.0.0.1:{listeners[0].socket.getsockname()[1]}/"
        nursery.cancel_scope.cancel()


voice = ToneVoice()
READY = ready_of(voice.model, message_bytes=65536, orphan_grace_ms=0)
ACK = messages.Ack(reply_to="speak", stream=7)
OPENED = messages.StreamOpened(voice="v", lang="l", speed=1.0, stream=7, owner=True)
DONE = messages.StreamDone(samples=2, audio_ms=1.0, chars=1, segments=1, stream=7)
FRAME = frames.encode(7, Frame(seq=0, sample=0, pcm=b"\0\0", first=True))
LAST = frames.encode(7, Frame(seq=1, sample=1, pcm=b"", last=True))


def error(**fields: object) -> messages.Error:
    return msgspec.convert(
        {
            "type": "error", "code": "overloaded", "message": "Later.", "retryable": True,
            "fatal": False, **fields,
        },
        messages.Error,
    )  # fmt: skip


def script(
    *said: msgspec.Struct | str | bytes, then_wait: bool = True
) -> Callable[[ServerConnection], Awaitable[None]]:
    """Says all this whatever it is asked, and then listens or goes."""

    async def handle(websocket: ServerConnection) -> None:
        for message in said:
            is_struct = isinstance(message, msgspec.Struct)
            await websocket.send(messages.encode(message) if is_struct else message)  # type: ignore[arg-type]
        if then_wait:
            async for _ in websocket:
                pass

    return handle


async def test_a_script_that_keeps_to_it_is_understood() -> None:
    foreign = frames.encode(8, Frame(seq=0, sample=0, pcm=b"\1\1"))
    opened_8 = msgspec.structs.replace(OPENED, stream=8, owner=False)
    said = (
        READY, '{"type":"news","stream":7}', messages.Warning(code="c", message="m"),
        '{"type":"ack","reply_to":"speak","stream":7,"colour":"red"}', OPENED, opened_8, FRAME,
        '{"type":"news"}', foreign, msgspec.structs.replace(DONE, stream=8), error(stream=9),
        messages.Warning(code="w", message="m"), LAST, DONE,
    )  # fmt: skip
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(*said)) as url:
            heard = await hear(WebSocketSpeak(url, TOKEN), REQUEST)
    assert [type(event) for event in heard.events] == [
        messages.StreamOpened, Frame, messages.Warning, Frame, messages.StreamDone,
    ]  # fmt: skip
    assert heard.pcm == b"\0\0"


@pytest.mark.parametrize(
    "said",
    [
        ("{",),
        ("[]",),
        (b"",),
        (FRAME,),
        (ACK,),
        ('{"type":"ready"}',),
        (READY, READY),
        (READY, "nonsense"),
        (READY, messages.Ack(reply_to="other")),
        (READY, ACK, ACK),
        (READY, ACK, FRAME),
        (READY, ACK, DONE),
        (READY, ACK, OPENED, b"\x02" + FRAME[1:]),
        (READY, ACK, OPENED, FRAME[:-1]),
        (READY, ACK, OPENED, FRAME, FRAME),
        (READY, ACK, OPENED, FRAME, LAST, DONE, DONE),
        (READY, ACK, OPENED, FRAME, '{"type":"segment","stream":7}'),
        (READY, ACK, OPENED, FRAME, '{"type":"stream.done","stream":7,"samples":"two"}'),
    ],
)
async def test_a_server_that_breaks_the_protocol_is_an_internal_error(
    said: tuple[msgspec.Struct | str | bytes, ...],
) -> None:
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(*said)) as url:
            if said[-2:] == (DONE, DONE):
                heard = await hear(WebSocketSpeak(url, TOKEN), REQUEST)  # what follows is not read
                assert heard.of(Done)
                return
            caught = await failure(url)
    assert type(caught) is InternalError
    assert caught.message.startswith(f"{url} does not keep to kokoro.v1: ")
    assert caught.message.endswith(".")


@pytest.mark.parametrize(
    "said",
    [(), (READY,), (READY, ACK), (READY, ACK, OPENED), (READY, ACK, OPENED, FRAME, LAST)],
    ids=len,
)
@pytest.mark.parametrize("politely", [True, False])
async def test_a_connection_that_is_cut_is_not_ready(
    said: tuple[msgspec.Struct | bytes, ...], politely: bool
) -> None:
    async def handle(websocket: ServerConnection) -> None:
        await script(*said, then_wait=False)(websocket)
        if not politely:
            await trio.aclose_forcefully(websocket.stream)

    with trio.fail_after(PATIENCE_S):
        async with scripted(handle) as url:
            caught = await failure(url)
    assert isinstance(caught, NotReady)
    assert caught.message.startswith(f"{url} closed the connection: ")
    assert caught.retry_after_ms


async def test_a_message_over_64_kib_from_the_server_cuts_the_connection() -> None:
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(READY, ACK, OPENED, FRAME + b"\0" * 65_536)) as url:
            assert type(await failure(url)) is NotReady


@pytest.mark.parametrize(
    "said",
    [
        (error(fatal=True),),
        (READY, error(fatal=True)),
        (READY, error(reply_to="speak")),
        (READY, ACK, error()),
        (READY, ACK, error(fatal=True)),
        (READY, ACK, OPENED, FRAME, error(stream=7)),
        (READY, ACK, OPENED, FRAME, error(fatal=True)),
        (READY, ACK, OPENED, FRAME, error(stream=7, fatal=True)),
    ],
)
async def test_errors_are_raised_wherever_they_come(said: tuple[msgspec.Struct, ...]) -> None:
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(*said)) as url:
            caught = await failure(url)
    assert type(caught) is Overloaded
    assert caught.message == "Later."


async def test_a_fatal_error_of_another_stream_ends_this_one_too() -> None:
    said = (READY, ACK, OPENED, FRAME, error(stream=9, fatal=True))
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(*said, then_wait=False)) as url:
            assert type(await failure(url)) is NotReady


async def test_an_error_code_of_the_future_is_internal() -> None:
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(READY, error(code="too_tired"))) as url:
            assert type(await failure(url)) is InternalError


async def test_a_player_is_greeted_by_its_own_ready() -> None:
    ready = messages.PlayerReady(
        protocol=messages.PROTOCOL, server=READY.server, sink="null", sample_rate=24000
    )
    with trio.fail_after(PATIENCE_S):
        async with scripted(script(ready)) as url:
            async with connect(
                url,
                token=TOKEN,
                client=messages.PLAYER_CLIENT,
                server=messages.PLAYER_SERVER,
            ) as (_, got):
                assert got == ready


# --- leaving --------------------------------------------------------------------------------


def living() -> tuple[int, int]:
    """Tasks and open files."""
    return trio.lowlevel.current_statistics().tasks_living, len(os.listdir("/dev/fd"))


async def nothing_is_left(served: Served, before: tuple[int, int]) -> None:
    await served.until(lambda: not served.server.clients)
    await served.until(lambda: served.voice.active == 0)
    await served.until(lambda: living() == before)
    assert served.server.streams.live == []


@pytest.mark.parametrize("unread", [0, 5, 100])
async def test_leaving_early_cancels_in_the_engine(settings: Settings, unread: int) -> None:
    async with serving(settings, max_lead_ms=1000) as served:
        before = living()
        async with speak_to(served)(SpeechRequest(text=LONG)) as events:
            async for event in events:
                if isinstance(event, Frame) and event.seq >= 3:
                    break
            if unread:  # let frames pile up, here and in the sockets
                await trio.testing.wait_all_tasks_blocked(0.01)
            assert served.voice.active == 1
        await nothing_is_left(served, before)


async def test_leaving_early_ends_the_stream_for_its_followers_too(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served, served.client() as ear:
        await ear.ask("subscribe", stream="*")
        async with speak_to(served)(REQUEST):
            await ear.until("stream.opened")
        await ear.until("stream.cancelled")


async def test_a_cancelled_listener_ends_the_stream_for_its_followers_too(
    settings: Settings,
) -> None:
    async with serving(settings, ToneVoice(rtf=1000)) as served, served.client() as ear:
        await ear.ask("subscribe", stream="*")
        with trio.CancelScope() as scope:
            async with speak_to(served)(REQUEST):
                await ear.until("stream.opened")
                scope.cancel()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        await ear.until("stream.cancelled")


async def test_a_cancelled_listener_says_goodbye() -> None:
    codes: list[int | None] = []

    async def handle(websocket: ServerConnection) -> None:
        await script(READY, ACK, OPENED)(websocket)
        codes.append(websocket.close_code)

    with trio.fail_after(PATIENCE_S):
        async with scripted(handle) as url:
            with trio.CancelScope() as scope:
                async with WebSocketSpeak(url, TOKEN)(REQUEST):
                    scope.cancel()
                    await trio.sleep_forever()
            while not codes:
                await trio.testing.wait_all_tasks_blocked(0.005)
    assert codes == [1000]


async def test_leaving_at_the_end_cancels_nothing(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as ear:
        await ear.ask("subscribe", stream="*")
        await hear(speak_to(served), REQUEST)
        await ear.until("stream.done")
        await ear.ask("ping")
        assert ear.messages("stream.cancelled") == []
        assert ear.messages("warning") == []


async def test_leaving_by_an_exception_of_ones_own(settings: Settings) -> None:
    class Mine(Exception):
        pass

    async with serving(settings, ToneVoice(rtf=1000)) as served:
        before = living()
        with pytest.raises(Mine):
            async with speak_to(served)(REQUEST):
                raise Mine
        await nothing_is_left(served, before)
        group: ExceptionGroup[Exception] | None = None
        try:
            async with speak_to(served)(REQUEST):
                raise ExceptionGroup("two", [Mine(), Mine()])
        except ExceptionGroup as caught:
            group = caught
        assert group is not None
        assert len(group.exceptions) == 2
        await nothing_is_left(served, before)


class CancelAtStep(trio.abc.Instrument):
    """Cancels when a task is about to take its nth step."""

    def __init__(self, task: trio.lowlevel.Task, scope: trio.CancelScope, step: int) -> None:
        self.task, self.scope, self.left = task, scope, step

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


def steps() -> Iterator[int]:
    """All of the first, where everything happens; then fewer and fewer."""
    yield from range(1, 60)
    yield from range(60, 1000, 29)


async def test_cancelling_at_any_moment_leaves_no_task_socket_or_stream(
    settings: Settings,
) -> None:
    request = SpeechRequest(text="One two three four. " * 3)
    async with serving(settings) as served:
        before = living()
        for step in steps():
            heard: Heard | None = None
            with trio.CancelScope() as scope:
                at_step = CancelAtStep(trio.lowlevel.current_task(), scope, step)
                trio.lowlevel.add_instrument(at_step)
                try:
                    heard = await hear(speak_to(served), request)
                finally:
                    trio.lowlevel.remove_instrument(at_step)
            await nothing_is_left(served, before)
            if heard is not None and not scope.cancelled_caught:
                break
        assert heard is not None, "it never came to its end: more steps are needed"
        assert step > 60
        assert heard.of(Done)


async def test_a_listener_that_pauses_for_hours_hears_the_rest(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(settings, max_lead_ms=1000, patience_s=math.inf) as served:
        heard = Heard()
        async with speak_to(served)(SpeechRequest(text=LONG)) as events:
            async for event in events:
                heard.events.append(event)
                if isinstance(event, Frame) and event.seq == 3:
                    await trio.testing.wait_all_tasks_blocked(0.02)
                    assert served.voice.segments_made < 50  # the engine waits
                    for _ in range(20):
                        mock_clock.jump(600)
                        await trio.testing.wait_all_tasks_blocked(0.001)
        assert heard.of(Done)
        assert [frame.seq for frame in heard.of(Frame)] == list(range(len(heard.of(Frame))))


async def test_leaving_a_server_that_is_stuck_takes_a_moment_and_no_longer(
    mock_clock: trio.testing.MockClock,
) -> None:
    stuck = trio.Event()

    async def handle(websocket: ServerConnection) -> None:
        await script(READY, ACK, OPENED, then_wait=False)(websocket)
        await stuck.wait()  # reads on in its library, which answers our goodbye; so stop that too

    async def frozen(websocket: ServerConnection) -> None:
        websocket.pause_reading()
        await handle(websocket)

    left = trio.Event()

    async def visit(url: str) -> None:
        async with WebSocketSpeak(url, TOKEN)(REQUEST):
            pass
        left.set()

    async with scripted(frozen) as url:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(visit, url)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not left.is_set()
            mock_clock.jump(CLOSE_TIMEOUT_S)
            await left.wait()
        stuck.set()


async def test_leaving_takes_no_time_though_much_is_unread(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    # Whoever interrupts a text to speak another waits for this.
    left = trio.Event()

    async def visit(url: str) -> None:
        async with WebSocketSpeak(url, TOKEN)(SpeechRequest(text=LONG)):
            await trio.testing.wait_all_tasks_blocked(0.01)
        left.set()

    async with serving(settings, patience_s=math.inf) as served:
        served.nursery.start_soon(visit, served.url)
        for _ in range(50):
            await trio.testing.wait_all_tasks_blocked(0.02)
            if left.is_set():
                break
        prompt = left.is_set()
        mock_clock.jump(CLOSE_TIMEOUT_S)
        await left.wait()
        assert prompt


async def test_leaving_a_server_that_goes_on_talking_takes_a_moment_and_no_longer(
    mock_clock: trio.testing.MockClock,
) -> None:
    async def handle(stream: trio.SocketStream) -> None:
        server = ServerProtocol()
        while not server.events_received():
            server.receive_data(await stream.receive_some())
            for request in server.events_received():
                assert isinstance(request, Request)
                server.send_response(server.accept(request))
                break
            else:
                continue
            break
        for message in (READY, ACK, OPENED):
            server.send_text(messages.encode(message).encode())
        for data in server.data_to_send():
            await stream.send_all(data)
        async with trio.open_nursery() as nursery:

            async def talk() -> None:
                with suppress(trio.BrokenResourceError):
                    while True:  # short ones: thousands of them are read at a time
                        await stream.send_all(b"\x81\x02{}" * 8000)

            nursery.start_soon(talk)
            while server.close_rcvd is None:
                server.receive_data(await stream.receive_some())
            mock_clock.jump(CLOSE_TIMEOUT_S)

    async with tcp(handle) as url:
        async with WebSocketSpeak(url, TOKEN)(REQUEST):
            pass
        assert trio.current_time() == CLOSE_TIMEOUT_S


async def test_a_refused_request_leaves_nothing_either(settings: Settings) -> None:
    async with serving(settings) as served:
        before = living()
        with pytest.raises(InvalidRequest):
            await hear(speak_to(served), SpeechRequest(text=" "))
        await nothing_is_left(served, before)
