"""The results folder: the numbers of every run, by scenario and time. Files.

A run is one call of `python -m bench`; the names of all its files end in its time, by which it is
called (`20261129-014720`).
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import msgspec

from bench.ratios import Known, Ratios
from engine.errors import InvalidRequest, SetupError

FOLDER = Path(__file__).parent / "results"
BASELINE = Path(__file__).parent / "baseline.json"

_NAME = re.compile(r"(?P<scenario>\w+)-(?P<run>\d{8}-\d{6})")


class Provenance(msgspec.Struct, frozen=True):
    """The committed baseline.

    Attributes:
        ratios: by scenario and name.
        machine: where it was made.
        runs: the runs that it was made of.
        quick: whether these were quick; a full run has other ratios.
    """

    ratios: dict[str, Known]
    machine: dict[str, Any]
    runs: list[str]
    quick: bool


#: of one ratio; a round may have nothing of what there should be little of
_Rounds = Annotated[
    list[Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]], msgspec.Meta(min_length=1)
]


class _File(msgspec.Struct, frozen=True):
    """What is read of a scenario's file; there is more in it."""

    ratios: dict[str, _Rounds] = {}
    machine: dict[str, Any] = {}
    quick: bool = False
    whole: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A run, or one scenario of it.

    Attributes:
        name: the file, or the run's time.
        ratios: of all scenarios; names begin with the scenario's.
        machine: what it was measured on.
        quick: whether it was quick.
        whole: whether all scenarios were asked for, of all engines.
    """

    name: str
    ratios: Ratios
    machine: Mapping[str, Any]
    quick: bool
    whole: bool


def new_run() -> str:
    """A name for a run that begins now."""
    return time.strftime("%Y%m%d-%H%M%S")


def keep(scenario: str, run: str, document: object) -> Path:
    """Writes a scenario's numbers; gives the file."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / f"{scenario}-{run}.json"
    write(file, document)
    return file


def write(file: Path, document: object) -> None:
    """Writes JSON.

    Raises:
        SetupError: it cannot be written.
    """
    try:
        file.write_text(json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise SetupError(f"{file} cannot be written: {error.strerror}.") from None


def shown(file: Path) -> Path:
    """The file as a person in the root of the checkout calls it."""
    return file.relative_to(FOLDER.parent.parent)


def read(name: str) -> Kept:
    """A run by its time, or one file.

    Raises:
        InvalidRequest: there is nothing of that name, nothing to compare in it, or it is damaged.
    """
    file = Path(name)
    alone = file.is_file()
    files = [file] if alone else _files(name)
    if not files:
        raise InvalidRequest(f"There is neither a file {name} nor a run of that time.")
    found = _kept(name, files)
    if not found.ratios:
        raise InvalidRequest(f"There are no ratios in {name}; it may be from an older version.")
    return replace(found, whole=False) if alone else found


def latest(scenarios: Collection[str]) -> Kept:
    """The last run of any of these scenarios that has ratios; other programs keep numbers too.

    Raises:
        InvalidRequest: there is none, or it is damaged.
    """
    names = filter(None, (_NAME.fullmatch(file.stem) for file in FOLDER.glob("*.json")))
    runs = {found["run"] for found in names if found["scenario"] in scenarios}
    for run in sorted(runs, reverse=True):
        if (found := _kept(run, _files(run))).ratios:
            return found
    raise InvalidRequest("Nothing has been measured yet; make bench measures everything.")


def baseline() -> Provenance:
    """The committed baseline.

    Raises:
        SetupError: it is missing or damaged.
    """
    try:
        return msgspec.json.decode(BASELINE.read_bytes(), type=Provenance)
    except FileNotFoundError:
        raise SetupError("There is no baseline; python -m bench baseline makes one.") from None
    except (OSError, msgspec.DecodeError) as error:
        raise SetupError(f"{shown(BASELINE)} cannot be read: {error}.") from None


def _files(run: str) -> list[Path]:
    return sorted(file for file in FOLDER.glob("*.json") if file.stem.endswith(f"-{run}"))


def _kept(name: str, files: Sequence[Path]) -> Kept:
    documents = {file: _document(file) for file in files}
    ratios = {
        f"{_scenario(file)}: {what}": values
        for file, document in documents.items()
        for what, values in document.ratios.items()
    }
    first = next(iter(documents.values()))
    return Kept(name, ratios, first.machine, first.quick, first.whole)


def _document(file: Path) -> _File:
    try:
        # What is no number may be anywhere in it, but not in a ratio.
        document = json.loads(file.read_text(), parse_constant=lambda _: None)
        return msgspec.convert(document, _File)
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}.") from None


def _scenario(file: Path) -> str:
    found = _NAME.match(file.name)
    return found["scenario"] if found else file.stem
