"""How the engine is, over the wire; resets; and an engine that is loading or hangs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock
from websockets.exceptions import InvalidStatus

from engine import process
from engine.config import Settings
from engine.errors import TAINTED, NotReady, SynthesisFailed
from engine.keeper import Hangs, Keeper
from engine.report import Reset
from tests.support.tone import ToneVoice
from wsproto_api import __main__ as program
from wsproto_api.door import LOADING_S

from .serving import IDLE_S, Served, Wire, http, serving

LONG = "One two three four. " * 100
#: slow enough to be in the middle of something
SLOW = 100.0


async def page(served: Served, path: str) -> bytes:
    return await http(served.port, f"GET {path} HTTP/1.1\nHost: localhost:{served.port}\n\n")


# --- status ------------------------------------------------------------------------------------


async def test_status_tells_what_the_engine_tells_of_itself(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        told = await wire.ask("status")
        assert (told["state"], told["stalls"], told["streams"], told["connections"]) == (
            "ready", 0, 0, 1
        )  # fmt: skip
        assert told["instance"] == served.server.instance
        assert told["model"]["name"] == "tone"
        await wire.speak("One two.")
        await wire.until("stream.done")
        assert (await wire.ask("status"))["cache"] == {"hits": 0, "misses": 1}


async def test_the_page_says_the_same_as_json(settings: Settings) -> None:
    async with serving(settings) as served, served.client() as wire:
        head, _, body = (await page(served, "/status")).partition(b"\r\n\r\n")
        assert b" 200 " in head
        assert b"Content-Type: application/json" in head
        told, asked = json.loads(body), await wire.ask("status")
        assert told.keys() == asked.keys() - {"reply_to"}
        same = told.keys() - {"uptime_s"}
        assert {name: told[name] for name in same} == {name: asked[name] for name in same}


async def test_no_text_is_in_it(settings: Settings) -> None:
    async with serving(settings, ToneVoice(rtf=SLOW)) as served, served.client() as wire:
        await wire.speak("Swordfish.", key="swordfish")
        for path in ("/status", "/metrics"):
            assert b"ordfish" not in await page(served, path)
        assert "ordfish" not in json.dumps(await wire.ask("status"))


# --- loading -----------------------------------------------------------------------------------


async def test_who_connects_while_it_loads_waits_and_is_let_in(settings: Settings) -> None:
    loaded = trio.Event()
    async with serving(settings, loaded=loaded) as served:
        came: list[str] = []

        async def come() -> None:
            async with served.client() as wire:
                came.append((await wire.ask("ping"))["type"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come)
            for path in ("/status", "/metrics"):
                assert b" 200 " in (await page(served, path)).split(b"\r\n")[0]
            assert came == []
            loaded.set()
        assert came == ["pong"]


async def test_who_has_waited_too_long_is_told_so(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, loaded=trio.Event(), patience_s=60) as served:
        began_s = trio.current_time()
        with pytest.RaisesGroup(InvalidStatus, flatten_subgroups=True) as caught:
            async with served.client():
                pytest.fail("it was let in")
        assert trio.current_time() - began_s == pytest.approx(LOADING_S, abs=0.5)
        (error,) = caught.value.exceptions
        while isinstance(error, ExceptionGroup):
            (error,) = error.exceptions
        assert isinstance(error, InvalidStatus)
        assert error.response.status_code == 503
        assert error.response.headers["Retry-After"] == "1"
        assert b"loading" in (error.response.body or b"")


async def test_a_server_that_is_stopped_while_it_loads_ends_soon(
    settings: Settings, idle_clock: MockClock
) -> None:
    async with serving(settings, loaded=trio.Event(), patience_s=60) as served:
        refused = trio.Event()

        async def come() -> None:
            with pytest.RaisesGroup(Exception, flatten_subgroups=True):
                async with served.client():
                    pytest.fail("it was let in")
            refused.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(come)
            await trio.testing.wait_all_tasks_blocked(IDLE_S / 2)
            began_s = trio.current_time()
            await served.stop()
            assert trio.current_time() - began_s < LOADING_S / 2
            await refused.wait()


# --- a reset -----------------------------------------------------------------------------------


async def test_a_reset_ends_the_streams_of_everybody(settings: Settings) -> None:
    voice = ToneVoice(rtf=SLOW)
    async with (
        serving(settings, voice) as served,
        served.client() as one,
        served.client() as other,
    ):
        streams = [await one.speak(LONG), await other.speak(LONG)]
        answer = await other.ask("session_reset")
        assert answer == {
            "type": "session_reset", "reply_to": "ask", "cancelled": 2, "result": "cancelled"
        }  # fmt: skip
        await one.until("stream.cancelled", stream=streams[0])
        await ended(other, streams[1])
        assert voice.resets == 1
        assert (await one.ask("status"))["streams"] == 0
        voice.rtf = 0.0
        await one.speak("One.")
        await one.until("stream.done")


async def ended(wire: Wire, stream: int) -> None:
    """Reads up to the end of a stream, if it was not read yet."""
    if not wire.messages("stream.cancelled", stream=stream):
        await wire.until("stream.cancelled", stream=stream)


async def test_a_reset_that_cannot_be_is_an_error(settings: Settings) -> None:
    class Loading(ToneVoice):
        async def reset(self) -> Reset:
            raise NotReady("The engine is loading its model.")

    async with serving(settings, Loading()) as served, served.client() as wire:
        assert (await wire.ask("session_reset"))["code"] == "not_ready"


# --- an engine that hangs ----------------------------------------------------------------------


async def test_streams_that_cannot_be_ended_fail_and_no_other_begins(settings: Settings) -> None:
    async with (
        serving(settings, ToneVoice(rtf=SLOW)) as served,
        served.client() as one,
        served.client() as other,
    ):
        streams = [await one.speak(LONG), await other.speak(LONG)]
        await served.server.streams.fail_all(SynthesisFailed("The engine hangs."))
        for wire, stream in zip((one, other), streams, strict=True):
            error = await wire.until("error", stream=stream)
            assert (error["code"], error["message"]) == ("synthesis_failed", "The engine hangs.")
        assert (await one.ask("speak", text="One."))["code"] == "not_ready"


class Hanging(Keeper):
    """Finds at once that only a new process helps."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        async with trio.open_nursery():
            await trio.sleep(1)
            raise Hangs


async def never(warming: Callable[[], None]) -> Any:
    await trio.sleep_forever()


async def test_an_engine_that_hangs_tells_its_clients_and_ends(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, idle_clock: MockClock
) -> None:
    ends: list[tuple[float, int]] = []
    monkeypatch.setattr(process, "end_within", lambda *told: ends.append(told))
    voice = ToneVoice(rtf=SLOW)
    async with serving(settings, voice, patience_s=60) as served, served.client() as wire:
        stream = await wire.speak(LONG)
        failed: list[Any] = []

        async def follow() -> None:
            failed.append(await wire.until("error", stream=stream))

        with capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow)
                with pytest.RaisesGroup(Hangs, flatten_subgroups=True):
                    await program.keep(Hanging(settings, never), served.server)
    assert failed[0]["code"] == "synthesis_failed"
    assert "started anew" in failed[0]["message"]
    assert ends == [(program.GOODBYE_S, TAINTED)]
    (entry,) = (entry for entry in logs if entry["log_level"] == "error")
    assert "starts it anew" in entry["event"]


def test_its_exit_code_is_known_to_the_service_manager(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def serve(settings: Settings) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise Hangs

    monkeypatch.setattr(program, "serve", serve)
    monkeypatch.setattr(process, "set_up_logging", lambda _: None)
    assert program.run({"data_dir": settings.data_dir}) == TAINTED


def test_nobody_waits_for_what_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is that a clean end."""
    ends: list[int] = []
    monkeypatch.setattr(program, "run", lambda _: TAINTED)
    monkeypatch.setattr("os._exit", ends.append)
    with pytest.raises(SystemExit):
        program.main(port=None, threads=None, log_level=None)
    assert ends == [TAINTED]
