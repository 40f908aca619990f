"""Finds the model and the voices, and fetches what is missing. Files, network; nothing at import.

Model and voices are looked for separately, each in this order: the folder the user names, the
cache, then the sources (`sources`). Whatever is used was verified against the manifest, and a
file of the cache is either whole or not there.

A folder of the user's that holds only some voices gives just those: whoever names it chose them.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import manifest as known
from . import sources as places
from .manifest import VOICE_BYTES, Manifest
from .search import DOWNLOADS, Damaged, Found, Search
from .sources import Progress, Source
from .store import locked

__all__ = ["Assets", "Progress", "Source", "ensure", "find"]

VOICE_NAME = re.compile(r"[a-z]{2}_[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Assets:
    """What the engine loads; every known file was verified.

    Attributes:
        model: the ONNX file.
        model_name: its name in the manifest.
        precision: `int8` or `float32`.
        sha256: of the model, 64 hex digits.
        voices: folder of `NAME.bin`, each raw little-endian float32 of shape [510, 1, 256].
        voice_bytes: size of a voice file.
    """

    model: Path
    model_name: str
    precision: str
    sha256: str
    voices: Path
    voice_bytes: int = VOICE_BYTES

    def voice_names(self) -> tuple[str, ...]:
        """Names of the voices in the folder, sorted; files of another size are no voices."""
        return tuple(
            sorted(
                path.stem
                for path in self.voices.glob("*.bin")
                if VOICE_NAME.fullmatch(path.stem) and path.stat().st_size == self.voice_bytes
            )
        )


def _silent(what: str, done: int, total: int | None) -> None:
    """A `Progress` that tells nobody."""


def ensure(
    *,
    folder: Path | None,
    cache: Path,
    progress: Progress = _silent,
    sources: Sequence[Source] | None = None,
    offline: bool = False,
    manifest: Manifest | None = None,
) -> Assets:
    """Model and voices, fetched if need be. Blocks; may take minutes the first time.

    Safe when several processes call it at once: one fetches, the others wait for it.

    Args:
        folder: the user's own files, preferred to all others.
        cache: where fetched files are kept; made if it is missing.
        progress: what is being done, bytes or steps done, and how many in all if known; also
            told, with 0 and None, when it waits for another process or drops a damaged file.
        sources: instead of the usual ones.
        offline: use no source that needs the network.
        manifest: instead of the package's own (tests).

    Raises:
        AssetError: the folder is of no use, a file in it is not the published one, nothing could
            be fetched, or the cache cannot be written.
    """
    search = _search(folder, cache, manifest, progress)
    with search.telling():
        with contextlib.suppress(Damaged):
            if (assets := _assets(search.look(), search.manifest)) is not None:
                return assets
        if sources is None:
            sources = places.default(search.cache / DOWNLOADS)
        waiting = "waiting for another process to fetch"
        with locked(search.cache, lambda: progress(waiting, 0, None)):
            assets = _assets(search.complete(sources, offline), search.manifest)
    assert assets is not None  # `complete` raises if anything is missing
    return assets


def find(*, folder: Path | None, cache: Path, manifest: Manifest | None = None) -> Assets | None:
    """What `ensure` would use without fetching anything, or None if something is missing.

    An archive of voices is unpacked into the cache; a damaged file of the cache counts as
    missing and is left alone.

    Args:
        folder: as for `ensure`.
        cache: as for `ensure`.
        manifest: as for `ensure`.

    Raises:
        AssetError: as for `ensure`, except that nothing is fetched.
    """
    search = _search(folder, cache, manifest, _silent)
    with search.telling():
        try:
            found = search.look()
        except Damaged:
            return None
        if found.model is not None and found.voices is None and found.archive is not None:
            with locked(search.cache, lambda: None):
                found.voices = search.unpacked(found.archive)
        return _assets(found, search.manifest)


def _search(
    folder: Path | None, cache: Path, manifest: Manifest | None, progress: Progress
) -> Search:
    # A settings file has no shell that would have replaced the tilde.
    named = None if folder is None else folder.expanduser()
    return Search(named, cache.expanduser(), manifest or known.load(), progress)


def _assets(found: Found, manifest: Manifest) -> Assets | None:
    if found.model is None or found.voices is None:
        return None
    path, spec = found.model
    return Assets(
        model=path,
        model_name=spec.name,
        precision=spec.precision,
        sha256=spec.sha256,
        voices=found.voices,
        voice_bytes=manifest.voice_bytes,
    )
