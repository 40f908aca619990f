"""A real Chromium for the tests of the page, started once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from .browser import CHROMIUM, Browser, Page, chromium, driving
from .stage import Tap


@pytest.fixture(scope="session")
def devtools() -> Iterator[str]:
    if CHROMIUM is None:
        pytest.skip("Chromium is missing; `make test` installs it where it can")
    with chromium() as url:
        yield url


@pytest.fixture
async def browser(devtools: str) -> AsyncIterator[Browser]:
    async with driving(devtools) as found:
        yield found


@pytest.fixture
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A tab; the test fails if its console shows an error or a warning."""
    async with browser.page() as found:
        await found.before_it_loads(Tap.SCRIPT)
        yield found
