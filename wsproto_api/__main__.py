"""`python -m wsproto_api`: the engine as a WebSocket server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import structlog
import trio
import typer

from engine import process, service
from engine.config import Settings
from engine.errors import TAINTED, SynthesisFailed
from engine.keeper import Hangs, Keeper
from engine.model.progress import shown_progress

from . import discovery
from .server import EngineServer

log = structlog.get_logger("engine")

#: how long an engine that hangs may take to say goodbye
GOODBYE_S = 5.0

_HANGS = "The engine hangs and is started anew; try again in a few seconds."


def give_way(nice: int) -> None:
    """Lets other programs go first: sound suffers more from a late turn than inference does.

    A process that gives way as far already, as a service does, is left as it is.
    """
    if nice > os.getpriority(os.PRIO_PROCESS, 0) and not process.set_nice(nice):
        log.warning("the engine may not give way to other programs", nice=nice)


async def serve(settings: Settings) -> None:
    """Listens first, so that a taken port is told at once, and says how it is; ready when warm.

    Raises:
        Hangs: only a new process helps; in a group. Clients were told.
    """
    give_way(settings.nice)  # before there are threads of inference, which will have it too
    listeners = await process.open_listeners(settings.host, settings.engine_port)
    token = discovery.token(settings)
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        with shown_progress() as progress:
            engine = Keeper(settings, partial(service.load, settings, progress))
            server = EngineServer(engine, engine, settings, token, engine.loaded)
            await nursery.start(server.serve, listeners)
            await nursery.start(keep, engine, server)
        address = process.address("ws", listeners)
        with discovery.announced(settings, "engine", f"{address}/"):
            log.info(
                "ready",
                address=address,
                voices=len(engine.voices),
                precision=engine.model.precision,
                seconds=round(trio.current_time() - began, 1),
            )
            await trio.sleep_forever()


async def keep(
    engine: Keeper,
    server: EngineServer,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Keeps the engine going. When that does not help any more, tells everybody.

    Raises:
        Hangs: a new process is to take over; in a group.
    """
    try:
        await engine.run(task_status=task_status)
    except* Hangs:
        log.error("the engine ends, so that the service manager starts it anew")
        process.end_within(GOODBYE_S, TAINTED)
        await server.streams.fail_all(SynthesisFailed(_HANGS))
        raise


def run(flags: Mapping[str, Any]) -> int:
    """Runs the engine; gives the exit code."""
    code = TAINTED
    try:
        code = process.run(serve, flags)
    except* Hangs:
        pass  # the log says so
    return code


def main(
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    threads: Annotated[int | None, typer.Option(help="inference threads; 0: one per core")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, float32 or hybrid")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """The engine: text in, numbered frames of speech out, over WebSocket (kokoro.v1)."""
    flags = {
        "engine_port": port,
        "threads": threads,
        "precision": precision,
        "log_level": log_level,
    }
    code = run(flags)
    if code == TAINTED:
        # Nobody waits for the thread that hangs; and if a provider of ONNX Runtime is what hangs,
        # this is no clean end, after which its mark (`engine.model.marker`) would be gone.
        os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    typer.run(main)
