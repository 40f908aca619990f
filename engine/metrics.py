"""One registry of counters, and the timeline of an utterance. Core.

Times are passed in by whoever has a clock. Nothing here holds text.
"""

from __future__ import annotations

from dataclasses import dataclass

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

REGISTRY = CollectorRegistry()

# Memory, processor time and open files of the process, where the system tells (Linux).
ProcessCollector(registry=REGISTRY)

STREAMS = Counter(
    "kokoro_live_streams", "Streams ended, by outcome", ["outcome"], registry=REGISTRY
)
ACTIVE = Gauge("kokoro_live_streams_active", "Streams being synthesised", registry=REGISTRY)
AUDIO_SECONDS = Counter("kokoro_live_audio_seconds", "Audio synthesised", registry=REGISTRY)
COMPUTE_SECONDS = Counter(
    "kokoro_live_compute_seconds", "Time spent in the model", registry=REGISTRY
)
G2P_FALLS = Counter(
    "kokoro_live_g2p_falls",
    "Pieces of text a G2P stage could not do, by stage",
    ["stage"],
    registry=REGISTRY,
)
DROPPED_SYMBOLS = Counter(
    "kokoro_live_dropped_symbols",
    "Phoneme symbols outside the model's vocabulary",
    registry=REGISTRY,
)
FIRST_AUDIO = Histogram(
    "kokoro_live_first_audio_seconds",
    "Request to first frame that holds sound, by whether any of it came from the cache",
    ["cached"],
    buckets=(0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 10),
    registry=REGISTRY,
)
STATE = Gauge(
    "kokoro_live_state",
    "1 for the state that the engine is in: loading, warming, ready, busy or stalled",
    ["state"],
    registry=REGISTRY,
)
CACHE = Counter(
    "kokoro_live_cache_segments",
    "Segments looked for in the cache, by result: hit or miss",
    ["result"],
    registry=REGISTRY,
)
PROVIDER_FALLS = Counter(
    "kokoro_live_provider_falls",
    "Times that a provider failed and the processor took over, by which and of what",
    ["provider", "part"],
    registry=REGISTRY,
)
STALLS = Counter(
    "kokoro_live_stalls", "Times that work stood still, by what", ["work"], registry=REGISTRY
)
COST = Gauge(
    "kokoro_live_cost_seconds",
    "What the model takes for a phoneme (acoustic) and a column (vocoder), now and at first",
    ["part", "when"],
    registry=REGISTRY,
)
DRIFTS = Gauge(
    "kokoro_live_drifts",
    "1 if a part of the model has cost over 25 % more than at first for ten minutes",
    ["part"],
    registry=REGISTRY,
)
MEMORY_LIMIT = Gauge(
    "kokoro_live_memory_limit_bytes",
    "Above this the process gives back what it can (process_resident_memory_bytes is what it has)",
    registry=REGISTRY,
)
SHRINKS = Counter(
    "kokoro_live_shrinks",
    "Times that memory was given back: when idle, above the limit, or with all caches (forget)",
    ["why"],
    registry=REGISTRY,
)
CACHE_USED = Gauge(
    "kokoro_live_cache_used",
    "What is in a cache, in its unit",
    ["cache", "unit"],
    registry=REGISTRY,
)
CACHE_BOUND = Gauge(
    "kokoro_live_cache_bound",
    "What can be in a cache at most, in its unit",
    ["cache", "unit"],
    registry=REGISTRY,
)
SELFBENCH = Gauge(
    "kokoro_live_selfbench_seconds",
    "What a fixed text took in the last run of the scheduled benchmark, by part of the model, and "
    "the arithmetic beside it (yardstick)",
    ["part"],
    registry=REGISTRY,
)
SLOWER = Gauge(
    "kokoro_live_selfbench_slower",
    "1 if a part of the model was over 20 % slower in the last five runs than in the five before",
    ["part"],
    registry=REGISTRY,
)
RESETS = Counter("kokoro_live_resets", "Resets asked for, by result", ["result"], registry=REGISTRY)


def exposition() -> bytes:
    """The registry in Prometheus' text format."""
    return generate_latest(REGISTRY)


def rss_bytes() -> int | None:
    """Memory of this process as the registry has it; None where the system does not tell."""
    found = REGISTRY.get_sample_value("process_resident_memory_bytes")
    return None if found is None else int(found)


@dataclass(slots=True)
class Timeline:
    """When an utterance passed each station, in seconds of one clock.

    Each `…_s` is None until it happened; only the first time counts.
    """

    text_in_s: float
    phonemes_s: float | None = None
    inferred_s: float | None = None
    first_audio_s: float | None = None

    def restart(self, now: float) -> None:
        """Only now there is something to speak."""
        self.text_in_s = now

    def phonemes(self, now: float) -> None:
        """The first segment has phonemes."""
        self.phonemes_s = now if self.phonemes_s is None else self.phonemes_s

    def inferred(self, now: float) -> None:
        """The first unit of inference is done."""
        self.inferred_s = now if self.inferred_s is None else self.inferred_s

    def first_audio(self, now: float) -> None:
        """The first frame that holds any sound leaves."""
        self.first_audio_s = now if self.first_audio_s is None else self.first_audio_s

    @property
    def ttfa_ms(self) -> float | None:
        """Text in to first frame with sound, in milliseconds."""
        return self._after_ms(self.first_audio_s)

    def as_ms(self) -> dict[str, float | None]:
        """Each station in milliseconds after the text came in, for a log."""
        return {
            "phonemes_ms": self._after_ms(self.phonemes_s),
            "inferred_ms": self._after_ms(self.inferred_s),
            "first_audio_ms": self.ttfa_ms,
        }

    def _after_ms(self, at_s: float | None) -> float | None:
        return None if at_s is None else round((at_s - self.text_in_s) * 1000.0, 1)
