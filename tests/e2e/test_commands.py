"""Every command with what people get wrong: one clear sentence, exit code 1, never a traceback."""

from __future__ import annotations

import io
import json
import os
import socket
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from bench.transcribe import transcribe, word_errors
from engine import service
from engine.__main__ import main
from engine.audio import from_pcm
from engine.model.assets import Assets
from engine.service import KokoroService
from tests.support.access import TOKEN
from tests.support.processes import run_module

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """`python -m engine` in this process, which has loaded already what it needs."""

    def run(*args: str, text: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["engine", *args])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        capfd.readouterr()
        with pytest.raises(SystemExit) as left:
            typer.run(main)
        assert isinstance(left.value.code, int)
        return subprocess.CompletedProcess(args, left.value.code, *capfd.readouterr())

    return run


@pytest.fixture
def say(here: Command, real_service: KokoroService, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The same, with the engine that is there."""

    async def load(*_: object, **__: object) -> KokoroService:
        return real_service

    monkeypatch.setattr(service, "load", load)
    return here


def one_sentence(done: subprocess.CompletedProcess[str], *says: str) -> None:
    """It failed, and said why in one line."""
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.strip().splitlines()
    for part in says:
        assert part in line
    assert line.endswith(".")


def test_say_writes_speech_that_can_be_heard(tmp_path: Path, real_assets: Assets) -> None:
    out = tmp_path / "x.wav"
    done = run_module("engine", "Hello from a clean machine.", "-o", str(out))
    assert done.returncode == 0, done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("1.4 s of speech to ")
    assert str(out) in line
    with wave.open(str(out)) as file:
        assert file.getframerate() == 24_000
        pcm = file.readframes(file.getnframes())
    # pocketsphinx hears "cream machine" from every voice: one word of five is its own
    errors, _ = word_errors("Hello from a clean machine.", transcribe(from_pcm(pcm)))
    assert errors <= 1


def test_say_reads_standard_input(say: Command, tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    done = say("-o", str(out), text="The weather is nice. Zorgblatter grimpf.\n")
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr  # not of words in no dictionary
    with wave.open(str(out)) as file:
        assert "weather is nice" in transcribe(from_pcm(file.readframes(file.getnframes())))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([""], "There is no text to speak"),
        (["Hi.", "--voice", "nobody"], "no voice 'nobody'"),
        (["Hi.", "--speed", "9"], "must be from 0.25 to 4"),
        (["Hi.", "--lang", "xx"], "no language 'xx'"),
    ],
)
def test_say_refuses_in_one_sentence(
    args: list[str], says: str, tmp_path: Path, real_assets: Assets
) -> None:
    out = tmp_path / "x.wav"
    one_sentence(run_module("engine", *args, "-o", str(out)), says)
    assert not out.exists()


def test_say_without_its_device_offers_a_file() -> None:
    done = run_module("tests.support.tone_command", "Hi.", "--device", "no such device")
    one_sentence(done, "'no such device' cannot be used", "-o FILE.wav")


def test_say_with_nothing_to_speak_is_a_failure(say: Command, tmp_path: Path) -> None:
    out = tmp_path / "x.wav"
    done = say("…?!", "-o", str(out))
    assert done.returncode == 1
    assert done.stderr.endswith("The text holds nothing that can be spoken.\n")
    assert not out.exists()


def test_say_into_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = run_module("engine", "Hi.", "-o", str(tmp_path / "no" / "x.wav"))
    one_sentence(done, "x.wav cannot be written")
    assert "-o FILE.wav" not in done.stderr


@pytest.mark.parametrize(
    ("module", "port"),
    [("wsproto_api", "engine_port"), ("playerd", "player_port"), ("http_compat", "http_port")],
)
def test_a_port_in_use_is_told_at_once(module: str, port: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        done = run_module(module, **{port: number})
    one_sentence(done, f"Port {number} on 127.0.0.1 is already in use")


@pytest.mark.parametrize("module", ["engine", "wsproto_api", "playerd", "http_compat"])
def test_an_impossible_setting_is_named(module: str) -> None:
    done = run_module(module, frame_ms=7)
    one_sentence(done, "KOKORO_LIVE_FRAME_MS (environment) is '7'")


def test_a_model_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    one_sentence(run_module("wsproto_api", model_dir=missing, engine_port=0), "missing")


def test_a_corrupt_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "kokoro-v1.0.int8.onnx").write_bytes(b"not the published file")
    done = run_module("engine", "Hi.", "-o", os.devnull, model_dir=tmp_path)
    one_sentence(done, "kokoro-v1.0.int8.onnx", "6e742170d309")


def test_config_and_voices_are_shown(real_assets: Assets) -> None:
    shown = run_module("engine", "--config", http_port=4711)
    assert shown.returncode == 0
    assert "4711" in shown.stdout
    assert "environment" in shown.stdout
    assert TOKEN not in shown.stdout  # which is set, for all that runs here
    head, first, *listed = run_module("engine", "--voices").stdout.splitlines()
    assert head.split() == ["id", "name", "language", "grade", "speed"]
    assert first.split() == [
        "af_alloy", "Alloy", "(American", "English,", "female)", "en-us", "C", "1"
    ]  # fmt: skip
    assert sum(line.startswith("zm_") for line in listed) == 4


def test_explain_tells_what_would_be_spoken() -> None:
    text = "It costs $5 in the [pause:abc] US."
    done = run_module("engine", "--explain", text)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (segment,) = told["segments"]
    assert (segment["text"], segment["char_start"], segment["char_end"]) == (text, 0, len(text))
    assert segment["spoken"] == "It costs five dollars in the U S"
    assert segment["pause_ms"] == 0
    spoken = {
        text[c0:c1]: segment["phonemes"][p0:p1].strip(".") for p0, p1, c0, c1 in segment["spans"]
    }
    assert spoken["$5"] == "fˈIv dˈɑləɹz"
    (warning,) = told["warnings"]
    assert warning["code"] == "unknown_tag"
    assert text[warning["char_start"] : warning["char_end"]] == "[pause:abc]"
    assert set(told["timings_ms"]) == {"load", "read"}


def test_explain_reads_standard_input_and_the_languages_of_voices(here: Command) -> None:
    done = here("--explain", "-", "--voice", "ef_dora", text="Hola, 5 gatos.")
    (segment,) = json.loads(done.stdout)["segments"]
    assert segment["spoken"] == "Hola cinco gatos"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["Hi.", "--lang", "xx"], "no language 'xx'"),
        (["Hi.", "--voice", "nope"], "no voice 'nope'"),
        (["Hi.", "--voice", "af_heart:60,xx:40"], "no voice 'xx'"),
        (["Hi.", "--voice", ""], "voice"),
        (["Hi.", "there"], "There are 2 texts; put one into quotes"),
        (["Hi.", "--urls", "long"], "'long'"),
        (["Hi.", "--pause-scale", "9"], "from 0 to 5"),
    ],
)
def test_explain_refuses_in_one_sentence(here: Command, args: list[str], says: str) -> None:
    one_sentence(here("--explain", *args), says)


@pytest.mark.parametrize("text", ["", "..."])
def test_explain_tells_that_there_is_nothing_to_speak(here: Command, text: str) -> None:
    told = json.loads(here("--explain", text).stdout)
    assert told["segments"] == []
    (warning,) = told["warnings"]
    assert (warning["code"], warning["char_end"]) == ("nothing_to_speak", len(text))


def test_explain_takes_a_text_that_begins_with_a_dash(here: Command) -> None:
    told = json.loads(here("--explain", "- one\n- two").stdout)
    assert [segment["spoken"] for segment in told["segments"]] == ["one", "two"]


def test_explain_takes_the_options_of_a_request(here: Command) -> None:
    done = here("--explain", "*5* 😀", "--no-normalize", "--emoji", "name")
    (segment,) = json.loads(done.stdout)["segments"]
    assert segment["spoken"] == "5 grinning face"


def test_a_voice_of_another_language_is_told(here: Command) -> None:
    done = here("--explain", "Hi.", "--voice", "ef_dora", "--lang", "en-gb")
    (warning,) = json.loads(done.stdout)["warnings"]
    assert warning["code"] == "voice_language"
    assert "speaks Spanish" in warning["message"]


def test_assets_says_where_everything_is(real_assets: Assets) -> None:
    done = run_module("engine", "--assets")
    assert done.returncode == 0
    assert str(real_assets.model) in done.stdout
    assert "(54)" in done.stdout
