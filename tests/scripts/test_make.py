"""The Makefile, the script behind `make say`, and .ci/run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from .fakes import FOR_TESTS, LOGGED, PYTHON, ROOT, Checkout, debian


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "costs $5, $HOME, $(shell touch pwned), ${PATH} and $$",
        "`touch pwned` $(touch pwned); touch pwned",
        "a \"double\" and a 'single' quote",
        "a back\\slash, a trailing one \\",
        "two\nlines",
        "-o leading dash",
        "# no comment",
        "été — 日本",
    ],
)
def test_text_reaches_the_engine_as_it_is(ready: Checkout, text: str) -> None:
    done = ready.run("make", "say", f"TEXT={text}", "OUT=a b.wav", "VOICE=af_sky")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"<-o><a b.wav><--voice><af_sky><--><{text}>"
    assert not (ready.root / "pwned").exists()


def test_say_without_text_reads_standard_input(ready: Checkout) -> None:
    done = ready.run("make", "say", "OUT=x.wav", stdin="piped $text")
    assert done.stdout == "<-o><x.wav>stdin piped $text"


def test_say_with_an_empty_text_does_not_wait_for_input(ready: Checkout) -> None:
    assert ready.run("make", "say", "TEXT=", stdin="not this").stdout == "<--><>"


def test_help_is_the_default_and_names_every_target(checkout: Checkout) -> None:
    done = checkout.run("make")
    assert done.returncode == 0
    named = re.findall(r"^  make (\w+)", done.stdout, re.MULTILINE)
    expected = [
        "help",
        "up",
        "test",
        "soak",
        "say",
        "setup",
        "lint",
        "raycast",
        "pictures",
        "bench",
        "lock",
        "clean",
    ]
    assert named == expected


def test_arguments_reach_pytest_and_settings_the_programs(ready: Checkout) -> None:
    debian(ready)
    done = ready.run("make", "test", "ARGS=-k 'a or b' -x", INSTALLED=FOR_TESTS)
    assert done.returncode == 0, done.stderr
    command = ready.log()[-1]
    assert command.startswith("venv-python -m pytest ")
    assert command.endswith(" -k a or b -x")


@pytest.mark.parametrize("wanted", [False, True])
def test_up_starts_what_the_settings_want(ready: Checkout, wanted: bool) -> None:
    debian(ready)
    if wanted:
        python = ready.root / ".venv" / "bin" / "python"
        python.write_text(PYTHON + 'case "$*" in *--wanted) echo wyoming ;; esac\n')
    done = ready.run("make", "up", INSTALLED=FOR_TESTS)
    assert done.returncode == 0, done.stderr
    names = ["engine", "player", "http", *(["wyoming"] if wanted else [])]
    assert ready.log()[-1] == f"venv-python -m honcho start {' '.join(names)}"


def test_up_stops_at_an_impossible_setting(ready: Checkout) -> None:
    debian(ready)
    python = ready.root / ".venv" / "bin" / "python"
    python.write_text(PYTHON + 'case "$*" in *--wanted) exit 1 ;; esac\n')
    assert ready.run("make", "up", INSTALLED=FOR_TESTS).returncode != 0
    assert not [line for line in ready.log() if "honcho" in line]


def test_lint_stops_at_the_first_fault(ready: Checkout) -> None:
    python = ready.root / ".venv" / "bin" / "python"
    python.write_text(PYTHON + 'case "$*" in *"format --check"*) exit 1 ;; esac\n')
    assert ready.run("make", "lint").returncode != 0
    assert ready.log() == [
        "venv-python -m ruff check",
        "venv-python -m ruff format --check",
    ]


def test_raycast_installs_and_checks(checkout: Checkout) -> None:
    debian(checkout)
    missing = checkout.run("make", "raycast", INSTALLED=FOR_TESTS)
    assert missing.returncode != 0
    assert "needs Node with npm" in missing.stderr
    checkout.program("node")
    checkout.program("npm", LOGGED + "mkdir -p node_modules\n")
    assert checkout.run("make", "raycast", INSTALLED=FOR_TESTS).returncode == 0
    assert [line.split()[1] for line in checkout.log()] == ["ci", "ci", "run"]


def test_clean_keeps_the_sources(ready: Checkout) -> None:
    (ready.root / "engine" / "__pycache__").mkdir(parents=True)
    (ready.root / ".git" / "__pycache__").mkdir(parents=True)
    real = shutil.which("find")
    assert real is not None
    (ready.fakes / "bin" / "find").symlink_to(real)
    assert ready.run("make", "clean").returncode == 0
    assert sorted(os.listdir(ready.root)) == [
        *(".git", "Makefile", "clients", "engine", "requirements", "scripts", "tests")
    ]
    assert not (ready.root / "engine" / "__pycache__").exists()
    assert (ready.root / ".git" / "__pycache__").exists()


@pytest.mark.parametrize(("fails", "code"), [("", 0), ("lint", 1), ("test", 1)])
def test_ci_runs_both_parts_and_fails_if_either_does(
    checkout: Checkout, fails: str, code: int
) -> None:
    (checkout.root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout.root / ".ci")
    checkout.program("make", LOGGED + f'[ "$1" != "{fails}" ]\n')
    assert checkout.run("bash", ".ci/run").returncode == code
    assert checkout.log() == ["make lint", "make test"]


@pytest.mark.parametrize("script", sorted((ROOT / "scripts").glob("*.sh")), ids=lambda p: p.name)
def test_scripts_are_executable_and_parse(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", str(script)], check=True)
