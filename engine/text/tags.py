"""Tags in angle brackets and `[pause:…]`: what they are and what they ask for. Core.

No XML parser sees the text: a tag is what a bounded pattern says it is, and only the character
references that HTML names are resolved.
"""

from __future__ import annotations

import html
import unicodedata
from typing import NamedTuple

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.text.alphabet import SYMBOLS, known

#: no pause that a text asks for is longer
MAX_PAUSE_MS = 10_000.0

_NAME = r"[A-Za-z][A-Za-z0-9:._-]{0,30}+"
_VALUE = r"""(?:"[^"<]{0,500}+"|'[^'<]{0,500}+'|[^\s"'=<>`]{1,300}+)"""
_ATTRIBUTE = rf"(?P<key>[A-Za-z_:][\w:.-]{{0,40}}+)(?:\s{{0,9}}+=\s{{0,9}}+(?P<value>{_VALUE}))?"
TAG = regex.compile(
    rf"<(?P<close>/?)(?P<name>{_NAME})"
    rf"(?P<attributes>(?:\s{{1,9}}+{_ATTRIBUTE}){{0,20}}+)\s{{0,9}}+(?P<empty>/?)>"
)
_ATTRIBUTES = regex.compile(_ATTRIBUTE)
LITERAL = regex.compile(r"<!\[CDATA\[(?P<text>[^\n]{0,1000}?)\]\]>")
AUTOLINK = regex.compile(
    r"<(?P<text>[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]{1,1000}|[\w.+-]{1,64}@[\w.-]{1,255})>"
)
DECLARATION = regex.compile(r"<(?:!(?i:doctype)\b|\?(?i:xml)\b)[^<>]{0,500}+>")
COMMENT = regex.compile(r"<!--")
COMMENT_END = regex.compile(r"-->")
#: what ends the content that is not spoken of an element
RAW_END = {
    name: regex.compile(rf"</{name}\s{{0,9}}>", regex.IGNORECASE)
    for name in ("script", "style", "pre")
}
#: the content without tags of an element, and its end
CONTENT = {
    name: regex.compile(rf"(?P<content>[^<]{{0,300}}+)</{name}\s{{0,9}}>", regex.IGNORECASE)
    for name in ("sub", "say-as", "phoneme")
}
#: of a known tag that has no end on its line
UNFINISHED = regex.compile(
    rf"</?(?P<name>{_NAME})(?=[ ]{{1,9}}+[\w:.-]{{1,40}}+=)"
    rf"(?:[ ]{{1,9}}+[\w:.-]{{1,40}}+={_VALUE}){{0,20}}+"
    r"""(?:[ ]{1,9}+[\w:.-]{1,40}+=["'][^"'<>\n]{0,500}+|[ ]{0,9}+/?)(?=[\n<]|\Z)"""
)
COMMENT_LINE = regex.compile(r"<!--[^\n]{0,2000}+")
#: what the reader has to fill in: "<your name>"
PLACEHOLDER = regex.compile(r"<(?P<text>[A-Za-z][\w'’-]{0,40}+(?:[ ][\w'’-]{1,40}+){1,8}+)>")
#: types of a type, as in "Map<String, int>"
GENERIC = regex.compile(r"<(?P<text>[A-Za-z][\w.:]{0,40}+(?:,[ ]?[A-Za-z][\w.:]{0,40}+){0,4}+)>")
ENTITY = regex.compile(r"&(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
PAUSE = regex.compile(r"(?i)\[[ ]{0,4}pause[ ]{0,4}[:=](?P<value>[^\[\]\n]{0,60})\]")
#: what people write for it, and is reported
NO_PAUSE = regex.compile(r"(?i)\[[ ]{0,4}pause[ ]{1,4}[0-9.][^\[\]\n]{0,20}\]")
_TIME = regex.compile(
    r"(?i)\s*\+?(?P<number>[0-9]{1,9}(?:\.[0-9]{0,9})?|\.[0-9]{1,9})\s*(?P<unit>ms|s|sec)?\s*"
)

#: elements that stand apart from what is before and after them
_PARAGRAPHS = """
    p div pre h1 h2 h3 h4 h5 h6 li ul ol dl dt dd table section article header footer main aside nav
    blockquote hr figure figcaption form fieldset details summary body html head title
"""
PARAGRAPHS = frozenset(_PARAGRAPHS.split())
LINES = frozenset(["br", "tr"])
CELLS = frozenset(["td", "th"])
#: elements of HTML that change nothing that is heard
_INLINE = """
    a abbr b bdi bdo big center cite code data del dfn em font i img ins kbd label link meta
    picture q ruby rb rp rt s samp small source span strike strong sub sup svg tbody tfoot thead
    time tt u var wbr speak say-as phoneme lang break
"""
#: elements of SSML and HTML that change what is heard, but not here
_UNSUPPORTED = """
    voice prosody emphasis audio mark amazon:effect mstts:express-as video iframe object
"""
UNSUPPORTED = frozenset(_UNSUPPORTED.split())
KNOWN = PARAGRAPHS | LINES | CELLS | UNSUPPORTED | frozenset(_INLINE.split()) | frozenset(RAW_END)

#: SSML leaves the strengths to the speaker: a comma's, a clause's, a sentence's pause, and more
_STRENGTH_MS = {
    "none": 0.0, "x-weak": 100.0, "weak": 200.0, "medium": 400.0, "strong": 700.0,
    "x-strong": 1000.0,
}  # fmt: skip

#: International Phonetic Alphabet as others write it -> the model's alphabet, longest first
_IPA = (
    ("t͡ʃ", "ʧ"), ("d͡ʒ", "ʤ"), ("tʃ", "ʧ"), ("dʒ", "ʤ"), ("eɪ", "A"), ("aɪ", "I"), ("ɔɪ", "Y"),
    ("oʊ", "O"), ("əʊ", "Q"), ("aʊ", "W"), ("ɝ", "ɜɹ"), ("g", "ɡ"), ("r", "ɹ"), ("'", "ˈ"),
)  # fmt: skip
#: what is in the address of a link, but not in a pronunciation
_ADDRESS = regex.compile(r"[0-9_.#?=&%~-]")
#: a word in plain letters between slashes is a place on a site more often than a pronunciation
_PATH = regex.compile(r"[A-Z]*[a-z]*")

#: what `<say-as>` asks for that numbers and letters say by themselves
_READ_AS = """
    cardinal number ordinal date time duration fraction unit currency address name
"""
READ_AS = frozenset(_READ_AS.split())
SPELLED = frozenset(["characters", "spell-out", "digits", "verbatim", "telephone"])


class Pause(NamedTuple):
    """A pause that is asked for.

    Attributes:
        ms: 0…10,000.
        cut: whether a longer one was asked for.
    """

    ms: float
    cut: bool


def pause(value: str, unit: float = 1000.0) -> Pause | None:
    """Reads "1.5s", "500 ms" or "1"; None if it is no time.

    Args:
        value: as written.
        unit: milliseconds that a number without a unit counts.
    """
    found = _TIME.fullmatch(value)
    if not found:
        return None
    factor = {"ms": 1.0, "": unit}.get((found["unit"] or "").lower(), 1000.0)
    ms = float(found["number"]) * factor
    return Pause(min(ms, MAX_PAUSE_MS), ms > MAX_PAUSE_MS)


def break_pause(attributes: dict[str, str]) -> Pause | None:
    """What `<break>` asks for; None if it cannot be read."""
    if "time" in attributes:
        return pause(attributes["time"])
    ms = _STRENGTH_MS.get(attributes.get("strength", "medium").lower())
    return None if ms is None else Pause(ms, cut=False)


def attributes_of(written: str) -> dict[str, str]:
    """Names in lower case, values without quotes and with their character references resolved."""
    return {
        found["key"].lower(): html.unescape((found["value"] or "").strip("\"'"))
        for found in _ATTRIBUTES.finditer(written)
    }


def has_bare_names(written: str) -> bool:
    """Whether there is an attribute without a value, as in "<your name>" or "a<b and c>d"."""
    return any(found["value"] is None for found in _ATTRIBUTES.finditer(written))


def is_pronunciation(written: str) -> bool:
    """Whether it is phonemes between slashes, not an address such as "/docs_2/" or "/docs/".

    Phonemes have a stress mark, a space, a letter beyond a…z, or a capital behind a small one.
    """
    return not (_ADDRESS.search(written) or (written and _PATH.fullmatch(written)))


def phonemes(written: str, alphabet: str = "") -> tuple[str, bool]:
    """Phonemes of the model's alphabet, and whether all that is written is in them.

    Args:
        written: as the user gave them.
        alphabet: "ipa" if they are as dictionaries write them; else they are the model's own.
    """
    plain = " ".join(written.split())
    if alphabet == "ipa":
        for sign, symbol in _IPA:
            plain = plain.replace(sign, symbol)
    composed = unicodedata.normalize("NFC", plain)
    # a tilde on a vowel is a symbol of its own here, but not the cedilla of ç
    symbols = "".join(s if s in SYMBOLS else unicodedata.normalize("NFD", s) for s in composed)
    return known(symbols).strip(), known(symbols) == symbols
