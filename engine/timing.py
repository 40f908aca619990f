"""Where phonemes, words and silences are in the samples of a segment. Core.

The acoustic model returns `durations`, int [n + 2]: frames for each of n phonemes (one character
is one token) and for the padding token on either side. A frame is 600 samples at 24 kHz, and
`durations.sum() * 600` is the length of the segment's audio, which is called uncut here.

The numbers in this module were measured with the published model: 660 utterances of ten English
voices at speed 1, and 48 at speeds from 0.25 to 4. Sound is what is louder than -50 dB of full
scale.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.audio import ms_to_samples
from engine.text.alphabet import SILENT
from engine.text.segment import Mark, WordSpan

FRAME_SAMPLES = 600

#: a phoneme sounds so long before its frames: in ten voices the middle of fricatives and the
#: envelope's best correlation with the vowels are 50 to 75 ms early (at speed 0.7 65, at 1.5 40)
LEAD_SAMPLES = ms_to_samples(60)

#: sound begins up to 163 ms before the frames of the first token (median 60); when speech is slow
#: the model still begins as early in the audio as it would at speed 1
_EARLIEST_SAMPLES = ms_to_samples(175)
#: sound ends up to 254 ms after the first frame of the last phoneme (median by voice 45 to 180),
#: even if its frames are 700 ms; what voices with a hiss make after that is noise
_LATEST_SAMPLES = ms_to_samples(270)
#: before the first frame of the last phoneme there is sound, but for so much (184 ms at most)
_HELD_SAMPLES = ms_to_samples(200)

AUDIBLE = 0.003
#: silence that is kept before the first sound and after the last
PREROLL_SAMPLES = ms_to_samples(15)
RELEASE_SAMPLES = ms_to_samples(20)
#: raised cosines at the two ends
FADE_IN_SAMPLES = ms_to_samples(5)
FADE_OUT_SAMPLES = ms_to_samples(10)

#: median silence of the model itself between two clauses with such a mark between them (24 pairs,
#: af_heart, am_michael and bm_george; the pauses of bf_emma are full of breath); for `.` 268, `?`
#: 270, `;` 278, `:` 259, `…` 252, `—` 228, `,` 219, none 147. It knows no paragraphs: two sentences.
_PAUSE_MS = {
    Mark.START: 0.0,
    Mark.NONE: 140.0,
    Mark.COMMA: 220.0,
    Mark.CLAUSE: 255.0,
    Mark.SENTENCE: 270.0,
    Mark.PARAGRAPH: 540.0,
}


def _edges(durations: NDArray[np.integer]) -> NDArray[np.int64]:
    """First sample of each phoneme's frames, and one past the last: int64 [n + 1]."""
    return np.cumsum(durations, dtype=np.int64)[:-1] * FRAME_SAMPLES


def phoneme_samples(durations: NDArray[np.integer]) -> NDArray[np.int64]:
    """Where the phonemes sound in the uncut audio, int64 [n, 2]: first sample, one past the last.

    Args:
        durations: int [n + 2], frames.
    """
    edges = np.maximum(_edges(durations) - LEAD_SAMPLES, 0)
    return np.stack([edges[:-1], edges[1:]], axis=1)


def word_samples(
    words: Sequence[WordSpan], durations: NDArray[np.integer], kept: tuple[int, int]
) -> list[tuple[int, int]]:
    """Where the words sound in the kept audio: (first sample, one past the last) of each.

    Args:
        words: of the segment.
        durations: int [n + 2], frames.
        kept: samples of the uncut audio that are kept; 0 of the result is the first of them.
    """
    edges = np.clip(_edges(durations) - LEAD_SAMPLES, *kept) - kept[0]
    return [(int(edges[w.phoneme_start]), int(edges[w.phoneme_end])) for w in words]


def spoken_span(
    phonemes: str, durations: NDArray[np.integer], speed: float = 1.0
) -> tuple[int, int]:
    """First sample of the uncut audio that may be sound, and one past the last.

    This is known before there is any audio, and is what has to be decoded; `Trimmer` takes off
    the silence that is left.

    Args:
        phonemes: n of them, one at least that is not silent.
        durations: int [n + 2], frames.
        speed: that the durations were made with.
    """
    edges, last = _edges(durations), _last_sound(phonemes)
    slow = min(speed, 1.0)
    start = max(0, round(edges[0] * slow) - _EARLIEST_SAMPLES)
    stop = min(edges[last] + round(_LATEST_SAMPLES / slow), edges[last + 1] + LEAD_SAMPLES)
    return start, int(min(stop, np.sum(durations) * FRAME_SAMPLES))


def _last_sound(phonemes: str) -> int:
    return len(phonemes.rstrip(SILENT)) - 1


def pause_ms(mark: Mark, speed: float = 1.0, scale: float = 1.0) -> float:
    """Silence that is heard at a mark; see `pause_samples`."""
    return _PAUSE_MS[mark] * scale / speed


def pause_samples(mark: Mark, speed: float, scale: float = 1.0) -> int:
    """Samples of silence between two segments that were trimmed.

    With what `Trimmer` leaves it is as long as the model's own silence at such a mark, so that a
    text sounds alike whether it was cut there or not.

    Args:
        mark: what is between them (`Segment.pause`).
        speed: of the request; the model divides its own pauses by it.
        scale: of the request, 1 is the model's own pause.
    """
    silence = ms_to_samples(pause_ms(mark, speed, scale))
    return max(0, silence - PREROLL_SAMPLES - RELEASE_SAMPLES)


def faded(audio: NDArray[np.float32], *, start: bool, end: bool) -> NDArray[np.float32]:
    """The audio with raised cosines at the ends that are named."""
    audio = audio.copy()
    if start:
        samples = min(FADE_IN_SAMPLES, len(audio))
        audio[:samples] *= _rise(samples)
    if end:
        samples = min(FADE_OUT_SAMPLES, len(audio))
        audio[len(audio) - samples :] *= _rise(samples)[::-1]
    return audio


def _rise(samples: int) -> NDArray[np.float32]:
    turn = np.arange(1, samples + 1) / (samples + 1)
    return (0.5 - 0.5 * np.cos(np.pi * turn)).astype(np.float32)


class Trimmer:
    """Takes the audio of a `spoken_span` in pieces, and gives it without silence at its ends.

    15 ms before the first sound and 20 ms after the last one stay, faded. Only quiet samples that
    may be the end of the segment are held back. What is given does not depend on the pieces.

    Args:
        phonemes: n of them, one at least that is not silent.
        durations: int [n + 2], frames.
        speed: that the durations were made with.

    Attributes:
        start: sample of the uncut audio that is given first; None until something is given.
        at: sample of the uncut audio that is taken next.
    """

    def __init__(self, phonemes: str, durations: NDArray[np.integer], speed: float = 1.0) -> None:
        self.start: int | None = None
        self.at, _ = spoken_span(phonemes, durations, speed)
        self._sound_end = int(_edges(durations)[_last_sound(phonemes)]) - _HELD_SAMPLES
        self._held = np.zeros(0, np.float32)

    def push(self, audio: NDArray[np.float32]) -> NDArray[np.float32]:
        """Takes the next samples; gives those that are complete, perhaps none.

        Args:
            audio: float32 [samples], any number of them.
        """
        self._held = np.concatenate([self._held, audio])
        self.at += len(audio)
        loud = np.flatnonzero(np.abs(self._held) > AUDIBLE)
        if len(loud):
            last = self.at - len(self._held) + int(loud[-1])
            self._sound_end = max(self._sound_end, last + 1)
        if self.start is None:
            quiet = int(loud[0]) if len(loud) else len(self._held)
            self._held = self._held[max(0, quiet - PREROLL_SAMPLES) :]
            if not len(loud) or len(self._held) < FADE_IN_SAMPLES:
                return self._held[:0]
            self.start = self.at - len(self._held)
            self._held = faded(self._held, start=True, end=False)
        return self._give(min(self._sound_end, self.at - FADE_OUT_SAMPLES))

    def end(self) -> NDArray[np.float32]:
        """The rest, after the last `push`; nothing if there was no sound at all."""
        if self.start is None:
            return self._held[:0]
        return faded(self._give(self._sound_end + RELEASE_SAMPLES), start=False, end=True)

    def _give(self, stop: int) -> NDArray[np.float32]:
        """Held samples before sample `stop` of the uncut audio."""
        count = max(0, stop - (self.at - len(self._held)))
        given, self._held = self._held[:count], self._held[count:]
        return given
