"""The player with an engine that cannot keep up: it waits within limits, and pauses at sentences.

A word of the fake voice lasts 275 ms; it sends a sentence when all of it is made.
"""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from engine.audio import pcm_samples, silence
from engine.config import Settings
from engine.request import SpeechRequest
from tests.playerd.playing import Unplugged, playing
from tests.support.reading import hear
from tests.support.tone import ToneVoice
from wsproto_api.messages import PlayerState

LONG = "One two three four five six seven eight nine ten eleven twelve and so on and on."  # 4.7 s


async def pcm_of(text: str) -> bytes:
    """What the fake voice says, without any waiting."""
    return (await hear(ToneVoice(), SpeechRequest(text=text))).pcm


async def test_sound_that_is_held_back_starts_when_only_time_has_passed(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=1.0)
    async with playing(settings, voice) as player, player.client() as client:
        item = await client.speak(f"One two. {LONG}")
        began_s = trio.current_time()
        await client.hear(PlayerState, state="playing")
        # It is made in 0.55 s. What follows comes far too late, but 0.8 s are the limit.
        assert trio.current_time() - began_s == pytest.approx(0.55 + 0.8, abs=0.03)
        assert (await client.done(item)).played_ms == 19 * 275


async def test_sound_that_need_not_wait_starts_at_once(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.2)
    async with playing(settings, voice) as player, player.client() as client:
        await client.speak(f"One two. {LONG}")
        began_s = trio.current_time()
        await client.hear(PlayerState, state="playing")
        assert trio.current_time() - began_s == pytest.approx(0.55 * 0.2, abs=0.001)


async def test_a_hole_that_threatens_becomes_a_pause_before_a_sentence(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    first, second = "One two three four five six seven eight nine ten.", "One two."
    voice = ToneVoice(rtf=0.8)
    async with playing(settings, voice, sink) as player, player.client() as client:
        item = await client.speak(f"{first} {second} {LONG}")
        done = await client.done(item)
    plain = await pcm_of(f"{first} {second} {LONG}")
    assert done.played_ms == 29 * 275
    at = len(await pcm_of(first))
    inserted = pcm_samples(bytes(sink.pcm)) - pcm_samples(plain)
    assert 0.2 * 24_000 < inserted <= 0.35 * 24_000
    assert bytes(sink.pcm) == plain[:at] + silence(inserted) + plain[at:]


async def test_what_was_heard_of_a_stopped_item_does_not_count_pauses(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.8)
    first = "One two three four five six seven eight nine ten."
    async with playing(settings, voice) as player, player.client() as client:
        item = await client.speak(f"{first} One two. {LONG}")
        await client.hear(PlayerState, state="playing")
        await trio.sleep(2.75 + 0.1)  # in the pause behind the first sentence
        await client.stop()
        assert (await client.done(item)).played_ms == pytest.approx(2750, abs=1)
