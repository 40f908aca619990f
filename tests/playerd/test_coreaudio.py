"""What macOS says of its default device, told by a function that stands for CoreAudio's."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

import pytest

from playerd.sinks import coreaudio
from playerd.sinks.coreaudio import default_output


def system(device: int, *, status: int = 0, size: int = 4) -> Callable[..., int]:
    """AudioObjectGetPropertyData, which knows the default output only."""

    def get(
        target: int, address: Any, _: int, __: None, size_pointer: Any, data_pointer: Any
    ) -> int:
        asked = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint32 * 3)).contents
        assert target == 1
        # 'dOut', 'glob', and the main element: the numbers of <CoreAudio/AudioHardware.h>
        assert list(asked) == [0x644F7574, 0x676C6F62, 0]
        given = ctypes.cast(size_pointer, ctypes.POINTER(ctypes.c_uint32)).contents
        assert given.value == 4
        given.value = size
        ctypes.cast(data_pointer, ctypes.POINTER(ctypes.c_uint32)).contents.value = device
        return status

    return get


@pytest.mark.parametrize(
    ("function", "device"),
    [
        (system(73), 73),
        (system(2**32 - 1), 2**32 - 1),
        (system(0), None),  # kAudioObjectUnknown
        (system(73, status=0x77686174), None),  # 'what'
        (system(73, size=0), None),
        (None, None),
    ],
)
def test_the_default_output(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., int] | None, device: int | None
) -> None:
    monkeypatch.setattr(coreaudio, "_get_property", function)
    assert default_output() == device


def test_a_function_that_takes_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ctypes.ArgumentError

    monkeypatch.setattr(coreaudio, "_get_property", refuse)
    assert default_output() is None


@pytest.mark.parametrize("platform", ["darwin", "linux"])
def test_where_there_is_no_such_library(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr("ctypes.util.find_library", lambda _: None)
    assert coreaudio._load() is None


@pytest.mark.skipif(sys.platform != "darwin", reason="CoreAudio is macOS'")
def test_the_real_one() -> None:
    assert default_output() is None or default_output() == default_output()
