"""The Raycast extension as a package: it builds, its types fit, its style holds, its tests pass."""

from __future__ import annotations

import re
import subprocess

import pytest

from .raycast import FOLDER, needs_node


@needs_node
@pytest.mark.parametrize("scripts", [("build", "types"), ("lint",), ("test",)], ids=" ".join)
def test_the_checks_of_the_extension_pass(scripts: tuple[str, ...]) -> None:
    for script in scripts:  # types are those that the build has written down
        done = subprocess.run(
            ["npm", "run", "-s", script],
            cwd=FOLDER,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_lock_names_no_registry() -> None:
    lock = (FOLDER / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert not re.search(r"registry\.|\.tgz", lock)
