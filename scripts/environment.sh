#!/bin/sh
# Makes .venv in the root of the checkout, or repairs it, or finds that nothing is to be done.
#
#   scripts/environment.sh run    what `make up` and `make say` need
#   scripts/environment.sh dev    that, and what tests and lint need
#
# EXTRAS=ja,zh adds what Japanese and Mandarin need to the first; the second has it.
#
# .venv/installed says what is in there: kind, checksum of the locks, place. It is written last, so
# an environment without it is one whose installation was cut short.
set -eu

cd "$(dirname "$0")/.."
root=$(pwd -P)
kind=${1:-run}
venv=.venv
python=$venv/bin/python
stamp=$venv/installed

say() { printf '%s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

case $kind in run | dev) ;; *) die "Usage: scripts/environment.sh run|dev" ;; esac

# A Python that can be run and is 3.11 or 3.12. A pyenv shim may be there and fail.
fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' >/dev/null 2>&1
}

# The locks of a kind such as run+ja+zh, one a line.
locks() { printf 'requirements/%s.lock\n' $(printf '%s' "$1" | tr '+' ' '); }

checksum() { cat $(locks "$1") | cksum | tr ' ' '-'; }

# What the stamp must say for an environment of this kind. The place is part of it because
# programs in .venv/bin name it: a copied checkout needs an environment of its own.
expected() { printf '%s %s %s\n' "$1" "$(checksum "$1")" "$root"; }

installed() { cat "$stamp" 2>/dev/null || true; }

now=$(installed)
# Nothing is ever taken away again: neither the tools of development nor a language.
had=${now%% *}
wanted=+$(printf '%s' "${EXTRAS:-}" | tr ',' '+')+
if [ "$had" = dev ]; then
    kind=dev
fi
for extra in ja zh; do
    case $wanted+$had+ in
    *"+$extra+"*) [ "$kind" = dev ] || kind=$kind+$extra ;;
    esac
done
case $(printf '%s' "$wanted" | tr '+' '\n' | grep -vxE 'ja|zh|' || true) in
"") ;;
*) die "EXTRAS names languages to install: ja, zh, or both as ja,zh." ;;
esac
if fits "$python" && [ "$now" = "$(expected "$kind")" ]; then
    exit 0
fi

# ------------------------------------------------------------------ the interpreter

# The right package is the one of the version: python3-venv is that of the default version only.
install_venv_module() {
    version=$("$1" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
    command -v apt-get >/dev/null 2>&1 ||
        die "$1 has no venv module: install it with your system's package manager."
    if [ "$(id -u)" != 0 ]; then
        die "$1 has no venv module; install it with: sudo apt-get install $version-venv"
    fi
    say "Installing $version-venv ..."
    PATH=$PATH:/usr/sbin:/sbin # dpkg insists on them, and they are not in everybody's PATH
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends "$version-venv"; } \
        >"$log" 2>&1 ||
        die "apt-get could not install $version-venv: $(tail -n 1 "$log")"
    "$1" -c 'import ensurepip, venv' 2>/dev/null ||
        die "$1 has no venv module even with $version-venv installed: use another Python."
}

with_venv=
without_venv=
find_python() {
    for name in python3.12 python3.11 python3 python; do
        fits "$name" || continue
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            with_venv=$name
            return
        fi
        without_venv=${without_venv:-$name}
    done
}

make_venv() {
    rm -rf "$venv"
    if command -v uv >/dev/null 2>&1 &&
        uv venv -q --seed --python '>=3.11,<3.13' "$venv" >"$log" 2>&1; then
        return
    fi
    # uv may find no interpreter and no network to fetch one; a plain Python still will do.
    rm -rf "$venv"
    find_python
    if [ -z "$with_venv" ] && [ -n "$without_venv" ]; then
        install_venv_module "$without_venv"
        with_venv=$without_venv
    fi
    [ -n "$with_venv" ] || die "Python 3.11 or 3.12 is needed; install it with:" \
        "brew install python@3.12 (macOS), apt-get install python3 python3-venv (Debian 12," \
        "Ubuntu 24.04), dnf install python3.12 (Fedora), or install uv."
    "$with_venv" -m venv "$venv" >"$log" 2>&1 ||
        die "$with_venv could not make $venv: $(tail -n 1 "$log")"
}

# ------------------------------------------------------------------ the packages

install_packages() {
    set --
    for lock in $(locks "$kind"); do
        set -- "$@" -r "$lock"
    done
    # Not `uv pip sync`: that would remove pip, which fetches the model.
    if command -v uv >/dev/null 2>&1 &&
        uv pip install -q --python "$python" --require-hashes "$@" >"$log" 2>&1; then
        return
    fi
    # pip has settings of its own, for a mirror or a certificate, that uv does not read.
    "$python" -m pip install -q --disable-pip-version-check --no-input \
        --require-hashes "$@" >"$log" 2>&1
}

explain_failure() {
    if grep -qiE 'certificate.verify|UnknownIssuer|SSLCertVerificationError' "$log"; then
        die "The Python packages cannot be fetched: the package index shows a certificate that is" \
            "not trusted; name your certificate file in PIP_CERT and SSL_CERT_FILE."
    fi
    if grep -qiE 'name resolution|name or service|nodename nor servname|connection refused|network is unreachable|NewConnectionError|dns error|failed to fetch|error sending request|timed out|max retries' "$log"; then
        die "The Python packages cannot be fetched: the package index cannot be reached." \
            "Check the network, or pip's settings for it, and run make again."
    fi
    if grep -qiE 'no space left|errno 28' "$log"; then
        die "The disk is full: the Python packages need 1.2 GB in $root/$venv."
    fi
    tail -n 15 "$log" >&2
    die "The Python packages could not be installed; the lines above say why."
}

log=$(mktemp "${TMPDIR:-/tmp}/kokoro-live.XXXXXX")
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case $now in
"") usable=no ;;              # nothing there, or cut short
*" $root") usable=yes ;;      # another lock: bring it up to date
*) usable=no ;;               # made in another place
esac
if [ $usable = no ] || ! fits "$python" || ! "$python" -m pip --version >/dev/null 2>&1; then
    make_venv
fi
rm -f "$stamp"

say "Installing the Python packages into $venv (about 800 MB; a minute or more the first time) ..."
install_packages || explain_failure

# Nothing here needs torch, and it would bring several GB; a dependency must not smuggle it in.
"$python" -c 'import sys, importlib.util as u; sys.exit(u.find_spec("torch") is not None)' ||
    die "The environment contains torch, which kokoro-live must not depend on: remove it from" \
        "the dependencies, then run make clean and make again."

expected "$kind" >"$stamp.new"
mv "$stamp.new" "$stamp"
