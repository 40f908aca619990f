"""Folders for the tests of this folder, and the real model in parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
import pytest

from engine.config import Settings
from engine.model import build
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.assets import Assets
from engine.model.vocoder import Vocoder
from engine.voices import Voices


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "mine"
    path.mkdir()
    return path


@dataclass
class RealParts:
    """The real model, loaded when something of it is first used."""

    assets: Assets
    build: build.Build

    @cached_property
    def published(self) -> onnx.ModelProto:
        return onnx.load(self.assets.model)

    @cached_property
    def acoustic(self) -> Acoustic:
        return Acoustic(self.build.part("acoustic"))

    @cached_property
    def vocoder(self) -> Vocoder:
        return Vocoder(self.build.part("stage_one"), self.build.part("stage_two"))

    @cached_property
    def predictor(self) -> Predictor:
        return Predictor()

    @cached_property
    def voices(self) -> Voices:
        return Voices(self.assets.voices)

    def sound(self, phonemes: str, voice: str = "af_heart", speed: float = 1.0) -> Acoustics:
        style = self.voices.style(voice, len(phonemes))
        return self.acoustic.call(phonemes, style, speed).run()


@pytest.fixture(scope="session")
def real_parts(real_assets: Assets, real_settings: Settings) -> RealParts:
    built = build.ensure(
        real_assets.model, real_assets.sha256, real_settings.cache_dir, lambda *_: None
    )
    return RealParts(real_assets, built)
