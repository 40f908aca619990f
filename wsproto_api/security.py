"""Who may connect: Host, Origin and token. Core.

A page in any browser tab can reach loopback ports. `Host` must be a name of ours, so a page cannot
come in by a DNS name that it made point here; `Origin`, which only browsers send, must be a page of
ours. Programs send no Origin. They show the token, which only this machine's user can read.

What is looked at in turn, and what follows from it:

    the request                                        decision
    Host missing, repeated, or none of ours            Refused 403
    Origin repeated, or none of ours                   Refused 403
    Authorization with anything but our token          Refused 401
    subprotocol bearer.X with anything but our token   Ended 4401, after the upgrade
    the token, in one of these places                  Admitted
    none; a page that needs none                       Admitted
    none; a page that offers kokoro.v1                 AuthFirst: a message `auth` must come first
    none; anybody else                                 Refused 401

A page needs no token of an engine on loopback, since its Origin is one of ours. It needs one of
the player, which speaks aloud and tells what is spoken, and of everybody who listens to other
machines. A page cannot read an HTTP status: that is why a wrong token in the place that is meant
for pages gets the upgrade first. The query string is never looked at.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from engine.config import Settings
from engine.errors import EngineError, OriginNotAllowed, Unauthorized

from .messages import PROTOCOL

#: names by which this machine reaches itself, besides its loopback addresses (no DNS name leads
#: to those unseen: the browser sends the name); the last is how a container reaches its host
LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})

#: what browsers omit
HTTP_PORT = 80
STANDARD_PORTS = {"http": HTTP_PORT, "https": 443}

#: begins the subprotocol that carries the token
BEARER = "bearer."

UNAUTHORIZED_CLOSE = 4401
AUTH_TIMEOUT_CLOSE = 4408

WHERE = (
    "it is the setting `token`, or else in the file `token` of the folder that "
    "`python -m engine --config` shows as data_dir"
)
TOKEN_NEEDED = f"The token is needed, as `Authorization: Bearer <token>`: {WHERE}."
TOKEN_WRONG = f"The token is wrong; {WHERE}."
AUTH_NEEDED = f"The first message must be `auth` with the token: {WHERE}."
AUTH_LATE = f"No `auth` message with the token came in time: {WHERE}."
HOST_REFUSED = (
    "This Host is not served; use a loopback name and the right port, or put the name into the "
    "setting `hosts`."
)
ORIGIN_REFUSED = "Pages of this Origin may not connect; the setting `origins` lists those that may."

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

# Not `urlsplit`, which takes user names, queries, and "[::1].evil.example" for "::1".
_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9._-]+))(?::(?P<port>[1-9][0-9]{0,4}))?",
    re.ASCII | re.IGNORECASE,
)

_BEARER = re.compile(r"bearer(?:[ ]+(?P<token>.*))?", re.ASCII | re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Host:
    """What a Host header names: a name in small letters or an address, and a port if it has one."""

    name: str | Address
    port: int | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """Who may connect to one server; `policy` makes it from the settings.

    Attributes:
        port: where it listens.
        bind: the address of this.
        token: what programs must show.
        hosts: by what else it is reached. One without a port is served with ours and without any
            (behind a proxy on a standard port).
        origins: the pages that may connect.
        pages_need_token: whether these must show it too, though it be on loopback.
    """

    port: int
    bind: Address
    token: str = field(repr=False)
    hosts: frozenset[Host] = frozenset()
    origins: frozenset[str] = frozenset()
    pages_need_token: bool = False

    @property
    def exposed(self) -> bool:
        """Whether other machines can reach it."""
        return not self.bind.is_loopback

    def accepts(self, token: str) -> bool:
        """Whether this is the token; takes as long for a nearly right one as for any other."""
        # A header may hold what is no UTF-8, which arrives as lone surrogates.
        shown, own = (part.encode("utf-8", "surrogatepass") for part in (token, self.token))
        return hmac.compare_digest(shown, own)


@dataclass(frozen=True, slots=True)
class Offer:
    """What a request says of who sends it: all values of these headers, as they came."""

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    authorizations: Sequence[str] = ()
    subprotocols: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Admitted:
    """May come in."""


@dataclass(frozen=True, slots=True)
class AuthFirst:
    """Gets the upgrade, and must then send the token as its first message."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Gets an HTTP answer instead of the upgrade.

    Attributes:
        status: 401 or 403.
        error: its sentence.
    """

    status: int
    error: EngineError


@dataclass(frozen=True, slots=True)
class Ended:
    """Gets the upgrade, so that it can read why it is closed.

    Attributes:
        close_code: of the WebSocket.
        error: its sentence.
    """

    close_code: int
    error: EngineError


Decision: TypeAlias = Admitted | AuthFirst | Refused | Ended


def policy(settings: Settings, *, port: int, token: str, pages_need_token: bool = False) -> Policy:
    """The policy of a server with these settings.

    Args:
        settings: of which `host`, `hosts`, `origins` and `http_port` count.
        port: where it listens.
        token: what programs must show.
        pages_need_token: see `Policy`.
    """
    hosts = frozenset(_extra(host) for host in settings.hosts)
    return Policy(
        port=port,
        token=token,
        bind=ipaddress.ip_address(settings.host),
        hosts=hosts,
        origins=page_origins(settings.http_port, settings.host, hosts) | set(settings.origins),
        pages_need_token=pages_need_token,
    )


def page_origins(
    port: int, bind: str = "127.0.0.1", hosts: Collection[Host] = ()
) -> frozenset[str]:
    """Origins of the pages that our own HTTP server serves.

    Args:
        port: where that listens.
        bind: the address of this.
        hosts: by what else it is reached, as `Policy` has it; by these perhaps through a proxy, which
            has a certificate or none.
    """
    address = ipaddress.ip_address(bind)
    own: set[str | Address] = {"localhost", *map(ipaddress.ip_address, ("127.0.0.1", "::1"))}
    if not address.is_unspecified:
        own.add(address)
    return frozenset(_origin("http", name, port) for name in own) | frozenset(
        _origin(scheme, host.name, served)
        for host in hosts
        for scheme, standard in STANDARD_PORTS.items()
        for served in ((port, standard) if host.port is None else (host.port,))
    )


def _origin(scheme: str, name: str | Address, port: int) -> str:
    """As browsers write it."""
    where = f"[{name}]" if isinstance(name, ipaddress.IPv6Address) else str(name)
    return f"{scheme}://{where}" + ("" if port == STANDARD_PORTS[scheme] else f":{port}")


def admission(policy: Policy, offer: Offer) -> Decision:
    """Whether a WebSocket handshake may go on; the table is in the module's docstring."""
    foreign = foreigner(policy, offer)
    if foreign:
        return foreign
    shown = False
    if offer.authorizations:
        wrong = unauthorized(policy, offer)
        if wrong:
            return wrong
        shown = True
    offered = [part.strip() for value in offer.subprotocols for part in value.split(",")]
    for name in offered:
        if name.startswith(BEARER):
            if not policy.accepts(name.removeprefix(BEARER)):
                return Ended(UNAUTHORIZED_CLOSE, Unauthorized(TOKEN_WRONG))
            shown = True
    if shown or (offer.origins and not (policy.pages_need_token or policy.exposed)):
        return Admitted()
    if offer.origins and PROTOCOL in offered:
        return AuthFirst()
    return Refused(401, Unauthorized(TOKEN_NEEDED))


def foreigner(policy: Policy, offer: Offer) -> Refused | None:
    """Whether a request comes by a Host or from a page that is none of ours, whatever it wants."""
    if len(offer.hosts) != 1 or not _is_ours(policy, offer.hosts[0]):
        return Refused(403, OriginNotAllowed(HOST_REFUSED))
    if len(offer.origins) > 1 or not set(offer.origins) <= policy.origins:
        return Refused(403, OriginNotAllowed(ORIGIN_REFUSED))
    return None


def unauthorized(policy: Policy, offer: Offer) -> Refused | None:
    """Whether a request lacks the token as `Authorization: Bearer <token>`."""
    if not offer.authorizations:
        return Refused(401, Unauthorized(TOKEN_NEEDED))
    found = _BEARER.fullmatch(offer.authorizations[0].strip())
    if found is None:  # another scheme: nothing that we could call wrong
        return Refused(401, Unauthorized(TOKEN_NEEDED))
    if len(offer.authorizations) > 1 or not policy.accepts(found["token"] or ""):
        return Refused(401, Unauthorized(TOKEN_WRONG))
    return None


def _is_ours(policy: Policy, header: str) -> bool:
    host = _parse(header)
    if host is None:
        return False
    if host in policy.hosts or (
        host.port in (None, policy.port) and Host(host.name) in policy.hosts
    ):
        return True
    return (host.port or HTTP_PORT) == policy.port and _is_here(policy, host.name)


def _is_here(policy: Policy, name: str | Address) -> bool:
    match name:
        case str():
            return name in LOCAL_NAMES
        case ipaddress.IPv4Address() if name.is_loopback:
            return True
        case ipaddress.IPv6Address() if name.is_loopback and name.ipv4_mapped is None:
            return True
        case _:
            return name == policy.bind and not name.is_unspecified


def _parse(header: str) -> Host | None:
    """What a Host header says; None if it says nothing that can be ours."""
    found = _HOST.fullmatch(header)
    if found is None:
        return None
    port = int(found["port"]) if found["port"] else None
    if found["v6"]:
        try:
            return Host(ipaddress.IPv6Address(found["v6"]), port)
        except ValueError:
            return None
    return Host(_name(found["name"]), port)


def _name(text: str) -> str | Address:
    try:
        return ipaddress.IPv4Address(text)
    except ValueError:
        return text.lower()


def _extra(text: str) -> Host:
    """An entry of the setting `hosts`, whose form the settings have checked."""
    try:
        return Host(ipaddress.ip_address(text))  # IPv6 without its brackets too
    except ValueError:
        host = _parse(text)
    assert host is not None
    return host
