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

_FREQUENCY = Path("/sys/devices/system/cpu/cpu0/cpufreq")


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
    with suppress(OSError):
        told["governor"] = (_FREQUENCY / "scaling_governor").read_text().strip()
    with suppress(OSError, ValueError):
        told["most_mhz"] = round(int((_FREQUENCY / "cpuinfo_max_freq").read_text()) / 1000)
    if mhz := _cpuinfo("cpu MHz"):
        told["mhz"] = round(float(mhz))
    return told


def _cpuinfo(*keys: str) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # macOS
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(keys)), "")


def _cpu() -> str:
    return _cpuinfo("model name") or platform.processor()


def _features() -> str:
    has = set(_cpuinfo("flags", "Features").split())
    return " ".join(name for name in _FEATURES if name in has)
