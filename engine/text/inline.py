"""Markup inside a line: emphasis, code, links, images, pauses, escapes. Core."""

from __future__ import annotations

import unicodedata
from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.request import TextOptions
from engine.text import blocks, tags
from engine.text.clean import APOSTROPHES
from engine.text.elements import Elements
from engine.text.passage import Warn
from engine.text.scan import BEHIND, Scan
from engine.text.sentences import Sentences, Stop

#: a run of the same sign that is longer is ornament
MAX_RUN = 16

# None of these matches the beginning of what it could match: see `Scan.match`.
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
_UNFINISHED_LINK = regex.compile(_LABEL + r"\((?:https?://|www\.)[^\s()<>]{0,1000}+(?=\n|\Z)")
#: what belongs to the address of a link that a flush has cut
_REST_OF_LINK = regex.compile(r"[^\s()<>]{0,1000}+(?:\)|(?=[\s(<>]|\Z))")
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
_ADDRESS = regex.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]*://|www\.)\S")

_ESCAPES = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
#: a backslash before one of the others may be a path's, or mathematics
_SAFE_ESCAPES = frozenset("*_`#~|<>&")


class Inline(Elements):
    """Reads on in a line."""

    def __init__(
        self, language: str, options: TextOptions, sentences: Sentences, scan: Scan
    ) -> None:
        super().__init__(language, options, sentences, scan)
        # the rest of links: from where to where, and what is to be told of it
        self._skips: dict[int, tuple[int, Warn | None]] = {}
        self._heading = self._row = False  # what the line is

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


def _flanks(near: str, far: str) -> bool:
    """Whether a run of signs belongs to what is `near`: CommonMark's left- and right-flanking."""
    return not near.isspace() and (not _is_mark(near) or far.isspace() or _is_mark(far))


def _is_mark(c: str) -> bool:
    return unicodedata.category(c)[0] in "PS"
