"""The rules of the queue, as a table: what was done, and what is there then."""

from __future__ import annotations

import pytest

from engine.audio import silence
from engine.errors import Overloaded
from engine.request import Frame, SpeechRequest
from playerd import items as module
from playerd.items import MAX_HELD_SAMPLES, Added, Item, Items, Mode, Stage

REQUEST = SpeechRequest(text="Hello.")


class Table:
    """Items by the names `1`, `2` …; `do` understands words such as `queue` and `accept 2`."""

    def __init__(self) -> None:
        self.items = Items()
        self.by_number: dict[int, Item] = {}
        self.ended: list[str] = []

    def do(self, what: str) -> None:
        verb, _, name = what.partition(" ")
        match verb:
            case "replace" | "queue" | "toggle":
                self.add(verb)
            case "clear":
                self.end(self.items.clear())
            case "accept":
                self.end(self.items.accept(self.item(name)))
            case "fed":
                self.items.fed(self.item(name))
            case "written":
                self.items.written(self.item(name))
            case "remove":
                self.items.remove(self.item(name))
            case _:
                raise AssertionError(what)
        while (item := self.items.next_to_open()) is not None:
            item.stage = Stage.OPENING

    def add(self, mode: Mode) -> Added:
        added = self.items.add(REQUEST, mode)
        self.end(added.stopped)
        if added.item is not None:
            self.by_number[added.item.number] = added.item
        return added

    def end(self, ended: tuple[Item, ...]) -> None:
        self.ended += [str(item.number) for item in ended]

    def item(self, name: str) -> Item:
        return self.by_number[int(name)]

    @property
    def there(self) -> str:
        """Such as `1:FEEDING 2:WAITING`."""
        present = [item for item in self.by_number.values() if item in self.items]
        assert len(present) == len(self.items)
        return " ".join(f"{item.number}:{item.stage.name}" for item in present)


@pytest.mark.parametrize(
    ("done", "there", "ended"),
    [
        # one item, from beginning to end
        ("queue", "1:OPENING", ""),
        ("queue, accept 1", "1:FEEDING", ""),
        ("queue, accept 1, fed 1, written 1", "1:LEAVING", ""),
        ("queue, accept 1, fed 1, written 1, remove 1", "", ""),
        # one stream at a time; the next when the one before it is fed, or has failed
        ("queue, queue, queue", "1:OPENING 2:WAITING 3:WAITING", ""),
        ("queue, queue, queue, accept 1", "1:FEEDING 2:WAITING 3:WAITING", ""),
        ("queue, queue, queue, accept 1, fed 1", "1:FED 2:OPENING 3:WAITING", ""),
        ("queue, queue, remove 1", "2:OPENING", ""),
        # replacing: asked for at once, and effective when accepted
        ("queue, queue, accept 1, replace", "1:FEEDING 2:WAITING 3:OPENING", ""),
        ("queue, queue, accept 1, replace, accept 3", "3:FEEDING", "1 2"),
        ("queue, queue, accept 1, replace, remove 3", "1:FEEDING 2:WAITING", ""),
        ("queue, accept 1, fed 1, written 1, replace, accept 2", "2:FEEDING", "1"),
        # two that replace: the later one wins, whichever is accepted first
        ("replace, replace, accept 2", "2:FEEDING", "1"),
        ("replace, replace, accept 1, accept 2", "2:FEEDING", "1"),
        # what was queued behind one that replaces stays behind it
        ("queue, accept 1, replace, queue, accept 2", "2:FEEDING 3:WAITING", "1"),
        # toggle: speaks if nothing is there, else ends all there is
        ("toggle", "1:OPENING", ""),
        ("toggle, toggle", "", "1"),
        ("queue, queue, accept 1, toggle", "", "1 2"),
        ("toggle, toggle, toggle", "2:OPENING", "1"),
        # stop
        ("clear", "", ""),
        ("queue, queue, accept 1, clear", "", "1 2"),
    ],
)
def test_the_table(done: str, there: str, ended: str) -> None:
    table = Table()
    for what in done.split(", "):
        table.do(what)
    assert table.there == there
    assert " ".join(table.ended) == ended


@pytest.mark.parametrize(
    ("done", "current", "to_write", "waiting"),
    [
        ("clear", None, None, 0),
        ("queue", 1, None, 0),
        ("queue, accept 1", 1, 1, 0),
        ("queue, queue, accept 1, fed 1", 1, 1, 1),
        ("queue, queue, accept 1, fed 1, written 1", 1, None, 1),
        ("queue, queue, accept 1, fed 1, written 1, accept 2", 1, 2, 1),
        ("queue, queue, accept 1, fed 1, written 1, remove 1", 2, None, 0),
    ],
)
def test_whose_turn_it_is(
    done: str, current: int | None, to_write: int | None, waiting: int
) -> None:
    table = Table()
    for what in done.split(", "):
        table.do(what)
    items = table.items
    assert (items.current.number if items.current else None) == current
    assert (items.to_write.number if items.to_write else None) == to_write
    assert items.waiting == waiting


def test_the_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ITEMS", 2)
    table = Table()
    table.do("queue")
    table.do("queue")
    with pytest.raises(Overloaded, match="2 texts are waiting"):
        table.add("queue")
    table.do("toggle")  # which ends them
    assert table.there == ""


def test_nothing_is_asked_for_while_much_waits_to_be_played() -> None:
    table = Table()
    for what in ("queue", "queue", "accept 1"):
        table.do(what)
    playout = table.item("1").playout
    playout.put(Frame(seq=0, sample=0, pcm=silence(MAX_HELD_SAMPLES)), 0.0)
    table.do("fed 1")
    assert table.there == "1:FED 2:WAITING"
    playout.pull(1, 0.0)
    assert table.items.next_to_open() is table.item("2")


@pytest.mark.parametrize(
    ("first", "position", "played", "heard"),
    [(None, 0, 500, 0), (100, 50, 100, 0), (100, 50, 120, 20), (100, 50, 500, 50), (100, 50, 0, 0)],
)
def test_what_was_heard_of_an_item(
    first: int | None, position: int, played: int, heard: int
) -> None:
    item = Item(1, REQUEST, replaces=True, first_sample=first)
    item.playout.put(Frame(seq=0, sample=0, pcm=silence(position)), 0.0)
    item.playout.end()
    item.playout.pull(position, 0.0)
    assert item.heard_samples(played) == heard
