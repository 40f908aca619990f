"""The jitter buffer: when sound starts, what a hole becomes, and that nothing ever shifts."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine.audio import PCM_DTYPE, ms_to_samples, pcm_samples
from engine.request import Frame
from playerd.delay import FixedDelay, Outlook
from playerd.playout import HOLE_PATIENCE_SAMPLES, Phase, Playout

#: sample n has the value n + 1: none is silent, and each says where it belongs
STREAM = np.arange(1, 30_001, dtype=PCM_DTYPE)
HOLD = ms_to_samples(120)


def frame(start: int, end: int, *, skipped: bool = False) -> Frame:
    """Samples `start`…`end` of the stream."""
    pcm = STREAM[start:end].tobytes()
    return Frame(seq=start, sample=start, pcm=pcm, discontinuity=skipped)


def samples(pcm: bytes) -> list[int]:
    return [int(sample) for sample in np.frombuffer(pcm, dtype=PCM_DTYPE)]


def stream(start: int, end: int) -> list[int]:
    return samples(STREAM[start:end].tobytes())


def phase(playout: Playout) -> Phase:
    """Asked through a function, because a type checker believes that it stays as it was."""
    return playout.phase


def everything(playout: Playout) -> bytes:
    """All that can be pulled now, in blocks of an odd size."""
    taken = b""
    while pcm := playout.pull(77):
        taken += pcm
    return taken


# --- when sound starts and goes on ------------------------------------------------------------


def test_it_holds_back_until_120_ms_are_there() -> None:
    playout = Playout()
    playout.put(frame(0, HOLD - 1))
    assert phase(playout) is Phase.PREFILL
    assert playout.pull(480) == b""
    playout.put(frame(HOLD - 1, HOLD))
    assert samples(playout.pull(480)) == stream(0, 480)
    assert phase(playout) is Phase.PLAYING
    assert playout.buffered_samples == HOLD - 480


def test_a_short_first_segment_starts_when_it_is_complete() -> None:
    playout = Playout()
    playout.put(frame(0, 500))
    assert playout.pull(480) == b""
    playout.segment_done()
    assert samples(playout.pull(480)) == stream(0, 480)


def test_the_end_of_the_stream_starts_what_there_is() -> None:
    playout = Playout()
    playout.put(frame(0, 30))
    playout.end(30)
    assert phase(playout) is Phase.DRAINING
    assert samples(playout.pull(480)) == stream(0, 30)
    assert phase(playout) is Phase.DONE
    assert playout.pull(480) == b""


def test_a_stream_without_sound_is_done_at_its_end() -> None:
    playout = Playout()
    playout.segment_done()
    assert playout.pull(480) == b""
    playout.put(Frame(seq=0, sample=0, pcm=b"", first=True, last=True))
    playout.end(0)
    assert phase(playout) is Phase.DONE


def test_an_empty_buffer_is_no_underrun_until_the_device_is_dry() -> None:
    playout = Playout()
    playout.put(frame(0, HOLD))
    everything(playout)
    assert playout.pull(480) == b""
    assert (playout.phase, playout.underruns) == (Phase.PLAYING, 0)
    playout.put(frame(HOLD, HOLD + 10))
    assert samples(playout.pull(480)) == stream(HOLD, HOLD + 10)


def test_after_running_dry_it_waits_for_120_ms_again() -> None:
    playout = Playout()
    playout.put(frame(0, HOLD))
    everything(playout)
    playout.ran_dry()
    assert (playout.phase, playout.underruns) == (Phase.STARVED, 1)
    playout.put(frame(HOLD, 2 * HOLD - 1))
    assert playout.pull(480) == b""
    playout.ran_dry()  # it is dry already
    assert playout.underruns == 1
    playout.put(frame(2 * HOLD - 1, 2 * HOLD))
    assert samples(everything(playout)) == stream(HOLD, 2 * HOLD)
    assert phase(playout) is Phase.PLAYING


@pytest.mark.parametrize("cause", ["end of the segment", "end of the stream", "failure"])
def test_after_running_dry_an_end_goes_on_with_less(cause: str) -> None:
    playout = Playout()
    playout.put(frame(0, HOLD))
    everything(playout)
    playout.ran_dry()
    playout.put(frame(HOLD, HOLD + 10))
    match cause:
        case "end of the segment":
            playout.segment_done()
        case "end of the stream":
            playout.end(HOLD + 10)
        case _:
            playout.end()
    assert samples(everything(playout)) == stream(HOLD, HOLD + 10)


def test_running_dry_before_or_after_sound_is_no_underrun() -> None:
    playout = Playout()
    playout.ran_dry()
    playout.put(frame(0, 10))
    playout.end(10)
    playout.ran_dry()
    everything(playout)
    playout.ran_dry()
    assert playout.underruns == 0
    assert phase(playout) is Phase.DONE


def test_another_policy_may_hold_back_more() -> None:
    playout = Playout(FixedDelay(hold_samples=5000))
    playout.put(frame(0, 4999))
    assert playout.pull(480) == b""
    playout.put(frame(4999, 5000))
    assert playout.pull(480)


def test_the_fixed_policy_knows_no_difference_between_start_and_resumption() -> None:
    for starved in (False, True):
        outlook = Outlook(
            buffered_samples=HOLD, segment_complete=False, ended=False, starved=starved
        )
        assert FixedDelay().enough(outlook)


# --- order, duplicates, holes -----------------------------------------------------------------


def test_frames_may_come_in_any_order() -> None:
    playout = Playout()
    for start in (2400, 0, 3600, 1200):
        playout.put(frame(start, start + 1200))
    assert samples(everything(playout)) == stream(0, 4800)
    assert (playout.missing_samples, playout.duplicate_samples, playout.late_samples) == (0, 0, 0)


def test_what_comes_twice_is_dropped_and_counted() -> None:
    playout = Playout()
    playout.put(frame(0, 2400))
    playout.put(frame(0, 2400))
    playout.put(frame(1000, 3400))  # partly
    assert playout.duplicate_samples == 2400 + 1400
    assert playout.held_samples == 3400
    assert samples(playout.pull(3000)) == stream(0, 3000)
    playout.put(frame(0, 3100))
    assert (playout.late_samples, playout.duplicate_samples) == (3000, 3900)
    assert samples(everything(playout)) == stream(3000, 3400)


def test_a_hole_is_waited_for_while_it_may_still_be_filled() -> None:
    playout = Playout()
    playout.put(frame(0, 3000))
    playout.put(frame(4000, 4000 + HOLE_PATIENCE_SAMPLES - 1))
    assert samples(everything(playout)) == stream(0, 3000)
    assert playout.buffered_samples == 0
    playout.put(frame(3000, 4000))
    assert samples(everything(playout)) == stream(3000, 4000 + HOLE_PATIENCE_SAMPLES - 1)
    assert playout.missing_samples == 0


@pytest.mark.parametrize("sign", ["much behind it", "the sender skipped it", "end of the stream"])
def test_a_lost_piece_becomes_silence_of_its_length(sign: str) -> None:
    playout = Playout()
    playout.put(frame(0, 3000))
    after = 4000 + (HOLE_PATIENCE_SAMPLES if sign == "much behind it" else 100)
    playout.put(frame(4000, after, skipped=sign == "the sender skipped it"))
    if sign == "end of the stream":
        playout.end(after)
    assert playout.buffered_samples == after
    assert samples(everything(playout)) == stream(0, 3000) + [0] * 1000 + stream(4000, after)
    assert playout.missing_samples == 1000


def test_a_lost_end_becomes_silence_too() -> None:
    playout = Playout()
    playout.put(frame(0, 100))
    playout.end(300)
    assert playout.buffered_samples == 300
    assert samples(everything(playout)) == stream(0, 100) + [0] * 200
    assert (playout.missing_samples, playout.phase) == (200, Phase.DONE)


def test_what_comes_while_its_hole_is_played_still_fills_the_rest() -> None:
    playout = Playout()
    playout.put(frame(0, 3000))
    playout.put(frame(4000, 4100, skipped=True))
    assert samples(playout.pull(3400))[-400:] == [0] * 400
    playout.put(frame(3000, 4000))
    assert samples(everything(playout)) == stream(3400, 4100)
    assert (playout.missing_samples, playout.late_samples) == (400, 400)


# --- whatever happens to the frames -----------------------------------------------------------

LENGTH = 400


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Pieces of the stream, cut, lost, doubled and shuffled at will, and a pull after each."""
    cuts = sorted(draw(st.sets(st.integers(1, LENGTH - 1), max_size=12)))
    bounds = [0, *cuts, LENGTH]
    pieces = [(a, b) for a, b in pairwise(bounds) if draw(st.integers(0, 7))]
    odd = draw(st.lists(st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 120)), max_size=6))
    pieces += [(start, min(start + size, LENGTH)) for start, size in odd]
    order = draw(st.permutations(pieces))
    return [(start, end, draw(st.integers(0, 90))) for start, end in order]


@given(arrivals=arrivals(), dry=st.sets(st.integers(0, 20)), hold=st.integers(1, 200))
def test_every_sample_is_played_in_its_place_or_is_silence_there(
    arrivals: list[tuple[int, int, int]], dry: set[int], hold: int
) -> None:
    playout = Playout(FixedDelay(hold_samples=hold))
    out: list[int] = []
    arrived: set[int] = set()
    in_time: set[int] = set()
    for number, (start, end, wanted) in enumerate(arrivals):
        playout.put(frame(start, end))
        arrived.update(range(start, end))
        in_time.update(range(max(start, len(out)), end))
        if number in dry:
            playout.ran_dry()
        pcm = playout.pull(wanted)
        assert pcm_samples(pcm) <= wanted
        assert playout.missing_samples == 0, "silence before it is plain that something is lost"
        out += samples(pcm)
        assert playout.position == len(out)
    playout.end(LENGTH)
    assert playout.buffered_samples == LENGTH - len(out)
    out += samples(everything(playout))

    # one sample a place, in order: the stream's own where it came in time, and silence elsewhere
    assert out == [n + 1 if n in in_time else 0 for n in range(LENGTH)]
    assert in_time == arrived  # nothing was given up while it could still come
    assert playout.missing_samples == LENGTH - len(in_time)
    assert (playout.held_samples, playout.phase) == (0, Phase.DONE)
    assert playout.pull(1) == b""
