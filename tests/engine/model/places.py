"""Places where the model may run, for tests: names, sounds, and providers that are broken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnxruntime as ort
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.errors import AssetError
from engine.model import providers
from engine.model.providers import CPU, Candidate, Finding, Key
from engine.model.runtime import Runs, session
from tests.engine.model.conftest import RealParts

Floats = NDArray[np.float32]

MAC = ["CoreMLExecutionProvider", "AzureExecutionProvider", "CPUExecutionProvider"]

LINUX = ["AzureExecutionProvider", "CPUExecutionProvider"]

FAKE = Candidate("fake", "FakeExecutionProvider")
#: a place that `providers.named` knows
COREML, *_ = providers.candidates(MAC)
DAY_S = 86_400.0
KEY = Key("1.32.0", "abc", "Darwin 25", "arm64, 8 cores", ("coreml-all",))


def noise(seconds: float = 0.5, seed: int = 1) -> Floats:
    samples = np.random.default_rng(seed).normal(0, 0.05, round(24_000 * seconds))
    return samples.astype(np.float32)


FINDINGS = st.builds(
    Finding,
    candidate=st.sampled_from("abcde"),
    part=st.sampled_from(providers.PARTS),
    ratio=st.none() | st.floats(0.01, 10),
    lsd_db=st.none() | st.floats(0, 5),
    fault=st.sampled_from(["", "it is silent"]),
)


@dataclass
class Broken:
    """Sessions of the processor; other places fail after so many calls, or are silent.

    Attributes:
        works: calls that work.
        silent: whether what they give is nothing but zeros.
        at_load: whether they cannot even be loaded.
        calls: by place, what was run.
    """

    works: int = 10**6
    silent: bool = False
    at_load: bool = False
    calls: list[tuple[str, bool]] = field(default_factory=list)

    def __call__(self, graph: Path, threads: int, place: Candidate) -> Runs:
        if place != CPU and self.at_load:
            raise AssetError("no such device")
        return cast(Runs, _Broken(self, session(graph, threads), place))


@dataclass
class _Broken:
    machine: Broken
    own: Runs
    place: Candidate

    def get_inputs(self) -> Sequence[Any]:
        return self.own.get_inputs()

    def run(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[np.generic]], run: ort.RunOptions
    ) -> list[Any]:
        if self.place == CPU:
            self.machine.calls.append(("cpu", True))
            return self.own.run(names, feeds, run)
        self.machine.works -= 1
        works = self.machine.works >= 0
        self.machine.calls.append((self.place.name, works))
        if not works:
            raise RuntimeError("the device was lost")
        made = self.own.run(names, feeds, run)
        return [np.zeros_like(one) for one in made] if self.machine.silent else made


PHONEMES = "jˈɛs, ɪt ɪz."


def stages(parts: RealParts) -> tuple[Path, Path]:
    return parts.build.part("stage_one"), parts.build.part("stage_two")
