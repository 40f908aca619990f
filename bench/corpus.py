"""Texts for training and for held-out measurements: real ones of Debian's fortunes, and made ones.

Nothing of it is committed: a seed makes the same list on every machine that has the packages
`fortunes`, `fortunes-es`, `fortunes-it` and `fortunes-br`.
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from sentencex import segment

from engine.errors import SetupError
from engine.request import TextOptions
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.lexicon import Lexicon

FORTUNES = Path("/usr/share/games/fortunes")

_ENGLISH = """
    fortunes literature riddles people platitudes wisdom work science food education definitions
    humorists law love medicine men-women miscellaneous news sports startrek translate-me pets
    politics cookie
"""
#: files of other languages, by the first letter of the voices that speak them
_OTHERS = {
    "e": ["es/*.fortunes"],
    "i": ["formiche", "leggi", "luttazzi", "italia"],
    "p": ["brasil"],
}

_SHORT = (
    "Yes|No|Okay|Hi there|Thank you|Good morning|Chapter one|Not now|Why not? Come in|"
    "Wait! Really? Of course|See you soon|Watch out! I know|Never mind|Pan Am|Say it back|"
    "Turn left|Open the door|One moment, please."
)
_NAMES = ["Anna", "Tom", "Maria", "James", "Olivia", "Sam", "Nora", "Leo"]
_DIALOGUE = (
    '"Where are you going?" asked {}. "Home," said {}.',
    '"Listen, {}," {} whispered, "we have to go now!"',
    '{} laughed. "You can\'t be serious," said {}, and closed the door.',
)
_SPEEDS = (1.0, 1.0, 1.0, 0.8, 0.9, 1.1, 1.25, 1.5)


class Job(msgspec.Struct, frozen=True):
    """An utterance: what, who, how fast; `held_out` is decided by the text alone."""

    text: str
    phonemes: str
    voice: str
    speed: float
    held_out: bool


def jobs(count: int, voices: list[str], frontend: TextFrontend, seed: int) -> Iterator[Job]:
    """Utterances of all voices in turn; a loaded `frontend` reads them.

    Raises:
        SetupError: the packages are not installed.
    """
    if sentence := lacks():
        raise SetupError(sentence)
    chance = random.Random(seed)  # the same list every time, not a secret
    english = _texts(FORTUNES / name for name in _ENGLISH.split())
    others = {
        first: _texts(path for name in names for path in sorted(FORTUNES.glob(name)))
        for first, names in _OTHERS.items()
    }
    for number in range(count):
        voice = voices[number % len(voices)]
        kind = chance.random()
        own = others.get(voice[0])
        if own and chance.random() < 0.5:
            text, language = _real(own, kind, chance), languages.of_voice(voice)
        else:
            tag = "en-gb" if voice[0] == "b" else "en-us"
            text, language = _made(english, kind, chance), languages.resolve(tag, voice)
        read = frontend.segments(text, language, TextOptions(), Lexicon())
        phonemes = " ".join(segment.phonemes for segment in read)
        if 2 <= len(phonemes) <= 240:
            held_out = zlib.crc32(text.encode()) % 8 == 0
            yield Job(text, phonemes, voice, chance.choice(_SPEEDS), held_out)


def lacks() -> str | None:
    """A sentence about what this machine lacks for that; None if it has all."""
    by_language = (_ENGLISH.split(), *_OTHERS.values())
    if all(any(any(FORTUNES.glob(name)) for name in names) for names in by_language):
        return None
    return "Install the packages fortunes, fortunes-es, fortunes-it, fortunes-br."


def _texts(paths: Iterable[Path]) -> list[str]:
    found: set[str] = set()
    for path in paths:
        if not path.is_file():
            continue
        for item in path.read_text("utf-8", "ignore").split("\n%\n"):
            # Overstrikes, and who said it.
            text = " ".join(re.sub(r"\x08.|--.*", "", item, flags=re.S).split())
            if len(re.findall(r"[^\w\s.,;:!?'\"()-]", text)) <= 0.02 * len(text):
                sentences = (sentence.strip() for sentence in segment("en", text))
                found.update(sentence for sentence in sentences if 2 < len(sentence) < 330)
    return sorted(found)


def _made(texts: list[str], kind: float, chance: random.Random) -> str:
    if kind < 0.08:
        return chance.choice(_SHORT.split("|"))
    if kind < 0.14:
        return _numbers(chance)
    if kind < 0.20:
        names = chance.sample(_NAMES, 2)
        return chance.choice(_DIALOGUE).format(*names)
    return _real(texts, kind, chance)


def _real(texts: list[str], kind: float, chance: random.Random) -> str:
    if kind < 0.32:
        return " ".join(chance.sample(texts, chance.randrange(2, 5)))
    if 0.32 <= kind < 0.45:  # a few words out of a sentence
        words = chance.choice(texts).split()
        count = chance.randrange(1, 9)
        start = chance.randrange(max(1, len(words) - count))
        return " ".join(words[start : start + count])
    return chance.choice(texts)


def _numbers(chance: random.Random) -> str:
    which, number = chance.randrange(6), chance.randrange
    return [
        f"It costs {number(2, 900)} dollars.",
        f"The year was {number(1700, 2030)}.",
        f"Page {number(1, 90)} of {number(90, 400)}.",
        f"Call {number(10, 99)}, {number(100, 999)}, {number(10, 99)}.",
        f"{number(2, 99)} percent of {number(100, 9000)} people agreed.",
        f"At {number(1, 12)} thirty, {number(2, 60)} cars arrived.",
    ][which]
