#!/bin/sh
# Sees to the pieces that only the operating system can bring. Never fails: without them only
# sound on this machine's own speakers, or some tests, are missing.
#
#   scripts/system.sh run     PortAudio, which the player plays through
#   scripts/system.sh test    that, PulseAudio, whose null sink is the tests' loudspeaker, systemd,
#                             which checks the units of the services (it is not started), and Node,
#                             for the OpenAI SDK that talks to the HTTP server, and Raycast; on
#                             Debian Chromium, in which the page is tried out
#   scripts/system.sh bench   on Debian the sentences of several languages that `quality` speaks
set -u

kind=${1:-run}
# ldconfig, and what dpkg calls, are in folders that are not in everybody's PATH.
PATH=$PATH:/usr/sbin:/sbin

say() { printf '%s\n' "$*" >&2; }

# The wheels for macOS bring PortAudio; the tests that need PulseAudio are for Linux.
[ "$(uname -s)" = Linux ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    [ "$kind" = run ] || exit 0
    ldconfig -p 2>/dev/null | grep -q 'libportaudio\.so\.2' && exit 0
    if command -v dnf >/dev/null 2>&1; then
        say "To hear speech from this machine, run: sudo dnf install portaudio"
    else
        say "To hear speech from this machine, install PortAudio (the library libportaudio.so.2)."
    fi
    exit 0
fi

wanted=libportaudio2
[ "$kind" = bench ] && wanted="fortunes fortunes-es fortunes-it fortunes-br"
[ "$kind" = test ] && wanted="$wanted pulseaudio pulseaudio-utils libasound2-plugins systemd"
# Elsewhere there is no package of this name, or it brings a snap.
[ "$kind" = test ] && grep -qs '^ID=debian' /etc/os-release && wanted="$wanted chromium"
# Elsewhere than from Debian, Node brings npm with it, and the two packages exclude each other.
[ "$kind" = test ] && ! command -v npm >/dev/null 2>&1 && wanted="$wanted nodejs npm"

missing=
for package in $wanted; do
    # The status is asked for because a removed package may still be known to dpkg.
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -n "$missing" ] || exit 0

install="apt-get install -y --no-install-recommends$missing"
if [ "$(id -u)" != 0 ]; then
    say "System packages are missing; to install them, run: sudo $install"
    exit 0
fi

say "Installing system packages:$missing ..."
log=$(mktemp "${TMPDIR:-/tmp}/kokoro-live.XXXXXX") || exit 0
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # the words are the arguments
if ! { apt-get update -qq && $install -qq; } >"$log" 2>&1; then
    say "They could not be installed ($(tail -n 1 "$log")); to try again, run: $install"
fi
rm -f "$log"
exit 0
