"""Voice packs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.errors import AssetError, UnknownVoice
from engine.voices import ROWS, STYLE, Voices


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.repeat(np.arange(ROWS, dtype=np.float32), STYLE)
    (tmp_path / "af_one.bin").write_bytes(rows.tobytes())
    (tmp_path / "jm_two.bin").write_bytes((rows + 1).tobytes())
    return tmp_path


@pytest.mark.parametrize(("tokens", "row"), [(1, 0), (2, 1), (509, 508), (510, 509), (511, 509)])
def test_n_tokens_take_row_n_minus_one(folder: Path, tokens: int, row: int) -> None:
    style = Voices(folder).style("af_one", tokens)
    assert style.shape == (1, STYLE)
    assert (style == row).all()


def test_the_hash_follows_the_contents(folder: Path) -> None:
    before = Voices(folder).hash
    assert Voices(folder).hash == before
    (folder / "af_one.bin").write_bytes(bytes(ROWS * STYLE * 4))
    assert Voices(folder).hash != before


def test_only_voices_that_can_be_read_are_listed(folder: Path) -> None:
    assert [info.id for info in Voices(folder).infos()] == ["af_one"]


def test_similar_names_are_offered(folder: Path) -> None:
    with pytest.raises(UnknownVoice, match="similar is af_one"):
        Voices(folder).check("af_on")


def test_no_voices_and_a_broken_voice_are_sentences(folder: Path, tmp_path: Path) -> None:
    (folder / "af_bad.bin").write_bytes(b"1234")
    with pytest.raises(AssetError, match=r"af_bad\.bin is not a voice"):
        Voices(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(AssetError, match="no voices"):
        Voices(empty)
