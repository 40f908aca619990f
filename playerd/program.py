"""The player as a program: how it starts, what it consists of, and how it ends. Shell.

Loaded only when a player is to run: a command that talks to one is over before all this is there.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, assert_never

import structlog
import trio

from engine import process
from engine.config import Settings
from engine.errors import TAINTED, SetupError
from wsproto_api import discovery
from wsproto_api.speak import WebSocketSpeak

from . import instance, priority
from .daemon import Daemon
from .notify import Notifier
from .sinks.base import Sink
from .sinks.null import NullSink
from .sinks.portaudio import PortAudioSink
from .sinks.wav import WavSink

log = structlog.get_logger("player")

#: A sound server that hangs for so long is worth a new process: the call may never return.
HANG_LIMIT_S = 30.0
#: how often to look whether it does
HANG_POLL_S = 1.0
#: how long clients may take to hear that a player which hangs ends
GOODBYE_S = 5.0


class SoundHangs(Exception):
    """The sound system will not answer this process any more; another one may have more luck."""


def sink_of(settings: Settings) -> Sink:
    """The sink that the settings name; nothing is opened yet."""
    match settings.sink:
        case "portaudio":
            return PortAudioSink(settings.device, lead_in_ms=settings.lead_in_ms)
        case "wav":
            return WavSink(settings.wav_path)
        case "null":
            return NullSink()
        case _ as never:
            assert_never(never)


async def serve(settings: Settings, *, ensure: bool = False) -> None:
    """Plays, unless there is a player: to `ensure` that there is one, that is as good."""
    with instance.alone(settings) as other:
        if other is None:
            await play(settings)
        elif ensure:
            log.info("there is a player already", pid=other.pid, address=other.address)
        else:
            raise SetupError(str(other))


async def play(settings: Settings) -> None:
    """Listens first, so that a taken port is told at once. The engine may come later.

    Raises:
        SoundHangs: a new process is to take over; clients have been told goodbye.
    """
    listeners = await process.open_listeners(settings.host, settings.player_port)
    token = discovery.token(settings)
    sink = sink_of(settings)
    sink.volume = settings.volume
    speak = WebSocketSpeak(settings.engine_url, token)
    daemon = Daemon(speak, sink, settings, token)
    notifier = Notifier(os.environ)
    priority.raise_process()
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
            notifier.ready(f"listens at {address}")
            nursery.start_soon(notifier.watch, partial(complaint, sink))
            try:
                await hanging(sink)
            finally:
                notifier.stopping()


async def hanging(sink: Sink) -> None:
    """Waits for ever, unless only a new process helps.

    Raises:
        SoundHangs: so it is.
    """
    while (reason := complaint(sink)) is None:  # noqa: ASYNC110 - the call that hangs tells nobody
        await trio.sleep(HANG_POLL_S)
    log.error("the player ends, so that the service manager starts it anew", reason=reason)
    end_within(GOODBYE_S)
    raise SoundHangs


def end_within(seconds: float) -> None:
    """Ends the process in this time at the latest, whatever hangs on its way out."""
    process.end_within(seconds, TAINTED)


def complaint(sink: Sink) -> str | None:
    """What is so wrong with the sink that only a new process helps; None if nothing is."""
    if isinstance(sink, PortAudioSink) and sink.hangs_s > HANG_LIMIT_S:
        return f"the sound system has not answered for {sink.hangs_s:.0f} s"
    return None


def run(flags: Mapping[str, Any], *, ensure: bool) -> int:
    """Runs the player; gives the exit code."""
    code = TAINTED
    try:
        code = process.run(partial(serve, ensure=ensure), flags)
    except* SoundHangs:
        pass  # the log says so
    return code


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
