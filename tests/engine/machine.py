"""A fake model for `engine.synthesis`: sines, a log of what is run, and calls that can be held."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.ladder import Costs
from engine.lane import Pace
from engine.model.acoustic import Acoustic, Acoustics
from engine.model.adain import Predictor, Statistics
from engine.model.geometry import COLUMN_ROWS, COLUMN_SAMPLES
from engine.model.runtime import Call
from engine.model.vocoder import Vocoder
from engine.reach import Passes
from engine.report import CacheSize
from engine.synthesis import Model, Synthesis
from engine.text.frontend import TextFrontend
from engine.text.passage import Passage, Reading
from engine.text.words import Word
from engine.utterance import Piece, Speech
from engine.voices import Voices

Floats = NDArray[np.float32]

#: frames that every phoneme lasts at speed 1: 0.1 s, 8 columns
FRAMES = 4
#: before this the audio of a segment is silence
FIRST_SOUND_S = 0.1
#: so fast that a whole segment fits any budget, and so slow that nothing does
QUICK, SLOW = (1e-9, 1e-9), (1e3, 1e3)

#: what a voice's style begins with
STYLES = {"a": 1.0, "b": 2.0, "twin of a": 1.0}
_NAMES = {1.0: "a", 2.0: "b"}


@dataclass
class Machine:
    """What runs, and in which order; `held` calls wait until they are let go or stopped.

    Attributes:
        log: `acoustic a`, `whole a`, `one a`, `two a 8-24`: what ran, and in which voice.
        fails: names of calls that fail.
        silent: whether the audio is.
    """

    log: list[str] = field(default_factory=list)
    fails: set[str] = field(default_factory=set)
    silent: bool = False
    _gates: dict[str, tuple[threading.Event, threading.Event]] = field(default_factory=dict)

    def hold(self, name: str) -> None:
        """The next call of this name waits."""
        self._gates[name] = (threading.Event(), threading.Event())

    def wait_until_held(self, name: str) -> None:
        """Blocks until it has begun."""
        self._gates[name][0].wait()

    def let_go(self) -> None:
        """Every held call goes on."""
        for _, gate in self._gates.values():
            gate.set()

    def work(self, name: str, options: ort.RunOptions) -> None:
        """A step of the model."""
        self.log.append(name)
        if name in self._gates:
            began, gate = self._gates[name]
            began.set()
            gate.wait()
        if options.terminate or name in self.fails:
            raise RuntimeError(f"{name} was stopped or failed")

    @property
    def model(self) -> Model:
        """The parts of it."""
        return Model(
            cast(Acoustic, _Acoustic(self)),
            cast(Vocoder, _Vocoder(self)),
            cast(Predictor, _Predictor()),
        )


@dataclass
class _Acoustic:
    machine: Machine

    def known(self, phonemes: str) -> str:
        return phonemes.replace("?", "")

    def call(self, phonemes: str, style: Floats, speed: float) -> Call[Acoustics]:
        durations = np.full(len(phonemes) + 2, round(FRAMES / speed), np.int64)
        columns = int(durations.sum()) * 600 // COLUMN_SAMPLES

        def work(options: ort.RunOptions) -> Acoustics:
            self.machine.work(f"acoustic {_NAMES[float(style[0, 0])]}", options)
            one = np.zeros(1, np.float32)
            return Acoustics(
                features=np.zeros((1, columns), np.float32),
                source=np.zeros((1, 1), np.float32),
                durations=durations,
                gain=one,
                bias=one,
                style=style[0],
                speed=speed,
            )

        return Call(work)


@dataclass
class _Vocoder:
    machine: Machine
    channels_one: int = 1

    def upsample(
        self,
        sound: Acoustics,
        start: int,
        stop: int,
        statistics: Statistics | None,
        options: ort.RunOptions,
    ) -> Floats:
        if statistics is None:
            assert (start, stop) == (0, sound.columns)
            self.machine.work(f"one {_name(sound)}", options)
        return np.zeros((256, (stop - start) * COLUMN_ROWS), np.float32)

    def decode(
        self,
        sound: Acoustics,
        upsampled: Floats,
        origin: int,
        start: int,
        stop: int,
        statistics: Statistics,
        options: ort.RunOptions,
    ) -> Floats:
        self.machine.work(f"two {_name(sound)} {start}-{stop}", options)
        return self._audio(start, stop)

    def whole(self, sound: Acoustics, options: ort.RunOptions) -> tuple[Floats, Floats, Statistics]:
        self.machine.work(f"whole {_name(sound)}", options)
        return self._audio(0, sound.columns), np.zeros((256, 1), np.float32), _STATISTICS

    def _audio(self, start: int, stop: int) -> Floats:
        time = np.arange(start * COLUMN_SAMPLES, stop * COLUMN_SAMPLES) / 24_000
        loudness = 0.0 if self.machine.silent else 0.5 * (time > FIRST_SOUND_S)
        return (loudness * np.sin(2 * np.pi * 440 * time)).astype(np.float32)


def _name(sound: Acoustics) -> str:
    return _NAMES[float(sound.style[0])]


_STATISTICS = Statistics(np.zeros(2, np.float32), np.ones(2, np.float32))


class _Predictor:
    def first(self, sound: Acoustics) -> Statistics:
        return _STATISTICS

    def second(self, sound: Acoustics, upsampled: Floats) -> Statistics:
        return _STATISTICS


class _Voices:
    cache = CacheSize("voices", 1, 64)

    def forget(self) -> None:
        pass

    def style(self, name: str, tokens: int) -> Floats:
        return np.array([[STYLES[name], 0.0]], np.float32)


@dataclass
class Front:
    """A front end that finds a word in every passage, and remembers what it has read."""

    seen: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    most: int = 0
    _now: int = 0

    def __post_init__(self) -> None:
        self.gate.set()

    def read(self, passage: Passage, *_: object) -> Reading:
        self.seen.append(passage.text.text)
        self._now += 1
        self.most = max(self.most, self._now)
        self.gate.wait()
        self._now -= 1
        return Reading([Word(passage.start, passage.end, "one")], [])

    caches = (CacheSize("phonemes", 3, 100, "words"),)

    def forget(self) -> None:
        self.seen.clear()


def synthesis(
    machine: Machine,
    *,
    build: str = "build",
    front: Front | None = None,
    costs: tuple[float, float] = QUICK,
    budget_s: float = 1e6,
    cache_bytes: int = 10**9,
) -> Synthesis:
    """Of a fake model; with the defaults every segment is decoded whole."""
    return Synthesis(
        machine.model,
        build,
        cast(Voices, _Voices()),
        cast(TextFrontend, front or Front()),
        costs=Costs(*costs),
        passes=Passes(0.002),
        budget_s=budget_s,
        cache_bytes=cache_bytes,
    )


async def speak(
    made: Synthesis,
    phonemes: str,
    pace: Pace,
    *,
    voice: str = "a",
    speed: float = 1.0,
    batch: bool = False,
) -> tuple[Speech, list[Piece]]:
    """Both steps of a segment."""
    speech = await made.prepare(phonemes, voice, speed, pace, batch=batch)
    async with aclosing(made.pieces(speech, pace, batch=batch)) as pieces:
        return speech, [piece async for piece in pieces]


def pcm_of(pieces: Sequence[Piece]) -> bytes:
    """Their audio in a row."""
    return b"".join(piece.pcm for piece in pieces)
