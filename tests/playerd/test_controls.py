"""What one can do while it speaks: over the WebSocket, with a fake voice and a virtual clock.

A word of the fake voice lasts 275 ms.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from engine.audio import SAMPLE_BYTES, ms_to_samples
from engine.config import Settings
from engine.errors import NotReady, StreamCancelled, TextTooLong
from engine.request import LiveRequest, SpeechRequest, Stream
from playerd.player import Player
from playerd.playout import Playout
from tests.playerd.playing import Client, Crashing, Gate, Listening, playing
from tests.support.reading import hear
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import messages

LONG = "One two three four. Five six seven eight. Nine ten eleven twelve."
SENTENCE_MS = 4 * WORD_MS


async def pcm_of(*texts: str, **fields: float) -> bytes:
    """What the fake voice says to these texts, one after the other."""
    requests = [SpeechRequest(text=text, **fields) for text in texts]  # type: ignore[arg-type]
    return b"".join([(await hear(ToneVoice(), request)).pcm for request in requests])


async def sentence(pcm: bytes, number: int, ms: float = 0.0) -> bytes:
    """The sound of a sentence of LONG from so many milliseconds on."""
    start = ms_to_samples(number * SENTENCE_MS + ms) * SAMPLE_BYTES
    return pcm[start : ms_to_samples((number + 1) * SENTENCE_MS) * SAMPLE_BYTES]


@asynccontextmanager
async def reading(
    settings: Settings, sink: Listening | None = None
) -> AsyncIterator[tuple[Client, int]]:
    """Half a second into `LONG`: who asked for it, and the item."""
    async with playing(settings, sink=sink) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.5)
        yield client, item


async def subscribed(client: Client, *events: str) -> None:
    await client.do(messages.PlayerSubscribe(events=events))  # type: ignore[arg-type]


def is_whole(heard: bytes, whole: bytes, anew_ms: float) -> bool:
    """Whether all was heard, and once; with the fade of sound that begins anew inside a segment."""
    begin = ms_to_samples(anew_ms) * SAMPLE_BYTES
    fade = ms_to_samples(5) * SAMPLE_BYTES
    return (
        len(heard) == len(whole)
        and heard[:begin] == whole[:begin]
        and heard[begin + fade :] == whole[begin + fade :]
    )


# --- pause ------------------------------------------------------------------------------------


async def test_a_pause_loses_nothing_and_repeats_nothing(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        began = trio.current_time()
        item = await client.speak(LONG)
        await trio.sleep(0.4)
        await client.do(messages.PlayerPause())
        state = await client.status()
        assert (state.state, state.item) == ("paused", item)
        assert state.position_ms == pytest.approx(400, abs=1)
        await trio.sleep(10)
        assert (await client.status()).position_ms == state.position_ms
        await client.do(messages.PlayerResume())
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 3 * SENTENCE_MS)
        assert trio.current_time() - began == pytest.approx(10 + 3.3, abs=0.01)
    assert client.states() == ["buffering", "playing", "paused", "playing"]
    assert is_whole(bytes(sink.pcm), await pcm_of(LONG), state.position_ms)


class Fading(Listening):
    """Fades out when it is stopped, as devices do."""

    async def stop(self, *, cut: bool = False) -> int:
        heard = await super().stop(cut=cut)
        self.fade_samples = ms_to_samples(5)
        return heard


async def test_what_was_fading_at_a_pause_is_heard_again(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Fading()
    async with playing(settings, sink=sink) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.4)
        await client.do(messages.PlayerPause())
        paused = len(sink.pcm)
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"
    whole, fade = await pcm_of(LONG), ms_to_samples(5) * SAMPLE_BYTES
    assert bytes(sink.pcm[:paused]) == whole[:paused]
    assert bytes(sink.pcm[paused + fade :]) == whole[paused:], "less the fade of what begins anew"
    assert len(sink.pcm) == len(whole) + fade


class Deep(Listening):
    """Takes 200 ms at once, and a block."""

    depth_ms = 200.0


async def test_the_playout_knows_what_the_device_takes_at_once(
    settings: Settings, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Playout] = []
    makes = Player._playout

    def make(player: Player, request: SpeechRequest | LiveRequest) -> Playout:
        made.append(makes(player, request))
        return made[-1]

    monkeypatch.setattr(Player, "_playout", make)
    async with playing(settings, sink=Deep()) as player, player.client() as client:
        await client.done(await client.speak(LONG))
    assert [playout.gulp_samples for playout in made] == [ms_to_samples(220)]


@pytest.mark.parametrize("seed", range(12))
async def test_pauses_at_any_time_in_a_queue(
    settings: Settings, autojump_clock: MockClock, seed: int
) -> None:
    """Also between two items, and while the next is in the device already."""
    rng = random.Random(seed)
    texts = ["One two.", "Three.", "Four five six. Seven.", "Eight."]
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        items = [await client.speak(text, mode="queue") for text in texts]
        for _ in range(6):
            await trio.sleep(rng.uniform(0, 0.5))
            await client.do(messages.PlayerPause())
            if rng.random() < 0.7:
                await trio.sleep(rng.uniform(0, 2))
            await client.do(messages.PlayerResume())
        for item in items:
            if item not in [done.item for done in client.told(messages.ItemDone)]:
                await client.done(item)
        done = client.told(messages.ItemDone)
        assert [each.item for each in done] == items
        assert {each.outcome for each in done} == {"finished"}
        started = [each.item for each in client.told(messages.ItemStarted)]
        assert started == items
    whole = await pcm_of(*texts)
    assert len(sink.pcm) == len(whole)
    unlike = sum(a != b for a, b in zip(sink.pcm, whole, strict=True))
    assert unlike <= 6 * ms_to_samples(5) * SAMPLE_BYTES  # fades


async def test_a_pause_when_nothing_plays_is_none(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        for command in (
            messages.PlayerPause(),
            messages.PlayerPause(),
            messages.PlayerResume(),
            messages.PlayerToggle(),
        ):
            await client.do(command)
            assert (await client.status()).state == "idle"
        assert (await client.done(await client.speak("One."))).outcome == "finished"


async def test_toggle_pauses_and_resumes(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.2)
        await client.do(messages.PlayerToggle())
        assert (await client.status()).state == "paused"
        await client.do(messages.PlayerToggle())
        assert (await client.status()).state == "playing"
        assert (await client.done(item)).outcome == "finished"


async def test_what_is_queued_in_a_pause_waits_and_what_replaces_does_not(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        first = await client.speak(LONG)
        await trio.sleep(0.2)
        await client.do(messages.PlayerPause())
        second = await client.speak("One.", mode="queue")
        await trio.sleep(20)
        assert not client.told(messages.ItemDone)
        third = await client.speak("Two.")
        for item, outcome in ((first, "replaced"), (second, "replaced"), (third, "finished")):
            assert (await client.done(item)).outcome == outcome


async def test_a_pause_ends_with_what_was_paused(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.2)
        await client.do(messages.PlayerPause())
        await client.stop()
        done = await client.done(item)
        assert done.outcome == "stopped"
        assert done.played_ms == pytest.approx(200, abs=1)
        assert (await client.status()).state == "idle"
        assert (await client.done(await client.speak("One.", mode="queue"))).outcome == "finished"


async def test_a_pause_before_the_engine_has_answered_holds(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=-1, text=LONG)
    async with playing(settings, gate) as player, player.client() as client:
        await client.say(messages.PlayerSpeak(text=LONG, id="a"))
        await client.hear(messages.PlayerState, state="buffering")
        await client.do(messages.PlayerPause())
        gate.opened.set()
        await client.hear(messages.PlayerAck, reply_to="a")
        await trio.sleep(20)
        assert (await client.status()).state == "paused"
        await client.do(messages.PlayerResume())
        assert (await client.hear(messages.ItemDone)).outcome == "finished"


async def test_a_device_that_is_chosen_in_a_pause_is_there_at_once(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.3)
        await client.do(messages.PlayerPause())
        await client.do(messages.PlayerConfigure(device="default"))
        await trio.sleep(0.1)
        state = await client.status()
        assert (state.state, state.device) == ("paused", "null")
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"


async def test_in_a_long_pause_others_may_have_the_device(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        await client.do(messages.PlayerPause())
        await trio.sleep(59.5)
        assert sink.device == "null"
        await trio.sleep(1)
        assert sink.device is None
        before = await client.status()
        assert (before.state, before.device, before.depth_ms) == ("paused", "null", 0)
        await trio.sleep(300)
        assert (await client.status()).position_ms == before.position_ms
        assert sink.looked == 1
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"
        assert not client.told(messages.Warning)
        assert sink.looked == 2
    assert is_whole(bytes(sink.pcm), await pcm_of(LONG), before.position_ms)


async def test_every_pause_has_a_minute(settings: Settings, autojump_clock: MockClock) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, _):
        for _ in range(3):
            await client.do(messages.PlayerPause())
            await trio.sleep(30)
            assert (await client.status()).device == sink.device == "null"
            await client.do(messages.PlayerSeek(by_ms=100))  # a new order is no new pause
            await trio.sleep(29)
            assert sink.device == "null"
            await client.do(messages.PlayerResume())
            await trio.sleep(0.2)
        await client.do(messages.PlayerPause())
        await trio.sleep(30)
        await client.do(messages.PlayerSeek(sample=0))
        await trio.sleep(31)
        assert sink.device is None


async def test_a_text_instead_of_one_that_is_long_paused(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, _):
        await client.do(messages.PlayerPause())
        await trio.sleep(100)
        heard = len(sink.pcm)
        item = await client.speak("One two.")
        assert (await client.done(item)).outcome == "finished"
        assert not client.told(messages.Warning)
    assert bytes(sink.pcm[heard:]) == await pcm_of("One two.")


async def test_a_device_that_went_away_in_a_long_pause(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        await client.do(messages.PlayerPause())
        await trio.sleep(100)
        sink.plugged = False
        await trio.sleep(100)
        await client.do(messages.PlayerResume())
        state = await client.hear(messages.PlayerState, device=None)
        assert state.state == "buffering"
        sink.plugged = True
        assert (await client.done(item)).outcome == "finished"
    assert is_whole(bytes(sink.pcm), await pcm_of(LONG), state.position_ms)


async def test_another_device_is_chosen_in_a_long_pause(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        await client.do(messages.PlayerPause())
        await trio.sleep(100)
        await client.do(messages.PlayerConfigure(device="null"))
        await trio.sleep(1)
        assert (sink.wanted, sink.device, sink.looked) == ("null", None, 2)
        state = await client.status()
        assert state.device == "null"
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"
    assert is_whole(bytes(sink.pcm), await pcm_of(LONG), state.position_ms)


async def test_what_cannot_be_opened_again_is_not_closed_in_a_long_pause(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """A file would begin anew."""
    sink = Listening()
    sink.reopens = False
    async with reading(settings, sink) as (client, item):
        await client.do(messages.PlayerPause())
        await trio.sleep(300)
        assert sink.device == "null"
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"
        assert sink.looked == 1


async def test_a_pause_before_the_first_sound(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=0, text="One two.")
    sink = Listening()
    async with playing(settings, gate, sink) as player, player.client() as client:
        item = await client.speak("One two.")
        await client.do(messages.PlayerPause())
        gate.opened.set()
        await trio.sleep(5)
        assert not sink.pcm
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).played_ms == 2 * WORD_MS
    assert bytes(sink.pcm) == await pcm_of("One two.")


async def test_after_a_long_sleep_it_is_paused(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """Nobody who opens a computer expects it to go on speaking."""
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        sink.sleep(120.0)
        await client.hear(messages.PlayerState, state="paused")
        await trio.sleep(100)
        assert not client.told(messages.ItemDone)
        await client.do(messages.PlayerResume())
        assert (await client.done(item)).outcome == "finished"


# --- elsewhere --------------------------------------------------------------------------------


async def test_skipping_a_sentence(settings: Settings, autojump_clock: MockClock) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        await client.do(messages.PlayerSkip())
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 3 * SENTENCE_MS)
    whole = await pcm_of(LONG)
    skipped = ms_to_samples(SENTENCE_MS) * SAMPLE_BYTES
    assert bytes(sink.pcm[-2 * skipped :]) == whole[skipped:]
    assert len(sink.pcm) == pytest.approx(len(whole) - skipped * 0.6 / 1.1, abs=100)


async def test_going_back_by_sentences(settings: Settings, autojump_clock: MockClock) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        await subscribed(client, "state", "position")
        item = await client.speak(LONG)
        await trio.sleep(2.4)  # 0.2 s in the third sentence: it has hardly begun
        await client.do(messages.PlayerSkip(n=-1))
        await trio.sleep(0.05)
        assert (await client.status()).position_ms == pytest.approx(SENTENCE_MS + 50, abs=1)
        await client.do(messages.PlayerSkip(n=-7))
        await trio.sleep(0.05)
        assert (await client.status()).position_ms == pytest.approx(50, abs=1)
        assert (await client.done(item)).played_ms == 3 * SENTENCE_MS
        positions = [each.sample for each in client.told(messages.Position)]
        assert ms_to_samples(SENTENCE_MS) in positions  # told at once
    assert bytes(sink.pcm).endswith(await pcm_of(LONG))


async def test_behind_the_last_sentence_the_next_item_follows(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        first = await client.speak(LONG)
        second = await client.speak("One two.", mode="queue")
        await trio.sleep(0.5)
        began = trio.current_time()
        await client.do(messages.PlayerSkip(n=9))
        assert (await client.done(first)).outcome == "finished"
        assert trio.current_time() - began < 0.05
        assert (await client.done(second)).outcome == "finished"
    assert bytes(sink.pcm).endswith(await pcm_of("One two."))


async def test_skipping_items(settings: Settings, autojump_clock: MockClock) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        items = [await client.speak(text, mode="queue") for text in (LONG, LONG, "One.", "Two.")]
        await trio.sleep(0.5)
        await client.do(messages.PlayerSkip(unit="item", n=2))
        outcomes = [(await client.done(item)).outcome for item in items]
        assert outcomes == ["stopped", "stopped", "finished", "finished"]
        error = await client.fail(messages.PlayerSkip(unit="item", n=-1))
        assert (error.code, error.param) == ("invalid_value", "n")
        await client.do(messages.PlayerSkip(unit="item"))  # nothing is there
    assert bytes(sink.pcm).endswith(await pcm_of("One.", "Two."))


@pytest.mark.parametrize(
    ("seek", "ms"),
    [
        (messages.PlayerSeek(sample=ms_to_samples(2000)), 2000),
        (messages.PlayerSeek(fraction=0.5), 1650),
        (messages.PlayerSeek(by_ms=700), 1200),
        (messages.PlayerSeek(by_ms=-300), 200),
        (messages.PlayerSeek(by_ms=-3000), 0),
        (messages.PlayerSeek(sample=0), 0),
    ],
)
async def test_seeking(
    settings: Settings, autojump_clock: MockClock, seek: messages.PlayerSeek, ms: float
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        await client.do(seek)
        await trio.sleep(0.1)
        assert (await client.status()).position_ms == pytest.approx(ms + 100, abs=1)
        assert (await client.done(item)).outcome == "finished"
    whole = await pcm_of(LONG)
    begin = (ms_to_samples(ms) + ms_to_samples(6)) * SAMPLE_BYTES
    assert bytes(sink.pcm).endswith(whole[begin:])


async def test_seeking_in_a_pause_stays_paused(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with reading(settings) as (client, item):
        await client.do(messages.PlayerPause())
        await client.do(messages.PlayerSeek(sample=ms_to_samples(2000)))
        await trio.sleep(3)
        state = await client.status()
        assert (state.state, state.position_ms) == ("paused", 2000)
        await client.do(messages.PlayerResume())
        began = trio.current_time()
        await client.done(item)
        assert trio.current_time() - began == pytest.approx(1.3, abs=0.01)


async def test_a_seek_that_says_nothing_or_too_much(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        for seek in (messages.PlayerSeek(), messages.PlayerSeek(sample=1, fraction=0.5)):
            error = await client.fail(seek)
            assert (error.code, error.param) == ("invalid_value", "sample")
        await client.do(messages.PlayerSeek(sample=5))  # nothing plays


async def test_repeating_what_plays_what_is_over_and_what_came_in_pieces(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()

    class Short(ToneVoice):
        """Takes little text at once, as the engine does of a text that came in pieces."""

        @asynccontextmanager
        async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
            if isinstance(request, SpeechRequest) and len(request.text) < len(LONG):
                raise TextTooLong("It is too long.")
            async with super().__call__(request) as stream:
                yield stream

    async with playing(settings, Short(), sink) as player, player.client() as client:
        error = await client.fail(messages.PlayerRepeat())
        assert error.message == "Nothing was spoken that could be repeated."
        request = client.ask()
        await client.say(messages.PlayerOpen(id=request, speed=2.0))
        opened = (await client.hear(messages.PlayerAck, reply_to=request)).item
        assert opened is not None
        await client.do(messages.PlayerAppend(item=opened, text="One two. Th"))
        await client.do(messages.PlayerAppend(item=opened, text="ree."))
        await client.do(messages.PlayerEnd(item=opened))
        await client.done(opened)
        await client.do(messages.PlayerRepeat())
        again = await client.hear(messages.ItemDone)
        assert (again.outcome, again.played_ms) == ("finished", 1.5 * WORD_MS)
        await client.speak(LONG)
        await trio.sleep(0.5)
        await client.do(messages.PlayerRepeat())
        outcomes = [(await client.hear(messages.ItemDone)).outcome for _ in range(2)]
        assert outcomes == ["replaced", "finished"]
    assert bytes(sink.pcm).endswith(await pcm_of(LONG))
    assert bytes(sink.pcm).startswith(2 * await pcm_of("One two. Three.", speed=2.0))


async def test_steps_that_are_absurd_are_refused_and_harm_nobody(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak(LONG)
        for step in (1e308, -1e308, 86_400_001.0):
            assert (await client.fail(messages.PlayerSeek(by_ms=step))).param == "by_ms"
        await client.say(messages.PlayerSeek(by_ms=86_400_000.0))
        await client.say(messages.PlayerSeek(sample=2**53))
        assert (await client.done(item)).outcome == "finished"


async def test_skips_while_a_sentence_is_waited_for_add_up(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=1, text=LONG)
    sink = Listening()
    async with playing(settings, gate, sink) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(0.3)
        await client.do(messages.PlayerSkip())
        await trio.sleep(0.3)
        await client.do(messages.PlayerSkip())
        await trio.sleep(0.3)
        gate.opened.set()
        assert (await client.done(item)).outcome == "finished"
    last = await pcm_of("Nine ten eleven twelve.")
    assert len(sink.pcm) == pytest.approx(len(last) + ms_to_samples(300) * SAMPLE_BYTES, abs=500)


async def test_what_was_never_heard_is_not_repeated(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        await client.speak("One two three.")
        await client.speak("Four.", mode="queue")
        await trio.sleep(0.3)
        await client.stop()
        began = len(sink.pcm)
        await client.do(messages.PlayerRepeat())
        await client.hear(messages.ItemDone, outcome="finished")
    assert bytes(sink.pcm[began:]) == await pcm_of("One two three.")


# --- how --------------------------------------------------------------------------------------


async def test_the_volume(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        assert (await client.status()).volume == 1.0
        await client.do(messages.PlayerVolume(value=0.3))
        assert (await other.hear(messages.PlayerState)).volume == 0.3
        assert player.sink.volume == 0.3
        assert (await client.fail(messages.PlayerVolume(value=1.01))).param == "value"
        assert (await client.status()).volume == 0.3


async def test_speed_and_voice_for_what_follows(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """Of the text that plays what is not made yet, and of all that name none."""
    gate = Gate(before=1, text=LONG)
    async with playing(settings, gate) as player, player.client() as client:
        item = await client.speak(LONG)
        await client.do(messages.PlayerConfigure(speed=2.0, voice="bm_fable"))
        gate.opened.set()
        assert (await client.done(item)).played_ms == pytest.approx(2 * SENTENCE_MS, abs=1)
        state = await client.status()
        assert (state.speed, state.voice) == (2.0, "bm_fable")
        for fields, ms in (({}, 0.5), ({"speed": 1.0}, 1.0)):
            item = await client.speak("One two.", **fields)
            assert (await client.done(item)).played_ms == pytest.approx(2 * WORD_MS * ms, abs=1)
        await client.do(messages.PlayerConfigure(speed=1.0))
        assert (await client.status()).voice == "bm_fable"
        assert (await client.done(await client.speak("One."))).played_ms == WORD_MS


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"voice": "nobody"}, "unknown_voice", "voice"),
        ({"speed": 9.0}, "invalid_value", "speed"),
        ({"speed": 0.0}, "invalid_value", "speed"),
        ({"device": "gramophone"}, "invalid_value", "device"),
        ({"device": ""}, "invalid_value", "device"),
    ],
)
async def test_what_cannot_be_configured_changes_nothing(
    settings: Settings,
    autojump_clock: MockClock,
    fields: dict[str, str | float],
    code: str,
    param: str,
) -> None:
    async with playing(settings) as player, player.client() as client:
        command = messages.PlayerConfigure(**{"speed": 2.0, "voice": "af_heart", **fields})  # type: ignore[arg-type]
        error = await client.fail(command)
        assert (error.code, error.param) == (code, param)
        state = await client.status()
        assert (state.speed, state.voice, player.sink.wanted) == (None, None, None)


async def test_another_device_goes_on_where_the_first_was_heard(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Listening()
    async with reading(settings, sink) as (client, item):
        request = client.ask()
        await client.say(messages.AskDevices(id=request))
        devices = await client.hear(messages.Devices, reply_to=request)
        assert (devices.devices, devices.chosen) == (("null",), None)
        looked = sink.looked
        await client.do(messages.PlayerConfigure(device="NUL"))
        assert (await client.done(item)).outcome == "finished"
        assert (sink.wanted, sink.looked) == ("null", looked + 1)
        await client.do(messages.PlayerConfigure(device="default"))
        assert sink.wanted is None
    assert len(sink.pcm) == len(await pcm_of(LONG))


# --- the queue --------------------------------------------------------------------------------


async def queue_of(client: Client, **fields: object) -> messages.Queue:
    request = client.ask()
    await client.say(messages.PlayerQueue(id=request, **fields))  # type: ignore[arg-type]
    return await client.hear(messages.Queue, reply_to=request)


async def test_the_queue_can_be_listed_cleared_and_thinned(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        first = await client.speak(LONG, key="mine")
        second, third, fourth = [await other.speak("One.", mode="queue") for _ in range(3)]
        listed = await queue_of(client)
        assert [(each.item, each.waits, each.own) for each in listed.items] == [
            (first, False, True), (second, True, False), (third, True, False),
            (fourth, True, False),
        ]  # fmt: skip
        assert (listed.items[0].key, listed.items[0].chars) == ("mine", len(LONG))
        left = await queue_of(client, op="remove", item=third)
        assert [each.item for each in left.items] == [first, second, fourth]
        again = await queue_of(client, op="remove", item=third)
        assert again.items == left.items
        assert [each.item for each in (await queue_of(client, op="clear")).items] == [first]
        assert (await client.done(first)).outcome == "finished"
        ended = {done.item: done.outcome for done in client.told(messages.ItemDone)}
        assert ended == {
            first: "finished", second: "stopped", third: "stopped", fourth: "stopped",
        }  # fmt: skip
        error = await client.fail(messages.PlayerQueue(op="remove"))
        assert error.param == "item"


async def test_a_long_queue_fits_an_answer(settings: Settings, autojump_clock: MockClock) -> None:
    busy = settings.model_copy(update={"messages_per_s": 1000})
    async with playing(busy) as player, player.client() as client:
        for _ in range(300):
            await client.speak("One.", mode="queue", key="\x01" * 256)
        listed = await queue_of(client)
        assert len(listed.items) + listed.more == 300
        assert listed.items[0].key == "\x01" * 256
        await client.stop()


@pytest.mark.parametrize("op", ["stop", "remove", "clear"])
async def test_what_waits_is_ended_without_a_break_in_what_plays(
    settings: Settings, autojump_clock: MockClock, op: str
) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        first = await client.speak(LONG)
        second = await client.speak("One.", mode="queue")
        await trio.sleep(0.5)
        if op == "stop":
            await client.do(messages.PlayerStop(item=second))
        else:
            await queue_of(client, op=op, item=second)
        assert (await client.done(first)).outcome == "finished"
        ended = {done.item: done.outcome for done in client.told(messages.ItemDone)}
        assert ended == {first: "finished", second: "stopped"}
        assert sink.silenced == 0
    assert bytes(sink.pcm) == await pcm_of(LONG)


async def test_stopping_one_item(settings: Settings, autojump_clock: MockClock) -> None:
    sink = Listening()
    async with playing(settings, sink=sink) as player, player.client() as client:
        items = [await client.speak(text, mode="queue") for text in (LONG, "One.", "Two.")]
        await trio.sleep(0.5)
        await client.do(messages.PlayerStop(item=items[0]))
        await client.do(messages.PlayerStop(item=items[2]))
        await client.do(messages.PlayerStop(item=99))
        assert (await client.done(items[1])).outcome == "finished"
        outcomes = {done.item: done.outcome for done in client.told(messages.ItemDone)}
        assert outcomes == {items[0]: "stopped", items[1]: "finished", items[2]: "stopped"}
    assert bytes(sink.pcm).endswith(await pcm_of("One."))


# --- what is told -----------------------------------------------------------------------------


async def test_words_are_told_when_they_are_heard(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        await subscribed(client, "marks")
        item = await client.speak("One two three. Four five.")
        began = trio.current_time()
        await client.done(item)
        words = [(at, each) for at, each in client.heard if isinstance(each, messages.Word)]
        spans = [(word.char_start, word.char_end) for _, word in words]
        assert spans == [(0, 3), (4, 7), (8, 14), (15, 19), (20, 25)]
        for number, (at, word) in enumerate(words):
            assert word.item == item
            assert word.sample == ms_to_samples(number * WORD_MS)
            assert at - began == pytest.approx(number * WORD_MS / 1000, abs=0.005)
        assert not client.told(messages.PlayerState)
        assert not client.told(messages.Position)


async def test_words_that_are_heard_again_are_told_again_and_none_in_a_pause(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        await subscribed(client, "state", "marks")
        item = await client.speak("One two three four five.")
        await trio.sleep(0.7)
        await client.do(messages.PlayerPause())
        await trio.sleep(5)
        assert len(client.told(messages.Word)) == 3
        await client.do(messages.PlayerResume())
        await trio.sleep(0.3)
        await client.do(messages.PlayerSeek(sample=0))
        await client.done(item)
        starts = [word.char_start for word in client.told(messages.Word)]
        assert starts == [0, 4, 8, 14, 0, 4, 8, 14, 19]


async def test_positions_go_with_the_sound(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        await subscribed(client, "position")
        began = trio.current_time()
        item = await client.speak(LONG)
        await client.done(item)
        told = [(at, each) for at, each in client.heard if isinstance(each, messages.Position)]
        assert 30 <= len(told) <= 38
        for at, position in told:
            assert position.ms == pytest.approx((at - began) * 1000, abs=5)
            assert position.sentence is not None
            assert position.sentence.index == min(int(position.ms // SENTENCE_MS), 2)
        last = told[-1][1]
        assert last.of_ms == 3 * SENTENCE_MS
        assert LONG[last.sentence.char_start : last.sentence.char_end] == LONG[42:]  # type: ignore[union-attr]
        assert not other.told(messages.Position)


async def test_an_item_starts_when_its_first_sample_is_heard(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        await subscribed(client)
        began = trio.current_time()
        first = await client.speak("One two.", key="a")
        second = await client.speak("Three.", mode="queue")
        await client.done(second)
        await other.done(second)
        starts = [(at, each) for at, each in client.heard if isinstance(each, messages.ItemStarted)]
        assert [(each.item, each.key) for _, each in starts] == [(first, "a"), (second, None)]
        assert [at - began for at, _ in starts] == pytest.approx([0, 0.55], abs=0.005)
        assert len(other.told(messages.ItemStarted)) == 2


async def test_who_wants_no_state_hears_of_own_items_only(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        await subscribed(client)
        await other.done(await other.speak("One."))
        await client.done(await client.speak("Two."))
        assert len(client.told(messages.ItemDone)) == 1
        assert not client.told(messages.PlayerState)
        await subscribed(client, "state")
        await other.done(await other.speak("Three."))
        assert len((await queue_of(client)).items) == 0
        assert len(client.told(messages.ItemDone)) == 2


async def test_speech_that_ends_with_its_client(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as other:
        async with player.client() as client:
            item = await client.speak(LONG, on_disconnect="stop")
            after = await client.speak("One two.", mode="queue")
            await trio.sleep(0.5)
        done = await other.done(item)
        assert done.outcome == "stopped"
        assert done.played_ms == pytest.approx(500, abs=5)
        assert (await other.done(after)).outcome == "finished"


async def test_speech_that_is_accepted_when_its_client_is_gone(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=-1, text=LONG)
    async with playing(settings, gate) as player, player.client() as other:
        async with player.client() as client:
            await client.say(messages.PlayerSpeak(text=LONG, on_disconnect="stop"))
            await client.hear(messages.PlayerState, state="buffering")
        await trio.testing.wait_all_tasks_blocked(0.01)
        gate.opened.set()
        done = await other.hear(messages.ItemDone)
        assert (done.outcome, done.played_ms) == ("stopped", 0)
        assert (await other.status()).state == "idle"


# --- an engine that goes away -----------------------------------------------------------------


@pytest.mark.parametrize("error", [NotReady("Gone."), StreamCancelled("It stops.")])
async def test_speech_goes_on_with_the_next_sentence_when_the_engine_is_back(
    settings: Settings, autojump_clock: MockClock, error: NotReady
) -> None:
    crashing = Crashing(after=27, away_s=20, error=error)  # 22 frames are a sentence
    sink = Listening()
    async with playing(settings, crashing, sink) as player, player.client() as client:
        await subscribed(client, "state", "marks")
        item = await client.speak(LONG, key="mine")
        warning = await client.hear(messages.Warning)
        assert (warning.code, warning.message[:20]) == ("interrupted", "The engine went away")
        await client.hear(messages.PlayerState, state="recovering")
        done = await client.done(item)
        assert (done.outcome, done.key) == ("finished", "mine")
        assert done.played_ms == 2 * SENTENCE_MS + 250
        spoken = [LONG[word.char_start : word.char_end] for word in client.told(messages.Word)]
    assert spoken == LONG.split()[:5] + LONG.split()[8:]  # of the sixth word nothing had come
    whole = await pcm_of(LONG)
    five = 27 * ms_to_samples(50) * SAMPLE_BYTES
    last = await pcm_of("Nine ten eleven twelve.")
    assert bytes(sink.pcm) == whole[:five] + last
    assert [getattr(request, "text", None) for request in crashing.requests] == [
        LONG, LONG[LONG.index("eight.") + 6 :],
    ]  # fmt: skip


async def test_text_in_pieces_goes_on_too(settings: Settings, autojump_clock: MockClock) -> None:
    crashing = Crashing(after=27, away_s=3)
    sink = Listening()
    async with playing(settings, crashing, sink) as player, player.client() as client:
        request = client.ask()
        await client.say(messages.PlayerOpen(id=request))
        item = (await client.hear(messages.PlayerAck, reply_to=request)).item
        assert item is not None
        for at in range(0, len(LONG), 5):
            await client.do(messages.PlayerAppend(item=item, text=LONG[at : at + 5]))
            await trio.sleep(0.2)
        await client.do(messages.PlayerEnd(item=item))
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 2 * SENTENCE_MS + 250)
        assert [warning.code for warning in client.told(messages.Warning)] == ["interrupted"]
    assert bytes(sink.pcm).endswith(await pcm_of("Nine ten eleven twelve."))
    assert all(isinstance(request, LiveRequest) for request in crashing.requests)


async def test_an_engine_that_crashes_again_and_again(
    settings: Settings, autojump_clock: MockClock
) -> None:
    crashing = Crashing(after=5, times=3, away_s=1)
    async with playing(settings, crashing) as player, player.client() as client:
        item = await client.speak(LONG)
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 750)
        assert len(client.told(messages.Warning)) == 2  # behind the third there is no text


async def test_an_engine_that_does_not_come_back(
    settings: Settings, autojump_clock: MockClock
) -> None:
    crashing = Crashing(after=27, away_s=1000)
    async with playing(settings, crashing) as player, player.client() as client:
        item = await client.speak(LONG)
        began = trio.current_time()
        error = await client.hear(messages.PlayerError)
        assert (error.item, error.code) == (item, "not_ready")
        assert 55 < trio.current_time() - began <= 60
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("failed", SENTENCE_MS + 250)


async def test_stopping_while_the_engine_is_away(
    settings: Settings, autojump_clock: MockClock
) -> None:
    crashing = Crashing(after=27, away_s=1000)
    async with playing(settings, crashing) as player, player.client() as client:
        item = await client.speak(LONG)
        await client.hear(messages.PlayerState, state="recovering")
        await client.stop()
        assert (await client.done(item)).outcome == "stopped"
        assert (await client.status()).state == "idle"


async def test_an_engine_that_is_slower_than_speech_is_told_of_once(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings, ToneVoice(rtf=1.3)) as player, player.client() as client:
        await client.done(await client.speak(LONG))
        (warning,) = client.told(messages.Warning)
        assert warning.code == "engine_slow"
        assert warning.message.startswith("The engine takes 1.")
        assert (await client.status()).rtf == pytest.approx(1.3, rel=0.1)


async def test_the_engine_is_told_what_is_heard(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.5)
    async with playing(settings, voice) as player, player.client() as client:
        item = await client.speak(LONG)
        await trio.sleep(1.4)
        await client.do(messages.PlayerPause())
        await trio.sleep(1.2)
        reports = list(voice.heard)
        assert reports[0] == (0, False)
        assert any(playing for _, playing in reports)
        assert reports[-1][1] is False
        at_ms = (await client.status()).position_ms
        assert reports[-1][0] == pytest.approx(ms_to_samples(at_ms), abs=2)
        await client.do(messages.PlayerResume())
        await client.done(item)
