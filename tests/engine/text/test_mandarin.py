"""Mandarin words, numbers and sounds, with the real libraries."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from misaki.zh import ZHG2P

from engine.text.alphabet import SYMBOLS
from engine.text.mandarin import Mandarin
from engine.text.words import Piece, words_of


@pytest.fixture(scope="module")
def mandarin() -> Mandarin:
    return Mandarin()


def heard(pieces: list[Piece]) -> str:
    return " ".join("".join(piece.phonemes + piece.space for piece in pieces).split())


def said(pieces: list[Piece]) -> str:
    return "".join(piece.text if piece.said is None else piece.said for piece in pieces)


@pytest.mark.parametrize(
    ("text", "phonemes"),
    [
        # wo3 zai4; li3
        ("我在", "wo↓ ʦai↘"),
        ("里", "li↓"),
        # er4 ling2 er4 si4 nian2 san1 yue4 wu3 ri4, cut where jieba finds words
        ("2024年3月5日", "ɚ↘li↗ŋɚ↘ sɨ↘njɛ↗n sa→nɥe↘ u↓ɻɨ↘"),
        # bai3 fen1 zhi1 jiu3 shi2
        ("90%", "pai↓fə→nꭧɨ→ʨjou↓ʂɨ↗"),
        # san1 qian1 wu3 bai3 yuan2
        ("3,500元", "sa→nʨʰjɛ→nu↓pai↓ ɥɛ↗n"),
        # ma5: the neutral tone has no mark; hang2 of a bank, not xing2
        ("好吗？", "xau↓ ma?"),
        ("银行。", "i↗nxa↗ŋ."),
        ("绿色", "ly↘sɤ↘"),
        ("「你好」，（她）说：…", "“ni↓xau↓”, (tʰa→) ʂwo→:…"),
    ],
)
def test_sounds(mandarin: Mandarin, text: str, phonemes: str) -> None:
    assert heard(mandarin.pieces(text)) == phonemes


@pytest.mark.parametrize(
    "text", ["我喜欢学习计算机科学", "今天天气很好，我们去公园散步吧。", "《红楼梦》是一部小说！"]
)
def test_words_sound_as_misaki_has_them(mandarin: Mandarin, text: str) -> None:
    expected = ZHG2P()(text)[0]
    assert heard(mandarin.pieces(text)).split() == expected.split()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2024年3月5日", "二零二四年三月五日"),
        ("2024-03-05", "二零二四年三月五日"),
        ("2024/13/05", "二千零二十四/十三/零五"),
        ("5000年历史，2000年前", "五千年历史，二千年前"),
        ("2019-2024年", "二零一九到二零二四年"),
        ("10年", "十年"),
        ("9:30", "九点三十分"),
        ("2:00", "两点"),
        ("12:05:09", "十二点零五分九秒"),
        ("3:0和3:1", "三比零和三比一"),
        ("90%，0.5‰", "百分之九十，千分之零点五"),
        ("10%-20%", "百分之十到二十"),
        ("10～20%", "百分之十到二十"),
        ("3,500元", "三千五百元"),
        ("$5万和¥3.50", "五万美元和三点五零元"),
        ("１，２３４", "一千二百三十四"),
        ("1/2", "二分之一"),
        ("-5℃到-3", "零下五摄氏度到负三"),
        ("5km，20 GB", "五公里，二十吉字节"),
        ("3-5天", "三到五天"),
        ("2个，12个，第2个，2年级，2月", "两个，十二个，第二个，二年级，二月"),
        ("2小时2万", "两小时两万"),
        ("010-12345678", "零一零，一二三四五六七八"),
        ("13812345678", "一三八一二三四五六七八"),
        ("1.2.3", "一点二点三"),
        ("007", "零零七"),
        ("3.14", "三点一四"),
        ("12345678901234567890", "一二三四五六七八九零一二三四五六七八九零"),
        ("2+3=5", "二加三等于五"),
        ("٣", "三"),
        ("㎏，5㎏", "kg，五公斤"),
    ],
)
def test_numbers(mandarin: Mandarin, text: str, words: str) -> None:
    assert said(mandarin.pieces(text)).replace(",", "，") == words


def test_words_keep_their_places(mandarin: Mandarin) -> None:
    text = "他有 3,500元，真的！"
    words = words_of(mandarin.pieces(text), [(at, at + 1) for at in range(len(text))])
    assert [text[word.start : word.end] for word in words] == ["他", "有", "3,500", "元", "真的"]
    assert words[-1].phonemes == "ꭧə→ntɤ!"


def test_what_is_not_chinese_is_not_spoken(mandarin: Mandarin) -> None:
    assert heard(mandarin.pieces("KFC→한ˈん")) == ""


TEXTS = st.text(
    st.sampled_from(
        "我的你好中国一二０１9三0123456789年月日点百万.,:/-%¥$°C km　，。、“《》(…ー〇々ａ"
    )
    | st.characters(),
    max_size=30,
)


@settings(max_examples=200)
@given(TEXTS)
def test_any_text(mandarin: Mandarin, text: str) -> None:
    pieces = mandarin.pieces(text)
    assert "".join(piece.text + piece.space for piece in pieces) == text
    assert set("".join(piece.phonemes for piece in pieces)) <= SYMBOLS
    assert not any(c in "0123456789" for c in said(pieces))


def test_nothing_is_logged_or_kept_in_a_file(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Mandarin().pieces("我")
    assert capfd.readouterr() == ("", "")
    assert not list(tmp_path.iterdir())
