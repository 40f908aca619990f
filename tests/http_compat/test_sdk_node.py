"""OpenAI's SDK for Node against a real server, as AnythingLLM uses it."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trio

from http_compat.lists import MODEL_NAMES
from http_compat.schema import Format
from tests.support.tone import WORD_MS, ToneVoice

from .decoding import by_ffmpeg
from .serving import served

NODE = Path(__file__).parent.parent / "node"

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (NODE / "node_modules" / "openai").is_dir(),
    reason="Node or its package openai is missing; `make test` installs both where it can",
)


async def test_what_a_program_does_with_it() -> None:
    voice = ToneVoice()
    async with served(voice) as server:
        done = await trio.run_process(
            ["node", str(NODE / "sdk.mjs")],
            capture_stdout=True,
            stderr=subprocess.STDOUT,
            check=False,
            env={"PATH": os.environ["PATH"], "BASE_URL": f"{server.url}/v1"},
        )
        assert done.returncode == 0, done.stdout.decode()
        told = json.loads(done.stdout)
        while voice.active:  # noqa: ASYNC110 - it left in the middle; `served` has a limit
            await trio.sleep(0.01)
        assert voice.segments_made < 600
    assert set(told["formats"]) == set(Format)
    for name, sent in told["formats"].items():
        made = by_ffmpeg(base64.b64decode(sent["sound"]), Format(name))
        assert made.length >= 2 * WORD_MS * 24
        assert sent["type"].startswith("audio/")
    assert told["pieces"] > 1
    assert told["bytes"] == 2 * WORD_MS * 48
    assert set(told["types"][:-1]) == {"speech.audio.delta"}
    assert told["types"][-1] == "speech.audio.done"
    assert told["models"] == list(MODEL_NAMES)
    assert told["error"].pop("request").startswith("req_")
    assert told["error"] == {
        "kind": "BadRequestError", "status": 400, "code": "voice_not_found", "param": "voice"
    }  # fmt: skip
