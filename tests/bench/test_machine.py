"""What is told of the machine, by files as Linux has them."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import pytest

from bench import machine

CPUINFO = """processor\t: 0
model name\t: A Processor 9000
cpu MHz\t\t: 2445.438
flags\t\t: fpu sse2 avx2 avx512f avx512_vnni amx_tile

processor\t: 1
model name\t: Another
cpu MHz\t\t: 1500.000
"""
#: what is told of the frequency
NAMES = ("governor", "most_mhz", "mhz")


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with none of the files yet."""
    monkeypatch.setattr(machine, "FREQUENCY", tmp_path)
    monkeypatch.setattr(machine, "CPUINFO", tmp_path / "cpuinfo")
    return tmp_path


def frequency() -> dict[str, object]:
    return {name: value for name, value in machine.record().items() if name in NAMES}


def test_what_linux_tells(files: Path) -> None:
    (files / "cpuinfo").write_text(CPUINFO)
    (files / "scaling_governor").write_text("schedutil\n")
    (files / "cpuinfo_max_freq").write_text("3720703\n")
    told = machine.record()
    assert frequency() == {"governor": "schedutil", "most_mhz": 3721, "mhz": 2445}
    assert told["cpu"] == "A Processor 9000"
    assert told["cpu_features"] == "avx2 avx512f avx512_vnni"


def test_what_an_arm_processor_tells(files: Path) -> None:
    """It has features instead of flags, and neither a name nor a frequency there."""
    (files / "cpuinfo").write_text("processor\t: 0\nFeatures\t: fp asimd asimddp i8mm\n")
    told = machine.record()
    assert told["cpu_features"] == "asimddp i8mm"
    assert told["cpu"] == platform.processor()
    assert frequency() == {}


def test_where_there_is_nothing_the_rest_is_told(files: Path) -> None:
    """As on macOS."""
    told = machine.record()
    assert (frequency(), told["cpu_features"]) == ({}, "")
    assert told["cpu"] == platform.processor()
    assert {"cores", "load_1min", "system", "python", *machine.LIBRARIES} <= told.keys()


@pytest.mark.parametrize(
    "junk", [b"", b"\n", b"\xff\xfe\x00", b"<unsupported>\n", b"inf", b"nan", b"1e999", b"9" * 5000]
)
def test_junk_is_no_number_and_no_trouble(files: Path, junk: bytes) -> None:
    (files / "cpuinfo_max_freq").write_bytes(junk)
    for line in (b"cpu MHz\t\t: " + junk, b"cpu MHz", junk):
        (files / "cpuinfo").write_bytes(line)
        assert frequency() == {}


def test_bytes_that_are_no_text_are_shown_and_can_be_kept(files: Path) -> None:
    (files / "scaling_governor").write_bytes(b"per\xffformance\n")
    told = frequency()
    assert told == {"governor": "per\N{REPLACEMENT CHARACTER}formance"}
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize("empty", ["", "\n"])
def test_a_governor_without_a_name_is_none(files: Path, empty: str) -> None:
    (files / "scaling_governor").write_text(empty)
    assert frequency() == {}


def test_folders_in_their_place_are_no_files(files: Path) -> None:
    for name in ("cpuinfo", "scaling_governor", "cpuinfo_max_freq"):
        (files / name).mkdir()
    assert frequency() == {}
