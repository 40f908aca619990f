"""scripts/node.sh: OpenAI's SDK for Node, where Node is there. Nothing is installed."""

from __future__ import annotations

from .fakes import LOGGED, Checkout

NPM = LOGGED + "mkdir -p node_modules\n"


def with_node(checkout: Checkout, npm: str = NPM) -> None:
    checkout.program("node")
    checkout.program("npm", npm)


def test_it_is_installed_once(checkout: Checkout) -> None:
    with_node(checkout)
    for log in (["npm ci --ignore-scripts --no-audit --no-fund"], []):
        done = checkout.run("scripts/node.sh")
        assert (done.returncode, done.stderr, checkout.log()) == (0, "", log)


def test_another_version_is_installed(checkout: Checkout) -> None:
    with_node(checkout)
    checkout.run("scripts/node.sh")
    checkout.log()
    lock = checkout.root / "tests/node/package-lock.json"
    lock.write_text(lock.read_text() + "\n")
    checkout.run("scripts/node.sh")
    assert len(checkout.log()) == 1


def test_without_node_there_is_nothing_to_do(checkout: Checkout) -> None:
    done = checkout.run("scripts/node.sh")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_failure_is_told_and_is_none(checkout: Checkout) -> None:
    with_node(checkout, "#!/bin/sh\necho 'no network' >&2\nexit 1\n")
    done = checkout.run("scripts/node.sh")
    assert done.returncode == 0
    assert "no network" in done.stderr
    with_node(checkout)
    checkout.run("scripts/node.sh")  # it is tried anew
    assert len(checkout.log()) == 1
