"""Text to passages, as it comes in. Core.

Cleaner, markup and sentences in a row. None of them decides by more than a bounded number of
characters that follow, so the passages do not depend on how the text was cut, and a sentence is
there as soon as `sentences.LOOKAHEAD` characters of the next one are.

Text that comes live may be wanted sooner: a flush ends what is there, whatever follows; a text that
has waited too long is settled, that is cut where no word, number or markup can go on.
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

    @property
    def holds(self) -> bool:
        """Whether something is held that can be spoken, so that `settle` may give it."""
        return self._sentences.holds or self._markup.holds(self._cleaner.held)

    def flush(self) -> list[Passage]:
        """What was pushed, as if it ended here; more may follow.

        It is read on where it stopped: in its block of code, its language, its line. Signs and
        markup that say nothing yet wait for the text that they belong to.
        """
        self._markup.push(self._cleaner.flush())
        self._markup.flush()
        return self._sentences.taken()

    def settle(self) -> list[Passage]:
        """What can be spoken without the rest of its sentence; the last word is mostly kept."""
        self._markup.push(self._cleaner.settle())
        self._markup.settle(self._cleaner.held)
        return self._sentences.taken()

    def end(self) -> list[Passage]:
        """The rest; nothing may be pushed after it."""
        self._markup.push(self._cleaner.end())
        self._markup.end()
        return self._sentences.taken()
