"""What people type for places, volumes and speeds: it means what it says, or is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from engine.audio import SAMPLE_RATE
from engine.errors import InvalidRequest
from engine.request import MAX_SPEED, MIN_SPEED
from playerd import amounts
from wsproto_api import messages
from wsproto_api.messages import PlayerSeek

#: what is nearly right, and anything else
typed = (
    st.text("+-0123456789.:%e_ ", max_size=12)
    | st.from_regex(r"[+-]?[0-9]{0,12}(:[0-9]{2}){0,3}(\.[0-9]*)?%?", fullmatch=True)
    | st.text(max_size=20)
    | st.floats().map(str)
    | st.integers().map(str)
)


@pytest.mark.parametrize(
    ("text", "seek"),
    [
        ("30", PlayerSeek(sample=30 * SAMPLE_RATE)),
        ("0", PlayerSeek(sample=0)),
        (" 1.5 ", PlayerSeek(sample=36_000)),
        ("1:30", PlayerSeek(sample=90 * SAMPLE_RATE)),
        ("90:00", PlayerSeek(sample=5400 * SAMPLE_RATE)),
        ("1:02:03.5", PlayerSeek(sample=round(3723.5 * SAMPLE_RATE))),
        ("50%", PlayerSeek(fraction=0.5)),
        ("100%", PlayerSeek(fraction=1.0)),
        ("+5", PlayerSeek(by_ms=5000)),
        ("-5", PlayerSeek(by_ms=-5000)),
        ("-.5", PlayerSeek(by_ms=-500)),
        ("+1:30", PlayerSeek(by_ms=90_000)),
    ],
)
def test_a_place(text: str, seek: PlayerSeek) -> None:
    assert amounts.place(text) == seek


@pytest.mark.parametrize(
    "text",
    [
        "", "+", ".", "%", "half", "1:3", "1:60", "1:02:3", ":30", "1:", "1:90:00", "5s", "101%",
        "+5%", "--5", "+-5", "1e3", "1_0", "nan", "inf", "٣", "²", "360001", "5 5", "5\n5", "1,5",
    ],
)  # fmt: skip
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(InvalidRequest):
        amounts.place(text)


@pytest.mark.parametrize(
    ("text", "now", "then"),
    [
        ("0.5", 0.2, 0.5),
        ("50%", 0.2, 0.5),
        ("0", 0.2, 0.0),
        ("100%", 0.2, 1.0),
        ("+10%", 0.5, 0.6),
        ("-10%", 0.5, 0.4),
        ("+0.1", 0.5, 0.6),
        ("-10%", 0.05, 0.0),
        ("+200%", 0.5, 1.0),
    ],
)
def test_a_volume(text: str, now: float, then: float) -> None:
    assert amounts.volume(text).of(now) == then


@pytest.mark.parametrize(
    ("text", "now", "then"),
    [
        ("1.25", 2.0, 1.25),
        ("+0.1", 1.0, 1.1),
        ("-0.1", 1.0, 0.9),
        ("-3", 1.0, MIN_SPEED),
        ("+9", 1.0, MAX_SPEED),
    ],
)
def test_a_speed(text: str, now: float, then: float) -> None:
    assert amounts.speed(text).of(now) == then


@pytest.mark.parametrize("steps", [1, 3, 7])
@pytest.mark.parametrize("parse", [amounts.volume, amounts.speed])
def test_as_many_steps_back_lead_to_the_beginning(
    parse: Callable[[str], amounts.Change], steps: int
) -> None:
    value = 1.0 if parse is amounts.speed else 0.9
    start = value
    for step in ["-0.1"] * steps + ["+0.1"] * steps:
        value = parse(step).of(value)
    assert value == start


@given(typed)
@example("360000")
@example("-360000")
@example("86400")
@example("-86400")
@example("-86400.001")
@example("999:59:59")
def test_whatever_is_typed_is_a_place_or_refused(text: str) -> None:
    try:
        seek = amounts.place(text)
    except InvalidRequest as error:
        assert error.message.endswith(".")
        return
    # as the player will read it, within its limits
    assert messages.decode(messages.encode(seek), messages.PLAYER_CLIENT).message == seek
    assert [seek.sample, seek.fraction, seek.by_ms].count(None) == 2
    assert math.isfinite(seek.by_ms or 0)


@given(typed, st.floats(0, 1))
@example("-0", 0.0)
def test_whatever_is_typed_is_a_volume_or_refused(text: str, now: float) -> None:
    try:
        then = amounts.volume(text).of(now)
    except InvalidRequest as error:
        assert error.message.endswith(".")
        return
    assert 0 <= then <= 1
    message = messages.PlayerVolume(value=then)
    assert messages.decode(messages.encode(message), messages.PLAYER_CLIENT).message == message


@given(typed, st.floats(MIN_SPEED, MAX_SPEED))
def test_whatever_is_typed_is_a_speed_or_refused(text: str, now: float) -> None:
    try:
        then = amounts.speed(text).of(now)
    except InvalidRequest as error:
        assert error.message.endswith(".")
        return
    assert MIN_SPEED <= then <= MAX_SPEED
    assert msgspec.json.decode(msgspec.json.encode(then)) == then
