"""Who may connect, over real sockets of loopback: every refusal, and how it looks to a client."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from websockets.exceptions import ConnectionClosed, InvalidStatus

from engine.config import Settings
from tests.support.access import TOKEN
from wsproto_api import security
from wsproto_api.messages import PROTOCOL
from wsproto_api.peer import AUTH_TIMEOUT_S

from .serving import Json, Served, Wire, http, serving

PAGE = "http://127.0.0.1:8880"
WRONG = TOKEN[:-1] + "X"

#: a server whose pages need the token too: it listens to other machines, as far as it knows
EXPOSED: dict[str, Any] = {"host": "0.0.0.0", "http_port": 8880}  # noqa: S104 - nothing is bound to it

#: a page that sends no token in the handshake
PAGE_: dict[str, Any] = {"origin": PAGE, "token": None}


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


async def refused(served: Served, **options: Any) -> InvalidStatus:
    """Tries to connect and is refused before the upgrade."""
    found: InvalidStatus | None = None
    try:
        async with served.client(**options):
            pytest.fail("it was let in")
    except* InvalidStatus as group:
        (only,) = group.exceptions
        assert isinstance(only, InvalidStatus)
        found = only
    assert found is not None
    assert served.server.clients == set()
    return found


async def last_word(wire: Wire, code: int, **fields: Any) -> Json:
    """There is nothing but a fatal error `unauthorized`, and then the end."""
    said = await wire.next()
    assert isinstance(said, dict)
    expected = {"type": "error", "code": "unauthorized", "fatal": True, "retryable": False}
    assert {**said, **expected, **fields} == said
    with pytest.raises(ConnectionClosed):
        await wire.next()
    assert wire.websocket.close_code == code
    return said


async def well_served(wire: Wire) -> None:
    assert (await wire.ask("ping"))["type"] == "pong"


# --- before the upgrade -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (None, security.TOKEN_NEEDED),
        (f"Basic {TOKEN}", security.TOKEN_NEEDED),
        (f"Bearer {WRONG}", security.TOKEN_WRONG),
        ("Bearer", security.TOKEN_WRONG),
    ],
)
async def test_a_program_without_the_token_learns_where_it_is(
    settings: Settings, shown: str | None, sentence: str
) -> None:
    async with serving(settings) as served:
        headers = {"Authorization": shown} if shown else None
        response = (await refused(served, token=None, headers=headers)).response
        assert response.status_code == 401
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert response.body == sentence.encode()
        async with served.client() as wire:
            await well_served(wire)


async def test_a_token_in_the_address_is_not_looked_at(settings: Settings) -> None:
    head = (
        "GET /?token={0}&access_token={0} HTTP/1.1\nHost: 127.0.0.1:{1}\nConnection: Upgrade\n"
        "Upgrade: websocket\nSec-WebSocket-Version: 13\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n\n"
    )
    async with serving(settings) as served:
        answer = await http(served.port, head.format(TOKEN, served.port))
    assert b" 401 " in answer.split(b"\r\n")[0]


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "https://127.0.0.1:8880"])
async def test_the_token_opens_no_door_to_foreign_pages(settings: Settings, origin: str) -> None:
    async with serving(settings, http_port=8880) as served:
        response = (await refused(served, origin=origin)).response
        assert (response.status_code, response.body) == (403, security.ORIGIN_REFUSED.encode())


async def test_a_page_of_the_settings_may_connect(settings: Settings) -> None:
    async with serving(settings, origins=("https://tts.example",)) as served:
        async with served.client(origin="https://tts.example", token=None) as wire:
            await well_served(wire)


async def test_a_host_of_the_settings_is_served(settings: Settings) -> None:
    request = "GET /metrics HTTP/1.1\nHost: tts.lan:{}\n\n"
    async with serving(settings, hosts=("tts.lan",)) as served:
        assert b" 200 " in await http(served.port, request.format(served.port))
    async with serving(settings) as served:
        assert b" 403 " in await http(served.port, request.format(served.port))


@pytest.mark.parametrize(
    ("exposed", "more", "status"),
    [
        (False, "", 200),
        (False, f"Authorization: Bearer {WRONG}\n", 200),  # is not asked for it
        (True, "", 401),
        (True, f"Authorization: Bearer {WRONG}\n", 401),
        (True, f"Origin: {PAGE}\n", 401),
        (True, f"Authorization: Bearer {TOKEN}\n", 200),
        (True, f"Authorization: Bearer {TOKEN}\nOrigin: null\n", 403),
    ],
)
async def test_metrics_are_for_this_machine_or_for_the_token(
    settings: Settings, exposed: bool, more: str, status: int
) -> None:
    async with serving(settings, **(EXPOSED if exposed else {})) as served:
        request = f"GET /metrics HTTP/1.1\nHost: 127.0.0.1:{served.port}\n{more}\n"
        head = (await http(served.port, request)).split(b"\r\n")[0]
    assert f" {status} ".encode() in head


# --- in the name of a subprotocol -------------------------------------------------------------


@pytest.mark.parametrize(
    "offered",
    [[PROTOCOL, f"bearer.{TOKEN}"], [f"bearer.{TOKEN}", PROTOCOL], ["x", PROTOCOL, f"bearer.{TOKEN}"]],
)  # fmt: skip
@pytest.mark.parametrize("origin", [PAGE, None])
async def test_the_subprotocol_with_the_token_is_not_echoed(
    settings: Settings, offered: list[str], origin: str | None
) -> None:
    async with serving(settings, **EXPOSED) as served:
        async with served.client(origin=origin, token=None, subprotocols=offered) as wire:
            await well_served(wire)
            assert wire.websocket.subprotocol == PROTOCOL
            response = wire.websocket.response
            assert response is not None
            assert TOKEN not in str(response)


async def test_the_token_alone_is_no_subprotocol_of_ours(settings: Settings) -> None:
    async with serving(settings) as served:
        offered = [f"bearer.{TOKEN}"]
        async with served.client(token=None, subprotocols=offered) as wire:
            await well_served(wire)
            assert wire.websocket.subprotocol is None


@pytest.mark.parametrize("offered", ["bearer.", f"bearer.{WRONG}"])
@pytest.mark.parametrize("exposed", [True, False])
async def test_a_wrong_token_there_is_told_after_the_upgrade(
    settings: Settings, offered: str, exposed: bool
) -> None:
    """A page cannot read an HTTP status, but an error message and a close code it can."""
    changes = EXPOSED if exposed else {"http_port": 8880}
    async with serving(settings, **changes) as served:
        options = {**PAGE_, "subprotocols": [PROTOCOL, offered]}
        async with served.client(ready=False, **options) as wire:
            assert wire.websocket.subprotocol == PROTOCOL
            await wire.send("speak", text="Hello.")  # nobody listens
            said = await last_word(wire, 4401)
            assert said["message"] == security.TOKEN_WRONG
            assert served.server.clients == set()
            assert served.voice.active == 0


# --- by a first message -----------------------------------------------------------------------


async def test_auth_first_then_ready_then_its_ack(settings: Settings) -> None:
    async with serving(settings, **EXPOSED) as served, served.client(ready=False, **PAGE_) as wire:
        await wire.send("auth", id="a", token=TOKEN)
        await wire.send("ping", id="p")  # it need not wait
        said = [await wire.next() for _ in range(3)]
        assert [one["type"] for one in said if isinstance(one, dict)] == ["ready", "ack", "pong"]
        assert said[1] == {"type": "ack", "reply_to": "a"}


async def test_auth_without_an_id_gets_ready_alone(settings: Settings) -> None:
    async with serving(settings, **EXPOSED) as served, served.client(ready=False, **PAGE_) as wire:
        await wire.send("auth", token=TOKEN)
        await wire.until("ready")
        await well_served(wire)
        assert len(wire.seen) == 2


async def test_nothing_is_said_before_auth(settings: Settings) -> None:
    async with serving(settings, **EXPOSED) as served:
        async with served.client(ready=False, **PAGE_) as wire, served.client() as other:
            number = await other.speak("One two three.")
            await other.until("stream.done", stream=number)
            assert len(served.server.clients) == 1
            assert (await other.ask("status"))["connections"] == 1
            await wire.send("auth", token=TOKEN)
            first = await wire.next()
            assert isinstance(first, dict)
            assert first["type"] == "ready"


@pytest.mark.parametrize(
    ("sent", "reply_to", "sentence"),
    [
        (f'{{"type": "auth", "id": "x", "token": "{WRONG}"}}', "x", security.TOKEN_WRONG),
        ('{"type": "auth", "token": ""}', None, security.TOKEN_WRONG),
        ('{"type": "auth", "id": "x", "token": "\\ud800"}', None, security.AUTH_NEEDED),
        ('{"type": "auth", "id": "x"}', "x", security.AUTH_NEEDED),
        ('{"type": "auth", "id": "x", "token": 1}', "x", security.AUTH_NEEDED),
        ('{"type": "speak", "id": "x", "text": "Hello."}', "x", security.AUTH_NEEDED),
        ('{"type": "ping"}', None, security.AUTH_NEEDED),
        ('{"type": "whatever", "id": "x"}', "x", security.AUTH_NEEDED),
        ("{", None, security.AUTH_NEEDED),
        (b"\x01", None, security.AUTH_NEEDED),
    ],
)
async def test_anything_else_first_is_the_end(
    settings: Settings, sent: str | bytes, reply_to: str | None, sentence: str
) -> None:
    async with serving(settings, **EXPOSED) as served, served.client(ready=False, **PAGE_) as wire:
        await wire.send_raw(sent)
        said = await last_word(wire, 4401, message=sentence)
        assert said.get("reply_to") == reply_to
        assert served.server.clients == set()
        assert served.voice.active == 0


async def test_no_auth_in_time_is_the_end(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(settings, **EXPOSED) as served:
        async with served.client(ready=False, **PAGE_) as wire:
            await trio.testing.wait_all_tasks_blocked(0.02)
            mock_clock.jump(AUTH_TIMEOUT_S)
            said = await last_word(wire, 4408)
            assert said["message"] == security.AUTH_LATE


async def test_auth_at_the_last_moment_is_in_time(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    async with serving(settings, **EXPOSED) as served:
        async with served.client(ready=False, **PAGE_) as wire:
            await trio.testing.wait_all_tasks_blocked(0.02)
            mock_clock.jump(AUTH_TIMEOUT_S * 0.99)
            await wire.send("auth", token=TOKEN)
            await wire.until("ready")
            mock_clock.jump(AUTH_TIMEOUT_S)
            await well_served(wire)


async def test_who_leaves_instead_leaves_nothing_behind(settings: Settings) -> None:
    async with serving(settings, **EXPOSED) as served:
        before = living_tasks()
        for polite in (True, False):
            async with served.client(ready=False, **PAGE_) as wire:
                await (wire.websocket.aclose() if polite else wire.drop())
            await served.until(lambda: living_tasks() == before)


async def test_who_waits_counts_as_a_connection(settings: Settings) -> None:
    async with serving(settings, **EXPOSED, connections=1) as served:
        async with served.client(ready=False, **PAGE_):
            response = (await refused(served)).response
            assert (response.status_code, response.headers["Retry-After"]) == (503, "1")


# --- from who is in ---------------------------------------------------------------------------


async def test_auth_from_who_is_in_is_acknowledged(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        assert await wire.ask("auth", token=TOKEN) == {"type": "ack", "reply_to": "ask"}
        await wire.send("auth", token=TOKEN)
        await well_served(wire)


@pytest.mark.parametrize("options", [{}, {"origin": PAGE, "token": None}])
async def test_a_wrong_token_from_who_is_in_is_the_end(
    settings: Settings, options: dict[str, Any]
) -> None:
    async with serving(settings, http_port=8880) as served, served.client(**options) as wire:
        await wire.send("auth", id="x", token=WRONG)
        await last_word(wire, 4401, reply_to="x", message=security.TOKEN_WRONG)
        await served.until(lambda: not served.server.clients)


# --- what is logged ---------------------------------------------------------------------------


async def test_no_token_is_logged_right_or_wrong(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with capture_logs() as logs:
        async with serving(settings, **EXPOSED) as served:
            await refused(served, token=WRONG)
            await refused(served, token=TOKEN, origin="http://evil.example")
            for token in (TOKEN, WRONG):
                offered = [PROTOCOL, f"bearer.{token}"]
                async with served.client(ready=False, **PAGE_, subprotocols=offered) as wire:
                    await wire.next()
                async with served.client(ready=False, **PAGE_) as wire:
                    await wire.send("auth", token=token)
                    await wire.next()
    told = str(logs) + caplog.text
    assert "unauthorized" in told
    assert TOKEN not in told
    assert WRONG not in told
    assert "evil.example" not in told
