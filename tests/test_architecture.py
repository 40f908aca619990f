"""The house's rules: who may import whom, and what core modules may not touch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "wsproto_api", "playerd", "http_compat", "bench")

#: modules of the engine that everybody may use
LEAVES = {"engine", "engine.audio", "engine.request", "engine.errors", "engine.metrics"}
LEAVES |= {"engine.access", "engine.config", "engine.live", "engine.process", "engine.samples"}
LEAVES |= {"engine.report"}

#: package -> other packages it may import anything from (besides itself and the leaves)
MAY_IMPORT: dict[str, set[str]] = {
    "engine": set(),
    "wsproto_api": set(),
    "playerd": {"wsproto_api"},
    "http_compat": {"wsproto_api"},
    "bench": {"engine", "wsproto_api", "playerd", "http_compat"},
}

#: what a core module may not import: I/O, clocks, threads, and the shells' frameworks
NOT_IN_CORE = {
    "trio", "asyncio", "socket", "threading", "time", "subprocess", "websockets", "quart",
    "quart_trio", "hypercorn", "sounddevice", "httpx", "urllib.request",
}  # fmt: skip


def modules() -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def imports(name: str, path: Path) -> set[str]:
    """Full names of what a module imports, `from a import b` as both `a` and `a.b`."""
    package = name.removesuffix(".__init__").split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            found.add(origin)
            found.update(f"{origin}.{alias.name}" for alias in node.names)
    return found


ALL = dict(modules())


def own_modules(names: set[str]) -> set[str]:
    """Those that are modules of ours; a package stands for its `__init__`."""
    known = {name.removesuffix(".__init__") for name in ALL}
    return names & known


@pytest.mark.parametrize("name", ALL)
def test_imports_keep_to_the_table(name: str) -> None:
    if name.endswith("__main__"):
        return  # only these join concrete parts
    package = name.split(".")[0]
    for imported in own_modules(imports(name, ALL[name])):
        other = imported.split(".")[0]
        allowed = other == package or other in MAY_IMPORT[package] or imported in LEAVES
        assert allowed, f"{name} may not import {imported}"


def is_core(path: Path) -> bool:
    doc = ast.get_docstring(ast.parse(path.read_text())) or ""
    return "Core." in doc.split("\n\n")[0]


CORE = [name for name, path in ALL.items() if is_core(path)]


@pytest.mark.parametrize("name", CORE)
def test_core_modules_have_no_io_clock_or_threads(name: str) -> None:
    bad = {
        i for i in imports(name, ALL[name]) if i in NOT_IN_CORE or i.split(".")[0] in NOT_IN_CORE
    }
    assert not bad, f"{name} is core but imports {bad}"


def test_the_core_is_where_it_should_be() -> None:
    expected = {
        "engine.audio", "engine.samples", "engine.request", "engine.errors", "engine.framing", "engine.metrics",
        "engine.lane", "engine.ladder", "engine.costs", "engine.memory", "engine.history", "engine.timing", "engine.report", "engine.stall", "engine.tally",
        "engine.model.adain", "engine.model.geometry", "engine.model.graph", "engine.model.rewrite", "engine.model.precision",
        "engine.model.distance", "engine.model.integers", "engine.model.providers", "engine.model.ends",
        "engine.blend",
        "wsproto_api.messages", "wsproto_api.frames", "wsproto_api.session",
        "wsproto_api.security", "wsproto_api.rate", "wsproto_api.stream",
        "playerd.playout", "playerd.ring", "playerd.items", "playerd.units",
        "playerd.pieces", "playerd.script", "playerd.delay", "playerd.forecast", "playerd.outline",
        "playerd.jitter", "playerd.ladder",
        "http_compat.schema", "http_compat.errors", "http_compat.containers",
        "http_compat.sse", "http_compat.lists", "http_compat.openapi",
        "http_compat.wyoming.events", "http_compat.wyoming.schema",
        "bench.ratios", "bench.report", "bench.summary",
    }  # fmt: skip
    # These hold foreign code that is loaded and keeps state, or read a file.
    shells = {"g2p", "frontend", "mandarin", "japanese", "lexicon_file"}
    expected |= {
        name
        for name, path in ALL.items()
        if name.startswith("engine.text.") and path.stem not in {*shells, "__init__"}
    }
    assert expected <= set(CORE)


@pytest.mark.parametrize("name", ALL)
def test_every_module_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(ast.parse(ALL[name].read_text())), f"{name} has no docstring"


#: who may know bytes on the wire: struct layouts and JSON
WIRE = {"wsproto_api.messages", "wsproto_api.frames"}

#: ... and whose JSON is a file, which no socket carries
FILES = {"wsproto_api.discovery"}


@pytest.mark.parametrize("name", [n for n in ALL if n.startswith(("wsproto_api", "playerd"))])
def test_only_two_modules_know_bytes_on_the_wire(name: str) -> None:
    used = imports(name, ALL[name])
    if name not in WIRE | FILES:
        assert not used & {"struct", "json", "msgspec.json"}, f"{name} builds bytes of its own"
        assert "msgspec.json" not in ALL[name].read_text()


def test_no_torch_in_the_environment() -> None:
    import importlib.util

    assert importlib.util.find_spec("torch") is None
    assert (3, 11) <= sys.version_info[:2] <= (3, 12)
