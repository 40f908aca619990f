"""The application under test: a speaker the test can hold, and a real server on a free port."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from msgspec.structs import replace
from quart_trio import QuartTrio
from werkzeug.datastructures import Headers

from engine import config
from engine.config import Settings
from engine.errors import NotReady
from engine.process import open_listeners
from engine.report import State
from engine.request import (
    Done,
    Event,
    Frame,
    Notice,
    Opened,
    SegmentStart,
    Speak,
    SpeechRequest,
    VoiceInfo,
)
from http_compat import server
from http_compat.app import create_app
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages, security
from wsproto_api.messages import PlayerState, SessionReset, Status

PORT = 8880
HOST = {"Host": f"127.0.0.1:{PORT}"}
JSON = {**HOST, "Content-Type": "application/json"}
SPEECH = "/v1/audio/speech"


def defaults(**changed: object) -> Settings:
    """Settings that no file and no environment has changed."""
    return config.load(changed, environ={}, file=Path("there-is-no-such-file")).settings


class Gate:
    """A `Speak` that stops before a segment until the test opens it.

    Args:
        speak: who speaks.
        before: index of the segment.
    """

    def __init__(self, speak: Speak, *, before: int = 1) -> None:
        self.reached = trio.Event()
        self.opened = trio.Event()
        self.left = trio.Event()
        self._speak = speak
        self._before = before

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        try:
            async with self._speak(request) as events, aclosing(self._gated(events)) as gated:
                yield gated
        finally:
            self.left.set()

    async def _gated(self, events: AsyncIterator[Event]) -> AsyncGenerator[Event, None]:
        async for event in events:
            if isinstance(event, SegmentStart) and event.index == self._before:
                self.reached.set()
                await self.opened.wait()
            yield event


class Asked:
    """A `Speak` that keeps what it was asked."""

    def __init__(self) -> None:
        self.voice = ToneVoice()
        self.requests: list[SpeechRequest] = []

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        self.requests.append(request)
        known = SpeechRequest(text=request.text, marks=request.marks)
        async with self.voice(known) as events:
            yield events


@asynccontextmanager
async def say_nothing(request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
    """What the engine does with a text such as `---`."""

    async def events() -> AsyncGenerator[Event, None]:
        yield Opened(voice="af_heart", lang="en-us", speed=1)
        yield Notice(code="nothing_to_speak", message="There is nothing to speak in this text.")
        yield Frame(seq=0, sample=0, pcm=b"", first=True, last=True)
        yield Done(samples=0, audio_ms=0, chars=len(request.text), segments=0)

    async with aclosing(events()) as iterator:
        yield iterator


@dataclass
class Engine:
    """What the application asks besides `Speak`; `down` makes it refuse, and there may be a player."""

    speak: Speak = field(default_factory=ToneVoice)
    down: NotReady | None = None
    state: State = "busy"
    playing: PlayerState | None = None

    async def voices(self) -> Sequence[VoiceInfo]:
        await self._answering()
        return ToneVoice.voices

    async def status(self) -> Status:
        await self._answering()
        report = replace(ToneVoice().report(), state=self.state)
        return messages.status(report, streams=1, connections=1, uptime_s=2.5, instance="0" * 16)

    async def metrics(self) -> str:
        await self._answering()
        return "kokoro_live_streams_active 1.0\n"

    async def reset(self) -> SessionReset:
        await self._answering()
        return SessionReset(cancelled=1, result="cancelled")

    async def player(self) -> PlayerState:
        await self._answering()
        if self.playing is None:
            raise NotReady("There is no player.")
        return self.playing

    async def _answering(self) -> None:
        if self.down:
            raise self.down

    def app(self, port: int = PORT, settings: Settings | None = None) -> QuartTrio:
        """The application over this engine."""
        settings = (settings or defaults()).model_copy(update={"http_port": port})
        policy = security.policy(settings, port=port, token=TOKEN)
        return create_app(self.speak, self.voices, self, settings=settings, policy=policy)


@dataclass
class Served:
    """A server on a free port, and the means to stop it."""

    port: int
    scope: trio.CancelScope

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.port)

    def post(self, body: Mapping[str, object] | bytes, *headers: str, path: str = SPEECH) -> bytes:
        """The bytes of a request."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
            *headers,
        ]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Call:
    """One request to the application, without sockets.

    Attributes:
        status: of the answer; None until its headers are there.
        pieces: the body, piece by piece; ends when the application does.
        complete: whether the body came to its proper end.
        sends_all: whether the client ever sends the end of its own body.
    """

    status: int | None = None
    headers: Headers = field(default_factory=Headers)
    complete: bool = False
    sends_all: bool = True
    gone: trio.Event = field(default_factory=trio.Event)

    def __post_init__(self) -> None:
        self._sender, self.pieces = trio.open_memory_channel[bytes](0)

    def disconnect(self) -> None:
        """The client goes away."""
        self.gone.set()

    async def read(self) -> bytes:
        """The rest of the body, until it ends or breaks off."""
        return b"".join([piece async for piece in self.pieces])

    async def run(
        self, app: QuartTrio, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> None:
        """The server's side of it."""
        more = not self.sends_all
        events: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": more}]

        async def receive() -> dict[str, Any]:
            if events:
                return events.pop()
            await self.gone.wait()
            return {"type": "http.disconnect"}

        async def send(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start":
                self.status = event["status"]
                self.headers = Headers([(k.decode(), v.decode()) for k, v in event["headers"]])
            else:
                self.complete = not event["more_body"]
                await self._sender.send(event["body"])

        raw = [(k.lower().encode(), v.encode()) for k, v in headers.items()]
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http",
            "path": path.partition("?")[0], "query_string": path.partition("?")[2].encode(),
            "headers": raw,
        }  # fmt: skip
        async with self._sender:
            await app(scope, receive, send)  # type: ignore[arg-type]


@asynccontextmanager
async def calling(
    app: QuartTrio,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    *,
    sends_all: bool = True,
) -> AsyncIterator[Call]:
    """A call in progress. (Quart-Trio's test client cannot stop reading halfway.)"""
    call = Call(sends_all=sends_all)
    with trio.fail_after(60):  # virtual time, where there is a clock that jumps
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call.run, app, method, path, headers, body)
            yield call


@dataclass
class Reply:
    """A complete answer."""

    status: int
    headers: Headers
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: QuartTrio, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
) -> Reply:
    """One request, and the whole answer to it."""
    async with calling(app, method, path, headers, body) as call:
        data = await call.read()
    assert call.complete
    assert call.status is not None
    return Reply(call.status, call.headers, data)


async def post(app: QuartTrio, body: Any, path: str = SPEECH, **headers: str) -> Reply:
    return await ask(app, "POST", path, {**JSON, **headers}, json.dumps(body).encode())


async def get(app: QuartTrio, path: str, **headers: str) -> Reply:
    return await ask(app, "GET", path, {**HOST, **headers})


def told(response: Reply) -> dict[str, Any]:
    """The inner object of an error body, after what is the same for all of them."""
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"].startswith("req_")
    body = response.json
    assert list(body) == ["error"]
    detail: dict[str, Any] = body["error"]
    assert sorted(detail) == ["code", "message", "param", "type"]
    assert detail["message"].endswith(".")
    assert "Traceback" not in detail["message"]
    return detail


def length_ms(pcm: bytes) -> float:
    return len(pcm) / 48


def events_of(body: bytes) -> list[dict[str, Any]]:
    """The events of an answer, which has nothing else in it."""
    *events, rest = body.split(b"\n\n")
    assert rest == b""
    assert all(event.startswith(b"data: ") and b"\n" not in event for event in events)
    return [json.loads(event[6:]) for event in events]


def sound_of(body: bytes) -> bytes:
    """The container that came as events."""
    events = events_of(body)
    pieces = [each["audio"] for each in events if each["type"] == "speech.audio.delta"]
    return b"".join(map(base64.b64decode, pieces))


def served(speak: Speak | None = None) -> AbstractAsyncContextManager[Served]:
    """Serves the application over hypercorn while the context lasts."""
    return serving(Engine(speak) if speak else Engine())


@asynccontextmanager
async def serving(
    engine: Engine, settings: Settings | None = None, *, patience_s: float = 20
) -> AsyncIterator[Served]:
    """The same for an engine."""
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    with trio.fail_after(patience_s):  # a hang is a failure, not a wait
        async with trio.open_nursery() as nursery:
            await nursery.start(server.serve, engine.app(port, settings), listeners)
            yield Served(port, nursery.cancel_scope)
            nursery.cancel_scope.cancel()


async def read_all(stream: trio.SocketStream) -> bytes:
    """Everything until the other side closes."""
    data = bytearray()
    async for piece in stream:
        data += piece
    return bytes(data)
