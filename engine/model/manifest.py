"""Which files there are: names, sizes in bytes and sha256 of the model and every voice. Core.

The numbers are in `manifest.json`. Where they come from:

* `kokoro-v1.0.int8.onnx` of release v1.0 and the 54 voices: computed from the packages that
  `sources` fetches.
* The other models and `voices-v1.0.bin`: from lock files of several unrelated public projects
  that agree with each other. `voices-v1.0.bin` is confirmed here too: NumPy writes exactly that
  file when it is given the 54 voices (`tests/engine/model/test_assets.py` does so), which also
  proves that both sources hold the same voices bit for bit.

Release v1.1 re-exported the same weights under the same file names, so a name may have two
hashes; either is accepted from a person's hands. Only release v1.0 is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

#: rows, one, and values of a voice: a style vector for each possible number of phonemes
VOICE_SHAPE = (510, 1, 256)

#: 510 · 1 · 256 values of four bytes
VOICE_BYTES = 522_240


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file as it must be.

    Attributes:
        name: the file's name, without a folder.
        size: length in bytes.
        sha256: 64 lowercase hex digits.
        precision: of a model, `float32` or `int8`; empty otherwise.
        release: the kokoro-onnx release that holds it; empty for a single voice.
    """

    name: str
    size: int
    sha256: str
    precision: str = ""
    release: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """All known files.

    Attributes:
        models: best first; several may share a name.
        archive: all voices in one file, an npz of name -> float32 `VOICE_SHAPE`.
        voices: voice name -> its file `NAME.bin`, raw little-endian float32.
        voice_bytes: size of every voice file.
    """

    models: tuple[FileSpec, ...]
    archive: FileSpec
    voices: Mapping[str, FileSpec]
    voice_bytes: int = VOICE_BYTES

    @property
    def fetched(self) -> FileSpec:
        """The model that is fetched when there is none: the small one, the first of its name."""
        return next(spec for spec in self.models if spec.precision == "int8")

    def model_names(self) -> tuple[str, ...]:
        """File names of models, the preferred one first."""
        return tuple(dict.fromkeys(spec.name for spec in self.models))

    def models_named(self, name: str) -> tuple[FileSpec, ...]:
        """Every accepted content of the file `name`; the first is the one to tell people of."""
        return tuple(spec for spec in self.models if spec.name == name)


def parse(text: str) -> Manifest:
    """A manifest from its JSON.

    Raises:
        KeyError, TypeError, ValueError: it is not one; that is a fault of this package.
    """
    raw = json.loads(text)
    voice_bytes = int(raw["voice_bytes"])
    return Manifest(
        models=tuple(FileSpec(**entry) for entry in raw["models"]),
        archive=FileSpec(**raw["archive"]),
        voices={
            name: FileSpec(f"{name}.bin", voice_bytes, sha256)
            for name, sha256 in raw["voices"].items()
        },
        voice_bytes=voice_bytes,
    )


@cache
def load() -> Manifest:
    """The manifest of this package."""
    return parse(Path(__file__).with_name("manifest.json").read_text(encoding="utf-8"))
