"""What clients can choose from: models and voices, in the shapes that they ask for. Core."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from engine.request import VoiceInfo

#: Every model name is accepted; these are shown to clients that want to choose one.
MODEL_NAMES = ("kokoro", "tts-1", "tts-1-hd", "gpt-4o-mini-tts")
MODEL_CREATED_S = 1_735_689_600  # 2025-01-01, around when Kokoro-82M was published
OWNER = "kokoro-live"


class Model(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="model"):
    """A model, as OpenAI tells of it."""

    id: str
    created: int = MODEL_CREATED_S
    owned_by: str = OWNER


class ModelList(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """The answer of `/v1/models`."""

    data: tuple[Model, ...]


class AudioModel(msgspec.Struct, frozen=True):
    """A model, as OpenWebUI wants it."""

    id: str


class AudioModels(msgspec.Struct, frozen=True):
    """The answer of `/v1/audio/models`."""

    models: tuple[AudioModel, ...]


class VoiceList(msgspec.Struct, frozen=True):
    """The answer of `/v1/audio/voices`."""

    voices: tuple[VoiceInfo, ...]


class VoiceNames(msgspec.Struct, frozen=True):
    """The same with `?legacy=true`, for clients that take names only."""

    voices: tuple[str, ...]


MODELS = ModelList(data=tuple(Model(id=name) for name in MODEL_NAMES))
AUDIO_MODELS = AudioModels(tuple(map(AudioModel, MODEL_NAMES)))


def model(name: str) -> Model | None:
    """The model of that name."""
    return next((model for model in MODELS.data if model.id == name), None)


def voices(known: Sequence[VoiceInfo], *, legacy: bool) -> VoiceList | VoiceNames:
    """The voices, with all that is known of them or by name alone."""
    if legacy:
        return VoiceNames(tuple(voice.id for voice in known))
    return VoiceList(tuple(known))
