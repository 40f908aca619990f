"""The TOML of a lexicon file: entries and faults, each with its line. Core.

[words]
kubectl = "cube control"        # say it like this
Kokoro = "/kˈOkəɹO/"            # or with these phonemes
US = { say = "us", lang = "en" }

[[entry]]                       # the same, field by field (`engine.request.Pronunciation`)
word = "Polish"
phonemes = "pˈɑlɪʃ"
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, NamedTuple

from engine.request import Pronunciation
from engine.text.lexicon import MAX_ENTRIES, checked

#: lines of one value; what comes after a longer one is told by the line of its section, because
#: finding the end takes time in the square of the lines
_MAX_LINES = 20
_LINE = re.compile(r" \(at (?:line (\d+), column \d+|end of document)\)$")
_FIELDS = frozenset(Pronunciation.__struct_fields__)

#: where a value is: a section, and a word or the number of the entry in it
_Path = tuple[str | int, ...]


class Fault(NamedTuple):
    """What is wrong, as a sentence that quotes no words, and the line of it."""

    line: int
    message: str


class Parsed(NamedTuple):
    """What a file holds: entries as `lexicon.checked` gives them, with their lines."""

    entries: tuple[tuple[int, Pronunciation], ...]
    faults: tuple[Fault, ...]


def parsed(source: str) -> Parsed:
    """The entries of a file that are fit for use, and what is wrong with the others."""
    source = source.replace("\r\n", "\n")
    try:
        table = tomllib.loads(source)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of too many digits
        return Parsed((), (_not_toml(str(error), source),))
    lines = _lines(source)
    entries: list[tuple[int, Pronunciation]] = []
    faults: list[Fault] = []
    first: dict[Pronunciation, int] = {}
    for path, value in _values(table):
        line = lines.get(path) or lines.get(path[:1], 1)
        try:
            entry = _entry(path, value)
            word = entry.word if entry.case == "exact" else entry.word.lower()
            same = Pronunciation(word=word, case=entry.case, lang=entry.lang)
            if first.setdefault(same, line) != line:
                raise ValueError(f"is for the same word as the one in line {first[same]}")
            if len(entries) == MAX_ENTRIES:
                raise ValueError(f"is one too many: the limit is {MAX_ENTRIES}")
            entries.append((line, entry))
        except ValueError as error:
            faults.append(Fault(line, f"The entry {error}."))
    return Parsed(tuple(sorted(entries, key=itemgetter(0))), tuple(sorted(faults)))


def _values(table: dict[str, Any]) -> Iterator[tuple[_Path, Any]]:
    """What should be an entry, and where it is."""
    for name, value in table.items():
        if name == "words" and isinstance(value, dict):
            for word, said in value.items():
                yield (name, word), said
        elif name == "entry" and isinstance(value, list):
            for number, fields in enumerate(value):
                yield (name, number), fields
        else:
            yield (name,), value


def _entry(path: _Path, value: Any) -> Pronunciation:
    if len(path) == 1:
        raise ValueError("is not below a line [words] or [[entry]]")
    word = path[1] if path[0] == "words" else None
    fields: Any = value
    if word is not None and isinstance(value, str):
        sounds = "/" in (value.strip()[:1], value.strip()[-1:])
        fields = {"phonemes" if sounds else "say": value}
    if not isinstance(fields, dict):
        raise ValueError("is not a text in quotes")
    if word is not None:
        if not _FIELDS & set(fields):
            raise ValueError("has a word with a dot in it, which needs quotes around it")
        if "word" in fields:
            raise ValueError("has two words")
        fields = {**fields, "word": word}
    if not set(fields) <= _FIELDS:
        raise ValueError("has a field that is none of word, phonemes, say, case and lang")
    if not all(isinstance(text, str) for text in fields.values()):
        raise ValueError("has a field that is not a text in quotes")
    if fields.get("case", "exact") not in ("exact", "ignore"):
        raise ValueError('has a case that is neither "ignore" nor "exact"')
    return checked(Pronunciation(**{"word": "", **fields}))


def _not_toml(message: str, source: str) -> Fault:
    """What tomllib says, but for the keys that it quotes: they are words here."""
    place = _LINE.search(message)
    line = int(place[1]) if place and place[1] else 1 if not place else source.count("\n") + 1
    reason = message[: place.start()] if place else "Something is too long or too deep"
    if reason.startswith(("Cannot", "Duplicate")):
        reason = "A word or a section is there twice"
    elif "key" in reason:
        reason += "; a word with signs or spaces in it needs quotes around it"
    return Fault(line, f"This is not TOML: {reason[0].lower()}{reason[1:]}.")


def _lines(source: str) -> dict[_Path, int]:
    """The line that each section and each entry of a valid file begins in.

    tomllib does not tell it; but every statement of a file is a file by itself.
    """
    lines: dict[_Path, int] = {}
    inside: _Path = ()
    entries = 0
    pending: list[str] = []
    for number, text in enumerate(source.split("\n"), 1):
        pending.append(text)
        try:
            statement = tomllib.loads("\n".join(pending))
        except ValueError:
            if len(pending) == _MAX_LINES:
                break
            continue
        path: _Path = ()
        value: Any = statement
        while isinstance(value, dict) and value and len(path) < 2:
            key, value = next(iter(value.items()))
            path += (key,)
        if pending[0].lstrip().startswith("["):
            if pending[0].lstrip().startswith("[["):
                path += (entries,)
                entries += path[0] == "entry"
            inside = path
        else:
            path = inside + path
        for length in (1, 2):
            lines.setdefault(path[:length], number + 1 - len(pending))
        pending = []
    return lines
