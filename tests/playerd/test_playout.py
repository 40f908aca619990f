"""The jitter buffer: when sound starts, what a hole becomes, and that nothing ever shifts."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from engine.audio import PCM_DTYPE, SAMPLE_RATE, ms_to_samples, pcm_samples
from engine.request import Boundary, Frame, SegmentDone, SegmentStart
from playerd.delay import ALLOWED_S, FixedDelay, Immediate, Outlook, Slack
from playerd.forecast import Supply
from playerd.playout import FADE_SAMPLES, HOLE_PATIENCE_SAMPLES, Phase, Playout

#: sample n has the value n + 1: none is silent, and each says where it belongs
STREAM = np.arange(1, 30_001, dtype=PCM_DTYPE)
HOLD = ms_to_samples(120)
NOW = 5.0
#: of a segment that nobody announced: only that it is complete counts
DONE = SegmentDone(index=0, samples=0, compute_ms=0.0)


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
    while pcm := playout.pull(77, NOW):
        taken += pcm
    return taken


# --- when sound starts and goes on ------------------------------------------------------------


def test_it_holds_back_until_120_ms_are_there() -> None:
    playout = Playout()
    playout.put(frame(0, HOLD - 1), NOW)
    assert phase(playout) is Phase.PREFILL
    assert playout.pull(480, NOW) == b""
    playout.put(frame(HOLD - 1, HOLD), NOW)
    assert samples(playout.pull(480, NOW)) == stream(0, 480)
    assert phase(playout) is Phase.PLAYING
    assert playout.buffered_samples == HOLD - 480


def test_a_short_first_segment_starts_when_it_is_complete() -> None:
    playout = Playout()
    playout.put(frame(0, 500), NOW)
    assert playout.pull(480, NOW) == b""
    playout.segment_done(DONE, NOW)
    assert samples(playout.pull(480, NOW)) == stream(0, 480)


def test_the_end_of_the_stream_starts_what_there_is() -> None:
    playout = Playout()
    playout.put(frame(0, 30), NOW)
    playout.end(30)
    assert phase(playout) is Phase.DRAINING
    assert samples(playout.pull(480, NOW)) == stream(0, 30)
    assert phase(playout) is Phase.DONE
    assert playout.pull(480, NOW) == b""


def test_a_stream_without_sound_is_done_at_its_end() -> None:
    playout = Playout()
    playout.segment_done(DONE, NOW)
    assert playout.pull(480, NOW) == b""
    playout.put(Frame(seq=0, sample=0, pcm=b"", first=True, last=True), NOW)
    playout.end(0)
    assert phase(playout) is Phase.DONE


def test_an_empty_buffer_is_no_underrun_until_the_device_is_dry() -> None:
    playout = Playout()
    playout.put(frame(0, HOLD), NOW)
    everything(playout)
    assert playout.pull(480, NOW) == b""
    assert (playout.phase, playout.underruns) == (Phase.PLAYING, 0)
    playout.put(frame(HOLD, HOLD + 10), NOW)
    assert samples(playout.pull(480, NOW)) == stream(HOLD, HOLD + 10)


def test_after_running_dry_it_waits_for_120_ms_again() -> None:
    playout = Playout(fade_samples=0)
    playout.put(frame(0, HOLD), NOW)
    everything(playout)
    playout.ran_dry(NOW)
    assert (playout.phase, playout.underruns) == (Phase.STARVED, 1)
    playout.put(frame(HOLD, 2 * HOLD - 1), NOW)
    assert playout.pull(480, NOW) == b""
    playout.ran_dry(NOW)  # it is dry already
    assert playout.underruns == 1
    playout.put(frame(2 * HOLD - 1, 2 * HOLD), NOW)
    assert samples(everything(playout)) == stream(HOLD, 2 * HOLD)
    assert phase(playout) is Phase.PLAYING


@pytest.mark.parametrize("cause", ["end of the segment", "end of the stream", "failure"])
def test_after_running_dry_an_end_goes_on_with_less(cause: str) -> None:
    playout = Playout(fade_samples=0)
    playout.put(frame(0, HOLD), NOW)
    everything(playout)
    playout.ran_dry(NOW)
    playout.put(frame(HOLD, HOLD + 10), NOW)
    match cause:
        case "end of the segment":
            playout.segment_done(DONE, NOW)
        case "end of the stream":
            playout.end(HOLD + 10)
        case _:
            playout.end()
    assert samples(everything(playout)) == stream(HOLD, HOLD + 10)


def test_running_dry_before_or_after_sound_is_no_underrun() -> None:
    playout = Playout()
    playout.ran_dry(NOW)
    playout.put(frame(0, 10), NOW)
    playout.end(10)
    playout.ran_dry(NOW)
    everything(playout)
    playout.ran_dry(NOW)
    assert playout.underruns == 0
    assert phase(playout) is Phase.DONE


def test_another_policy_may_hold_back_more() -> None:
    playout = Playout(FixedDelay(hold_samples=5000))
    playout.put(frame(0, 4999), NOW)
    assert playout.pull(480, NOW) == b""
    playout.put(frame(4999, 5000), NOW)
    assert playout.pull(480, NOW)


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
        playout.put(frame(start, start + 1200), NOW)
    assert samples(everything(playout)) == stream(0, 4800)
    assert (playout.missing_samples, playout.duplicate_samples, playout.late_samples) == (0, 0, 0)


def test_what_comes_twice_is_dropped_and_counted() -> None:
    playout = Playout()
    playout.put(frame(0, 2400), NOW)
    playout.put(frame(0, 2400), NOW)
    playout.put(frame(1000, 3400), NOW)  # partly
    assert playout.duplicate_samples == 2400 + 1400
    assert playout.held_samples == 3400
    assert samples(playout.pull(3000, NOW)) == stream(0, 3000)
    playout.put(frame(0, 3100), NOW)
    assert (playout.late_samples, playout.duplicate_samples) == (3000, 3900)
    assert samples(everything(playout)) == stream(3000, 3400)


def test_a_hole_is_waited_for_while_it_may_still_be_filled() -> None:
    playout = Playout()
    playout.put(frame(0, 3000), NOW)
    playout.put(frame(4000, 4000 + HOLE_PATIENCE_SAMPLES - 1), NOW)
    assert samples(everything(playout)) == stream(0, 3000)
    assert playout.buffered_samples == 0
    playout.put(frame(3000, 4000), NOW)
    assert samples(everything(playout)) == stream(3000, 4000 + HOLE_PATIENCE_SAMPLES - 1)
    assert playout.missing_samples == 0


@pytest.mark.parametrize("sign", ["much behind it", "the sender skipped it", "end of the stream"])
def test_a_lost_piece_becomes_silence_of_its_length(sign: str) -> None:
    playout = Playout(fade_samples=0)
    playout.put(frame(0, 3000), NOW)
    after = 4000 + (HOLE_PATIENCE_SAMPLES if sign == "much behind it" else 100)
    playout.put(frame(4000, after, skipped=sign == "the sender skipped it"), NOW)
    if sign == "end of the stream":
        playout.end(after)
    assert playout.buffered_samples == after
    assert samples(everything(playout)) == stream(0, 3000) + [0] * 1000 + stream(4000, after)
    assert playout.missing_samples == 1000


def test_a_lost_end_becomes_silence_too() -> None:
    playout = Playout(fade_samples=0)
    playout.put(frame(0, 100), NOW)
    playout.end(300)
    assert playout.buffered_samples == 300
    assert samples(everything(playout)) == stream(0, 100) + [0] * 200
    assert (playout.missing_samples, playout.phase) == (200, Phase.DONE)


def test_what_comes_while_its_hole_is_played_still_fills_the_rest() -> None:
    playout = Playout(fade_samples=0)
    playout.put(frame(0, 3000), NOW)
    playout.put(frame(4000, 4100, skipped=True), NOW)
    assert samples(playout.pull(3400, NOW))[-400:] == [0] * 400
    playout.put(frame(3000, 4000), NOW)
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
    playout = Playout(FixedDelay(hold_samples=hold), fade_samples=0)
    out: list[int] = []
    arrived: set[int] = set()
    in_time: set[int] = set()
    for number, (start, end, wanted) in enumerate(arrivals):
        playout.put(frame(start, end), NOW)
        arrived.update(range(start, end))
        in_time.update(range(max(start, len(out)), end))
        if number in dry:
            playout.ran_dry(NOW)
        pcm = playout.pull(wanted, NOW)
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
    assert playout.pull(1, NOW) == b""


# --- pauses, and silence between segments and inside ---------------------------------------------


class Pauses:
    """Plays whatever there is, and pauses for so long before every segment."""

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.before: list[Boundary | None] = []

    def enough(self, outlook: Outlook, /) -> bool:
        return outlook.ended or outlook.buffered_samples > 0

    def pause_s(self, outlook: Outlook, boundary: Boundary | None, /) -> float:
        self.before.append(boundary)
        return self.length_s


def begin(playout: Playout, index: int, start: int, pause: Boundary | None = None) -> None:
    playout.begin(
        SegmentStart(
            index=index, text="", char_start=0, char_end=0, sample=start, pause=pause,
            predicted_samples=1000,
        )
    )  # fmt: skip


def segment(
    playout: Playout, index: int, start: int, end: int, pause: Boundary | None = None
) -> None:
    """A whole segment comes."""
    begin(playout, index, start, pause)
    playout.put(frame(start, end), NOW)
    playout.segment_done(SegmentDone(index=index, samples=end - start, compute_ms=0.0), NOW)


def test_a_pause_is_silence_that_is_not_in_the_stream() -> None:
    policy = Pauses(0.02)
    playout = Playout(policy)
    segment(playout, 0, 0, 1000)
    segment(playout, 1, 1000, 2000, "sentence")
    segment(playout, 2, 2000, 3000, "none")
    playout.segment_done(DONE, NOW)
    out = samples(everything(playout))
    pause = [0] * 480
    assert out == [*stream(0, 1000), *pause, *stream(1000, 2000), *pause, *stream(2000, 3000)]
    assert (playout.position, playout.inserted_samples) == (3000, 960)
    assert policy.before == ["sentence", "none"]
    assert playout.missing_samples == 0


def test_what_was_heard_does_not_count_pauses() -> None:
    playout = Playout(Pauses(0.02))
    segment(playout, 0, 0, 1000)
    segment(playout, 1, 1000, 2000, "sentence")
    segment(playout, 2, 2000, 3000, "sentence")
    everything(playout)
    given = [0, 999, 1000, 1001, 1480, 1481, 2480, 2700, 2960, 2961, 3960, 9999]
    heard = [0, 999, 1000, 1000, 1000, 1001, 2000, 2000, 2000, 2001, 3000, 3000]
    assert [playout.heard(count) for count in given] == heard


def test_what_was_heard_in_the_middle_of_giving_out_a_pause() -> None:
    playout = Playout(Pauses(0.02))
    segment(playout, 0, 0, 1000)
    segment(playout, 1, 1000, 2000, "sentence")
    playout.pull(1100, NOW)
    assert (playout.position, playout.inserted_samples) == (1000, 100)
    assert playout.heard(1100) == 1000


def test_a_segment_that_is_not_here_yet_is_not_paused_for() -> None:
    policy = Pauses(0.02)
    playout = Playout(policy)
    segment(playout, 0, 0, 1000)
    begin(playout, 1, 1000, "sentence")
    assert samples(everything(playout)) == stream(0, 1000)
    assert policy.before == []
    playout.put(frame(1000, 1100), NOW)
    assert samples(everything(playout)) == [0] * 480 + stream(1000, 1100)


def test_after_running_dry_there_is_no_pause_on_top() -> None:
    policy = Pauses(0.02)
    playout = Playout(policy)
    segment(playout, 0, 0, 1000)
    everything(playout)
    playout.ran_dry(NOW)
    segment(playout, 1, 1000, 2000, "sentence")
    assert samples(everything(playout)) == stream(1000, 2000)
    assert policy.before == []


@pytest.mark.parametrize(
    ("before", "silent_s", "kind"),
    [
        ("sentence", ALLOWED_S["sentence"], "soft"),
        ("sentence", 0.5, "hard"),
        ("paragraph", 0.5, "soft"),
        ("comma", 0.1, "soft"),
        ("clause", 0.2, "hard"),
        ("none", 0.01, "mid"),
    ],
)
def test_silence_between_segments_is_counted_by_what_is_natural_there(
    before: Boundary, silent_s: float, kind: str
) -> None:
    playout = Playout(Immediate())
    playout.gulp_samples = 0
    segment(playout, 0, 0, 1000)
    playout.pull(2000, NOW)
    playout.ran_dry(NOW)
    segment(playout, 1, 1000, 2000, before)
    assert playout.gaps.silent_s == 0  # it is not over
    playout.pull(2000, NOW + silent_s)
    gaps = playout.gaps
    assert {"soft": gaps.soft, "hard": gaps.hard, "mid": gaps.mid} == {
        name: int(name == kind) for name in ("soft", "hard", "mid")
    }
    assert gaps.silent_s == pytest.approx(silent_s)
    assert gaps.hard_s == pytest.approx(silent_s - ALLOWED_S[before] if kind == "hard" else 0)
    assert gaps.mid_s == pytest.approx(silent_s if kind == "mid" else 0)


def test_silence_inside_a_segment_is_mid_and_raises_what_the_way_needs() -> None:
    supply = Supply()
    playout = Playout(Immediate(), supply)
    playout.gulp_samples = 0
    begin(playout, 0, 0)
    playout.put(frame(0, 500), NOW)
    playout.pull(1000, NOW)
    assert supply.jitter.hold_ms == 80
    playout.ran_dry(NOW)
    assert supply.jitter.hold_ms == 140
    playout.put(frame(500, 1000), NOW + 0.3)
    playout.pull(1000, NOW + 0.3)
    assert playout.gaps.mid == 1
    assert playout.gaps.mid_s == pytest.approx(0.3)


@pytest.mark.parametrize(("dry_s", "silent_s"), [(0.05, 0.05), (0.1, 0.1), (0.3, 0.2)])
def test_a_device_that_came_to_rest_had_played_what_it_held(dry_s: float, silent_s: float) -> None:
    """One that did not has silence to play before what comes now."""
    playout = Playout(Immediate())
    playout.gulp_samples = ms_to_samples(100)
    begin(playout, 0, 0)
    playout.put(frame(0, 500), NOW)
    playout.pull(1000, NOW)
    playout.ran_dry(NOW)
    playout.put(frame(500, 1000), NOW + dry_s)
    playout.pull(1000, NOW + dry_s)
    assert playout.gaps.mid_s == pytest.approx(silent_s)


def test_the_policy_is_told_of_the_gulp_where_there_is_one() -> None:
    seen: list[int] = []

    class Watching(Immediate):
        def enough(self, outlook: Outlook, /) -> bool:
            seen.append(outlook.gulp_samples)
            return super().enough(outlook)

    playout = Playout(Watching())
    playout.gulp_samples = ms_to_samples(100)
    begin(playout, 0, 0)
    for n, dry_s in enumerate((0.0, 0.05, 0.3)):
        if n:
            playout.ran_dry(NOW)
        playout.put(frame(500 * n, 500 * n + 500), NOW + dry_s)
        playout.pull(1000, NOW + dry_s)
    assert seen == [ms_to_samples(100), 0, ms_to_samples(100)]


def test_silence_before_a_segment_says_nothing_about_the_way() -> None:
    supply = Supply()
    playout = Playout(Immediate(), supply)
    segment(playout, 0, 0, 1000)
    playout.pull(2000, NOW)
    playout.ran_dry(NOW)
    assert (playout.underruns, supply.jitter.hold_ms) == (1, 80)


def test_a_pause_counts_as_soft_silence() -> None:
    playout = Playout(Pauses(0.02))
    segment(playout, 0, 0, 1000)
    segment(playout, 1, 1000, 2000, "sentence")
    everything(playout)
    assert (playout.gaps.soft, playout.gaps.soft_s, playout.underruns) == (1, 0.02, 0)


def test_a_stream_that_breaks_off_in_silence_leaves_no_gap() -> None:
    playout = Playout(Immediate())
    segment(playout, 0, 0, 1000)
    playout.pull(2000, NOW)
    playout.ran_dry(NOW)
    playout.end()
    assert playout.pull(100, NOW + 9) == b""
    assert (playout.phase, playout.gaps.silent_s) == (Phase.DONE, 0)


# --- fades -----------------------------------------------------------------------------------------

LOUD = np.full(30_000, 10_000, dtype=PCM_DTYPE)


def loud(start: int, end: int, *, skipped: bool = False) -> Frame:
    return Frame(
        seq=start, sample=start, pcm=LOUD[start:end].tobytes(), discontinuity=skipped
    )  # fmt: skip


def rise(count: int) -> list[int]:
    turn = np.arange(1, count + 1) / (count + 1)
    return [round(10_000 * float(part)) for part in 0.5 - 0.5 * np.cos(np.pi * turn)]


@pytest.mark.parametrize("block", [7, 100, 5000])
def test_speech_that_ran_out_inside_a_segment_fades_in(block: int) -> None:
    playout = Playout(Immediate())
    begin(playout, 0, 0)
    playout.put(loud(0, 1000), NOW)
    assert set(samples(playout.pull(2000, NOW))) == {10_000}  # the beginning is as it was made
    playout.ran_dry(NOW)
    playout.put(loud(1000, 2000), NOW)
    out: list[int] = []
    while pcm := playout.pull(block, NOW):
        out += samples(pcm)
    assert out == rise(FADE_SAMPLES) + [10_000] * (1000 - FADE_SAMPLES)


def test_segments_are_joined_as_they_are() -> None:
    playout = Playout(Immediate())
    for index in range(3):
        begin(playout, index, index * 1000, "none")
        playout.put(loud(index * 1000, index * 1000 + 1000), NOW)
        playout.segment_done(DONE, NOW)
        if index == 1:
            playout.pull(3000, NOW)
            playout.ran_dry(NOW)  # between two of them
    assert set(samples(everything(playout))) == {10_000}


@pytest.mark.parametrize("block", [7, 100, 5000])
def test_sound_fades_out_before_what_is_lost_and_in_behind_it(block: int) -> None:
    playout = Playout(Immediate())
    begin(playout, 0, 0)
    playout.put(loud(0, 1000), NOW)
    playout.put(loud(1500, 2500, skipped=True), NOW)
    out: list[int] = []
    while pcm := playout.pull(block, NOW):
        out += samples(pcm)
    plain = [10_000] * (1000 - FADE_SAMPLES)
    assert out == [*plain, *rise(FADE_SAMPLES)[::-1], *[0] * 500, *rise(FADE_SAMPLES), *plain]


def test_a_fade_out_begins_where_it_is_when_the_loss_is_known_late() -> None:
    playout = Playout(Immediate())
    begin(playout, 0, 0)
    playout.put(loud(0, 1000), NOW)
    playout.pull(950, NOW)
    playout.put(loud(1500, 2500, skipped=True), NOW)
    assert samples(playout.pull(50, NOW)) == rise(50)[::-1]


# --- a policy that looks ahead ---------------------------------------------------------------------


def test_an_engine_that_is_slower_than_speech_is_waited_for_within_limits() -> None:
    supply = Supply()
    for _ in range(5):
        supply.pace.learn(2.0, 4.0, 4.0)
    playout = Playout(Slack(start_s=0.5), supply, "Words.")
    assert not playout.waits
    playout.begin(
        SegmentStart(index=0, text="", char_start=0, char_end=6, sample=0, predicted_samples=72_000)
    )
    playout.put(frame(0, 4800), NOW)
    assert playout.pull(100, NOW) == b""
    assert playout.waits
    assert playout.pull(100, NOW + 0.49) == b""
    assert playout.pull(100, NOW + 0.5)
    assert not playout.waits


@pytest.mark.parametrize("cached", [True, False])
def test_what_the_engine_has_already_is_played_at_once_by_who_knows_nothing_of_it(
    cached: bool,
) -> None:
    playout = Playout(Slack(), Supply(), "Words. And more of them.")
    playout.begin(
        SegmentStart(
            index=0, text="", char_start=0, char_end=6, sample=0, predicted_samples=72_000,
            cached=cached,
        )
    )  # fmt: skip
    playout.put(frame(0, 4800), NOW)
    assert bool(playout.pull(100, NOW)) is cached


@given(
    cuts=st.lists(st.integers(1, 60), min_size=1, max_size=12),
    waits=st.lists(st.floats(0.0, 0.4), min_size=12, max_size=12),
    boundaries=st.lists(
        st.sampled_from(["none", "comma", "clause", "sentence", "paragraph"]),
        min_size=12,
        max_size=12,
    ),
    rtf=st.floats(0.05, 2.0),
)
def test_whatever_pauses_are_made_all_samples_come_once_and_in_order(
    cuts: list[int], waits: list[float], boundaries: list[Boundary], rtf: float
) -> None:
    supply = Supply()
    for _ in range(3):
        supply.pace.learn(1.0, rtf, 0.0)
    playout = Playout(Slack(), supply, "Words and words, and more. " * 20, fade_samples=0)
    now_s, sample = 0.0, 0
    out: list[int] = []
    for index, (cut, wait_s, before) in enumerate(zip(cuts, waits, boundaries, strict=False)):
        begin(playout, index, sample, before)
        playout.put(frame(sample, sample + cut * 40), now_s)
        playout.segment_done(SegmentDone(index=index, samples=cut * 40, compute_ms=0.0), now_s)
        sample += cut * 40
        pcm = playout.pull(3000, now_s)
        if not pcm:
            playout.ran_dry(now_s)
        out += samples(pcm)
        now_s += wait_s
    playout.end(sample)
    out += samples(everything(playout))
    assert [value for value in out if value] == stream(0, sample)
    assert len(out) == sample + playout.inserted_samples
    assert playout.position == sample
    assert playout.gaps.silent_s >= playout.inserted_samples / SAMPLE_RATE - 0.001
