"""What the text front end makes of a text, as data: for `--explain`, bug reports and the page.

Shell: it measures how long the stages take.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from engine import timing
from engine.config import Settings
from engine.request import TextOptions
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.languages import Language
from engine.text.lexicon import Lexicon
from engine.text.lexicon_file import LexiconFile
from engine.text.passage import Warn
from engine.text.segment import Segment


def explain(
    settings: Settings, text: str, language: Language, options: TextOptions
) -> dict[str, Any]:
    """Loads a front end and tells what it makes of a text; see `explained`. Blocking."""
    began = perf_counter()
    g2p = G2P(settings.g2p)
    g2p.load()
    lexicon = LexiconFile(settings.lexicon, perf_counter).current()
    loaded = perf_counter()
    told = explained(TextFrontend(g2p), text, language, options, lexicon)
    told["timings_ms"] = {
        "load": round((loaded - began) * 1000, 1),
        "read": round((perf_counter() - loaded) * 1000, 1),
    }
    return told


def explained(
    frontend: TextFrontend, text: str, language: Language, options: TextOptions, lexicon: Lexicon
) -> dict[str, Any]:
    """The segments of a text, and what is not spoken of it.

    Args:
        frontend: its G2P is loaded.
        text: the original; offsets are in code points.
        language: to read it in.
        options: of the request.
        lexicon: the user's pronunciations.

    Returns:
        `segments`: for each the text and its place, the words that are said (`spoken`), their
        phonemes, the pause before it in ms, and `spans`, one [first phoneme, one past the last,
        first character, one past the last] for every word. `warnings`: code, place and message.
    """
    segments = frontend.segments(text, language, options, lexicon)
    spoken = [segment for segment in segments if segment.phonemes]
    warnings = [warning for segment in segments for warning in segment.warnings]
    if not spoken:
        message = "The text holds nothing that can be spoken."
        warnings.append(Warn("nothing_to_speak", 0, len(text), message))
    return {
        "segments": [_segment(segment, options) for segment in spoken],
        "warnings": [
            {"code": code, "char_start": start, "char_end": end, "message": message}
            for code, start, end, message in warnings
        ],
    }


def _segment(segment: Segment, options: TextOptions) -> dict[str, Any]:
    pause = timing.pause_ms(segment.pause, scale=options.pause_scale)
    return {
        "text": segment.text,
        "char_start": segment.start,
        "char_end": segment.end,
        "spoken": segment.spoken,
        "phonemes": segment.phonemes,
        "pause_ms": max(pause, segment.silence_ms),
        "spans": [
            [word.phoneme_start, word.phoneme_end, word.char_start, word.char_end]
            for word in segment.words
        ],
    }
