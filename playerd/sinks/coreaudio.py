"""Which device is macOS' default for sound. Shell.

PortAudio leaves a stream on the device it was opened on and looks for devices only when it is
initialised; macOS itself says at any time which device people have chosen.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Callable
from typing import Any

#: kAudioObjectSystemObject
_SYSTEM = 1


def _code(name: str) -> int:
    """A four-letter code, as CoreAudio numbers its properties."""
    return int.from_bytes(name.encode("ascii"), "big")


class _Address(ctypes.Structure):
    """AudioObjectPropertyAddress."""

    _fields_ = (
        ("selector", ctypes.c_uint32),
        ("scope", ctypes.c_uint32),
        ("element", ctypes.c_uint32),
    )


#: kAudioHardwarePropertyDefaultOutputDevice of the whole system; the main element is 0
DEFAULT_OUTPUT = (_code("dOut"), _code("glob"), 0)


def _load() -> Callable[..., Any] | None:
    """AudioObjectGetPropertyData, where there is CoreAudio."""
    if sys.platform != "darwin":
        return None
    try:
        function = ctypes.CDLL(ctypes.util.find_library("CoreAudio")).AudioObjectGetPropertyData
    except (AttributeError, OSError):
        return None
    function.argtypes = (
        ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p,
        ctypes.c_void_p, ctypes.c_void_p,
    )  # fmt: skip
    function.restype = ctypes.c_int32
    call: Callable[..., Any] = function
    return call


_get_property = _load()


def default_output() -> int | None:
    """The number of the default output device; None where it cannot be told. Never raises."""
    if _get_property is None:
        return None
    address = _Address(*DEFAULT_OUTPUT)
    device = ctypes.c_uint32(0)
    size = ctypes.c_uint32(ctypes.sizeof(device))
    try:
        status = _get_property(
            _SYSTEM, ctypes.byref(address), 0, None, ctypes.byref(size), ctypes.byref(device)
        )
    except (OSError, ctypes.ArgumentError):
        return None
    if status != 0 or size.value != ctypes.sizeof(device):
        return None
    return device.value or None  # 0 is kAudioObjectUnknown: there is none
