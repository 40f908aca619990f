"""The player's commands: what they ask of it, what they print, and pipes that are still written."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from pydantic import SecretStr
from trio.testing import MockClock
from typer.testing import CliRunner

from engine.config import Settings
from engine.errors import EngineError, NotReady, UnknownVoice
from engine.request import SpeechRequest
from playerd import cli
from playerd.cli import Manner
from tests.support.access import TOKEN
from tests.support.reading import hear
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import messages

from .playing import Playing, Unplugged, playing

TEXT = "One two three. Four five."


@asynccontextmanager
async def player(settings: Settings) -> AsyncIterator[tuple[Playing, Settings, Unplugged]]:
    """A player with a sink that keeps what it was given, and settings that lead to it."""
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as running:
        port = int(running.url.rstrip("/").rsplit(":", 1)[1])
        changes = {"player_port": port, "token": SecretStr(TOKEN)}
        yield running, settings.model_copy(update=changes), sink


async def spoken(text: str) -> bytes:
    return (await hear(ToneVoice(), SpeechRequest(text=text))).pcm


async def test_say_returns_when_the_text_is_accepted(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        began = trio.current_time()
        await cli.say(there, TEXT, Manner(), wait=False)
        assert trio.current_time() - began < 0.5
        assert (await client.done(1)).outcome == "finished"


async def test_say_waits_until_it_was_heard(settings: Settings, autojump_clock: MockClock) -> None:
    async with player(settings) as (_, there, sink):
        began = trio.current_time()
        await cli.say(there, TEXT, Manner(), wait=True)
        assert trio.current_time() - began == pytest.approx(5 * WORD_MS / 1000, abs=0.1)
        assert bytes(sink.pcm) == await spoken(TEXT)


async def test_say_in_another_voice_after_what_is_spoken(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        await cli.say(there, "One two.", Manner(), wait=False)
        await cli.say(there, "Three.", Manner("bm_fable", 2.0, "queue"), wait=True)
        await client.done(1)
        assert (await client.done(2)).played_ms == WORD_MS / 2


async def test_what_cannot_be_said_is_an_error(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (_, there, _):
        with pytest.raises(UnknownVoice):
            await cli.say(there, TEXT, Manner("nobody"), wait=False)
        with pytest.raises(EngineError):
            await cli.say(there, " ", Manner(), wait=False)


async def test_a_player_that_is_absent_is_an_error(settings: Settings, tmp_path: object) -> None:
    with pytest.raises(NotReady):
        await cli.stop(settings.model_copy(update={"player_port": 1, "token": SecretStr(TOKEN)}))


async def test_a_pipe_is_spoken_while_it_is_written(
    settings: Settings, mock_clock: MockClock
) -> None:
    mock_clock.rate = 50
    out, pipe = os.pipe()
    async with player(settings) as (running, there, sink), running.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cli.say_pipe, there, Manner(), out)
            os.write(pipe, "One two three. Four £".encode()[:-1])
            await client.hear(messages.PlayerState, state="playing")
            os.write(pipe, "£".encode()[-1:] + b"five.")  # cut in the middle of a character
            os.close(pipe)
        assert bytes(sink.pcm) == await spoken("One two three. Four £five.")
    os.close(out)


async def test_whoever_stops_a_pipe_ends_its_command(
    settings: Settings, mock_clock: MockClock
) -> None:
    mock_clock.rate = 50
    out, pipe = os.pipe()
    async with player(settings) as (running, there, _), running.client() as client:
        with trio.fail_after(500):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(cli.say_pipe, there, Manner(), out)
                os.write(pipe, b"One two three. Four")
                await client.hear(messages.PlayerState, state="playing")
                await client.stop()
                os.write(pipe, b" five.")
    os.close(pipe)
    os.close(out)


async def test_ctrl_c_stops_what_the_pipe_said(settings: Settings, mock_clock: MockClock) -> None:
    mock_clock.rate = 50
    out, pipe = os.pipe()
    async with player(settings) as (running, there, _), running.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cli.say_pipe, there, Manner(), out)
            os.write(pipe, b"One two three. Four")
            await client.hear(messages.PlayerState, state="playing")
            nursery.cancel_scope.cancel()
        assert (await client.done(1)).outcome == "stopped"
        assert (await client.status()).state == "idle"
    os.close(pipe)  # the thread that reads it ends
    os.close(out)


async def test_toggle_of_a_pipe_stops_what_is_spoken(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        await cli.say(there, TEXT, Manner(), wait=False)
        await cli.say_pipe(there, Manner(mode="toggle"), -1)  # it is not even read
        assert (await client.done(1)).outcome == "stopped"


async def test_status_as_a_line_and_as_a_message(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (_, there, _):
        await cli.status(there, "text")
        await cli.say(there, TEXT, Manner(), wait=False)
        await cli.say(there, TEXT, Manner(mode="queue"), wait=False)
        await cli.status(there, "text")
        await cli.status(there, "json")
        await cli.stop(there)
        await cli.stop(there)
        await cli.status(there, "text")
    first, second, third, last = capsys.readouterr().out.splitlines()
    assert first == last == "idle, on null"
    assert second == "playing, item 1, 1 waiting, on null"
    state = messages.decode(third, messages.PLAYER_SERVER).message
    assert isinstance(state, messages.PlayerState)
    assert (state.state, state.item, state.reply_to) == ("playing", 1, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["say"],
        ["say", "--loud", "Hello"],
        ["sing"],
        ["stop", "now"],
        ["say", "--speed", "fast", "x"],
    ],
)
def test_a_wrong_command_is_told_and_asks_nobody(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_help_names_every_command() -> None:
    result = CliRunner().invoke(cli.app, ["--help"])
    assert result.exit_code == 0
    assert all(name in result.output for name in ("say", "stop", "status"))
