"""Which words are spoken where in the stream of an item. Core.

Remembers what the engine tells of segments for as long as their samples may be heard once more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from engine.audio import ms_to_samples
from engine.request import Marks, SegmentStart, WordMark

#: a sentence of which less was heard than this has hardly begun: a step back leads before it
BEGUN_SAMPLES = ms_to_samples(1_500)


@dataclass(frozen=True, slots=True)
class Line:
    """A segment.

    Attributes:
        index: of all segments of the stream.
        sample: it begins with.
        char_start: first character of the original text.
        char_end: one past the last.
        begins: whether a sentence begins with it.
    """

    index: int
    sample: int
    char_start: int
    char_end: int
    begins: bool


class Script:
    """The segments and words of one stream, in order."""

    def __init__(self) -> None:
        self._lines: deque[Line] = deque()
        self._words: deque[WordMark] = deque()

    def begin(self, start: SegmentStart) -> None:
        """A segment begins."""
        # Of what is not told, it is likely: engines speak sentence by sentence.
        begins = not self._lines or start.pause in (None, "sentence", "paragraph")
        self._lines.append(
            Line(start.index, start.sample, start.char_start, start.char_end, begins)
        )

    def marks(self, marks: Marks) -> None:
        """Where the words of the newest segment are."""
        self._words.extend(marks.words)

    def broke(self, sample: int) -> None:
        """What should have come from this sample on will not come."""
        while self._lines and self._lines[-1].sample >= sample:
            self._lines.pop()
        while self._words and self._words[-1].sample >= sample:
            self._words.pop()

    def forget(self, sample: int) -> None:
        """What was heard before this sample will not be asked for again."""
        while len(self._lines) > 1 and self._lines[1].sample <= sample:
            self._lines.popleft()
        while self._words and self._words[0].sample < sample:
            self._words.popleft()

    def line(self, sample: int) -> Line | None:
        """The segment that is heard at this sample."""
        at = bisect_right(self._lines, sample, key=lambda line: line.sample)
        return self._lines[at - 1] if at else None

    def words(self, start: int, stop: int) -> list[WordMark]:
        """The words that begin from one sample to before another."""
        return [word for word in self._words if start <= word.sample < stop]

    def next_word(self, sample: int) -> WordMark | None:
        """The first word that begins there or later."""
        return next((word for word in self._words if word.sample >= sample), None)

    def ahead(self, sample: int) -> list[int]:
        """Where the sentences behind this sample begin, as far as they have come."""
        return [line.sample for line in self._lines if line.begins and line.sample > sample]

    def back(self, sample: int, steps: int) -> int:
        """Where one gets by so many steps back: beginnings of sentences, 0 at most."""
        begun = [line.sample for line in self._lines if line.begins and line.sample <= sample]
        if len(begun) > 1 and sample - begun[-1] < BEGUN_SAMPLES:
            begun.pop()
        if steps > len(begun):
            return 0
        return begun[-steps]
