"""When the parts of a stream come: recorded from the engine, or made up with a seed.

A trace is what a player is told and when; the audio itself does not matter and is not in it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import msgspec

from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.request import Boundary, SegmentStart

#: with this a recorded trace is written and read
FILE = Path(__file__).parent / "data" / "traces.jsonl"


class Arrival(msgspec.Struct, frozen=True, array_like=True):
    """So many samples of a segment came at once; seconds since the request."""

    at_s: float
    samples: int


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A segment as it came; times are seconds since the request.

    Attributes:
        announced: samples it should have at most.
        start_s: when it was announced.
        end_s: when it was complete.
        boundary: what is before it.
        arrivals: its samples.
    """

    char_start: int
    char_end: int
    announced: int
    start_s: float
    end_s: float
    boundary: Boundary | None
    arrivals: tuple[Arrival, ...]

    @property
    def actual(self) -> int:
        """Samples it has."""
        return sum(arrival.samples for arrival in self.arrivals)

    def started(self, index: int, sample: int, text: str) -> SegmentStart:
        """What announced it: number, first sample, and all of the stream's text are the stream's."""
        return SegmentStart(
            index=index,
            text=text[self.char_start : self.char_end],
            char_start=self.char_start,
            char_end=self.char_end,
            sample=sample,
            predicted_samples=self.announced,
            pause=self.boundary,
        )


class Utterance(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as it came.

    Attributes:
        trace: under which conditions.
        text: all of it.
        pieces: (when it came, how many characters there are then); one if it was there at once.
        segments: in order.
    """

    trace: str
    text: str
    segments: tuple[Segment, ...]
    pieces: tuple[tuple[float, int], ...] = ()

    @property
    def samples(self) -> int:
        """Length of the stream."""
        return sum(segment.actual for segment in self.segments)

    @property
    def rtf(self) -> float:
        """Time from the request to the end, per audio."""
        return self.segments[-1].end_s * SAMPLE_RATE / self.samples


def read(file: Path = FILE) -> list[Utterance]:
    """Recorded utterances; one JSON line each."""
    decoder = msgspec.json.Decoder(Utterance)
    return [decoder.decode(line) for line in file.read_bytes().splitlines()]


def write(utterances: list[Utterance], file: Path) -> None:
    """See `read`."""
    file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in utterances))


@dataclass(frozen=True, slots=True)
class Maker:
    """An engine that decodes a segment as a whole and sends it in one burst.

    Attributes:
        rtf: computing per audio.
        sigma: of its logarithm, from one segment to the next.
        overhead_s: of every segment.
        spike: how often a segment takes 1.5 to 2.5 times as long.
        stall: how often a frame of 50 ms comes 20 to 250 ms late, and all behind it.
        live: the text comes at three times the speed of speech, and stalls.
        grow: segments are sized by the slack of a listener who plays at once (rule G).
    """

    rtf: float
    sigma: float
    overhead_s: float
    spike: float
    stall: float
    live: bool = False
    grow: bool = False


#: the six of the study that the policy comes from
MAKERS = {
    "fast": Maker(0.12, 0.10, 0.030, 0.01, 0.001),
    "mid": Maker(0.45, 0.20, 0.050, 0.04, 0.0025),
    "weak": Maker(0.75, 0.22, 0.060, 0.05, 0.003),
    "weakgrow": Maker(0.75, 0.22, 0.060, 0.05, 0.003, grow=True),
    "over": Maker(1.15, 0.15, 0.060, 0.03, 0.003),
    "llm": Maker(0.30, 0.15, 0.040, 0.02, 0.0015, live=True),
}

_FRAME = ms_to_samples(50)
_MOST_S, _LEAST_S = 6.5, 0.3
#: part of the slack that rule G lets a segment cost
_SHARE = 0.65
#: characters a second that are spoken, and how much that differs, as a logarithm
_CHARS_PER_S, _CHARS_SIGMA = 15.0, 0.10
#: Announced lengths are upper bounds: what was trimmed off, per segment.
_TRIMMED_S = 0.12
_SIGNS: dict[Boundary, str] = {
    "none": " ",
    "comma": ", ",
    "clause": "; ",
    "sentence": ". ",
    "paragraph": ".\n\n",
}


def made_up(trace: str, count: int, seed: int = 1234) -> Iterator[Utterance]:
    """Utterances of 15 to 50 s from one of `MAKERS`; the same ones every time."""
    chance = random.Random(f"{trace} {seed}")
    for _ in range(count):
        yield _utterance(trace, MAKERS[trace], chance)


def _utterance(trace: str, maker: Maker, chance: random.Random) -> Utterance:
    lengths = list(_lengths(maker, chance))
    texts = [
        _text(length_s, after, chance)
        for (length_s, _), after in zip(
            lengths, [before for _, before in lengths[1:]] + ["sentence"], strict=True
        )
    ]
    ends = list(accumulate(len(text) for text in texts))
    segments: list[Segment] = []
    pieces: list[tuple[float, int]] = []
    now_s = text_s = 0.0
    for (length_s, before), text, end in zip(lengths, texts, ends, strict=True):
        if maker.live:
            text_s += length_s / 3 * chance.uniform(0.7, 1.3)
            text_s += chance.uniform(0.5, 2.5) if chance.random() < 0.06 else 0
        pieces.append((text_s, end))
        start_s = max(now_s, text_s) + maker.overhead_s
        spike = chance.uniform(1.5, 2.5) if chance.random() < maker.spike else 1.0
        works_s = maker.rtf * length_s * math.exp(chance.gauss(0, maker.sigma)) * spike
        samples = round(length_s * SAMPLE_RATE)
        arrivals = tuple(_burst(start_s + works_s, samples, maker, chance))
        # Stalls are the way's and not the engine's, which goes on meanwhile.
        now_s = start_s + works_s
        segments.append(
            Segment(
                char_start=end - len(text),
                char_end=end - len(text) + len(text.rstrip()),
                announced=samples + round(chance.uniform(0, _TRIMMED_S) * SAMPLE_RATE),
                start_s=start_s,
                end_s=arrivals[-1].at_s,
                boundary=before if segments else None,
                arrivals=arrivals,
            )
        )
    return Utterance(
        trace=trace,
        text="".join(texts),
        segments=tuple(segments),
        pieces=tuple(pieces) if maker.live else (),
    )


def _lengths(maker: Maker, chance: random.Random) -> Iterator[tuple[float, Boundary]]:
    """Seconds of each segment, and what is before it."""
    total_s, done_s, left_s, ahead_s = chance.uniform(15, 50), 0.0, 0.0, 0.0
    first = True
    while done_s < total_s:
        new = left_s <= 0
        if new:
            left_s = chance.uniform(1.8, 6.5)
        most_s = chance.uniform(0.9, 1.6) if first else _MOST_S
        if maker.grow and not first:
            most_s = _SHARE * (ahead_s - maker.overhead_s) / maker.rtf
            most_s = max(1.0, min(_MOST_S, most_s))
        length_s = left_s if left_s - most_s < 0.5 else most_s
        left_s -= length_s
        length_s = max(_LEAST_S, round(length_s, 2))
        mark = chance.random()
        if new:
            before: Boundary = "paragraph" if mark > 0.93 else "sentence"
        else:
            before = "none" if mark < 0.2 else "comma"
        yield length_s, before
        spent_s = 0.0 if first else maker.overhead_s + maker.rtf * length_s
        ahead_s = max(0.0, ahead_s - spent_s) + length_s
        done_s += length_s
        first = False


def _text(length_s: float, after: Boundary, chance: random.Random) -> str:
    """Words that take about so long, with the sign for what is behind them."""
    chars = max(3, round(length_s * _CHARS_PER_S * math.exp(chance.gauss(0, _CHARS_SIGMA))))
    words = "kokoro " * (chars // 7 + 1)
    return words[:chars].rstrip() + _SIGNS[after]


def _burst(at_s: float, samples: int, maker: Maker, chance: random.Random) -> Iterator[Arrival]:
    held = 0
    for start in range(0, samples, _FRAME):
        if chance.random() < maker.stall and held:
            yield Arrival(at_s, held)
            held = 0
            at_s += chance.uniform(0.02, 0.25)
        held += min(_FRAME, samples - start)
    yield Arrival(at_s, held)
