"""The engine in this process: model, voices, G2P and the streams that share them. Shell.

Implements `Speak`, `Describe` and what the pipeline's stages ask for. One inference runs at a
time, with all cores (two at once are slower in sum), and one G2P call at a time (espeak-ng keeps
global state); whoever waits is served in order of arrival.
"""

from __future__ import annotations

import gc
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import numpy as np
import structlog
import trio
from numpy.typing import NDArray

from engine import metrics, pipeline
from engine.audio import ms_to_samples
from engine.config import Settings
from engine.errors import (
    EngineError,
    InvalidRequest,
    SetupError,
    SynthesisFailed,
    TextTooLong,
    blame,
)
from engine.model import assets
from engine.model.kokoro import KokoroModel
from engine.request import MAX_SPEED, MIN_SPEED, Done, Event, ModelInfo, SpeechRequest
from engine.text import languages
from engine.text.clean import has_letters_or_digits
from engine.text.g2p import G2P
from engine.text.languages import Language
from engine.voices import Voices

log = structlog.get_logger("engine")


class KokoroService:
    """Speaks. Made by `load`."""

    def __init__(
        self, model: KokoroModel, voices: Voices, g2p: G2P, info: ModelInfo, settings: Settings
    ) -> None:
        self.model = info
        self.voices = voices.infos()
        self.voices_hash = voices.hash
        self._model = model
        self._voices = voices
        self._g2p = g2p
        self._settings = settings
        self._inference = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(1)

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest, /) -> AsyncIterator[AsyncIterator[Event]]:
        """See `engine.request.Speak`."""
        utterance = self._resolve(request)
        outcome = "cancelled"

        async def watched(events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
            nonlocal outcome
            async for event in events:
                if isinstance(event, Done):
                    outcome = "done"
                yield event

        metrics.ACTIVE.inc()
        try:
            async with (
                pipeline.run(utterance, self) as events,
                aclosing(watched(events)) as told,
            ):
                yield told
        except EngineError as error:
            outcome = error.code
            raise
        finally:
            metrics.ACTIVE.dec()
            metrics.STREAMS.labels(outcome).inc()

    def _resolve(self, request: SpeechRequest) -> pipeline.Utterance:
        limit = self._settings.text_chars
        if not request.text.strip():
            raise InvalidRequest("There is no text to speak.", param="text")
        if len(request.text) > limit:
            raise TextTooLong(
                f"The text has {len(request.text)} characters; the limit is {limit}.", param="text"
            )
        if not MIN_SPEED <= request.speed <= MAX_SPEED:
            raise InvalidRequest(
                f"The speed is {request.speed:g}; it must be from {MIN_SPEED:g} to {MAX_SPEED:g}.",
                param="speed",
            )
        voice = request.voice or self._settings.voice
        self._voices.check(voice)
        return pipeline.Utterance(
            request=request,
            voice=voice,
            language=languages.resolve(request.lang, voice),
            frame_samples=ms_to_samples(self._settings.frame_ms),
        )

    # --- what the stages ask for (pipeline.Voicing) --------------------------------------------

    async def phonemes(self, text: str, language: Language) -> str:
        """Phonemes that the model knows; empty if there is nothing to speak."""
        spoken = await trio.to_thread.run_sync(
            self._g2p.phonemes, text, language, limiter=self._reading
        )
        known = self._model.known(spoken)
        metrics.DROPPED_SYMBOLS.inc(len(spoken) - len(known))
        return known if has_letters_or_digits(known) else ""

    def units(self, phonemes: str) -> list[str]:
        """Pieces of at most 510 phonemes; none of them is lost."""
        return self._model.split(phonemes)

    async def infer(
        self, phonemes: str, voice: str, speed: float
    ) -> tuple[NDArray[np.float32], float]:
        """Audio of one unit and its compute time; when cancelled, the model stops in about 20 ms."""
        tokens = self._model.tokens(phonemes)
        call = self._model.call(tokens, self._voices.style(voice, len(tokens)), speed)

        async def stop_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                call.stop()

        made: tuple[NDArray[np.float32], float] | SynthesisFailed
        async with self._inference, trio.open_nursery() as nursery:
            nursery.start_soon(stop_when_cancelled)
            # The thread is not abandoned but stopped: one that is still in the model when the
            # interpreter ends would abort the process.
            with trio.CancelScope(shield=True):
                try:
                    made = await trio.to_thread.run_sync(call.run)
                except SynthesisFailed as error:  # not through the nursery, which would wrap it
                    made = error
            nursery.cancel_scope.cancel()
        await trio.lowlevel.checkpoint_if_cancelled()
        if isinstance(made, SynthesisFailed):
            raise made
        return made


async def load(settings: Settings, *, progress: assets.Progress = lambda *_: None) -> KokoroService:
    """Fetches what is missing, loads everything, and speaks once so that the first user need not.

    Raises:
        SetupError: something cannot be had; the sentence says what to do.
    """
    g2p = G2P()
    loaded: tuple[KokoroModel, Voices, ModelInfo] | SetupError

    async def read_language() -> None:
        try:
            await trio.to_thread.run_sync(g2p.load)
        except Exception as error:  # speech still comes, by the stages behind misaki
            log.warning("misaki cannot be loaded; espeak-ng speaks instead", error=blame(error))

    # Both take about two seconds, the one in native code and the other in Python.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_language)
        try:
            loaded = await trio.to_thread.run_sync(_read_model, settings, progress)
        except SetupError as error:  # not through the nursery, which would wrap it
            loaded = error
            nursery.cancel_scope.cancel()
    if isinstance(loaded, SetupError):
        raise loaded
    model, voices, info = loaded
    service = KokoroService(model, voices, g2p, info, settings)
    voices.check(settings.voice)
    async with service(SpeechRequest(text="Ready.")) as events:
        async for _ in events:
            pass
    # spaCy and the lexicon are 108,000 objects that live for ever: without this, a full garbage
    # collection stops every thread for 50 to 107 ms (measured).
    gc.collect()
    gc.freeze()
    return service


def _read_model(
    settings: Settings, progress: assets.Progress
) -> tuple[KokoroModel, Voices, ModelInfo]:
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir, progress=progress)
    model = KokoroModel(found.model, settings.threads)
    info = ModelInfo(
        name="kokoro-82m-v1.0",
        build=found.sha256[:12],
        precision=found.precision,
        provider=model.provider,
    )
    return model, Voices(found.voices), info
