"""Hears speech with pocketsphinx, whose wheel brings an English model, and counts wrong words."""

from __future__ import annotations

import re

import numpy as np
import pocketsphinx
import soxr
from numpy.typing import NDArray

from engine.audio import SAMPLE_RATE

#: the rate pocketsphinx's model was trained at
HEARING_RATE = 16_000


def transcribe(audio: NDArray[np.float32], rate: int = SAMPLE_RATE) -> str:
    """Words heard in float32 [n] audio."""
    heard = soxr.resample(audio, rate, HEARING_RATE)
    quiet = np.zeros(HEARING_RATE // 4, dtype=np.float32)  # the decoder wants silence at both ends
    pcm = (np.concatenate([quiet, heard, quiet]) * 32767).clip(-32768, 32767).astype("<i2")
    decoder = pocketsphinx.Decoder(samprate=HEARING_RATE, loglevel="FATAL")
    decoder.start_utt()
    decoder.process_raw(pcm.tobytes(), full_utt=True)
    decoder.end_utt()
    hypothesis = decoder.hyp()
    return str(hypothesis.hypstr) if hypothesis else ""


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
