"""A search from its first measurement to the settings' file. Shell."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec
import trio
import typer
from rich.console import Console

from bench import kept, machine, plot, record, shown, summary
from bench.report import Report
from bench.scenarios import first_audio
from bench.summary import Finished
from bench.tune import measured, search, simulated, space, verified, written
from bench.tune.search import Ground, Study
from bench.tune.space import NAMES, Chosen, Outcome, Value
from bench.tune.verified import DEFAULTS, TUNED
from bench.tune.written import Kept
from engine import __version__, config, process
from engine.audio import ms_to_samples
from engine.config import Settings
from engine.ladder import Windows
from engine.live import TextFeed
from engine.model import assets, placement
from engine.request import SpeechRequest, TextOptions
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.languages import Language
from engine.text.lexicon import Lexicon
from engine.text.passage import Passage, Reading
from engine.utterance import Manner, Utterance
from playerd.delay import Slack
from playerd.forecast import Supply

_VOICE = "af_heart"
#: what is spoken in the search, and what only shows whether it holds for others
SEARCHED = (*record.TEXTS[:3], first_audio.TEXTS[0], first_audio.TEXTS[1], first_audio.TEXTS[3])
HELD_OUT = (record.TEXTS[3], first_audio.TEXTS[2])
#: what real engines speak: of every length, and not all of it known to the search
SPOKEN = (*first_audio.TEXTS, record.TEXTS[3])
#: seeds of the steps that take longer or shorter, in the search and for what is held out
_SEEDS, _OTHER_SEEDS = (1, 2, 3), (11, 12, 13)
#: candidates that real engines may refuse before nothing is changed
_CANDIDATES = 3
#: load of the last minute before it begins, above which others are in the way
_BUSY = 0.5


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line asks for; see `bench.tune.main`."""

    trials: int
    rounds: int
    quick: bool = False
    resume: bool = True
    verify: bool = True
    write: bool | None = None
    seed: int = 1


class Corpus:
    """Texts, read once by the real front end, to be spoken by simulated machines.

    Args:
        texts: all that will be spoken.
        read: what a passage is in words; None: the front end, which is loaded then.

    Attributes:
        text_s: what reading took, for a character.
    """

    def __init__(
        self, texts: Sequence[str], read: Callable[[Passage], Reading] | None = None
    ) -> None:
        self._language: Language = languages.resolve(None, _VOICE)
        self._read = read or self._front_end()
        self._known: dict[str, Reading] = {}
        self._took_s = 0.0
        simulated.spoken(simulated.Machine(_INSTANT, self.reading), texts, self.utterance)
        self.text_s = self._took_s / sum(map(len, texts))

    def _front_end(self) -> Callable[[Passage], Reading]:
        g2p = G2P("misaki")
        g2p.load()
        frontend, language, lexicon = TextFrontend(g2p), self._language, Lexicon()
        frontend.segments("Warm.", language, TextOptions(), lexicon)
        return lambda passage: frontend.read(passage, language, TextOptions(), lexicon)

    async def reading(self, passage: Passage, _: Utterance) -> Reading:
        """See `simulated.Machine`."""
        text = passage.text.text
        # The same words have other places in other texts.
        key = f"{passage.start} {text}"
        if key not in self._known:
            began_s = time.perf_counter()
            self._known[key] = self._read(passage)
            self._took_s += time.perf_counter() - began_s
        return self._known[key]

    def utterance(self, text: str, chosen: Chosen | None = None) -> Utterance:
        """A request for a text, with these settings."""
        chosen = space.defaults() if chosen is None else chosen
        return Utterance(
            request=SpeechRequest(text=text),
            feed=TextFeed.of(text),
            manner=Manner(_VOICE, 1.0),
            language=self._language,
            lexicon=Lexicon(),
            frame_samples=ms_to_samples(chosen["frame_ms"]),
            budget_s=chosen["first_audio_ms"] / 1000,
            first_segment=int(chosen["first_segment"]),
        )


_INSTANT = simulated.Taken(1e-9, 1e-9, 1e-9)


def outcome(
    corpus: Corpus, ground: Ground, texts: Sequence[str], seeds: Sequence[int], chosen: Chosen
) -> Outcome:
    """What settings give on a machine as it was measured: all texts, with every seed. Blocks."""
    place = Ground.name(int(chosen["threads"]), spinning=bool(chosen["spinning"]))
    had = []
    predicted = decoded = 0
    for seed in seeds:
        speaks = simulated.Machine(
            ground.taken[place],
            corpus.reading,
            budget_s=chosen["first_audio_ms"] / 1000,
            windows=Windows.of(chosen["first_window_ms"], chosen["window_share"]),
            seed=seed,
            trims=True,
        )
        policy, supply = Slack(start_s=chosen["start_wait_ms"] / 1000), Supply()
        traces = simulated.spoken(speaks, texts, partial(corpus.utterance, chosen=chosen))
        had += [simulated.listened(trace, policy, supply) for trace in traces]
        predicted, decoded = predicted + speaks.predicted, decoded + speaks.decoded
    return Outcome(
        first_ms=1000 * statistics.mean(one.start_s for one in had),
        margin_ms=1000 * min(one.margin_s for one in had),
        mid=sum(one.mid for one in had),
        mid_ms=1000 * sum(one.mid_s for one in had),
        cuts=sum(one.cuts for one in had),
        predicted=predicted / decoded,
    )


def remembered(tries: space.Try) -> space.Try:
    """The same, which tries nothing twice."""
    known: dict[tuple[Value, ...], Outcome] = {}

    def tried(chosen: Chosen) -> Outcome:
        key = tuple(chosen[name] for name in NAMES)
        if key not in known:
            known[key] = tries(chosen)
        return known[key]

    return tried


def candidates(
    found: Sequence[tuple[Chosen, Outcome]], base: Chosen, tries: space.Try, other: space.Try
) -> list[dict[str, Value]]:
    """Settings that are worth to be heard, the soonest first: no worse with other texts either.

    Args:
        found: all trials.
        base: the defaults, and what a person has chosen.
        tries: with the texts of the search.
        other: with those that were held out.
    """
    usual, unseen = tries(base), other(base)
    made: list[dict[str, Value]] = []
    for chosen in space.best(found, usual):
        fewer = space.pruned(chosen, base, usual, tries)
        changed = any(fewer[name] != base[name] for name in NAMES)
        if changed and fewer not in made and space.wanted(other(fewer), unseen):
            made.append(fewer)
        if len(made) == _CANDIDATES:
            break
    return made


def run(wishes: Wishes) -> None:
    """See `bench.tune.main`.

    Raises:
        EngineError: a sentence.
    """
    console, name, began_s = Console(), kept.new_run(), time.monotonic()
    loaded = config.load()
    process.set_up_logging(config.load({"log_level": "error"}).settings)
    file, before = written.file_in_use(), machine.record()
    by_hand = written.chosen_by_hand(loaded, NAMES, file)
    base = space.defaults() | {one.name: one.value for one in by_hand}
    with console.status("tune") as status:

        def tell(doing: str) -> None:
            status.update(f"tune: {doing}")

        tell("reading texts")
        corpus = Corpus([*SEARCHED, *HELD_OUT])
        study = _study(wishes, loaded.settings, by_hand, corpus, tell)
        tries = remembered(partial(outcome, corpus, study.ground, SEARCHED, _SEEDS))
        other = remembered(partial(outcome, corpus, study.ground, HELD_OUT, _OTHER_SEEDS))
        study.search(wishes.trials, tries, [base], tell)
        tell("choosing")
        good = candidates(study.found, base, tries, other)
        heard: dict[str, verified.Heard] | None = None
        refused: list[str] = []
        best: dict[str, Value] | None = good[0] if good else None
        if wishes.verify:
            best, heard, refused = _heard_of(good, base, wishes, tell)
    report = _report(study, base, best, tries, other, heard, refused, by_hand, before)
    _keep(console, name, before, report, wishes, time.monotonic() - began_s)
    if best is None:
        console.print("Nothing was found that is better: the settings stay as they are.")
    elif heard is None and wishes.write is None:
        console.print("Nothing was written, because no engine has spoken with it.")
    else:
        about = _provenance(name, study, tries(base), tries(best), heard)
        _write(console, wishes, file, best, by_hand, about)


def _study(
    wishes: Wishes,
    settings: Settings,
    by_hand: Sequence[Kept],
    corpus: Corpus,
    tell: Callable[[str], None],
) -> Study:
    tell("looking for the model")
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    key = placement.key_of(placement.planned(found, settings), ())
    named = (
        f"{key.hardware}; {key.system}; ONNX Runtime {key.runtime}; model {key.build}; "
        f"kokoro-live {__version__}"
    )
    return search.opened(
        settings.cache_dir.expanduser() / "tune",
        named,
        {one.name: one.value for one in by_hand},
        lambda: measured.measured(
            settings,
            {one.name: one.value for one in by_hand},
            wishes.rounds,
            seed=wishes.seed,
            text_s=corpus.text_s,
            machine=named,
            tell=tell,
        ),
        resume=wishes.resume,
        seed=wishes.seed,
    )


def _heard_of(
    good: Sequence[dict[str, Value]],
    base: Chosen,
    wishes: Wishes,
    tell: Callable[[str], None],
) -> tuple[dict[str, Value] | None, dict[str, verified.Heard] | None, list[str]]:
    """The first candidate that real engines are no worse with, what was heard, and what was not."""
    texts = SPOKEN[:3] if wishes.quick else SPOKEN
    heard: dict[str, verified.Heard] | None = None
    refused: list[str] = []
    for chosen in good:
        contenders = {DEFAULTS: base, TUNED: chosen}
        spoken = partial(verified.heard, seed=wishes.seed, tell=tell)
        heard = trio.run(spoken, contenders, texts, wishes.rounds)
        faults = verified.faults(heard)
        if not faults:
            return chosen, heard, refused
        changed = ", ".join(_changes(chosen, base))
        refused.append(f"Refused by real engines: {changed}. {' '.join(faults)}")
    return None, heard, refused


def _changes(chosen: Chosen, base: Chosen) -> list[str]:
    return [
        f"{name} = {written.shown(chosen[name])}" for name in NAMES if chosen[name] != base[name]
    ]


def _report(
    study: Study,
    base: Chosen,
    best: Chosen | None,
    tries: space.Try,
    other: space.Try,
    heard: Mapping[str, verified.Heard] | None,
    refused: Sequence[str],
    by_hand: Sequence[Kept],
    before: Mapping[str, object],
) -> Report:
    usual, front = tries(base), space.front(study.found, tries(base))
    possible = [one for _, one in study.found if one.possible(usual)]
    settings = {DEFAULTS: base} if best is None else {DEFAULTS: base, TUNED: best}
    rows = [
        {"settings": name, "texts": which, **by(chosen).as_row()}
        for name, chosen in settings.items()
        for which, by in (("of the search", tries), ("held out", other))
    ]
    place = Ground.name(int(base["threads"]), spinning=bool(base["spinning"]))
    notes = [
        f"Measured: {name}, computing per audio {taken.rtf:.3f}, a window's own time "
        f"{1000 * taken.window_s:.1f} ms, scatter {taken.sigma:.2f}"
        + (" (the defaults)" if name == place else "")
        for name, taken in study.ground.taken.items()
    ]
    notes.append(
        f"{len(study.found)} trials, {len(possible)} of them possible, in {study.file}; measured "
        f"{_date(study.ground.measured_s)}."
    )
    if not possible:
        notes.append(
            "Every trial has silence inside of a phrase, or more cuts or predicted sound than may be, "
            "so none is possible: the plot has no Pareto front, only the settings of the table."
        )
    if (load := float(str(before["load_1min"]))) > _BUSY:
        notes.append(
            f"The machine had other work (load {load:g}), so none of this is what it can do."
        )
    notes += [f"Chosen by hand, so not searched: {one}." for one in by_hand]
    notes += refused
    if best is not None:
        notes.append(f"Found: {', '.join(_changes(best, base))}.")
    if heard is not None:
        notes += [_told(row) for row in verified.rows(heard)]
    marked = {name: (tries(own).first_ms, tries(own).margin_ms) for name, own in settings.items()}
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=notes,
        raw={
            "base": dict(base),
            "best": None if best is None else dict(best),
            "ground": msgspec.to_builtins(study.ground),
            "front": [{**chosen, **one.as_row()} for chosen, one in front],
            "heard": None if heard is None else verified.rows(heard),
        },
        ratios={} if heard is None else verified.ratios(heard),
        plot=partial(
            plot.front,
            [(one.first_ms, one.margin_ms) for one in possible],
            [(one.first_ms, one.margin_ms) for _, one in front],
            marked,
        ),
    )


def _told(row: Mapping[str, object]) -> str:
    values = ", ".join(f"{name} {value}" for name, value in row.items() if name != "settings")
    return f"Real engine, {row['settings']}: {values}"


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))


def _keep(
    console: Console,
    name: str,
    before: Mapping[str, object],
    report: Report,
    wishes: Wishes,
    took_s: float,
) -> None:
    """Shows the report, and keeps it as those of the scenarios are kept."""
    about = " ".join((space.__doc__ or "").partition("\n\n")[2].split())
    shown.show(console, "tune", about, report)
    drawn = shown.drawn(report, f"tune-{name}")
    told = {"seed": wishes.seed, "rounds": wishes.rounds, "quick": wishes.quick}
    ratios = {what: list(values) for what, values in report.ratios.items()}
    document = {**report.document, "notes": list(report.notes), **report.raw, "ratios": ratios}
    document["machine"] = dict(before)
    document |= {"load_after": machine.load(), **told, "took_s": round(took_s, 1)}
    kept.keep("tune", name, document)
    file = kept.FOLDER / f"report-{name}.md"
    finished = Finished("tune", about, report, plot=drawn, took_s=took_s)
    file.write_text(summary.page(name, {**before, **told}, finished))
    console.print(f"report: {kept.shown(file)}")


def _provenance(
    name: str,
    study: Study,
    usual: Outcome,
    best: Outcome,
    heard: Mapping[str, verified.Heard] | None,
) -> list[str]:
    lines = [
        f"Found by python -m bench tune on {time.strftime('%Y-%m-%d')}, run {name}, on:",
        study.ground.machine,
        f"{len(study.found)} trials; simulated: first sound {best.first_ms:.0f} ms instead of "
        f"{usual.first_ms:.0f}, in hand {best.margin_ms:.0f} ms instead of {usual.margin_ms:.0f}",
    ]
    if heard is None:
        return [*lines, "No engine has spoken with it."]
    told = ", ".join(
        f"{what} {statistics.median(values):.3f}" for what, values in verified.ratios(heard).items()
    )
    return [*lines, f"Real engines: {told}"]


def _write(
    console: Console,
    wishes: Wishes,
    file: Path,
    best: Chosen,
    by_hand: Sequence[Kept],
    about: Sequence[str],
) -> None:
    changes = "\n  ".join(_changes(best, space.defaults() | {o.name: o.value for o in by_hand}))
    console.print(f"For {file}:\n  {changes}", highlight=False)
    wanted = wishes.write
    if wanted is None:
        wanted = sys.stdin.isatty() and typer.confirm("Write that?")
    if not wanted:
        console.print("Nothing was written; --write does so without asking.")
        return
    names = written.write(file, best, space.defaults(), [one.name for one in by_hand], about)
    console.print(f"Written: {', '.join(names)}. Engine and player go by it from their next start.")
