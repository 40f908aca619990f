"""The ring against a plain bytearray, and between two threads."""

from __future__ import annotations

import threading

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from playerd.ring import Ring


class RingMachine(RuleBasedStateMachine):
    """Any sequence of calls does what it would do to a bytearray."""

    @initialize(capacity=st.integers(1, 12))
    def make(self, capacity: int) -> None:
        self.ring = Ring(capacity)
        self.model = bytearray()
        self.overflow = self.underflow = 0

    @rule(data=st.binary(max_size=30))
    def write(self, data: bytes) -> None:
        room = self.ring.capacity_bytes - len(self.model)
        assert self.ring.write(data) == min(len(data), room)
        self.model += data[:room]
        self.overflow += max(len(data) - room, 0)

    @rule(size=st.integers(0, 30))
    def read(self, size: int) -> None:
        out = bytearray(b"\xaa" * size)
        given = self.ring.read_into(memoryview(out))
        assert given == min(size, len(self.model))
        assert out == self.model[:given] + b"\xaa" * (size - given)
        del self.model[:given]
        self.underflow += size - given

    @rule()
    def discard(self) -> None:
        assert self.ring.discard() == len(self.model)
        self.model.clear()

    @invariant()
    def counts(self) -> None:
        assert self.ring.readable_bytes == len(self.model)
        assert self.ring.writable_bytes == self.ring.capacity_bytes - len(self.model)
        assert self.ring.overflow_bytes == self.overflow
        assert self.ring.underflow_bytes == self.underflow


test_any_sequence_of_calls = RingMachine.TestCase


def test_a_ring_holds_something() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        Ring(0)


def test_two_threads_lose_and_change_nothing() -> None:
    """Bounded work: both sides go on until 100,000 bytes are through."""
    sent = bytes(n % 251 for n in range(100_000))
    ring = Ring(480)
    got = bytearray()

    def read() -> None:
        block = bytearray(97)
        while len(got) < len(sent):
            given = ring.read_into(memoryview(block))
            got.extend(block[:given])

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    rest = memoryview(sent)
    while rest and reader.is_alive():
        rest = rest[ring.write(rest[:131]) :]
    reader.join(timeout=30)
    assert not reader.is_alive()
    assert got == sent
