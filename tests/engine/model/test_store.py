"""What is remembered of a file, and writes that happen whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from engine.model import search, store

from .small import (
    INT8,
    NAMES,
    FakeSource,
    fill,
    get,
)


def counted(path: Path) -> tuple[store.Ledger, list[str]]:
    calls: list[str] = []

    def hash_file(file: Path) -> str:
        calls.append(file.name)
        return store.sha256_of(file)

    return store.Ledger(path, hash_file), calls


def test_ledger_hashes_once_and_again_when_the_file_changes(tmp_path: Path) -> None:
    file, path = tmp_path / "file", tmp_path / "verified.json"
    file.write_bytes(b"one")
    os.utime(file, ns=(1, 1))
    ledger, calls = counted(path)
    first = ledger.digest(file)
    ledger.save()
    again, calls = counted(path)
    assert again.digest(file) == first == hashlib.sha256(b"one").hexdigest()
    assert calls == []
    file.write_bytes(b"two")  # of the same size
    os.utime(file, ns=(1, 2))
    assert again.digest(file) == hashlib.sha256(b"two").hexdigest()
    assert calls == ["file"]
    file.write_bytes(b"longer")
    os.utime(file, ns=(1, 2))  # of the same time
    assert again.digest(file) == hashlib.sha256(b"longer").hexdigest()


def test_ledger_keeps_what_another_process_saved(tmp_path: Path) -> None:
    path = tmp_path / "verified.json"
    for name in "ab":
        (tmp_path / name).write_bytes(name.encode())
    one, other = store.Ledger(path), store.Ledger(path)
    one.digest(tmp_path / "a")
    other.digest(tmp_path / "b")
    one.save()
    other.save()
    ledger, calls = counted(path)
    assert ledger.digest(tmp_path / "a")
    assert ledger.digest(tmp_path / "b")
    assert calls == []


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"%s": 7}', b'{"%s": [1, 2]}'])
def test_a_damaged_ledger_costs_only_time(cache: Path, content: bytes) -> None:
    fill(cache)
    model = cache / "kokoro-v1.0.int8.onnx"
    (cache / "verified.json").write_bytes(content.replace(b"%s", os.fsencode(model)))
    assert get(cache).model == model
    assert str(model) in json.loads((cache / "verified.json").read_text())


def test_second_start_hashes_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    get(cache, FakeSource())

    def never(path: Path) -> str:
        raise AssertionError(f"{path} was hashed again")

    monkeypatch.setattr(search, "Ledger", lambda path: store.Ledger(path, never))
    assert get(cache).voice_names() == NAMES


def test_a_changed_file_is_noticed_in_spite_of_the_ledger(cache: Path) -> None:
    get(cache, FakeSource())
    model = cache / "kokoro-v1.0.int8.onnx"
    model.write_bytes(b"x" * len(INT8))
    os.utime(model, ns=(5, 5))
    source = FakeSource()
    get(cache, source)
    assert source.models_asked == 1
    assert model.read_bytes() == INT8
