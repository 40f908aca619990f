"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("kokoro-onnx", "onnxruntime", "numpy", "misaki", "spacy", "trio", "websockets")

#: instruction sets that decide how fast matrix kernels are, as Linux names them
_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm")


def record() -> dict[str, object]:
    """Processor, cores, load and versions; these machines are shared, so the load belongs to it."""
    return {
        "cpu": _cpu(),
        "cpu_features": _features(),
        "cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version(name) for name in LIBRARIES},
    }


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
