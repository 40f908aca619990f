"""Starts kokoro-live's own processes, and finds what they leave behind."""

from __future__ import annotations

import atexit
import os
import queue
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.access import TOKEN

ROOT = Path(__file__).parent.parent.parent

#: where processes under test keep what they would keep in the user's folder
DATA_DIR = Path(tempfile.mkdtemp(prefix="kokoro-live-"))
atexit.register(shutil.rmtree, DATA_DIR, ignore_errors=True)

#: below what Linux and macOS give to whoever asks for any port
_NOT_GIVEN = range(20_000, 32_000)

#: only for a test that has already failed: how long a process may say nothing
PATIENCE_S = 120

#: colours of a terminal, which honcho also writes into a pipe
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that the system gives to nobody who asks for any."""
    ports: list[int] = []
    for port in random.SystemRandom().sample(_NOT_GIVEN, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
        if len(ports) == count:
            break
    return ports


def environment(**settings: object) -> dict[str, str]:
    """This environment with our interpreter first, and settings as KOKORO_LIVE_… variables.

    An engine has one thread where there is a process of tests for every core, unless it is told.
    """
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    settings = {"token": TOKEN, "data_dir": DATA_DIR, **settings}  # not this machine's own
    if "PYTEST_XDIST_WORKER" in os.environ:
        settings = {"threads": 1, **settings}
    told = {f"KOKORO_LIVE_{name.upper()}": str(value) for name, value in settings.items()}
    return {**os.environ, "PATH": path, "PYTHONUNBUFFERED": "1", **told}


def run_module(
    module: str, *args: str, text: str = "", **settings: object
) -> subprocess.CompletedProcess[str]:
    """Runs `python -m module` to its end."""
    return subprocess.run(
        [sys.executable, "-m", module, *args],
        input=text,
        env=environment(**settings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@dataclass(slots=True)
class Running:
    """A process that talks."""

    process: subprocess.Popen[str]
    mark: str
    told: list[str] = field(default_factory=list)
    _lines: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        """In a thread: collects what it says."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(_COLOUR.sub("", line))
        self._lines.put(None)

    def until(self, *parts: str) -> None:
        """Waits until each of `parts` was in some line."""
        missing = {part for part in parts if not any(part in line for line in self.told)}
        while missing:
            line = self._lines.get(timeout=PATIENCE_S)
            assert line is not None, f"it ended without saying {missing}:\n{''.join(self.told)}"
            self.told.append(line)
            missing = {part for part in missing if part not in line}

    def end(self, number: signal.Signals) -> int:
        """Sends a signal and gives the exit code; what it still says is in `told`."""
        self.process.send_signal(number)
        code = self.process.wait(timeout=PATIENCE_S)
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            self.told.append(line)
        return code

    def left_behind(self) -> list[int]:
        """Processes that still carry our mark in their environment (Linux)."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                environ = (folder / "environ").read_bytes()
            except OSError:  # gone, or somebody else's
                continue
            if self.mark.encode() in environ:
                found.append(int(folder.name))
        return found


@contextmanager
def started(*command: str, **settings: object) -> Iterator[Running]:
    """A running process; ended at the latest when the context is left."""
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**environment(**settings), "E2E_MARK": mark},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    running = Running(process, mark)
    reader = threading.Thread(target=running.read, daemon=True)
    reader.start()
    try:
        yield running
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(timeout=PATIENCE_S)
        reader.join(timeout=PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


def listening(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0
