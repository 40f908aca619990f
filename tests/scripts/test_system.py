"""scripts/system.sh: what only the operating system can bring. Nothing is installed."""

from __future__ import annotations

import pytest

from .fakes import FOR_TESTS, Checkout, debian


@pytest.mark.parametrize(("kind", "have"), [("run", "libportaudio2"), ("test", FOR_TESTS)])
def test_no_apt_call_when_all_is_there(checkout: Checkout, kind: str, have: str) -> None:
    debian(checkout)
    done = checkout.run("scripts/system.sh", kind, INSTALLED=have)
    assert (done.returncode, done.stderr, checkout.log()) == (0, "", [])


def test_root_installs_what_is_missing(checkout: Checkout) -> None:
    debian(checkout)
    done = checkout.run("scripts/system.sh", "test", INSTALLED="libportaudio2 pulseaudio chromium")
    assert done.returncode == 0
    update, install = checkout.log()
    assert update == "apt-get update -qq"
    assert install == (
        "apt-get install -y --no-install-recommends pulseaudio-utils libasound2-plugins systemd "
        "nodejs npm -qq"
    )


def test_texts_for_benchmarks_are_a_kind_of_their_own(checkout: Checkout) -> None:
    debian(checkout)
    done = checkout.run("scripts/system.sh", "bench", INSTALLED="fortunes fortunes-es")
    assert done.returncode == 0
    assert checkout.log()[1] == (
        "apt-get install -y --no-install-recommends fortunes-it fortunes-br -qq"
    )


def test_node_from_elsewhere_is_left_alone(checkout: Checkout) -> None:
    debian(checkout)
    checkout.program("npm")
    have = FOR_TESTS.removesuffix(" nodejs npm")
    done = checkout.run("scripts/system.sh", "test", INSTALLED=have)
    assert (done.returncode, done.stderr, checkout.log()) == (0, "", [])


def test_removed_package_counts_as_missing(checkout: Checkout) -> None:
    debian(checkout)
    checkout.run("scripts/system.sh", "run", INSTALLED="", REMOVED="libportaudio2")
    assert "libportaudio2" in checkout.log()[1]


def test_others_are_told_the_one_command(checkout: Checkout) -> None:
    debian(checkout, user=1000)
    done = checkout.run("scripts/system.sh", "run", INSTALLED="")
    assert (done.returncode, checkout.log()) == (0, [])
    (line,) = done.stderr.splitlines()
    assert line.endswith("sudo apt-get install -y --no-install-recommends libportaudio2")


def test_failing_apt_is_told_and_no_failure(checkout: Checkout) -> None:
    debian(checkout, apt="#!/bin/sh\necho 'E: no network' >&2\nexit 100\n")
    done = checkout.run("scripts/system.sh", "run", INSTALLED="")
    assert done.returncode == 0
    assert "E: no network" in done.stderr
    assert "apt-get install" in done.stderr


@pytest.mark.parametrize(
    ("output", "words"), [("libportaudio.so.2 (libc6) => /lib", ""), ("", "dnf install portaudio")]
)
def test_other_linux(checkout: Checkout, output: str, words: str) -> None:
    checkout.program("ldconfig", f"#!/bin/sh\necho '{output}'\n")
    checkout.program("dnf")
    done = checkout.run("scripts/system.sh", "run")
    assert done.returncode == 0
    assert words in done.stderr
    assert bool(done.stderr) == bool(words)
    assert checkout.log() == []


def test_macos_needs_nothing(checkout: Checkout) -> None:
    debian(checkout)
    checkout.program("uname", "#!/bin/sh\necho Darwin\n")
    done = checkout.run("scripts/system.sh", "test", INSTALLED="")
    assert (done.returncode, done.stderr, checkout.log()) == (0, "", [])
