"""Text to passages and words, phonemes of a segment to audio, with caches; one turn at a time.

Shell. What the pipeline's stages ask for (`utterance.Voicing`), done with the real model. G2P is
called by one task at a time (espeak-ng keeps global state), the model by whoever has the lane.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np
import trio
from cachetools import TTLCache
from numpy.typing import NDArray

from engine import metrics, timing
from engine.audio import to_pcm
from engine.costs import Drift
from engine.ladder import Costs, Kind, Ladder, Step, Windows
from engine.lane import Pace
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.geometry import COLUMN_SAMPLES
from engine.model.vocoder import Vocoder
from engine.reach import Passes, Reach
from engine.report import CacheSize
from engine.stall import Work
from engine.text.frontend import TextFrontend
from engine.text.passage import Passage, Reading
from engine.turns import Stoppable, Turns
from engine.utterance import Piece, Speech, Utterance
from engine.voices import Voices

T = TypeVar("T")

#: columns of a segment that is decoded whole while others wait (0.8 s), for the warm-up
_WHOLE_COLUMNS = 64
#: seconds after which audio is forgotten
_TTL_S = 3600.0


class Model(NamedTuple):
    """The loaded parts.

    Attributes:
        why: why they run where they do, a sentence.
    """

    acoustic: Acoustic
    vocoder: Vocoder
    predictor: Predictor
    why: str = ""

    @property
    def faults(self) -> tuple[str, ...]:
        """Why parts do not run where they were to, a sentence each."""
        return tuple(filter(None, (self.acoustic.fault, self.vocoder.fault)))


class Synthesis:
    """Speaks segments.

    Args:
        model: loaded.
        build: key of the model's build.
        voices: all of them.
        frontend: reads; its G2P is loaded.
        costs: what the vocoder takes on this machine.
        passes: what the acoustic part takes.
        budget_s: how long the first sound may take if that makes it better.
        cache_bytes: audio that is kept for phrases that come again; 0 keeps none.
        windows: how large they are.

    Attributes:
        drifts: of the acoustic part, by phoneme, and of the vocoder, by column.
    """

    def __init__(
        self,
        model: Model,
        build: str,
        voices: Voices,
        frontend: TextFrontend,
        *,
        costs: Costs,
        passes: Passes,
        budget_s: float,
        cache_bytes: int,
        windows: Windows | None = None,
    ) -> None:
        self._model = model
        self._build = build
        self._voices = voices
        self._frontend = frontend
        self._costs = costs
        self._budget_s = budget_s
        self._turns = Turns()
        self._passes = passes
        self._windows = windows or Windows()
        self._reach = Reach(costs, passes, budget_s, self._windows)
        self.drifts = (
            Drift("acoustic", passes.rate, passes.phoneme_s),
            Drift("vocoder", costs.rate, costs.column_s),
        )
        self._reading = trio.CapacityLimiter(1)
        self._reading_work = Work("text")
        self._audio: TTLCache[str, Speech] = TTLCache(
            cache_bytes, ttl=_TTL_S, timer=trio.current_time, getsizeof=_bytes
        )

    async def passages(self, read: Callable[[], list[Passage]]) -> list[Passage]:
        """What a method of a `Reader` gives."""
        with self._reading_work.asked():
            return await trio.to_thread.run_sync(read, limiter=self._reading)

    async def read(self, passage: Passage, utterance: Utterance) -> Reading:
        """The passage's words with phonemes that the model knows."""
        with self._reading_work.asked():
            return await trio.to_thread.run_sync(
                self._frontend.read,
                passage,
                utterance.language,
                utterance.request.options,
                utterance.lexicon,
                limiter=self._reading,
            )

    def reach(self, phonemes: str, voice: str, speed: float, lead_s: float, *, late: bool) -> int:
        """How many of these phonemes a segment may have; all, if it was spoken before."""
        style = self._voices.style(voice, len(phonemes))
        if self._key(phonemes, style.tobytes(), speed) in self._audio:
            return len(phonemes)
        return self._reach.phonemes(len(phonemes), speed, lead_s, late=late)

    async def prepare(
        self, phonemes: str, voice: str, speed: float, pace: Pace, *, batch: bool
    ) -> Speech:
        """The acoustic pass over a segment; or the whole segment, if it was spoken before.

        If somebody waits in silence for this segment, its first piece is made in the same turn:
        else a stream that comes after this one would have its pass before this one is heard.
        """
        style = self._voices.style(voice, len(phonemes))
        key = self._key(phonemes, style.tobytes(), speed)
        if (known := self._audio.get(key)) is not None:
            metrics.CACHE.labels("hit").inc()
            return known
        metrics.CACHE.labels("miss").inc()
        call = self._model.acoustic.call(phonemes, style, speed)
        due_s = pace.next_due_s(trio.current_time())
        async with self._turns.turn(deadline_s=due_s, batch=batch):
            sound = await self._turns.run(call)
            self._passes.took(len(phonemes), call.seconds)
            self._passes.gave(len(phonemes), speed, sound.columns)
            speech = Speech(phonemes, sound.durations, speed, key, compute_s=call.seconds)
            decoding = _Decoding(
                self._model, sound, speech, self._costs, self._budget_s, self._windows
            )
            now_s = trio.current_time()
            if not batch and pace.next_due_s(now_s) <= now_s:
                while not decoding.made and not decoding.done:
                    await self._step(decoding, pace.spare_s(trio.current_time()))
        return replace(speech, decoding=decoding)

    async def pieces(self, speech: Speech, pace: Pace, *, batch: bool) -> AsyncGenerator[Piece]:
        """The trimmed audio of a segment in pieces, each as soon as it is there."""
        if speech.pcm is not None:
            if speech.pcm:
                yield Piece(speech.pcm, 0.0, speech.start)
            return
        decoding = speech.decoding
        if not isinstance(decoding, _Decoding):
            raise TypeError("This speech was not prepared here.")
        given: list[Piece] = []
        while decoding.made or not decoding.done:
            if not decoding.made:
                due_s = pace.due_s(trio.current_time())
                async with self._turns.turn(deadline_s=due_s, batch=batch):
                    # Only now, because the lead shrinks while one waits for a turn.
                    spare_s = np.inf if batch else pace.spare_s(trio.current_time())
                    await self._step(decoding, spare_s)
            while decoding.made:
                given.append(decoding.made.pop(0))
                yield given[-1]
        pcm = b"".join(piece.pcm for piece in given)
        whole = replace(speech, pcm=pcm, start=decoding.begins, decoding=None, compute_s=0)
        if _bytes(whole) <= self._audio.maxsize:
            self._audio[speech.key] = whole

    async def _step(self, decoding: _Decoding, spare_s: float) -> None:
        """The next step, in a turn."""
        step = decoding.ladder.next(spare_s)
        assert step is not None  # only asked for what is not done
        call = decoding.decoder.call(step)
        audio = await self._turns.run(call)
        self._costs.took(step, call.seconds)
        decoding.add(step, audio, call.seconds)

    def _key(self, phonemes: str, style: bytes, speed: float) -> str:
        digest = hashlib.blake2b(digest_size=16)
        for part in (self._build.encode(), style, repr(speed).encode(), phonemes.encode()):
            digest.update(len(part).to_bytes(4, "big") + part)
        return digest.hexdigest()

    @property
    def works(self) -> tuple[Work, Work]:
        """What there is to do for the model, and for whatever reads text."""
        return self._turns.work, self._reading_work

    def restart(self) -> None:
        """See `Turns.restart`; what reads text cannot be stopped."""
        self._turns.restart()

    @property
    def model(self) -> Model:
        """The parts by now."""
        return self._model

    def renew(self, model: Model, build: str) -> None:
        """The same model, loaded anew; perhaps of another build, which sounds a little different."""
        self._model, self._build = model, build

    async def in_batch(self, call: Stoppable[T]) -> T:
        """Runs a call of the model that nobody waits for, when the lane has time for it.

        Raises:
            Exception: what the call raises.
        """
        async with self._turns.turn(deadline_s=math.inf, batch=True):
            return await self._turns.run(call)

    @property
    def caches(self) -> tuple[CacheSize, ...]:
        """All that is kept from one request to the next, with its bounds."""
        used, bound = self._audio.currsize, self._audio.maxsize
        audio = CacheSize("audio", int(used), int(bound), "bytes")
        return (audio, self._voices.cache, *self._frontend.caches)

    def forget(self) -> None:
        """Empties the caches."""
        self._frontend.forget()
        self._voices.forget()
        self._audio.clear()


class _Decoding:
    """A segment on its way to audio.

    Args:
        model: loaded.
        sound: of the acoustic pass.
        speech: the segment.
        costs: what the vocoder takes on this machine.
        budget_s: see `Synthesis`.
        windows: how large they are.

    Attributes:
        ladder: which steps there are.
        decoder: does them.
        made: what was decoded and not yet given to anybody.
    """

    def __init__(
        self,
        model: Model,
        sound: Acoustics,
        speech: Speech,
        costs: Costs,
        budget_s: float,
        windows: Windows,
    ) -> None:
        self._start, self._stop = start, stop = speech.span
        first, last = start // COLUMN_SAMPLES, -(-stop // COLUMN_SAMPLES)
        self.ladder = Ladder(sound.columns, first, last, costs, budget_s, windows)
        self.decoder = Decoder(model.vocoder, model.predictor, sound)
        self._trimmer = timing.Trimmer(speech.phonemes, speech.durations, speech.speed)
        self._seconds = 0.0
        self.made: list[Piece] = []

    @property
    def done(self) -> bool:
        """Whether no step is left."""
        return self.ladder.done

    @property
    def begins(self) -> int | None:
        """Sample of the uncut audio that the first piece begins with; None if all is silence."""
        return self._trimmer.start

    def add(self, step: Step, audio: NDArray[np.float32], seconds: float) -> None:
        """What a step gave, and how long it took."""
        self._seconds += seconds
        first = step.start * COLUMN_SAMPLES
        kept = audio[max(0, self._start - first) : max(0, self._stop - first)]
        kept = self._trimmer.push(kept)
        if self.done:
            kept = np.concatenate([kept, self._trimmer.end()])
        if len(kept):
            self.made.append(Piece(to_pcm(kept), self._seconds, self._trimmer.start))
            self._seconds = 0.0


def _bytes(speech: Speech) -> int:
    return len(speech.pcm or b"") + speech.durations.nbytes + 200


def warm_up(model: Model, sound: Acoustics, windows: Windows) -> Costs:
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
    for size in windows.sizes:
        seconds(Kind.PREDICTED, size)
    one = min(seconds(Kind.STAGE_ONE, columns) for _ in range(2)) / columns
    two = min(seconds(Kind.EXACT, size) / (min(size, columns) + 4) for size in windows.sizes)
    return Costs(one, two)
