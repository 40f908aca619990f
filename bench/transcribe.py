"""Hears speech with pocketsphinx, whose wheel brings an English model, and counts wrong words."""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pocketsphinx
import soxr
from numpy.typing import NDArray

from engine.audio import SAMPLE_RATE

#: the rate pocketsphinx's model was trained at
HEARING_RATE = 16_000
QUIET_MS, FRAME_MS = 250, 10
#: a frame looks at 25.6 ms from its start on, so the border of two is so much later than the start
BORDER_MS = (25.6 - FRAME_MS) / 2


def transcribe(audio: NDArray[np.float32], rate: int = SAMPLE_RATE) -> str:
    """Words heard in float32 [n] audio."""
    decoder = _listener()
    _decode(decoder, audio, rate)
    hypothesis = decoder.hyp()
    return str(hypothesis.hypstr) if hypothesis else ""


def aligned(audio: NDArray[np.float32], said: str) -> list[tuple[str, float, float]]:
    """Where each word of `said` is heard in the audio: (word, start, end), ms.

    Args:
        audio: float32 [n], 24 kHz.
        said: words of the recogniser's dictionary, lower case.
    """
    decoder = _aligner()
    decoder.reinit_feat()  # else what it heard before moves a border by a frame now and then
    decoder.set_align_text(said)
    _decode(decoder, audio, SAMPLE_RATE)
    found = []
    for segment in decoder.seg() or ():
        if not segment.word.startswith(("<", "[")):
            borders = (segment.start_frame, segment.end_frame + 1)
            start, end = (frame * FRAME_MS + BORDER_MS - QUIET_MS for frame in borders)
            found.append((segment.word.partition("(")[0], start, end))
    return found


def ends_heard(audio: NDArray[np.float32], said: str) -> bool:
    """Whether the first and the last word are there.

    The recogniser may leave out either one, and does so where that fits the audio better.

    Args:
        audio: float32 [n], 24 kHz.
        said: three words at least of the recogniser's dictionary, lower case.
    """
    first, *middle, last = said.split()
    grammar = f"#JSGF V1.0; grammar said; public <said> = [{first}] {' '.join(middle)} [{last}];"
    decoder = _reader()
    decoder.add_jsgf_string("said", grammar)
    decoder.activate_search("said")
    _decode(decoder, audio, SAMPLE_RATE)
    hypothesis = decoder.hyp()
    return bool(hypothesis) and str(hypothesis.hypstr).split() == said.split()


@cache
def _listener() -> pocketsphinx.Decoder:
    """Knows everyday language. One for all: making it takes longer than hearing a sentence."""
    return pocketsphinx.Decoder(samprate=HEARING_RATE, loglevel="FATAL")


@cache
def _reader() -> pocketsphinx.Decoder:
    """Knows words, and is told what comes."""
    return pocketsphinx.Decoder(samprate=HEARING_RATE, loglevel="FATAL", lm=None)


@cache
def _aligner() -> pocketsphinx.Decoder:
    """Knows where words are that it is told."""
    return pocketsphinx.Decoder(samprate=HEARING_RATE, loglevel="FATAL", bestpath=False, lm=None)


def _decode(decoder: pocketsphinx.Decoder, audio: NDArray[np.float32], rate: int) -> None:
    heard = soxr.resample(audio, rate, HEARING_RATE)
    # the decoder wants silence at both ends
    quiet = np.zeros(HEARING_RATE * QUIET_MS // 1000, dtype=np.float32)
    pcm = (np.concatenate([quiet, heard, quiet]) * 32767).clip(-32768, 32767).astype("<i2")
    decoder.start_utt()
    decoder.process_raw(pcm.tobytes(), full_utt=True)
    decoder.end_utt()


def words(text: str) -> list[str]:
    """Lower-case words without punctuation."""
    return re.findall(r"[a-z']+", text.lower())


def word_errors(expected: str, heard: str) -> tuple[int, int]:
    """(edit distance in words, words expected); their ratio is the word error rate."""
    a, b = words(expected), words(heard)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (word != other))
    return row[-1], len(a)
