r"""Takes the markup out of a text that comes in pieces. Core.

What is read as markup depends on `TextOptions.markdown`:

* always: `[pause:1s]`, `[word](/phonemes/)`, tags of HTML and SSML, character references;
* `auto`: the constructs of markdown that plain text hardly has, each decided where it stands:
  headings, lists, quotes, tables, rules, fences, links, images, code, and the signs of emphasis at
  the edge of a word, `H~2~O`, `==marked==` and `$x^2$`. Stars between numbers, `snake_case`,
  `a[0](x)`, `C:\(x)` stay.
* `on`: what CommonMark reads as markup, also `2*3*4` and every escape;
* `off`: no markdown.

Each decision is one of `Scan`, on a bounded look-ahead: an opening bracket, say, is a link's if the
whole link is there within some hundred characters, else it is a bracket.
"""

from __future__ import annotations

import unicodedata
from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.request import TextOptions
from engine.text import blocks
from engine.text.clean import has_letters_or_digits
from engine.text.inline import Inline
from engine.text.scan import Scan, Short, Unheard
from engine.text.sentences import CLOSED, Sentences, Stop
from engine.text.spanned import Span, Spanned

#: a line with fewer characters that ends without a mark is a title or a verse, if the next begins
#: with a capital: prose is wrapped at 60 characters and more
SHORT_LINE = 50
#: nor does anybody wrap prose behind so many
LONG_LINE = 120

_PLAIN = regex.compile(r"[^\n\\`*_~\[\]!<&$|#^='‘’ʼ′´\ufffd]{1,200}")
_VERBATIM = regex.compile(r"[^\n]{1,200}")
_SPACES = regex.compile(r"[ ]{1,200}")

#: signs that may begin markup; behind a space they say nothing without what follows
_OPENING = tuple("*_~`[<&$#=^\\|")
#: what stands for a block of code that is not spoken
_CODE_BLOCK = {
    "en": "code block",
    "es": "bloque de código",
    "fr": "bloc de code",
    "it": "blocco di codice",
    "pt": "bloco de código",
}


class Markup(Inline):
    """Reads cleaned text, and gives what is seen of it to the sentences.

    Args:
        language: `Language.sentences`.
        options: of the request.
        sentences: what takes it.
    """

    def __init__(self, language: str, options: TextOptions, sentences: Sentences) -> None:
        super().__init__(language, options, sentences, Scan())
        self._announced = _CODE_BLOCK.get(language, "") if options.code == "announce" else ""
        self._unheard = False  # what is not read yet will not be spoken
        # the line
        self._at_start = True  # of a line, or behind its marker
        self._marker = False  # a list's, just before
        self._quoted = self._was_quoted = False
        # what may go over several lines
        self._in_list = self._in_table = False
        self._fence: tuple[str, Span] | None = None  # how it ends, what it is so far

    def push(self, text: Spanned) -> None:
        """Reads on as far as is sure."""
        self._scan.feed(text)
        self._read()

    def holds(self, more: str) -> bool:
        """Whether letters or digits are left that may be spoken.

        Args:
            more: what follows and is not cleaned yet.
        """
        if self._unheard or (self._fence and not self._read_code):
            return False
        rest = self._scan.text[self._scan.pos :]
        heard = self._announced or self._read_code
        skipped = not heard and self._at_start and blocks.FENCE.match(rest)
        return not skipped and has_letters_or_digits(rest + more)

    def settle(self, more: str) -> None:
        """Lets go what can be spoken without what follows. What is not read yet waits.

        Args:
            more: what follows and is not cleaned yet.
        """
        known = self._scan.text[self._scan.pos :] + more
        if known == "!" and not (self._at_start or self._fence):
            self._copy(1)  # if it is an image's, that is read as a link: its text is spoken too
            known = ""
        self._out.settle(known[:1], spaced=self._newline is not None)

    def flush(self) -> None:
        """Reads what is left as if it ended here; text may follow."""
        scan = self._scan
        while scan.pos < len(scan.text) and not self._waits():
            scan.final = True
            try:
                self._step()
            except Unheard:
                self._unheard = True
                break
            finally:
                scan.final = False
            self._read()
        self._out.flush()

    def end(self) -> None:
        """Reads what is left, when no text will follow."""
        self._scan.final = self._scan.ended = True
        self._read()
        if self._fence:
            self._close_fence(self._fence[1])
        self._out.stop(Stop.PARAGRAPH)

    # Every step looks first, where `Short` may be raised, and acts then.

    def _read(self) -> None:
        self._unheard = False
        try:
            while self._scan.pos < len(self._scan.text):
                self._step()
        except Short as short:
            self._unheard = isinstance(short, Unheard)

    def _waits(self) -> bool:
        """Whether what is left at a flush is signs alone that say nothing without what follows."""
        scan = self._scan
        rest = scan.text[scan.pos :]
        if self._at_start and self._fence:
            return not blocks.FENCE.match(rest) and not rest.strip("`~ ")
        if has_letters_or_digits(rest):
            return False
        return self._at_start or (scan.before().isspace() and rest.startswith(_OPENING))

    def _step(self) -> None:
        here = self._scan.base + self._scan.pos
        skip = self._skips.pop(here, None)
        if skip is not None:
            stop, warning = skip
            self._scan.pos = min(stop - self._scan.base, len(self._scan.text))
            if warning:
                self._out.note(warning, (warning.start, warning.end))
        elif self._rest and self._rest[0] == here:
            self._drop_rest(self._rest[1])
        elif self._at_start:
            self._begin_line()
        elif self._fence:
            self._code_line()
        else:
            self._inline()

    def _drop_rest(self, pattern: Any) -> None:
        found = self._scan.match(pattern)
        self._rest = None
        if found:
            self._scan.pos = found.end()
            if found[0][-1:] not in (")", ">"):
                self._await_rest(pattern, found.end())

    # --- lines ---

    def _begin_line(self) -> None:
        if spaces := self._scan.run(_SPACES):
            self._scan.pos += len(spaces)
        elif self._fence:
            self._fenced(self._fence)
        elif self._scan.peek() == "\n":
            self._blank()
        elif self._off or not self._block():
            self._plain_line()

    def _blank(self) -> None:
        self._scan.pos += 1
        if not self._marker:  # an item without text is no blank line
            self._in_list = self._in_table = False
        self._marker = self._quoted = self._was_quoted = self._heading = False
        self._apart()

    def _block(self) -> bool:
        """Whether the line begins with a block's marker, which is then read."""
        scan = self._scan
        if found := scan.line(blocks.FENCE):
            if self._half_code and not found["info"].strip():
                self._drop_line(found)
                return True
            self._apart()
            self._open_fence(found)
        elif found := scan.line(blocks.RULE):
            self._drop_line(found)
        elif (found := scan.line(blocks.DELIMITERS)) and {"-", "|"} <= set(found[0]):
            self._drop_line(found)
            self._in_table = True
        elif found := scan.match(blocks.HEADING):
            self._apart()
            self._heading = True
            scan.pos = found.end()
        elif found := scan.match(blocks.FOOTNOTE):
            self._apart()
            self._drop_footnote(found)
        elif found := scan.line(blocks.LINK_TARGET):
            self._drop_line(found)
        elif self._marker and (found := scan.match(blocks.BOX)):
            scan.pos = found.end()
            self._marker = False
        elif found := scan.match(blocks.BULLET):
            self._item(found.end())
        elif (found := scan.match(blocks.NUMBER)) and self._begins_item(found["number"]):
            self._numbered(found)
        elif found := scan.match(blocks.ANY_QUOTE if self._on else blocks.QUOTE):
            if not self._was_quoted:
                self._apart()
            self._quoted = self._was_quoted = True
            scan.pos = found.end()
        elif found := scan.match(blocks.ROW):
            self._apart(Stop.LINE if self._in_table else Stop.PARAGRAPH)
            self._in_table = self._row = True
            self._at_start = False
            scan.pos = found.end()
        else:
            return False
        return True

    def _drop_line(self, found: Any) -> None:
        self._apart()
        self._scan.pos = found.end()
        self._in_table = self._marker = False

    def _item(self, end: int) -> None:
        self._apart()
        self._in_list = self._marker = True
        self._scan.pos = end

    def _begins_item(self, number: str) -> bool:
        r"""Whether it is an item's: "in\n1986. Then" goes on, and "in two steps:\n1. Go" does not."""
        if self._newline is None or self._in_list or self._last in CLOSED:
            return True
        return number == "1" or (self._chars <= SHORT_LINE and len(number) < len("1986"))

    def _numbered(self, found: Any) -> None:
        stop = found.end() - found.start()
        mark = self._scan.span(stop - 1, stop)
        self._apart()
        self._copy(stop - 1)
        self._see(", ", [mark, mark])
        self._scan.pos += 1
        self._in_list = self._marker = True

    def _plain_line(self) -> None:
        row = self._in_table and not self._off
        stop = Stop.LINE if row or self._breaks() else None
        if self._was_quoted != self._quoted or self._leaves_list():
            stop = Stop.PARAGRAPH
            self._in_list = False
        if self._newline is not None:
            if stop:
                self._apart(stop)
            else:
                self._see(" ", [self._newline])
                self._newline, self._hard = None, False
        self._was_quoted, self._quoted = self._quoted, False
        self._row, self._marker, self._at_start = row, False, False
        self._chars = 0

    def _leaves_list(self) -> bool:
        r"""Whether the line is no part of the item before it: "- pears\nThat is all."."""
        if not self._in_list or self._marker or self._off or self._scan.before() != "\n":
            return False
        ended = self._last in ".!?:…"
        title = self._last not in CLOSED and self._chars <= SHORT_LINE
        return (ended or title) and self._first().isupper()

    def _first(self) -> str:
        """The character that decides how the line begins."""
        return str((self._scan.match(blocks.FIRST) or {"first": ""})["first"])

    def _breaks(self) -> bool:
        """Whether the line is one of its own, not the rest of the one before."""
        if self._newline is None or self._hard:
            return True
        if self._last in CLOSED or SHORT_LINE < self._chars <= LONG_LINE:
            return False
        if self._chars <= SHORT_LINE and self._scan.match(blocks.MARKED_NUMBER):
            return not self._off
        first = self._first()
        # writings without capitals have two columns for a character
        return first.isupper() or (
            unicodedata.category(first or " ") == "Lo" and self._chars <= SHORT_LINE // 2
        )

    def _end_line(self) -> None:
        scan = self._scan
        self._newline = scan.span(0, 1)
        self._hard = self._hard or (not self._off and scan.text.endswith("  ", 0, scan.pos))
        scan.pos += 1
        self._at_start = True
        if self._heading:
            self._apart()
        self._heading = self._row = self._action = False
        self._cell = None

    # --- code blocks ---

    def _open_fence(self, found: Any) -> None:
        span = self._scan.span(0, found.end() - self._scan.pos)
        self._scan.pos = found.end()
        self._fence = found["fence"], span
        self._marker = False
        if self._announced:
            self._see(self._announced, [span] * len(self._announced))
            self._apart()

    def _fenced(self, fence: tuple[str, Span]) -> None:
        """The beginning of a line of code, or its end."""
        marker, (start, _) = fence
        found = self._scan.match(blocks.FENCE)
        if found and found["fence"].startswith(marker) and not found["info"].strip():
            end = self._scan.span(0, found.end() - self._scan.pos)[1]
            self._scan.pos = found.end()
            self._close_fence((start, end))
            self._at_start = found[0][-1] == "\n"  # a flush may cut the line
        else:
            self._at_start = False

    def _code_line(self) -> None:
        assert self._fence
        marker, (start, _) = self._fence
        line = self._scan.run(_VERBATIM)
        count = len(line) or 1
        span = self._scan.span(0, count)
        self._fence = marker, (start, span[1])
        if line and self._read_code:
            self._copy(count)
            return
        self._scan.pos += count
        if not line:
            self._at_start, self._newline = True, span
            self._apart(Stop.LINE)

    def _close_fence(self, span: Span) -> None:
        self._fence, self._at_start = None, True
        if not (self._announced or self._read_code):
            self._warn("code_skipped", span, "A block of code is not spoken.")
        self._apart()

    # --- in a line ---

    def _inline(self) -> None:
        sign = self._scan.peek()
        if sign == "\n":
            self._end_line()
        elif not self._reads(sign):
            self._copy(len(self._scan.run(_PLAIN)) or 1)
