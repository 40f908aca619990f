"""The stages of one utterance, in virtual time, with a voicing that costs what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import trio
import trio.testing
from numpy.typing import NDArray

from engine import pipeline
from engine.errors import EngineError, SynthesisFailed
from engine.pipeline import Utterance
from engine.request import Done, Event, Frame, Notice, SegmentDone, SegmentStart, SpeechRequest
from engine.text.languages import LANGUAGES, Language


@dataclass
class Voicing:
    """Speaks 0.1 s a letter; takes `g2p_s` a segment and `infer_s` a unit."""

    g2p_s: float = 0.0
    infer_s: float = 0.0
    fail_at: str = "\0"
    failure: Exception = field(default_factory=lambda: SynthesisFailed("It failed."))
    log: list[tuple[float, str]] = field(default_factory=list)

    async def phonemes(self, text: str, language: Language) -> str:
        await trio.sleep(self.g2p_s)
        self.log.append((trio.current_time(), f"g2p {text}"))
        return "".join(c for c in text if c.isalpha())

    def units(self, phonemes: str) -> list[str]:
        return [phonemes[at : at + 5] for at in range(0, len(phonemes), 5)]

    async def infer(
        self, phonemes: str, voice: str, speed: float
    ) -> tuple[NDArray[np.float32], float]:
        if self.fail_at in phonemes:
            raise self.failure
        await trio.sleep(self.infer_s)
        self.log.append((trio.current_time(), f"infer {phonemes}"))
        return np.full(2400 * len(phonemes) + 7, 0.5, dtype=np.float32), self.infer_s


def utterance(text: str) -> Utterance:
    return Utterance(SpeechRequest(text=text), "af_heart", LANGUAGES[0], 1200)


async def events_of(text: str, voicing: Voicing) -> list[Event]:
    async with pipeline.run(utterance(text), voicing) as events:
        return [event async for event in events]


async def test_one_segment_in_units() -> None:
    events = await events_of("Abc defg.", Voicing())
    starts = [event for event in events if isinstance(event, SegmentStart)]
    dones = [event for event in events if isinstance(event, SegmentDone)]
    assert [(s.index, s.text, s.char_start, s.char_end) for s in starts] == [(0, "Abc defg.", 0, 9)]
    assert starts[0].phonemes == "Abcdefg"
    assert dones[0].samples == 7 * 2400 + 2 * 7  # two units, joined without a seam in the frames
    frames = [event for event in events if isinstance(event, Frame)]
    assert {frame.samples for frame in frames[:-2]} == {1200}
    assert isinstance(events[-1], Done)
    assert events[-1].samples == dones[0].samples


async def test_what_cannot_be_spoken_is_told_and_the_rest_goes_on() -> None:
    events = await events_of("One. --- Two.", Voicing())
    assert [e.text for e in events if isinstance(e, SegmentStart)] == ["One.", "--- Two."]
    events = await events_of("One.\n\n***\n\nTwo.", Voicing())
    assert [e.index for e in events if isinstance(e, SegmentStart)] == [0, 1]
    notices = [e for e in events if isinstance(e, Notice)]
    assert [n.code for n in notices] == ["segment_skipped"]
    assert "6 to 9" in notices[0].message


async def test_nothing_to_speak_is_an_empty_stream_with_a_notice() -> None:
    events = await events_of("…", Voicing())
    assert [e.code for e in events if isinstance(e, Notice)] == [
        "segment_skipped",
        "nothing_to_speak",
    ]
    (frame,) = [e for e in events if isinstance(e, Frame)]
    assert (frame.first, frame.last, frame.samples) == (True, True, 0)
    assert events[-1] == Done(samples=0, audio_ms=0, chars=1, segments=0)


async def test_first_sound_is_timed_from_the_text_on(
    autojump_clock: trio.testing.MockClock,
) -> None:
    events = await events_of("Abc. Defghij. Kl.", Voicing(g2p_s=0.01, infer_s=0.2))
    done = events[-1]
    assert isinstance(done, Done)
    assert done.ttfa_ms == pytest.approx(210)


async def test_the_next_segment_is_read_while_one_is_inferred(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing(g2p_s=0.1, infer_s=1.0)
    await events_of("Aa. Bb. Cc. Dd. Ee. Ff.", voicing)
    inferred = [round(at, 3) for at, what in voicing.log if what.startswith("infer")]
    assert inferred == [1.1, 2.1, 3.1, 4.1, 5.1, 6.1]


async def test_no_stage_runs_away_from_a_slow_listener(
    autojump_clock: trio.testing.MockClock,
) -> None:
    voicing = Voicing()
    text = " ".join(f"Word{chr(97 + n)}." for n in range(20))
    async with pipeline.run(utterance(text), voicing) as events:
        async for event in events:
            if isinstance(event, Frame):
                break
        await trio.testing.wait_all_tasks_blocked()
        read = [what for _, what in voicing.log if what.startswith("g2p")]
        inferred = [what for _, what in voicing.log if what.startswith("infer")]
        assert len(inferred) <= 4
        assert len(read) <= 7


async def test_leaving_early_cancels_the_model(autojump_clock: trio.testing.MockClock) -> None:
    voicing = Voicing(infer_s=10)
    async with pipeline.run(utterance("Aa. Bb. Cc."), voicing) as events:
        assert (await anext(events)) is not None
        await trio.sleep(15)  # in the middle of the second inference
    assert trio.current_time() == 15
    assert [what for _, what in voicing.log if what.startswith("infer")] == ["infer Aa"]


async def test_an_error_comes_after_what_was_made_before_it() -> None:
    voicing = Voicing(fail_at="x")
    got: list[Event] = []

    async def listen() -> None:
        async with pipeline.run(utterance("Good one. Bad x. More."), voicing) as events:
            async for event in events:
                got.append(event)

    with pytest.raises(SynthesisFailed, match=r"It failed\."):
        await listen()
    assert [e.index for e in got if isinstance(e, SegmentDone)] == [0]
    assert not [e for e in got if isinstance(e, Done)]


async def test_a_foreign_exception_is_translated_and_tells_no_text(
    capsys: pytest.CaptureFixture[str],
) -> None:
    voicing = Voicing(fail_at="x", failure=ValueError("secret words"))
    with pytest.raises(EngineError) as caught:
        await events_of("Bad x.", voicing)
    assert type(caught.value) is SynthesisFailed
    captured = capsys.readouterr()
    assert "secret" not in caught.value.message + captured.err + captured.out
    assert "ValueError" in captured.err + captured.out


async def test_cancelling_at_any_moment_leaves_nothing_running(
    autojump_clock: trio.testing.MockClock,
) -> None:
    for moment in np.arange(0.0, 3.0, 0.05):
        voicing = Voicing(g2p_s=0.13, infer_s=0.31)
        with trio.move_on_after(float(moment)) as scope:
            await events_of("Aa. Bb. Cc. Dd.", voicing)
        if scope.cancelled_caught:
            made = len(voicing.log)
            await trio.sleep(5)
            assert len(voicing.log) == made
