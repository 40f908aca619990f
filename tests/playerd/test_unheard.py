"""What was not heard can be sent again, from any place, and nothing is lost or doubled."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.audio import SAMPLE_RATE, cut
from playerd.ring import Ring
from playerd.sinks.unheard import Unheard
from tests.playerd.sink_contract import noise

PCM = noise(500)
TOTAL = len(PCM) // 2


def taken(ring: Ring) -> bytes:
    out = bytearray(ring.readable_bytes)
    ring.read_into(memoryview(out))
    return bytes(out)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(0, 1500)),
            st.tuples(st.just("pour"), st.integers(0, 900)),
            st.tuples(st.just("lose"), st.integers(0, 3000)),
        ),
        max_size=30,
    )
)
def test_whatever_happens_what_comes_next_is_next(steps: list[tuple[str, int]]) -> None:
    unheard, ring, sent, most_heard = Unheard(), Ring(4000), 0, 0
    for what, n in steps:
        if what == "add":
            heard = max(sent - n, 0)
            most_heard = max(most_heard, heard)
            at = unheard.written_samples
            unheard.add(cut(PCM, at, min(at + n, TOTAL)), heard)
        elif what == "pour":
            unheard.pour(ring)
            out = bytearray(2 * n)
            given_bytes = ring.read_into(memoryview(out))
            assert out[:given_bytes] == cut(PCM, sent, sent + given_bytes // 2)
            sent += given_bytes // 2
        else:
            ring.discard()
            position = max(sent - n, 0)
            unheard.go_to(position, SAMPLE_RATE, 7)
            # what was said to be heard may be gone, and nothing else
            sent = unheard.position(7)
            assert position <= sent <= max(position, most_heard)
    rest = b""
    while unheard.waits or ring.readable_bytes:
        unheard.pour(ring)
        rest += taken(ring)
    assert rest == cut(PCM, sent, unheard.written_samples)


def test_what_was_given_up_is_not_sent() -> None:
    unheard, ring = Unheard(), Ring(100_000)
    unheard.add(PCM, 0)
    unheard.pour(ring)
    ring.discard()
    unheard.go_to(TOTAL, SAMPLE_RATE, 3000)
    assert not unheard.waits
    assert unheard.frames(TOTAL) == unheard.frames(0) == 3000
    unheard.add(noise(10, seed=2), TOTAL)
    unheard.pour(ring)
    assert taken(ring) == noise(10, seed=2)
    assert unheard.position(3010) == TOTAL + 10


@pytest.mark.parametrize("rate", [44_100, 48_000])
def test_at_another_rate_the_end_comes_when_it_is_said_to_be_one(rate: int) -> None:
    unheard, ring = Unheard(), Ring(1_000_000)
    unheard.go_to(0, rate, 0)
    unheard.add(PCM, 0)
    unheard.pour(ring)
    assert not unheard.waits
    assert ring.readable_bytes < rate
    unheard.end(ring)
    assert ring.readable_bytes == rate
    assert unheard.frames(TOTAL) == rate // 2
    ring.discard()
    unheard.go_to(TOTAL // 2, rate, 0)
    unheard.pour(ring)
    unheard.end(ring)
    assert ring.readable_bytes == rate // 2
