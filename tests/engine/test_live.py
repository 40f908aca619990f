"""Text on its way in: order, pieces, limits, and who waits for it."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import EngineError, InvalidRequest, Overloaded, TextTooLong
from engine.live import PIECE_CHARS, Flush, TextFeed


def new(waiting: int = 10_000, total: int = 100_000) -> TextFeed:
    return TextFeed(waiting_chars=waiting, total_chars=total)


async def rest(feed: TextFeed) -> list[str | Flush]:
    """What comes up to the end."""
    found: list[str | Flush] = []
    while (item := await feed.receive()) is not None:
        found.append(item)
    return found


async def test_a_complete_text_comes_in_pieces() -> None:
    text = "".join(str(n % 10) for n in range(600))
    feed = TextFeed.of(text)
    assert feed.ended
    assert feed.chars == 600
    pieces = await rest(feed)
    assert [len(piece) for piece in pieces if isinstance(piece, str)] == [256, 256, 88]
    assert "".join(piece for piece in pieces if isinstance(piece, str)) == text
    assert await feed.receive() is None


async def test_small_pieces_that_wait_are_taken_together() -> None:
    feed = new()
    for piece in ("He", "l", "lo"):
        feed.append(piece)
    feed.flush("now")
    feed.append(" you")
    feed.end()
    assert await rest(feed) == ["Hello", Flush("now"), " you"]
    assert feed.chars == 9


async def test_whoever_receives_waits_for_more(autojump_clock: trio.testing.MockClock) -> None:
    feed = new()
    found: list[tuple[float, str | Flush | None]] = []

    async def take() -> None:
        for _ in range(3):
            item = await feed.receive()
            found.append((trio.current_time(), item))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(take)
        await trio.sleep(1)
        feed.append("a")
        await trio.sleep(1)
        feed.flush(None)
        await trio.sleep(1)
        feed.end()
    began = found[0][0] - 1
    assert [(at - began, item) for at, item in found] == [(1, "a"), (2, Flush(None)), (3, None)]


async def test_whoever_is_cancelled_has_taken_nothing() -> None:
    feed = new()
    with trio.move_on_after(0):
        await feed.receive()
    feed.append("a")
    with trio.CancelScope() as scope:
        scope.cancel()
        await feed.receive()
    feed.end()
    assert await rest(feed) == ["a"]


def test_after_the_end_nothing_is_taken() -> None:
    feed = new()
    feed.end()
    feed.end()
    with pytest.raises(InvalidRequest):
        feed.append("a")
    with pytest.raises(InvalidRequest):
        feed.flush(None)
    assert feed.chars == 0


async def test_too_much_text_waits() -> None:
    feed = new(waiting=10)
    feed.append("1234567890")
    with pytest.raises(Overloaded) as refused:
        feed.append("1")
    assert refused.value.retry_after_ms
    assert await feed.receive() == "1234567890"
    feed.append("1")
    with pytest.raises(TextTooLong):
        feed.append("12345678901")
    feed.end()
    assert await rest(feed) == ["1"]


def test_too_much_text_in_all() -> None:
    feed = new(total=10)
    feed.append("123456789")
    with pytest.raises(TextTooLong):
        feed.append("01")
    feed.append("0")
    assert feed.chars == 10


def test_flushes_cannot_fill_the_memory() -> None:
    feed = new()
    with pytest.raises(Overloaded):
        for _ in range(10_000):
            feed.flush(None)


@given(st.lists(st.one_of(st.text(max_size=700), st.none()), max_size=20), st.booleans())
async def test_nothing_is_lost_and_the_order_kept(items: list[str | None], between: bool) -> None:
    feed = new(waiting=100_000)
    found: list[str | Flush] = []
    for n, item in enumerate(items):
        if item is None:
            feed.flush(str(n))
        else:
            feed.append(item)
        if between and item:
            taken = await feed.receive()
            assert taken is not None
            found.append(taken)
    feed.end()
    found += await rest(feed)
    assert all(len(piece) <= PIECE_CHARS for piece in found if isinstance(piece, str))

    def joined(parts: list[str | Flush]) -> list[str]:
        made = [""]
        for part in parts:
            if isinstance(part, Flush):
                made += [f"<{part.flush_id}>", ""]
            else:
                made[-1] += part
        return made

    put = [Flush(str(n)) if item is None else item for n, item in enumerate(items)]
    assert joined(found) == joined(put)
    assert feed.chars == sum(len(item) for item in items if item)


def test_every_refusal_is_a_sentence() -> None:
    feed = new(waiting=1, total=2)
    feed.append("a")
    for text in ("b", "bb", "bbb"):
        with pytest.raises(EngineError) as refused:
            feed.append(text)
        assert refused.value.message.endswith(".")
