"""The page about the protocol names everything that is on the wire."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine import errors
from wsproto_api import messages, peer, security, session

PAGE = (Path(__file__).parent.parent.parent / "docs" / "protocol.md").read_text()
VOCABULARIES = {
    "engine, from the client": messages.ENGINE_CLIENT,
    "engine, to the client": messages.ENGINE_SERVER,
    "player, from the client": messages.PLAYER_CLIENT,
    "player, to the client": messages.PLAYER_SERVER,
}
#: said for all messages, or of all answers
COMMON = {"id", "reply_to"}


def section(name: str) -> list[str]:
    """Lines of the table that tells of this vocabulary."""
    who, where = name.split(", ")
    head = f"## {who.capitalize()}" if who == "player" else f"## {who.capitalize()}: {where}"
    lines = PAGE.split(f"{head}\n")[1].split("\n## ")[0].splitlines()
    if who == "engine":
        return lines
    first = next(n for n, line in enumerate(lines) if line.startswith("| to the client"))
    return lines[:first] if where == "from the client" else lines[first:]


def rows(tag: str, name: str) -> list[str]:
    """Lines of its table that begin with this type."""
    return [
        line
        for line in section(name)
        if line.startswith("| `") and f"`{tag}`" in line.split("|")[1]
    ]


@pytest.mark.parametrize(
    ("name", "tag", "struct"),
    [
        pytest.param(name, tag, struct, id=f"{name}: {tag}")
        for name, vocabulary in VOCABULARIES.items()
        for tag, struct in vocabulary.items()
    ],
)
def test_every_message_has_a_row_with_all_its_fields(name: str, tag: str, struct: type) -> None:
    fields = set(getattr(struct, "__struct_fields__")) - COMMON  # noqa: B009 - mypy knows no structs here
    found = rows(tag, name)
    assert found, f"{tag} has no row"
    text = " ".join(found)
    if "the same without text" in text or "without text" in text:
        text += " ".join(rows("speak", name))
    if "as above" in text:  # what the engine says too
        text += " ".join(rows(tag, "engine, to the client"))
    if tag == "auth":
        text += PAGE.split("## Who may connect")[1]
    missing = {field for field in fields if not re.search(rf"\b{field}\b", text)}
    assert not missing


@pytest.mark.parametrize("field", messages.Limits.__struct_fields__)
def test_every_limit_is_told(field: str) -> None:
    assert f"`{field}`" in PAGE


def codes() -> set[str]:
    served = {
        code for code, error in errors.BY_CODE.items() if not issubclass(error, errors.SetupError)
    }
    return served | {"bad_json", "bad_message"}


@pytest.mark.parametrize("code", sorted(codes()))
def test_every_error_code_is_told(code: str) -> None:
    assert f"`{code}`" in PAGE


@pytest.mark.parametrize(
    "code", [security.UNAUTHORIZED_CLOSE, security.AUTH_TIMEOUT_CLOSE, 1001, 1008, 1009, 1011, 1013]
)
def test_every_close_code_is_told(code: int) -> None:
    assert str(code) in PAGE


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"{peer.ANSWERS} |" in PAGE
    assert f"{messages.MAX_MESSAGE_BYTES:,} |" in PAGE
    assert peer.AUTH_TIMEOUT_S == 2
    assert "within 2 seconds" in PAGE


def test_the_rules_stand_where_the_page_says() -> None:
    assert session.__doc__
    assert "phase     who     message" in session.__doc__
