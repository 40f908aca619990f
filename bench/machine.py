"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("kokoro-onnx", "onnxruntime", "numpy", "misaki", "spacy", "trio", "websockets")

#: instruction sets that decide how fast matrix kernels are, as Linux names them
_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")

#: where Linux tells of the first core's frequency, and of all cores; macOS has neither
FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")
CPUINFO = Path("/proc/cpuinfo")


def record() -> dict[str, object]:
    """Processor, cores, load and versions; these machines are shared, so the load belongs to it."""
    return {
        "cpu": _cpu(),
        "cpu_features": _features(),
        "cores": os.cpu_count(),
        **_frequency(),
        "load_1min": load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


def load() -> float:
    """Programs that ran or wanted to, in the mean of the last minute."""
    return round(os.getloadavg()[0], 2)


def _frequency() -> dict[str, object]:
    """What Linux tells of it; virtual machines often have no governor, and macOS tells nothing."""
    told: dict[str, object] = {}
    if governor := _text(FREQUENCY / "scaling_governor").strip():
        told["governor"] = governor
    with suppress(ValueError):
        told["most_mhz"] = round(int(_text(FREQUENCY / "cpuinfo_max_freq")) / 1000)
    with suppress(ValueError, OverflowError):  # empty, or no number that a clock can have
        told["mhz"] = round(float(_cpuinfo("cpu MHz")))
    return told


def _text(file: Path) -> str:
    """What a file says; empty if it is not there, as on macOS, or cannot be read."""
    try:
        return file.read_text(errors="replace")
    except OSError:
        return ""


def _cpuinfo(*keys: str) -> str:
    lines = _text(CPUINFO).splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(keys)), "")


def _cpu() -> str:
    return _cpuinfo("model name") or platform.processor()


def _features() -> str:
    has = set(_cpuinfo("flags", "Features").split())
    return " ".join(name for name in _FEATURES if name in has)
