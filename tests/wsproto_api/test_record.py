"""The recording proxy, the server that plays a transcript, and the program that is both."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from typing_extensions import Buffer
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.trio.server import ServerConnection
from websockets.trio.server import serve as serve_websocket

from engine.config import Settings
from engine.errors import SetupError
from engine.process import open_listeners
from engine.request import Done, Event, Frame, SpeechRequest
from tests.support.access import TOKEN
from tests.support.processes import run_module
from tests.support.reading import hear
from tests.support.tone import ToneVoice
from tests.wsproto_api.recording import (
    FILE,
    SPEED,
    TEXT,
    joined,
    perform,
    recording,
    replaying,
    timeless,
)
from tests.wsproto_api.serving import PATIENCE_S, serving
from wsproto_api import messages, review, security, sockets, transcript
from wsproto_api.record import Proxy, Recording, Tape, record
from wsproto_api.replay import Replay
from wsproto_api.speak import WebSocketSpeak
from wsproto_api.transcript import Closed, Opened, Passed, Recorder, Said, Sounded, Transcript

REQUEST = SpeechRequest(text=TEXT, speed=SPEED, marks=True, key="first")


def session_file() -> Transcript:
    return transcript.read(FILE.read_bytes(), FILE.name)


def ends(what: Transcript) -> list[tuple[str, int, str]]:
    return [(e.sender, e.code, e.reason) for e in what.entries if isinstance(e, Closed)]


# --- the recorded session ---------------------------------------------------------------------


async def test_a_client_hears_the_recorded_stream_as_if_it_were_made_now(
    settings: Settings,
) -> None:
    async with replaying(session_file(), settings) as url:
        again = await hear(WebSocketSpeak(url, TOKEN), REQUEST)
    async with serving(settings) as served:
        now = await hear(WebSocketSpeak(served.url, TOKEN), REQUEST)
    assert [plain(event) for event in again.events] == [plain(event) for event in now.events]
    assert again.pcm == now.pcm == (await hear(ToneVoice(), REQUEST)).pcm
    assert len(again.pcm) == 2 * again.done.samples > 0


def plain(event: Event) -> Event:
    """Without what depends on the moment."""
    if not isinstance(event, Done):
        return event
    return Done(
        samples=event.samples, audio_ms=event.audio_ms, chars=event.chars, segments=event.segments
    )


async def test_a_recording_of_a_replay_is_the_recording(settings: Settings) -> None:
    async with serving(settings) as served, recording(served.url, settings) as first:
        await perform(first.url)
        told = served.server.status(None).streams
    assert told == 0
    async with replaying(first.read(), settings) as url, recording(url, settings) as second:
        await perform(second.url)
    assert timeless(second.read()) == timeless(first.read())
    assert review.faults(first.read()) == []
    # so that the file of the repository is what this would record
    assert kinds(first.read()) == kinds(session_file())


def kinds(what: Transcript) -> dict[int, list[str]]:
    """By connection, of what kind its messages are."""
    return {number: [kind(entry) for entry in what.of(number)] for number in what.connections}


def kind(entry: Passed) -> str:
    match entry:
        case Said():
            return f"{entry.sender} {json.loads(entry.text)['type']}"
        case Closed():
            return f"{entry.sender} closed {entry.code}"
        case Sounded():
            return f"frame {entry.seq} of {entry.stream}"
        case _:
            return "binary"


async def test_what_is_recorded_is_what_was_heard(settings: Settings) -> None:
    async with serving(settings) as served, recording(served.url, settings) as recorded:
        async with joined(recorded.url) as wire:
            await wire.until("ready")
            await wire.speak(TEXT, speed=SPEED)
            await wire.until("stream.done")
    said = [
        json.loads(entry.text)
        for entry in recorded.read().of(1)
        if isinstance(entry, Said) and entry.sender == "server"
    ]
    assert said == [message for message in wire.seen if isinstance(message, dict)]
    frames = [entry.wire() for entry in recorded.read().of(1) if isinstance(entry, Sounded)]
    heard = [door_frame.frame.pcm for door_frame in wire.seen if not isinstance(door_frame, dict)]
    assert [data[20:] for data in frames] == heard
    assert ends(recorded.read()) == [("client", 1000, "")]


async def test_text_and_samples_may_be_left_out(settings: Settings) -> None:
    async with serving(settings) as served:
        async with recording(served.url, settings, text=False, audio=False) as recorded:
            await perform(recorded.url)
    for word in ("One", "two", "Three", "Four", "five", TOKEN):
        assert word not in recorded.text
    found = recorded.read()
    assert kinds(found) == kinds(session_file())
    assert '\\"text\\": \\"Xxx xxx. Xxxxx!\\"' in recorded.text
    # and all the same it can be played, as silence, to whoever asks in the same order
    async with replaying(found, settings) as url:
        silent = await hear(WebSocketSpeak(url, TOKEN), REQUEST)
    assert silent.pcm == bytes(2 * silent.done.samples) != b""


# --- a proxy changes nothing ------------------------------------------------------------------


@asynccontextmanager
async def scripted(
    handle: Callable[[ServerConnection], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server of the test's own."""
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(
            partial(
                serve_websocket, handle, listeners=listeners, compression=None, ping_interval=None
            )
        )
        with trio.fail_after(PATIENCE_S):
            yield f"ws://127.0.0.1:{port}/"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("code", "reason"),
    [(1000, ""), (4401, "unauthorized"), (1013, "ä" * 60), (1005, ""), (1006, "")],
)
async def test_the_end_of_the_server_reaches_the_client(
    settings: Settings, code: int, reason: str
) -> None:
    async def handle(websocket: ServerConnection) -> None:
        await websocket.send("the last words")
        await sockets.close(websocket, code, reason)

    async with scripted(handle) as url, recording(url, settings) as recorded:
        async with joined(recorded.url) as wire:
            assert await wire.websocket.recv() == "the last words"
            with pytest.raises(ConnectionClosed):
                await wire.websocket.recv()
            assert (wire.websocket.close_code, wire.websocket.close_reason or "") == (code, reason)
    assert ends(recorded.read()) == [("server", code, reason)]


@pytest.mark.parametrize(("code", "reason"), [(1000, "bye"), (3001, ""), (1005, ""), (1006, "")])
async def test_the_end_of_the_client_reaches_the_server(
    settings: Settings, code: int, reason: str
) -> None:
    heard: list[str | bytes] = []
    end = trio.Event()

    async def handle(websocket: ServerConnection) -> None:
        try:
            while True:
                heard.append(await websocket.recv())
        except ConnectionClosed:
            heard.append(f"{websocket.close_code} {websocket.close_reason or ''}")
            end.set()

    async with scripted(handle) as url, recording(url, settings) as recorded:
        async with joined(recorded.url) as wire:
            await wire.websocket.send("the last words")
            await wire.websocket.send(b"in bytes")
            await sockets.close(wire.websocket, code, reason)
            await end.wait()
    assert heard == ["the last words", b"in bytes", f"{code} {reason}"]
    assert ends(recorded.read()) == [("client", code, reason)]


async def test_an_engine_that_is_absent(settings: Settings) -> None:
    async with recording("ws://127.0.0.1:1/", settings) as recorded:
        async with joined(recorded.url) as wire:
            with pytest.raises(ConnectionClosed):
                await wire.websocket.recv()
            assert wire.websocket.close_code == 1013
    assert ends(recorded.read()) == [("server", 1013, "Nothing answers at ws://127.0.0.1:1/.")]


async def test_an_engine_that_refuses(settings: Settings) -> None:
    async with (
        serving(settings, connections=1) as served,
        recording(served.url, settings) as recorded,
        joined(recorded.url) as first,
    ):
        await first.until("ready")
        async with joined(recorded.url) as second:
            with pytest.raises(ConnectionClosed):
                await second.websocket.recv()
            assert second.websocket.close_code == 1013
            assert "Too many connections" in (second.websocket.close_reason or "")


async def test_who_may_not_come_to_the_engine_may_not_come_here(settings: Settings) -> None:
    async with serving(settings) as served, recording(served.url, settings) as recorded:
        for token, origin, status in (
            (None, None, 401),
            ("wrong", None, 401),
            (TOKEN, "http://evil.example", 403),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with joined(recorded.url, token=token, origin=origin):
                    pass
            assert caught.value.response.status_code == status
        page = f"http://127.0.0.1:{settings.http_port}"
        async with joined(recorded.url, token=None, origin=page) as wire:
            await wire.until("ready")
    assert recorded.read().connections == [1]
    assert TOKEN not in recorded.text


async def test_a_token_goes_to_the_server_and_not_into_the_file(settings: Settings) -> None:
    heard: list[Any] = []

    async def handle(websocket: ServerConnection) -> None:
        assert websocket.request is not None
        heard.append(websocket.request.headers.get("Origin"))
        heard.append(json.loads(await websocket.recv()))
        await websocket.send("welcome")

    page = f"http://127.0.0.1:{settings.http_port}"
    async with scripted(handle) as url, recording(url, settings, socket="player") as recorded:
        async with joined(recorded.url, token=None, origin=page) as wire:
            await wire.send("auth", token="my-own-token-which-is-long")
            assert await wire.websocket.recv() == "welcome"
    assert heard == [page, {"type": "auth", "token": "my-own-token-which-is-long"}]
    assert "my-own" not in recorded.text
    assert '\\"redacted\\"' in recorded.text


async def test_a_slow_client_slows_the_server_down(settings: Settings) -> None:
    sent = 0
    message = bytes(50_000)
    many = 1_000  # far more than the system and the library take by themselves

    async def handle(websocket: ServerConnection) -> None:
        nonlocal sent
        for _ in range(many):
            await websocket.send(message)
            sent += 1
        await websocket.recv()

    async with scripted(handle) as url, recording(url, settings, audio=False) as recorded:
        async with joined(recorded.url, queue=1) as wire:
            before = -1
            while before != sent:
                before = sent
                await trio.testing.wait_all_tasks_blocked(0.05)
            assert 0 < sent < many / 2
            recorded_so_far = recorded.text.count('"binary"')
            assert recorded_so_far <= sent
            for _ in range(many):
                assert await wire.websocket.recv() == message
    assert recorded.text.count('"binary"') == sent == many


async def test_the_end_of_the_recording_is_told_to_both_sides(settings: Settings) -> None:
    codes: list[int | None] = []

    async def handle(websocket: ServerConnection) -> None:
        await websocket.send("hello")
        with pytest.raises(ConnectionClosed):
            await websocket.recv()
        codes.append(websocket.close_code)

    async with scripted(handle) as url:
        async with trio.open_nursery() as nursery:
            stopped = trio.Event()
            async with recording(url, settings) as recorded:

                async def client(task_status: trio.TaskStatus[None]) -> None:
                    async with joined(recorded.url) as wire:
                        await wire.websocket.recv()
                        task_status.started()
                        with pytest.raises(ConnectionClosed):
                            await wire.websocket.recv()
                        codes.append(wire.websocket.close_code)

                await nursery.start(client)
            stopped.set()
    assert codes == [1001, 1001]
    assert ends(recorded.read()) == []  # it was open as long as was recorded


async def test_a_full_disk_ends_it_with_a_sentence(settings: Settings) -> None:
    class Full(io.RawIOBase):
        def write(self, data: Buffer, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    tape = Tape(Full(), Recorder(session_file().header))
    policy = security.policy(settings, port=1, token=TOKEN)
    proxy = Proxy(tape, "ws://127.0.0.1:1/", policy)
    with pytest.RaisesGroup(pytest.RaisesExc(SetupError, match="any further: No space left")):
        await proxy.serve(await open_listeners("127.0.0.1", 0))


# --- a replay ---------------------------------------------------------------------------------


async def test_the_distance_in_time_is_kept(
    settings: Settings, mock_clock: trio.testing.MockClock
) -> None:
    """Ready at once, and a pong an hour after the ping."""
    recorder = Recorder(transcript.header("engine", text=True, audio=True))
    ready = next(entry.text for entry in session_file().entries if isinstance(entry, Said))
    lines = [
        recorder.first_line(),
        recorder.opened(0.0)[1],
        recorder.passed(1, "server", ready, 0.0),
        recorder.passed(1, "client", '{"type":"ping","id":"a"}', 10.0),
        recorder.passed(1, "server", '{"type":"pong","reply_to":"a"}', 3610.0),
    ]
    slow = transcript.read("".join(lines).encode())
    async with (
        replaying(slow, settings, fast=False, patience_s=math.inf) as url,
        joined(url) as wire,
        trio.open_nursery() as nursery,
    ):
        await wire.until("ready")
        await wire.send("ping", id="mine")

        async def answer(task_status: trio.TaskStatus[None]) -> None:
            task_status.started()
            await wire.until("pong", reply_to="mine")

        await nursery.start(answer)
        for seconds in (0.0, 3599.0):
            mock_clock.jump(seconds)
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not wire.messages("pong")
        mock_clock.jump(2.0)
    assert wire.messages("pong", reply_to="mine")


async def test_clients_get_connections_in_turn(settings: Settings) -> None:
    async with replaying(session_file(), settings) as url:
        for first_message in ("speak", "subscribe", "speak"):
            async with joined(url) as wire:
                await wire.until("ready")
                wrong = await wire.ask("ping")
                assert wrong["type"] == "error"
                assert (
                    f"has a message {first_message!r} here, not a message 'ping'"
                    in (wrong["message"])
                )


async def test_who_may_not_come_to_the_engine_may_not_come_to_a_replay(settings: Settings) -> None:
    async with replaying(session_file(), settings) as url:
        with pytest.raises(InvalidStatus) as caught:
            async with joined(url, token=None):
                pass
        assert caught.value.response.status_code == 401


def player_session(*, auth: bool) -> Transcript:
    recorder = Recorder(transcript.header("player", text=True, audio=True))
    lines = [recorder.first_line(), recorder.opened(0.0)[1]]
    if auth:
        lines.append(recorder.passed(1, "client", '{"type":"auth","token":"x"}', 0.0))
    lines.append(recorder.passed(1, "server", '{"type":"ready"}', 0.0))
    lines.append(recorder.closed(1, "server", 4000, "over", 0.0))
    return transcript.read("".join(lines).encode())


@pytest.mark.parametrize("auth", [True, False])
@pytest.mark.parametrize(
    ("first", "code", "says"),
    [
        (f'{{"type":"auth","token":"{TOKEN}"}}', 4000, "ready"),
        (f'{{"type":"auth","token":"{TOKEN}","id":"a"}}', 4000, "ready"),
        ('{"type":"auth","token":"wrong"}', 4401, "error"),
        ('{"type":"ping"}', 4401, "error"),
        (b"auth", 4401, "error"),
    ],
)
async def test_a_page_shows_its_token_to_a_replayed_player(
    settings: Settings, auth: bool, first: str | bytes, code: int, says: str
) -> None:
    page = f"http://127.0.0.1:{settings.http_port}"
    async with replaying(player_session(auth=auth), settings) as url:
        async with joined(url, token=None, origin=page) as wire:
            await wire.websocket.send(first)
            heard = [json.loads(await wire.websocket.recv())["type"]]
            with pytest.raises(ConnectionClosed):
                while True:
                    heard.append(json.loads(await wire.websocket.recv())["type"])
            assert wire.websocket.close_code == code
            assert heard[0] == says


def test_nothing_to_replay(settings: Settings) -> None:
    policy = security.policy(settings, port=1, token=TOKEN)
    with pytest.raises(SetupError, match="Nobody connected"):
        Replay(Transcript(session_file().header), policy)


# --- the program ------------------------------------------------------------------------------


class Program:
    """`python -m wsproto_api.record` as a child.

    Attributes:
        lines: what it wrote on standard error.
        url: where it listens.
    """

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.lines: list[str] = []
        self.url = ""
        self._ready, self._read = trio.Event(), trio.Event()

    async def read(self) -> None:
        assert self.process.stderr is not None
        rest = b""
        async for data in self.process.stderr:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                self.lines.append(line.decode())
                if b'"event": "ready"' in line:
                    self.url = json.loads(line)["address"] + "/"
                    self._ready.set()
        self._ready.set()
        self._read.set()

    async def wait_ready(self) -> None:
        await self._ready.wait()
        assert self.url, self.lines

    async def end(self) -> int:
        self.process.send_signal(signal.SIGINT)
        await self._read.wait()
        return await self.process.wait()


def environment(folder: Path) -> dict[str, str]:
    (folder / "none.toml").touch()
    return {
        **os.environ,
        "KOKORO_LIVE_CONFIG": str(folder / "none.toml"),
        "KOKORO_LIVE_DATA_DIR": str(folder / "data"),
        "KOKORO_LIVE_TOKEN": TOKEN,
        "KOKORO_LIVE_LOG_FORMAT": "json",
    }


@asynccontextmanager
async def running(folder: Path, *args: str) -> AsyncIterator[Program]:
    """Starts the program on a free port; ends it at the end if it still runs."""
    async with trio.open_nursery() as nursery:
        process: trio.Process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, "-m", "wsproto_api.record", *args, "--port", "0"],
                stderr=subprocess.PIPE,
                check=False,
                env=environment(folder),
            )
        )
        program = Program(process)
        nursery.start_soon(program.read)
        with trio.fail_after(PATIENCE_S):
            await program.wait_ready()
        yield program
        nursery.cancel_scope.cancel()


async def test_the_program_records_and_replays(settings: Settings, tmp_path: Path) -> None:
    with trio.fail_after(3 * PATIENCE_S):
        file = tmp_path / "session.jsonl"
        async with serving(settings, patience_s=3 * PATIENCE_S) as served:
            flags = ("--engine", served.url, "--keep-text", str(file))
            async with running(tmp_path, *flags) as program:
                await perform(program.url)
                assert await program.end() == 130
        count = len([e for e in session_file().entries if not isinstance(e, Closed | Opened)])
        assert any(line.startswith(f"{count} messages in ") for line in program.lines), (
            program.lines
        )
        assert not any("Traceback" in line for line in program.lines)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        first = transcript.read(file.read_bytes())
        assert kinds(first) == kinds(session_file())

        async with running(tmp_path, "--replay", str(file), "--fast") as program:
            async with recording(program.url, settings) as second:
                await perform(second.url)
            assert await program.end() == 130
        assert timeless(second.read()) == timeless(first)


def run(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    told: dict[str, Any] = {
        "config": folder / "none.toml",
        "data_dir": folder / "data",
        "token": TOKEN,
    }
    (folder / "none.toml").touch()
    return run_module("wsproto_api.record", *args, **told)


def test_the_program_shows_a_transcript(tmp_path: Path) -> None:
    done = run(tmp_path, "--show", str(FILE))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == list(review.shown(session_file()))


def test_the_program_tells_what_is_wrong(tmp_path: Path) -> None:
    lines = FILE.read_text().splitlines(keepends=True)
    gone = next(n for n, line in enumerate(lines) if '"frame"' in line and '"seq":1' in line)
    file = tmp_path / "gap.jsonl"
    file.write_text("".join(lines[:gone] + lines[gone + 1 :]))
    done = run(tmp_path, "--show", str(file))
    assert done.returncode == 1
    fault, sentence = done.stderr.splitlines()
    assert fault.startswith(f"{file}, line ")
    assert "A frame of stream 1 has number 2, but 1 is next." in fault
    assert sentence == "The protocol was broken in one place."


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--show", "nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file"),
        (["--replay", "nowhere.jsonl"], "nowhere.jsonl cannot be read: No such file"),
        (["--show", "broken.jsonl"], "broken.jsonl, line 1: The message is not valid JSON."),
        (["broken.jsonl", "--port", "0"], "broken.jsonl exists; --force replaces it."),
        (["no/folder/x.jsonl", "--port", "0"], "cannot be written: No such file"),
        (["new.jsonl", "--engine", "nonsense", "--port", "0"], "not the address of a WebSocket"),
    ],
)
def test_what_goes_wrong_is_one_sentence(tmp_path: Path, args: list[str], says: str) -> None:
    (tmp_path / "broken.jsonl").write_text("no")
    args = [str(tmp_path / arg) if arg.endswith(".jsonl") else arg for arg in args]
    done = run(tmp_path, *args)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert says in line
    assert line.endswith(".")
    assert (tmp_path / "broken.jsonl").read_text() == "no"
    assert not (tmp_path / "new.jsonl").exists()


async def test_a_file_may_be_replaced_and_nobody_else_reads_it(
    settings: Settings, tmp_path: Path
) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text("what was here before")
    file.chmod(0o644)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(record, settings, file, Recording(port=0, force=True))
        while not file.read_text().startswith('{"type":"transcript"'):
            await trio.testing.wait_all_tasks_blocked(0.005)
        nursery.cancel_scope.cancel()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        (Recording(), "port 8891 "),
        (Recording(socket="player"), "port 8892 "),
    ],
)
async def test_where_it_stands_by_default(
    settings: Settings, tmp_path: Path, how: Recording, expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    async def refuse(host: str, port: int) -> list[trio.SocketListener]:
        raise SetupError(f"host {host} port {port} ")

    monkeypatch.setattr("engine.process.open_listeners", refuse)
    with pytest.raises(SetupError, match=f"host 127.0.0.1 {expected}"):
        await record(settings, tmp_path / "x.jsonl", how)


def test_frames_of_the_session_are_the_voices() -> None:
    """What stands in the repository is what the fake voice says, to the sample."""
    spoken = trio.run(hear, ToneVoice(), REQUEST)
    written = [e for e in session_file().of(1) if isinstance(e, Sounded) and e.stream == 1]
    assert [(e.seq, e.sample, e.pcm) for e in written] == [
        (frame.seq, frame.sample, frame.pcm) for frame in spoken.of(Frame)
    ]
    assert session_file().header.protocol == messages.PROTOCOL
