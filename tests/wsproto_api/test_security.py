"""Who may connect: tables of Host, Origin, and the places of the token."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine import config
from tests.support.access import TOKEN
from wsproto_api import security
from wsproto_api.messages import PROTOCOL
from wsproto_api.security import Admitted, AuthFirst, Ended, Offer, Policy, Refused

PORT = 8881
PAGES = security.page_origins(8880)
PAGE = "http://127.0.0.1:8880"
HERE = f"127.0.0.1:{PORT}"
WRONG = TOKEN[:-1] + "X"

LOOPBACK = Policy(PORT, ipaddress.ip_address("127.0.0.1"), TOKEN, origins=PAGES)
PLAYER = Policy(
    PORT, ipaddress.ip_address("127.0.0.1"), TOKEN, origins=PAGES, pages_need_token=True
)
EXPOSED = Policy(PORT, ipaddress.ip_address("192.168.1.5"), TOKEN, origins=PAGES)
POLICIES = {"engine": LOOPBACK, "player": PLAYER, "exposed": EXPOSED}

#: what a decision comes down to
Verdict: TypeAlias = str | int


def refusal(host: str | None, *origins: str, port: int = PORT) -> str | None:
    """The sentence for who comes by this Host from this page, whatever they want."""
    policy = Policy(port, LOOPBACK.bind, TOKEN, origins=PAGES)
    hosts = [] if host is None else [host]
    found = security.foreigner(policy, Offer(hosts=hosts, origins=origins))
    assert found is None or found.status == 403
    return found.error.message if found else None


def verdict(policy: Policy, **offer: Any) -> Verdict:
    match security.admission(policy, Offer(**{"hosts": [HERE], **offer})):
        case Admitted():
            return "in"
        case AuthFirst():
            return "auth"
        case Refused(status=status):
            return status
        case Ended(close_code=code):
            return code


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
    assert refusal(host) == security.HOST_REFUSED


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
    assert refusal("127.0.0.1:8881", origin) == security.ORIGIN_REFUSED


def test_several_origins_are_refused_even_if_each_is_ours() -> None:
    ours = "http://127.0.0.1:8880"
    assert refusal("127.0.0.1:8881", ours, ours) is not None
    assert refusal("127.0.0.1:8881", ours, "http://localhost:8880") is not None
    assert refusal("127.0.0.1:8881", ours, "null") is not None


def test_the_host_is_looked_at_before_the_origin() -> None:
    assert refusal("evil.example:8881", "http://127.0.0.1:8880") is not None


def test_without_allowed_pages_there_are_none() -> None:
    none = Policy(PORT, LOOPBACK.bind, TOKEN)
    assert security.foreigner(none, Offer(hosts=[HERE], origins=[PAGE])) is not None


def test_several_hosts_are_refused_even_if_each_is_ours() -> None:
    assert verdict(LOOPBACK, hosts=[HERE, HERE], authorizations=[f"Bearer {TOKEN}"]) == 403


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


# --- other names by which we are reached ----------------------------------------------------


def made(host: str = "127.0.0.1", **settings: Any) -> Policy:
    """The policy of an engine with these settings."""
    flags = {"host": host, "token": TOKEN, **settings}
    found = config.load(flags, environ={}, file=Path("there-is-no-such-file")).settings
    return security.policy(found, port=PORT, token=TOKEN)


@pytest.mark.parametrize(
    ("hosts", "host", "served"),
    [
        (["tts.lan"], "tts.lan:8881", True),
        (["tts.lan"], "TTS.lan:8881", True),
        (["tts.lan"], "tts.lan", True),  # behind a proxy on a standard port
        (["tts.lan"], "tts.lan:8882", False),
        (["tts.lan"], "tts.lan.evil.example:8881", False),
        (["tts.lan"], "x.tts.lan:8881", False),
        (["tts.lan"], "tts.lan.:8881", False),
        (["tts.lan"], "user@tts.lan:8881", False),
        (["tts.lan:443"], "tts.lan:443", True),
        (["tts.lan:443"], "tts.lan:8881", False),
        (["tts.lan:443"], "tts.lan", False),
        (["fd00::5"], "[fd00::5]:8881", True),
        (["[fd00::5]"], "[FD00:0::5]:8881", True),
        (["[fd00::5]:443"], "[fd00::5]:443", True),
        (["fd00::5"], "[fd00::6]:8881", False),
        (["10.0.0.7"], "10.0.0.7:8881", True),
        (["10.0.0.7"], "10.0.0.8:8881", False),
        (["tts.lan"], "localhost:8881", True),  # more names, not other ones
        ([], "tts.lan:8881", False),
    ],
)
def test_the_setting_hosts(hosts: list[str], host: str, served: bool) -> None:
    decision = security.foreigner(made(hosts=hosts), Offer(hosts=[host]))
    assert (decision is None) is served


@pytest.mark.parametrize(
    ("bind", "host", "served"),
    [
        ("192.168.1.5", "192.168.1.5:8881", True),
        ("192.168.1.5", "192.168.1.5:8880", False),
        ("192.168.1.5", "192.168.1.6:8881", False),
        ("192.168.1.5", "localhost:8881", True),
        ("fd00::5", "[fd00::5]:8881", True),
        ("fd00::5", "[fd00::6]:8881", False),
        # by which of its addresses such a machine is reached, only its user knows
        ("0.0.0.0", "192.168.1.5:8881", False),
        ("0.0.0.0", "0.0.0.0:8881", False),
        ("::", "[::]:8881", False),
        ("0.0.0.0", "127.0.0.1:8881", True),
    ],
)
def test_the_address_it_listens_on(bind: str, host: str, served: bool) -> None:
    assert (security.foreigner(made(bind), Offer(hosts=[host])) is None) is served


@pytest.mark.parametrize(
    ("hosts", "origin", "ours"),
    [
        (["tts.lan"], "http://tts.lan:8880", True),
        (["TTS.lan"], "http://tts.lan:8880", True),
        (["tts.lan"], "https://tts.lan:8880", True),
        (["tts.lan"], "https://tts.lan", True),  # behind a proxy on a standard port
        (["tts.lan"], "http://tts.lan", True),
        (["tts.lan"], "http://tts.lan:8881", False),
        (["tts.lan"], "http://tts.lan:443", False),
        (["tts.lan"], "https://tts.lan:80", False),
        (["tts.lan"], "http://x.tts.lan:8880", False),
        (["tts.lan"], "http://tts.lan.evil.example:8880", False),
        (["tts.lan"], "ws://tts.lan:8880", False),
        (["tts.lan:443"], "https://tts.lan", True),
        (["tts.lan:443"], "https://tts.lan:8880", False),
        (["tts.lan:8443"], "https://tts.lan:8443", True),
        (["tts.lan:8443"], "https://tts.lan", False),
        (["192.168.1.5"], "http://192.168.1.5:8880", True),
        (["192.168.1.5"], "http://192.168.1.6:8880", False),
        (["fd00:0::5"], "http://[fd00::5]:8880", True),
        (["[fd00::5]:443"], "https://[fd00::5]", True),
        (["tts.lan"], PAGE, True),  # more names, not other ones
        ([], "http://tts.lan:8880", False),
    ],
)
def test_pages_by_the_names_in_the_setting_hosts(hosts: list[str], origin: str, ours: bool) -> None:
    decision = security.foreigner(made(hosts=hosts), Offer(hosts=[HERE], origins=[origin]))
    assert (decision is None) is ours


def test_the_setting_origins() -> None:
    policy = made(origins=["https://tts.example"])
    assert verdict(policy, origins=["https://tts.example"]) == "in"
    assert verdict(policy, origins=["http://tts.example"]) == 403
    assert verdict(policy, origins=["https://tts.example:8443"]) == 403
    assert verdict(policy, origins=[PAGE]) == "in"


@pytest.mark.parametrize(
    ("bind", "exposed"),
    [("127.0.0.1", False), ("127.0.0.9", False), ("::1", False), ("0.0.0.0", True),
     ("::", True), ("192.168.1.5", True), ("fd00::5", True)],
)  # fmt: skip
def test_what_other_machines_reach(bind: str, exposed: bool) -> None:
    assert made(bind).exposed is exposed


# --- the token -------------------------------------------------------------------------------

RIGHT = {"authorizations": [f"Bearer {TOKEN}"]}
IN_PROTOCOL = {"subprotocols": [f"{PROTOCOL}, bearer.{TOKEN}"]}
WRONG_IN_PROTOCOL = {"subprotocols": [f"{PROTOCOL}, bearer.{WRONG}"]}
PAGE_ = {"origins": [PAGE]}
OFFERS = {"subprotocols": [PROTOCOL]}


@pytest.mark.parametrize(
    ("offer", "engine", "player", "exposed"),
    [
        # a program
        ({}, 401, 401, 401),
        (OFFERS, 401, 401, 401),
        (RIGHT, "in", "in", "in"),
        ({**RIGHT, **OFFERS}, "in", "in", "in"),
        ({"authorizations": [f"bearer {TOKEN}"]}, "in", "in", "in"),
        ({"authorizations": [f"BEARER   {TOKEN}"]}, "in", "in", "in"),
        ({"authorizations": [f"  Bearer {TOKEN}  "]}, "in", "in", "in"),
        ({"authorizations": [f"Bearer {WRONG}"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN[:-1]}"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN}x"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN.upper()}"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN} {TOKEN}"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer{TOKEN}"]}, 401, 401, 401),
        ({"authorizations": [f"Basic {TOKEN}"]}, 401, 401, 401),
        ({"authorizations": [TOKEN]}, 401, 401, 401),
        ({"authorizations": ["Bearer"]}, 401, 401, 401),
        ({"authorizations": ["Bearer "]}, 401, 401, 401),
        ({"authorizations": [""]}, 401, 401, 401),
        ({"authorizations": ["Bearer ſecret\udcff"]}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN}"] * 2}, 401, 401, 401),
        ({"authorizations": [f"Bearer {TOKEN}", f"Bearer {WRONG}"]}, 401, 401, 401),
        # a program, as a page would
        (IN_PROTOCOL, "in", "in", "in"),
        ({"subprotocols": [PROTOCOL, f"bearer.{TOKEN}"]}, "in", "in", "in"),
        (WRONG_IN_PROTOCOL, 4401, 4401, 4401),
        ({"subprotocols": [f"{PROTOCOL}, bearer."]}, 4401, 4401, 4401),
        ({"subprotocols": [f"{PROTOCOL}, bearer.{TOKEN}, bearer.{WRONG}"]}, 4401, 4401, 4401),
        # right here and wrong there is wrong
        ({**RIGHT, **WRONG_IN_PROTOCOL}, 4401, 4401, 4401),
        ({**IN_PROTOCOL, "authorizations": [f"Bearer {WRONG}"]}, 401, 401, 401),
        ({**RIGHT, **IN_PROTOCOL}, "in", "in", "in"),
        # a page
        (PAGE_, "in", 401, 401),  # offers nothing that we could answer by
        ({**PAGE_, **OFFERS}, "in", "auth", "auth"),
        ({**PAGE_, **IN_PROTOCOL}, "in", "in", "in"),
        ({**PAGE_, **WRONG_IN_PROTOCOL}, 4401, 4401, 4401),
        ({**PAGE_, **RIGHT}, "in", "in", "in"),
        ({**PAGE_, "authorizations": [f"Bearer {WRONG}"]}, 401, 401, 401),
        # a token opens no door to a foreign page or by a foreign name
        ({**RIGHT, "origins": ["http://evil.example"]}, 403, 403, 403),
        ({**IN_PROTOCOL, "origins": ["http://evil.example"]}, 403, 403, 403),
        ({**RIGHT, "origins": ["null"]}, 403, 403, 403),
        ({**RIGHT, "origins": [PAGE, PAGE]}, 403, 403, 403),
        ({**RIGHT, "hosts": ["evil.example:8881"]}, 403, 403, 403),
        ({**RIGHT, "hosts": []}, 403, 403, 403),
    ],
)
def test_the_token_in_each_place(
    offer: dict[str, Any], engine: Verdict, player: Verdict, exposed: Verdict
) -> None:
    assert [verdict(policy, **offer) for policy in POLICIES.values()] == [engine, player, exposed]


def test_nothing_says_the_token() -> None:
    assert TOKEN not in repr(LOOPBACK)
    for offer in (Offer(), Offer(authorizations=[f"Bearer {WRONG}"])):
        found = security.unauthorized(LOOPBACK, offer)
        assert found is not None
        assert TOKEN not in found.error.message
        assert WRONG not in found.error.message
        assert "data_dir" in found.error.message  # where it is found


@pytest.mark.parametrize(
    ("shown", "accepted"),
    [
        (TOKEN, True),
        (WRONG, False),
        ("", False),
        (TOKEN + "\n", False),
        ("\udcff", False),
        ("ü", False),
    ],
)
def test_a_token_is_compared_whatever_it_holds(shown: str, accepted: bool) -> None:
    assert LOOPBACK.accepts(shown) is accepted


headers = st.lists(
    st.one_of(
        st.text(st.characters(), max_size=30),  # lone surrogates too
        st.sampled_from([HERE, PAGE, PROTOCOL, f"Bearer {TOKEN}", f"bearer.{TOKEN}", "bearer."]),
    ),
    max_size=3,
)


@given(st.sampled_from(sorted(POLICIES)), headers, headers, headers, headers)
def test_any_headers_get_a_decision(
    name: str,
    hosts: list[str],
    origins: list[str],
    authorizations: list[str],
    subprotocols: list[str],
) -> None:
    offer = Offer(hosts, origins, authorizations, subprotocols)
    decision = security.admission(POLICIES[name], offer)
    if isinstance(decision, Admitted):
        shown = any(TOKEN in value for value in [*authorizations, *subprotocols])
        assert len(hosts) == 1
        assert shown or (name == "engine" and origins)
