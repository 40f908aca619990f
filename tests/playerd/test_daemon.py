"""The player over its WebSocket, with a fake voice, a silent sink and a virtual clock.

A word of the fake voice lasts 275 ms.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.trio.client import connect as connect_websocket
from websockets.typing import Origin, Subprotocol

from engine.config import Settings
from engine.errors import NotReady, SynthesisFailed
from engine.process import address, open_listeners
from engine.request import LiveRequest, SpeechRequest, Stream
from playerd.items import Mode
from tests.playerd.playing import Gate, Unplugged, playing
from tests.support.access import TOKEN
from tests.support.reading import hear
from tests.support.tone import ToneVoice
from wsproto_api import messages
from wsproto_api.server import EngineServer
from wsproto_api.speak import WebSocketSpeak

WORD_MS = 275.0

#: what a program shows
SHOWN: dict[str, Any] = {"additional_headers": {"Authorization": f"Bearer {TOKEN}"}}


async def pcm_of(*texts: str) -> bytes:
    """What the fake voice says to these texts, one after the other."""
    return b"".join([(await hear(ToneVoice(), SpeechRequest(text=text))).pcm for text in texts])


async def test_a_text_from_request_to_the_end(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two three four.", key="mine")
        began = trio.current_time()
        done = await client.done(item)
        took_s = trio.current_time() - began
    assert done == messages.ItemDone(
        item=item, key="mine", outcome="finished", played_ms=4 * WORD_MS
    )
    assert took_s == pytest.approx(4 * WORD_MS / 1000, abs=0.001)
    assert client.states() == ["buffering", "playing"]
    revs = [state.rev for state in client.told(messages.PlayerState)]
    assert revs == sorted(set(revs))


async def test_ready_says_where_sound_goes(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client:
        state = await client.status()
    assert (state.state, state.item, state.queue_len, state.device) == ("idle", None, 0, "null")


async def test_done_comes_when_sound_is_over_not_when_it_was_sent(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """The whole of it is buffered at once; the device has 100 ms of it at most."""
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two three four.")
        await trio.sleep(1.05)
        state = await client.status()
        assert (state.state, state.item) == ("playing", item)
        assert not client.told(messages.ItemDone)
        await client.done(item)
        assert (await client.hear(messages.PlayerState)).state == "idle"


async def test_queued_texts_follow_each_other_without_a_gap(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as player, player.client() as client:
        began = trio.current_time()
        items = [await client.speak(f"Text {n} says so.", mode="queue") for n in range(3)]
        assert (await client.status()).queue_len == 2
        for n, item in enumerate(items, 1):
            assert (await client.done(item)).outcome == "finished"
            assert trio.current_time() - began == pytest.approx(n * 1.1, abs=0.001)
    assert bytes(sink.pcm) == await pcm_of(*(f"Text {n} says so." for n in range(3)))
    assert items == sorted(items)


async def test_replacing_ends_what_plays_and_what_waits(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        first = await client.speak("One two three four.")
        second = await client.speak("Five six.", mode="queue")
        await trio.sleep(0.5)
        third = await client.speak("Seven.")
        began = trio.current_time()
        ended = [await client.done(first), await client.done(second)]
        assert [done.outcome for done in ended] == ["replaced", "replaced"]
        assert ended[0].played_ms == pytest.approx(500, abs=1)
        assert ended[1].played_ms == 0
        assert (await client.done(third)).outcome == "finished"
        assert trio.current_time() - began == pytest.approx(0.275, abs=0.001)


async def test_a_text_that_cannot_be_spoken_replaces_nothing(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two three four.")
        error = await client.refused("Hello.", voice="nobody")
        assert (error.code, error.param, error.retryable) == ("unknown_voice", "voice", False)
        done = await client.done(item)
    assert (done.outcome, done.played_ms) == ("finished", 4 * WORD_MS)


async def test_toggle_speaks_when_nothing_plays_and_stops_when_something_does(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two.", mode="toggle")
        await trio.sleep(0.2)
        request = client.ask()
        await client.say(messages.PlayerSpeak(text="Three.", mode="toggle", id=request))
        ack = await client.hear(messages.PlayerAck, reply_to=request)
        assert ack.item is None
        done = await client.done(item)
        assert done.outcome == "stopped"
        assert done.played_ms == pytest.approx(200, abs=1)
        assert (await client.status()).state == "idle"
        again = await client.speak("One two.", mode="toggle")
        assert (await client.done(again)).outcome == "finished"


async def test_stop_ends_everything_at_once_and_again(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice()
    async with playing(settings, voice) as player, player.client() as client:
        items = [await client.speak("One two three four.", mode="queue") for _ in range(3)]
        await trio.sleep(0.4)
        began = trio.current_time()
        await client.stop()
        for item in items:
            assert (await client.done(item)).outcome == "stopped"
        assert trio.current_time() - began < 0.1
        assert (await client.status()).state == "idle"
        assert voice.active == 0
        await client.stop()
        await client.stop()
        assert len(client.told(messages.ItemDone)) == 3
        last = await client.speak("And on.")
        assert (await client.done(last)).outcome == "finished"


async def test_stop_reaches_a_text_that_the_engine_has_not_accepted(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=-1, text="Slow.")
    async with playing(settings, gate) as player, player.client() as client:
        slow = client.ask()
        await client.say(messages.PlayerSpeak(text="Slow.", id=slow))
        await client.hear(messages.PlayerState, state="buffering")
        request = client.ask()
        await client.say(messages.PlayerStop(id=request))
        error = await client.hear(messages.PlayerError)
        assert (error.reply_to, error.code) == (slow, "cancelled")
        await client.hear(messages.PlayerAck, reply_to=request)
        assert (await client.status()).state == "idle"
        assert not client.told(messages.ItemDone)


async def test_the_engine_may_be_slow_but_not_for_ever(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=-1, text="Slow.")
    async with playing(settings, gate) as player, player.client() as client:
        error = await client.refused("Slow.")
        assert (error.code, error.retryable) == ("not_ready", True)
        assert error.message == "The engine did not answer within 10 s."
        assert (await client.done(await client.speak("Fast."))).outcome == "finished"


async def test_engine_not_there(settings: Settings, autojump_clock: MockClock) -> None:
    """Over a real socket, where nobody listens."""
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    speak = WebSocketSpeak(f"ws://127.0.0.1:{port}/", TOKEN)
    async with playing(settings, speak) as player, player.client() as client:
        error = await client.refused("Hello.")
        assert (error.code, error.retryable) == ("not_ready", True)
        assert error.message.endswith(".")
        assert (await client.status()).state == "idle"


async def test_a_stream_that_fails_is_played_as_far_as_it_came(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(fail_at=1, failure=SynthesisFailed("The model failed."))
    async with playing(settings, voice) as player:
        async with player.client() as other, player.client() as client:
            item = await client.speak("One two. Three four.")
            error = await client.hear(messages.PlayerError)
            assert (error.item, error.code, error.reply_to) == (item, "synthesis_failed", None)
            for each in (client, other):
                done = await each.done(item)
                assert (done.outcome, done.played_ms) == ("failed", 2 * WORD_MS)
            assert not other.told(messages.PlayerError)


async def test_a_text_that_waited_may_turn_out_not_to_be_speakable(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """It was acknowledged when it was queued, so it ends as an item does."""
    gate = Gate(before=1, text="One. Two.")
    async with playing(settings, gate) as player, player.client() as client:
        first = await client.speak("One. Two.")
        second = await client.speak("Three.", mode="queue", voice="nobody")
        third = await client.speak("Four.", mode="queue")
        gate.opened.set()
        error = await client.hear(messages.PlayerError, item=second)
        assert (error.code, error.param) == ("unknown_voice", "voice")
        outcomes = [(await client.hear(messages.ItemDone)) for _ in range(3)]
    assert [(done.item, done.outcome, done.played_ms) for done in outcomes] == [
        (first, "finished", 2 * WORD_MS),
        (second, "failed", 0),
        (third, "finished", WORD_MS),
    ]


async def test_a_late_segment_is_an_underrun_and_nothing_is_lost(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    gate = Gate(before=1, text="One two. Three four.")
    async with playing(settings, gate, sink) as player, player.client() as client:
        item = await client.speak("One two. Three four.")
        await trio.sleep(0.5)
        assert (await client.status()).underruns == 0
        await trio.sleep(1)
        state = await client.status()
        assert (state.state, state.underruns, state.buffered_ms) == ("recovering", 1, 0)
        gate.opened.set()
        began = trio.current_time()
        assert (await client.done(item)).played_ms == 4 * WORD_MS
        assert trio.current_time() - began == pytest.approx(0.55, abs=0.001)
    assert client.states() == ["buffering", "playing", "recovering", "playing"]
    assert bytes(sink.pcm) == await pcm_of("One two. Three four.")


class Away(ToneVoice):
    """An engine that is away for a time after it has made its first stream."""

    def __init__(self, away_s: float) -> None:
        super().__init__(rtf=0.05)
        self.back_s: float | None = None
        self._away_s = away_s

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        if self.back_s is not None and trio.current_time() < self.back_s:
            raise NotReady("Nothing answers.")
        async with super().__call__(request) as stream:
            yield stream
        if self.back_s is None:
            self.back_s = trio.current_time() + self._away_s


async def test_what_waits_is_spoken_when_the_engine_was_away_between_two_texts(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings, Away(3.0)) as player, player.client() as client:
        items = [await client.speak("One two three four five. " * 4)]
        items += [await client.speak(f"Text {n}.", mode="queue") for n in range(3)]
        outcomes = [(await client.done(item)).outcome for item in items]
    assert outcomes == ["finished"] * 4
    (warning,) = client.told(messages.Warning)
    assert warning.code == "interrupted"
    assert "is spoken when it is back" in warning.message


async def test_who_asks_an_engine_that_is_away_is_told_so(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings, Away(3.0)) as player, player.client() as client:
        await client.done(await client.speak("One."))
        error = await client.fail(messages.PlayerSpeak(text="Two."))
        assert error.code == "not_ready"


async def test_what_the_device_had_to_wait_for_is_told(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    async with playing(settings, ToneVoice(), sink) as player, player.client() as client:
        await client.speak("One two three four.")
        await trio.sleep(0.5)
        sink.underruns = 2
        sink.on_change()
        state = await client.hear(messages.PlayerState, underruns=2)
        assert state.state == "playing"


async def test_a_segment_in_the_nick_of_time_is_no_underrun(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice(rtf=0.9)
    async with playing(settings, voice) as player, player.client() as client:
        await client.done(await client.speak("One two three. Four five six. Seven eight nine."))
        assert (await client.status()).underruns == 0


async def test_a_long_text_is_not_fetched_all_at_once(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice()
    text = " ".join(["One two three four."] * 100)  # 110 s
    async with playing(settings, voice) as player, player.client() as client:
        item = await client.speak(text)
        await trio.sleep(0.01)
        state = await client.status()
        assert 29_000 <= state.buffered_ms <= 31_000
        assert voice.segments_made < 35
        await trio.sleep(20)
        assert 40 < voice.segments_made < 55
        assert (await client.done(item)).played_ms == 110_000


# --- no device --------------------------------------------------------------------------------


async def test_without_a_device_speech_waits_for_one(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged()
    async with playing(settings, sink=sink) as player, player.client() as client:
        request = client.ask()
        await client.say(messages.PlayerSpeak(text="One two.", id=request))
        ack = await client.hear(messages.PlayerAck, reply_to=request)
        warning = await client.hear(messages.Warning)
        assert (warning.code, warning.reply_to) == ("no_device", request)
        assert warning.message == "No sound device; speech waits until there is one."
        await trio.sleep(60)
        state = await client.status()
        assert (state.device, state.state, state.item) == (None, "buffering", ack.item)
        assert 31 <= sink.looked <= 34  # every two seconds, and at first more often
        sink.plugged = True
        state = await client.hear(messages.PlayerState, device="null")
        began = trio.current_time()
        assert ack.item is not None
        assert (await client.done(ack.item)).played_ms == 2 * WORD_MS
        assert trio.current_time() - began == pytest.approx(0.55, abs=0.001)
    assert bytes(sink.pcm) == await pcm_of("One two.")


async def test_speech_may_wait_long_while_the_engine_holds_it(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """Over a real socket, full of frames that the player does not take while it waits."""
    sink, voice = Unplugged(), ToneVoice()
    text = " ".join(["One two three four."] * 100)  # 110 s
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners("127.0.0.1", 0)
        await nursery.start(EngineServer(voice, voice, settings, TOKEN).serve, listeners)
        speak = WebSocketSpeak(address("ws", listeners) + "/", TOKEN)
        async with playing(settings, speak, sink) as player, player.client() as client:
            item = await client.speak(text)
            await trio.sleep(300)
            sink.plugged = True
            done = await client.done(item)
            assert (done.outcome, done.played_ms) == ("finished", 110_000)
        nursery.cancel_scope.cancel()


async def test_stop_works_without_a_device(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings, sink=Unplugged()) as player, player.client() as client:
        item = await client.speak("One two.")
        await client.stop()
        done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("stopped", 0)
        assert (await client.status()).state == "idle"


async def test_a_device_that_goes_away_is_waited_for_and_speech_goes_on(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as player, player.client() as client:
        item = await client.speak("One two three four five six.")
        await trio.sleep(0.5)
        sink.plugged = False
        await client.hear(messages.PlayerState, device=None)
        await trio.sleep(10)
        assert (await client.status()).state == "buffering"
        sink.plugged = True
        assert (await client.done(item)).outcome == "finished"
    # What the device had in hand is not heard; but nothing was written twice, nothing left out.
    assert bytes(sink.pcm) == await pcm_of("One two three four five six.")


async def test_a_device_that_goes_away_when_it_is_to_be_silent(
    settings: Settings, autojump_clock: MockClock
) -> None:
    sink = Unplugged(plugged=True)
    async with playing(settings, sink=sink) as player, player.client() as client:
        item = await client.speak("One two three four five six.")
        await trio.sleep(0.5)
        sink.plugged = False
        await client.stop()
        assert (await client.done(item)).outcome == "stopped"
        assert (await client.status()).device is None


# --- clients ----------------------------------------------------------------------------------


async def test_speech_outlives_the_client_that_asked_for_it(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as other:
        async with player.client() as client:
            item = await client.speak("One two three four.")
        done = await other.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 4 * WORD_MS)


async def test_all_clients_hear_of_state_and_ends(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as one, player.client() as two:
        item = await one.speak("One.")
        for client in (one, two):
            await client.done(item)
            assert (await client.hear(messages.PlayerState)).state == "idle"
        assert [s.rev for s in one.told(messages.PlayerState)] == [
            s.rev for s in two.told(messages.PlayerState)
        ]
        assert not two.told(messages.PlayerAck)


async def test_a_client_may_stop_what_another_asked_for(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, player.client() as one, player.client() as two:
        item = await one.speak("One two three four.")
        await two.stop()
        assert (await one.done(item)).outcome == "stopped"


async def test_ping_and_what_has_no_id(settings: Settings, autojump_clock: MockClock) -> None:
    async with playing(settings) as player, player.client() as client:
        await client.say(messages.PlayerStop())
        await client.say(messages.PlayerSpeak(text="One."))
        await client.say(messages.Ping(id="p"))
        await client.hear(messages.Pong, reply_to="p")
        done = await client.hear(messages.ItemDone)
        assert done.outcome == "finished"
        assert not client.told(messages.PlayerAck)


@pytest.mark.parametrize("text", ["", " \n\t "])
async def test_a_text_without_anything_in_it(
    settings: Settings, autojump_clock: MockClock, text: str
) -> None:
    async with playing(settings) as player, player.client() as client:
        item = await client.speak("One two three four.")
        error = await client.refused(text)
        assert (error.code, error.param) == ("invalid_value", "text")
        assert error.message == "There is no text to speak."
        assert (await client.done(item)).outcome == "finished"


@pytest.mark.parametrize(
    ("data", "reply", "param"),
    [
        ("{", None, None),
        ("[1]", None, None),
        ('{"type": "speak", "id": "a"}', "a", "text"),
        ('{"type": "speak", "id": "a", "text": 5}', "a", "text"),
        ('{"type": "speak", "id": "a", "text": "x", "mode": "loud"}', "a", "mode"),
        ('{"type": "speak", "id": "a", "text": "x", "speed": "fast"}', "a", "speed"),
        ('{"type": "stop", "id": 5}', None, "id"),
        (b"\x00\x01", None, None),
    ],
)
async def test_nonsense_is_answered_and_harms_nothing(
    settings: Settings,
    autojump_clock: MockClock,
    data: str | bytes,
    reply: str | None,
    param: str | None,
) -> None:
    async with playing(settings) as player, connect_websocket(player.url, **SHOWN) as socket:
        assert json.loads(await socket.recv())["type"] == "ready"
        await socket.send(data)
        answer = json.loads(await socket.recv())
        assert (answer["type"], answer.get("reply_to")) == ("error", reply)
        assert answer["code"] in ("bad_json", "bad_message")
        assert answer.get("param") == param
        await socket.send('{"type": "ping", "id": "p"}')
        assert json.loads(await socket.recv()) == {"type": "pong", "reply_to": "p"}


async def test_types_and_fields_that_nobody_knows(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player, connect_websocket(player.url, **SHOWN) as socket:
        await socket.recv()
        await socket.send('{"type": "levitate", "height": 2}')
        assert json.loads(await socket.recv())["code"] == "unknown_type"
        await socket.send('{"type": "stop", "id": "s", "gently": true}')
        assert json.loads(await socket.recv())["code"] == "unknown_field"
        assert json.loads(await socket.recv()) == {"type": "ack", "reply_to": "s"}


async def test_a_page_of_somebody_elses_may_not_connect(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async with playing(settings) as player:
        assert await refused(player.url, origin=Origin("https://example.org")) == 403


async def refused(url: str, **options: Any) -> int:
    """The HTTP status of a refusal."""
    try:
        async with connect_websocket(url, **options):
            pytest.fail("it was let in")
    except InvalidStatus as error:
        return error.response.status_code


async def test_everybody_needs_the_token_pages_too(
    settings: Settings, autojump_clock: MockClock
) -> None:
    ours = Origin(f"http://127.0.0.1:{settings.http_port}")
    protocol = Subprotocol(messages.PROTOCOL)
    async with playing(settings) as player:
        assert await refused(player.url) == 401
        assert await refused(player.url, additional_headers={"Authorization": "Bearer x"}) == 401
        assert await refused(player.url, origin=ours) == 401
        carried = [protocol, Subprotocol(f"bearer.{TOKEN}")]
        async with connect_websocket(player.url, origin=ours, subprotocols=carried) as socket:
            assert json.loads(await socket.recv())["type"] == "ready"
        async with connect_websocket(player.url, origin=ours, subprotocols=[protocol]) as socket:
            await socket.send(json.dumps({"type": "auth", "id": "a", "token": TOKEN}))
            assert json.loads(await socket.recv())["type"] == "ready"
            assert json.loads(await socket.recv()) == {"type": "ack", "reply_to": "a"}
        async with connect_websocket(player.url, origin=ours, subprotocols=[protocol]) as socket:
            await socket.send('{"type": "stop", "id": "s"}')
            error = json.loads(await socket.recv())
            assert (error["code"], error["reply_to"]) == ("unauthorized", "s")
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 4401


# --- many things at once ----------------------------------------------------------------------


async def test_a_text_that_replaces_another_that_was_not_accepted_yet(
    settings: Settings, autojump_clock: MockClock
) -> None:
    gate = Gate(before=-1, text="Slow.")
    async with playing(settings, gate) as player, player.client() as client:
        playing_item = await client.speak("One two three four.")
        slow = client.ask()
        await client.say(messages.PlayerSpeak(text="Slow.", id=slow))
        fast = client.ask()
        await client.say(messages.PlayerSpeak(text="Fast.", id=fast))
        item = (await client.hear(messages.PlayerAck, reply_to=fast)).item
        error = await client.hear(messages.PlayerError)
        assert (error.reply_to, error.code) == (slow, "cancelled")
        assert (await client.done(playing_item)).outcome == "replaced"
        assert item is not None
        assert (await client.done(item)).outcome == "finished"


async def test_a_flood_of_commands_ends_in_order(
    settings: Settings, autojump_clock: MockClock
) -> None:
    """Every request is answered once, every accepted item ends once, and then there is peace."""
    voice, sink = ToneVoice(rtf=0.3), Unplugged(plugged=True)
    modes: tuple[Mode, ...] = ("queue", "replace", "queue", "toggle", "queue")
    asked: set[str] = set()
    async with playing(settings, voice, sink) as player, player.client() as client:
        for n in range(60):
            asked.add(request := client.ask())
            if n % 7 == 6:
                await client.say(messages.PlayerStop(id=request))
            else:
                speak = messages.PlayerSpeak(text=f"Number {n}.", mode=modes[n % 5], id=request)
                await client.say(speak)
            await trio.sleep(0.05 * (n % 4))
        for _ in range(60):
            await trio.sleep(1)
            state = await client.status()
        assert state.state == "idle"
        acks = client.told(messages.PlayerAck)
        errors = client.told(messages.PlayerError)
        replies = [reply.reply_to for reply in (*acks, *errors)]
        assert len(replies) == len(set(replies))
        assert asked <= set(replies)
        assert {error.code for error in errors} <= {"cancelled"}
        items = [ack.item for ack in acks if ack.item is not None]
        assert sorted(items) == sorted(done.item for done in client.told(messages.ItemDone))
    assert voice.active == 0


async def test_the_end_of_the_player_is_the_end_of_sound(
    settings: Settings, autojump_clock: MockClock
) -> None:
    voice = ToneVoice()
    async with playing(settings, voice) as player, player.client() as client:
        await client.speak("One two three four five six seven eight.")
        await trio.sleep(0.5)
        player.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert (player.sink.device, voice.active) == (None, 0)
