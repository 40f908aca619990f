"""The published graph on ONNX Runtime."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from engine.errors import AssetError, SynthesisFailed
from engine.model.assets import Assets
from engine.model.kokoro import KokoroModel
from engine.voices import Voices


@pytest.fixture(scope="module")
def model(real_assets: Assets) -> KokoroModel:
    return KokoroModel(real_assets.model)


def test_audio_is_whole_model_frames(model: KokoroModel, real_assets: Assets) -> None:
    tokens = model.tokens(model.known("həlˈO, wˈɜɹld!"))
    style = Voices(real_assets.voices).style("af_heart", len(tokens))
    audio, seconds = model.call(tokens, style, 1.0).run()
    assert audio.dtype == np.float32
    assert audio.ndim == 1
    assert len(audio) % 600 == 0  # one of the model's frames is 600 samples
    assert np.abs(audio).max() * 10 > 0.5
    assert seconds > 0


def test_a_call_that_is_stopped_ends_early(model: KokoroModel, real_assets: Assets) -> None:
    tokens = model.tokens(model.known("həlˈO wˈɜɹld " * 30))
    style = Voices(real_assets.voices).style("af_heart", len(tokens))
    call = model.call(tokens, style, 1.0)
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


def test_unknown_symbols_are_left_out(model: KokoroModel) -> None:
    assert model.known("a[b]{c}\n\t») x") == "abc) x"


def test_the_limit_is_the_models(model: KokoroModel, real_assets: Assets) -> None:
    pieces = model.split("həlˈO, " * 200)
    assert max(map(len, pieces)) <= 510
    voices = Voices(real_assets.voices)
    longest = model.tokens("a" * 510)
    audio, _ = model.call(longest, voices.style("af_heart", 510), 4.0).run()
    assert len(audio) > 0


def test_what_is_no_model_is_a_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "model.onnx"
    broken.write_bytes(b"not a model")
    with pytest.raises(AssetError, match=r"model\.onnx cannot be loaded"):
        KokoroModel(broken)
