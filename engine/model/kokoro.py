"""The Kokoro-82M graph on ONNX Runtime: phonemes and a style in, audio out. Blocking.

kokoro-onnx supplies what belongs to the model: its vocabulary, its limit of 510 phonemes, and the
chunker that divides longer ones at a sentence, a clause, a word, and only then inside a word.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnxruntime as ort
from kokoro_onnx.chunker import split_phonemes
from kokoro_onnx.config import DEFAULT_VOCAB, MAX_PHONEME_LENGTH
from kokoro_onnx.session import embedded_vocab, input_dtypes
from numpy.typing import NDArray

from engine.errors import AssetError, SynthesisFailed

#: ONNX Runtime's own numbering
_SEVERITY_ERROR, _SEVERITY_FATAL = 3, 4


class KokoroModel:
    """A loaded model.

    Args:
        path: the .onnx file.
        threads: inference threads; 0 is one per core.

    Raises:
        AssetError: the file is not a model that this code can run.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _SEVERITY_ERROR
        # Threads that wait for work must sleep: the player needs the cores more than we do.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime has a class of its own for each kind of failure
            raise AssetError(f"{path} cannot be loaded as a model: {error}.") from None
        self.provider = str(self._session.get_providers()[0]).removesuffix("ExecutionProvider")
        self._dtypes = input_dtypes(self._session)
        self._tokens_name = "input_ids" if "input_ids" in self._dtypes else "tokens"
        missing = {self._tokens_name, "style", "speed"} - set(self._dtypes)
        if missing:
            raise AssetError(f"{path} is not a Kokoro model: it has no input {missing.pop()!r}.")
        if self._dtypes["speed"].kind != "f":
            # Such exports cast 1.3 to 1 in silence.
            raise AssetError(f"{path} takes whole numbers as speed; use the v1.0 export.")
        self._vocabulary: dict[str, int] = embedded_vocab(self._session) or DEFAULT_VOCAB

    def split(self, phonemes: str) -> list[str]:
        """Pieces that fit the model, none of them longer than 510 phonemes."""
        return split_phonemes(phonemes, MAX_PHONEME_LENGTH)

    def known(self, phonemes: str) -> str:
        """The phonemes without the symbols that the model does not know."""
        return "".join(p for p in phonemes if p in self._vocabulary)

    def tokens(self, phonemes: str) -> list[int]:
        """Token numbers of known phonemes, one each."""
        return [self._vocabulary[p] for p in phonemes]

    def call(self, tokens: list[int], style: NDArray[np.float32], speed: float) -> ModelCall:
        """One inference, not yet run.

        Args:
            tokens: 1…510 numbers.
            style: float32 [1, 256], the voice's row for this many tokens.
            speed: 1 is natural.
        """
        padded = np.array([[0, *tokens, 0]], dtype=self._dtypes[self._tokens_name])
        return ModelCall(
            self._session,
            {
                self._tokens_name: padded,
                "style": style.astype(self._dtypes["style"]),
                "speed": np.array([speed], dtype=self._dtypes["speed"]),
            },
        )


class ModelCall:
    """One inference: `run` it in a worker thread, `stop` it from anywhere."""

    def __init__(
        self, session: ort.InferenceSession, feeds: dict[str, NDArray[np.generic]]
    ) -> None:
        self._session = session
        self._feeds = feeds
        self._options = ort.RunOptions()
        self._options.log_severity_level = _SEVERITY_FATAL  # being stopped is not an error

    def run(self) -> tuple[NDArray[np.float32], float]:
        """Audio, float32 [samples], 24 kHz, nominally -1…1; and the seconds it took.

        Raises:
            SynthesisFailed: the model failed, or `stop` was called.
        """
        began = time.perf_counter()
        try:
            outputs = self._session.run(None, self._feeds, self._options)
        except Exception as error:  # see KokoroModel.__init__
            raise SynthesisFailed("The model failed on a part of the text.") from error
        audio = np.asarray(outputs[0], dtype=np.float32).ravel()
        return audio, time.perf_counter() - began

    def stop(self) -> None:
        """Ends a running `run` before its next operator, within about 20 ms (measured)."""
        self._options.terminate = True
