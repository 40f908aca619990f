"""A prepared model that cannot be loaded is prepared anew, once; what is used is what is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from engine import service
from engine.config import Settings
from engine.errors import AssetError
from engine.model import assets, build, placement
from engine.model.assets import Assets
from engine.model.build import Build
from engine.model.hybrid import Form
from engine.model.marker import InUse
from engine.model.placement import Settled
from engine.model.providers import CPU
from engine.service import KokoroService
from engine.voices import Voices
from tests.engine.machine import Machine, synthesis

FOUND = Assets(Path("model"), "model", "int8", "sha", Path("voices"))


class Part:
    """An acoustic part or a vocoder."""

    provider = "CPU"
    fault = ""


BUILT = Build("key", Path("cache"))


def loads(
    monkeypatch: pytest.MonkeyPatch, settle: Callable[..., Settled], *, works: int = 0
) -> list[bool]:
    """A model that is where `settle` says and can be loaded after so many builds, which it gives."""
    forced: list[bool] = []

    def acoustic(*_: object) -> Part:
        if len(forced) < works:
            raise AssetError("The graph cannot be loaded.")
        return Part()

    def ensure(*_: object, force: bool, anywhere: bool, integers: bool) -> Build:
        forced.append(force)
        return BUILT

    replaced: dict[Any, Any] = {
        (service, "Acoustic"): acoustic,
        (service, "Vocoder"): lambda *_: Part(),
        (service, "Predictor"): lambda: None,
        (service, "Voices"): lambda *_: None,
        (assets, "ensure"): lambda **_: FOUND,
        (build, "ensure"): ensure,
        (placement, "settle"): settle,
    }
    for (module, name), value in replaced.items():
        monkeypatch.setattr(module, name, value)
    return forced


def read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, works: int, fault: str = ""
) -> tuple[str, list[bool]]:
    """What is told of the model, and the builds; see `loads`."""
    settled = Settled(BUILT, CPU, CPU, 1, True, "why", Form(False, "So."), fault)
    forced = loads(monkeypatch, lambda *_: settled, works=works)
    loaded = service._read_model(settings, lambda *_: None, InUse(settings.cache_dir))
    return loaded.fault, forced


def test_a_model_that_can_be_loaded_is_left_as_it_is(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(settings, monkeypatch, works=0, fault="It is slow.") == ("It is slow.", [])


@pytest.mark.parametrize("fault", ["", "It is slow."])
def test_a_damaged_one_is_prepared_anew_and_that_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    told, forced = read(settings, monkeypatch, works=1, fault=fault)
    assert told.startswith(fault)
    assert told.endswith("The prepared model was damaged and has been prepared anew.")
    assert forced == [True]


def test_one_that_cannot_be_prepared_is_not_tried_for_ever(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssetError):
        read(settings, monkeypatch, works=2)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"threads": 1}, {"threads": 1}),
        ({"spinning": False}, {"spinning": False}),
        ({"form": Form(True, "So.")}, {"precision": "hybrid"}),
        ({"build": Build("another", Path("cache"))}, {"build": "another"}),
    ],
)
async def test_a_benchmark_is_of_what_is_used_and_not_of_the_settings(
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    told: dict[str, object],
) -> None:
    """`bench providers` may decide anew, with the same settings, while the engine runs."""
    decided = Settled(BUILT, CPU, CPU, 2, True, "why", Form(False, "So."))
    loads(monkeypatch, lambda *_: decided)
    monkeypatch.setattr(service, "_warmed_up", lambda *_: None)
    measuring = settings.model_copy(update={"selfbench": "daily"})
    loaded = service._read_model(settings, lambda *_: None, InUse(settings.cache_dir))
    parts = synthesis(Machine())
    parts.renew(loaded.model, loaded.info.build)
    voices = cast(Voices, SimpleNamespace(infos=list, hash="", resolve=str, style=str))
    engine = KokoroService(parts, voices, loaded.info, loaded.settled, measuring)
    bench = engine.upkeep._bench
    assert bench is not None
    before = bench._series()
    assert (before.threads, before.spinning, before.precision) == (2, True, "float32")
    assert measuring.threads == 0
    decided = replace(decided, **change)
    await engine.reload()
    assert bench._series() == msgspec.structs.replace(before, **told)
    # and so are the status, and audio that is kept
    assert engine.model.build == parts._build == decided.build.key
