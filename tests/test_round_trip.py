"""Text to speech and back: the real model speaks, pocketsphinx listens."""

from __future__ import annotations

from collections.abc import Callable

from engine.audio import SAMPLE_RATE, is_audible
from engine.request import SegmentDone, SegmentStart, SpeechRequest
from engine.service import KokoroService
from engine.text.segment import HARD_LIMIT
from tests.support.reading import hear
from tests.support.transcribe import transcribe, word_errors

#: plain words, which a recogniser with an everyday language model knows
SENTENCES = (
    "The weather is very nice today.",
    "She went to the market to buy some bread and milk.",
    "Please open the window before you go to bed.",
    "He was reading a book about the history of the world.",
    "They will meet us at the station tomorrow morning.",
    "I think that we should wait for a little while.",
    "The children were playing in the garden all day.",
    "My brother has lived in this city for ten years.",
    "The train leaves in half an hour, so hurry up.",
    "Nobody knows what the future will bring.",
)
#: American, like the recogniser: it hears British vowels as other words
VOICES = ("af_heart", "am_michael", "af_bella")


async def test_ten_sentences_are_heard_as_they_were_written(
    real_service: KokoroService, record_property: Callable[[str, object], None]
) -> None:
    wrong = total = 0
    told = []
    for number, sentence in enumerate(SENTENCES):
        voice = VOICES[number % len(VOICES)]
        heard = await hear(real_service, SpeechRequest(text=sentence, voice=voice))
        text = transcribe(heard.audio)
        errors, count = word_errors(sentence, text)
        wrong, total = wrong + errors, total + count
        told.append(f"{voice}: {sentence!r} heard as {text!r}")
    record_property("word_error_rate", wrong / total)
    assert wrong / total <= 0.15, f"word error rate {wrong / total:.2f}\n" + "\n".join(told)


async def test_the_last_word_of_a_long_text_is_there(real_service: KokoroService) -> None:
    text = f"{SENTENCES[1]} {SENTENCES[3]} And that is all."
    heard = await hear(real_service, SpeechRequest(text=text))
    assert transcribe(heard.audio).split()[-2:] == ["is", "all"]


async def test_more_than_510_phonemes_in_one_sentence_are_all_spoken(
    real_service: KokoroService,
) -> None:
    # The names of the letters are far over the limit of the model, and no mark says where to cut.
    text = "w " * 58
    heard = await hear(real_service, SpeechRequest(text=text, speed=4.0))
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
