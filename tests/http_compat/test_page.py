"""The page's files over HTTP, and what the browser is told that they may do."""

from __future__ import annotations

import re

import pytest
from trio.testing import MockClock

from http_compat.page.site import STATIC
from tests.support.access import TOKEN

from .serving import PORT, Engine, defaults, get


async def test_every_file_is_served_with_its_type_and_the_policy(autojump_clock: MockClock) -> None:
    app = Engine().app()
    types = {
        ".js": "text/javascript",
        ".css": "text/css",
        ".html": "text/html",
        ".svg": "image/svg+xml",
    }
    names = {path.name: f"/page/{path.name}" for path in STATIC.iterdir()} | {"index.html": "/"}
    for name, path in names.items():
        answer = await get(app, path)
        assert answer.status == 200
        assert answer.body == (STATIC / name).read_bytes()
        assert answer.headers["content-type"].startswith(types[(STATIC / name).suffix])
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("host", "engine"),
    [
        ("127.0.0.1", "ws://127.0.0.1:8881/"),
        ("localhost", "ws://localhost:8881/"),
        ("[::1]", "ws://[::1]:8881/"),
    ],
)
async def test_the_engine_is_where_the_page_is(
    autojump_clock: MockClock, host: str, engine: str
) -> None:
    answer = await get(Engine().app(), "/page/page.json", Host=f"{host}:{PORT}")
    assert answer.json == {"engine": engine, "token_needed": False}
    secure = engine.replace("ws:", "wss:")  # behind a proxy that has the certificate
    policy = answer.headers["content-security-policy"]
    assert f"connect-src 'self' {engine} {secure};" in policy


async def test_an_engine_that_others_reach_wants_its_token(autojump_clock: MockClock) -> None:
    settings = defaults(host="0.0.0.0", token=TOKEN, hosts=("tts.example",))
    answer = await get(Engine().app(settings=settings), "/page/page.json", Host="tts.example")
    assert answer.json == {"engine": "ws://tts.example:8881/", "token_needed": True}


@pytest.mark.parametrize(
    "path", ["/page/", "/page/nothing.js", "/page/..%2fsite.py", "/page/../site.py", "/index.html"]
)
async def test_nothing_else_is_served(autojump_clock: MockClock, path: str) -> None:
    assert (await get(Engine().app(), path)).status == 404


async def test_a_foreign_name_gets_no_page(autojump_clock: MockClock) -> None:
    assert (await get(Engine().app(), "/", Host=f"evil.example:{PORT}")).status == 403


def test_the_page_needs_nothing_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://(?!localhost and)", text), path
        assert not re.search(r"\binnerHTML|\bdocument\.write|\beval\(", text), path
