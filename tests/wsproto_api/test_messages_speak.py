"""What came to `speak` later: `marks` and `priority`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.wsproto_api.test_messages import on_the_wire, refusal, vector
from wsproto_api import messages
from wsproto_api.messages import Decoded, Vocabulary


@pytest.mark.parametrize("vocabulary", [messages.ENGINE_CLIENT, messages.PLAYER_CLIENT])
def test_a_request_may_ask_for_marks_and_for_one_of_two_priorities(vocabulary: Vocabulary) -> None:
    def decoded(**fields: Any) -> Any:
        text = on_the_wire({"type": "speak", "text": "Hi.", "id": "x", **fields})
        return messages.decode(text, vocabulary).message

    plain = decoded()
    assert (plain.marks, plain.priority) == (False, "live")
    assert decoded(marks=False, priority="live") == plain
    assert (decoded(marks=True).marks, decoded(priority="batch").priority) == (True, "batch")
    wrong = {
        "priority": ["urgent", "Batch", "", 1, None, []],
        "marks": ["true", 1, 0, None, []],
    }
    for field, value in [(name, value) for name, values in wrong.items() for value in values]:
        raw = {"type": "speak", "text": "SECRET", "id": "x", field: value}
        error = refusal(on_the_wire(raw), vocabulary)
        assert (error.code, error.param, error.reply_to) == ("bad_message", field, "x")
        assert field in error.message
        assert "SECRET" not in error.message


def test_a_request_without_the_new_fields_is_what_it_was() -> None:
    """A client that does not know of them says nothing of them, and neither does ours."""
    assert messages.encode(messages.Speak(text="Hi.")) == '{"type":"speak","text":"Hi."}'
    decoded = messages.decode(
        '{"type":"speak","text":"Hi.","marks":true,"priorities":"batch"}', messages.ENGINE_CLIENT
    )
    assert decoded == Decoded(messages.Speak(text="Hi.", marks=True), ("priorities",))


@pytest.mark.parametrize("gone", ["char_start", "char_end", "sample", "samples"])
def test_a_word_has_all_of_its_numbers(gone: str) -> None:
    raw = vector("ENGINE_SERVER", messages.SegmentMarks, "full")
    raw["words"] = [{k: v for k, v in word.items() if k != gone} for word in raw["words"]]
    error = refusal(on_the_wire(raw), messages.ENGINE_SERVER)
    assert error.code == "bad_message"
    assert error.param is not None
    assert error.param.startswith("words")
