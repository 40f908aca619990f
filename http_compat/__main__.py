"""`python -m http_compat`: the engine for OpenAI clients."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated

import structlog
import trio
import typer

from engine import process
from engine.config import Settings
from engine.request import VoiceInfo
from wsproto_api import discovery, messages, security
from wsproto_api.client import ask
from wsproto_api.speak import WebSocketSpeak

from . import server
from .app import create_app

log = structlog.get_logger("http")

#: An engine that does not answer in this time is starting: it listens before it has read its model.
ENGINE_S = 0.8


class RemoteEngine:
    """What the application asks of an engine in another process.

    Args:
        url: of the engine.
        token: what it wants to be shown.
    """

    def __init__(self, url: str, token: str) -> None:
        self.speak = WebSocketSpeak(url, token, connect_s=ENGINE_S)
        self._ask = partial(ask, url, token=token, limit_s=ENGINE_S)

    async def voices(self) -> Sequence[VoiceInfo]:
        """Its voices."""
        return (await self._ask(messages.AskVoices(id="voices"), messages.Voices)).voices

    async def status(self) -> messages.Status:
        """How it is."""
        return await self._ask(messages.AskStatus(id="status"), messages.Status)


async def serve(settings: Settings) -> None:
    """Serves at once, whether or not the engine is there yet; until it is, speech gets 503."""
    listeners = await process.open_listeners(settings.host, settings.http_port)
    port = listeners[0].socket.getsockname()[1]
    token = discovery.token(settings)
    # Its own pages are those of the port that it got.
    own = settings.model_copy(update={"http_port": port})
    policy = security.policy(own, port=port, token=token)
    engine = RemoteEngine(settings.engine_url, token)
    app = create_app(engine.speak, engine.voices, engine.status, settings=settings, policy=policy)
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
