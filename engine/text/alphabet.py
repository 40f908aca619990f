"""The symbols that the model reads. Core."""

from __future__ import annotations

#: its vocabulary that is not a sound: marks and the space
SILENT = ' ;:,.!?—…"()“”'

#: all of it, 114 symbols; a test holds it to the model's configuration, which would have to be
#: imported with ONNX Runtime (0.4 s, 35 MB) where only text is read
SYMBOLS = frozenset(
    SILENT + "\u0303ʣʥʦʨᵝꭧAIOQSTWYᵊabcdefhijklmnopqrstuvwxyz"
    "ɑɐɒæβɔɕçɖðʤəɚɛɜɟɡɥɨɪʝɯɰŋɳɲɴøɸθœɹɾɻʁɽʂʃʈʧʊʋʌɣɤχʎʒʔˈˌːʰʲ↓→↗↘ᵻ"
)


def known(phonemes: str) -> str:
    """The same without symbols that the model does not know."""
    return "".join(symbol for symbol in phonemes if symbol in SYMBOLS)


def sounds(phonemes: str) -> bool:
    """Whether there is anything to hear in it."""
    return any(symbol.isalnum() for symbol in phonemes)
