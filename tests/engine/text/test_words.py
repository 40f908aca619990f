"""Words made of pieces, and pieces made of phonemes without a place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.alphabet import sounds
from engine.text.words import Piece, Word, matched, words_of

PIECES = st.lists(
    st.builds(
        Piece,
        st.text("ab1$,.“(—'", min_size=1, max_size=5),
        st.sampled_from(["", "", ",", ".", "“", "—", "wˈʌn", "ə", "tˈu θɹˈi", "ˈɛtc.", "  x "]),
        st.sampled_from(["", " "]),
    ),
    max_size=12,
)


def placed(pieces: list[Piece]) -> tuple[str, list[Word]]:
    text = "".join(piece.text + piece.space for piece in pieces)
    return text, words_of(pieces, [(at, at + 1) for at in range(len(text))])


@given(PIECES)
def test_no_phoneme_is_lost_and_words_are_in_order(pieces: list[Piece]) -> None:
    text, words = placed(pieces)
    spoken = "".join(piece.phonemes + piece.space for piece in pieces)
    expected = " ".join(spoken.split()) if sounds(spoken) else ""
    assert "".join(word.phonemes for word in words) == expected
    position = 0
    for word in words:
        assert position <= word.start < word.end <= len(text)
        assert sounds(word.phonemes)
        position = word.end


def shown(pieces: list[Piece]) -> list[tuple[str, str]]:
    text, words = placed(pieces)
    return [(text[word.start : word.end], word.phonemes) for word in words]


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ("a=ə/ dog=dɔɡ ,=,/ yes=jˈɛs .=.", [("a", "ə "), ("dog", "dɔɡ, "), ("yes", "jˈɛs.")]),
        ("so=sO/ “=“ no=nO ”=” .=./ a=ə", [("so", "sO "), ("no", "“nO”. "), ("a", "ə")]),
        ("$= 5=fIv/ (= £= 6=sɪks )=)", [("$5", "fIv "), ("£6", "sɪks)")]),
        ("well=wɛl —=— so=sO", [("well", "wɛl—"), ("so", "sO")]),
        ("a=ə/ --=/ b=bi", [("a", "ə "), ("b", "bi")]),
        ("*= a=ə/ (=( *=", [("a", "ə (")]),
        ("—=—/ ?=?", []),
        ("", []),
    ],
)
def test_marks_go_to_the_word_that_they_belong_to(
    pieces: str, expected: list[tuple[str, str]]
) -> None:
    split = [item.rpartition("=") for item in pieces.split()]
    made = [Piece(t, p.removesuffix("/"), " " * p.endswith("/")) for t, _, p in split]
    assert shown(made) == expected


def test_a_mark_inside_a_piece_is_not_the_word() -> None:
    pieces = [
        Piece("“¡Hola,", "“¡ˈola,", " "),
        Piece("U.S.", "jˌuˈɛs", " "),
        Piece("etc.", "ɛt.", ""),
    ]
    assert shown(pieces) == [("Hola", "“¡ˈola, "), ("U.S.", "jˌuˈɛs "), ("etc", "ɛt.")]


def test_pieces_that_stand_for_the_same_characters_are_one_word() -> None:
    pieces = [Piece("one", "wˈʌn", " "), Piece("dollar", "dˈɑləɹ", ""), Piece(".", ".", "")]
    spans = [(3, 5)] * 10 + [(5, 6)]
    assert words_of(pieces, spans) == [Word(3, 5, "wˈʌn dˈɑləɹ.", "one dollar")]
    pieces = [Piece("ab", "ə", " "), Piece("cd", "bi", "")]
    assert words_of(pieces, [(0, 1), (1, 6), (1, 6), (1, 6), (6, 7)]) == [
        Word(0, 7, "ə bi", "ab cd")
    ]
    assert words_of(pieces, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]) == [
        Word(0, 2, "ə ", "ab"),
        Word(3, 5, "bi", "cd"),
    ]


def test_what_is_said_may_be_told() -> None:
    pieces = [Piece("US", "jˌuˈɛs", " ", "U S"), Piece("(so)", "(sˌO)", "")]
    assert [word.spoken for word in words_of(pieces, [(n, n + 1) for n in range(7)])] == [
        "U S",
        "so",
    ]


#: words that another word swallows when they are spoken after it, or that become several
LENGTHS = {"25": 2, "1999": 3}


@pytest.mark.parametrize(
    ("written", "spoken", "expected"),
    [
        ("la casa", "la kˈasa", "la=la casa=kˈasa"),
        ("a 25 b 1999.", "ə tw fv b n n n.", "a=ə 25=tw_fv b=b 1999.=n_n_n."),
        ("est ce que, ça va", "ɛskə, sa va", "est_ce_que,=ɛskə, ça=sa va=va"),
        ("est ce que", "ɛs kə", "est_ce_que=ɛs_kə"),
        ("a, b c", "ə b, s, d", "a,_b_c=ə_b,_s,_d"),
    ],
)
def test_phonemes_are_matched_as_closely_as_can_be_told(
    written: str, spoken: str, expected: str
) -> None:
    pieces = matched(written.split(), spoken.split(), lambda word: LENGTHS.get(word.strip("."), 1))
    told = [f"{piece.text}={piece.phonemes}".replace(" ", "_") for piece in pieces]
    assert told == expected.split()


@given(st.lists(st.text("ab,.", min_size=1), max_size=9), st.lists(st.text("xy,", min_size=1)))
def test_matching_loses_nothing(written: list[str], spoken: list[str]) -> None:
    pieces = matched(written, spoken, len)
    assert " ".join(piece.text for piece in pieces).split() == written
    assert " ".join(piece.phonemes for piece in pieces).split() == spoken
