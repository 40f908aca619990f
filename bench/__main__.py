"""`python -m bench [NAME …]`: runs scenarios, prints tables, keeps the raw numbers, writes a report.

A scenario is a module in `bench/scenarios/` with `async def run(Options) -> Report`; its name is
the module's. What else can be asked for is a command, `python -m bench check` for one: a function
here, or one of another module that is given to `app.command`.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import trio
import typer
from msgspec import to_builtins
from rich.console import Console
from rich.status import Status

from bench import kept, machine, quantise, ratios, scenarios, shown, summary, tune
from bench.report import Options, cell
from bench.summary import Finished
from engine import config, process
from engine.errors import EngineError, InvalidRequest, SetupError

NAMES = summary.in_order(sorted(module.name for module in pkgutil.iter_modules(scenarios.__path__)))

#: what `--quick` repeats everything
QUICK = 3

#: of `python -m bench` without a command
DEFAULT = "measure"


class _Commands(typer.core.TyperGroup):
    """Commands; what begins with none of them is for `measure`, as the names of scenarios are."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Puts the command in front that is meant."""
        if not args or args[0] not in {*self.commands, "--help"}:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(cls=_Commands, add_completion=False, pretty_exceptions_enable=False)
app.command("tune")(tune.main)
app.command("quantise")(quantise.main)


@contextmanager
def _told() -> Iterator[None]:
    """What went wrong is one sentence, and the exit status 1."""
    try:
        yield
    except EngineError as error:
        print(error.message, file=sys.stderr)
        sys.exit(1)


@app.command()
def measure(
    names: Annotated[list[str] | None, typer.Argument(help=f"of {', '.join(NAMES)}")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="repeats; the median is shown")] = 7,
    quick: Annotated[bool, typer.Option("--quick", help="less of everything")] = False,
    engines: Annotated[str, typer.Option(help="engines to compare, with commas; all")] = "",
    threads: Annotated[int, typer.Option(min=0, help="inference threads; 0: all cores")] = 0,
    seed: Annotated[int, typer.Option(help="of orders and made-up texts")] = 1,
    json_file: Annotated[Path | None, typer.Option("--json", help="write the numbers")] = None,
    plot_file: Annotated[Path | None, typer.Option("--plot", help="draw the numbers")] = None,
) -> None:
    """Measures scenarios, all if none is named; tables name the machine and what ran beside it."""
    options = Options(
        rounds=QUICK if quick else rounds,
        engines=tuple(filter(None, (name.strip() for name in engines.split(",")))),
        threads=threads,
        seed=seed,
        quick=quick,
    )
    console, run = Console(), kept.new_run()
    with _told():
        chosen = _checked(names or NAMES, json_file, plot_file)
        process.set_up_logging(config.load({"log_level": "error"}).settings)
        about = machine.record()
        whole = not names and not options.engines
        # Memory first: what others have loaded into this process would be counted.
        chosen = sorted(chosen, key=lambda name: name != "memory")
        finished = [_finished(console, run, name, options, whole) for name in chosen]
        report = finished[0].report
        if json_file is not None and report is not None:
            kept.write(json_file, report.document)
        if plot_file is not None and report is not None and report.plot is not None:
            report.plot(plot_file)
        if any(one.report for one in finished):
            told = {"seed": seed, "rounds": options.rounds, "quick": cell(quick)}
            about |= {"load_after": machine.load(), **told}
            file = kept.FOLDER / f"report-{run}.md"
            file.write_text(summary.markdown(run, about, finished))
            console.print(f"report: {kept.shown(file)}")
        failed = [one for one in finished if one.failure]
        sentences = "\n".join(f"{one.name}: {one.failure}" for one in failed)
        if any(not (whole and one.lacking) for one in failed):
            raise SetupError(sentences)
        if failed:
            _warn(sentences)


@app.command()
def compare(
    one: Annotated[str, typer.Argument(help="a file of numbers, or the time of a run")],
    other: Annotated[str, typer.Argument(help="another")],
) -> None:
    """Compares the ratios of two runs: A, B, and B by A; lower is better."""
    with _told():
        found = kept.read(one), kept.read(other)
        rows = ratios.compared(found[0].ratios, found[1].ratios)
        if not rows:
            raise InvalidRequest(f"{one} and {other} have no ratio in common.")
        if found[0].quick != found[1].quick:
            _warn(
                "One run is quick and the other is not: they measure other texts, so ratios differ."
            )
        Console().print(shown.table(rows, long_names=True))


@app.command()
def check(
    runs: Annotated[
        list[str] | None, typer.Argument(help="files of numbers, or times of runs; the last run")
    ] = None,
) -> None:
    """Compares ratios with the baseline; exits with 1 if one is worse in all of the runs.

    So it does if a run of everything lacks one that is watched.
    """
    with _told():
        known = kept.baseline()
        found = [kept.read(run) for run in runs or ()] or [kept.latest(NAMES)]
        for one in found:
            if known.quick != one.quick:
                which = "quick runs" if known.quick else "full runs"
                raise InvalidRequest(f"The baseline is of {which}, and {one.name} is none.")
        names = ", ".join(one.name for one in found)
        measured = {name for one in found for name in one.ratios}
        watched = {name: known.ratios[name] for name in known.ratios if name in measured}
        if not watched:
            raise InvalidRequest(f"{names} has no ratio that the baseline knows.")
        here, there = {_features(one.machine) for one in found}, _features(known.machine)
        if others := sorted(here - {there}):
            _warn(
                f"The baseline's processor has {there}, and this one {'; '.join(others)}: "
                "ratios by int8 may differ by that alone."
            )
        missing = sorted(known.ratios.keys() - measured)
        if missing:
            _warn(f"Watched and not in {names}: {'; '.join(_shortened(missing, measured))}.")
        worse = list(ratios.regressions([one.ratios for one in found], watched))
        for sentence in worse:
            _warn(sentence)
        print(f"{names}: {len(watched) - len(worse)} of {len(watched)} ratios as they were.")
        if worse or (missing and any(one.whole for one in found)):
            sys.exit(1)


@app.command()
def baseline(
    runs: Annotated[list[str], typer.Argument(help="times of honest runs, at least three")],
) -> None:
    """Makes the baseline anew, of runs of the same code: ratios, and how far they scatter."""
    with _told():
        if len(runs) < 3:
            raise InvalidRequest("A baseline needs three runs, or nothing is known of its scatter.")
        found = [kept.read(run) for run in runs]
        if len({one.quick for one in found}) > 1:
            raise InvalidRequest("Quick runs and full ones have other ratios: take one kind.")
        made = ratios.baseline([one.ratios for one in found])
        if not made.known:
            raise InvalidRequest("No ratio is the same in these runs; is the machine busy?")
        for name, tolerance in made.unfit.items():
            print(f"not watched, it scatters too much ({tolerance:.0%}): {name}")
        document = kept.Provenance(
            ratios=dict(made.known),
            machine=dict(found[-1].machine),
            runs=[one.name for one in found],
            quick=found[0].quick,
        )
        kept.write(kept.BASELINE, to_builtins(document))
        print(f"{len(made.known)} ratios: {kept.shown(kept.BASELINE)}")


def _warn(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _features(machine: Mapping[str, object]) -> str:
    return str(machine.get("cpu_features") or "no known features")


def _shortened(missing: Iterable[str], measured: Iterable[str]) -> list[str]:
    """Names of ratios; scenarios of which nothing was measured are named instead of theirs."""
    there = {_scenario(name) for name in measured}
    short = (name if _scenario(name) in there else _scenario(name) for name in missing)
    return list(dict.fromkeys(short))


def _scenario(ratio: str) -> str:
    return ratio.partition(": ")[0]


def _checked(names: list[str], json_file: Path | None, plot_file: Path | None) -> list[str]:
    if unknown := sorted(set(names) - set(NAMES)):
        raise InvalidRequest(f"There is no scenario {unknown[0]!r}; there are {', '.join(NAMES)}.")
    if len(names) > 1 and (json_file or plot_file):
        raise InvalidRequest("A file takes the numbers of one scenario; name just one.")
    for file in (json_file, plot_file):
        if file is not None and not file.absolute().parent.is_dir():
            raise SetupError(f"There is no folder for {file}.")
    return names


def _finished(console: Console, run: str, name: str, options: Options, whole: bool) -> Finished:
    """Runs a scenario, shows what it found and keeps it; a failure is only told."""
    before, began_s, about = machine.record(), time.monotonic(), ""
    try:
        scenario = importlib.import_module(f"bench.scenarios.{name}")
        paragraphs = (scenario.__doc__ or "").split("\n\n")
        about = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
        # Only what needs more than `make setup` brings can tell; a run of all goes on without it.
        if sentence := getattr(scenario, "lacks", lambda: None)():
            return Finished(name, about, failure=sentence, lacking=True)
        with console.status(name) as status:
            asked = replace(options, tell=partial(_tell, status, name))
            report = trio.run(partial(scenario.run, asked))
    except EngineError as error:
        return Finished(name, about, failure=error.message)
    except Exception as error:  # a fault of one must not cost what the others have found
        traceback.print_exc()
        return Finished(name, about, failure=f"It has a fault: {type(error).__name__}.")
    took_s = time.monotonic() - began_s
    shown.show(console, name, about, report)
    plot = shown.drawn(report, f"{name}-{run}")
    file = kept.keep(
        name,
        run,
        {
            **report.document,
            "notes": list(report.notes),
            **report.raw,
            "ratios": {what: list(values) for what, values in report.ratios.items() if values},
            "machine": {**report.document.get("machine", {}), **before},
            "load_after": machine.load(),
            "seed": options.seed,
            "rounds": options.rounds,
            "quick": options.quick,
            "whole": whole,
            "took_s": round(took_s, 1),
        },
    )
    console.print(f"raw numbers: {kept.shown(file)}", style="dim")
    return Finished(name, about, report, plot=plot, took_s=took_s)


def _tell(status: Status, name: str, doing: str) -> None:
    status.update(f"{name}: {doing}")


if __name__ == "__main__":
    app()
