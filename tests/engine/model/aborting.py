"""An engine whose provider ends its process: `python -m tests.engine.model.aborting CACHE`.

`started` is how one starts, here and in a test: the real model and voices, a cache of its own with a
decision in it, and a provider that is the processor under another name for some calls.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from engine import config, service
from engine.model import assets, build, placement, providers
from engine.model.marker import InUse
from engine.model.providers import CPU, PARTS, Candidate, Finding
from engine.model.runtime import Call, Runs, session
from tests.engine.model.places import COREML, MAC, PHONEMES

#: calls before the last one: the acoustic part works, and the vocoder does not
WORKS = 1


@dataclass
class Aborting:
    """Makes sessions; those of another place than the processor abort after so many calls."""

    works: int = WORKS

    def __call__(
        self, graph: Path, threads: int, place: Candidate = CPU, *, spinning: bool = True
    ) -> Runs:
        own = session(graph, threads, spinning=spinning)
        return own if place == CPU else cast(Runs, _Aborting(self, own))


@dataclass
class _Aborting:
    machine: Aborting
    own: Runs

    def get_inputs(self) -> Sequence[Any]:
        return self.own.get_inputs()

    def run(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[np.generic]], run: ort.RunOptions
    ) -> list[Any]:
        self.machine.works -= 1
        if self.machine.works < 0:
            os.abort()
        return self.own.run(names, feeds, run)


def started(cache: Path, patch: pytest.MonkeyPatch) -> service._Loaded:
    """An engine's model as it is after the start."""
    real = config.load({"threads": 1}).settings
    found = assets.ensure(folder=real.model_dir, cache=real.cache_dir)
    built = build.ensure(found.model, found.sha256, real.cache_dir, lambda *_: None)
    candidates = providers.candidates(MAC)
    key = placement.key_of(placement.planned(found, real, candidates), candidates)
    findings = [Finding(COREML.name, part, 0.5) for part in PARTS]
    if not (cache / placement.FILE).exists():
        placement.keep(cache / placement.FILE, providers.decided(key, findings, time.time()))
    patch.setattr(assets, "ensure", lambda **_: found)
    patch.setattr(build, "ensure", lambda *_, **__: built)
    patch.setattr(ort, "get_available_providers", lambda: MAC)
    patch.setattr(service, "session", Aborting())
    settings = real.model_copy(update={"cache_dir": cache})
    return service._read_model(settings, lambda *_: None, InUse(cache))


def spoken(loaded: service._Loaded) -> NDArray[np.float32]:
    """A few words."""
    style = loaded.voices.style("af_heart", len(PHONEMES))
    sound = loaded.model.acoustic.call(PHONEMES, style, 1.0).run()
    vocoder = loaded.model.vocoder
    return Call(lambda options: vocoder.whole(sound, options)[0]).run()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    spoken(started(Path(sys.argv[1]), pytest.MonkeyPatch()))
