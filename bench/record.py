"""`python -m bench.record`: records when the engine's audio comes, for the scenario `playout`.

Three conditions, which give three paces: all cores, one thread, and one thread beside four programs
that only compute. Whatever else runs is in the traces too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import trio
import typer

from bench import traces
from bench.traces import Arrival, Segment, Utterance
from engine import config, service
from engine.request import Event, Frame, SegmentDone, SegmentStart, SpeechRequest

TEXTS = (
    "The ferry leaves at seven in the morning, and again at four. If the wind comes from the north, "
    "it may not leave at all; the captain decides that, usually late, and nobody argues with her. "
    "Last winter we waited three days. There is a small hotel above the harbour, where the rooms "
    "are cold but the soup is good, and where every guest has to tell one story before he may go "
    "to bed. My sister told them about the bear.",
    "Nobody who had seen the old lighthouse keeper carry his lamp up the two hundred and twelve "
    "steps of the tower every single evening for more than forty years could believe that he would "
    "really leave the island before the end of the summer. But he did. He sold the boat, gave the "
    "goats to the school, and took the first ferry in May.\n\nHe wrote one letter. It was short.",
    "Yes, of course. First open the settings, then choose your device from the list; if it is not "
    "there, switch it off and on again. Most problems go away after that. When they do not, look at "
    "the small light on the back: green means that everything is fine, orange means that it is "
    "waiting for the network, and red means that somebody should call us before noon.",
    "Rain. All week, rain. The river had taken the lower path, two gardens and the bench where the "
    "men used to play cards, and still it came down, grey and even, as if someone had forgotten to "
    "turn it off. On Sunday it stopped! We went out, without coats, and looked at what was left of "
    "the bridge that our grandfathers had built in one single summer with nothing but stones, rope "
    "and a good deal of shouting.",
)
#: condition -> (inference threads, programs beside it)
CONDITIONS = {"engine": (0, 0), "engine, one thread": (1, 0), "engine, busy": (1, 4)}


def main(
    out: Annotated[Path, typer.Option(help="file of JSON lines")] = traces.FILE,
    repeats: Annotated[int, typer.Option(min=1, help="of every text and condition")] = 2,
    only: Annotated[str, typer.Option(help="this condition; the file keeps the others")] = "",
) -> None:
    """Records every text under every condition."""
    if only and only not in CONDITIONS:
        raise typer.BadParameter(f"there are {', '.join(map(repr, CONDITIONS))}")
    found = [one for one in traces.read(out) if one.trace != only] if only else []
    for name, (threads, beside) in CONDITIONS.items():
        if only not in ("", name):
            continue
        with _beside(beside):
            found += trio.run(_condition, name, threads, repeats)
        print(f"{name}: RTF {_rtf(found, name):.2f}", file=sys.stderr)
        traces.write(found, out)  # the last one may take longer than anybody waits


def _rtf(found: list[Utterance], name: str) -> float:
    rates = sorted(one.rtf for one in found if one.trace == name)
    return rates[len(rates) // 2]


@contextmanager
def _beside(count: int) -> Iterator[None]:
    """Runs programs that only compute."""
    command = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


async def _condition(name: str, threads: int, repeats: int) -> list[Utterance]:
    settings = config.load({"cache_mb": 0, "threads": threads or os.cpu_count()}).settings
    engine = await service.load(settings)
    found = []
    for text in TEXTS * repeats:
        began_s = trio.current_time()
        async with engine(SpeechRequest(text=text)) as events:
            found.append(await recorded(name, text, events, began_s))
    return found


async def recorded(
    trace: str, text: str, events: AsyncIterator[Event], began_s: float
) -> Utterance:
    """What comes, read as fast as it comes.

    Args:
        trace: name of the condition.
        text: what is spoken.
        events: of the stream.
        began_s: when it was asked for.
    """
    segments: list[Segment] = []
    start: SegmentStart | None = None
    start_s = 0.0
    arrivals: list[Arrival] = []
    async for event in events:
        now_s = round(trio.current_time() - began_s, 4)
        match event:
            case SegmentStart():
                start, start_s, arrivals = event, now_s, []
            case Frame() if event.samples:
                if arrivals and now_s - arrivals[-1].at_s < 0.001:  # made as one
                    last = arrivals.pop()
                    arrivals.append(Arrival(last.at_s, last.samples + event.samples))
                else:
                    arrivals.append(Arrival(now_s, event.samples))
            case SegmentDone() if start is not None:
                segments.append(
                    Segment(
                        char_start=start.char_start,
                        char_end=start.char_end,
                        announced=start.predicted_samples or event.samples,
                        start_s=start_s,
                        end_s=now_s,
                        boundary=start.pause,
                        arrivals=tuple(arrivals),
                    )
                )
            case _:
                pass
    return Utterance(trace=trace, text=text, segments=tuple(segments))


if __name__ == "__main__":
    typer.run(main)
