"""A process that does the model's work for some streams at once, and one that only disturbs it.

Little is loaded for the second.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.model.acoustic import Acoustic
    from engine.model.vocoder import Vocoder

VOICE = "af_heart"
_PHONEMES = (
    "ðə fˈɛɹi lˈivz æt sˈɛvən ɪn ðə mˈɔɹnɪŋ ænd əɡˈɛn æt fˈɔɹ, ənlˈɛs ðə wˈɪnd kˈʌmz fɹʌm ðə nˈɔɹθ."
)
_LONGEST = len(_PHONEMES)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a process works.

    Attributes:
        threads: of each lane; 0: one per core.
        spinning: threads wait for each other awake.
        nice: of the process.
        lanes: pieces that run at once.
    """

    threads: int = 0
    spinning: bool = True
    nice: int = 0
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class Ask:
    """For each stream a pass and one window.

    Attributes:
        streams: that come at once.
        phonemes: of the pass, 90 at most.
        columns: of the window, 12.5 ms each; less if the pass has made fewer.
    """

    streams: int = 1
    phonemes: int = _LONGEST
    columns: int = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """Seconds: until each stream had its window, in order; and of the first stream's pass."""

    heard: Sequence[float]
    pass_s: float


def work(pipe: Connection, kind: Kind) -> None:
    """Says that it is ready, and answers what it is asked until the pipe is closed."""
    from functools import partial

    from engine import config, process
    from engine.model import assets, build
    from engine.model.acoustic import Acoustic
    from engine.model.adain import Predictor
    from engine.model.runtime import session
    from engine.model.vocoder import Vocoder
    from engine.voices import Voices

    process.set_nice(kind.nice)
    settings = config.load().settings
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    built = build.ensure(found.model, found.sha256, settings.cache_dir, lambda *_: None)
    opens = partial(session, spinning=kind.spinning)
    acoustic, one, two = (built.part(name) for name in ("acoustic", "stage_one", "stage_two"))
    lanes = [
        (
            Acoustic(acoustic, kind.threads, opens=opens),
            Vocoder(one, two, kind.threads, opens=opens),
        )
        for _ in range(kind.lanes)
    ]
    voices, predictor = Voices(found.voices), Predictor()
    with ThreadPoolExecutor(kind.lanes) as pool:
        pipe.send(None)
        while True:
            try:
                ask = pipe.recv()
            except EOFError:
                return
            pipe.send(_done(pool, lanes, ask, voices.style(VOICE, ask.phonemes), predictor))


def _done(
    pool: ThreadPoolExecutor,
    lanes: Sequence[tuple[Acoustic, Vocoder]],
    ask: Ask,
    style: Any,
    predictor: Any,
) -> Answer:
    """Stream after stream, each in the lane that is free first; a pass and its window together.

    That is the engine's order: of streams that came at once the first is due first, and is so
    until it has been heard.
    """
    from engine.ladder import Kind as Rung
    from engine.ladder import Step
    from engine.model.decoder import Decoder

    free = list(lanes)
    passes: list[float] = []
    began = time.perf_counter()

    def speak(number: int) -> float:
        acoustic, vocoder = lane = free.pop()
        call = acoustic.call(_PHONEMES[: ask.phonemes], style, 1.0)
        sound = call.run()
        if not number:
            passes.append(call.seconds)
        stop = min(ask.columns, sound.columns)
        Decoder(vocoder, predictor, sound).call(Step(Rung.PREDICTED, 0, stop)).run()
        free.append(lane)
        return time.perf_counter() - began

    heard = list(pool.map(speak, range(ask.streams)))
    return Answer(heard, passes[0])


def disturb(count: Any) -> None:
    """Keeps a core busy for ever; counts in a shared `Value` how far it has come."""
    for number in itertools.count():
        sum(range(2000))
        count.value = number
