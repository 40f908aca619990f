"""What is heard of the player as a program, to the sample; and a device that comes, goes and hangs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import trio

from engine.audio import PCM_DTYPE, ms_to_samples
from engine.config import Settings
from engine.request import SpeechRequest
from tests.playerd.playing import Client
from tests.playerd.program import NotAsExpected, Program, engine, no_traceback, running
from tests.support.reading import hear
from tests.support.rig import PATIENCE_S, Rig
from tests.support.tone import ToneVoice
from tests.support.undisturbed import undisturbed
from wsproto_api import messages


async def pcm_of(text: str) -> bytes:
    return (await hear(ToneVoice(), SpeechRequest(text=text))).pcm


def runs_of_sound(capture: bytes) -> list[bytes]:
    """What was heard, cut where there is silence of more than 10 ms, without that silence."""
    samples = np.frombuffer(capture, dtype=PCM_DTYPE)
    loud = np.flatnonzero(samples)
    if not len(loud):
        return []
    cuts = np.flatnonzero(np.diff(loud) > ms_to_samples(10))
    starts, ends = [loud[0], *loud[cuts + 1]], [*loud[cuts], loud[-1]]
    return [samples[a : b + 1].tobytes() for a, b in zip(starts, ends, strict=True)]


def trimmed(pcm: bytes) -> bytes:
    """Without the zeros at either end."""
    return bytes(np.trim_zeros(np.frombuffer(pcm, dtype=PCM_DTYPE)).tobytes())


def is_whole(sound: bytes, pcm: bytes) -> bool:
    """Whether all samples of a tone were heard, and then nothing but 5 ms in which it falls silent.

    A tone breaks off, as speech does not.
    """
    rest = np.abs(np.frombuffer(sound[len(pcm) :], PCM_DTYPE).astype(int))
    last = abs(int(np.frombuffer(pcm, PCM_DTYPE)[-1]))
    falls = bool((np.diff(rest, prepend=last) <= 0).all())
    return sound.startswith(pcm) and len(rest) <= ms_to_samples(5) and falls


@asynccontextmanager
async def player_of(
    rig: Rig, settings: Settings, folder: Path
) -> AsyncIterator[tuple[Program, Client]]:
    """The player as a program, with an engine of a fake voice, and who asks it to speak."""
    async with (
        engine(settings, ToneVoice()) as port,
        running(environment=rig.environment, folder=folder, engine_port=port) as program,
        program.client() as client,
    ):
        yield program, client


async def test_every_sample_is_heard_once_and_in_order(
    rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    """Texts that follow each other do so without a sample between; the device rests and resumes."""
    texts = ["One two.", "Three four five. Six!", "Seven."]
    queued = b"".join([await pcm_of(text) for text in texts])
    expected = [queued, await pcm_of("Eight nine."), await pcm_of("Ten.")]

    async def attempt() -> None:
        async with player_of(rig, settings, tmp_path) as (program, client):
            with rig.capture() as capture:
                items = [await client.speak(text, mode="queue") for text in texts]
                for item in items:
                    assert (await client.done(item)).outcome == "finished"
                for text in ("Eight nine.", "Ten."):
                    await client.done(await client.speak(text))
            assert await program.end() == 0
            assert no_traceback(program)
        # a tone begins, and may end, with a sample that is zero
        heard = runs_of_sound(capture.read_bytes())
        if not (
            len(heard) == len(expected)
            and all(
                is_whole(sound, trimmed(pcm)) for sound, pcm in zip(heard, expected, strict=True)
            )
        ):
            raise NotAsExpected(f"{[len(sound) for sound in heard]} bytes were heard")

    await undisturbed(attempt, NotAsExpected)


async def test_stop_fades_and_says_how_much_was_heard(
    rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    text = "One two three four five six seven eight nine ten."
    whole = np.frombuffer(trimmed(await pcm_of(text)), dtype=PCM_DTYPE)
    fade = ms_to_samples(5)

    async def attempt() -> None:
        async with player_of(rig, settings, tmp_path) as (_, client):
            with rig.capture() as capture:
                item = await client.speak(text)
                await client.hear(messages.PlayerState, state="playing")
                await trio.sleep(0.5)
                await client.stop()
                done = await client.done(item)
                await client.done(await client.speak("Again."))
        assert done.outcome == "stopped"
        first, *others = runs_of_sound(capture.read_bytes())
        heard = np.frombuffer(first, dtype=PCM_DTYPE)
        if not (
            np.array_equal(heard[: -2 * fade], whole[: len(heard) - 2 * fade])
            and abs(heard[-1]) < 100  # of 9830
            and len(heard) <= ms_to_samples(done.played_ms) < len(whole)
            and len(others) == 1
            and is_whole(others[0], trimmed(await pcm_of("Again.")))
        ):
            told = ms_to_samples(done.played_ms)
            lengths = [len(sound) for sound in others]
            raise NotAsExpected(
                f"{len(heard)} samples were heard, {told} are told of, the last {heard[-1]}; "
                f"then {lengths} bytes",
            )

    await undisturbed(attempt, NotAsExpected)


# --- with and without a device ----------------------------------------------------------------


async def test_a_device_that_comes_later(
    silent_rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    async with player_of(silent_rig, settings, tmp_path) as (program, client):
        assert program.ready["device"].startswith("none yet")
        item = await client.speak("One two.")
        await client.hear(messages.Warning, code="no_device")
        silent_rig.up()
        with trio.fail_after(PATIENCE_S):
            done = await client.done(item)
        assert (done.outcome, done.played_ms) == ("finished", 550)
        assert (await client.status()).device is not None
        assert await program.end() == 0
        assert no_traceback(program)
    complaints = [line for line in program.lines if '"level": "warning"' in line]
    assert len(complaints) == 1
    assert "There is no sound device" in complaints[0]
    assert [line for line in program.lines if not line.startswith("{")] == []


async def test_a_device_that_goes_away_and_comes_back(
    silent_rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    silent_rig.up()
    async with player_of(silent_rig, settings, tmp_path) as (program, client):
        with trio.fail_after(2 * PATIENCE_S):
            item = await client.speak("One two three four five six seven eight nine ten.")
            await client.hear(messages.PlayerState, state="playing")
            silent_rig.control("unload-module", "module-null-sink")
            await client.hear(messages.PlayerState, device=None)
            silent_rig.control("load-module", "module-null-sink", "rate=24000", "channels=1")
            done = await client.done(item)
        assert done.outcome == "finished"
        assert await program.end() == 0
        assert no_traceback(program)
    assert [line for line in program.lines if not line.startswith("{")] == []


async def test_a_sound_server_that_hangs_keeps_nobody_from_ending(
    silent_rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    silent_rig.up()
    async with player_of(silent_rig, settings, tmp_path) as (program, client):
        with trio.fail_after(2 * PATIENCE_S):
            item = await client.speak("One two three four five six seven eight nine ten.")
            await client.hear(messages.PlayerState, state="playing")
            silent_rig.freeze()
            # Stalled, or lost if it was just being started.
            state = await client.status()
            while not (state.stalled or state.device is None):
                state = await client.status()
                await trio.sleep(0.05)
            await client.stop()
            assert (await client.done(item)).outcome == "stopped"
            await client.speak("Once more.")
            await client.status()
        assert await program.end() == 0
        assert no_traceback(program)
