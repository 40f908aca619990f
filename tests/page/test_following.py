"""Many who hear the same, and an engine or a network that goes away in between."""

from __future__ import annotations

import re

import numpy as np
import trio

from engine.config import Settings
from engine.request import Frame
from tests.playerd.playing import Unplugged, playing
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice
from tests.wsproto_api.recording import joined
from wsproto_api.speak import WebSocketSpeak

from .browser import Browser, Page
from .stage import Tap, floats, holes, opened, reading, staged

TEXT = "One two. Three four. Five six. Seven eight."


async def test_two_tabs_and_a_player_hear_all_of_the_same_stream(
    browser: Browser, page: Page, settings: Settings
) -> None:
    heard: dict[int, list[Frame]] = {}
    sink = Unplugged(plugged=True)
    async with (
        browser.page() as other,
        staged(ToneVoice(rtf=0.3)) as stage,
        playing(settings, WebSocketSpeak(stage.engine_url, TOKEN), sink) as player,
        player.client() as client,
    ):
        await other.before_it_loads(Tap.SCRIPT)
        await stage.nursery.start(stage.hear, heard)
        taps = [await opened(stage, tab) for tab in (page, other)]
        for tab in (page, other):
            await tab.click("#listen")
            await tab.says("#status", "Listening")
        item = await client.speak(TEXT)
        await page.says("#status", "for another program")
        await client.done(item)
        for tab, tap in zip((page, other), taps, strict=True):
            await tab.says("#status", "Finished")
            assert await tab.text("#reading") == TEXT
            assert await tab.text("#gaps") == "0"
            out, _ = await tap.samples()
            assert holes(floats(heard[1]), out) is not None
            assert not tab.complaints
    assert bytes(sink.pcm) == b"".join(frame.pcm for frame in heard[1])


async def test_what_another_client_stops_is_silent_and_what_we_stop_goes_on_for_others(
    page: Page,
) -> None:
    async with staged(ToneVoice(rtf=0.3)) as stage, joined(stage.engine_url) as wire:
        await opened(stage, page)
        await page.click("#listen")
        await page.says("#status", "Listening")
        number = await wire.speak(TEXT, marks=True)
        await page.says("#status", "Reading")
        await page.until("tap.words.length > 0")  # there are marks, as the request has them
        await page.click("#stop")
        await page.says("#status", "Stopped.")
        await wire.until("stream.done", stream=number)

        number = await wire.speak(TEXT)
        await page.says("#status", "Reading")
        await page.click("#pause")
        await page.says("#status", "Paused")
        await wire.ask("cancel", stream=number)
        await page.says("#status", "Stopped elsewhere.")
        await wire.speak(TEXT)
        await page.says("#status", "Reading")  # the pause was the other text's
        assert not page.complaints


async def test_stop_is_silence_also_of_what_waits(page: Page) -> None:
    async with staged(connection_streams=16) as stage, joined(stage.engine_url) as wire:
        await opened(stage, page)
        await page.click("#listen")
        await page.says("#status", "Listening")
        for text in (TEXT, *["One."] * 9):
            await wire.speak(text)
        await page.says("#notice-text", "Only 8 texts can wait")
        await page.says("#status", "Reading")
        await page.press("Escape")
        await page.says("#status", "Stopped.")
        assert await page.evaluate("document.querySelector('#stop').disabled")
        await wire.speak("One.")  # and it goes on listening
        await page.says("#status", "Finished.")
        assert not page.complaints


SHEET = "[...document.querySelectorAll('#text, #reading')].map((e) => e.hidden)"
WRITING, READING = [False, True], [True, False]


async def test_nothing_takes_away_a_text_that_is_written(page: Page) -> None:
    """Neither our own text that grows and is spoken meanwhile, nor another program's."""
    async with staged(ToneVoice(rtf=0.2)) as stage:
        await opened(stage, page)
        await page.fill("#text", "One two. " * 12)
        await page.click("#type")
        await page.says("#status", "Reading")
        assert await page.evaluate(SHEET) == READING
        await page.click("#edit")
        shown = len(await page.text("#reading"))
        await page.until(f"document.querySelector('#reading').textContent.length > {shown}")
        assert await page.evaluate(SHEET) == WRITING
        await page.press("Escape")
        await page.click("#listen")
        await page.says("#status", "Listening")
        async with joined(stage.engine_url) as wire:
            await page.evaluate("document.querySelector('#voice').focus()")
            await wire.speak("One.")
            await page.says("#status", "for another program")
            assert await page.evaluate(SHEET) == WRITING
            await page.fill("#text", "")
            await wire.speak("Three.")
            await page.says("#reading", "Three.")
            assert await page.evaluate(SHEET) == READING
        assert not page.complaints


async def test_a_connection_that_breaks_off_is_not_heard(page: Page) -> None:
    async with staged(ToneVoice(rtf=0.3)) as stage:
        tap, heard = await reading(stage, page, TEXT)
        await stage.door.cut()
        await page.says("#connection", "trying again")
        await page.says("#connection", "Connected")
        await page.says("#status", "Finished")
        assert await page.text("#gaps") == "0"
        out, _ = await tap.samples()
        assert len(heard) == 1
    assert holes(floats(heard[1]), out)


async def _words(page: Page) -> list[str]:
    places = await page.evaluate("tap.words.map(({ from, to }) => [from, to])")
    return [TEXT[begin:end] for begin, end in places]


async def test_an_engine_that_is_started_anew_while_the_page_plays(page: Page) -> None:
    """It says goodbye to the page first, and speech ends at once; then it goes on with the sentence."""
    async with staged(ToneVoice(rtf=0.7)) as stage:
        await opened(stage, page)
        await page.fill("#text", TEXT * 2)
        await page.click("#speak")
        await page.until("tap.words.length > 2")
        await stage.stop()
        await page.says("#notice-text", "The engine was stopped")
        await page.says("#connection", "trying again")
        await stage.start()
        await page.says("#connection", "Connected")
        await page.says("#status", "Finished")
        assert {"One", "eight."} <= set(await _words(page))
        seen = await page.evaluate("new Set(tap.words.map(({ from }) => from)).size")
    assert seen == 16  # no word was left out


async def test_an_engine_that_dies_while_the_page_plays(page: Page) -> None:
    """What came of it is heard; then the next one goes on with the sentence that was cut off."""
    async with staged(ToneVoice(rtf=0.7)) as stage:
        tap = await opened(stage, page)
        await page.fill("#text", TEXT)
        await page.click("#speak")
        await page.until("tap.words.length > 2")
        stage.door.shut = True
        await stage.door.cut()
        await page.says("#connection", "trying again")
        await stage.stop()
        await stage.start()
        stage.door.shut = False
        await page.says("#notice-text", "The engine was started anew")
        await page.says("#status", "Finished")
        assert set(await _words(page)) == set(re.findall(r"\S+", TEXT))
        out, _ = await tap.samples()
    assert np.abs(out).max() > 0.2


async def test_a_pause_longer_than_the_engine_keeps_sound(page: Page) -> None:
    """The page does not fetch what it cannot play, so the engine waits with a long text too."""
    text = "One two three. " * 300  # 4 minutes
    async with staged() as stage:
        await opened(stage, page)
        await page.fill("#text", text)
        await page.click("#speak")
        await page.says("#status", "Reading")
        await page.click("#pause")
        await page.says("#status", "Paused")
        (live,) = stage.engine.streams.live
        await page.until("parseInt(document.querySelector('#buffered').textContent) > 20000")
        fetched = 0
        while fetched != live.log.samples:  # until nothing moves any more
            fetched = live.log.samples
            await trio.sleep(0.3)
        assert not live.log.over
        assert int((await page.text("#buffered")).removesuffix(" ms")) < 70_000
        await page.click("#stop")
        await page.says("#status", "Stopped")
        assert not page.complaints
