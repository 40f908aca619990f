"""What an engine tells of itself while it runs: how it is, and what it has measured. Core.

Nothing here holds text, or anything of a single request.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from .request import Describe, ModelInfo

#: `loading` reads the model, `warming` tries it out; `ready` and `busy` speak, and are busy while
#: any stream is made; `stalled` has work and does not get on
State = Literal["loading", "warming", "ready", "busy", "stalled"]

#: those in which a request is taken
SPEAKS: frozenset[State] = frozenset({"ready", "busy"})

#: What a reset did: ended what was spoken; loads the model anew too, because it had stood still; or
#: ends the process, whose supervisor starts another, because its last call cannot be ended.
Reset = Literal["cancelled", "reloading", "restarting"]


class Latency(msgspec.Struct, kw_only=True, frozen=True):
    """How long something took, of the last few hundred times.

    Attributes:
        count: of how many times.
        p50_ms: half of them took at most so long …
        p95_ms: … and 19 of 20.
    """

    count: int
    p50_ms: float
    p95_ms: float


class Latencies(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """The same for streams whose first sound had to be made (`cold`), or was in the cache (`warm`).

    None: there were none yet.
    """

    cold: Latency | None = None
    warm: Latency | None = None


class CacheUse(msgspec.Struct, kw_only=True, frozen=True):
    """Segments that were spoken before and kept, and those that had to be made."""

    hits: int
    misses: int


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one unit of work costs.

    Attributes:
        now_ms: in the last minute of speech …
        first_ms: … and in the first one.
        drifts: whether it has been more than a quarter above that for ten minutes.
    """

    now_ms: float
    first_ms: float
    drifts: bool = False


class Costs(msgspec.Struct, frozen=True):
    """What the model's work costs.

    Attributes:
        acoustic: of a phoneme; each pass costs as much as 40 more.
        vocoder: of a column of 12.5 ms.
    """

    acoustic: Cost
    vocoder: Cost


class CacheSize(msgspec.Struct, frozen=True):
    """How full a cache is.

    Attributes:
        name: of it.
        used: what is in it …
        bound: … and what can be at most, in its unit.
        unit: what is counted.
    """

    name: str
    used: int
    bound: int
    unit: str = "entries"


class Memory(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What is done about memory.

    Attributes:
        limit_bytes: the process gives back what it can when it is larger; None: it cannot be told.
        shrunk: how often memory was given back.
        shrunk_ago_s: when last …
        freed_bytes: … and how much smaller the process was behind it.
        caches: all that are kept from one request to the next.
    """

    shrunk: int
    caches: tuple[CacheSize, ...]
    limit_bytes: int | None = None
    shrunk_ago_s: float | None = None
    freed_bytes: int | None = None


class Trend(msgspec.Struct, frozen=True, omit_defaults=True):
    """How long one part of the model takes by and by.

    Attributes:
        ms: in the last run.
        times: the last five runs by the five before, each by how fast the machine was then; None:
            there are fewer.
        slower: whether that is more than a fifth.
    """

    ms: float
    times: float | None = None
    slower: bool = False


class SelfBench(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What the scheduled benchmark has found.

    Attributes:
        every: how often it is run.
        runs: how many are kept of this machine, this model and these libraries.
        at: when the last was, in ISO 8601; None if there is none, …
        acoustic: … as is this …
        vocoder: … and this.
    """

    every: str
    runs: int
    at: str | None = None
    acoustic: Trend | None = None
    vocoder: Trend | None = None


class Report(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How an engine is.

    Attributes:
        state: see `State`.
        model: None while it is loaded.
        versions: by name, of what speech depends on.
        provider_why: why the model runs where it does, in a sentence.
        fallbacks: what is not as it should be, a sentence each.
        queue: pieces of work that wait for the model.
        quiet_s: for how long there has been work and nothing was done.
        stalls: how often work stood still since the start.
        cache: of spoken segments.
        first_byte: request to first frame.
        first_audible: request to first frame with sound in it.
        rtf: computing per audio, of the last few hundred segments that were made.
        rss_bytes: memory of the process; None: this system does not tell.
        costs: of the model's work.
        memory: what is done about it.
        selfbench: None: it is off.
    """

    state: State
    versions: dict[str, str]
    fallbacks: tuple[str, ...]
    queue: int
    quiet_s: float
    stalls: int
    cache: CacheUse
    first_byte: Latencies
    first_audible: Latencies
    model: ModelInfo | None = None
    provider_why: str | None = None
    rtf: float | None = None
    rss_bytes: int | None = None
    costs: Costs | None = None
    memory: Memory | None = None
    selfbench: SelfBench | None = None


class Manage(Describe, Protocol):
    """What an engine says of itself, and what may be done with it; given to servers beside `Speak`."""

    def report(self) -> Report:
        """How it is; at any time, also before it has voices and a model."""
        ...

    async def reset(self) -> Reset:
        """Sets it going anew, after the caller has cancelled all streams.

        Raises:
            NotReady: there is nothing to reset yet.
        """
        ...
