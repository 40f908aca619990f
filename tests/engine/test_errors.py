"""The error tree."""

from __future__ import annotations

import pytest

from engine import errors
from engine.errors import EngineError, InternalError, blame, from_code


def subclasses(root: type[EngineError]) -> set[type[EngineError]]:
    return {root}.union(*(subclasses(child) for child in root.__subclasses__()))


def test_every_code_gives_its_class_back() -> None:
    for kind in subclasses(EngineError) - {EngineError}:
        again = from_code(kind.code, "Why.", param="text", retry_after_ms=5)
        assert type(again) is kind
        assert (again.message, again.param, again.retry_after_ms) == ("Why.", "text", 5)


def test_codes_are_told_apart_and_told_in_the_docstring() -> None:
    kinds = subclasses(EngineError) - {EngineError}
    assert len({kind.code for kind in kinds}) == len(kinds)
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or "")
        assert kind.code in (errors.__doc__ or "")


def test_an_unknown_code_is_internal() -> None:
    assert type(from_code("from_the_future", "Why.")) is InternalError


def test_blame_tells_kind_and_place_but_not_the_text() -> None:
    with pytest.raises(ValueError, match="my secret") as caught:
        raise ValueError("my secret text")
    told = blame(caught.value)
    assert "ValueError" in told
    assert "test_errors.py:" in told
    assert "secret" not in told
