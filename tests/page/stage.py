"""The page's server and an engine in this process, a door between page and engine, and a tap in the page."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import trio
from quart import Response

from engine.config import Settings
from engine.process import open_listeners
from engine.report import Manage
from engine.request import Frame, SpeakLive
from http_compat import server
from http_compat.app import create_app
from http_compat.remote import RemoteEngine
from tests.http_compat.serving import defaults
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from tests.wsproto_api.recording import joined
from wsproto_api import security
from wsproto_api.server import EngineServer

from .browser import Page

FOLDER = Path(__file__).parent

#: only a test that would hang for ever notices it
PATIENCE_S = 60.0


class Door:
    """A TCP proxy in front of the engine that can stand still, and shut.

    Args:
        port: of the engine.

    Attributes:
        shut: whether who comes is sent away.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._moving = trio.Event()
        self._moving.set()
        self._open: set[trio.SocketStream] = set()
        self.shut = False

    def stall(self) -> None:
        """Nothing passes any more, and nobody is told."""
        self._moving = trio.Event()

    def go_on(self) -> None:
        """What waited passes."""
        self._moving.set()

    async def cut(self) -> None:
        """All connections break off."""
        for stream in list(self._open):
            await trio.aclose_forcefully(stream)

    async def serve(self, listeners: list[trio.SocketListener], task_status: Any) -> None:
        await trio.serve_listeners(self._connected, listeners, task_status=task_status)

    async def _connected(self, page: trio.SocketStream) -> None:
        try:
            if self.shut:
                raise OSError
            engine = await trio.open_tcp_stream("127.0.0.1", self._port)
        except OSError:
            await trio.aclose_forcefully(page)
            return
        self._open |= {page, engine}
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass, page, engine, nursery)
                nursery.start_soon(self._pass, engine, page, nursery)
        finally:
            self._open -= {page, engine}
            for stream in (page, engine):
                stream.socket.close()

    async def _pass(
        self, source: trio.SocketStream, target: trio.SocketStream, both: trio.Nursery
    ) -> None:
        try:
            async for data in source:
                await self._moving.wait()
                await target.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        both.cancel_scope.cancel()


@dataclass
class Stage:
    """What runs. The page reaches the engine through the door, others reach it themselves.

    Attributes:
        url: of the page.
        port: of the engine.
    """

    nursery: trio.Nursery
    settings: Settings
    speak: SpeakLive
    describe: Manage
    url: str
    port: int
    door: Door
    engine: EngineServer = field(init=False)
    _running: trio.CancelScope = field(default_factory=trio.CancelScope)
    _over: trio.Event = field(default_factory=trio.Event)

    @property
    def engine_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/"

    async def start(self) -> None:
        """The engine comes up; another instance each time."""
        self.engine = EngineServer(self.speak, self.describe, self.settings, TOKEN)
        self._running, self._over = trio.CancelScope(), trio.Event()
        listeners = await open_listeners("127.0.0.1", self.port)

        async def run(*, task_status: trio.TaskStatus[None]) -> None:
            with self._running:
                await self.engine.serve(listeners, task_status=task_status)
            self._over.set()

        await self.nursery.start(run)

    async def stop(self) -> None:
        """The engine ends as by a signal."""
        self._running.cancel()
        await self._over.wait()

    async def hear(self, heard: dict[int, list[Frame]], *, task_status: Any) -> None:
        """Follows everything, as another client; for a nursery's `start`."""
        async with joined(self.engine_url) as wire:
            await wire.ask("subscribe", stream="*")
            task_status.started()
            while True:
                found = await wire.next()
                if not isinstance(found, dict):
                    heard.setdefault(found.stream, []).append(found.frame)


@asynccontextmanager
async def staged(
    voice: ToneVoice | None = None,
    *,
    speak: SpeakLive | None = None,
    running: bool = True,
    direct: bool = False,
    hosts: tuple[str, ...] = (),
    patience_s: float = PATIENCE_S,
    **changes: object,
) -> AsyncIterator[Stage]:
    """Serves the page.

    Args:
        voice: what speaks.
        speak: what speaks instead.
        running: whether there is an engine at first.
        hosts: by what else the page and the engine are reached.
        direct: whether the page does without the door, which there is also without an engine.
        patience_s: how long the test may take.
        changes: settings of the engine.
    """
    voice = voice or ToneVoice()
    outer = await open_listeners("127.0.0.1", 0)
    page = await open_listeners("127.0.0.1", 0)
    engine = await open_listeners("127.0.0.1", 0)
    ports = [listeners[0].socket.getsockname()[1] for listeners in (outer, page, engine)]
    for listener in engine:
        await listener.aclose()  # `start` takes it again
    door = Door(ports[2])
    reached = ports[2] if direct else ports[0]
    settings = defaults(
        http_port=ports[1], engine_port=reached, hosts=(f"127.0.0.1:{ports[0]}", *hosts), **changes
    )
    remote = RemoteEngine(settings.engine_url, TOKEN, settings.player_url)
    app = create_app(
        remote.speak, remote.voices, remote, settings=settings,
        policy=security.policy(settings, port=ports[1], token=TOKEN),
    )  # fmt: skip

    @app.get("/test/<name>")
    async def tools(name: str) -> Response:
        """What tests run in the page beside its own modules; its policy lets in no other source."""
        if name == "slipped.html":  # the page, with what somebody slipped in
            response: Response = await app.view_functions["page"]()  # type: ignore[misc]
            body = await response.get_data(as_text=True)
            response.set_data(body.replace("</head>", "<script>slipped = 1</script></head>"))
            return response
        found = FOLDER / name
        if not found.is_file():  # of a package that tests bring
            found = FOLDER.parent / "node" / "node_modules" / "axe-core" / name
        return Response(found.read_bytes(), content_type="text/javascript")

    with trio.fail_after(patience_s):
        async with trio.open_nursery() as nursery:
            await nursery.start(door.serve, outer)
            await nursery.start(server.serve, app, page)
            stage = Stage(
                nursery, settings, speak or voice, voice,
                f"http://127.0.0.1:{ports[1]}/", ports[2], door,
            )  # fmt: skip
            if running:
                await stage.start()
            yield stage
            nursery.cancel_scope.cancel()


async def opened(stage: Stage, page: Page) -> Tap:
    """Opens the page, connects, and turns its sound on."""
    await page.go(stage.url)
    await page.says("#connection", "Connected")
    tap = Tap(page)
    await tap.open()
    return tap


Samples = npt.NDArray[np.float32]


async def reading(
    stage: Stage, page: Page, text: str, until: str = "tap.words.length > 1"
) -> tuple[Tap, dict[int, list[Frame]]]:
    """Has the opened page read a text up to some place; and what the engine makes, by stream."""
    heard: dict[int, list[Frame]] = {}
    await stage.nursery.start(stage.hear, heard)
    tap = await opened(stage, page)
    await page.fill("#text", text)
    await page.click("#speak")
    await page.until(until)
    return tap, heard


class Tap:
    """Everything that leaves the page's worklet, sample for sample, since the sound is on.

    A second worklet in the same 24 kHz context listens to the output of the first: what it hears is
    what the device gets.
    """

    SCRIPT = (FOLDER / "tap.js").read_text()

    def __init__(self, page: Page) -> None:
        self._page = page

    async def open(self) -> None:
        """Turns the page's sound on, and listens."""
        for _ in range(2):  # a switch that does no more than that
            await self._page.click("#listen")
        await self._page.until("window.tap?.ready")

    async def samples(self) -> tuple[Samples, int]:
        """What came out, and the context's frame of the first of it."""
        data, first = await self._page.evaluate("tap.read()")
        return np.frombuffer(base64.b64decode(data), dtype="<f4"), first


def floats(frames: list[Frame]) -> Samples:
    """The sound of frames, as Web Audio has it."""
    pcm = np.frombuffer(b"".join(frame.pcm for frame in frames), dtype="<i2")
    return (pcm / np.float32(32_768)).astype(np.float32)


def holes(sound: Samples, out: Samples) -> tuple[int, list[tuple[int, int]]] | None:
    """How a sound came out, bit for bit, with nothing but silence put in between.

    Args:
        sound: what was to come out.
        out: what came.

    Returns:
        Where it begins, and of each silence that is not its own, before which sample it is and how
        long; None: the sound is not there.
    """
    loud = np.flatnonzero(sound)
    starts = np.flatnonzero(out == sound[loud[0]]) - loud[0]
    for start in starts[starts >= 0]:
        at, done, found = int(start), 0, list[tuple[int, int]]()
        while True:
            length = min(len(sound) - done, len(out) - at)
            differs = np.flatnonzero(sound[done : done + length] != out[at : at + length])
            step = int(differs[0]) if len(differs) else length
            done, at = done + step, at + step
            if done == len(sound):
                return int(start), found
            rest = np.flatnonzero(out[at:])
            if not len(rest) or rest[0] == 0:
                break  # it goes on with something else
            found.append((done, int(rest[0])))
            at += int(rest[0])
    return None
