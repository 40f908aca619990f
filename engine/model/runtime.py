"""ONNX Runtime sessions, and calls of them that can be stopped. Blocking."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import onnxruntime as ort
from threadpoolctl import threadpool_limits

from engine.errors import AssetError, SynthesisFailed

T = TypeVar("T")

#: ONNX Runtime's own numbering
_SEVERITY_ERROR, _SEVERITY_FATAL = 3, 4

_EXECUTION_PROVIDER = "ExecutionProvider"
PROVIDERS = [f"CPU{_EXECUTION_PROVIDER}"]


def why() -> str:
    """Why the model runs where it does, in a sentence."""
    offered = [name.removesuffix(_EXECUTION_PROVIDER) for name in ort.get_available_providers()]
    others = [name for name in offered if name != "CPU"]
    also = f"; ONNX Runtime also has {', '.join(others)} here" if others else ""
    return f"This version uses the processor alone{also}."


def options(threads: int, *, optimised: bool) -> ort.SessionOptions:
    """Options of a session with this many threads; `optimised` if the graph was saved as such."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = threads
    chosen.log_severity_level = _SEVERITY_ERROR
    # Threads that wait for work between two calls must sleep: the player needs the cores more than
    # we do. Between two operators of a call they do not, which makes the acoustic pass a tenth
    # quicker (measured, two cores).
    chosen.add_session_config_entry("session.force_spinning_stop", "1")
    # Every segment has another length: a plan of memory for each would only pile up.
    chosen.enable_mem_pattern = False
    if optimised:
        chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return chosen


def session(path: Path, threads: int) -> ort.InferenceSession:
    """A session on a graph of `build`.

    From here on numpy multiplies on one thread: those of OpenBLAS go on spinning after a product,
    and a window that begins then takes twice as long (190 ms instead of 100, measured).

    Raises:
        AssetError: the file cannot be loaded.
    """
    threadpool_limits(1, user_api="blas")
    try:
        return ort.InferenceSession(
            str(path), options(threads, optimised=True), providers=PROVIDERS
        )
    except Exception as error:  # ONNX Runtime has a class of its own for each kind of failure
        raise AssetError(f"{path} cannot be loaded as a model: {error}.") from None


class Call(Generic[T]):
    """A piece of inference: `run` it in a worker thread, `stop` it from anywhere.

    Args:
        work: gets the run options that every session call in it must be given.
    """

    def __init__(self, work: Callable[[ort.RunOptions], T]) -> None:
        self._work = work
        self._options = ort.RunOptions()
        self._options.log_severity_level = _SEVERITY_FATAL  # being stopped is not an error
        #: how long `run` took
        self.seconds = 0.0

    def run(self) -> T:
        """Does the work.

        Raises:
            SynthesisFailed: the model failed, or `stop` was called.
        """
        began = time.perf_counter()
        try:
            return self._work(self._options)
        except Exception as error:  # see `session`
            raise SynthesisFailed("The model failed on a part of the text.") from error
        finally:
            self.seconds = time.perf_counter() - began

    def stop(self) -> None:
        """Ends a running `run` before its next operator, within about 20 ms (measured)."""
        self._options.terminate = True
