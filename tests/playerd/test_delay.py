"""The policies: when there is enough, and where to pause."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import hypothesis.strategies as st
import pytest
from hypothesis import given

from engine.audio import SAMPLE_RATE, ms_to_samples
from engine.request import Boundary
from playerd.delay import ALLOWED_S, DelayPolicy, FixedDelay, Immediate, Outlook, Slack
from playerd.forecast import Expected

POLICIES: list[DelayPolicy] = [
    Immediate(),
    FixedDelay(),
    FixedDelay(ms_to_samples(250)),
    Slack(),
    Slack(start_s=0.0, resume_s=0.0),
    Slack(start_s=1.5),
]
BOUNDARIES: tuple[Boundary, ...] = get_args(Boundary)


def looks(buffered_s: float, *coming: Expected, **fields: object) -> Outlook:
    known: dict[str, object] = {"segment_complete": True, "ended": False, "starved": False}
    return Outlook(
        buffered_samples=round(buffered_s * SAMPLE_RATE),
        coming=coming,
        **known | fields,  # type: ignore[arg-type]
    )


def burst(boundary: Boundary | None, length_s: float, at_s: float) -> Expected:
    """A segment that comes as a whole."""
    return Expected(boundary, length_s, at_s, at_s, 0.0)


def rest(length_s: float, last_s: float, sag_s: float | None = None) -> Expected:
    """What is still to come of the segment that is here in part."""
    return Expected(None, length_s, 0.0, last_s, 0.0, sag_s)


@st.composite
def expected(draw: st.DrawFn) -> tuple[Expected, ...]:
    """What may be to come: one after the other."""
    found, at_s = [], 0.0
    for n in range(draw(st.integers(0, 4))):
        boundary = draw(st.sampled_from([None, *BOUNDARIES] if n == 0 else BOUNDARIES))
        first_s = at_s + (draw(st.floats(0, 4)) if boundary else 0.0)
        at_s = first_s + draw(st.floats(0, 4))
        sag_s = draw(st.none() | st.floats(-2, 3)) if boundary is None else None
        found.append(
            Expected(
                boundary, draw(st.floats(0.1, 8)), first_s, at_s, draw(st.floats(0, 1)), sag_s
            )
        )  # fmt: skip
    return tuple(found)


@st.composite
def outlooks(draw: st.DrawFn) -> Outlook:
    return Outlook(
        buffered_samples=draw(st.integers(0, 5 * SAMPLE_RATE)),
        segment_complete=draw(st.booleans()),
        ended=draw(st.booleans()),
        starved=draw(st.booleans()),
        inside=draw(st.booleans()),
        waited_s=draw(st.floats(0, 3)),
        hold_samples=draw(st.integers(ms_to_samples(80), ms_to_samples(300))),
        gulp_samples=draw(st.sampled_from([0, ms_to_samples(80), ms_to_samples(400)])),
        coming=draw(expected()),
    )


POLICY = st.sampled_from(POLICIES)


@given(policy=POLICY, outlook=outlooks())
def test_at_the_end_of_the_stream_there_is_enough(policy: DelayPolicy, outlook: Outlook) -> None:
    assert policy.enough(replace(outlook, ended=True))


@given(policy=POLICY, outlook=outlooks(), more=st.integers(1, 5 * SAMPLE_RATE))
def test_with_more_in_hand_enough_is_still_enough(
    policy: DelayPolicy, outlook: Outlook, more: int
) -> None:
    if policy.enough(outlook):
        assert policy.enough(replace(outlook, buffered_samples=outlook.buffered_samples + more))


@given(policy=POLICY, outlook=outlooks(), more_s=st.floats(0, 5))
def test_after_more_waiting_enough_is_still_enough(
    policy: DelayPolicy, outlook: Outlook, more_s: float
) -> None:
    if policy.enough(outlook):
        assert policy.enough(replace(outlook, waited_s=outlook.waited_s + more_s))


@given(outlook=outlooks(), start_s=st.floats(0, 2), resume_s=st.floats(0, 2))
def test_nothing_is_waited_for_longer_than_the_limit(
    outlook: Outlook, start_s: float, resume_s: float
) -> None:
    limit_s = resume_s if outlook.starved else start_s
    least = max(outlook.hold_samples, outlook.gulp_samples, ms_to_samples(120))
    here = replace(
        outlook,
        waited_s=limit_s,
        buffered_samples=max(outlook.buffered_samples, 1 if outlook.segment_complete else least),
    )
    assert Slack(start_s, resume_s).enough(here)


@given(outlook=outlooks())
def test_without_anything_to_play_nothing_begins(outlook: Outlook) -> None:
    empty = replace(outlook, buffered_samples=0, ended=False)
    assert not Slack().enough(empty)
    assert not Immediate().enough(empty)


@given(outlook=outlooks(), boundary=st.none() | st.sampled_from(BOUNDARIES))
def test_a_pause_is_never_longer_than_natural(outlook: Outlook, boundary: Boundary | None) -> None:
    pause_s = Slack().pause_s(outlook, boundary)
    assert 0 <= pause_s <= (ALLOWED_S[boundary] if boundary else 0)
    assert not outlook.ended or pause_s == 0


@given(
    outlook=outlooks(),
    boundary=st.sampled_from(BOUNDARIES),
    more=st.integers(1, 5 * SAMPLE_RATE),
)
def test_with_more_in_hand_pauses_are_not_longer(
    outlook: Outlook, boundary: Boundary, more: int
) -> None:
    richer = replace(outlook, buffered_samples=outlook.buffered_samples + more)
    assert Slack().pause_s(richer, boundary) <= Slack().pause_s(outlook, boundary)


def test_it_waits_for_a_hole_inside_a_phrase_only() -> None:
    late = 1.5  # with 1 s in hand that is half a second of silence
    assert not Slack().enough(looks(1.0, burst("none", 3.0, late)))
    assert not Slack().enough(looks(1.0, burst("comma", 3.0, late)))
    assert Slack().enough(looks(1.0, burst("sentence", 3.0, late)))
    assert Slack().enough(looks(1.4, burst("comma", 3.0, late)))  # within what is natural
    assert not Slack().enough(looks(1.4, burst("none", 3.0, late)))
    assert Slack().enough(looks(1.5, burst("none", 3.0, late)))


def test_what_a_device_takes_at_once_is_not_there_to_wait_with() -> None:
    """A stream that begins with 80 ms needs what follows by so much sooner than it is heard."""
    outlook = looks(0.5, burst("none", 3.0, 0.45))
    assert Slack().enough(outlook)
    assert Slack().enough(replace(outlook, gulp_samples=ms_to_samples(40)))
    assert not Slack().enough(replace(outlook, gulp_samples=ms_to_samples(80)))
    little = looks(0.1, segment_complete=False, gulp_samples=ms_to_samples(120))
    assert not Slack().enough(replace(little, waited_s=99.0))
    assert Slack().enough(replace(little, segment_complete=True))


def test_very_much_silence_is_not_accepted_even_at_a_sentence() -> None:
    assert Slack().enough(looks(1.0, burst("sentence", 3.0, 2.2)))
    assert not Slack().enough(looks(1.0, burst("sentence", 3.0, 2.3)))


def test_silence_at_a_sentence_gives_time_to_what_is_behind_it() -> None:
    sentence, middle = burst("sentence", 1.0, 1.5), burst("none", 3.0, 2.4)
    assert Slack().enough(looks(1.0, sentence, middle))
    assert not Slack().enough(looks(1.0, sentence, burst("none", 3.0, 2.6)))


def test_it_waits_while_a_segment_comes_slower_than_it_is_played() -> None:
    assert not Slack().enough(looks(0.5, rest(2.0, 3.0)))
    assert Slack().enough(looks(1.0, rest(2.0, 3.0)))


def test_it_waits_until_the_worst_place_of_a_segment_can_be_passed() -> None:
    assert not Slack().enough(looks(0.5, rest(2.0, 1.0, sag_s=0.6)))
    assert Slack().enough(looks(0.5, rest(2.0, 1.0, sag_s=0.5)))


def test_doubt_is_waited_for_too() -> None:
    sure = Expected("none", 3.0, 0.9, 0.9, 0.1)
    assert Slack().enough(looks(1.0, sure))
    assert not Slack().enough(looks(1.0, replace(sure, doubt_s=0.3)))


@pytest.mark.parametrize("starved", [False, True])
def test_it_holds_back_what_the_way_needs(starved: bool) -> None:
    little = looks(0.19, hold_samples=ms_to_samples(200), segment_complete=False, starved=starved)
    assert not Slack().enough(little)
    assert not Slack().enough(replace(little, waited_s=99.0))
    assert Slack().enough(replace(little, segment_complete=True))
    assert Slack().enough(replace(little, buffered_samples=ms_to_samples(200)))


def test_going_on_inside_a_segment_takes_a_little_more() -> None:
    outlook = looks(0.1, segment_complete=False)
    assert Slack().enough(outlook)
    assert Slack().enough(replace(outlook, starved=True))
    assert not Slack().enough(replace(outlook, starved=True, inside=True))


def test_a_hole_that_threatens_is_shared_by_the_sentences_before_it() -> None:
    late = [burst("sentence", 1.0, 0.0), burst("comma", 1.0, 0.0), burst("none", 3.0, 3.2)]
    assert Slack().pause_s(looks(1.0, *late), "sentence") == pytest.approx(0.1)
    assert Slack().pause_s(looks(1.0, late[1], late[2]), "sentence") == pytest.approx(0.35)


def test_at_a_paragraph_more_is_natural_and_inside_a_phrase_nothing() -> None:
    outlook = looks(1.0, burst("none", 3.0, 3.0))
    found = {boundary: Slack().pause_s(outlook, boundary) for boundary in BOUNDARIES}
    assert found == ALLOWED_S


def test_policies_that_hold_back_a_fixed_amount_never_pause() -> None:
    outlook = looks(1.0, burst("none", 3.0, 3.0))
    assert [policy.pause_s(outlook, "sentence") for policy in POLICIES[:3]] == [0, 0, 0]
