"""What is promised of playback, measured: the real engine, the real player, and what is heard.

Times of what is heard are by the clock of the sink (`Capture.left_s`). In short here; as much as
was promised is measured by `make soak`, and printed by `make soak ARGS="-s -k measures"`.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
import trio

from engine.audio import SAMPLE_RATE, ms_to_samples, samples_to_ms
from engine.config import Settings
from engine.request import SpeechRequest
from playerd.sinks.gain import RAMP_MS
from tests.playerd.measuring import (
    FADE,
    SENTENCES,
    Engine,
    Followed,
    Follower,
    Run,
    Samples,
    following,
    goes_on,
    holes,
    in_time,
    is_silent_between,
    judging,
    now_s,
    place,
    real_engine,
    runs,
    samples,
)
from tests.playerd.playing import Client
from tests.playerd.program import NotAsExpected, Program, engine, no_traceback, running
from tests.support.access import TOKEN
from tests.support.reading import hear
from tests.support.rig import Capture, Rig, code
from tests.support.tone import ToneVoice
from tests.support.undisturbed import undisturbed
from wsproto_api import messages
from wsproto_api.speak import WebSocketSpeak

__all__ = ["real_engine"]

pytestmark = pytest.mark.alone  # the engine takes all there is

WORDS = ("Yes.", "Stop!", "Really?", "Tomorrow.")

#: an item is told to be over so much later than it is, and never before, ms
DONE_MS = 40
#: and there is silence so long after it was asked for, ms
SILENT_MS = 100
#: from the command to sound again
RESUMED_MS = 20
#: sound begins so long after the first frame came, ms
START_MS = 40

RAMP = ms_to_samples(RAMP_MS)


def player(rig: Rig, engine: Engine, folder: Path) -> AbstractAsyncContextManager[Program]:
    """The real player on the rig."""
    return running(environment=rig.environment, folder=folder, engine_port=engine.port)


@asynccontextmanager
async def followed(
    rig: Rig, engine: Engine, folder: Path
) -> AsyncIterator[tuple[Program, Client, Follower]]:
    """The player, who gives it orders, and who knows what it is sent."""
    async with (
        player(rig, engine, folder) as program,
        program.client() as client,
        following(engine.url) as follower,
    ):
        yield program, client, follower


async def cached(engine: Engine, text: str) -> None:
    """Has the engine speak a text, so that it will come at once the next time."""
    await hear(WebSocketSpeak(engine.url, TOKEN), SpeechRequest(text=text, marks=True))


# --- the yardstick ------------------------------------------------------------------------------


def test_the_yardstick_finds_what_is_wrong() -> None:
    streamed = samples(code(0.5))
    gap = np.zeros(1000, streamed.dtype)

    def heard(*parts: Samples) -> int:
        return holes(runs(np.concatenate([gap, *parts, gap]), streamed), streamed, [4000])

    assert heard(streamed) == 0
    assert heard(streamed[:4000], gap, streamed[4000:]) == 0
    assert heard(streamed[:6000], gap, streamed[6000:]) == 1
    for wrong in (
        [streamed[:4000], gap, streamed[4001:]],  # lost
        [streamed[:4000], gap, streamed[3999:]],  # heard twice
        [streamed[:4000], streamed[5000:]],
        [streamed[:4000], streamed[200:203], streamed[4000:]],  # inserted
        [streamed[:-1]],
        [streamed[4000:], gap, streamed[:4000]],
        [streamed, gap, streamed[:4000] // 2],
    ):
        with pytest.raises(AssertionError):
            heard(*wrong)


# --- every sample -------------------------------------------------------------------------------


def utterances(count: int) -> list[str]:
    """From one word to four sentences, in turn."""
    chance = random.Random(6)
    return [
        " ".join(chance.sample(SENTENCES, n % 5)) if n % 5 else WORDS[n // 5 % len(WORDS)]
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.soak)])
async def test_every_sample_is_heard_and_the_end_is_told_when_it_is_heard(
    rig: Rig, real_engine: Engine, tmp_path: Path, count: int
) -> None:
    """The first half one after the other, the second in a queue."""
    texts = utterances(count)
    half = (count + 1) // 2

    async def attempt() -> None:
        done_s: list[float] = []
        async with followed(rig, real_engine, tmp_path) as (program, client, follower):
            with rig.capture() as capture:
                for n, text in enumerate(texts[:half]):
                    assert (await client.done(await client.speak(text, key=str(n)))).outcome
                    done_s.append(now_s(client.heard[-1][0]))
                items = [
                    await client.speak(text, key=str(n), mode="queue")
                    for n, text in enumerate(texts[half:], half)
                ]
                for item in items:
                    await client.done(item)
                    done_s.append(now_s(client.heard[-1][0]))
            streams = [await follower.stream(str(n)) for n in range(count)]
            state = await client.status()
            assert await program.end() == 0
        assert no_traceback(program)
        wanted = np.concatenate([stream.pcm for stream in streams])
        ends = [int(end) for end in np.cumsum([len(stream.pcm) for stream in streams])]
        edges = [
            end - len(stream.pcm) + start
            for stream, end in zip(streams, ends, strict=True)
            for start in [*stream.starts, len(stream.pcm)]
        ]
        with judging():
            found = runs(samples(capture.read_bytes()), wanted)
            inside = holes(found, wanted, edges)
            late_ms = [
                (at - capture.left_s(place(found, end))) * 1000
                for at, end in zip(done_s, ends, strict=True)
            ]
            pauses_ms = [
                samples_to_ms(after.at - before.ends - (after.start - before.stop))
                for before, after in pairwise(found)
                if not any(before.stop <= end <= after.start for end in ends)
            ]
            print(
                f"{len(wanted) / SAMPLE_RATE:.0f} s of speech, RTF {state.rtf}, {inside} holes, "
                f"{state.underruns} underruns, {len(pauses_ms)} pauses, {sum(pauses_ms):.0f} ms"
            )
            assert inside <= state.underruns, "nobody told of it"
            assert in_time("item.done after the last sample", late_ms, DONE_MS)
            assert min(late_ms) >= 0

    await undisturbed(attempt, NotAsExpected)


# --- obedience ----------------------------------------------------------------------------------

#: of sentences that are spoken one by one, as long as possible
OBEDIENT = (
    "She went to the market to buy some bread and milk. He was reading a book about the history of "
    "the world. My brother has lived in this city for ten years. They will meet us at the station "
    "tomorrow morning. The train leaves in half an hour, so hurry up."
)


@pytest.mark.parametrize("times", [2, pytest.param(10, marks=pytest.mark.soak)])
async def test_stop(rig: Rig, real_engine: Engine, tmp_path: Path, times: int) -> None:
    await cached(real_engine, OBEDIENT)
    chance = random.Random(1)

    async def attempt() -> None:
        late_ms = []
        async with followed(rig, real_engine, tmp_path) as (_, client, follower):
            for n in range(times):
                with rig.capture() as capture:
                    item = await client.speak(OBEDIENT, key=str(n))
                    await client.hear(messages.ItemStarted, item=item)
                    await trio.sleep(chance.uniform(0.2, 0.7))
                    asked_s = time.monotonic()
                    await client.stop()
                    done = await client.done(item)
                assert done.outcome == "stopped"
                stream = await follower.stream(str(n))
                with judging():
                    (run,) = runs(samples(capture.read_bytes()), stream.pcm)
                    assert is_silent_between(stream.pcm, 0, run.start)
                    assert 0 <= ms_to_samples(done.played_ms) - run.stop - run.fall <= FADE
                    late_ms.append((capture.left_s(run.ends) - asked_s) * 1000)
        with judging():
            assert in_time("silence after stop", late_ms, SILENT_MS)

    await undisturbed(attempt, NotAsExpected)


@pytest.mark.parametrize("times", [3, pytest.param(10, marks=pytest.mark.soak)])
async def test_pause_and_resume_within_an_utterance(
    rig: Rig, real_engine: Engine, tmp_path: Path, times: int
) -> None:
    text = " ".join(OBEDIENT.split(". ")[: (times + 4) // 3])
    await cached(real_engine, text)
    chance = random.Random(2)

    async def attempt() -> None:
        asked_s, resumed_s = [], []
        async with followed(rig, real_engine, tmp_path) as (_, client, follower):
            with rig.capture() as capture:
                item = await client.speak(text, key="it")
                await client.hear(messages.ItemStarted, item=item)
                for _ in range(times):
                    await trio.sleep(chance.uniform(0.2, 0.6))
                    asked_s.append(time.monotonic())
                    await client.do(messages.PlayerPause())
                    await trio.sleep(chance.uniform(0.3, 0.6))
                    resumed_s.append(time.monotonic())
                    await client.do(messages.PlayerResume())
                assert (await client.done(item)).outcome == "finished"
            streamed = (await follower.stream("it")).pcm
        with judging():
            found = runs(samples(capture.read_bytes()), streamed)
            holes(found, streamed, ())
            late_ms = [
                (capture.left_s(last_before(found, capture, again_s).ends) - at_s) * 1000
                for at_s, again_s in zip(asked_s, resumed_s, strict=True)
            ]
            assert in_time("silence after pause", late_ms, SILENT_MS)
            back_ms = [
                (capture.left_s(first_after(found, capture, at_s)) - at_s) * 1000
                for at_s in resumed_s
            ]
            assert in_time("sound after resume", back_ms, RESUMED_MS)

    await undisturbed(attempt, NotAsExpected)


def first_after(found: list[Run], capture: Capture, at_s: float) -> int:
    """The frame of the capture with which the first part begins behind a time, fading in."""
    begins = [run.at - run.rise for run in found if capture.left_s(run.at) > at_s]
    return begins[0]


def last_before(found: list[Run], capture: Capture, at_s: float) -> Run:
    """The last part that begins before a time."""
    return [run for run in found if capture.left_s(run.at) < at_s][-1]


async def test_elsewhere_and_on_another_device(
    rig: Rig, real_engine: Engine, tmp_path: Path
) -> None:
    await cached(real_engine, OBEDIENT)

    async def attempt() -> None:
        asked_s = []
        async with followed(rig, real_engine, tmp_path) as (_, client, follower):

            async def then(command: msgspec.Struct) -> None:
                await trio.sleep(0.5)
                asked_s.append(time.monotonic())
                await client.do(command)

            with rig.capture() as first, rig.capture("other") as second:
                item = await client.speak(OBEDIENT, key="it")
                await client.hear(messages.ItemStarted, item=item)
                stream = await follower.stream("it")
                middle = stream.starts[2] + ms_to_samples(700)
                await then(messages.PlayerSkip(unit="sentence", n=1))
                await then(messages.PlayerSkip(unit="sentence", n=-1))
                await then(messages.PlayerSeek(sample=middle))
                await then(messages.PlayerConfigure(device="other"))
                await client.hear(messages.PlayerState, device="other", state="playing")
                await then(messages.PlayerStop())
                await client.done(item)
        with judging():
            streamed, starts = stream.pcm, stream.starts
            assert len(starts) >= 3
            found = runs(samples(first.read_bytes()), streamed)
            (moved,) = runs(samples(second.read_bytes()), streamed)
            at = [0, starts[1], 0, middle]
            assert len(found) == len(at), found
            for run, start in zip(found, at, strict=True):
                # A sentence begins softly by itself.
                fading = start <= run.start - run.rise <= run.start <= start + FADE
                assert is_silent_between(streamed, run.start, start) or fading, (run, start)
            assert goes_on(streamed, found[-1], moved), (found[-1], moved)
            ends = [*(first.left_s(run.ends) for run in found), second.left_s(moved.ends)]
            late_ms = [(e - a) * 1000 for e, a in zip(ends, asked_s, strict=True)]
            looked_ms = late_ms.pop(-2)  # before anything is done, it is looked for
            print(f"silence {looked_ms:.0f} ms after another device was asked for")
            assert in_time("silence after skip, back, seek, stop", late_ms, SILENT_MS)

    await undisturbed(attempt, NotAsExpected)


async def test_the_volume_changes_without_a_click(
    rig: Rig, real_engine: Engine, tmp_path: Path
) -> None:
    await cached(real_engine, OBEDIENT)

    async def attempt() -> None:
        asked_s = []
        async with followed(rig, real_engine, tmp_path) as (_, client, follower):
            with rig.capture() as capture:
                item = await client.speak(OBEDIENT, key="it")
                await client.hear(messages.ItemStarted, item=item)
                for value in (0.5, 1.0):
                    await trio.sleep(0.5)
                    asked_s.append(time.monotonic())
                    await client.do(messages.PlayerVolume(value=value))
                await trio.sleep(0.5)
                await client.stop()
                await client.done(item)
            streamed = (await follower.stream("it")).pcm
        with judging():
            captured = samples(capture.read_bytes())
            begun = captured[: np.flatnonzero(captured)[0] + ms_to_samples(300)]
            (run,) = runs(begun, streamed)
            heard = captured[run.at : np.flatnonzero(captured)[-1] + 1 - FADE]
            wanted = streamed[run.start : run.start + len(heard)]
            full, soft = heard == wanted, heard == np.rint(wanted * 0.5)
            changing = np.flatnonzero(~full & ~soft)
            parts = np.split(changing, np.flatnonzero(np.diff(changing) > RAMP) + 1)
            assert [len(part) > 0 and int(np.ptp(part)) < RAMP for part in parts] == [True, True]
            (down, up) = parts
            assert full[: down[0]].all()
            assert soft[down[-1] + 1 : up[0]].all()
            assert full[up[-1] + 1 :].all()
            late_ms = [
                (capture.left_s(run.at + int(part[0])) - at_s) * 1000
                for part, at_s in zip(parts, asked_s, strict=True)
            ]
            assert in_time("another volume", late_ms, SILENT_MS)

    await undisturbed(attempt, NotAsExpected)


# --- the beginning ------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.soak)])
@pytest.mark.parametrize("voice", ["real", "fake"])
async def test_sound_begins_when_the_first_frame_is_there(
    rig: Rig, real_engine: Engine, settings: Settings, tmp_path: Path, voice: str, times: int
) -> None:
    """From the cache of the real engine; and with an engine that takes 0.3 s for a second."""
    text = OBEDIENT if voice == "real" else "One two three. Four five six. Seven eight."
    if voice == "real":
        await cached(real_engine, text)

    async def attempt() -> None:
        waits_ms = []
        async with AsyncExitStack() as stack:
            port = real_engine.port
            if voice == "fake":
                port = await stack.enter_async_context(engine(settings, ToneVoice(rtf=0.3)))
            program = await stack.enter_async_context(
                running(environment=rig.environment, folder=tmp_path, engine_port=port)
            )
            client = await stack.enter_async_context(program.client())
            follower = await stack.enter_async_context(following(f"ws://127.0.0.1:{port}/"))
            with rig.capture() as capture:
                for n in range(times):
                    item = await client.speak(text, key=str(n))
                    await client.hear(messages.ItemStarted, item=item)
                    await trio.sleep(0.3)
                    await client.stop()
                    await client.done(item)
            streams = [await follower.stream(str(n)) for n in range(times)]
        captured = samples(capture.read_bytes())
        with judging():
            at = 0
            for stream in streams:
                loud = np.flatnonzero(captured[at:])
                begins = at + int(loud[0])
                (run, *_) = runs(captured[begins : begins + ms_to_samples(150)], stream.pcm)
                assert is_silent_between(stream.pcm, 0, run.start)
                assert stream.first_s is not None
                begun_s = capture.left_s(begins + run.at - run.start)
                waits_ms.append((begun_s - stream.first_s) * 1000)
                at = begins + ms_to_samples(250)
                quiet = np.convolve(captured[at:] != 0, np.ones(480), "valid") == 0
                at += int(np.flatnonzero(quiet)[0])
            what = f"first sample after the first frame, {voice}"
            assert in_time(what, waits_ms, START_MS)

    await undisturbed(attempt, NotAsExpected)


# --- an engine that goes away -------------------------------------------------------------------

STORY = " ".join(SENTENCES[n] for n in (11, 16, 20, 23))


def is_amid(stream: Followed) -> bool:
    """Whether something came of a sentence in the middle, and not all of it."""
    begun, done = stream.heard.of(messages.Segment), stream.heard.of(messages.SegmentFinished)
    return len(begun) > max(len(done), 1) and len(stream.pcm) > begun[-1].sample


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)]
)
async def test_the_engine_goes_away_in_a_sentence_and_comes_back(
    rig: Rig, real_engine: Engine, tmp_path: Path, number: signal.Signals
) -> None:
    async def attempt() -> None:
        async with player(rig, real_engine, tmp_path) as program, program.client() as client:
            with rig.capture() as capture:
                async with following(real_engine.url) as follower:
                    item = await client.speak(STORY, key="it")
                    await follower.until(lambda: any(map(is_amid, follower.streams.values())))
                    await trio.sleep(0.03)  # what was sent has come, to the player too
                    began_s = time.monotonic()
                    await trio.to_thread.run_sync(real_engine.end, number)
                    await follower.gone.wait()
                    (broken,) = follower.streams.values()
                    await trio.to_thread.run_sync(real_engine.start)
                    away_s = time.monotonic() - began_s
                async with following(real_engine.url) as follower:
                    done = await client.done(item)
                    rest = await follower.stream("it")
                assert await program.end() == 0
        assert no_traceback(program)
        assert done.outcome == "finished"
        codes = [warning.code for warning in client.told(messages.Warning)]
        assert codes.count("interrupted") == 1
        assert set(codes) <= {"interrupted", "engine_slow"}
        assert "recovering" in client.states()
        begun, anew = broken.heard.of(messages.Segment)[-1], rest.heard.of(messages.Segment)[0]
        assert STORY[begun.char_end :].lstrip().startswith(anew.text)
        with judging():
            wanted = np.concatenate([broken.pcm, rest.pcm])
            found = runs(samples(capture.read_bytes()), wanted)
            edges = [*broken.starts, *(len(broken.pcm) + start for start in rest.starts)]
            holes(found, wanted, edges)
            before, after = next(
                (before, after)
                for before, after in pairwise(found)
                if after.start >= len(broken.pcm)
            )
            print(
                f"away for {away_s:.1f} s, {samples_to_ms(len(broken.pcm) - begun.sample):.0f} ms "
                f"into segment {begun.index}; silent for "
                f"{samples_to_ms(after.at - before.ends):.0f} ms"
            )

    await undisturbed(attempt, NotAsExpected)
