"""PCM by the sample it starts at: what came, in order, without what came twice. Core."""

from __future__ import annotations

from bisect import bisect_right
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
    """Holds pieces that never overlap.

    Attributes:
        by_start: all of them, in order.
        held_samples: how much that is.
        duplicate_samples: samples that were already here when they came.
    """

    def __init__(self) -> None:
        self.by_start: list[Piece] = []
        self.held_samples = 0
        self.duplicate_samples = 0

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
        self.held_samples -= end - piece.start
        if end == piece.end:
            del self.by_start[0]
            return piece.pcm
        self.by_start[0] = piece.part(end, piece.end)
        return piece.part(piece.start, end).pcm
