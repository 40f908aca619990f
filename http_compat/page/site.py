"""Serves the browser page at `/`, and its files under `/page/`. Shell.

The page talks to the engine itself, over WebSocket; `page.json` tells it where. The files are few and
small, so they are read once, and nothing else can be asked for.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import NotFound

from engine.config import Settings

STATIC = Path(__file__).parent / "static"

#: what the page may do: its own files, and WebSockets to the engine, as the page itself came
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self' {engine} {secure}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)

TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def add_page(app: QuartTrio, settings: Settings) -> None:
    """Serves the page.

    Args:
        app: which refuses foreign hosts, so that the `Host` of a request is one of ours.
        settings: where the engine listens, and whether other machines reach it: pages need the token then.
    """
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in TYPES}

    def engine() -> str:
        # By the name by which the page was reached: the engine is on the same machine.
        name = request.host.rpartition(":")[0] if ":" in request.host else request.host
        return f"ws://{name}:{settings.engine_port}/"

    def answer(body: bytes, content_type: str) -> Response:
        return Response(
            body,
            content_type=content_type,
            headers={
                "Content-Security-Policy": POLICY.format(
                    engine=engine(), secure=engine().replace("ws:", "wss:", 1)
                ),
                "X-Content-Type-Options": "nosniff",
                "Referrer-Policy": "no-referrer",
                "Cross-Origin-Opener-Policy": "same-origin",
                "Cache-Control": "no-cache",
            },
        )

    @app.get("/")
    async def page() -> Response:
        return answer(files["index.html"], TYPES[".html"])

    @app.get("/page/page.json")
    async def where() -> Response:
        told = {"engine": engine(), "token_needed": settings.exposed}
        return answer(msgspec.json.encode(told), "application/json")

    @app.get("/page/<name>")
    async def file(name: str) -> Response:
        if name not in files:
            raise NotFound
        return answer(files[name], TYPES[Path(name).suffix])
