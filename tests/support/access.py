"""The token of servers in tests."""

from __future__ import annotations

TOKEN = "a-token-for-tests-and-nothing-else"
