"""Words to segments: what the model speaks in one go, with its place in the original text. Core.

The reader cuts the text into passages; the front end makes words with phonemes of each; a
`Segmenter` puts them together again. The first segment is short, because it decides how soon there
is sound, but not so short that the model speaks it badly. Later ones are whole sentences, several
if they are short, and never of two paragraphs. Where there is no time for that, a segment is
`divided` again: only boundaries change, never what is said.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from engine.text.alphabet import SILENT, sounds
from engine.text.passage import Break, Passage, Warn
from engine.text.words import Word

#: phonemes of the first segment at most, so that the time to the first sound has a bound; the
#: setting's default
FIRST_LIMIT = 100
#: a first segment, or what is left after it, has at least so many phonemes if it can be helped
FLOOR = 30
#: sentences are joined up to so many phonemes (about 10 s of speech): memory and the longest turn
#: in the lane, stage one of the whole segment, grow with it
SOFT_LIMIT = 150
#: a longer sentence is cut; the model takes 510, but hurries and fades before
HARD_LIMIT = 260
#: a word with more sounds is cut, and a row of more marks too, so that the limits can be kept
WORD_LIMIT = 60
MARKS_LIMIT = 8
#: a part of a divided segment has at least so many phonemes, about a second
PART_FLOOR = 15

#: words that begin a phrase: where nothing better is, the text is cut before one of them
_JOINTS = """
    and or but because if than that which who whom whose when while where after before until
    with without from for into in on at by of through between under over
    y o pero que porque con sin de en para por et ou mais qui avec sans dans pour sur par
    e ma che con senza di da per mas com sem em
"""
_IS_JOINT = frozenset(_JOINTS.split())
#: how good a comma is as a place to cut; less is between two words
_AT_MARK = 2


class Mark(Enum):
    """What is between two segments, and so how long the pause is (`engine.timing`)."""

    START = "start"  # nothing was spoken before
    NONE = "none"  # cut between two words
    COMMA = "comma"
    CLAUSE = "clause"  # ; : — …
    SENTENCE = "sentence"  # . ! ?
    PARAGRAPH = "paragraph"  # a blank line, a heading, a list item …, whatever the mark


class WordSpan(NamedTuple):
    """A word of a segment: characters of the original text, phonemes of the segment.

    The phonemes are those that sound: marks and spaces around the word are outside.
    """

    char_start: int
    char_end: int
    phoneme_start: int
    phoneme_end: int


@dataclass(frozen=True, slots=True)
class Segment:
    """What the model speaks in one go: `text == original[start:end]`.

    Attributes:
        phonemes: 1…260; none in a segment that only brings silence or warnings.
        words: in order, not overlapping.
        spoken: the words that are said.
        pause: what is between the segment that was spoken before and this one. It is known only
            when the next passage has come, so it belongs to the later of the two.
        silence_ms: the pause that the text itself asks for there; the longer of the two counts.
        warnings: what is not spoken as it was written, up to the end of this segment.
        made_of: its words as they were read.
    """

    text: str
    start: int
    end: int
    phonemes: str
    words: tuple[WordSpan, ...]
    pause: Mark
    spoken: str = ""
    silence_ms: float = 0.0
    warnings: tuple[Warn, ...] = ()
    made_of: tuple[Word, ...] = ()


def divided(segment: Segment, limit: int) -> tuple[Segment, Segment | None]:
    """The first part of a segment, of at most `limit` phonemes, and the rest; None if it is whole.

    It is cut at the strongest boundary in the second half of what is allowed, or before it if there
    is no mark. No part has less than `PART_FLOOR` phonemes, so the limit may not be kept if it is
    near to that, or if a word is long.
    """
    words = list(segment.made_of)
    ends = list(accumulate(len(word.phonemes) for word in words))
    places = [
        n for n, end in enumerate(ends, 1) if end >= PART_FLOOR and ends[-1] - end >= PART_FLOOR
    ]
    if len(segment.phonemes) <= limit or not places:
        return segment, None
    strength = _strengths(words, segment.text, segment.start)
    allowed = [n for n in places if ends[n - 1] <= limit] or places[:1]
    halfway = ends[allowed[-1] - 1] / 2
    count = max((n for n in allowed if ends[n - 1] >= halfway), key=lambda n: (strength(n), n))
    if strength(count) < _AT_MARK:
        count = max(allowed, key=lambda n: (strength(n), n))
    start = segment.start
    cut = start + _boundary(segment.text, words[count - 1].end - start, words[count].start - start)
    first = replace(
        _part(segment, words[:count], start, cut),
        pause=segment.pause,
        silence_ms=segment.silence_ms,
        warnings=segment.warnings,
    )
    rest = _part(segment, words[count:], cut, segment.end)
    return first, replace(rest, pause=_closing(first.phonemes))


def _part(segment: Segment, words: list[Word], start: int, end: int) -> Segment:
    offset = segment.start
    start, end = _trim(segment.text, start - offset, end - offset)
    return _made(words, segment.text[start:end], offset + start)


class Segmenter:
    """Takes passages with their words, gives segments; see the module docstring.

    What it gives for the first passages does not depend on those that follow.

    Args:
        first_limit: phonemes of the first segment at most; twice `FLOOR` at least.
    """

    def __init__(self, first_limit: int = FIRST_LIMIT) -> None:
        self._first_limit = first_limit
        self._original = ""
        # What is held: characters `_start`…`_end` of the original, the words and warnings in it.
        self._start = self._end = 0
        self._words: list[Word] = []
        self._warnings: list[Warn] = []
        self._silence_ms = 0.0  # before what is held
        self._pause = Mark.START
        self._first = True  # until there is sound for a while

    def push(
        self, passage: Passage, words: Iterable[Word], warnings: Iterable[Warn], original: str
    ) -> list[Segment]:
        """Segments that are complete with this passage.

        Args:
            passage: the next one.
            words: of it, with offsets into the original, and only with phonemes that the model
                knows; none if it cannot be spoken.
            warnings: what is not spoken of it, in order.
            original: the text up to the passage's end, or more of it.
        """
        self._original = original
        own = _own(words, original)
        new_paragraph = passage.before is Break.PARAGRAPH
        ready = self._flush() if new_paragraph or not self._takes(own) else []
        if new_paragraph and self._pause is not Mark.START:
            self._pause = Mark.PARAGRAPH
        self._warnings += warnings
        for silence in passage.silences:
            before = [word for word in own if word.start < silence.at]
            own = own[len(before) :]
            self._hold(passage.start, max([silence.at, *(w.end for w in before[-1:])]), before)
            ready += self._flush()
            self._silence_ms += silence.ms
            self._start = self._end = max(self._end, silence.at)
        self._hold(passage.start, passage.end, own)
        while count := self._complete():
            ready.append(self._release(count))
        return ready

    def flush(self) -> list[Segment]:
        """What is held, as segments now; passages may follow."""
        ready = self._flush()
        if self._warnings or self._silence_ms:
            ready.append(self._segment([], self._end, self._end))
        return ready

    def end(self) -> list[Segment]:
        """What is still held, when no passage will follow."""
        return self.flush()

    @property
    def holds(self) -> bool:
        """Whether there are words that wait for more."""
        return bool(self._words)

    def _flush(self) -> list[Segment]:
        return [self._release(len(self._words))] if self._words else []

    def _takes(self, words: list[Word]) -> bool:
        """Whether these belong into one segment with what is held."""
        held, more = _phonemes(self._words), _phonemes(words)
        room = SOFT_LIMIT + FLOOR if more < FLOOR else SOFT_LIMIT
        return held < FLOOR or held + more <= room

    def _hold(self, start: int, end: int, words: list[Word]) -> None:
        if not self._words:
            self._start = max(start, self._end)
        elif words:
            last = self._words[-1]
            self._words[-1] = replace(last, phonemes=last.phonemes.rstrip() + " ")
        self._end = max(end, self._end)
        self._words += words

    def _complete(self) -> int:
        """How many of the held words are a segment whatever follows; 0 for none."""
        held = _phonemes(self._words)
        if not self._first:
            goal = held / math.ceil(held / HARD_LIMIT) if held else 0
            return self._best(0.6 * goal, goal, 1.4 * goal) if held > HARD_LIMIT else 0
        if held <= self._first_limit:
            return len(self._words) if held >= FLOOR else 0
        return self._best(FLOOR, self._first_limit, min(self._first_limit, held - FLOOR))

    def _best(self, low: float, goal: float, high: float) -> int:
        """How many words to take for `low`…`high` phonemes: to the strongest boundary.

        Of boundaries that are equally strong the one nearest to `goal` phonemes.
        """
        high = min(high, HARD_LIMIT)
        ends = list(accumulate(len(word.phonemes) for word in self._words[:-1]))
        within = [n for n, end in enumerate(ends, 1) if low <= end <= high]
        if not within:  # long words may leave a hole
            return max((n for n, end in enumerate(ends, 1) if end <= high), default=1)
        strength = _strengths(self._words, self._original, 0)
        return max(within, key=lambda n: (strength(n), -abs(ends[n - 1] - goal)))

    def _release(self, count: int) -> Segment:
        words, self._words = self._words[:count], self._words[count:]
        cut = self._end
        if self._words:
            cut = _boundary(self._original, words[-1].end, self._words[0].start)
        segment = self._segment(words, *_trim(self._original, self._start, cut))
        self._start = cut
        self._pause = _closing(segment.phonemes)
        self._first = self._first and len(segment.phonemes) < FLOOR
        return segment

    def _segment(self, words: list[Word], start: int, end: int) -> Segment:
        """These words, and all that is to be told before or with them."""
        segment = replace(
            _made(words, self._original[start:end], start),
            pause=self._pause,
            silence_ms=self._silence_ms,
            warnings=tuple(self._warnings),
        )
        self._silence_ms, self._warnings = 0.0, []
        return segment


def _made(words: list[Word], text: str, start: int) -> Segment:
    """A segment of these words, whose text begins at `start`; the rest of it is as by default."""
    end = start + len(text)
    return Segment(
        text=text,
        start=start,
        end=end,
        phonemes="".join(word.phonemes for word in words).rstrip(),
        words=tuple(_spans(words, start, end)),
        spoken=" ".join(word.spoken for word in words if word.spoken),
        pause=Mark.START,
        made_of=tuple(words),
    )


def _strengths(words: list[Word], text: str, start: int) -> Callable[[int], int]:
    """Gives how good a place it is to cut after so many of the words; `text` begins at `start`."""

    def strength(count: int) -> int:
        before, after = words[count - 1 : count + 1]
        mark = _closing(before.phonemes)
        if mark is Mark.NONE:
            return int(text[after.start - start : after.end - start].lower() in _IS_JOINT)
        return _AT_MARK + (Mark.COMMA, Mark.CLAUSE, Mark.SENTENCE).index(mark)

    return strength


def _boundary(text: str, end: int, start: int) -> int:
    """Where to cut between two words: an opening mark goes to the second."""
    spaces = [at for at in range(end, start) if text[at].isspace()]
    return spaces[-1] + 1 if spaces else start


def _own(words: Iterable[Word], original: str) -> list[Word]:
    """Words that sound, none of them too long."""
    sounding: list[Word] = []
    for word in words:
        if sounds(word.phonemes):
            # A full stop that the reader supplied has the place of the line's end.
            start, end = _trim(original, word.start, word.end)
            sounding.append(replace(word, start=start, end=end))
        elif sounding:
            more = word.phonemes.lstrip()
            sounding[-1] = replace(sounding[-1], phonemes=sounding[-1].phonemes + more)
    return [part for word in sounding for part in _divided(word, original)]


def _divided(word: Word, original: str) -> Iterator[Word]:
    """A word with at most `WORD_LIMIT` sounds, or several that share its characters evenly.

    Such words are numbers with many digits, and sentences that espeak-ng gives in one piece.
    Of a row of marks the first few are kept.
    """
    heard = word.phonemes.strip(SILENT)
    before, _, after = word.phonemes.partition(heard)
    after = after[:MARKS_LIMIT].rstrip() + " " * after.endswith(" ")
    phonemes = before[-MARKS_LIMIT:]
    start, told, total, spoken = word.start, 0, len(heard), word.spoken
    while total - told > WORD_LIMIT:
        stop = heard.rfind(" ", told + 1, told + WORD_LIMIT) + 1 or told + WORD_LIMIT
        share = word.start + (word.end - word.start) * stop // total
        end = original.rfind(" ", start, share) + 1 or share
        yield Word(start, _trim(original, start, end)[1], phonemes + heard[told:stop], spoken)
        start, told, phonemes, spoken = end, stop, "", ""
    yield Word(start, word.end, phonemes + heard[told:] + after, spoken)


def _spans(words: list[Word], start: int, end: int) -> Iterator[WordSpan]:
    """The words of a segment with these characters; one that was divided may have none left."""
    position = 0
    for word in words:
        chars = (max(start, min(word.start, end)), max(start, min(word.end, end)))
        first = position + len(word.phonemes) - len(word.phonemes.lstrip(SILENT))
        yield WordSpan(*chars, first, position + len(word.phonemes.rstrip(SILENT)))
        position += len(word.phonemes)


def _closing(phonemes: str) -> Mark:
    """The strongest mark after the last sound."""
    marks = phonemes[len(phonemes.rstrip(SILENT)) :]
    for mark, signs in ((Mark.SENTENCE, ".!?"), (Mark.CLAUSE, ";:—…"), (Mark.COMMA, ",")):
        if any(sign in marks for sign in signs):
            return mark
    return Mark.NONE


def _phonemes(words: list[Word]) -> int:
    return sum(len(word.phonemes) for word in words)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
