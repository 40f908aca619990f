"""The engine in this process: model, voices, G2P and the streams that share them. Shell.

Implements `SpeakLive` and `Describe`; `synthesis` does what the pipeline's stages ask for.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import NamedTuple, assert_never

import numpy as np
import onnxruntime as ort
import structlog
import trio
from numpy.typing import NDArray

from engine import metrics, pipeline
from engine.audio import ms_to_samples
from engine.config import Settings
from engine.errors import (
    AssetError,
    EngineError,
    InvalidRequest,
    SetupError,
    TextTooLong,
)
from engine.history import Series
from engine.ladder import Costs, Windows
from engine.live import FedStream, TextFeed
from engine.model import assets, placement
from engine.model.acoustic import Acoustic
from engine.model.adain import Predictor
from engine.model.marker import InUse
from engine.model.providers import PERIOD_S
from engine.model.runtime import Open, session
from engine.model.vocoder import Vocoder
from engine.reach import Passes, phoneme_s
from engine.request import (
    MAX_BUFFER_DELAY_MS,
    MAX_PAUSE_SCALE,
    Done,
    Event,
    LiveRequest,
    ModelInfo,
    Notice,
    SpeechRequest,
    Stream,
    refuse_speed,
)
from engine.selfbench import FILE, Bench
from engine.stall import Work
from engine.synthesis import Model, Synthesis, warm_up
from engine.tally import StreamTally, Tally
from engine.text import languages
from engine.text import lexicon as lexicons
from engine.text.frontend import REMEMBERED, TextFrontend
from engine.text.g2p import G2P
from engine.text.lexicon import Lexicon
from engine.text.lexicon_file import LexiconFile
from engine.text.runs import refuse_unreadable
from engine.upkeep import Upkeep, trim
from engine.utterance import Manner, Utterance
from engine.voices import Voices

log = structlog.get_logger("engine")


class KokoroService:
    """Speaks. Made by `load`.

    Attributes:
        tally: what streams took.
        active: streams that are being made.
        upkeep: to be run as long as it is kept.
    """

    def __init__(
        self,
        synthesis: Synthesis,
        voices: Voices,
        info: ModelInfo,
        settled: placement.Settled,
        settings: Settings,
        fallbacks: tuple[str, ...] = (),
        in_use: InUse | None = None,
    ) -> None:
        self._fallbacks = fallbacks
        self._settled = settled
        self._in_use = in_use or InUse(settings.cache_dir)
        self.tally = Tally()
        self.active = 0
        self.model = info
        self.voices = voices.infos()
        self.voices_hash = voices.hash
        style = partial(voices.style, voices.resolve(settings.voice))
        self.upkeep = Upkeep(
            synthesis,
            style,
            lambda: self.active,
            limit_bytes=settings.memory_limit_mb * 1_000_000,
            bench=self._bench(synthesis, style, settings),
        )
        self._synthesis = synthesis
        self._voices = voices
        self._settings = settings
        self._lexicon = LexiconFile(settings.lexicon, time.monotonic)
        self._looking = trio.CapacityLimiter(1)

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `engine.request.SpeakLive`."""
        self.upkeep.make_way()
        lexicon = await trio.to_thread.run_sync(
            lambda: lexicons.requested(request.options.lexicon).over(self._lexicon.current()),
            limiter=self._looking,
        )
        utterance = self._resolve(request, lexicon)
        outcome = "cancelled"
        took = StreamTally(self.tally)

        async def watched(events: AsyncIterator[Event]) -> AsyncGenerator[Event]:
            nonlocal outcome
            async for event in events:
                took.saw(event, trio.current_time())
                if isinstance(event, Done):
                    outcome = "done"
                yield event

        metrics.ACTIVE.inc()
        self.active += 1
        try:
            async with (
                pipeline.run(utterance, self._synthesis) as running,
                aclosing(watched(running)) as told,
            ):
                configure = partial(self._configure, utterance)
                yield FedStream(told, utterance.feed, configure, running.heard)
        except EngineError as error:
            outcome = error.code
            raise
        finally:
            self.active -= 1
            metrics.ACTIVE.dec()
            metrics.STREAMS.labels(outcome).inc()

    def _bench(
        self,
        synthesis: Synthesis,
        style: Callable[[int], NDArray[np.float32]],
        settings: Settings,
    ) -> Bench | None:
        every = settings.selfbench
        if every == "off":
            return None

        def series() -> Series:
            return Series(
                hardware=placement.hardware(),
                runtime=ort.__version__,
                arithmetic=np.__version__,
                build=self._settled.build.key,
                acoustic=synthesis.model.acoustic.provider,
                vocoder=synthesis.model.vocoder.provider,
                threads=self._settled.threads,
                spinning=self._settled.spinning,
                precision="hybrid" if self._settled.form.hybrid else "float32",
            )

        period_s = PERIOD_S[every]
        file = settings.state_dir.expanduser() / FILE
        return Bench(synthesis, style, series, (every, period_s), file, lambda: self.active)

    @property
    def fallbacks(self) -> tuple[str, ...]:
        """What is not as it should be by now, a sentence each."""
        return (*self._fallbacks, *self._synthesis.model.faults, *self.upkeep.faults)

    @property
    def provider_why(self) -> str:
        """Why the model runs where it does by now."""
        model = self._synthesis.model
        return " ".join(model.faults) or model.why

    @property
    def works(self) -> tuple[Work, Work]:
        """See `Synthesis.works`."""
        return self._synthesis.works

    def restart(self) -> None:
        """Sets the lane going when it stands still; the stream whose call is stopped fails."""
        self._synthesis.restart()

    async def reload(self) -> None:
        """Loads the model anew, for streams that begin from now on.

        Raises:
            SetupError: it cannot be loaded any more.
        """

        def renewed() -> _Loaded:
            loaded = _read_model(self._settings, lambda *_: None, self._in_use)
            _warmed_up(loaded.model, loaded.voices, self._settings)
            return loaded

        loaded = await trio.to_thread.run_sync(renewed)
        self.model, self._settled = loaded.info, loaded.settled
        self._synthesis.renew(loaded.model, loaded.info.build)

    def _resolve(self, request: SpeechRequest | LiveRequest, lexicon: Lexicon) -> Utterance:
        if not 0 <= request.options.pause_scale <= MAX_PAUSE_SCALE:
            raise InvalidRequest(
                f"The pause_scale is {request.options.pause_scale:g}; it must be from 0 to "
                f"{MAX_PAUSE_SCALE:g}.",
                param="options",
            )
        voice = self._voices.resolve(request.voice or self._settings.voice)
        speed = self._voices.speed(voice) if request.speed is None else request.speed
        refuse_speed(speed)
        language = languages.resolve(request.lang, voice)
        delay_s = math.inf
        match request:
            case SpeechRequest(text=text):
                refuse_unreadable(text, language)
                feed = self._feed_of(text)
            case LiveRequest(max_buffer_delay_ms=delay_ms):
                if not 0 <= delay_ms <= MAX_BUFFER_DELAY_MS:
                    raise InvalidRequest(
                        f"The max_buffer_delay_ms is {delay_ms}; it must be from 0 to "
                        f"{MAX_BUFFER_DELAY_MS}.",
                        param="max_buffer_delay_ms",
                    )
                delay_s = delay_ms / 1000
                feed = TextFeed(
                    waiting_chars=self._settings.text_chars, total_chars=self._settings.live_chars
                )
            case _ as never:
                assert_never(never)
        foreign = languages.mismatch(language, voice)
        return Utterance(
            request=request,
            feed=feed,
            manner=Manner(voice, speed),
            language=language,
            lexicon=lexicon,
            frame_samples=ms_to_samples(self._settings.frame_ms),
            max_buffer_delay_s=delay_s,
            budget_s=self._settings.first_audio_ms / 1000,
            first_segment=self._settings.first_segment,
            notices=(Notice(code="voice_language", message=foreign),) if foreign else (),
        )

    def _feed_of(self, text: str) -> TextFeed:
        limit = self._settings.text_chars
        if not text.strip():
            raise InvalidRequest("There is no text to speak.", param="text")
        if len(text) > limit:
            raise TextTooLong(
                f"The text has {len(text)} characters; the limit is {limit}.", param="text"
            )
        return TextFeed.of(text)

    def _configure(self, utterance: Utterance, voice: str | None, speed: float | None) -> None:
        resolved = utterance.manner.voice if voice is None else self._voices.resolve(voice)
        if speed is not None:
            refuse_speed(speed)
            utterance.manner.speed = speed
        utterance.manner.voice = resolved


#: warms every path up: about as long as the largest window, with a word for espeak-ng
_WARM_UP = "The zyxophone is warm and ready."
_WARM_UP_PHONEMES = "ðə zˈIksəfˌOn ɪz wˈɔɹm ænd ɹˈɛdi."


async def load(
    settings: Settings,
    progress: assets.Progress = lambda *_: None,
    warming: Callable[[], None] = lambda: None,
) -> KokoroService:
    """Fetches and prepares what is missing, loads everything, and warms it up.

    The first user need not wait for anything that the tenth does not wait for.

    Args:
        settings: all of them.
        progress: told of downloads; called in a thread.
        warming: called when all is read, and is tried out.

    Raises:
        SetupError: something cannot be had; the sentence says what to do.
    """
    g2p = G2P(settings.g2p)
    in_use = InUse(settings.cache_dir)
    loaded: _Loaded | SetupError
    # Both take about two seconds, the one in native code and the other in Python.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, g2p.load)
        try:
            loaded = await trio.to_thread.run_sync(_read_model, settings, progress, in_use)
        except SetupError as error:  # not through the nursery, which would wrap it
            loaded = error
            nursery.cancel_scope.cancel()
    if isinstance(loaded, SetupError):
        raise loaded
    model, voices, info, settled, fault = loaded
    warming()
    costs, passes = await trio.to_thread.run_sync(_warmed_up, model, voices, settings)
    frontend = TextFrontend(g2p, remembered=REMEMBERED if settings.cache_mb else 0)
    synthesis = Synthesis(
        model,
        info.build,
        voices,
        frontend,
        costs=costs,
        passes=passes,
        budget_s=settings.first_audio_ms / 1000,
        cache_bytes=settings.cache_mb * 1_000_000,
        windows=Windows.of(settings.first_window_ms, settings.window_share),
    )
    fallbacks = tuple(filter(None, (g2p.fault, fault)))
    service = KokoroService(synthesis, voices, info, settled, settings, fallbacks, in_use)
    async with service(SpeechRequest(text=_WARM_UP)) as events:
        async for _ in events:
            pass
    synthesis.forget()
    service.tally = Tally()
    # spaCy and the lexicon are 108,000 objects that live for ever: without this, a full garbage
    # collection stops every thread for 50 to 107 ms (measured).
    gc.collect()
    gc.freeze()
    trim()
    return service


def _warmed_up(model: Model, voices: Voices, settings: Settings) -> tuple[Costs, Passes]:
    """Runs every size of window; what the stages and a pass cost. Blocking."""
    style = voices.style(voices.resolve(settings.voice), len(_WARM_UP_PHONEMES))
    call = model.acoustic.call(_WARM_UP_PHONEMES, style, 1.0)
    sound = call.run()
    costs = warm_up(model, sound, Windows.of(settings.first_window_ms, settings.window_share))
    return costs, Passes(phoneme_s(len(_WARM_UP_PHONEMES), call.seconds))


class _Loaded(NamedTuple):
    model: Model
    voices: Voices
    info: ModelInfo
    settled: placement.Settled
    fault: str


def _read_model(settings: Settings, progress: assets.Progress, in_use: InUse) -> _Loaded:
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir, progress=progress)
    settled = placement.settle(found, settings, progress)
    fault = settled.fault
    try:
        acoustic, vocoder = _parts(settled, in_use)
    except AssetError as error:  # the file is damaged, or a part of it is gone
        log.warning("the prepared model cannot be loaded and is prepared anew", error=error.message)
        built, form = placement.prepared(
            found, settings, settled.form, progress, force=True, anywhere=settled.build.is_portable
        )
        settled = replace(settled, build=built, form=form)
        acoustic, vocoder = _parts(settled, in_use)
        fault = f"{fault} The prepared model was damaged and has been prepared anew.".lstrip()
    info = ModelInfo(
        name="kokoro-82m-v1.0",
        build=settled.build.key,
        precision=found.precision,
        provider=" and ".join(dict.fromkeys([acoustic.provider, vocoder.provider])),
    )
    voices = Voices(found.voices, settings.voice_speeds)
    model = Model(acoustic, vocoder, Predictor(), f"{settled.why} {settled.form.why}".lstrip())
    return _Loaded(model, voices, info, settled, fault)


def _parts(settled: placement.Settled, in_use: InUse) -> tuple[Acoustic, Vocoder]:
    built, threads = settled.build, settled.threads
    stages = built.part("stage_one"), built.part("stage_two")
    opens: Open = partial(session, spinning=settled.spinning)
    if settled.mark:
        opens = in_use.opens(settled.mark, opens)
    acoustic = Acoustic(built.part("acoustic"), threads, settled.acoustic, opens)
    return acoustic, Vocoder(*stages, threads, settled.vocoder, opens)
