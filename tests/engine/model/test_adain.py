"""Pooled features and the maps, by arithmetic; what they are worth is `bench quality`'s."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.model.adain import FILE, LinearMap, Statistics, acoustic_context, pooled
from tests.engine.model.conftest import RealParts

Floats = NDArray[np.float32]


def signal(seed: int, length: int = 50) -> Floats:
    return np.random.default_rng(seed).normal(1.0, 2.0, (3, length)).astype(np.float32)


def test_pooled_features_are_what_they_are_called() -> None:
    x = np.array([[-1.0, 1.0, 3.0, 5.0], [2.0, 2.0, 2.0, 2.0]], np.float32)
    mean, deviation, positive, spread, skew, change = np.split(pooled(x), 6)
    np.testing.assert_allclose(mean, [2, 2])
    np.testing.assert_allclose(deviation, [5**0.5, 0], atol=1e-6)
    np.testing.assert_allclose(positive, [9 / 4, 2])
    np.testing.assert_allclose(spread, np.std([[0, 1, 3, 5], [2, 2, 2, 2]], axis=1), atol=1e-6)
    np.testing.assert_allclose(skew, [0, 0], atol=1e-3)
    np.testing.assert_allclose(change, np.std([[2, 2, 2, 0], [0, 0, 0, 0]], axis=1), atol=1e-6)


@given(seed=st.integers(0, 99), factor=st.floats(0.1, 10))
def test_pooled_features_scale_with_the_signal(seed: int, factor: float) -> None:
    x = signal(seed)
    np.testing.assert_allclose(
        pooled(x * np.float32(factor)), pooled(x) * factor, rtol=2e-2, atol=1e-3
    )


@given(st.integers(1, 3))
def test_a_segment_of_any_length_has_features(length: int) -> None:
    assert np.isfinite(pooled(signal(1, length))).all()


def test_the_context_tells_length_and_speed() -> None:
    source, style = np.zeros((22, 61), np.float32), np.zeros(256, np.float32)
    context = acoustic_context(source, style, 100, 1.25)
    assert context.shape == (44 + 256 + 2,)
    np.testing.assert_allclose(context[-2:], [np.log(100), 1.25])


def small_map() -> LinearMap:
    return LinearMap(
        {
            "mean": np.array([1.0, 2.0], np.float32),
            "scale": np.array([2.0, 4.0], np.float32),
            "project": np.array([[127], [0]], np.int8),
            "project_scale": np.array([1 / 127], np.float32),
            "expand": np.array([[127, 127]], np.int8),
            "expand_scale": np.array([1 / 127, 2 / 127], np.float32),
            "offset": np.array([10.0, 0.0], np.float32),
            "spread": np.array([3.0, 1.0], np.float32),
        }
    )


def test_a_map_is_standardise_project_expand() -> None:
    statistics = small_map()(np.array([3.0, 99.0], np.float32))
    np.testing.assert_allclose(statistics.mean, [13.0], rtol=1e-5)
    np.testing.assert_allclose(statistics.deviation, [np.exp(2.0)], rtol=1e-5)


def test_features_far_from_all_training_are_bounded() -> None:
    far = small_map()(np.array([1e9, 0.0], np.float32))
    np.testing.assert_allclose(far.mean, [10 + 3 * 8], rtol=1e-5)
    assert np.isfinite(far.deviation).all()


def test_statistics_can_be_divided() -> None:
    both = Statistics(np.arange(4, dtype=np.float32), np.ones(4, np.float32))
    assert both.part(slice(2, None)).mean.tolist() == [2, 3]


def test_the_shipped_file_is_small_and_says_what_it_is() -> None:
    assert FILE.stat().st_size <= 6e6
    with np.load(FILE) as stored:
        about = json.loads(str(stored["about"]))
    assert about["utterances"] > 500
    assert about["second"]["explained_as_stored"] > about["first"]["explained_as_stored"] > 0.9


def test_predictions_fit_the_real_model(real_parts: RealParts) -> None:
    sound = real_parts.sound("həlˈO ðˈɛɹ, mI fɹˈɛnd, hˌW ˈɑɹ ju tədˈA?")
    first = real_parts.predictor.first(sound)
    assert first.mean.shape == first.deviation.shape == sound.gain.shape
    assert (first.deviation > 0).all()
    rows = np.zeros((256, sound.columns * 10), np.float32)
    second = real_parts.predictor.second(sound, rows)
    assert second.mean.shape == (real_parts.vocoder.channels_two,)
