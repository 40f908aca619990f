"""What the model's steps take on this machine, by number of threads, spinning or asleep. Shell.

All that is compared takes turns, step by step, so a machine whose speed drifts is unfair to none.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from bench.tune.search import Ground
from bench.tune.simulated import Taken
from bench.tune.space import Value
from engine.config import Settings
from engine.ladder import Kind, Step
from engine.model import assets, placement
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.geometry import CONTEXT_ONE, CONTEXT_TWO
from engine.model.runtime import session
from engine.model.vocoder import Vocoder
from engine.reach import phoneme_s
from engine.voices import Voices

#: what is spoken: a sentence of 100 phonemes, and shorter parts of it
_PHONEMES = (
    "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ, ænd ðə lˈAzi dˈɔɡ ɹˈʌnz ˈæftəɹ ðə kwˈɪk "
    "bɹˈWn fˈɑks tə ðə ɹˈɪvəɹ."
)
_LENGTHS = (30, 60, 100)
#: columns of the windows that are measured
_EXACT, _PREDICTED = (8, 16, 32, 64, 96), (8, 16, 48)
#: numbers of threads that are tried at most
_COUNTS = 3
#: Scatter at most: what is more comes from other programs, and is not this machine's. A quiet one
#: has about 0.1.
_MOST_SIGMA = 0.15


@dataclass(slots=True)
class _Place:
    """The model on so many threads, and what its steps took."""

    acoustic: Acoustic
    vocoder: Vocoder
    passes: dict[int, list[float]] = field(default_factory=dict)
    steps: dict[Step, list[float]] = field(default_factory=dict)


def counts(cores: int) -> list[int]:
    """Numbers of threads that are tried: all (0), and halves of that."""
    halves = [cores >> halved for halved in range(1, cores.bit_length())]
    return [0, *(count for count in halves if count)][:_COUNTS]


def measured(
    settings: Settings,
    fixed: Mapping[str, Value],
    rounds: int,
    *,
    seed: int,
    text_s: float,
    machine: str,
    tell: Callable[[str], None],
) -> Ground:
    """Measures. Blocks, for a minute.

    Args:
        settings: which model, and where it is.
        fixed: settings that a person has chosen.
        rounds: how often, after a round that does not count.
        seed: of the order.
        text_s: what reading takes, for a character.
        machine: hardware and versions.
        tell: shows what is being done.

    Raises:
        SetupError: the model cannot be had.
    """
    tell("loading the model")
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    settled = placement.settle(found, settings, lambda *_: None)
    threads = [int(fixed["threads"])] if "threads" in fixed else counts(os.cpu_count() or 1)
    spinning = [bool(fixed["spinning"])] if "spinning" in fixed else [True, False]
    voices = Voices(found.voices)
    voice = voices.resolve(settings.voice)
    places = {}
    for count in threads:
        for spins in spinning:
            if count == 1 and not spins and len(spinning) > 1:
                continue  # there is nobody to wait for
            opens = partial(session, spinning=spins)
            built = settled.build
            stages = built.part("stage_one"), built.part("stage_two")
            places[Ground.name(count, spinning=spins)] = _Place(
                Acoustic(built.part("acoustic"), count, settled.acoustic, opens),
                Vocoder(*stages, count, settled.vocoder, opens),
            )
    chance = random.Random(seed)
    for number in range(rounds + 1):
        tell(f"measuring the model, round {number} of {rounds}")
        sounds: dict[str, Acoustics] = {}
        for length in _LENGTHS:
            phonemes = _PHONEMES[:length]
            style = voices.style(voice, length)
            for name in chance.sample(list(places), len(places)):
                call = places[name].acoustic.call(phonemes, style, 1.0)
                sounds[name] = call.run()
                if number:
                    places[name].passes.setdefault(length, []).append(call.seconds)
        _decode(places, sounds, chance, counts=number > 0)
    return Ground(
        machine=machine,
        measured_s=time.time(),
        taken={
            name: taken(place.passes, place.steps, text_s=text_s) for name, place in places.items()
        },
        fixed=dict(fixed),
    )


def _decode(
    places: Mapping[str, _Place],
    sounds: Mapping[str, Acoustics],
    chance: random.Random,
    *,
    counts: bool,
) -> None:
    predictor = Predictor()
    decoders = {
        name: Decoder(place.vocoder, predictor, sounds[name]) for name, place in places.items()
    }
    columns = min(sound.columns for sound in sounds.values())
    steps = [Step(Kind.STAGE_ONE, 0, columns)]
    steps += [Step(Kind.EXACT, 0, size) for size in _EXACT]
    # In the middle, where there is context on both sides.
    steps += [Step(Kind.PREDICTED, 16, 16 + size) for size in _PREDICTED]
    for step in steps:
        for name in chance.sample(list(places), len(places)):
            call = decoders[name].call(step)
            call.run()
            if counts:
                places[name].steps.setdefault(step, []).append(call.seconds)


def taken(
    passes: Mapping[int, Sequence[float]],
    steps: Mapping[Step, Sequence[float]],
    *,
    text_s: float = 0.0,
) -> Taken:
    """What follows from measurements.

    Args:
        passes: seconds of each acoustic pass, by its phonemes.
        steps: seconds of each step of the vocoder.
        text_s: what reading takes, for a character.
    """
    pass_s = statistics.median(
        phoneme_s(phonemes, _best(took)) for phonemes, took in passes.items()
    )
    works = np.array([work(step) for step in steps])
    best_s = np.array([_best(took) for took in steps.values()])
    # Each step counts alike, however long it is.
    found, *_ = np.linalg.lstsq(works / best_s[:, None], np.ones(len(steps)), rcond=None)
    # Where one of them is nothing, noise may make it less than that.
    one_s, two_s, window_s = (max(float(value), 0.0) for value in found)
    logs = [
        np.log(seconds) - np.log(np.median(took)) for took in steps.values() for seconds in took
    ]
    # Not the standard deviation: a machine that others use too goes wild now and then.
    sigma = 1.4826 * float(np.median(np.abs(logs)))
    return Taken(
        one_s=round(max(one_s, 1e-6), 7),
        two_s=round(max(two_s, 1e-6), 7),
        pass_s=round(pass_s, 7),
        window_s=round(window_s, 6),
        text_s=round(text_s, 8),
        sigma=round(min(sigma, _MOST_SIGMA), 4),
    )


def _best(took: Sequence[float]) -> float:
    """The quickest, as in the engine's own warm-up: other programs only ever make it longer."""
    return min(took)


def work(step: Step) -> tuple[int, int, int]:
    """Columns of stage one and of stage two, and windows."""
    columns = step.stop - step.start
    match step.kind:
        case Kind.STAGE_ONE:
            return columns, 0, 0
        case Kind.WHOLE:
            return columns, columns, 0
        case Kind.EXACT:
            return 0, columns + 2 * CONTEXT_TWO, 1
        case Kind.PREDICTED:
            context = 2 * (CONTEXT_ONE + CONTEXT_TWO)
            return columns + context, columns + 2 * CONTEXT_TWO, 1
