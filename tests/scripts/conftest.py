"""Checkouts for the tests of this folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .fakes import NODE_FOLDERS, PYTHON, ROOT, TOOLS, Checkout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    root, fakes = tmp_path / "check out", tmp_path / "fakes"
    shutil.copytree(ROOT / "scripts", root / "scripts")
    shutil.copy(ROOT / "Makefile", root)
    for folder in NODE_FOLDERS:
        (root / folder).mkdir(parents=True)
        shutil.copy(ROOT / folder / "package-lock.json", root / folder)
    (root / "requirements").mkdir()
    for kind in ("run", "dev", "ja", "zh"):
        (root / "requirements" / f"{kind}.lock").write_text(f"{kind}==1\n")
    (fakes / "bin").mkdir(parents=True)
    for tool in TOOLS:
        real = shutil.which(tool)
        assert real is not None, tool
        (fakes / "bin" / tool).symlink_to(real)
    made = Checkout(root, fakes)
    made.program("id", "#!/bin/sh\necho 0\n")
    made.program("uname", "#!/bin/sh\necho Linux\n")
    return made


@pytest.fixture
def ready(checkout: Checkout) -> Checkout:
    """With an environment for development."""
    checkout.program("python3", PYTHON)
    assert checkout.environment("dev").returncode == 0
    checkout.log()
    return checkout
