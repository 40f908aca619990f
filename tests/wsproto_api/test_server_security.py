"""Refusals, the phase of `auth`, limits of a connection, and draining. Over real sockets."""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine.config import Settings
from engine.process import open_listeners
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import messages, security
from wsproto_api.door import DRAIN_TIMEOUT_S
from wsproto_api.peer import ANSWERS, AUTH_TIMEOUT_S, Peer, serve_peers
from wsproto_api.server import EngineServer

from .serving import PATIENCE_S, Served, Wire, http, serving

WRONG = TOKEN[:-1] + "X"
PAGE = "http://127.0.0.1:8880"
PROTOCOL = messages.PROTOCOL

UPGRADE = """GET {path} HTTP/1.1
Host: {host}
Connection: Upgrade
Upgrade: websocket
Sec-WebSocket-Version: 13
Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==
{more}
"""


async def pong(peer: Peer, ready: messages.Ready) -> None:
    """What these servers do: they answer pings."""
    await peer.send(ready)
    async for message in peer:
        if isinstance(message, messages.Ping):
            peer.reply(messages.Pong(reply_to=message.id))


@asynccontextmanager
async def peers(
    settings: Settings,
    *,
    policy: Callable[[security.Policy], security.Policy] = lambda policy: policy,
    patience_s: float = PATIENCE_S,
    **options: Any,
) -> AsyncIterator[Served]:
    """Runs `serve_peers` with a policy of its own; by default everybody must show the token."""
    server = EngineServer(ToneVoice(), ToneVoice(), settings, TOKEN)
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    found = security.policy(settings, port=port, token=TOKEN, pages_need_token=True)
    options = {"connections": 8, "messages_per_s": 1000, **options}

    async def handle(peer: Peer) -> None:
        await pong(peer, server.ready())

    with trio.fail_after(patience_s):
        async with trio.open_nursery() as nursery:
            served = Served(server, ToneVoice(), port, trio.CancelScope(), nursery)

            async def run(*, task_status: trio.TaskStatus[None]) -> None:
                with served.scope:
                    await serve_peers(
                        handle,
                        listeners,
                        client=messages.ENGINE_CLIENT,
                        server=messages.ENGINE_SERVER,
                        policy=policy(found),
                        task_status=task_status,
                        **options,
                    )
                served.stopped.set()

            await nursery.start(run)
            yield served
            nursery.cancel_scope.cancel()


async def upgrade(served: Served, *more: str, path: str = "/", host: str | None = None) -> bytes:
    """The answer to an opening handshake as it stands: its head, or all of a refusal."""
    host = host or f"127.0.0.1:{served.port}"
    request = UPGRADE.format(path=path, host=host, more="".join(f"{line}\n" for line in more))
    return await http(served.port, request, closes=False)


async def fatal(wire: Wire, code: str = "unauthorized") -> str:
    """Reads up to the fatal error; gives its sentence."""
    found = await wire.until("error", fatal=True)
    assert found["code"] == code
    assert TOKEN not in str(found)
    assert WRONG not in str(found)
    return str(found["message"])


# --- before the upgrade ---------------------------------------------------------------------


async def test_a_program_without_the_token_hears_where_it_is(settings: Settings) -> None:
    async with serving(settings) as served:
        answer = await upgrade(served)
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"WWW-Authenticate: Bearer" in answer
        assert b"data_dir" in answer
        assert b"Content-Type: text/plain" in answer
        assert served.server.clients == set()


@pytest.mark.parametrize(
    "header", [f"Bearer {WRONG}", "Bearer", "Bearer \xff\xfe", f"Basic {TOKEN}", ""]
)
async def test_a_program_with_another_token_is_refused(settings: Settings, header: str) -> None:
    async with serving(settings) as served:
        answer = await upgrade(served, f"Authorization: {header}")
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert WRONG.encode() not in answer
        assert TOKEN.encode() not in answer


async def test_a_token_in_the_query_opens_nothing_and_is_not_logged(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with capture_logs() as logs:
        async with serving(settings) as served:
            for name in ("token", "access_token", "bearer"):
                answer = await upgrade(served, path=f"/?{name}={TOKEN}")
                assert answer.startswith(b"HTTP/1.1 401 ")
    assert TOKEN not in str(logs)
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("more", ["Origin: http://evil.example", "Origin: null"])
async def test_a_right_token_lets_no_foreign_page_in(settings: Settings, more: str) -> None:
    async with serving(settings) as served:
        answer = await upgrade(served, f"Authorization: Bearer {TOKEN}", more)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"`origins`" in answer


async def test_a_rebound_name_is_refused_with_the_right_token_too(settings: Settings) -> None:
    async with serving(settings) as served:
        host = f"127.0.0.1.evil.example:{served.port}"
        answer = await upgrade(served, f"Authorization: Bearer {TOKEN}", host=host)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"`hosts`" in answer


async def test_another_name_is_served_when_it_is_set(settings: Settings) -> None:
    async with serving(settings, hosts=("tts.lan",)) as served:
        bearer = f"Authorization: Bearer {TOKEN}"
        answer = await upgrade(served, bearer, host=f"tts.lan:{served.port}")
        assert answer.startswith(b"HTTP/1.1 101 ")


# --- the token of pages ---------------------------------------------------------------------


@pytest.mark.parametrize("origin", [None, PAGE])
async def test_the_token_as_a_subprotocol_is_never_said_back(
    settings: Settings, origin: str | None
) -> None:
    async with peers(settings) as served:
        lines = [f"Sec-WebSocket-Protocol: {PROTOCOL}, bearer.{TOKEN}"]
        lines += [f"Origin: {origin}"] if origin else []
        answer = await upgrade(served, *lines)
        assert answer.startswith(b"HTTP/1.1 101 ")
        assert f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n".encode() in answer
        assert b"bearer" not in answer
        assert TOKEN.encode() not in answer
        offered = (PROTOCOL, f"bearer.{TOKEN}")
        async with served.client(token=None, origin=origin, subprotocols=offered) as wire:
            assert wire.websocket.subprotocol == PROTOCOL
            assert (await wire.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("token", [WRONG, TOKEN[:-1], "x"])
@pytest.mark.parametrize("origin", [None, PAGE])
async def test_a_wrong_token_as_a_subprotocol_closes_with_4401(
    settings: Settings, token: str, origin: str | None
) -> None:
    async with peers(settings) as served:
        offered = (PROTOCOL, f"bearer.{token}")
        async with served.client(
            token=None, origin=origin, subprotocols=offered, ready=False
        ) as wire:
            await fatal(wire)
            assert await wire.closed() == security.UNAUTHORIZED_CLOSE
            assert wire.messages("ready") == []


async def test_a_page_of_the_engine_needs_no_token_but_no_wrong_one(settings: Settings) -> None:
    async with serving(settings, http_port=8880) as served:
        async with served.client(token=None, origin=PAGE) as wire:
            assert (await wire.ask("ping"))["type"] == "pong"
        offered = (PROTOCOL, f"bearer.{WRONG}")
        async with served.client(
            token=None, origin=PAGE, subprotocols=offered, ready=False
        ) as wire:
            assert await wire.closed() == security.UNAUTHORIZED_CLOSE


# --- the message `auth` ---------------------------------------------------------------------


@asynccontextmanager
async def page(served: Served) -> AsyncIterator[Wire]:
    """A page that has not shown the token yet."""
    async with served.client(token=None, origin=PAGE, ready=False) as wire:
        yield wire


async def test_ready_comes_after_auth_and_its_ack_after_ready(settings: Settings) -> None:
    async with peers(settings) as served, page(served) as wire:
        await trio.testing.wait_all_tasks_blocked(0.01)
        await wire.send("auth", token=TOKEN, id="a")
        await wire.until("ack", reply_to="a")
        assert [one["type"] for one in wire.seen if isinstance(one, dict)] == ["ready", "ack"]
        assert (await wire.ask("ping"))["type"] == "pong"


async def test_auth_without_an_id_has_no_answer_but_ready(settings: Settings) -> None:
    async with peers(settings) as served, page(served) as wire:
        await wire.send("auth", token=TOKEN)
        await wire.until("ready")
        assert (await wire.ask("ping"))["type"] == "pong"
        assert wire.messages("ack") == []


@pytest.mark.parametrize(
    "first",
    [
        '{"type": "auth", "token": "WRONG", "id": "a"}',
        '{"type": "auth", "token": ""}',
        '{"type": "auth"}',
        '{"type": "auth", "token": 7, "id": "a"}',
        '{"type": "auth", "token": "\\ud800"}',
        '{"type": "ping", "id": "a"}',
        '{"type": "speak", "text": "One.", "id": "a"}',
        '{"type": "nonsense", "id": "a"}',
        "nonsense",
        "[]",
        b"auth",
    ],
)
async def test_anything_else_first_closes_with_4401(settings: Settings, first: str | bytes) -> None:
    async with peers(settings) as served, page(served) as wire:
        await wire.send_raw(first.replace("WRONG", WRONG) if isinstance(first, str) else first)
        await fatal(wire)
        assert await wire.closed() == security.UNAUTHORIZED_CLOSE
        assert wire.messages("ready") == []


async def test_what_follows_the_wrong_message_is_not_looked_at(settings: Settings) -> None:
    async with peers(settings) as served, page(served) as wire:
        await wire.send("ping")
        await wire.send("auth", token=TOKEN)
        assert await wire.closed() == security.UNAUTHORIZED_CLOSE
        assert wire.messages("ready") == []


async def test_no_auth_in_time_closes_with_4408(settings: Settings, mock_clock: MockClock) -> None:
    async with peers(settings, patience_s=math.inf) as served, page(served) as wire:
        await trio.testing.wait_all_tasks_blocked(0.02)
        mock_clock.jump(AUTH_TIMEOUT_S - 0.1)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert wire.websocket.close_code is None
        mock_clock.jump(0.2)
        await fatal(wire)
        assert await wire.closed() == security.AUTH_TIMEOUT_CLOSE


async def test_who_leaves_instead_of_auth_does_no_harm(settings: Settings) -> None:
    async with peers(settings, connections=1) as served:
        async with page(served) as wire:
            await wire.drop()

        async def free() -> bool:
            return b" 101 " in await upgrade(served, f"Authorization: Bearer {TOKEN}")

        while not await free():  # the place is free again
            await trio.testing.wait_all_tasks_blocked(0.005)


async def test_auth_of_one_who_is_in(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        assert (await wire.ask("auth", token=TOKEN))["type"] == "ack"
        assert (await wire.ask("ping"))["type"] == "pong"
        await wire.send("auth", token=WRONG, id="w")
        await fatal(wire)
        assert await wire.closed() == security.UNAUTHORIZED_CLOSE


async def test_no_log_has_a_token(settings: Settings) -> None:
    with capture_logs() as logs:
        async with peers(settings) as served:
            await upgrade(served, f"Authorization: Bearer {WRONG}")
            async with page(served) as wire:
                await wire.send("auth", token=WRONG)
                await wire.closed()
            async with page(served) as wire:
                await wire.send("auth", token=TOKEN)
                await wire.until("ready")
    assert TOKEN not in str(logs)
    assert WRONG not in str(logs)


# --- reached by other machines --------------------------------------------------------------


def exposed(policy: security.Policy) -> security.Policy:
    return replace(policy, bind=ipaddress.ip_address("192.168.1.5"), pages_need_token=False)


async def test_metrics_need_the_token_when_others_reach_them(settings: Settings) -> None:
    async with peers(settings, policy=exposed, pages={"/metrics": lambda: "1"}) as served:
        head = f"GET /metrics HTTP/1.1\nHost: 127.0.0.1:{served.port}\n"
        assert b" 401 " in await http(served.port, head + "\n")
        wrong = await http(served.port, f"{head}Authorization: Bearer {WRONG}\n\n")
        assert b" 401 " in wrong
        right = await http(served.port, f"{head}Authorization: Bearer {TOKEN}\n\n")
        assert b" 200 " in right


async def test_pages_need_the_token_when_others_reach_the_port(settings: Settings) -> None:
    async with peers(settings, policy=exposed) as served, page(served) as wire:
        await wire.send("auth", token=TOKEN)
        await wire.until("ready")


# --- how much a connection may say and leave unread -----------------------------------------


async def test_too_many_messages_are_refused_one_by_one(
    settings: Settings, mock_clock: MockClock
) -> None:
    async with serving(settings, messages_per_s=5) as served, served.client() as wire:
        for number in range(12):
            await wire.send("ping", id=str(number))
        for number in range(10):
            await wire.until("pong", reply_to=str(number))
        for number in (10, 11):
            refused = await wire.until("error", reply_to=str(number))
            assert (refused["code"], refused["retryable"]) == ("overloaded", True)
            assert not refused["fatal"]
            assert 0 < refused["retry_after_ms"] <= 200
        mock_clock.jump(refused["retry_after_ms"] / 1000)
        assert (await wire.ask("ping"))["type"] == "pong"


@pytest.mark.parametrize("message", ['{"type": "ping"}', "nonsense", '{"type": "what"}', "[]"])
async def test_who_goes_on_regardless_is_let_go(
    settings: Settings, message: str, mock_clock: MockClock
) -> None:
    async with serving(settings, messages_per_s=5) as served, served.client() as wire:
        for _ in range(10 + 10 + 1):  # a burst, as many refusals, and one more
            await wire.websocket.send(message)
        await fatal(wire, "overloaded")
        assert await wire.closed() == 1008


async def test_a_client_that_reads_no_answers_is_let_go(settings: Settings) -> None:
    with capture_logs() as logs:
        async with serving(settings, max_lead_ms=1000, messages_per_s=10_000) as served:
            async with served.client(queue=1) as wire:
                await wire.speak("One two three four. " * 100)
                await trio.testing.wait_all_tasks_blocked(0.02)  # its socket is full
                (client,) = served.server.clients
                assert served.voice.active == 1
                for _ in range(ANSWERS + 10):
                    await wire.websocket.send('{"type": "ping"}')
                await served.until(lambda: client not in served.server.clients)
    assert "a client does not read its answers; it is let go" in [e["event"] for e in logs]


async def test_answers_go_past_frames_that_wait(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=1000) as served, served.client(queue=1) as wire:
        number = await wire.speak("One two three four. " * 100)
        await trio.testing.wait_all_tasks_blocked(0.02)
        for index in range(5):
            await wire.send("ping", id=str(index))
        await trio.testing.wait_all_tasks_blocked(0.02)
        # All were read though nothing was: the last is answered before the stream is over.
        await wire.until("pong", reply_to="4")
        assert wire.messages("stream.done") == []
        await wire.send("cancel", stream=number)


async def test_the_ack_comes_before_its_stream(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        for index in range(20):
            await wire.send("speak", text="One.", id=str(index))
            found = [await wire.next() for _ in range(2)]
            kinds = [one["type"] for one in found if isinstance(one, dict)]
            assert kinds == ["ack", "stream.opened"]
            await wire.until("stream.done")


# --- full, and stopping ---------------------------------------------------------------------


async def test_a_full_server_says_when_to_come_back(settings: Settings) -> None:
    async with peers(settings, connections=1) as served, served.client():
        answer = await upgrade(served, f"Authorization: Bearer {TOKEN}")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1" in answer
        assert b"Too many connections" in answer


async def test_a_server_that_stops_drains_first_and_lets_nobody_in(settings: Settings) -> None:
    draining, done = trio.Event(), trio.Event()

    async def drain() -> None:
        draining.set()
        await done.wait()

    async with peers(settings, drain=drain) as served, served.client() as wire:
        served.scope.cancel()
        await draining.wait()
        answer = await upgrade(served, f"Authorization: Bearer {TOKEN}")
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"is stopping" in answer
        assert b"Retry-After" in answer
        assert (await wire.ask("ping"))["type"] == "pong"  # who is in is still heard
        done.set()
        assert await wire.closed() == 1001
        await served.stopped.wait()


async def test_a_drain_that_never_ends_is_cut_short(
    settings: Settings, mock_clock: MockClock
) -> None:
    async def drain() -> None:
        await trio.sleep_forever()

    async with peers(settings, drain=drain, patience_s=math.inf) as served:
        async with served.client() as wire:
            served.scope.cancel()
            await trio.testing.wait_all_tasks_blocked(0.02)
            assert not served.stopped.is_set()
            mock_clock.jump(DRAIN_TIMEOUT_S)
            assert await wire.closed() == 1001
            await served.stopped.wait()


async def test_a_stream_that_is_nearly_over_is_heard_to_its_end(settings: Settings) -> None:
    async with serving(settings, max_lead_ms=1000) as served, served.client() as wire:
        number = await wire.speak("One two three. Four five.")
        served.scope.cancel()
        await wire.until("stream.done", stream=number)
        assert await wire.closed() == 1001


@pytest.mark.parametrize(
    ("leave", "said"), [("close", True), ("going away", True), ("error", False), ("drop", False)]
)
async def test_who_said_goodbye(settings: Settings, leave: str, said: bool) -> None:
    heard: list[bool] = []
    server = EngineServer(ToneVoice(), ToneVoice(), settings, TOKEN)

    async def handle(peer: Peer) -> None:
        await pong(peer, server.ready())
        heard.append(peer.said_goodbye)

    async with peers_with(handle, settings) as served, served.client() as wire:
        match leave:
            case "close":
                await wire.websocket.aclose()
            case "going away":
                await wire.websocket.aclose(1001)
            case "error":
                await wire.websocket.aclose(1011)
            case _:
                await wire.drop()
        await served.until(lambda: bool(heard))
    assert heard == [said]


@asynccontextmanager
async def peers_with(
    handle: Callable[[Peer], Awaitable[None]], settings: Settings
) -> AsyncIterator[Served]:
    """Runs `serve_peers` with a handler of the test's."""
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    server = EngineServer(ToneVoice(), ToneVoice(), settings, TOKEN)
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:

            async def run(*, task_status: trio.TaskStatus[None]) -> None:
                await serve_peers(
                    handle,
                    listeners,
                    client=messages.ENGINE_CLIENT,
                    server=messages.ENGINE_SERVER,
                    policy=security.policy(settings, port=port, token=TOKEN),
                    connections=8,
                    messages_per_s=1000,
                    task_status=task_status,
                )

            await nursery.start(run)
            yield Served(server, ToneVoice(), port, nursery.cancel_scope, nursery)
            nursery.cancel_scope.cancel()


# --- places that are easily forgotten -------------------------------------------------------


async def test_the_token_alone_is_no_subprotocol_of_ours(settings: Settings) -> None:
    async with serving(settings) as served:
        offered = (f"bearer.{TOKEN}",)
        async with served.client(token=None, subprotocols=offered) as wire:
            assert (await wire.ask("ping"))["type"] == "pong"
            assert wire.websocket.subprotocol is None


async def test_the_token_may_be_the_first_subprotocol(settings: Settings) -> None:
    async with peers(settings) as served:
        offered = (f"bearer.{TOKEN}", PROTOCOL)
        async with served.client(token=None, origin=PAGE, subprotocols=offered) as wire:
            assert wire.websocket.subprotocol == PROTOCOL


async def test_who_waits_for_auth_counts_as_a_connection(settings: Settings) -> None:
    async with peers(settings, connections=1) as served, page(served):
        answer = await upgrade(served, f"Authorization: Bearer {TOKEN}")
        assert answer.startswith(b"HTTP/1.1 503 ")


async def test_who_waits_for_auth_hears_nothing_of_others(settings: Settings) -> None:
    # As an engine that other machines reach: pages have to show the token.
    async with serving(settings, host="192.168.1.5", http_port=8880) as served:
        async with served.client(token=None, origin=PAGE, ready=False) as wire:
            async with served.client() as other:
                await other.ask("subscribe", stream="*")
                await other.speak("One.")
                await other.until("stream.done")
                assert (await other.ask("status"))["connections"] == 1
            await wire.send("auth", token=TOKEN)
            first = await wire.next()
            assert isinstance(first, dict)
            assert first["type"] == "ready"


async def test_a_page_of_the_settings_may_connect(settings: Settings) -> None:
    async with serving(settings, origins=("https://tts.example",)) as served:
        async with served.client(origin="https://tts.example", token=None) as wire:
            assert (await wire.ask("ping"))["type"] == "pong"


async def test_metrics_need_no_token_on_loopback_and_no_foreign_page_has_them(
    settings: Settings,
) -> None:
    async with serving(settings, http_port=8880) as served:
        head = f"GET /metrics HTTP/1.1\nHost: 127.0.0.1:{served.port}\n"
        assert b" 200 " in await http(served.port, head + "\n")
        assert b" 200 " in await http(served.port, f"{head}Origin: {PAGE}\n\n")
        bearer = f"Authorization: Bearer {TOKEN}\n"
        assert b" 403 " in await http(served.port, f"{head}{bearer}Origin: null\n\n")


async def test_a_drain_that_fails_still_says_goodbye(settings: Settings) -> None:
    async def drain() -> None:
        raise RuntimeError("a bug")

    code: int | None = None
    with pytest.raises(ExceptionGroup) as caught:
        async with peers(settings, drain=drain) as served, served.client() as wire:
            served.scope.cancel()
            with trio.CancelScope(shield=True):  # its failure ends the test's nursery too
                code = await wire.closed()
    assert code == 1001
    assert caught.group_contains(RuntimeError, match="a bug")


async def test_the_system_takes_little_for_a_client_that_does_not_read(settings: Settings) -> None:
    """Else a minute of speech would count as heard that nobody has read."""
    taken = 0
    server = EngineServer(ToneVoice(), ToneVoice(), settings, TOKEN)

    async def flood(peer: Peer) -> None:
        nonlocal taken
        stream = peer._websocket.stream  # as it is where trio cannot ask for less
        assert isinstance(stream, trio.SocketStream)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, 2**31 - 1)
        await peer.send(server.ready())
        while True:
            await peer.send(messages.Warning(code="c", message="x" * 10_000))
            taken += 10_000

    async with peers_with(flood, settings) as served:
        async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
            more = f"Authorization: Bearer {TOKEN}\n"
            request = UPGRADE.format(path="/", host=f"127.0.0.1:{served.port}", more=more)
            await stream.send_all(request.replace("\n", "\r\n").encode())
            await served.until(lambda: taken > 0)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert taken < 1_000_000
