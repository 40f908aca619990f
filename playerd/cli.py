"""The command line of the player: its flags, and commands that talk to the player that runs. Shell.

`say -` hands a pipe on while it is written, such as the output of a language model, and is heard
from its first sentence on.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, NoReturn, TypeVar

import typer

from engine.errors import EngineError, InvalidRequest, SetupError
from wsproto_api import messages
from wsproto_api.discovery import Found

from . import amounts, commands
from .commands import Manner
from .remote import Request

T = TypeVar("T")

app = typer.Typer(add_completion=False, no_args_is_help=False)

#: "-5" is an amount, not an option
_SIGNED = {"ignore_unknown_options": True}
#: more than anybody will speak
_LAST_ITEM = 10**9


def _run(command: Callable[[Found], Awaitable[None]]) -> NoReturn:
    sys.exit(commands.run(command))


def _do(request: Request, *, wait: bool = False) -> NoReturn:
    _run(partial(commands.do, request=request, wait=wait))


def _typed(meaning: Callable[[str], T], text: str) -> T:
    """What a text means; that it means nothing is a fault of the command line."""
    try:
        return meaning(text)
    except InvalidRequest as error:
        raise typer.BadParameter(error.message) from None


Voice = Annotated[str | None, typer.Option(help="voice or blend")]
Wait = Annotated[bool, typer.Option("--wait", help="until it was heard")]
Item = typer.Argument(min=1, max=_LAST_ITEM, help="its number, as `queue` gives it")


# --- the player itself -------------------------------------------------------------------------


@app.callback(invoke_without_command=True)
def main_command(
    context: typer.Context,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    sink: Annotated[str | None, typer.Option(help="portaudio, wav or null")] = None,
    device: Annotated[str | None, typer.Option(help="name or number of the sound device")] = None,
    wav_path: Annotated[Path | None, typer.Option(help="file of the wav sink")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
    ensure: Annotated[bool, typer.Option("--ensure", help="fine if one runs already")] = False,
    install: Annotated[
        bool, typer.Option("--install-service", help="run engine, player and HTTP at every login")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall-service", help="end and remove these services")
    ] = False,
) -> None:
    """The player: speaks aloud what it is asked to, over WebSocket (kokoro.v1)."""
    flags = {
        "player_port": port,
        "sink": sink,
        "device": device,
        "wav_path": wav_path,
        "log_level": log_level,
    }
    if context.invoked_subcommand is not None:
        if ensure or install or uninstall or any(v is not None for v in flags.values()):
            typer.echo("Flags before a command would start a player; leave them out.", err=True)
            sys.exit(1)
        return
    if install or uninstall:
        flagged = any(v is not None for v in flags.values())
        sys.exit(_change_services(install, uninstall, flagged))
    from . import program  # here, because a command has no time to load it

    if log_level != "debug":
        program.silence_libraries()
    sys.exit(program.run(flags, ensure=ensure))


def _change_services(install: bool, uninstall: bool, flags: bool) -> int:
    """Installs or removes the services; gives the exit code."""
    from . import services  # for the same reason

    try:
        if install and uninstall:
            raise SetupError("Give one of --install-service and --uninstall-service.")
        if flags:
            raise SetupError("Services take no flags; write settings into the TOML file instead.")
        host = services.Host.this()
        (services.install if install else services.uninstall)(host, typer.echo)
    except EngineError as error:
        typer.echo(error.message, err=True)
        return 1
    return 0


# --- speech -----------------------------------------------------------------------------------


@app.command("say")
def say_command(
    text: Annotated[list[str], typer.Argument(help="what to say; - reads a pipe as it comes")],
    voice: Voice = None,
    lang: Annotated[str | None, typer.Option(help="such as en-us; default: the voice's")] = None,
    speed: Annotated[str | None, typer.Option(help="0.25 to 4")] = None,
    queue: Annotated[bool, typer.Option("--queue", help="after what is spoken now")] = False,
    toggle: Annotated[
        bool, typer.Option("--toggle", help="stop if something is spoken, else say it")
    ] = False,
    wait: Wait = False,
) -> None:
    """Speak a text, instead of what is spoken now."""
    mode: messages.PlayerMode = "toggle" if toggle else "queue" if queue else "replace"
    spoken = _typed(amounts.own_speed, speed) if speed is not None else None
    manner = Manner(voice, lang, spoken, mode)
    if text == ["-"]:
        _run(partial(commands.say_pipe, manner=manner))
    _run(partial(commands.say, text=" ".join(text), manner=manner, wait=wait))


@app.command("repeat")
def repeat_command(wait: Wait = False) -> None:
    """Speak once more what is spoken, or was last."""
    _do(messages.PlayerRepeat(), wait=wait)


# --- control ----------------------------------------------------------------------------------


@app.command("pause")
def pause_command() -> None:
    """Silence, until `resume`."""
    _do(commands.WORDS["pause"])


@app.command("resume")
def resume_command() -> None:
    """Go on after `pause`."""
    _do(commands.WORDS["resume"])


@app.command("toggle")
def toggle_command() -> None:
    """Pause, or go on: for one key."""
    _do(commands.WORDS["toggle"])


@app.command("stop")
def stop_command(item: Annotated[int | None, Item] = None) -> None:
    """Silence, and forget what waits; or end only one item."""
    _do(messages.PlayerStop(item=item))


@app.command("skip")
def skip_command(
    n: Annotated[int, typer.Argument(min=1, max=1000, help="how many")] = 1,
    item: Annotated[bool, typer.Option("--item", help="whole texts, not sentences")] = False,
) -> None:
    """Go on with the next sentence, or text."""
    _do(messages.PlayerSkip(unit="item" if item else "sentence", n=n))


@app.command("back")
def back_command(
    n: Annotated[int, typer.Argument(min=1, max=1000, help="how many")] = 1,
) -> None:
    """Go back to the beginning of the sentence, or the one before."""
    _do(messages.PlayerSkip(n=-n))


@app.command("seek", context_settings=_SIGNED)
def seek_command(
    to: Annotated[
        str,
        typer.Argument(metavar="PLACE", help="30 (seconds), 1:30, 50%; from now: +5, -5"),
    ],
) -> None:
    """Go on elsewhere in the text that is spoken."""
    _do(_typed(amounts.place, to))


@app.command("volume", context_settings=_SIGNED)
def volume_command(
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="0.5, 50%, +10%, -10%"),
    ] = None,
) -> None:
    """Say how loud it is, or make it louder or quieter."""
    change = _typed(amounts.volume, value) if value is not None else None
    _run(partial(commands.volume, change=change))


# --- how it is spoken, and where --------------------------------------------------------------


@app.command("voice")
def voice_command(
    name: Annotated[str, typer.Argument(help="voice or blend")],
) -> None:
    """Speak in another voice from now on."""
    _run(partial(commands.configure, voice=name))


@app.command("speed", context_settings=_SIGNED)
def speed_command(
    value: Annotated[
        str,
        typer.Argument(metavar="VALUE", help="1.25, +0.1, -0.1"),
    ],
) -> None:
    """Speak faster or slower from now on."""
    _run(partial(commands.configure, speed=_typed(amounts.speed, value)))


@app.command("device")
def device_command(
    name: Annotated[
        str | None, typer.Argument(help="it, or part of it; default is the system's")
    ] = None,
) -> None:
    """List the sound devices, or speak on another one."""
    if name is None:
        _run(commands.devices)
    _run(partial(commands.configure, device=name))


@app.command("devices")
def devices_command() -> None:
    """List the sound devices."""
    _run(commands.devices)


@app.command("configure")
def configure_command(
    voice: Voice = None,
    speed: Annotated[
        str | None,
        typer.Option(metavar="VALUE", help="1.25, +0.1, -0.1"),
    ] = None,
    device: Annotated[str | None, typer.Option(help="name of the sound device")] = None,
) -> None:
    """Voice, speed and device in one go: all or none of them is changed."""
    change = _typed(amounts.speed, speed) if speed is not None else None
    _run(partial(commands.configure, voice=voice, speed=change, device=device))


# --- what it does -----------------------------------------------------------------------------


@app.command("queue")
def queue_command(
    op: Annotated[Literal["list", "clear", "remove"], typer.Argument()] = "list",
    item: Annotated[int | None, Item] = None,
) -> None:
    """List what is to be spoken, clear what waits, or remove an item."""
    if (op == "remove") != (item is not None):
        raise typer.BadParameter("`remove` needs the number of an item; the others take none.")
    _run(partial(commands.queue, request=messages.PlayerQueue(op=op, item=item)))


@app.command("status")
def status_command(
    json: Annotated[bool, typer.Option("--json", help="as the player's message")] = False,
) -> None:
    """Say what the player is doing."""
    _run(partial(commands.status, form="json" if json else "text"))


@app.command("watch")
def watch_command() -> None:
    """Print what happens, as JSON lines, until Ctrl-C."""
    _run(commands.watch)
