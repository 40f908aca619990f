"""The real engine: limits, languages, concurrency, and stopping the model."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from engine import metrics, service
from engine.audio import is_audible
from engine.config import Settings, load
from engine.errors import AssetError, InvalidRequest, TextTooLong, UnknownVoice, UnsupportedLanguage
from engine.request import Done, Frame, Opened, SegmentDone, SegmentStart, SpeechRequest
from engine.service import KokoroService
from tests.support.reading import hear


async def test_speech_has_sound_and_is_not_clipped_away(real_service: KokoroService) -> None:
    heard = await hear(real_service, SpeechRequest(text="Hello, my friend."))
    audio = heard.audio
    assert 0.8 < len(audio) / 24_000 < 3.0
    assert 0.02 < float(np.sqrt(np.mean(audio**2))) < 0.3
    done = heard.of(Done)[0]
    assert done.ttfa_ms is not None
    assert done.ttfa_ms > 0
    assert heard.of(SegmentDone)[0].compute_ms > 0


async def test_the_same_request_gives_the_same_samples(real_service: KokoroService) -> None:
    request = SpeechRequest(text="Same again.")
    assert (await hear(real_service, request)).pcm == (await hear(real_service, request)).pcm


async def test_speed_and_voice_matter(real_service: KokoroService) -> None:
    async def length(**fields: object) -> int:
        request = SpeechRequest(text="One two three four five.", **fields)  # type: ignore[arg-type]  # a test's shorthand
        return len((await hear(real_service, request)).audio)

    normal = await length()
    assert await length(speed=2.0) < 0.7 * normal
    assert await length(speed=0.5) > 1.5 * normal
    assert await length(voice="am_michael") != normal


@pytest.mark.parametrize(
    ("voice", "text", "lang"),
    [
        ("bf_emma", "A lovely day.", "en-gb"),
        ("ef_dora", "Buenos días.", "es"),
        ("ff_siwis", "Bonjour à tous.", "fr-fr"),
        ("hf_alpha", "नमस्ते दुनिया।", "hi"),
        ("if_sara", "Buongiorno a tutti.", "it"),
        ("pf_dora", "Bom dia a todos.", "pt-br"),
    ],
)
async def test_every_language_that_is_listed_speaks(
    real_service: KokoroService, voice: str, text: str, lang: str
) -> None:
    heard = await hear(real_service, SpeechRequest(text=text, voice=voice))
    assert heard.of(Opened)[0].lang == lang
    assert is_audible(heard.pcm)


@pytest.mark.parametrize(
    ("request_", "error", "says"),
    [
        (SpeechRequest(text=""), InvalidRequest, "There is no text to speak."),
        (SpeechRequest(text="a" * 16_001), TextTooLong, "16001 characters; the limit is 16000"),
        (SpeechRequest(text="Hi.", speed=0.1), InvalidRequest, "must be from 0.25 to 4"),
        (SpeechRequest(text="Hi.", speed=float("nan")), InvalidRequest, "must be from 0.25 to 4"),
        (SpeechRequest(text="Hi.", voice="af_hart"), UnknownVoice, "similar is af_heart"),
        (SpeechRequest(text="Hi.", voice="../af_heart"), UnknownVoice, "no voice"),
        (SpeechRequest(text="Hi.", voice="jf_alpha"), UnsupportedLanguage, "Japanese"),
        (SpeechRequest(text="Hi.", lang="klingon"), UnsupportedLanguage, "no language"),
    ],
)
async def test_refusals_are_one_sentence(
    real_service: KokoroService, request_: SpeechRequest, error: type[InvalidRequest], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        await hear(real_service, request_)
    assert type(caught.value) is error
    assert "\n" not in caught.value.message


async def test_a_japanese_voice_reads_english_when_told_to(real_service: KokoroService) -> None:
    request = SpeechRequest(text="Hello.", voice="jf_alpha", lang="en-us")
    assert is_audible((await hear(real_service, request)).pcm)


def test_voices_that_are_listed_can_be_read(real_service: KokoroService) -> None:
    listed = {info.id: info for info in real_service.voices}
    assert len(listed) == 41  # 54, less 5 Japanese and 8 Mandarin
    assert listed["af_heart"].name == "Heart (American English, female)"
    assert listed["bm_george"].lang == "en-gb"
    assert not [name for name in listed if name[0] in "jz"]
    assert len(real_service.voices_hash) == 64


async def test_cancelling_stops_the_model_in_the_middle_of_a_segment(
    real_service: KokoroService,
) -> None:
    """The lane is free again long before a whole segment could have been inferred."""
    long = "One thing led to another and then to a third, " * 6
    before = metrics.COMPUTE_SECONDS._value.get()  # there is no public reader
    async with real_service(SpeechRequest(text=long)) as events:
        assert isinstance(await anext(events), Opened)
        while not real_service._inference.borrowed_tokens:  # until the model works
            await trio.lowlevel.checkpoint()
    # Stopped before its end, the call gave no audio and its thread leaves the lane.
    heard = await hear(real_service, SpeechRequest(text="Next."))
    assert is_audible(heard.pcm)
    spent = metrics.COMPUTE_SECONDS._value.get() - before
    assert spent == pytest.approx(heard.of(SegmentDone)[0].compute_ms / 1000, rel=0.01)


async def test_streams_take_turns_segment_by_segment(real_service: KokoroService) -> None:
    """A short text is not behind all of a long one: whoever waits is served in order."""
    ended: list[str] = []

    async def speak(name: str, text: str) -> None:
        await hear(real_service, SpeechRequest(text=text))
        ended.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak, "long", "Hello there. " * 8)
        nursery.start_soon(speak, "short", "Hi.")
    assert ended == ["short", "long"]


async def test_segments_stream_out_before_the_next_is_made(real_service: KokoroService) -> None:
    seen: list[str] = []
    async with real_service(SpeechRequest(text="Hello there. How are you? Fine.")) as events:
        async for event in events:
            if isinstance(event, SegmentStart | SegmentDone | Frame):
                seen.append(type(event).__name__)
    first_done = seen.index("SegmentDone")
    assert "Frame" in seen[:first_done]
    assert seen[first_done:].count("SegmentStart") == 2


async def test_a_missing_model_folder_is_a_sentence(settings: Settings) -> None:
    wrong = load({"model_dir": settings.cache_dir / "nowhere"}, environ={}).settings
    with pytest.raises(AssetError, match="nowhere") as caught:
        await service.load(wrong)
    assert "\n" not in caught.value.message


async def test_a_default_voice_that_is_not_there_is_told_at_start(
    real_settings: Settings, real_service: KokoroService
) -> None:
    wrong = real_settings.model_copy(update={"voice": "nobody"})
    with pytest.raises(UnknownVoice, match="nobody"):
        await service.load(wrong)


async def test_outcomes_are_counted_as_what_they_were(real_service: KokoroService) -> None:
    def count(outcome: str) -> float:
        return float(metrics.STREAMS.labels(outcome)._value.get())  # there is no public reader

    before = {name: count(name) for name in ("done", "cancelled")}
    await hear(real_service, SpeechRequest(text="Hi."))
    async with real_service(SpeechRequest(text="Hi.")) as events:
        await anext(events)
    assert count("done") == before["done"] + 1
    assert count("cancelled") == before["cancelled"] + 1
