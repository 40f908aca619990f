"""A long text at one sitting: no hole, nothing lost, and no memory that grows.

Half an hour in virtual time with an engine that takes 0.5 s for a second of speech, and five real
minutes with the real one, for `make soak`. In short, the first is here too, and the second is in
`test_measures`.
"""

from __future__ import annotations

import gc
import math
import random
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock

from engine.audio import SAMPLE_RATE, samples_to_ms
from engine.config import Settings
from engine.request import Event, Frame, SegmentDone
from playerd.sinks.null import NullSink
from tests.playerd.measuring import (
    SENTENCES,
    Engine,
    following,
    holes,
    real_engine,
    resident_mb,
    runs,
    samples,
)
from tests.playerd.playing import Client, playing
from tests.playerd.program import engine, no_traceback, running
from tests.support.access import TOKEN
from tests.support.rig import Rig
from tests.support.tone import WORD_MS, ToneVoice
from tests.support.undisturbed import Lateness
from tests.wsproto_api.conftest import idle_clock
from wsproto_api import messages
from wsproto_api.speak import WebSocketSpeak

__all__ = ["idle_clock", "real_engine"]

#: what an engine may take for a second of speech, so that there is to be no hole
RTF = 0.5
#: so far ahead of the voice text is there, as of whoever reads a file
AHEAD_S = 60
#: By then all is full that is kept: 60 s of what was heard, 30 s of what is to be.
SETTLED_S = 120
#: how long the real engine is listened to
MINUTES = 5
#: memory may grow by so much from the first quarter of the rest to the last, in MB
GROWTH_MB = 4.0
QUARTERS = 4
#: how often the player is asked, and how far what the machine did is from what came of it at most
LOOK_S, EXCUSE_S = 1.0, 0.3


def article(seed: int) -> list[str]:
    """So many paragraphs that nobody will hear the end: of four to eight sentences each."""
    chance = random.Random(seed)
    return [
        " ".join(chance.choices(SENTENCES, k=chance.randint(4, 8))) + "\n\n" for _ in range(300)
    ]


def weight(pcm: bytes) -> int:
    """What is the same for two pieces that hold the same sound, whatever silence is between."""
    return int(np.abs(samples(pcm).astype(np.int64)).sum())


class WeighingSink(NullSink):
    """Adds up what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = 0

    async def write(self, pcm: bytes) -> None:
        self.weight += weight(pcm)
        await super().write(pcm)


class WeighedVoice(ToneVoice):
    """Adds up what it speaks."""

    weight = 0
    samples = 0

    async def _events(self, *arguments: Any) -> AsyncGenerator[Event]:
        async with aclosing(super()._events(*arguments)) as events:
            async for event in events:
                if isinstance(event, Frame):
                    self.weight += weight(event.pcm)
                    self.samples += event.samples
                yield event


async def open_item(client: Client) -> int:
    """Has a text spoken that comes in pieces."""
    request = client.ask()
    await client.say(messages.PlayerOpen(id=request))
    ack = await client.hear(messages.PlayerAck, reply_to=request)
    assert ack.item is not None
    return ack.item


@pytest.mark.parametrize("minutes", [2, pytest.param(30, marks=pytest.mark.soak)])
async def test_half_an_hour_at_one_sitting(
    settings: Settings, idle_clock: MockClock, minutes: int
) -> None:
    voice, sink = WeighedVoice(rtf=RTF), WeighingSink()
    sizes_mb: dict[float, float] = {}
    text = iter(article(1))
    async with (
        engine(settings, voice) as port,
        playing(
            settings,
            WebSocketSpeak(f"ws://127.0.0.1:{port}", TOKEN),
            sink,
            limit_s=2 * 60 * minutes,
        ) as player,
        player.client() as client,
    ):
        item = await open_item(client)
        said_s = 0.0
        while (heard_s := sink.heard_samples / SAMPLE_RATE) < minutes * 60 - AHEAD_S:
            while said_s < heard_s + AHEAD_S:
                paragraph = next(text)
                said_s += len(paragraph.split()) * WORD_MS / 1000
                await client.do(messages.PlayerAppend(item=item, text=paragraph))
            await trio.sleep(1)
            if heard_s >= SETTLED_S:  # it takes most of the time of all this
                gc.collect()
                sizes_mb[heard_s] = resident_mb("self")
            client.heard.clear()
        await client.do(messages.PlayerEnd(item=item))
        done = await client.done(item)
        state = await client.status()
    assert done.outcome == "finished"
    assert state.underruns == 0
    assert done.played_ms == samples_to_ms(voice.samples)
    assert sink.weight == voice.weight, "every sample, and once"
    pauses_ms = samples_to_ms(sink.written_samples - voice.samples)
    print(f"{voice.samples / SAMPLE_RATE / 60:.1f} min of speech, {pauses_ms:.0f} ms of pauses")
    is_settled(sizes_mb)


def is_settled(sizes_mb: dict[float, float]) -> None:
    """Memory does not grow, if it was played for long enough to say so.

    Args:
        sizes_mb: how much there was, by seconds of what was heard.
    """
    settled = [mb for heard_s, mb in sizes_mb.items() if heard_s >= SETTLED_S]
    if len(settled) < QUARTERS:
        return
    # What is needed for a moment only comes and goes; what stays is in the middle of each quarter.
    middles = [float(np.median(part)) for part in np.array_split(settled, QUARTERS)]
    print("MB in quarters:", *(f"{mb:.1f}" for mb in middles), f"({max(settled):.1f} at most)")
    assert middles[-1] - middles[0] <= GROWTH_MB


@pytest.mark.soak
async def test_five_real_minutes(rig: Rig, real_engine: Engine, tmp_path: Path) -> None:
    """With the real engine, which is as nice as `make up` makes it."""
    heard_s = taken_s = 0.0
    sizes_mb: dict[float, float] = {}
    rtfs: list[float] = []
    waits_s: list[float] = []  # when it was seen that the listener had to wait
    text = iter(article(2))

    async with (
        running(
            environment=rig.environment, folder=tmp_path, engine_port=real_engine.port
        ) as program,
        program.client() as client,
        # As fast as the player: faster, and the engine would run away from it; slower, and it would
        # miss what the engine does not keep.
        following(real_engine.url, lambda: SAMPLE_RATE * taken_s) as follower,
    ):
        with rig.capture() as capture, Lateness() as late:
            item = await open_item(client)
            said_s = 0.0
            while heard_s < MINUTES * 60 - AHEAD_S:
                while said_s < heard_s + AHEAD_S:
                    paragraph = next(text)
                    said_s += len(paragraph.split()) * 0.3
                    await client.do(messages.PlayerAppend(item=item, text=paragraph))
                await trio.sleep(LOOK_S)
                state = await client.status()
                heard_s = state.position_ms / 1000
                taken_s = heard_s + state.buffered_ms / 1000
                sizes_mb[heard_s] = resident_mb(program.process.pid)
                rtfs += [state.rtf] if state.rtf is not None else []
                waits_s += [time.monotonic()] * (state.underruns - len(waits_s))
                client.heard.clear()
            await client.do(messages.PlayerEnd(item=item))
            taken_s = math.inf
            done = await client.done(item)
            underruns = (await client.status()).underruns
            waits_s += [time.monotonic()] * (underruns - len(waits_s))
        (stream,) = follower.streams.values()
        assert await program.end() == 0
    assert no_traceback(program)
    assert done.outcome == "finished"
    made = stream.heard.of(SegmentDone)
    computed_s = sum(done.compute_ms for done in made) / 1000
    rtf = computed_s * SAMPLE_RATE / sum(done.samples for done in made)
    print(
        f"RTF {rtf:.2f} by the engine; as it looks to the player, {np.median(rtfs):.2f} in the "
        f"middle, {max(rtfs):.2f} at most"
    )
    is_settled(sizes_mb)
    wanted = stream.pcm
    found = runs(samples(capture.read_bytes()), wanted)
    inside = holes(found, wanted, stream.starts)
    pauses = [after.at - before.ends for before, after in pairwise(found)]
    print(
        f"{len(wanted) / SAMPLE_RATE / 60:.1f} min of speech, {underruns} underruns, "
        f"{len(pauses)} pauses, {samples_to_ms(sum(pauses)):.0f} ms in all, "
        f"woken {late.times} times too late, by {late.worst_s * 1000:.0f} ms at most"
    )
    assert inside <= underruns + late.times, "nobody told of it"
    # Excused is what was found when the machine kept this process waiting too.
    found_s = LOOK_S + EXCUSE_S
    ours = [at_s for at_s in waits_s if not any(0 <= at_s - s <= found_s for s in late.at_s)]
    assert not ours or rtf > RTF
