"""Character references, and tags of HTML and SSML. Core."""

from __future__ import annotations

import html
from typing import Any

import regex  # type: ignore[import-untyped]  # it ships no types

from engine.request import TextOptions
from engine.text import tags
from engine.text.clean import cleaned
from engine.text.heard import Heard
from engine.text.scan import Scan
from engine.text.sentences import Sentences, Stop
from engine.text.spanned import Span

#: elements and comments that are not spoken are looked for so far; else the tag alone goes
RAW_CHARS = 20_000
#: `<lang>` inside `<lang>`; deeper ones are ignored
MAX_DEPTH = 50

# Neither matches the beginning of what it could match: see `Scan.match`.
_SAME_AGAIN = regex.compile(r"\s{0,9}+<s[ >]")
#: what belongs to a tag that a flush has cut
_REST_OF_TAG = regex.compile(r"[^<>\n]{0,500}+(?:>|(?=[<\n]|\Z))")

_NUMBERS = frozenset(["cardinal", "number", "ordinal"])
_DIGIT = regex.compile(r"\d")


class Elements(Heard):
    """Reads what begins with `<` or `&`."""

    def __init__(
        self, language: str, options: TextOptions, sentences: Sentences, scan: Scan
    ) -> None:
        super().__init__(language, options, sentences, scan)
        self._speak = 0  # elements that are open
        self._tongues: list[str | None] = []  # languages of the elements that are open

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
