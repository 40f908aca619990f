"""Draws the rows of a comparison. Needs matplotlib, which is a dependency of development. Files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report import Row
from engine.errors import SetupError


def first_audio(rows: Sequence[Row], file: Path) -> None:
    """Time to first audible sample against length of text, a line for each engine.

    Raises:
        SetupError: matplotlib is not installed, or the file cannot be written.
    """
    figure, axes = _figure()
    for name in dict.fromkeys(_label(row) for row in rows):
        own = [row for row in rows if _label(row) == name and row["first_audible_ms"]]
        points = sorted((row["chars"], row["first_audible_ms"] / 1000) for row in own)
        axes.plot(*zip(*points, strict=True), marker="o", label=name)
    axes.set(xlabel="characters in the sentence", ylabel="seconds to the first audible sample")
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.set_xlim(left=0)
    _save(figure, file)


def throughput(rows: Sequence[Row], file: Path) -> None:
    """Real-time factor, a bar for each engine.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    own = [row for row in rows if not row["cached"]]
    bars = axes.barh([row["engine"] for row in own], [row["rtf"] for row in own])
    axes.bar_label(bars)
    axes.set(xlabel="real-time factor: compute / audio")
    axes.invert_yaxis()
    _save(figure, file)


def concurrency(rows: Sequence[Row], file: Path) -> None:
    """When streams that begin together are first heard, by their number.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    for key in ("first frame, median ms", "first frame, last ms"):
        axes.plot([row["streams"] for row in rows], [row[key] for row in rows], "o-", label=key)
    axes.set(xlabel="streams at once", ylabel="ms to the first frame")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    _save(figure, file)


def g2p(rows: Sequence[Row], file: Path) -> None:
    """Time to phonemes against length of text, a line for each stage and temperature.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    for name in dict.fromkeys(row["stage"] for row in rows):
        own = [row for row in rows if row["stage"] == name]
        for key in ("warm ms", "cached ms"):
            axes.plot(
                [r["chars"] for r in own], [r[key] for r in own], "o-", label=f"{name}, {key}"
            )
    axes.set(xlabel="characters", ylabel="ms to phonemes", xscale="log", yscale="log")
    _save(figure, file)


def memory(rss_mb: Sequence[float], file: Path) -> None:
    """Resident memory after each utterance.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    axes.plot(rss_mb)
    axes.set(xlabel="utterances", ylabel="resident memory, MB")
    axes.set_ylim(bottom=0)
    _save(figure, file)


def front(
    all_of_them: Sequence[tuple[float, float]],
    best: Sequence[tuple[float, float]],
    marked: Mapping[str, tuple[float, float]],
    file: Path,
) -> None:
    """Time to the first sound against what is in hand: what was tried, and what nothing beats.

    Args:
        all_of_them: (ms, ms) of all settings that keep the constraints.
        best: those that none is better than in both, soonest first.
        marked: single ones, by name.
        file: to write.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    if all_of_them:
        axes.scatter(*zip(*all_of_them, strict=True), s=12, color="0.6", label="possible")
    if best:
        axes.step(*zip(*best, strict=True), "o-", where="post", label="none is better in both")
    for name, (first_ms, margin_ms) in marked.items():
        axes.plot([first_ms], [margin_ms], "*", markersize=16, label=name)
    axes.set(xlabel="ms to the first sound", ylabel="ms in hand, inside of phrases, at least")
    _save(figure, file)


def quantise(rows: Sequence[Row], file: Path) -> None:
    """Time by single precision's against distance from it, a point for each variant.

    Raises:
        SetupError: as `first_audio`.
    """
    figure, axes = _figure()
    for row in rows:
        if row["LSD dB"] is not None and row["whole"] is not None:
            axes.plot(row["LSD dB"], row["whole"], "o", label=str(row["variant"]).partition(":")[0])
    axes.set(xlabel="distance from single precision, dB", ylabel="time by single precision's")
    _save(figure, file)


def _label(row: Row) -> str:
    return f"{row['engine']}, cached" if row["cached"] else str(row["engine"])


def _figure() -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise SetupError("A plot needs matplotlib: run make lint or make test once.") from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, file: Path) -> None:
    """Writes the figure, with a grid behind its lines, and their names if there are any."""
    for axes in figure.axes:
        axes.set_axisbelow(True)
        axes.grid(which="both", alpha=0.3)
        if axes.get_legend_handles_labels()[1]:
            axes.legend()
    try:
        figure.savefig(file, dpi=150)
    except (OSError, ValueError) as error:  # ValueError: a suffix it does not know
        raise SetupError(f"The plot cannot be written to {file}: {error}.") from None
