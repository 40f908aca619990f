"""The report of a run, in Markdown: what was found about each of seven things, and the rest. Core."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.report import Report, Row, cell

#: What is looked at after every optimisation, and the scenarios that do.
VALIDATIONS: Mapping[str, tuple[str, ...]] = {
    "First audio": ("first_audio",),
    "Throughput": ("throughput",),
    "Concurrency": ("concurrency",),
    "G2P": ("g2p", "text"),
    "Memory": ("memory",),
    "Startup": ("startup",),
    "Stability": ("stability",),
}
REST = "Also measured"


@dataclass(frozen=True, slots=True)
class Finished:
    """A scenario that has been run.

    Attributes:
        name: the scenario's.
        about: paragraphs about what it measures.
        report: what it found; None if it could not be run.
        failure: then a sentence.
        lacking: then, whether this machine lacks what it is measured with.
        plot: name of an SVG file beside the report, if there is one.
        took_s: how long it took.
    """

    name: str
    about: str
    report: Report | None = None
    failure: str = ""
    lacking: bool = False
    plot: str | None = None
    took_s: float = 0.0


def in_order(names: Sequence[str]) -> list[str]:
    """Scenarios as the report has them."""
    ordered = [name for own in VALIDATIONS.values() for name in own]
    return [name for name in ordered if name in names] + [n for n in names if n not in ordered]


def markdown(run: str, machine: Mapping[str, object], finished: Sequence[Finished]) -> str:
    """The report.

    Args:
        run: its name.
        machine: what it was measured on, and how.
        finished: in any order.
    """
    by_name = {one.name: one for one in finished}
    named = {name for names in VALIDATIONS.values() for name in names}
    parts = [f"# Benchmarks, {run}", "", _listed(machine), "", *_overview(by_name)]
    for number, (title, names) in enumerate(VALIDATIONS.items(), 1):
        parts += ["", f"## Validation {number} of {len(VALIDATIONS)}: {title}"]
        measured = [by_name[name] for name in names if name in by_name]
        parts += [line for one in measured for line in _section(one)] or ["", "Not measured."]
    rest = [one for one in finished if one.name not in named]
    if rest:
        parts += ["", f"## {REST}", *(line for one in rest for line in _section(one))]
    return "\n".join(parts) + "\n"


def page(run: str, machine: Mapping[str, object], one: Finished) -> str:
    """A report of one thing alone, by the same arguments."""
    return "\n".join([f"# {one.name}, {run}", "", _listed(machine), *_section(one)]) + "\n"


def _listed(about: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in about.items())


def _overview(by_name: Mapping[str, Finished]) -> Iterator[str]:
    """A line for each validation: how many targets were reached."""
    yield "| validation | scenarios | targets reached | short of target |"
    yield "|---|---|---|---|"
    for title, names in VALIDATIONS.items():
        measured = [by_name[name] for name in names if name in by_name]
        notes = [note for one in measured if one.report for note in one.report.notes]
        reached = sum(note.startswith("PASS") for note in notes)
        short = sum(note.startswith("short of target") for note in notes)
        failed = [one.name for one in measured if one.report is None]
        if failed:
            told = f"could not be run: {', '.join(failed)}"
        elif not measured:
            told = "not measured"
        else:
            told = ", ".join(one.name for one in measured)
        yield f"| {title} | {told} | {reached} | {short} |"


def _section(one: Finished) -> Iterator[str]:
    yield from ("", f"### {one.name}", "", one.about)
    if one.report is None:
        yield from ("", f"**Could not be run:** {one.failure}")
        return
    if one.report.rows:
        yield from ("", *_table(one.report.rows))
    if one.report.notes:
        yield ""
        yield from (f"* {note}" for note in one.report.notes)
    if one.report.ratios:
        rows = [
            {"ratio (lower is better)": name, "median": _short(values), "rounds": len(values)}
            for name, values in one.report.ratios.items()
        ]
        yield from ("", *_table(rows))
    if one.plot is not None:
        yield from ("", f"![{one.name}]({one.plot})")
    yield from ("", f"Took {one.took_s:.0f} s.")


def _short(values: Sequence[float]) -> float | None:
    return float(f"{statistics.median(values):.3g}") if values else None


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield "| " + " | ".join(_escaped(key) for key in rows[0]) + " |"
    yield "|---" * len(rows[0]) + "|"
    for row in rows:
        yield "| " + " | ".join(_escaped(cell(value)) for value in row.values()) + " |"


def _escaped(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
