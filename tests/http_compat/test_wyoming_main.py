"""`python -m http_compat.wyoming` and the package's own client, as Home Assistant uses it."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
import trio
from wyoming.client import AsyncTcpClient
from wyoming.error import Error
from wyoming.event import Event
from wyoming.info import Describe, Info
from wyoming.ping import Ping, Pong
from wyoming.tts import (
    Synthesize,
    SynthesizeChunk,
    SynthesizeStart,
    SynthesizeStop,
    SynthesizeVoice,
)

from engine.config import Settings
from engine.process import open_listeners
from engine.request import SpeechRequest
from tests.support.access import TOKEN
from tests.support.processes import Running, run_module, started
from tests.support.reading import hear
from tests.support.tone import ToneVoice
from wsproto_api.server import EngineServer

TEXT = "One two. Three four five! Is it six?"

T = TypeVar("T")


@asynccontextmanager
async def wyoming(voice: ToneVoice, settings: Settings) -> AsyncIterator[tuple[Running, int]]:
    """The process, with an engine in front of a fake voice; gives its port."""
    listeners = await open_listeners("127.0.0.1", 0)
    engine_port = listeners[0].socket.getsockname()[1]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            await nursery.start(EngineServer(voice, voice, settings, TOKEN).serve, listeners)
            arguments = ["--port", "0", "--engine-port", str(engine_port)]
            with started("http_compat.wyoming", *arguments) as running:
                yield running, await port_of(running)
            nursery.cancel_scope.cancel()


async def port_of(running: Running) -> int:
    await trio.to_thread.run_sync(running.until, "ready")
    found = re.search(r"address=tcp://127\.0\.0\.1:(\d+)", "".join(running.told))
    assert found
    return int(found[1])


async def in_asyncio(talk: Callable[[AsyncTcpClient], Coroutine[Any, Any, T]], port: int) -> T:
    """What a conversation gives, held with the package's client in a thread."""

    async def connected() -> T:
        async with AsyncTcpClient("127.0.0.1", port, read_timeout=20) as client:
            return await talk(client)

    return await trio.to_thread.run_sync(lambda: asyncio.run(connected()))


async def until(client: AsyncTcpClient, type_: str) -> list[Event]:
    found: list[Event] = []
    while not (found and found[-1].type == type_):
        event = await client.read_event()
        assert event is not None
        found.append(event)
    return found


async def write(client: AsyncTcpClient, *events: Any) -> None:
    for event in events:
        await client.write_event(event.event())


def sound(events: Sequence[Event]) -> bytes:
    return b"".join(event.payload or b"" for event in events if event.type == "audio-chunk")


async def test_what_home_assistant_does(settings: Settings) -> None:
    voice = ToneVoice()
    whole = await hear(ToneVoice(), SpeechRequest(text=TEXT))
    chosen = SynthesizeVoice(name="bm_fable")

    async def set_up(client: AsyncTcpClient) -> Info:
        await write(client, Describe(), Ping("here?"))
        info, pong = await until(client, "pong")
        assert Pong.from_event(pong).text == "here?"
        return Info.from_event(info)

    async def one_shot(client: AsyncTcpClient) -> bytes:
        await write(client, Synthesize(TEXT, voice=chosen))
        return sound(await until(client, "audio-stop"))

    async def in_pieces(client: AsyncTcpClient) -> bytes:
        await write(client, SynthesizeStart(voice=chosen), SynthesizeChunk(TEXT[:12]))
        heard = await until(client, "audio-chunk")  # before the text is complete
        await write(client, *(SynthesizeChunk(piece) for piece in TEXT[12:]))
        await write(client, Synthesize(TEXT, voice=chosen), SynthesizeStop())
        return sound([*heard, *await until(client, "synthesize-stopped")])

    async def wrong_voice(client: AsyncTcpClient) -> Error:
        await write(client, Synthesize(TEXT, voice=SynthesizeVoice(name="nobody")))
        event = await client.read_event()
        assert event is not None
        assert await client.read_event() is None  # closed: nobody waits for a sound
        return Error.from_event(event)

    async with wyoming(voice, settings) as (running, port):
        (program,) = (await in_asyncio(set_up, port)).tts
        assert {v.name: v.languages for v in program.voices} == {
            "af_heart": ["en-US"],
            "bm_fable": ["en-GB"],
        }
        assert await in_asyncio(one_shot, port) == whole.pcm
        assert await in_asyncio(in_pieces, port) == whole.pcm
        assert voice.segments_made == 6  # the copy of the text was not spoken
        assert (await in_asyncio(wrong_voice, port)).code == "unknown_voice"
        assert await trio.to_thread.run_sync(running.end, signal.SIGTERM) == 0
    assert voice.active == 0
    printed = "".join(running.told)
    assert "Traceback" not in printed
    assert "three" not in printed.lower()


async def test_who_hangs_up_is_not_spoken_for_and_bytes_are_no_harm(settings: Settings) -> None:
    voice = ToneVoice(rtf=0.1)

    async def hang_up(client: AsyncTcpClient) -> None:
        await write(client, Synthesize("One. " * 1_000))
        await until(client, "audio-chunk")

    async def half_a_text(client: AsyncTcpClient) -> None:
        await write(client, SynthesizeStart(), SynthesizeChunk("One. Two."))
        await until(client, "audio-chunk")

    async with wyoming(voice, settings) as (running, port):
        for talk in (hang_up, half_a_text):
            await in_asyncio(talk, port)
            while voice.active:  # noqa: ASYNC110 - nobody is told; `wyoming` has a limit
                await trio.sleep(0.01)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            # More than is read: the answer comes all the same.
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(300_000))
            answer = b"".join([bytes(data) async for data in stream])
        assert b"takes no other protocol" in answer
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b'{"type": "synthesize", "data_length": 99}\n{"text": "On')
        assert await trio.to_thread.run_sync(running.end, signal.SIGINT) == 130
    assert voice.segments_made < 100
    assert "Traceback" not in "".join(running.told)


async def test_without_an_engine_or_with_one_that_refuses_us_there_is_an_answer(
    settings: Settings,
) -> None:
    async def refused(asks: Describe | Synthesize | SynthesizeStart, port: int) -> str:
        async def talk(client: AsyncTcpClient) -> Error:
            await write(client, asks)
            event = await client.read_event()
            assert event is not None
            return Error.from_event(event)

        error = await in_asyncio(talk, port)
        assert error.code == "not_ready"
        return error.text

    nobody = trio.socket.socket()
    await nobody.bind(("127.0.0.1", 0))  # taken and not listened to
    engine_port = str(nobody.getsockname()[1])
    with (
        nobody,
        trio.fail_after(60),
        started("http_compat.wyoming", "--port", "0", "--engine-port", engine_port) as running,
    ):
        port = await port_of(running)
        assert "make up" in await refused(Describe(), port)
        nobody.listen()
        engine = EngineServer(ToneVoice(), ToneVoice(), settings, "another-token-than-we-have")
        async with trio.open_nursery() as nursery:
            await nursery.start(engine.serve, [trio.SocketListener(nobody)])
            for asks in (Describe(), Synthesize("One."), SynthesizeStart()):
                assert "start them with the same settings" in await refused(asks, port)
            nursery.cancel_scope.cancel()
        await trio.to_thread.run_sync(running.until, "refuses the token of this server")


def test_a_taken_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run_module("http_compat.wyoming", "--port", str(port))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"Port {port} on 127.0.0.1 is already in use" in done.stderr


def test_other_machines_only_if_it_is_said() -> None:
    done = run_module("http_compat.wyoming", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "Wyoming has no password" in done.stderr
    assert "KOKORO_LIVE_WYOMING_OPEN=1" in done.stderr
    with started(
        "http_compat.wyoming", "--host", "0.0.0.0", "--port", "0", wyoming_open=1
    ) as open_:
        open_.until("ready", "Wyoming has no password")
        assert open_.end(signal.SIGTERM) == 0


@pytest.mark.parametrize(("on", "told"), [(0, ""), (1, "wyoming\n")])
def test_make_up_is_told_whether_it_is_wanted(on: int, told: str) -> None:
    done = run_module("http_compat.wyoming", "--wanted", wyoming=on)
    assert (done.returncode, done.stdout) == (0, told)
