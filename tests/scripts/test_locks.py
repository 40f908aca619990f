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


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[^A-Za-z0-9-]", line)[0].lower() for line in requirements}


def test_locks_hold_every_dependency_and_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run, dev = pins("run"), pins("dev")
    assert names(project["dependencies"]) <= run.keys()
    for extra, named in project["optional-dependencies"].items():
        assert names(named) <= pins(extra).keys()
        assert {name: dev.get(name) for name in pins(extra)} == pins(extra)
    assert {name: dev.get(name) for name in run} == run


def test_languages_have_locks_of_what_they_add() -> None:
    for extra in ("ja", "zh"):
        assert not pins(extra).keys() & pins("run").keys()


def test_locks_hold_nothing_huge_and_no_address() -> None:
    for kind in ("run", "dev", "ja", "zh"):
        assert not {
            name for name in pins(kind) if re.match(r"torch|nvidia|triton|tensorflow", name)
        }
        assert "://" not in (ROOT / "requirements" / f"{kind}.lock").read_text()
