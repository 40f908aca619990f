"""Fixtures for all tests. Hypothesis is seeded, so that a red test is red again."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
from hypothesis import settings as hypothesis_settings

from engine import config, service
from engine.config import Settings
from engine.model import assets
from engine.model.assets import Assets

hypothesis_settings.register_profile("kokoro", derandomize=True, deadline=None, max_examples=60)
hypothesis_settings.load_profile("kokoro")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Defaults, and nothing of this machine's environment or files."""
    flags = {"data_dir": tmp_path / "data"}
    return config.load(flags, environ={}, file=tmp_path / "none.toml").settings


@pytest.fixture(scope="session")
def real_settings() -> Settings:
    """What this machine's user gets: the real cache, and whatever the environment says."""
    return config.load().settings


@pytest.fixture(scope="session")
def real_assets(real_settings: Settings) -> Assets:
    """The real model and voices, fetched if they are missing."""
    return assets.ensure(folder=real_settings.model_dir, cache=real_settings.cache_dir)


@pytest.fixture(scope="session")
def real_service(real_settings: Settings, real_assets: Assets) -> service.KokoroService:
    """The real engine, loaded once: model, voices and G2P. It keeps no audio: no test is to hear
    what another one said."""
    return trio.run(partial(service.load, real_settings.model_copy(update={"cache_mb": 0})))
