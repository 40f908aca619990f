"""The real engine: limits, languages, concurrency, and stopping the model."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import trio
import trio.testing

from engine import history, metrics, selfbench, service, timing
from engine.audio import is_audible, ms_to_samples
from engine.config import Settings, load
from engine.errors import AssetError, InvalidRequest, TextTooLong, UnknownVoice, UnsupportedLanguage
from engine.memory import Relief
from engine.model.assets import Assets
from engine.model.runtime import Call
from engine.report import SelfBench
from engine.request import (
    Flushed,
    Frame,
    LiveRequest,
    Marks,
    Opened,
    SegmentDone,
    SegmentStart,
    SpeechRequest,
)
from engine.selfbench import FILE
from engine.service import KokoroService
from engine.synthesis import Synthesis
from engine.text.segment import FIRST_LIMIT, FLOOR, Mark
from engine.voices import Voices
from tests.support.reading import Heard, check_stream, hear, is_loud


async def test_speech_has_sound_and_is_not_clipped_away(real_service: KokoroService) -> None:
    heard = await hear(real_service, SpeechRequest(text="Hello, my friend."))
    audio = heard.audio
    assert 0.8 < len(audio) / 24_000 < 3.0
    assert 0.02 < float(np.sqrt(np.mean(audio**2))) < 0.3
    assert heard.done.ttfa_ms is not None
    assert heard.done.ttfa_ms > 0
    assert heard.of(SegmentDone)[0].compute_ms > 0


@pytest.mark.parametrize("speed", [0.25, 4.0])
async def test_the_slowest_and_the_fastest_speech_keeps_the_rules(
    real_service: KokoroService, speed: float
) -> None:
    request = SpeechRequest(text="It is.", speed=speed, marks=True)
    heard = await hear(real_service, request)
    check_stream(heard, request)
    assert is_loud(heard.audio)


async def test_speed_and_voice_matter(real_service: KokoroService) -> None:
    async def length(**fields: object) -> int:
        request = SpeechRequest(text="One two three.", **fields)  # type: ignore[arg-type]  # a test's shorthand
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
        (SpeechRequest(text="Hi.", voice="../af_heart"), InvalidRequest, "cannot be read"),
        (SpeechRequest(text="안녕하세요"), UnsupportedLanguage, "script"),
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


@pytest.mark.parametrize(
    ("voice", "name", "lang"),
    [
        ("af_heart(1)+am_michael(3)", "am_michael:75,af_heart:25", "en-us"),
        ("af_heart:60,bf_emma:40", "af_heart:60,bf_emma:40", "en-us"),
        ("ff_siwis*0.7+af_heart*0.3", "ff_siwis:70,af_heart:30", "fr-fr"),
        ("af_heart(2)-am_michael(1)", "af_heart:200-am_michael:100", "en-us"),
    ],
)
async def test_blends_speak(real_service: KokoroService, voice: str, name: str, lang: str) -> None:
    request = SpeechRequest(text="Bravo, Robert. Encore.", voice=voice, speed=2.0, marks=True)
    heard = await hear(real_service, request)
    check_stream(heard, request)
    assert (heard.of(Opened)[0].voice, heard.of(Opened)[0].lang) == (name, lang)
    assert is_loud(heard.audio)
    heaviest = SpeechRequest(text=request.text, voice=name.partition(":")[0], speed=2.0)
    assert (await hear(real_service, heaviest)).pcm != heard.pcm


async def test_a_voice_has_its_own_speed_unless_the_request_names_one(
    real_service: KokoroService, real_settings: Settings, real_assets: Assets
) -> None:
    voices = Voices(real_assets.voices, {"af_heart": 2.0, "bf_emma": 0.5})
    parts, settled = real_service._synthesis, real_service._settled
    engine = KokoroService(parts, voices, real_service.model, settled, real_settings)

    async def opened(voice: str) -> float:
        async with engine(SpeechRequest(text="One two three.", voice=voice)) as events:
            first = await anext(events)
        assert isinstance(first, Opened)
        return first.speed

    async def spoken(speed: float | None) -> tuple[float, int]:
        heard = await hear(engine, SpeechRequest(text="One two three.", speed=speed))
        return heard.of(Opened)[0].speed, len(heard.audio)

    (fast, short), (natural, usual) = await spoken(None), await spoken(1.0)
    assert (fast, natural) == (2.0, 1.0)
    assert short < 0.7 * usual
    assert await opened("af_heart:40,bf_emma:60") == 0.5
    assert await opened("am_michael") == 1.0


def test_every_voice_is_listed(real_service: KokoroService) -> None:
    listed = {info.id: info for info in real_service.voices}
    assert len(listed) == 54
    assert listed["af_heart"].name == "Heart (American English, female)"
    assert listed["bm_george"].lang == "en-gb"
    # 5 Japanese and 8 Mandarin voices cannot be read everywhere.
    assert sum(info.unreadable is None for info in listed.values()) in {41, 46, 49, 54}
    assert len(real_service.voices_hash) == 64


# --- streams ------------------------------------------------------------------------------------


async def test_a_text_of_several_segments(real_service: KokoroService) -> None:
    request = SpeechRequest(text="  Hello there. How are you?\n\nFine -- and you?\n\nYes.")
    heard = await hear(real_service, request)
    check_stream(heard, request)
    assert [start.text for start in heard.of(SegmentStart)] == [
        "Hello there. How are you?",
        "Fine -- and you?",
        "Yes.",
    ]
    for start, done in zip(heard.of(SegmentStart), heard.of(SegmentDone), strict=True):
        silent = timing.pause_samples(Mark.PARAGRAPH, 1.0) if start.index else 0
        audio = heard.audio[start.sample : start.sample + done.samples]
        assert not audio[:silent].any()
        assert is_loud(audio[silent : silent + ms_to_samples(100)])
        assert done.compute_ms > 0


SHORT = [
    "Hi",
    "Yes.",
    "No!",
    "Chapter one",
    "Good morning, everybody",
    "It is a quarter past seven.",
]


@pytest.mark.parametrize("text", SHORT)
async def test_short_texts_are_sound_from_end_to_end(
    real_service: KokoroService, text: str
) -> None:
    heard = await hear(real_service, SpeechRequest(text=text))
    audible = np.flatnonzero(np.abs(heard.audio) > timing.AUDIBLE - 1 / 32767)  # as it was rounded
    assert ms_to_samples(150) < len(audible) < 24_000 * 3
    assert audible[0] <= timing.PREROLL_SAMPLES
    assert len(heard.audio) - 1 - audible[-1] <= timing.RELEASE_SAMPLES
    assert float(np.abs(heard.audio).max()) > 0.05


async def test_the_first_segment_of_a_long_sentence_is_short(real_service: KokoroService) -> None:
    text = "One thing led to another and then on to the next, with no end in sight " * 6
    assert len(text) > 400
    first: SegmentStart | None = None
    async with real_service(SpeechRequest(text=text, phonemes=True)) as events:
        while first is None:
            event = await anext(events)
            first = event if isinstance(event, SegmentStart) else None
    assert FLOOR <= len(first.phonemes or "") <= FIRST_LIMIT


async def test_segments_stream_out_before_the_next_is_made(real_service: KokoroService) -> None:
    heard = await hear(real_service, SpeechRequest(text="Hello there.\n\nHow are you?\n\nFine."))
    seen = [type(event).__name__ for event in heard.events]
    first_done = seen.index("SegmentDone")
    assert "Frame" in seen[:first_done]
    assert seen[first_done:].count("SegmentStart") == 2


async def test_leaving_stops_the_model_and_the_next_request_pays_for_itself_alone(
    real_service: KokoroService, monkeypatch: pytest.MonkeyPatch
) -> None:
    stops = 0
    stop = Call.stop

    def counted(call: Call[object]) -> None:
        nonlocal stops
        stops += 1
        stop(call)

    monkeypatch.setattr(Call, "stop", counted)
    turns = real_service._synthesis._turns
    before = metrics.COMPUTE_SECONDS._value.get()  # there is no public reader
    text = "One thing led to another and then on to the next, with no end in sight " * 3
    for kind in (Opened, Frame):
        async with real_service(SpeechRequest(text=text)) as events:
            while not isinstance(await anext(events), kind):
                pass
            if kind is Opened:  # stay until the model works
                while not turns._threads.borrowed_tokens:
                    await trio.lowlevel.checkpoint()
        assert stops or kind is Frame
        assert turns._lane._running is None
        assert turns._threads.borrowed_tokens == 0
    heard = await hear(real_service, SpeechRequest(text="Next."))
    assert is_audible(heard.pcm)
    spent = metrics.COMPUTE_SECONDS._value.get() - before
    assert spent == pytest.approx(heard.of(SegmentDone)[0].compute_ms / 1000, rel=0.01)


@pytest.mark.parametrize("first", ["live", "batch"])
async def test_a_short_text_is_not_behind_all_of_a_long_one(
    real_service: KokoroService, first: Literal["live", "batch"]
) -> None:
    ended: list[str] = []
    begun = trio.Event()

    async def speak(name: str, request: SpeechRequest) -> None:
        async with real_service(request) as events:
            async for event in events:
                if isinstance(event, Frame):
                    begun.set()
        ended.append(name)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(speak, "long", SpeechRequest(text="Hello there. " * 5, priority=first))
        await begun.wait()
        nursery.start_soon(speak, "short", SpeechRequest(text="Hi."))
    assert ended == ["short", "long"]


# --- marks --------------------------------------------------------------------------------------


async def test_every_word_is_marked_where_it_is_heard(real_service: KokoroService) -> None:
    text = " The quick brown fox,\n\n“jumps” over it -- doesn't it? For $5 or 12%?"
    request = SpeechRequest(text=text, marks=True, phonemes=True)
    heard = await hear(real_service, request)
    check_stream(heard, request)
    marks = heard.of(Marks)
    words = [text[word.char_start : word.char_end] for mark in marks for word in mark.words]
    assert " ".join(words) == "The quick brown fox jumps over it doesn't it For $5 or 12%"
    for mark, start in zip(marks, heard.of(SegmentStart), strict=True):
        loud = np.flatnonzero(np.abs(heard.audio[start.sample :]) > timing.AUDIBLE)
        first = start.sample + int(loud[0])
        assert abs(mark.words[0].sample - first) <= ms_to_samples(60)
        assert len(mark.phonemes) == len(start.phonemes or "") > 0
        for word in mark.words:
            audio = heard.audio[word.sample : word.sample + word.samples]
            assert len(audio) > ms_to_samples(40)
            assert float(np.sqrt(np.mean(audio**2))) > 0.01


# --- text in pieces -----------------------------------------------------------------------------

STORY = (
    "Dr. Smith paid $3.50 for the book on Monday. It weighs 1,250 grams, which isn't much. "
    "Who would have thought so?"
)


def tokens(text: str) -> list[str]:
    """The text in pieces of one to four characters, as a language model writes it."""
    rng, found = random.Random(7), []
    while text:
        size = rng.randint(1, 4)
        found.append(text[:size])
        text = text[size:]
    return found


async def test_what_a_language_model_writes_is_spoken_as_if_it_had_come_at_once(
    real_service: KokoroService,
) -> None:
    request = SpeechRequest(text=STORY, speed=2.0, marks=True, phonemes=True, priority="batch")
    whole = await hear(real_service, request)
    live = LiveRequest(
        speed=2.0, marks=True, phonemes=True, priority="batch", max_buffer_delay_ms=60_000
    )
    heard = Heard()
    async with real_service(live) as stream, trio.open_nursery() as nursery:

        async def write() -> None:
            for n, piece in enumerate(tokens(STORY)):
                await stream.append(piece)
                if n % 5 == 0:  # some come alone, some together
                    await trio.testing.wait_all_tasks_blocked()
            await stream.end()

        nursery.start_soon(write)
        async for event in stream:
            heard.events.append(event)
    check_stream(heard, request)
    assert heard.of(SegmentStart) == whole.of(SegmentStart)
    assert heard.of(Marks) == whole.of(Marks)
    assert heard.pcm == whole.pcm
    assert is_loud(heard.audio)


async def test_the_first_sentence_sounds_before_the_second_is_written(
    real_service: KokoroService,
) -> None:
    first, second = "Here is what I found out about it today. It is n", "ot much."
    async with real_service(LiveRequest(max_buffer_delay_ms=60_000)) as stream:
        await stream.append(first)
        heard = Heard()
        with trio.fail_after(30):  # it would wait for ever
            while not (heard.of(Frame) and is_audible(heard.pcm)):
                heard.events.append(await anext(stream))
        assert heard.of(SegmentStart)[0].text == "Here is what I found out about it today."
        await stream.append(second)
        await stream.end()
        heard.events += [event async for event in stream]
    check_stream(heard, SpeechRequest(text=first + second))
    assert heard.of(SegmentStart)[1].text == "It is not much."


async def test_a_flush_in_the_middle_of_a_sentence(real_service: KokoroService) -> None:
    async with real_service(LiveRequest(max_buffer_delay_ms=60_000)) as stream:
        await stream.append("Let me see what")
        await stream.flush("now")
        heard = Heard()
        with trio.fail_after(30):  # it would wait for ever
            while not heard.of(Flushed):
                heard.events.append(await anext(stream))
        assert heard.of(SegmentStart)[0].text == "Let me see what"
        assert heard.of(SegmentDone)
        assert is_loud(heard.audio)
        assert heard.of(Flushed) == [Flushed(flush_id="now")]
        await stream.append(" there is.")
        await stream.end()
        heard.events += [event async for event in stream]
    check_stream(heard, SpeechRequest(text="Let me see what there is."))


@pytest.mark.parametrize("delay_ms", [-1, 60_001])
async def test_a_buffer_delay_out_of_range_is_refused(
    real_service: KokoroService, delay_ms: int
) -> None:
    with pytest.raises(InvalidRequest, match="must be from 0 to 60000") as caught:
        async with real_service(LiveRequest(max_buffer_delay_ms=delay_ms)):
            pytest.fail("it was accepted")
    assert caught.value.param == "max_buffer_delay_ms"


# --- what is kept -------------------------------------------------------------------------------


def derived(service: KokoroService, **changes: object) -> KokoroService:
    """The same model, voices and G2P under other settings, with caches of its own."""
    parts = service._synthesis
    settings = service._settings.model_copy(update=changes)
    synthesis = Synthesis(
        parts._model,
        parts._build,
        parts._voices,
        parts._frontend,
        costs=parts._costs,
        passes=parts._passes,
        budget_s=settings.first_audio_ms / 1000,
        cache_bytes=settings.cache_mb * 1_000_000,
    )
    settled = service._settled
    return KokoroService(synthesis, service._voices, service.model, settled, settings)


async def test_what_is_decoded_whole_is_the_same_every_time(real_service: KokoroService) -> None:
    """With less time it depends on the load which windows are how exact."""
    patient = derived(real_service, first_audio_ms=10_000_000)
    request = SpeechRequest(text="Same again.", marks=True)
    first, again = await hear(patient, request), await hear(patient, request)
    assert first.pcm == again.pcm
    assert first.of(Marks) == again.of(Marks)
    assert not again.done.cached


async def test_a_phrase_that_comes_again_is_the_same_and_costs_nothing(
    real_service: KokoroService,
) -> None:
    keeping = derived(real_service, cache_mb=1)
    request = SpeechRequest(text="Good morning.\n\nHow are you?", speed=2.0, marks=True)
    first, again = await hear(keeping, request), await hear(keeping, request)
    check_stream(again, request)
    assert [heard.done.cached for heard in (first, again)] == [False, True]
    assert first.pcm == again.pcm
    assert all(done.compute_ms > 0 for done in first.of(SegmentDone))
    assert [done.compute_ms for done in again.of(SegmentDone)] == [0, 0]
    starts = [
        [word.sample for m in heard.of(Marks) for word in m.words] for heard in (first, again)
    ]
    assert starts[0] == starts[1]
    assert again.done.ttfa_ms is not None
    other = await hear(keeping, SpeechRequest(text="Good morning.", voice="am_michael"))
    assert not other.done.cached


async def test_nothing_is_kept_when_the_cache_is_off(real_service: KokoroService) -> None:
    forgetful = derived(real_service, cache_mb=0)
    for _ in range(2):
        heard = await hear(forgetful, SpeechRequest(text="Good morning."))
        assert not heard.done.cached
        assert heard.of(SegmentDone)[0].compute_ms > 0


async def test_all_that_is_kept_has_a_bound_and_can_be_given_back(
    real_service: KokoroService,
) -> None:
    """Behind a shrink the model is the same: what it has given back, it takes again."""
    keeping = derived(real_service, cache_mb=1, first_audio_ms=10_000_000)
    request = SpeechRequest(text="You are number 3,512.")
    first = await hear(keeping, request)
    caches = {cache.name: cache for cache in keeping.upkeep.memory.caches}
    assert {"audio", "voices", "phonemes", "numbers", "rules"} <= caches.keys()
    assert all(0 <= cache.used <= cache.bound for cache in caches.values())
    assert len(first.pcm) < caches["audio"].used < caches["audio"].bound == 1_000_000
    await keeping.upkeep._relieve(Relief.FORGET)
    assert keeping.upkeep.memory.caches[0].used == 0
    again = await hear(keeping, request)
    assert (again.pcm, again.done.cached) == (first.pcm, False)


async def test_who_wants_to_speak_need_not_wait_for_a_benchmark(
    real_service: KokoroService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = derived(real_service, selfbench="daily", state_dir=tmp_path)
    ways: list[float] = []
    monkeypatch.setattr(measuring.upkeep, "make_way", lambda: ways.append(trio.current_time()))
    assert measuring.upkeep.selfbench == SelfBench(every="daily", runs=0)
    async with measuring(SpeechRequest(text="Hi.")) as events:
        assert len(ways) == 1
        await anext(events)


async def test_a_benchmark_of_the_real_model(
    real_service: KokoroService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short one: three seconds of speech six times over would take as long."""
    monkeypatch.setattr(selfbench, "PHONEMES", "jˈɛs, ɪt ɪz.")
    monkeypatch.setattr(selfbench, "ROUNDS", 1)
    measuring = derived(real_service, selfbench="daily", state_dir=tmp_path)
    bench = measuring.upkeep._bench
    assert bench is not None
    await bench._attempt()
    (run,) = history.read((tmp_path / FILE).read_bytes())
    assert 0 < run.acoustic_ms < run.vocoder_ms
    assert run.series.build == real_service.model.build
    assert run.series.spinning is not None
    assert run.series.precision in {"float32", "hybrid"}
    assert measuring.upkeep.selfbench is not None
    assert measuring.upkeep.selfbench.runs == 1


# --- starting, and counting ---------------------------------------------------------------------


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


async def test_a_model_that_was_loaded_anew_speaks_the_same(real_service: KokoroService) -> None:
    patient = derived(real_service, first_audio_ms=10_000_000)
    request = SpeechRequest(text="Same again.")
    before = await hear(patient, request)
    old = patient._synthesis._model
    await patient.reload()
    assert patient._synthesis._model is not old
    assert (await hear(patient, request)).pcm == before.pcm


async def test_what_speech_took_is_told(real_service: KokoroService) -> None:
    keeping = derived(real_service, cache_mb=1)
    for _ in range(2):
        await hear(keeping, SpeechRequest(text="Good morning."))
    tally = keeping.tally
    cold, warm = tally.first_audible.latencies.cold, tally.first_audible.latencies.warm
    assert cold is not None
    assert warm is not None
    assert (cold.count, warm.count, keeping.active) == (1, 1, 0)
    assert tally.rtf is not None
    assert tally.rtf > 0
    assert all(work.waiting == 0 < work.done for work in keeping.works)


async def test_outcomes_are_counted_as_what_they_were(real_service: KokoroService) -> None:
    def count(outcome: str) -> float:
        return float(metrics.STREAMS.labels(outcome)._value.get())  # there is no public reader

    before = {name: count(name) for name in ("done", "cancelled")}
    await hear(real_service, SpeechRequest(text="Hi."))
    async with real_service(SpeechRequest(text="Hi.")) as events:
        await anext(events)
    assert count("done") == before["done"] + 1
    assert count("cancelled") == before["cancelled"] + 1
