"""The engines that are compared, and what each needs before it can be started. Shell.

Files are made once and kept in the folder `bench` of the cache. An engine that cannot be had here
is left out, and a sentence says why.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import Options
from engine import config
from engine.errors import InvalidRequest
from engine.model import assets
from engine.model.assets import Assets
from engine.model.store import install, locked, write_atomically

OURS, INT8, FLOAT32, PI = NAMES = (
    "ours",
    "kokoro-onnx-int8",
    "kokoro-onnx-float32",
    "kokoro-pi-float",
)
#: who is measured when it has to be quick
QUICK = (OURS, INT8)
VOICE = "af_heart"
PI_PACKAGE = "kokoro-pi==1.2.0"

#: so large a latency budget that every segment is decoded whole, and the cache of the cached rows
_WHOLE_MS = 600_000
_CACHE_MB = 64

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Spec:
    """A process to start.

    Attributes:
        name: the engine's name in the rows.
        command: what is run; it speaks `bench.workers.protocol`.
        cached: it is asked for what it has already spoken, and must answer from a cache.
        reference: name of the competitor, or process, whose untrimmed audio this engine's should
            equal.
    """

    name: str
    command: tuple[str, ...]
    cached: bool = False
    reference: str | Spec | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """Who takes part: processes, those that could not be had, and what they have in common."""

    specs: tuple[Spec, ...]
    left_out: tuple[str, ...]
    threads: int


class CannotBeHad(Exception):
    """An engine cannot run here; the text is a sentence."""


def check(names: Sequence[str]) -> tuple[str, ...]:
    """The names in their usual order; all of them if there are none.

    Raises:
        InvalidRequest: there is no such engine.
    """
    if unknown := sorted(set(names) - set(NAMES)):
        raise InvalidRequest(f"There is no engine {unknown[0]!r}; there are {', '.join(NAMES)}.")
    return tuple(name for name in NAMES if not names or name in names)


def prepare(options: Options) -> Field:
    """Makes what the engines need. Blocks, minutes the first time.

    Raises:
        EngineError: model or voices cannot be had, or an engine is not known.
    """
    names = check(options.engines or (QUICK if options.quick else ()))
    settings = config.load().settings
    threads = options.threads or settings.threads or os.cpu_count() or 1
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    peers = _Peers(found, settings.cache_dir.expanduser() / "bench", threads, options.tell)
    makers: dict[str, Callable[[], list[Spec]]] = {
        OURS: lambda: ours(threads),
        INT8: peers.int8,
        FLOAT32: peers.float32,
        PI: peers.pi,
    }
    specs: list[Spec] = []
    left_out: list[str] = []
    with locked(peers.folder, lambda: options.tell("waiting for another benchmark")):
        for name in names:
            try:
                specs += makers[name]()
            except CannotBeHad as reason:
                left_out.append(f"{name} is left out: {reason}")
    if options.quick:
        # What is only there to be compared with takes ten seconds; `quality` has distances.
        specs = [replace(spec, reference=None) for spec in specs]
    return Field(tuple(specs), tuple(left_out), threads)


def ours(threads: int) -> list[Spec]:
    """kokoro-live without a cache, and with one."""
    whole = Spec("ours, whole", _ours(threads, cache_mb=0, first_audio_ms=_WHOLE_MS))
    return [
        Spec(OURS, _ours(threads, cache_mb=0), reference=whole),
        Spec(OURS, _ours(threads, cache_mb=_CACHE_MB), cached=True),
    ]


def _ours(threads: int, **flags: Any) -> tuple[str, ...]:
    told = {"threads": threads, "voice": VOICE, "log_level": "error", **flags}
    return worker(sys.executable, "ours", flags=told)


def worker(python: str | Path, module: str, **given: Any) -> tuple[str, ...]:
    """The command of a worker of that module, which is given this."""
    return (str(python), "-m", f"bench.workers.{module}", json.dumps(given, default=str))


@dataclass(frozen=True, slots=True)
class _Peers:
    """Makes the others' files."""

    found: Assets
    folder: Path
    threads: int
    tell: Callable[[str], None]

    def int8(self) -> list[Spec]:
        """The published file."""
        if self.found.precision != "int8":
            raise CannotBeHad(f"the model in use is {self.found.precision}.")
        return [Spec(INT8, self._published(self.found.model), reference=FLOAT32)]

    def float32(self) -> list[Spec]:
        """The same weights as float32."""
        return [Spec(FLOAT32, self._published(self._float32_file()), reference=FLOAT32)]

    def pi(self) -> list[Spec]:
        """Those float32 weights in the other project's graph."""
        source = self._float32_file()
        python = self._pi_environment()
        models = python.parent.parent / f"models-{source.stem}"
        given = {"models": models, "voice": VOICE, "threads": self.threads}
        speaking = worker(python, "pi", **given, variant="float")
        # Not the newer kokoro-onnx: the one it needs takes another row of the voice.
        whole = Spec("kokoro-pi, whole", worker(python, "pi", **given, variant="upstream"))
        if not (models / "models.json").is_file():
            for old in models.parent.glob("models-*"):
                shutil.rmtree(old)
            self.tell("applying kokoro-pi's rewrites")
            making = worker(python, "pi", **given, source=source, voices=self._voices())
            self._run(*making, failed="its graph cannot be made")
        return [Spec(PI, speaking, reference=whole)]

    def _published(self, model: Path) -> tuple[str, ...]:
        return worker(
            sys.executable,
            "published",
            model=model,
            voices=self._voices(),
            voice=VOICE,
            threads=self.threads,
        )

    def _voices(self) -> Path:
        """An npz archive with the voice, which is how kokoro-onnx takes voices."""
        data = np.fromfile(self.found.voices / f"{VOICE}.bin", np.float32).reshape(-1, 1, 256)
        archive = io.BytesIO()
        np.savez(archive, allow_pickle=False, **{VOICE: data})
        path = self.folder / "voices.npz"
        write_atomically(path, archive.getvalue())
        return path

    def _float32_file(self) -> Path:
        """The model with its weights as float32; made anew when model or conversion change."""
        if self.found.precision == "float32":
            return self.found.model
        import onnx  # takes a second, and is only needed here

        from engine.model import precision

        conversion = inspect.getsource(precision)
        key = hashlib.sha256(f"{self.found.sha256} {conversion}".encode()).hexdigest()
        path = self.folder / f"float32-{key[:12]}.onnx"
        if not path.is_file():
            for old in self.folder.glob("float32-*"):
                old.unlink()  # 325 MB each
            self.tell("turning the weights into float32")
            model = onnx.load(self.found.model)
            precision.dequantize(model)
            temporary = path.with_suffix(".part")
            onnx.save(model, temporary)
            install(temporary, path)
        return path

    def _pi_environment(self) -> Path:
        """The Python of an environment that has kokoro-pi."""
        system = f"{platform.system()} {platform.machine()}"
        if system != "Linux x86_64":
            raise CannotBeHad(f"its operator library is for Linux x86_64, and this is {system}.")
        home = self.folder / PI_PACKAGE.replace("==", "-")
        python, stamp = home / "bin" / "python", home / "installed"
        if not stamp.is_file():  # written last
            self.tell(f"installing {PI_PACKAGE} into an environment of its own")
            shutil.rmtree(home, ignore_errors=True)
            self._run(sys.executable, "-m", "venv", str(home), failed="its environment")
            options = ("-q", "--disable-pip-version-check", "--no-input")
            pip = (str(python), "-m", "pip", "install", *options, PI_PACKAGE)
            self._run(*pip, failed="it cannot be installed")
            stamp.touch()
        return python

    def _run(self, *command: str, failed: str) -> None:
        with tempfile.TemporaryFile("w+") as said:
            done = subprocess.run(
                command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False
            )
            said.seek(0)
            lines = said.read().strip().splitlines()
        if done.returncode:
            raise CannotBeHad(f"{failed}: {lines[-1] if lines else 'it does not say why'}")
