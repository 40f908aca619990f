"""How kokoro-live is found on a machine, and what may be a token. Shell: it asks for the user's folders.

What a command needs that has no time to load all of `config`.
"""

from __future__ import annotations

import re
from pathlib import Path

import platformdirs

APP = "kokoro-live"
ENV_PREFIX = "KOKORO_LIVE_"

#: 16 letters chosen at random are more than anybody can try out over a network
MIN_TOKEN_CHARS = 16
MAX_TOKEN_CHARS = 512

# What both an Authorization header and the name of a subprotocol can carry: not "/" and "=".
_TOKEN = re.compile(r"[A-Za-z0-9._~+-]+", re.ASCII)


def data_dir() -> Path:
    """The folder with the token and the file by which clients find what runs, unless set otherwise."""
    return platformdirs.user_data_path(APP)


def token_fault(token: str) -> str | None:
    """What is wrong with a token, to stand behind "it"; None if nothing is."""
    if len(token) < MIN_TOKEN_CHARS:
        return (
            f"must have at least {MIN_TOKEN_CHARS} characters; 22 of base64 are 128 bit, "
            "and `openssl rand -hex 32` makes a good one"
        )
    if len(token) > MAX_TOKEN_CHARS:
        return f"must have at most {MAX_TOKEN_CHARS} characters"
    if not _TOKEN.fullmatch(token):
        return (
            "may have no characters but letters, digits and . _ ~ + -, which are the ones that "
            "every client can send; `openssl rand -hex 32` makes a good one"
        )
    return None
