"""A manifest of tiny files, and a source that delivers them. For the tests of this folder."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.model.assets import Assets, Source, ensure, find
from engine.model.manifest import FileSpec, Manifest
from engine.model.sources import Progress

FULL, FULL_NEW, INT8 = b"full precision" * 50, b"full, exported anew" * 50, b"int8 model" * 100
NAMES = ("af_one", "am_two", "bf_three")
ARRAYS = {name: np.full((3, 1, 4), at, np.float32) for at, name in enumerate(NAMES)}
VOICES = {name: array.tobytes() for name, array in ARRAYS.items()}


def npz(arrays: dict[str, np.ndarray]) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)  # type: ignore[arg-type]
    return out.getvalue()


ARCHIVE = npz(ARRAYS)


def spec(name: str, content: bytes, precision: str = "") -> FileSpec:
    return FileSpec(name, len(content), hashlib.sha256(content).hexdigest(), precision)


SMALL = Manifest(
    models=(
        spec("kokoro-v1.0.onnx", FULL, "float32"),
        spec("kokoro-v1.0.onnx", FULL_NEW, "float32"),
        spec("kokoro-v1.0.int8.onnx", INT8, "int8"),
    ),
    archive=spec("voices-v1.0.bin", ARCHIVE),
    voices={name: spec(f"{name}.bin", content) for name, content in VOICES.items()},
    voice_bytes=48,
)


@dataclass
class FakeSource:
    """A source that delivers what it is given, and counts how often it was asked."""

    model_bytes: bytes | None = INT8
    voice_bytes: dict[str, bytes] | None = field(default_factory=lambda: dict(VOICES))
    name: str = "fake"
    network: bool = True
    failure: Exception | None = None
    models_asked: int = 0
    voices_asked: int = 0

    def model(self, wanted: FileSpec, work: Path, progress: Progress) -> Path | None:
        self.models_asked += 1
        if self.model_bytes is None:
            return None
        path = work / wanted.name
        path.write_bytes(self.model_bytes)
        if self.failure is not None:
            raise self.failure
        return path

    def voices(self, manifest: Manifest, work: Path, progress: Progress) -> Path | None:
        self.voices_asked += 1
        if self.voice_bytes is None:
            return None
        for name, content in self.voice_bytes.items():
            (work / f"{name}.bin").write_bytes(content)
        if self.failure is not None:
            raise self.failure
        return work


def get(cache: Path, *sources: Source, folder: Path | None = None, offline: bool = False) -> Assets:
    return ensure(folder=folder, cache=cache, sources=sources, offline=offline, manifest=SMALL)


def have(cache: Path, folder: Path | None = None) -> Assets | None:
    return find(folder=folder, cache=cache, manifest=SMALL)


def put_voices(place: Path, names: Sequence[str] = NAMES) -> None:
    (place / "voices").mkdir(parents=True)
    for name in names:
        (place / "voices" / f"{name}.bin").write_bytes(VOICES[name])


def fill(place: Path, model: str = "kokoro-v1.0.int8.onnx", content: bytes = INT8) -> None:
    put_voices(place)
    (place / model).write_bytes(content)


def names_below(place: Path) -> list[str]:
    return sorted(str(p.relative_to(place)) for p in place.rglob("*") if p.is_file())


FILLED = [
    ".lock",
    "kokoro-v1.0.int8.onnx",
    "verified.json",
    "voices/af_one.bin",
    "voices/am_two.bin",
    "voices/bf_three.bin",
]
