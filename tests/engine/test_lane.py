"""What runs next, and when a stream is due: tables and properties, no clock."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import SAMPLE_RATE
from engine.lane import BATCH_PATIENCE_S, Lane, Pace, Ticket

ENDLESS = math.inf  # patience


def order(lane: Lane, now_s: float = 0.0) -> list[Ticket]:
    """Everything that waits, in the order in which it is run."""
    started = []
    while (ticket := lane.start(now_s)) is not None:
        started.append(ticket)
        lane.finish(ticket)
    return started


# --- Lane ---------------------------------------------------------------------------------------


def test_earliest_deadline_first_and_batch_last_by_arrival() -> None:
    lane = Lane(ENDLESS)
    batch_a = lane.arrive(9.0, batch=True)
    late = lane.arrive(3.0)
    batch_b = lane.arrive(-9.0, batch=True)
    soon = lane.arrive(1.0)
    soon_too = lane.arrive(1.0)
    past = lane.arrive(-1.0)
    assert order(lane) == [past, soon, soon_too, late, batch_a, batch_b]


#: (deadline, batch) of an arrival, or what else happens; a withdrawal names one that waits
STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(-3, 3), st.booleans()),
        st.sampled_from(["start", "finish"]),
        st.integers(0, 50),
    ),
    max_size=60,
)


@given(STEPS)
def test_order_is_by_class_deadline_and_arrival(
    steps: list[tuple[int, bool] | str | int],
) -> None:
    lane = Lane(ENDLESS)
    arrived: list[Ticket] = []
    waiting: list[tuple[bool, float, int]] = []  # what the order is to be, and the arrival
    withdrawn: set[Ticket] = set()
    started: list[Ticket] = []
    running: Ticket | None = None

    def start() -> None:
        nonlocal running
        ticket = lane.start(0.0)
        if running is not None or not waiting:
            assert ticket is None  # one at a time
            return
        first = min(waiting)
        waiting.remove(first)
        assert ticket is arrived[first[2]]
        assert ticket not in withdrawn
        started.append(ticket)
        running = ticket

    def finish() -> None:
        nonlocal running
        if running is not None:
            lane.finish(running)
            running = None

    for step in steps:
        if isinstance(step, tuple):
            deadline, batch = step
            arrived.append(lane.arrive(deadline, batch=batch))
            waiting.append((batch, 0 if batch else deadline, len(arrived) - 1))
        elif isinstance(step, int):
            if waiting:
                ticket = arrived[waiting.pop(step % len(waiting))[2]]
                lane.withdraw(ticket)
                withdrawn.add(ticket)
        elif step == "start":
            start()
        else:
            finish()
    while waiting or running is not None:
        finish()
        start()
    assert len(started) == len(set(started))
    assert set(started) | withdrawn == set(arrived)
    assert not set(started) & withdrawn


def test_misuse_raises() -> None:
    lane = Lane()
    ticket = lane.arrive(1.0)
    with pytest.raises(ValueError, match="runs"):
        lane.finish(ticket)
    assert lane.start(0.0) is ticket
    with pytest.raises(ValueError, match="waits"):
        lane.withdraw(ticket)
    lane.finish(ticket)
    with pytest.raises(ValueError, match="runs"):
        lane.finish(ticket)
    with pytest.raises(ValueError, match="waits"):
        lane.withdraw(ticket)
    withdrawn = lane.arrive(1.0)
    lane.withdraw(withdrawn)
    with pytest.raises(ValueError, match="waits"):
        lane.withdraw(withdrawn)
    with pytest.raises(ValueError, match="waits"):
        lane.withdraw(Lane().arrive(1.0))
    with pytest.raises(ValueError, match="number"):
        lane.arrive(math.nan)
    assert lane.start(0.0) is None


@given(
    st.floats(0.0, 20.0),
    st.floats(0.0, 20.0),
    st.lists(st.floats(0.01, 0.3), min_size=1, max_size=20),
    st.integers(1, 4),
)
def test_live_work_without_end_passes_over_batch_work_for_a_while_only(
    patience_s: float, lead_s: float, lengths: list[float], streams: int
) -> None:
    lane = Lane(patience_s)
    now, turn_of, turns = 0.0, {}, []
    for number in range(streams):
        turn_of[lane.arrive(0.0, batch=True)] = number
    while now < 100.0:
        live = lane.arrive(now + lead_s)
        ticket = lane.start(now)
        assert ticket is not None
        if ticket.batch:
            number = turn_of.pop(ticket)
            turns.append((now, number))
            turn_of[lane.arrive(0.0, batch=True)] = number
            lane.withdraw(live)
        lane.finish(ticket)
        now += lengths[len(turns) % len(lengths)]
    assert [number for _, number in turns] == [n % streams for n in range(len(turns))]
    starts = [0.0, *(at for at, _ in turns), now]
    gaps = [b - a for a, b in pairwise(starts)]
    gap_s = max(patience_s - lead_s, patience_s / 2)
    assert max(gaps) <= gap_s + 0.6 + 1e-6  # the pieces at both ends
    assert min(gaps[:-1], default=gap_s) >= gap_s - 1e-6


def test_batch_work_out_of_patience_takes_one_turn_but_not_a_new_streams() -> None:
    lane = Lane(patience_s=4.0)
    for _ in range(3):
        lane.arrive(0.0, batch=True)
    for now_s, deadline_s, batch in [
        (10.0, 99.0, False),  # it begins to be passed over
        (11.9, 99.0, False),
        (12.0, 13.9, False),
        (12.0, 14.0, True),
        (12.3, 99.0, False),  # begins anew
        (16.2, 16.2, False),  # a new stream
        (16.3, 16.2, False),
        (16.3, 16.3, True),
        (16.3, 16.3, False),
    ]:
        live = lane.arrive(deadline_s)
        ticket = lane.start(now_s)
        assert ticket is not None
        assert ticket.batch is batch
        lane.finish(ticket)
        if batch:
            lane.withdraw(live)


def test_patience_begins_anew_when_no_batch_work_waits() -> None:
    lane = Lane()

    def start_live(now_s: float) -> None:
        live = lane.arrive(now_s)
        assert lane.start(now_s) is live
        lane.finish(live)

    batch = lane.arrive(0.0, batch=True)
    start_live(0.0)
    lane.withdraw(batch)
    start_live(1.0)
    batch = lane.arrive(0.0, batch=True)
    start_live(BATCH_PATIENCE_S)
    start_live(BATCH_PATIENCE_S * 1.9)
    lane.arrive(BATCH_PATIENCE_S * 2)
    assert lane.start(BATCH_PATIENCE_S * 2) is batch


# --- Pace ---------------------------------------------------------------------------------------


def test_pace_follows_a_listener() -> None:
    pace = Pace(10.0)
    assert (pace.due_s(10.0), pace.lead_s(10.0), pace.lead_s(11.0)) == (10.0, 0.0, 0.0)
    for now, samples, late, due in [
        (10.5, 24_000, 0.5, 11.5),  # the first piece begins to play when it is made
        (10.7, 12_000, 0.0, 12.0),  # in time: it is played behind the first
        (12.0, 12_000, 0.0, 12.5),  # at the last moment
        (14.0, 6_000, 1.5, 14.25),  # late: the listener has paused and goes on at 14
        (14.1, 0, 0.0, 14.25),  # nothing changes nothing
        (60.0, 24_000, 45.75, 61.0),  # nobody read for a while
    ]:
        assert pace.made(now, samples) == late
        assert pace.due_s(now) == due
        assert pace.lead_s(now) == due - now
    with pytest.raises(ValueError, match="-1 samples"):
        pace.made(61.0, -1)


@given(
    st.floats(0.0, 1e6),
    st.lists(st.tuples(st.floats(0.0, 100.0), st.integers(0, 240_000)), max_size=30),
)
def test_pace_never_goes_back_and_a_late_piece_is_all_that_is_in_hand(
    start_s: float, pieces: list[tuple[float, int]]
) -> None:
    pace, now = Pace(start_s), start_s
    for after, samples in pieces:
        now += after
        due, lead = pace.due_s(now), pace.lead_s(now)
        assert lead >= 0.0
        late = pace.made(now, samples)
        assert pace.due_s(now) >= due
        assert late == max(0.0, now - due)
        length = samples / SAMPLE_RATE
        assert pace.lead_s(now) == pytest.approx(lead + length, abs=1e-6)
        if late:
            assert pace.lead_s(now) == pytest.approx(length, abs=1e-6)


def test_pace_plans_ahead() -> None:
    pace = Pace(10.0)
    assert pace.next_due_s(0.0) == 10.0
    pace.planned(48_000)
    assert (pace.due_s(0.0), pace.next_due_s(0.0)) == (10.0, 12.0)  # the first is due as before
    pace.planned(24_000)
    assert pace.next_due_s(0.0) == 13.0
    pace.made(10.5, 36_000)  # half a second late, of what was planned
    assert (pace.due_s(0.0), pace.next_due_s(0.0)) == (12.0, 13.5)
    pace.planned(-12_000)  # it was trimmed
    assert (pace.due_s(0.0), pace.next_due_s(0.0)) == (12.0, 13.0)
    pace.made(11.0, 24_000)
    assert pace.next_due_s(0.0) == pace.due_s(0.0) == 13.0
    pace.made(11.0, 24_000)  # nobody planned this
    assert pace.next_due_s(0.0) == pace.due_s(0.0) == 14.0
    pace.planned(24_000)
    assert pace.next_due_s(0.0) == 15.0


@given(
    st.lists(st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 24_000)), max_size=8)),
    st.integers(0, 4_000),
)
def test_what_is_planned_is_due_when_it_was_said_unless_something_comes_late(
    segments: list[list[tuple[float, int]]], trimmed: int
) -> None:
    pace, now = Pace(0.0), 0.0
    for pieces in segments:
        pace.planned(sum(samples for _, samples in pieces) + trimmed)
    for pieces in segments:
        for after, samples in pieces:
            now += after
            before = pace.next_due_s(now)
            late = pace.made(now, samples)
            assert pace.next_due_s(now) == pytest.approx(before + late, abs=1e-6)
            assert pace.next_due_s(now) >= pace.due_s(now) - 1e-6
        pace.planned(-trimmed)
    assert pace.next_due_s(now) == pytest.approx(pace.due_s(now), abs=1e-6)


def test_the_budget_is_time_to_spare_until_it_is_used_up_or_there_is_a_lead() -> None:
    pace = Pace(10.0, budget_s=0.3)
    assert pace.due_s(10.0) == 10.0  # and is no later deadline
    assert pace.spare_s(10.0) == pytest.approx(0.3)
    assert pace.spare_s(10.2) == pytest.approx(0.1)
    assert pace.spare_s(10.3) == pytest.approx(0.0)
    assert pace.spare_s(99.0) == 0.0
    pace.made(10.1, 2_400)
    assert pace.spare_s(10.1) == pytest.approx(0.2)  # the lead is less
    pace.made(10.1, 24_000)
    assert pace.spare_s(10.1) == pace.lead_s(10.1) == pytest.approx(1.1)
    assert Pace(10.0).spare_s(10.0) == 0.0


@given(st.floats(0.0, 5.0), st.floats(0.0, 10.0), st.integers(0, 240_000), st.floats(0.0, 20.0))
def test_what_can_be_spared_is_never_negative_and_shrinks_by_the_clock(
    budget_s: float, made_s: float, samples: int, after_s: float
) -> None:
    pace = Pace(0.0, budget_s)
    pace.made(made_s, samples)
    early, late = pace.spare_s(made_s), pace.spare_s(made_s + after_s)
    assert early >= late >= 0.0
    assert late >= pace.lead_s(made_s + after_s)
    assert early - late <= after_s + 1e-6


# --- what the listener tells ----------------------------------------------------------------------


def test_who_begins_later_has_more_in_hand() -> None:
    pace = Pace(10.0)
    assert pace.heard(10.1, 0, playing=False)  # there is nothing yet, so he waits since 10
    assert pace.due_s(10.2) == 10.0
    pace.made(10.5, 24_000)
    assert pace.lead_s(11.0) == pytest.approx(0.5)  # as far as anybody knows
    assert pace.heard(11.0, 0, playing=False)  # he holds it back
    assert (pace.lead_s(11.0), pace.lead_s(11.3)) == (1.0, 1.0)
    assert pace.due_s(11.3) == pytest.approx(12.3)
    assert pace.heard(11.3, 0, playing=True)
    assert pace.lead_s(11.4) == pytest.approx(0.9)
    assert pace.made(11.5, 24_000) == 0.0
    assert pace.lead_s(11.5) == pytest.approx(1.8)


def test_who_pauses_has_what_he_had_until_he_goes_on() -> None:
    pace = Pace(0.0)
    pace.made(0.0, 72_000)
    pace.planned(24_000)
    assert pace.heard(1.0, 24_000, playing=False)
    assert pace.lead_s(50.0) == pace.spare_s(50.0) == pytest.approx(2.0)
    assert pace.next_due_s(50.0) == pytest.approx(53.0)
    assert pace.made(51.0, 24_000) == 0.0  # nobody waited for it
    assert pace.lead_s(60.0) == pytest.approx(3.0)
    assert pace.heard(60.0, 24_000, playing=True)
    assert pace.lead_s(61.0) == pytest.approx(2.0)


def test_who_has_heard_all_waits_since_then() -> None:
    pace = Pace(0.0)
    pace.made(0.0, 24_000)
    assert pace.heard(3.0, 24_000, playing=False)
    assert pace.due_s(4.0) == 1.0  # by the clock he waits since then …
    pace = Pace(0.0)
    pace.made(0.0, 24_000)
    pace.heard(0.5, 0, playing=False)
    assert pace.heard(2.0, 24_000, playing=True)
    assert pace.due_s(4.0) == 2.0  # … if he does not say that it was later
    assert pace.made(4.0, 24_000) == pytest.approx(2.0)


@pytest.mark.parametrize("sample", [-1, 24_001])
@pytest.mark.parametrize("playing", [True, False])
def test_nobody_has_heard_what_was_not_made(sample: int, playing: bool) -> None:
    pace = Pace(0.0)
    pace.made(0.0, 24_000)
    assert not pace.heard(0.5, sample, playing=playing)
    assert pace.lead_s(0.6) == pytest.approx(0.4)


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 10.0),
            st.one_of(
                st.integers(0, 48_000),  # made
                st.tuples(st.floats(0.0, 1.0), st.booleans()),  # told
            ),
        ),
        max_size=30,
    )
)
def test_the_lead_is_what_was_made_and_not_heard(
    steps: list[tuple[float, int | tuple[float, bool]]],
) -> None:
    """Against a listener who is told of: a position that moves by the clock, or stands."""
    pace, now, made = Pace(0.0), 0.0, 0
    at, moves = 0.0, True  # seconds of the stream; he cannot be behind its end
    for after, step in steps:
        now += after
        at = min(at + after * moves, made / SAMPLE_RATE)
        if isinstance(step, int):
            pace.made(now, step)
            made += step
        else:
            part, moves = step
            sample = round(part * made)
            at, moves = sample / SAMPLE_RATE, moves or sample == made
            assert pace.heard(now, sample, playing=step[1])
            assert pace.heard(now, sample, playing=step[1])  # twice is once
        assert pace.lead_s(now) == pytest.approx(made / SAMPLE_RATE - at, abs=1e-4)
        assert pace.due_s(now) <= now + pace.lead_s(now) + 1e-9
