"""What a scenario is given and what it gives back, and the sentences about targets. Core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks of a scenario; each reads what it has a use for.

    Attributes:
        rounds: how often everything is repeated; medians are reported.
        engines: names of the engines to compare; empty: all of them.
        threads: inference threads of every engine; 0: one per core.
        seed: of every order and every made-up text.
        quick: less of everything, so that all scenarios together take less than ten minutes.
        tell: shows what is being done.
    """

    rounds: int = 7
    engines: tuple[str, ...] = ()
    threads: int = 0
    seed: int = 1
    quick: bool = False
    tell: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Report:
    """What a scenario found.

    Attributes:
        rows: the table; every row has the same keys.
        notes: lines under the table, among them those about targets.
        document: what `--json` writes, exactly.
        raw: single runs, kept in the results folder beside the document.
        ratios: what was measured by something of the same round, lower is better, a value for each
            round; `bench.ratios` compares these between runs.
        plot: draws into the file that `--plot` names.
    """

    rows: Sequence[Row]
    document: Mapping[str, Any]
    notes: Sequence[str] = ()
    raw: Mapping[str, Any] = field(default_factory=dict)
    ratios: Mapping[str, Sequence[float]] = field(default_factory=dict)
    plot: Callable[[Path], None] | None = None


def at_least(what: str, value: float, target: float) -> str:
    """A line that says whether a value that should be high is high enough."""
    return f"{_verdict(value >= target)}: {what} {value:.3g} (target: at least {target:g})"


def at_most(what: str, value: float, target: float) -> str:
    """A line that says whether a value that should be low is low enough."""
    return f"{_verdict(value <= target)}: {what} {value:.3g} (target: at most {target:g})"


def cell(value: object) -> str:
    """A value as tables show it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _verdict(reached: bool) -> str:
    return "PASS" if reached else "short of target"
