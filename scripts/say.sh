#!/bin/sh
# Speaks $SAY_TEXT, or standard input if it is not set. The text comes through the environment
# because a shell or make would read quotes, dollars and newlines in it as its own.
#
# SAY_OUT names a file to write instead of playing, SAY_VOICE a voice.
set -eu

cd "$(dirname "$0")/.."
set --
[ -z "${SAY_OUT:-}" ] || set -- "$@" -o "$SAY_OUT"
[ -z "${SAY_VOICE:-}" ] || set -- "$@" --voice "$SAY_VOICE"
# after --, a text may begin with a dash
[ -z "${SAY_TEXT+set}" ] || set -- "$@" -- "$SAY_TEXT"
exec .venv/bin/python -m engine "$@"
