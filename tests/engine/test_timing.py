"""Where sounds are in the samples, and the silence that is taken off and put in."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine import timing
from engine.audio import ms_to_samples
from engine.config import Settings
from engine.model import build
from engine.model.assets import Assets
from engine.text.segment import Mark, WordSpan
from engine.timing import FADE_OUT_SAMPLES, FRAME_SAMPLES, Trimmer
from tests.engine.model.conftest import RealParts

PHONEMES = st.text("aˈs ,.“", min_size=1, max_size=12).filter(lambda p: p.strip(" ,.“"))


@st.composite
def spoken(draw: st.DrawFn) -> tuple[str, NDArray[np.int64]]:
    phonemes = draw(PHONEMES)
    frames = st.lists(st.integers(1, 30), min_size=len(phonemes) + 2, max_size=len(phonemes) + 2)
    return phonemes, np.array(draw(frames))


def test_phonemes_sound_60_ms_before_their_frames() -> None:
    assert timing.phoneme_samples(np.array([4, 2, 3, 5])).tolist() == [[960, 2160], [2160, 3960]]
    assert timing.phoneme_samples(np.array([1, 2, 3, 5])).tolist() == [[0, 360], [360, 2160]]


def test_words_are_counted_from_the_first_sample_that_is_kept() -> None:
    words = [WordSpan(0, 2, 0, 1), WordSpan(3, 5, 2, 3)]
    durations = np.array([10, 4, 2, 4, 10])
    assert timing.word_samples(words, durations, (4000, 9000)) == [(560, 2960), (4160, 5000)]
    assert timing.word_samples(words, durations, (5000, 20_000)) == [(0, 1960), (3160, 5560)]


@given(spoken(), st.integers(0, 30_000), st.integers(0, 30_000))
def test_words_are_inside_what_is_kept(
    said: tuple[str, NDArray[np.int64]], start: int, samples: int
) -> None:
    phonemes, durations = said
    words = [WordSpan(n, n + 1, n, n + 1) for n in range(len(phonemes))]
    position = 0
    for first, stop in timing.word_samples(words, durations, (start, start + samples)):
        assert position <= first <= stop <= samples
        position = stop


@given(spoken())
def test_the_span_holds_every_sound_and_is_in_the_audio(
    said: tuple[str, NDArray[np.int64]],
) -> None:
    phonemes, durations = said
    start, stop = timing.spoken_span(phonemes, durations)
    sounds = timing.phoneme_samples(durations)
    heard = [n for n, p in enumerate(phonemes) if p not in " ,.“"]
    assert 0 <= start <= sounds[heard[0], 0]
    assert sounds[heard[-1], 0] < stop <= durations.sum() * FRAME_SAMPLES


@pytest.mark.parametrize(
    ("speed", "start_ms", "stop_ms"),
    [(1.0, 500 - 175, 700 + 270), (2.0, 500 - 175, 700 + 270), (0.5, 250 - 175, 700 + 540)],
)
def test_frames_of_silence_are_not_in_the_span(speed: float, start_ms: int, stop_ms: int) -> None:
    span = timing.spoken_span("“a b.”", np.array([20, 1, 4, 3, 24, 9, 1, 2]), speed)
    assert span == (start_ms * 24, stop_ms * 24)


def test_a_last_phoneme_with_few_frames_ends_soon_after_them() -> None:
    assert timing.spoken_span("a.", np.array([1, 2, 9, 2]))[1] == 3 * FRAME_SAMPLES + 1440
    assert timing.spoken_span("a", np.array([1, 2, 1]))[1] == 4 * FRAME_SAMPLES


def test_pauses_are_longer_for_stronger_marks_and_shorter_for_faster_speech() -> None:
    pauses = [timing.pause_samples(mark, 1.0) for mark in Mark]
    assert pauses == sorted(pauses)
    assert pauses[0] == 0 < pauses[1]
    for mark in Mark:
        assert timing.pause_samples(mark, 4.0) <= timing.pause_samples(mark, 1.0) // 4
    assert timing.pause_samples(Mark.PARAGRAPH, 0.5) > 2 * timing.pause_samples(Mark.PARAGRAPH, 1.0)


def test_fades_reach_the_ends_and_leave_the_middle() -> None:
    audio = np.ones(1000, np.float32)
    both = timing.faded(audio, start=True, end=True)
    assert both[0] < 0.01
    assert both[-1] < 0.01
    assert (both[timing.FADE_IN_SAMPLES : -FADE_OUT_SAMPLES] == 1).all()
    assert np.abs(np.diff(both)).max() < 0.02
    assert (timing.faded(audio, start=False, end=False) == 1).all()
    assert (audio == 1).all()
    assert len(timing.faded(audio[:7], start=True, end=True)) == 7


SAID = "ab."
FRAMES = np.array([12, 3, 12, 6, 2])
SPAN = timing.spoken_span(SAID, FRAMES)


def trimmed(audio: NDArray[np.float32], cuts: list[int]) -> tuple[int | None, list[float]]:
    trimmer = Trimmer(SAID, FRAMES)
    given_out = [trimmer.push(piece) for piece in np.split(audio, sorted(cuts))]
    given_out.append(trimmer.end())
    return trimmer.start, np.concatenate(given_out).tolist()


def sound(start: int, stop: int) -> NDArray[np.float32]:
    """Audio of the whole span, loud from sample `start` to `stop` of the uncut audio."""
    audio = np.full(SPAN[1] - SPAN[0], 0.001, np.float32)
    audio[start - SPAN[0] : stop - SPAN[0]] = 0.5
    return audio


@given(
    st.integers(*SPAN), st.integers(*SPAN), st.lists(st.integers(0, SPAN[1] - SPAN[0]), max_size=9)
)
def test_trimming_does_not_depend_on_the_pieces(one: int, other: int, cuts: list[int]) -> None:
    audio = sound(min(one, other), max(one, other))
    assert trimmed(audio, cuts) == trimmed(audio, [])


def test_some_silence_is_left_on_both_sides() -> None:
    start, given_out = trimmed(sound(8000, 11_000), [500, 3000, 6000])
    assert start == 8000 - timing.PREROLL_SAMPLES
    assert len(given_out) == 3000 + timing.PREROLL_SAMPLES + timing.RELEASE_SAMPLES
    assert given_out[0] == pytest.approx(0, abs=1e-5)
    assert given_out[-1] == pytest.approx(0, abs=1e-5)
    assert given_out[timing.PREROLL_SAMPLES] == 0.5


def test_sound_up_to_the_end_is_faded_and_not_cut() -> None:
    start, given_out = trimmed(sound(*SPAN), [400, 800])
    assert start == SPAN[0]
    assert len(given_out) == SPAN[1] - SPAN[0]
    assert given_out[0] < 0.01
    assert given_out[-1] < 0.01


def test_silence_is_held_back_only_near_the_end() -> None:
    trimmer = Trimmer(SAID, FRAMES)
    edge = 15 * FRAME_SAMPLES - round(0.2 * 24_000)
    audio = sound(SPAN[0] + 400, SPAN[0] + 800)
    early = trimmer.push(audio[: edge - SPAN[0]])
    assert trimmer.at == edge
    assert len(early) == edge - SPAN[0] - 40 - FADE_OUT_SAMPLES
    assert len(trimmer.push(audio[edge - SPAN[0] :])) == FADE_OUT_SAMPLES
    assert len(trimmer.end()) == timing.RELEASE_SAMPLES


def test_silence_alone_is_nothing() -> None:
    assert trimmed(sound(SPAN[0], SPAN[0]), [100]) == (None, [])


@pytest.fixture(scope="module")
def parts(real_assets: Assets, real_settings: Settings) -> RealParts:
    made = build.ensure(
        real_assets.model, real_assets.sha256, real_settings.cache_dir, lambda *_: None
    )
    return RealParts(real_assets, made)


class Said:
    """The uncut audio of phonemes, and what is kept of it."""

    def __init__(self, parts: RealParts, phonemes: str, voice: str, speed: float = 1.0) -> None:
        sound = parts.sound(phonemes, voice, speed)
        self.durations = sound.durations
        self.audio = parts.vocoder.whole(sound, ort.RunOptions())[0]
        self.span = timing.spoken_span(phonemes, sound.durations, speed)
        trimmer = Trimmer(phonemes, sound.durations, speed)
        kept = trimmer.push(self.audio[slice(*self.span)])
        self.kept = np.concatenate([kept, trimmer.end()])


def decibels(audio: NDArray[np.float32]) -> float:
    return float(20 * np.log10(np.sqrt(np.sum(audio**2) / max(1, len(audio))) + 1e-9))


GIVE_ME_THE_CUP = "ɡˈɪv mˌi ðə kˈʌp."
SHE_BOUGHT_A_SILK_SCARF = "ʃi bˈɔt ɐ sˈɪlk skˈɑɹf."


@pytest.mark.parametrize(
    ("phonemes", "voice", "speed"),
    [
        (GIVE_ME_THE_CUP, "af_heart", 1.0),
        (GIVE_ME_THE_CUP, "bf_emma", 1.0),
        (SHE_BOUGHT_A_SILK_SCARF, "am_michael", 1.0),
        (SHE_BOUGHT_A_SILK_SCARF, "bm_george", 0.7),
        (SHE_BOUGHT_A_SILK_SCARF, "bm_george", 2.0),
    ],
)
def test_nothing_that_sounds_is_cut_off(
    parts: RealParts, phonemes: str, voice: str, speed: float
) -> None:
    said = Said(parts, phonemes, voice, speed)
    start, stop = said.span
    assert decibels(said.audio[:start]) < -60
    assert decibels(said.audio[stop:]) < -60
    assert decibels(said.kept[-timing.RELEASE_SAMPLES :]) < -55
    assert np.isclose(np.sum(said.kept**2), np.sum(said.audio**2), rtol=1e-3)


def test_a_pause_between_segments_is_like_one_inside(parts: RealParts) -> None:
    whole = Said(parts, f"{GIVE_ME_THE_CUP} {SHE_BOUGHT_A_SILK_SCARF}", "af_heart").kept
    pause = np.zeros(timing.pause_samples(Mark.SENTENCE, 1.0), np.float32)
    first, second = (
        Said(parts, phonemes, "af_heart").kept
        for phonemes in (GIVE_ME_THE_CUP, SHE_BOUGHT_A_SILK_SCARF)
    )
    inside, between = (
        max(b - a for a, b in itertools.pairwise(np.flatnonzero(np.abs(audio) > timing.AUDIBLE)))
        for audio in (whole, np.concatenate([first, pause, second]))
    )
    assert abs(between - ms_to_samples(270)) < 10
    assert abs(inside - between) < ms_to_samples(120)  # it varies by about as much in the model
