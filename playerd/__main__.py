"""`python -m playerd`: the player as a WebSocket server."""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from pathlib import Path
from typing import Annotated, assert_never

import structlog
import trio
import typer

from engine import process
from engine.config import Settings
from wsproto_api import discovery
from wsproto_api.speak import WebSocketSpeak

from .daemon import Daemon
from .sinks.base import Sink
from .sinks.null import NullSink
from .sinks.portaudio import PortAudioSink
from .sinks.wav import WavSink

log = structlog.get_logger("player")


def sink_of(settings: Settings) -> Sink:
    """The sink that the settings name; nothing is opened yet."""
    match settings.sink:
        case "portaudio":
            return PortAudioSink(settings.device)
        case "wav":
            return WavSink(settings.wav_path)
        case "null":
            return NullSink()
        case _ as never:
            assert_never(never)


async def serve(settings: Settings) -> None:
    """Listens first, so that a taken port is told at once. The engine may come later."""
    listeners = await process.open_listeners(settings.host, settings.player_port)
    token = discovery.token(settings)
    sink = sink_of(settings)
    speak = WebSocketSpeak(settings.engine_url, token)
    daemon = Daemon(speak, sink, settings, token)
    async with trio.open_nursery() as nursery:
        await nursery.start(daemon.serve, listeners)
        # The audio thread needs the interpreter every 20 ms: let it wait for no long turn of
        # another thread, and for no collection of what was made at the start.
        sys.setswitchinterval(0.0005)
        gc.freeze()
        address = process.address("ws", listeners)
        with discovery.announced(settings, "player", f"{address}/"):
            log.info(
                "ready",
                address=address,
                sink=sink.name,
                device=sink.device or "none yet; speech waits until there is one",
            )
            await trio.sleep_forever()


def silence_libraries() -> None:
    """Keeps ALSA and PortAudio from writing what they think of devices on the terminal.

    They write to file descriptor 2, from threads of their own. It leads nowhere from here on; what
    this program says goes where it always went, through another descriptor.
    """
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    faulthandler.enable(sys.stderr)  # else a crash would be as silent
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)


def main(
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    sink: Annotated[str | None, typer.Option(help="portaudio, wav or null")] = None,
    device: Annotated[str | None, typer.Option(help="name or number of the sound device")] = None,
    wav_path: Annotated[Path | None, typer.Option(help="file of the wav sink")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """The player: speaks aloud what it is asked to, over WebSocket (kokoro.v1)."""
    if log_level != "debug":
        silence_libraries()
    flags = {
        "player_port": port,
        "sink": sink,
        "device": device,
        "wav_path": wav_path,
        "log_level": log_level,
    }
    sys.exit(process.run(serve, flags))


if __name__ == "__main__":
    typer.run(main)
