"""Which convolutions of the vocoder are done in integers, and whether here. One small file.

The ranges in `hybrid.npz` are of what comes in, in single precision, so they fit every export of the
model. `python -m bench quantise --recipe` makes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.errors import AssetError
from engine.model import integers
from engine.model.graph import GraphError

Floats = NDArray[np.float32]

#: by `integers.site`, the largest absolute value of each channel that comes in, float32
FILE = Path(__file__).with_name("hybrid.npz")

#: in /proc/cpuinfo, of processors that add products of bytes without an overflow at 16 bits
_VNNI = {"avx512_vnni", "avx_vnni"}


@dataclass(frozen=True, slots=True)
class Form:
    """How the processor's graphs are made.

    Attributes:
        hybrid: some convolutions in integers; else all in single precision.
        why: a sentence.
    """

    hybrid: bool
    why: str


def chosen(wanted: str, processor: str, *, others: bool = False) -> Form:
    """The form for the setting `precision`.

    Args:
        wanted: `auto`, `float32` or `hybrid`.
        processor: what it can do, words with spaces between them.
        others: whether other providers are tried: they compute in single precision, and are held
            against the sound and the time of the processor.
    """
    if wanted != "auto":
        return Form(wanted == "hybrid", f"Precision is {wanted}, as the setting says.")
    if others:
        return Form(False, "Precision is float32, because other providers are tried against it.")
    if _VNNI & set(processor.split()):
        return Form(True, "Precision is hybrid, because the processor has VNNI.")
    return Form(False, "Precision is float32, because the processor is not known to have VNNI.")


def recipe(file: Path = FILE) -> dict[str, Floats]:
    """The ranges by site.

    Raises:
        AssetError: the file is not there, or no recipe.
    """
    try:
        with file.open("rb") as opened, np.load(opened) as found:
            ranges = {name: found[name] for name in found.files}
    except Exception:  # zipfile, zlib and numpy have many of their own for a damaged file
        raise AssetError(f"{file} is no recipe for the precision hybrid.") from None
    for name, own in ranges.items():
        if (
            not integers.is_site(name)
            or (own.dtype, own.ndim) != (np.float32, 1)
            or not np.isfinite(own).all()
            or not (own >= 0).all()
            or not own.any()
        ):
            raise AssetError(f"{file} is no recipe for the precision hybrid: {name!r} is wrong.")
    return ranges


def write(ranges: Mapping[str, Floats], file: Path = FILE) -> None:
    """Writes a recipe that `recipe` reads."""
    np.savez_compressed(file, **ranges)  # type: ignore[arg-type]


def apply(stages: Sequence[onnx.ModelProto], ranges: Mapping[str, Floats]) -> None:
    """The convolutions of the recipe in integers, in place.

    Raises:
        AssetError: the recipe does not fit the model.
    """
    try:
        count = sum(integers.convolutions(stage, ranges) for stage in stages)
        if count != len(ranges):
            raise GraphError(f"{count} of {len(ranges)} convolutions are there.")
    except GraphError as error:
        raise AssetError(
            f"The precision hybrid does not fit this model; set precision to float32: {error}"
        ) from None
