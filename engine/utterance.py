"""What the stages of an utterance take and give, and what they need from the engine. Shell.

`pipeline` runs the stages; `synthesis` does what they ask for (`Voicing`) with the real model, and
the tests have a fake of it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from engine import timing
from engine.audio import pcm_samples
from engine.lane import Pace
from engine.live import TextFeed
from engine.request import Delivery, Notice
from engine.text.languages import Language
from engine.text.lexicon import Lexicon
from engine.text.passage import Passage, Reading
from engine.text.segment import FIRST_LIMIT


@dataclass(frozen=True, slots=True)
class Speech:
    """A segment that is ready to be decoded, or was decoded before.

    Attributes:
        phonemes: what is spoken.
        durations: int [phonemes + 2], frames of 600 samples (`engine.timing`).
        speed: that they were made with.
        key: names the same speech, made again.
        decoding: what makes audio of it; the maker's own.
        pcm: the trimmed audio, if it is there already.
        start: sample of the uncut audio that `pcm` begins with.
        compute_s: what the acoustic pass took.
    """

    phonemes: str
    durations: NDArray[np.int64]
    speed: float = 1.0
    key: str = ""
    decoding: object = None
    pcm: bytes | None = None
    start: int | None = None
    compute_s: float = 0.0

    @property
    def span(self) -> tuple[int, int]:
        """First sample of the uncut audio that may be sound, and one past the last."""
        return timing.spoken_span(self.phonemes, self.durations, self.speed)

    @property
    def samples(self) -> int:
        """Length of the trimmed audio; before there is any, the most it can be."""
        start, stop = self.span
        return stop - start if self.pcm is None else pcm_samples(self.pcm)


class Piece(NamedTuple):
    """Trimmed audio.

    Attributes:
        pcm: never empty.
        compute_s: what the model took for it, without waiting for its turn.
        start: sample of the uncut audio that the segment's first piece begins with.
    """

    pcm: bytes
    compute_s: float
    start: int | None


class Voicing(Protocol):
    """What the stages need from the engine; each call may wait for its turn."""

    async def passages(self, read: Callable[[], list[Passage]]) -> list[Passage]:
        """What a method of a `Reader` gives."""
        ...

    async def read(self, passage: Passage, utterance: Utterance) -> Reading:
        """Words with phonemes that the model knows; none if there is nothing to speak."""
        ...

    def reach(self, phonemes: str, voice: str, speed: float, lead_s: float, *, late: bool) -> int:
        """How many of these phonemes a segment may have, so that it comes in time.

        Args:
            phonemes: which come next.
            voice: that will speak them …
            speed: … and how fast.
            lead_s: what the listener has in hand.
            late: whether it may be late, if none are in time: then as many as are least so.

        Returns:
            0 if it will be late, and may not, or no part of it would be less so; more than there
            are is all.
        """
        ...

    async def prepare(
        self, phonemes: str, voice: str, speed: float, pace: Pace, *, batch: bool
    ) -> Speech:
        """Durations, and all that decoding needs; due when all that is planned was played."""
        ...

    def pieces(self, speech: Speech, pace: Pace, *, batch: bool) -> AsyncGenerator[Piece]:
        """The trimmed audio, piece by piece; none if the segment has no sound."""
        ...


@dataclass(slots=True)
class Manner:
    """How the next segment is spoken; may be changed at any time."""

    voice: str
    speed: float


@dataclass(frozen=True, slots=True)
class Utterance:
    """A request with everything resolved.

    Attributes:
        request: how it is to be spoken.
        feed: what.
        lexicon: the user's pronunciations, and the request's.
        max_buffer_delay_s: how long text may wait for the rest of its sentence.
        budget_s: how long the first sound may take if that makes it better.
        first_segment: phonemes of the first segment at most.
        notices: what the listener should know of the request.
    """

    request: Delivery
    feed: TextFeed
    manner: Manner
    language: Language
    lexicon: Lexicon
    frame_samples: int
    max_buffer_delay_s: float = math.inf
    budget_s: float = 0.0
    first_segment: int = FIRST_LIMIT
    notices: tuple[Notice, ...] = ()

    @property
    def batch(self) -> bool:
        """Whether nobody listens while it is made."""
        return self.request.priority == "batch"
