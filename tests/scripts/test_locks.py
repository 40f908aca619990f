"""The locks of requirements/ hold what pyproject.toml names, and nothing huge."""

from __future__ import annotations

import re
import tomllib

from .fakes import ROOT


def pins(kind: str) -> dict[str, set[str]]:
    """Package name -> the pinned lines, markers included."""
    found: dict[str, set[str]] = {}
    for line in (ROOT / "requirements" / f"{kind}.lock").read_text().splitlines():
        if match := re.match(r"([a-z0-9-]+)==(.*?) \\$", line):
            found.setdefault(match[1], set()).add(match[2])
    return found


def test_locks_hold_every_dependency_and_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in project["dependencies"]}
    run, dev = pins("run"), pins("dev")
    assert named <= run.keys()
    assert {name: dev.get(name) for name in run} == run
    tools = {re.split(r"[^A-Za-z0-9-]", x)[0] for x in project["optional-dependencies"]["dev"]}
    assert tools <= dev.keys()


def test_locks_hold_nothing_huge_and_no_address() -> None:
    for kind in ("run", "dev"):
        assert not {
            name for name in pins(kind) if re.match(r"torch|nvidia|triton|tensorflow", name)
        }
        assert "://" not in (ROOT / "requirements" / f"{kind}.lock").read_text()
