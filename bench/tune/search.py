"""The search: Optuna's study in a file, which a later run goes on with. Files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from bench.tune.simulated import Taken
from bench.tune.space import SIMULATED, Chosen, Outcome, Try, Value
from engine.errors import SetupError, blame

#: trials at random before the search learns from them
_AT_RANDOM = 20
_VERSION = 1  # of the study: another one is another file


class Ground(msgspec.Struct, frozen=True):
    """What a study stands on; what was found on other ground cannot be compared.

    Attributes:
        machine: hardware and versions.
        measured_s: when the model was measured, seconds since 1970.
        taken: what it takes, by threads and spinning: `Ground.name`.
        fixed: settings that a person has chosen, and that are not searched.
    """

    machine: str
    measured_s: float
    taken: dict[str, Taken]
    fixed: dict[str, Value]

    @staticmethod
    def name(threads: int, *, spinning: bool) -> str:
        """How such threads are called; 0 is one per core."""
        count = f"{threads} thread{'s' * (threads != 1)}" if threads else "a thread per core"
        return f"{count}, {'spinning' if spinning else 'sleeping'}"

    @property
    def places(self) -> list[str]:
        """All that were measured, by name."""
        return list(self.taken)


def threads_of(name: str) -> dict[str, Value]:
    """The settings behind `Ground.name`."""
    count = name.split()[0]
    return {"threads": 0 if count == "a" else int(count), "spinning": name.endswith("spinning")}


@dataclass(slots=True)
class Study:
    """A study that is open. Made by `opened`."""

    ground: Ground
    file: Path
    _study: optuna.Study

    @property
    def found(self) -> list[tuple[Chosen, Outcome]]:
        """All trials that came to their end, in order."""
        done = self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return [(_chosen(trial, self.ground), _outcome(trial)) for trial in done]

    def search(
        self,
        trials: int,
        tries: Try,
        begins_with: Sequence[Chosen],
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Goes on until the study has so many trials. Blocks.

        Args:
            trials: in all, those of earlier runs among them.
            tries: gives what settings give.
            begins_with: what is tried first, the defaults before all.
            tell: shows what is being done.
        """
        usual = tries(begins_with[0])
        if not self.found:
            for chosen in begins_with:
                self._study.enqueue_trial(self._params(chosen), skip_if_exists=True)
        while (number := len(self.found)) < trials:
            tell(f"trial {number + 1} of {trials}")
            trial = self._study.ask(self._distributions())
            chosen = _chosen(trial, self.ground)
            outcome = tries(chosen)
            trial.set_user_attr("outcome", msgspec.to_builtins(outcome))
            for constraint, beyond in outcome.beyond(usual).items():
                trial.set_constraint(constraint, beyond)
            self._study.tell(trial, (outcome.first_ms, outcome.margin_ms))

    def _distributions(self) -> dict[str, BaseDistribution]:
        made: dict[str, BaseDistribution] = {}
        for name, span in SIMULATED.items():
            if name in self.ground.fixed:
                continue
            if float(span.step).is_integer():
                made[name] = IntDistribution(int(span.low), int(span.high), step=int(span.step))
            else:
                made[name] = FloatDistribution(span.low, span.high, step=span.step)
        if len(self.ground.places) > 1:
            made["inference"] = CategoricalDistribution(self.ground.places)
        return made

    def _params(self, chosen: Chosen) -> dict[str, Value | str]:
        searched = self._distributions()
        params: dict[str, Value | str] = {
            name: value for name, value in chosen.items() if name in searched
        }
        if "inference" in searched:
            place = Ground.name(int(chosen["threads"]), spinning=bool(chosen["spinning"]))
            params["inference"] = place
        return params


def _chosen(trial: FrozenTrial | optuna.Trial, ground: Ground) -> dict[str, Value]:
    params = dict(trial.params)
    place = params.pop("inference", None) or ground.places[0]
    # Floats by steps have errors in their last digits.
    simulated = {name: round(value, 6) for name, value in params.items()}
    return {**simulated, **ground.fixed, **threads_of(place)}


def _outcome(trial: FrozenTrial) -> Outcome:
    return msgspec.convert(trial.user_attrs["outcome"], Outcome)


def opened(
    folder: Path,
    machine: str,
    fixed: Mapping[str, Value],
    measure: Callable[[], Ground],
    *,
    resume: bool = True,
    seed: int = 1,
) -> Study:
    """The study of this machine: as an earlier run left it, or a new one.

    Args:
        folder: of studies.
        machine: hardware and versions.
        fixed: settings that are not searched.
        measure: measures the model; not called if there is a study on the same ground.
        resume: whether to go on with it, if there is one.
        seed: of the search.

    Raises:
        SetupError: the file cannot be read or written.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    file = folder / f"study-{_VERSION}.journal"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if resume and file.is_file() and (study := _resumed(file, machine, fixed, seed)):
            return study
        ground = measure()
        file.unlink(missing_ok=True)
        made = optuna.create_study(
            storage=_storage(file),
            sampler=_sampler(seed),
            study_name="tune",
            directions=["minimize", "maximize"],
        )
    except (OSError, ValueError, KeyError, msgspec.MsgspecError) as error:
        raise SetupError(
            f"The study {file} cannot be used ({blame(error)}); --fresh begins another."
        ) from None
    made.set_user_attr("ground", msgspec.to_builtins(ground))
    return Study(ground, file, made)


def _resumed(file: Path, machine: str, fixed: Mapping[str, Value], seed: int) -> Study | None:
    """The study in the file, if it stands on this ground."""
    storage = _storage(file)
    if not optuna.get_all_study_names(storage):
        return None  # it was cut short before it began
    study = optuna.load_study(study_name="tune", storage=storage)
    if "ground" not in study.user_attrs:
        return None
    ground = msgspec.convert(study.user_attrs["ground"], Ground)
    if (ground.machine, ground.fixed) != (machine, dict(fixed)):
        return None
    study.sampler = _sampler(seed + len(study.get_trials(deepcopy=False)))
    return Study(ground, file, study)


def _storage(file: Path) -> JournalStorage:
    # Where links cannot be made a file is as good a lock.
    return JournalStorage(JournalFileBackend(str(file), lock_obj=JournalFileOpenLock(str(file))))


def _sampler(seed: int) -> optuna.samplers.BaseSampler:
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=_AT_RANDOM)
