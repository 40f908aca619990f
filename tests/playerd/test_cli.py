"""The player's commands: what they ask of it, what they print, and pipes that are still written."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from trio.testing import MockClock
from typer.testing import CliRunner

from engine import process
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.errors import EngineError, InvalidRequest, NotReady, UnknownVoice
from engine.process import address, open_listeners
from engine.request import SpeechRequest
from playerd import __main__, amounts, cli, commands, remote
from playerd.commands import Manner
from playerd.daemon import MOST_LISTED
from tests.support.access import TOKEN
from tests.support.reading import hear
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import discovery, messages
from wsproto_api.discovery import Found
from wsproto_api.sockets import CLOSE_TIMEOUT_S

from .playing import Playing, Unplugged, playing

TEXT = "One two three. Four five."


@pytest.fixture
def quick_clock(mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """A clock for tests with pipes, whose threads no virtual time waits for: fast, and patient."""
    mock_clock.rate = 50
    monkeypatch.setattr(remote, "CONNECT_S", 300.0)
    monkeypatch.setattr(remote, "ANSWER_S", 300.0)
    return mock_clock


@asynccontextmanager
async def player(settings: Settings) -> AsyncIterator[tuple[Playing, Found, Unplugged]]:
    """A player with a sink that keeps what it was given, and where it is found."""
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as running:
        yield running, Found(running.url, TOKEN), sink


async def stop(found: Found) -> None:
    await commands.do(found, messages.PlayerStop())


async def spoken(text: str) -> bytes:
    return (await hear(ToneVoice(), SpeechRequest(text=text))).pcm


async def test_say_returns_when_the_text_is_accepted(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        began = trio.current_time()
        await commands.say(there, TEXT, Manner(), wait=False)
        assert trio.current_time() - began < 0.5
        assert (await client.done(1)).outcome == "finished"


async def test_say_waits_until_it_was_heard(settings: Settings, autojump_clock: MockClock) -> None:
    async with player(settings) as (_, there, sink):
        began = trio.current_time()
        await commands.say(there, TEXT, Manner(), wait=True)
        assert trio.current_time() - began == pytest.approx(5 * WORD_MS / 1000, abs=0.1)
        assert bytes(sink.pcm) == await spoken(TEXT)


async def test_say_in_another_voice_after_what_is_spoken(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        await commands.say(there, "One two.", Manner(), wait=False)
        await commands.say(there, "Three.", Manner("bm_fable", speed=2.0, mode="queue"), wait=True)
        await client.done(1)
        assert (await client.done(2)).played_ms == WORD_MS / 2


async def test_what_cannot_be_said_is_an_error(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (_, there, _):
        with pytest.raises(UnknownVoice):
            await commands.say(there, TEXT, Manner("nobody"), wait=False)
        with pytest.raises(EngineError):
            await commands.say(there, " ", Manner(), wait=False)


async def test_a_player_that_is_absent_is_an_error() -> None:
    with pytest.raises(NotReady, match="make up"):
        await stop(Found("ws://127.0.0.1:1/", TOKEN))


async def test_a_pipe_is_spoken_while_it_is_written(
    settings: Settings, quick_clock: MockClock
) -> None:
    out, pipe = os.pipe()
    async with player(settings) as (running, there, sink), running.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.say_pipe, there, Manner(), out)
            os.write(pipe, "One two three. Four £".encode()[:-1])
            await client.hear(messages.PlayerState, state="playing")
            os.write(pipe, "£".encode()[-1:] + b"five.")  # cut in the middle of a character
            os.close(pipe)
        assert bytes(sink.pcm) == await spoken("One two three. Four £five.")
    os.close(out)


async def test_whoever_stops_a_pipe_ends_its_command(
    settings: Settings, quick_clock: MockClock
) -> None:
    out, pipe = os.pipe()
    async with player(settings) as (running, there, _), running.client() as client:
        with trio.fail_after(500):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(commands.say_pipe, there, Manner(), out)
                os.write(pipe, b"One two three. Four")
                await client.hear(messages.PlayerState, state="playing")
                await client.stop()
                os.write(pipe, b" five.")
    os.close(pipe)
    os.close(out)


async def test_ctrl_c_stops_what_the_pipe_said(settings: Settings, quick_clock: MockClock) -> None:
    out, pipe = os.pipe()
    async with player(settings) as (running, there, _), running.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.say_pipe, there, Manner(), out)
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
        await commands.say(there, TEXT, Manner(), wait=False)
        await commands.say_pipe(there, Manner(mode="toggle"), -1)  # it is not even read
        assert (await client.done(1)).outcome == "stopped"


async def test_a_pipe_that_ends_leaves_what_waited_before_it(
    settings: Settings, quick_clock: MockClock
) -> None:
    """Whoever ends a pipe, by Ctrl-C or by force, ends its speech and nobody else's."""
    out, pipe = os.pipe()
    async with player(settings) as (running, there, _), running.client() as client:
        await client.speak(TEXT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.say_pipe, there, Manner(mode="queue"), out)
            await client.hear(messages.PlayerState, queue_len=1)
            nursery.cancel_scope.cancel()
        assert (await client.done(2)).outcome == "stopped"
        assert (await client.done(1)).outcome == "finished"
    os.close(pipe)
    os.close(out)


async def test_a_pipe_that_cannot_be_read(settings: Settings, autojump_clock: MockClock) -> None:
    async with player(settings) as (_, there, _):
        with pytest.raises(InvalidRequest, match="pipe cannot be read"):
            await commands.say_pipe(there, Manner(), -1)


async def test_bytes_that_are_no_text_are_told(
    settings: Settings, autojump_clock: MockClock
) -> None:
    typed = os.fsdecode(b"\xff")  # as the interpreter hands on what a shell gave it
    async with player(settings) as (_, there, _):
        with pytest.raises(InvalidRequest, match="UTF-8"):
            await commands.say(there, typed, Manner(), wait=False)
        with pytest.raises(InvalidRequest, match="UTF-8"):
            await commands.configure(there, voice=typed)


async def test_a_player_that_hangs_is_told_soon(autojump_clock: MockClock) -> None:
    """It listens, but has no time for anybody."""
    listeners = await open_listeners("127.0.0.1", 0)
    there = Found(address("ws", listeners), TOKEN)
    began = trio.current_time()
    with pytest.raises(NotReady, match="does not answer"):
        await commands.status(there, "text")
    assert trio.current_time() - began < 0.6 + CLOSE_TIMEOUT_S
    for listener in listeners:
        await listener.aclose()


async def test_a_request_that_is_never_answered_is_told(
    settings: Settings, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(self: remote.RemotePlayer, request: remote.Request) -> None:
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(remote.RemotePlayer, "send", lose)
    async with player(settings) as (_, there, _):
        with trio.fail_after(60), pytest.raises(NotReady, match="does not answer; its log"):
            await stop(there)


# --- control ----------------------------------------------------------------------------------


async def test_pause_and_resume_lose_nothing(settings: Settings, autojump_clock: MockClock) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        item = await client.speak(TEXT)
        await client.hear(messages.PlayerState, state="playing")
        for command, state in [
            (messages.PlayerPause(), "paused"),
            (messages.PlayerPause(), "paused"),
            (messages.PlayerResume(), "playing"),
            (messages.PlayerToggle(), "paused"),
            (messages.PlayerToggle(), "playing"),
        ]:
            await commands.do(there, command)
            await trio.sleep(0.05)  # a pause is carried out after it is acknowledged
            assert (await client.status()).state == state
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 5 * WORD_MS)


async def test_one_item_is_stopped_and_the_others_stay(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        for _ in range(3):
            await client.speak(TEXT, mode="queue")
        await commands.do(there, messages.PlayerStop(item=2))
        assert (await client.done(2)).outcome == "stopped"
        await commands.queue(there, messages.PlayerQueue(op="remove", item=1))
        assert (await client.done(1)).outcome == "stopped"
        assert (await client.status()).item == 3
        await stop(there)
        assert (await client.done(3)).outcome == "stopped"


async def test_what_was_spoken_is_repeated(settings: Settings, autojump_clock: MockClock) -> None:
    async with player(settings) as (_, there, sink):
        with pytest.raises(InvalidRequest, match="Nothing was spoken"):
            await commands.do(there, messages.PlayerRepeat(), wait=True)
        await commands.say(there, TEXT, Manner(), wait=True)
        await commands.do(there, messages.PlayerRepeat(), wait=True)
        assert bytes(sink.pcm) == 2 * await spoken(TEXT)


async def test_volume_is_told_and_changed(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (running, there, _):
        for typed, value in [("0.5", 0.5), ("+10%", 0.6), ("-.05", 0.55), ("+90%", 1.0), ("-2", 0)]:
            await commands.volume(there, amounts.volume(typed))
            assert running.sink.volume == value
        await commands.volume(there, amounts.volume("33.3%"))
        await commands.volume(there, None)
    assert capsys.readouterr().out == "33.3%\n"


async def test_speed_voice_and_device_are_changed(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        await commands.configure(there, speed=amounts.speed("+0.1"))
        assert (await client.status()).speed == 1.1
        await commands.configure(there, speed=amounts.speed("-0.2"))
        assert (await client.status()).speed == 0.9
        await commands.configure(there, voice="bm_fable", speed=amounts.speed("2"))
        state = await client.status()
        assert (state.voice, state.speed) == ("bm_fable", 2.0)
        with pytest.raises(UnknownVoice):
            await commands.configure(there, voice="nobody", speed=amounts.speed("1"))
        with pytest.raises(InvalidRequest, match="no sound device"):
            await commands.configure(there, device="gramophone", speed=amounts.speed("1"))
        state = await client.status()
        assert (state.voice, state.speed) == ("bm_fable", 2.0)
        await commands.configure(there, device="default")


# --- what it says -----------------------------------------------------------------------------


async def test_status_as_lines_and_as_a_message(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (_, there, _):
        await commands.status(there, "text")
        idle = capsys.readouterr().out.splitlines()
        await commands.configure(there, voice="bm_fable", speed=amounts.speed("1.5"))
        await commands.volume(there, amounts.volume("50%"))
        await commands.say(there, TEXT, Manner(), wait=False)
        await commands.say(there, TEXT, Manner(mode="queue"), wait=False)
        await commands.status(there, "text")
        busy = capsys.readouterr().out.splitlines()
        await commands.status(there, "json")
        message = capsys.readouterr().out
        await stop(there)
        await stop(there)
    assert idle == ["idle", "volume 100%", "on null"]
    assert [line for line in busy if not line.startswith(("item", "the engine"))] == [
        "playing", "1 waiting", "volume 50%", "voice bm_fable", "speed 1.5", "on null"
    ]  # fmt: skip
    assert any(line.startswith("item 1, ") for line in busy)
    state = messages.decode(message, messages.PLAYER_SERVER).message
    assert isinstance(state, messages.PlayerState)
    assert (state.state, state.item, state.reply_to) == ("playing", 1, None)
    assert "reply_to" not in message


async def test_the_queue_is_listed_and_cleared(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        await commands.queue(there, messages.PlayerQueue())
        await client.speak(TEXT)
        await client.speak("One.", mode="queue", key="mail")
        await commands.queue(there, messages.PlayerQueue())
        await commands.queue(there, messages.PlayerQueue(op="clear"))
        await commands.queue(there, messages.PlayerQueue())
    plays = f"1: plays, {len(TEXT)} characters"
    lines = capsys.readouterr().out.splitlines()
    assert lines == [plays, "2: waits, 4 characters, mail", plays]


async def test_a_long_queue_says_how_much_is_not_listed(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        for _ in range(MOST_LISTED + 2):
            await client.speak(TEXT, mode="queue")
        await commands.queue(there, messages.PlayerQueue())
    lines = capsys.readouterr().out.splitlines()
    assert (len(lines), lines[-1]) == (MOST_LISTED + 1, "and 2 more")


async def test_devices_are_listed_with_the_chosen_one(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (running, there, sink):
        (name, *_) = await sink.devices()
        await commands.devices(there)
        assert capsys.readouterr().out.splitlines() == ["* default", f"  {name}"]
        await commands.configure(there, device=name)
        await trio.sleep(0.1)  # it is carried out after it is acknowledged
        await commands.devices(there)
        assert capsys.readouterr().out.splitlines() == ["  default", f"* {name}"]
        running.sink.wanted = "Unplugged"
        await commands.devices(there)
        lines = ["  default", f"  {name}", "* Unplugged"]
        assert capsys.readouterr().out.splitlines() == lines


async def test_watch_prints_what_happens_in_order(
    settings: Settings, autojump_clock: MockClock, capsys: pytest.CaptureFixture[str]
) -> None:
    async with player(settings) as (running, there, _), running.client() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(commands.watch, there)
            await trio.sleep(1)
            await client.done(await client.speak("One two. Three.", marks=True))
            await trio.sleep(1)
            nursery.cancel_scope.cancel()
    events = [
        messages.decode(line, messages.PLAYER_SERVER).message
        for line in capsys.readouterr().out.splitlines()
    ]
    first = events[0]
    assert isinstance(first, messages.PlayerState)
    assert (first.state, first.reply_to) == ("idle", None)
    words = [event.char_start for event in events if isinstance(event, messages.Word)]
    assert words == [0, 4, 9]
    kinds = [type(event) for event in events]
    assert messages.Position in kinds
    assert kinds.index(messages.ItemStarted) < kinds.index(messages.ItemDone)
    assert isinstance(events[-1], messages.PlayerState)
    assert events[-1].state == "idle"


async def test_watch_ends_when_the_player_does(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with player(settings) as (running, there, _):
        async with trio.open_nursery() as nursery:

            async def end() -> None:
                await trio.sleep(1)
                running.scope.cancel()

            nursery.start_soon(end)
            with pytest.raises(NotReady):
                await commands.watch(there)


async def test_watch_ends_when_nobody_reads(
    settings: Settings, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "_print", lambda *lines: False)
    async with player(settings) as (_, there, _):
        await commands.watch(there)


# --- the command line -------------------------------------------------------------------------


class Asked:
    """Takes what would be run, instead of asking a player."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mains: list[partial[Awaitable[None]]] = []
        self.found = Found("ws://127.0.0.1:1/", TOKEN)
        monkeypatch.setattr(discovery, "at_hand", lambda role: self.found)
        monkeypatch.setattr(process, "supervise", self._supervise)

    def _supervise(self, main: partial[Awaitable[None]]) -> int:
        assert main.args == (self.found,)
        self.mains.append(main)
        return 0

    def by(self, *words: str) -> partial[Awaitable[None]]:
        """What these words of a command line run."""
        result = CliRunner().invoke(cli.app, words)
        assert result.exit_code == 0, result.output
        return self.mains.pop()


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        ("pause", messages.PlayerPause()),
        ("resume", messages.PlayerResume()),
        ("toggle", messages.PlayerToggle()),
        ("stop", messages.PlayerStop()),
        ("stop 3", messages.PlayerStop(item=3)),
        ("skip", messages.PlayerSkip()),
        ("skip 2", messages.PlayerSkip(n=2)),
        ("skip --item", messages.PlayerSkip(unit="item")),
        ("skip 4 --item", messages.PlayerSkip(unit="item", n=4)),
        ("back", messages.PlayerSkip(n=-1)),
        ("back 3", messages.PlayerSkip(n=-3)),
        ("seek +5", messages.PlayerSeek(by_ms=5000)),
        ("seek -5", messages.PlayerSeek(by_ms=-5000)),
        ("seek 30", messages.PlayerSeek(sample=30 * SAMPLE_RATE)),
        ("seek 50%", messages.PlayerSeek(fraction=0.5)),
        ("repeat", messages.PlayerRepeat()),
    ],
)
def test_a_command_is_a_request(
    words: str, request_: messages.Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = Asked(monkeypatch).by(*words.split())
    assert main.func is commands.do
    assert main.keywords == {"request": request_, "wait": False}


@pytest.mark.parametrize("word", commands.WORDS)
def test_a_word_that_is_not_parsed_is_the_same(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    parsed = asked.by(word)
    monkeypatch.setattr(sys, "argv", ["playerd", word])
    with pytest.raises(SystemExit) as end:
        __main__.main()
    assert end.value.code == 0
    assert asked.mains.pop().keywords["request"] == parsed.keywords["request"]
    assert not parsed.keywords["wait"]


@pytest.mark.parametrize(
    ("words", "command", "arguments"),
    [
        ("repeat --wait", commands.do, {"request": messages.PlayerRepeat(), "wait": True}),
        ("volume", commands.volume, {"change": None}),
        ("volume -10%", commands.volume, {"change": amounts.volume("-10%")}),
        ("voice af_sky", commands.configure, {"voice": "af_sky"}),
        ("speed -0.1", commands.configure, {"speed": amounts.speed("-0.1")}),
        ("device USB", commands.configure, {"device": "USB"}),
        ("configure", commands.configure, {"voice": None, "speed": None, "device": None}),
        (
            "configure --voice af_sky --speed -0.1 --device USB",
            commands.configure,
            {"voice": "af_sky", "speed": amounts.speed("-0.1"), "device": "USB"},
        ),
        ("queue", commands.queue, {"request": messages.PlayerQueue()}),
        ("queue clear", commands.queue, {"request": messages.PlayerQueue(op="clear")}),
        ("queue remove 7", commands.queue, {"request": messages.PlayerQueue(op="remove", item=7)}),
        ("status", commands.status, {"form": "text"}),
        ("status --json", commands.status, {"form": "json"}),
        (
            "say One two. --lang en-gb --voice af_sky --speed 2 --queue",
            commands.say,
            {"text": "One two.", "manner": Manner("af_sky", "en-gb", 2.0, "queue"), "wait": False},
        ),
        ("say - --toggle", commands.say_pipe, {"manner": Manner(mode="toggle")}),
    ],
)
def test_what_a_command_line_runs(
    words: str,
    command: object,
    arguments: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    main = Asked(monkeypatch).by(*words.split())
    assert (main.func, main.keywords) == (command, arguments)


@pytest.mark.parametrize(
    "words",
    [
        "say", "say --loud Hello", "say --speed fast x", "say --speed nan x", "say --speed inf x",
        "say --speed 5 x", "say --speed +1 x", "sing", "pause now", "stop now", "stop 0",
        "stop 99999999999999999999", "skip 0", "skip -1", "skip 1001", "skip x", "back -1",
        "skip --items", "seek", "seek half", "seek --to 3", "seek 3 4", "seek 101%", "volume 50",
        "volume loud", "volume --up", "speed", "speed 5", "speed 50%", "voice", "device a b",
        "configure --speed fast", "configure af_sky", "queue remove", "queue list 3", "queue clear 3",
        "queue remove x", "queue empty", "status --xml", "watch --json", "repeat 2",
    ],
)  # fmt: skip
def test_a_wrong_command_is_told_and_asks_nobody(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch)
    result = CliRunner().invoke(cli.app, words.split())
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    assert not asked.mains


def test_every_command_says_what_it_does_in_a_line() -> None:
    help_ = CliRunner().invoke(cli.app, ["--help"], env={"COLUMNS": "100"})
    assert help_.exit_code == 0
    for command in cli.app.registered_commands:
        assert command.callback is not None
        assert f"{command.name}  " in help_.output
        assert (command.callback.__doc__ or "x\ny").strip() in help_.output
