"""What each container costs: processor time for a second of speech, and bytes against bare samples.

The same PCM, in pieces of 50 ms as the engine gives them, by every encoder in turn; it is noise
with the spectrum and the pauses of speech, made with the seed. Beside them zlib, which every
machine has: a ratio to it says how much a container costs without saying how fast the machine is.
First: pieces that an encoder must be given before it gives the first bytes of sound.
"""

from __future__ import annotations

import statistics
import time
import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import trio

from bench.interleave import interleaved
from bench.machine import record
from bench.ratios import by_round, lows
from bench.report import Options, Report, Row, at_most
from engine.audio import SAMPLE_RATE, ms_to_samples, to_pcm
from http_compat.containers import encoder_for
from http_compat.schema import Format

#: Seconds of sound, and ms of a piece. So little that a turn fits into a moment in which nothing
#: else runs: with 10 s, ratios to zlib, whose turns are shorter, differed by 25 % with what ran
#: beside them, and with 2 s by 3 to 12 %.
SECONDS, PIECE_MS = 2, 50
#: turns in a round
TIMES = 30
#: computing of the most expensive one as a part of the sound's length; it runs in the event loop
MOST_RTF = 0.03

ZLIB = "zlib"

#: what is worth a ratio of times: the others copy, in a thirtieth of zlib's time
ENCODED = tuple(container for container in Format if container not in (Format.PCM, Format.WAV))


async def run(options: Options) -> Report:
    """Medians over the rounds."""
    pcm = speech_like(SECONDS, options.seed)
    contenders: dict[str, Callable[[], object]] = {
        str(container): partial(encoded, container, pcm) for container in Format
    }
    contenders[ZLIB] = partial(zlib.compress, pcm, 9)
    options.tell("encoding in turn")
    took = await trio.to_thread.run_sync(
        lambda: interleaved(
            contenders, TIMES * options.rounds, seed=options.seed, clock=time.process_time
        )
    )
    low = {name: lows(turns, options.rounds) for name, turns in took.items()}
    of_zlib = {container: by_round(low[container], low[ZLIB]) for container in Format}
    rows: list[Row] = [
        {
            "container": str(container),
            "ms per second": round(statistics.median(took[container]) * 1000 / SECONDS, 3),
            "of zlib": round(statistics.median(of_zlib[container]), 3),
            "bytes of PCM's": round(len(encoded(container, pcm)) / len(pcm), 4),
            "first after ms": _first_ms(container, pcm),
        }
        for container in Format
    ]
    most_ms = max(row["ms per second"] for row in rows)
    return Report(
        rows=rows,
        document={"machine": record(), "rows": rows},
        notes=[at_most("computing / sound, the most expensive,", most_ms / 1000, MOST_RTF)],
        raw={"seconds": took},
        ratios={
            **{f"{container}, time / zlib": of_zlib[container] for container in ENCODED},
            **{f"{row['container']}, bytes / PCM": [row["bytes of PCM's"]] for row in rows},
        },
    )


def speech_like(seconds: float, seed: int) -> bytes:
    """PCM whose spectrum falls as that of speech does, in syllables with pauses between phrases."""
    chance = np.random.default_rng(seed)
    samples = round(seconds * SAMPLE_RATE)
    spectrum = np.fft.rfft(chance.standard_normal(samples))
    hz = np.fft.rfftfreq(samples, 1 / SAMPLE_RATE)
    noise = np.fft.irfft(spectrum / (1 + (hz / 500) ** 2), samples)
    at_s = np.arange(samples) / SAMPLE_RATE
    syllables = np.clip(np.sin(2 * np.pi * 4 * at_s), 0, 1) * (at_s % 3 < 2.5)
    sound = noise / np.abs(noise).max() * syllables
    return to_pcm((0.8 * sound).astype(np.float32))


def encoded(container: Format, pcm: bytes) -> bytes:
    """All of it in the container, given in pieces."""
    encoder = encoder_for(container)
    size = 2 * ms_to_samples(PIECE_MS)
    pieces = [encoder.encode(pcm[at : at + size]) for at in range(0, len(pcm), size)]
    return encoder.header() + b"".join(pieces) + encoder.finish()


def _first_ms(container: Format, pcm: bytes) -> int:
    encoder = encoder_for(container)
    size = 2 * ms_to_samples(PIECE_MS)
    given = 0
    while given < len(pcm):
        given += size
        if encoder.encode(pcm[given - size : given]):
            break
    return given // size * PIECE_MS
