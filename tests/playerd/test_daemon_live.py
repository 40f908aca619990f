"""Text in pieces through the player's socket: played as it comes."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

from engine.config import Settings
from engine.request import SpeechRequest
from tests.support.reading import hear
from tests.support.tone import WORD_MS, ToneVoice
from wsproto_api import messages

from .playing import Client, Unplugged, playing

TEXT = "One two three. Four five."


async def opened(client: Client, **fields: object) -> int:
    """Has a text in pieces accepted; gives the number of its item."""
    request = client.ask()
    await client.say(messages.PlayerOpen(id=request, **fields))  # type: ignore[arg-type]  # a shorthand
    ack = await client.hear(messages.PlayerAck, reply_to=request)
    assert ack.item is not None
    return ack.item


async def append(client: Client, item: int, text: str) -> None:
    request = client.ask()
    await client.say(messages.PlayerAppend(id=request, item=item, text=text))
    assert (await client.hear(messages.PlayerAck, reply_to=request)).item == item


async def end(client: Client, item: int) -> None:
    request = client.ask()
    await client.say(messages.PlayerEnd(id=request, item=item))
    await client.hear(messages.PlayerAck, reply_to=request)


async def test_text_in_pieces_is_played_like_the_same_text_at_once(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as player, player.client() as client:
        item = await opened(client, key="mine")
        for at in range(0, len(TEXT), 3):
            await append(client, item, TEXT[at : at + 3])
        await end(client, item)
        done = await client.done(item)
    assert (done.outcome, done.key, done.played_ms) == ("finished", "mine", 5 * WORD_MS)
    assert bytes(sink.pcm) == (await hear(ToneVoice(), SpeechRequest(text=TEXT))).pcm


async def test_the_first_sentence_is_heard_before_the_second_comes(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await opened(client)
        await append(client, item, "One two three. F")
        await client.hear(messages.PlayerState, state="playing")
        await trio.sleep(1.0)
        await append(client, item, "our five.")
        await end(client, item)
        assert (await client.done(item)).played_ms == 5 * WORD_MS


async def test_text_is_taken_while_the_item_waits(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        first = await client.speak("One two three four.")
        item = await opened(client, mode="queue")
        await append(client, item, "Five. ")
        await end(client, item)
        assert (await client.done(first)).outcome == "finished"
        assert (await client.done(item)).played_ms == WORD_MS


@pytest.mark.parametrize(
    ("on_disconnect", "ends", "outcome"),
    [
        (None, False, "stopped"),  # it broke off: nobody knows what it was to be
        (None, True, "finished"),
        ("finish", False, "finished"),
        ("finish", True, "finished"),
        ("stop", False, "stopped"),
        ("stop", True, "stopped"),
    ],
)
async def test_what_becomes_of_the_text_of_who_vanishes(
    settings: Settings,
    autojump_clock: MockClock,
    on_disconnect: messages.OnDisconnect | None,
    ends: bool,
    outcome: str,
) -> None:
    """Two sentences, of which the first is complete and is heard when the connection goes."""
    async with playing(settings) as player, player.client() as other:
        async with player.client() as client:
            item = await opened(client, on_disconnect=on_disconnect)
            await append(client, item, TEXT)
            if ends:
                await end(client, item)
            await trio.sleep(0.5)
        done = await other.done(item)
        assert done.outcome == outcome
        heard_ms = 5 * WORD_MS if outcome == "finished" else 500
        assert done.played_ms == pytest.approx(heard_ms, abs=5)


async def test_a_text_that_waits_and_is_broken_off_is_not_heard(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as other:
        first = await other.speak("One two.")
        async with player.client() as client:
            item = await opened(client, mode="queue")
            await append(client, item, "Three")
        assert (await other.done(item)).outcome == "stopped"
        assert (await other.done(first)).outcome == "finished"


async def test_only_who_opened_it_adds_to_it(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client, player.client() as other:
        item = await opened(client)
        for message in (
            messages.PlayerAppend(id="a", item=item, text="Three."),
            messages.PlayerEnd(id="b", item=item),
        ):
            await other.say(message)
            error = await other.hear(messages.PlayerError, reply_to=message.id)
            assert (error.code, error.param) == ("unknown_stream", "item")
        await append(client, item, "One two.")
        await end(client, item)
        assert (await client.done(item)).played_ms == 2 * WORD_MS


async def test_stopping_ends_it_and_no_text_is_taken_any_more(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice()
    async with playing(settings, voice) as player, player.client() as client:
        item = await opened(client)
        await append(client, item, "One two three. Four")
        await client.hear(messages.PlayerState, state="playing")
        await client.stop()
        assert (await client.done(item)).outcome == "stopped"
        for message in (
            messages.PlayerAppend(id="late", item=item, text="five"),
            messages.PlayerEnd(id="later", item=item),
        ):
            await client.say(message)
            error = await client.hear(messages.PlayerError, reply_to=message.id)
            assert (error.code, error.param) == ("unknown_stream", "item")
        await trio.testing.wait_all_tasks_blocked()
        assert voice.active == 0


async def test_what_takes_no_text(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two three four.")
        await client.say(messages.PlayerAppend(id="a", item=item, text="five"))
        assert (await client.hear(messages.PlayerError, reply_to="a")).code == "unknown_stream"
        item = await opened(client, mode="queue")
        await end(client, item)
        await end(client, item)  # as often as one likes
        await client.say(messages.PlayerAppend(id="b", item=item, text="six"))
        assert (await client.hear(messages.PlayerError, reply_to="b")).code == "invalid_value"


async def test_too_much_text(settings: Settings, autojump_clock: MockClock) -> None:
    small = settings.model_copy(update={"text_chars": 10, "live_chars": 15})
    async with playing(small, ToneVoice(rtf=0.9)) as player, player.client() as client:
        await client.speak("One two three four.")  # while it is made, the next one waits
        item = await opened(client, mode="queue")
        await append(client, item, "1234567890")
        for text, code in (("1", "overloaded"), ("12345678901", "text_too_long")):
            await client.say(messages.PlayerAppend(id=text, item=item, text=text))
            assert (await client.hear(messages.PlayerError, reply_to=text)).code == code


async def test_a_voice_that_is_not_there_is_refused(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        await client.say(messages.PlayerOpen(id="a", voice="nobody"))
        assert (await client.hear(messages.PlayerError, reply_to="a")).code == "unknown_voice"


async def test_what_the_engine_takes_no_more_of_ends_with_what_it_has(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice()
    voice.live_chars = 12  # of the engine; the player would take more
    async with playing(settings, voice) as player, player.client() as client:
        item = await opened(client)
        await append(client, item, "One two.")
        await trio.testing.wait_all_tasks_blocked(0.01)  # the engine has it
        await append(client, item, " Three four.")
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 2 * WORD_MS)
