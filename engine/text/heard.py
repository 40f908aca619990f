"""What all rooms of the markup share: the text, the line so far, what is heard of it. Core."""

from __future__ import annotations

from typing import Any

from engine.request import TextOptions
from engine.text import tags
from engine.text.alphabet import sounds
from engine.text.clean import APOSTROPHES
from engine.text.passage import Say, Silence, Warn
from engine.text.scan import Scan
from engine.text.sentences import Sentences, Stop
from engine.text.spanned import Span

_TO_APOSTROPHE = str.maketrans(dict.fromkeys(APOSTROPHES, "'"))


class Heard:
    """Gives what is seen of a text to the sentences.

    Args:
        language: `Language.sentences`.
        options: of the request.
        sentences: what takes it.
        scan: the text.
    """

    def __init__(
        self, language: str, options: TextOptions, sentences: Sentences, scan: Scan
    ) -> None:
        self._english = language == "en"
        self._read_code = options.code == "read"
        self._on = options.markdown == "on"
        self._off = options.markdown == "off"
        self._out = sentences
        self._scan = scan
        # the line
        self._newline: Span | None = None  # what is between this line and the one before it
        self._hard = False  # whether that is a break in any case
        self._chars = 0  # that are seen of it
        self._last = ""  # of them
        self._cell: Span | None = None  # a border that no cell has followed yet
        # what may go over several lines
        self._open: set[str] = set()  # signs of emphasis
        self._action = False  # a line that began with a star is still between stars
        # what a flush cut
        self._rest: tuple[int, Any] | None = None  # of a construct: where, and what belongs to it
        self._half_code = False  # code that begins in a line, as if it were a block

    def _apart(self, stop: Stop = Stop.PARAGRAPH) -> None:
        """Ends what was before."""
        self._out.stop(stop, self._newline)
        self._newline, self._hard, self._cell = None, False, None
        self._chars, self._last, self._action = 0, "", False
        if stop is Stop.PARAGRAPH:
            self._open.clear()
            self._half_code = False

    def _copy(self, count: int, say: Say | None = None) -> None:
        """Characters from the position on, as they are."""
        scan = self._scan
        stop = scan.pos + count
        self._see(scan.text[scan.pos : stop], scan.spans[scan.pos : stop], say)
        scan.pos = stop

    def _see(self, text: str, spans: list[Span], say: Say | None = None) -> None:
        plain = text.replace("\n", " ").translate(_TO_APOSTROPHE)
        seen = plain.rstrip()
        if seen and self._cell:
            self._out.border(self._cell)
            self._cell = None
        self._out.add(plain, spans, say)
        self._chars += len(plain)
        if seen:
            self._last = seen[-1]

    def _drop(self, count: int, code: str, message: str) -> None:
        self._warn(code, self._scan.span(0, count), message)
        self._scan.pos += count

    def _say(self, start: int, count: int, whole: int, written: str, alphabet: str = "") -> None:
        """A word with its pronunciation.

        Args:
            start: of the word, from the position.
            count: of its characters.
            whole: characters of the construct.
            written: the phonemes.
            alphabet: see `tags.phonemes`.
        """
        scan = self._scan
        span = scan.span(0, whole)
        phonemes, complete = tags.phonemes(written, alphabet)
        if not sounds(phonemes):
            self._warn("no_pronunciation", span, "The pronunciation is empty; the word is read.")
        elif not complete:
            self._warn(
                "unknown_phonemes", span, "Some phonemes are not the model's; they are left out."
            )
        end = scan.pos + whole
        scan.pos += start
        self._copy(count, Say(*span, phonemes if sounds(phonemes) else ""))
        scan.pos = end

    def _silence(self, pause: tags.Pause | None, count: int) -> None:
        span = self._scan.span(0, count)
        if pause is None:
            self._warn("unknown_tag", span, "A pause whose length cannot be read is left out.")
        else:
            if pause.cut:
                self._warn("pause_cut", span, "A pause is 10 seconds at most.")
            if pause.ms:
                self._out.note(Silence(span[1], pause.ms), span)
        self._scan.pos += count

    def _warn(self, code: str, span: Span, message: str) -> None:
        self._out.note(Warn(code, *span, message), span)

    def _await_rest(self, pattern: Any, end: int) -> None:
        """What comes behind `end` may belong to what was read, if a flush has cut it there."""
        if end == len(self._scan.text):
            self._rest = self._scan.base + end, pattern
