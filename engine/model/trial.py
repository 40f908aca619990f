"""Tries the places where the model may run: time and sound against the processor's. Shell: processes."""

from __future__ import annotations

import multiprocessing
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import structlog
from numpy.typing import NDArray

from engine.errors import AssetError, blame
from engine.ladder import exact_steps
from engine.model import build, providers
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor
from engine.model.decoder import Decoder
from engine.model.providers import CPU, Candidate, Finding, Part
from engine.model.runtime import Call, Open, Unsound, session
from engine.model.vocoder import Vocoder
from engine.voices import Voices

Floats = NDArray[np.float32]

log = structlog.get_logger("engine")

#: how often a candidate and the processor take turns, after one turn that does not count
ROUNDS = 5
#: a candidate that took so many times as long once has lost
_HOPELESS = 3.0
#: how long loading a candidate and its turns may take; compilers for accelerators take a minute
_LIMIT_S = 120.0

#: The text of the test, three seconds. Every round takes another part of it, because segments are
#: of any length, and some providers compile for each length that they have not seen.
_PHONEMES = "ðə kwˈɪk bɹˈWn fˈɑks ʤˈʌmps ˈOvəɹ ðə lˈAzi dˈɔɡ."
_SHORTER = 3

#: speaks the part's text of a round: its sound, and the seconds that the part took
Speak = Callable[[int], tuple[Floats, float]]
Loaded = TypeVar("Loaded", Acoustic, Vocoder)
#: a candidate with a part to run
Trial = tuple[Part, Candidate]


class Subject(msgspec.Struct, frozen=True):
    """What the test needs to know.

    Attributes:
        build: of the model.
        voices: the folder.
        voice: that speaks.
        threads: of the processor; 0: one per core.
        spinning: whether they wait for each other awake.
    """

    build: build.Build
    voices: Path
    voice: str
    threads: int
    spinning: bool = True


class Examiner:
    """Speaks with the processor, and with any other place; all in this process.

    Args:
        subject: what is tried.
        opens: makes the sessions of other places.
    """

    def __init__(self, subject: Subject, opens: Open = session) -> None:
        self._subject, self._opens = subject, opens
        self._voices = Voices(subject.voices)
        self._voice = self._voices.resolve(subject.voice)
        own = partial(session, spinning=subject.spinning)
        self._own_acoustic = self._acoustic(CPU, own)
        self._own_vocoder = self._vocoder(CPU, own)
        self._predictor = Predictor()
        self._sounds: dict[int, Acoustics] = {}

    def examine(self, trial: Trial) -> Finding:
        """Tries one place for one part."""
        part, place = trial

        def speaking() -> Speak:
            if part == "acoustic":
                return self._passes(self._acoustic(place, self._opens))
            return self._decodes(self._vocoder(place, self._opens))

        own = (
            self._passes(self._own_acoustic)
            if part == "acoustic"
            else self._decodes(self._own_vocoder)
        )
        return tried(part, place, speaking, own)

    def speak_s(self, number: int) -> float:
        """Seconds that both parts take on the processor."""
        own = self._passes(self._own_acoustic), self._decodes(self._own_vocoder)
        return sum(speak(number)[1] for speak in own)

    def _acoustic(self, place: Candidate, opens: Open) -> Acoustic:
        path = self._subject.build.part("acoustic")
        return _unless_faulty(Acoustic(path, self._subject.threads, place, opens))

    def _vocoder(self, place: Candidate, opens: Open) -> Vocoder:
        one, two = (self._subject.build.part(name) for name in ("stage_one", "stage_two"))
        return _unless_faulty(Vocoder(one, two, self._subject.threads, place, opens))

    def _pass(self, acoustic: Acoustic, number: int) -> Call[Acoustics]:
        phonemes = _PHONEMES[: len(_PHONEMES) - _SHORTER * number]
        style = self._voices.style(self._voice, len(phonemes))
        return acoustic.call(phonemes, style, 1.0)

    def _passes(self, acoustic: Acoustic) -> Speak:
        """Only the pass is timed; the processor makes it heard."""

        def speak(number: int) -> tuple[Floats, float]:
            call = self._pass(acoustic, number)
            sound = call.run()
            _unless_faulty(acoustic)
            vocoder = self._own_vocoder
            return Call(lambda options: vocoder.whole(sound, options)[0]).run(), call.seconds

        return speak

    def _decodes(self, vocoder: Vocoder) -> Speak:
        """Stage one and windows, as for somebody who listens."""

        def speak(number: int) -> tuple[Floats, float]:
            if number not in self._sounds:
                self._sounds[number] = self._pass(self._own_acoustic, number).run()
            sound = self._sounds[number]
            decoder = Decoder(vocoder, self._predictor, sound)
            pieces, seconds = [], 0.0
            for step in exact_steps(sound.columns):
                decoding = decoder.call(step)
                pieces.append(decoding.run())
                seconds += decoding.seconds
            _unless_faulty(vocoder)
            return np.concatenate(pieces), seconds

        return speak


def _unless_faulty(part: Loaded) -> Loaded:
    if part.unsound:
        raise Unsound(part.unsound)
    if part.fault:
        raise AssetError(part.fault)
    return part


def tried(part: Part, place: Candidate, speaking: Callable[[], Speak], own: Speak) -> Finding:
    """Compares a place with the processor, in turn. Blocking.

    Args:
        part: that it runs.
        place: the candidate.
        speaking: loads it; it and what it gives may raise whatever they like.
        own: the processor's.
    """
    ratios: list[float] = []
    times: list[float] = []
    worst_db = 0.0
    doing = "loaded"
    try:
        speak = speaking()
        doing = "run"
        for number in range(ROUNDS + 1):
            (expected, own_s), (sound, seconds) = own(number), speak(number)
            fault, distance_db = providers.sound_fault(expected, sound)
            worst_db = max(worst_db, distance_db or 0.0)
            if fault:
                return Finding(place.name, part, lsd_db=distance_db, fault=fault)
            if number:
                ratios.append(seconds / own_s)
                times.append(seconds)
                if ratios[-1] > _HOPELESS:
                    break
    except Unsound as error:
        return Finding(place.name, part, fault=str(error))
    except Exception as error:
        log.info("a provider failed its test", provider=place.name, part=part, error=blame(error))
        return Finding(place.name, part, fault=f"it cannot be {doing} here")
    seconds = round(statistics.median(times), 3)
    return Finding(place.name, part, providers.kept_to(ratios), seconds, worst_db)


# --- in a process of its own --------------------------------------------------------------------


def _work(telling: Connection, subject: Subject, trials: Sequence[Trial]) -> None:
    """Sends a finding for each trial."""
    # Providers write pages to both; standard output may be the parent's sound.
    with Path(os.devnull).open("ab") as nowhere:
        for stream in (1, 2):
            os.dup2(nowhere.fileno(), stream)
    examiner = Examiner(subject)
    for trial in trials:
        telling.send(examiner.examine(trial))


def examine(
    subject: Subject,
    trials: Sequence[Trial],
    work: Callable[[Connection, Subject, Sequence[Trial]], None] = _work,
    limit_s: float = _LIMIT_S,
) -> list[Finding]:
    """Tries them in processes of their own, which a provider may take down or hang. Blocking.

    Args:
        subject: what is tried.
        trials: in this order.
        work: what such a process does.
        limit_s: how long one trial may take.
    """
    findings: list[Finding] = []
    context = multiprocessing.get_context("spawn")
    while len(findings) < len(trials):
        told, telling = context.Pipe(duplex=False)
        rest = trials[len(findings) :]
        worker = context.Process(target=work, args=(telling, subject, rest), daemon=True)
        worker.start()
        telling.close()
        try:
            for part, place in rest:
                if not told.poll(limit_s):
                    fault = f"it was not done after {limit_s:g} s"
                    findings.append(Finding(place.name, part, fault=fault))
                    break
                try:
                    findings.append(told.recv())
                except EOFError:
                    findings.append(Finding(place.name, part, fault="it ended its process"))
                    break
        finally:
            worker.kill()
            worker.join()
            told.close()
    return findings
