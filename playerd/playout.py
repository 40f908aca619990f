"""The jitter buffer of one item: frames in as they come, samples out in order. Core.

Frames are put in by the sample they start at, so nothing shifts whatever happens to them on the
way: what comes twice or too late is dropped and counted; a hole becomes silence of exactly its
length, once it is plain that nothing will fill it.

    phase      meaning                                          left when
    PREFILL    nothing was given out yet                        the policy says it is enough
    PLAYING    `pull` gives what there is                       `ran_dry`
    STARVED    the listener heard all there was, and waits      the policy says it is enough
    DRAINING   the stream ended; what is left is given out      all is given out
    DONE       nothing left, nothing to come                    -

From PREFILL, PLAYING and STARVED `end` leads to DRAINING. An empty `pull` in PLAYING is not yet a
gap for the listener: the device has a little in hand. Only when that is used up, the owner calls
`ran_dry`, and silence is the sink's to make; so a late frame costs no more silence than it must.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from dataclasses import dataclass

from engine.audio import cut, ms_to_samples, pcm_samples, silence
from engine.request import Frame

from .delay import DelayPolicy, FixedDelay, Outlook

#: This much audio behind a hole shows that what is missing is lost and not merely late.
HOLE_PATIENCE_SAMPLES = ms_to_samples(500)


class Phase(enum.Enum):
    """How far an item is; see the table above."""

    PREFILL = enum.auto()
    PLAYING = enum.auto()
    STARVED = enum.auto()
    DRAINING = enum.auto()
    DONE = enum.auto()


@dataclass(frozen=True, slots=True)
class _Piece:
    """PCM of samples `start`…`end`; `skipped`: the sender says that what is before was skipped."""

    start: int
    pcm: bytes
    skipped: bool

    @property
    def end(self) -> int:
        return self.start + pcm_samples(self.pcm)

    def part(self, start: int, end: int) -> _Piece:
        """The samples from `start` to `end`, which must lie in this piece."""
        pcm = cut(self.pcm, start - self.start, end - self.start)
        return _Piece(start, pcm, self.skipped and start == self.start)


class Playout:
    """Put frames in, pull samples out.

    Args:
        policy: how much to hold back.

    Attributes:
        position: samples given out, silence for missing ones among them.
        held_samples: samples in memory, those behind a hole among them.
        underruns: how often the listener had to wait.
        missing_samples: samples given out as silence because they never came.
        late_samples: samples that came when their place was already given out.
        duplicate_samples: samples that were already here.
    """

    def __init__(self, policy: DelayPolicy | None = None) -> None:
        self.position = 0
        self.held_samples = 0
        self.underruns = 0
        self.missing_samples = 0
        self.late_samples = 0
        self.duplicate_samples = 0
        self._policy = policy or FixedDelay()
        self._pieces: list[_Piece] = []  # by start; they never overlap
        self._end = 0  # sample after the last one known of
        self._segment_end = 0  # all segments up to here are complete
        self._begun = False
        self._starved = False
        self._ended = False

    @property
    def phase(self) -> Phase:
        """Where this item stands."""
        if self._ended:
            return Phase.DONE if self.position >= self._end else Phase.DRAINING
        if self._starved:
            return Phase.STARVED
        return Phase.PLAYING if self._begun else Phase.PREFILL

    @property
    def buffered_samples(self) -> int:
        """What can be given out without waiting for more to come."""
        reach = self.position
        for piece in self._pieces:
            if piece.start > reach and not self._lost(piece):
                break
            reach = piece.end
        return (self._end if self._ended else reach) - self.position

    def put(self, frame: Frame) -> None:
        """Takes a frame, whichever one it is."""
        piece = _Piece(frame.sample, frame.pcm, frame.discontinuity)
        self._end = max(self._end, piece.end)
        late = min(max(self.position - piece.start, 0), frame.samples)
        self.late_samples += late
        if late < frame.samples:
            self._insert(piece.part(piece.start + late, piece.end))

    def _insert(self, new: _Piece) -> None:
        """Adds the samples of `new` that are not here yet."""
        at = bisect_right(self._pieces, new.start, key=lambda piece: piece.start)
        if at and self._pieces[at - 1].end > new.start:
            at -= 1
        start = new.start
        fresh: list[_Piece] = []
        upto = at
        while upto < len(self._pieces) and self._pieces[upto].start < new.end:
            old = self._pieces[upto]
            if start < old.start:
                fresh.append(new.part(start, old.start))
            fresh.append(old)
            self.duplicate_samples += min(old.end, new.end) - max(old.start, new.start)
            self.held_samples -= old.end - old.start
            start = old.end
            upto += 1
        if start < new.end:
            fresh.append(new.part(start, new.end))
        self._pieces[at:upto] = fresh
        self.held_samples += sum(piece.end - piece.start for piece in fresh)

    def segment_done(self) -> None:
        """All frames of the segment that the newest frame belongs to were put in."""
        self._segment_end = self._end

    def end(self, samples: int | None = None) -> None:
        """Nothing more will come.

        Args:
            samples: length of the stream; None if it is not known, as after a failure.
        """
        self._ended = True
        self._end = max(self._end, samples or 0)

    def ran_dry(self) -> None:
        """The device has played all it was given, and this item should have given more."""
        if self.phase is Phase.PLAYING:
            self._starved = True
            self.underruns += 1

    def pull(self, samples: int) -> bytes:
        """The next PCM, at most `samples` samples; empty if it should wait or is over."""
        if not self._may_go():
            return b""
        taken: list[bytes] = []
        wanted = samples
        while wanted and (pcm := self._take(wanted)):
            taken.append(pcm)
            wanted -= pcm_samples(pcm)
        return b"".join(taken)

    def _may_go(self) -> bool:
        if self._begun and not self._starved:
            return True
        outlook = Outlook(
            buffered_samples=self.buffered_samples,
            segment_complete=self._segment_end > self.position,
            ended=self._ended,
            starved=self._starved,
        )
        if self._policy.enough(outlook):
            self._begun = True
            self._starved = False
        return self._begun and not self._starved

    def _take(self, most: int) -> bytes:
        """PCM from one piece, or silence from one hole; empty if there is neither."""
        if not self._pieces:
            return self._silence(min(most, self._end - self.position)) if self._ended else b""
        piece = self._pieces[0]
        if piece.start > self.position:
            hole = piece.start - self.position
            return self._silence(min(most, hole)) if self._lost(piece) else b""
        upto = min(piece.end, self.position + most)
        pcm = piece.part(self.position, upto).pcm
        self.held_samples -= upto - self.position
        self.position = upto
        if upto == piece.end:
            del self._pieces[0]
        else:
            self._pieces[0] = piece.part(upto, piece.end)
        return pcm

    def _silence(self, samples: int) -> bytes:
        self.position += samples
        self.missing_samples += samples
        return silence(samples)

    def _lost(self, piece: _Piece) -> bool:
        """Whether the hole before `piece` will not be filled any more."""
        behind = self._pieces[-1].end - piece.start
        return self._ended or piece.skipped or behind >= HOLE_PATIENCE_SAMPLES
