"""Fixtures for all tests. Hypothesis is seeded, so that a red test is red again.

`make test` has a process for every core (pytest-xdist), each of which takes file after file. Tests
that depend on a device's clock run beside others of their kind only, each with a device of its own:
they sleep most of the time. One that depends on how fast the machine is has the machine to itself,
and is marked `alone`; that is dear, as all the others wait.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import IntEnum
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

#: a sound device, whose clock goes on while nobody has the processor
_DEVICES = {"rig", "silent_rig"}


class Manner(IntEnum):
    """What may run beside a test, in the order in which files come."""

    #: it takes all of a core, and so may each of the others
    BUSY = 0
    #: it sleeps most of the time, and wants the processor at once when it does not
    IN_TIME = 1
    #: nothing runs beside it
    ALONE = 2


_MANNER = pytest.StashKey[Manner]()


def _manner(item: pytest.Item) -> Manner:
    """How a test is to run, for itself."""
    if item.get_closest_marker("alone") is not None:
        return Manner.ALONE
    return Manner.BUSY if _DEVICES.isdisjoint(_fixtures(item)) else Manner.IN_TIME


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that use the real engine take longest, so they come first; those with tests that
    others must not run beside come last: then there is little left to wait for."""
    manners: dict[Path, set[Manner]] = defaultdict(set)
    for item in items:
        manners[item.path].add(_manner(item))
    for item in items:
        # What is in a file with tests of a device takes little, and need not wait for its turn.
        item.stash[_MANNER] = max(
            _manner(item), *(manners[item.path] & {Manner.IN_TIME}), Manner.BUSY
        )
    engine = {item.path for item in items if "real_service" in _fixtures(item)}
    items.sort(key=lambda item: (max(manners[item.path]), item.path not in engine))


#: by locks in this folder the processes of a run agree on who runs
_TURNS = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    told: dict[str, str] = getattr(config, "workerinput", {})
    if "turns" in told:
        config.stash[_TURNS] = Path(told["turns"])
    else:
        folder = tempfile.TemporaryDirectory(prefix="kokoro-live-turns-")
        config.add_cleanup(folder.cleanup)
        config.stash[_TURNS] = Path(folder.name)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process of the run before it starts."""
    node.workerinput["turns"] = str(node.config.stash[_TURNS])


@contextmanager
def turn(folder: Path, manner: Manner) -> Iterator[None]:
    """Waits until a test may run, and keeps those away that must not run beside it.

    All take the first lock before the second. Who is busy need not wait for those who wait.
    """
    with (folder / "busy").open("w") as busy, (folder / "in-time").open("w") as in_time:
        match manner:
            case Manner.BUSY:
                fcntl.flock(busy, fcntl.LOCK_SH)
                fcntl.flock(in_time, fcntl.LOCK_EX)  # there is nobody
                fcntl.flock(in_time, fcntl.LOCK_UN)
            case Manner.IN_TIME:
                fcntl.flock(busy, fcntl.LOCK_EX)  # there is nobody
                fcntl.flock(in_time, fcntl.LOCK_SH)
                fcntl.flock(busy, fcntl.LOCK_UN)
            case Manner.ALONE:
                fcntl.flock(busy, fcntl.LOCK_EX)
                fcntl.flock(in_time, fcntl.LOCK_EX)
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A test shares the machine with others of its kind, or has it to itself."""
    with turn(item.config.stash[_TURNS], item.stash[_MANNER]):
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
