"""Voice packs, their blends, and what is told of them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import AssetError, ConfigError, EngineError, InvalidRequest, UnknownVoice
from engine.model import manifest
from engine.request import VoiceInfo
from engine.text import languages
from engine.voices import ROWS, STYLE, Voices

NAMES = ("af_one", "bf_three", "jm_two", "of-odd name")


def made(folder: Path, **speeds: float) -> Voices:
    """Of row n in `af_one` all values are n; in the others they are 1, 2 and 3 higher."""
    rows = np.repeat(np.arange(ROWS, dtype=np.float32), STYLE)
    for higher, name in enumerate(NAMES):
        (folder / f"{name}.bin").write_bytes((rows + np.float32(higher)).tobytes())
    return Voices(folder, speeds)


@pytest.fixture
def voices(tmp_path: Path) -> Voices:
    return made(tmp_path, af_one=1.25, bf_three=0.8)


@pytest.fixture(scope="session")
def any_voices(tmp_path_factory: pytest.TempPathFactory) -> Voices:
    return made(tmp_path_factory.mktemp("voices"))


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> dict[str, VoiceInfo]:
    """Of every published voice; the packs are empty."""
    folder = tmp_path_factory.mktemp("published")
    for name in manifest.load().voices:
        with (folder / f"{name}.bin").open("wb") as file:
            os.truncate(file.fileno(), ROWS * STYLE * 4)
    return {info.id: info for info in Voices(folder, {"bf_emma": 1.1}).infos()}


# --- styles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tokens", "row"), [(1, 0), (2, 1), (509, 508), (510, 509), (511, 509)])
def test_n_tokens_take_row_n_minus_one(voices: Voices, tokens: int, row: int) -> None:
    style = voices.style("af_one", tokens)
    assert style.shape == (1, STYLE)
    assert (style == row).all()


def test_packs_in_memory_have_a_bound_and_can_be_dropped(voices: Voices) -> None:
    bound = voices.cache.bound
    for weight in range(1, bound + 5):
        name = voices.resolve(f"af_one({weight})+bf_three({1000 - weight})")
        style = voices.style(name, 7)
        assert 0 < voices.cache.used <= bound
    assert voices.cache.used == bound
    voices.forget()
    assert voices.cache.used == 0
    assert (voices.style(name, 7) == style).all()


@pytest.mark.parametrize(
    ("text", "higher"),
    [
        ("af_one+bf_three", 0.5),
        ("af_one:25,bf_three:75", 0.75),
        ("af_one+jm_two", 1.0),  # of two languages
        ("af_one(2)-jm_two(1)", -2.0),
        ("bf_three(1)+jm_two(3)", 1.75),
    ],
)
def test_the_style_of_a_blend_is_the_weighted_mean(
    voices: Voices, text: str, higher: float
) -> None:
    style = voices.style(voices.resolve(text), 101)
    assert style.dtype == np.float32
    assert style == pytest.approx(np.full((1, STYLE), 100 + higher))


def test_packs_are_read_once_and_blends_are_kept(voices: Voices, tmp_path: Path) -> None:
    before = [voices.style(name, 9) for name in ("af_one", "af_one+bf_three")]
    for name in NAMES:
        (tmp_path / f"{name}.bin").unlink()
    after = [voices.style(name, 9) for name in ("af_one", "af_one+bf_three")]
    assert np.array_equal(before, after)


def test_only_so_many_packs_are_kept(voices: Voices, tmp_path: Path) -> None:
    kept = "af_one:50,bf_three:50"
    voices.style(kept, 1)
    (tmp_path / "bf_three.bin").unlink()
    for weight in range(1, 65):
        voices.style(f"af_one:{weight},jm_two:100", 1)
    with pytest.raises(FileNotFoundError):
        voices.style(kept, 1)


# --- names --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("af_one", "af_one"),
        (" af_one", "af_one"),
        ("of-odd name", "of-odd name"),
        ("af_one(1) + bf_three(3)", "bf_three:75,af_one:25"),
    ],
)
def test_a_voice_has_one_name(voices: Voices, text: str, name: str) -> None:
    assert voices.resolve(text) == name
    assert voices.resolve(name) == name


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("af_on", UnknownVoice, "no voice 'af_on'; the most similar is af_one"),
        ("af_one+bf_thre", UnknownVoice, "no voice 'bf_thre'; the most similar is bf_three"),
        ("  ", UnknownVoice, "no voice '  '"),
        ("en-US-Aria", UnknownVoice, "no voice 'en-US-Aria'"),
        ("gpt-4o-tts", UnknownVoice, "no voice 'gpt-4o-tts'"),
        ("a" * 201, UnknownVoice, "no voice"),
        ("af_one:0,bf_three:1", InvalidRequest, "weight of 'af_one' is 0"),
        ("af_one,,bf_three", InvalidRequest, "empty part"),
        ("af_one:1,af_one:2", InvalidRequest, "comes twice"),
    ],
)
def test_a_voice_that_cannot_be_is_one_sentence(
    voices: Voices, text: str, kind: type[EngineError], says: str
) -> None:
    with pytest.raises(EngineError) as caught:
        voices.resolve(text)
    assert type(caught.value) is kind
    assert says in caught.value.message
    assert caught.value.param == "voice"


@given(st.text() | st.lists(st.sampled_from([*NAMES, ":1", "(2)", "+", ",", "-"])).map("".join))
def test_any_text_is_a_voice_or_one_of_our_errors(any_voices: Voices, text: str) -> None:
    try:
        name = any_voices.resolve(text)
    except EngineError as error:
        assert error.param == "voice"
    else:
        assert any_voices.resolve(name) == name


def test_the_first_voice_of_the_name_gives_language_and_speed(voices: Voices) -> None:
    for text, tag, speed in (
        ("af_one", "en-us", 1.25),
        ("jm_two", "ja", 1.0),
        ("af_one:40,bf_three:60", "en-gb", 0.8),
        ("bf_three+af_one", "en-gb", 0.8),
        ("af_one+bf_three", "en-us", 1.25),
    ):
        name = voices.resolve(text)
        assert (languages.of_voice(name).tag, voices.speed(name)) == (tag, speed)


# --- folders ------------------------------------------------------------------------------------


def test_the_hash_follows_the_contents(voices: Voices, tmp_path: Path) -> None:
    assert Voices(tmp_path).hash == voices.hash
    (tmp_path / "af_one.bin").write_bytes(bytes(ROWS * STYLE * 4))
    assert Voices(tmp_path).hash != voices.hash


def test_no_voices_and_a_broken_voice_are_sentences(voices: Voices, tmp_path: Path) -> None:
    (tmp_path / "af_bad.bin").write_bytes(b"1234")
    with pytest.raises(AssetError, match=r"af_bad\.bin is not a voice"):
        Voices(tmp_path)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(AssetError, match="no voices"):
        Voices(empty)


def test_a_speed_for_no_voice_is_told(voices: Voices, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"setting voice_speeds: There is no voice 'af_on'; .*af_one"
    ):
        Voices(tmp_path, {"af_one": 1.0, "af_on": 1.1})


# --- what is told -------------------------------------------------------------------------------


def test_all_54_published_voices_are_told(published: dict[str, VoiceInfo]) -> None:
    assert len(published) == 54
    assert {info.lang for info in published.values()} == {each.tag for each in languages.LANGUAGES}
    assert all(info.gender and info.preview for info in published.values())
    assert sum(info.gender == "female" for info in published.values()) == 29
    ungraded = {name for name, info in published.items() if info.grade is None}
    assert ungraded == {"ef_dora", "em_alex", "em_santa", "pf_dora", "pm_alex", "pm_santa"}


@pytest.mark.parametrize(
    ("id_", "name", "lang", "gender", "grade", "speed"),
    [
        ("af_heart", "Heart (American English, female)", "en-us", "female", "A", 1.0),
        ("am_adam", "Adam (American English, male)", "en-us", "male", "F+", 1.0),
        ("bf_emma", "Emma (British English, female)", "en-gb", "female", "B-", 1.1),
        ("ff_siwis", "Siwis (French, female)", "fr-fr", "female", "B-", 1.0),
        ("zm_yunxi", "Yunxi (Mandarin Chinese, male)", "zh", "male", "D", 1.0),
    ],
)
def test_what_is_told_of_a_voice(
    published: dict[str, VoiceInfo],
    id_: str,
    name: str,
    lang: str,
    gender: str,
    grade: str,
    speed: float,
) -> None:
    told = published[id_]
    assert (told.name, told.lang, told.gender) == (name, lang, gender)
    assert (told.grade, told.speed) == (grade, speed)


def test_a_voice_of_your_own_is_told_as_far_as_it_is_known(voices: Voices) -> None:
    told = voices.infos()[-1]
    assert (told.id, told.gender, told.grade, told.speed) == ("of-odd name", None, None, 1.0)


def test_a_voice_whose_language_cannot_be_read_says_why(published: dict[str, VoiceInfo]) -> None:
    assert published["af_heart"].unreadable is None
    for info in published.values():
        try:
            languages.resolve(info.lang, info.id)
        except EngineError as error:
            assert info.unreadable == error.message
        else:
            assert info.unreadable is None


def test_the_listing_fits_a_message_of_64_kib(published: dict[str, VoiceInfo]) -> None:
    assert len(msgspec.json.encode(list(published.values()))) < 32_000
