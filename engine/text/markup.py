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

import html
import unicodedata
from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.request import TextOptions
from engine.text import blocks, tags
from engine.text.alphabet import sounds
from engine.text.clean import APOSTROPHES, cleaned, has_letters_or_digits
from engine.text.passage import Say, Silence, Warn
from engine.text.scan import BEHIND, Scan, Short, Unheard
from engine.text.sentences import CLOSED, Sentences, Stop
from engine.text.spanned import Span, Spanned

#: elements and comments that are not spoken are looked for so far; else the tag alone goes
RAW_CHARS = 20_000
#: a run of the same sign that is longer is ornament
MAX_RUN = 16
#: a line with fewer characters that ends without a mark is a title or a verse, if the next begins
#: with a capital: prose is wrapped at 60 characters and more
SHORT_LINE = 50
#: nor does anybody wrap prose behind so many
LONG_LINE = 120
#: `<lang>` inside `<lang>`; deeper ones are ignored
MAX_DEPTH = 50

_PLAIN = regex.compile(r"[^\n\\`*_~\[\]!<&$|#^='‘’ʼ′´\ufffd]{1,200}")
_VERBATIM = regex.compile(r"[^\n]{1,200}")
_SPACES = regex.compile(r"[ ]{1,200}")
# Nothing from here on matches the beginning of what it could match: see `Scan.match`.
_LABEL = (
    r"\[(?P<label>(?>\\.|[^\[\]\\\n]|\n(?![ ]*\n)"
    r"|!?\[[^\[\]\n]{0,200}+\](?:\([^()\n]{0,500}+\))?){0,300}+)\]"
)
_TARGET = (
    r"\([\s]{0,9}+(?P<target><[^<>\n]{0,1000}+>"
    r"|(?>[^\s()<]{0,1000}+(?:\([^\s()]{0,300}+\)[^\s()]{0,1000}+){0,3}+))"
    r"""(?:\s{1,9}+(?:"[^"]{0,300}+"|'[^']{0,300}+'|\([^()]{0,300}+\)))?\s{0,9}+\)"""
)
_LINK = regex.compile(_LABEL + _TARGET)
#: what belongs to a link or a tag that a flush has cut
_REST_OF_LINK = regex.compile(r"[^\s()<>]{0,1000}+(?:\)|(?=[\s(<>]|\Z))")
_REST_OF_TAG = regex.compile(r"[^<>\n]{0,500}+(?:>|(?=[<\n]|\Z))")
_UNFINISHED_LINK = regex.compile(_LABEL + r"\((?:https?://|www\.)[^\s()<>]{0,1000}+(?=\n|\Z)")
_REFERENCE = regex.compile(_LABEL + r"\[[^\[\]\n]{0,100}+\]")
_SAY = regex.compile(r"\[(?P<word>[^\[\]\n]{1,200}+)\]\(/(?P<phonemes>[^/()\n]{0,200}+)/\)")
_FOOTNOTE = regex.compile(r"\[\^[^\[\]\s]{1,40}+\]")
_MATH = regex.compile(
    r"\$(?:\$(?P<text>[^$]{1,500}+)\$\$|(?P<text>(?![\s\d$])[^$\n]{0,200}?[^\s$])\$(?=\W|\Z))"
)
_LOWERED = regex.compile(r"~(?P<text>[A-Za-z0-9+-]{1,10}+)~(?=[^~]|\Z)")
_RAISED = regex.compile(r"\^(?P<text>[A-Za-z0-9+-]{1,10}+)\^(?=\W|\Z)")
_HIGHLIGHT = regex.compile(r"==(?=[^\s=])(?P<text>[^=\n]{1,200}+)(?<=\S)==(?=[^=]|\Z)")
_CODE = {
    1: regex.compile(r"`(?P<code>(?>[^`\n]|\n(?![ ]*\n)){1,500}+)`(?=[^`]|\Z)"),
    2: regex.compile(r"``(?P<code>(?>[^`\n]|`(?!`)|\n(?![ ]*\n)){1,500}+)``(?=[^`]|\Z)"),
    3: regex.compile(r"```(?P<code>(?>[^`\n]|``?(?!`)|\n(?![ ]*\n)){1,500}+)```(?=[^`]|\Z)"),
}
_PARTNER = {
    n: regex.compile(rf"\*{{{n}}}(?=[^\s*])[^*\n]{{0,100}}?[^\s*]\*{{{n}}}(?=[^*]|\Z)")
    for n in (1, 2, 3)
}
_CAPITAL = regex.compile(r"[*_]{1,3}+[ ]{1,9}+[*_\"“'‘(]{0,4}+(?P<first>[^*_\"“'‘( ]|\Z)")
_SAME_AGAIN = regex.compile(r"\s{0,9}+<s[ >]")
_ADDRESS = regex.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://|www\.)\S")

_ESCAPES = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
#: signs that may begin markup; behind a space they say nothing without what follows
_OPENING = tuple("*_~`[<&$#=^\\|")
#: a backslash before one of the others may be a path's, or mathematics
_SAFE_ESCAPES = frozenset("*_`#~|<>&")
#: what stands for a block of code that is not spoken
_CODE_BLOCK = {
    "en": "code block",
    "es": "bloque de código",
    "fr": "bloc de code",
    "it": "blocco di codice",
    "pt": "bloco de código",
}
_TO_APOSTROPHE = str.maketrans(dict.fromkeys(APOSTROPHES, "'"))


class Markup:
    """Reads cleaned text, and gives what is seen of it to the sentences.

    Args:
        language: `Language.sentences`.
        options: of the request.
        sentences: what takes it.
    """

    def __init__(self, language: str, options: TextOptions, sentences: Sentences) -> None:
        self._english = language == "en"
        self._announced = _CODE_BLOCK.get(language, "") if options.code == "announce" else ""
        self._read_code = options.code == "read"
        self._on = options.markdown == "on"
        self._off = options.markdown == "off"
        self._out = sentences
        self._scan = Scan()
        # the rest of links: from where to where, and what is to be told of it
        self._skips: dict[int, tuple[int, Warn | None]] = {}
        self._rest: tuple[int, Any] | None = None  # of a construct that a flush cut: where, what
        self._unheard = False  # what is not read yet will not be spoken
        self._half_code = False  # a flush cut code that begins in a line, as if it were a block
        # the line
        self._at_start = True  # of a line, or behind its marker
        self._newline: Span | None = None  # what is between this line and the one before it
        self._hard = False  # whether that is a break in any case
        self._marker = False  # a list's, just before
        self._quoted = self._was_quoted = False
        self._heading = self._row = False
        self._chars = 0  # that are seen of it
        self._last = ""  # of them
        self._cell: Span | None = None  # a border that no cell has followed yet
        # what may go over several lines
        self._in_list = self._in_table = False
        self._fence: tuple[str, Span] | None = None  # how it ends, what it is so far
        self._open: set[str] = set()  # signs of emphasis
        self._action = False  # a line that began with a star is still between stars
        self._speak = 0
        self._tongues: list[str | None] = []

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
        fence = self._at_start and blocks.FENCE.match(rest)
        return not fence and has_letters_or_digits(rest + more)

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

    def _await_rest(self, pattern: Any, end: int) -> None:
        """What comes behind `end` may belong to what was read, if a flush has cut it there."""
        if end == len(self._scan.text):
            self._rest = self._scan.base + end, pattern

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

    def _apart(self, stop: Stop = Stop.PARAGRAPH) -> None:
        """Ends what was before."""
        self._out.stop(stop, self._newline)
        self._newline, self._hard, self._cell = None, False, None
        self._chars, self._last, self._action = 0, "", False
        if stop is Stop.PARAGRAPH:
            self._open.clear()
            self._half_code = False

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

    def _reads(self, sign: str) -> bool:
        """Whether the sign begins markup, which is then read."""
        if sign == "<":
            return self._angle()
        if sign == "&":
            return self._entity()
        if sign == "[":
            return self._bracket()
        if sign == "`":
            return self._backtick()
        if sign in APOSTROPHES or sign == "'":
            return self._apostrophe()
        if sign == "\ufffd":
            self._drop(1, "unknown_character", "A character was lost before the text came here.")
            return True
        if self._off:
            return False
        match sign:
            case "*" | "_" | "~":
                return self._emphasis(sign)
            case "\\":
                return self._escape()
            case "!":
                return self._image()
            case "$":
                return self._math()
            case "|":
                return self._border()
            case "#":
                return self._heading_end()
            case "^":
                return self._raised()
            case "=":
                return self._highlight()
        return False

    def _apostrophe(self) -> bool:
        """Whether it is there twice in a word."""
        scan = self._scan
        if not scan.before().isalpha() or scan.peek(1) not in (*APOSTROPHES, "'"):
            return False
        twice = scan.peek(2).isalpha()
        if twice:
            self._see("'", [scan.span(0, 2)])
            scan.pos += 2
        return twice

    def _raised(self) -> bool:
        """Pandoc's "2^10^" and "1^st^": a power keeps its sign."""
        found = self._scan.match(_RAISED) if self._scan.before().isalnum() else None
        if found:
            power = not found["text"].isalpha() or len(found["text"]) == 1
            self._unwrap(found, power=power)
        return bool(found)

    def _highlight(self) -> bool:
        found = None if self._scan.before().isalnum() else self._scan.match(_HIGHLIGHT)
        if found:
            self._unwrap(found)
        return bool(found)

    def _unwrap(self, found: Any, *, power: bool = False) -> None:
        """What is between signs, as it is."""
        self._scan.pos = found.start("text") - power
        self._copy(found.end("text") - self._scan.pos)
        self._scan.pos = found.end()

    def _escape(self) -> bool:
        escaped = self._scan.peek(1)
        if escaped == "\n":
            self._scan.pos += 1
            self._hard = True
            return True
        if escaped and escaped in (_ESCAPES if self._on else _SAFE_ESCAPES):
            self._see(escaped, [self._scan.span(0, 2)])
            self._scan.pos += 2
            return True
        return False

    def _math(self) -> bool:
        found = self._scan.match(_MATH)
        if found and self._scan.before().isalnum():  # "Ke$ha and US$"
            self._copy(len(found[0]))
        elif found:
            self._unwrap(found)
        return bool(found)

    def _heading_end(self) -> bool:
        ends = self._heading and self._scan.before() == " "
        found = self._scan.match(blocks.HEADING_END) if ends else None
        if found:
            self._scan.pos = found.end()
        return bool(found)

    def _border(self) -> bool:
        """Whether it is a table's: between two cells there is a comma."""
        alone = self._scan.before() == " " and self._scan.peek(1) in (" ", "\n", "")
        if self._row or alone:
            self._cell = self._scan.span(0, 1)
            self._scan.pos += 1
        return self._row or alone

    def _run(self, sign: str) -> int:
        count = 1
        while count < MAX_RUN and self._scan.peek(count) == sign:
            count += 1
        return count

    def _backtick(self) -> bool:
        count = self._run("`")
        before = self._scan.before()
        between = count == 1 and before.isalpha() and self._scan.peek(1).isalpha()
        found = None
        if count in _CODE and not between and not self._off:
            found = self._scan.match(_CODE[count])
        if found:
            self._scan.pos += count
            self._copy(len(found["code"]))
        elif count >= max(_CODE):
            cut = self._scan.final and not self._scan.ended
            self._half_code = cut and not self._half_code
        elif between or (count == 1 and before.isalnum() and not self._off):
            self._see("'", [self._scan.span(0, 1)])
        self._scan.pos += count
        return True

    def _emphasis(self, sign: str) -> bool:
        if sign == "~" and self._scan.before().isalpha() and not self._in_address():
            lowered = self._scan.match(_LOWERED)
            if lowered:
                self._unwrap(lowered)
                return True
        count = self._run(sign)
        before, after = self._scan.before(), self._scan.peek(count) or "\n"
        opens, closes = _flanks(after, before), _flanks(before, after)
        run = sign * count
        if self._is_emphasis(run, before, after, inside=opens and closes, edge=opens or closes):
            self._mark_emphasis(run, opens=opens and run not in self._open, closes=closes)
        else:
            self._copy(count)
        return True

    def _is_emphasis(self, run: str, before: str, after: str, *, inside: bool, edge: bool) -> bool:
        """Whether signs are not spoken: at the edge of a word, with a partner or not.

        Inside a word a star counts if it has a partner, and the others do not.
        """
        inside = inside and not _is_mark(before)
        if not edge:
            return len(run) > 1 and not self._chars  # "** Note"
        if self._in_address():
            return False
        if run[0] == "~":
            return run == "~~" and not inside
        if run[0] == "_":
            return not inside or _is_mark(after)
        if self._multiplies(run, before, after):
            return False
        return not inside or run in self._open or self._has_partner(len(run))

    def _multiplies(self, run: str, before: str, after: str) -> bool:
        if self._on or not (before.isdigit() or before == ")"):
            return False
        if run == "*":
            return after.isalnum() or after == "("
        return run == "**" and after.isdigit() and run not in self._open

    def _has_partner(self, count: int) -> bool:
        single = 1 if self._on else 2  # a star inside a word is hardly ever emphasis
        return count >= single and count in _PARTNER and bool(self._scan.match(_PARTNER[count]))

    def _mark_emphasis(self, run: str, *, opens: bool, closes: bool) -> None:
        ends_action = self._action and closes and not opens and len(run) == 1
        speech = self._scan.match(_CAPITAL) if ends_action else None
        if opens:
            self._open.add(run)
            self._action = self._action or (len(run) == 1 and not self._chars)
        else:
            self._open.discard(run)
            self._action = self._action and not ends_action
        self._scan.pos += len(run)
        if speech and speech["first"].isupper():  # *Holds out hand* Nice to meet you
            self._out.stop(Stop.LINE, self._scan.span(-1, 0))

    def _in_address(self) -> bool:
        """Whether the word so far is an address on the web, which may hold any sign."""
        scan = self._scan
        start = max(0, scan.pos - BEHIND)
        word = scan.text[scan.text.rfind(" ", start, scan.pos) + 1 or start : scan.pos]
        return scan.peek() in "_~" and bool(_ADDRESS.search(word))

    # --- brackets ---

    def _image(self) -> bool:
        scan = self._scan
        if (not self._on and scan.before().isalnum()) or scan.peek(1) != "[":
            return False
        found = scan.match(_LINK, 1) or scan.match(_REFERENCE, 1)
        if not found:
            return False
        if found["label"].strip():
            self._follow(found)
        else:
            self._drop(found.end() - scan.pos, "image_skipped", "An image without a text for it.")
        return True

    def _bracket(self) -> bool:
        scan = self._scan
        if found := scan.match(tags.PAUSE):
            count = len(found[0])
            self._silence(tags.pause(found["value"]), count)
        elif found := scan.match(tags.NO_PAUSE):
            self._drop(len(found[0]), "unknown_tag", "A pause is written as [pause:1s].")
        elif (found := scan.match(_SAY)) and tags.is_pronunciation(found["phonemes"]):
            word = found["word"].strip("*_") or found["word"]
            self._say(1 + found["word"].index(word), len(word), len(found[0]), found["phonemes"])
        elif self._off:
            return False
        elif found := scan.match(_FOOTNOTE):
            self._drop_footnote(found)
        elif self._is_link(found := scan.match(_LINK) or scan.match(_REFERENCE)):
            self._follow(found)
        elif found := scan.match(_UNFINISHED_LINK):
            rest = scan.span(found.end("label") - scan.pos, found.end() - scan.pos)
            told = "The address of a link does not end; it is left out."
            self._await_rest(_REST_OF_LINK, found.end())
            self._follow(found, Warn("unknown_tag", *rest, told))
        else:
            return False
        return True

    def _drop_footnote(self, found: Any) -> None:
        self._drop(len(found[0]), "footnote_skipped", "The mark of a footnote is not spoken.")

    def _is_link(self, found: Any) -> bool:
        """Code such as `a[0](x)` or `a[0][1]` is none, if it is not said to be markdown."""
        before = self._scan.before()
        code = before.isascii() and (before.isalnum() or before in "_])")
        return bool(found) and (self._on or not code or "/" in found[0])

    def _follow(self, found: Any, warning: Warn | None = None) -> None:
        """Goes on with the label of a link; what is behind it will be left out."""
        scan = self._scan
        self._skips[scan.base + found.end("label")] = scan.base + found.end(), warning
        scan.pos = found.start("label")

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

    # --- angle brackets ---

    def _entity(self) -> bool:
        found = self._scan.match(tags.ENTITY)
        if not found:
            return False
        span = self._scan.span(0, len(found[0]))
        resolved = html.unescape(found[0])
        if resolved == found[0]:
            return False
        plain = cleaned(resolved).text or " " * resolved.isspace()
        self._see(plain, [span] * len(plain))
        self._scan.pos = found.end()
        return True

    def _angle(self) -> bool:
        scan = self._scan
        if not (scan.peek(1).isalpha() or scan.peek(1) in tuple("/!?")):
            return False
        if scan.match(tags.COMMENT):
            return self._drop_comment()
        if found := scan.match(tags.LITERAL) or scan.match(tags.AUTOLINK):
            scan.pos = found.start("text")
            self._copy(len(found["text"]))
            scan.pos += found.end() - found.end("text")
            return True
        if found := scan.match(tags.DECLARATION):
            scan.pos = found.end()
            return True
        found = scan.match(tags.TAG)
        if found and self._is_tag(found):
            self._tag(found)
            return True
        if found := scan.match(tags.UNFINISHED):
            known = found["name"].lower() in tags.KNOWN
            if known:
                self._drop(len(found[0]), "unknown_tag", "A tag that does not end is left out.")
                self._await_rest(_REST_OF_TAG, found.end())
            return known
        return self._words_in_brackets()

    def _words_in_brackets(self) -> bool:
        """Whether it is "<your name>" or "List<int>", whose brackets are not spoken."""
        scan = self._scan
        found = scan.match(tags.GENERIC if scan.before().isalnum() else tags.PLACEHOLDER)
        if found:
            self._see(" ", [scan.span(0, 1)])
            scan.pos += 1
            self._copy(len(found["text"]))
            self._see(" ", [scan.span(0, 1)])
            scan.pos += 1
        return bool(found)

    def _drop_comment(self) -> bool:
        found = self._scan.find(tags.COMMENT_END, RAW_CHARS)
        if found:
            self._scan.pos = found.end()
        elif found := self._scan.match(tags.COMMENT_LINE):
            self._drop(len(found[0]), "unknown_tag", "A comment that does not end is left out.")
        return bool(found)

    def _is_tag(self, found: Any) -> bool:
        """Whether it is one: "List<T>" and "<your name>" are not."""
        known = found["name"].lower() in tags.KNOWN
        bound = not known and not found["close"] and self._scan.before().isalnum()
        return not bound and not tags.has_bare_names(found["attributes"])

    def _tag(self, found: Any) -> None:
        name, count = found["name"].lower(), len(found[0])
        opening = not found["close"]
        attributes = tags.attributes_of(found["attributes"])
        if opening and name in tags.RAW_END and not self._is_read(name) and self._raw(name):
            return
        if opening and not found["empty"] and name in tags.CONTENT:
            content = self._scan.match(tags.CONTENT[name], count)
            if content and self._element(name, attributes, count, content):
                return
        span = self._scan.span(0, count)
        if name == "break" and opening:
            self._silence(tags.break_pause(attributes), count)
            return
        sentence = name == "s" and (self._speak or self._scan.match(_SAME_AGAIN, count))
        self._scan.pos += count
        if name in tags.PARAGRAPHS:
            self._apart()
        elif name in tags.LINES or sentence:
            self._newline = span
            self._apart(Stop.LINE)
        elif name in tags.CELLS and opening:
            self._cell = span
        elif name == "speak":
            self._speak = max(0, self._speak + (1 if opening else -1))
        elif name == "lang":
            self._tongue(attributes, opening=opening, empty=bool(found["empty"]))
        elif name == "img" and opening:
            self._pictured(attributes, span)
        elif opening and name in tags.UNSUPPORTED:
            self._warn("unsupported_tag", span, f"<{name}> changes nothing here; its text is read.")
        elif opening and name not in tags.KNOWN:
            self._warn("unknown_tag", span, "A tag that is not known is left out.")

    def _is_read(self, name: str) -> bool:
        return name == "pre" and self._read_code

    def _raw(self, name: str) -> bool:
        """Leaves out the whole element, if it ends."""
        found = self._scan.find(tags.RAW_END[name], RAW_CHARS)
        if found:
            code = "code_skipped" if name == "pre" else "element_skipped"
            self._drop(found.end() - self._scan.pos, code, f"What is in <{name}> is not spoken.")
            self._apart()
        return bool(found)

    def _element(self, name: str, attributes: dict[str, str], start: int, content: Any) -> bool:
        """Whether the element is spoken in another way than its content."""
        text, whole = content["content"], content.end() - self._scan.pos
        span = self._scan.span(0, whole)
        if name == "phoneme" and "ph" in attributes and text.strip():
            alphabet = attributes.get("alphabet", "ipa").lower()
            if alphabet not in ("ipa", "x-kokoro"):
                told = "The alphabet of a pronunciation is not known."
                self._warn("unsupported_tag", self._scan.span(0, start), told)
                return False
            self._say(start, len(text), whole, attributes["ph"], alphabet)
        elif name == "sub" and attributes.get("alias", "").strip():
            alias = cleaned(attributes["alias"]).text
            self._see(alias, [span] * len(alias))
            self._scan.pos += whole
        elif name == "say-as":
            return self._say_as(attributes.get("interpret-as", "").lower(), text, start, whole)
        else:
            return False
        return True

    def _say_as(self, kind: str, text: str, start: int, whole: int) -> bool:
        """Whether it is spoken in another way than it is written."""
        spelled = kind in tags.SPELLED
        number = text.isascii() and text.isdigit()
        if not spelled and not (self._english and number and kind in _NUMBERS):
            if kind not in tags.READ_AS or (kind in _NUMBERS and not _DIGIT.search(text)):
                told = "What <say-as> asks for is not known; its text is read."
                self._warn("unsupported_tag", self._scan.span(0, start), told)
            return False
        if spelled:
            self._spell(start, len(text))
        else:
            self._count(start, text, ordinal=kind == "ordinal")
        self._scan.pos += whole
        return True

    def _count(self, start: int, digits: str, *, ordinal: bool) -> None:
        """A number with commas, so that it is no year, or with what makes it an ordinal."""
        for at, digit in enumerate(digits):
            span, left = self._scan.span(start + at, start + at + 1), len(digits) - at - 1
            self._see(digit + "," * (left > 0 and left % 3 == 0), [span] * 2)
        if ordinal:
            teen = digits[-2:-1] == "1"
            ending = "th" if teen else {"1": "st", "2": "nd", "3": "rd"}.get(digits[-1], "th")
            self._see(ending, [span] * 2)

    def _spell(self, start: int, count: int) -> None:
        """Characters one by one; letters in capitals, so that "a" is no word."""
        for at in range(start, start + count):
            c, span = self._scan.text[self._scan.pos + at], self._scan.span(at, at + 1)
            if at > start:
                self._see(" ", [span])
            self._see(c.upper() if len(c.upper()) == 1 else c, [span])

    def _tongue(self, attributes: dict[str, str], *, opening: bool, empty: bool) -> None:
        if opening and not empty and len(self._tongues) < MAX_DEPTH:
            tag = attributes.get("xml:lang") or attributes.get("lang") or self._out.tongue
            self._tongues.append(tag)
        elif not opening and self._tongues:
            self._tongues.pop()
        self._out.tongue = self._tongues[-1] if self._tongues else None

    def _pictured(self, attributes: dict[str, str], span: Span) -> None:
        alt = cleaned(attributes.get("alt", "")).text
        if alt:
            self._see(alt, [span] * len(alt))
        else:
            self._warn("image_skipped", span, "An image without a text for it.")

    # --- what comes out ---

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

    def _warn(self, code: str, span: Span, message: str) -> None:
        self._out.note(Warn(code, *span, message), span)


_NUMBERS = frozenset(["cardinal", "number", "ordinal"])
_DIGIT = regex.compile(r"\d")


def _flanks(near: str, far: str) -> bool:
    """Whether a run of signs belongs to what is `near`: CommonMark's left- and right-flanking."""
    return not near.isspace() and (not _is_mark(near) or far.isspace() or _is_mark(far))


def _is_mark(c: str) -> bool:
    return unicodedata.category(c)[0] in "PS"
