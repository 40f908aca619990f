"""The model's symbols."""

from __future__ import annotations

from kokoro_onnx.config import DEFAULT_VOCAB

from engine.text.alphabet import SILENT, SYMBOLS, known, sounds


def test_the_symbols_are_those_of_the_published_model() -> None:
    assert set(DEFAULT_VOCAB) == SYMBOLS
    assert set(SILENT) < SYMBOLS


def test_unknown_symbols_are_left_out() -> None:
    assert known("a[b]{c}\n\t») x") == "abc) x"


def test_what_sounds() -> None:
    assert sounds("ə")
    assert not sounds(SILENT)
