"""What is held against a provider in whose use engines have ended, and what is not."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.model import ends
from engine.model.ends import BUSY, WITHIN_S, End, Mark
from tests.engine.model.places import DAY_S

MARKS = st.builds(
    Mark,
    decided_s=st.floats(0, 1e10),
    began_s=st.floats(0, 1e10),
    pid=st.integers(1, 2**22),
    places=st.lists(st.sampled_from(["coreml-all", "cuda", "é"]), max_size=2).map(tuple),
)
NOTES = st.sampled_from(["", "Aborted", "Segmentation fault", "Floating point exception"])
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


def left(mark: Mark, *, busy: bool, fault: str) -> bytes:
    """The file of an engine that ended so."""
    content = ends.encoded(mark)
    if busy:
        content = BUSY + content[1:]
    if fault:
        content += f"Fatal Python error: {fault}\n\nThread 0x1 (most recent call first):\n".encode()
    return content


@given(MARKS, st.booleans(), NOTES)
def test_a_mark_tells_how_its_engine_ended(mark: Mark, busy: bool, fault: str) -> None:
    assert ends.decoded(left(mark, busy=busy, fault=fault)) == End(mark, busy, fault)


@given(MARKS, NOTES, st.integers(0, 400))
def test_a_mark_that_was_cut_off_is_none_or_says_less(mark: Mark, fault: str, size: int) -> None:
    whole = left(mark, busy=True, fault=fault)
    end = ends.decoded(whole[:size])
    line = len(ends.encoded(mark)) - 1
    assert (end is None) == (size < line)
    assert end is None or (end.mark == mark and fault.startswith(end.fault))


@given(st.binary(max_size=200) | st.binary(max_size=100).map(BUSY.__add__))
def test_what_is_no_mark_is_none(content: bytes) -> None:
    assert ends.decoded(content) is None


@given(JSON)
def test_other_types_are_no_mark(value: object) -> None:
    assert ends.decoded(BUSY + msgspec.json.encode(value) + b"\n") is None


@given(MARKS, st.sampled_from(Mark.__struct_fields__))
def test_a_mark_of_another_version_is_none_or_understood(mark: Mark, name: str) -> None:
    fields = msgspec.to_builtins(mark)
    more = {**fields, "later": [1]}
    assert ends.decoded(BUSY + msgspec.json.encode(more)) == End(mark, True, "")
    del fields[name]
    assert ends.decoded(BUSY + msgspec.json.encode(fields)) is None
    fields[name] = {"a": 1}
    assert ends.decoded(BUSY + msgspec.json.encode(fields)) is None


@given(MARKS, st.binary(max_size=100))
def test_nothing_is_told_of_what_else_is_behind_a_mark(mark: Mark, behind: bytes) -> None:
    end = ends.decoded(ends.encoded(mark) + behind)
    assert end == End(mark, False, "")


PLACES = ("coreml-all",)


def an_end(
    began_s: float = 0.0,
    *,
    busy: bool = True,
    fault: str = "",
    decided_s: float = 7.0,
    places: tuple[str, ...] = PLACES,
) -> End:
    return End(Mark(decided_s, began_s, 1, places), busy, fault)


def judged(*found: End, places: tuple[str, ...] = PLACES) -> str:
    return ends.verdict(found, 7.0, places, "monthly")


def test_one_fault_is_enough() -> None:
    told = judged(an_end(busy=False, fault="Segmentation fault"))
    assert told.startswith(
        "The engine was ended by a fault (segmentation fault) while it used coreml-all, so the "
        "processor is used until"
    )
    assert "provider_retest: monthly" in told
    assert "python -m bench providers" in told


@pytest.mark.parametrize(
    ("apart_s", "enough"), [(0.0, True), (WITHIN_S, True), (WITHIN_S + 1, False)]
)
def test_of_ends_in_a_call_it_takes_two_within_a_day(apart_s: float, enough: bool) -> None:
    told = judged(an_end(5.0), an_end(5.0 + apart_s))
    assert told.startswith("The engine ended twice within a day") is enough
    assert bool(told) is enough


def test_three_that_are_far_apart_are_none_too_many() -> None:
    assert not judged(*(an_end(2 * number * DAY_S) for number in range(3)))
    assert judged(*(an_end(number * DAY_S / 2 + (number == 0)) for number in (9, 0, 8)))


@pytest.mark.parametrize(
    "end",
    [
        an_end(busy=False),  # killed while nobody listened
        an_end(fault="Aborted", decided_s=6.0),  # before the last test
        an_end(fault="Aborted", places=("cuda",)),  # which is not used any more
    ],
)
def test_what_is_nobodys_fault_is_not_held_against_anybody(end: End) -> None:
    assert not judged(*[end] * 5)


def test_two_of_different_places_are_one_each_for_who_uses_both() -> None:
    found = [an_end(), an_end(places=("cuda", "coreml-all"))]
    assert "call to coreml-all and cuda," in judged(*found)
    assert not judged(*found, places=("cuda",))


ENDS = st.builds(
    an_end,
    st.floats(0, 5 * DAY_S),
    busy=st.booleans(),
    fault=NOTES,
    decided_s=st.sampled_from([6.0, 7.0]),
    places=st.sampled_from([PLACES, ("cuda",)]),
)


@given(st.lists(ENDS, max_size=6), ENDS, st.randoms(use_true_random=False))
def test_more_ends_excuse_nothing_and_their_order_does_not_matter(
    found: list[End], more: End, chance: random.Random
) -> None:
    before = bool(judged(*found))
    shuffled = chance.sample(found, len(found))
    assert bool(judged(*shuffled)) is before
    assert bool(judged(*found, more)) >= before
    kept = [end for end in found if ends.counts(end, 7.0)]
    assert bool(judged(*kept)) is before
    assert not judged(*found, places=())
