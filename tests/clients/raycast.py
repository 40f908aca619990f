"""The Raycast extension without Raycast: its commands, bundled with a stand-in for Raycast's API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest
import trio

from tests.support.rig import PATIENCE_S

FOLDER = Path(__file__).resolve().parents[2] / "clients" / "raycast"

needs_node = pytest.mark.skipif(
    shutil.which("npm") is None or not (FOLDER / "node_modules" / "@raycast" / "api").is_dir(),
    reason="Node or the packages of the extension are missing; `make test` installs both where it "
    "can",
)


class Shown(msgspec.Struct, frozen=True):
    """Something that a person would see.

    Attributes:
        kind: `hud`, `toast`, or something that happened to them, such as `closed`.
        style: of a toast: `failure`, `animated` or `success`.
        action: title of what can be done about it.
    """

    kind: str
    title: str = ""
    message: str = ""
    style: str = ""
    action: str = ""


class Outcome(msgspec.Struct, frozen=True):
    """What a command did.

    Attributes:
        shown: in this order.
        lines: what can be read in a view.
    """

    shown: tuple[Shown, ...]
    lines: tuple[str, ...] = ()

    @property
    def hud(self) -> str:
        """The one thing that was shown, but that the menu bar looks again: a confirmation."""
        (shown,) = [one for one in self.shown if one.kind != "launched"]
        assert shown.kind == "hud", shown
        return shown.title

    @property
    def failure(self) -> Shown:
        """The one thing that was shown: what went wrong."""
        (shown,) = self.shown
        assert shown.style == "failure", shown
        return shown


class Raycast:
    """A user of the extension; use `raycast`.

    Attributes:
        preferences: of the user; what is not named is as the manifest has it.
    """

    def __init__(self, process: trio.Process, preferences: dict[str, object]) -> None:
        self.preferences = preferences
        self._process = process
        self._rest = b""

    async def run(self, command: str, **wish: object) -> Outcome:
        """Runs a command; see `test/drive.ts` of the extension for what can be wished."""
        assert self._process.stdin is not None
        preferences = self.preferences | wish.pop("preferences", {})  # type: ignore[operator]
        line = {"command": command, "preferences": preferences, **wish}
        with trio.fail_after(PATIENCE_S):
            await self._process.stdin.send_all(json.dumps(line).encode() + b"\n")
            return msgspec.json.decode(await self._line(), type=Outcome)

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        while b"\n" not in self._rest:
            data = await self._process.stdout.receive_some()
            assert data, "the extension ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line


def bundle(folder: Path) -> None:
    """Bundles commands and tests of the extension, for plain Node, into a folder below its own."""
    subprocess.run(
        ["npm", "run", "-s", "bundle", "--", f"--outdir={folder}"],
        cwd=FOLDER,
        check=True,
        timeout=120,
    )


@asynccontextmanager
async def raycast(
    script: Path, data_dir: Path, *, quick_ms: int | None = None
) -> AsyncIterator[Raycast]:
    """Somebody who has installed the extension.

    Args:
        script: `drive.js`, as `bundle` has made it.
        data_dir: where the player is found.
        quick_ms: how long they wait for what should come at once; None: as long as everybody.
    """
    environment = {
        "PATH": os.environ["PATH"],
        **({} if quick_ms is None else {"QUICK_MS": str(quick_ms)}),
    }
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                ["node", str(script)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=FOLDER,
                env=environment,
            )
        )
        yield Raycast(process, {"dataFolder": str(data_dir)})
        assert process.stdin is not None
        await process.stdin.aclose()  # it ends by itself then, with no fault
        with trio.fail_after(PATIENCE_S):
            await process.wait()
