"""How things are, asked over HTTP of real processes: from none of them to one that hangs."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
import pytest
import trio

from tests.support.processes import PATIENCE_S, free_ports, started

TEXT = "The weather is very nice today."


async def state_of(client: httpx.AsyncClient) -> str:
    return str((await client.get("/ready")).json()["state"])


@pytest.fixture
def hang(tmp_path: Path) -> Path:
    """While this file is there, every call into the model hangs."""
    return tmp_path / "hang"


async def test_from_nobody_to_an_engine_that_hangs(hang: Path, tmp_path: Path) -> None:
    engine_port, player_port, http_port = free_ports(3)
    settings: dict[str, object] = {
        "data_dir": tmp_path, "engine_port": engine_port, "player_port": player_port,
        "http_port": http_port, "sink": "null",
    }  # fmt: skip
    hanging = ("tests.support.hanging_engine", str(hang))
    base = f"http://127.0.0.1:{http_port}"
    with trio.fail_after(2 * PATIENCE_S), started("http_compat", **settings) as http:
        http.until("ready")
        async with httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as client:
            assert (await client.get("/health")).status_code == 200
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()["state"]) == (503, "unreachable")
            assert ready.headers["Retry-After"]

            with (
                started("engine.again", *hanging, **settings) as engine,
                started("playerd", **settings) as player,
            ):
                states: list[str] = []
                while not states or states[-1] != "ready":
                    states.append(await state_of(client))
                    await trio.sleep(0.05)
                order = ["unreachable", "loading", "warming", "ready"]
                assert [*dict.fromkeys(states)] == [s for s in order if s in states]
                assert "loading" in states
                player.until("ready")

                body = {"input": TEXT, "response_format": "pcm"}
                for _ in range(2):
                    spoken = await client.post("/v1/audio/speech", json=body)
                    assert spoken.status_code == 200
                status = (await client.get("/status")).json()
                assert status["player"]["underruns"] == 0
                told = status["engine"]
                assert (told["cache"]["hits"], told["stalls"], told["fallbacks"]) == (1, 0, [])
                assert told["first_audible"]["cold"]["count"] == 1
                assert told["first_byte"]["warm"]["count"] == 1
                assert told["rtf"] > 0
                assert told["provider_why"]
                metrics = (await client.get("/metrics")).text
                assert "kokoro_live_engine_up 1.0" in metrics
                assert 'kokoro_live_state{state="ready"} 1.0' in metrics
                assert "weather" not in metrics + str(status)

                await trio.Path(hang).touch()
                statuses: list[int] = []

                async def speak() -> None:
                    lost = await client.post("/v1/audio/speech", json={"input": "Another text."})
                    statuses.append(lost.status_code)

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(speak)
                    while await state_of(client) != "busy":  # noqa: ASYNC110 - nobody tells
                        await trio.sleep(0.05)
                    session = (await client.get("/session-status")).json()
                    assert session["streams"] == 1
                    reset = await client.post("/session-reset")
                    assert reset.json() == {"cancelled": 1, "result": "restarting"}
                assert statuses == [409]
                await trio.Path(hang).unlink()
                await trio.to_thread.run_sync(engine.until, "Starting tests.support.hanging_engine")
                while await state_of(client) != "ready":  # noqa: ASYNC110 - nobody tells
                    await trio.sleep(0.05)
                assert (await client.post("/v1/audio/speech", json=body)).status_code == 200
                assert await trio.to_thread.run_sync(engine.end, signal.SIGTERM) == 0
            ready = await client.get("/ready")
            assert (ready.status_code, ready.json()["state"]) == (503, "unreachable")
        assert await trio.to_thread.run_sync(http.end, signal.SIGTERM) == 0
