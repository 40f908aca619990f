"""Who may connect: Host and Origin. Core.

A page in any browser tab can reach loopback ports. `Host` must be a loopback name, so a page
cannot come in by a DNS name that it made point here; `Origin`, which only browsers send, must be
a page of ours. Programs send no Origin and are let in: they already run as somebody on this machine.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

#: names by which this machine reaches itself, besides its loopback addresses (no DNS name leads
#: to those unseen: the browser sends the name); the last is how a container reaches its host
LOCAL_NAMES = frozenset({"localhost", "host.docker.internal"})

#: what browsers omit
HTTP_PORT = 80

# Not `urlsplit`, which takes user names, queries, and "[::1].evil.example" for "::1".
_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9.-]+))(?::(?P<port>[1-9][0-9]{0,4}))?",
    re.ASCII | re.IGNORECASE,
)


def page_origins(port: int) -> frozenset[str]:
    """Origins of the pages that our own HTTP server on `port` serves."""
    suffix = "" if port == HTTP_PORT else f":{port}"
    return frozenset(f"http://{name}{suffix}" for name in ("127.0.0.1", "localhost", "[::1]"))


def refusal(
    host: str | None, origins: list[str], *, port: int, allowed: Iterable[str]
) -> str | None:
    """Why this request is refused, as a sentence; None if it may come in.

    Args:
        host: the Host header.
        origins: all Origin headers; browsers send one, programs none.
        port: the port we listen on.
        allowed: origins that may come in.
    """
    if not _is_local(host, port):
        return "This Host is not served; use a loopback name and the right port."
    if len(origins) > 1 or any(origin not in set(allowed) for origin in origins):
        return "Pages of this Origin may not connect."
    return None


def _is_local(host: str | None, port: int) -> bool:
    found = _HOST.fullmatch(host or "")
    if found is None or int(found["port"] or HTTP_PORT) != port:
        return False
    try:
        if found["v6"]:
            return ipaddress.IPv6Address(found["v6"]) == ipaddress.IPv6Address("::1")
        name = found["name"].lower()
        return name in LOCAL_NAMES or ipaddress.IPv4Address(name).is_loopback
    except ValueError:
        return False
