"""Addresses, file names and identifiers: what is written for machines and read by people. Core."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from engine.text.normal.rules import Match, Rule, alternatives, rule

Urls = Literal["short", "full", "skip"]

#: parts of a path that are read in short, and how long one may be: enough to know the page by
MAX_PARTS = 2
_READABLE = re.compile(r"[^\W\d_][\w.~-]{0,23}")

#: top-level domains that are also understood without a scheme before them
_DOMAINS = """
    com org net io dev ai app edu gov mil int co uk de fr es eu ca au jp cn nl se br info biz tv gg
    xyz tech online site store blog cloud it ch pt
"""
_EXTENSIONS = """
    md py js ts tsx jsx json txt csv tsv pdf png jpg jpeg gif svg webp toml yaml yml html htm css
    cpp hpp rs go sh bat exe zip tar gz bz2 xz 7z mp3 mp4 wav flac ogg opus avi mov doc docx xls
    xlsx ppt pptx xml sql ini cfg conf log rb php java kt swift ipynb onnx bin dll so lock env
"""
#: what may end an address but is the sentence's
_TAIL = ".,;:!?…)'\""
_TOKEN = re.compile(r"[^\W_]+|[\W_]")


@dataclass(frozen=True, slots=True)
class Signs:
    """How the signs of addresses are called.

    Attributes:
        names: by sign; `.` `/` `@` `#` at least. What has no name is a space.
        hashtag: what is said before the words of one.
    """

    names: Mapping[str, str]
    hashtag: str

    def words(self, text: str) -> str:
        """Every part of it, and every sign that has a name."""
        return " ".join(
            part if part.isalnum() else self.names.get(part, "") for part in _TOKEN.findall(text)
        )


def split_camel(text: str) -> str:
    """`getElementById` as words."""
    return re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)


def web(signs: Signs, urls: Urls) -> tuple[Rule, ...]:
    """Rules for addresses; they come first, for dots and digits of an address are its own.

    Args:
        signs: of the language.
        urls: "short" is the host and what can be read of its path, "full" every part, "skip"
            nothing.
    """

    def url(match: Match) -> str:
        address = match[0].rstrip(_TAIL)
        return _address(address, signs, urls) + match[0][len(address) :]

    def email(match: Match) -> str:
        return f" {signs.words(match[1])} {signs.names['@']} {signs.words(match[2])}"

    def path(match: Match) -> str:
        name = match[0].rstrip(".")
        return f" {signs.words(name)}" + match[0][len(name) :]

    def file(match: Match) -> str:
        return _plain(match[0], signs)

    dot = signs.names["."]
    return (
        rule(r"(?<=://)[^\s/@]++@", "", "@"),  # a password is never spoken
        rule(r"(?<![\w.+%-])(?:mailto:)?([\w.+%-]++)@((?:[\w-]++\.)+[\w-]++)", email, "@"),
        rule(r"(?<![\w@])(?:(?:https?|ftp|wss?|file)://|www\.)[^\s<>\"“”]++", url, ":.", re.I),
        rule(
            rf"(?<![\w@.:/-])(?:[^\W_][\w-]{{0,62}}\.)+(?:{alternatives(_DOMAINS.split())})"
            r"(?![\w-]|\.\w)(?::\d++)?(?:/[^\s<>\"“”]*+)?",
            url,
            ".",
        ),
        rule(
            r"(?<![\w@./])@([^\W_]\w*+)",
            lambda match: f"{signs.names['@']} {split_camel(match[1])}",
            "@",
        ),
        rule(  # a colour
            r"(?<![\w#&/])#(?=\d{0,5}[a-fA-F])(?=[a-fA-F]{0,5}\d)([\da-fA-F]{6})(?!\w)",
            lambda match: f"{signs.names['#']} {' '.join(match[1].upper())}",
            "#",
        ),
        rule(
            r"(?<![\w#&/])#((?!\d++(?:st|nd|rd|th)?\b)\w++)",
            lambda match: f"{signs.hashtag} {split_camel(match[1])}",
            "#",
        ),
        rule(r"(?<![^\s(\"“'=,:])(?:~|\.\.?)?(?:/[\w.@+-]++)+/?", path, "/"),
        rule(
            rf"(?<![\w.-])[\w-]++(?:\.[\w-]++)*\.(?i:{alternatives(_EXTENSIONS.split())})(?!\w|\.\w)",
            file,
            ".",
        ),
        # .NET, .gitignore
        rule(r"(?<![^\s(\"“'=,:])\.(?=[^\W\d_]{2})", f"{dot} ", "."),
    )


def _address(address: str, signs: Signs, urls: Urls) -> str:
    if urls == "skip":
        return ""
    if urls == "full":
        return signs.words(address)
    address = re.sub(r"\A(?:\w+://)?(?:www\.)?", "", address, flags=re.I)
    host, _, rest = re.split(r"[?#]", address, maxsplit=1)[0].partition("/")
    parts = [signs.words(host)]
    for part in rest.split("/")[:MAX_PARTS]:
        if not _READABLE.fullmatch(part):
            break
        parts.append(_plain(part, signs))
    return f" {signs.names['/']} ".join(parts)


def _plain(name: str, signs: Signs) -> str:
    """A name with its dots spoken and what joins its words a space."""
    return re.sub("[-_~]", " ", name).replace(".", f" {signs.names['.']} ")
