"""Who may connect: a table of Host and Origin headers."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wsproto_api import security

PORT = 8881
PAGES = security.page_origins(8880)


def refusal(host: str | None, *origins: str, port: int = PORT) -> str | None:
    return security.refusal(host, list(origins), port=port, allowed=PAGES)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:8881",
        "localhost:8881",
        "LocalHost:8881",  # names are the same in any case
        "LOCALHOST:8881",
        "[::1]:8881",
        "host.docker.internal:8881",
        "127.0.0.2:8881",  # all of 127/8 is this machine, and a setting may bind it
        "[0:0:0:0:0:0:0:1]:8881",
    ],
)
def test_hosts_that_are_served(host: str) -> None:
    assert refusal(host) is None


@pytest.mark.parametrize(
    "host",
    [
        # none, or nothing
        None, "", " ", ":", ":8881",
        # DNS names that somebody made point here
        "evil.example:8881", "evil.example", "localhost.evil.example:8881",
        "127.0.0.1.evil.example:8881", "127.0.0.1.nip.io:8881", "localtest.me:8881",
        "notlocalhost:8881", "localhost-evil:8881", "evil.localhost:8881",
        # the right name on another port
        "127.0.0.1:8880", "localhost:80", "[::1]:8880", "127.0.0.1", "localhost", "[::1]",
        "127.0.0.1:0", "127.0.0.1:", "127.0.0.1:-8881", "127.0.0.1:x", "127.0.0.1:8881:8881",
        "127.0.0.1:88810", "127.0.0.1:08881", "127.0.0.1:+8881", "127.0.0.1: 8881",
        "127.0.0.1:8_881", "127.0.0.1:８８８１",
        # userinfo, paths and other parts of a URL
        "evil@127.0.0.1:8881", "127.0.0.1:8881@evil.example:8881", "127.0.0.1@evil.example:8881",
        "user:pass@localhost:8881", "@127.0.0.1:8881", "127.0.0.1:8881/", "127.0.0.1:8881/x",
        "127.0.0.1:8881?x", "127.0.0.1:8881#x", "127.0.0.1:8881\\x", "http://127.0.0.1:8881",
        "//127.0.0.1:8881", "127.0.0.1:8881, evil.example:8881", "127.0.0.1:8881 evil.example",
        # signs that some parsers drop
        "127.0.0.1\t:8881", " 127.0.0.1:8881", "127.0.0.1:8881 ", "local\thost:8881",
        "127.0.0.1:8881\x00", "\x00127.0.0.1:8881", "127.0.0.1:8881\n",
        # trailing dots
        "localhost.:8881", "127.0.0.1.:8881", "host.docker.internal.:8881",
        # other ways to write an address, which no browser sends
        "2130706433:8881", "0x7f000001:8881", "0177.0.0.1:8881", "127.1:8881", "0:8881",
        # other addresses
        "0.0.0.0:8881", "[::]:8881", "192.168.1.5:8881", "[fe80::1]:8881", "128.0.0.1:8881",
        # brackets
        "::1:8881", "[::1:8881", "::1]:8881", "[]:8881", "[localhost]:8881", "[127.0.0.1]:8881",
        "[::1%lo]:8881", "[::1]8881", "[::1].evil.example:8881", "[[::1]]:8881",
        # letters that look like others
        "ⓛocalhost:8881", "１27.0.0.1:8881", "localhoſt:8881", "loca1host:8881",
        "host.doc\u212aer.internal:8881",
    ],
)  # fmt: skip
def test_hosts_that_are_not_served(host: str | None) -> None:
    assert refusal(host) == "This Host is not served; use a loopback name and the right port."


def test_on_the_port_of_http_the_host_needs_no_port() -> None:
    assert refusal("localhost", port=80) is None
    assert refusal("localhost:80", port=80) is None
    assert refusal("[::1]", port=80) is None
    assert refusal("localhost:8881", port=80) is not None
    assert refusal("evil.example", port=80) is not None


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:8880", "http://localhost:8880", "http://[::1]:8880"]
)
def test_pages_of_ours_may_connect(origin: str) -> None:
    assert refusal("127.0.0.1:8881", origin) is None


def test_programs_send_no_origin_and_may_connect() -> None:
    assert refusal("127.0.0.1:8881") is None


@pytest.mark.parametrize(
    "origin",
    [
        "null", "", " ", "*", "about:blank", "file://", "data:",
        "http://evil.example", "http://evil.example:8880", "http://localhost.evil.example:8880",
        "http://127.0.0.1", "http://127.0.0.1:8881", "http://127.0.0.1:80", "http://localhost",
        "https://127.0.0.1:8880", "ws://127.0.0.1:8880", "chrome-extension://abcdef",
        "http://127.0.0.1:8880/", "http://127.0.0.1:8880/page", "http://127.0.0.1:8880?x",
        "http://127.0.0.1:8880 ", " http://127.0.0.1:8880", "http://127.0.0.1:8880\t",
        "http://localhost.:8880", "http://LOCALHOST:8880", "HTTP://127.0.0.1:8880",
        "http://user@127.0.0.1:8880", "http://127.0.0.1:8880@evil.example",
        "http://127.0.0.1:8880, http://evil.example", "http://127.0.0.1:8880 http://evil.example",
        "http://0.0.0.0:8880", "http://[::]:8880", "http://::1:8880", "http://2130706433:8880",
        "127.0.0.1:8880", "//127.0.0.1:8880", "http:127.0.0.1:8880",
    ],
)  # fmt: skip
def test_other_pages_may_not_connect(origin: str) -> None:
    assert refusal("127.0.0.1:8881", origin) == "Pages of this Origin may not connect."


def test_several_origins_are_refused_even_if_each_is_ours() -> None:
    ours = "http://127.0.0.1:8880"
    assert refusal("127.0.0.1:8881", ours, ours) is not None
    assert refusal("127.0.0.1:8881", ours, "http://localhost:8880") is not None
    assert refusal("127.0.0.1:8881", ours, "null") is not None


def test_the_host_is_looked_at_before_the_origin() -> None:
    assert refusal("evil.example:8881", "http://127.0.0.1:8880") is not None


def test_without_allowed_pages_there_are_none() -> None:
    sentence = security.refusal("127.0.0.1:1", ["http://127.0.0.1:8880"], port=1, allowed=())
    assert sentence is not None


def test_a_page_on_the_port_of_http_names_no_port() -> None:
    assert "http://localhost" in security.page_origins(80)
    assert "http://localhost" not in security.page_origins(8880)
    assert "http://localhost:8880" in security.page_origins(8880)


@given(st.text(st.characters(), max_size=30))
@example("[")
@example("[::1")
@example("127.0.0.1:" + "9" * 5000)
@example("[" + ":" * 100 + "]:8881")
def test_any_host_is_served_or_refused(host: str) -> None:
    served = refusal(host) is None
    assert not served or host.lower().rpartition(":")[0] in {"localhost", "[::1]"} or "." in host


@given(st.text(st.characters(), max_size=30))
def test_any_origin_is_ours_or_refused(origin: str) -> None:
    assert (refusal("127.0.0.1:8881", origin) is None) is (origin in PAGES)
