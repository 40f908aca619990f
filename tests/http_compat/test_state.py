"""How things are, over HTTP: without sockets, and in virtual time."""

from __future__ import annotations

import sys
from typing import get_args

import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from trio.testing import MockClock

from engine.errors import NotReady, SynthesisFailed
from engine.metrics import exposition
from engine.report import SPEAKS, State
from http_compat import state
from http_compat.metrics import REGISTRY
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api.messages import PlayerState, SessionReset, Status

from .serving import HOST, JSON, SPEECH, Engine, Gate, ask, calling, defaults, get, post, told

PLAYING = PlayerState(
    rev=1, state="playing", queue_len=0, device="Loudspeaker", underruns=3, buffered_ms=0.0,
    volume=1.0, depth_ms=60.0, target_ms=80.0, item=7, voice="af_heart",
)  # fmt: skip
PATHS = ["/health", "/ready", "/status", "/metrics", "/session-status"]


class Hanging(Engine):
    """An engine that never answers."""

    async def status(self) -> Status:
        await trio.sleep_forever()
        raise AssertionError


async def test_health_is_told_without_asking_the_engine(autojump_clock: MockClock) -> None:
    for engine in (Engine(), Engine(down=NotReady("Not there.")), Hanging()):
        response = await get(engine.app(), "/health")
        assert response.status == 200
        assert response.json["status"] == "ok"
    assert trio.current_time() == 0


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_waits_for_what_is_spoken(autojump_clock: MockClock, path: str) -> None:
    gate = Gate(ToneVoice())
    app = Engine(gate).app()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, app, {"input": "One. Two."})
        await gate.reached.wait()
        began = trio.current_time()
        assert (await get(app, path)).status == 200
        assert trio.current_time() == began
        gate.opened.set()


@pytest.mark.parametrize("now", get_args(State))
async def test_ready_tells_whether_speech_can_be_had(autojump_clock: MockClock, now: State) -> None:
    response = await get(Engine(state=now).app(), "/ready")
    assert response.json["state"] == now
    if now in SPEAKS:
        assert response.status == 200
        assert "error" not in response.json
    else:
        assert response.status == 503
        assert int(response.headers["Retry-After"]) >= 1
        assert response.json["error"]["code"] == "engine_unavailable"


async def test_ready_without_an_engine(autojump_clock: MockClock) -> None:
    response = await get(Engine(down=NotReady("Not there.", retry_after_ms=2500)).app(), "/ready")
    assert response.status == 503
    assert response.headers["Retry-After"] == "3"
    assert response.json["state"] == "unreachable"
    assert response.json["error"]["message"] == "Not there."


async def test_status_tells_all(autojump_clock: MockClock) -> None:
    response = await get(Engine(playing=PLAYING).app(), "/status")
    body = response.json
    assert response.status == 200
    assert body["state"] == "busy"
    assert body["engine"]["model"]["name"] == "tone"
    assert body["engine"]["versions"] == {"tone": "1"}
    assert body["error"] is None
    assert body["requests"] == {"waiting": 0, "speaking": 0}
    assert body["player"] == {
        "state": "playing", "underruns": 3, "stalled": False, "device": "Loudspeaker"
    }  # fmt: skip


async def test_status_without_anybody(autojump_clock: MockClock) -> None:
    body = (await get(Engine(down=NotReady("Not there.")).app(), "/status")).json
    assert (body["state"], body["engine"], body["player"]) == ("unreachable", None, None)
    assert body["error"]["message"] == "Not there."


async def test_requests_in_line_and_being_answered_are_counted(autojump_clock: MockClock) -> None:
    gate = Gate(ToneVoice())
    app = Engine(gate).app()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(post, app, {"input": "One. Two."})
        await gate.reached.wait()
        await trio.testing.wait_all_tasks_blocked()
        body = (await get(app, "/status")).json
        gate.opened.set()
    assert body["requests"] == {"waiting": 2, "speaking": 1}


async def test_metrics_are_of_both_processes(autojump_clock: MockClock) -> None:
    class Real(Engine):
        async def metrics(self) -> str:
            return exposition().decode()

    response = await get(Real().app(), "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(response.body.decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    (up,) = (family for family in families if family.name == "kokoro_live_engine_up")
    assert up.samples[0].value == 1
    assert {"kokoro_live_http_waiting", "kokoro_live_stalls", "kokoro_live_streams"} <= {*names}


async def test_answers_are_counted_by_how_they_ended(autojump_clock: MockClock) -> None:
    def counted(**labels: str) -> float:
        value = REGISTRY.get_sample_value("kokoro_live_http_answers_total", labels)
        return value or 0.0

    wanted = [
        {"endpoint": "speak", "status": "200", "outcome": "sent"},
        {"endpoint": "speak", "status": "400", "outcome": "sent"},
        {"endpoint": "speak", "status": "429", "outcome": "sent"},
        {"endpoint": "speak", "status": "200", "outcome": "broken"},
        {"endpoint": "speak", "status": "0", "outcome": "gone"},
        {"endpoint": "none", "status": "404", "outcome": "sent"},
    ]
    failure = SynthesisFailed("It failed.")
    before = [counted(**labels) for labels in wanted]
    await post(Engine().app(), {"input": "One."})
    await post(Engine().app(), {"input": ""})
    await ask(Engine().app(), "GET", "/favicon.gif", HOST)
    breaking = Engine(ToneVoice(fail_at=1, failure=failure)).app()
    async with calling(breaking, "POST", SPEECH, JSON, b'{"input": "A. B."}') as call:
        await call.read()
    gate = Gate(ToneVoice(), before=0)
    app = Engine(gate).app(settings=defaults(http_waiting=0))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, app, {"input": "One. Two."})
        await gate.reached.wait()
        assert (await post(app, {"input": "One."})).status == 429
        nursery.cancel_scope.cancel()
    assert [counted(**labels) for labels in wanted] == [count + 1 for count in before]
    told_of = (await get(Engine().app(), "/metrics")).body.decode()
    assert 'kokoro_live_http_answers_total{endpoint="speak",outcome="sent",status="429"}' in told_of
    if sys.platform == "linux":
        assert "kokoro_live_http_process_resident_memory_bytes" in told_of


async def test_metrics_without_an_engine(autojump_clock: MockClock) -> None:
    response = await get(Engine(down=NotReady("Not there.")).app(), "/metrics")
    assert response.status == 200
    assert b"kokoro_live_engine_up 0.0" in response.body
    assert b"kokoro_live_streams" not in response.body


async def test_the_session_is_told_in_a_few_numbers(autojump_clock: MockClock) -> None:
    response = await get(Engine(state="stalled").app(), "/session-status")
    assert response.json == {
        "state": "stalled", "streams": 1, "queue": 0, "quiet_s": 0.0, "stalls": 0,
        "uptime_s": 2.5, "instance": "0" * 16,
    }  # fmt: skip
    down = await get(Engine(down=NotReady("Not there.")).app(), "/session-status")
    assert down.status == 503
    assert told(down)["code"] == "engine_unavailable"


async def test_a_reset_also_ends_what_waits_in_line(autojump_clock: MockClock) -> None:
    """Else it would be spoken as soon as the engine has ended what it spoke."""
    voice = ToneVoice()
    gate = Gate(voice)

    class Stalled(Engine):
        async def reset(self) -> SessionReset:
            return SessionReset(cancelled=1, result="reloading")

    app = Stalled(gate).app()
    statuses: list[int] = []

    async def waits() -> None:
        reply = await post(app, {"input": "One."})
        assert "ask once more" in told(reply)["message"]
        assert reply.headers["Retry-After"] == "1"
        assert reply.headers["x-should-retry"] == "true"
        statuses.append(reply.status)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(post, app, {"input": "One. Two."})
        await gate.reached.wait()
        nursery.start_soon(waits)
        nursery.start_soon(waits)
        await trio.testing.wait_all_tasks_blocked()
        made = voice.segments_made
        response = await ask(app, "POST", "/session-reset", JSON)
        await trio.testing.wait_all_tasks_blocked()
        assert statuses == [409, 409]
        assert voice.segments_made == made
        gate.opened.set()
    assert response.status == 200
    assert response.json == {"cancelled": 1, "result": "reloading"}


async def test_a_reset_without_an_engine(autojump_clock: MockClock) -> None:
    response = await ask(Engine(down=NotReady("Not there.")).app(), "POST", "/session-reset", JSON)
    assert response.status == 503
    assert told(response)["message"] == "Not there."


async def test_a_foreign_page_resets_nothing(autojump_clock: MockClock) -> None:
    headers = {**JSON, "Origin": "http://evil.example"}
    response = await ask(Engine().app(), "POST", "/session-reset", headers)
    assert response.status == 403


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        *(("GET", path, path not in {"/health", "/ready"}) for path in PATHS),
        ("POST", "/session-reset", True),
    ],
)
async def test_who_needs_the_key_where_other_machines_reach_it(
    autojump_clock: MockClock, method: str, path: str, key: bool
) -> None:
    app = Engine().app(settings=defaults(host="192.168.1.5", token=TOKEN))
    assert (await ask(app, method, path, JSON)).status == (401 if key else 200)
    shown = {**JSON, "Authorization": f"Bearer {TOKEN}"}
    assert (await ask(app, method, path, shown)).status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_no_text_is_in_any_of_it(autojump_clock: MockClock, path: str) -> None:
    app = Engine(playing=PLAYING).app()
    await post(app, {"input": "Swordfish."})
    assert b"ordfish" not in (await get(app, path)).body


def test_every_state_has_an_answer() -> None:
    for now in get_args(State):
        refusal = state.refused(now)
        assert (refusal is None) == (now in SPEAKS)
        assert refusal is None or refusal.retry_after_ms
