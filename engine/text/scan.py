"""A buffer that grows, and looks at it that do not depend on how far it has grown. Core."""

from __future__ import annotations

from typing import Any

from engine.text.spanned import Span, Spanned

#: characters before the position that stay in sight
BEHIND = 200
#: characters behind them that are worth the copy to get rid of them
_ENOUGH = 4096


class Short(Exception):
    """What was asked cannot be known before more text is there; ask again then."""


class Unheard(Short):
    """The end of something that is not spoken is not there yet."""


class Scan:
    """Cleaned text with a position.

    Every answer is the same for every continuation of the text; where it could not be, `Short` is
    raised. So whoever decides by these answers alone decides the same, however the text comes in.

    Attributes:
        text: some characters before the position, and all that is known after it.
        spans: of each of them, in the original.
        pos: the position in `text`.
        base: what to add to a place in `text` to get one that stays valid.
        final: whether to answer as if no more would come.
        ended: whether no more will come.
    """

    def __init__(self) -> None:
        self.text = ""
        self.spans: list[Span] = []
        self.pos = 0
        self.base = 0
        self.final = self.ended = False

    def feed(self, more: Spanned) -> None:
        """Appends what came, and forgets what lies far behind."""
        self.text += more.text
        self.spans += more.spans
        gone = self.pos - BEHIND
        if gone > _ENOUGH:
            self.text = self.text[gone:]
            del self.spans[:gone]
            self.pos -= gone
            self.base += gone

    def peek(self, ahead: int = 0) -> str:
        """A character at or after the position; empty if the text ends before it.

        Raises:
            Short: it is not there yet.
        """
        at = self.pos + ahead
        if at < len(self.text):
            return self.text[at]
        if self.final:
            return ""
        raise Short

    def before(self) -> str:
        """The character before the position; a line end if there is none."""
        return self.text[self.pos - 1] if self.pos else "\n"

    def match(self, pattern: Any, ahead: int = 0) -> Any:
        r"""What the pattern matches at or after the position, or None.

        Args:
            pattern: of the `regex` module. No match of it may be the beginning of a longer one; it
                may use ``\Z``, but no other look-ahead of several characters.
            ahead: where to match, from the position.

        Raises:
            Short: it may match, or may not, depending on what comes.
        """
        at = self.pos + ahead
        if self.final:
            return pattern.match(self.text, at)
        found = pattern.match(self.text, at, partial=True)
        if found and (found.partial or found.end() == len(self.text)):
            raise Short
        return found

    def line(self, pattern: Any) -> Any:
        r"""As `match`, for a line that is not spoken, with its end: it is awaited unless `ended`.

        Raises:
            Short: as `match`, or the line has no end yet.
        """
        found = self.match(pattern)
        if found and found.end() == len(self.text) and not (self.ended or found[0][-1] == "\n"):
            raise Unheard
        return found

    def run(self, pattern: Any) -> str:
        """As much as is there of a run, every part of which can be read by itself; maybe nothing."""
        found = pattern.match(self.text, self.pos)
        return str(found[0]) if found else ""

    def find(self, pattern: Any, within: int) -> Any:
        """The end of what is not spoken: the first match so many characters ahead, or None.

        Args:
            pattern: of the end.
            within: characters after the position; it ends before them.

        Raises:
            Unheard: there is none yet, and the text has not `ended`.
        """
        limit = self.pos + within
        found = pattern.search(self.text, self.pos, limit)
        if not found and len(self.text) < limit and not self.ended:
            raise Unheard
        return found

    def span(self, start: int, stop: int) -> Span:
        """What characters `start`…`stop` after the position, one at least, are in the original."""
        return self.spans[self.pos + start][0], self.spans[self.pos + stop - 1][1]
