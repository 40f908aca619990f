"""What the scheduled benchmark has found over weeks."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import history
from engine.history import KEPT, SPAN, Run, Series
from engine.report import SelfBench, Trend

HERE = Series("x86_64, 2 cores", "1.22.0", "2.3.0", "abc", "CPU", "CPU", 0, True, "float32")
DAY_S = 86_400.0

SERIES = st.builds(
    Series,
    *(st.text(max_size=20) for _ in range(6)),
    threads=st.integers(0, 64),
    spinning=st.none() | st.booleans(),
    precision=st.text(max_size=20),
)
MS = st.floats(0.001, 1e6)
RUNS = st.lists(st.builds(Run, st.floats(0, 1e10), SERIES, MS, MS, MS), max_size=8)


def runs(*vocoder_ms: float, yardstick_ms: float = 30.0, series: Series = HERE) -> list[Run]:
    """One a day."""
    return [Run(DAY_S * day, series, 50.0, ms, yardstick_ms) for day, ms in enumerate(vocoder_ms)]


# --- the file -----------------------------------------------------------------------------------


@given(RUNS)
def test_what_is_written_is_read(some: list[Run]) -> None:
    assert history.read(history.written(some)) == some


@given(RUNS, st.binary(max_size=200), st.integers(0, 400))
def test_a_damaged_line_costs_itself(some: list[Run], damage: bytes, at: int) -> None:
    lines = history.written(some).splitlines(keepends=True)
    at %= len(lines) + 1
    damage = damage.replace(b"\n", b"").replace(b"\r", b"")
    found = history.read(b"".join([*lines[:at], damage, b"\n", *lines[at:]]))
    assert found == some


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_file_that_was_cut_off_lacks_its_last_line(cut: int) -> None:
    some = runs(200, 201, 202)
    assert history.read(history.written(some)[:-cut])[:2] == some[:2]


def test_times_that_cannot_be_are_left_out() -> None:
    odd = [Run(0, HERE, 1, 1, 0), Run(0, HERE, -1, 1, 1), *runs(200)]
    assert history.read(msgspec.json.Encoder().encode_lines(odd)) == runs(200)


def test_the_file_has_a_bound() -> None:
    many = runs(*[200.0] * (KEPT + 50))
    assert history.read(history.written(many)) == many[-KEPT:]
    assert history.read(b"".join(history.written([run]) for run in many)) == many[-KEPT:]


# --- when ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_s", "now_s", "due"),
    [
        (None, 5.0, True),
        (0.0, DAY_S - 1, False),
        (0.0, DAY_S, True),
        (10 * DAY_S, 5 * DAY_S, True),  # a clock was set back
    ],
)
def test_when_it_is_time(last_s: float | None, now_s: float, due: bool) -> None:
    assert history.is_due(last_s, DAY_S, now_s) == due


# --- what is found ------------------------------------------------------------------------------


@dataclass
class Case:
    before: list[float]
    after: list[float]
    times: float
    slower: bool


@pytest.mark.parametrize(
    "case",
    [
        Case([200] * SPAN, [200] * SPAN, 1.0, False),
        Case([200] * SPAN, [238] * SPAN, 1.19, False),
        Case([200] * SPAN, [242] * SPAN, 1.21, True),
        Case([242] * SPAN, [200] * SPAN, 0.826, False),
        Case([200, 200, 200, 900, 900], [200, 200, 200, 900, 900], 1.0, False),  # two bad days
        Case([200, 200, 200, 900, 900], [300, 300, 300, 200, 200], 1.5, True),
    ],
)
def test_slower_is_a_fifth_in_the_median(case: Case) -> None:
    assert history.trend(runs(*case.before, *case.after), "vocoder") == Trend(
        case.after[-1], case.times, case.slower
    )


def test_only_the_last_ten_count() -> None:
    some = runs(*[100.0] * 50, *[200.0] * 2 * SPAN)
    assert history.trend(some, "vocoder") == Trend(200.0, 1.0)


@given(st.lists(st.floats(0.5, 20), min_size=2 * SPAN, max_size=2 * SPAN))
def test_a_machine_that_is_busy_is_no_slower_engine(loads: list[float]) -> None:
    busy = [Run(0, HERE, 50 * load, 200 * load, 30 * load) for load in loads]
    for part in ("acoustic", "vocoder"):
        trend = history.trend(busy, part)
        assert trend.times == pytest.approx(1.0)
        assert not trend.slower


@pytest.mark.parametrize("count", [1, 2 * SPAN - 1])
def test_few_runs_say_nothing(count: int) -> None:
    assert history.trend(runs(*[200.0] * (count - 1), 900.0), "vocoder") == Trend(900.0)


@pytest.mark.parametrize("field", Series.__struct_fields__)
def test_what_has_another_series_is_not_compared(field: str) -> None:
    value = {"threads": 3, "spinning": False}.get(field, "another")
    elsewhere = msgspec.structs.replace(HERE, **{field: value})
    both = [*runs(*[100.0] * SPAN), *runs(*[900.0] * SPAN, series=elsewhere)]
    assert history.of(both, HERE) == both[:SPAN]
    assert history.of(both, elsewhere) == both[SPAN:]


def test_what_a_version_before_wrote_is_read_and_is_another_series() -> None:
    """Its threads were the setting, and of spinning and precision nothing was said."""
    old = (
        b'{"at_s":0.0,"series":{"hardware":"x86_64, 2 cores","runtime":"1.22.0",'
        b'"arithmetic":"2.3.0","build":"abc","acoustic":"CPU","vocoder":"CPU","threads":0},'
        b'"acoustic_ms":50.0,"vocoder_ms":200.0,"yardstick_ms":30.0}\n'
    )
    both = history.read(old * SPAN + history.written(runs(*[900.0] * SPAN)))
    assert [run.vocoder_ms for run in both] == [200.0] * SPAN + [900.0] * SPAN
    assert history.of(both, HERE) == both[SPAN:]


def test_what_is_told() -> None:
    assert history.told("daily", []) == SelfBench(every="daily", runs=0)
    some = runs(*[200.0] * SPAN, *[300.0] * SPAN)
    assert history.told("weekly", some) == SelfBench(
        every="weekly",
        runs=2 * SPAN,
        at="1970-01-10T00:00:00+00:00",
        acoustic=Trend(50.0, 1.0),
        vocoder=Trend(300.0, 1.5, True),
    )
