"""Every command of the Raycast extension against a real player, and all that can go wrong."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from engine.config import Settings
from tests.playerd.playing import Client
from tests.playerd.program import Program, engine, running
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from wsproto_api import discovery, messages

from . import raycast as extension
from .raycast import Raycast, needs_node, raycast

pytestmark = needs_node

#: a test does not depend on how busy the machine is; only who waits for nothing is in a hurry
UNHURRIED_MS = 20_000

#: for minutes of tones
LONG = "One two three four five six seven eight nine ten. " * 40


@pytest.fixture(scope="module")
def script() -> Iterator[Path]:
    """The commands. In a folder of their own: another run may bundle them at the same time."""
    folder = extension.FOLDER / f".tests-{uuid4().hex}"
    try:
        extension.bundle(folder)
        yield folder / "drive.js"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class House:
    """All that runs: player, engine, and a user of the extension."""

    program: Program
    client: Client
    user: Raycast


@asynccontextmanager
async def house(
    script: Path,
    settings: Settings,
    *,
    environment: Mapping[str, str] = os.environ,
    quick_ms: int | None = UNHURRIED_MS,
) -> AsyncIterator[House]:
    """Starts all of it. Whoever comes finds it by the files of `settings.data_dir`."""
    data = settings.data_dir
    data.mkdir(mode=0o700)
    token = data / discovery.TOKEN_FILE
    token.touch(mode=0o600)
    token.write_text(f"{TOKEN}\n")
    async with (
        engine(settings, ToneVoice()) as port,
        running(
            "--sink", "null", environment=environment, folder=data.parent, engine_port=port
        ) as program,
        raycast(script, data, quick_ms=quick_ms) as user,
    ):
        # The engine is announced last, by settings whose token is in the file.
        with discovery.announced(settings, "engine", f"ws://127.0.0.1:{port}/"):
            async with program.client() as client:
                yield House(program, client, user)


async def test_every_command_does_what_it_says(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        user, client = here.user, here.client
        # nothing is spoken yet
        for command in ("pause-resume", "stop", "skip-forward", "skip-back"):
            assert (await user.run(command)).hud == "Nothing is spoken"
        assert "Nothing was spoken" in (await user.run("repeat-last")).failure.title

        done = await user.run("speak-selection", selection=LONG)
        assert done.hud == f"Speaking {len(LONG.strip()):,} characters"
        first = (await client.hear(messages.ItemStarted)).item
        assert (await user.run("pause-resume")).hud == "Paused"
        assert (await client.status()).state == "paused"
        assert (await user.run("pause-resume")).hud == "Going on"
        assert (await client.status()).state != "paused"
        assert (await user.run("skip-forward")).hud == "Next sentence"
        assert (await user.run("skip-back")).hud == "Back"
        assert (await user.run("faster")).hud == "Speed 1.1"
        assert (await user.run("slower")).hud == "Speed 1"
        assert (await client.status()).speed == 1.0

        queued = await user.run(
            "speak-clipboard", clipboard=LONG, preferences={"whenBusy": "queue"}
        )
        assert queued.hud.startswith("Queued")
        assert (await client.status()).queue_len == 1
        menu = await user.run("speech-status")
        assert menu.lines[0].endswith(f"{len(LONG.strip()):,} characters")
        assert "1 waiting" in menu.lines
        menu = await user.run("speech-status", choose=["Next Text"])
        assert (await client.done(first)).outcome == "stopped"
        assert "1 waiting" not in menu.lines
        second = (await client.hear(messages.ItemStarted)).item
        assert (await user.run("repeat-last")).hud == "Once more"
        assert (await client.done(second)).outcome == "replaced"
        assert (await user.run("stop")).hud == "Stopped"
        assert (await client.status()).state == "idle"

        typed = await user.run("speak-text", launch={"arguments": {"text": "One two."}})
        assert typed.hud == "Speaking 8 characters"
        item = (await client.hear(messages.ItemStarted)).item
        assert (await client.done(item)).outcome == "finished"
        values = {"text": LONG, "voice": "bm_fable", "speed": "2", "mode": "replace"}
        done = await user.run("speak-text", choose=["Speak"], values=values)
        assert done.hud.startswith("Speaking")
        again = {"whenBusy": "toggle"}
        assert (
            await user.run("speak-selection", selection="Two.", preferences=again)
        ).hud == "Stopped"

        voices = await user.run("choose-voice", choose=["Use This Voice"], within="Fable")
        assert "British English" in voices.lines
        assert voices.hud == "Fable speaks"
        assert (await client.status()).voice == "bm_fable"


async def test_a_paste_of_200_000_characters_is_taken_whole(
    script: Path, settings: Settings
) -> None:
    paste = ("This is a sentence of a long paste, which goes on and on. " * 4000)[:200_000]
    async with house(script, settings) as here:
        done = await here.user.run("speak-clipboard", clipboard=paste)
        assert done.hud == f"Speaking {len(paste.strip()):,} characters"
        request = here.client.ask()
        await here.client.say(messages.PlayerQueue(id=request))
        queue = await here.client.hear(messages.Queue, reply_to=request)
        assert sum(item.chars for item in queue.items) == len(paste.strip())
        assert (await here.user.run("stop")).hud == "Stopped"
        assert (await here.client.status()).state == "idle"


async def test_texts_of_all_kinds(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        for text in ("שלום עולם.", "Emoji 🎉 and words.", "\ud83c half a pair"):
            done = await here.user.run("speak-clipboard", clipboard=text)
            assert done.hud == f"Speaking {len(text)} characters"
        assert "emoji" in (await here.user.run("speak-clipboard", clipboard="🎉 🎉")).failure.title
        refused = await here.user.run(
            "speak-clipboard", clipboard="One.", preferences={"voice": "nobody"}
        )
        assert "nobody" in refused.failure.title
        assert refused.failure.action == "Open Preferences"
        for command in ("speak-selection", "speak-clipboard"):
            failure = (await here.user.run(command, clipboard=" ")).failure
            assert "clipboard holds no text" in failure.title


async def test_no_text_is_in_the_log_of_the_player(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        await here.user.run("speak-clipboard", clipboard="Quetzalcoatlus flies.")
        await here.user.run(
            "speak-clipboard", clipboard="Quetzalcoatlus.", preferences={"voice": "nobody"}
        )
        await here.client.done(1)
        assert await here.program.end() == 0
        assert "Quetzalcoatlus" not in "".join(here.program.lines)


# --- what goes wrong --------------------------------------------------------------------------

COMMANDS = ("speak-selection", "pause-resume", "stop", "skip-back", "repeat-last", "faster")


async def test_a_player_that_was_never_started(script: Path, tmp_path: Path) -> None:
    async with raycast(script, tmp_path / "nothing") as user:  # hurried as everybody is
        for command in COMMANDS:
            failure = (await user.run(command, selection="One.")).failure
            assert failure.title == "The player is not running."
            assert "make up" in failure.message
            assert failure.action == "Start Kokoro Live"
        assert (await user.run("speech-status")).lines[0] == "The player is not running."
        assert (await user.run("choose-voice")).lines[0].startswith("The engine is not running.")


async def test_a_player_that_was_killed(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        assert await here.program.end(signal.SIGKILL) == -signal.SIGKILL
        for command in COMMANDS:
            failure = (await here.user.run(command, selection="One.")).failure
            assert failure.title == "The player is not running."


async def test_a_token_that_is_wrong(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        (settings.data_dir / discovery.TOKEN_FILE).write_text("another-token-than-theirs\n")
        for command in COMMANDS:
            failure = (await here.user.run(command, selection="One.")).failure
            assert "does not accept the token" in failure.title
            assert failure.action == "Restart Kokoro Live"
        own = {"token": "another-token-of-my-own"}
        assert (await here.user.run("stop", preferences=own)).failure.action == "Open Preferences"


async def test_a_token_file_that_vanished(script: Path, settings: Settings) -> None:
    async with house(script, settings) as here:
        file = settings.data_dir / discovery.TOKEN_FILE
        file.unlink()
        failure = (await here.user.run("stop")).failure
        assert failure.title == "The token file is gone."
        assert str(file) in failure.message
        assert (
            await here.user.run("stop", preferences={"token": TOKEN})
        ).hud == "Nothing is spoken"


async def test_a_player_that_has_no_room(script: Path, settings: Settings) -> None:
    environment = {**os.environ, "KOKORO_LIVE_CONNECTIONS": "1"}  # the test's client has it
    async with house(script, settings, environment=environment) as here:
        for command in COMMANDS:
            failure = (await here.user.run(command, selection="One.")).failure
            assert failure.title.startswith("The player is busy")


async def test_a_player_that_hangs(script: Path, settings: Settings) -> None:
    async with house(script, settings, quick_ms=None) as here:
        here.program.process.send_signal(signal.SIGSTOP)
        try:
            for command in COMMANDS:
                failure = (await here.user.run(command, selection="One.")).failure
                assert failure.title == "The player does not answer."
                assert failure.action == "Restart Kokoro Live"
        finally:
            here.program.process.send_signal(signal.SIGCONT)


async def test_an_engine_that_does_not_run(script: Path, settings: Settings) -> None:
    data = settings.data_dir
    async with (
        running("--sink", "null", environment=os.environ, folder=data.parent, engine_port=1),
        raycast(script, data, quick_ms=UNHURRIED_MS) as user,
    ):
        user.preferences["token"] = TOKEN
        failure = (await user.run("speak-clipboard", clipboard="One.")).failure
        assert "make up" in failure.title
        assert failure.action == "Start Kokoro Live"
        assert (await user.run("stop")).hud == "Nothing is spoken"
        assert (await user.run("choose-voice")).lines[0].startswith("The engine is not running.")
