"""Streams as they were recorded, played on a real device: what is heard is what the policy decided.

The same streams are simulated by `bench playout`; so this also says that its numbers are true of a
device. They take as long as they are, so all but a short one are for `make soak`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import accumulate, pairwise

import msgspec
import pytest

from bench import traces
from bench.scenarios.playout import play
from bench.traces import Arrival, Segment, Utterance
from engine.audio import SAMPLE_RATE, ms_to_samples
from playerd.delay import Slack
from playerd.forecast import Supply
from playerd.sinks.base import BLOCK_S
from tests.playerd.measuring import CLOCK_MS, FADE, holes, runs, samples
from tests.playerd.replaying import sound
from tests.playerd.sounding import running
from tests.support.rig import PATIENCE_S, Rig
from tests.support.undisturbed import undisturbed

#: between a decision and what is heard of it: a block of the device, and half of one to find out
BLOCKS_S = 1.5 * BLOCK_S


def arrivals(at_s: float, until_s: float, ms: int) -> tuple[Arrival, ...]:
    """Frames of 50 ms, evenly spread."""
    count = ms // 50
    step_s = (until_s - at_s) / count
    return tuple(Arrival(at_s + n * step_s, ms_to_samples(50)) for n in range(count))


#: a segment of which the second half comes late, and another one: a hole inside and one between
SHORT = Utterance(
    trace="short",
    text="One two three. Four five.",
    segments=(
        Segment(
            char_start=0, char_end=14, announced=ms_to_samples(600), start_s=0.02, end_s=0.75,
            boundary=None, arrivals=arrivals(0.02, 0.03, 300) + arrivals(0.7, 0.75, 300),
        ),
        Segment(
            char_start=15, char_end=25, announced=ms_to_samples(400), start_s=1.4, end_s=1.45,
            boundary="sentence", arrivals=arrivals(1.4, 1.45, 400),
        ),
    ),
)  # fmt: skip


def recorded() -> Iterator[Utterance]:
    """Two of each trace whose engine is faster than speech."""
    count = Counter[str]()
    for utterance in traces.read():
        count[utterance.trace] += 1
        if utterance.rtf < 1 and count[utterance.trace] <= 2:
            yield utterance


@pytest.mark.parametrize(
    "utterance",
    [SHORT, *(pytest.param(each, marks=pytest.mark.soak) for each in recorded())],
    ids=lambda utterance: utterance.trace,
)
async def test_a_stream_is_heard_as_the_policy_has_it(rig: Rig, utterance: Utterance) -> None:
    simulated = play(utterance, Slack(), Supply())
    wanted = samples(sound(utterance))
    starts = [0, *accumulate(segment.actual for segment in utterance.segments)]

    async def attempt() -> None:
        with rig.capture() as capture:
            async with running(
                rig, "tests.playerd.replaying", msgspec.json.encode(utterance).decode()
            ) as child:
                asked = await child.hear("asked")
                begins = await child.hear("start")
                done = await child.hear("done", within_s=simulated.end_s + PATIENCE_S)
        assert done["device"] == 0, "the device had to wait for this machine"
        decided = [fact for fact in child.told if fact["kind"] == "silence"]
        found = runs(samples(capture.read_bytes()), wanted)
        holes(found, wanted, starts)
        silences = list(pairwise(found))
        assert len(silences) == len(decided)
        for (before, after), fact in zip(silences, decided, strict=True):
            sample = fact["sample"]
            assert abs(before.stop - sample) <= FADE, (before, fact)
            assert 0 <= after.start - sample <= FADE, (after, fact)
            heard_s = (after.at - after.start - before.at + before.start) / SAMPLE_RATE
            print(f"at {sample}: {fact['silent_s']:.3f} s decided, {heard_s:.3f} s heard")
            assert abs(heard_s - fact["silent_s"]) <= BLOCKS_S
        start_s = capture.left_s(found[0].at - found[0].start)
        silent_s = capture.left_s(found[-1].ends) - start_s - len(wanted) / SAMPLE_RATE
        print(
            f"begins {(start_s - begins['at_s']) * 1000:.1f} ms after the decision and "
            f"{start_s - asked['at_s']:.3f} s after the request, simulated "
            f"{simulated.start_s:.3f}; {silent_s:.3f} s of silence, simulated "
            f"{simulated.playout.gaps.silent_s:.3f}"
        )
        assert abs(start_s - begins["at_s"] - BLOCK_S / 2) <= BLOCK_S / 2 + CLOCK_MS / 1000
        assert abs(start_s - asked["at_s"] - simulated.start_s) <= 0.05
        gaps = simulated.playout.gaps
        # What comes in the last moment comes too late for a device that is given silence ahead.
        assert len(decided) - gaps.soft - gaps.hard - gaps.mid in (0, 1)
        assert abs(silent_s - gaps.silent_s) <= 0.05 * (1 + len(decided))

    await undisturbed(attempt)
