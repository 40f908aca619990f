"""`python -m wsproto_api`: the engine as a WebSocket server."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import structlog
import trio
import typer

from engine import process, service
from engine.config import Settings
from engine.model.progress import shown_progress

from . import discovery
from .server import EngineServer

log = structlog.get_logger("engine")


def give_way(nice: int) -> None:
    """Lets other programs go first: sound suffers more from a late turn than inference does.

    A process that gives way as far already, as a service does, is left as it is.
    """
    if nice > os.getpriority(os.PRIO_PROCESS, 0) and not process.set_nice(nice):
        log.warning("the engine may not give way to other programs", nice=nice)


async def serve(settings: Settings) -> None:
    """Listens first, so that a taken port is told at once; ready only when warm."""
    give_way(settings.nice)  # before there are threads of inference, which will have it too
    listeners = await process.open_listeners(settings.host, settings.engine_port)
    token = discovery.token(settings)
    began = trio.current_time()
    with shown_progress() as progress:
        engine = await service.load(settings, progress=progress)
    server = EngineServer(engine, engine, settings, token)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
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


def main(
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    threads: Annotated[int | None, typer.Option(help="inference threads; 0: one per core")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """The engine: text in, numbered frames of speech out, over WebSocket (kokoro.v1)."""
    flags = {"engine_port": port, "threads": threads, "log_level": log_level}
    sys.exit(process.run(serve, flags))


if __name__ == "__main__":
    typer.run(main)
