"""Japanese words, numbers and sounds, with the real libraries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misaki.cutlet import Cutlet

from engine.text.alphabet import SYMBOLS
from engine.text.eastern import plain
from engine.text.japanese import Japanese
from engine.text.kana import NUMBER, read
from engine.text.words import Piece, words_of


@pytest.fixture(scope="module")
def japanese() -> Japanese:
    return Japanese()


def heard(pieces: list[Piece]) -> str:
    return " ".join("".join(piece.phonemes + piece.space for piece in pieces).split())


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        # kyō wa jūgatsu tsuitachi desu
        ("今日は10月1日です", "kʲoː βa ʥɨːɡaʦɨ ʦɨitaʨi desɨ"),
        # sanzen gohyakuen
        ("3,500円", "saɴʣeɴ ɡoçakɯeɴ"),
        # nisen nijū yonen sangatsu itsuka
        ("2024年3月5日", "ɲiseɴ ɲiʥɨː joneɴ saŋɡaʦɨ iʦɨka"),
        # kyūjuppāsento
        ("90%", "kʲɨːʥɨʔpaːsento"),
        ("9:30", "kɯʥi saɲʥɨʔpɯɴ"),
        ("3本買った。", "samboɴ kaʔta."),
        ("行って、待って。", "iʔte, maʔte."),
        ("「はい」、（彼）：…", "“hai”, (kaɾe):…"),
        ("コーヒー・紅茶", "koːçiː koːʨa"),
        ("ｶﾞｲﾄﾞ", "ɡaido"),
        ("アーァッッャ", "aːʔʔ"),
    ],
)
def test_sounds(japanese: Japanese, text: str, phonemes: str) -> None:
    assert heard(japanese.pieces(text)) == phonemes


@pytest.mark.parametrize(
    "text",
    [
        "私は東京大学で計算機科学を勉強しています。",
        "ちょっと待ってください、と彼は言った。",
        "「おはよう」と言って、学校へ行きました！",
        "コンピューターの値段が高すぎる？",
    ],
)
def test_words_sound_as_misaki_has_them(japanese: Japanese, text: str) -> None:
    assert heard(japanese.pieces(text)) == Cutlet()(text)[0]


@pytest.mark.parametrize(
    ("text", "kana"),
    [
        ("0 7 10 14 100 300 600 800", "ぜろ なな じゅう じゅう よん ひゃく さんびゃく ろっぴゃく はっぴゃく"),
        ("1000 3000 8000 1001", "せん さんぜん はっせん せん いち"),
        ("10000 1000万 10000000", "いちまん いっせんまん いっせんまん"),
        ("1億2000万 3千万", "いちおく にせんまん さんぜんまん"),
        ("1兆 8兆 10兆", "いっちょう はっちょう じゅっちょう"),
        ("3,500 １２３", "さんぜん ごひゃく ひゃく にじゅう さん"),
        ("3.14 0.5 1.5億", "さんてん いち よん れいてん ご いってん ごおく"),
        ("-5", "まいなす ご"),
        ("007", "ぜろ ぜろ なな"),
        ("123456789012345678901", "いち に さん よん ご ろく なな はち きゅう ぜろ " * 2 + "いち"),
        ("1月 4月 7月 9月 10月", "いちがつ しがつ しちがつ くがつ じゅうがつ"),
        ("3月1日", "さんがつ ついたち"),
        ("1日 2日 10日 14日 17日 19日 20日 21日", "いちにち ふつか とおか じゅうよっか じゅう しちにち じゅう くにち はつか にじゅう いちにち"),
        ("2024/3/5", "にせん にじゅう よねん さんがつ いつか"),
        ("2024-12-31", "にせん にじゅう よねん じゅう にがつ さんじゅう いちにち"),
        ("0時 4時 7時 9時", "れいじ よじ しちじ くじ"),
        ("1分 3分 4分 5分 6分 8分 10分", "いっぷん さんぷん よんぷん ごふん ろっぷん はっぷん じゅっぷん"),
        ("17:05 9:00 1:02:03", "じゅう しちじ ごふん くじ いちじ にふん さんびょう"),
        ("1人 2人 3人 4人 1人前", "ひとり ふたり さんにん よにん いちにんまえ"),
        ("1つ 9つ 20歳", "ひとつ ここのつ はたち"),
        ("1本 3本 6本 8本 10本 1000本", "いっぽん さんぼん ろっぽん はっぽん じゅっぽん せんぼん"),
        ("1個 2個 6個 8個", "いっこ にこ ろっこ はっこ"),
        ("1冊 6冊 8冊 3階 3足", "いっさつ ろくさつ はっさつ さんがい さんぞく"),
        ("1か月 4円 14円 9円", "いっかげつ よえん じゅう よえん きゅうえん"),
        ("3日後 5年前 1日目 2日間 3年生", "みっかご ごねんまえ いちにちめ ふつかかん さんねんせい"),
        ("10% 5‰ 20℃ 10km", "じゅっぱーせんと ごぱーみる にじゅうど じゅっきろめーとる"),
        ("¥300 $5 $3万 €10", "さんびゃくえん ごどる さんまんどる じゅうゆーろ"),
        ("5分の1 1/2 3:1", "ごぶんの いち にぶんの いち さん たい いち"),
        ("1.2.3", "いちてん にてん さん"),
        ("03-1234-5678", "ぜろ さん の いち に さん よん の ご ろく なな はち"),
    ],
)  # fmt: skip
def test_numbers(text: str, kana: str) -> None:
    assert " ".join(read(found) for found in NUMBER.finditer(plain(text).text)) == kana


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10〜20人", "じゅう|から|にじゅうにん"),
        ("3-5日", "さん|から|いつか"),
        ("5人は3階へ", "ごにん|は|さんがい|へ"),
        ("2+3", "に|プラス|さん"),
        ("第2回", "第|にかい"),
    ],
)
def test_numbers_among_words(japanese: Japanese, text: str, words: str) -> None:
    pieces = japanese.pieces(text)
    assert "|".join(piece.text if piece.said is None else piece.said for piece in pieces) == words


def test_particles_after_numbers(japanese: Japanese) -> None:
    assert heard(japanese.pieces("5人は3階へ")) == "ɡoɲiɴ βa saŋɡai e"


def test_words_keep_their_places(japanese: Japanese) -> None:
    text = "本が 3,500円、安い！"
    words = words_of(japanese.pieces(text), [(at, at + 1) for at in range(len(text))])
    assert [text[word.start : word.end] for word in words] == ["本", "が", "3,500円", "安い"]
    assert words[2].spoken == "さんぜん ごひゃくえん"
    assert words[-1].phonemes == "jasɨi!"


def test_characters_that_no_word_has(japanese: Japanese) -> None:
    alone = [heard(japanese.pieces(c)) for c in "鮪彁"]
    assert alone == ["maɡɯɾo", ""]
    assert heard(japanese.pieces("彁鮪彁")) == "maɡɯɾo"


def test_what_is_not_japanese_is_not_spoken(japanese: Japanese) -> None:
    assert heard(japanese.pieces("Python→한ˈ")) == ""


TEXTS = st.text(
    st.sampled_from(
        "私は東京っんャーカガ゙本日月年人分円一０１90123456789.,:/-%¥$°C km　、。「」〜・(…〇々ゝヵａ²"
    )
    | st.characters(),
    max_size=30,
)


@settings(max_examples=200)
@given(TEXTS)
def test_any_text(japanese: Japanese, text: str) -> None:
    pieces = japanese.pieces(text)
    assert "".join(piece.text + piece.space for piece in pieces) == text
    assert set("".join(piece.phonemes for piece in pieces)) <= SYMBOLS
