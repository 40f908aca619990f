"""How `assets` looks for files, drops damaged ones and installs fetched ones. Files, network."""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import AssetError
from .archive import Unreadable, unpack
from .manifest import FileSpec, Manifest
from .sources import RELEASE, Progress, Source, Unavailable
from .store import LEDGER, Ledger, install, sha256_of

MODEL_DIR = "KOKORO_LIVE_MODEL_DIR"
CACHE_DIR = "KOKORO_LIVE_CACHE_DIR"

#: folder in the cache for unfinished downloads and scratch files
DOWNLOADS = "downloads"


class Damaged(Exception):
    """A known file whose content is not the published one."""

    def __init__(self, path: Path, spec: FileSpec, found: str) -> None:
        super().__init__(f"expected {spec.sha256[:12]}, found {found[:12]}")
        self.path = path
        self.spec = spec


@dataclass(slots=True)
class Found:
    """What is on disk; `archive` is set only if it may be needed."""

    model: tuple[Path, FileSpec] | None = None
    voices: Path | None = None
    archive: Path | None = None

    @property
    def complete(self) -> bool:
        """Whether both halves are there."""
        return self.model is not None and self.voices is not None


@dataclass(slots=True)
class Search:
    """One search, with what it needs to know.

    Attributes:
        folder: the user's own, if named.
        cache: ours.
        manifest: the files that are looked for.
        progress: told what takes long and what was found damaged.
        ledger: remembers hashes between two starts.
    """

    folder: Path | None
    cache: Path
    manifest: Manifest
    progress: Progress
    ledger: Ledger = field(init=False)

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.cache / LEDGER)

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """Turns errors of the file system into sentences, and saves what was learnt."""
        try:
            yield
        except OSError as error:
            raise _disk_error(error, self.cache) from None
        finally:
            self.ledger.save()

    # -- looking

    def look(self) -> Found:
        """What folder and cache hold. Writes nothing.

        Raises:
            AssetError: a fault of the user's folder.
            Damaged: of a file in the cache.
        """
        found = Found()
        if self.folder is not None:
            self._look_in_folder(self.folder, found)
        if found.model is None:
            found.model = self._model(self.cache)
        if found.voices is None:
            found.voices = self._voices(self.cache, whole=True)
        if found.voices is None and found.archive is None:
            found.archive = self._archive(self.cache)
        return found

    def _look_in_folder(self, folder: Path, found: Found) -> None:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise AssetError(
                f"{MODEL_DIR} names {folder}, which {what}: correct it or unset it.",
                param="model_dir",
            )
        try:
            found.model = self._model(folder)
            found.voices = self._voices(folder, whole=False)
            found.archive = self._archive(folder) if found.voices is None else None
        except Damaged as bad:
            raise AssetError(
                f"{bad.path} is not the published file (sha256 {bad}): download it again from "
                f"{RELEASE} or take it out of the folder.",
                param="model_dir",
            ) from None
        if found.model is None and found.voices is None and found.archive is None:
            names = ", ".join(self.manifest.model_names())
            raise AssetError(
                f"{MODEL_DIR} names {folder}, which holds none of {names}, voices/NAME.bin and "
                f"{self.manifest.archive.name}: put them there or unset it.",
                param="model_dir",
            )

    def _model(self, place: Path) -> tuple[Path, FileSpec] | None:
        for name in self.manifest.model_names():
            path = place / name
            digest = self.ledger.digest(path)
            if digest is None:
                continue
            specs = self.manifest.models_named(name)
            for spec in specs:
                if spec.sha256 == digest:
                    return path, spec
            raise Damaged(path, specs[0], digest)
        return None

    def _voices(self, place: Path, *, whole: bool) -> Path | None:
        folder = place / "voices"
        present = sum(self._good(folder / v.name, v) for v in self.manifest.voices.values())
        enough = present == len(self.manifest.voices) if whole else present > 0
        return folder if enough else None

    def _archive(self, place: Path) -> Path | None:
        path = place / self.manifest.archive.name
        return path if self._good(path, self.manifest.archive) else None

    def _good(self, path: Path, spec: FileSpec) -> bool:
        digest = self.ledger.digest(path)
        if digest is not None and digest != spec.sha256:
            raise Damaged(path, spec, digest)
        return digest is not None

    # -- fetching; the cache's lock is held

    def complete(self, sources: Sequence[Source], offline: bool) -> Found:
        """Looks again, now that nobody else writes, and fetches what is missing.

        Raises:
            AssetError: something is still missing; names every source and why it failed.
        """
        found = self._look_and_clean()
        failures = []
        if found.model is None:
            failures.append(self._try_all("model", sources, offline, found))
        if found.voices is None and found.archive is not None:
            found.voices = self.unpacked(found.archive)
        if found.voices is None:
            failures.append(self._try_all("voices", sources, offline, found))
        with contextlib.suppress(OSError):
            (self.cache / DOWNLOADS).rmdir()  # stays if it holds an unfinished download
        if found.complete:
            return found
        models = " or ".join(self.manifest.model_names())
        raise AssetError(
            f"Model and voices are not complete and cannot be fetched. "
            f"{' '.join(failure for failure in failures if failure)} "
            f"To supply them by hand, put {models}, and {self.manifest.archive.name}, both from "
            f"{RELEASE}, into a folder and name it in {MODEL_DIR}.",
            param="model_dir",
        )

    def _look_and_clean(self) -> Found:
        for stale in (self.cache / DOWNLOADS).glob("work-*"):
            shutil.rmtree(stale, ignore_errors=True)  # of a process that was killed
        while True:
            try:
                return self.look()
            except Damaged as bad:
                self._drop(bad)

    def _drop(self, bad: Damaged) -> None:
        fetched = bad.spec.name == self.manifest.fetched.name or bad.path.parent != self.cache
        if fetched:
            bad.path.unlink()
            self.progress(f"{bad.path} is damaged ({bad}) and is fetched again", 0, None)
        else:
            # Only a person can have put it there, and may still be copying it.
            bad.path.replace(bad.path.with_name(f"{bad.path.name}.damaged"))
            self.progress(f"{bad.path} is damaged ({bad}) and is renamed to .damaged", 0, None)

    def _try_all(self, half: str, sources: Sequence[Source], offline: bool, found: Found) -> str:
        """Tries the sources in order; the answer is why each of them failed."""
        where = f"{MODEL_DIR} is not set" if self.folder is None else f"{self.folder} has none"
        failures = [where, f"the cache {self.cache} has none"]
        for source in sources:
            if offline and source.network:
                failures.append(f"{source.name}: not tried, offline")
                continue
            (self.cache / DOWNLOADS).mkdir(exist_ok=True)
            with tempfile.TemporaryDirectory(prefix="work-", dir=self.cache / DOWNLOADS) as work:
                try:
                    fetch: Callable[[Source, Path, Found], bool]
                    fetch = self._fetch_model if half == "model" else self._fetch_voices
                    if fetch(source, Path(work), found):
                        return ""
                except Unavailable as error:
                    failures.append(f"{source.name}: {error}")
        return f"{half.capitalize()}: {'; '.join(failures)}."

    def _fetch_model(self, source: Source, work: Path, found: Found) -> bool:
        spec = self.manifest.fetched
        path = source.model(spec, work, self.progress)
        if path is None:
            return False
        _verify(path, spec)
        self._install(path, self.cache / spec.name, spec)
        found.model = (self.cache / spec.name, spec)
        return True

    def _fetch_voices(self, source: Source, work: Path, found: Found) -> bool:
        folder = source.voices(self.manifest, work, self.progress)
        if folder is None:
            return False
        found.voices = self._install_voices(folder)
        return True

    def unpacked(self, archive: Path) -> Path:
        """The cache's voices, out of a verified archive."""
        with tempfile.TemporaryDirectory(prefix=".voices-", dir=self.cache) as work:
            try:
                unpack(archive, self.manifest, Path(work))
                return self._install_voices(Path(work))
            except (Unreadable, Unavailable) as error:
                raise AssetError(f"{archive} cannot be used: {error}.", param="model_dir") from None

    def _install_voices(self, folder: Path) -> Path:
        voices = self.manifest.voices
        missing = [name for name, spec in voices.items() if not (folder / spec.name).is_file()]
        if missing:
            raise Unavailable(f"lacks {len(missing)} of {len(voices)} voices, such as {missing[0]}")
        for spec in voices.values():
            _verify(folder / spec.name, spec)
        target = self.cache / "voices"
        target.mkdir(exist_ok=True)
        for spec in voices.values():
            self._install(folder / spec.name, target / spec.name, spec)
        return target

    def _install(self, path: Path, target: Path, spec: FileSpec) -> None:
        install(path, target)
        self.ledger.remember(target, spec.sha256)


def _verify(path: Path, spec: FileSpec) -> None:
    found = sha256_of(path)
    if found != spec.sha256:
        raise Unavailable(
            f"brought another {spec.name} (sha256 {found[:12]}, expected {spec.sha256[:12]})"
        )


def _disk_error(error: OSError, cache: Path) -> AssetError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return AssetError(
            f"The disk that holds {cache} is full: make room for 250 MB, or name a folder on "
            f"another disk in {CACHE_DIR}.",
            param="cache_dir",
        )
    path = str(error.filename) if error.filename is not None else str(cache)
    why = error.strerror or type(error).__name__
    if Path(path).is_relative_to(cache) or cache.is_relative_to(path):
        return AssetError(
            f"The cache folder {cache} cannot be used ({path}: {why}): make it writable, or name "
            f"another folder in {CACHE_DIR}.",
            param="cache_dir",
        )
    return AssetError(f"{path} cannot be read ({why}): check its permissions.", param="model_dir")
