"""`python -m http_compat`: the engine for OpenAI clients."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import structlog
import trio
import typer

from engine import process
from engine.config import Settings
from engine.request import VoiceInfo
from wsproto_api import messages
from wsproto_api.client import WebSocketSpeak, ask

from . import server
from .app import create_app

log = structlog.get_logger("http")


async def serve(settings: Settings) -> None:
    """Serves at once, whether or not the engine is there yet; until it is, speech gets 503."""
    listeners = await process.open_listeners(settings.host, settings.http_port)
    port = listeners[0].socket.getsockname()[1]
    engine = settings.engine_url

    async def voices() -> Sequence[VoiceInfo]:
        answer = await ask(engine, messages.AskVoices(id="voices"), messages.Voices)
        return answer.voices

    async def status() -> messages.Status:
        return await ask(engine, messages.AskStatus(id="status"), messages.Status)

    app = create_app(WebSocketSpeak(engine), voices, status, settings=settings, port=port)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, app, listeners)
        log.info("ready", address=f"{process.address('http', listeners)}/v1")


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
