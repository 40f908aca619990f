"""Who may connect: Host and Origin. Core.

A page in any browser tab can reach loopback ports. `Host` must be a loopback name, so a page
cannot come in by a DNS name that it made point here; `Origin`, which only browsers send, must be
a page of ours. Programs send no Origin and are let in: they already run as somebody on this machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlsplit

#: names by which this machine reaches itself; the last is how a container reaches its host
LOCAL_NAMES = frozenset({"127.0.0.1", "::1", "localhost", "host.docker.internal"})


def page_origins(port: int) -> frozenset[str]:
    """Origins of the pages that our own HTTP server on `port` serves."""
    return frozenset(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


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
    if not host:
        return False
    try:
        parts = urlsplit(f"//{host}")
        return parts.hostname in LOCAL_NAMES and (parts.port or 80) == port and not parts.path
    except ValueError:
        return False
