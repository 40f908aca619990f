"""ONNX Runtime sessions, what stands in for one that fails, and calls that can be stopped. Blocking."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import onnxruntime as ort
import structlog
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from engine import metrics
from engine.errors import AssetError, SynthesisFailed, blame
from engine.model.providers import CPU, Candidate, Part

log = structlog.get_logger("engine")

T = TypeVar("T")

#: ONNX Runtime's own numbering
_SEVERITY_ERROR, _SEVERITY_FATAL = 3, 4


def portable(graph: Path) -> Path:
    """A graph of `build` for other providers than the processor, in standard operators alone."""
    return graph.parent / "portable" / graph.name


def options(threads: int, *, optimised: bool, spinning: bool = True) -> ort.SessionOptions:
    """Options of a session with this many threads; `optimised` if the graph was saved as such."""
    chosen = ort.SessionOptions()
    chosen.intra_op_num_threads = threads
    chosen.log_severity_level = _SEVERITY_ERROR
    # Threads that wait for work between two calls must sleep: the player needs the cores more than
    # we do. Between two operators of a call they do not, which makes the acoustic pass a tenth
    # quicker (measured, two cores).
    chosen.add_session_config_entry("session.force_spinning_stop", "1")
    if not spinning:
        chosen.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Every segment has another length: a plan of memory for each would only pile up.
    chosen.enable_mem_pattern = False
    if optimised:
        chosen.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return chosen


class Runs(Protocol):
    """What is used of `ort.InferenceSession`."""

    def run(
        self,
        output_names: Sequence[str],
        input_feed: Mapping[str, NDArray[np.generic]],
        run_options: ort.RunOptions,
    ) -> list[Any]:
        """The outputs; raises whatever it likes."""
        ...

    def get_inputs(self) -> Sequence[Any]:
        """Names and shapes."""
        ...


def session(graph: Path, threads: int, place: Candidate = CPU, *, spinning: bool = True) -> Runs:
    """A session on a graph of `build`.

    From here on numpy multiplies on one thread: those of OpenBLAS go on spinning after a product,
    and a window that begins then takes twice as long (190 ms instead of 100, measured).

    Args:
        graph: the processor's.
        threads: inference threads of the processor; 0 is one per core.
        place: where it runs; it takes the `portable` one if that is not the processor.
        spinning: whether threads that wait for work inside of a call do so awake.

    Raises:
        AssetError: the file cannot be loaded, or not there.
    """
    threadpool_limits(1, user_api="blas")
    own = place == CPU
    path = graph if own else portable(graph)
    told = dict(place.options)
    if place.keeps:
        told[place.keeps] = str(path.parent / place.name)
    # What a provider cannot run is the processor's, in the same session.
    wanted = [CPU.provider] if own else [(place.provider, told), CPU.provider]
    try:
        # Without `enable_fallback` a provider that fails is not replaced without a word.
        made = ort.InferenceSession(
            str(path),
            options(threads, optimised=own, spinning=spinning),
            providers=wanted,
            enable_fallback=0,
        )
    except Exception as error:  # ONNX Runtime has a class of its own for each kind of failure
        raise AssetError(f"{path} cannot be loaded as a model: {error}.") from None
    if made.get_providers()[0] != place.provider:
        raise AssetError(f"{place.shown} cannot be used: ONNX Runtime did not take it.")
    runs: Runs = made
    return runs


class Unsound(Exception):
    """What a provider gave can be no sound; the message is half a sentence, without text."""


def _checked(outputs: list[Any]) -> list[Any]:
    """The outputs of another place than the processor, which has given such without a word.

    Nothing but zeros comes out of no part of this model: even its silence is computed from noise.

    Raises:
        Unsound: they are no numbers, or nothing but zeros.
    """
    floats = [one for one in outputs if np.issubdtype(one.dtype, np.floating)]
    if not all(np.isfinite(one).all() for one in floats):
        raise Unsound("its sound is not made of numbers")
    if floats and not floats[0].any():
        raise Unsound("it is silent")
    return outputs


#: what makes sessions; tests have others
Open = Callable[[Path, int, Candidate], Runs]


class Session:
    """A graph where it was decided to run, and on the processor once that has failed.

    To give what is no sound is to fail. A failure is seen by nobody but the log, the metrics and
    `fault`: the same call is done again.

    Args:
        graph: of `build`, the processor's.
        threads: of the processor; 0 is one per core.
        part: what this is of.
        place: where it runs.
        opens: makes sessions.
        others: threads for what another place leaves to the processor; None: as many.

    Attributes:
        place: where it runs by now.
        fault: why not where it was to run, a sentence; empty if it does.
        unsound: what was wrong with what it gave there, half a sentence; empty if nothing was.

    Raises:
        AssetError: the file cannot be loaded.
    """

    def __init__(
        self,
        graph: Path,
        threads: int,
        part: Part,
        place: Candidate = CPU,
        opens: Open = session,
        *,
        others: int | None = None,
    ) -> None:
        self._graph, self._threads, self._part, self._opens = graph, threads, part, opens
        self._falling = threading.Lock()
        self.place, self.fault, self.unsound = place, "", ""
        try:
            self._runs = opens(graph, threads if place == CPU or others is None else others, place)
        except AssetError as error:
            if place == CPU:
                raise
            self._fall(error)

    @property
    def inputs(self) -> Sequence[Any]:
        """Names and shapes."""
        return self._runs.get_inputs()

    def run(
        self, names: Sequence[str], feeds: Mapping[str, NDArray[np.generic]], run: ort.RunOptions
    ) -> list[Any]:
        """See `ort.InferenceSession`. From any thread; several at once.

        Raises:
            Exception: the processor failed, or the call was stopped.
        """
        runs = self._runs
        try:
            made = runs.run(names, feeds, run)
            return made if self.place == CPU else _checked(made)
        except Exception as error:
            if (self.place == CPU and runs is self._runs) or run.terminate:
                raise
            with self._falling:  # others that run at the same time may have fallen already
                if runs is self._runs:
                    self._fall(error)
        return self._runs.run(names, feeds, run)

    def _fall(self, error: Exception) -> None:
        name = self.place.name
        log.warning(
            "a provider failed; the processor takes over",
            provider=name,
            part=self._part,
            error=str(error) if isinstance(error, Unsound) else blame(error),
        )
        self._runs = self._opens(self._graph, self._threads, CPU)
        self.place = CPU
        self.unsound = str(error) if isinstance(error, Unsound) else ""
        self.fault = (
            f"{name} failed, so the processor runs the {self._part} part; the log says why."
        )
        metrics.PROVIDER_FALLS.labels(name, self._part).inc()


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

    def give_back(self) -> None:
        """Has each session of the call give back, behind it, what its largest call has needed.

        Else it keeps that for ever, hundreds of MB after a long segment.
        """
        self._options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")

    def stop(self) -> None:
        """Ends a running `run` before its next operator, within about 20 ms (measured)."""
        self._options.terminate = True
