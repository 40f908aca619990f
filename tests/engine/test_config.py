"""Settings: precedence, origins, and sentences for impossible values."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import config
from engine.errors import ConfigError


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('engine_port = 1001\nplayer_port = 1002\nhttp_port = 1003\nvoice = "af_sky"\n')
    environ = {"KOKORO_LIVE_PLAYER_PORT": "2002", "KOKORO_LIVE_HTTP_PORT": "2003", "OTHER": "x"}
    loaded = config.load({"http_port": 3003, "device": None}, environ=environ, file=file)
    got = loaded.settings
    assert (got.engine_port, got.player_port, got.http_port) == (1001, 2002, 3003)
    assert (got.voice, got.frame_ms) == ("af_sky", 50)
    origins = {name: loaded.origins[name] for name in ("engine_port", "player_port", "http_port")}
    assert origins == {
        "engine_port": str(file),
        "player_port": "environment",
        "http_port": "flag",
    }
    assert loaded.origins["device"] == "default"
    assert set(loaded.origins) == set(config.Settings.model_fields)


def test_an_empty_variable_is_not_set(tmp_path: Path) -> None:
    loaded = config.load(environ={"KOKORO_LIVE_VOICE": ""}, file=tmp_path / "none")
    assert loaded.settings.voice == "af_heart"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("HTTP_PORT", "eighty", "KOKORO_LIVE_HTTP_PORT (environment) is 'eighty'"),
        ("HTTP_PORT", "70000", "less than or equal to 65535"),
        ("HOST", "0.0.0.0", "loopback"),
        ("HOST", "example.com", "must be an address such as 127.0.0.1"),
        ("FRAME_MS", "5", "greater than or equal to 20"),
        ("VOICE", "  ", "must name a voice"),
        ("STREAMS", "99999999999", "far too large"),
        ("SINK", "speaker", "'portaudio', 'wav' or 'null'"),
        ("NO_SUCH_THING", "1", "no setting named 'no_such_thing'"),
    ],
)
def test_an_impossible_value_is_one_sentence(
    name: str, value: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environ={f"KOKORO_LIVE_{name}": value}, file=tmp_path / "none")
    assert says in caught.value.message
    assert "\n" not in caught.value.message


def test_localhost_is_an_address(tmp_path: Path) -> None:
    environ = {"KOKORO_LIVE_HOST": "localhost"}
    assert config.load(environ=environ, file=tmp_path / "none").settings.host == "127.0.0.1"


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("voice = [unclosed")
    with pytest.raises(ConfigError, match=r"config\.toml cannot be read as TOML"):
        config.load(environ={}, file=file)


def test_a_file_that_was_named_must_exist(tmp_path: Path) -> None:
    environ = {"KOKORO_LIVE_CONFIG": str(tmp_path / "missing.toml")}
    with pytest.raises(ConfigError, match="no such file"):
        config.load(environ=environ)


def test_the_named_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('voice = "bf_emma"')
    assert config.load(environ={"KOKORO_LIVE_CONFIG": str(file)}).settings.voice == "bf_emma"


def test_speeds_of_voices_come_from_a_table_or_from_json(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("[voice_speeds]\naf_heart = 1.1\nbf_emma = 1\n")
    assert config.load(environ={}, file=file).settings.voice_speeds == {
        "af_heart": 1.1,
        "bf_emma": 1,
    }
    environ = {"KOKORO_LIVE_VOICE_SPEEDS": '{"am_adam": 0.25}'}
    assert config.load(environ=environ, file=file).settings.voice_speeds == {"am_adam": 0.25}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("af_heart=1.1", "(environment) is 'af_heart=1.1': must be JSON such as"),
        (
            "[1]",
            "KOKORO_LIVE_VOICE_SPEEDS (environment) is [1]: input should be a valid dictionary",
        ),
        ('{"af_heart": 4.1}', "the speed of af_heart must be from 0.25 to 4"),
        ('{"a": 1, "b": 0.2}', "the speed of b must be from 0.25 to 4"),
        ('{"a": NaN}', "the speed of a must be from 0.25 to 4"),
        ('{"a": "fast"}', "KOKORO_LIVE_VOICE_SPEEDS.a (environment) is 'fast'"),
    ],
)
def test_an_impossible_speed_of_a_voice_is_one_sentence(
    value: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environ={"KOKORO_LIVE_VOICE_SPEEDS": value}, file=tmp_path / "none")
    assert says in caught.value.message


def test_names_of_openai_are_changed_one_by_one(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('[openai_voices]\nalloy = "bf_emma"\nMine = "af_heart:60,am_michael:40"\n')
    voices = config.load(environ={}, file=file).settings.openai_voices
    assert (voices["alloy"], voices["mine"]) == ("bf_emma", "af_heart:60,am_michael:40")
    assert voices["nova"] == config.OPENAI_VOICES["nova"]
    environ = {"KOKORO_LIVE_OPENAI_VOICES": '{"nova": "af_sky"}'}
    voices = config.load(environ=environ, file=tmp_path / "none").settings.openai_voices
    assert voices == config.OPENAI_VOICES | {"nova": "af_sky"}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("alloy", "must be JSON such as"),
        ('{"alloy": " "}', "alloy must stand for a voice"),
        ('{"alloy": 1}', "KOKORO_LIVE_OPENAI_VOICES.alloy (environment) is 1"),
    ],
)
def test_an_impossible_name_of_a_voice_is_one_sentence(
    value: str, says: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as caught:
        config.load(environ={"KOKORO_LIVE_OPENAI_VOICES": value}, file=tmp_path / "none")
    assert says in caught.value.message


# --- who may connect ---------------------------------------------------------------------------

TOKEN = "a-token-for-tests-and-nothing-else"


def of_environment(**values: str) -> config.Settings:
    environ = {f"KOKORO_LIVE_{name.upper()}": value for name, value in values.items()}
    return config.load(environ=environ, file=Path("there-is-no-such-file")).settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "fd00::5"])
def test_other_machines_are_let_in_with_a_token_alone(host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_environment(host=host)
    assert "KOKORO_LIVE_TOKEN" in caught.value.message
    assert "loopback" in caught.value.message
    settings = of_environment(host=host, token=TOKEN)
    assert settings.host == host
    assert settings.exposed


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_needs_no_token_of_the_settings(host: str) -> None:
    assert not of_environment(host=host).exposed


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "fd00::5"])
def test_wyoming_is_for_other_machines_only_if_it_is_said(host: str) -> None:
    with pytest.raises(ConfigError) as caught:  # a token is of no use: nobody asks for it
        of_environment(wyoming_host=host, token=TOKEN)
    for says in ("KOKORO_LIVE_WYOMING_HOST", "KOKORO_LIVE_WYOMING_OPEN=1", "no password"):
        assert says in caught.value.message
    settings = of_environment(wyoming_host=host, wyoming_open="1")
    assert settings.wyoming_host == host
    assert not settings.exposed  # the others stay where they were


def test_wyoming_is_off_and_at_home() -> None:
    settings = of_environment()
    assert (settings.wyoming, settings.wyoming_host) == (False, "127.0.0.1")
    assert of_environment(wyoming_host="localhost").wyoming_host == "127.0.0.1"
    with pytest.raises(ConfigError, match="must be an address such as"):
        of_environment(wyoming_host="example.com", wyoming_open="1")


@pytest.mark.parametrize(
    "token", ["short", "a" * 15, "two words and more of them", "ü" * 20, "a" * 513, "a/b" * 9]
)
@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_weak_token_is_one_sentence_that_does_not_say_it(token: str, host: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_environment(token=token, host=host)
    assert caught.value.message.startswith("The setting KOKORO_LIVE_TOKEN (environment) ")
    assert caught.value.message.endswith(".")
    assert token not in caught.value.message


def test_a_token_that_is_no_text_is_not_said_either(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("token = 1234567890123456789")
    with pytest.raises(ConfigError) as caught:
        config.load(environ={}, file=file)
    assert "1234567890123456789" not in caught.value.message


def test_a_token_is_in_no_repr() -> None:
    settings = of_environment(token=TOKEN, host="0.0.0.0")
    assert TOKEN not in repr(settings) + str(settings)
    assert TOKEN not in settings.model_dump_json()


@pytest.mark.parametrize(
    ("name", "said", "found"),
    [
        ("hosts", "tts.lan, tts.lan:443 ,[fd00::5],fd00::6", ("tts.lan", "tts.lan:443", "[fd00::5]", "fd00::6")),
        ("hosts", ",", ()),
        ("origins", "https://example.com,http://tts.lan:8880", ("https://example.com", "http://tts.lan:8880")),
        ("origins", "chrome-extension://abcdef", ("chrome-extension://abcdef",)),
    ],
)  # fmt: skip
def test_lists_come_from_the_environment_with_commas(
    name: str, said: str, found: tuple[str, ...]
) -> None:
    assert getattr(of_environment(**{name: said}), name) == found


def test_lists_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('hosts = ["tts.lan"]\norigins = ["https://example.com"]')
    settings = config.load(environ={}, file=file).settings
    assert (settings.hosts, settings.origins) == (("tts.lan",), ("https://example.com",))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hosts", "http://tts.lan"), ("hosts", "tts.lan/x"), ("hosts", "user@tts.lan"),
        ("hosts", "tts.lan:0"), ("hosts", "*"), ("hosts", "[::::]"), ("hosts", "[tts.lan]"),
        ("hosts", "tts.lan."), ("hosts", "two words"),
        ("origins", "*"), ("origins", "null"), ("origins", "example.com"),
        ("origins", "https://example.com/"), ("origins", "https://Example.com"),
        ("origins", "https://user@example.com"), ("origins", "https://example.com, nonsense"),
    ],
)  # fmt: skip
def test_a_name_or_page_that_cannot_be_is_one_sentence(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        of_environment(**{name: value})
    assert f"KOKORO_LIVE_{name.upper()} (environment)" in caught.value.message
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "ws://127.0.0.1:8881/"),
        ("::1", "ws://[::1]:8881/"),
        ("0.0.0.0", "ws://127.0.0.1:8881/"),
        ("::", "ws://[::1]:8881/"),
        ("192.168.1.5", "ws://192.168.1.5:8881/"),
    ],
)
def test_where_the_engine_is(host: str, url: str) -> None:
    assert of_environment(host=host, token=TOKEN).engine_url == url
