"""A child process in which the player plays a recorded stream, and tells what it decides.

The parent runs it with `sounding.running`; the argument is an utterance of `bench.traces`, as JSON.
What is told:

* `asked`: the stream begins, from when on its parts come as they were recorded
* `start`: sound begins, as the policy has it
* `silence`: it goes on at `sample` behind `silent_s` that the policy makes or had to make
* `done`: all was heard; `device`, how often that had to wait, and `depth_ms` that it holds
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager

import msgspec
import trio

from bench.traces import Utterance
from engine.audio import SAMPLE_RATE, cut
from engine.errors import EngineError
from engine.request import (
    Boundary,
    Done,
    Event,
    Frame,
    LiveRequest,
    Opened,
    SegmentDone,
    SpeechRequest,
    Stream,
)
from playerd.delay import Slack
from playerd.player import Player
from playerd.playout import Gaps, Playout
from playerd.sinks.portaudio import PortAudioSink
from tests.playerd.sounding import begin, tell
from tests.support.rig import code
from tests.support.tone import told
from wsproto_api.messages import ItemDone


def sound(utterance: Utterance) -> bytes:
    """What is spoken: a trace does not say it, so that every sample can be told from the others."""
    return code(utterance.samples / SAMPLE_RATE)


class Recorded:
    """Speaks a stream once more: each part of it as long after the request as it was recorded."""

    def __init__(self, utterance: Utterance) -> None:
        self._utterance = utterance

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `SpeakLive`."""
        async with aclosing(self._events(trio.current_time())) as events:
            yield told(events)

    async def _events(self, began_s: float) -> AsyncGenerator[Event]:
        yield Opened(voice="af_heart", lang="en-us", speed=1.0, key=None)
        for at_s, event in sorted(self._parts(), key=lambda part: part[0]):
            await trio.sleep_until(began_s + at_s)
            yield event

    def _parts(self) -> Iterator[tuple[float, Event]]:
        utterance, pcm = self._utterance, sound(self._utterance)
        sample = seq = 0
        for index, segment in enumerate(utterance.segments):
            yield segment.start_s, segment.started(index, sample, utterance.text)
            for number, arrival in enumerate(segment.arrivals):
                part = cut(pcm, sample, sample + arrival.samples)
                yield (
                    arrival.at_s,
                    Frame(seq=seq, sample=sample, pcm=part, segment_first=not number),
                )
                sample, seq = sample + arrival.samples, seq + 1
            yield segment.end_s, SegmentDone(index=index, samples=segment.actual, compute_ms=0.0)
        end_s = utterance.segments[-1].end_s
        yield (
            end_s,
            Done(
                samples=sample,
                audio_ms=sample / SAMPLE_RATE * 1000,
                chars=len(utterance.text),
                segments=len(utterance.segments),
                ttfa_ms=None,
            ),
        )


class _Gaps(Gaps):
    """Tells what it counts."""

    def __init__(self, playout: Playout) -> None:
        super().__init__()
        self._playout = playout

    def count(self, boundary: Boundary | None, silent_s: float) -> None:
        super().count(boundary, silent_s)
        tell("silence", sample=self._playout.position, silent_s=silent_s)


class _Playout(Playout):
    """Tells when sound begins."""

    def pull(self, samples: int, now_s: float) -> bytes:
        before = self.position
        pcm = super().pull(samples, now_s)
        if pcm and not before:
            tell("start")
        return pcm


class _Player(Player):
    """Tells what its policy does."""

    def _playout(self, request: SpeechRequest | LiveRequest) -> Playout:
        assert isinstance(request, SpeechRequest)
        playout = _Playout(Slack(), self._supply, request.text, now_s=trio.current_time())
        playout.gaps = _Gaps(playout)
        return playout


class _Asker:
    """Who asked for it; see `player.Asker`."""

    def accepted(self, item: int | None, /) -> None:
        pass

    def refused(self, error: EngineError, /) -> None:
        raise error

    def failed(self, item: int, error: EngineError, /) -> None:
        raise error

    def warned(self, code: str, message: str, /) -> None:
        pass


async def replay(utterance: Utterance) -> None:
    """Plays it to its end."""
    over = trio.Event()
    sink = PortAudioSink()

    def done(item: ItemDone) -> None:
        over.set()

    player = _Player(Recorded(utterance), sink, on_state=lambda state: None, on_done=done)
    async with trio.open_nursery() as nursery:
        await nursery.start(player.run)
        tell("asked")
        player.speak(SpeechRequest(text=utterance.text), "replace", _Asker())
        await over.wait()
        tell("done", device=sink.underruns, depth_ms=sink.depth_ms)
        nursery.cancel_scope.cancel()


def main() -> None:
    begin()
    trio.run(replay, msgspec.json.decode(sys.argv[1].encode(), type=Utterance))


if __name__ == "__main__":
    main()
