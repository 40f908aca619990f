"""Windows against the whole segment, with the real model."""

from __future__ import annotations

import itertools
import sys
import threading

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from bench.distance import snr_db
from engine.errors import SynthesisFailed
from engine.ladder import Kind, Step
from engine.model.adain import Statistics
from engine.model.decoder import Decoder
from engine.model.distance import lsd_db
from engine.model.geometry import COLUMN_ROWS, COLUMN_SAMPLES, CONTEXT_TWO
from engine.model.runtime import Call
from tests.engine.model.conftest import RealParts

PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ."

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def whole(real_parts: RealParts) -> tuple[Floats, Floats, Statistics]:
    sound = real_parts.sound(PHONEMES)
    return Call(lambda options: real_parts.vocoder.whole(sound, options)).run()


def windows(parts: RealParts, edges: list[int], statistics: Statistics, *, exact: bool) -> Floats:
    """The segment in windows between `edges`, with the statistics of the whole."""
    sound, vocoder = parts.sound(PHONEMES), parts.vocoder
    one = statistics.part(slice(0, vocoder.channels_one))
    two = statistics.part(slice(vocoder.channels_one, None))

    def work(options: ort.RunOptions) -> Floats:
        pieces = []
        if exact:
            rows = vocoder.upsample(sound, 0, sound.columns, None, options)
        for start, stop in itertools.pairwise(edges):
            first = 0
            if not exact:
                first = max(0, start - CONTEXT_TWO)
                last = min(sound.columns, stop + CONTEXT_TWO)
                rows = vocoder.upsample(sound, first, last, one, options)
            pieces.append(vocoder.decode(sound, rows, first, start, stop, two, options))
        return np.concatenate(pieces)

    return Call(work).run()


@settings(max_examples=5)
@given(cuts=st.sets(st.integers(1, 400), min_size=1, max_size=6), exact=st.booleans())
def test_windows_with_the_wholes_statistics_are_the_whole(
    real_parts: RealParts,
    whole: tuple[Floats, Floats, Statistics],
    cuts: set[int],
    exact: bool,
) -> None:
    audio, _, statistics = whole
    columns = len(audio) // COLUMN_SAMPLES
    edges = [0, *sorted(cut for cut in cuts if cut < columns), columns]
    assert snr_db(audio, windows(real_parts, edges, statistics, exact=exact)) > 60


def test_a_column_less_of_context_is_heard(
    real_parts: RealParts,
    whole: tuple[Floats, Floats, Statistics],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The context is as small as it can be; else it would be time that is thrown away."""
    monkeypatch.setattr("engine.model.vocoder.CONTEXT_TWO", CONTEXT_TWO - 1)
    audio, _, statistics = whole
    edges = [*range(0, len(audio) // COLUMN_SAMPLES, 24), len(audio) // COLUMN_SAMPLES]
    assert snr_db(audio, windows(real_parts, edges, statistics, exact=True)) < 90


def test_the_shapes_are_as_told(
    real_parts: RealParts, whole: tuple[Floats, Floats, Statistics]
) -> None:
    sound = real_parts.sound(PHONEMES)
    audio, rows, statistics = whole
    assert sound.features.shape == (512, sound.columns)
    assert sound.source.shape == (22, 60 * sound.columns + 1)
    assert len(sound.durations) == len(PHONEMES) + 2
    assert int(sound.durations.sum()) * 600 == len(audio) == sound.columns * COLUMN_SAMPLES
    assert rows.shape == (256, sound.columns * COLUMN_ROWS)
    assert len(statistics.mean) == len(sound.gain) == 24 * (256 + 128)
    assert np.abs(audio).max() > 0.05


def test_a_decoder_gives_the_same_length_on_every_rung_and_no_nonsense(
    real_parts: RealParts, whole: tuple[Floats, Floats, Statistics]
) -> None:
    audio = whole[0]
    sound = real_parts.sound(PHONEMES)
    columns = sound.columns
    decoder = Decoder(real_parts.vocoder, real_parts.predictor, sound)
    steps = [Step(Kind.PREDICTED, 0, 16), Step(Kind.PREDICTED, 16, 48)]
    steps += [Step(Kind.STAGE_ONE, 0, columns)]
    steps += [Step(Kind.EXACT, 48, 144), Step(Kind.EXACT, 144, columns)]
    pieces = [decoder.call(step).run() for step in steps]
    assert [len(piece) // COLUMN_SAMPLES for piece in pieces] == [16, 32, 0, 96, columns - 144]
    streamed = np.concatenate(pieces)
    assert lsd_db(audio, streamed) < 4.0
    only = Decoder(real_parts.vocoder, real_parts.predictor, sound)
    assert np.array_equal(only.call(Step(Kind.WHOLE, 0, columns)).run(), audio)


def test_a_call_that_is_stopped_ends_early(real_parts: RealParts) -> None:
    sound = real_parts.sound(PHONEMES * 4)
    decoder = Decoder(real_parts.vocoder, real_parts.predictor, sound)
    call = decoder.call(Step(Kind.WHOLE, 0, sound.columns))
    failures: list[BaseException] = []

    def run() -> None:
        try:
            call.run()
        except SynthesisFailed as error:
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    call.stop()
    thread.join()
    assert len(failures) == 1


def test_numpy_multiplies_on_one_thread_beside_a_session(real_parts: RealParts) -> None:
    """Else its threads spin while the next window is made."""
    assert real_parts.acoustic
    blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    assert {pool["num_threads"] for pool in blas} <= {1}, blas
    assert blas or sys.platform == "darwin"  # Accelerate has no such threads
