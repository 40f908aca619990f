"""A passage to words with phonemes: languages, lexicon, normaliser and G2P in a row.

Blocking, and for one thread at a time, as `g2p` is; all the rest of it is core.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

import structlog
from cachetools import LRUCache

from engine import metrics
from engine.errors import blame
from engine.report import CacheSize
from engine.request import TextOptions
from engine.text import normalise, numbers
from engine.text.alphabet import SILENT, sounds
from engine.text.clean import has_letters_or_digits
from engine.text.divide import divided
from engine.text.eastern import MARKS
from engine.text.g2p import G2P
from engine.text.languages import Frontend, Language
from engine.text.lexicon import Lexicon
from engine.text.normalise import normalised, unread
from engine.text.passage import Passage, Reading, Say, Warn
from engine.text.reader import Reader
from engine.text.runs import runs
from engine.text.segment import Segment, Segmenter
from engine.text.spanned import Span, Spanned
from engine.text.words import Piece, Word, extend, words_of

log = structlog.get_logger("text")

#: words whose phonemes are remembered, in whole sentences: about 20 MB
REMEMBERED = 65_536

#: what stands for a pronounced word if the word itself is none that a tagger could make sense of
_STAND_IN = "thing"
_PLAIN = re.compile(r"[^\W\d_]+([ '-][^\W\d_]+)*")


class TextFrontend:
    """Reads passages.

    Args:
        g2p: loaded.
        remembered: sentences of so many words are kept with their phonemes; 0 keeps none.
    """

    def __init__(self, g2p: G2P, *, remembered: int = REMEMBERED) -> None:
        self._g2p = g2p
        self._pieces: LRUCache[tuple[str, str], list[Piece]] = LRUCache(remembered, getsizeof=_size)

    def read(
        self, passage: Passage, language: Language, options: TextOptions, lexicon: Lexicon
    ) -> Reading:
        """The passage's words.

        Args:
            passage: as the reader gave it.
            language: of the request; parts in another script or tag have their own.
            options: of the request.
            lexicon: the user's pronunciations.
        """
        words: list[Word] = []
        warnings = list(passage.warnings)
        text = _divided_at(passage.text, [silence.at for silence in passage.silences])
        for part, reads, says in _parts(text, language, passage, lexicon):
            found: list[Word] = []
            if reads is not None:
                if _is_eastern(language) and not _is_eastern(reads):
                    part = Spanned(part.text.translate(MARKS), part.spans)
                found, more = self._words(part, reads, says, options)
                warnings += more
            elif has_letters_or_digits(part.text):
                warnings.append(_unspoken(*part.origin(0, len(part))))
            if words and not found:  # its marks are still heard
                found, words = [_marked(words[-1], part.text)], words[:-1]
            elif words:
                words[-1] = _marked(words[-1], " ")
            extend(words, found)
        return Reading(words, sorted(warnings, key=lambda warning: warning.start))

    def segments(
        self, text: str, language: Language, options: TextOptions, lexicon: Lexicon
    ) -> list[Segment]:
        """All of a text at once, for whoever does not stream."""
        reader, segmenter = Reader(language.sentences, options), Segmenter()
        made: list[Segment] = []
        for passage in (*reader.push(text), *reader.end()):
            words, warnings = self.read(passage, language, options, lexicon)
            made += segmenter.push(passage, words, warnings, text)
        return made + segmenter.end()

    def forget(self) -> None:
        """Empties the memory of sentences."""
        self._pieces.clear()

    @property
    def caches(self) -> tuple[CacheSize, ...]:
        """Of everything that reads. From any thread."""
        used, bound = self._pieces.currsize, self._pieces.maxsize
        own = CacheSize("phonemes", int(used), int(bound), "words")
        return (own, numbers.cached(), normalise.cached(), *self._g2p.caches)

    def _words(
        self,
        text: Spanned,
        language: Language,
        says: Sequence[Say],
        options: TextOptions,
    ) -> tuple[list[Word], list[Warn]]:
        text, visible = _stood_in(text, says)
        warnings: list[Warn] = []
        if options.normalize:
            try:
                warnings = [_unspoken(*span) for span in unread(text, language.tag)]
                text = normalised(text, language.tag, urls=options.urls)
            except Exception as error:  # whatever a rule stumbles over, the text is spoken
                log.warning("text is not normalised", chars=len(text), error=blame(error))
                metrics.G2P_FALLS.labels("normaliser").inc()
        text = _apart(text, says)
        text = text.strip() if _is_eastern(language) else divided(text)
        if not has_letters_or_digits(text.text):
            return [], warnings
        pieces = self._spoken(text.text, language) or [Piece(text.text, "", "")]
        pieces = _pronounced(pieces, text.spans, says, visible)
        return words_of(pieces, text.spans), [*warnings, *_lost(pieces, text)]

    def _spoken(self, text: str, language: Language) -> list[Piece]:
        key = (language.tag, text)
        pieces = self._pieces.get(key)
        if pieces is None:
            pieces = self._g2p.pieces(text, language)
            if _size(pieces) <= self._pieces.maxsize:
                self._pieces[key] = pieces
        return pieces


def _parts(
    text: Spanned, language: Language, passage: Passage, lexicon: Lexicon
) -> Iterator[tuple[Spanned, Language | None, Sequence[Say]]]:
    """The text respelled, by what reads it, with its pronunciations.

    A respelling may be in another script than the word: it is read as if it had stood there.
    """
    for run in runs(text, language, passage.tongues):
        part = text.part(run.start, run.stop)
        if run.language is None:
            yield part, None, passage.says
            continue
        respelled, found = lexicon.apply(part, run.language.tag, passage.says)
        says = sorted([*passage.says, *found])
        if respelled.text == part.text:
            yield part, run.language, says
            continue
        for again in runs(respelled, language, passage.tongues):
            yield respelled.part(again.start, again.stop), again.language, says


def _divided_at(text: Spanned, places: Sequence[int]) -> Spanned:
    """Spaces where something in the original, which is not in the text, divides words."""
    for at in places:
        index = bisect_right(text.spans, at, key=itemgetter(1))
        if 0 < index < len(text):
            space = Spanned(" ", text.spans[index - 1 : index])
            text = text.part(0, index) + space + text.part(index)
    return text


def _size(pieces: Sequence[Piece]) -> int:
    """What they count for in the memory of sentences, also if there are none."""
    return 1 + len(pieces)


def _is_eastern(language: Language) -> bool:
    """Whether it is written without spaces, and its module reads numbers and signs itself."""
    return language.frontend in (Frontend.MANDARIN, Frontend.JAPANESE)


def _marked(word: Word, text: str) -> Word:
    """The word with the marks that follow it."""
    marks = "".join(sign for sign in text if sign in SILENT)
    phonemes = " ".join(f"{word.phonemes.rstrip()}{marks.strip()}".split())
    return replace(word, phonemes=phonemes + " " * (marks[-1:] == " "))


def _lost(pieces: Iterable[Piece], text: Spanned) -> Iterator[Warn]:
    at = 0
    for piece in pieces:
        if not sounds(piece.phonemes) and has_letters_or_digits(piece.text):
            yield _unspoken(*text.origin(at, at + len(piece.text)))
        at += len(piece.text) + len(piece.space)


def _unspoken(start: int, end: int) -> Warn:
    return Warn(
        "not_spoken", start, end, f"Characters {start} to {end} hold nothing that can be spoken."
    )


def _inside(span: Span, says: Sequence[Say]) -> Say | None:
    """Whose characters these are."""
    return next((say for say in says if say.start <= span[0] and span[1] <= say.end), None)


def _stood_in(text: Spanned, says: Sequence[Say]) -> tuple[Spanned, dict[Say, str]]:
    """A word in the place of each that is pronounced and that the normaliser would not leave.

    Returns:
        The text, and what is written where such a word stands.
    """
    written: dict[Say, str] = {}
    for say in says:
        places = [at for at, span in enumerate(text.spans) if _inside(span, (say,))]
        if places and not _PLAIN.fullmatch(text.text, places[0], places[-1] + 1):
            first, stop = places[0], places[-1] + 1
            written[say] = text.text[first:stop]
            here = Spanned(_STAND_IN, ((say.start, say.end),) * len(_STAND_IN))
            text = text.part(0, first) + here + text.part(stop)
    return text, written


def _apart(text: Spanned, says: Sequence[Say]) -> Spanned:
    """Spaces where a pronounced word touches letters, so that it is a token of its own."""
    if not says:
        return text
    owners = [_inside(span, says) for span in text.spans]
    made = Spanned()
    done = 0
    for at in range(1, len(text)):
        touches = all(c.isalnum() or c == "'" for c in text.text[at - 1 : at + 1])
        if owners[at - 1] != owners[at] and touches:
            made += text.part(done, at) + Spanned(" ", text.spans[at - 1 : at])
            done = at
    return made + text.part(done)


def _pronounced(
    pieces: Iterable[Piece], spans: Sequence[Span], says: Sequence[Say], visible: Mapping[Say, str]
) -> list[Piece]:
    """The pieces with the user's phonemes where he gave any, each in one piece with its 's."""
    if not says:
        return list(pieces)
    made: list[Piece] = []
    at, last = 0, None
    for piece in pieces:
        end = at + max(1, len(piece.text.rstrip(SILENT)))
        say = _inside((spans[at][0], spans[end - 1][1]), says)
        at += len(piece.text) + len(piece.space)
        marks = piece.phonemes[len(piece.phonemes.rstrip(SILENT)) :]
        if last is not None and (say is last or piece.text.lower() == "'s"):
            before = made.pop()
            gap = "" if say is None else before.space
            more = _possessive(last.phonemes) if say is None else marks
            text = before.text + before.space + piece.text
            said = (before.said or before.text) + gap + piece.text
            piece = Piece(text, before.phonemes + more, piece.space, visible.get(last, said))
        elif say is not None:
            piece = piece._replace(phonemes=say.phonemes + marks, said=visible.get(say))
        made.append(piece)
        last = say
    return made


def _possessive(phonemes: str) -> str:
    last = phonemes.rstrip(SILENT)[-1:]
    if last in "szʃʒʧʤ":
        return "ᵻz"
    return "s" if last in "ptkfθ" else "z"
