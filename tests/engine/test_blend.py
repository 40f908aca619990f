"""Blends: every notation, every way to be wrong, and shares that add up."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from engine import blend
from engine.blend import MAX_PARTS, WHOLE, Part
from engine.errors import EngineError, InvalidRequest
from engine.request import MAX_VOICE_CHARS


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("af_heart", "af_heart"),
        (" af_heart ", "af_heart"),
        ("af_heart:3", "af_heart"),
        ("af_heart(2)", "af_heart"),
        ("af_heart:60,am_michael:40", "af_heart:60,am_michael:40"),
        (" af_heart : 60 , am_michael : 40 ", "af_heart:60,am_michael:40"),
        ("af_heart(2)+am_michael(1)", "af_heart:66.67,am_michael:33.33"),
        ("af_heart ( 3 ) + am_michael ( 1 )", "af_heart:75,am_michael:25"),
        ("af_heart*0.6+bf_emma*0.4", "af_heart:60,bf_emma:40"),
        ("0.6*af_heart + 0.4 * bf_emma", "af_heart:60,bf_emma:40"),
        ("af_heart:1e-3,bf_emma:3e-3", "bf_emma:75,af_heart:25"),
        ("a:.5,b:1.5", "b:75,a:25"),
        ("a:+1,b:1", "a:50,b:50"),
        ("a:1+b(1),2*c", "c:50,a:25,b:25"),
        ("af_heart+am_michael", "af_heart:50,am_michael:50"),
        ("am_michael,af_heart", "am_michael:50,af_heart:50"),
        ("a+b+c", "a:33.34,b:33.33,c:33.33"),
        ("a:1,b:1000,c:1000", "b:49.98,c:49.97,a:0.05"),
        ("a(2)-b(1)", "a:200-b:100"),
        ("a+b-c", "a:100,b:100-c:100"),
        ("b:10 - a:1", "b:111.11-a:11.11"),
        ("a:1,b:9999e-1", "b:99.9,a:0.1"),
    ],
)
def test_every_notation_has_one_name(text: str, name: str) -> None:
    assert blend.parse(text).name == name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", [("a", WHOLE)]),
        ("a(1)+b(3)", [("b", 7500), ("a", 2500)]),
        ("b+a", [("b", 5000), ("a", 5000)]),
        ("a(2)-b(1)", [("a", 20_000), ("b", -10_000)]),
    ],
)
def test_the_heaviest_comes_first_and_equals_stay(text: str, parts: list[tuple[str, int]]) -> None:
    made = blend.parse(text)
    assert list(made.parts) == parts
    assert made.heaviest == parts[0][0]


def test_a_voice_alone_is_the_whole() -> None:
    assert blend.of_voice("any name").parts == (Part("any name", WHOLE),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty part"),
        ("  ", "empty part"),
        ("a,", "empty part"),
        (",a", "empty part"),
        ("a++b", "empty part"),
        ("a, ,b", "empty part"),
        ("-a+b", "empty part"),
        ("a b", "'a b' cannot be read"),
        ("a:", "cannot be read"),
        ("a(1", "cannot be read"),
        ("a(1)2", "cannot be read"),
        ("a()", "cannot be read"),
        ("a:1:2", "cannot be read"),
        ("60:a", "cannot be read"),
        ("a/b", "cannot be read"),
        ("a:60%,b:40%", "cannot be read"),
        ("2*a:3", "'a' has two weights"),
        ("a:one,b:2", "weight 'one' of 'a' is not a number"),
        ("a:1.2.3", "not a number"),
        ("a:0,b:1", "weight of 'a' is 0; it must be above 0 and at most 1000"),
        ("a:-1,b:1", "weight of 'a' is -1"),
        ("a(nan)+b(1)", "weight of 'a' is nan"),
        ("a:inf", "weight of 'a' is inf"),
        ("a:1e999", "weight of 'a' is inf"),
        ("a:1001,b:1", "weight of 'a' is 1001"),
        ("a:1,b:2,a:3", "'a' comes twice"),
        ("a:60,b", "all voices of the blend a weight, or none"),
        ("a:0.01,b:1000", "'a' is less than 0.01 % of the blend"),
        ("a-b", "takes away more than half"),
        ("a(1)-b(0.6)", "takes away more than half"),
        ("a-b-c", "takes away more than half"),
        ("+".join("abcdefghi"), "a blend of 9; it may have 8 parts"),
        ("a" * 201, "has 201 characters; the limit is 200"),
        (f"{'a' * 98}+{'b' * 98}", "has 203 characters"),
    ],
)
def test_every_mistake_is_one_sentence(text: str, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        blend.parse(text)
    assert says in caught.value.message
    assert "\n" not in caught.value.message
    assert (caught.value.param, caught.value.code) == ("voice", "invalid_value")


NAMES = st.from_regex(r"[a-z]{2}_[a-z]{1,12}", fullmatch=True)
WEIGHTS = st.floats(0.01, 1000) | st.integers(1, 1000)
#: any text, or what blends are made of in any order
TEXTS = st.text() | st.lists(
    st.sampled_from(
        ["a", "b", "1", "2.5", "-", "+", ",", "(", ")", ":", "*", " ", "nan", "é", "\0"]
    ),
    max_size=24,
).map("".join)


@given(st.dictionaries(NAMES, WEIGHTS, min_size=1, max_size=MAX_PARTS), st.data())
def test_shares_are_the_weights_and_add_up(weights: dict[str, float], data: st.DataObject) -> None:
    total = sum(weights.values())
    assume(min(weights.values()) / total * WHOLE >= 1)
    form = data.draw(st.sampled_from(["{}:{}", "{}({})", "{}*{}", " {} : {} "]))
    join = data.draw(st.sampled_from([",", "+", " + "]))
    text = join.join(form.format(name, weight) for name, weight in weights.items())
    assume(len(text) <= MAX_VOICE_CHARS)
    made = blend.parse(text)
    shares = dict(made.parts)
    assert sum(shares.values()) == WHOLE
    assert all(abs(shares[name] / WHOLE - w / total) < 1 / WHOLE for name, w in weights.items())
    assert [share for _, share in made.parts] == sorted(shares.values(), reverse=True)


@example("a:1,b:1,c:1-d:.5-e:.5-f:.5")
@given(TEXTS)
def test_any_text_is_a_blend_or_one_of_our_errors(text: str) -> None:
    try:
        made = blend.parse(text)
    except EngineError as error:
        assert error.param == "voice"
        assert len(error.message) < 200
        return
    assert sum(share for _, share in made.parts) == WHOLE
    assert 1 <= len(made.parts) <= MAX_PARTS
    assert len(made.name) <= MAX_VOICE_CHARS
    assert blend.parse(made.name) == made


@given(
    st.dictionaries(
        NAMES, st.tuples(st.sampled_from(",+-"), WEIGHTS), min_size=2, max_size=MAX_PARTS
    )
)
def test_what_is_written_is_read_again(parts: dict[str, tuple[str, float]]) -> None:
    text = "".join(f"{sign}{name}:{weight}" for name, (sign, weight) in parts.items())
    try:
        made = blend.parse(text.lstrip(",+-"))
    except InvalidRequest:
        assume(False)
    assert blend.parse(made.name) == made
