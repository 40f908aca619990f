"""A prepared model that cannot be loaded is prepared anew, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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

FOUND = Assets(Path("model"), "model", "int8", "sha", Path("voices"))


class Part:
    """An acoustic part or a vocoder."""

    provider = "CPU"
    fault = ""


def read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, *, works: int, fault: str = ""
) -> tuple[str, list[bool]]:
    """What is told of the model, and the builds; it can be loaded after so many of these."""
    built = Build("key", Path("cache"))
    forced: list[bool] = []

    def acoustic(*_: object) -> Part:
        if len(forced) < works:
            raise AssetError("The graph cannot be loaded.")
        return Part()

    def ensure(*_: object, force: bool, anywhere: bool, integers: bool) -> Build:
        forced.append(force)
        return built

    replaced: dict[Any, Any] = {
        (service, "Acoustic"): acoustic,
        (service, "Vocoder"): lambda *_: Part(),
        (service, "Predictor"): lambda: None,
        (service, "Voices"): lambda *_: None,
        (assets, "ensure"): lambda **_: FOUND,
        (build, "ensure"): ensure,
        (placement, "settle"): lambda *_: Settled(
            built, CPU, CPU, 1, True, "why", Form(False, "So."), fault
        ),
    }
    for (module, name), value in replaced.items():
        monkeypatch.setattr(module, name, value)
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
