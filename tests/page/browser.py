"""Chromium without a window, driven over the DevTools protocol: real clicks, real sound, real pages."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import trio
from websockets.exceptions import ConnectionClosed
from websockets.trio.client import ClientConnection
from websockets.trio.client import connect as open_websocket

Json: TypeAlias = dict[str, Any]

CHROMIUM = shutil.which("chromium")

#: leads to this machine, but a browser takes it for another one
NAME = "tts.example"

#: how long a page may take for what a test waits for
PATIENCE_S = 30.0

_LISTENING = re.compile(rb"DevTools listening on (ws://\S+)")

#: evaluated in the page: waits until an expression is true, and gives its value
_UNTIL = """
new Promise((done, failed) => {{
  const ends = performance.now() + {limit_ms};
  const look = () => {{
    const found = {expression};
    if (found) done(found);
    else if (performance.now() > ends) failed(new Error({name} + " never came"));
    else setTimeout(look, 5);
  }};
  look();
}})
"""


class Failed(Exception):
    """An expression threw."""


class _Wire:
    """The DevTools protocol, over all sessions of one browser."""

    def __init__(self, websocket: ClientConnection) -> None:
        self._websocket = websocket
        self._last = 0
        self._asked: dict[int, trio.MemorySendChannel[Json]] = {}
        self.pages: dict[str, Page] = {}

    async def read(self) -> None:
        try:
            while True:
                message: Json = json.loads(await self._websocket.recv())
                if "id" in message:
                    await self._asked.pop(message["id"]).send(message)
                elif page := self.pages.get(message.get("sessionId", "")):
                    page.note(message["method"], message["params"])
        except ConnectionClosed:
            pass

    async def ask(self, method: str, session: str | None, params: Json) -> Json:
        self._last += 1
        sender, answers = trio.open_memory_channel[Json](1)
        self._asked[self._last] = sender
        message = {"id": self._last, "method": method, "params": params}
        await self._websocket.send(
            json.dumps(message if session is None else {**message, "sessionId": session})
        )
        answer = await answers.receive()
        assert "error" not in answer, (method, answer["error"])
        found: Json = answer["result"]
        return found


@dataclass
class Page:
    """A tab.

    Attributes:
        complaints: errors and warnings that the console shows, and errors nobody caught.
    """

    wire: _Wire
    session: str
    target: str
    complaints: list[str] = field(default_factory=list)

    async def ask(self, method: str, **params: Any) -> Json:
        """A command of the DevTools protocol, and its answer."""
        return await self.wire.ask(method, self.session, params)

    def note(self, method: str, params: Json) -> None:
        """Keeps what must not be in a page that is well."""
        if method == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning"}:
            self.complaints.append(" ".join(str(a.get("value", a)) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in {"error", "warning"}:
            self.complaints.append(params["entry"]["text"])

    async def before_it_loads(self, script: str) -> None:
        """Runs a script in every document, before its own."""
        await self.ask("Page.addScriptToEvaluateOnNewDocument", source=script)

    async def go(self, url: str) -> None:
        """Opens an address, and waits until the page has connected to its engine or says why not."""
        await self.ask("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression, or of the promise that it gives."""
        answer = await self.ask(
            "Runtime.evaluate",
            expression=expression,
            awaitPromise=True,
            returnByValue=True,
            allowUnsafeEvalBlockedByCSP=False,
        )
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Failed(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    async def until(self, expression: str, limit_s: float = PATIENCE_S) -> Any:
        """Waits until an expression is true."""
        return await self.evaluate(
            _UNTIL.format(
                expression=expression, limit_ms=limit_s * 1000, name=json.dumps(expression)
            )
        )

    async def text(self, selector: str) -> str:
        """What an element says."""
        return str(await self.evaluate(f"document.querySelector({selector!r}).textContent"))

    async def says(self, selector: str, words: str) -> str:
        """Waits until an element says something with these words in it; gives all of it."""
        where = f"document.querySelector({selector!r}).textContent"
        await self.until(f"{where}.includes({json.dumps(words)})")
        return await self.text(selector)

    async def fill(self, selector: str, value: str) -> None:
        """Puts a value into a field, as typing or pasting does."""
        await self.evaluate(
            f"(field => {{ field.value = {json.dumps(value)};"
            f" for (const name of ['input', 'change']) field.dispatchEvent(new Event(name, {{bubbles: true}})) }})"
            f"(document.querySelector({selector!r}))"
        )

    async def click(self, selector: str) -> None:
        """Clicks with the mouse: browsers let sound out only then."""
        box = await self.evaluate(
            f"(box => [box.x + box.width / 2, box.y + box.height / 2])"
            f"((e => (e.scrollIntoView({{block: 'nearest'}}), e.getBoundingClientRect()))"
            f"(document.querySelector({selector!r})))"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent",
                type=kind, x=box[0], y=box[1], button="left", clickCount=1,
            )  # fmt: skip

    async def press(self, key: str, *, code: str = "", modifiers: int = 0) -> None:
        """Presses a key; modifiers: 2 Ctrl, 4 Meta, 8 Shift."""
        for kind in ("rawKeyDown", "keyUp"):
            await self.ask(
                "Input.dispatchKeyEvent", type=kind, key=key, code=code or key, modifiers=modifiers,
                windowsVirtualKeyCode={"Enter": 13, "Escape": 27, " ": 32, "Tab": 9}.get(key, ord(key[0].upper())),
            )  # fmt: skip

    async def looks(self, *, width: int, height: int, scheme: str, scale: float = 1.0) -> None:
        """The size of its window, and light or dark."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=width < 600,
        )  # fmt: skip
        await self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    async def picture(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode((await self.ask("Page.captureScreenshot", format="png"))["data"])


@dataclass
class Browser:
    """A running Chromium."""

    wire: _Wire

    @asynccontextmanager
    async def page(self) -> AsyncIterator[Page]:
        """A tab with cookies and storage of its own."""
        context = (await self.wire.ask("Target.createBrowserContext", None, {}))["browserContextId"]
        target = (
            await self.wire.ask(
                "Target.createTarget", None, {"url": "about:blank", "browserContextId": context}
            )
        )["targetId"]
        session = (
            await self.wire.ask(
                "Target.attachToTarget", None, {"targetId": target, "flatten": True}
            )
        )["sessionId"]
        page = self.wire.pages[session] = Page(self.wire, session, target)
        for domain in ("Page", "Runtime", "Log"):
            await page.ask(f"{domain}.enable")
        # A tab behind another one counts as seen, so that it goes on marking words.
        await page.ask("Emulation.setFocusEmulationEnabled", enabled=True)
        try:
            yield page
        finally:
            with trio.move_on_after(5, shield=True):
                await self.wire.ask(
                    "Target.disposeBrowserContext", None, {"browserContextId": context}
                )


@contextmanager
def chromium() -> Iterator[str]:
    """Starts a browser, which ends with the context; gives the address of its DevTools."""
    assert CHROMIUM is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [
            CHROMIUM, "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}",
            "--no-first-run", "--no-default-browser-check", "--disable-gpu", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--disable-dev-shm-usage", "--no-proxy-server",
            f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
            # sound goes to the browser's own fake device, which keeps time by the clock
            "--disable-audio-output",
            *(["--no-sandbox"] if os.getuid() == 0 else []),
            "about:blank",
        ]  # fmt: skip
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, env={**os.environ, "HOME": folder}
        )
        assert process.stderr is not None
        try:
            printed = b""
            while not (found := _LISTENING.search(printed)):
                line = process.stderr.readline()
                assert line, f"Chromium did not start: {printed.decode(errors='replace')}"
                printed += line
            reader = threading.Thread(target=process.stderr.read, daemon=True)
            reader.start()  # a full pipe would hold it up
            yield found[1].decode()
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            reader.join(timeout=10)
            process.stderr.close()


@asynccontextmanager
async def driving(url: str) -> AsyncIterator[Browser]:
    """Drives the browser whose DevTools are there."""
    async with open_websocket(
        url, max_size=None, compression=None, proxy=None, ping_interval=None
    ) as websocket:
        wire = _Wire(websocket)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.read)
            yield Browser(wire)
            nursery.cancel_scope.cancel()
