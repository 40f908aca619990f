"""scripts/node.sh: packages for Node, where Node is there. Nothing is installed."""

from __future__ import annotations

from .fakes import LOGGED, NODE_FOLDERS, Checkout

#: tells where it is called, too
NPM = LOGGED + 'echo "${PWD#*/check out/}" >>"$FAKES/log"\nmkdir -p node_modules\n'
INSTALL = "npm ci --ignore-scripts --no-audit --no-fund"


def with_node(checkout: Checkout, npm: str = NPM) -> None:
    checkout.program("node")
    checkout.program("npm", npm)


def test_they_are_installed_once(checkout: Checkout) -> None:
    with_node(checkout)
    for log in ([line for folder in NODE_FOLDERS for line in (INSTALL, folder)], []):
        done = checkout.run("scripts/node.sh")
        assert (done.returncode, done.stderr, checkout.log()) == (0, "", log)


def test_other_versions_are_installed(checkout: Checkout) -> None:
    with_node(checkout)
    checkout.run("scripts/node.sh")
    checkout.log()
    lock = checkout.root / NODE_FOLDERS[1] / "package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    checkout.run("scripts/node.sh")
    assert checkout.log() == [INSTALL, NODE_FOLDERS[1]]


def test_without_node_there_is_nothing_to_do(checkout: Checkout) -> None:
    done = checkout.run("scripts/node.sh")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_is_told_and_is_none(checkout: Checkout) -> None:
    with_node(checkout, "#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    done = checkout.run("scripts/node.sh")
    assert done.returncode == 0
    told = done.stderr.splitlines()
    assert len(told) == len(NODE_FOLDERS)
    for folder, line in zip(NODE_FOLDERS, told, strict=True):
        assert folder in line
        assert "no network" in line
    with_node(checkout)
    checkout.run("scripts/node.sh")  # it is tried anew
    assert checkout.log()[1::2] == list(NODE_FOLDERS)
