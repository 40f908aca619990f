"""Fixtures for all tests. Hypothesis is seeded, so that a red test is red again.

`make test` has a process for every core (pytest-xdist), each of which takes file after file. A test
that depends on a device's clock or on how fast the machine is has the machine to itself: it takes
the fixture of the device or the browser, or is marked `alone`.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
from hypothesis import settings as hypothesis_settings

from engine import config, service
from engine.config import Settings
from engine.model import assets
from engine.model.assets import Assets

hypothesis_settings.register_profile("kokoro", derandomize=True, deadline=None, max_examples=60)
hypothesis_settings.load_profile("kokoro")

#: what is only for one test at a time, and for no other test beside it
_FOR_ONE = {"rig", "silent_rig", "devtools"}


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def _is_alone(item: pytest.Item) -> bool:
    return not _FOR_ONE.isdisjoint(_fixtures(item)) or item.get_closest_marker("alone") is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that use the real engine take longest, so they come first; those with tests that
    nothing may run beside come last: then there is little left to wait for."""
    alone = {item.path for item in items if _is_alone(item)}
    engine = {item.path for item in items if "real_service" in _fixtures(item)}
    items.sort(key=lambda item: (item.path in alone, item.path not in engine))


#: by a lock on this file the processes of a run agree on who is alone
_TURNS = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    file = tempfile.NamedTemporaryFile(prefix="kokoro-live-turns-")  # noqa: SIM115 - for the run
    config.add_cleanup(file.close)
    told: dict[str, str] = getattr(config, "workerinput", {})
    config.stash[_TURNS] = told.get("turns", file.name)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process of the run before it starts."""
    node.workerinput["turns"] = node.config.stash[_TURNS]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test shares the machine with others, or waits until it has it to itself."""
    with Path(item.config.stash[_TURNS]).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH)
        return (yield)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """Whatever a test set up for its logs, the next one in this process sees all of its own."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Defaults, and nothing of this machine's environment or files."""
    flags = {"data_dir": tmp_path / "data"}
    return config.load(flags, environ={}, file=tmp_path / "none.toml").settings


@pytest.fixture(scope="session")
def real_settings() -> Settings:
    """What this machine's user gets: the real cache, and whatever the environment says.

    A process for every core has one of them.
    """
    flags = {"threads": 1} if "PYTEST_XDIST_WORKER" in os.environ else {}
    return config.load(flags).settings


@pytest.fixture(scope="session")
def real_assets(real_settings: Settings) -> Assets:
    """The real model and voices, fetched if they are missing."""
    return assets.ensure(folder=real_settings.model_dir, cache=real_settings.cache_dir)


@pytest.fixture(scope="session")
def real_service(real_settings: Settings, real_assets: Assets) -> service.KokoroService:
    """The real engine, loaded once: model, voices and G2P. It keeps no audio: no test is to hear
    what another one said."""
    return trio.run(partial(service.load, real_settings.model_copy(update={"cache_mb": 0})))
