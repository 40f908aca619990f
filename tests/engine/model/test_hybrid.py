"""The form by processor and setting, the recipe's decoder, and the real hybrid's distance."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from engine.errors import AssetError
from engine.ladder import Kind, Step
from engine.model import build, hybrid
from engine.model.acoustic import Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.distance import lsd_db
from engine.model.runtime import Call
from engine.model.vocoder import Vocoder
from tests.bench.test_quantise import CHANNELS, FIRST, SECOND, stage
from tests.engine.model.conftest import RealParts

ONES = np.ones(CHANNELS, np.float32)
GATE_DB = 2.0


@pytest.mark.parametrize(
    ("wanted", "processor", "is_hybrid"),
    [
        ("auto", "flags : avx2 avx512_vnni", True),
        ("auto", "flags : avx2 avx_vnni", True),
        ("auto", "flags : avx2 avx512f", False),
        ("auto", "Features : asimd asimddp", False),
        ("auto", "", False),
        ("hybrid", "flags : avx2", True),
        ("float32", "flags : avx512_vnni", False),
    ],
)
def test_the_form_is_the_settings_or_the_processors(
    wanted: str, processor: str, is_hybrid: bool
) -> None:
    form = hybrid.chosen(wanted, processor)
    assert form.hybrid is is_hybrid
    assert ("hybrid" in form.why) is is_hybrid


def test_other_providers_are_held_against_single_precision() -> None:
    assert not hybrid.chosen("auto", "avx512_vnni", others=True).hybrid
    assert hybrid.chosen("hybrid", "avx512_vnni", others=True).hybrid


def test_the_recipe_of_the_package_can_be_read() -> None:
    found = hybrid.recipe()
    assert {name.partition("/")[0] for name in found} == {
        "noise_res.0", "resblocks.0", "resblocks.1", "resblocks.2", "resblocks.3", "resblocks.5",
    }  # fmt: skip


def test_a_recipe_is_read_as_it_was_written(tmp_path: Path) -> None:
    hybrid.write({FIRST: ONES, SECOND: 2 * ONES}, tmp_path / "r.npz")
    found = hybrid.recipe(tmp_path / "r.npz")
    assert list(found) == [FIRST, SECOND]
    np.testing.assert_array_equal(found[SECOND], 2 * ONES)


@pytest.mark.parametrize(
    ("name", "ranges"),
    [
        ("elsewhere", ONES),
        (FIRST, ONES.astype(np.float64)),
        (FIRST, ONES[None]),
        (FIRST, -ONES),
        (FIRST, 0 * ONES),
        (FIRST, np.float32("nan") * ONES),
    ],
)
def test_what_is_wrong_in_a_recipe_is_said(
    tmp_path: Path, name: str, ranges: hybrid.Floats
) -> None:
    hybrid.write({name: ranges}, tmp_path / "r.npz")
    with pytest.raises(AssetError, match="no recipe"):
        hybrid.recipe(tmp_path / "r.npz")


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(junk=st.binary(max_size=200), at=st.integers(0, 10_000))
def test_a_damaged_recipe_is_an_error_of_assets_or_none(
    tmp_path: Path, junk: bytes, at: int
) -> None:
    whole, file = hybrid.FILE.read_bytes(), tmp_path / "r.npz"
    for content in (junk, whole[: at % len(whole)], whole[:at] + junk + whole[at + len(junk) :]):
        file.write_bytes(content)
        try:
            hybrid.recipe(file)
        except AssetError as error:
            assert "no recipe" in error.message


def test_a_recipe_that_does_not_fit_is_one_sentence() -> None:
    for ranges in ({FIRST: ONES[:3]}, {"conv_post": ONES}):
        with pytest.raises(AssetError, match="set precision to float32"):
            hybrid.apply([stage()], ranges)


def test_a_recipe_that_fits_changes_its_convolutions() -> None:
    one, two = stage(), onnx.ModelProto()
    two.CopyFrom(one)
    hybrid.apply([one], {FIRST: ONES})
    kinds = [item.op_type for item in one.graph.node]
    assert (kinds.count("MatMulIntegerToFloat"), kinds.count("Conv")) == (1, 1)
    assert [item.op_type for item in two.graph.node] == ["Conv", "Conv"]


def _whole(vocoder: Vocoder, sound: Acoustics, run: ort.RunOptions) -> hybrid.Floats:
    return vocoder.whole(sound, run)[0]


@pytest.mark.soak  # half a minute: it builds all of it
def test_hybrid_is_inside_of_the_gate_whole_and_in_windows(
    real_parts: RealParts, tmp_path: Path
) -> None:
    found = real_parts.assets
    made = build.ensure(found.model, found.sha256, tmp_path, lambda *_: None, integers=True)
    vocoder = Vocoder(made.part("stage_one"), made.part("stage_two"), 1)
    whole_db, window_db = [], []
    for voice in ("af_heart", "am_adam", "bm_george", "ff_siwis", "jf_alpha"):
        sound = real_parts.sound("ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps", voice)
        step = Step(Kind.PREDICTED, 16, min(80, sound.columns))
        both = real_parts.vocoder, vocoder
        exact, near = (Call(partial(_whole, of, sound)).run() for of in both)
        whole_db.append(lsd_db(exact, near))
        exact, near = (Decoder(of, Predictor(), sound).call(step).run() for of in both)
        window_db.append(lsd_db(exact, near))
    for found_db in (whole_db, window_db):  # single ones may be over it
        assert min(found_db) > 0
        assert np.median(found_db) < GATE_DB
