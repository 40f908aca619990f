"""Many requests of all kinds at once, a fifth of them given up: nothing is wrong and nothing is left."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import httpx
import pytest
import trio

from http_compat.schema import Format
from tests.support.tone import WORD_MS, ToneVoice

from .program import Server, engine, http, started

AT_ONCE = 8
GIVEN_UP = 0.2

#: requests before what memory is held counts
WARM_UP = 300
GROWTH = 1.03

#: body, status
REFUSED: list[tuple[dict[str, object], int]] = [
    ({"input": "One.", "voice": "af_nobody"}, 400),
    ({"input": ""}, 400),
    ({"input": "a" * 4097}, 400),
    ({"input": "One.", "speed": 9}, 400),
    ({"input": "One.", "response_format": "ogg"}, 400),
    ({"input": "One.", "marks": True}, 400),
]
QUESTIONS = ["/models", "/audio/models", "/audio/voices", "/audio/voices?legacy=true"]


@dataclass
class Load:
    """Sends requests, and keeps what was wrong with the answers.

    Attributes:
        held: pages of memory of the HTTP server after each request; and of this process, in which
            the engine's server runs, and what sends the requests.
    """

    client: httpx.AsyncClient
    server: Server
    rng: random.Random
    wrong: list[str] = field(default_factory=list)
    came: Counter[str] = field(default_factory=Counter)
    held: dict[str, list[int]] = field(default_factory=lambda: {"HTTP": [], "engine": []})

    async def run(self, requests: int) -> None:
        """So many, `AT_ONCE` at a time."""
        left = iter(range(requests))

        async def worker() -> None:
            for _ in left:
                await self.one()
                self.held["HTTP"].append(resident(self.server.process.pid))
                self.held["engine"].append(resident(os.getpid()))

        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(worker)

    async def one(self) -> None:
        kind = self.rng.random()
        if kind < GIVEN_UP:
            await self.give_up()
        elif kind < 0.3:
            await self.refused()
        elif kind < 0.4:
            path = self.rng.choice(QUESTIONS)
            self.check(path, await self.client.get(self.server.url + path), 200)
        else:
            await self.speak()

    def body(self) -> tuple[dict[str, object], int]:
        """A request for speech, and how many words it has."""
        words = self.rng.randint(0, 30)
        text = "".join(f"word{self.rng.choice([' ', '. '])}" for _ in range(words)) or "..."
        way: dict[str, object] = self.rng.choice([{}, {"stream": False}, {"stream_format": "sse"}])
        return {
            "input": text,
            "voice": self.rng.choice([None, "af_heart", "bm_fable"]),
            "response_format": str(self.rng.choice(list(Format))),
            **way,
        }, words

    async def speak(self) -> None:
        body, words = self.body()
        response = await self.client.post(f"{self.server.url}/audio/speech", json=body)
        self.check(str(body), response, 200)
        plain = body["response_format"] == "pcm" and "stream_format" not in body
        if plain and len(response.content) != (words * WORD_MS or 100) * 48:
            self.wrong.append(f"{len(response.content)} bytes for {body}")

    async def refused(self) -> None:
        body, status = self.rng.choice(REFUSED)
        response = await self.client.post(f"{self.server.url}/audio/speech", json=body)
        self.check(str(body), response, status)
        if "error" not in response.json():
            self.wrong.append(f"{response.content!r} for {body}")

    async def give_up(self) -> None:
        """Leaves at some place: before there is an answer, or in the middle of it."""
        body, _ = self.body()
        data = json.dumps(body).encode()
        head = (
            f"POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        async with await trio.open_tcp_stream("127.0.0.1", self.server.port) as stream:
            request = head.encode() + data
            await stream.send_all(request[: self.rng.choice([len(request), len(request) - 5])])
            answer = b""
            if len(data) and self.rng.random() < 0.7:
                with trio.move_on_after(0.05):  # nothing comes for half a request
                    answer = await stream.receive_some(self.rng.randint(1, 20_000))
        self.came["given up"] += 1
        if answer and not answer.startswith(b"HTTP/1.1 200"):
            self.wrong.append(f"{answer[:200]!r} for {body}")

    def check(self, what: str, response: httpx.Response, status: int) -> None:
        self.came[str(response.status_code)] += 1
        if response.status_code != status:
            self.wrong.append(f"{response.status_code} for {what[:200]}")


def resident(pid: int) -> int:
    """Pages of memory that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("requests", [120, pytest.param(1000, marks=pytest.mark.soak)])
async def test_many_requests_of_all_kinds(requests: int) -> None:
    voice = ToneVoice()
    async with (
        engine(voice, voice) as engine_port,
        started("--port", "0", "--engine-port", str(engine_port), patience_s=500) as server,
        http() as client,
        trio.open_nursery() as nursery,
    ):
        await server.until_ready()
        nursery.start_soon(server.drain)
        load = Load(client, server, random.Random(7))
        await load.run(requests)
        assert load.wrong == []
        assert load.came.total() == requests
        assert load.came["given up"] >= requests * GIVEN_UP / 2
        with trio.fail_after(10):
            while voice.active:  # noqa: ASYNC110 - those that were given up last
                await trio.sleep(0.01)
        status = await client.get(f"http://127.0.0.1:{server.port}/status")
        assert status.json()["engine"]["streams"] == 0
        if requests > WARM_UP:
            for name, pages in load.held.items():
                usual = median(pages[WARM_UP:][:100])
                most = max(pages[WARM_UP:])
                print(f"{name}: {usual:.0f} pages at first, {most} at most")
                assert most <= GROWTH * usual
        nursery.cancel_scope.cancel()
