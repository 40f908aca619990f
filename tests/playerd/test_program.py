"""The player as a program: its end, its complaints, and its commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from engine.config import Settings
from engine.process import open_listeners
from tests.playerd.program import Program, engine, no_traceback, running
from tests.support.rig import PATIENCE_S
from tests.support.tone import ToneVoice
from wsproto_api import messages

NO_ENGINE = 1  # a port where nobody listens


# --- the program ------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
@pytest.mark.parametrize("sink", ["null", "wav"])
async def test_it_ends_when_asked_to_while_it_plays(
    tmp_path: Path, settings: Settings, sink: str, number: signal.Signals, code: int
) -> None:
    flags = ("--sink", sink, "--wav-path", str(tmp_path / "out.wav"))
    quiet = {**os.environ, "KOKORO_LIVE_VOLUME": "0.5"}
    async with (
        engine(settings, ToneVoice(rtf=1)) as port,
        running(*flags, environment=quiet, folder=tmp_path, engine_port=port) as program,
        program.client() as client,
    ):
        assert (await client.status()).volume == 0.5
        await client.speak("Secret words that nobody may log. Secret words again.")
        await client.hear(messages.PlayerState, state="playing")
        assert await program.end(number) == code
    assert no_traceback(program)
    assert not any("ecret" in line for line in program.lines)
    assert program.ready["sink"] == sink
    assert program.ready["device"]


async def test_it_is_ready_without_an_engine(tmp_path: Path) -> None:
    async with (
        running(
            "--sink", "null", environment=os.environ, folder=tmp_path, engine_port=NO_ENGINE
        ) as program,
        program.client() as client,
    ):
        error = await client.refused("Hello.")
        assert (error.code, error.retryable) == ("not_ready", True)
        assert error.message.startswith("Nothing answers at ws://127.0.0.1:1/")


async def test_a_port_that_is_taken(tmp_path: Path) -> None:
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    child = await trio.run_process(
        [sys.executable, "-m", "playerd", "--port", str(port), "--sink", "null"],
        env={**os.environ, "KOKORO_LIVE_DATA_DIR": str(tmp_path)},  # nobody plays there
        capture_stderr=True,
        check=False,
    )
    for listener in listeners:
        await listener.aclose()
    assert child.returncode == 1
    assert isinstance(child.stderr, bytes)
    lines = child.stderr.decode().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"Port {port} on 127.0.0.1 is already in use")


def test_a_setting_that_makes_no_sense() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "playerd", "--sink", "gramophone"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert child.returncode == 1
    assert child.stderr.count("\n") == 1
    assert "sink" in child.stderr
    assert "gramophone" in child.stderr


# --- its commands -----------------------------------------------------------------------------


async def ran(*words: str, folder: Path, stdin: bytes = b"") -> tuple[int, list[str], list[str]]:
    """A command that finds the player of this folder: its exit code, what it said, its complaints.

    Commands are not patient, and the player may be kept from the processor: they get a second try.
    """
    for _ in range(2):
        child = await trio.run_process(
            [sys.executable, "-m", "playerd", *words],
            env=without_settings(folder),
            stdin=stdin,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        assert isinstance(child.stdout, bytes)
        assert isinstance(child.stderr, bytes)
        if b"does not answer yet" not in child.stderr:
            break
    return child.returncode, child.stdout.decode().splitlines(), child.stderr.decode().splitlines()


def without_settings(folder: Path) -> dict[str, str]:
    """An environment in which only the folder of `running` says where things are."""
    bare = {name: value for name, value in os.environ.items() if "KOKORO" not in name.upper()}
    return {**bare, "KOKORO_LIVE_DATA_DIR": str(folder / "data"), "COLUMNS": "100"}


@asynccontextmanager
async def player(settings: Settings, folder: Path) -> AsyncIterator[Program]:
    """A player without a device."""
    async with (
        engine(settings, ToneVoice()) as port,
        running(
            "--sink", "null", environment=os.environ, folder=folder, engine_port=port
        ) as program,
    ):
        yield program


LONG = "Secret words that nobody may log, and many more of them, so that there is time. " * 8


async def test_commands_do_what_they_say(tmp_path: Path, settings: Settings) -> None:
    async with player(settings, tmp_path) as program, program.client() as client:

        async def run(*words: str, stdin: bytes = b"") -> list[str]:
            code, said, told = await ran(*words, folder=tmp_path, stdin=stdin)
            assert (code, told) == (0, [])
            return said

        assert await run("say", LONG) == []
        await client.hear(messages.PlayerState, state="playing")
        assert await run("pause") == []
        assert (await run("status"))[0] == "paused"
        assert (await client.status()).state == "paused"
        await run("volume", "-75%")
        assert await run("volume") == ["25%"]
        await run("say", "--queue", "One.")
        assert len(await run("queue")) == 2
        await run("stop")
        assert (await run("status"))[0] == "idle"
        await run("say", "-", stdin="One £.".encode())
        state = messages.decode("".join(await run("status", "--json")), messages.PLAYER_SERVER)
        assert isinstance(state.message, messages.PlayerState)
        assert (state.message.state, state.message.volume) == ("idle", 0.25)
        assert await program.end() == 0
        assert no_traceback(program)
    assert not any("ecret" in line for line in program.lines)


async def test_commands_that_fail_say_why_in_a_sentence(tmp_path: Path, settings: Settings) -> None:
    async with player(settings, tmp_path):
        for words, says in [
            (["say", "--voice", "nobody", "Secret."], "nobody"),
            (["say", " "], "There is no text"),
            (["device", "gramophone"], "There is no sound device"),
            (["say", os.fsdecode(b"\xff")], "UTF-8"),
        ]:
            code, said, told = await ran(*words, folder=tmp_path)
            assert (code, said, len(told)) == (1, [], 1)
            assert says in told[0]
            assert "Secret" not in told[0]


@pytest.mark.parametrize("words", [["say", "-"], ["watch"]])
async def test_ctrl_c_ends_a_command_that_goes_on(
    tmp_path: Path, settings: Settings, words: list[str]
) -> None:
    async with player(settings, tmp_path) as program, program.client() as client:
        async with trio.open_nursery() as nursery:
            child: trio.Process = await nursery.start(
                partial(
                    trio.run_process,
                    [sys.executable, "-m", "playerd", *words],
                    env=without_settings(tmp_path),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    check=False,
                )
            )
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stderr is not None
            if words == ["watch"]:
                first = await child.stdout.receive_some()
                state = messages.decode(first.decode().splitlines()[0], messages.PLAYER_SERVER)
                assert isinstance(state.message, messages.PlayerState)
            else:
                await child.stdin.send_all(LONG.encode())
                item = (await client.hear(messages.ItemStarted)).item
            child.send_signal(signal.SIGINT)
            with trio.fail_after(PATIENCE_S):
                assert await child.wait() == 130
            assert await child.stderr.receive_some() == b""
            if words != ["watch"]:
                assert (await client.done(item)).outcome == "stopped"


async def test_a_command_whose_output_nobody_reads(tmp_path: Path, settings: Settings) -> None:
    out, pipe = os.pipe()
    os.close(out)
    async with player(settings, tmp_path):
        child = await trio.run_process(
            [sys.executable, "-m", "playerd", "watch"],
            env=without_settings(tmp_path),
            stdout=pipe,
            capture_stderr=True,
            check=False,
        )
    os.close(pipe)
    assert (child.returncode, child.stderr) == (0, b"")


#: what takes a tenth of a second to load, or that would be a sign of more
HEAVY = {"numpy", "structlog", "pydantic_settings", "onnxruntime", "sounddevice", "av", "soxr"}
HEAVY |= {"rich", "engine.config", "playerd.daemon", "playerd.player", "playerd.program"}


@pytest.mark.parametrize(
    ("words", "heavy"), [(["pause"], HEAVY | {"typer", "pydantic"}), (["volume", "+5%"], HEAVY)]
)
async def test_a_command_loads_nothing_that_it_does_not_need(
    tmp_path: Path, settings: Settings, words: list[str], heavy: set[str]
) -> None:
    """A key that was pressed is to be obeyed at once."""
    async with player(settings, tmp_path):
        child = await trio.run_process(
            [sys.executable, "-X", "importtime", "-m", "playerd", *words],
            env=without_settings(tmp_path),
            capture_stderr=True,
            check=False,
        )
    assert isinstance(child.stderr, bytes)
    loaded = {line.split("|")[-1].strip() for line in child.stderr.decode().splitlines()}
    assert child.returncode == 0
    assert "playerd.commands" in loaded
    assert not loaded & heavy


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["status"], "Nothing answers at ws://127.0.0.1:1/"),
        (["--sink", "null", "status"], "Flags before a command would start a player"),
        (["--ensure", "stop"], "Flags before a command would start a player"),
        (["volume", "-10%"], "Nothing answers at ws://127.0.0.1:1/"),
        (["watch"], "Nothing answers at ws://127.0.0.1:1/"),
    ],
)
def test_with_a_command_no_player_starts(tmp_path: Path, words: list[str], says: str) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "playerd", *words],
        env={
            **os.environ,
            "KOKORO_LIVE_PLAYER_PORT": str(NO_ENGINE),
            "KOKORO_LIVE_DATA_DIR": str(tmp_path),
        },
        capture_output=True,
        check=False,
        text=True,
    )
    assert child.returncode == 1
    assert child.stderr.startswith(says)
    assert child.stderr.count("\n") == 1
    assert not (tmp_path / "playerd.lock").exists()


@pytest.mark.parametrize(
    ("words", "says"), [([], ["--install-service", "status", "say"]), (["say"], ["--queue"])]
)
def test_there_is_help(words: list[str], says: list[str]) -> None:
    child = subprocess.run(
        [sys.executable, "-m", "playerd", *words, "--help"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert child.returncode == 0
    assert all(word in child.stdout for word in says)
