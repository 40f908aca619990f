"""scripts/environment.sh: which Python, and what is repaired. Nothing is installed."""

from __future__ import annotations

import shutil

import pytest

from .fakes import LOGGED, PYTHON, Checkout


def test_the_first_python_that_fits_and_can_make_environments_is_taken(checkout: Checkout) -> None:
    for name in ("python3.12", "python3.11", "python3"):
        checkout.program(name, PYTHON)
    checkout.setting("fits=127", "python3.12")  # a pyenv shim without its version
    checkout.setting("has_venv=1", "python3.11")
    done = checkout.environment()
    assert done.returncode == 0, done.stderr
    made, installed = checkout.log()
    assert made == "python3 -m venv .venv"
    assert installed.startswith("venv-python -m pip install")
    assert installed.endswith("--require-hashes -r requirements/run.lock")


def test_no_python_is_one_sentence(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    checkout.setting("fits=1")
    done = checkout.environment()
    assert done.returncode == 1
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("Python 3.11 or 3.12 is needed")
    assert all(system in sentence for system in ("macOS", "Debian", "Fedora"))
    assert not (checkout.root / ".venv").exists()


@pytest.mark.parametrize("user", [0, 1000])
def test_missing_venv_module(checkout: Checkout, user: int) -> None:
    checkout.program("python3", PYTHON)
    checkout.setting("has_venv=1")
    checkout.program("id", f"#!/bin/sh\necho {user}\n")
    checkout.program("apt-get", LOGGED + 'case "$*" in *-venv) : >"$FAKES/venv-installed" ;; esac')
    done = checkout.environment()
    log = checkout.log()
    if user == 0:
        assert done.returncode == 0, done.stderr
        assert log[0] == "apt-get update -qq"
        assert log[1].endswith(" python3.11-venv")
        assert log[2] == "python3 -m venv .venv"
    else:
        assert done.returncode == 1
        assert log == []
        assert "sudo apt-get install python3.11-venv" in done.stderr


UV = """#!/bin/sh
echo "uv $*" >>"$FAKES/log"
case "$*" in
venv*) [ ! -e "$FAKES/no-python" ] || { echo 'no interpreter' >&2; exit 2; }
    mkdir -p .venv/bin && cp "$FAKES/bin/python9" .venv/bin/python ;;
pip*) [ ! -e "$FAKES/no-index" ] || { echo 'dns error' >&2; exit 1; } ;;
esac
"""


def test_uv_is_preferred(checkout: Checkout) -> None:
    checkout.program("python9", PYTHON)
    checkout.program("python3", PYTHON)
    checkout.program("uv", UV)
    done = checkout.environment("dev")
    assert done.returncode == 0, done.stderr
    made, installed = checkout.log()
    assert made == "uv venv -q --seed --python >=3.11,<3.13 .venv"
    assert installed.endswith("--require-hashes -r requirements/dev.lock")


def test_uv_without_an_interpreter_leaves_it_to_a_plain_python(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    checkout.program("uv", UV)
    (checkout.fakes / "no-python").touch()
    done = checkout.environment()
    assert done.returncode == 0, done.stderr
    assert "python3 -m venv .venv" in checkout.log()


def test_uv_without_the_index_leaves_it_to_pip_and_its_settings(checkout: Checkout) -> None:
    checkout.program("python9", PYTHON)
    checkout.program("uv", UV)
    (checkout.fakes / "no-index").touch()
    done = checkout.environment()
    assert done.returncode == 0, done.stderr
    assert checkout.log()[-1].startswith("venv-python -m pip install")


def test_second_call_does_nothing(ready: Checkout) -> None:
    done = ready.environment("dev")
    assert (done.returncode, done.stdout, done.stderr, ready.log()) == (0, "", "", [])


def test_development_serves_for_running_and_is_never_taken_away(ready: Checkout) -> None:
    assert ready.environment("run").returncode == 0
    assert ready.log() == []
    (ready.root / "requirements" / "dev.lock").write_text("dev==2\n")
    assert ready.environment("run").returncode == 0
    (installed,) = ready.log()
    assert installed.endswith("requirements/dev.lock")


def test_running_is_not_enough_for_development(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    checkout.environment("run")
    checkout.log()
    assert checkout.environment("dev").returncode == 0
    (installed,) = checkout.log()
    assert installed.endswith("requirements/dev.lock")


def test_interrupted_installation_starts_again_from_nothing(ready: Checkout) -> None:
    (ready.root / ".venv" / "installed").unlink()
    (ready.root / ".venv" / "half").touch()
    assert ready.environment("dev").returncode == 0
    assert ready.log()[0] == "python3 -m venv .venv"
    assert not (ready.root / ".venv" / "half").exists()


def test_vanished_interpreter(ready: Checkout) -> None:
    python = ready.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(ready.root / "gone")
    assert ready.environment("dev").returncode == 0
    assert ready.log()[0] == "python3 -m venv .venv"


def test_copied_checkout_gets_an_environment_of_its_own(ready: Checkout) -> None:
    copy = ready.root.with_name("copy")
    shutil.copytree(ready.root, copy)
    assert Checkout(copy, ready.fakes).environment("dev").returncode == 0
    assert ready.log()[0] == "python3 -m venv .venv"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("pip='NewConnectionError: [Errno -3] name resolution'", "package index cannot be reached"),
        ("pip='[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'", "SSL_CERT_FILE"),
        ("pip='OSError: [Errno 28] No space left on device'", "The disk is full"),
        ("pip='hashes do not match'", "hashes do not match"),
        ("torch=1", "The environment contains torch"),
    ],
)
def test_failed_installation_is_told_and_not_taken_for_done(
    checkout: Checkout, setting: str, words: str
) -> None:
    checkout.program("python3", PYTHON)
    checkout.setting(setting, "venv-python")
    done = checkout.environment()
    assert done.returncode == 1
    assert words in done.stderr
    assert not (checkout.root / ".venv" / "installed").exists()
    checkout.setting("", "venv-python")
    assert checkout.environment().returncode == 0


def test_failed_update_is_not_undone_by_the_old_lock(ready: Checkout) -> None:
    ready.setting("pip='broken halfway'", "venv-python")
    lock = ready.root / "requirements" / "dev.lock"
    lock.write_text("dev==2\n")
    assert ready.environment("dev").returncode == 1
    lock.write_text("dev==1\n")
    ready.setting("", "venv-python")
    ready.log()
    assert ready.environment("dev").returncode == 0
    assert ready.log()[0] == "python3 -m venv .venv"


def locks(log: list[str]) -> str:
    return log[-1].partition("--require-hashes ")[2].replace("requirements/", "")


def test_languages_are_added_once_and_stay(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    assert checkout.environment(EXTRAS="zh").returncode == 0
    assert locks(checkout.log()) == "-r run.lock -r zh.lock"
    assert checkout.environment().returncode == 0
    assert checkout.environment(EXTRAS="zh").returncode == 0
    assert checkout.log() == []
    assert checkout.environment(EXTRAS="ja").returncode == 0
    assert locks(checkout.log()) == "-r run.lock -r ja.lock -r zh.lock"
    (checkout.root / "requirements" / "ja.lock").write_text("ja==2\n")
    assert checkout.environment().returncode == 0
    assert locks(checkout.log()) == "-r run.lock -r ja.lock -r zh.lock"


@pytest.mark.parametrize("extras", ["ja,zh", "zh,ja", "ja"])
def test_development_has_all_languages(ready: Checkout, extras: str) -> None:
    assert ready.environment(EXTRAS=extras).returncode == 0
    assert ready.log() == []


@pytest.mark.parametrize("extras", ["ko", "ja zh", "zh,fr", "ja.lock"])
def test_languages_that_nobody_needs_or_has(checkout: Checkout, extras: str) -> None:
    checkout.program("python3", PYTHON)
    done = checkout.environment(EXTRAS=extras)
    assert done.returncode == 1
    assert "ja, zh, or both as ja,zh" in done.stderr
    assert checkout.log() == []


def test_make_hands_them_over(checkout: Checkout) -> None:
    checkout.program("python3", PYTHON)
    assert checkout.run("make", "setup", "EXTRAS=ja,zh").returncode == 0
    assert locks(checkout.log()[:-1]) == "-r run.lock -r ja.lock -r zh.lock"


def test_wrong_word(checkout: Checkout) -> None:
    done = checkout.environment("prod")
    assert done.returncode == 1
    assert "run|dev" in done.stderr
