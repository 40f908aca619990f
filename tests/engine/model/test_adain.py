"""Pooled features and the maps, by arithmetic; what they are worth is `bench quality`'s."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from engine.model.adain import (
    FILE,
    Regression,
    Statistics,
    acoustic_context,
    pairs,
    pooled,
)
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


#: a signal of two features, and the context behind it
COUNT = 2 + 44 + 256 + 2


def eight(matrix: NDArray[np.integer], worth: float) -> tuple[NDArray[np.int8], Floats]:
    """An 8-bit matrix and its scales; `worth` is what 127 stands for."""
    return matrix.astype(np.int8), np.full(matrix.shape[1], worth / 127, np.float32)


def small_map() -> Regression:
    """One output: 3 times the first feature, and 5 times its product with the first of style."""
    look, voice = np.zeros((COUNT, 1), int), np.zeros((256, 2), int)
    look[0], voice[0, 0], voice[1, 1] = 127, 127, 127
    project = np.zeros((COUNT + 2, 2), int)
    project[0, 0], project[COUNT, 1] = 127, 127
    expand = np.array([[127, 127], [127, 0]])
    arrays: dict[str, NDArray[np.generic]] = {
        "mean": np.zeros(COUNT, np.float32),
        "scale": np.full(COUNT, 2.0, np.float32),
        "offset": np.array([10.0, 0.5], np.float32),
        "spread": np.array([2.0, 1.0], np.float32),
    }
    for name, matrix, worth in (
        ("look", look, 1.0),
        ("voice", voice, 1.0),
        ("project", project, 1.0),
        ("expand", expand, 3.0),
    ):
        arrays[name], arrays[f"{name}_scale"] = eight(matrix, worth)
    return Regression(arrays)


def features(first: float, style: float = 0.0) -> Floats:
    x = np.zeros(COUNT, np.float32)
    x[0], x[2 + 44] = first, style
    return x


def test_a_regression_is_standardise_project_expand() -> None:
    statistics = small_map()(features(4.0))
    np.testing.assert_allclose(statistics.mean, [10 + 2 * 3 * 2], rtol=1e-5)
    np.testing.assert_allclose(statistics.deviation, [np.exp(0.5 + 3 * 2)], rtol=1e-5)


@pytest.mark.parametrize("style", [-4.0, 0.0, 2.0])
def test_what_a_feature_says_depends_on_the_voice(style: float) -> None:
    statistics = small_map()(features(4.0, style))
    np.testing.assert_allclose(statistics.mean, [10 + 2 * (3 * 2 + 3 * 2 * style / 2)], rtol=1e-5)


def test_products_are_of_every_direction_with_every_direction() -> None:
    standard = np.random.default_rng(1).normal(size=(3, COUNT)).astype(np.float32)
    look, voice = (
        np.random.default_rng(2).normal(size=shape).astype(np.float32)
        for shape in ((COUNT, 4), (256, 5))
    )
    many = pairs(standard, look, voice)
    assert many.shape == (3, 20)
    np.testing.assert_allclose(many[2], pairs(standard[2], look, voice), rtol=1e-5)
    style = standard[2, 2 + 44 : -2] @ voice
    np.testing.assert_allclose(many[2, 5:10], (standard[2] @ look)[1] * style, rtol=1e-4)


def test_features_far_from_all_training_are_bounded() -> None:
    far = small_map()(features(1e9))
    np.testing.assert_allclose(far.mean, [10 + 2 * 3 * 8], rtol=1e-5)
    assert np.isfinite(far.deviation).all()


def test_statistics_can_be_divided() -> None:
    both = Statistics(np.arange(4, dtype=np.float32), np.ones(4, np.float32))
    assert both.part(slice(2, None)).mean.tolist() == [2, 3]


def test_the_shipped_file_is_small_and_says_what_it_is() -> None:
    assert FILE.stat().st_size <= 6e6
    with np.load(FILE) as stored:
        about = json.loads(str(stored["about"]))
    assert set(about) == {"first_one", "first_two", "second_two"}
    assert len(about["first_one"]["by_voice"]) == 54
    for report in about.values():
        assert report["utterances"] > 900
        assert report["explained_as_stored"] > 0.95
        assert (
            len(report["by_voice"]) >= 50
        )  # 163 held-out utterances of stage two: 2 voices missing
        assert len(report["by_length"]) == 5
        assert min(report["by_voice"].values()) > 0.8


def test_predictions_fit_the_real_model(real_parts: RealParts) -> None:
    sound = real_parts.sound("həlˈO ðˈɛɹ, mI fɹˈɛnd, hˌW ˈɑɹ ju tədˈA?")
    first = real_parts.predictor.first(sound)
    assert first.mean.shape == first.deviation.shape == sound.gain.shape
    assert (first.deviation > 0).all()
    rows = np.zeros((256, sound.columns * 10), np.float32)
    second = real_parts.predictor.second(sound, rows)
    assert second.mean.shape == (real_parts.vocoder.channels_two,)
