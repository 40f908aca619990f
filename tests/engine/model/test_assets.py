"""Model and voices are found in the right place, and are the published ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from engine.errors import AssetError
from engine.model import manifest as known
from engine.model import store
from engine.model.assets import Assets, ensure, find
from engine.model.sources import Unavailable

from .small import (
    ARCHIVE,
    FILLED,
    FULL,
    FULL_NEW,
    INT8,
    NAMES,
    SMALL,
    VOICES,
    FakeSource,
    fill,
    get,
    have,
    names_below,
    npz,
    put_voices,
)


def test_manifest_holds_the_published_files() -> None:
    manifest = known.load()
    assert manifest.model_names() == ("kokoro-v1.0.onnx", "kokoro-v1.0.int8.onnx")
    assert manifest.fetched.size == 92_361_271
    assert manifest.fetched.sha256 == (
        "6e742170d309016e5891a994e1ce1559c702a2ccd0075e67ef7157974f6406cb"
    )
    assert len(manifest.voices) == 54
    files = [*manifest.models, manifest.archive, *manifest.voices.values()]
    assert all(len(bytes.fromhex(file.sha256)) == 32 and file.size > 0 for file in files)
    assert len({file.sha256 for file in files}) == len(files)
    assert {voice.size for voice in manifest.voices.values()} == {510 * 1 * 256 * 4}


def test_fetches_both_halves_then_needs_no_source(cache: Path) -> None:
    assets = get(cache, FakeSource())
    assert assets.model.read_bytes() == INT8
    assert (assets.model_name, assets.precision) == ("kokoro-v1.0.int8.onnx", "int8")
    assert assets.sha256 == hashlib.sha256(INT8).hexdigest()
    assert assets.voice_names() == NAMES
    assert (assets.voices / "am_two.bin").read_bytes() == VOICES["am_two"]
    assert names_below(cache) == FILLED
    assert get(cache) == assets == have(cache)


def test_find_fetches_and_makes_nothing(cache: Path) -> None:
    assert have(cache) is None
    assert not cache.exists()


def test_only_the_missing_half_is_fetched(cache: Path) -> None:
    put_voices(cache)
    source = FakeSource()
    get(cache, source)
    assert (source.models_asked, source.voices_asked) == (1, 0)


def test_full_precision_in_the_cache_is_preferred(cache: Path) -> None:
    fill(cache)
    (cache / "kokoro-v1.0.onnx").write_bytes(FULL)
    assets = get(cache)
    assert (assets.model.name, assets.precision) == ("kokoro-v1.0.onnx", "float32")


def test_both_exports_of_full_precision_are_accepted(cache: Path) -> None:
    fill(cache, "kokoro-v1.0.onnx", FULL_NEW)
    assert get(cache).sha256 == hashlib.sha256(FULL_NEW).hexdigest()


def test_damaged_cache_file_is_told_dropped_and_fetched_again(cache: Path) -> None:
    fill(cache)
    (cache / "kokoro-v1.0.int8.onnx").write_bytes(INT8[:-1] + b"!")
    assert have(cache) is None
    told: list[str] = []
    ensure(
        folder=None,
        cache=cache,
        sources=[FakeSource()],
        manifest=SMALL,
        progress=lambda what, done, total: told.append(what),
    )
    assert (cache / "kokoro-v1.0.int8.onnx").read_bytes() == INT8
    assert any("is damaged" in what and "6e74" not in what for what in told)


def test_damaged_voice_is_fetched_again(cache: Path) -> None:
    fill(cache)
    (cache / "voices" / "am_two.bin").write_bytes(b"x" * 48)
    source = FakeSource()
    assert get(cache, source).voice_names() == NAMES
    assert (source.models_asked, source.voices_asked) == (0, 1)
    assert (cache / "voices" / "am_two.bin").read_bytes() == VOICES["am_two"]


def test_damaged_cache_and_no_source_is_an_error(cache: Path) -> None:
    fill(cache)
    (cache / "kokoro-v1.0.int8.onnx").write_bytes(b"short")
    with pytest.raises(AssetError, match="fake: gone"):
        get(cache, FakeSource(failure=Unavailable("gone")))
    assert have(cache) is None


def test_a_persons_damaged_file_in_the_cache_is_set_aside(cache: Path) -> None:
    fill(cache)
    (cache / "kokoro-v1.0.onnx").write_bytes(b"half of a copy")
    assert get(cache).precision == "int8"
    assert (cache / "kokoro-v1.0.onnx.damaged").read_bytes() == b"half of a copy"


def test_files_of_another_size_are_no_voices(cache: Path) -> None:
    fill(cache)
    (cache / "voices" / "af_mine.bin").write_bytes(bytes(48))
    (cache / "voices" / "af_short.bin").write_bytes(bytes(47))
    (cache / "voices" / "README.bin").write_bytes(bytes(48))
    assert get(cache).voice_names() == ("af_mine", *NAMES)


@pytest.mark.parametrize("offline", [False, True])
def test_folder_comes_first(cache: Path, folder: Path, offline: bool) -> None:
    fill(cache, "kokoro-v1.0.onnx", FULL)
    fill(folder)
    assets = get(cache, folder=folder, offline=offline)
    assert assets.model == folder / "kokoro-v1.0.int8.onnx"
    assert assets.voices == folder / "voices"
    assert have(cache, folder) == assets


def test_folder_prefers_full_precision(cache: Path, folder: Path) -> None:
    fill(folder)
    (folder / "kokoro-v1.0.onnx").write_bytes(FULL)
    assert get(cache, folder=folder).precision == "float32"


def test_folder_with_an_archive_of_voices(cache: Path, folder: Path) -> None:
    (folder / "kokoro-v1.0.onnx").write_bytes(FULL)
    (folder / "voices-v1.0.bin").write_bytes(ARCHIVE)
    source = FakeSource()
    assets = get(cache, source, folder=folder)
    assert assets.voice_names() == NAMES
    assert (assets.voices / "bf_three.bin").read_bytes() == VOICES["bf_three"]
    assert (source.models_asked, source.voices_asked) == (0, 0)
    assert names_below(folder) == ["kokoro-v1.0.onnx", "voices-v1.0.bin"]


def test_find_unpacks_an_archive(cache: Path, folder: Path) -> None:
    (folder / "kokoro-v1.0.onnx").write_bytes(FULL)
    (folder / "voices-v1.0.bin").write_bytes(ARCHIVE)
    assets = have(cache, folder)
    assert assets is not None
    assert assets.voice_names() == NAMES


def test_archive_put_into_the_cache(cache: Path) -> None:
    cache.mkdir()
    (cache / "kokoro-v1.0.int8.onnx").write_bytes(INT8)
    (cache / "voices-v1.0.bin").write_bytes(ARCHIVE)
    assert get(cache).voice_names() == NAMES


def test_folder_with_one_half_takes_the_other_from_the_next_source(
    cache: Path, folder: Path
) -> None:
    (folder / "kokoro-v1.0.onnx").write_bytes(FULL)
    source = FakeSource()
    assets = get(cache, source, folder=folder)
    assert assets.model.parent == folder
    assert assets.voices == cache / "voices"
    assert (source.models_asked, source.voices_asked) == (0, 1)


def test_folder_with_some_voices_gives_just_those(cache: Path, folder: Path) -> None:
    put_voices(folder, ["am_two"])
    fill(cache)
    assert get(cache, folder=folder).voice_names() == ("am_two",)


@pytest.mark.parametrize(
    "name", ["kokoro-v1.0.onnx", "kokoro-v1.0.int8.onnx", "voices-v1.0.bin", "voices/am_two.bin"]
)
@pytest.mark.parametrize("call", [get, have])
def test_damaged_file_in_the_folder_is_named_and_kept(
    cache: Path, folder: Path, name: str, call: Callable[..., object]
) -> None:
    (folder / "voices").mkdir()
    (folder / name).write_bytes(b"not that")
    fill(cache)
    expected = {s.name: s for s in reversed(SMALL.models)} | {
        "voices-v1.0.bin": SMALL.archive,
        "voices/am_two.bin": SMALL.voices["am_two"],
    }
    with pytest.raises(AssetError) as caught:
        call(cache, folder=folder)
    said = caught.value.message
    assert str(folder / name) in said
    assert expected[name].sha256[:12] in said
    assert hashlib.sha256(b"not that").hexdigest()[:12] in said
    assert "download it again" in said
    assert (folder / name).read_bytes() == b"not that"
    assert caught.value.param == "model_dir"


def test_unusable_folders_are_sentences_not_downloads(cache: Path, folder: Path) -> None:
    fill(cache)
    (folder / "notes.txt").write_text("mine")
    source = FakeSource()
    for named, words in (
        (folder, "holds none of kokoro-v1.0.onnx, kokoro-v1.0.int8.onnx, voices/NAME.bin"),
        (folder / "missing", "does not exist"),
        (folder / "notes.txt", "is not a folder"),
    ):
        with pytest.raises(AssetError, match=words) as caught:
            get(cache, source, folder=named)
        assert "KOKORO_LIVE_MODEL_DIR" in caught.value.message
        assert str(named) in caught.value.message
    assert source.models_asked == source.voices_asked == 0


def test_tilde_in_the_folder(cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(folder)
    monkeypatch.setenv("HOME", str(folder.parent))
    assert get(cache, folder=Path("~/mine")).voices == folder / "voices"


def test_real_files_are_those_of_the_manifest(real_assets: Assets) -> None:
    manifest = known.load()
    accepted = {spec.sha256 for spec in manifest.models_named(real_assets.model_name)}
    assert store.sha256_of(real_assets.model) in accepted
    assert set(real_assets.voice_names()) >= set(manifest.voices)
    for voice in manifest.voices.values():
        assert store.sha256_of(real_assets.voices / voice.name) == voice.sha256


def test_real_voices_make_the_published_archive_and_come_out_of_it(
    real_assets: Assets, tmp_path: Path
) -> None:
    manifest = known.load()
    arrays = {
        name: np.fromfile(real_assets.voices / voice.name, "<f4").reshape(known.VOICE_SHAPE)
        for name, voice in manifest.voices.items()
    }
    mine, cache = tmp_path / "mine", tmp_path / "cache"
    mine.mkdir()
    (mine / "voices-v1.0.bin").write_bytes(npz(arrays))
    (mine / real_assets.model_name).symlink_to(real_assets.model)
    # `find` accepts the archive only if its sha256 is the published one.
    unpacked = find(folder=mine, cache=cache)
    assert unpacked is not None
    assert unpacked.voice_names() == tuple(sorted(manifest.voices))
