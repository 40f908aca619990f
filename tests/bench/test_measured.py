"""Scenarios that measure processes, run once with less of everything: what they tell, not how fast."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import corpus
from bench.report import Options
from bench.scenarios import first_byte, providers, quality, startup, transport
from engine.model import placement
from engine.model.assets import Assets
from http_compat.schema import Format


async def test_the_wire_is_measured_with_and_without_a_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"STREAMS": 3, "MINUTES": 1, "PIECES": 20}.items():
        monkeypatch.setattr(transport, name, value)
    report = await transport.run(Options(rounds=2))
    values = {row["what"]: row["value"] for row in report.rows}
    assert len(values) == 11
    assert min(values.values()) > 0
    port, alone = (values[f"first frame, {way}, ms median"] for way in ("port", "no socket"))
    assert port > 3 * alone  # 70 times, where nobody is late
    assert {name: len(found) for name, found in report.raw["firsts_ms"].items()} == {
        "port": 6,
        "connection": 6,
        "no socket": 6,
    }
    assert [len(found) for found in report.ratios.values()] == [6]


async def test_containers_are_measured_to_their_first_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def health_ms(options: Options) -> list[float]:  # beside the real engine
        return [1.0, 2.0, 3.0]

    monkeypatch.setattr(first_byte, "_health_ms", health_ms)
    monkeypatch.setattr(first_byte, "REQUESTS", 2)
    report = await first_byte.run(Options(rounds=2, quick=True))
    compared = [(str(container), "audio") for container in Format] + [("pcm", "sse")]
    assert {(row["what"], row["as"]) for row in report.rows} == {
        *compared,
        ("/health", "while it speaks"),
    }
    assert all(0 < row["ms_median"] <= row["ms_95 %"] <= row["ms_most"] for row in report.rows)
    assert len(report.ratios) == len(compared) - 1
    assert {len(values) for values in report.ratios.values()} == {2}
    assert {name: len(ms) for name, ms in report.raw["ms"].items()} == {
        **{f"{container} {way}": 4 for container, way in compared},
        "/health while it speaks": 3,
    }


async def test_a_start_is_measured_and_its_first_request_compared(
    monkeypatch: pytest.MonkeyPatch, real_assets: Assets
) -> None:
    for name, value in {"REQUESTS": 3, "LATER": 1, "LOADS": 1}.items():
        monkeypatch.setattr(startup, name, value)
    report = await startup.run(Options(rounds=1, quick=True))
    (row,) = report.rows
    assert row["build_s"] is None  # not if it has to be quick
    assert row["first_of_later"] == pytest.approx(
        row["first_request_ms"] / row["later_request_ms"], abs=0.01
    )
    assert 0 < row["graphs_s"] < row["ready_s"]
    assert list(report.ratios) == ["first request / later ones", "graphs / whole start"]
    assert [list(values) for values in report.ratios.values()] == [
        [pytest.approx(row["first_of_later"], abs=0.001)],
        [pytest.approx(row["graphs_s"] / row["ready_s"], abs=0.01)],
    ]


async def test_where_there_is_the_processor_alone_a_quick_look_says_so_and_keeps_nothing(
    monkeypatch: pytest.MonkeyPatch, real_assets: Assets
) -> None:
    monkeypatch.setenv("KOKORO_LIVE_PROVIDER", "cpu")
    monkeypatch.setattr(
        placement, "keep", lambda *_: pytest.fail(f"{placement.FILE} would have been written")
    )
    report = await providers.run(Options(rounds=1, quick=True))
    assert (report.rows, report.ratios) == ([], {})
    assert "processor is used alone" in report.notes[0]
    assert report.notes[-1] == "Nothing was kept."


def test_the_texts_of_quality_are_missed_before_it_is_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(corpus, "FORTUNES", tmp_path)
    (tmp_path / "es").mkdir()
    for name in ("literature", "es/a.fortunes", "brasil"):
        (tmp_path / name).write_text("One.")
    assert quality.lacks() == (
        "Install the packages fortunes, fortunes-es, fortunes-it, fortunes-br."
    )
    (tmp_path / "italia").write_text("Uno.")
    assert quality.lacks() is None
