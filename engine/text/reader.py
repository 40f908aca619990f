"""Text to passages, as it comes in. Core.

Cleaner, markup and sentences in a row. None of them decides by more than a bounded number of
characters that follow, so the passages do not depend on how the text was cut, and a sentence is
there as soon as `sentences.LOOKAHEAD` characters of the next one are.
"""

from __future__ import annotations

from engine.request import TextOptions
from engine.text.clean import Cleaner
from engine.text.markup import Markup
from engine.text.passage import Passage
from engine.text.sentences import Sentences


class Reader:
    """Reads one text.

    Args:
        language: code of the sentence splitter (`Language.sentences`).
        options: what is read as markup, and what of it is spoken.
    """

    def __init__(self, language: str, options: TextOptions) -> None:
        self._cleaner = Cleaner(language, options.emoji)
        self._sentences = Sentences(language)
        self._markup = Markup(language, options, self._sentences)

    def push(self, piece: str) -> list[Passage]:
        """The passages that are complete with this piece; any str is one."""
        self._markup.push(self._cleaner.push(piece))
        return self._sentences.taken()

    def end(self) -> list[Passage]:
        """The rest; nothing may be pushed after it."""
        self._markup.push(self._cleaner.end())
        self._markup.end()
        return self._sentences.taken()
