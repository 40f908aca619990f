"""The results folder: the numbers of every run, by scenario and time. Files.

A run is one call of `python -m bench`; the names of all its files end in its time, by which it is
called (`20261129-014720`).
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Kept:
    """A run, or one scenario of it.

    Attributes:
        name: the file, or the run's time.
        ratios: of all scenarios; names begin with the scenario's.
        machine: what it was measured on.
        quick: whether it was quick.
    """

    name: str
    ratios: Ratios
    machine: Mapping[str, Any]
    quick: bool


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
        InvalidRequest: there is nothing of that name, or nothing to compare in it.
    """
    file = Path(name)
    files = [file] if file.is_file() else sorted(FOLDER.glob(f"*-{name}.json"))
    if not files:
        raise InvalidRequest(f"There is neither a file {name} nor a run of that time.")
    documents = {found: _document(found) for found in files}
    ratios = {
        f"{_scenario(found)}: {what}": values
        for found, document in documents.items()
        for what, values in document.get("ratios", {}).items()
    }
    if not ratios:
        raise InvalidRequest(f"There are no ratios in {name}; it may be from an older version.")
    first = next(iter(documents.values()))
    return Kept(name, ratios, first.get("machine", {}), bool(first.get("quick")))


def latest() -> Kept:
    """The run that began last.

    Raises:
        InvalidRequest: there is none, or nothing to compare in it.
    """
    runs = [found["run"] for file in FOLDER.glob("*.json") if (found := _NAME.match(file.name))]
    if not runs:
        raise InvalidRequest("Nothing has been measured yet; make bench measures everything.")
    return read(max(runs))


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


def _document(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise InvalidRequest(f"{file} cannot be read: {error}.") from None
    return document if isinstance(document, dict) else {}


def _scenario(file: Path) -> str:
    found = _NAME.match(file.name)
    return found["scenario"] if found else file.stem
