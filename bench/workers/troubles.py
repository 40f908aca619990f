"""What can go wrong with an engine, done on purpose. Shell; for `bench.workers.ours`."""

from __future__ import annotations

from typing import Any, Never

import onnxruntime as ort
import spacy

from engine.text import g2p

NO_MISAKI, NO_G2P, FAILING_MODEL = "no misaki", "no G2P", "a failing model"

#: calls of the model that still work after `arm`: the failing one is in the middle of a request
_WORKING = 2


def cause(trouble: str) -> None:
    """Does it; called before the engine is loaded."""
    if trouble in (NO_MISAKI, NO_G2P):
        spacy.load = _missing
    if trouble == NO_G2P:
        g2p._espeak_ng = g2p._fallback = _missing
    if trouble == FAILING_MODEL:
        _Failing.install()


def arm() -> None:
    """A model that fails does so once from now on."""
    _Failing.left = _WORKING


def _missing(*_: Any, **__: Any) -> Never:
    raise OSError("taken away on purpose")


class _Failing:
    """Calls of ONNX Runtime, one of which fails."""

    #: calls until it does; below 0: none
    left = -1

    @classmethod
    def install(cls) -> None:
        """In place of the real ones."""
        real = ort.InferenceSession.run

        def run(session: Any, *arguments: Any, **named: Any) -> Any:
            cls.left -= 1
            if cls.left == -1:
                raise RuntimeError("fails on purpose")
            cls.left = max(cls.left, -1)
            return real(session, *arguments, **named)

        ort.InferenceSession.run = run
