"""`python -m playerd`: the player as a WebSocket server; with a command, what talks to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.errors import EngineError, SetupError

from .cli import app


@app.callback(invoke_without_command=True)
def main(
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
            print("Flags before a command would start a player; leave them out.", file=sys.stderr)
            sys.exit(1)
        return
    if install or uninstall:
        flagged = any(v is not None for v in flags.values())
        sys.exit(change_services(install, uninstall, flagged))
    from . import program  # here, because a command has no time to load it

    if log_level != "debug":
        program.silence_libraries()
    sys.exit(program.run(flags, ensure=ensure))


def change_services(install: bool, uninstall: bool, flags: bool) -> int:
    """Installs or removes the services; gives the exit code."""
    from . import services  # for the same reason

    try:
        if install and uninstall:
            raise SetupError("Give one of --install-service and --uninstall-service.")
        if flags:
            raise SetupError("Services take no flags; write settings into the TOML file instead.")
        host = services.Host.this()
        (services.install if install else services.uninstall)(host, print)
    except EngineError as error:
        print(error.message, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    app(prog_name="python -m playerd")
