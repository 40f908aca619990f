"""`python -m http_compat.wyoming`: the engine for Home Assistant."""

from __future__ import annotations

import sys
from typing import Annotated

import structlog
import trio
import typer

from engine import process
from engine.config import Settings, is_loopback
from wsproto_api import discovery

from ..remote import RemoteEngine
from .server import WyomingServer

log = structlog.get_logger("wyoming")

#: how long the engine may take to answer; it needs a few milliseconds, and Home Assistant asks again
ANSWER_LIMIT_S = 2.0


async def serve(settings: Settings) -> None:
    """Serves at once, whether or not the engine is there yet; until it is, clients get an error."""
    listeners = await process.open_listeners(settings.wyoming_host, settings.wyoming_port)
    token = discovery.token(settings)
    engine = RemoteEngine(settings.engine_url, token, limit_s=ANSWER_LIMIT_S)
    server = WyomingServer(engine.speak, engine.voices, settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        if not is_loopback(settings.wyoming_host):
            log.warning("whoever reaches this port can use it: Wyoming has no password")
        log.info("ready", address=process.address("tcp", listeners))
        await trio.sleep_forever()


async def tell_if_wanted(settings: Settings) -> None:
    """What `make up` asks: prints the process's name in the Procfile if the setting is on."""
    if settings.wyoming:
        print("wyoming")


def main(
    host: Annotated[str | None, typer.Option(help="address to listen on")] = None,
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    engine_port: Annotated[int | None, typer.Option(help="port of the engine")] = None,
    wanted: Annotated[
        bool, typer.Option("--wanted", help="only print wyoming if the setting is on")
    ] = False,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Speech for Home Assistant and others that know the Wyoming protocol."""
    flags = {
        "wyoming_host": host,
        "wyoming_port": port,
        "engine_port": engine_port,
        "log_level": log_level,
    }
    sys.exit(process.run(tell_if_wanted if wanted else serve, flags))


if __name__ == "__main__":
    typer.run(main)
