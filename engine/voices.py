"""Voice packs: for each number of tokens the style vector that speaks them; and blends. Shell.

A pack is raw float32 [510, 1, 256]; row n - 1 is for n tokens. Wherever a voice is named, it may be
a blend (`engine.blend`).
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from engine import blend
from engine.blend import WHOLE, Blend
from engine.errors import AssetError, ConfigError, InvalidRequest, UnknownVoice, UnsupportedLanguage
from engine.report import CacheSize
from engine.request import VoiceInfo
from engine.text import languages

ROWS, STYLE = 510, 256

#: packs kept in memory, 0.5 MB each: all that are published, and some blends
_PACKS = 64

#: by the second and third letter of the name
_GENDERS: dict[str, Literal["female", "male"]] = {"f_": "female", "m_": "male"}

#: The overall grades that the authors of Kokoro-82M v1.0 give in its VOICES.md, for how good and how
#: long the recordings were. The English ones agree with the table in the npm package kokoro-js
#: 1.2.1. Spanish and Brazilian Portuguese have none.
_GRADED = {
    "A": "af_heart",
    "A-": "af_bella",
    "B-": "af_nicole bf_emma ff_siwis",
    "C+": "af_aoede af_kore af_sarah am_fenrir am_michael am_puck jf_alpha",
    "C": "af_alloy af_nova bf_isabella bm_fable bm_george hf_alpha hf_beta hm_omega hm_psi if_sara"
    " im_nicola jf_gongitsune jf_tebukuro",
    "C-": "af_sky jf_nezumi jm_kumo",
    "D+": "bm_lewis",
    "D": "af_jessica af_river am_echo am_eric am_liam am_onyx bf_alice bf_lily bm_daniel zf_xiaobei"
    " zf_xiaoni zf_xiaoxiao zf_xiaoyi zm_yunjian zm_yunxi zm_yunxia zm_yunyang",
    "D-": "am_santa",
    "F+": "am_adam",
}
_GRADES = {name: grade for grade, names in _GRADED.items() for name in names.split()}

#: what a voice says to be chosen, by the tag of its language
_PREVIEWS = {
    "en-us": "Good morning! The train to the coast leaves at nine, so there is time for coffee.",
    "en-gb": "Good evening. It rained all afternoon, but the garden smells lovely now.",
    "es": "Buenos días. El tren de la costa sale a las nueve, así que hay tiempo para un café.",
    "fr-fr": "Bonjour ! Le train pour la mer part à neuf heures, nous avons le temps d'un café.",
    "hi": "नमस्ते! समुद्र की गाड़ी नौ बजे चलती है, एक प्याला चाय का समय है।",
    "it": "Buongiorno! Il treno per il mare parte alle nove, abbiamo tempo per un caffè.",
    "pt-br": "Bom dia! O trem para o litoral sai às nove, então dá tempo de tomar um café.",
    "ja": "おはようございます。海へ行く電車は九時に出ますから、お茶を飲む時間があります。",
    "zh": "早上好。去海边的火车九点出发。我们还有时间喝一杯茶。",
}


class Voices:
    """The voices in a folder of NAME.bin files; a pack is read when it is first used.

    Args:
        folder: where they are.
        speeds: default speeds by voice; 1 for those it does not name.

    Raises:
        AssetError: there is none, or one has the wrong size.
        ConfigError: `speeds` names a voice that does not exist.
    """

    def __init__(self, folder: Path, speeds: Mapping[str, float] | None = None) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.bin"))}
        if not self._files:
            raise AssetError(f"There are no voices in {folder}.")
        self._packs: LRUCache[str, NDArray[np.float32]] = LRUCache(_PACKS)
        self._speeds = dict(speeds or {})
        if strange := sorted(self._speeds.keys() - self._files.keys()):
            raise ConfigError(f"In the setting voice_speeds: {self._unknown(strange[0])}")
        digest = hashlib.sha256()
        for name, path in self._files.items():
            data = path.read_bytes()
            if len(data) != ROWS * STYLE * 4:
                raise AssetError(f"{path} is not a voice: it has {len(data)} bytes.")
            digest.update(name.encode() + b"\0" + data)
        #: changes when any voice does
        self.hash = digest.hexdigest()

    def resolve(self, text: str) -> str:
        """The name of a voice or a blend as it is always written; the heaviest voice is first.

        Raises:
            UnknownVoice: there is none; the sentence names the most similar ones.
            InvalidRequest: it is a blend that cannot be.
        """
        return self._blend(text).name

    def speed(self, name: str) -> float:
        """The default speed; a blend has its heaviest voice's."""
        return self._speeds.get(self._blend(name).heaviest, 1.0)

    def style(self, name: str, tokens: int) -> NDArray[np.float32]:
        """The style vector, float32 [1, 256], for this many tokens (1…510); a blend's is the mean."""
        pack = self._packs.get(name)
        if pack is None:
            pack = self._packs[name] = self._pack(self._blend(name))
        style: NDArray[np.float32] = pack[min(tokens, ROWS) - 1]
        return style

    @property
    def cache(self) -> CacheSize:
        """How many packs are in memory."""
        return CacheSize("voices", len(self._packs), _PACKS)

    def forget(self) -> None:
        """Drops all packs; they are read again when they are used."""
        self._packs.clear()

    def infos(self) -> tuple[VoiceInfo, ...]:
        """All voices, also those whose language cannot be read here."""
        return tuple(map(self._info, self._files))

    def _blend(self, text: str) -> Blend:
        if text in self._files:  # also such names as no blend may have
            return blend.of_voice(text)
        known = self._files.keys() & set(re.findall(r"\w+", text))
        try:
            found = blend.parse(text)
        except InvalidRequest:
            if known:
                raise
            raise UnknownVoice(self._unknown(text), param="voice") from None
        for voice, _ in found.parts:
            if voice not in self._files:
                # Without a voice of ours it was not meant as a blend: `en-US-Aria`.
                raise UnknownVoice(self._unknown(voice if known else text), param="voice")
        return found

    def _unknown(self, name: str) -> str:
        similar = difflib.get_close_matches(name, self._files, n=3) or ["af_heart"]
        return f"There is no voice {name[:40]!r}; the most similar is {' or '.join(similar)}."

    def _pack(self, mixed: Blend) -> NDArray[np.float32]:
        pack = np.zeros((ROWS, 1, STYLE), np.float32)
        for voice, share in mixed.parts:
            data = np.fromfile(self._files[voice], np.float32).reshape(pack.shape)
            pack += np.float32(share / WHOLE) * data
        return pack

    def _info(self, name: str) -> VoiceInfo:
        language = languages.of_voice(name)
        gender = _GENDERS.get(name[1:3])
        plain = name.partition("_")[2].replace("_", " ").title() or name
        unreadable = None
        try:
            languages.resolve(language.tag, name)
        except UnsupportedLanguage as error:
            unreadable = error.message
        return VoiceInfo(
            id=name,
            name=f"{plain} ({', '.join(filter(None, (language.name, gender)))})",
            lang=language.tag,
            gender=gender,
            grade=_GRADES.get(name),
            preview=_PREVIEWS.get(language.tag),
            speed=self.speed(name),
            unreadable=unreadable,
        )
