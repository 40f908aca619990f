"""Fixtures for tests over real sockets."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from .serving import IDLE_S


@pytest.fixture
def idle_clock() -> MockClock:
    """Virtual time that lets the sockets of loopback come to rest."""
    return MockClock(autojump_threshold=IDLE_S)
