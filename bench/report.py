"""What a scenario is given and what it gives back, and the sentences about targets. Core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

#: values of which the 95th percentile is another one than the worst
FEW = 20


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


def at_least(what: str, value: float | None, target: float) -> str:
    """A line that says whether a value that should be high is high enough; None never is."""
    reached = value is not None and value >= target
    return f"{_verdict(reached)}: {what} {_number(value)} (target: at least {target:g})"


def at_most(what: str, value: float | None, target: float) -> str:
    """A line that says whether a value that should be low is low enough; None never is."""
    reached = value is not None and value <= target
    return f"{_verdict(reached)}: {what} {_number(value)} (target: at most {target:g})"


def upper(values: Sequence[float]) -> float:
    """The 95th percentile, by nearest rank: of fewer than `FEW` values that is the worst."""
    return sorted(values)[-(-95 * len(values) // 100) - 1]


def upper_name(count: int) -> str:
    """What `upper` of so many values is called."""
    return "worst" if count < FEW else "p95"


def cell(value: object) -> str:
    """A value as tables show it."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"


def _verdict(reached: bool) -> str:
    return "PASS" if reached else "short of target"
