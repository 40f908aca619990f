"""The commands: runs are kept, reported, compared and checked."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bench import __main__ as command
from bench import kept, summary
from bench.report import Options, Report, at_most
from bench.summary import Finished
from engine.errors import SetupError
from tests.support.processes import run_module


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder, and a baseline, of its own."""
    results = tmp_path / "bench" / "results"
    results.mkdir(parents=True)
    monkeypatch.setattr(kept, "FOLDER", results)
    monkeypatch.setattr(kept, "BASELINE", results.parent / "baseline.json")
    return results


def bench(*args: str) -> Result:
    return CliRunner().invoke(command.app, list(args))


def a_run(
    number: int,
    ratio: float,
    *,
    quick: bool = True,
    whole: bool = False,
    scenario: str = "throughput",
    features: str = "avx2",
) -> str:
    run = f"20261129-0000{number:02}"
    about = {"machine": {"cpu_features": features}, "quick": quick, "whole": whole}
    kept.keep(scenario, run, {"ratios": {"a": [ratio, ratio * 1.01]}, **about})
    return run


@pytest.fixture
def honest() -> list[str]:
    return [a_run(number, ratio) for number, ratio in enumerate((0.6, 0.61, 0.59))]


def test_a_slow_down_is_one_sentence_and_exit_status_1(honest: list[str]) -> None:
    made = bench("baseline", *honest)
    assert made.exit_code == 0, made.output
    assert kept.baseline().runs == honest
    last = bench("check")  # the last run is an honest one
    assert (last.exit_code, last.stdout) == (0, f"{honest[-1]}: 1 of 1 ratios as they were.\n")
    slow = bench("check", a_run(7, 0.72))
    assert slow.exit_code == 1
    (sentence,) = slow.stderr.splitlines()
    assert sentence.startswith("throughput: a is 0.724 and was 0.603: 20% more")
    assert bench("check", a_run(8, 0.5)).exit_code == 0
    assert bench("check", a_run(8, 0.6), slow.stdout.partition(":")[0]).exit_code == 0


def test_runs_and_files_are_compared(honest: list[str], folder: Path) -> None:
    slow = a_run(7, 1.2)
    done = bench("compare", honest[0], str(folder / f"throughput-{slow}.json"))
    assert done.exit_code == 0, done.output
    row = next(line for line in done.stdout.splitlines() if "throughput: a" in line)
    assert row.replace("│", "").split() == ["throughput:", "a", "0.603", "1.21", "2", "worse"]
    assert not done.stderr
    (sentence,) = bench("compare", honest[0], a_run(8, 1.2, quick=False)).stderr.splitlines()
    assert sentence.startswith("One run is quick and the other is not")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["speed"], "There is no scenario 'speed'"),
        (["first_audio", "throughput", "--json", "x.json"], "name just one"),
        (["first_audio", "--json", "none/x.json"], "no folder for none/x.json"),
        (["first_audio", "--engines", "theirs"], "There is no engine 'theirs'"),
        (["check"], "There is no baseline; python -m bench baseline makes one."),
        (["compare", "x", "y"], "There is neither a file x nor a run of that time."),
        (["baseline", "20261129-000000", "20261129-000001"], "A baseline needs three runs"),
        (["baseline", "20261129-000000", "20261129-000001", "20261129-000009"], "take one kind"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(honest: list[str], args: list[str], says: str) -> None:
    a_run(9, 0.6, quick=False)
    done = bench(*args)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert says in line


def test_a_full_run_is_not_checked_against_quick_ones(honest: list[str]) -> None:
    bench("baseline", *honest)
    done = bench("check", a_run(9, 0.6, quick=False))
    assert done.exit_code == 1
    assert "The baseline is of quick runs" in done.stderr


@pytest.mark.parametrize("whole", [True, False])
def test_what_a_run_lacks_is_named(honest: list[str], whole: bool) -> None:
    for number in range(len(honest)):
        a_run(number, 2.0, scenario="startup")
    bench("baseline", *honest)
    done = bench("check", a_run(7, 0.6, whole=whole))
    assert done.stderr == "Watched and not in 20261129-000007: startup.\n"
    assert done.stdout == "20261129-000007: 1 of 1 ratios as they were.\n"
    assert done.exit_code == int(whole)
    kept.keep("startup", "20261129-000007", {"ratios": {"b": [1]}, "quick": True, "whole": whole})
    done = bench("check", "20261129-000007")
    assert done.stderr.splitlines()[-1] == "Watched and not in 20261129-000007: startup: a."


def test_a_file_of_a_run_of_everything_is_not_everything(honest: list[str], folder: Path) -> None:
    for number in range(len(honest)):
        a_run(number, 2.0, scenario="startup")
    bench("baseline", *honest)
    done = bench("check", str(folder / f"throughput-{a_run(7, 0.6, whole=True)}.json"))
    assert done.exit_code == 0
    assert done.stderr.endswith(": startup.\n")


def test_another_processor_is_told(honest: list[str]) -> None:
    bench("baseline", *honest)
    done = bench("check", a_run(7, 0.6, features="avx2 avx512_vnni"))
    assert done.exit_code == 0
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("The baseline's processor has avx2, and this one avx2 avx512_vnni:")


def test_the_last_run_is_one_of_scenarios_that_has_ratios(honest: list[str]) -> None:
    bench("baseline", *honest)
    a_run(20, 9.0, scenario="tune")
    kept.keep("roads_lowrank", "20261129-000021", {"rows": []})
    kept.keep("text", "20261129-000022", {"ratios": {}})
    done = bench("check")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith(honest[-1])


def test_what_is_no_number_may_be_beside_the_ratios(honest: list[str]) -> None:
    kept.keep("text", "20261129-000030", {"ratios": {"a": [1]}, "rows": [math.nan]})
    assert kept.latest(["text"]).ratios == {"text: a": [1]}


def test_a_ratio_of_nothing_is_compared(honest: list[str]) -> None:
    done = bench("compare", a_run(7, 0), honest[0])
    assert done.exit_code == 0, done.output
    assert "–" in done.stdout
    done = bench("baseline", *honest[1:], "20261129-000007")
    assert done.exit_code == 1
    assert done.stderr.startswith("No ratio is the same in these runs")


DAMAGED = [
    "",
    "{",
    "[]",
    "\xff",
    "[" * 100_000,
    '{"ratios": null}',
    '{"ratios": []}',
    '{"ratios": {"a": 1}}',
    '{"ratios": {"a": []}}',
    '{"ratios": {"a": ["1"]}}',
    '{"ratios": {"a": [1, null]}}',
    '{"ratios": {"a": [-1]}}',
    '{"ratios": {"a": [NaN]}}',
    '{"ratios": {"a": [1e999]}}',
    '{"ratios": {"a": [1]}, "machine": []}',
    '{"ratios": {"a": [1]}, "quick": 1}',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_run_is_named(honest: list[str], folder: Path, text: str) -> None:
    bench("baseline", *honest)
    file = folder / "throughput-20261129-000030.json"
    file.write_bytes(text.encode("latin-1"))
    for args in (["check"], ["check", str(file)], ["compare", honest[0], "20261129-000030"]):
        done = bench(*args)
        assert done.exit_code == 1
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith(f"{file} cannot be read: ")


@pytest.mark.parametrize(
    "text", ["{", '{"ratios":{"a":{"ratio":0,"tolerance":0}},"machine":{},"runs":[],"quick":true}']
)
def test_a_damaged_baseline_is_named(honest: list[str], text: str) -> None:
    kept.BASELINE.write_text(text)
    done = bench("check")
    assert done.exit_code == 1
    assert done.stderr.startswith("bench/baseline.json cannot be read:")


def test_it_is_a_program() -> None:
    done = run_module("bench", "speed")
    assert done.returncode == 1
    assert "There is no scenario 'speed'" in done.stderr


# --- a run --------------------------------------------------------------------------------------


def draw(file: Path) -> None:
    file.write_text("drawn")


class Scenario:
    """Counts.

    The second paragraph.
    """

    asked: Options

    @classmethod
    async def run(cls, options: Options) -> Report:
        cls.asked = options
        options.tell("counting")
        return Report(
            rows=[{"what": "a|b", "value": 1.5, "ok": True, "none": None}],
            document={"rows": [1], "machine": {"threads": 2, "cores": 0}},
            notes=[at_most("ms", 2, 3), at_most("MB", 9, 3)],
            raw={"single": [1, 2]},
            ratios={"ours / theirs": [0.5, 0.7, 0.6], "of nothing": []},
            plot=draw,
        )


class Broken:
    """Fails."""

    @staticmethod
    async def run(options: Options) -> Report:
        raise SetupError("There is no model.")


class Faulty:
    """Has a fault."""

    @staticmethod
    async def run(options: Options) -> Report:
        raise ZeroDivisionError


def test_a_run_is_kept_and_reported(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    made = {"bench.scenarios.throughput": Scenario, "bench.scenarios.startup": Broken}
    made["bench.scenarios.memory"] = Faulty
    monkeypatch.setattr("importlib.import_module", made.get)
    monkeypatch.setattr(kept, "new_run", lambda: "20261129-000000")
    done = bench("throughput", "startup", "memory", "--quick", "--seed", "5")
    assert done.exit_code == 1
    *_, fault, failure = done.stderr.splitlines()  # memory was first, though named last
    assert fault == "memory: It has a fault: ZeroDivisionError."
    assert failure == "startup: There is no model."
    assert "report: bench/results/report-20261129-000000.md" in done.stdout
    assert (Scenario.asked.quick, Scenario.asked.seed) == (True, 5)
    document = json.loads((folder / "throughput-20261129-000000.json").read_text())
    assert document["ratios"] == {"ours / theirs": [0.5, 0.7, 0.6]}
    assert (document["rows"], document["single"], document["seed"]) == ([1], [1, 2], 5)
    assert document["whole"] is False
    machine = document["machine"]
    assert machine["threads"] == 2
    assert machine["cores"] > 0
    assert {"python", "onnxruntime", "numpy", "load_1min", "cpu"} <= set(machine)
    assert document["load_after"] >= 0
    report = (folder / "report-20261129-000000.md").read_text()
    assert "| Throughput | throughput | 1 | 1 |" in report
    assert "| Startup | could not be run: startup | 0 | 0 |" in report
    assert "| Memory | could not be run: memory | 0 | 0 |" in report
    assert "| G2P | not measured | 0 | 0 |" in report
    assert "Counts.\n\nThe second paragraph.\n" in report
    assert r"| a\|b | 1.5 | yes | – |" in report
    assert "| ours / theirs | 0.6 | 3 |" in report
    assert "![throughput](throughput-20261129-000000.svg)" in report
    for suffix in ("svg", "png"):
        assert (folder / f"throughput-20261129-000000.{suffix}").read_text() == "drawn"


def test_a_run_of_everything_goes_on_without_what_this_machine_lacks(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    class Needy:
        @staticmethod
        def lacks() -> str:
            return "Install the texts."

    made: dict[str, object] = {"bench.scenarios.throughput": Scenario}
    made["bench.scenarios.quality"] = Needy
    monkeypatch.setattr("importlib.import_module", made.get)
    monkeypatch.setattr(command, "NAMES", ["throughput", "quality"])
    done = bench("--quick")
    assert (done.exit_code, done.stderr) == (0, "quality: Install the texts.\n")
    report = max(folder.glob("report-*.md")).read_text()
    assert "**Could not be run:** Install the texts." in report
    done = bench("quality", "--quick")
    assert (done.exit_code, done.stderr) == (1, "quality: Install the texts.\n")


def test_a_run_of_everything_in_which_a_scenario_fails_does_not_pass(
    monkeypatch: pytest.MonkeyPatch, honest: list[str]
) -> None:
    made: dict[str, object] = {"bench.scenarios.throughput": Scenario}
    made["bench.scenarios.startup"] = Scenario
    monkeypatch.setattr("importlib.import_module", made.get)
    monkeypatch.setattr(command, "NAMES", ["throughput", "startup"])
    runs = [f"20261129-00010{number}" for number in range(6)]
    monkeypatch.setattr(kept, "new_run", iter(runs).__next__)
    for _ in range(3):
        assert bench("--quick").exit_code == 0
    bench("baseline", *runs[:3])
    made["bench.scenarios.startup"] = Broken
    assert bench("--quick").exit_code == 1
    done = bench("check")
    assert done.exit_code == 1
    assert done.stderr == f"Watched and not in {runs[3]}: startup.\n"
    for args in (["throughput"], ["--engines", "ours"]):
        bench("--quick", *args)
        assert bench("check").exit_code == 0


def test_the_report_has_seven_validations_in_order() -> None:
    finished = [Finished(name, "About.", Report([], {})) for name in command.NAMES]
    lines = summary.markdown("now", {"cores": 2}, finished).splitlines()
    titles = [line for line in lines if line.startswith("## ")]
    assert titles == [
        "## Validation 1 of 7: First audio",
        "## Validation 2 of 7: Throughput",
        "## Validation 3 of 7: Concurrency",
        "## Validation 4 of 7: G2P",
        "## Validation 5 of 7: Memory",
        "## Validation 6 of 7: Startup",
        "## Validation 7 of 7: Stability",
        "## Also measured",
    ]
    assert [line[4:] for line in lines if line.startswith("### ")] == command.NAMES
