"""What is learned of an engine, and what is expected of it."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine.audio import SAMPLE_RATE, silence
from engine.request import Frame, SegmentDone, SegmentStart
from playerd.forecast import Course, Pace, Supply

NOW = 1000.0


def start(index: int = 0, sample: int = 0, **fields: object) -> SegmentStart:
    known: dict[str, object] = {"char_start": 0, "char_end": 0, "predicted_samples": SAMPLE_RATE}
    return SegmentStart(index=index, text="", sample=sample, **known | fields)  # type: ignore[arg-type]


def frame(sample: int, seconds: float) -> Frame:
    return Frame(seq=0, sample=sample, pcm=silence(round(seconds * SAMPLE_RATE)))


def done(seconds: float) -> SegmentDone:
    return SegmentDone(index=0, samples=round(seconds * SAMPLE_RATE), compute_ms=0.0)


def course(text: str = "", supply: Supply | None = None, *, complete: bool = True) -> Course:
    return Course(supply or Supply(), text, complete=complete, now_s=NOW)


# --- the pace -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rtf", [0.05, 0.12, 0.45, 1.3, 5.0])
def test_one_segment_tells_the_pace(rtf: float) -> None:
    pace = Pace()
    pace.learn(4.0, 4.0 * rtf, 0.0)
    assert pace.made_s(4.0) == pytest.approx(4.0 * rtf)
    assert pace.rtf == pytest.approx(rtf, rel=0.05)


def test_one_slow_segment_of_many_does_not_change_it_much() -> None:
    pace = Pace()
    for _ in range(20):
        pace.learn(4.0, 2.0, 2.0)
    pace.learn(4.0, 200.0, 2.0)
    assert pace.made_s(4.0) < 2.3


def test_an_engine_that_is_even_is_doubted_less() -> None:
    even, odd = Pace(), Pace()
    for n in range(60):
        even.learn(4.0, 2.0, 2.0)
        odd.learn(4.0, 1.0 if n % 2 else 4.0, 2.0)
    assert even.doubt == 0.05
    assert odd.doubt > 0.5


def test_it_learns_whether_segments_come_as_they_are_made() -> None:
    burst, stream = Pace(), Pace()
    for _ in range(3):
        burst.learn(4.0, 2.0, 0.0)
        stream.learn(4.0, 2.0, 1.5)
    assert burst.spread == 0
    assert stream.spread == pytest.approx(0.75)


def test_a_segment_without_sound_teaches_nothing() -> None:
    pace = Pace()
    before = pace.made_s(1.0)
    pace.learn(0.0, 5.0, 0.0)
    assert pace.made_s(1.0) == before


@given(lengths=st.lists(st.tuples(st.floats(0, 20), st.floats(0, 60)), max_size=30))
def test_whatever_happens_an_engine_takes_some_time(lengths: list[tuple[float, float]]) -> None:
    pace = Pace()
    for length_s, took_s in lengths:
        pace.learn(length_s, took_s, took_s / 2)
        pace.sagged(length_s, took_s / 3)
    assert 0 < pace.made_s(1.0) < pace.made_s(2.0) < 1e9
    assert 0 <= pace.spread <= 1
    assert pace.doubt >= 0.05


# --- what is to come ------------------------------------------------------------------------------


def test_of_a_stream_nothing_is_known() -> None:
    assert course().coming(NOW) == ()


def test_sentences_of_the_text_come_one_after_the_other() -> None:
    supply = Supply()
    supply.pace.learn(4.0, 2.0, 0.0)  # as bursts
    coming = course("One two three four five. Six seven eight nine ten.", supply).coming(NOW)
    assert [part.boundary for part in coming] == ["none", "sentence"]
    first, second = coming
    assert first.length_s == pytest.approx(24 / 15, rel=0.01)
    assert first.first_s == first.last_s == pytest.approx(supply.pace.made_s(first.length_s))
    assert second.first_s == pytest.approx(first.last_s + supply.pace.made_s(second.length_s))
    assert second.doubt_s > first.doubt_s


def test_time_that_has_passed_counts_for_the_segment_that_is_made() -> None:
    supply = Supply()
    supply.pace.learn(4.0, 2.0, 0.0)
    stream = course("", supply)
    stream.begin(start(predicted_samples=4 * SAMPLE_RATE))
    assert stream.coming(NOW + 0.5)[0].last_s == pytest.approx(1.5)
    assert stream.coming(NOW + 9.0)[0].last_s == pytest.approx(0.2)  # any moment, but not now


def test_what_came_of_a_segment_is_not_expected_again() -> None:
    supply = Supply()
    supply.pace.learn(4.0, 2.0, 2.0)  # while it is made
    stream = course("", supply)
    stream.begin(start(predicted_samples=4 * SAMPLE_RATE))
    stream.arrived(frame(0, 1.0), NOW, 0.0)
    (rest,) = stream.coming(NOW)
    assert (rest.boundary, rest.length_s, rest.first_s) == (None, 3.0, 0.0)
    assert rest.last_s == pytest.approx(1.5)
    stream.done(done(1.0), NOW, 0.0)
    assert stream.coming(NOW) == ()


def test_lengths_are_guessed_by_those_that_were_said() -> None:
    stream = course("Aaaa bbbb cccc. " * 20)
    said = 60 * SAMPLE_RATE  # a second for every four characters
    stream.begin(start(char_end=240, predicted_samples=said))
    stream.done(done(60.0), NOW, 0.0)
    assert stream.coming(NOW)[0].length_s == pytest.approx(15 / 4, rel=0.15)


def test_of_live_text_only_what_is_there_is_expected() -> None:
    stream = course("", complete=False)
    assert stream.coming(NOW) == ()
    stream.more("One. Tw", complete=False, now_s=NOW + 5)
    (part,) = stream.coming(NOW + 5)
    assert part.last_s > 0.1  # it was not being made before it was there
    stream.more("o.", complete=True, now_s=NOW + 6)
    assert len(stream.coming(NOW + 6)) == 2


def test_very_much_live_text_is_not_kept() -> None:
    stream = course("", complete=False)
    piece = "Some more words of it. "
    for n in range(2000):
        stream.more(piece, complete=False, now_s=NOW)
        stream.begin(start(n, n * 1000, char_start=n * 23, char_end=n * 23 + 22))
        stream.passed(n * 1000)
    assert len(stream._text) < 100
    assert len(stream._boundaries) == 1
    stream.more("One,  two. ", complete=False, now_s=NOW)
    stream.begin(start(2000, 2000 * 1000, char_start=46_000, char_end=46_004))
    assert stream.boundary(2000 * 1000) == "sentence"
    assert stream.coming(NOW)[-1].boundary == "comma"


def test_boundaries_are_told_or_seen_in_the_text_or_unknown() -> None:
    stream = course("One. Two, three four")
    stream.begin(start(0, 0, char_end=4))
    stream.begin(start(1, 100, char_start=5, char_end=9))
    stream.begin(start(2, 200, char_start=10, char_end=15))
    stream.begin(start(3, 300, char_start=16, char_end=20, pause="paragraph"))
    found = [stream.boundary(sample) for sample in (0, 100, 200, 300)]
    assert found == [None, "sentence", "comma", "paragraph"]
    foreign = course()
    foreign.arrived(
        Frame(seq=0, sample=100, pcm=silence(10), segment_first=True), NOW, 0.0
    )  # fmt: skip
    assert foreign.starts(100)
    assert foreign.boundary(100) == "comma"


def test_where_segments_begin() -> None:
    stream = course()
    stream.begin(start(0, 0))
    stream.begin(start(1, 100))
    assert (stream.next_start(0), stream.next_start(100)) == (100, None)
    assert [stream.starts(sample) for sample in (0, 1, 100)] == [True, False, True]


# --- what is learned from a stream ---------------------------------------------------------------


def segment(
    stream: Course, at_s: float, arrivals: list[tuple[float, float]], lead_s: float
) -> None:
    """A segment of which (seconds after the last one, seconds of audio) come."""
    total = sum(length for _, length in arrivals)
    stream.begin(start(predicted_samples=round(total * SAMPLE_RATE)))
    sample = 0
    for after_s, length_s in arrivals:
        at_s += after_s
        stream.arrived(frame(sample, length_s), at_s, lead_s)
        sample += round(length_s * SAMPLE_RATE)
    stream.done(done(total), at_s, lead_s)


def test_a_stream_teaches_the_pace_and_how_it_comes() -> None:
    supply = Supply()
    segment(course("", supply), NOW, [(1.0, 2.0), (1.0, 2.0)], 0.0)
    assert supply.pace.made_s(4.0) == pytest.approx(2.0)
    assert supply.pace.spread == pytest.approx(0.5)


def test_an_engine_that_was_held_up_by_us_teaches_no_pace() -> None:
    supply = Supply()
    before = supply.pace.made_s(4.0)
    segment(course("", supply), NOW, [(30.0, 4.0)], 9.0)
    assert supply.pace.made_s(4.0) == before


def test_lateness_counts_from_the_first_frame_of_the_segment() -> None:
    supply = Supply()
    segment(course("", supply), NOW, [(7.0, 0.2), (0.35, 0.2), (0.2, 0.2)], 0.0)
    supply.jitter.arrived(NOW + 20, 0.0)
    assert supply.jitter.quantile_ms == 160  # 150 ms late


def test_what_comes_late_while_there_is_much_in_hand_is_not_late() -> None:
    supply = Supply()
    segment(course("", supply), NOW, [(7.0, 0.2), (1.0, 0.2)], 1.0)
    supply.jitter.arrived(NOW + 20, 0.0)
    assert supply.jitter.quantile_ms == 20


def test_the_place_inside_a_segment_where_it_stops_is_learned_and_waited_for() -> None:
    supply = Supply()
    arrivals = [(0.5, 0.4), (1.1, 0.4), (0.2, 3.0)]  # 0.7 s late at the worst
    for _ in range(3):
        segment(course("", supply), NOW, arrivals, 0.0)
    stream = course("", supply)
    stream.begin(start(predicted_samples=round(3.8 * SAMPLE_RATE)))
    stream.arrived(frame(0, 0.4), NOW + 0.5, 0.0)
    first, later = stream.coming(NOW + 0.5)[0], stream.coming(NOW + 1.0)[0]
    assert first.sag_s == pytest.approx(0.4 + 0.7, abs=0.02)  # 0.4 s are here
    assert later.sag_s == pytest.approx(0.4 + 0.2, abs=0.02)


def test_what_the_engine_has_already_is_awaited_at_once_and_teaches_nothing() -> None:
    supply = Supply()
    stream = course("", supply)
    before = supply.pace.made_s(4.0), supply.pace.sag, supply.pace.rtf
    stream.begin(start(predicted_samples=4 * SAMPLE_RATE, cached=True))
    assert stream.coming(NOW)[0].last_s == 0
    stream.arrived(frame(0, 0.1), NOW, 0.0)
    (rest,) = stream.coming(NOW)
    assert (rest.last_s, rest.doubt_s, rest.sag_s) == (0, 0, None)
    stream.arrived(frame(2400, 3.9), NOW + 0.01, 0.0)
    stream.done(done(4.0), NOW + 0.01, 0.0)
    assert (supply.pace.made_s(4.0), supply.pace.sag, supply.pace.rtf) == before


def test_a_segment_that_begins_with_enough_in_hand_has_no_such_place() -> None:
    supply = Supply()
    segment(course("", supply), NOW, [(0.5, 0.4), (1.1, 0.4)], 0.0)
    stream = course("", supply)
    stream.begin(start(predicted_samples=4 * SAMPLE_RATE))
    stream.arrived(frame(0, 0.4), NOW + 0.5, 0.6)
    assert stream.coming(NOW + 0.5)[0].sag_s is None
