"""Text to segments: what the model speaks in one go, with its place in the original text. Core.

Text is cut into sentences; each becomes words with phonemes (`g2p`); a `Segmenter` puts them
together again. The first segment is short, because it decides how soon there is sound, but not so
short that the model speaks it badly. Later ones are whole sentences, several if they are short,
and never of two paragraphs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from itertools import accumulate
from typing import NamedTuple

from sentencex import get_sentence_boundaries

from engine.text.clean import has_letters_or_digits
from engine.text.words import SILENT, Word

#: phonemes of the first segment at most, so that the time to the first sound has a bound
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
#: a longer sentence is cut before G2P, whose time grows with it
SENTENCE_CHARS = 600

#: words that begin a phrase: where nothing better is, the text is cut before one of them
_JOINTS = """
    and or but because if than that which who whom whose when while where after before until
    with without from for into in on at by of through between under over
    y o pero que porque con sin de en para por et ou mais qui avec sans dans pour sur par
    e ma che con senza di da per mas com sem em
"""
_IS_JOINT = frozenset(_JOINTS.split())

_BLANK_LINE = re.compile(r"\n\s*\n|\u2029")

#: where to cut, best first; the sign stays with what is before it
_CUTS = tuple(
    re.compile(pattern)
    for pattern in (r"[.!?…]['\")\]”’]*\s+", r"[;:—–]\s*", r"[,、，]\s+", r"\s+")
)


class Mark(Enum):
    """What is between two segments, and so how long the pause is (`engine.timing`)."""

    START = "start"  # nothing was spoken before
    NONE = "none"  # cut between two words
    COMMA = "comma"
    CLAUSE = "clause"  # ; : — …
    SENTENCE = "sentence"  # . ! ?
    PARAGRAPH = "paragraph"  # a blank line in the text, whatever the mark


class WordSpan(NamedTuple):
    """A word of a segment: characters of the original text, phonemes of the segment.

    The phonemes are those that sound: marks and spaces around the word are outside.
    """

    char_start: int
    char_end: int
    phoneme_start: int
    phoneme_end: int


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, or a piece of one that is too long; never empty, no white space at its ends.

    Attributes:
        text: `original[start:start + len(text)]`.
        lead: the white space before it, `original[start - len(lead):start]`.
    """

    text: str
    start: int
    lead: str


@dataclass(frozen=True, slots=True)
class Segment:
    """What the model speaks in one go: `text == original[start:end]`.

    Attributes:
        phonemes: 1…400; or empty if nothing in the text can be spoken.
        words: in order, not overlapping.
        pause: what is between the segment that was spoken before and this one. It is known only
            when the next sentence has come, so it belongs to the later of the two.
    """

    text: str
    start: int
    end: int
    phonemes: str
    words: tuple[WordSpan, ...]
    pause: Mark


def sentences(text: str, language: str) -> Iterator[Sentence]:
    """Cuts `text` into sentences that leave out nothing but white space.

    Args:
        text: the original text.
        language: code of the sentence splitter (`Language.sentences`).
    """
    told = 0
    for start, end in _sentences(text, language):
        while start < end:
            cut = end
            if end - start > SENTENCE_CHARS:
                cut = start + _cut(text[start : start + SENTENCE_CHARS])
            stop = _trim(text, start, cut)[1]
            yield Sentence(text[start:stop], start, text[told:start])
            told, start = stop, _trim(text, cut, end)[0]


class Segmenter:
    """Takes sentences with their words, gives segments; see the module docstring.

    What it gives for the first sentences does not depend on those that follow.
    """

    def __init__(self) -> None:
        # What is held: text that starts at `_at` of the original, and its words.
        self._at = 0
        self._text = ""
        self._words: list[Word] = []
        self._pause = Mark.START
        self._first = True  # until there is sound for a while

    def push(self, sentence: Sentence, words: Iterable[Word]) -> list[Segment]:
        """Segments that are complete with this sentence.

        Args:
            sentence: the next one.
            words: of `sentence.text`, with offsets into it (`G2P.words`), and only with phonemes
                that the model knows; none if it cannot be spoken.
        """
        own = _own(sentence, words)
        # Marks alone are told with their neighbours; what should have sounded is told apart.
        mute = not own and has_letters_or_digits(sentence.text)
        new_paragraph = bool(_BLANK_LINE.search(sentence.lead))
        ready = self.end() if mute or new_paragraph or not self._takes(own) else []
        if new_paragraph and self._pause is not Mark.START:
            self._pause = Mark.PARAGRAPH
        self._hold(sentence, own)
        if mute:
            ready += self.end()
        while count := self._complete():
            ready.append(self._release(count))
        return ready

    def end(self) -> list[Segment]:
        """What is still held, when no sentence will follow."""
        return [self._release(len(self._words))] if self._text else []

    def _takes(self, words: list[Word]) -> bool:
        """Whether these belong into one segment with what is held."""
        held, more = _phonemes(self._words), _phonemes(words)
        room = SOFT_LIMIT + FLOOR if more < FLOOR else SOFT_LIMIT
        return held < FLOOR or held + more <= room

    def _hold(self, sentence: Sentence, words: list[Word]) -> None:
        if not self._text:
            self._at = sentence.start
            self._text = sentence.text
        else:
            self._text += sentence.lead + sentence.text
        if self._words and words:
            last = self._words[-1]
            self._words[-1] = replace(last, phonemes=last.phonemes + " ")
        self._words += words

    def _complete(self) -> int:
        """How many of the held words are a segment whatever follows; 0 for none."""
        held = _phonemes(self._words)
        if not self._first:
            goal = held / math.ceil(held / HARD_LIMIT) if held else 0
            return self._best(0.6 * goal, goal, 1.4 * goal) if held > HARD_LIMIT else 0
        if held <= FIRST_LIMIT:
            return len(self._words) if held >= FLOOR else 0
        return self._best(FLOOR, FIRST_LIMIT, min(FIRST_LIMIT, held - FLOOR))

    def _best(self, low: float, goal: float, high: float) -> int:
        """How many words to take for `low`…`high` phonemes: to the strongest boundary.

        Of boundaries that are equally strong the one nearest to `goal` phonemes.
        """
        high = min(high, HARD_LIMIT)
        ends = list(accumulate(len(word.phonemes) for word in self._words[:-1]))
        within = [n for n, end in enumerate(ends, 1) if low <= end <= high]
        if not within:  # long words may leave a hole
            return max((n for n, end in enumerate(ends, 1) if end <= high), default=1)
        return max(within, key=lambda n: (self._strength(n), -abs(ends[n - 1] - goal)))

    def _strength(self, count: int) -> int:
        """How good a place it is to cut after so many words."""
        before, after = self._words[count - 1 : count + 1]
        mark = _closing(before.phonemes)
        if mark is Mark.NONE:
            word = self._text[after.start - self._at : after.end - self._at]
            return int(word.lower() in _IS_JOINT)
        return 2 + (Mark.COMMA, Mark.CLAUSE, Mark.SENTENCE).index(mark)

    def _release(self, count: int) -> Segment:
        words, self._words = self._words[:count], self._words[count:]
        cut = len(self._text)
        if self._words:
            cut = self._boundary(words[-1].end - self._at, self._words[0].start - self._at)
        start, end = _trim(self._text, 0, cut)
        phonemes = "".join(word.phonemes for word in words).rstrip()
        segment = Segment(
            text=self._text[start:end],
            start=self._at + start,
            end=self._at + end,
            phonemes=phonemes,
            words=tuple(_spans(words)),
            pause=self._pause,
        )
        self._text = self._text[cut:]
        self._at += cut
        if words:
            self._pause = _closing(phonemes)
            self._first = self._first and len(phonemes) < FLOOR
        return segment

    def _boundary(self, end: int, start: int) -> int:
        """Where to cut between two words: an opening mark goes to the second."""
        spaces = [at for at in range(end, start) if self._text[at].isspace()]
        return spaces[-1] + 1 if spaces else start


def _own(sentence: Sentence, words: Iterable[Word]) -> list[Word]:
    """Words that sound, none of them too long, with offsets into the original."""
    sounding: list[Word] = []
    for word in words:
        if has_letters_or_digits(word.phonemes):
            sounding.append(word)
        elif sounding:
            more = word.phonemes.lstrip()
            sounding[-1] = replace(sounding[-1], phonemes=sounding[-1].phonemes + more)
    shift = sentence.start
    return [
        replace(part, start=part.start + shift, end=part.end + shift)
        for word in sounding
        for part in _divided(word, sentence.text)
    ]


def _divided(word: Word, text: str) -> Iterator[Word]:
    """A word with at most `WORD_LIMIT` sounds, or several that share its characters evenly.

    Such words are numbers with many digits, and sentences that espeak-ng gives in one piece.
    Of a row of marks the first few are kept.
    """
    sounds = word.phonemes.strip(SILENT)
    before, _, after = word.phonemes.partition(sounds)
    after = after[:MARKS_LIMIT].rstrip() + " " * after.endswith(" ")
    phonemes = before[-MARKS_LIMIT:]
    start, told, total = word.start, 0, len(sounds)
    while total - told > WORD_LIMIT:
        stop = sounds.rfind(" ", told, told + WORD_LIMIT) + 1 or told + WORD_LIMIT
        share = word.start + (word.end - word.start) * stop // total
        end = text.rfind(" ", start, share) + 1 or share
        yield Word(start, _trim(text, start, end)[1], phonemes + sounds[told:stop])
        start, told, phonemes = end, stop, ""
    yield Word(start, word.end, phonemes + sounds[told:] + after)


def _spans(words: list[Word]) -> Iterator[WordSpan]:
    position = 0
    for word in words:
        first = position + len(word.phonemes) - len(word.phonemes.lstrip(SILENT))
        yield WordSpan(word.start, word.end, first, position + len(word.phonemes.rstrip(SILENT)))
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


def _sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    # The splitter is native code and takes no lone surrogates; one for one, so offsets hold.
    safe = text.encode("utf-8", "replace").decode()
    for boundary in get_sentence_boundaries(language, safe):
        start, end = _trim(text, boundary["start_index"], boundary["end_index"])
        if start < end:
            yield start, end


def _cut(window: str) -> int:
    """Where to cut a window that is full: after the last good place in its last two thirds."""
    for pattern in _CUTS:
        places = [m.end() for m in pattern.finditer(window) if m.end() >= len(window) // 3]
        if places:
            return places[-1]
    return len(window)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
