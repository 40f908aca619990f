"""Text of a sentence to words, phonemes of a segment to audio, with caches; one turn at a time.

Shell. What the pipeline's stages ask for (`pipeline.Voicing`), done with the real model. G2P is
called by one task at a time (espeak-ng keeps global state), the model by whoever has the lane.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import trio
from cachetools import LRUCache, TTLCache

from engine import metrics, timing
from engine.audio import to_pcm
from engine.ladder import Costs, Kind, Ladder, Step
from engine.lane import Pace
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.geometry import COLUMN_SAMPLES
from engine.model.vocoder import Vocoder
from engine.pipeline import Piece, Speech
from engine.text.clean import has_letters_or_digits
from engine.text.g2p import G2P
from engine.text.languages import Language
from engine.text.segment import Sentence
from engine.text.words import Word
from engine.turns import Turns
from engine.voices import Voices

#: sentences whose words are remembered
_SENTENCES = 4096
#: columns of a segment that is decoded whole while others wait (0.8 s), for the warm-up
_WHOLE_COLUMNS = 64
#: seconds after which audio is forgotten
_TTL_S = 3600.0


class Model(NamedTuple):
    """The loaded parts."""

    acoustic: Acoustic
    vocoder: Vocoder
    predictor: Predictor


class Synthesis:
    """Speaks segments.

    Args:
        model: loaded.
        build: key of the model's build.
        voices: all of them.
        g2p: loaded.
        costs: what the vocoder takes on this machine.
        budget_s: how long the first sound may take if that makes it better.
        cache_bytes: audio that is kept for phrases that come again; 0 turns both caches off.
    """

    def __init__(
        self,
        model: Model,
        build: str,
        voices: Voices,
        g2p: G2P,
        *,
        costs: Costs,
        budget_s: float,
        cache_bytes: int,
    ) -> None:
        self._model = model
        self._build = build
        self._voices = voices
        self._g2p = g2p
        self._costs = costs
        self._budget_s = budget_s
        self._turns = Turns()
        self._reading = trio.CapacityLimiter(1)
        self._words: LRUCache[tuple[str, str], list[Word]] = LRUCache(
            _SENTENCES if cache_bytes else 0
        )
        self._audio: TTLCache[str, Speech] = TTLCache(
            cache_bytes, ttl=_TTL_S, timer=trio.current_time, getsizeof=_bytes
        )

    async def words(self, sentence: Sentence, language: Language) -> list[Word]:
        """The sentence's words with phonemes that the model knows; none if it cannot be spoken."""
        key = (language.tag, sentence.text)
        if (known := self._words.get(key)) is not None:
            return known
        found = await trio.to_thread.run_sync(
            self._g2p.words, sentence.text, language, limiter=self._reading
        )
        words = []
        for word in found:
            phonemes = self._model.acoustic.known(word.phonemes)
            metrics.DROPPED_SYMBOLS.inc(len(word.phonemes) - len(phonemes))
            words.append(Word(word.start, word.end, phonemes))
        words = words if any(has_letters_or_digits(w.phonemes) for w in words) else []
        if self._words.maxsize:
            self._words[key] = words
        return words

    async def prepare(
        self, phonemes: str, voice: str, speed: float, *, deadline_s: float, batch: bool
    ) -> Speech:
        """The acoustic pass over a segment; or the whole segment, if it was spoken before."""
        style = self._voices.style(voice, len(phonemes))
        key = self._key(phonemes, style.tobytes(), speed)
        if (known := self._audio.get(key)) is not None:
            return known
        call = self._model.acoustic.call(phonemes, style, speed)
        sound = await self._turns.run(call, deadline_s=deadline_s, batch=batch)
        return Speech(
            phonemes=phonemes,
            durations=sound.durations,
            speed=speed,
            key=key,
            sound=sound,
            compute_s=call.seconds,
        )

    async def pieces(self, speech: Speech, pace: Pace, *, batch: bool) -> AsyncGenerator[Piece]:
        """The trimmed audio of a segment in pieces, each as soon as it is there."""
        if speech.pcm is not None:
            if speech.pcm:
                yield Piece(speech.pcm, 0.0, speech.start)
            return
        sound = speech.sound
        if not isinstance(sound, Acoustics):
            raise TypeError("This speech was not prepared here.")
        start, stop = speech.span
        ladder = Ladder(
            sound.columns,
            start // COLUMN_SAMPLES,
            -(-stop // COLUMN_SAMPLES),
            self._costs,
            self._budget_s,
        )
        decoder = Decoder(self._model.vocoder, self._model.predictor, sound)
        trimmer = timing.Trimmer(speech.phonemes, speech.durations, speech.speed)
        given: list[bytes] = []
        seconds = 0.0
        while not ladder.done:
            async with self._turns.turn(deadline_s=pace.due_s, batch=batch):
                # Only now, because the lead shrinks while one waits for a turn.
                step = ladder.next(np.inf if batch else pace.spare_s(trio.current_time()))
                assert step is not None
                call = decoder.call(step)
                audio = await self._turns.run_held(call)
            self._costs.took(step, call.seconds)
            seconds += call.seconds
            first = step.start * COLUMN_SAMPLES
            audio = trimmer.push(audio[max(0, start - first) : max(0, stop - first)])
            if ladder.done:
                audio = np.concatenate([audio, trimmer.end()])
            if len(audio):
                given.append(to_pcm(audio))
                yield Piece(given[-1], seconds, trimmer.start)
                seconds = 0.0
        whole = replace(speech, pcm=b"".join(given), start=trimmer.start, sound=None, compute_s=0)
        if _bytes(whole) <= self._audio.maxsize:
            self._audio[speech.key] = whole

    def _key(self, phonemes: str, style: bytes, speed: float) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for part in (self._build.encode(), style, repr(speed).encode(), phonemes.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        return digest.hexdigest()

    def forget(self) -> None:
        """Empties both caches."""
        self._words.clear()
        self._audio.clear()


def _bytes(speech: Speech) -> int:
    return len(speech.pcm or b"") + speech.durations.nbytes + 200


def warm_up(model: Model, sound: Acoustics) -> Costs:
    """Runs every size of window once, and gives what the stages cost. Blocking.

    ONNX Runtime allocates at the first call of each size; without this the first user waits for
    it.
    """
    decoder = Decoder(model.vocoder, model.predictor, sound)
    columns = sound.columns

    def seconds(kind: Kind, size: int) -> float:
        call = decoder.call(Step(kind, 0, min(size, columns)))
        call.run()
        return call.seconds

    short = sound.part(_WHOLE_COLUMNS)
    whole = Step(Kind.WHOLE, 0, short.columns)
    Decoder(model.vocoder, model.predictor, short).call(whole).run()
    for size in (16, 32, 64, 96):
        seconds(Kind.PREDICTED, size)
    one = min(seconds(Kind.STAGE_ONE, columns) for _ in range(2)) / columns
    two = min(seconds(Kind.EXACT, size) / (min(size, columns) + 4) for size in (16, 32, 64, 96))
    return Costs(one, two)
