"""One settings object for every process. Shell: it reads the environment and a file.

A value comes from the first of: command-line flag, environment (`KOKORO_LIVE_` and the name in
capitals), the TOML file, the default. `Config.origins` says which, for every setting, and
`python -m engine --config` prints it.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from .access import APP, ENV_PREFIX, MIN_TOKEN_CHARS, data_dir, token_fault
from .errors import ConfigError
from .request import MAX_SPEED, MIN_SPEED

# What a Host header can say, with or without a port; `wsproto_api.security` compares them.
_HOST = re.compile(
    r"(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?::[1-9][0-9]{0,4})?",
    re.ASCII,
)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.ASCII)


#: where the model may run, and how often is tried where best; `engine.model.providers`
Wanted = Literal["auto", "cpu", "coreml", "cuda", "tensorrt", "openvino", "directml"]
Retest = Literal["daily", "weekly", "monthly", "on_demand"]

#: how exact the processor computes; `engine.model.hybrid`
Precision = Literal["auto", "float32", "hybrid"]

#: how often the scheduled benchmark is run; `engine.selfbench`
Every = Literal["off", "daily", "weekly", "monthly"]

#: The voices of the OpenAI API, by ours: of the same name where there is one, else one that is alike.
OPENAI_VOICES = {
    "alloy": "af_alloy",
    "ash": "am_michael",
    "ballad": "bm_george",
    "cedar": "am_fenrir",
    "coral": "af_bella",
    "echo": "am_echo",
    "fable": "bm_fable",
    "marin": "af_heart",
    "nova": "af_nova",
    "onyx": "am_onyx",
    "sage": "af_sarah",
    "shimmer": "af_aoede",
    "verse": "am_puck",
}


def is_loopback(address: str) -> bool:
    """Whether an address, which must be one, is reached from this machine only."""
    return ipaddress.ip_address(address).is_loopback


def url(scheme: str, host: str, port: int) -> str:
    """How this machine reaches what listens on an address, such as `ws://127.0.0.1:8881`."""
    address = ipaddress.ip_address(host)
    if address.is_unspecified:  # all addresses: loopback too, and only its names are always served
        address = ipaddress.ip_address("127.0.0.1" if address.version == 4 else "::1")
    shown = f"[{address}]" if address.version == 6 else str(address)
    return f"{scheme}://{shown}:{port}"


def config_file() -> Path:
    """Where the TOML file is looked for when `KOKORO_LIVE_CONFIG` names no other."""
    return platformdirs.user_config_path(APP) / "config.toml"


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _address(text: str) -> str:
    if text == "localhost":
        return "127.0.0.1"
    if not _is_address(text):
        raise ValueError("must be an address such as 127.0.0.1")
    return str(ipaddress.ip_address(text))


def _lexicon_beside(file: Path) -> Path:
    return file.with_name("lexicon.toml")


class Settings(BaseSettings):
    """Every setting, with its default. Descriptions are the help of the command line."""

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, extra="forbid", frozen=True)

    # who may connect; the token comes before the host, whose check looks at it
    token: SecretStr | None = Field(
        None, description="what clients must show; default: one that is made and kept in data_dir"
    )
    hosts: tuple[str, ...] = Field(
        (), description="more names or addresses by which clients reach this machine"
    )
    origins: tuple[str, ...] = Field(
        (), description="pages that may connect, besides our own, such as https://example.com"
    )
    data_dir: Path = Field(
        default_factory=data_dir,
        description="where the token is kept, and where clients find what runs",
    )

    # where
    host: str = Field(
        "127.0.0.1", description="address to listen on; one that is not loopback needs a token"
    )
    engine_port: int = Field(8881, ge=0, le=65535, description="port of the engine")
    player_port: int = Field(8882, ge=0, le=65535, description="port of the player")
    http_port: int = Field(8880, ge=0, le=65535, description="port of the OpenAI endpoint")

    # Home Assistant; what is open comes before the host, whose check looks at it
    wyoming: bool = Field(
        False, description="whether `make up` and the services serve Home Assistant too"
    )
    wyoming_open: bool = Field(
        False, description="whether other machines may use Wyoming, which has no password"
    )
    wyoming_host: str = Field("127.0.0.1", description="address to listen on for Wyoming")
    wyoming_port: int = Field(10200, ge=0, le=65535, description="port for Wyoming")

    # what speaks
    model_dir: Path | None = Field(None, description="folder with model and voices of your own")
    cache_dir: Path = Field(
        default_factory=lambda: platformdirs.user_cache_path(APP),
        description="where model and voices are kept",
    )
    voice: str = Field("af_heart", description="voice or blend when a request names none")
    voice_speeds: dict[str, float] = Field(
        default_factory=dict, description="by voice, the speed when a request names none"
    )
    openai_voices: dict[str, str] = Field(
        default_factory=lambda: dict(OPENAI_VOICES),
        description="by name, OpenAI's or another, the voice or blend that it means over HTTP",
    )
    g2p: Literal["misaki", "espeak", "spelling"] = Field(
        "misaki", description="what reads English first; the ones after it stand behind it"
    )
    lexicon: Path = Field(
        default_factory=lambda: _lexicon_beside(config_file()),
        description="file with your own pronunciations; default: beside the settings' file",
    )
    threads: int = Field(0, ge=0, le=256, description="inference threads; 0: one per core")
    provider: Wanted = Field(
        "auto", description="where the model runs; auto: wherever a test finds it best"
    )
    provider_retest: Retest = Field(
        "weekly", description="how often that test is done again, besides when something changes"
    )
    precision: Precision = Field(
        "float32",
        description="hybrid: part of the vocoder in integers, quicker and less exact; auto: if VNNI is there",
    )
    nice: int = Field(
        10, ge=0, le=19, description="how far the engine gives way to other programs, and to sound"
    )
    frame_ms: int = Field(50, ge=20, le=100, description="length of a frame in ms")
    first_audio_ms: int = Field(
        300, ge=0, description="how long the first sound may take if that makes it better"
    )
    first_segment: int = Field(
        100,
        ge=60,
        le=150,
        description="phonemes that are spoken first at most; fewer are sooner, and cut a phrase",
    )
    first_window_ms: int = Field(
        200, ge=100, le=600, description="speech that is made first, before any is heard, in ms"
    )
    window_share: float = Field(
        0.6,
        ge=0.2,
        le=0.9,
        description="part of what the listener has in hand that making more of it may take",
    )
    spinning: bool = Field(
        True,
        description="whether inference threads wait for each other awake, unless a test is against it",
    )
    cache_mb: int = Field(
        64, ge=0, le=4096, description="audio kept for phrases that come again; 0: nothing is kept"
    )
    memory_limit_mb: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="memory above which the engine gives back what it can; 0: 1000 more than at first",
    )
    selfbench: Every = Field(
        "off", description="how often, when nobody speaks, the engine looks whether it is slower"
    )
    state_dir: Path = Field(
        default_factory=lambda: platformdirs.user_state_path(APP),
        description="where what that has found is kept",
    )
    stall_s: float = Field(
        30.0,
        ge=1,
        le=3600,
        description="seconds with work and without progress after which the engine is set going again",
    )

    # limits
    # In UTF-8 any such text fits a message of 64 KiB; a sender that escapes it may have to send less.
    text_chars: int = Field(
        16_000, ge=1, le=65_000, description="longest text of one request, in characters"
    )
    http_text_chars: int = Field(4_096, ge=1, description="the same over HTTP; 4096 is OpenAI's")
    http_waiting: int = Field(
        64, ge=0, description="requests over HTTP that may wait for their turn to be spoken"
    )
    live_chars: int = Field(
        1_000_000, ge=1, description="longest text that comes in pieces, in characters"
    )
    streams: int = Field(16, ge=1, description="streams at once, over all connections")
    connection_streams: int = Field(8, ge=1, description="streams at once of one connection")
    connections: int = Field(64, ge=1, description="WebSocket connections at once")
    messages_per_s: int = Field(
        200, ge=1, description="messages of one connection in a second; twice as many in a burst"
    )
    orphan_grace_ms: int = Field(
        2_000, ge=0, le=600_000, description="how long a stream lives when its owner is cut off"
    )
    max_lead_ms: int = Field(
        30_000, ge=1_000, description="how far synthesis may run ahead of the fastest listener"
    )

    # how the player sounds
    sink: Literal["portaudio", "wav", "null"] = Field("portaudio", description="where sound goes")
    device: str | None = Field(None, description="name of the sound device; default: the system's")
    lead_in_ms: int = Field(
        0,
        ge=0,
        le=1_000,
        description="silence before speech after a rest; some Bluetooth and HDMI devices swallow it",
    )
    start_wait_ms: int = Field(
        800,
        ge=0,
        le=3_000,
        description="how long the first sound may be held back, so that no hole in a phrase follows",
    )
    volume: float = Field(1.0, ge=0, le=1, description="how loud the player begins")
    wav_path: Path = Field(Path("kokoro-live.wav"), description="file of the wav sink")

    # what is told
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="log level")
    log_format: Literal["text", "json"] = Field("text", description="log format")

    @property
    def engine_url(self) -> str:
        """Where this machine's engine is."""
        return url("ws", self.host, self.engine_port) + "/"

    @property
    def player_url(self) -> str:
        """Where this machine's player is."""
        return url("ws", self.host, self.player_port) + "/"

    @property
    def exposed(self) -> bool:
        """Whether other machines reach the ports."""
        return not is_loopback(self.host)

    @field_validator("host")
    @classmethod
    def _guarded(cls, value: str, info: ValidationInfo) -> str:
        address = _address(value)
        # Without a token anybody who reaches the port could make this machine speak. The one of
        # the file does not do: whoever opens this machine to others is to know that there is one.
        if not is_loopback(address) and info.data.get("token") is None:
            raise ValueError(
                "other machines could connect, so set a token too "
                f"({ENV_PREFIX}TOKEN, at least {MIN_TOKEN_CHARS} characters), or stay with a "
                "loopback address such as 127.0.0.1"
            )
        return address

    @field_validator("wyoming_host")
    @classmethod
    def _guarded_without_token(cls, value: str, info: ValidationInfo) -> str:
        address = _address(value)
        if not is_loopback(address) and not info.data.get("wyoming_open"):
            raise ValueError(
                "other machines could connect, and Wyoming has no password: whoever reaches the "
                "port could make this machine speak. If all of your network may, set wyoming_open "
                f"too ({ENV_PREFIX}WYOMING_OPEN=1), or stay with a loopback address such as "
                "127.0.0.1"
            )
        return address

    @field_validator("token")
    @classmethod
    def _strong(cls, value: SecretStr | None) -> SecretStr | None:
        fault = token_fault(value.get_secret_value()) if value is not None else None
        if fault:
            raise ValueError(fault)
        return value

    @field_validator("hosts", "origins", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        # The environment has no lists.
        if isinstance(value, str):
            return [part.strip() for part in value.split(",") if part.strip()]
        return value

    @field_validator("hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for host in value:
            found = _HOST.fullmatch(host)
            if not (_is_address(found["v6"] or "::") if found else _is_address(host)):
                raise ValueError(
                    f"{host!r} is not a name or address such as tts.lan, tts.lan:8881 or [fd00::5]"
                )
        return value

    @field_validator("origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is not an origin such as https://example.com: scheme, name and "
                    "port in small letters, nothing behind them"
                )
        return value

    @field_validator(
        "text_chars", "http_text_chars", "http_waiting", "live_chars", "max_lead_ms", "streams",
        "connection_streams", "connections", "messages_per_s", "first_audio_ms",
    )  # fmt: skip
    @classmethod
    def _bounded(cls, value: int) -> int:
        if value > 10_000_000:
            raise ValueError("is far too large")
        return value

    @field_validator("voice")
    @classmethod
    def _named(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("must name a voice")
        return value

    @field_validator("voice_speeds", "openai_voices", mode="before")
    @classmethod
    def _table(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return value
        try:  # the environment has no tables
            return json.loads(value)
        except ValueError:
            shown = (
                '{"af_heart": 1.1}' if info.field_name == "voice_speeds" else '{"nova": "af_sky"}'
            )
            raise ValueError(f"must be JSON such as {shown}") from None

    @field_validator("openai_voices")
    @classmethod
    def _standing_for_a_voice(cls, value: dict[str, str]) -> dict[str, str]:
        for name, voice in value.items():
            if not voice.strip():
                raise ValueError(f"{name} must stand for a voice")
        # Who changes one name does not want to lose the others.
        return OPENAI_VOICES | {name.lower(): voice for name, voice in value.items()}

    @field_validator("voice_speeds")
    @classmethod
    def _possible(cls, value: dict[str, float]) -> dict[str, float]:
        for voice, speed in value.items():
            if not MIN_SPEED <= speed <= MAX_SPEED:
                raise ValueError(
                    f"the speed of {voice} must be from {MIN_SPEED:g} to {MAX_SPEED:g}"
                )
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what the constructor is given."""
        # `load` merges the sources itself, because it must also know where each value came from.
        return (init_settings,)


@dataclass(frozen=True, slots=True)
class Config:
    """Settings, and where each of them came from."""

    settings: Settings
    origins: Mapping[str, str]


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """Reads the settings.

    Args:
        flags: values of the command line; those that are None were not given.
        environ: instead of the process's environment (tests).
        file: instead of the user's TOML file; `KOKORO_LIVE_CONFIG` comes between the two.

    Raises:
        ConfigError: a sentence naming the setting, its value's origin and what is allowed.
    """
    env = _environment(environ)
    named = env.pop("config", None)
    path = file or (Path(named).expanduser() if named else config_file())
    if named and not path.is_file():
        raise ConfigError(f"{ENV_PREFIX}CONFIG names {path}, but there is no such file.")
    layers: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("default", {"lexicon": _lexicon_beside(path)}),
        (str(path), _toml(path)),
        ("environment", env),
        ("flag", {k: v for k, v in (flags or {}).items() if v is not None}),
    )
    values: dict[str, Any] = {}
    origins = dict.fromkeys(Settings.model_fields, "default")
    for origin, layer in layers:
        values.update(layer)
        origins.update(dict.fromkeys(layer, origin))
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise ConfigError(_sentence(error, origins)) from None
    return Config(settings, origins)


def _environment(environ: Mapping[str, str] | None) -> dict[str, Any]:
    environ = os.environ if environ is None else environ
    prefix = ENV_PREFIX.lower()
    # An empty variable is how a shell or a Makefile says "not set".
    return {
        k.lower()[len(prefix) :]: v
        for k, v in environ.items()
        if k.lower().startswith(prefix) and v
    }


def _toml(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(TomlConfigSettingsSource(Settings, toml_file=path)())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read as TOML: {error}.") from None


def _sentence(error: ValidationError, origins: Mapping[str, str]) -> str:
    first = error.errors(include_url=False)[0]
    name, *inside = map(str, first["loc"] or "?")
    origin = origins.get(name, "default")
    if first["type"] == "extra_forbidden":
        return f"There is no setting named {name!r} ({origin}); see .venv/bin/python -m engine --config."
    shown = ENV_PREFIX + name.upper() if origin == "environment" else name
    shown = ".".join([shown, *inside])
    what = first["msg"].removeprefix("Value error, ")
    if name == "token":  # which must not be in a log, however wrong
        return f"The setting {shown} ({origin}) {what[0].lower()}{what[1:]}."
    return f"The setting {shown} ({origin}) is {first['input']!r}: {what[0].lower()}{what[1:]}."
