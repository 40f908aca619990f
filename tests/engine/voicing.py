"""A fake of what the pipeline's stages ask for: virtual time, and audio that can be reckoned."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace

import numpy as np
import trio

from engine import pipeline, timing
from engine.lane import Pace
from engine.live import TextFeed
from engine.request import Delivery, Event, LiveRequest, SpeechRequest
from engine.text.clean import has_letters_or_digits
from engine.text.languages import LANGUAGES
from engine.text.lexicon import Lexicon
from engine.text.passage import Passage, Reading, Warn
from engine.text.segment import Mark
from engine.text.words import Word
from engine.utterance import Manner, Piece, Speech, Utterance
from tests.support.reading import Heard

#: samples of each end of what may be sound that are silence and cut off, unless told otherwise
QUIET = 700
#: frames that every phoneme lasts: 0.1 s
FRAMES = 4
#: a sample that is heard
PCM = np.int16(16_000).astype("<i2").tobytes()

WORDS = "words"
ACOUSTIC = "acoustic"
PIECE = "piece"


@dataclass
class Voicing:
    """Speaks 0.1 s a letter or mark; words of `x` alone have no phonemes, `z` has no sound.

    Attributes:
        words_s: what a sentence takes.
        acoustic_s: what a segment takes.
        known_s: and what must be in hand for that; else only a word may be a segment.
        piece_s: what a piece takes.
        piece_samples: length of a piece.
        quiet: samples that are cut off at each end.
        fail_at: who does a step with this letter …
        fail_in: … of this kind …
        failure: … raises this.
        remembers: whether speech is kept.
        log: when each step was done: (time, kind, what).
        asked: deadline and class of each acoustic pass.
        manners: voice and speed of each acoustic pass.
        due: when each piece was due as it was begun, and its class.
    """

    words_s: float = 0.0
    acoustic_s: float = 0.0
    known_s: float = 0.0
    piece_s: float = 0.0
    piece_samples: int = 2400
    quiet: int = QUIET
    fail_at: str = "\0"
    fail_in: str = PIECE
    failure: Callable[[], Exception] = RuntimeError
    remembers: bool = False
    log: list[tuple[float, str, str]] = field(default_factory=list)
    asked: list[tuple[float, bool]] = field(default_factory=list)
    manners: list[tuple[str, float]] = field(default_factory=list)
    due: list[tuple[float, bool]] = field(default_factory=list)
    kept: dict[str, Speech] = field(default_factory=dict)

    async def passages(self, read: Callable[[], list[Passage]]) -> list[Passage]:
        return read()

    async def read(self, passage: Passage, utterance: Utterance) -> Reading:
        await self._step(WORDS, passage.text.text, self.words_s)
        return letters(passage)

    def reach(self, phonemes: str, voice: str, speed: float, lead_s: float, *, late: bool) -> int:
        return len(phonemes) if lead_s >= self.known_s else int(late)

    async def prepare(
        self, phonemes: str, voice: str, speed: float, pace: Pace, *, batch: bool
    ) -> Speech:
        self.asked.append((pace.next_due_s(trio.current_time()), batch))
        self.manners.append((voice, speed))
        if phonemes in self.kept:
            return self.kept[phonemes]
        await self._step(ACOUSTIC, phonemes, self.acoustic_s)
        durations = np.full(len(phonemes) + 2, FRAMES, np.int64)
        return Speech(phonemes, durations, speed, compute_s=self.acoustic_s)

    async def pieces(self, speech: Speech, pace: Pace, *, batch: bool) -> AsyncGenerator[Piece]:
        if speech.pcm is not None:
            yield Piece(speech.pcm, 0.0, speech.start)
            return
        first, stop = kept(speech, self.quiet)
        whole = b""
        for at in range(first, stop, self.piece_samples):
            self.due.append((pace.due_s(trio.current_time()), batch))
            await self._step(PIECE, speech.phonemes, self.piece_s)
            if "z" not in speech.phonemes:
                pcm = PCM * min(self.piece_samples, stop - at)
                whole += pcm
                yield Piece(pcm, self.piece_s, first)
        if self.remembers:
            self.kept[speech.phonemes] = replace(speech, pcm=whole, start=first, compute_s=0.0)

    async def _step(self, kind: str, what: str, seconds: float) -> None:
        await trio.sleep(seconds)
        if kind == self.fail_in and self.fail_at in what:
            raise self.failure()
        self.log.append((trio.current_time(), kind, what))

    def done(self, kind: str) -> list[str]:
        """What was done of a kind, in order."""
        return [what for _, k, what in self.log if k == kind]

    def times(self, kind: str) -> list[float]:
        """And when, in ms."""
        return [round(at, 3) for at, k, _ in self.log if k == kind]


def letters(passage: Passage) -> Reading:
    """Words whose phonemes are their letters and marks."""
    text = passage.text
    found = [
        match for match in re.finditer(r"([^\W_]+)[.,;:!?…]*", text.text) if match[1].strip("x")
    ]
    words = [
        Word(*text.origin(*match.span(1)), match[0] + " " * (n < len(found)))
        for n, match in enumerate(found, 1)
    ]
    warnings = list(passage.warnings)
    if not words and has_letters_or_digits(text.text):
        warnings.append(Warn("not_spoken", passage.start, passage.end, "Not spoken."))
    return Reading(words, warnings)


def kept(speech: Speech, quiet: int = QUIET) -> tuple[int, int]:
    """Samples of the uncut audio that are given."""
    start, stop = speech.span
    return start + quiet, stop - quiet


def sound_samples(phonemes: str, speed: float = 1.0) -> int:
    """Length of the audio of a segment, without the pause before it."""
    durations = np.full(len(phonemes) + 2, FRAMES, np.int64)
    start, stop = kept(Speech(phonemes, durations, speed))
    return stop - start


def utterance(text: str, *, budget_s: float = 0.0, **fields: object) -> Utterance:
    """A request; the fake does not ask who speaks."""
    fields = {"phonemes": True} | fields
    request = SpeechRequest(text=text, **fields)  # type: ignore[arg-type]  # a test's shorthand
    return _resolved(request, TextFeed.of(text), budget_s=budget_s)


def live_utterance(
    feed: TextFeed, *, max_buffer_delay_s: float = 3.0, budget_s: float = 0.0, **fields: object
) -> Utterance:
    """A request for text that comes in pieces."""
    fields = {"phonemes": True} | fields
    request = LiveRequest(**fields)  # type: ignore[arg-type]  # a test's shorthand
    return _resolved(request, feed, max_buffer_delay_s=max_buffer_delay_s, budget_s=budget_s)


def _resolved(
    request: Delivery, feed: TextFeed, *, budget_s: float, max_buffer_delay_s: float = math.inf
) -> Utterance:
    return Utterance(
        request=request,
        feed=feed,
        manner=Manner("af_heart", 1.0 if request.speed is None else request.speed),
        language=LANGUAGES[0],
        lexicon=Lexicon(),
        frame_samples=1200,
        max_buffer_delay_s=max_buffer_delay_s,
        budget_s=budget_s,
    )


async def events_of(spoken: Utterance | str, voicing: Voicing) -> list[Event]:
    """All events."""
    return (await heard_of(spoken, voicing)).events


async def heard_of(spoken: Utterance | str, voicing: Voicing) -> Heard:
    """All events."""
    spoken = utterance(spoken) if isinstance(spoken, str) else spoken
    async with pipeline.run(spoken, voicing) as events:
        return Heard([event async for event in events])


def paragraphs(letters: str, length: int = 40) -> str:
    """A text of which each letter is a segment that does not wait for the next one."""
    return "\n\n".join(letter.upper() + letter * (length - 1) + "." for letter in letters)


def pause(mark: Mark, speed: float = 1.0) -> int:
    """Samples of silence at a mark."""
    return timing.pause_samples(mark, speed)
