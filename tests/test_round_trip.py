"""Text to speech and back: the real model speaks, pocketsphinx listens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from bench.transcribe import aligned, ends_heard, transcribe, word_errors
from engine.audio import SAMPLE_RATE, is_audible
from engine.request import Marks, SegmentDone, SegmentStart, SpeechRequest
from engine.service import KokoroService
from engine.text.segment import HARD_LIMIT
from tests.support.reading import Heard, hear

#: kind, text, and the words that are to be heard, which a recogniser with an everyday language
#: model knows
SPOKEN = [
    line.replace("\\n", "\n").replace("\\t", "    ").split("\t")
    for line in (Path(__file__).parent / "data" / "spoken.tsv").read_text().splitlines()
    if not line.startswith("#")
]
#: American, like the recogniser: it hears British vowels as other words
VOICES = ("af_heart", "am_michael", "af_bella")


@pytest.fixture(scope="module")
def spoken(real_service: KokoroService) -> list[Heard]:
    """All of it, by three voices in turn."""

    async def speak() -> list[Heard]:
        return [
            await hear(
                real_service, SpeechRequest(text=text, voice=VOICES[n % len(VOICES)], marks=True)
            )
            for n, (_, text, _) in enumerate(SPOKEN)
        ]

    return trio.run(speak)


def test_what_is_written_is_what_is_heard(
    spoken: list[Heard], record_property: Callable[[str, object], None]
) -> None:
    rates, told = [], []
    for (kind, _, said), heard in zip(SPOKEN, spoken, strict=True):
        text = transcribe(heard.audio)
        errors, count = word_errors(said, text)
        rates.append(errors / count)
        told.append(f"{kind}: {errors}/{count} {said!r} heard as {text!r}")
    mean = sum(rates) / len(rates)
    record_property("word_error_rate", mean)
    assert len(rates) >= 60
    assert mean <= 0.10, f"word error rate {mean:.3f}\n" + "\n".join(told)


def test_the_first_and_the_last_word_are_always_there(spoken: list[Heard]) -> None:
    for (_, text, said), heard in zip(SPOKEN, spoken, strict=True):
        if len(said.split()) > 2:
            assert ends_heard(heard.audio, said), text


async def test_the_yardstick_misses_a_word_that_is_cut_off(spoken: list[Heard]) -> None:
    said, audio = SPOKEN[0][2], spoken[0].audio
    (*_, (word, start, _)) = aligned(audio, said)
    assert word == said.split()[-1]
    assert not ends_heard(audio[: int(start * SAMPLE_RATE / 1000)], said)


def test_words_are_marked_where_they_are_heard(
    spoken: list[Heard], record_property: Callable[[str, object], None]
) -> None:
    """Against a forced alignment of the known words, where every word has a mark of its own."""
    off = []
    for (_, _, said), heard in zip(SPOKEN, spoken, strict=True):
        marks = [mark for segment in heard.of(Marks) for mark in segment.words]
        found = aligned(heard.audio, said)
        if len(found) == len(marks) == len(said.split()):
            off += [
                abs(mark.sample * 1000 / SAMPLE_RATE - start)
                for mark, (_, start, _) in zip(marks, found, strict=True)
            ]
    near = sum(ms <= 80 for ms in off) / len(off)
    record_property("words_within_80_ms", near)
    assert len(off) > 250
    assert near >= 0.95


async def test_the_last_word_of_a_long_text_is_there(real_service: KokoroService) -> None:
    _, texts, said = zip(SPOKEN[1], SPOKEN[5], strict=True)
    heard = await hear(real_service, SpeechRequest(text=f"{' '.join(texts)} And that is all."))
    # A recogniser that isn't told what comes hears "ah" instead of "all" now and then.
    assert ends_heard(heard.audio, f"{' '.join(said)} and that is all")


async def test_more_than_510_phonemes_in_one_sentence_are_all_spoken(
    real_service: KokoroService,
) -> None:
    # The names of the letters are far over the limit of the model, and no mark says where to cut.
    text = "w " * 58
    heard = await hear(real_service, SpeechRequest(text=text, speed=4.0, phonemes=True))
    starts = heard.of(SegmentStart)
    phonemes = [start.phonemes or "" for start in starts]
    assert all(0 < len(part) <= HARD_LIMIT for part in phonemes)
    assert sum(part.count("dˈʌb") for part in phonemes) == 58
    assert len("".join(phonemes)) > 510
    assert " ".join(start.text for start in starts) == text.strip()
    for start, done in zip(starts, heard.of(SegmentDone), strict=True):
        # "double u" takes so long even in a hurry
        assert done.samples > start.text.count("w") * 0.1 * SAMPLE_RATE
        assert is_audible(heard.pcm[2 * start.sample : 2 * (start.sample + done.samples)])


def test_the_yardstick_counts_words() -> None:
    assert word_errors("a b c d", "a x c") == (2, 4)
    assert word_errors("It's fine.", "it's fine") == (0, 2)
    assert word_errors("a", "") == (1, 1)
