"""How far a listener is in the text of a stream. Core."""

from __future__ import annotations

from array import array
from bisect import bisect_right

from engine.request import Event, Marks, SegmentDone, SegmentStart


class Spoken:
    """Up to which character the text was heard, by samples.

    It keeps 16 bytes a word: an hour of speech has about ten thousand.
    """

    def __init__(self) -> None:
        # Behind so many samples, so many characters were heard; both never go down.
        self._samples = array("q", [0])
        self._chars = array("q", [0])
        self._segment: SegmentStart | None = None

    def note(self, event: Event) -> None:
        """The stream's next event."""
        match event:
            case SegmentStart():
                self._segment = event
            case Marks(words=words):
                for word in words:
                    self._heard(word.sample + word.samples, word.char_end)
            case SegmentDone(samples=samples) if self._segment is not None:
                self._heard(self._segment.sample + samples, self._segment.char_end)
            case _:
                pass

    def _heard(self, samples: int, chars: int) -> None:
        self._samples.append(max(samples, self._samples[-1]))
        self._chars.append(max(chars, self._chars[-1]))

    def chars(self, played_samples: int) -> int:
        """Characters up to the last word that was heard to its end.

        Args:
            played_samples: how much of the stream was heard; more than there is counts as all.
        """
        return self._chars[bisect_right(self._samples, played_samples) - 1]
