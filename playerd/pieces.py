"""PCM by the sample it starts at: what came, in order, without what came twice. Core."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from engine.audio import cut, pcm_samples


@dataclass(frozen=True, slots=True)
class Piece:
    """PCM of samples `start`…`end`; `skipped`: the sender says that what is before was skipped."""

    start: int
    pcm: bytes
    skipped: bool

    @property
    def end(self) -> int:
        """One past the last sample."""
        return self.start + pcm_samples(self.pcm)

    def part(self, start: int, end: int) -> Piece:
        """The samples from `start` to `end`, which must lie in this piece."""
        pcm = cut(self.pcm, start - self.start, end - self.start)
        return Piece(start, pcm, self.skipped and start == self.start)


class Pieces:
    """Holds pieces that never overlap, and the last of what was taken out.

    Args:
        keep_samples: how much of that.

    Attributes:
        by_start: all of them, in order.
        held_samples: how much that is.
        duplicate_samples: samples that were already here when they came.
    """

    def __init__(self, keep_samples: int = 0) -> None:
        self.by_start: list[Piece] = []
        self.held_samples = 0
        self.duplicate_samples = 0
        self._keep_samples = keep_samples
        self._taken: deque[Piece] = deque()
        self._taken_samples = 0

    def put(self, new: Piece) -> None:
        """Adds the samples of `new` that are not here yet."""
        pieces = self.by_start
        at = bisect_right(pieces, new.start, key=lambda piece: piece.start)
        if at and pieces[at - 1].end > new.start:
            at -= 1
        start = new.start
        fresh: list[Piece] = []
        upto = at
        while upto < len(pieces) and pieces[upto].start < new.end:
            old = pieces[upto]
            if start < old.start:
                fresh.append(new.part(start, old.start))
            fresh.append(old)
            self.duplicate_samples += min(old.end, new.end) - max(old.start, new.start)
            self.held_samples -= old.end - old.start
            start = old.end
            upto += 1
        if start < new.end:
            fresh.append(new.part(start, new.end))
        pieces[at:upto] = fresh
        self.held_samples += sum(piece.end - piece.start for piece in fresh)

    def take(self, end: int) -> bytes:
        """Takes the first piece out, up to sample `end`, which must lie in it or end it."""
        piece = self.by_start[0]
        if end == piece.end:
            del self.by_start[0]
        else:
            self.by_start[0] = piece.part(end, piece.end)
            piece = piece.part(piece.start, end)
        length = piece.end - piece.start
        self.held_samples -= length
        self._taken.append(piece)
        self._taken_samples += length
        while self._taken and self._taken_samples - _length(self._taken[0]) >= self._keep_samples:
            self._taken_samples -= _length(self._taken.popleft())
        return piece.pcm

    def skip(self, sample: int) -> None:
        """Takes out what is before this sample."""
        while self.by_start and self.by_start[0].start < sample:
            self.take(min(self.by_start[0].end, sample))

    def put_back(self, sample: int) -> int:
        """Takes back what was taken out from this sample on, as far as it was kept.

        Returns:
            Where it begins: `sample` or later. If nothing of it was kept, where what is held begins.
        """
        while self._taken and self._taken[-1].end > sample:
            piece = self._taken.pop()
            self._taken_samples -= _length(piece)
            if piece.start < sample:
                before = piece.part(piece.start, sample)
                self._taken.append(before)
                self._taken_samples += _length(before)
                piece = piece.part(sample, piece.end)
            self.by_start.insert(0, piece)
            self.held_samples += _length(piece)
        return self.by_start[0].start if self.by_start else sample


def _length(piece: Piece) -> int:
    return piece.end - piece.start
