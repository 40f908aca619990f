#!/bin/sh
# Installs OpenAI's SDK for Node, with which a test talks to our HTTP server. Never fails: without it
# only that test is left out.
set -u

cd "$(dirname "$0")/../tests/node" || exit 0
stamp=node_modules/installed

say() { printf '%s\n' "$*" >&2; }

command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || exit 0
# Written last: an installation that was cut short is done anew.
cmp -s package-lock.json "$stamp" && exit 0

log=$(mktemp "${TMPDIR:-/tmp}/kokoro-live.XXXXXX") || exit 0
if npm ci --ignore-scripts --no-audit --no-fund >"$log" 2>&1; then
    cp package-lock.json "$stamp"
else
    say "OpenAI's SDK for Node could not be installed ($(tail -n 1 "$log"))."
fi
rm -f "$log"
exit 0
