"""Connections coming, going and misbehaving; the server's end. Over real sockets of loopback."""

from __future__ import annotations

import ipaddress
import logging
import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import pytest
import structlog
import trio
import trio.testing
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.trio.client import connect as open_websocket

from engine.config import Settings
from engine.process import open_listeners
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages, security
from wsproto_api.door import DRAIN_TIMEOUT_S
from wsproto_api.peer import Peer, serve_peers
from wsproto_api.server import EngineServer
from wsproto_api.sockets import CLOSE_TIMEOUT_S

from .serving import PATIENCE_S, Served, Wire, http, serving

TEXT = "One two three. Four five."
LONG = "One two three four. " * 100


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


# --- messages that are too big --------------------------------------------------------------


async def test_a_message_over_64_kib_closes_its_socket_and_no_other(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as other:
        async with served.client() as wire:
            await wire.send("speak", id="x", text="a" * 65_536)
            assert await wire.closed() == 1009
        await served.until(lambda: len(served.server.clients) == 1)
        assert (await other.ask("ping"))["type"] == "pong"
        async with served.client() as again:
            assert (await again.ask("ping"))["type"] == "pong"


async def test_a_message_of_64_kib_is_read(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        empty = '{"type":"speak","id":"x","voice":"no","text":""}'
        text = "a" * (65_536 - len(empty))
        await wire.send_raw(empty.replace('"text":""', f'"text":"{text}"'))
        assert (await wire.until("error", reply_to="x"))["code"] == "unknown_voice"


async def test_a_message_in_many_fragments_counts_as_one(settings: Settings) -> None:
    async with serving(settings) as served:
        async with served.client() as wire:
            await wire.websocket.send(['{"type":"pi', 'ng"}'])
            await wire.until("pong")

            async def send_too_much() -> None:
                await wire.websocket.send(["a" * 30_000] * 3)
                await wire.closed()
                await wire.websocket.send("x")

            with pytest.raises(ConnectionClosed):
                await send_too_much()
            assert wire.websocket.close_code == 1009


async def test_text_that_is_not_utf8_closes_the_socket(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        await wire.websocket.send(b"\xff\xfe", text=True)
        assert await wire.closed() == 1007


# --- who may come in ------------------------------------------------------------------------

UPGRADE = """GET {path} HTTP/1.1
{host}Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
{more}
"""


BEARER = f"Authorization: Bearer {TOKEN}\n"


async def status_of(
    served: Served, *, host: str | None = None, more: str = "", path: str = "/"
) -> bytes:
    """The status line of an opening handshake as it stands, with the token."""
    head = f"Host: 127.0.0.1:{served.port}\n" if host is None else host
    request = UPGRADE.format(path=path, host=head, more=BEARER + more)
    return (await http(served.port, request, closes=False)).split(b"\r\n")[0]


async def test_pages_and_programs_that_may_come_in(settings: Settings) -> None:
    async with serving(settings, http_port=8880) as served:
        for origin in (None, "http://127.0.0.1:8880", "http://localhost:8880"):
            async with served.client(origin=origin) as wire:
                assert (await wire.ask("ping"))["type"] == "pong"
        assert b" 101 " in await status_of(served, host=f"Host: LOCALHOST:{served.port}\n")


@pytest.mark.parametrize(
    "origin", ["null", "http://evil.example", "http://127.0.0.1:1", "https://localhost:8880", ""]
)
async def test_other_pages_are_refused_before_the_upgrade(settings: Settings, origin: str) -> None:
    async with serving(settings, http_port=8880) as served:
        with pytest.raises(InvalidStatus) as caught:
            # the library leaves its own task in the nursery, which the helper cancels
            await connect_once(served, origin)
        assert caught.value.response.status_code == 403
        assert b"Origin" in (caught.value.response.body or b"")
        assert served.server.clients == set()
        async with served.client() as wire:
            assert (await wire.ask("ping"))["type"] == "pong"


async def connect_once(served: Served, origin: str) -> None:
    try:
        async with served.client(origin=origin):
            pytest.fail("it came in")
    except* InvalidStatus as group:
        raise group.exceptions[0] from None


@pytest.mark.parametrize(
    "host",
    [
        "",
        "Host: evil.example:{port}\n",
        "Host: 127.0.0.1:1\n",
        "Host: 127.0.0.1\n",
        "Host: x@127.0.0.1:{port}\n",
        "Host: 127.0.0.1:{port}\nHost: 127.0.0.1:{port}\n",
        "Host: 127.0.0.1:{port}\nHost: evil.example:{port}\n",
        "Host:\n",
    ],
)
async def test_other_hosts_are_refused_before_the_upgrade(
    settings: Settings, host: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(settings) as served:
        assert b" 403 " in await status_of(served, host=host.format(port=served.port))
        assert served.server.clients == set()
        metrics = f"GET /metrics HTTP/1.1\n{host.format(port=served.port)}\n"
        assert b" 403 " in await http(served.port, metrics)
    assert [r for r in caplog.records if r.levelno >= logging.ERROR] == []


async def test_several_origins_are_refused(settings: Settings) -> None:
    async with serving(settings, http_port=8880) as served:
        ours = "Origin: http://127.0.0.1:8880\n"
        assert b" 101 " in await status_of(served, more=ours)
        assert b" 403 " in await status_of(served, more=ours + ours)


async def test_subprotocols(settings: Settings) -> None:
    async with serving(settings) as served:
        for offered, chosen in (("kokoro.v1", True), ("other, kokoro.v1", True), ("other", False)):
            more = f"{BEARER}Sec-WebSocket-Protocol: {offered}\n"
            host = f"Host: 127.0.0.1:{served.port}\n"
            answer = await http(
                served.port, UPGRADE.format(path="/", host=host, more=more), closes=False
            )
            assert b" 101 " in answer
            assert (b"Sec-WebSocket-Protocol: kokoro.v1" in answer) is chosen


async def test_pages(settings: Settings) -> None:
    async with serving(settings) as served:
        request = "GET {} HTTP/1.1\nHost: localhost:" + str(served.port) + "\n\n"
        answer = await http(served.port, request.format("/metrics"))
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"Content-Type: text/plain; charset=utf-8" in head
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"kokoro_live_streams_active 0.0" in body
        other = request.format("/")[:-1] + BEARER + "\n"
        assert b" 426 " in await http(served.port, other)
        assert b" 403 " in await http(
            served.port, request.format("/metrics")[:-1] + "Origin: null\n\n"
        )


async def test_what_is_not_http_does_no_harm(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(settings) as served:
        for junk in ("\n", "\x16\x03\x01\x02", "POST / HTTP/1.1\nHost: x\n\n", "GET /\n\n"):
            await http(served.port, junk + "\n")
        stream = await trio.open_tcp_stream("127.0.0.1", served.port)
        await trio.aclose_forcefully(stream)
        async with served.client() as wire:
            assert (await wire.ask("ping"))["type"] == "pong"
    assert [r for r in caplog.records if r.levelno >= logging.WARNING and "peer" in r.name] == []


async def test_too_many_connections(settings: Settings) -> None:
    async with serving(settings, connections=2) as served:
        async with served.client() as one, served.client():
            assert b" 503 " in await status_of(served)
            metrics = f"GET /metrics HTTP/1.1\nHost: localhost:{served.port}\n\n"
            assert b" 200 " in await http(served.port, metrics)  # to see why
            await one.websocket.aclose()
            await served.until(lambda: len(served.server.clients) == 1)
            async with served.client() as wire:
                assert (await wire.ask("status"))["connections"] == 2


async def test_too_many_connections_at_the_same_moment(settings: Settings) -> None:
    async with serving(settings, connections=2) as served:
        codes: list[int | None] = []
        came = trio.Event()

        async def come() -> None:
            async with served.client(ready=False) as wire:
                codes.append(None)
                at = len(codes) - 1
                first = await wire.next()
                assert isinstance(first, dict)
                if first["type"] == "error":
                    assert (first["code"], first["fatal"]) == ("overloaded", True)
                    codes[at] = await wire.closed()
                if len(codes) == 5:
                    came.set()
                await came.wait()

        async def try_to_come() -> None:
            try:
                await come()
            except* InvalidStatus:
                codes.append(503)
                if len(codes) == 5:
                    came.set()

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(try_to_come)
        assert codes.count(None) == 2
        assert set(codes) <= {None, 503, 1013}


# --- clients that vanish --------------------------------------------------------------------


async def test_clients_that_vanish_leave_nothing_behind(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=1000, orphan_grace_ms=0) as served:
        before = living_tasks()

        async def polite(wire: Wire) -> None:
            await wire.websocket.aclose()

        async def rude(wire: Wire) -> None:
            await wire.drop()

        async def amid_frames(wire: Wire) -> None:
            await wire.speak(LONG)
            await wire.drop()

        async def unread(wire: Wire) -> None:
            await wire.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.drop()

        async def unread_with_an_answer_due(wire: Wire) -> None:
            await wire.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.send("ping", id="p")
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.drop()

        async def unread_with_many_answers_due(wire: Wire) -> None:
            await wire.speak(LONG)
            await trio.testing.wait_all_tasks_blocked(0.01)
            for _ in range(50):
                await wire.send("ping")
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.drop()

        async def without_waiting(wire: Wire) -> None:
            for n in range(5):
                await wire.send("speak", text=TEXT)
                await wire.send("ping", id=str(n))
            await wire.drop()

        async def half_a_message(wire: Wire) -> None:
            assert isinstance(wire.websocket.stream, trio.SocketStream)
            await wire.websocket.stream.send_all(b"\x81\xfe\x01")
            await wire.drop()

        for vanish in (
            polite, rude, amid_frames, unread, unread_with_an_answer_due,
            unread_with_many_answers_due, without_waiting, half_a_message,
        ):  # fmt: skip
            async with served.client(queue=1) as wire:
                await vanish(wire)
                await served.until(lambda: not served.server.clients)
                await served.until(lambda: served.voice.active == 0)
            await served.until(lambda: living_tasks() == before)
            assert served.server.streams.live == []


async def test_a_cancel_just_before_leaving_is_heard(settings: Settings) -> None:
    # The follower would keep the stream alive; only the message can end it.
    voice = ToneVoice(rtf=1000)
    async with serving(settings, voice) as served:
        async with served.client() as ear, served.client() as owner:
            number = await owner.speak(TEXT)
            await ear.ask("subscribe", stream=number)
            await owner.send("cancel", id="c", stream=number)
            await owner.drop()
            await ear.until("stream.cancelled")
            await served.until(lambda: voice.active == 0)


async def test_an_owner_that_does_not_read_can_cancel(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=1000) as served, served.client(queue=1) as wire:
        number = await wire.speak(LONG)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert served.voice.active == 1
        await wire.send("cancel", stream=number)
        await served.until(lambda: served.voice.active == 0)


@pytest.mark.parametrize("all_is_sent", [True, False])
async def test_a_client_that_does_not_read_for_hours_is_not_cut_off(
    settings: Settings, mock_clock: trio.testing.MockClock, all_is_sent: bool
) -> None:
    # A player with a full buffer reads nothing, and answers no pings, for as long as it plays.
    async with serving(settings, max_lead_ms=1000, patience_s=math.inf) as served:
        async with served.client(queue=1) as wire:
            number = await wire.speak(LONG[:20] if all_is_sent else LONG)
            await trio.testing.wait_all_tasks_blocked(0.02)
            live = served.server.streams.find(number)
            assert live is not None
            assert (live.log.over and not live.log.cursors) is all_is_sent
            for _ in range(20):
                mock_clock.jump(600)  # the library would send pings each 20 s
                await trio.testing.wait_all_tasks_blocked(0.001)
            await wire.until("stream.done")
            assert wire.frames(number)[-1].last


# --- the end --------------------------------------------------------------------------------


async def test_a_server_that_stops_says_goodbye_and_ends_its_streams(settings: Settings) -> None:
    voice = ToneVoice(rtf=1000)
    async with serving(settings, voice) as served, served.client() as idle:
        async with served.client() as busy:
            await busy.speak(TEXT)
            codes: list[int | None] = []

            async def wait_for_the_end(wire: Wire) -> None:
                codes.append(await wire.closed())

            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait_for_the_end, idle)
                nursery.start_soon(wait_for_the_end, busy)
                await trio.testing.wait_all_tasks_blocked(0.01)
                began = trio.current_time()
                await served.stop()
            assert codes == [1001, 1001]
            assert trio.current_time() - began < PATIENCE_S
            assert voice.active == 0
            assert served.server.clients == set()
            assert served.server.streams.live == []
        with pytest.raises(OSError, match="connect"):
            await trio.open_tcp_stream("127.0.0.1", served.port)


async def test_a_server_stops_though_a_client_does_not_read(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(settings, max_lead_ms=1000) as served, served.client(queue=1) as wire:
        await wire.speak(LONG)
        await trio.testing.wait_all_tasks_blocked(0.02)
        for _ in range(50):
            await wire.send("ping")
        await trio.testing.wait_all_tasks_blocked(0.02)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.stop)
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not served.stopped.is_set()  # it gives the client a moment
            while not served.stopped.is_set():
                mock_clock.jump(0.1)
                await trio.testing.wait_all_tasks_blocked(0.005)
        assert trio.current_time() - began <= DRAIN_TIMEOUT_S + CLOSE_TIMEOUT_S + 0.15
        assert served.voice.active == 0


async def test_a_server_stops_though_somebody_is_in_the_middle_of_the_handshake(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(settings) as served:
        async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\n")
            await trio.testing.wait_all_tasks_blocked(0.02)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(served.stop)
                await trio.testing.wait_all_tasks_blocked(0.02)
                mock_clock.jump(CLOSE_TIMEOUT_S)
            assert served.stopped.is_set()


# --- other users of `serve_peers` -----------------------------------------------------------


async def talk(port: int, text: str) -> int | None:
    """Says something and reads to the end; gives the close code."""
    url = f"ws://127.0.0.1:{port}/"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with open_websocket(
        url, additional_headers=headers, compression=None, proxy=None
    ) as websocket:
        await websocket.send(text)
        with suppress(ConnectionClosed):
            while True:
                await websocket.recv()
        return websocket.close_code


async def serve_with(nursery: trio.Nursery, handle: Callable[[Peer], Awaitable[None]]) -> int:
    listeners = await open_listeners("127.0.0.1", 0)
    port = int(listeners[0].socket.getsockname()[1])
    await nursery.start(
        partial(
            serve_peers,
            handle,
            listeners,
            client=messages.ENGINE_CLIENT,
            server=messages.ENGINE_SERVER,
            policy=security.Policy(port=port, bind=ipaddress.IPv4Address("127.0.0.1"), token=TOKEN),
            connections=4,
            messages_per_s=200,
        )
    )
    return port


async def test_a_handler_with_a_bug_closes_its_connection_and_no_secret_is_logged(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    structlog.reset_defaults()

    async def handle(peer: Peer) -> None:
        async for _ in peer:
            async with trio.open_nursery():
                raise RuntimeError("swordfish")

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            port = await serve_with(nursery, handle)
            for _ in range(2):
                code = await talk(port, '{"type":"ping"}')
                assert code == 1011
            nursery.cancel_scope.cancel()
    out, err = capfd.readouterr()
    assert "RuntimeError at" in out + err
    assert "swordfish" not in out + err + caplog.text


async def test_a_handler_that_returns_closes_the_connection() -> None:
    async def handle(peer: Peer) -> None:
        await anext(peer)

    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            port = await serve_with(nursery, handle)
            assert await talk(port, '{"type":"ping"}') == 1000
            nursery.cancel_scope.cancel()


async def test_a_handler_lets_a_client_go_that_does_not_read(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    voice = ToneVoice()
    ready = EngineServer(voice, voice, settings, TOKEN).ready()
    enough, returned = trio.Event(), trio.Event()

    async def flood(peer: Peer) -> None:
        await peer.send(ready)
        while True:
            await peer.send(messages.Warning(code="c", message="x" * 60_000))

    async def handle(peer: Peer) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(flood, peer)
            await enough.wait()
            nursery.cancel_scope.cancel()
        returned.set()

    async with trio.open_nursery() as nursery:
        port = await serve_with(nursery, handle)
        before = living_tasks()
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        host = f"Host: 127.0.0.1:{port}\n"
        request = UPGRADE.format(path="/", host=host, more=BEARER).replace("\n", "\r\n")
        await stream.send_all(request.encode())
        await trio.testing.wait_all_tasks_blocked(0.02)
        enough.set()
        await returned.wait()
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert living_tasks() > before  # it still hopes that the client takes its goodbye
        mock_clock.jump(CLOSE_TIMEOUT_S)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert living_tasks() == before
        await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()
