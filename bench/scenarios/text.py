"""The text front end: start, speed, stalls of the event loop, and texts that try to break it.

A sentence is another one each time, so none is remembered. The stall is how late a task comes that
wants to run every millisecond while a long text is read in the worker thread, as the engine does it.
The texts to break it are readings mutated with a seed: parts repeated, lost, exchanged, mixed with
signs, tags and characters of all scripts. `drift` counts words or warnings whose characters are not
in the text, or not in order.

Ratios, of processor time, the lowest in each round: the start by that of a process with nothing but
spaCy's tagger and misaki; a sentence through all of the front end by G2P alone. By medians: a
character of a broken text by one of a sentence.
"""

from __future__ import annotations

import gc
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import trio

from bench import machine
from bench.ratios import by_round, lows, medians
from bench.report import Options, Report, at_most
from engine.request import TextOptions
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P, SPACY_MODEL
from engine.text.languages import Language
from engine.text.lexicon import Lexicon
from engine.text.reader import Reader
from engine.text.segment import Segment

#: s and MB of a process that only reads English
START_S, START_MB = 2.5, 260
#: ms of a sentence of 200 characters, and how late the loop may be, 99th percentile
SENTENCE_MS, LAG_MS = 12, 15
#: characters of that
SENTENCE = 200
#: s for 1,000 characters of anything (or for less), and for anything
PER_1000_S, MOST_S = 0.2, 2.0

FUZZED = 25_000
#: parts of them, each of which has a ratio, and how many there are for every sentence between them
_PARTS, _TEXTS_A_SENTENCE = 10, 4
READINGS = Path(__file__).parents[2] / "tests" / "data" / "readings.jsonl"

_NOUNS = [
    "garden",
    "river",
    "market",
    "window",
    "letter",
    "summer",
    "teacher",
    "village",
    "kitchen",
    "mountain",
]
_SIGNS = [
    *"*_`~#>|[](){}<>&;:.,!?-—/\\'\"$€%°@=+^0123456789 \n\t\u00a0\u200b\ud83d\u0301",
    "😀", "日本", "мир", "हिन्दी", "مرحبا", "[pause:1s]", "[a](/bˈi/)", "<b>", "</b>", "&amp;", "```\n",
    "https://a.b/c?d=1", "$1.2M", "9:30PM", "2024-03-05", "etc.", "3,497", "XIV", "-" * 40, "a1" * 40,
]  # fmt: skip

_TOLD = """
with open("/proc/self/status") as file:
    kb = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
print(time.perf_counter() - began, kb / 1024, time.process_time())
"""
_START = f"""
import time
began = time.perf_counter()
from engine.request import TextOptions
from engine.text import languages
from engine.text.frontend import TextFrontend
from engine.text.g2p import G2P
from engine.text.lexicon import Lexicon
g2p = G2P()
g2p.load()
english = languages.resolve("en-us", "af_heart")
TextFrontend(g2p).segments("Ready.", english, TextOptions(), Lexicon())
{_TOLD}"""
_START_ALONE = f"""
import time
began = time.perf_counter()
import spacy
from misaki import en
lexicon = en.Lexicon(False)
spacy.load("{SPACY_MODEL}")("Ready.")
{_TOLD}"""


async def run(options: Options) -> Report:
    """One row for each thing measured."""
    options.tell("start")
    pairs = [(_start(_START), _start(_START_ALONE)) for _ in range(min(options.rounds, 3))]
    starts, alone = [own for own, _ in pairs], [other for _, other in pairs]
    g2p = G2P()
    g2p.load()
    frontend = TextFrontend(g2p)
    english = languages.resolve("en-us", "af_heart")
    # Mandarin, Japanese and espeak-ng are loaded when they are first needed, which takes a second.
    frontend.segments("Zorgblatter 我在里 は", english, TextOptions(), Lexicon())
    gc.collect()
    gc.freeze()  # as the engine does
    options.tell("sentences")
    took = _sentences(frontend, g2p, english, 20 * options.rounds, options.seed)
    sentence_ms = statistics.median(took["whole, by the clock"]) * 1000
    options.tell("a long text")
    lags = await _lags(frontend, english, options.rounds, options.seed)
    count = FUZZED // 25 if options.quick else FUZZED
    options.tell(f"{count} texts")
    broken, drift, slowest, worst, of_sentence = _fuzz(frontend, english, count, options.seed)
    values = {
        "start_s": statistics.median(s for s, _, _ in starts),
        "start_mb": statistics.median(mb for _, mb, _ in starts),
        "sentence_ms": sentence_ms,
        "loop_lag_p99_ms": float(np.percentile(lags, 99)),
        "loop_lag_most_ms": max(lags),
        "texts": count,
        "exceptions": broken,
        "drift": drift,
        "most_s": slowest,
        "most_s_per_1000_chars": worst,
    }
    rows = [{"what": what, "value": round(value, 3)} for what, value in values.items()]
    return Report(
        rows=rows,
        document={"machine": machine.record(), "rows": rows},
        notes=[
            at_most("s to start", values["start_s"], START_S),
            at_most("MB then", values["start_mb"], START_MB),
            at_most("ms for 200 characters", sentence_ms, SENTENCE_MS),
            at_most("loop lag p99, ms", values["loop_lag_p99_ms"], LAG_MS),
            at_most("exceptions", broken, 0),
            at_most("drift", drift, 0),
            at_most("s for any text", slowest, MOST_S),
            at_most("s for 1,000 characters", worst, PER_1000_S),
        ],
        ratios={
            "start, s / spaCy and misaki alone": by_round(
                *(lows(each, 1) for each in _nth(2, starts, alone))
            ),
            "start, MB / spaCy and misaki alone": by_round(*_nth(1, starts, alone)),
            "200 characters, front end / G2P alone": by_round(
                *(lows(took[way], options.rounds) for way in ("whole", "alone"))
            ),
            "a character of a broken text / of a sentence": of_sentence,
        },
    )


def _nth(at: int, *found: list[tuple[float, float, float]]) -> list[list[float]]:
    return [[one[at] for one in each] for each in found]


def _start(program: str) -> tuple[float, float, float]:
    """Seconds and MB of a process, and seconds of the processor."""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    seconds, mb, processor_s = map(float, told.stdout.split())
    return seconds, mb, processor_s


def made(chance: random.Random, chars: int) -> str:
    """A text of so many characters, or one or two less, in which hardly a sentence comes twice."""
    text = ""
    while len(text) < chars:
        one, two, three = chance.sample(_NOUNS, 3)
        text += (
            f"The {one} near the {two} was {chance.randint(2, 999)} years older than the {three}"
        )
        text += chance.choice((", and ", ". ", "; "))
    return text[: chars - 1].rstrip() + "."


def _sentences(
    frontend: TextFrontend, g2p: G2P, language: Language, count: int, seed: int
) -> dict[str, list[float]]:
    """Processor seconds of each sentence, through the whole front end and through G2P alone."""
    chance = random.Random(seed)
    took: dict[str, list[float]] = {"whole": [], "alone": [], "whole, by the clock": []}
    for number in range(count):
        text = made(chance, SENTENCE)
        ways: dict[str, Callable[[], object]] = {
            "whole": partial(frontend.segments, text, language, TextOptions(), Lexicon()),
            "alone": partial(g2p.pieces, text, language),
        }
        for name in sorted(ways, reverse=bool(number % 2)):
            began, began_s = time.process_time(), time.perf_counter()
            ways[name]()
            took[name].append(time.process_time() - began)
            if name == "whole":
                took["whole, by the clock"].append(time.perf_counter() - began_s)
    return took


async def _lags(frontend: TextFrontend, language: Language, rounds: int, seed: int) -> list[float]:
    lags: list[float] = []

    async def tick() -> None:
        while True:
            due = trio.current_time() + 0.001
            await trio.sleep_until(due)
            lags.append((trio.current_time() - due) * 1000)

    chance = random.Random(seed + 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(tick)
        for _ in range(rounds):
            reader, text = Reader(language.sentences, TextOptions()), made(chance, 5000)
            for piece in (*(text[at : at + 256] for at in range(0, len(text), 256)), None):
                work = reader.end if piece is None else partial(reader.push, piece)
                for passage in await trio.to_thread.run_sync(work):
                    await trio.to_thread.run_sync(
                        frontend.read, passage, language, TextOptions(), Lexicon()
                    )
        nursery.cancel_scope.cancel()
    return lags


def _fuzz(
    frontend: TextFrontend, language: Language, count: int, seed: int
) -> tuple[int, int, float, float, list[float]]:
    """Exceptions, drifts, the most seconds, the most for 1,000 characters, and one by a sentence's.

    The last are ratios of medians, in processor time, of ten parts of the texts; between these there
    are sentences.
    """
    broken = drift = 0
    slowest = worst = 0.0
    per_char: list[float] = []
    sentence: list[float] = []
    chance = random.Random(seed + 3)
    for number, text in enumerate(_texts(count, seed)):
        if number % _TEXTS_A_SENTENCE == 0:
            plain = made(chance, SENTENCE)
            began = time.process_time()
            frontend.segments(plain, language, TextOptions(), Lexicon())
            sentence.append((time.process_time() - began) / SENTENCE)
        began, began_s = time.process_time(), time.perf_counter()
        try:
            segments = frontend.segments(text, language, TextOptions(), Lexicon())
        except Exception as error:  # that is what is counted
            broken += 1
            print(f"{type(error).__name__} for {text[:200]!r}", file=sys.stderr)
            continue
        took = time.perf_counter() - began_s
        slowest, worst = max(slowest, took), max(worst, took * 1000 / max(1000, len(text)))
        per_char.append((time.process_time() - began) / max(1, len(text)))
        drift += _drifts(text, segments)
    parts = (medians(values, _PARTS) for values in (per_char, sentence))
    return broken, drift, slowest, worst, by_round(*parts)


def _texts(count: int, seed: int) -> Iterator[str]:
    chance = random.Random(seed + 2)
    known = [json.loads(line)["text"] for line in READINGS.read_text("utf-8").splitlines()]
    for _ in range(count):
        parts = [chance.choice(known) for _ in range(chance.randint(1, 4))]
        text = chance.choice(("", " ", "\n", "\n\n")).join(parts)
        for _ in range(chance.randint(0, 6)):
            at, to = sorted(chance.choices(range(len(text) + 1), k=2))
            change = chance.random()
            if change < 0.4:
                text = text[:at] + chance.choice(_SIGNS) * chance.choice((1, 1, 2, 30)) + text[at:]
            elif change < 0.6:
                text = text[:at] + text[min(to, at + 8) :]
            elif change < 0.8:
                text = text[:at] + text[at:to] * 2 + text[to:]
            else:
                text = (
                    text[:at] + "".join(map(chr, chance.choices(range(1, 0x3100), k=4))) + text[at:]
                )
        yield text[:4000]


def _drifts(text: str, segments: list[Segment]) -> int:
    drift, at = 0, 0
    for segment in segments:
        ok = at <= segment.start <= segment.end <= len(text)
        ok = ok and segment.text == text[segment.start : segment.end]
        char, phoneme = segment.start, 0
        for word in segment.words:
            ok = ok and char <= word.char_start <= word.char_end <= segment.end
            ok = ok and phoneme <= word.phoneme_start < word.phoneme_end <= len(segment.phonemes)
            char, phoneme = word.char_end, word.phoneme_end
        ok = ok and all(0 <= w.start <= w.end <= len(text) for w in segment.warnings)
        drift += not ok
        at = segment.end
    return drift
