"""The engine's pipeline and the player's buffer on a machine of known pace, in virtual time. Shell.

What runs is the real code of the pipeline, ladder, reach, pace and playout; only the model is left
out: each of its steps takes as long as was measured. So a listener's evening is over in a second,
and is the same every time.
"""

from __future__ import annotations

import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
import trio
from trio.testing import MockClock

from bench.record import recorded
from bench.scenarios.playout import play
from bench.traces import Utterance as Trace
from engine import pipeline
from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.ladder import LAST_WINDOW, Costs, Kind, Ladder, Step, Windows
from engine.lane import Pace
from engine.model.geometry import COLUMN_SAMPLES, CONTEXT_TWO
from engine.reach import Passes, Reach
from engine.text.passage import Passage, Reading
from engine.turns import Turns
from engine.utterance import Piece, Speech, Utterance
from playerd.delay import DelayPolicy
from playerd.forecast import Supply

#: frames of a phoneme, by turns, and of the silence at each end: as long as the real model's
FRAMES, EDGE_FRAMES = (2, 2, 3), 15

#: ms of silence that are cut off where speech begins and ends: of what `timing.spoken_span` has,
#: least, most and most often (median 100 and 140), by the measurements in that module
_QUIET_START, _QUIET_END = (10.0, 160.0, 120.0), (70.0, 225.0, 140.0)

#: more in hand than this is no better
MOST_MARGIN_S = 1.0


class Taken(msgspec.Struct, frozen=True):
    """What the model's steps take on a machine, in seconds.

    Attributes:
        one_s: stage one, for a column.
        two_s: stage two, for a column.
        pass_s: an acoustic pass, for a phoneme (`Passes`).
        window_s: every window, besides.
        text_s: reading, for a character.
        sigma: how much a step differs from that, as a standard deviation of the logarithm.
    """

    one_s: float
    two_s: float
    pass_s: float
    window_s: float = 0.0
    text_s: float = 0.0
    sigma: float = 0.1

    @property
    def rtf(self) -> float:
        """Computing per audio, for a segment of 100 phonemes in windows."""
        passes = Passes(self.pass_s)
        columns = passes.columns(100, 1.0)
        steps_s = columns * (self.one_s + self.two_s) + self.window_s * columns / LAST_WINDOW
        return (passes.seconds(100) + steps_s) * SAMPLE_RATE / (columns * COLUMN_SAMPLES)


@dataclass
class Machine:
    """Speaks like `engine.synthesis`, but for the sound; see `engine.utterance.Voicing`.

    Attributes:
        taken: what its steps take.
        reading: what a passage is in words.
        budget_s: how long the first sound may take if that makes it better.
        windows: how large they are.
        seed: of what differs from one step, and from one segment, to the next.
        rule: whether a segment is only as long as is in time.
        slower: everything takes so many times as long as at the warm-up.
        trims: whether there is silence at both ends of what is decoded, which is cut off.
        predicted: columns that were decoded with predicted statistics …
        decoded: … and all.
    """

    taken: Taken
    reading: Callable[[Passage, Utterance], Awaitable[Reading]]
    budget_s: float = 0.3
    windows: Windows = field(default_factory=Windows)
    seed: int = 7
    rule: bool = True
    slower: float = 1.0
    trims: bool = False
    predicted: int = 0
    decoded: int = 0

    def __post_init__(self) -> None:
        taken = self.taken
        # What the engine's warm-up would find: its largest window tells least of what is besides.
        two_s = taken.two_s + taken.window_s / (LAST_WINDOW + 2 * CONTEXT_TWO)
        self._costs = Costs(taken.one_s, two_s)
        self._passes = Passes(taken.pass_s)
        # These do not learn.
        self._true, self._true_passes = Costs(taken.one_s, taken.two_s), Passes(taken.pass_s)
        self._reach = Reach(self._costs, self._passes, self.budget_s, self.windows)
        self._turns = Turns()
        # One for each task: which of two is first, is trio's own chance.
        self._passing, self._decoding = random.Random(self.seed), random.Random(-self.seed)
        self._trimming = random.Random(f"trim {self.seed}")

    async def passages(self, read: Callable[[], list[Passage]]) -> list[Passage]:
        """See `Voicing`."""
        return read()

    async def read(self, passage: Passage, utterance: Utterance) -> Reading:
        """See `Voicing`."""
        await trio.sleep(self.slower * self.taken.text_s * len(passage.text.text))
        return await self.reading(passage, utterance)

    def reach(self, phonemes: str, voice: str, speed: float, lead_s: float, *, late: bool) -> int:
        """See `Voicing`."""
        if not self.rule:
            return len(phonemes)
        return self._reach.phonemes(len(phonemes), speed, lead_s, late=late)

    async def _works(self, seconds: float, chance: random.Random) -> float:
        seconds *= self.slower * math.exp(chance.gauss(0, self.taken.sigma))
        await trio.sleep(seconds)
        return seconds

    async def prepare(
        self, phonemes: str, voice: str, speed: float, pace: Pace, *, batch: bool
    ) -> Speech:
        """See `Voicing`."""
        due_s = pace.next_due_s(trio.current_time())
        async with self._turns.turn(deadline_s=due_s, batch=batch):
            seconds = await self._works(self._true_passes.seconds(len(phonemes)), self._passing)
        self._passes.took(len(phonemes), seconds)
        durations = [EDGE_FRAMES, *(FRAMES[n % 3] for n in range(len(phonemes))), EDGE_FRAMES]
        self._passes.gave(len(phonemes), speed, 2 * sum(durations))
        return Speech(phonemes, np.array(durations, np.int64), speed, compute_s=seconds)

    async def pieces(self, speech: Speech, pace: Pace, *, batch: bool) -> AsyncGenerator[Piece]:
        """See `Voicing`."""
        start, stop = speech.span
        first, last = start // COLUMN_SAMPLES, -(-stop // COLUMN_SAMPLES)
        kept = self._kept(start, stop)
        columns = 2 * int(sum(speech.durations))
        ladder = Ladder(columns, first, last, self._costs, self.budget_s, self.windows)
        while not ladder.done:
            due_s = pace.due_s(trio.current_time())
            async with self._turns.turn(deadline_s=due_s, batch=batch):
                step = ladder.next(np.inf if batch else pace.spare_s(trio.current_time()))
                assert step is not None
                seconds = await self._works(self._takes_s(step), self._decoding)
            self._costs.took(step, seconds)
            if step.kind is Kind.STAGE_ONE:
                continue
            self.decoded += step.stop - step.start
            self.predicted += (step.kind is Kind.PREDICTED) * (step.stop - step.start)
            if samples := _samples(step, *kept):
                yield Piece(b"\1\1" * samples, seconds, kept[0])

    def _takes_s(self, step: Step) -> float:
        windows = step.kind in (Kind.EXACT, Kind.PREDICTED)
        return self._true.of(step) + windows * self.taken.window_s

    def _kept(self, start: int, stop: int) -> tuple[int, int]:
        """Samples of a span that are left when it is trimmed."""
        if not self.trims:
            return start, stop
        quiet, end = (self._trimming.triangular(*ms) for ms in (_QUIET_START, _QUIET_END))
        return start + ms_to_samples(quiet), stop - ms_to_samples(end)


def _samples(step: Step, start: int, stop: int) -> int:
    stop = min(stop, step.stop * COLUMN_SAMPLES)
    return max(0, stop - max(start, step.start * COLUMN_SAMPLES))


@dataclass(frozen=True, slots=True)
class Listened:
    """What a listener had of a stream.

    Attributes:
        start_s: from the request to the first sound.
        margin_s: what he had in hand at least, inside of phrases, when more came; at most
            `MOST_MARGIN_S`, and less than 0 by as much as it was late.
        mid: holes inside of phrases …
        mid_s: … and seconds of silence in them.
        cuts: segments that begin inside of a phrase.
    """

    start_s: float
    margin_s: float
    mid: int
    mid_s: float
    cuts: int


def listened(trace: Trace, policy: DelayPolicy, supply: Supply) -> Listened:
    """Plays a stream as it came."""
    heard = play(trace, policy, supply)
    gaps = heard.playout.gaps
    cuts = sum(segment.boundary == "none" for segment in trace.segments[1:])
    return Listened(heard.start_s, _margin_s(trace, heard.start_s), gaps.mid, gaps.mid_s, cuts)


def _margin_s(trace: Trace, start_s: float) -> float:
    """What is in hand at least when more comes, if it is played from then on without pauses."""
    end_s, margin_s = start_s, MOST_MARGIN_S
    for segment in trace.segments:
        for number, arrival in enumerate(segment.arrivals):
            in_hand_s = end_s - arrival.at_s
            if arrival.at_s > start_s:
                if number:
                    margin_s = min(margin_s, in_hand_s)
                end_s = max(end_s, arrival.at_s)
            end_s += arrival.samples / SAMPLE_RATE
    return margin_s


def spoken(machine: Machine, texts: Sequence[str], made: Callable[[str], Utterance]) -> list[Trace]:
    """When each of these comes, one after the other, from a machine that learns. Blocks.

    Args:
        machine: that speaks.
        texts: what it speaks.
        made: an utterance of a text, with everything resolved.
    """

    async def all_of_them() -> list[Trace]:
        traces = []
        for text in texts:
            began_s = trio.current_time()
            async with pipeline.run(made(text), machine) as events:
                traces.append(await recorded("tune", text, events, began_s))
        return traces

    return trio.run(all_of_them, clock=MockClock(autojump_threshold=0))
