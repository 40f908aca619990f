"""Cuts what is seen of a text into sentences, as soon as they are sure. Core.

sentencex decides where a sentence ends; it is asked about one place at a time, with a bounded part
of the text before it and after it, so that the answer does not depend on how much more is there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from itertools import groupby

from sentencex import get_sentence_boundaries

from engine.text.clean import has_letters_or_digits
from engine.text.passage import Break, Passage, Say, Silence, Tongue, Warn
from engine.text.spanned import Span, Spanned

#: characters after the end of a sentence that must be there before it is one: the next word's first
#: or a mark or two before it
LOOKAHEAD = 4
#: characters before it that are looked at
LOOKBEHIND = 200
#: a longer sentence is cut before G2P, whose time grows with it
SENTENCE_CHARS = 600

_CLOSING = "'\")]”’»›」』）】"
_OPENING = "(\"“‘'«"
_CLOSERS = rf"[{re.escape(_CLOSING)}]"
_NO_QUOTES = str.maketrans(dict.fromkeys('"“”„«»‹›'))
#: where a sentence may end; writings without spaces have marks of their own, and there it does
_CANDIDATE = re.compile(
    rf"[.!?…।॥؟۔‽]{_CLOSERS}{{0,8}} |[。！？｡．]{{1,8}}{_CLOSERS}{{0,8}}"
    r"|(?<![!?])[!?]{1,8}(?=[“‘「『（]?[\u3040-\u9fff])"
)
#: where to cut a long one, best first; the sign stays with what is before it
_CUTS = tuple(
    re.compile(pattern)
    for pattern in (r"[.!?…]['\")\]”’]*\s", r"[;:]\s|[—–；]\s?", r",\s|[、，]\s?", r"\s")
)
#: places from the end on where a waiting text may be cut: a row of numbers or of initials is not
_SETTLED_BACK = 8
_SETTLED = re.compile(r"(?<=\s)|(?<=[、，；。！？])")
#: marks at the end of a text that stand alone
_MARKS = re.compile(r"(?:\s[!?…:;»—–]{1,8})+\s*\Z")
#: a word and its marks at the end of a text: no number, no address, no row of initials
_LETTERS = r"[^\W\d_\u0900-\u097f]|[\u0900-\u0963\u0300-\u036f]"
_LAST_WORD = re.compile(
    rf"(?:^|[\s\[¿¡{_OPENING}-])(?P<word>(?:{_LETTERS})+(?:['’-](?:{_LETTERS})+)*)"
    rf"(?P<mark>[.!?…।॥؟۔‽]{{1,8}}| [!?]{{1,8}}){_CLOSERS}{{0,8}}\Z"
)
_WORD = re.compile(r"(\w+)\.\s*\Z")
#: after one of these no full stop is needed
CLOSED = frozenset(".,;:!?…—–-。！？，、；：।")

#: words before a full stop that sentencex takes for the end, by language: titles, and those that a
#: number follows (found with a list of the common ones of each language)
_TITLES = {"fr": "M Mme Mmes Mlle Mlles Dr Me Mgr St Ste"}
_COUNTED = {
    "en": "approx ca ch eq ext incl max min op sec tel vol vs",
    "pt": "art núm pág tel",
}
#: words that sentencex takes for abbreviations, and that end a sentence more often
_PLAIN = {"en": "art may me no ok", "es": "bien mar no", "it": "me no te"}


class Stop(Enum):
    """What ends a sentence whatever its marks."""

    LINE = "line"  # as if there were a full stop
    PARAGRAPH = "paragraph"


class Sentences:
    """Takes what is seen, piece by piece, and gives passages.

    Attributes:
        tongue: the language of what is added, if it is marked.

    Args:
        language: the code of the sentence splitter (`Language.sentences`).
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._titles = _TITLES.get(language, "").split()
        self._counted = _COUNTED.get(language, "").split()
        self._plain = _PLAIN.get(language, "").split()
        self.tongue: str | None = None
        self._before = Break.NONE
        self._ready: list[Passage] = []
        # what is held, with single spaces, none at the beginning
        self._text = ""
        self._spans: list[Span] = []
        self._tongues: list[str | None] = []
        self._says: list[tuple[int, int, Say]] = []  # by place in the text
        self._notes: list[tuple[int, Span, Silence | Warn]] = []  # before which character
        self._seen = 0  # no sentence ends before it

    def taken(self) -> list[Passage]:
        """What is ready; it is given once."""
        ready, self._ready = self._ready, []
        return ready

    def add(self, text: str, spans: list[Span], say: Say | None = None) -> None:
        """Appends text.

        Args:
            text: without line ends.
            spans: of each character, in the original.
            say: how it is pronounced; it is never cut. Without phonemes it is as it reads.
        """
        start = len(self._text)
        before = (self._text[-1:] or " ") + text
        kept = [at for at, c in enumerate(text) if c != " " or before[at] != " "]
        self._text += "".join(text[at] for at in kept)
        self._spans += [spans[at] for at in kept]
        self._tongues += [self.tongue] * len(kept)
        if say and kept:
            self._says.append((start, len(self._text), say))
        self._cut(complete=False)

    def border(self, span: Span) -> None:
        """A comma for what parts two cells, if there is no mark before it."""
        self._trim()
        self._append(", " if self._text and self._text[-1] not in CLOSED else " ", span)

    def note(self, note: Silence | Warn, span: Span) -> None:
        """Something that belongs before what will be added next, and the characters that it is."""
        self._notes.append((len(self._text), span, note))

    def stop(self, stop: Stop, span: Span | None = None) -> None:
        """Ends the sentence.

        Args:
            stop: what is between it and the next.
            span: of what ends it, if that is to sound like a full stop.
        """
        if stop is Stop.LINE and span and self._is_open():
            self._trim()
            self._append(".", span)
        self._cut(complete=True)
        if stop is Stop.PARAGRAPH:
            self._before = Break.PARAGRAPH

    @property
    def holds(self) -> bool:
        """Whether there are letters or digits that wait for more."""
        return has_letters_or_digits(self._text)

    def flush(self) -> None:
        """Ends the sentence here; what is added next goes on behind it."""
        self._cut(complete=True)

    def settle(self, known: str, *, spaced: bool) -> None:
        """Ends what is held at the last place where nothing that may follow changes its words.

        Args:
            known: the first character that follows, if it is there.
            spaced: whether white space follows.
        """
        if self._is_closed(known, spaced=spaced):
            self._release_to(len(self._text))
            return
        text = self._text + " " * spaced
        places = [m.end() for m in _SETTLED.finditer(text)][-_SETTLED_BACK:]
        for at in reversed(places):
            end = min(at, len(self._text))
            divides = end < len(self._text) and self._divides(end)
            if not divides and self._is_whole(text[:at], text[at:] or known):
                self._release_to(end)
                return

    def _release_to(self, end: int) -> None:
        """Releases so many characters, sentence by sentence."""
        while (first := self._end(complete=True)) is not None and first < end:
            self._release(first)
            end -= first
        self._release(end)

    def _is_closed(self, known: str, *, spaced: bool) -> bool:
        """Whether what is held ends with a mark that ends it, whatever follows."""
        spaced = spaced or self._text.endswith(" ")
        found = _LAST_WORD.search(self._text[-LOOKBEHIND:].rstrip())
        if not found or (known.isalnum() and not spaced):
            return False
        return found["mark"] != "." or self._is_last(found["word"], self._text, known)

    def _is_whole(self, text: str, after: str) -> bool:
        """Whether the last word of the text, with a space or a mark behind it, stands for itself.

        A number does not (it may have more digits or a unit), nor does a title or an opening mark.
        """
        word = _MARKS.sub("", text).rstrip().rpartition(" ")[2].rstrip(_CLOSING)
        if not has_letters_or_digits(word) or not any(c.isalpha() for c in text):
            return False
        if not text[-1].isspace() and word[-2:-1].isdigit():
            return False
        if word[-1] == ".":
            return self._is_last(word[:-1], text, after)
        return word[-1] in CLOSED or unicodedata.category(word[-1])[0] in "LM"

    def _is_last(self, word: str, text: str, after: str) -> bool:
        """Whether the full stop behind the word ends a sentence before words and numbers."""
        bare = word.lstrip(_OPENING).lower()
        if bare in self._plain:
            return not after[:1].isdigit()
        if len(bare.rpartition(".")[2]) < len("Mr"):  # an initial
            return False
        # quotation marks have a say in where sentencex ends a sentence, but not in this
        ended = text.translate(_NO_QUOTES).rstrip(_CLOSING + ". ") + ". "
        return all(self._ends(ended, probe) for probe in ("Then", "1234"))

    def _trim(self) -> None:
        self._text = self._text.rstrip()
        del self._spans[len(self._text) :], self._tongues[len(self._text) :]

    def _append(self, text: str, span: Span) -> None:
        self._text += text
        self._spans += [span] * len(text)
        self._tongues += [self.tongue] * len(text)

    def _is_open(self) -> bool:
        heard = self._text.rstrip(" '\")]”’»")
        return bool(heard) and heard[-1] not in CLOSED

    def _cut(self, *, complete: bool) -> None:
        """Releases what is sure.

        Args:
            complete: whether what is held ends here in any case.
        """
        while (end := self._end(complete=complete)) is not None:
            self._release(end)
        if complete and (self._text or self._notes):
            self._release(len(self._text), rest=True)

    def _end(self, *, complete: bool) -> int | None:
        """Where the first sentence ends, if that is known and something follows."""
        text = self._text
        for found in _CANDIDATE.finditer(text, self._seen, SENTENCE_CHARS):
            end = found.end()
            if end >= len(text) or (not complete and end + LOOKAHEAD > len(text)):
                return None
            self._seen = end
            sure = found[0][-1] != " "
            if self._divides(end):
                continue
            if sure or self._ends(text[:end], text[end : end + LOOKAHEAD]):
                return end
        return self._best_cut() if len(text) > SENTENCE_CHARS else None

    def _ends(self, before: str, after: str) -> bool:
        if found := _WORD.search(before, max(0, len(before) - LOOKBEHIND)):
            word = found[1]
            counted = word.lower() in self._counted and after[0].isdigit()
            if counted or word in self._titles:
                return False
        near = before[-LOOKBEHIND:]
        # it may count opening quotes to the sentence before them
        opening = len(after) - len(after.lstrip("\"“'‘«„(¿¡ "))
        return any(
            len(near.rstrip()) <= boundary["end_index"] <= len(near) + opening
            for boundary in get_sentence_boundaries(self._language, near + after)
            if boundary["end_index"] < len(near + after)
        )

    def _best_cut(self) -> int:
        """After the last good place in the last two thirds of what may be in one sentence."""
        window = self._text[:SENTENCE_CHARS]
        for pattern in _CUTS:
            places = [m.end() for m in pattern.finditer(window) if m.end() >= len(window) // 3]
            places = [at for at in places if not self._divides(at)]
            if places:
                return places[-1]
        cut = len(window)
        while cut > 1 and self._divides(cut):  # none of these has so many characters
            cut -= 1
        return cut + (self._text[cut] == " ")  # what is held never begins with a space

    def _divides(self, at: int) -> bool:
        """Whether a cut would be in a pronounced word, a letter, or what stands for one thing."""
        return (
            self._spans[at - 1][1] > self._spans[at][0]
            or unicodedata.category(self._text[at])[0] == "M"
            or any(start < at < stop for start, stop, _ in self._says)
        )

    def _release(self, end: int, *, rest: bool = False) -> None:
        """The first `end` characters are a passage, with the notes in it (`rest`: all)."""
        says = [say for start, _, say in self._says if start < end]
        notes = [(span, note) for at, span, note in self._notes if at < end or rest]
        text = Spanned(self._text[:end], tuple(self._spans[:end])).strip()
        places = [*text.spans[:1], *text.spans[-1:], *(span for span, _ in notes)]
        places += [(say.start, say.end) for say in says]
        if places:
            self._ready.append(
                Passage(
                    start=min(start for start, _ in places),
                    end=max(stop for _, stop in places),
                    text=text,
                    before=self._before,
                    says=tuple(say for say in says if say.phonemes),
                    tongues=_tongues(zip(self._tongues, text.spans, strict=False)),
                    silences=tuple(n for _, n in notes if isinstance(n, Silence)),
                    warnings=tuple(n for _, n in notes if isinstance(n, Warn)),
                )
            )
            self._before = Break.NONE
        self._forget(end, len(notes), len(says))

    def _forget(self, end: int, notes: int, says: int) -> None:
        self._text = self._text[end:]
        del self._spans[:end], self._tongues[:end], self._notes[:notes], self._says[:says]
        self._notes = [(at - end, span, note) for at, span, note in self._notes]
        self._says = [(start - end, stop - end, say) for start, stop, say in self._says]
        self._seen = 0


def _tongues(tagged: Iterable[tuple[str | None, Span]]) -> tuple[Tongue, ...]:
    found = []
    for tag, group in groupby(tagged, key=lambda pair: pair[0]):
        spans = [span for _, span in group]
        if tag:
            found.append(Tongue(spans[0][0], spans[-1][1], tag))
    return tuple(found)
