"""One HTTP download that can be cut and goes on where it stopped. Network.

The bytes go to `NAME.part`; the file is there only when its size and sha256 are right. A `.part`
that a cut left behind is continued by the next try, in this process or a later one.
"""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from .manifest import FileSpec
from .sources import Progress, Unavailable
from .store import sha256_of

#: seconds to connect, and seconds without a byte before a connection counts as dead
CONNECT_S = 10.0
READ_S = 30.0

#: connections for one file, as long as each of them brings something
CONNECTIONS = 8


class _Cut(Exception):
    """The connection ended before the file did."""


class _Foreign(Exception):
    """What the `.part` holds is not the beginning of the server's file."""


def download(base: str, spec: FileSpec, folder: Path, progress: Progress) -> Path:
    """Fetches `base` + the file's name.

    Args:
        base: URL that ends in a slash.
        spec: what must arrive.
        folder: where the `.part` is kept.
        progress: told the file's name, bytes so far and bytes in all.

    Returns:
        The verified `.part` file; the caller moves it to its place.

    Raises:
        Unavailable: it cannot be had now.
        OSError: the disk is full or cannot be written.
    """
    part = folder / f"{spec.name}.part"
    with _client() as client:
        resumed = _complete(client, base + spec.name, spec, part, progress)
        found = sha256_of(part)
        if found != spec.sha256 and resumed:
            # The beginning may be of another file, or damaged; only a fresh copy can tell.
            part.unlink()
            _complete(client, base + spec.name, spec, part, progress)
            found = sha256_of(part)
    if found != spec.sha256:
        part.unlink()
        raise Unavailable(
            f"sent another {spec.name} (sha256 {found[:12]}, expected {spec.sha256[:12]})"
        )
    return part


def _client() -> httpx.Client:
    try:
        timeout = httpx.Timeout(READ_S, connect=CONNECT_S)
        return httpx.Client(follow_redirects=True, timeout=timeout)
    except (OSError, ValueError, ImportError) as error:
        # a proxy or certificate file named in the environment that cannot be used
        raise Unavailable(f"no HTTP client: {_words(error)}") from None


def _complete(
    client: httpx.Client, url: str, spec: FileSpec, part: Path, progress: Progress
) -> bool:
    """Connects until `part` has its size; True if it began with what an earlier connection left."""
    for _ in range(CONNECTIONS):
        before = _size(part)
        if before == spec.size:
            return True
        try:
            _connection(client, url, spec, part, progress)
        except _Foreign:
            part.unlink(missing_ok=True)
            if not before:
                raise Unavailable(f"answered with a wrong range of {spec.name}") from None
            continue
        except _Cut:
            pass
        else:
            if _size(part) == spec.size:
                return before > 0
        if _size(part) <= before:
            break
    raise Unavailable(
        f"the connection was cut at {_size(part):,} of {spec.size:,} bytes of {spec.name}; "
        "the next try goes on from there"
    )


def _connection(
    client: httpx.Client, url: str, spec: FileSpec, part: Path, progress: Progress
) -> None:
    have = _size(part)
    if have > spec.size:
        raise _Foreign
    # identity: a range of a compressed body would be of no use
    headers = {"Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    try:
        with client.stream("GET", url, headers=headers) as response:
            append = _accepts(response, have, spec)
            _body(response, spec, part, progress, append=append)
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError) as error:
        raise Unavailable(f"cannot be reached ({_words(error)})") from None
    except (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError):
        raise _Cut from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Unavailable(_words(error)) from None


def _accepts(response: httpx.Response, have: int, spec: FileSpec) -> bool:
    """Checks status and length before a byte is written; True if the body continues `have`."""
    status = response.status_code
    if status == 416:
        raise _Foreign
    if status not in (200, 206):
        raise Unavailable(f"answered {status} for {spec.name}")
    append = status == 206
    if append and not response.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
        raise _Foreign
    length = response.headers.get("Content-Length", "")
    total = int(length) + (have if append else 0) if length.isdecimal() else spec.size
    if total != spec.size:
        if append:
            raise _Foreign
        raise Unavailable(f"has a {spec.name} of {total:,} bytes instead of {spec.size:,}")
    return append


def _body(
    response: httpx.Response, spec: FileSpec, part: Path, progress: Progress, *, append: bool
) -> None:
    done = _size(part) if append else 0
    with part.open("ab" if append else "wb") as file:
        # Pieces as they arrive: httpx would lose what it gathers for larger ones on a cut.
        for chunk in response.iter_raw():
            done += len(chunk)
            if done > spec.size:
                part.unlink()
                raise Unavailable(f"sent more than the {spec.size:,} bytes of {spec.name}")
            file.write(chunk)
            progress(spec.name, done, spec.size)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _words(error: Exception) -> str:
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error).strip())
    return text.rstrip(".") or type(error).__name__
