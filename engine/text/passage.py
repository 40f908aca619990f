"""What the reader gives: a sentence, a heading, a list item, with what was asked for in it. Core.

Everything beside the text is addressed by characters of the original, so that it keeps its place
whatever the text becomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from engine.text.spanned import Spanned
from engine.text.words import Word


class Say(NamedTuple):
    """Characters that are pronounced as the user wrote: phonemes of the model's alphabet."""

    start: int
    end: int
    phonemes: str


class Tongue(NamedTuple):
    """Characters that the user marked as another language: a tag such as `fr-fr`, as written."""

    start: int
    end: int
    tag: str


class Warn(NamedTuple):
    """Characters that are not spoken as they were written, and why."""

    code: str
    start: int
    end: int
    message: str


class Silence(NamedTuple):
    """A pause that the text asks for, before the character `at`."""

    at: int
    ms: float


class Break(Enum):
    """What is between a passage and the one before it, besides the marks."""

    NONE = "none"
    PARAGRAPH = "paragraph"  # a blank line, a heading, a list item …


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of text that is read in one go; passages of a text are in order, without overlap.

    Attributes:
        start: first character in the original.
        end: one past the last.
        text: cleaned, without markup; it may be empty (marks alone, a pause, a table that is
            skipped).
        before: what separates it from the passage before.
        says: pronunciations, in order.
        tongues: other languages, in order.
        silences: pauses asked for, in order.
        warnings: what is not spoken, in order.
    """

    start: int
    end: int
    text: Spanned
    before: Break = Break.NONE
    says: tuple[Say, ...] = ()
    tongues: tuple[Tongue, ...] = ()
    silences: tuple[Silence, ...] = ()
    warnings: tuple[Warn, ...] = ()


class Reading(NamedTuple):
    """What a passage becomes.

    Attributes:
        words: in order, with offsets into the original; none if there is nothing to speak.
        warnings: what is not spoken as it was written, in order.
    """

    words: list[Word]
    warnings: list[Warn]
