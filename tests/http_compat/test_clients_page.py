"""docs/clients.md: every block of it is run against the server, or read by what reads it in life."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import textwrap
import tomllib
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import av
import numpy as np
import pytest
import trio
import yaml
from numpy.typing import NDArray
from trio.testing import MockClock

from engine import config
from engine.audio import SAMPLE_RATE
from engine.config import Settings
from engine.model.assets import Assets
from engine.voices import Voices
from http_compat import errors, lists, schema
from http_compat.schema import Format
from http_compat.wyoming.schema import PROGRAM
from tests.playerd.test_cli import Asked as Commands
from tests.support.access import TOKEN
from tests.support.tone import WORD_MS

from .decoding import by_ffmpeg
from .serving import PORT, SPEECH, Asked, Engine, Served, defaults, events_of, get, post, serving
from .test_sdk_node import NODE
from .test_sdk_node import pytestmark as needs_node

ROOT = Path(__file__).parent.parent.parent
FILE = ROOT / "docs" / "clients.md"
PAGE = FILE.read_text()

#: what OpenWebUI 0.12.4 reads (its `config.py`)
OPENWEBUI = {
    "AUDIO_TTS_ENGINE", "AUDIO_TTS_OPENAI_API_BASE_URL", "AUDIO_TTS_OPENAI_API_KEY",
    "AUDIO_TTS_MODEL", "AUDIO_TTS_VOICE", "AUDIO_TTS_SPLIT_ON", "AUDIO_TTS_OPENAI_PARAMS",
}  # fmt: skip
#: what the providers of AnythingLLM read, and which of it is the URL and the voice
ANYTHINGLLM = {
    "kokoro": ({"ENDPOINT", "KEY", "VOICE_MODEL"}, "TTS_KOKORO_"),
    "generic-openai": ({"ENDPOINT", "KEY", "MODEL", "VOICE_MODEL"}, "TTS_OPEN_AI_COMPATIBLE_"),
}


@dataclass(frozen=True)
class Block:
    """A block of code, and the heading over it."""

    section: str
    kind: str
    text: str


def read_blocks() -> list[Block]:
    found = []
    for part in re.split(r"^## ", PAGE, flags=re.M):
        section = part.partition("\n")[0]
        for kind, text in re.findall(r"^ *```(\w+)\n(.*?)^ *```$", part, re.M | re.S):
            found.append(Block(section, kind, textwrap.dedent(text)))
    return found


BLOCKS = read_blocks()


def blocks(kind: str, section: str | None = None) -> list[Block]:
    return [each for each in BLOCKS if each.kind == kind and section in (None, each.section)]


def only(kind: str, section: str, *, among: int = 1) -> Block:
    found = blocks(kind, section)
    assert len(found) == among
    return found[0]


def parametrize(found: list[Block]) -> pytest.MarkDecorator:
    assert found
    ids = [f"{block.section} {number}" for number, block in enumerate(found, 1)]
    return pytest.mark.parametrize("block", found, ids=ids)


CURL = [block for block in blocks("sh") if "curl " in block.text]
PLAYER = [block for block in blocks("sh") if "playerd " in block.text]


def test_no_block_is_left_out() -> None:
    assert {block.kind for block in BLOCKS} == {
        "sh", "python", "js", "yaml", "toml", "json", "env"
    }  # fmt: skip
    assert len(CURL) + len(PLAYER) == len(blocks("sh"))
    assert PAGE.count("```") == 2 * len(BLOCKS)


def here(text: str, server: Served) -> str:
    """The text with the address of the server under test."""
    changed = re.sub(
        rf"(127\.0\.0\.1|host\.docker\.internal):{PORT}", f"127.0.0.1:{server.port}", text
    )
    assert changed != text
    return changed


async def run(*command: str, folder: Path, path: str = os.environ["PATH"]) -> bytes:
    """What a program prints that must succeed; it sees no proxy and no settings."""
    environment = {"PATH": path, "HOME": str(folder)}
    done = await trio.run_process(
        command, capture_stdout=True, capture_stderr=True, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr.decode()
    return bytes(done.stdout)


# --- programs --------------------------------------------------------------------------------

#: for programs that take a while to begin
PATIENCE_S = 60

#: of the tones of the fake voice
LOUDEST = 0.3 * 32767

#: keeps what it is played, and how
FAKE_PLAYER = """\
#!/bin/sh
printf '%s\\n' "$@" >played.args
exec cat >played
"""


@parametrize(CURL)
async def test_curl(block: Block, tmp_path: Path) -> None:
    player = tmp_path / "bin" / "ffplay"
    player.parent.mkdir()
    player.write_text(FAKE_PLAYER)
    player.chmod(0o755)
    asked = Asked()
    async with serving(Engine(asked), patience_s=PATIENCE_S) as server:
        printed = await run(
            "bash", "-euo", "pipefail", "-c", here(block.text, server),
            folder=tmp_path, path=f"{player.parent}:{os.environ['PATH']}",
        )  # fmt: skip
    for body in re.findall("-d '(.*?)'", block.text):
        assert schema.parse(body.encode(), text_chars=99).ignored == ()
    length = sum(len(request.text.split()) for request in asked.requests) * WORD_MS * 24
    if file := re.search(r"-o (\S+)\.(\w+)", block.text):
        assert (
            by_ffmpeg((tmp_path / file[0][3:]).read_bytes(), Format(file[2])).length >= length > 0
        )
    elif "ffplay" in block.text:
        arguments = shlex.split((tmp_path / "played.args").read_text())
        sound = heard((tmp_path / "played").read_bytes(), arguments)
        assert len(sound) == length > 0
        assert abs(sound).max() == pytest.approx(LOUDEST, abs=1)
    elif "sse" in block.text:
        kinds = [event["type"] for event in events_of(printed)]
        assert set(kinds) == {"speech.audio.marks", "speech.audio.delta", "speech.audio.done"}
    else:
        decoder, rest = json.JSONDecoder(), printed.decode()
        for _ in block.text.splitlines():  # one answer behind the other, with nothing between
            answer, end = decoder.raw_decode(rest)
            assert "error" not in answer
            rest = rest[end:].lstrip()
        assert rest == ""


def heard(data: bytes, arguments: list[str]) -> NDArray[np.int16]:
    """What FFmpeg's player makes of its standard input, by these arguments."""
    *switches, source = arguments
    assert source == "-"
    options = {}
    while switches:
        name = switches.pop(0).removeprefix("-")
        if name not in {"nodisp", "autoexit"}:
            options[name] = switches.pop(0)
    assert options.pop("loglevel")
    form = options.pop("f")
    with av.open(BytesIO(data), "r", format=form, options=options) as opened:
        assert opened.streams.audio[0].rate == SAMPLE_RATE
        frames = [frame.to_ndarray()[0] for frame in opened.decode(audio=0)]
    return np.concatenate(frames)


@parametrize(blocks("python"))
async def test_python(block: Block, tmp_path: Path) -> None:
    asked = Asked()
    async with serving(Engine(asked), patience_s=PATIENCE_S) as server:
        await run(sys.executable, "-c", here(block.text, server), folder=tmp_path)
    assert [(spoken.voice, spoken.lang) for spoken in asked.requests] == [("af_heart", "en-gb")]
    words = len(asked.requests[0].text.split())
    assert (
        by_ffmpeg((tmp_path / "python.mp3").read_bytes(), Format.MP3).length >= words * WORD_MS * 24
    )


@needs_node
@parametrize(blocks("js"))
async def test_node(block: Block, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(NODE / "node_modules")
    asked = Asked()
    async with serving(Engine(asked), patience_s=PATIENCE_S) as server:
        (tmp_path / "speak.mjs").write_text(here(block.text, server))
        await run("node", "speak.mjs", folder=tmp_path)
    assert [spoken.voice for spoken in asked.requests] == ["af_heart"]
    words = len(asked.requests[0].text.split())
    assert (
        by_ffmpeg((tmp_path / "node.mp3").read_bytes(), Format.MP3).length >= words * WORD_MS * 24
    )


@parametrize(PLAYER)
def test_commands_of_the_player(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = Commands(monkeypatch)
    for line in block.text.splitlines():
        program, *words = shlex.split(line)
        assert (program, words[:2]) == (".venv/bin/python", ["-m", "playerd"])
        commands.by(*words[2:])


# --- what the programs are set to ------------------------------------------------------------


async def speaks(url: str, voice: str, model: str = "kokoro") -> None:
    """Asserts that a client that is set to this gets speech, from this machine or a container."""
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    assert scheme == "http"
    asked = Asked()
    app = Engine(asked).app()
    body = {"input": "One two.", "voice": voice, "model": model}
    reply = await post(app, body, f"/{path}", Host=host)
    assert reply.status == 200
    assert [request.voice for request in asked.requests] == [voice]
    if model != "kokoro":
        assert model in lists.MODEL_NAMES


async def test_openwebui(autojump_clock: MockClock) -> None:
    told = yaml.safe_load(only("yaml", "OpenWebUI").text)
    service = told["services"]["open-webui"]
    set_ = service["environment"]
    assert set(set_) <= OPENWEBUI
    assert set_["AUDIO_TTS_ENGINE"] == "openai"
    assert set_["AUDIO_TTS_SPLIT_ON"] in {"punctuation", "paragraphs", "none"}
    base = set_["AUDIO_TTS_OPENAI_API_BASE_URL"]
    await speaks(f"{base}/audio/speech", set_["AUDIO_TTS_VOICE"], set_["AUDIO_TTS_MODEL"])
    assert {volume.partition(":")[0] for volume in service["volumes"]} == set(told["volumes"])


def test_additional_parameters_of_openwebui() -> None:
    params = json.loads(only("json", "OpenWebUI").text)
    order = schema.parse(json.dumps({"input": "One.", **params}).encode(), text_chars=9)
    assert order.ignored == ()
    assert (order.speech.speed, order.speech.lang) == (params["speed"], params["lang"])
    assert order.format is Format.MP3


async def test_librechat(autojump_clock: MockClock) -> None:
    told = yaml.safe_load(only("yaml", "LibreChat").text)["speech"]["tts"]
    assert list(told) == ["openai"]  # with two providers it takes none
    assert set(told["openai"]) == {"url", "apiKey", "model", "voices"}
    for voice in told["openai"]["voices"]:
        await speaks(told["openai"]["url"], voice, told["openai"]["model"])


async def test_sillytavern(autojump_clock: MockClock) -> None:
    section = PAGE.split("## SillyTavern")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| ([\w ]+) \| `(.*?)`", section, re.M))
    for voice in rows["Available Voices"].split(","):
        await speaks(rows["Provider Endpoint"], voice)


@parametrize(blocks("env"))
async def test_anythingllm(block: Block, autojump_clock: MockClock) -> None:
    set_ = dict(re.findall(r'^(\w+)="(.*)"$', block.text, re.M))
    assert len(set_) == len(block.text.splitlines())
    fields, prefix = ANYTHINGLLM[set_.pop("TTS_PROVIDER")]
    assert set(set_) <= {prefix + field for field in fields}
    await speaks(f"{set_[f'{prefix}ENDPOINT']}/audio/speech", set_[f"{prefix}VOICE_MODEL"])


def test_home_assistant() -> None:
    action = yaml.safe_load(only("yaml", "Home Assistant").text)
    assert action["action"] == "tts.speak"
    # how Home Assistant makes the name of an entity of the program's
    assert action["target"]["entity_id"] == f"tts.{re.sub('[^a-z0-9]+', '_', PROGRAM.lower())}"
    assert action["data"]["message"]


# --- settings --------------------------------------------------------------------------------


def settings_of(block: Block, folder: Path) -> Settings:
    file = folder / "config.toml"
    file.write_text(block.text)
    return config.load(environ={}, file=file).settings


@parametrize(blocks("toml"))
def test_settings_are_taken(block: Block, tmp_path: Path) -> None:
    settings = settings_of(block, tmp_path)
    for name in tomllib.loads(block.text):
        assert getattr(settings, name) != getattr(defaults(), name)


async def test_listening_to_others(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = settings_of(only("toml", "Containers and other machines"), tmp_path)
    urls = re.findall(r"`http://([\d.]+):\d+/v1`", PAGE)
    assert {*urls} - {"127.0.0.1"} <= {*settings.hosts}
    app = Engine().app(settings=settings)
    key = {"Authorization": f"Bearer {TOKEN}"}
    assert len(settings.hosts) == 2
    for name in (*settings.hosts, "localhost", "127.0.0.1", "host.docker.internal"):
        host = {"Host": f"{name}:{PORT}"}
        for path in ("/v1/audio/voices", "/v1/audio/models", "/v1/models", "/ready"):
            assert (await get(app, path, **host)).status == 200
        assert (await post(app, {"input": "One."}, SPEECH, **host)).status == 401
        assert (await get(app, "/status", **host)).status == 401
        assert (await post(app, {"input": "One."}, SPEECH, **host, **key)).status == 200
    assert (await get(app, "/v1/models", Host=f"192.168.1.6:{PORT}")).status == 403


async def test_names_and_limits(autojump_clock: MockClock, tmp_path: Path) -> None:
    settings = settings_of(only("toml", "Settings"), tmp_path)
    asked = Asked()
    app = Engine(asked).app(settings=settings)
    told = tomllib.loads(only("toml", "Settings").text)
    for name in told["openai_voices"]:
        assert (await post(app, {"input": "One.", "voice": name})).status == 200
    assert [request.voice for request in asked.requests] == [*told["openai_voices"].values()]
    long = {"input": "a" * told["http_text_chars"]}
    assert (await post(app, long)).status == 200
    assert told["http_text_chars"] <= settings.text_chars


def table(heading: str) -> list[list[str]]:
    """The rows of the table under a heading, without its head."""
    lines = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0].splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    assert len(rows) > 2
    return rows[1:]


def test_the_table_of_settings() -> None:
    for names, shown, _ in table("Settings"):
        values = re.findall("`(.*?)`", shown)
        for number, name in enumerate(re.findall("`(.*?)`", names)):
            default = getattr(defaults(), name)
            if values:
                found = tomllib.loads(f"x = {values[number]}")["x"]
                assert (list(default) if isinstance(default, tuple) else default) == found
    assert len(defaults().openai_voices) == 13
    assert defaults().token is None


def test_the_table_of_answers() -> None:
    rules = {(str(rule.status), rule.code) for _, rule in errors.RULES}
    rules |= {(str(rule.status), rule.code) for rule, _ in errors.REFUSED.values()}
    for answer, _ in table("When it does not speak"):
        if answer != "none":
            status, code = answer.split(" ")
            assert (status, code.strip("`")) in rules


def test_every_name_exists() -> None:
    names = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)(?: = .*?)?`", PAGE))
    known = {*Settings.model_fields, *schema.Body.__struct_fields__}
    known |= {rule.code for _, rule in errors.RULES} | {
        rule.code for rule, _ in errors.REFUSED.values()
    }
    assert len(names & known) > 10
    others = {name for name in names - known if name[1:3] not in {"f_", "m_"}}
    assert others == {"extra_hosts"}  # Docker's


def test_models_and_formats_are_named() -> None:
    for name in (*lists.MODEL_NAMES, *Format):
        assert f"`{name}`" in PAGE


def test_every_voice_exists(real_assets: Assets) -> None:
    named = set(re.findall(r"\b[abefhijpz][fm]_[a-z]+", PAGE))
    assert named
    assert named <= {voice.id for voice in Voices(real_assets.voices).infos()}


def test_links_lead_somewhere() -> None:
    for link in re.findall(r"\]\((.*?)\)", PAGE):
        file, _, anchor = link.partition("#")
        target = (FILE.parent / file).resolve() if file else FILE
        assert target.is_file()
        if anchor:
            heads = re.findall(r"^#+ (.*)$", target.read_text(), re.M)
            assert anchor in {
                re.sub("[^a-z -]", "", head.lower()).replace(" ", "-") for head in heads
            }
    assert "docs/clients.md" in (ROOT / "README.md").read_text()
    for test in re.findall(r"`((?:tests/http_compat/)?test_\w+\.py)`", PAGE):
        assert (Path(__file__).parent / Path(test).name).is_file()
