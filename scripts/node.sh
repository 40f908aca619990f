#!/bin/sh
# Installs what the tests need for Node: OpenAI's SDK, with which one talks to our HTTP server,
# axe-core, which looks over the page, and what the Raycast extension is built and checked with. Never
# fails: without it only those tests are left out.
set -u

cd "$(dirname "$0")/.." || exit 0

say() { printf '%s\n' "$*" >&2; }

command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || exit 0
log=$(mktemp "${TMPDIR:-/tmp}/kokoro-live.XXXXXX") || exit 0
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

install() {
    cd "$1" || return
    stamp=node_modules/installed
    # Written last: an installation that was cut short is done anew.
    cmp -s package-lock.json "$stamp" && return
    if npm ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1; then
        cp package-lock.json "$stamp"
    else
        say "The Node packages of $1 could not be installed ($(tail -n 1 "$log"))."
    fi
}

for folder in tests/node clients/raycast; do
    (install "$folder")
done
exit 0
