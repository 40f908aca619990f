"""Segments of PCM to numbered frames. Core.

A frame never holds samples of two segments: a listener can cut at a segment, and the end of a
sentence is not held back until the next one is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from engine.audio import PcmCutter, pcm_samples
from engine.request import Frame


class Framer:
    """Numbers the frames of one stream; call `push` and `end_segment` for each segment, then `last`.

    Args:
        frame_samples: samples in a full frame.
    """

    def __init__(self, frame_samples: int) -> None:
        self.sample = 0  # where the next frame begins
        self._seq = 0
        self._cutter = PcmCutter(frame_samples)
        self._segment_first = True

    def push(self, pcm: bytes) -> Iterator[Frame]:
        """Full frames, as far as the segment's PCM goes."""
        for piece in self._cutter.push(pcm):
            yield self._frame(piece)

    def end_segment(self) -> Iterator[Frame]:
        """The segment's short last frame, if there is a rest; the next push begins another."""
        rest = self._cutter.rest()
        if rest:
            yield self._frame(rest)
        self._segment_first = True

    def last(self) -> Frame:
        """The empty frame that ends the stream."""
        return Frame(seq=self._seq, sample=self.sample, pcm=b"", first=self._seq == 0, last=True)

    def _frame(self, pcm: bytes) -> Frame:
        frame = Frame(
            seq=self._seq,
            sample=self.sample,
            pcm=pcm,
            first=self._seq == 0,
            segment_first=self._segment_first,
        )
        self._seq += 1
        self.sample += pcm_samples(pcm)
        self._segment_first = False
        return frame
