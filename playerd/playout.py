"""The jitter buffer of one item: frames in as they come, samples out in order. Core.

Frames are put in by the sample they start at, so nothing shifts whatever happens to them on the
way: what comes twice or too late is dropped and counted; a hole becomes silence of exactly its
length, once it is plain that nothing will fill it. When sound starts and goes on, and where a pause
is made, is the policy's matter (`delay`), which looks at what is to come (`forecast`).

    phase      meaning                                          left when
    PREFILL    nothing was given out yet                        the policy says it is enough
    PLAYING    `pull` gives what there is                       `ran_dry`
    STARVED    the listener heard all there was, and waits      the policy says it is enough
    DRAINING   the stream ended; what is left is given out      all is given out
    DONE       nothing left, nothing to come                    -

From PREFILL, PLAYING and STARVED `end` leads to DRAINING. `seek` and `skip` lead elsewhere in the
stream, from DRAINING and DONE too, and to PREFILL if there is not enough. An empty `pull` in PLAYING is not yet a
gap for the listener: the device has a little in hand. Only when that is used up, the owner calls
`ran_dry`, and silence is the sink's to make; so a late frame costs no more silence than it must.

All times are seconds on one clock. Nothing happens by itself when time passes: while `waits`, the
owner has to `pull` again every now and then, though nothing came.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from engine.audio import PCM_DTYPE, SAMPLE_RATE, ms_to_samples, pcm_samples, silence
from engine.request import Boundary, Frame, Marks, SegmentDone, SegmentStart

from .delay import ALLOWED_S, DelayPolicy, FixedDelay, Outlook, slack_s
from .forecast import Course, Supply
from .jitter import LEAST_MS
from .pieces import Piece, Pieces
from .script import Script

#: This much audio behind a hole shows that what is missing is lost and not merely late.
HOLE_PATIENCE_SAMPLES = ms_to_samples(500)
#: where silence meets speech inside a segment; its ends were faded by who made it
FADE_SAMPLES = ms_to_samples(5)
#: so much of what was given out can be given out again: 2.9 MB
KEPT_SAMPLES = ms_to_samples(60_000)


class Phase(enum.Enum):
    """How far an item is; see the table above."""

    PREFILL = enum.auto()
    PLAYING = enum.auto()
    STARVED = enum.auto()
    DRAINING = enum.auto()
    DONE = enum.auto()


@dataclass(slots=True)
class Gaps:
    """Silence that nobody wrote into the text, by how it sounds.

    Attributes:
        soft: between segments, and not longer than natural there.
        hard: between segments, and longer.
        mid: inside a phrase.
        soft_s: seconds of silence in them; of `hard` too what would have been natural.
        hard_s: seconds beyond that.
        mid_s: seconds of silence.
    """

    soft: int = 0
    hard: int = 0
    mid: int = 0
    soft_s: float = 0.0
    hard_s: float = 0.0
    mid_s: float = 0.0

    @property
    def silent_s(self) -> float:
        """All of it."""
        return self.soft_s + self.hard_s + self.mid_s

    def count(self, boundary: Boundary | None, silent_s: float) -> None:
        """There was one; `boundary` None or none is inside a phrase."""
        if boundary is None or boundary == "none":
            self.mid += 1
            self.mid_s += silent_s
            return
        natural_s = min(silent_s, ALLOWED_S[boundary])
        self.soft_s += natural_s
        self.hard_s += silent_s - natural_s
        # A block of the device more or less is no other kind.
        if silent_s - natural_s > 0.001:
            self.hard += 1
        else:
            self.soft += 1


class Playout:
    """Put frames in, pull samples out.

    Args:
        policy: how much to hold back, and where to pause.
        supply: where it comes from, which is learned about; None: nothing is known of that.
        text: what is spoken, as far as it is known.
        complete: whether that is all of it.
        now_s: when it was asked for.
        fade_samples: length of the fades.

    Attributes:
        gulp_samples: what the device takes at once when sound begins.
        position: the sample of the stream that is given out next.
        script: the segments and words of the stream.
        inserted_samples: silence given out that is not in the stream: pauses.
        underruns: how often the listener had to wait.
        gaps: what he heard of that, and of pauses, once it was over.
        missing_samples: samples given out as silence because they never came.
        late_samples: samples that came when their place was already given out.
    """

    def __init__(
        self,
        policy: DelayPolicy | None = None,
        supply: Supply | None = None,
        text: str = "",
        *,
        complete: bool = True,
        now_s: float = 0.0,
        fade_samples: int = FADE_SAMPLES,
    ) -> None:
        self.gulp_samples = ms_to_samples(LEAST_MS)
        self.position = 0
        self.script = Script()
        self.inserted_samples = 0
        self.underruns = 0
        self.gaps = Gaps()
        self.missing_samples = 0
        self.late_samples = 0
        self._policy = policy or FixedDelay()
        self._supply = supply or Supply()
        self._course = Course(self._supply, text, complete=complete, now_s=now_s)
        self._pieces = Pieces(KEPT_SAMPLES)
        self._end = 0  # sample after the last one known of
        self._predicted: int | None = None  # samples of the whole
        self._segment_end = 0  # all segments up to here are complete
        self._begun = False
        self._ended = False
        self._skipping = 0  # beginnings of sentences, behind all that has come
        self._from = 0  # where `seek` led last
        self._waits_since_s = math.inf  # with something to play
        self._dry_since_s: float | None = None
        self._pause_left = 0
        self._paused_at = 0  # this segment's pause was decided
        self._pauses: list[tuple[int, int]] = []  # (stream's sample, silence before it)
        self._fade = fade_samples
        self._fade_in_at = -fade_samples  # sound that did not begin softly begins here
        self._fade_out: tuple[int, int] | None = None  # … and ends here

    @property
    def phase(self) -> Phase:
        """Where this item stands."""
        if self._ended:
            return Phase.DONE if self.position >= self._end else Phase.DRAINING
        if self._dry_since_s is not None:
            return Phase.STARVED
        return Phase.PLAYING if self._begun else Phase.PREFILL

    @property
    def length(self) -> int | None:
        """Samples of the whole, as far as that is known; it may change until the stream ends."""
        return self._end if self._ended else self._predicted

    @property
    def here(self) -> int:
        """The sample behind the last one that came."""
        return self._end

    def slack_s(self, now_s: float) -> float | None:
        """How much later all that is expected may come without a gap; None: nothing is expected."""
        slack = math.inf if self._ended else slack_s(self._outlook(now_s))
        return slack if slack < math.inf else None

    @property
    def waits(self) -> bool:
        """Whether time alone may end that nothing is given out."""
        return self._waits_since_s < math.inf and not self._going

    @property
    def _going(self) -> bool:
        return self._begun and self._dry_since_s is None

    @property
    def held_samples(self) -> int:
        """Samples in memory, those behind a hole among them."""
        return self._pieces.held_samples

    @property
    def duplicate_samples(self) -> int:
        """Samples that were already here when they came."""
        return self._pieces.duplicate_samples

    @property
    def buffered_samples(self) -> int:
        """What can be given out without waiting for more to come."""
        if self._ended:
            return self._end - self.position
        reach = self.position
        for piece in self._pieces.by_start:
            if piece.start > reach and not self._lost(piece):
                break
            reach = piece.end
        return reach - self.position

    def heard(self, given_samples: int) -> int:
        """Position in the stream when so many samples that were given out have been played.

        Args:
            given_samples: counted from the last `seek` on.
        """
        at = self._from + given_samples
        for start, pause in self._pauses:
            if at <= start:
                break
            at = max(start, at - pause)
        return min(at, self.position)

    # --- what comes -----------------------------------------------------------------------------

    def more_text(self, text: str, now_s: float, *, complete: bool) -> None:
        """The text goes on, or it is all."""
        self._course.more(text, complete=complete, now_s=now_s)

    def begin(self, start: SegmentStart) -> None:
        """A segment begins; to be told, because frames do not say what is before them."""
        self._course.begin(start)
        self.script.begin(start)
        if self._skipping and start.sample in self.script.ahead(start.sample - 1):
            self._skipping -= 1
            self._go_to(start.sample, math.inf)

    def marks(self, marks: Marks) -> None:
        """Where the words of the segment are that began last."""
        self.script.marks(marks)

    def put(self, frame: Frame, now_s: float) -> None:
        """Takes a frame, whichever one it is."""
        self._course.arrived(frame, now_s, self._in_hand_s if self._course.fresh else 0.0)
        piece = Piece(frame.sample, frame.pcm, frame.discontinuity)
        self._end = max(self._end, piece.end)
        if self._skipping:
            self._pieces.put(piece)  # somebody may want to go back
            self._pieces.skip(self._end)
            self.position = self._end
            return
        late = min(max(self.position - piece.start, 0), frame.samples)
        self.late_samples += late
        if late < frame.samples:
            self._pieces.put(piece.part(piece.start + late, piece.end))
            if not self._going and self._waits_since_s == math.inf and self.buffered_samples:
                self._waits_since_s = now_s

    @property
    def _in_hand_s(self) -> float:
        return self.buffered_samples / SAMPLE_RATE

    def segment_done(self, done: SegmentDone, now_s: float) -> None:
        """All frames of the segment that began last were put in."""
        self._segment_end = self._end
        if done.predicted_ms_left is not None:
            self._predicted = self._end + ms_to_samples(done.predicted_ms_left)
        self._course.done(done, now_s, self._in_hand_s)

    def broke(self, now_s: float) -> int:
        """The stream broke off, and another will go on behind what has come.

        Returns:
            Where its first sample will be.
        """
        self._segment_end = self._end
        self._course.broke(now_s)
        self.script.broke(self._end)
        return self._end

    def end(self, samples: int | None = None) -> None:
        """Nothing more will come.

        Args:
            samples: length of the stream; None if it is not known, as after a failure.
        """
        self._ended = True
        self._end = max(self._end, samples or 0)
        if self._skipping:
            self._skipping = 0
            self.position = self._end

    # --- where to ---------------------------------------------------------------------------------

    def seek(self, sample: int, now_s: float) -> None:
        """Gives out this sample next, or the nearest that is here or was kept."""
        self._skipping = 0
        self._go_to(sample, now_s)

    def skip(self, sentences: int, now_s: float) -> None:
        """Gives out the beginning of another sentence next.

        Args:
            sentences: how many forward, or back if negative. Those that have not come are waited
                for; behind the last one the stream is over.
            now_s: the time.
        """
        ahead = self.script.ahead(self.position)
        if sentences < 0:
            self.seek(self.script.back(self.position, -sentences), now_s)
        elif 0 < sentences <= len(ahead):
            self.seek(ahead[sentences - 1], now_s)
        elif sentences:
            self._go_to(self._end, now_s)
            more = self._skipping + sentences - len(ahead)
            self._skipping = 0 if self._ended else more
            self._pieces.skip(self._end)
            self.position = self._end

    def _go_to(self, sample: int, now_s: float) -> None:
        if sample < self.position:
            self.position = min(self.position, max(self._pieces.put_back(sample), sample))
        else:
            self.position += min(sample - self.position, self.buffered_samples)
            self._pieces.skip(self.position)
        self._from = self._paused_at = self.position
        self._pauses.clear()
        self._pause_left = 0
        self._fade_out = None
        self._fade_in_at = self.position if self._inside else -self._fade
        self._dry_since_s = None
        hold = self._supply.jitter.hold_samples
        if self.buffered_samples < hold and self._segment_end <= self.position:
            self._begun = False
            self._waits_since_s = now_s if self.buffered_samples else math.inf

    # --- what goes out --------------------------------------------------------------------------

    def ran_dry(self, now_s: float) -> None:
        """The device has played all it was given, and this item should have given more."""
        if self.phase is Phase.PLAYING:
            self._dry_since_s = now_s
            self._waits_since_s = now_s if self.buffered_samples else math.inf
            self.underruns += 1
            if self._inside:
                self._supply.jitter.underrun()

    @property
    def _inside(self) -> bool:
        return self.position != self._segment_end and not self._course.starts(self.position)

    def pull(self, samples: int, now_s: float) -> bytes:
        """The next PCM, at most `samples` samples; empty if it should wait or is over."""
        if self._skipping or not self._may_go(now_s):
            return b""
        taken: list[bytes] = []
        wanted = samples
        while wanted and (pcm := self._next(wanted, now_s)):
            taken.append(pcm)
            wanted -= pcm_samples(pcm)
        return b"".join(taken)

    def _may_go(self, now_s: float) -> bool:
        if not self._going and self._policy.enough(self._outlook(now_s)):
            if self._dry_since_s is not None:
                # A device that rests has played its gulp since it ran dry; else that is to be heard.
                played = self.gulp_samples if self._rests(now_s) else 0
                self._resume(now_s - self._dry_since_s - played / SAMPLE_RATE)
            self._begun = True
            self._dry_since_s = None
            self._waits_since_s = math.inf
        return self._going

    def _rests(self, now_s: float) -> bool:
        """Whether the device plays nothing, not even silence, so that it begins with a gulp."""
        if self._dry_since_s is None:
            return not self._begun
        return now_s - self._dry_since_s > self.gulp_samples / SAMPLE_RATE

    def _resume(self, silent_s: float) -> None:
        if not self.buffered_samples:
            return  # the stream broke off: nobody waits for anything
        if self._inside:
            self.gaps.count(None, silent_s)
            self._fade_in_at = self.position
        else:
            self.gaps.count(self._course.boundary(self.position), silent_s)
            self._paused_at = self.position  # and no pause behind that

    def _outlook(self, now_s: float) -> Outlook:
        return Outlook(
            buffered_samples=self.buffered_samples,
            segment_complete=self._segment_end > self.position,
            ended=self._ended,
            starved=self._dry_since_s is not None,
            inside=self._inside,
            waited_s=max(now_s - self._waits_since_s, 0.0),
            hold_samples=self._supply.jitter.hold_samples,
            gulp_samples=self.gulp_samples if self._rests(now_s) else 0,
            coming=self._course.coming(now_s),
        )

    def _next(self, most: int, now_s: float) -> bytes:
        """PCM up to the next segment, or of a pause or a hole; empty if there is none."""
        if self.position > self._paused_at and not self._inside and self._pieces.by_start:
            self._decide_pause(now_s)
        if self._pause_left:
            pause = min(most, self._pause_left)
            self._pause_left -= pause
            self.inserted_samples += pause
            return silence(pause)
        return self._take(most)

    def _decide_pause(self, now_s: float) -> None:
        if self._pieces.by_start[0].start != self.position:
            return  # a hole
        self._paused_at = self.position
        boundary = self._course.boundary(self.position)
        pause_s = self._policy.pause_s(self._outlook(now_s), boundary)
        self._pause_left = ms_to_samples(pause_s * 1000)
        if self._pause_left:
            self._pauses.append((self.position, self._pause_left))
            self.gaps.count(boundary, pause_s)
        self._course.passed(self.position - KEPT_SAMPLES)
        self.script.forget(self.position - KEPT_SAMPLES)

    def _take(self, most: int) -> bytes:
        """PCM from one piece and segment, or silence from one hole; empty if there is neither."""
        if not self._pieces.by_start:
            return self._silence(min(most, self._end - self.position)) if self._ended else b""
        piece = self._pieces.by_start[0]
        if piece.start > self.position:
            hole = piece.start - self.position
            return self._silence(min(most, hole)) if self._lost(piece) else b""
        start, upto = self.position, min(piece.end, self.position + most)
        following = self._course.next_start(start)
        if following is not None:
            upto = min(upto, following)
        self._look_for_hole(piece)
        pcm = self._pieces.take(upto)
        self.position = upto
        return self._faded(pcm, start)

    def _look_for_hole(self, piece: Piece) -> None:
        """Whether what is behind the piece is lost, inside a segment."""
        after = self._pieces.by_start[1:2]
        if not after or after[0].start == piece.end or self._fade_out is not None:
            return
        if self._lost(after[0]) and not self._course.starts(piece.end):
            self._fade_out = (max(self.position, piece.end - self._fade), piece.end)

    def _faded(self, pcm: bytes, start: int) -> bytes:
        """The PCM with what lies in it of the two fades."""
        stop = start + pcm_samples(pcm)
        into = start < self._fade_in_at + self._fade
        out = self._fade_out is not None and stop > self._fade_out[0]
        if not into and not out:
            return pcm
        at = np.arange(start, stop)
        gain = np.ones(len(at))
        if into:
            gain *= _rise((at - self._fade_in_at + 1) / (self._fade + 1))
        if self._fade_out is not None and out:
            first, end = self._fade_out
            gain *= _rise((end - at) / (end - first + 1))
        samples = np.frombuffer(pcm, dtype=PCM_DTYPE)
        return np.rint(samples * gain).astype(PCM_DTYPE).tobytes()

    def _silence(self, samples: int) -> bytes:
        self.position += samples
        self.missing_samples += samples
        self._fade_out = None
        # If speech goes on at a segment's start, that is soft already.
        self._fade_in_at = -self._fade if not self._inside else self.position
        return silence(samples)

    def _lost(self, piece: Piece) -> bool:
        """Whether the hole before `piece` will not be filled any more."""
        behind = self._pieces.by_start[-1].end - piece.start
        return self._ended or piece.skipped or behind >= HOLE_PATIENCE_SAMPLES


def _rise(part: np.typing.NDArray[np.float64]) -> np.typing.NDArray[np.float64]:
    """A raised cosine from 0 to 1, and 1 behind that."""
    return 0.5 - 0.5 * np.cos(np.pi * np.clip(part, 0.0, 1.0))
