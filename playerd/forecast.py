"""When the rest of a stream will come. Core.

An engine makes one segment after the other. How long it takes for one is learned from those before
(`Pace`); how long the segments are it says when it begins one, and further ones are guessed from
the text (`outline`). Some engines send a segment as a whole when it is made, some while they make
it: this is learned too (`Pace.spread`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from engine.audio import SAMPLE_RATE
from engine.request import Boundary, Frame, SegmentDone, SegmentStart

from . import outline
from .jitter import LEAST_MS, Jitter

#: the pace before anything is known: seconds for a segment, and for a second of it
_OVERHEAD_S, _RTF = 0.03, 0.5
#: and the sag of an engine that decodes in windows; with 0.12 players that know nothing begin 0.05 s
#: sooner, and with one thread have more holes
_SAG = 0.15
#: how many of its standard deviations to add
_SAG_SURE = 0.5
#: what a device takes before it makes a sound
_GULP_S = LEAST_MS / 1000
#: what a new segment counts, once there were some; the first ones count more
_GAIN = 0.1
_DOUBT, _LEAST_DOUBT = 0.25, 0.05
#: whatever was learned, what is not here takes this part of its time at least
_LEAST_REST = 0.1
#: With so much in hand nothing depends on the pace, and the engine may have been held up by us.
_CAREFREE_S = 8.0
_CHARS_PER_S = 15.0
#: with less in hand an engine makes the next audio in a hurry
_NOTHING_S = 0.5
#: of text that was begun, so that one sees what is before what follows
_KEPT_CHARS = 16
#: between two segments of which nobody said what is there
_UNKNOWN: Boundary = "comma"


@dataclass(frozen=True, slots=True)
class Expected:
    """A part of the stream that is still to come.

    Attributes:
        boundary: what is before it; None if it goes on with what is here.
        length_s: of its audio.
        first_s: how long until the first of it comes.
        last_s: how long until all of it is here.
        doubt_s: standard deviation of both.
        sag_s: how much must be in hand now, to come over the worst place inside it; None if there
            is none that is known.
    """

    boundary: Boundary | None
    length_s: float
    first_s: float
    last_s: float
    doubt_s: float
    sag_s: float | None = None


class Pace:
    """How long an engine takes for its segments.

    Attributes:
        doubt: standard deviation of the logarithm of (actual / expected).
        spread: part of a segment's time during which it comes: 0 if all at its end, 1 if evenly.
    """

    def __init__(self) -> None:
        self.doubt = _DOUBT
        self.spread = 1.0
        self._sags = 0
        self._sag = 0.0
        self._sag_doubt = 0.0
        self._factor = 0.0  # logarithm
        self._count = 0

    def made_s(self, length_s: float) -> float:
        """Seconds that it takes to make so many seconds of audio."""
        return math.exp(self._factor) * (_OVERHEAD_S + _RTF * length_s)

    def learn(self, length_s: float, took_s: float, streamed_s: float) -> None:
        """A segment was made.

        Args:
            length_s: its audio.
            took_s: from the end of the one before it, or the request, to its own end.
            streamed_s: from its first frame to its end.
        """
        if length_s <= 0:
            return
        self._count += 1
        gain = max(_GAIN, 1 / self._count)
        error = math.log(max(took_s, 1e-3) / self.made_s(length_s))
        if self._count > 1:
            error = min(max(error, -1.0), 1.0)
            self.doubt += _GAIN * (1.25 * abs(error) - self.doubt)
            self.doubt = max(self.doubt, _LEAST_DOUBT)
        self._factor += gain * error
        share = min(streamed_s / took_s, 1.0) if took_s > 0 else 0.0
        self.spread += gain * (share - self.spread)

    def sagged(self, length_s: float, late_s: float) -> None:
        """A segment that began with nothing in hand was late inside by so much at most."""
        self._sags += 1
        gain = max(_GAIN, 1 / self._sags)
        error = late_s / self.made_s(length_s) - self._sag
        if self._sags > 1:
            self._sag_doubt += gain * (1.25 * abs(error) - self._sag_doubt)
        self._sag += gain * error

    @property
    def sag(self) -> float:
        """By how much of a segment's time the latest of its audio comes later than a device takes it.

        That is one that begins with the segment's first frame, with nothing in hand; to be rather
        on the safe side. 0 where all comes at once.
        """
        return self._sag + _SAG_SURE * self._sag_doubt if self._sags else _SAG

    @property
    def rtf(self) -> float | None:
        """Seconds for a second of audio in a long segment; None before anything was learned."""
        return math.exp(self._factor) * _RTF if self._count else None


@dataclass(frozen=True, slots=True)
class Supply:
    """What is known of where speech comes from; the items that come from there share it."""

    pace: Pace = field(default_factory=Pace)
    jitter: Jitter = field(default_factory=Jitter)


@dataclass(slots=True)
class _Segment:
    """One that was begun.

    Attributes:
        start: its first sample.
        length: samples it will have about; it may be more.
        cached: it was made before it was asked for, so its coming tells nothing of the engine.
        arrived: samples that came.
        first_s: when the first came.
        last_s: when the last came.
        lead_s: what there was to play before that.
        late_s: by how much it was late inside at most.
    """

    start: int
    length: int
    cached: bool
    arrived: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    lead_s: float = 0.0
    late_s: float = 0.0


class Course:
    """One stream as it comes.

    Args:
        supply: where from; is taught.
        text: what is spoken, as far as it is known.
        complete: whether that is all of it.
        now_s: when it was asked for.
    """

    def __init__(self, supply: Supply, text: str, *, complete: bool, now_s: float) -> None:
        self._supply = supply
        self._text = text  # from character `_base` on
        self._base = 0
        self._complete = complete
        self._since_s = now_s  # when the engine began with what it makes now
        self._at = 0  # character behind what was begun
        self._chars = 0
        self._char_s = 0.0
        self._boundaries: dict[int, Boundary | None] = {}  # by first sample
        self._segment: _Segment | None = None
        self._parts = outline.parts(text, 0, complete=complete)

    def more(self, text: str, *, complete: bool, now_s: float) -> None:
        """The text goes on, or it is all."""
        idle = self._segment is None and not self._parts
        self._text += text
        self._complete = complete
        self._look()
        if idle and self._parts:
            self._since_s = now_s

    def _look(self) -> None:
        # What was begun is not looked at again; of live text there may be very much.
        drop = max(self._at - self._base - _KEPT_CHARS, 0)
        self._text = self._text[drop:]
        self._base += drop
        at = self._at - self._base
        self._parts = outline.parts(self._text, at, complete=self._complete)

    def _before(self, char: int) -> Boundary:
        if not self._text:
            return _UNKNOWN
        return outline.boundary(self._text, max(char - self._base, 0))

    def begin(self, start: SegmentStart) -> None:
        """A segment begins."""
        before = start.pause
        if before is None and self._boundaries:
            before = self._before(start.char_start)
        self._boundaries[start.sample] = before
        self._at = start.char_end
        chars = max(start.char_end - start.char_start, 1)
        length = start.predicted_samples
        if length is None:
            length = round(self._length_s(chars) * SAMPLE_RATE)
        else:
            self._chars += chars
            self._char_s += length / SAMPLE_RATE
        self._segment = _Segment(start.sample, max(length, 1), start.cached)
        self._look()

    def arrived(self, frame: Frame, now_s: float, lead_s: float) -> None:
        """A frame came.

        Args:
            frame: of the segment that was begun last.
            now_s: when.
            lead_s: what there was to play before it came; only asked for while `fresh`.
        """
        if frame.segment_first:
            self._boundaries.setdefault(frame.sample, _UNKNOWN if frame.sample else None)
        segment = self._segment
        if segment is None or not frame.samples:
            return
        if not segment.arrived:
            segment.first_s, segment.lead_s = now_s, lead_s
        segment.arrived += frame.samples
        segment.last_s = now_s
        played_s = (frame.sample - segment.start) / SAMPLE_RATE
        # An engine that knows that there is enough in hand does not hurry: that is no lateness.
        late_s = now_s - segment.first_s - played_s - segment.lead_s
        if played_s >= _GULP_S:
            segment.late_s = max(segment.late_s, late_s + _GULP_S)
        self._supply.jitter.arrived(now_s, late_s)

    @property
    def fresh(self) -> bool:
        """Whether the next frame is the first of its segment."""
        return self._segment is not None and not self._segment.arrived

    def done(self, done: SegmentDone, now_s: float, lead_s: float) -> None:
        """The segment that was begun last is complete."""
        segment, self._segment = self._segment, None
        told = segment is not None and segment.arrived and not segment.cached
        if segment is not None and told and lead_s < _CAREFREE_S:
            self._supply.pace.learn(
                done.samples / SAMPLE_RATE,
                now_s - self._since_s,
                segment.last_s - segment.first_s,
            )
            if segment.lead_s < _NOTHING_S:
                self._supply.pace.sagged(done.samples / SAMPLE_RATE, segment.late_s)
        self._since_s = now_s

    def broke(self, now_s: float) -> None:
        """The segment that was begun last will not be completed."""
        self._segment = None
        self._since_s = now_s

    def starts(self, sample: int) -> bool:
        """Whether a segment begins there."""
        return sample in self._boundaries

    def next_start(self, sample: int) -> int | None:
        """Where the first segment behind this sample begins, as far as it is known."""
        return min((start for start in self._boundaries if start > sample), default=None)

    def boundary(self, sample: int) -> Boundary | None:
        """What is before the segment that begins there; None before the first."""
        return self._boundaries.get(sample, _UNKNOWN if sample else None)

    def passed(self, sample: int) -> None:
        """What begins before this sample need not be remembered."""
        for start in [start for start in self._boundaries if start < sample]:
            del self._boundaries[start]

    def _length_s(self, chars: int) -> float:
        """Audio of so many characters, by those so far."""
        return chars * (self._char_s + 2.0) / (self._chars + 2.0 * _CHARS_PER_S)

    def coming(self, now_s: float) -> tuple[Expected, ...]:
        """What is still to come, as far as that can be known, in order."""
        return tuple(self._coming(now_s))

    def _coming(self, now_s: float) -> Iterator[Expected]:
        pace = self._supply.pace
        end_s = variance = 0.0
        elapsed_s = now_s - self._since_s
        if (segment := self._segment) is not None:
            length_s = segment.length / SAMPLE_RATE
            whole_s = 0.0 if segment.cached else pace.made_s(length_s)
            before_s, during_s = whole_s * (1 - pace.spread), whole_s * pace.spread
            if segment.arrived:
                rest = max(segment.length - segment.arrived, 0) / segment.length
                length_s, during_s = length_s * rest, during_s * rest
                doubt_s = during_s * pace.doubt
                end_s = _rest_s(during_s, now_s - segment.last_s)
                sag_s = None
                if segment.lead_s < _NOTHING_S and length_s and not segment.cached:
                    sag_s = whole_s * pace.sag - _GULP_S - (now_s - segment.first_s)
                    sag_s += segment.arrived / SAMPLE_RATE
                yield Expected(None, length_s, 0.0, end_s, doubt_s, sag_s)
            else:
                doubt_s = whole_s * pace.doubt
                first_s = _rest_s(before_s, elapsed_s)
                end_s = first_s + during_s
                yield Expected(
                    self._boundaries.get(segment.start), length_s, first_s, end_s, doubt_s
                )
            variance = doubt_s**2
            elapsed_s = 0.0
        for part in self._parts:
            length_s = self._length_s(part.chars)
            whole_s = pace.made_s(length_s)
            variance += (whole_s * pace.doubt) ** 2
            first_s = end_s + _rest_s(whole_s * (1 - pace.spread), elapsed_s)
            end_s = first_s + whole_s * pace.spread
            elapsed_s = 0.0
            yield Expected(part.before, length_s, first_s, end_s, math.sqrt(variance))


def _rest_s(expected_s: float, elapsed_s: float) -> float:
    return max(expected_s - elapsed_s, _LEAST_REST * expected_s)
