"""The search for settings: simulated, resumed, verified, written with what it comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from bench import __main__ as command
from bench import kept
from bench.traces import Arrival, Segment, Utterance
from bench.tune import measured, running, search, simulated, space, verified, written
from bench.tune.search import Ground
from bench.tune.simulated import Listened, Machine, Taken
from bench.tune.space import Chosen, Outcome
from bench.tune.verified import DEFAULTS, TUNED, Heard
from engine import config
from engine.errors import ConfigError, SetupError
from engine.ladder import Kind, Step
from playerd.delay import Slack
from playerd.forecast import Supply
from tests.engine.voicing import letters

TEXTS = (
    "An old gardener carried two buckets of water up the hill before breakfast today.",
    "It had rained all week. The river had taken the lower path, two gardens and the bench where "
    "the men used to play cards, and still it came down, grey and even.",
)
#: about 0.6 of real time, and half of that
SLOW = Taken(0.0026, 0.0042, 0.0033, window_s=0.005)
QUICK = Taken(0.0013, 0.0021, 0.00165, window_s=0.0025)
SPINNING, SLEEPING = (Ground.name(0, spinning=spins) for spins in (True, False))


def ground(**taken: Taken) -> Ground:
    made = {SPINNING: taken.get("spinning", SLOW), SLEEPING: taken.get("sleeping", QUICK)}
    return Ground("a machine", 1e9, made, {})


@pytest.fixture(scope="module")
def corpus() -> running.Corpus:
    return running.Corpus(TEXTS, letters)


@pytest.fixture(scope="module")
def tries(corpus: running.Corpus) -> space.Try:
    return running.remembered(partial(running.outcome, corpus, ground(), TEXTS, (1,)))


# --- in virtual time ----------------------------------------------------------------------------


def test_a_slower_machine_is_heard_later_and_less_exactly(tries: space.Try) -> None:
    slow = tries(space.defaults())
    quick = tries(space.defaults() | {"spinning": False})
    assert quick.first_ms < 0.6 * slow.first_ms
    assert 0 <= quick.predicted < slow.predicted <= 1


def test_the_same_seed_gives_the_same_stream(corpus: running.Corpus) -> None:
    """Of one segment: which of two tasks is first, is trio's own chance."""

    def traces(seed: int) -> list[Utterance]:
        machine = Machine(QUICK, corpus.reading, seed=seed, trims=True)
        return simulated.spoken(machine, TEXTS[:1], corpus.utterance)

    assert traces(3) == traces(3) != traces(4)


def test_settings_reach_the_pipeline(tries: space.Try) -> None:
    quick = space.defaults() | {"spinning": False}
    usual = tries(quick)
    for name, value in {
        "frame_ms": 100,
        "first_segment": 60,
        "first_audio_ms": 1000,
        "first_window_ms": 600,
        "window_share": 0.2,
    }.items():
        assert tries(quick | {name: value}) != usual, name
    # Only a machine without time makes a player wait.
    assert (
        tries(space.defaults() | {"start_wait_ms": 0}).first_ms < tries(space.defaults()).first_ms
    )


def test_what_is_in_hand_is_counted_inside_of_phrases() -> None:
    def segment(*arrivals: tuple[float, float]) -> Segment:
        return Segment(
            char_start=0,
            char_end=1,
            announced=0,
            start_s=0.0,
            end_s=arrivals[-1][0],
            boundary="sentence",
            arrivals=tuple(Arrival(at_s, round(24_000 * s)) for at_s, s in arrivals),
        )

    first, second = segment((0.5, 1.0), (1.2, 1.0)), segment((2.9, 1.0), (3.7, 1.0))
    trace = Utterance(trace="", text="One. Two.", segments=(first, second))
    had = simulated.listened(trace, Slack(start_s=0.0), Supply())
    assert had.start_s == pytest.approx(0.5)
    assert had.mid == 0
    assert had.margin_s == pytest.approx(0.2)  # 3.9 - 3.7: the second segment began late


# --- the search ---------------------------------------------------------------------------------


def test_it_finds_the_better_threads(tmp_path: Path, tries: space.Try) -> None:
    """Sleeping is planted as twice as quick."""
    study = search.opened(tmp_path, "a machine", {}, ground)
    study.search(25, tries, [space.defaults()])
    assert study.found[0][0] == space.defaults()
    base = space.defaults()
    good = running.candidates(study.found, base, tries, tries)
    assert good
    assert good[0]["spinning"] is False
    usual = tries(base)
    for one in good:
        assert space.wanted(tries(one), usual)
    front = space.front(study.found, usual)
    assert all(one.mid_ms == 0 for _, one in front)
    margins = [one.margin_ms for _, one in front]
    assert margins == sorted(margins)


def planted(chosen: Chosen) -> Outcome:
    """The shorter the first segment the sooner, but below 80 there are holes, and below 90 cuts."""
    first = float(chosen["first_segment"])
    return Outcome(
        first_ms=3 * first + chosen["frame_ms"] / 10,
        margin_ms=100 + chosen["first_window_ms"] / 10,
        mid=int(first < 80),
        mid_ms=50.0 * (first < 80),
        cuts=int(first < 90),
        predicted=0.2,
    )


def test_constraints_are_kept(tmp_path: Path) -> None:
    study = search.opened(tmp_path, "a machine", {}, ground)
    study.search(40, planted, [space.defaults()])
    base = space.defaults()
    (best, *_) = running.candidates(study.found, base, planted, planted)
    assert best["first_segment"] == 90
    assert any(chosen["first_segment"] < 80 for chosen, _ in study.found)
    # What gains nothing stays as it was.
    assert {name for name in space.NAMES if best[name] != base[name]} <= {
        "first_segment",
        "frame_ms",
    }


def test_what_does_not_hold_for_other_texts_is_not_taken(tmp_path: Path) -> None:
    study = search.opened(tmp_path, "a machine", {}, ground)
    study.search(30, planted, [space.defaults()])

    def other(chosen: Chosen) -> Outcome:
        return replace(planted(chosen), first_ms=-planted(chosen).first_ms)

    assert running.candidates(study.found, space.defaults(), planted, other) == []


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = search.opened(tmp_path, "a machine", {}, ground)
    first.search(6, planted, [space.defaults()])

    def fails() -> Ground:
        raise AssertionError("it was measured already")

    second = search.opened(tmp_path, "a machine", {}, fails)
    assert second.ground == first.ground
    assert second.found == first.found
    second.search(9, planted, [space.defaults()])
    assert len(second.found) == 9
    assert second.found[:6] == first.found[:6]
    second.search(9, planted, [space.defaults()])
    assert len(second.found) == 9


@pytest.mark.parametrize(
    ("machine", "fixed", "resume"),
    [("another", {}, True), ("a machine", {"frame_ms": 40}, True), ("a machine", {}, False)],
)
def test_other_ground_is_another_study(
    tmp_path: Path, machine: str, fixed: dict[str, int], resume: bool
) -> None:
    search.opened(tmp_path, "a machine", {}, ground).search(3, planted, [space.defaults()])
    made = Ground(machine, 2e9, ground().taken, dict(fixed))
    study = search.opened(tmp_path, machine, fixed, lambda: made, resume=resume)
    assert (study.found, study.ground) == ([], made)
    study.search(4, planted, [space.defaults() | fixed])
    assert {chosen["frame_ms"] for chosen, _ in study.found} == {40} or not fixed


def test_a_damaged_study_is_one_sentence(tmp_path: Path) -> None:
    study = search.opened(tmp_path, "a machine", {}, ground)
    study.file.write_text("{}\nnothing\n")
    with pytest.raises(SetupError, match="--fresh begins another"):
        search.opened(tmp_path, "a machine", {}, ground)
    assert search.opened(tmp_path, "a machine", {}, ground, resume=False).found == []


@given(threads=st.integers(0, 256), spinning=st.booleans())
def test_threads_by_name(threads: int, spinning: bool) -> None:
    name = Ground.name(threads, spinning=spinning)
    assert search.threads_of(name) == {"threads": threads, "spinning": spinning}


# --- what is measured ---------------------------------------------------------------------------


@settings(max_examples=25)
@given(
    one_s=st.floats(1e-4, 1e-2),
    two_s=st.floats(1e-4, 1e-2),
    pass_s=st.floats(1e-4, 1e-2),
    window_s=st.floats(0, 0.05),
    seed=st.integers(0, 2**32 - 1),
)
def test_costs_are_found_again(
    one_s: float, two_s: float, pass_s: float, window_s: float, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    steps = [Step(Kind.STAGE_ONE, 0, 400)]
    steps += [Step(Kind.EXACT, 0, size) for size in (8, 16, 32, 64, 96)]
    steps += [Step(Kind.PREDICTED, 16, 16 + size) for size in (8, 16, 48)]

    def took(work: Sequence[float]) -> list[float]:
        seconds = float(np.dot(work, (one_s, two_s, window_s)))
        return [seconds * float(np.exp(chance.normal(0, 0.01))) for _ in range(7)]

    found = measured.taken(
        {count: [pass_s * (40 + count)] for count in (30, 100)},
        {step: took(measured.work(step)) for step in steps},
    )
    assert found.pass_s == pytest.approx(pass_s, rel=0.01)
    assert found.sigma < 0.03
    for step in steps:
        again = float(np.dot(measured.work(step), (found.one_s, found.two_s, found.window_s)))
        true = float(np.dot(measured.work(step), (one_s, two_s, window_s)))
        assert again == pytest.approx(true, rel=0.1)


@pytest.mark.parametrize(
    ("cores", "expected"), [(1, [0]), (2, [0, 1]), (8, [0, 4, 2]), (3, [0, 1])]
)
def test_threads_that_are_tried(cores: int, expected: list[int]) -> None:
    assert measured.counts(cores) == expected


# --- what real engines say ----------------------------------------------------------------------


def heard(first_s: float, rtf: float, mid_s: float = 0.0) -> Heard:
    one = Listened(first_s, 0.1, int(mid_s > 0), mid_s, 0)
    # Texts take turns.
    return Heard([25, 80, 80, 25], [one] * 4, [rtf] * 4)


@pytest.mark.parametrize(
    ("tuned", "says"),
    [
        (heard(0.30, 0.3), []),
        (heard(0.40, 0.304), []),
        (heard(0.42, 0.3), ["first sound"]),
        (heard(0.30, 0.35), ["RTF"]),
        (heard(0.30, 0.3, mid_s=0.5), ["Silence"]),
    ],
)
def test_what_is_worse_is_refused(tuned: Heard, says: list[str]) -> None:
    faults = verified.faults({DEFAULTS: heard(0.4, 0.3), TUNED: tuned})
    assert [fault.split(",")[0].split(" inside")[0] for fault in faults] == says


# --- what is written ----------------------------------------------------------------------------

USERS = '# mine\nvoice = "af_sky"\nframe_ms = 40 # short\n\n[voice_speeds]\naf_sky = 1.2\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(USERS)
    monkeypatch.setenv("KOKORO_LIVE_CONFIG", str(path))
    return path


def by_hand(file: Path) -> dict[str, space.Value]:
    found = written.chosen_by_hand(config.load(file=file, environ={}), space.NAMES, file)
    return {one.name: one.value for one in found}


def test_settings_are_written_and_read_back(file: Path) -> None:
    assert by_hand(file) == {"frame_ms": 40}
    best = space.defaults() | {"frame_ms": 20, "spinning": False, "window_share": 0.45}
    names = written.write(file, best, space.defaults(), ["frame_ms"], ["Found on Monday, run 7"])
    assert names == ["window_share", "spinning"]
    got = config.load(file=file, environ={}).settings
    assert (got.frame_ms, got.spinning, got.window_share) == (40, False, 0.45)
    assert (got.voice, got.voice_speeds) == ("af_sky", {"af_sky": 1.2})
    assert file.read_text().endswith(USERS)
    assert "# Found on Monday, run 7\n" in file.read_text()
    # What a search wrote is no choice of a person, until he changes it.
    assert by_hand(file) == {"frame_ms": 40}
    file.write_text(file.read_text().replace("window_share = 0.45 #", "window_share = 0.5 #"))
    assert by_hand(file) == {"frame_ms": 40, "window_share": 0.5}


def test_what_a_search_wrote_is_replaced(file: Path) -> None:
    first = space.defaults() | {"spinning": False, "threads": 1}
    written.write(file, first, space.defaults(), ["frame_ms"], ["The first"])
    second = space.defaults() | {"first_segment": 80}
    assert written.write(file, second, space.defaults(), ["frame_ms"], ["Another"]) == [
        "first_segment"
    ]
    text = file.read_text()
    assert "The first" not in text
    assert (text.count("Another"), text.count(written.MARK)) == (1, 2)
    written.write(file, space.defaults(), space.defaults(), ["frame_ms"], ["Nothing"])
    assert file.read_text() == USERS


def test_the_environment_is_a_persons_choice(file: Path) -> None:
    loaded = config.load(file=file, environ={"KOKORO_LIVE_THREADS": "2"})
    found = written.chosen_by_hand(loaded, space.NAMES, file)
    assert [str(one) for one in found] == [f"frame_ms = 40 ({file})", "threads = 2 (environment)"]


def test_a_damaged_file_is_left_alone(file: Path) -> None:
    file.write_text("frame_ms = \n")
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        written.write(file, space.defaults(), space.defaults(), [], [])
    assert file.read_text() == "frame_ms = \n"


# --- all of it ----------------------------------------------------------------------------------


@pytest.fixture
def results(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Everything but the model, which is simulated: real engines are heard as they are told."""
    folder = tmp_path / "bench" / "results"
    folder.mkdir(parents=True)
    monkeypatch.setattr(kept, "FOLDER", folder)
    monkeypatch.setenv("KOKORO_LIVE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(running, "SEARCHED", TEXTS)
    monkeypatch.setattr(running, "HELD_OUT", TEXTS[:1])
    monkeypatch.setattr(running, "_SEEDS", (1,))
    monkeypatch.setattr(running, "_OTHER_SEEDS", (11,))
    monkeypatch.setattr(running, "Corpus", partial(running.Corpus, read=letters))
    model = SimpleNamespace(sha256="0" * 64)
    monkeypatch.setattr("engine.model.assets.ensure", lambda **_: model)

    def measures(settings: object, fixed: Chosen, *_: object, machine: str, **__: object) -> Ground:
        return Ground(machine, 1e9, ground().taken, dict(fixed))

    monkeypatch.setattr(measured, "measured", measures)
    hears(monkeypatch, heard(0.3, 0.3))
    return folder


def hears(monkeypatch: pytest.MonkeyPatch, tuned: Heard) -> None:
    async def heard_of(*_: object, **__: object) -> dict[str, Heard]:
        return {DEFAULTS: heard(0.4, 0.3), TUNED: tuned}

    monkeypatch.setattr(verified, "heard", heard_of)


def tune(*args: str) -> Result:
    return CliRunner().invoke(command.app, ["tune", *args])


def test_from_measurement_to_file(file: Path, results: Path) -> None:
    done = tune("--trials", "12", "--write")
    assert done.exit_code == 0, done.output
    got = config.load(file=file, environ={})
    assert got.settings.spinning is False
    assert got.settings.frame_ms == 40  # a person's
    assert got.origins["spinning"] == str(file)
    text = file.read_text()
    assert "Found by python -m bench tune on 20" in text
    assert "12 trials; simulated: first sound" in text
    assert "Real engines: first sound, tuned / defaults 0.750" in text
    (numbers,) = results.glob("tune-*.json")
    document = json.loads(numbers.read_text())
    assert document["best"]["spinning"] is False
    assert document["ratios"]["first sound, tuned / defaults"] == pytest.approx([0.75] * 4)
    (report,) = results.glob("report-*.md")
    told = report.read_text()
    assert told.startswith("# tune, 20")
    assert f"Chosen by hand, so not searched: frame_ms = 40 ({file})." in told
    assert "![tune](tune-" in told
    assert {path.suffix for path in results.glob("tune-*")} == {".json", ".svg", ".png"}


NONE_POSSIBLE = "* Every trial has silence inside of a phrase, or more cuts"


@pytest.mark.parametrize("holes_ms", [0.0, 40.0])
def test_a_plot_without_possible_trials_is_explained(
    results: Path, monkeypatch: pytest.MonkeyPatch, holes_ms: float
) -> None:
    """As on a machine that is slower than speech, whose every trial has a hole."""

    def outcome(*args: object) -> Outcome:
        chosen = args[-1]
        assert isinstance(chosen, dict)
        return replace(planted(chosen | {"first_segment": 100}), mid_ms=holes_ms)

    monkeypatch.setattr(running, "outcome", outcome)
    done = tune("--trials", "4", "--no-verify")
    assert done.exit_code == 0, done.output
    told = next(results.glob("report-*.md")).read_text()
    assert ("4 trials, 0 of them possible" in told) == bool(holes_ms)
    assert (NONE_POSSIBLE in told) == bool(holes_ms)
    assert "![tune](tune-" in told


def test_what_real_engines_are_worse_with_is_not_written(
    file: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hears(monkeypatch, heard(0.5, 0.3))
    done = tune("--trials", "8", "--write")
    assert done.exit_code == 0, done.output
    assert "the settings stay as they are" in done.output
    assert file.read_text() == USERS
    assert "Refused by real engines: " in next(results.glob("report-*.md")).read_text()


def test_nobody_is_asked_who_is_not_there(file: Path, results: Path) -> None:
    done = tune("--trials", "8")
    assert "Nothing was written; --write does so without asking." in done.output
    assert file.read_text() == USERS


@pytest.mark.parametrize("args", [["--trials", "0"], ["--rounds", "x"], ["--faster"]])
def test_nonsense_is_refused(results: Path, args: list[str]) -> None:
    assert tune(*args).exit_code == 2


def test_a_wrong_setting_is_one_sentence(file: Path, results: Path) -> None:
    file.write_text("frame_ms = 7\n")
    done = tune("--trials", "3")
    assert done.exit_code == 1
    assert "The setting frame_ms" in done.stderr
