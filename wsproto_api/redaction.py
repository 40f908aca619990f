"""Takes out of messages what nobody but their sender should read. Core.

Works on the JSON text as it came and changes nothing but characters inside of strings, so that
everything else stays as it was: order, blanks, fields that nobody knows.

Redacted text has as many code points as before: letters are `x` or `X`, digits are `0`, and blanks,
punctuation and signs stay. So offsets into it stay right, and what goes wrong with sentences and
numbers can still be seen. Fields with text are known by name; whatever stands in fields and messages
that this version does not know is taken for text. A token becomes `redacted`, always.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from . import messages
from .errors import RemoteProtocolError
from .messages import Unknown, Vocabulary

#: what is spoken, under whatever message; `word` and `say` are of a lexicon
TEXT_FIELDS = frozenset({"text", "text_spoken", "text_remaining", "phonemes", "word", "say"})

#: what stays in a message of a type that is not known
_ENVELOPE = frozenset({"type", "id", "reply_to", "code"})

_TOKEN = "token"  # noqa: S105 - a field's name, not a password
_REPLACED = "redacted"

# A string, or what nests and separates. Between them only numbers, `true`, `null` and blanks.
_PARTS = re.compile(r'"((?:[^"\\]|\\.)*)"|([{}\[\]:,])', re.DOTALL)

# One code point each: two escapes that are a surrogate pair, an escape, or a character.
_UNITS = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|\\u[0-9a-fA-F]{4}|\\.|.",
    re.DOTALL,
)


def redact(text: str, vocabulary: Vocabulary, *, keep_text: bool) -> str:
    """A text message without tokens, and without what is spoken.

    Args:
        text: the message as it came, JSON or not.
        vocabulary: what its sender may say.
        keep_text: whether only tokens go.
    """
    try:
        kind = messages.decode(text, {}).message
    except RemoteProtocolError:
        # No JSON, or no message: any of it may be text, or a token that cannot be found.
        if keep_text and _TOKEN not in _unescaped(text).casefold():
            return text
        return "".join(map(_mask, text))
    assert isinstance(kind, Unknown)  # nothing is known to no vocabulary
    struct = vocabulary.get(kind.type)
    known = {"type", *struct.__struct_fields__} if struct is not None else _ENVELOPE
    pieces: list[str] = []
    end = 0
    for start, stop, path in _strings(text):
        inside = text[start:stop]
        if _TOKEN in path:
            inside = _REPLACED
        elif not keep_text and (path[0] not in known or TEXT_FIELDS.intersection(path)):
            inside = masked(inside)
        pieces += [text[end:start], inside]
        end = stop
    return "".join([*pieces, text[end:]])


def masked(text: str) -> str:
    """The text with its letters and digits replaced; escapes of JSON count as what they mean."""
    return "".join(_mask(unit[0]) for unit in _UNITS.finditer(text))


def _mask(unit: str) -> str:
    character = _meant(unit)
    category = unicodedata.category(character)
    if category in ("Lu", "Lt"):
        return "X"
    # Marks belong to letters. Surrogates are half a character and mean nothing.
    if category[0] in "LM" or category == "Cs":
        return "x"
    return "0" if category[0] == "N" else unit


def _meant(unit: str) -> str:
    """The character that a unit stands for; of short escapes only that it is no letter."""
    if len(unit) == 12:
        high, low = int(unit[2:6], 16), int(unit[8:], 16)
        return chr(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00))
    if len(unit) == 6:
        return chr(int(unit[2:], 16))
    return unit if len(unit) == 1 else unit[0]


def _unescaped(text: str) -> str:
    return "".join(_meant(unit[0]) for unit in _UNITS.finditer(text))


def _strings(text: str) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Where the strings of a JSON object are that are values, and the names that lead to each."""
    path: list[str] = []  # a name per object that is open, "" per list
    objects: list[bool] = []
    is_name = False
    for part in _PARTS.finditer(text):
        match part[2]:
            case "{":
                objects.append(True)
                path.append("")
                is_name = True
            case "[":
                objects.append(False)
                path.append("")
                is_name = False
            case "}" | "]":
                objects.pop()
                path.pop()
                is_name = False
            case ",":
                is_name = objects[-1]
            case ":":
                is_name = False
            case _ if is_name:
                path[-1] = _unescaped(part[1])
            case _:
                yield part.start(1), part.end(1), tuple(path)
