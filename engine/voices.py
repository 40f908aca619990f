"""Voice packs: for each number of tokens the style vector that speaks them. Shell.

A pack is raw float32 [510, 1, 256]; row n - 1 is for n tokens.
"""

from __future__ import annotations

import difflib
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.errors import AssetError, UnknownVoice
from engine.request import VoiceInfo
from engine.text import languages
from engine.text.languages import Frontend

ROWS, STYLE = 510, 256


class Voices:
    """The voices in a folder of NAME.bin files; a pack is read when it is first used.

    Raises:
        AssetError: there is none, or one has the wrong size.
    """

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.bin"))}
        if not self._files:
            raise AssetError(f"There are no voices in {folder}.")
        self._packs: dict[str, NDArray[np.float32]] = {}
        digest = hashlib.sha256()
        for name, path in self._files.items():
            data = path.read_bytes()
            if len(data) != ROWS * STYLE * 4:
                raise AssetError(f"{path} is not a voice: it has {len(data)} bytes.")
            digest.update(name.encode() + b"\0" + data)
        #: changes when any voice does
        self.hash = digest.hexdigest()

    def check(self, name: str) -> None:
        """Does nothing if there is such a voice.

        Raises:
            UnknownVoice: there is none; the sentence names the most similar ones.
        """
        if name in self._files:
            return
        similar = difflib.get_close_matches(name, self._files, n=3) or ["af_heart"]
        raise UnknownVoice(
            f"There is no voice {name[:40]!r}; the most similar is {' or '.join(similar)}.",
            param="voice",
        )

    def style(self, name: str, tokens: int) -> NDArray[np.float32]:
        """The style vector, float32 [1, 256], for this many tokens (1…510)."""
        if name not in self._packs:
            self.check(name)
            data = np.fromfile(self._files[name], dtype=np.float32)
            self._packs[name] = data.reshape(ROWS, 1, STYLE)
        style: NDArray[np.float32] = self._packs[name][min(tokens, ROWS) - 1]
        return style

    def infos(self) -> tuple[VoiceInfo, ...]:
        """The voices whose own language can be read here; the others need `lang`."""
        return tuple(
            VoiceInfo(id=name, name=_shown(name), lang=language.tag)
            for name in self._files
            if (language := languages.of_voice(name)).frontend is not Frontend.NONE
        )


def _shown(name: str) -> str:
    """`af_heart` to `Heart (American English, female)`."""
    language = languages.of_voice(name).name
    gender = {"f": "female", "m": "male"}.get(name[1:2], "")
    plain = name.partition("_")[2].replace("_", " ").title() or name
    return f"{plain} ({', '.join(filter(None, (language, gender)))})"
