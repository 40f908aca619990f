"""Voice files out of an archive of voices. Files."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from .manifest import Manifest


class Unreadable(Exception):
    """The archive cannot be read; the text says which in a few words."""


def unpack(archive: Path, manifest: Manifest, into: Path) -> None:
    """Writes `NAME.bin` for every voice of the manifest that `archive` holds.

    Args:
        archive: an npz of name -> float32 array; nothing in it is unpickled.
        manifest: which names to take; what the archive lacks is left to the caller to miss.
        into: an existing folder; files of the same names are overwritten, not atomically.

    Raises:
        Unreadable: it is no npz, or it is damaged.
        OSError: the disk is full or the folder cannot be written.
    """
    if not zipfile.is_zipfile(archive):
        raise Unreadable(f"{archive.name} is not an npz archive")
    try:
        with np.load(archive, allow_pickle=False) as voices:
            for name in manifest.voices.keys() & set(voices.files):
                content = np.asarray(voices[name]).astype("<f4").tobytes()
                (into / manifest.voices[name].name).write_bytes(content)
    except (ValueError, EOFError, zipfile.BadZipFile):
        raise Unreadable(f"{archive.name} is damaged") from None
