"""What is heard of the page: every sample, silence when it is wanted, and the words in time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import trio

from engine.audio import SAMPLE_RATE
from engine.request import Frame, VoiceInfo
from engine.service import KokoroService
from tests.support.tone import WORD_MS, ToneVoice

from .browser import Json, Page
from .stage import Samples, floats, holes, opened, reading, staged

# the device's clock goes on while the page is kept from the processor
pytestmark = pytest.mark.alone

TEXTS = (
    "The quick brown fox jumps over the lazy dog.",
    "Dr. Smith paid $5.50, on Monday. It was fine! 😀",
    "One. Two, three.\n\nA new paragraph.",
)

#: the page's ramps: 5 ms
RAMP = 120

#: 2.2 s, a sentence at a time
TONES = "One two. Three four. Five six. Seven eight."


async def test_the_samples_of_the_real_engine_reach_the_device_as_they_are(
    page: Page, real_service: KokoroService
) -> None:
    heard: dict[int, list[Frame]] = {}
    async with staged(speak=real_service, patience_s=120) as stage:
        await stage.nursery.start(stage.hear, heard)
        tap = await opened(stage, page)
        underruns = 0
        for number, text in enumerate(TEXTS, 1):
            await page.fill("#text", text)
            await page.click("#speak")
            await page.says("#status", "Waiting")
            await page.says("#status", "Finished")
            assert (await page.text("#first-sound")).endswith(" ms")
            words = await page.evaluate("tap.words.splice(0)")
            out, first = await tap.samples()
            expected = floats(heard[number])
            assert len(expected) > SAMPLE_RATE
            came = holes(expected, out)
            assert came, "the sound that came out is not the engine's"
            underruns += len(came[1])  # this machine may be too slow for the engine
            marks = await page.evaluate("tap.marks.splice(0)")
            began = first + came[0]
            _were_marked_in_time(words, marks, text, began, came[1])
            await page.click("#edit")
        assert await page.text("#underruns") == str(underruns)
        assert await page.text("#gaps") == "0"
        assert not page.complaints


#: text, what is told, the words that are spoken, and the direction
OTHERS: tuple[tuple[str, str, list[str], str], ...] = (
    ("\U0001f600\U0001f680 \U0001f44d\U0001f3fd", "nothing that can be spoken", [], "ltr"),
    ("\u0645\u0631\u062d\u0628\u0627 \u0628\u0643.", "no voice can read", [], "rtl"),
    (
        "\u05e9\u05dc\u05d5\u05dd: peace \U0001f54a",
        "spoken. \u201c\u05e9\u05dc\u05d5\u05dd\u201d",
        ["peace"],
        "rtl",
    ),
)


async def test_what_the_real_engine_cannot_speak_is_told(
    page: Page, real_service: KokoroService
) -> None:
    """Emoji alone, and scripts that no voice reads; in a text that has more, the rest is spoken."""
    async with staged(speak=real_service, patience_s=120) as stage:
        await opened(stage, page)
        for text, told, words, direction in OTHERS:
            await page.evaluate("tap.words.length = 0")
            await page.fill("#text", text)
            await page.click("#speak")
            await page.says("#notice-text", told)
            await page.until("document.querySelector('#stop').disabled")
            assert await page.text("#status") == ("Finished." if words else "Ready")
            style = "getComputedStyle(document.querySelector('#reading')).direction"
            assert await page.evaluate(style) == direction
            units = text.encode("utf-16-le")
            marked = await page.evaluate("tap.words.map(({ from, to }) => [2 * from, 2 * to])")
            found = [units[begin:end].decode("utf-16-le") for begin, end in marked]
            assert [word.strip(".") for word in found] == words
            await page.click("#edit")
        assert not page.complaints


def _were_marked_in_time(
    words: list[Json], marks: list[Json], text: str, began: int, missing: list[tuple[int, int]]
) -> None:
    """Each word within 100 ms of its mark, as a listener hears it; the page's offsets are UTF-16."""
    assert len(words) == len(marks) > 3, (words, marks)
    units = text.encode("utf-16-le")
    for seen, mark in zip(words, marks, strict=True):
        late = sum(length for before, length in missing if before <= mark["sample"])
        due_s = (began + mark["sample"] + late) / SAMPLE_RATE + seen["latency"]
        assert abs(seen["time"] - due_s) < 0.1, (seen, mark, due_s)
        shown = units[2 * seen["from"] : 2 * seen["to"]].decode("utf-16-le")
        assert shown == text[mark["char_start"] : mark["char_end"]]


#: notes when the page was asked to speak, and when it said how long the first sound took
WATCH = """
(() => {
  globalThis.seen = {};
  const speak = document.querySelector("#speak");
  speak.addEventListener("click", () => (seen.asked = performance.now()), { capture: true });
  new MutationObserver(() => (seen.told = performance.now())).observe(
    document.querySelector("#first-sound"), { childList: true },
  );
})()
"""


async def test_the_numbers_are_those_of_the_text_that_is_heard(page: Page) -> None:
    async with staged(ToneVoice(rtf=0.25)) as stage:
        await opened(stage, page)
        await page.evaluate(WATCH)
        for text in ("One two.", "Three four."):
            await page.fill("#text", text)
            await page.evaluate("tap.sent.length = tap.frames.length = 0")
            await page.click("#speak")
            await page.says("#status", "Finished")
            first_ms = int((await page.text("#first-sound")).removesuffix(" ms"))
            asked, sent, came, told, latency = await page.evaluate(
                "[seen.asked, tap.sent.find(({ type }) => type === 'speak').ms, tap.frames[0],"
                " seen.told, 1000 * tap.context.outputLatency]"
            )
            assert came - sent - 1 < first_ms < told + latency - asked + 1
            assert first_ms >= 0.25 * 2 * WORD_MS
            assert await page.text("#rtf") == "0.25"
            await page.click("#edit")
        assert not page.complaints


async def test_voice_and_speed_count_from_the_next_sentence_on(page: Page) -> None:
    """A voice with a speed of its own brings that along; another one goes back to what was wished."""
    voice = ToneVoice(rtf=0.9)
    heart, fable = ToneVoice.voices
    own = VoiceInfo(id=fable.id, name=fable.name, lang=fable.lang, speed=2)
    voice.voices = (heart, own)
    lasts = f"tap.marks.at(-1).samples === {WORD_MS * 24} / %s"
    async with staged(voice) as stage:
        await opened(stage, page)
        await page.fill("#text", TONES * 10)
        await page.click("#speak")
        await page.until("tap.words.length > 0")
        await page.says("#status", "Heart")
        assert await page.evaluate(lasts % 1)
        await page.fill("#voice", own.id)
        assert await page.text("#speed-shown") == "2.00×"
        await page.says("#status", "Fable")
        await page.until(lasts % 2)
        await page.fill("#speed", "1.25")
        await page.until(lasts % 1.25)
        told = await page.evaluate("tap.sent.filter(({ type }) => type === 'configure')")
        assert [(one["voice"], one["speed"]) for one in told] == [(own.id, 2), (own.id, 1.25)]
        await page.fill("#voice", heart.id)
        assert await page.text("#speed-shown") == "1.25×"
        await page.click("#stop")
        await page.says("#status", "Stopped")
        assert not page.complaints


#: a machine that is busy with something else may be too slow, which is not what is asked
TRIES = 4


async def _stopped(page: Page) -> tuple[float, float, bool]:
    """How long sound went on after Stop, in seconds, its last sample, and whether it came in time."""
    async with staged(ToneVoice(rtf=0.2)) as stage:
        tap = await opened(stage, page)
        await page.fill("#text", TONES * 5)
        await page.click("#speak")
        await page.says("#status", "Reading")
        await page.until("tap.words.length > 1")
        stopped_s = await page.evaluate(
            "(now => (document.querySelector('#stop').click(), now))(tap.context.currentTime)"
        )
        await page.says("#status", "Stopped")
        await page.until(f"tap.context.currentTime > {stopped_s} + 0.3")
        out, first = await tap.samples()
        last = np.flatnonzero(out)[-1]
        await trio.testing.wait_all_tasks_blocked()
        assert not stage.engine.streams.live  # and nobody goes on computing
        assert not page.complaints
        after_s = (first + last + 1) / SAMPLE_RATE - stopped_s
        # sound that had run out before it was asked to stop says nothing
        return after_s, out[last], await page.text("#underruns") == "0" and after_s > 0


async def test_stop_is_silence_and_does_not_click(page: Page) -> None:
    for _ in range(TRIES):
        after_s, last, in_time = await _stopped(page)
        if in_time:
            break
    assert 0 < after_s <= 0.060
    assert abs(last) < 0.01  # it was faded out


async def _with_a_pause(page: Page) -> tuple[Samples, Samples, bool]:
    """What came out, what was made, and whether it came in time."""
    async with staged() as stage:
        tap, heard = await reading(stage, page, TONES)
        await page.click("#pause")
        await page.says("#status", "Paused")
        paused_s = await page.evaluate("tap.context.currentTime")
        await page.until(f"tap.context.currentTime > {paused_s} + 0.5")
        assert await page.text("#pause") == "Resume"
        await page.click("#pause")
        await page.says("#status", "Finished")
        out, _ = await tap.samples()
        return out, floats(heard[1]), await page.text("#underruns") == "0"


async def test_a_pause_loses_nothing(page: Page) -> None:
    for _ in range(TRIES):
        out, whole, in_time = await _with_a_pause(page)
        if in_time:
            break
    silence = max(_silences(out), key=len)
    assert len(silence) >= 0.4 * SAMPLE_RATE
    # 5 ms fade out before the silence and the same 5 ms fade in behind it; around these it is as made.
    before, behind = out[: silence.start - RAMP], out[silence.stop + RAMP :]
    assert holes(before[np.flatnonzero(before)[0] :], whole)
    begins = holes(before[-4800:], whole)
    goes_on = holes(behind[:4800], whole)
    assert begins
    assert goes_on
    # It goes on with the sample at which it began to fade; in a ramp a sample may be zero. The tone
    # is the same every 600 samples, but its length is not.
    assert (goes_on[0] - begins[0] - 4800 - RAMP + 2) % 600 <= 4
    first, *_, last = np.flatnonzero(out).tolist()
    assert abs(last + 1 - first - len(silence) - len(np.trim_zeros(whole)) - RAMP) <= 4


def _silences(out: Samples) -> list[range]:
    """Runs of zeros between the first and the last sound."""
    pairs = itertools.pairwise(np.flatnonzero(out).tolist())
    return [range(left + 1, right) for left, right in pairs if right - left > 240]


async def test_a_network_that_stands_still_shows_and_is_got_over(page: Page) -> None:
    async with staged(ToneVoice(rtf=0.8)) as stage:
        tap, heard = await reading(stage, page, TONES)
        stage.door.stall()
        await page.says("#underruns", "1")
        await page.says("#status", "Waiting for more sound")
        stage.door.go_on()
        await page.says("#status", "Reading")
        await page.says("#status", "Finished")
        assert await page.text("#gaps") == "0"
        out, _ = await tap.samples()
        assert not page.complaints
    came = holes(floats(heard[1]), out)
    assert came, "what came out is not what was made"
    assert len(came[1]) == 1


async def test_a_frame_that_is_missing_shows_as_a_gap_and_the_words_stay_in_time(
    page: Page,
) -> None:
    async with staged(ToneVoice(rtf=0.3)) as stage:
        tap, heard = await reading(stage, page, TONES, "tap.marks.length === 4")
        await page.evaluate("tap.drop = 1")
        await page.says("#status", "Finished")
        assert await page.text("#gaps") == "1"
        out, first = await tap.samples()
        words, marks = await page.evaluate("[tap.words, tap.marks]")
        assert not page.complaints
    (lost,) = [
        n for n, frame in enumerate(heard[1])
        if frame.pcm and holes(floats(heard[1][:n] + heard[1][n + 1 :]), out)
    ][:1]  # fmt: skip
    came = holes(floats(heard[1][:lost] + heard[1][lost + 1 :]), out)
    assert came
    assert came[1] == []
    assert len(words) == len(marks) == 8
    for seen, mark in zip(words[5:], marks[5:], strict=True):  # behind the gap for sure
        due = first + came[0] + mark["sample"] - heard[1][lost].samples
        assert abs(seen["time"] - seen["latency"] - due / SAMPLE_RATE) < 0.1


async def test_a_text_that_is_typed_sounds_before_it_is_complete(page: Page) -> None:
    """As the same text at once: nothing is spoken otherwise because it came in pieces."""
    text = "One two. Three four!\n\nFive 😀 six. Seven eight."
    heard: dict[int, list[Frame]] = {}
    async with staged() as stage:
        await stage.nursery.start(stage.hear, heard)
        tap = await opened(stage, page)
        await page.fill("#text", text)
        await page.click("#type")
        await page.says("#status", "Reading")
        sounded = await page.text("#reading")
        assert text.startswith(sounded)
        assert len(sounded) < len(text)
        await page.says("#status", "Finished")
        assert await page.text("#reading") == text
        types = await page.evaluate(
            "(document.querySelector('#log').open = true, new Promise(requestAnimationFrame)).then(() =>"
            " [...document.querySelectorAll('#log-list li summary > :nth-child(3)')].map(e => e.textContent))"
        )
        assert {"open", "append", "flush", "flushed", "end", "stream.done"} <= set(types)
        out, _ = await tap.samples()
        assert not page.complaints
    assert holes(floats(heard[1]), out)
