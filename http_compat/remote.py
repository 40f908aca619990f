"""Engine and player in other processes, as the application asks them. Shell.

How an engine is, is asked by HTTP: it answers while WebSocket clients still wait for its model, and
when all its connections are taken.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial

import httpx
import structlog
import trio

from engine.errors import InternalError, NotReady, Unauthorized
from engine.request import LiveRequest, SpeechRequest, Stream, VoiceInfo
from wsproto_api import messages
from wsproto_api.client import absent, ask, silent
from wsproto_api.speak import WebSocketSpeak

log = structlog.get_logger("http")

#: An engine that does not answer in this time is starting: it listens before it has read its model.
ENGINE_S = 0.8
#: An engine that hangs may take so long to find out that it does.
RESET_S = 8.0
#: somebody has to start it anew
TOKEN_MS = 10_000
#: Who wants to know everything does not want to wait for a player that hangs.
PLAYER_S = 0.5


class RemoteEngine:
    """What the application asks.

    Args:
        url: of the engine.
        token: what it wants to be shown, and the player too.
        player_url: of the player, if there may be one.
        limit_s: how long the engine may take to answer.
    """

    def __init__(
        self, url: str, token: str, player_url: str | None = None, *, limit_s: float = ENGINE_S
    ) -> None:
        self._limit_s = limit_s
        self._speak = WebSocketSpeak(url, token, connect_s=limit_s)
        self._url = url
        self._token = token
        self._player_url = player_url
        self._ask = partial(ask, url, token=token)
        self._http = httpx.AsyncClient(
            base_url=httpx.URL(url).copy_with(scheme="http"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=None,  # noqa: S113 - there is one around all of it
            trust_env=False,
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # not used, and reads no certificates
        )

    @asynccontextmanager
    async def speak(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `engine.request.SpeakLive`."""
        with _own_token():
            async with self._speak(request) as stream:
                yield stream

    async def voices(self) -> Sequence[VoiceInfo]:
        """Its voices."""
        question = messages.AskVoices(id="voices")
        with _own_token():
            return (await self._ask(question, messages.Voices, limit_s=self._limit_s)).voices

    async def status(self) -> messages.Status:
        """How it is, also while it loads."""
        found = messages.decode(await self._page("status"), messages.ENGINE_SERVER).message
        if not isinstance(found, messages.Status):
            raise InternalError(f"{self._url} does not say how it is; is it another version?")
        return found

    async def metrics(self) -> str:
        """Its numbers, in Prometheus' text format."""
        return await self._page("metrics")

    async def reset(self) -> messages.SessionReset:
        """Ends all its streams, and sets it going anew."""
        question = messages.AskReset(id="reset")
        with _own_token():
            return await self._ask(question, messages.SessionReset, limit_s=RESET_S)

    async def player(self) -> messages.PlayerState:
        """How the player is."""
        if self._player_url is None:
            raise NotReady("There is no player.")
        return await ask(
            self._player_url,
            messages.AskStatus(id="status"),
            messages.PlayerState,
            self._token,
            limit_s=PLAYER_S,
            client=messages.PLAYER_CLIENT,
            server=messages.PLAYER_SERVER,
        )

    async def _page(self, name: str) -> str:
        with _own_token(), trio.move_on_after(self._limit_s):
            try:
                answer = await self._http.get(name)
            except httpx.ConnectError:
                raise absent(self._url) from None
            except httpx.HTTPError:  # it ends in this moment
                raise silent(self._url) from None
            match answer.status_code:
                case 200:
                    return answer.text
                case 401:
                    raise Unauthorized(f"{self._url} refused to answer: {answer.text[:200]}")
                case _:
                    raise NotReady(f"{self._url} refused to answer: {answer.text[:200]}")
        raise silent(self._url)


@contextmanager
def _own_token() -> Iterator[None]:
    """An engine that refuses our token is no fault of whoever asks us.

    Raises:
        NotReady: in place of `Unauthorized`, which would be about the key of our client.
    """
    try:
        yield
    except Unauthorized as error:
        log.error("the engine refuses the token of this server", error=error.message)
        raise NotReady(
            "The engine refuses the token of this server: one of them was started with another "
            "`token` or `data_dir`; stop both and start them with the same settings.",
            retry_after_ms=TOKEN_MS,
        ) from None
