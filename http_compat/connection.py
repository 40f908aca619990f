"""One request and its answer, from the first byte in to the last byte out. Shell.

Quart ends a request's work in two places: the handler returns a response, and later, in the same
task, the response is sent. An engine stream spans both. `Connection` gives every request an
`Exchange` whose `resources` are left when the answer is sent, when sending fails, and when the
client goes away, in whatever state that finds the request; so cancel scopes nest and nothing leaks.
"""

from __future__ import annotations

import re
import uuid
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

import structlog
import trio
from hypercorn.typing import (
    ASGIReceiveCallable,
    ASGIReceiveEvent,
    ASGISendCallable,
    ASGISendEvent,
    HTTPScope,
)
from quart import Quart
from quart import request as current_request
from quart.wrappers import Request
from quart_trio.asgi import TrioASGIHTTPConnection, TrioASGIWebsocketConnection

from engine.errors import EngineError, blame

from . import errors, metrics

log = structlog.get_logger("http")

#: How long an early answer waits for a client that is still sending its body. An answer before
#: that would be lost: closing a socket with unread bytes resets the connection.
LINGER_S = 2.0

_KEY = "kokoro_live.exchange"

#: carries the sentence of an error to the server, which takes it out and says it in the status line
REASON = b"x-kokoro-live-reason"
#: some clients take no line of more than 8 KiB, and nobody reads so much
REASON_CHARS = 200


def reason(sentence: str) -> bytes:
    """A sentence as the words behind a status: printable ASCII, cut if it is long."""
    words = re.sub("[^ -~]", "?", sentence).strip()
    return (words if len(words) <= REASON_CHARS else words[: REASON_CHARS - 3] + "...").encode()


def request_id() -> str:
    """A new name for a request."""
    return f"req_{uuid.uuid4().hex}"


@dataclass(slots=True)
class Exchange:
    """What belongs to one request.

    Attributes:
        id: the `x-request-id`.
        resources: what is left when the answer is out or given up; enter the engine's stream here.
        facts: what the log says of the request; never text.
    """

    id: str = field(default_factory=request_id)
    resources: AsyncExitStack = field(default_factory=AsyncExitStack)
    facts: dict[str, object] = field(default_factory=dict)


def exchange() -> Exchange:
    """The exchange of the request that is being handled."""
    return cast(Exchange, cast(dict[str, Any], current_request.scope)[_KEY])


class Connection(TrioASGIHTTPConnection):
    """Quart's end of one request on hypercorn; set it as the app's `asgi_http_class`.

    An error while the body is sent ends it without its end mark: hypercorn then closes the
    socket, and the client sees that the transfer is cut.
    """

    def __init__(self, app: Quart, scope: HTTPScope) -> None:
        # A base URL that ends in a slash gives //audio/speech in clients that do not trim it.
        path = re.sub("(?<!:)//+", "/", scope["path"])
        super().__init__(app, cast(HTTPScope, {**scope, "path": path}))
        self._received = trio.Event()
        self._sent = False

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Serves the request."""

        async def watched() -> ASGIReceiveEvent:
            event = await receive()
            if event["type"] == "http.request" and not event.get("more_body"):
                self._received.set()
            return event

        async def noted(event: ASGISendEvent) -> None:
            if event["type"] == "http.response.start" and (error := self._error()):
                event = {**event, "headers": [*event["headers"], (REASON, reason(error))]}
            if event["type"] != "http.response.body" or event.get("more_body"):
                await send(event)
                return
            self._sent = True
            # While it writes the last piece, hypercorn reports the end of the request, upon which
            # Quart cancels this task. Unshielded, it would not get to close the connection.
            with trio.CancelScope(shield=True):
                await send(event)

        await super().__call__(watched, noted)

    async def handle_request(  # type: ignore[override]
        self, nursery: trio.Nursery, request: Request, send: ASGISendCallable
    ) -> None:
        """Makes the answer and sends it."""
        began_s = trio.current_time()
        current = cast(dict[str, Any], request.scope)[_KEY] = Exchange()
        broken, status = False, 0
        try:
            async with current.resources:
                response = await self.app.handle_request(request)
                current.facts["status"] = status = response.status_code
                with trio.move_on_after(LINGER_S):
                    await self._received.wait()
                await self._send_response(send, response)
        except EngineError as error:
            broken = True
            current.facts |= {"code": error.code, "error": error.message}
        except Exception as error:
            broken = True
            log.error("answer crashed", id=current.id, error=blame(error))
        finally:
            outcome = "broken" if broken else "sent" if self._sent else "gone"
            self._log(current, outcome, trio.current_time() - began_s)
            metrics.answered(request.endpoint, status, outcome)
        nursery.cancel_scope.cancel()

    def _error(self) -> str:
        """The sentence with which the request is refused; empty if it is not."""
        current = cast(Exchange, cast(dict[str, Any], self.scope)[_KEY])
        return str(current.facts.get("error", ""))

    def _log(self, current: Exchange, outcome: str, took_s: float) -> None:
        # Questions such as /health come every few seconds; speech and failures are news.
        news = outcome == "broken" or not current.facts.keys().isdisjoint({"format", "code"})
        write = log.info if news else log.debug
        ms = round(took_s * 1000, 1)
        write("request", id=current.id, **current.facts, outcome=outcome, ms=ms)


class NoWebSocket(TrioASGIWebsocketConnection):
    """The answer to a WebSocket handshake: there is none here; the engine has one."""

    async def __call__(self, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        """Refuses it, in the words of any other unknown address."""
        answer = errors.refusal(404)
        await send(
            {
                "type": "websocket.http.response.start",
                "status": answer.status,
                "headers": [
                    (b"content-type", b"application/json"),
                    (b"x-request-id", request_id().encode()),
                ],
            }
        )
        await send(
            {"type": "websocket.http.response.body", "body": answer.body, "more_body": False}
        )
