"""`python -m http_compat`: the engine for OpenAI clients."""

from __future__ import annotations

import sys
from typing import Annotated

import structlog
import trio
import typer

from engine import process
from engine.config import Settings
from wsproto_api import discovery, security

from . import server
from .app import create_app
from .remote import RemoteEngine

log = structlog.get_logger("http")


async def serve(settings: Settings) -> None:
    """Serves at once, whether or not the engine is there yet; until it is, speech gets 503."""
    listeners = await process.open_listeners(settings.host, settings.http_port)
    port = listeners[0].socket.getsockname()[1]
    token = discovery.token(settings)
    # Its own pages are those of the port that it got.
    own = settings.model_copy(update={"http_port": port})
    policy = security.policy(own, port=port, token=token)
    engine = RemoteEngine(settings.engine_url, token, settings.player_url)
    app = create_app(engine.speak, engine.voices, engine, settings=settings, policy=policy)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, app, listeners)
        address = process.address("http", listeners)
        with discovery.announced(settings, "http", f"{address}/"):
            log.info("ready", address=f"{address}/v1")
            await trio.sleep_forever()


def main(
    port: Annotated[int | None, typer.Option(help="port to listen on")] = None,
    engine_port: Annotated[int | None, typer.Option(help="port of the engine")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error")] = None,
) -> None:
    """Speech over HTTP for programs that know the OpenAI API: POST /v1/audio/speech."""
    flags = {"http_port": port, "engine_port": engine_port, "log_level": log_level}
    sys.exit(process.run(serve, flags))


if __name__ == "__main__":
    typer.run(main)
