"""A WebSocket server with a voice that costs nothing, to measure the wire. Shell.

Given: `token`. It writes its port on a line, and serves until its input ends. Texts choose the
voice: `FLOOD` and a number speaks so many ready-made frames, one after the other; all others are
spoken by the fake voice, and the first frame carries the time at which it was handed over. Both
ends read the same clock of the system.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import trio
from msgspec.structs import replace

from bench.workers.protocol import given
from engine import config
from engine.process import open_listeners
from engine.request import Done, Event, Frame, LiveRequest, Opened, SpeechRequest, Stream
from tests.support.tone import ToneVoice, told
from wsproto_api.server import EngineServer

FLOOD = "flood"
FRAME_SAMPLES = 1200

_TIME = struct.Struct("<d")


def time_in(frame: Frame) -> float:
    """When a first frame was handed over, s of `time.perf_counter`."""
    (when,) = _TIME.unpack_from(frame.pcm)
    return float(when)


class StampingVoice(ToneVoice):
    """The fake voice; it says when its first frame is there, in the frame."""

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        """See `SpeakLive`."""
        if isinstance(request, SpeechRequest) and request.text.startswith(FLOOD):
            async with aclosing(_flood(int(request.text.removeprefix(FLOOD)))) as events:
                yield told(events)
        else:
            async with super().__call__(request) as stream:
                yield stream

    async def _events(self, *arguments: Any) -> AsyncGenerator[Event]:
        async with aclosing(super()._events(*arguments)) as events:
            async for event in events:
                if isinstance(event, Frame) and event.first:
                    pcm = _TIME.pack(time.perf_counter()) + event.pcm[_TIME.size :]
                    yield replace(event, pcm=pcm)
                else:
                    yield event


async def _flood(frames: int) -> AsyncGenerator[Event]:
    pcm = bytes(2 * FRAME_SAMPLES)
    yield Opened(voice="af_heart", lang="en-us", speed=1.0)
    for n in range(frames):
        yield Frame(seq=n, sample=n * FRAME_SAMPLES, pcm=pcm, first=n == 0)
    samples = frames * FRAME_SAMPLES
    yield Frame(seq=frames, sample=samples, pcm=b"", last=True)
    yield Done(samples=samples, audio_ms=samples / 24, chars=0, segments=0)


async def main() -> None:
    """Serves until the input ends."""
    # What is measured is what a message costs, not how many are welcome.
    settings = config.load({"messages_per_s": 10_000_000, "live_chars": 10_000_000}).settings
    voice = StampingVoice()
    voice.live_chars = settings.live_chars
    server = EngineServer(voice, voice, settings, given()["token"])
    listeners = await open_listeners("127.0.0.1", 0)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.serve, listeners)
        print(json.dumps({"port": port}), flush=True)
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
